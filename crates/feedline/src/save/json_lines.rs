//! JSON lines: an element is a dictionary, written as one object; tensors become lists.

use super::{Format, Open, Output, Writer};
use crate::element::{B8, Chunk, DType, Spec, Tensor, Tree, Value};
use crate::error::{Error, Result};
use feedline_formats::compress::{Compression, Deflate};
use feedline_formats::jsonl;
use serde::Deserialize;
use std::io::Write;

pub static FORMAT: Format = Format { name: "json_lines", endings: &["jsonl", "ndjson"], make };

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    #[serde(default)]
    compression_type: String,
    compression_level: Option<i32>,
}

fn make(options: &serde_json::Value) -> Result<Box<Open<'static>>> {
    let Options { compression_type, compression_level } = Options::deserialize(options)?;
    let compression = Compression::parse(&compression_type)?;
    Ok(Box::new(move |output, spec| {
        if !matches!(spec, Tree::Map { .. }) {
            return Err(Error::usage(format!(
                "a line of JSON lines is an object, but the elements are {spec}; map them to dictionaries first"
            )));
        }
        let out = Deflate::new(output, compression, compression_level)?;
        Ok(Box::new(JsonWriter { out, spec: spec.clone(), lines: jsonl::Writer::default() }))
    }))
}

struct JsonWriter {
    out: Deflate<Box<dyn Output>>,
    spec: Spec,
    lines: jsonl::Writer,
}

/// One node of an element; its leaves are taken from the front of `values`.
fn node(lines: &mut jsonl::Writer, spec: &Spec, values: &mut dyn Iterator<Item = Value>) -> Result<()> {
    match spec {
        Tree::Map { items, .. } => {
            lines.open(b'{');
            for (name, item) in items {
                lines.key(name)?;
                node(lines, item, values).map_err(|e| Error::new(e.kind(), format!("{name}: {}", e.message())))?;
            }
            lines.close(b'}');
        }
        Tree::Tuple { items, .. } => {
            lines.open(b'[');
            for item in items {
                node(lines, item, values)?;
            }
            lines.close(b']');
        }
        Tree::Leaf(_) => match values.next() {
            Some(Value::Tensor(t)) => tensor(lines, &t)?,
            Some(Value::Ragged(ragged)) => rows(lines, &ragged)?,
            Some(Value::Absent) => lines.null(),
            other => return Err(Error::data(format!("JSON lines cannot hold {other:?}; make a dense tensor of it"))),
        },
    }
    Ok(())
}

fn tensor(lines: &mut jsonl::Writer, t: &Tensor) -> Result<()> {
    if t.rank() > 0 {
        lines.open(b'[');
        for i in 0..t.rows() {
            tensor(lines, &t.row(i))?;
        }
        lines.close(b']');
        return Ok(());
    }
    match t.dtype() {
        DType::Bool => lines.bool(t.item::<B8>().get()),
        DType::Float16 => lines.float(t.item::<half::f16>().to_f32())?,
        DType::Bfloat16 => lines.float(t.item::<half::bf16>().to_f32())?,
        DType::Float32 => lines.float(t.item::<f32>())?,
        DType::Float64 => lines.float(t.item::<f64>())?,
        DType::Uint64 => lines.int(t.item::<u64>()),
        DType::String => lines.text(t.str_at(0))?,
        _ => lines.int(crate::op::scalar_i64(&Value::Tensor(t.clone()))?),
    }
    Ok(())
}

fn rows(lines: &mut jsonl::Writer, ragged: &crate::element::Ragged) -> Result<()> {
    if ragged.splits.is_empty() {
        return tensor(lines, &ragged.values);
    }
    lines.open(b'[');
    for i in 0..ragged.rows() {
        rows(lines, &crate::element::ragged_row(ragged, i))?;
    }
    lines.close(b']');
    Ok(())
}

impl Writer for JsonWriter {
    fn write(&mut self, chunk: &Chunk) -> Result<()> {
        self.write_all(std::slice::from_ref(chunk))
    }
    /// What is compressed at once shows in the compressed bytes.
    fn write_all(&mut self, pieces: &[Chunk]) -> Result<()> {
        for (chunk, row) in pieces.iter().flat_map(|chunk| (0..chunk.rows()).map(move |row| (chunk, row))) {
            node(&mut self.lines, &self.spec, &mut chunk.element(row).into_iter())?;
            self.lines.end_line();
        }
        self.out.write_all(&self.lines.take()).map_err(|e| Error::io(&e))
    }
    fn finish(self: Box<Self>) -> Result<Box<dyn Output>> {
        self.out.finish().map_err(|e| Error::io(&e))
    }
}
