//! `feedline index FILE…`: side indexes, which make the records of TFRecord and tar files reachable by number.

use crate::file::{File, Inputs, open_all};
use crate::formats::Indexed;
use crate::session::{Session, Unit, Watch, bytes, plural, rate};
use clap::Args;
use feedline::{Error, Result};
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;

/// Make or refresh the indexes of TFRecord and tar files
///
/// An index says where each record, or each sample, lies: shuffling over everything, len() and skip() then cost nothing. It is kept
/// beside the file (NAME.flidx), or in the cache folder where that cannot be written, and is made anew when the file
/// changes. feedline makes one by itself when it is needed; this does it ahead of time.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  feedline index data/*.tfrecord
  feedline index s3://bucket/train-*.tar
  feedline index --force data/         also where an index is still right

FEEDLINE_INDEX_DIR names another cache folder. Compressed files have no places to jump to: `feedline convert` unpacks
them. Formats with an index of their own (Parquet, Arrow, NumPy) need none.")]
pub struct Index {
    #[command(flatten)]
    inputs: Inputs,
    /// Make indexes anew that are still right
    #[arg(long)]
    force: bool,
}

/// What became of a file.
struct Made {
    records: u64,
    place: PathBuf,
    is_new: bool,
}

impl Index {
    pub fn run(self, session: &Session<'_>) -> Result<bool> {
        let (files, others): (Vec<File>, Vec<File>) =
            open_all(session, &self.inputs)?.into_iter().partition(|f| f.format.index.is_some());
        let (files, packed): (Vec<File>, Vec<File>) = files.into_iter().partition(File::is_plain);
        if !others.is_empty() {
            session.remark(format!(
                "left out: {} of formats that need no such index",
                plural(others.len() as u64, "file")
            ));
        }
        for file in &packed {
            session.remark(format!("left out: {} is compressed; `feedline convert` unpacks it", file.name));
        }
        let total: u64 = files.iter().map(|f| f.stat.len).sum();
        let watch = session.watch("indexing", total, Unit::Bytes);
        let start = Instant::now();
        let made = session.each(&files, |file| self.one(file, &watch));
        let took = start.elapsed();
        watch.finish();
        session.go_on()?;

        let (mut fine, mut records, mut scanned, mut listed) = (true, 0, 0, Vec::new());
        for (file, made) in files.iter().zip(made) {
            let name = &file.name;
            match made {
                Ok(Made { records: n, place, is_new }) => {
                    records += n;
                    scanned += if is_new { file.stat.len } else { 0 };
                    let state = if is_new { "made" } else { "kept" };
                    let place = place.display().to_string();
                    match session.json {
                        true => listed.push(json!({ "file": name, "records": n, "index": place, "state": state })),
                        false => session.line(format!("{state}  {name}  {}  {place}", plural(n, "record")))?,
                    }
                }
                Err(error) => {
                    fine = false;
                    let error = error.in_file(name, None);
                    match session.json {
                        true => listed.push(json!({ "file": name, "error": crate::session::error_json(&error) })),
                        false => session.line(format!("broken  {error}"))?,
                    }
                }
            }
        }
        let speed = rate(scanned, took);
        if session.json {
            session.document(&json!({ "files": listed, "records": records, "bytes": scanned,
                "seconds": took.as_secs_f64(), "gb_per_second": speed }))?;
        } else {
            session.line(format!(
                "{}; {} in {:.2} s, {speed:.2} GB/s",
                plural(records, "record"),
                bytes(scanned),
                took.as_secs_f64()
            ))?;
        }
        Ok(fine)
    }

    fn one(&self, file: &File, watch: &Watch<'_>) -> Result<Made> {
        let Some(Indexed { kept, make }) = &file.format.index else {
            return Err(Error::internal("a format without an index"));
        };
        if !self.force
            && let Some((records, place)) = kept(file)
        {
            watch.done(file.stat.len)?;
            return Ok(Made { records, place, is_new: false });
        }
        let (records, place) = make(file, watch)?;
        Ok(Made { records, place, is_new: true })
    }
}
