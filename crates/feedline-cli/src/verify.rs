//! `feedline verify FILE…`: all checksums, and whether everything fits together.

use crate::file::{File, Inputs, open_each};
use crate::formats::Checked;
use crate::formats::tf_record::{self, Part};
use crate::session::{Session, Unit, bytes, error_json, plural, rate};
use clap::Args;
use feedline::{Error, Kind, Result};
use serde_json::{Value as Json, json};
use std::ops::Range;
use std::time::Instant;

/// Check all checksums and the structure of files, and list what is broken
///
/// Every record of every file is read. In TFRecord files reading goes on behind damage at the next record that is whole;
/// what is lost is counted. Exit code 1 if anything is broken.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  feedline verify train-00000.tfrecord
  feedline verify data/ 's3://bucket/train/*.tar'
  feedline verify --json data/ | jq '.files[] | select(.broken > 0) | .file'

What is checked:
  tfrecord       the checksums of lengths and data; that the file ends with a record
  gzip, zstd     their own checksums, too
  tar            the checksums of headers; that all members are there, and the mark at the end (contents have no
                 checksums); records are samples, of a member or several each
  csv            quotes, and that all rows have as many fields as the first
  jsonl          that each line is a JSON object in UTF-8
  parquet, arrow, npy    that everything can be read; checksums of pages and of arrays in .npz files")]
pub struct Verify {
    #[command(flatten)]
    inputs: Inputs,
}

enum Job {
    Whole(usize),
    Part(usize, Range<u64>),
}

enum Done {
    Whole(Result<Checked>),
    Part(Range<u64>, Result<Option<Part>>),
}

impl Verify {
    pub fn run(self, session: &Session<'_>) -> Result<bool> {
        let files = open_each(session, &self.inputs)?;
        let start = Instant::now();
        let checked = check_all(session, &files)?;
        let took = start.elapsed();

        let (mut fine, mut broken_files, mut records, mut total) = (true, 0, 0, 0);
        let mut listed = Vec::new();
        for ((name, file), checked) in files.iter().zip(checked) {
            if let Err(error) = &checked
                && error.kind() == Kind::Cancelled
            {
                return Err(error.clone());
            }
            let is_broken = checked.as_ref().map_or(true, |c| c.broken > 0);
            fine &= !is_broken;
            broken_files += u64::from(is_broken);
            records += checked.as_ref().map_or(0, |c| c.records);
            total += file.as_ref().map_or(0, |f| f.stat.len);
            match session.json {
                true => listed.push(as_json(name, file, &checked)),
                false => as_text(session, name, file, &checked)?,
            }
        }
        let speed = rate(total, took);
        if session.json {
            session.document(&json!({
                "files": listed, "broken_files": broken_files, "records": records, "bytes": total,
                "seconds": took.as_secs_f64(), "gb_per_second": speed,
            }))?;
        } else {
            session.line(format!(
                "{}, {broken_files} broken; {}; {} in {:.2} s, {speed:.2} GB/s",
                plural(files.len() as u64, "file"),
                plural(records, "record"),
                bytes(total),
                took.as_secs_f64()
            ))?;
        }
        Ok(fine)
    }
}

/// Files side by side, and parts of large ones.
fn check_all(session: &Session<'_>, files: &[(String, Result<File>)]) -> Result<Vec<Result<Checked>>> {
    let mut jobs = Vec::new();
    for (at, (_, file)) in files.iter().enumerate() {
        let parts = file.as_ref().map_or(vec![], tf_record::parts);
        match parts.is_empty() {
            true => jobs.push(Job::Whole(at)),
            false => jobs.extend(parts.into_iter().map(|range| Job::Part(at, range))),
        }
    }
    let total = files.iter().filter_map(|(_, f)| f.as_ref().ok()).map(|f| f.stat.len).sum();
    let watch = session.watch("checking", total, Unit::Bytes);
    let opened = |at: usize| files[at].1.as_ref().map_err(Error::clone);
    let done = session.each(&jobs, |job| match job {
        Job::Whole(at) => Done::Whole(opened(*at).and_then(|file| (file.format.check)(file, &watch))),
        Job::Part(at, range) => {
            Done::Part(range.clone(), opened(*at).and_then(|file| Part::read(file, range.clone(), &watch)))
        }
    });
    let mut whole: Vec<Option<Result<Checked>>> = files.iter().map(|_| None).collect();
    let mut parts: Vec<Vec<(Range<u64>, Option<Part>)>> = files.iter().map(|_| vec![]).collect();
    for (job, done) in jobs.iter().zip(done) {
        let (Job::Whole(at) | Job::Part(at, _)) = job;
        match done {
            Done::Whole(checked) => whole[*at] = Some(checked),
            Done::Part(range, Ok(part)) => parts[*at].push((range, part)),
            Done::Part(_, Err(error)) => whole[*at] = Some(Err(error)),
        }
    }
    // Putting parts together reads again what is damaged.
    let joins: Vec<usize> = (0..files.len()).filter(|at| whole[*at].is_none()).collect();
    let joined = session.each(&joins, |at| opened(*at).and_then(|file| tf_record::join(file, &parts[*at], &watch)));
    for (at, checked) in joins.into_iter().zip(joined) {
        whole[at] = Some(checked);
    }
    watch.finish();
    session.go_on()?;
    Ok(whole.into_iter().map(|checked| checked.expect("each file was checked")).collect())
}

fn as_json(name: &str, file: &Result<File>, checked: &Result<Checked>) -> Json {
    let (format, size) = file.as_ref().map_or((None, None), |f| (Some(f.format.name), Some(f.stat.len)));
    match checked {
        Err(error) => {
            json!({ "file": name, "format": format, "bytes": size, "broken": 1, "error": error_json(error) })
        }
        Ok(checked) => {
            let damage = checked.damage.iter().map(|d| {
                json!({ "record": d.record, "byte": d.error.at().byte, "lost_bytes": d.lost_bytes,
                        "message": d.error.message() })
            });
            let mut json = json!({ "file": name, "format": format, "bytes": size, "records": checked.records });
            if let Some(members) = checked.members {
                json["members"] = members.into();
            }
            json["broken"] = checked.broken.into();
            json["lost_bytes"] = checked.lost_bytes.into();
            json["damage"] = damage.collect();
            json
        }
    }
}

fn as_text(session: &Session<'_>, name: &str, file: &Result<File>, checked: &Result<Checked>) -> Result<()> {
    let format = file.as_ref().map_or("?", |f| f.format.name);
    let checked = match checked {
        Err(error) => return session.line(format!("broken  {name}: {}", error.message())),
        Ok(checked) => checked,
    };
    let records = match checked.members {
        None => plural(checked.records, "record"),
        Some(members) => format!("{}, {}", plural(checked.records, "sample"), plural(members, "member")),
    };
    if checked.broken == 0 {
        return session.line(format!("ok      {name}  {format}, {records}"));
    }
    session.line(format!(
        "broken  {name}  {format}, {} broken, {} lost, {records} whole",
        plural(checked.broken, "place"),
        bytes(checked.lost_bytes)
    ))?;
    for damage in &checked.damage {
        let at = match (damage.error.at().byte, damage.error.at().record) {
            (Some(byte), Some(record)) => format!("at byte {byte}, record {record}: "),
            (Some(byte), None) => format!("at byte {byte}: "),
            (None, _) => String::new(),
        };
        let lost = match damage.lost_bytes {
            0 => String::new(),
            lost => format!("; {} lost", plural(lost, "byte")),
        };
        session.line(format!("        {at}{}{lost}", damage.error.message()))?;
    }
    let more = checked.broken - checked.damage.len() as u64;
    if more > 0 {
        session.line(format!("        and {more} more"))?;
    }
    Ok(())
}
