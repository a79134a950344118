//! What fields lines have, and of which types: for those who give no schema.

use super::{Fill, Kind, Leaf, Node, without_mark};
use feedline_io::{Error, Result};
use serde_json::Value as Json;

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
    /// One that is beyond int64.
    large: Option<u64>,
    /// One that a float64 would change.
    inexact: Option<i128>,
}

/// A whole number as it reads back from a float64.
fn as_float(digits: &str) -> Option<String> {
    digits.parse::<f64>().ok().map(|x| x.to_string())
}

/// Whether a whole number reads back from a float64 as it is written.
pub(super) fn is_exact(n: i128) -> bool {
    n.unsigned_abs() <= 1 << f64::MANTISSA_DIGITS || as_float(&n.to_string()) == Some(n.to_string())
}

impl Whole {
    fn of(n: i128) -> Whole {
        let large = u64::try_from(n).ok().filter(|n| *n > i64::MAX as u64);
        Whole { negative: n < 0, large, inexact: Some(n).filter(|n| !is_exact(*n)) }
    }
    fn joined(self, other: Whole) -> What {
        let (large, inexact) = (self.large.or(other.large), self.inexact.or(other.inexact));
        match (self.negative || other.negative, large) {
            (true, Some(n)) => What::Changed(n.to_string()),
            (negative, large) => What::Int(Whole { negative, large, inexact }),
        }
    }
    fn as_floats(&self) -> What {
        self.inexact.map_or(What::Float, |n| What::Changed(n.to_string()))
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
                (Some(n), _) => What::Int(Whole::of(n.into())),
                (None, Some(n)) => What::Int(Whole::of(n.into())),
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
