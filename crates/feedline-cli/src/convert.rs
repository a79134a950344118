//! `feedline convert IN… OUT`: from any format to any other.

use crate::examples::{self, Schema};
use crate::file::{File, Inputs, Reading, open_all};
use crate::formats::{self, Format, Kind, Writing, table};
use crate::rows::{self, Base64, Records, SEEN_RECORDS};
use crate::session::{Session, Unit, Watch, bytes, plural, rate};
use crate::wanted::{Columns, Fill, Wanted, in_our_words};
use clap::{Args, ValueEnum};
use feedline::element::{Tree, Value};
use feedline::plan::Bound;
use feedline::save::{self, Target};
use feedline::{Dataset, Error, Result};
use feedline_formats::compress::Compression;
use serde_json::json;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// Convert files to another format, other shards, another compression
///
/// The format of OUT is told by its ending. Rows become tf.train.Examples in TFRecord files; Examples become rows by their
/// schema, which is learned from the first 100 records, or given; a feature that none of these had is refused, and so are fields
/// of JSON lines that come too late for --infer, and fields that the first sample of a tar file does not have. Columns of
/// text are numbers (int64, float64, in JSON lines uint64 too) if all of their rows are, and come back as they were written:
/// 007 stays text, and whole numbers that no type holds are refused. Nulls and empty numbers are refused, unless --fill says
/// what stands for them. Shards are encoded and compressed side by side on all cores. Files appear under their names when all
/// of them are whole: a run that breaks off leaves none.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  feedline convert train.csv train.tfrecord
  feedline convert data/*.tfrecord train.parquet
  feedline convert old.tfrecord new.tfrecord.gz --shards 8        new-00000-of-00008.tfrecord.gz, …
  feedline convert a.tfrecord a.jsonl --base64 image
  feedline convert a.tfrecord a.csv --schema 'label: int64, x: float32[4]'
  feedline convert a.parquet a.csv --columns id,age --fill age=-1

Types: an Example stores int64, float32 and strings; other whole numbers and truth values become int64, other floats
float32. Rows get a __key__ (their number) in tar files, where numbers are text. Rows of CSV files are scalars.
A file .npy has one array, a file .npz any number of them. Columns of instants, dates, times and decimals stay what they
are from Parquet and Arrow to Parquet and Arrow; in other formats, and inside of lists and structures, they are plain
numbers in the type's unit, which is remarked. Decimals of more than 15 digits are refused, since float64 would change
them; --columns leaves them out.")]
pub struct Convert {
    /// Files, folders or patterns to read, then the file to write
    #[arg(required = true, num_args = 2.., value_names = ["IN", "OUT"])]
    files: Vec<String>,
    #[command(flatten)]
    reading: Reading,
    /// The format to write, where the name of OUT does not tell
    #[arg(long, value_name = "FORMAT", value_parser = formats::names())]
    to: Option<String>,
    /// Deal rows out to so many files, NAME-00000-of-0000N.ENDING
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99_999))]
    shards: Option<u32>,
    /// How the files are compressed, or the pages in them (Parquet, Arrow); default: as the ending of OUT says (.gz,
    /// .zz, .zst), for Parquet snappy
    #[arg(long, value_name = "KIND")]
    compression: Option<Packing>,
    /// Replace files that exist already
    #[arg(long)]
    overwrite: bool,
    /// The features of Examples to read, "name: type, …" or a JSON object; types are int64, float32, string, with [4] or
    /// [] behind for lists
    #[arg(long, value_name = "SCHEMA")]
    schema: Option<String>,
    #[command(flatten)]
    columns: Columns,
    /// What stands for nulls, empty numbers and missing fields: COLUMN=VALUE, or VALUE for every column that it fits
    #[arg(long, value_name = "[COLUMN=]VALUE", allow_hyphen_values = true)]
    fill: Vec<String>,
    /// Learn the schema of Examples, or the types of text, from so many records; 0: from all, which reads the files
    /// twice. Default: 100 for Examples and for text from far away, all for text on this machine
    #[arg(long, value_name = "N")]
    infer: Option<usize>,
    /// Fields of bytes that are no text, in Parquet and Arrow files; default: those that the first rows show to be so
    #[arg(long, value_name = "FIELD", value_delimiter = ',')]
    binary: Vec<String>,
    /// Fields of bytes that are base64 in text (CSV, JSON lines): encoded on the way there, decoded on the way back
    #[arg(long, value_name = "FIELD", value_delimiter = ',')]
    base64: Vec<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Packing {
    None,
    Gzip,
    Zlib,
    Zstd,
}

impl Packing {
    fn compression(self) -> Compression {
        match self {
            Packing::None => Compression::None,
            Packing::Gzip => Compression::Gzip,
            Packing::Zlib => Compression::Zlib,
            Packing::Zstd => Compression::Zstd,
        }
    }
}

/// What is known before anything is written.
struct Looked {
    /// What the files have.
    source: Dataset,
    /// What is written.
    rows: Dataset,
    remarks: Vec<String>,
    /// About how many rows there are.
    about: u64,
    binary: Vec<String>,
    /// Types of columns that rows do not have, and OUT has again.
    types: BTreeMap<String, String>,
}

impl Convert {
    pub fn run(mut self, session: &Session<'_>) -> Result<bool> {
        let out = self.files.pop().ok_or_else(|| Error::usage("there is no file to write"))?;
        let to = self.format_of(&out)?;
        to.writes()?;
        let schema = self.schema.as_deref().map(Schema::parse).transpose()?;
        let fill = Fill::parse(&self.fill)?;
        let target = Target { path: out.clone(), shards: self.shards.map(|n| n as usize), overwrite: self.overwrite };
        self.check_names(&target)?;

        let inputs = Inputs { files: std::mem::take(&mut self.files), reading: self.reading.clone() };
        let files = open_all(session, &inputs)?;
        let watch = session.watch("looking", 0, Unit::Bytes);
        let looked: Result<Looked> = session.aside(|| {
            let (columns, infer) = (&self.columns.columns, self.infer);
            let wanted =
                Wanted { columns, fill: &fill, infer, strict: true, watch: &watch, remarks: RefCell::default() };
            let source = rows::dataset(&files, &wanted)?;
            let (rows, mut remarks) = self.rows(source.clone(), &files, to, schema.as_ref(), &wanted)?;
            remarks.extend(wanted.remarks.take());
            let (types, lost) = table::types(&files, to, &wanted)?;
            remarks.extend(lost);
            let about = rows::estimate(&files, &rows, &watch)?;
            let binary = match (to.kind, self.binary.is_empty()) {
                (Kind::Table, true) => rows::binary(&rows, &watch)?,
                _ => self.binary.clone(),
            };
            Ok(Looked { source, rows, remarks, about, binary, types })
        });
        watch.finish();
        let Looked { source, rows, remarks, about, binary, types } = looked.map_err(|e| self.explained(e))?;
        let compression = self.compression.map(Packing::compression);
        let writing = Writing { name: &out, compression, binary: &binary, types: &types };
        let open = save::format(to.writer, &(to.options)(&writing)?)?;
        remarks.iter().for_each(|remark| session.remark(remark));

        let watch = session.watch("converting", about, Unit::Rows);
        let start = Instant::now();
        let bound = Bound { plan: rows.plan().clone(), env: Arc::new([]) };
        let saved = save::save(&bound, &target, &*open, &mut |progress| {
            watch.set_done(progress.elements);
            session.go_on()
        });
        watch.finish();
        let saved = saved.map_err(|e| {
            let watch = session.watch("looking", 0, Unit::Bytes);
            let located = session.aside(|| located(e.clone(), &source, &watch));
            watch.finish();
            self.explained(located)
        })?;
        let read: u64 = files.iter().map(|f| f.stat.len).sum();
        let took = start.elapsed();
        if session.json {
            session.document(&json!({
                "files": saved.files, "format": to.name, "records": saved.elements, "bytes": saved.bytes,
                "read_bytes": read, "seconds": took.as_secs_f64(),
            }))?;
        } else {
            for file in &saved.files {
                session.line(file)?;
            }
            session.remark(format!(
                "{} in {}, {}; {} read in {:.2} s, {:.2} GB/s",
                plural(saved.elements, "record"),
                plural(saved.files.len() as u64, "file"),
                bytes(saved.bytes),
                bytes(read),
                took.as_secs_f64(),
                rate(read, took)
            ));
        }
        Ok(true)
    }

    fn format_of(&self, out: &str) -> Result<&'static Format> {
        if out == "-" {
            feedline::bail!(Usage, "files are written under a name, when they are whole; standard output (-) has none");
        }
        if out.ends_with('/') || std::path::Path::new(out).is_dir() {
            feedline::bail!(Usage, "{out} is a folder; name the file to write in it, with --shards for several");
        }
        match &self.to {
            Some(name) => formats::find(name),
            None => formats::by_name(out).ok_or_else(|| {
                Error::usage(format!("the name {out} does not say in which format to write; --to FORMAT does"))
            }),
        }
    }

    /// Refuses names that are taken, before anything is read.
    fn check_names(&self, target: &Target) -> Result<()> {
        if self.overwrite {
            return Ok(());
        }
        match target.names()?.into_iter().find(|name| feedline_io::exists(name).unwrap_or(false)) {
            Some(taken) => Err(Error::usage(format!("{taken} exists already; --overwrite replaces it"))),
            None => Ok(()),
        }
    }

    /// The rows as the other format wants them, and what is not the same in them.
    fn rows(
        &self,
        source: Dataset,
        files: &[File],
        to: &Format,
        schema: Option<&Schema>,
        wanted: &Wanted<'_>,
    ) -> Result<(Dataset, Vec<String>)> {
        let from = files[0].format;
        let mut rows = source;
        let is_whole = schema.is_none() && wanted.columns.is_empty();
        if from.kind == Kind::Records && to.kind == Kind::Records && is_whole {
            return Ok((rows, vec![]));
        }
        if from.kind == Kind::Records {
            let learned = match schema {
                Some(schema) => Records::Examples(schema.clone()),
                None => rows::look(files, self.infer.unwrap_or(SEEN_RECORDS), wanted.watch)?,
            };
            // Nothing is left out that nobody asked to be.
            if let (Records::Examples(schema), true) = (&learned, is_whole && self.infer != Some(0)) {
                rows = examples::only_known(&rows, schema)?;
            }
            rows = match learned {
                Records::Examples(schema) => rows::only(&examples::parse(&rows, &schema)?, wanted.columns)?,
                Records::Bytes => rows::only(&rows::as_rows(&rows, "record")?, wanted.columns)?,
            };
        } else if schema.is_some() {
            feedline::bail!(Usage, "--schema is for Examples, and {} is {}", files[0].name, from.name);
        }
        // An array has no name in its file; in files of columns it needs one.
        if matches!(rows.spec(), Tree::Leaf(_)) && !std::ptr::eq(from, to) {
            rows = rows::as_rows(&rows, "value")?;
        }
        let is_text = |format: &Format| format.kind == Kind::Text;
        if !self.base64.is_empty() && is_text(from) != is_text(to) {
            let way = if is_text(to) { Base64::Encode } else { Base64::Decode };
            rows = rows::with_base64(&rows, &self.base64, way)?;
        }
        (to.prepare)(rows)
    }

    /// An error in words of the command line.
    fn explained(&self, error: Error) -> Error {
        if let Some(text) = in_our_words(&error) {
            return error.reworded(|_| text);
        }
        let hint = match error.message() {
            text if text.contains("UTF-8") => {
                "--base64 FIELD encodes a field of bytes in text, --binary FIELD keeps them in Parquet and Arrow"
            }
            text if self.schema.is_none() && text.contains("feature") => {
                "if the first records are not like the others: --infer 0 learns from all, --schema says what to read"
            }
            text if text.contains("those before it have not") => {
                "--infer 0 learns from all, --columns NAME,… says which fields are read"
            }
            text if text.contains("and the first has not") => "--columns NAME,… says which fields are read",
            text if text.contains("an .npy file has one array") => "--columns NAME picks one",
            text if text.contains("would not stay so") || text.contains(", not an int64") => {
                "if the first rows are not like the others: --infer 0 learns from all"
            }
            _ => return error,
        };
        error.reworded(|said| format!("{said}; {hint}"))
    }
}

/// An error of what is done to rows with the place of the row, which only the reader knows: it is asked again.
fn located(error: Error, source: &Dataset, watch: &Watch<'_>) -> Error {
    let at = error.at();
    let (None, Some(element)) = (&at.file, at.element) else { return error };
    let row = i64::try_from(element).map_err(|_| Error::internal("beyond all rows"));
    let row = row.and_then(|row| source.skip(row)?.take(1)?.with_origin());
    let Ok((found, _)) = row.and_then(|row| rows::first(&row, 1, watch)) else { return error };
    // The origin's components stand behind those of the row.
    let Some([file, record, byte, _]) = found.first().and_then(|row| row.last_chunk()) else { return error };
    let number = |value: &Value| u64::try_from(value.tensor().item::<i64>()).ok();
    let file = String::from_utf8_lossy(file.tensor().str_at(0)).into_owned();
    if file.is_empty() {
        return error;
    }
    let error = number(record).into_iter().fold(error, Error::at_record);
    number(byte).into_iter().fold(error, Error::at_byte).in_file(&file, None)
}
