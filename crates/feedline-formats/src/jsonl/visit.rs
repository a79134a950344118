//! A line's values on their way into the cells of a row: what serde calls while it reads.

use super::infer::is_exact;
use super::{Cell, Kind, Leaf, Row, Text, Tree};
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// What is the same for all of a line.
#[derive(Clone, Copy)]
pub(super) struct Rules<'a> {
    pub leaves: &'a [Leaf],
    /// What would be lost is refused.
    pub strict: bool,
    /// The address of the line.
    pub base: usize,
}

/// Reads one node of the schema into the row.
pub(super) struct Seed<'a> {
    pub tree: &'a Tree,
    pub rules: Rules<'a>,
    /// Fields that the node does not have are refused.
    pub closed: bool,
    pub row: &'a mut Row,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> std::result::Result<(), D::Error> {
        // What comes last counts, if a line has a field twice.
        self.tree.clear(&mut self.row.cells);
        match self.tree {
            Tree::Fields(_) => json.deserialize_any(self),
            Tree::Leaf(i) => {
                let Rules { leaves, strict, base } = self.rules;
                let leaf = &leaves[*i];
                if leaf.kind == Kind::Json {
                    let raw: &RawValue = serde::Deserialize::deserialize(json)?;
                    let start = raw.get().as_ptr() as usize - base;
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
                json.deserialize_any(Items { leaf, i: *i, depth: 0, row: self.row, base, strict })
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
        let Seed { rules, closed, .. } = self;
        let mut strange = None;
        while let Some(found) = map.next_key_seed(Key { fields, guess, strange: closed.then_some(&mut strange) })? {
            match found {
                Some(i) => {
                    guess = i + 1;
                    let (tree, row) = (&fields[i].1, &mut *self.row);
                    map.next_value_seed(Seed { tree, rules, closed: rules.strict, row })?;
                }
                None if closed => {
                    let path = above(fields, rules.leaves) + &strange.unwrap_or_default();
                    self.row.wrong = Some(format!("the line has the field {path:?}, and those before it have not"));
                    return Err(de::Error::custom(""));
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

/// What stands before the names of these fields in the paths of their leaves.
fn above(fields: &[(String, Tree)], leaves: &[Leaf]) -> String {
    let Some((name, tree)) = fields.first() else { return String::new() };
    let (path, behind) = match tree {
        Tree::Leaf(i) => (leaves[*i].path.clone(), name.clone()),
        Tree::Fields(inner) => (above(inner, leaves), format!("{name}.")),
    };
    path.strip_suffix(&behind).unwrap_or_default().into()
}

/// Finds a field by its name.
struct Key<'a> {
    fields: &'a [(String, Tree)],
    guess: usize,
    /// Where a name goes that is none of them, if anybody asks.
    strange: Option<&'a mut Option<String>>,
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
        let found = self.fields.iter().position(|(n, _)| n == name);
        if let (None, Some(strange)) = (found, self.strange) {
            *strange = Some(name.into());
        }
        Ok(found)
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
    strict: bool,
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
    /// A whole number where floats are.
    fn whole<E: de::Error>(mut self, n: i128, what: &dyn fmt::Display) -> std::result::Result<(), E> {
        if self.strict && !is_exact(n) {
            self.row.wrong =
                Some(format!("the field {:?} is {what}, which would not stay so as a float64", self.leaf.path));
            return Err(E::custom(""));
        }
        self.item(what, true)?.floats.push(n as f64);
        Ok(())
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
    fn visit_i64<E: de::Error>(self, n: i64) -> std::result::Result<(), E> {
        if self.leaf.kind == Kind::Float {
            return self.whole(n.into(), &n);
        }
        self.int(Some(n), &n)
    }
    fn visit_u64<E: de::Error>(mut self, n: u64) -> std::result::Result<(), E> {
        if self.leaf.kind == Kind::Float {
            return self.whole(n.into(), &n);
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
        let Items { leaf, i, depth, base, strict, .. } = self;
        if depth == leaf.rank {
            return Err(self.wrong(&"a list"));
        }
        let known = self.row.cells[i].shape.len() > depth;
        if !known {
            self.row.cells[i].shape.push(0);
        }
        let mut n = 0;
        while list.next_element_seed(Inner { leaf, i, depth: depth + 1, row: &mut *self.row, base, strict })?.is_some()
        {
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
    strict: bool,
}

impl<'de> DeserializeSeed<'de> for Inner<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> std::result::Result<(), D::Error> {
        let Inner { leaf, i, depth, row, base, strict } = self;
        json.deserialize_any(Items { leaf, i, depth, row, base, strict })
    }
}
