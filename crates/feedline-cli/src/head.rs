//! `feedline head FILE…`: the first rows.

use crate::file::{File, Inputs, open_all};
use crate::formats::{Kind, Shown, sample};
use crate::rows;
use crate::session::{Session, Unit, Watch, error_json};
use crate::show::{self, Limit};
use crate::wanted::{Columns, places};
use clap::Args;
use feedline::{Error, Result};
use serde_json::{Value as Json, json};

/// Print the first rows, one a line, as JSON
///
/// Rows of several files follow each other. Bytes that are no text are shown in base64. Examples in TFRecord files are
/// shown by their features, other records as they are.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  feedline head train.tfrecord
  feedline head -n 1 --full train.parquet | jq .
  feedline head --columns id,label train.parquet
  feedline head --json data/ | jq '.rows[].label'")]
pub struct Head {
    #[command(flatten)]
    inputs: Inputs,
    #[command(flatten)]
    columns: Columns,
    /// How many rows
    #[arg(short = 'n', long, value_name = "N", default_value_t = 5)]
    rows: usize,
    /// Show long strings and lists in full; --json does, too
    #[arg(long)]
    full: bool,
}

impl Head {
    pub fn run(self, session: &Session<'_>) -> Result<bool> {
        let files = open_all(session, &self.inputs)?;
        let limit = if self.full || session.json { Limit::NONE } else { Limit::SHORT };
        let watch = session.watch("reading", 0, Unit::Bytes);
        let (mut rows, mut damage) = (Vec::new(), None);
        for file in files {
            if rows.len() >= self.rows || damage.is_some() {
                break;
            }
            let (more, broken) = session.aside(|| first(&file, self.rows - rows.len(), limit, &watch))?;
            rows.extend(only(more, &self.columns.columns)?);
            damage = broken.map(|e| e.in_file(&file.name, None));
        }
        watch.finish();
        if session.json {
            session.document(&json!({ "rows": rows, "error": damage.as_ref().map(error_json) }))?;
        } else {
            for row in &rows {
                session.line(row)?;
            }
        }
        match damage {
            Some(error) if !session.json => Err(error),
            damage => Ok(damage.is_none()),
        }
    }
}

/// The first rows of a file as JSON, and what is broken before there were enough.
pub fn first(file: &File, count: usize, limit: Limit, watch: &Watch<'_>) -> Result<(Vec<Json>, Option<Error>)> {
    if file.format.kind == Kind::Records {
        let found = sample(file, count, watch)?;
        let row = |record: &Vec<u8>| show::example(record, limit).unwrap_or_else(|| show::text(record, limit));
        return Ok((found.records.iter().map(row).collect(), found.damage));
    }
    if let Some(show) = file.format.show {
        let Shown { rows, damage } = show(file, 0..count, limit, watch)?;
        // What comes behind the rows that are shown is of no interest here.
        return Ok((rows, damage.filter(|(before, _)| *before < count).map(|(_, error)| error)));
    }
    let Some(ds) = rows::of_file(file, watch)? else { return Ok((vec![], None)) };
    let (found, damage) = rows::first(&ds, count, watch)?;
    Ok((found.iter().map(|row| show::row(ds.spec(), row, limit)).collect(), damage))
}

/// The named fields of rows, all if none is named. Not every row need have each.
fn only(rows: Vec<Json>, wanted: &[String]) -> Result<Vec<Json>> {
    if wanted.is_empty() || rows.is_empty() {
        return Ok(rows);
    }
    let mut names: Vec<String> = Vec::new();
    for name in rows.iter().filter_map(Json::as_object).flat_map(|row| row.keys()) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    if names.is_empty() {
        feedline::bail!(Usage, "--columns: the rows have no columns");
    }
    places(wanted, &names)?;
    let row = |row: Json| wanted.iter().filter_map(|name| Some((name.clone(), row.get(name)?.clone()))).collect();
    Ok(rows.into_iter().map(row).collect())
}
