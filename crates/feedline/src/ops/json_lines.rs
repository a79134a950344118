//! `JsonLinesDataset(filenames)`: a JSON object a line, as dictionaries of tensors. Files are cut into lines where they
//! are read, lines are parsed by all workers.

use super::csv::put_with_failures;
use super::record_files::{Files, Places, Reading, RecordFiles, block_bytes, first_records, longest};
use crate::dataset::Dataset;
use crate::element::{Chunk, Column, DType, Dims, Leaf, Shape, Spec, StringsBuilder, Tensor, Tree, Value};
use crate::error::{Error, Result};
use crate::op::{Op, OpInfo, Param, read};
use crate::plan::{Card, Plan};
use crate::runtime::{BuildCx, Built, ChunkFn, Item};
use feedline_formats::compress::Compression;
use feedline_formats::jsonl::{self, Cell, Fill, Inference, Kind, Node, Row, Schema};
use feedline_formats::lines::{Lines, MAX_LINE_BYTES};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::sync::{Arc, OnceLock};

pub static INFO: OpInfo = OpInfo {
    name: "json_lines",
    doc: "JSON objects, one a line, as dictionaries of tensors.",
    params: &[
        Param::new("files", "", "a file name or a vector of them"),
        Param::new("schema", "None", "the wanted fields and their dtypes; None: learned from the first lines"),
        Param::new("infer_lines", "100", "how many lines are looked at to learn the schema; 0: all"),
        Param::new("compression_type", "\"\"", "\"\", \"GZIP\", \"ZLIB\" or \"ZSTD\": how the files are compressed"),
        Param::new("buffer_size", "None", "bytes of one read; None: what suits where the files lie"),
    ],
    read: read::<JsonLines>,
};

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JsonLines {
    files: Files,
    #[serde(default)]
    schema: Option<Vec<Field>>,
    #[serde(default = "hundred")]
    infer_lines: usize,
    #[serde(default)]
    compression_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    buffer_size: Option<i64>,
    /// What would be lost is refused: for commands that write the rows again, and no parameter of Python's.
    #[serde(default, skip_serializing_if = "Strict::is_no")]
    strict: Strict,
    #[serde(skip)]
    learned: OnceLock<Result<Vec<Field>>>,
}

fn hundred() -> usize {
    100
}

/// As `jsonl::Strict` has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Strict {
    #[default]
    No,
    Inside,
    All,
}

impl Strict {
    fn is_no(&self) -> bool {
        *self == Strict::No
    }
}

/// A wanted field as parameters have it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Field {
    name: String,
    #[serde(flatten)]
    what: What,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum What {
    Fields {
        fields: Vec<Field>,
    },
    Leaf {
        dtype: DType,
        /// The lengths of lists; null: any.
        #[serde(default = "Dims::scalar")]
        shape: Dims,
        /// What stands in for a field that is missing or null; without one it is required.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        default: Option<Json>,
        /// The text as it stands in the file, whatever it is.
        #[serde(default)]
        json: bool,
    },
}

impl Field {
    fn spec(&self) -> Result<Spec> {
        match &self.what {
            What::Fields { fields } => dict(fields),
            What::Leaf { dtype, shape, .. } => Ok(Tree::Leaf(Leaf::tensor(*dtype, shape.clone()))),
        }
    }
    fn node(&self, above: &str) -> Result<Node> {
        let path = if above.is_empty() { self.name.clone() } else { format!("{above}.{}", self.name) };
        let (dtype, shape, default, json) = match &self.what {
            What::Fields { fields } => return Ok(Node::Fields(nodes(fields, &path)?)),
            What::Leaf { dtype, shape, default, json } => (*dtype, shape, default, *json),
        };
        let bad = |why: String| Error::usage(format!("the field {path:?}: {why}"));
        let rank = shape.rank().ok_or_else(|| bad("its rank must be known".into()))?;
        if json && (dtype != DType::String || rank > 0) {
            return Err(bad("JSON text is a string scalar".into()));
        }
        let kind = if json { Kind::Json } else { kind(dtype).map_err(bad)? };
        let fill = match default {
            None => None,
            Some(Json::Array(list)) if rank > 0 && list.is_empty() => Some(Fill::Empty),
            Some(d) if rank > 0 => return Err(bad(format!("the default of a list must be [], not {d}"))),
            Some(d) => Some(fill(kind, d).ok_or_else(|| bad(format!("the default {d} is not a {dtype}")))?),
        };
        Ok(Node::Leaf(jsonl::Leaf { path, kind, rank, fill }))
    }
    /// The reverse, for what was learned.
    fn learned(name: String, node: Node) -> Field {
        let what = match node {
            Node::Fields(fields) => {
                What::Fields { fields: fields.into_iter().map(|(name, node)| Field::learned(name, node)).collect() }
            }
            Node::Leaf(leaf) => {
                let dtype = match leaf.kind {
                    Kind::Bool => DType::Bool,
                    Kind::Int { .. } => DType::Int64,
                    Kind::Uint64 => DType::Uint64,
                    Kind::Float => DType::Float64,
                    Kind::Text | Kind::Json => DType::String,
                };
                let default = leaf.fill.map(|fill| match fill {
                    Fill::Bool(b) => b.into(),
                    Fill::Int(n) => n.into(),
                    Fill::Float(x) => x.into(),
                    Fill::Text(text) => String::from_utf8_lossy(&text).into(),
                    Fill::Empty => Json::Array(vec![]),
                });
                What::Leaf { dtype, shape: Dims::of(vec![None; leaf.rank]), default, json: leaf.kind == Kind::Json }
            }
        };
        Field { name, what }
    }
}

fn dict(fields: &[Field]) -> Result<Spec> {
    let mut all: Vec<(Arc<str>, Spec)> = Vec::new();
    for field in fields {
        if all.iter().any(|(name, _)| **name == *field.name) {
            return Err(Error::usage(format!("the schema has the field {:?} twice", field.name)));
        }
        all.push((field.name.as_str().into(), field.spec()?));
    }
    Ok(Tree::Map { tag: None, items: all })
}

fn nodes(fields: &[Field], above: &str) -> Result<Vec<(String, Node)>> {
    fields.iter().map(|field| Ok((field.name.clone(), field.node(above)?))).collect()
}

fn kind(dtype: DType) -> std::result::Result<Kind, String> {
    let int = |min, max| Kind::Int { min, max };
    Ok(match dtype {
        DType::Bool => Kind::Bool,
        DType::Int8 => int(i8::MIN.into(), i8::MAX.into()),
        DType::Int16 => int(i16::MIN.into(), i16::MAX.into()),
        DType::Int32 => int(i32::MIN.into(), i32::MAX.into()),
        DType::Int64 => Kind::INT64,
        DType::Uint8 => int(0, u8::MAX.into()),
        DType::Uint16 => int(0, u16::MAX.into()),
        DType::Uint32 => int(0, u32::MAX.into()),
        DType::Uint64 => Kind::Uint64,
        DType::Float32 | DType::Float64 => Kind::Float,
        DType::String => Kind::Text,
        other => return Err(format!("{other} is not read from JSON; read another dtype and cast it")),
    })
}

fn fill(kind: Kind, default: &Json) -> Option<Fill> {
    Some(match (kind, default) {
        (Kind::Bool, Json::Bool(b)) => Fill::Bool(*b),
        (Kind::Int { min, max }, d) => Fill::Int(d.as_i64().filter(|n| (min..=max).contains(n))?),
        (Kind::Uint64, d) => Fill::Int(d.as_u64()? as i64),
        // Text stands for the numbers that JSON lacks.
        (Kind::Float, Json::String(text)) => Fill::Float(text.parse().ok()?),
        (Kind::Float, d) => Fill::Float(d.as_f64()?),
        (Kind::Text | Kind::Json, Json::String(text)) => Fill::Text(text.as_bytes().to_vec()),
        _ => return None,
    })
}

impl Dataset {
    /// JSON objects, one a line; the fields are learned from the first 100 lines.
    ///
    /// ```
    /// # use feedline::Dataset;
    /// # let path = std::env::temp_dir().join("feedline-doc.jsonl");
    /// std::fs::write(&path, "{\"n\": 1, \"words\": [\"a\", \"b\"]}\n").unwrap();
    /// let row = Dataset::json_lines(&[path.to_str().unwrap()])?.iter()?.next().unwrap()?;
    /// assert_eq!((row[0].tensor().item::<i64>(), row[1].tensor().str_at(1)), (1, &b"b"[..]));
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn json_lines<S: AsRef<[u8]>>(files: &[S]) -> Result<Dataset> {
        Dataset::source(JsonLines {
            files: Files::new(files),
            schema: None,
            infer_lines: hundred(),
            compression_type: String::new(),
            buffer_size: None,
            strict: Strict::No,
            learned: OnceLock::new(),
        })
    }
}

impl JsonLines {
    fn reading(&self) -> Result<Reading> {
        Ok(Reading {
            compression: Compression::parse(&self.compression_type)?,
            buffer: block_bytes(self.buffer_size)?,
            parts: 1,
            places: true,
            reader: Box::new(|_| Ok(Box::new(Lines::default().skip_blank().max_bytes(longest(MAX_LINE_BYTES))))),
        })
    }
    fn fields(&self) -> Result<&[Field]> {
        match &self.schema {
            Some(fields) => Ok(fields),
            None => self.learned.get_or_init(|| self.learn()).as_deref().map_err(Clone::clone),
        }
    }
    fn learn(&self) -> Result<Vec<Field>> {
        let files =
            self.files.known().ok_or_else(|| Error::usage("a schema cannot be learned from unknown files"))??;
        let count = if self.infer_lines == 0 { usize::MAX } else { self.infer_lines };
        let mut found = Inference::default();
        let lines = first_records(&files, &self.reading()?, count)?;
        for line in &lines {
            let learned = |said: &str| format!("{said}, in a line that the schema is learned from");
            found.line(&line.bytes).map_err(|e| line.locate(e.reworded(learned)))?;
        }
        if found.lines() == 0 {
            return Err(Error::usage(format!("{} has no lines to learn from: give a schema", self.files.show())));
        }
        if let Some((path, digits)) = found.changed().into_iter().next() {
            let place = lines.iter().find_map(|line| Some((line, jsonl::column_of(&digits, &line.bytes)?)));
            let text = format!(
                "the field {path:?} {}; say in a schema what it is: fl.float64 rounds it, \"json\" keeps its text",
                jsonl::changes(&digits)
            );
            return Err(match place {
                Some((line, column)) => line.locate(Error::data(format!("{text}, column {column} of the line"))),
                None => Error::data(text),
            });
        }
        Ok(found.fields().into_iter().map(|(name, node)| Field::learned(name, node)).collect())
    }
}

impl Op for JsonLines {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, _: &[Plan]) -> Result<Spec> {
        self.files.check()?;
        self.reading()?;
        Schema::new(nodes(self.fields()?, "")?)?;
        dict(self.fields()?)
    }
    fn cardinality(&self, _: &[Plan]) -> Card {
        Card::Unknown
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        let files = self.files.get(cx)?;
        let places = Places(files.clone().into());
        let head = RecordFiles::new(files, self.reading()?).traced(cx, node);
        let strict = match self.strict {
            Strict::No => jsonl::Strict::No,
            Strict::Inside => jsonl::Strict::Inside,
            Strict::All => jsonl::Strict::All,
        };
        let schema = Schema::new(nodes(self.fields()?, "")?)?.strict(strict);
        let leaves = node.spec.leaves().into_iter().cloned().collect();
        Ok(cx.open(node, Box::new(head), Arc::new(ParseLines { schema, leaves, places })))
    }
    fn tunables(&self) -> &'static [&'static str] {
        &["buffer_size"]
    }
    fn files(&self) -> Vec<String> {
        self.files.listed()
    }
    fn write(&self) -> Result<serde_json::Value> {
        let mut json = serde_json::to_value(self)?;
        // What was learned stays so, wherever the plan is read.
        if self.schema.is_none() {
            json["schema"] = serde_json::to_value(self.fields()?)?;
        }
        Ok(json)
    }
    fn show(&self) -> String {
        self.files.show()
    }
}

/// Lines to tensors. A line that cannot be read is an error in its place.
struct ParseLines {
    schema: Schema,
    leaves: Vec<Leaf>,
    places: Places,
}

/// A column that grows.
enum Growing {
    /// Scalars: numbers in their memory.
    Numbers(DType, Vec<u8>),
    Strings(StringsBuilder),
    /// Lists, each a tensor.
    Lists(DType, Vec<Value>),
}

impl ParseLines {
    fn parse(&self, lines: &Tensor, row: usize, parsed: &mut Row) -> Result<()> {
        parsed.read(&self.schema, lines.str_at(row))?;
        for ((leaf, cell), told) in self.leaves.iter().zip(&parsed.cells).zip(self.schema.leaves()) {
            if let Leaf::Tensor { shape, .. } = leaf
                && !shape.accepts(&cell.shape)
            {
                return Err(Error::data(format!(
                    "the field {:?} has the shape {:?}, where the schema says {shape}",
                    told.path, cell.shape
                )));
            }
        }
        Ok(())
    }
}

/// The items of a cell in the memory of a dtype.
fn put_items(dtype: DType, cell: &Cell, out: &mut Vec<u8>) {
    macro_rules! put {
        ($items:expr, $t:ty) => {
            $items.iter().for_each(|x| out.extend_from_slice(&(*x as $t).to_ne_bytes()))
        };
    }
    match dtype {
        DType::Bool | DType::Uint8 => put!(cell.ints, u8),
        DType::Int8 => put!(cell.ints, i8),
        DType::Int16 => put!(cell.ints, i16),
        DType::Int32 => put!(cell.ints, i32),
        DType::Int64 => put!(cell.ints, i64),
        DType::Uint16 => put!(cell.ints, u16),
        DType::Uint32 => put!(cell.ints, u32),
        DType::Uint64 => put!(cell.ints, u64),
        DType::Float32 => put!(cell.floats, f32),
        _ => put!(cell.floats, f64),
    }
}

fn numbers(dtype: DType, shape: Shape, bytes: &[u8]) -> Tensor {
    let mut tensor = Tensor::new(dtype, shape);
    tensor.bytes_mut().copy_from_slice(bytes);
    tensor
}

impl Growing {
    fn new(leaf: &Leaf, rank: usize, rows: usize) -> Growing {
        match leaf.dtype().unwrap_or(DType::String) {
            dtype if rank > 0 => Growing::Lists(dtype, Vec::with_capacity(rows)),
            DType::String => Growing::Strings(StringsBuilder::with_capacity(rows)),
            dtype => Growing::Numbers(dtype, Vec::with_capacity(rows * dtype.size())),
        }
    }
    fn push(&mut self, parsed: &Row, cell: &Cell, lines: &Tensor, row: usize) {
        let text = |strings: &mut StringsBuilder| {
            for text in &cell.texts {
                match text {
                    jsonl::Text::View(range) => lines.push_part(strings, row, range.clone()),
                    jsonl::Text::Copy(range) => strings.push(&parsed.copies[range.clone()]),
                }
            }
        };
        match self {
            Growing::Numbers(dtype, bytes) => put_items(*dtype, cell, bytes),
            Growing::Strings(strings) => text(strings),
            Growing::Lists(DType::String, values) => {
                let mut strings = StringsBuilder::with_capacity(cell.texts.len());
                text(&mut strings);
                values.push(Value::Tensor(strings.tensor(cell.shape.as_slice())));
            }
            Growing::Lists(dtype, values) => {
                let mut bytes = Vec::new();
                put_items(*dtype, cell, &mut bytes);
                values.push(Value::Tensor(numbers(*dtype, cell.shape.as_slice().into(), &bytes)));
            }
        }
    }
    fn column(self, rows: usize) -> Column {
        match self {
            Growing::Numbers(dtype, bytes) => Column::Dense(numbers(dtype, smallvec::smallvec![rows], &bytes)),
            Growing::Strings(strings) => Column::Dense(strings.tensor([rows])),
            Growing::Lists(_, values) => Column::from_values(values),
        }
    }
}

impl ChunkFn for ParseLines {
    fn run(&self, chunk: Chunk, out: &mut Vec<Item>) {
        let [Column::Dense(lines), places] = chunk.columns() else {
            return out.push(Item::Fail(Error::internal("lines without their places")));
        };
        let told = self.schema.leaves();
        let mut columns: Vec<Growing> =
            self.leaves.iter().zip(told).map(|(leaf, t)| Growing::new(leaf, t.rank, chunk.rows())).collect();
        let (mut parsed, mut failed) = (Row::default(), Vec::new());
        for row in 0..chunk.rows() {
            match self.parse(lines, row, &mut parsed) {
                Ok(()) => {
                    let cells = columns.iter_mut().zip(&parsed.cells);
                    cells.for_each(|(column, cell)| column.push(&parsed, cell, lines, row));
                }
                Err(error) => {
                    let error = self.places.locate(error, places, row).at_element(chunk.pos.at(row));
                    failed.push((row, error.in_op(INFO.name)));
                }
            }
        }
        let rows = chunk.rows() - failed.len();
        put_with_failures(columns.into_iter().map(|c| c.column(rows)).collect(), failed, &chunk, out);
    }
    fn repeats(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{in_chunks, source};
    use serde_json::json;

    fn file(dir: &tempfile::TempDir, text: &str) -> String {
        let path = dir.path().join("a.jsonl");
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().into()
    }
    fn events(ds: &Dataset) -> Vec<String> {
        let show = |e: Result<crate::element::Element>| match e {
            Ok(e) => e.iter().map(|v| format!("{:?}", v.tensor())).collect::<Vec<_>>().join(" "),
            Err(e) => format!("!{e}"),
        };
        ds.iter().unwrap().map(show).collect()
    }

    #[test]
    fn fields_are_learned() {
        let dir = tempfile::tempdir().unwrap();
        let name = file(
            &dir,
            "{\"a\":1,\"b\":{\"c\":\"x\\n\",\"d\":[1,2.5]}}\n\n{\"a\":2,\"b\":{\"c\":\"plain\",\"d\":[]}}\r\n{\"a\":\"?\"}",
        );
        // The last line is not looked at.
        let params = json!({ "files": Files::new(&[&name]), "infer_lines": 2 });
        let ds = source("json_lines", params).unwrap();
        for rows in [1, 2, 100] {
            let all = events(&in_chunks(&ds, rows));
            assert_eq!(all[0], "int64[] [1] string[] [\"x\\n\"] float64[2] [1.0, 2.5]");
            assert_eq!(all[1], "int64[] [2] string[] [\"plain\"] float64[0] []");
            assert!(all[2].contains("\"a\" is \"?\"") && all[2].contains("a.jsonl at byte 71"), "{}", all[2]);
        }
        let (json, _) = crate::plan::write_plan(ds.plan()).unwrap();
        std::fs::remove_file(&name).unwrap();
        assert_eq!(&crate::plan::read_plan(&json, vec![]).unwrap().spec, ds.spec());
    }

    #[test]
    fn numbers_beyond_int64_are_kept_or_refused() {
        let dir = tempfile::tempdir().unwrap();
        let name = file(&dir, "{\"n\":7}\n{\"n\":18446744073709551615}\n");
        let ds = Dataset::json_lines(&[&name]).unwrap();
        assert_eq!(events(&ds), ["uint64[] [7]", "uint64[] [18446744073709551615]"]);
        let name = file(&dir, "{\"n\":7}\n{\"n\": 18446744073709551615}\n{\"n\":-1}\n");
        let said = Dataset::json_lines(&[&name]).unwrap_err().to_string();
        for part in ["\"n\"", "18446744073709551615", "column 7 of the line", "a.jsonl", "fl.float64 rounds it"] {
            assert!(said.contains(part), "{part}: {said}");
        }
        let schema = json!([{"name": "n", "dtype": "float64"}]);
        let ds = source("json_lines", json!({ "files": Files::new(&[&name]), "schema": schema })).unwrap();
        assert_eq!(events(&ds)[1], "float64[] [1.8446744073709552e19]");
        let schema = json!([{"name": "n", "dtype": "uint64", "default": u64::MAX}]);
        let ds = source("json_lines", json!({ "files": Files::new(&[&name]), "schema": schema })).unwrap();
        assert!(events(&ds)[2].contains("is -1, not a uint64"), "{:?}", events(&ds));
    }

    #[test]
    fn a_schema_decides() {
        let dir = tempfile::tempdir().unwrap();
        let name = file(&dir, "{\"n\":7,\"v\":[1,2],\"o\":{\"x\":[1]}}\n{\"n\":300,\"v\":[1,2]}\n{\"v\":[1]}\n");
        let schema = json!([
            {"name": "n", "dtype": "uint8", "default": 9},
            {"name": "v", "dtype": "float32", "shape": [2]},
            {"name": "o", "dtype": "string", "json": true, "default": "{}"},
        ]);
        let ds = source("json_lines", json!({ "files": Files::new(&[&name]), "schema": schema })).unwrap();
        let all = events(&ds);
        assert_eq!(all[0], "uint8[] [7] float32[2] [1.0, 2.0] string[] [\"{\\\"x\\\":[1]}\"]");
        assert!(all[1].contains("from 0 to 255") && all[2].contains("has the shape [1]"), "{all:?}");
        for bad in [
            json!([]),
            json!([{"name": "n", "dtype": "float16"}]),
            json!([{"name": "n", "dtype": "uint8", "default": -1}]),
            json!([{"name": "n", "dtype": "uint8"}, {"name": "n", "dtype": "uint8"}]),
            json!([{"name": "n", "dtype": "uint8", "shape": [2], "default": 3}]),
        ] {
            let params = json!({ "files": Files::new(&[&name]), "schema": bad });
            assert!(source("json_lines", params).is_err(), "{bad}");
        }
    }
}
