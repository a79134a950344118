//! `feedline retry FOLDER`: what was quarantined, and whether the files that it came from are still the same.

use crate::session::{Session, plural};
use clap::Args;
use feedline::runtime::{Quarantined, quarantined};
use feedline::{Kind, Result};
use feedline_formats::records::{Copies, Cut, Records};
use feedline_formats::tfrecord::{AfterBad, Options, Reader};
use feedline_io::Blocks;
use serde_json::json;

/// List quarantined elements, and read those of TFRecord files again
///
/// A pipeline with on_error="quarantine" writes the elements that failed to a folder, with their origin and the reason.
/// This lists them. Records that were damaged are read again from the file that they came from. To run elements through
/// the functions of a pipeline again, use fl.retry(folder, dataset) in Python: the functions are there.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  feedline retry bad/
  feedline retry --json bad/ | jq '.elements[].reason'

Exit codes: 0 if no record is damaged any more (or none was), 1 otherwise.")]
pub struct Retry {
    /// The folder that was given as the option quarantine
    folder: String,
}

/// What a record is now.
enum Now {
    Whole,
    Damaged(String),
    /// It was not a record that was damaged, or not one of a TFRecord file.
    NotRead,
}

impl Now {
    fn text(&self) -> String {
        match self {
            Now::Whole => "whole by now".into(),
            Now::Damaged(why) => format!("still damaged: {why}"),
            Now::NotRead => String::new(),
        }
    }
}

impl Retry {
    pub fn run(self, session: &Session<'_>) -> Result<bool> {
        let all = session.aside(|| quarantined(&self.folder))?;
        let now = session.each(&all, read_again);
        session.go_on()?;
        let damaged = now.iter().filter(|now| matches!(now, Now::Damaged(_))).count();
        if session.json {
            let element = |(entry, now): (&Quarantined, &Now)| {
                json!({
                    "operator": entry.operator, "number": entry.number, "epoch": entry.epoch,
                    "position": entry.position, "file": entry.file, "record": entry.record, "byte": entry.byte,
                    "kind": entry.kind, "reason": entry.reason, "has_input": entry.input.is_some(),
                    "now": match now {
                        Now::Whole => json!("whole"),
                        Now::Damaged(why) => json!({ "damaged": why }),
                        Now::NotRead => json!(null),
                    },
                })
            };
            let elements: Vec<_> = all.iter().zip(&now).map(element).collect();
            session.document(&json!({ "folder": self.folder, "elements": elements }))?;
            return Ok(damaged == 0);
        }
        for (entry, now) in all.iter().zip(&now) {
            session.line(format!("pass {}, {}", entry.epoch, entry.reason))?;
            match now {
                Now::NotRead => {}
                now => session.line(format!("  {}", now.text()))?,
            }
        }
        session.line(plural(all.len() as u64, "element"))?;
        Ok(damaged == 0)
    }
}

/// Reads a record again that was damaged when the pipeline read it.
fn read_again(entry: &Quarantined) -> Now {
    match (&entry.file, entry.byte) {
        (Some(file), Some(byte)) if entry.operator == "tf_record" => match record_at(file, byte) {
            Ok(()) => Now::Whole,
            Err(error) => Now::Damaged(error.message().to_string()),
        },
        _ => Now::NotRead,
    }
}

/// Whether there is a whole record at a byte of a TFRecord file.
fn record_at(file: &str, byte: u64) -> Result<()> {
    let source = feedline_io::open(file)?;
    let len = source.clone().stat().wait()?.len;
    if byte >= len {
        return Err(feedline::Error::new(Kind::Loss, format!("the file has {len} bytes by now")));
    }
    let mut blocks = Blocks::new(source, byte, None);
    let mut reader = Reader::at(Options { check: true, after_bad: AfterBad::End }, len, byte, 0);
    let mut found = Copies::default();
    loop {
        match reader.cut(1, &mut found) {
            Cut::Records(_) | Cut::End => return Ok(()),
            Cut::Fail(error) => return Err(error),
            Cut::More => match blocks.next_block().transpose()? {
                Some(block) => reader.feed(block),
                None => reader.finish(),
            },
        }
    }
}
