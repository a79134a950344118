//! JSON lines: an object a line. A `Schema` says which fields are wanted and what they are (or is learned from the first
//! lines); a `Row` turns a line into the values of its leaves, without building the objects in between.

mod infer;
#[cfg(test)]
mod tests;
mod visit;
mod writer;

pub use infer::{Inference, changes, column_of};
pub use writer::Writer;

use feedline_io::{Error, Result};
use serde::de::DeserializeSeed;
use std::ops::Range;
use visit::{Rules, Seed};

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
    strict: Strict,
}

/// What is refused because it would be lost: a schema that was learned from some lines may not fit others.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Strict {
    /// Nothing is.
    #[default]
    No,
    /// Fields inside of wanted ones that the schema does not have, and whole numbers that a float64 would change.
    Inside,
    /// The same, and all other fields that the schema does not have.
    All,
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
        Ok(Schema { root, leaves, strict: Strict::No })
    }
    pub fn strict(self, strict: Strict) -> Schema {
        Schema { strict, ..self }
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
        let rules = Rules { leaves: &schema.leaves, strict: schema.strict != Strict::No, base };
        let seed = Seed { tree: &schema.root, rules, closed: schema.strict == Strict::All, row: self };
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
