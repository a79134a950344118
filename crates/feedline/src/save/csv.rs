//! CSV files: an element is a row of scalars, a dictionary or a tuple of them.

use super::{Format, Open, Output, Writer};
use crate::element::{Chunk, DType, Leaf, Spec, Tensor, Tree};
use crate::error::{Error, Result};
use feedline_formats::compress::{Compression, Deflate};
use feedline_formats::csv::{self, Dialect};
use serde::Deserialize;
use std::io::Write;

pub static FORMAT: Format = Format { name: "csv", endings: &["csv", "tsv"], make };

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    /// A line of names; by default where there are names.
    header: Option<bool>,
    field_delim: Option<String>,
    #[serde(default)]
    compression_type: String,
    compression_level: Option<i32>,
}

fn make(options: &serde_json::Value) -> Result<Box<Open<'static>>> {
    let options = Options::deserialize(options)?;
    let dialect = Dialect::new(options.field_delim.as_deref().unwrap_or(","), true)?;
    let compression = Compression::parse(&options.compression_type)?;
    Ok(Box::new(move |output, spec| {
        check(spec)?;
        let mut rows = csv::Writer::new(dialect);
        if options.header.unwrap_or(matches!(spec, Tree::Map { .. })) {
            for name in names(spec) {
                rows.text(name.as_bytes())?;
            }
            rows.end_row();
        }
        let out = Deflate::new(output, compression, options.compression_level)?;
        Ok(Box::new(CsvWriter { out, rows }))
    }))
}

/// A row has scalars only, and something in it.
fn check(spec: &Spec) -> Result<()> {
    let fits = |leaf: &&Leaf| match leaf {
        Leaf::Tensor { shape, .. } => shape.rank().is_none_or(|rank| rank == 0),
        _ => false,
    };
    if spec.leaf_count() == 0 || !spec.leaves().iter().all(fits) {
        return Err(Error::usage(format!(
            "a CSV file holds rows of scalars, but the elements are {spec}; take batches apart with unbatch(), and \
             write lists as JSON lines"
        )));
    }
    Ok(())
}

/// The columns as a header calls them: keys, or numbers in tuples, joined by dots.
pub fn names(spec: &Spec) -> Vec<String> {
    fn walk(spec: &Spec, above: &str, out: &mut Vec<String>) {
        let below = |name: &str| if above.is_empty() { name.to_owned() } else { format!("{above}.{name}") };
        match spec {
            Tree::Leaf(_) => out.push(if above.is_empty() { "value".into() } else { above.into() }),
            Tree::Map { items, .. } => items.iter().for_each(|(name, item)| walk(item, &below(name), out)),
            Tree::Tuple { items, .. } => {
                items.iter().enumerate().for_each(|(i, item)| walk(item, &below(&i.to_string()), out));
            }
        }
    }
    let mut out = Vec::new();
    walk(spec, "", &mut out);
    out
}

struct CsvWriter {
    out: Deflate<Box<dyn Output>>,
    rows: csv::Writer,
}

fn cell(rows: &mut csv::Writer, t: &Tensor) -> Result<()> {
    if t.len() != 1 || t.rank() > 0 {
        return Err(Error::data(format!("a CSV field is a scalar, not a tensor of shape {:?}", t.shape())));
    }
    match t.dtype() {
        DType::Bool => rows.text(if t.item::<crate::element::B8>().get() { b"true" } else { b"false" })?,
        dtype => crate::with_item!(dtype, T => rows.number(t.item::<T>()); String => rows.text(t.str_at(0))?),
    }
    Ok(())
}

impl Writer for CsvWriter {
    fn write(&mut self, chunk: &Chunk) -> Result<()> {
        self.write_all(std::slice::from_ref(chunk))
    }
    /// What is compressed at once shows in the compressed bytes.
    fn write_all(&mut self, pieces: &[Chunk]) -> Result<()> {
        for (chunk, row) in pieces.iter().flat_map(|chunk| (0..chunk.rows()).map(move |row| (chunk, row))) {
            for value in chunk.element(row) {
                let tensor = value.as_tensor().ok_or_else(|| Error::data("a CSV field is a dense scalar"))?;
                cell(&mut self.rows, tensor)?;
            }
            self.rows.end_row();
        }
        self.out.write_all(&self.rows.take()).map_err(|e| Error::io(&e))
    }
    fn finish(mut self: Box<Self>) -> Result<Box<dyn Output>> {
        // The header of a dataset without elements.
        self.out.write_all(&self.rows.take()).map_err(|e| Error::io(&e))?;
        self.out.finish().map_err(|e| Error::io(&e))
    }
}
