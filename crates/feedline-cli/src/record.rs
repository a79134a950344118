//! `feedline show FILE RECORD`: one record, field by field, and what pictures there are in it.

use crate::file::{File, Reading};
use crate::rows;
use crate::session::{Session, Unit, bytes};
use crate::show::{self, Limit};
use clap::Args;
use feedline::element::{DType, Element, Spec, Value};
use feedline::{Error, Kind, Result};
use feedline_formats::example::{Entries, Stored};
use feedline_image::codec::{Opened, jpeg};
use serde_json::{Value as Json, json};
use std::io::Write;

/// Show one record or row of a file by its number
///
/// Examples are shown by their features, rows by their columns. Of pictures the format and size are shown; --out writes
/// the bytes of one to a file as they are.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  feedline show train.tfrecord 17
  feedline show --full train.parquet 0
  feedline show train.tfrecord 17 --field image --out picture.jpg")]
pub struct Show {
    /// The file
    file: String,
    /// The number of the record, from 0 on
    record: u64,
    #[command(flatten)]
    reading: Reading,
    /// Show long strings and lists in full; --json does, too
    #[arg(long)]
    full: bool,
    /// Write the bytes of a field to this file; of the only picture, if --field does not say which
    #[arg(long, value_name = "FILE")]
    out: Option<String>,
    /// The field that --out writes
    #[arg(long, value_name = "NAME", requires = "out")]
    field: Option<String>,
}

/// A string in a record.
struct Field {
    name: String,
    bytes: Vec<u8>,
}

impl Field {
    /// What picture it is, in words.
    fn picture(&self) -> Option<String> {
        let opened = Opened::new(&self.bytes, jpeg::Options::default()).ok()?;
        let size = opened.size;
        Some(format!(
            "{:?}, {} x {} pixels, {}",
            opened.format,
            size.height,
            size.width,
            bytes(self.bytes.len() as u64)
        ))
    }
}

enum Found {
    Row(Spec, Element),
    /// With nulls in it.
    Shown(Json),
}

impl Show {
    pub fn run(self, session: &Session<'_>) -> Result<bool> {
        let limit = if self.full || session.json { Limit::NONE } else { Limit::SHORT };
        let watch = session.watch("reading", 0, Unit::Bytes);
        let found = session.aside(|| {
            let file = File::open(&self.file, &self.reading)?;
            let missing = || Error::range(format!("{} has no record {}", self.file, self.record));
            let row = rows::of_file(&file, &watch).and_then(|ds| {
                let ds = ds.ok_or_else(missing)?;
                let number = i64::try_from(self.record).map_err(|_| missing())?;
                let row = ds.skip(number)?.take(1)?.iter()?.next().ok_or_else(missing)?;
                Ok(Found::Row(ds.spec().clone(), row?))
            });
            match (row, file.format.show) {
                // What has no place in an element can be shown all the same.
                (Err(error), Some(show)) if self.out.is_none() => {
                    let at = usize::try_from(self.record).map_err(|_| missing())?;
                    let shown = show(&file, at..at + 1, limit, &watch)?;
                    // If all of the file was refused, nobody has looked yet whether there is such a row.
                    let none = || if error.kind() == Kind::Usage { missing() } else { error };
                    let why = shown.damage.map(|(_, damage)| damage);
                    Ok(Found::Shown(shown.rows.into_iter().next().ok_or_else(|| why.unwrap_or_else(none))?))
                }
                (row, _) => row,
            }
        });
        watch.finish();
        let (spec, row) = match found? {
            Found::Row(spec, row) => (spec, row),
            Found::Shown(row) if session.json => {
                session.document(&json!({ "record": row, "pictures": {} }))?;
                return Ok(true);
            }
            Found::Shown(row) => {
                for (name, value) in row.as_object().into_iter().flatten() {
                    session.line(format!("{name}: {value}"))?;
                }
                return Ok(true);
            }
        };
        let fields = strings(&spec, &row);
        let shown = match fields.as_slice() {
            // A record that is one string may be an Example.
            [one] if row.len() == 1 => {
                show::example(&one.bytes, limit).unwrap_or_else(|| show::text(&one.bytes, limit))
            }
            _ => show::row(&spec, &row, limit),
        };
        let fields = if let [one] = fields.as_slice() { in_example(&one.bytes).unwrap_or(fields) } else { fields };
        let pictures: Vec<(&Field, String)> = fields.iter().filter_map(|f| Some((f, f.picture()?))).collect();
        if session.json {
            let pictures: serde_json::Map<String, Json> =
                pictures.iter().map(|(f, text)| (f.name.clone(), json!(text))).collect();
            session.document(&json!({ "record": shown, "pictures": pictures }))?;
        } else {
            match &shown {
                Json::Object(map) => {
                    for (name, value) in map {
                        match pictures.iter().find(|(f, _)| f.name == *name) {
                            Some((_, text)) => session.line(format!("{name}: {text}"))?,
                            None => session.line(format!("{name}: {value}"))?,
                        }
                    }
                }
                value => match pictures.first() {
                    Some((_, text)) => session.line(text)?,
                    None => session.line(value)?,
                },
            }
        }
        if let Some(out) = &self.out {
            let field = self.wanted(&fields, &pictures)?;
            let mut sink = feedline_io::create(out)?;
            sink.write_all(&field.bytes).map_err(|e| Error::io(&e).in_file(out, None))?;
            sink.commit()?;
        }
        Ok(true)
    }
    /// The field that is to be written.
    fn wanted<'a>(&self, fields: &'a [Field], pictures: &[(&'a Field, String)]) -> Result<&'a Field> {
        let names = || fields.iter().map(|f| f.name.as_str()).collect::<Vec<_>>().join(", ");
        match (&self.field, pictures) {
            (Some(name), _) => fields
                .iter()
                .find(|f| f.name == *name)
                .ok_or_else(|| Error::usage(format!("the record has no string {name:?}; it has {}", names()))),
            (None, [(one, _)]) => Ok(one),
            (None, _) => Err(Error::usage(format!("say which field to write with --field: {}", names()))),
        }
    }
}

/// The scalar strings of a row, by name.
fn strings(spec: &Spec, row: &Element) -> Vec<Field> {
    let string = |(value, name): (&Value, String)| match value {
        Value::Tensor(t) if t.dtype() == DType::String && t.rank() == 0 => {
            Some(Field { name, bytes: t.str_at(0).to_vec() })
        }
        _ => None,
    };
    row.iter().zip(spec.paths()).filter_map(string).collect()
}

/// The strings of an Example; `None` if the record is none.
fn in_example(record: &[u8]) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    for entry in Entries::new(record) {
        let (name, feature) = entry.ok()?;
        let name = std::str::from_utf8(name).ok()?.to_owned();
        let mut values = Vec::new();
        if feature.stored == Some(Stored::Bytes) {
            feature.each_bytes(|b| values.push(b.to_vec())).ok()?;
        }
        if let [_] = values.as_slice() {
            fields.extend(values.into_iter().map(|bytes| Field { name: name.clone(), bytes }));
        }
    }
    (!fields.is_empty()).then_some(fields)
}
