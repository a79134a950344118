//! JSON lines: an object a line.

use super::{
    Checked, Format, Kind, Likely, Shown, as_they_are, compressed, count_records, each_record, files_param,
    first_records, json_schema,
};
use crate::file::File;
use crate::rows::SEEN_RECORDS;
use crate::session::Watch;
use crate::show::{self, Limit};
use crate::wanted::Wanted;
use feedline::{Error, Result};
use feedline_formats::lines::Lines;
use feedline_formats::records::Records;
use serde::de::IgnoredAny;
use serde_json::{Value as Json, json};
use std::ops::Range;

pub static FORMAT: Format = Format {
    name: "jsonl",
    about: "JSON objects, one a line",
    endings: &["jsonl", "ndjson"],
    likely,
    op: "json_lines",
    params,
    writer: "json_lines",
    options: compressed,
    reader: Some(reader),
    check,
    count: count_records,
    index: None,
    kind: Kind::Text,
    show: Some(show),
    prepare: as_they_are,
};

/// The first line is an object, or the beginning of one that is longer than what was looked at.
fn likely(head: &[u8]) -> Likely {
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    if !text.starts_with(b"{") {
        return Likely::No;
    }
    let line = text.split(|b| *b == b'\n').next().unwrap_or_default();
    match wrong(line) {
        None => Likely::Surely,
        Some(_) if line.len() == text.len() => Likely::Maybe,
        Some(_) => Likely::No,
    }
}

fn params(files: &[File], wanted: &Wanted<'_>) -> Result<Json> {
    let schema = json_schema::learned(files, wanted)?;
    // Lines that nobody learned from may have what the schema has no place for.
    let strict = match (wanted.strict, wanted.columns) {
        (false, _) => "no",
        (true, []) => "all",
        (true, _) => "inside",
    };
    let compression = files[0].compression.name();
    Ok(json!({ "files": files_param(files)?, "schema": schema, "compression_type": compression, "strict": strict }))
}

/// Objects as they stand in the file.
fn show(file: &File, rows: Range<usize>, limit: Limit, watch: &Watch<'_>) -> Result<Shown> {
    let (mut shown, mut whole, mut number) = (Shown::default(), 0, 0);
    let most = rows.end.max(SEEN_RECORDS);
    first_records(file, &mut Lines::default().skip_blank(), most, watch, &mut |byte, line| {
        match line.and_then(|line| object(file, line, byte, number)) {
            Ok(row) => {
                if rows.contains(&whole) {
                    shown.rows.push(show::json(&row, limit));
                }
                whole += 1;
            }
            Err(error) => shown.damage = shown.damage.take().or(Some((whole, error))),
        }
        number += 1;
    })?;
    Ok(shown)
}

/// What is in a line.
fn object(file: &File, line: &[u8], byte: u64, number: u64) -> Result<Json> {
    if let Some(why) = wrong(line) {
        return Err(broken(file, &why, byte, number));
    }
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    serde_json::from_slice(line).map_err(|e| broken(file, &e.to_string(), byte, number))
}

fn broken(file: &File, why: &str, byte: u64, number: u64) -> Error {
    let text = format!("{why} (line {number} of the file, blank ones not counted)");
    Error::data(text).at_byte(byte).in_file(&file.name, None)
}

fn reader(_: &File) -> Result<Box<dyn Records>> {
    Ok(Box::new(Lines::default().skip_blank()))
}

/// What is wrong with a line.
fn wrong(line: &[u8]) -> Option<String> {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    let text = match std::str::from_utf8(line) {
        Ok(text) => text,
        Err(e) => return Some(format!("not UTF-8, column {} of the line", e.valid_up_to() + 1)),
    };
    if !text.trim_start().starts_with('{') {
        return Some("the line is not an object".into());
    }
    let said = serde_json::from_str::<IgnoredAny>(text).err()?;
    let words = said.to_string();
    Some(format!("not JSON: {}, column {} of the line", words.split(" at line ").next()?, said.column()))
}

/// Every line is an object. That all have the same fields is not asked for.
fn check(file: &File, watch: &Watch<'_>) -> Result<Checked> {
    let (mut checked, mut number) = (Checked::default(), 0);
    let end = each_record(file, &mut Lines::default().skip_blank(), watch, &mut |byte, line| {
        let bad = line.and_then(|line| match wrong(line) {
            None => Ok(()),
            Some(why) => Err(broken(file, &why, byte, number)),
        });
        match bad {
            Ok(()) => checked.good(byte),
            Err(error) => checked.bad(error, number),
        }
        number += 1;
    })?;
    checked.end(end);
    Ok(checked)
}
