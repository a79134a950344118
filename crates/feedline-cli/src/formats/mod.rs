//! The table of formats: how a file is recognised, read, checked, counted and written. A format is a file here and its
//! line in `FORMATS`.

pub mod checked;
#[cfg(feature = "columnar")]
mod columnar;
mod csv;
mod csv_columns;
mod json_lines;
mod json_schema;
#[cfg(feature = "columnar")]
mod logical;
mod records;
pub mod table;
pub mod tar;
pub mod tf_record;

pub use checked::Checked;
pub use records::{count_records, each_record, first_records, is_damage, sample};

use crate::file::File;
use crate::session::Watch;
use crate::show::Limit;
use crate::wanted::Wanted;
use clap::builder::PossibleValuesParser;
use feedline::element::{Packed, Tensor};
use feedline::{Dataset, Error, Result, ops, save};
use feedline_formats::compress::Compression;
use feedline_formats::records::Records;
use feedline_formats::side_index::SideIndex;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

pub struct Format {
    pub name: &'static str,
    /// In a few words.
    pub about: &'static str,
    pub endings: &'static [&'static str],
    /// Whether the contents of a file begin like this format.
    pub likely: fn(&[u8]) -> Likely,
    /// The operator that reads it, and its parameters for some files.
    pub op: &'static str,
    pub params: fn(&[File], &Wanted<'_>) -> Result<Json>,
    /// What `feedline::save` calls it, and its options.
    pub writer: &'static str,
    pub options: fn(&Writing<'_>) -> Result<Json>,
    /// The reader of one file's records, for formats that are a row of records.
    pub reader: Option<MakeReader>,
    pub check: fn(&File, &Watch<'_>) -> Result<Checked>,
    /// How many rows a file has.
    pub count: fn(&File, &Watch<'_>) -> Result<u64>,
    /// For formats whose records are found with an index beside the file.
    pub index: Option<Indexed>,
    pub kind: Kind,
    /// Some rows as they stand in the file, nulls and all, for formats that have what elements have not.
    pub show: Option<Show>,
    /// Makes rows into what can be written, and tells what is not the same in them.
    pub prepare: fn(Dataset) -> Result<(Dataset, Vec<String>)>,
}

/// The side indexes of plain files of a format: of how many records one is, and where it lies.
pub struct Indexed {
    /// The one that is there, if it is still right.
    pub kept: fn(&File) -> Option<(u64, PathBuf)>,
    /// Makes one, and keeps it.
    pub make: fn(&File, &Watch<'_>) -> Result<(u64, PathBuf)>,
}

impl Indexed {
    const fn new<I: Scan>() -> Indexed {
        Indexed {
            kept: |file| I::kept(&file.source, &file.stat).map(|(index, place)| (index.records(), place)),
            make: |file, watch| {
                let index = I::scan_file(file, watch)?;
                Ok((index.records(), index.keep(&file.source, &file.stat)?))
            },
        }
    }
}

/// An index that is made by going through a file.
pub trait Scan: SideIndex {
    /// `watch` hears how far it is, and its error ends it.
    fn scan(file: &File, watch: &mut dyn FnMut(u64) -> Result<()>) -> Result<Self>;

    fn scan_file(file: &File, watch: &Watch<'_>) -> Result<Self> {
        let mut before = 0;
        let index = Self::scan(file, &mut |at| {
            let more = at.saturating_sub(before);
            before = before.max(at);
            watch.done(more)
        })?;
        watch.done(file.stat.len.saturating_sub(before))?;
        Ok(index)
    }
    /// By the index if there is one; else from header to header.
    fn count(file: &File, watch: &Watch<'_>) -> Result<u64> {
        match Self::kept(&file.source, &file.stat) {
            Some((index, _)) => Ok(index.records()),
            None => Ok(Self::scan_file(file, watch)?.records()),
        }
    }
}

pub type MakeReader = fn(&File) -> Result<Box<dyn Records>>;

/// So many rows behind so many.
pub type Show = fn(&File, Range<usize>, Limit, &Watch<'_>) -> Result<Shown>;

/// Rows for people.
#[derive(Default)]
pub struct Shown {
    pub rows: Vec<Json>,
    /// The first thing that is broken, and how many rows were whole before it.
    pub damage: Option<(usize, Error)>,
}

/// What is asked of files that are written.
pub struct Writing<'a> {
    pub name: &'a str,
    /// As the command line says; `None`: by the name, or what the format likes.
    pub compression: Option<Compression>,
    /// Fields of strings that are no text.
    pub binary: &'a [String],
    /// Columns that had a type which elements have not, and this type, for formats that know it.
    pub types: &'a BTreeMap<String, String>,
}

impl Writing<'_> {
    /// How the file as a whole is compressed.
    fn whole(&self) -> Compression {
        self.compression.unwrap_or_else(|| Compression::of_name(self.name))
    }
}

/// What a format is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Byte strings, which are anything.
    Records,
    /// Rows as text.
    Text,
    /// Rows as files in an archive.
    Members,
    /// Columns, with a schema and the number of rows in the file: none is empty.
    Table,
}

/// Whether a file is of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likely {
    No,
    /// Unless the name says otherwise.
    Maybe,
    /// Whatever the name says.
    Surely,
}

impl From<bool> for Likely {
    fn from(surely: bool) -> Likely {
        if surely { Likely::Surely } else { Likely::No }
    }
}

/// Text formats stand last: their contents tell the least.
pub static FORMATS: &[&Format] = &[
    &table::PARQUET,
    &table::ARROW,
    &table::NUMPY,
    &tf_record::FORMAT,
    &tar::FORMAT,
    &json_lines::FORMAT,
    &csv::FORMAT,
];

/// The names, for the command line.
pub fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(FORMATS.iter().map(|f| clap::builder::PossibleValue::new(f.name).help(f.about)))
}

pub fn find(name: &str) -> Result<&'static Format> {
    let found = FORMATS.iter().copied().find(|f| f.name == name);
    found.ok_or_else(|| Error::usage(format!("there is no format {name:?}")))
}

/// The format by the end of a name.
pub fn by_name(name: &str) -> Option<&'static Format> {
    let ending = ending(name)?;
    FORMATS.iter().copied().find(|f| f.endings.contains(&&*ending))
}

/// The end of a name, in small letters. Endings of compression stand behind, numbers of shards may follow
/// (`train.tfrecord-00001-of-00010`).
fn ending(name: &str) -> Option<String> {
    let name = name.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let mut parts = name.split('.').skip(1).collect::<Vec<_>>();
    if parts.last().is_some_and(|last| Compression::of_name(&format!("x.{last}")) != Compression::None) {
        // A tgz says both.
        parts.iter_mut().for_each(|part| *part = if *part == "tgz" { "tar" } else { part });
        if parts.last() != Some(&"tar") {
            parts.pop();
        }
    }
    let last = parts.last()?;
    Some(last.split_once('-').map_or(*last, |(ending, _)| ending).into())
}

/// By what is in the file, then by its name.
pub fn recognise(name: &str, head: &[u8]) -> Option<&'static Format> {
    let with = |likely: Likely| FORMATS.iter().copied().find(|f| (f.likely)(head) == likely);
    with(Likely::Surely).or_else(|| by_name(name)).or_else(|| with(Likely::Maybe))
}

impl Format {
    /// Refuses what this build cannot read.
    pub fn reads(&self) -> Result<&'static feedline::op::OpInfo> {
        ops::find(self.op).map_err(|_| Error::usage(format!("this build of feedline does not read {}", self.name)))
    }
    /// Refuses what this build cannot write.
    pub fn writes(&self) -> Result<()> {
        match save::FORMATS.iter().any(|f| f.name == self.writer) {
            true => Ok(()),
            false => Err(Error::usage(format!("this build of feedline does not write {}", self.name))),
        }
    }
}

/// Rows that can be written as they are.
fn as_they_are(rows: Dataset) -> Result<(Dataset, Vec<String>)> {
    Ok((rows, vec![]))
}

/// Refuses to fill where there are no nulls.
fn no_fill(files: &[File], wanted: &Wanted<'_>) -> Result<()> {
    match wanted.fill.is_empty() {
        true => Ok(()),
        false => {
            let text =
                format!("--fill is for CSV, JSON lines, Parquet and Arrow, and this is {}", files[0].format.name);
            Err(Error::usage(text).in_file(&files[0].name, None))
        }
    }
}

/// The parameter `files` of the operators that read records.
fn files_param(files: &[File]) -> Result<Json> {
    let names: Vec<&str> = files.iter().map(|f| f.name.as_str()).collect();
    Ok(json!({ "values": serde_json::to_value(Packed::from(Tensor::strings([names.len()], &names)))? }))
}

/// The options of writers that compress whole files.
fn compressed(writing: &Writing<'_>) -> Result<Json> {
    Ok(json!({ "compression_type": writing.whole().name() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_formats() {
        let name = |name| by_name(name).map(|f| f.name);
        assert_eq!(name("a/b.tfrecord"), Some("tfrecord"));
        assert_eq!(name("train.tfrecord-00001-of-00010"), Some("tfrecord"));
        assert_eq!(name("x.y.jsonl.gz"), Some("jsonl"));
        assert_eq!(name("s3://bucket/a.b/X.CSV"), Some("csv"));
        assert_eq!(name("a.tgz"), Some("tar"));
        assert_eq!(name("a.tar.gz"), Some("tar"));
        for other in ["a", "a.gz", "", "csv", "a.b/c", "a.txt"] {
            assert_eq!(name(other), None, "{other}");
        }
    }

    #[test]
    fn contents_go_before_names() {
        let mut record = Vec::new();
        feedline_formats::tfrecord::frame(b"x", &mut record);
        assert_eq!(recognise("a.csv", &record).unwrap().name, "tfrecord");
        assert_eq!(recognise("a", b"PAR1....").unwrap().name, "parquet");
        assert_eq!(recognise("a.txt", b"{\"a\": 1}\n{").unwrap().name, "jsonl");
        assert_eq!(recognise("a", b"a,b\n1,2\n").unwrap().name, "csv");
        assert_eq!(recognise("a.tfrecord", b"a,b\n1,2\n").unwrap().name, "tfrecord");
        assert!(recognise("a", b"\0\x01\x02\xff").is_none());
        assert!(recognise("a", b"").is_none());
    }

    #[test]
    fn every_format_can_be_written_or_says_so() {
        for format in FORMATS {
            let known = save::FORMATS.iter().any(|f| f.name == format.writer);
            assert_eq!(format.writes().is_ok(), known, "{}", format.name);
        }
    }
}
