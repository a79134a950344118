//! `CsvDataset(filenames, record_defaults)`: the rows of CSV files as typed scalars. Files are cut into records where
//! they are read, records into fields by all workers.

use super::record_files::{Files, Places, Reading, RecordFiles, block_bytes, first_records, longest};
use crate::dataset::Dataset;
use crate::element::{Chunk, Column, Leaf, Spec, Tree};
use crate::error::{Error, Result};
use crate::expr::funcs::csv::{CsvColumn, inferred, parse, schema};
use crate::op::{Op, OpInfo, Param, read};
use crate::plan::{Card, Plan};
use crate::runtime::{BuildCx, Built, ChunkFn, Item};
use feedline_formats::compress::Compression;
use feedline_formats::csv::{Dialect, Inference, MAX_RECORD_BYTES, Rows, Schema, header_names, texts};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, OnceLock};

pub static INFO: OpInfo = OpInfo {
    name: "csv",
    doc: "The rows of CSV files, a scalar for each column.",
    params: &[
        Param::new("files", "", "a file name or a vector of them"),
        Param::new("columns", "None", "name, dtype and default of each column; None: learned from the first rows"),
        Param::new("header", "False", "each file begins with a line of names"),
        Param::new("field_delim", "\",\"", "what stands between fields, one character"),
        Param::new("use_quote_delim", "True", "quotes have a meaning"),
        Param::new("na_value", "\"\"", "a text that stands for an empty field"),
        Param::new("select_cols", "None", "the numbers of the columns that are read, rising; None: all"),
        Param::new("exclude_cols", "None", "the numbers of the columns that are left out; there must be no others"),
        Param::new("compression_type", "\"\"", "\"\", \"GZIP\", \"ZLIB\" or \"ZSTD\": how the files are compressed"),
        Param::new("buffer_size", "None", "bytes of one read; None: what suits where the files lie"),
        Param::new("names", "None", "the names of columns that are learned, where there is no header"),
        Param::new("infer_rows", "100", "how many rows are looked at to learn the dtypes; 0: all"),
        Param::new("as_dict", "False", "elements are dictionaries by the names of the columns"),
        Param::new(
            "header_names",
            "None",
            "what the header of every file must be; None: what was learned, if anything was",
        ),
        Param::new("exact", "False", "numbers that would not be written back as they are (007, +1) are errors"),
    ],
    read: read::<Csv>,
};

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Csv {
    files: Files,
    #[serde(default)]
    columns: Option<Vec<CsvColumn>>,
    #[serde(default)]
    header: bool,
    #[serde(default = "comma")]
    field_delim: String,
    #[serde(default = "yes")]
    use_quote_delim: bool,
    #[serde(default)]
    na_value: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    select_cols: Option<Vec<i64>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    exclude_cols: Option<Vec<i64>>,
    #[serde(default)]
    compression_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    buffer_size: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    names: Option<Vec<String>>,
    #[serde(default = "hundred")]
    infer_rows: usize,
    #[serde(default)]
    as_dict: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    header_names: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    exact: bool,
    /// What was learned, once somebody asked.
    #[serde(skip)]
    learned: OnceLock<Result<Learned>>,
}

#[derive(Clone, Debug)]
struct Learned {
    columns: Vec<CsvColumn>,
    /// All names of the first file, where they come from it.
    header: Option<Arc<[String]>>,
}

fn comma() -> String {
    ",".into()
}
fn yes() -> bool {
    true
}
fn hundred() -> usize {
    100
}

impl Dataset {
    /// The rows of CSV files with a header, as dictionaries; the dtypes are learned from the first 100 rows.
    ///
    /// ```
    /// # use feedline::Dataset;
    /// # let path = std::env::temp_dir().join("feedline-doc.csv");
    /// std::fs::write(&path, "n,word\n1,one\n2,\"t\"\"wo\"\n").unwrap();
    /// let ds = Dataset::csv(&[path.to_str().unwrap()])?;
    /// let row = ds.iter()?.nth(1).unwrap()?;
    /// assert_eq!((row[0].tensor().item::<i32>(), row[1].tensor().str_at(0)), (2, &b"t\"wo"[..]));
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn csv<S: AsRef<[u8]>>(files: &[S]) -> Result<Dataset> {
        Dataset::source(Csv {
            files: Files::new(files),
            columns: None,
            header: true,
            field_delim: comma(),
            use_quote_delim: true,
            na_value: String::new(),
            select_cols: None,
            exclude_cols: None,
            compression_type: String::new(),
            buffer_size: None,
            names: None,
            infer_rows: hundred(),
            as_dict: true,
            header_names: None,
            exact: false,
            learned: OnceLock::new(),
        })
    }
}

impl Csv {
    fn dialect(&self) -> Result<Dialect> {
        Dialect::new(&self.field_delim, self.use_quote_delim)
    }
    fn reading(&self, header: bool, names: Option<Arc<[String]>>) -> Result<Reading> {
        let dialect = self.dialect()?;
        Ok(Reading {
            compression: Compression::parse(&self.compression_type)?,
            buffer: block_bytes(self.buffer_size)?,
            parts: 1,
            places: true,
            reader: Box::new(move |_| {
                let rows = Rows::new(dialect, header).named(names.clone());
                Ok(Box::new(rows.max_bytes(longest(MAX_RECORD_BYTES))))
            }),
        })
    }
    fn learned(&self) -> Result<&Learned> {
        self.learned.get_or_init(|| self.learn()).as_ref().map_err(Clone::clone)
    }
    fn columns(&self) -> Result<&[CsvColumn]> {
        match &self.columns {
            Some(columns) => Ok(columns),
            None => self.learned().map(|learned| &learned.columns[..]),
        }
    }
    /// The header that every file must have, where names were taken from that of the first.
    fn header_names(&self) -> Result<Option<Arc<[String]>>> {
        match (&self.header_names, &self.columns) {
            (Some(names), _) => Ok(Some(names[..].into())),
            (None, Some(_)) => Ok(None),
            (None, None) => Ok(self.learned()?.header.clone()),
        }
    }
    fn schema(&self) -> Result<Schema> {
        let mut schema = schema(self.dialect()?, self.columns()?, self.select_cols.as_deref(), &self.na_value)?;
        if let Some(exclude) = &self.exclude_cols {
            schema = schema.without(exclude)?;
        }
        Ok(if self.exact { schema.exact() } else { schema })
    }
    /// Names from the header or as given, dtypes from the first rows.
    fn learn(&self) -> Result<Learned> {
        let files =
            self.files.known().ok_or_else(|| Error::usage("columns cannot be learned from unknown files"))??;
        let dialect = self.dialect()?;
        let names: Vec<String> = match (&self.names, self.header) {
            (Some(names), _) => names.clone(),
            (None, false) => {
                return Err(Error::usage("the files have no header, so names for the columns must be given"));
            }
            (None, true) => {
                let Some(first) = first_records(&files, &self.reading(false, None)?, 1)?.pop() else {
                    return Err(Error::usage(format!("{} is empty: there is no header", self.files.show())));
                };
                header_names(&first.bytes, dialect).map_err(|e| first.locate(e))?
            }
        };
        let header: Option<Arc<[String]>> = self.names.is_none().then(|| names[..].into());
        if let Some(twice) = names.iter().enumerate().find(|(i, n)| names[..*i].contains(n)) {
            return Err(Error::usage(format!("two columns have the name {:?}", twice.1)));
        }
        let count = if self.infer_rows == 0 { usize::MAX } else { self.infer_rows };
        let mut found = Inference::new(names.len());
        for record in first_records(&files, &self.reading(self.header, header.clone())?, count)? {
            let row = texts(&record.bytes, dialect).map_err(|e| record.locate(e))?;
            found.row(&row, self.na_value.as_bytes()).map_err(|e| {
                let text = format!("{}, in a record that dtypes are learned from", e.message());
                record.locate(Error::usage(text))
            })?;
        }
        let all = inferred(names, &found.types());
        let columns = match &self.select_cols {
            None => all,
            Some(select) => select
                .iter()
                .map(|i| usize::try_from(*i).ok().and_then(|i| all.get(i)).cloned())
                .collect::<Option<_>>()
                .ok_or_else(|| {
                    Error::usage(format!("select_cols is {select:?}, and there are {} columns", all.len()))
                })?,
        };
        Ok(Learned { columns, header })
    }
}

impl Op for Csv {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, _: &[Plan]) -> Result<Spec> {
        self.files.check()?;
        self.reading(self.header, None)?;
        self.schema()?;
        let columns = self.columns()?;
        let leaf = |c: &CsvColumn| Tree::Leaf(Leaf::scalar(c.dtype));
        if !self.as_dict {
            return Ok(Tree::tuple(columns.iter().map(leaf).collect()));
        }
        let mut fields: Vec<(Arc<str>, Spec)> = Vec::new();
        for column in columns {
            if fields.iter().any(|(name, _)| **name == *column.name) {
                return Err(Error::usage(format!("two columns have the name {:?}", column.name)));
            }
            fields.push((column.name.as_str().into(), leaf(column)));
        }
        Ok(Tree::Map { tag: None, items: fields })
    }
    fn cardinality(&self, _: &[Plan]) -> Card {
        Card::Unknown
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        let files = self.files.get(cx)?;
        let places = Places(files.clone().into());
        let head = RecordFiles::new(files, self.reading(self.header, self.header_names()?)?).traced(cx, node);
        Ok(cx.open(node, Box::new(head), Arc::new(ParseRows { schema: self.schema()?, places })))
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
        if self.columns.is_none() {
            json["columns"] = serde_json::to_value(self.columns()?)?;
            json["header_names"] = serde_json::to_value(self.header_names()?.as_deref())?;
        }
        Ok(json)
    }
    fn show(&self) -> String {
        format!("{}, {} columns", self.files.show(), self.columns().map_or(0, <[_]>::len))
    }
}

/// Records to cells. A record that cannot be read is an error in its place.
struct ParseRows {
    schema: Schema,
    places: Places,
}

impl ChunkFn for ParseRows {
    fn run(&self, chunk: Chunk, out: &mut Vec<Item>) {
        let [Column::Dense(records), places] = chunk.columns() else {
            return out.push(Item::Fail(Error::internal("records without their places")));
        };
        let (columns, failed) = parse(&self.schema, records);
        let failed = failed.into_iter().map(|(row, error)| {
            let error = self.places.locate(error, places, row);
            (row, error.at_element(chunk.pos.at(row)).in_op(INFO.name))
        });
        put_with_failures(columns.into_iter().map(Column::Dense).collect(), failed.collect(), &chunk, out);
    }
    fn repeats(&self) -> bool {
        true
    }
}

/// The rows of a chunk that are left, with an error in the place of each that is not.
pub(super) fn put_with_failures(columns: Vec<Column>, failed: Vec<(usize, Error)>, from: &Chunk, out: &mut Vec<Item>) {
    let rows = from.rows() - failed.len();
    if failed.is_empty() {
        return out.push(Item::Rows(Chunk::new(rows, from.pos.clone(), columns)));
    }
    let mut bad = failed.iter().map(|(row, _)| *row).peekable();
    let left: Vec<usize> = (0..from.rows()).filter(|row| bad.next_if_eq(row).is_none()).collect();
    let all = Chunk::new(rows, from.pos.take(&left), columns);
    let mut done = 0;
    for (nth, (row, error)) in failed.into_iter().enumerate() {
        // So many rows before this one were left.
        let until = row - nth;
        if until > done {
            out.push(Item::Rows(all.slice(done..until)));
        }
        done = until;
        out.push(Item::Fail(error));
    }
    if rows > done {
        out.push(Item::Rows(all.slice(done..rows)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{in_chunks, source};
    use serde_json::json;

    fn file(dir: &tempfile::TempDir, name: &str, text: &str) -> String {
        let path = dir.path().join(name);
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
    fn a_bad_row_is_an_error_in_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let name = file(&dir, "a.csv", "n,t\n1,a\nx,b\n3,\"c\nd\"\n4\n5,e\n");
        let params = json!({
            "files": Files::new(&[&name]),
            "columns": [{"name": "n", "dtype": "int32"}, {"name": "t", "dtype": "string"}],
            "header": true,
        });
        let ds = source("csv", params).unwrap();
        for rows in [1, 2, 100] {
            let all = events(&in_chunks(&ds, rows));
            assert_eq!((&*all[0], &*all[2]), ("int32[] [1] string[] [\"a\"]", "int32[] [3] string[] [\"c\\nd\"]"));
            assert!(all[1].contains("field 0 (\"n\") is \"x\"") && all[1].contains("a.csv at byte 8"), "{}", all[1]);
            assert!(all[1].contains(", record 1, element 1)"), "{}", all[1]);
            assert!(all[3].contains("has 1 fields, 2 are expected") && all[3].contains("byte 20"), "{}", all[3]);
            assert_eq!(all.len(), 5);
        }
    }

    #[test]
    fn files_with_another_header_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let same = file(&dir, "a.csv", "age,height\n1,170\n");
        let other = file(&dir, "b.csv", "height,age\n180,2\n");
        let last = file(&dir, "c.csv", "\u{feff}\"age\",height\n3,190\n");
        let rows = |ds: &Dataset| events(ds).into_iter().map(|e| e.replace("int32[] ", "")).collect::<Vec<_>>();
        let ok = Dataset::csv(&[&same, &last]).unwrap();
        assert_eq!(rows(&ok), ["[1] [170]", "[3] [190]"]);
        // Dtypes are learned from the first rows: here of both files.
        let said = Dataset::csv(&[&same, &other]).unwrap_err().to_string();
        for part in [r#"["height", "age"]"#, r#"["age", "height"]"#, "b.csv"] {
            assert!(said.contains(part), "{said}");
        }
        // Here the second is only met when it is read, and nothing of it comes out, whatever is left out.
        let learned = |n: usize, files: &[&String]| {
            source("csv", json!({ "files": Files::new(files), "header": true, "infer_rows": n, "as_dict": true }))
                .unwrap()
        };
        let ds = learned(1, &[&same, &other, &last]);
        let (json, _) = crate::plan::write_plan(ds.plan()).unwrap();
        let again = Dataset::from_plan(crate::plan::read_plan(&json, vec![]).unwrap());
        for ds in [&ds, &again, &ds.ignore_errors(false).unwrap()] {
            let all = rows(ds);
            assert!(all.len() == 2 && all[0] == "[1] [170]" && all[1].contains("b.csv at byte 0"), "{all:?}");
        }
        // Without learned names there is nothing to compare.
        let columns = json!([{"name": "", "dtype": "int32"}, {"name": "", "dtype": "int32"}]);
        let given = json!({ "files": Files::new(&[&same, &other]), "columns": columns, "header": true });
        assert_eq!(rows(&source("csv", given).unwrap()), ["[1] [170]", "[180] [2]"]);
    }

    #[test]
    fn columns_are_learned_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let name = file(&dir, "a.csv", "\u{feff}a,b,c\n1,2.5,x\n,,\n");
        let ds = Dataset::csv(&[&name]).unwrap();
        assert_eq!(ds.spec().to_string(), Dataset::csv(&[&name]).unwrap().spec().to_string());
        assert_eq!(ds.spec().paths(), Dataset::csv(&[&name]).unwrap().spec().paths());
        assert_eq!(events(&ds)[1], "int32[] [0] float32[] [0.0] string[] [\"\"]");
        let (json, _) = crate::plan::write_plan(ds.plan()).unwrap();
        std::fs::remove_file(&name).unwrap();
        assert_eq!(&crate::plan::read_plan(&json, vec![]).unwrap().spec, ds.spec());
        for (text, why) in [("", "no header"), ("a,a\n1,2\n", "two columns"), ("a,b\n1,2\n3\n", "has 1 fields")] {
            let name = file(&dir, "bad.csv", text);
            let said = Dataset::csv(&[&name]).unwrap_err().to_string();
            assert!(said.contains(why), "{said}");
        }
    }
}
