//! `feedline count FILE…`: how many records or rows there are.

use crate::file::{Inputs, open_some};
use crate::session::{Session, Unit, error_json};
use clap::Args;
use feedline::{Error, Result};
use serde_json::json;

/// Count records or rows
///
/// By the index of a TFRecord or tar file if there is one, by the footer of a Parquet file; else the file is read once.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  feedline count train.parquet
  feedline count data/*.tfrecord
  feedline count --json data/ | jq .records")]
pub struct Count {
    #[command(flatten)]
    inputs: Inputs,
}

impl Count {
    pub fn run(self, session: &Session<'_>) -> Result<bool> {
        let files = open_some(session, &self.inputs)?;
        let total = files.iter().filter_map(|(_, file)| file.as_ref().ok()).map(|file| file.stat.len).sum();
        let watch = session.watch("counting", total, Unit::Bytes);
        let counts = session.each(&files, |(_, file)| {
            file.as_ref().map_err(Error::clone).and_then(|file| (file.format.count)(file, &watch))
        });
        watch.finish();
        session.go_on()?;
        let (mut fine, mut total, mut listed) = (true, 0, Vec::new());
        for ((name, _), count) in files.iter().zip(counts) {
            match count {
                Ok(count) => {
                    total += count;
                    match session.json {
                        true => listed.push(json!({ "file": name, "records": count })),
                        false => session.line(format!("{count}\t{name}"))?,
                    }
                }
                Err(error) => {
                    fine = false;
                    let error = error.in_file(name, None);
                    match session.json {
                        true => listed.push(json!({ "file": name, "error": error_json(&error) })),
                        false => session.line(format!("?\t{error}"))?,
                    }
                }
            }
        }
        if session.json {
            // Nobody knows how many there are in all if one file cannot be counted.
            session.document(&json!({ "files": listed, "records": fine.then_some(total) }))?;
        } else if files.len() > 1 {
            session.line(format!("{}\ttotal", if fine { total.to_string() } else { "?".into() }))?;
        }
        Ok(fine)
    }
}
