//! JSON lines: an object a line. A `Schema` says which fields are wanted and what they are (or is learned from the first
//! lines); a `Parser` turns a line into the values of its leaves, without building the objects in between.

use feedline_io::{Error, Result};
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value as Json;
use serde_json::value::RawValue;
use std::fmt;
use std::ops::Range;

/// What a leaf's items are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Bool,
    /// Whole numbers between two.
    Int {
        min: i64,
        max: i64,
    },
    /// Whole numbers from 0 to 2^64 - 1; in a cell they stand as the int64 of the same bits.
    Uint64,
    Float,
    Text,
    /// Whatever it is, as the text that stands in the file.
    Json,
}

impl Kind {
    pub const INT64: Kind = Kind::Int { min: i64::MIN, max: i64::MAX };
}

/// What stands in for a field that is missing or null; for a list, an empty list does.
#[derive(Clone, Debug, PartialEq)]
pub enum Fill {
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Vec<u8>),
    Empty,
}

/// A wanted value: a scalar, or a list of `rank` levels whose inner lists have one length each.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaf {
    /// The names that lead to it, joined by dots: for messages.
    pub path: String,
    pub kind: Kind,
    pub rank: usize,
    /// `None`: a line without it is an error.
    pub fill: Option<Fill>,
}

/// The tree of wanted fields. Leaves are numbered from left to right.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    Leaf(Leaf),
    Fields(Vec<(String, Node)>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    root: Tree,
    leaves: Vec<Leaf>,
}

/// The same with numbers in the place of leaves.
#[derive(Clone, Debug, PartialEq)]
enum Tree {
    Leaf(usize),
    Fields(Vec<(String, Tree)>),
}

impl Tree {
    fn clear(&self, cells: &mut [Cell]) {
        match self {
            Tree::Leaf(i) => cells[*i].clear(),
            Tree::Fields(fields) => fields.iter().for_each(|(_, tree)| tree.clear(cells)),
        }
    }
}

impl Schema {
    pub fn new(fields: Vec<(String, Node)>) -> Result<Schema> {
        fn number(node: Node, leaves: &mut Vec<Leaf>) -> Tree {
            match node {
                Node::Leaf(leaf) => {
                    leaves.push(leaf);
                    Tree::Leaf(leaves.len() - 1)
                }
                Node::Fields(fields) => {
                    Tree::Fields(fields.into_iter().map(|(name, node)| (name, number(node, leaves))).collect())
                }
            }
        }
        let mut leaves = Vec::new();
        let root = number(Node::Fields(fields), &mut leaves);
        if leaves.is_empty() {
            return Err(Error::usage("no field is asked for"));
        }
        Ok(Schema { root, leaves })
    }
    pub fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }
}

/// Text of a line.
#[derive(Clone, Debug, PartialEq)]
pub enum Text {
    /// Lies in the line.
    View(Range<usize>),
    /// Had escapes in it: lies in `Row::copies`.
    Copy(Range<usize>),
}

/// The value of one leaf: the items in order, those of a scalar or of the innermost lists.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    found: bool,
    null: bool,
    /// Whole numbers and truth values.
    pub ints: Vec<i64>,
    pub floats: Vec<f64>,
    pub texts: Vec<Text>,
    /// The lengths of the lists, outermost first.
    pub shape: Vec<usize>,
}

impl Cell {
    fn clear(&mut self) {
        (self.found, self.null) = (false, false);
        self.ints.clear();
        self.floats.clear();
        self.texts.clear();
        self.shape.clear();
    }
}

/// The values of a line; its memory is used again for the next.
#[derive(Clone, Debug, Default)]
pub struct Row {
    pub cells: Vec<Cell>,
    pub copies: Vec<u8>,
    /// What is wrong, where the parser's own words would not say it.
    wrong: Option<String>,
}

impl Row {
    pub fn text<'a>(&'a self, line: &'a [u8], text: &Text) -> &'a [u8] {
        match text {
            Text::View(range) => &line[range.clone()],
            Text::Copy(range) => &self.copies[range.clone()],
        }
    }

    /// Reads a line. Errors say which field, and the place in the line.
    pub fn read(&mut self, schema: &Schema, line: &[u8]) -> Result<()> {
        self.cells.resize_with(schema.leaves.len(), Cell::default);
        self.copies.clear();
        self.wrong = None;
        let base = line.as_ptr() as usize;
        let mut json = serde_json::Deserializer::from_slice(without_mark(line));
        let seed = Seed { tree: &schema.root, leaves: &schema.leaves, row: self, base };
        let read = seed.deserialize(&mut json).and_then(|()| json.end());
        if let Err(error) = read {
            return Err(self.failed(&error, line));
        }
        for (leaf, cell) in schema.leaves.iter().zip(&mut self.cells) {
            if !cell.found {
                fill(leaf, cell, &mut self.copies)?;
            }
        }
        Ok(())
    }
    #[cold]
    fn failed(&mut self, error: &serde_json::Error, line: &[u8]) -> Error {
        let what = self.wrong.take().unwrap_or_else(|| {
            let said = error.to_string();
            // It is always line 1: what counts lines is the file.
            let said = said.split(" at line ").next().unwrap_or_default();
            let hint = match line.get(error.column().saturating_sub(1)..) {
                Some([b'N' | b'I', ..]) => " (JSON has no NaN and no Infinity; write null)",
                _ => "",
            };
            format!("not JSON: {said}{hint}")
        });
        Error::data(format!("{what}, column {} of the line", error.column()))
    }
}

/// Some editors begin a file with a byte order mark.
fn without_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
}

fn fill(leaf: &Leaf, cell: &mut Cell, copies: &mut Vec<u8>) -> Result<()> {
    match &leaf.fill {
        None => {
            let is = if cell.null { "null" } else { "missing" };
            return Err(Error::data(format!(
                "the field {:?} is {is}; give it a default in the schema if that may be",
                leaf.path
            )));
        }
        Some(Fill::Empty) => cell.shape = vec![0; leaf.rank],
        Some(Fill::Bool(b)) => cell.ints.push(*b as i64),
        Some(Fill::Int(n)) if leaf.kind == Kind::Float => cell.floats.push(*n as f64),
        Some(Fill::Int(n)) => cell.ints.push(*n),
        Some(Fill::Float(x)) => cell.floats.push(*x),
        Some(Fill::Text(text)) => {
            cell.texts.push(Text::Copy(copies.len()..copies.len() + text.len()));
            copies.extend_from_slice(text);
        }
    }
    Ok(())
}

/// Reads one node of the schema into the row.
struct Seed<'a> {
    tree: &'a Tree,
    leaves: &'a [Leaf],
    row: &'a mut Row,
    /// The address of the line.
    base: usize,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> std::result::Result<(), D::Error> {
        // What comes last counts, if a line has a field twice.
        self.tree.clear(&mut self.row.cells);
        match self.tree {
            Tree::Fields(_) => json.deserialize_any(self),
            Tree::Leaf(i) => {
                let leaf = &self.leaves[*i];
                if leaf.kind == Kind::Json {
                    let raw: &RawValue = serde::Deserialize::deserialize(json)?;
                    let start = raw.get().as_ptr() as usize - self.base;
                    let cell = &mut self.row.cells[*i];
                    // Null is a text like any other, unless something is to stand for it.
                    if raw.get() == "null" && leaf.fill.is_some() {
                        cell.null = true;
                        return Ok(());
                    }
                    cell.found = true;
                    cell.texts.push(Text::View(start..start + raw.get().len()));
                    return Ok(());
                }
                json.deserialize_any(Items { leaf, i: *i, depth: 0, row: self.row, base: self.base })
            }
        }
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        let Tree::Fields(fields) = self.tree else { unreachable!("only trees of fields are visited") };
        // Lines mostly have their fields in one order.
        let mut guess = 0;
        while let Some(found) = map.next_key_seed(Key { fields, guess })? {
            match found {
                Some(i) => {
                    guess = i + 1;
                    let Seed { leaves, base, .. } = self;
                    map.next_value_seed(Seed { tree: &fields[i].1, leaves, row: &mut *self.row, base })?;
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
    /// Null: what is in it is missing.
    fn visit_unit<E: de::Error>(self) -> std::result::Result<(), E> {
        Ok(())
    }
}

/// Finds a field by its name.
struct Key<'a> {
    fields: &'a [(String, Tree)],
    guess: usize,
}

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = Option<usize>;
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> std::result::Result<Option<usize>, D::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = Option<usize>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }
    fn visit_str<E>(self, name: &str) -> std::result::Result<Option<usize>, E> {
        if self.fields.get(self.guess).is_some_and(|(n, _)| n == name) {
            return Ok(Some(self.guess));
        }
        Ok(self.fields.iter().position(|(n, _)| n == name))
    }
}

/// Reads a scalar or a list into the cell of a leaf.
struct Items<'a> {
    leaf: &'a Leaf,
    i: usize,
    /// How many lists are around this place.
    depth: usize,
    row: &'a mut Row,
    base: usize,
}

impl Items<'_> {
    /// The cell, if an item may stand here.
    fn item<E: de::Error>(&mut self, what: &dyn fmt::Display, fits: bool) -> std::result::Result<&mut Cell, E> {
        if !fits || self.depth != self.leaf.rank {
            return Err(self.wrong(what));
        }
        let cell = &mut self.row.cells[self.i];
        cell.found = true;
        Ok(cell)
    }
    #[cold]
    fn wrong<E: de::Error>(&mut self, what: &dyn fmt::Display) -> E {
        let wanted = match self.leaf.kind {
            Kind::Bool => "true or false".into(),
            Kind::INT64 if what.to_string().parse::<u64>().is_ok_and(|n| n > i64::MAX as u64) => {
                "an int64; in a schema, uint64 takes it".into()
            }
            Kind::INT64 => "an int64".into(),
            Kind::Uint64 => "a uint64".into(),
            Kind::Int { min, max } => format!("a whole number from {min} to {max}"),
            Kind::Float => "a number".into(),
            Kind::Text => "a string".into(),
            Kind::Json => "anything".into(),
        };
        let lists = "a list of ".repeat(self.leaf.rank.saturating_sub(self.depth));
        self.row.wrong = Some(format!("the field {:?} is {what}, not {lists}{wanted}", self.leaf.path));
        E::custom("")
    }
    fn int<E: de::Error>(mut self, n: Option<i64>, what: &dyn fmt::Display) -> std::result::Result<(), E> {
        match (self.leaf.kind, n) {
            (Kind::Int { min, max }, Some(n)) if (min..=max).contains(&n) => {
                self.item(what, true)?.ints.push(n);
                Ok(())
            }
            (Kind::Uint64, Some(n)) if n >= 0 => {
                self.item(what, true)?.ints.push(n);
                Ok(())
            }
            (_, _) => Err(self.wrong(what)),
        }
    }
    fn text<E: de::Error>(
        mut self,
        shown: &str,
        text: impl FnOnce(&mut Row, usize) -> Text,
    ) -> std::result::Result<(), E> {
        let fits = self.leaf.kind == Kind::Text;
        self.item(&Quoted(shown), fits)?;
        let text = text(self.row, self.base);
        self.row.cells[self.i].texts.push(text);
        Ok(())
    }
}

/// A string in a message.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.char_indices().nth(40) {
            Some((at, _)) => write!(f, "{:?}…", &self.0[..at]),
            None => write!(f, "{:?}", self.0),
        }
    }
}

impl<'de> Visitor<'de> for Items<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "what the field {:?} holds", self.leaf.path)
    }
    fn visit_bool<E: de::Error>(mut self, b: bool) -> std::result::Result<(), E> {
        let fits = self.leaf.kind == Kind::Bool;
        self.item(&b, fits)?.ints.push(b as i64);
        Ok(())
    }
    fn visit_i64<E: de::Error>(mut self, n: i64) -> std::result::Result<(), E> {
        if self.leaf.kind == Kind::Float {
            self.item(&n, true)?.floats.push(n as f64);
            return Ok(());
        }
        self.int(Some(n), &n)
    }
    fn visit_u64<E: de::Error>(mut self, n: u64) -> std::result::Result<(), E> {
        if self.leaf.kind == Kind::Float {
            self.item(&n, true)?.floats.push(n as f64);
            return Ok(());
        }
        if self.leaf.kind == Kind::Uint64 {
            self.item(&n, true)?.ints.push(n as i64);
            return Ok(());
        }
        self.int(i64::try_from(n).ok(), &n)
    }
    fn visit_f64<E: de::Error>(mut self, x: f64) -> std::result::Result<(), E> {
        if self.leaf.kind == Kind::Float {
            self.item(&x, true)?.floats.push(x);
            return Ok(());
        }
        // Some writers know only floats: 3.0 is a whole number.
        let whole = (x.fract() == 0.0 && x.abs() < 9e15).then_some(x as i64);
        self.int(whole, &x)
    }
    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> std::result::Result<(), E> {
        self.text(text, |_, base| {
            let start = text.as_ptr() as usize - base;
            Text::View(start..start + text.len())
        })
    }
    fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<(), E> {
        self.text(text, |row, _| {
            let start = row.copies.len();
            row.copies.extend_from_slice(text.as_bytes());
            Text::Copy(start..start + text.len())
        })
    }
    fn visit_unit<E: de::Error>(mut self) -> std::result::Result<(), E> {
        if self.depth > 0 {
            return Err(self.wrong(&"null in a list"));
        }
        self.row.cells[self.i].null = true;
        Ok(())
    }
    fn visit_map<A: MapAccess<'de>>(mut self, _: A) -> std::result::Result<(), A::Error> {
        Err(self.wrong(&"an object"))
    }
    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> std::result::Result<(), A::Error> {
        let Items { leaf, i, depth, base, .. } = self;
        if depth == leaf.rank {
            return Err(self.wrong(&"a list"));
        }
        let known = self.row.cells[i].shape.len() > depth;
        if !known {
            self.row.cells[i].shape.push(0);
        }
        let mut n = 0;
        while list.next_element_seed(Inner { leaf, i, depth: depth + 1, row: &mut *self.row, base })?.is_some() {
            n += 1;
        }
        let cell = &mut self.row.cells[i];
        cell.found = true;
        if known && cell.shape[depth] != n {
            let before = cell.shape[depth];
            self.row.wrong = Some(format!(
                "the field {:?} has inner lists of different lengths, {before} and {n}, which is no tensor; read it as \
                 \"json\"",
                leaf.path
            ));
            return Err(de::Error::custom(""));
        }
        cell.shape[depth] = n;
        // An empty outer list leaves the inner lengths open: they are 0.
        if depth == 0 {
            cell.shape.resize(leaf.rank, 0);
        }
        Ok(())
    }
}

/// `Items` as an element of a list.
struct Inner<'a> {
    leaf: &'a Leaf,
    i: usize,
    depth: usize,
    row: &'a mut Row,
    base: usize,
}

impl<'de> DeserializeSeed<'de> for Inner<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> std::result::Result<(), D::Error> {
        let Inner { leaf, i, depth, row, base } = self;
        json.deserialize_any(Items { leaf, i, depth, row, base })
    }
}

/// What some lines tell of the fields. A field that was missing or null in one of them gets a default (0, "", false, an
/// empty list); one that was of several kinds is read as its JSON text. Whole numbers are int64, or uint64 if one of them
/// needs it; a number that no type of its field keeps as it is written is refused.
#[derive(Clone, Debug, Default)]
pub struct Inference {
    lines: usize,
    fields: Vec<(String, Seen)>,
}

#[derive(Clone, Debug, PartialEq)]
struct Seen {
    /// In how many lines it was, and not null; once all lines are seen, `usize::MAX` stands for each of them.
    times: usize,
    what: What,
}

#[derive(Clone, Debug, PartialEq)]
enum What {
    /// Only null, or empty lists.
    Unknown,
    Bool,
    Int(Whole),
    Float,
    Text,
    List(Box<What>),
    Fields(Vec<(String, Seen)>),
    Mixed,
    /// This whole number would not stay what it is.
    Changed(String),
}

/// The whole numbers of a field.
#[derive(Clone, Debug, PartialEq)]
struct Whole {
    /// One of them is negative.
    negative: bool,
    /// One that is beyond int64: one that a float64 would change, if there is any.
    large: Option<u64>,
}

/// A whole number as it reads back from a float64.
fn as_float(digits: &str) -> Option<String> {
    digits.parse::<f64>().ok().map(|x| x.to_string())
}

impl Whole {
    fn of(n: u64) -> Whole {
        Whole { negative: false, large: Some(n).filter(|n| *n > i64::MAX as u64) }
    }
    /// The one that would be another number as a float64.
    fn changed(&self) -> Option<String> {
        self.large.map(|n| n.to_string()).filter(|n| as_float(n).as_ref() != Some(n))
    }
    fn joined(self, other: Whole) -> What {
        let changed = self.changed().is_some();
        let large = if changed || other.large.is_none() { self.large } else { other.large };
        match (self.negative || other.negative, large) {
            (true, Some(n)) => What::Changed(n.to_string()),
            (negative, large) => What::Int(Whole { negative, large }),
        }
    }
    fn as_floats(&self) -> What {
        self.changed().map_or(What::Float, What::Changed)
    }
}

/// The whole numbers of a line that neither int64 nor uint64 holds, and that a float64 would change.
fn endless(line: &[u8]) -> Vec<(f64, &str)> {
    // Few lines have a number of so many digits, or a text that looks like one.
    let is_likely = line.split(|b| !b.is_ascii_digit()).any(|run| run.len() >= 19);
    let Some(mut rest) = std::str::from_utf8(line).ok().filter(|_| is_likely) else { return vec![] };
    let mut found = Vec::new();
    while let Some(at) = rest.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit()) {
        rest = &rest[at..];
        if let Some(text) = rest.strip_prefix('"') {
            let mut escaped = false;
            let end = text.find(|c: char| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            rest = end.map_or("", |end| &text[end + 1..]);
            continue;
        }
        let end = rest.find(|c: char| !(c.is_ascii_digit() || "+-.eE".contains(c))).unwrap_or(rest.len());
        let (number, behind) = rest.split_at(end);
        let is_held = number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok();
        if !number.contains(['.', 'e', 'E']) && !is_held && as_float(number).as_deref() != Some(number) {
            found.extend(number.parse().ok().map(|x| (x, number)));
        }
        rest = behind;
    }
    found
}

/// What is wrong with a field that has such a number.
pub fn changes(number: &str) -> String {
    format!("has the number {number}, and neither int64 nor uint64 holds all of its numbers; float64 would change it")
}

/// Where a number stands in a line, counted from 1.
pub fn column_of(number: &str, line: &[u8]) -> Option<usize> {
    let digit = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_digit() || b".-eE".contains(b));
    let ends = |at: &usize| (at.checked_sub(1).and_then(|i| line.get(i)), line.get(at + number.len()));
    let found = line.windows(number.len()).enumerate().filter(|(_, window)| *window == number.as_bytes());
    let mut places = found.map(|(at, _)| at).filter(|at| !digit(ends(at).0) && !digit(ends(at).1));
    places.next().map(|at| at + 1)
}

impl What {
    /// What a value is. Some of its numbers are `endless`.
    fn of(value: &Json, endless: &[(f64, &str)]) -> What {
        match value {
            Json::Null => What::Unknown,
            Json::Bool(_) => What::Bool,
            Json::Number(n) => match (n.as_u64(), n.as_i64()) {
                (Some(n), _) => What::Int(Whole::of(n)),
                (None, Some(_)) => What::Int(Whole { negative: true, large: None }),
                (None, None) => {
                    let is_it = |(x, _): &&(f64, &str)| n.as_f64() == Some(*x);
                    endless.iter().find(is_it).map_or(What::Float, |(_, number)| What::Changed((*number).into()))
                }
            },
            Json::String(_) => What::Text,
            Json::Array(items) => {
                let inner =
                    items.iter().map(|item| What::of(item, endless)).reduce(What::joined).unwrap_or(What::Unknown);
                let null = items.iter().any(Json::is_null);
                match inner {
                    What::Mixed | What::Fields(_) => What::Mixed,
                    _ if null || lengths(value).is_none() => What::Mixed,
                    What::Changed(_) => inner,
                    inner => What::List(Box::new(inner)),
                }
            }
            Json::Object(fields) => {
                let seen = |v: &Json| Seen { times: !v.is_null() as usize, what: What::of(v, endless) };
                What::Fields(fields.iter().map(|(name, v)| (name.clone(), seen(v))).collect())
            }
        }
    }
    fn joined(self, other: What) -> What {
        match (self, other) {
            (What::Unknown, what) | (what, What::Unknown) => what,
            (What::Int(a), What::Int(b)) => a.joined(b),
            (What::Changed(number), What::Int(_) | What::Float | What::Changed(_) | What::List(_))
            | (What::Int(_) | What::Float | What::List(_), What::Changed(number)) => What::Changed(number),
            (What::Int(whole), What::Float) | (What::Float, What::Int(whole)) => whole.as_floats(),
            (What::List(a), What::List(b)) => match a.joined(*b) {
                what @ (What::Mixed | What::Changed(_)) => what,
                what => What::List(Box::new(what)),
            },
            (What::Fields(mut a), What::Fields(b)) => {
                for (name, seen) in b {
                    match a.iter_mut().find(|(n, _)| *n == name) {
                        Some((_, before)) => {
                            before.times += seen.times;
                            before.what = std::mem::replace(&mut before.what, What::Unknown).joined(seen.what);
                        }
                        None => a.push((name, seen)),
                    }
                }
                What::Fields(a)
            }
            (a, b) if a == b => a,
            _ => What::Mixed,
        }
    }
    fn node(self, path: String, is_always_there: bool) -> Node {
        let leaf = |kind, rank, fill: Fill| {
            Node::Leaf(Leaf { path: path.clone(), kind, rank, fill: (!is_always_there).then_some(fill) })
        };
        match self {
            What::Bool => leaf(Kind::Bool, 0, Fill::Bool(false)),
            What::Int(Whole { large: None, .. }) => leaf(Kind::INT64, 0, Fill::Int(0)),
            What::Int(_) => leaf(Kind::Uint64, 0, Fill::Int(0)),
            What::Float => leaf(Kind::Float, 0, Fill::Float(0.0)),
            What::Text => leaf(Kind::Text, 0, Fill::Text(vec![])),
            What::Unknown | What::Mixed | What::Changed(_) => leaf(Kind::Json, 0, Fill::Text(b"null".to_vec())),
            What::List(inner) => match inner.node(path.clone(), true) {
                Node::Leaf(Leaf { kind, rank, .. }) if kind != Kind::Json => leaf(kind, rank + 1, Fill::Empty),
                _ => leaf(Kind::Json, 0, Fill::Text(b"null".to_vec())),
            },
            What::Fields(fields) => Node::Fields(
                fields
                    .into_iter()
                    .map(|(name, seen)| {
                        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                        let node = seen.what.node(path, is_always_there && seen.times == usize::MAX);
                        (name, node)
                    })
                    .collect(),
            ),
        }
    }
    /// Fields whose numbers would not stay what they are, each with one of these.
    fn changed(&self, path: &str, out: &mut Vec<(String, String)>) {
        match self {
            What::Changed(number) => out.push((path.into(), number.clone())),
            What::Fields(fields) => fields.iter().for_each(|(name, seen)| {
                let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                seen.what.changed(&below, out);
            }),
            _ => {}
        }
    }
    /// Marks nested fields that were in each of `lines` lines.
    fn settle(&mut self, lines: usize) {
        if let What::Fields(fields) = self {
            for (_, seen) in fields {
                seen.what.settle(lines);
                if seen.times == lines {
                    seen.times = usize::MAX;
                }
            }
        }
    }
}

/// The lengths of lists in lists, if they are equal on each level.
fn lengths(value: &Json) -> Option<Vec<usize>> {
    let Json::Array(items) = value else { return Some(vec![]) };
    let mut inner: Option<Vec<usize>> = None;
    for item in items {
        let found = lengths(item)?;
        if inner.as_ref().is_some_and(|known| *known != found) {
            return None;
        }
        inner = Some(found);
    }
    let mut all = vec![items.len()];
    all.extend(inner.unwrap_or_default());
    Some(all)
}

impl Inference {
    pub fn line(&mut self, line: &[u8]) -> Result<()> {
        let value: Json = serde_json::from_slice(without_mark(line)).map_err(|e| {
            let said = e.to_string();
            let said = said.split(" at line ").next().unwrap_or_default();
            Error::data(format!("not JSON: {said}, column {} of the line", e.column()))
        })?;
        let Json::Object(_) = value else {
            return Err(Error::data("the line is not an object; JSON lines has one {…} a line"));
        };
        self.lines += 1;
        let What::Fields(new) = What::of(&value, &endless(line)) else { unreachable!("it is an object") };
        let before = What::Fields(std::mem::take(&mut self.fields));
        if let What::Fields(fields) = before.joined(What::Fields(new)) {
            self.fields = fields;
        }
        Ok(())
    }
    pub fn lines(&self) -> usize {
        self.lines
    }
    /// The fields, by their paths, whose whole numbers no type keeps as they are written, each with one of these. Their JSON
    /// text would be kept, which is hardly what anybody wants of numbers.
    pub fn changed(&self) -> Vec<(String, String)> {
        let mut out = Vec::new();
        let below = |(name, seen): &(String, Seen)| seen.what.changed(name, &mut out);
        self.fields.iter().for_each(below);
        out
    }
    pub fn fields(self) -> Vec<(String, Node)> {
        let mut all = What::Fields(self.fields);
        all.settle(self.lines);
        match all.node(String::new(), true) {
            Node::Fields(fields) => fields,
            Node::Leaf(_) => unreachable!("an object has fields"),
        }
    }
}

/// Writes objects, a line each.
#[derive(Debug, Default)]
pub struct Writer {
    out: Vec<u8>,
    /// Something stands before: a comma comes first.
    comma: bool,
}

impl Writer {
    fn value(&mut self) {
        if self.comma {
            self.out.push(b',');
        }
        self.comma = true;
    }
    pub fn open(&mut self, bracket: u8) {
        self.value();
        self.out.push(bracket);
        self.comma = false;
    }
    pub fn close(&mut self, bracket: u8) {
        self.out.push(bracket);
        self.comma = true;
    }
    pub fn key(&mut self, name: &str) -> Result<()> {
        self.text(name.as_bytes())?;
        self.out.push(b':');
        self.comma = false;
        Ok(())
    }
    pub fn text(&mut self, text: &[u8]) -> Result<()> {
        let text = std::str::from_utf8(text).map_err(|_| {
            Error::data("JSON holds only text, and these bytes are not UTF-8; encode them first (fl.io.encode_base64)")
        })?;
        self.value();
        serde_json::to_writer(&mut self.out, text)?;
        Ok(())
    }
    pub fn bool(&mut self, b: bool) {
        self.value();
        self.out.extend_from_slice(if b { b"true" } else { b"false" });
    }
    pub fn int(&mut self, n: impl fmt::Display) {
        use std::io::Write;
        self.value();
        write!(self.out, "{n}").expect("memory can be written");
    }
    /// A number in its shortest form that reads back to the same.
    pub fn float(&mut self, x: impl fmt::Debug + Into<f64> + Copy) -> Result<()> {
        use std::io::Write;
        if !x.into().is_finite() {
            return Err(Error::data(format!("JSON has no {x:?}; put another number in its place before writing")));
        }
        self.value();
        write!(self.out, "{x:?}").expect("memory can be written");
        Ok(())
    }
    pub fn null(&mut self) {
        self.value();
        self.out.extend_from_slice(b"null");
    }
    pub fn end_line(&mut self) {
        self.out.push(b'\n');
        self.comma = false;
    }
    /// What is written so far, and starts anew.
    pub fn take(&mut self) -> Vec<u8> {
        self.comma = false;
        std::mem::take(&mut self.out)
    }
    pub fn written(&self) -> usize {
        self.out.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn leaf(path: &str, kind: Kind, rank: usize, fill: Option<Fill>) -> (String, Node) {
        (path.into(), Node::Leaf(Leaf { path: path.into(), kind, rank, fill }))
    }
    fn one(kind: Kind, rank: usize, fill: Option<Fill>) -> Schema {
        Schema::new(vec![leaf("x", kind, rank, fill)]).unwrap()
    }
    fn failed(schema: &Schema, line: &str) -> String {
        Row::default().read(schema, line.as_bytes()).unwrap_err().to_string()
    }
    fn learned(lines: &[&str]) -> Schema {
        let mut found = Inference::default();
        lines.iter().for_each(|line| found.line(line.as_bytes()).unwrap());
        Schema::new(found.fields()).unwrap()
    }

    #[test]
    fn an_object_that_comes_twice_counts_as_it_comes_last() {
        let inner = Node::Fields(vec![leaf("b", Kind::INT64, 0, Some(Fill::Int(7))), leaf("c", Kind::INT64, 0, None)]);
        let schema = Schema::new(vec![("a".into(), inner)]).unwrap();
        let mut row = Row::default();
        row.read(&schema, br#"{"a":{"b":1,"c":2},"a":{"c":3}}"#).unwrap();
        assert_eq!((&row.cells[0].ints[..], &row.cells[1].ints[..]), (&[7][..], &[3][..]));
        assert!(failed(&schema, r#"{"a":{"b":1,"c":2},"a":null}"#).contains("missing"));
    }

    #[test]
    fn leaves_are_found_wherever_they_stand() {
        let inner = Node::Fields(vec![leaf("s", Kind::Text, 0, None), leaf("v", Kind::Float, 2, None)]);
        let schema = Schema::new(vec![leaf("n", Kind::INT64, 0, None), ("in".into(), inner)]).unwrap();
        let line = br#"{"other":[{"n":9}],"in":{"v":[[1,2.5],[3,4]],"s":"a\u00e9"},"n":-3}"#;
        let mut row = Row::default();
        for _ in 0..2 {
            row.read(&schema, line).unwrap();
            assert_eq!(row.cells[0].ints, [-3]);
            assert_eq!(row.text(line, &row.cells[1].texts[0]), "aé".as_bytes());
            assert_eq!((&row.cells[2].floats[..], &row.cells[2].shape[..]), (&[1.0, 2.5, 3.0, 4.0][..], &[2, 2][..]));
        }
        // Text without escapes is where it was, also behind a byte order mark.
        let line = b"\xef\xbb\xbf{\"n\":1,\"n\":2,\"in\":{\"v\":[],\"s\":\"plain\"}}";
        row.read(&schema, line).unwrap();
        assert!(matches!(&row.cells[1].texts[0], Text::View(r) if &line[r.clone()] == b"plain"));
        assert_eq!((row.cells[0].ints[0], &row.cells[2].shape[..]), (2, &[0, 0][..]));
    }

    #[test]
    fn errors_name_the_field() {
        let byte = Kind::Int { min: 0, max: 255 };
        for (schema, line, message) in [
            (one(Kind::INT64, 0, None), r#"{"y":1}"#, "\"x\" is missing"),
            (one(Kind::INT64, 0, None), r#"{"x":null}"#, "\"x\" is null"),
            (one(Kind::INT64, 0, None), r#"{"x":"1"}"#, "\"x\" is \"1\", not an int64"),
            (one(Kind::INT64, 0, None), r#"{"x":1.5}"#, "is 1.5, not an int64"),
            (one(Kind::INT64, 0, None), r#"{"x":9223372036854775808}"#, "is 9223372036854775808, not an int64"),
            (one(Kind::Uint64, 0, None), r#"{"x":-1}"#, "is -1, not a uint64"),
            (one(Kind::Uint64, 0, None), r#"{"x":18446744073709551616}"#, "not a uint64"),
            (one(byte, 0, None), r#"{"x":256}"#, "is 256, not a whole number from 0 to 255"),
            (one(Kind::Text, 0, None), r#"{"x":1}"#, "is 1, not a string"),
            (one(Kind::Bool, 0, None), r#"{"x":0}"#, "not true or false"),
            (one(Kind::Float, 1, None), r#"{"x":1}"#, "is 1, not a list of a number"),
            (one(Kind::Float, 0, None), r#"{"x":[1]}"#, "is a list, not a number"),
            (one(Kind::Float, 1, None), r#"{"x":[1,null]}"#, "null in a list"),
            (one(Kind::Float, 2, None), r#"{"x":[[1],[1,2]]}"#, "different lengths, 1 and 2"),
            (one(Kind::Float, 0, None), r#"{"x":{}}"#, "is an object"),
            (one(Kind::Float, 0, None), r#"{"x":NaN}"#, "JSON has no NaN"),
            (one(Kind::Float, 0, None), r#"{"x":1"#, "not JSON: EOF while parsing"),
            (one(Kind::Float, 0, None), r#"{"x":1} x"#, "trailing characters, column 9"),
            (one(Kind::Float, 0, None), "[1]", "expected an object"),
        ] {
            let said = failed(&schema, line);
            assert!(said.contains(message), "{line}: {said}");
        }
        let deep = format!("{{\"x\":{}", "[".repeat(100_000));
        assert!(failed(&one(Kind::Json, 0, None), &deep).contains("not JSON"));
        assert!(failed(&one(Kind::Text, 0, None), &deep).contains("is a list"));
    }

    #[test]
    fn defaults_stand_in() {
        let schema = Schema::new(vec![
            leaf("a", Kind::INT64, 0, Some(Fill::Int(7))),
            leaf("b", Kind::Float, 0, Some(Fill::Int(1))),
            leaf("c", Kind::Text, 0, Some(Fill::Text(b"dd".to_vec()))),
            leaf("d", Kind::Text, 1, Some(Fill::Empty)),
            leaf("e", Kind::Json, 0, Some(Fill::Text(b"null".to_vec()))),
        ])
        .unwrap();
        let mut row = Row::default();
        row.read(&schema, br#"{"a":null}"#).unwrap();
        assert_eq!((row.cells[0].ints[0], row.cells[1].floats[0]), (7, 1.0));
        assert_eq!(row.text(b"", &row.cells[2].texts[0]), b"dd");
        assert_eq!(row.cells[3].shape, [0]);
        assert_eq!(row.text(b"", &row.cells[4].texts[0]), b"null");
        let line = br#"{"x":null}"#;
        row.read(&one(Kind::Json, 0, Some(Fill::Text(b"-".to_vec()))), line).unwrap();
        assert_eq!(row.text(line, &row.cells[0].texts[0]), b"-");
        row.read(&one(Kind::Json, 0, None), line).unwrap();
        assert_eq!(row.text(line, &row.cells[0].texts[0]), b"null");
    }

    #[test]
    fn schemas_are_learned() {
        let schema = learned(&[
            r#"{"a":1,"b":1,"c":"x","d":[1,2],"e":{"f":true},"g":[{"h":1}],"i":null,"l":[],"m":[[1],[2]]}"#,
            r#"{"a":2,"b":1.5,"c":null,"d":[],"e":{"f":false,"k":1},"g":[],"i":null,"j":3,"l":[1.5],"m":[[1,2]]}"#,
        ]);
        let told: Vec<String> = schema
            .leaves()
            .iter()
            .map(|l| {
                let kind = match l.kind {
                    Kind::Int { .. } => "int".into(),
                    kind => format!("{kind:?}").to_lowercase(),
                };
                format!("{} {kind}{}{}", l.path, "[]".repeat(l.rank), if l.fill.is_some() { "?" } else { "" })
            })
            .collect();
        let expected = [
            "a int",
            "b float",
            "c text?",
            "d int[]",
            "e.f bool",
            "e.k int?",
            "g json",
            "i json?",
            "l float[]",
            "m int[][]",
            "j int?",
        ];
        assert_eq!(told, expected);
        assert!(Inference::default().line(b"[1]").is_err());
        assert!(Schema::new(Inference::default().fields()).is_err());
    }

    #[test]
    fn large_whole_numbers_stay_what_they_are() {
        let kinds = |lines: &[&str]| -> Vec<String> {
            let mut found = Inference::default();
            lines.iter().for_each(|line| found.line(line.as_bytes()).unwrap());
            let changed = found.changed();
            let kind = |leaf: &Leaf| match changed.iter().find(|(path, _)| *path == leaf.path) {
                Some((_, number)) => format!("!{number}"),
                None if leaf.kind == Kind::INT64 => "Int64".into(),
                None => format!("{:?}", leaf.kind),
            };
            Schema::new(found.fields()).unwrap().leaves().iter().map(kind).collect()
        };
        for (lines, kind) in [
            (&[r#"{"x":9223372036854775807}"#, r#"{"x":-9223372036854775808}"#][..], "Int64"),
            (&[r#"{"x":1}"#, r#"{"x":9223372036854775808}"#], "Uint64"),
            (&[r#"{"x":[18446744073709551615,0]}"#], "Uint64"),
            // No type has room for both.
            (&[r#"{"x":9223372036854775809}"#, r#"{"x":-1}"#], "!9223372036854775809"),
            (&[r#"{"x":-1}"#, r#"{"x":1}"#, r#"{"x":[9223372036854775809]}"#], "Json"),
            (&[r#"{"x":18446744073709551616123}"#], "!18446744073709551616123"),
            (&[r#"{"x":"a\\"}"#, r#"{"x":-9223372036854775809}"#], "Json"),
            (&[r#"{"x":-9223372036854775809}"#, r#"{"x":null}"#], "!-9223372036854775809"),
            (&[r#"{"x":[-9223372036854775809]}"#, r#"{"x":[1]}"#], "!-9223372036854775809"),
            // Among floats a number that a float64 changes is refused; one that it keeps is not.
            (&[r#"{"x":0.5}"#, r#"{"x":18446744073709551615}"#], "!18446744073709551615"),
            (&[r#"{"x":18446744073709551615}"#, r#"{"x":0.5}"#], "!18446744073709551615"),
            (&[r#"{"x":100000000000000000000}"#, r#"{"x":0.5}"#], "Float"),
            (&[r#"{"x":9223372036854776000}"#, r#"{"x":0.5}"#], "Float"),
            (&[r#"{"x":1.8446744073709551616e25,"y":"123456789012345678901234567890"}"#], "Float"),
            // Text is kept as it is.
            (&[r#"{"x":18446744073709551616123}"#, r#"{"x":"y"}"#], "Json"),
            (&[r#"{"x":[{"y":18446744073709551616123}]}"#], "Json"),
        ] {
            assert_eq!(kinds(lines)[0], kind, "{lines:?}");
        }
        let mut found = Inference::default();
        found.line(br#"{"a":{"b":[1,123456789012345678901234567890]}}"#).unwrap();
        assert_eq!(found.changed(), [("a.b".to_string(), "123456789012345678901234567890".to_string())]);
        let mut row = Row::default();
        for n in [0, 9223372036854775808, u64::MAX] {
            row.read(&one(Kind::Uint64, 0, None), format!("{{\"x\":{n}}}").as_bytes()).unwrap();
            assert_eq!(row.cells[0].ints[0] as u64, n);
        }
        assert_eq!(column_of("12", br#"{"x":"312","y":12}"#), Some(16));
        assert_eq!(column_of("12", b"123 1.12"), None);
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(n: i64, x in -1e300f64..1e300, f in -1e30f32..1e30, text in "\\PC{0,9}", b: bool, list in prop::collection::vec(any::<i32>(), 0..4)) {
            let mut w = Writer::default();
            w.open(b'{');
            w.key("n").unwrap();
            w.int(n);
            w.key("x").unwrap();
            w.float(x).unwrap();
            w.key("f").unwrap();
            w.float(f).unwrap();
            w.key("t\"").unwrap();
            w.text(text.as_bytes()).unwrap();
            w.key("b").unwrap();
            w.bool(b);
            w.key("l").unwrap();
            w.open(b'[');
            list.iter().for_each(|i| w.int(i));
            w.close(b']');
            w.close(b'}');
            w.end_line();
            let line = w.take();
            let value: Json = serde_json::from_slice(&line).unwrap();
            prop_assert_eq!(value["t\""].as_str().unwrap(), &text);
            let schema = learned(&[std::str::from_utf8(&line).unwrap()]);
            let mut row = Row::default();
            row.read(&schema, &line).unwrap();
            prop_assert_eq!(row.cells[0].ints[0], n);
            prop_assert_eq!(row.cells[1].floats[0], x);
            prop_assert_eq!(row.cells[2].floats[0] as f32, f);
            prop_assert_eq!(row.text(&line, &row.cells[3].texts[0]), text.as_bytes());
            prop_assert_eq!(row.cells[4].ints[0] != 0, b);
            let read: Vec<i32> = row.cells[5].ints.iter().map(|i| *i as i32).collect();
            prop_assert_eq!(read, list);
        }

        #[test]
        fn any_bytes_are_an_error_at_most(line in "[\\[\\]{}\",:x0-9.e+-]{0,24}", rank in 0usize..3) {
            for kind in [Kind::Bool, Kind::INT64, Kind::Uint64, Kind::Float, Kind::Text, Kind::Json] {
                let _ = Row::default().read(&one(kind, rank, None), line.as_bytes());
            }
            let _ = Inference::default().line(line.as_bytes());
        }
    }

    #[test]
    fn what_json_cannot_hold_is_refused() {
        let mut w = Writer::default();
        assert!(w.float(f32::NAN).unwrap_err().to_string().contains("no NaN"));
        assert!(w.text(b"\xff").unwrap_err().to_string().contains("not UTF-8"));
    }
}
