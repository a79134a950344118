//! Files as rows: the dataset that reads them, and what has to be done to rows between formats.

use crate::examples::{self, Schema};
use crate::file::File;
use crate::formats::{Format, Kind, each_record, sample};
use crate::session::Watch;
use crate::wanted::{Wanted, places};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use feedline::element::{DType, Element, Leaf, StringsBuilder, Tree, Value};
use feedline::expr::Builder;
use feedline::plan::{Card, Plan};
use feedline::save::column_names;
use feedline::{Dataset, Error, Result};

/// So many records tell what is in a file, unless the command line says otherwise.
pub const SEEN_RECORDS: usize = 100;

/// The elements of files as their operator gives them: rows, or byte strings.
pub fn dataset(files: &[File], wanted: &Wanted<'_>) -> Result<Dataset> {
    let first = files.first().ok_or_else(|| Error::usage("there are no files to read"))?;
    for other in files {
        if !std::ptr::eq(other.format, first.format) || other.compression != first.compression {
            let what = |f: &File| match f.is_plain() {
                true => format!("{} is {}", f.name, f.format.name),
                false => format!("{} is {}, {}", f.name, f.format.name, f.compression.name()),
            };
            feedline::bail!(Usage, "all files must be of one kind, but {} and {}", what(first), what(other));
        }
    }
    let rows = of_params(first.format, (first.format.params)(files, wanted)?)?;
    match first.format.kind {
        Kind::Records => Ok(rows),
        _ => only(&rows, wanted.columns),
    }
}

/// The elements that a format's operator gives.
pub fn of_params(format: &Format, params: serde_json::Value) -> Result<Dataset> {
    Ok(Dataset::from_plan(Plan::new((format.reads()?.read)(params)?, vec![])?))
}

/// These columns, in this order; all if none is named.
pub fn only(rows: &Dataset, wanted: &[String]) -> Result<Dataset> {
    let Tree::Map { items, .. } = rows.spec() else {
        return match wanted {
            [] => Ok(rows.clone()),
            _ => Err(Error::usage(format!("--columns: the rows have no columns, they are {}", rows.spec()))),
        };
    };
    let names: Vec<String> = items.iter().map(|(name, _)| name.to_string()).collect();
    if wanted.is_empty() || wanted == names {
        return Ok(rows.clone());
    }
    // The first leaf of each column.
    let starts: Vec<usize> = items
        .iter()
        .scan(0, |at, (_, item)| {
            *at += item.leaf_count();
            Some(*at - item.leaf_count())
        })
        .collect();
    let mut made = Vec::new();
    for place in places(wanted, &names)? {
        let mut leaf = starts[place]..;
        made.push((items[place].0.clone(), items[place].1.map(|_| leaf.next().unwrap_or_default())));
    }
    rows.map_graph(Builder::new(rows.spec()).finish(&Tree::Map { tag: None, items: made }))
}

/// The rows of one file; `None` if there are none to tell what they are.
pub fn of_file(file: &File, watch: &Watch<'_>) -> Result<Option<Dataset>> {
    match dataset(std::slice::from_ref(file), &Wanted::all(watch)) {
        Ok(rows) => Ok(Some(rows)),
        Err(error) => match is_empty(file, watch)? {
            true => Ok(None),
            false => Err(error.in_file(&file.name, None)),
        },
    }
}

/// Whether there are no rows in a file that may have none.
fn is_empty(file: &File, watch: &Watch<'_>) -> Result<bool> {
    Ok(file.format.kind != Kind::Table && (file.format.count)(file, watch).is_ok_and(|n| n == 0))
}

/// What the records of files are.
pub enum Records {
    /// Examples of this schema.
    Examples(Schema),
    /// Anything.
    Bytes,
}

/// Looks at the first records of the files, at `count` of them (0: at every record).
pub fn look(files: &[File], count: usize, watch: &Watch<'_>) -> Result<Records> {
    let mut inference = examples::Inference::default();
    for file in files {
        match count {
            // They need not fit into memory, so they are looked at as they come by.
            0 => {
                let make = file.format.reader.ok_or_else(|| Error::internal("the format has no records"))?;
                let mut broken = None;
                each_record(file, &mut *make(file)?, watch, &mut |_, record| match record {
                    Ok(record) => inference.record(record),
                    Err(error) => broken = broken.take().or(Some(error)),
                })?;
                if let Some(error) = broken {
                    return Err(error);
                }
            }
            _ if inference.records() >= count => break,
            // What is damaged is said by whoever reads all of it.
            _ => {
                let found = sample(file, count - inference.records(), watch)?;
                found.records.iter().for_each(|record| inference.record(record));
            }
        }
    }
    inference.finish()
}

/// Elements as rows of one field, for what has no fields.
pub fn as_rows(elements: &Dataset, name: &str) -> Result<Dataset> {
    let spec = Tree::Map { tag: None, items: vec![(name.into(), elements.spec().clone())] };
    elements.map_fn(spec, Ok)
}

/// Which way base64 goes.
#[derive(Clone, Copy, PartialEq)]
pub enum Base64 {
    Encode,
    Decode,
}

/// The fields of these names in base64, or out of it.
pub fn with_base64(rows: &Dataset, wanted: &[String], way: Base64) -> Result<Dataset> {
    let spec = rows.spec().clone();
    let names = column_names(&spec);
    let leaves = spec.leaves();
    let mut places = Vec::new();
    for name in wanted {
        let place = names.iter().position(|n| n == name).ok_or_else(|| {
            Error::usage(format!("there is no field {name:?} for --base64; the fields are {}", names.join(", ")))
        })?;
        if !matches!(leaves[place], Leaf::Tensor { dtype: DType::String, .. }) {
            feedline::bail!(Usage, "the field {name:?} is {}; --base64 is for strings", leaves[place]);
        }
        places.push((place, name.clone()));
    }
    rows.map_fn(spec.clone(), move |mut row| {
        for (place, name) in &places {
            row[*place] = recoded(&row[*place], name, way)?;
        }
        Ok(row)
    })
}

fn recoded(value: &Value, name: &str, way: Base64) -> Result<Value> {
    let tensor = value.tensor();
    let mut strings = StringsBuilder::with_capacity(tensor.len());
    for text in tensor.strs() {
        match way {
            Base64::Encode => strings.push(STANDARD.encode(text).as_bytes()),
            Base64::Decode => strings.push(&STANDARD.decode(text).map_err(|e| {
                let shown = String::from_utf8_lossy(&text[..text.len().min(30)]);
                Error::data(format!("the field {name:?} is not base64: {e}, in {shown:?}"))
            })?),
        }
    }
    Ok(Value::Tensor(strings.tensor(tensor.shape())))
}

/// About how many rows there are, for a bar; 0 if nobody knows.
pub fn estimate(files: &[File], rows: &Dataset, watch: &Watch<'_>) -> Result<u64> {
    if let Card::Known(n) = rows.cardinality() {
        return Ok(n);
    }
    let Some(first) = files.iter().find(|f| f.stat.len > 0 && f.format.reader.is_some() && f.is_plain()) else {
        return Ok(0);
    };
    let seen = sample(first, SEEN_RECORDS, watch)?;
    let bytes: u64 = files.iter().map(|f| f.stat.len).sum();
    let per_row = seen.bytes as f64 / seen.records.len() as f64;
    Ok(if per_row > 0.0 { (bytes as f64 / per_row) as u64 } else { 0 })
}

/// The first rows, and what is broken before there were enough.
pub fn first(rows: &Dataset, count: usize, watch: &Watch<'_>) -> Result<(Vec<Element>, Option<Error>)> {
    let mut iter = rows.take(i64::try_from(count).unwrap_or(i64::MAX))?.iter()?;
    let mut found = Vec::new();
    loop {
        match iter.next_chunk(&mut || watch.done(0)) {
            Ok(Some(chunk)) => found.extend((0..chunk.rows()).map(|row| chunk.element(row))),
            Ok(None) => return Ok((found, None)),
            Err(error) if error.kind() == feedline::Kind::Cancelled => return Err(error),
            Err(error) => return Ok((found, Some(error))),
        }
    }
}

/// Fields whose first strings are no text.
pub fn binary(rows: &Dataset, watch: &Watch<'_>) -> Result<Vec<String>> {
    let is_text = |value: &Value| {
        let strings = match value {
            Value::Tensor(tensor) => tensor,
            Value::Ragged(ragged) => &ragged.values,
            _ => return true,
        };
        strings.dtype() != DType::String || strings.strs().all(|s| std::str::from_utf8(s).is_ok())
    };
    // What is broken is said by whoever reads all of it.
    let (seen, _) = first(rows, SEEN_RECORDS, watch)?;
    let names = column_names(rows.spec()).into_iter().enumerate();
    Ok(names.filter(|(i, _)| !seen.iter().all(|row| is_text(&row[*i]))).map(|(_, name)| name).collect())
}
