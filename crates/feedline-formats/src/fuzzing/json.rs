//! JSON lines.

use super::pieces::same_in_pieces;
use super::text::options;
use crate::jsonl::{Cell, Inference, Kind, Leaf, Node, Row, Schema};
use crate::lines::Lines;
use serde_json::Value as Json;

/// A schema is learned from the first half of the lines, or of all, which then reads all of them. What it reads is what is
/// in the objects.
pub fn json_lines(bytes: &[u8]) {
    let Some((options, block, file)) = options(bytes) else { return };
    let lines = same_in_pieces(file, block, 1, &mut || Box::new(Lines::default().skip_blank()));
    let lines: Vec<Vec<u8>> = lines.into_iter().flatten().map(|mut parts| parts.remove(0)).collect();
    let learned = if options & 1 == 1 { lines.len() } else { lines.len().div_ceil(2) };
    let mut found = Inference::default();
    lines[..learned].iter().for_each(|line| drop(found.line(line)));
    let fields = found.fields();
    let Ok(schema) = Schema::new(fields.clone()) else { return };
    let mut row = Row::default();
    for (i, line) in lines.iter().enumerate() {
        let value = serde_json::from_slice::<Json>(line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line));
        if let Err(error) = row.read(&schema, line) {
            // A field that is there twice counts as it is there last, but has to be right both times.
            let is_plain = |json: &Json| json.is_object() && !has_twice(line, json);
            assert!(i >= learned || !value.is_ok_and(|json| is_plain(&json)), "{error}");
            continue;
        }
        // What nobody wants is only passed over: a number may be too large there.
        let Ok(value) = value else { continue };
        let mut cells = row.cells.iter();
        fields.iter().for_each(|(name, node)| same(node, value.get(name), &mut cells, &row, line));
    }
}

/// Whether an object has a field twice, by the length of what it is written as.
fn has_twice(line: &[u8], json: &Json) -> bool {
    fn keys(json: &Json) -> usize {
        match json {
            Json::Object(fields) => fields.values().map(|v| 1 + keys(v)).sum(),
            Json::Array(items) => items.iter().map(keys).sum(),
            _ => 0,
        }
    }
    // A colon outside of text stands behind each key; one in a text is taken for a key too many.
    line.iter().filter(|b| **b == b':').count() != keys(json)
}

/// The cells of a node are what the object has there.
fn same<'a>(node: &Node, value: Option<&Json>, cells: &mut impl Iterator<Item = &'a Cell>, row: &Row, line: &[u8]) {
    let leaf = match node {
        Node::Fields(fields) => {
            fields.iter().for_each(|(name, node)| same(node, value.and_then(|v| v.get(name)), cells, row, line));
            return;
        }
        Node::Leaf(leaf) => leaf,
    };
    let cell = cells.next().expect("a cell for each leaf");
    let value = value.filter(|v| !v.is_null() || (leaf.kind == Kind::Json && leaf.fill.is_none()));
    let mut texts = cell.texts.iter().map(|text| row.text(line, text));
    let Some(value) = value else {
        assert!(leaf.fill.is_some(), "{leaf:?} was not there");
        return;
    };
    if leaf.kind == Kind::Json {
        let text = texts.next().expect("a text");
        assert_eq!(serde_json::from_slice::<Json>(text).expect("it was JSON in the line"), *value);
        return;
    }
    let (mut items, mut shape) = (Vec::new(), Vec::new());
    flat(value, 0, leaf, &mut items, &mut shape);
    shape.resize(leaf.rank, 0);
    assert_eq!(cell.shape, shape, "{leaf:?}");
    match leaf.kind {
        Kind::Bool => assert!(items.iter().map(|v| v.as_bool().map(i64::from)).eq(cell.ints.iter().copied().map(Some))),
        Kind::Int { .. } => {
            let int = |v: &&Json| v.as_i64().or(v.as_f64().map(|x| x as i64));
            assert!(items.iter().map(int).eq(cell.ints.iter().copied().map(Some)));
        }
        Kind::Uint64 => {
            let int = |v: &&Json| v.as_u64().or(v.as_f64().map(|x| x as u64)).map(|n| n as i64);
            assert!(items.iter().map(int).eq(cell.ints.iter().copied().map(Some)));
        }
        Kind::Float => assert!(items.iter().map(|v| v.as_f64()).eq(cell.floats.iter().copied().map(Some))),
        Kind::Text => assert!(items.iter().map(|v| v.as_str().map(str::as_bytes)).eq(texts.map(Some))),
        Kind::Json => unreachable!("seen above"),
    }
}

/// The items of a list of lists, and their lengths.
fn flat<'a>(value: &'a Json, depth: usize, leaf: &Leaf, items: &mut Vec<&'a Json>, shape: &mut Vec<usize>) {
    match value {
        Json::Array(list) if depth < leaf.rank => {
            if shape.len() == depth {
                shape.push(list.len());
            }
            list.iter().for_each(|item| flat(item, depth + 1, leaf, items, shape));
        }
        item => items.push(item),
    }
}
