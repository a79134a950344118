//! Formats that are tables with a footer or a header: Parquet, Arrow, NumPy. They are read where the operators read them;
//! how many rows there are is known at once.

#[cfg(feature = "columnar")]
use super::logical::{self, Logical};
use super::records::is_damage;
use super::{Checked, Format, Kind, Likely, Show, Writing, as_they_are, no_fill};
use crate::file::{File, compression_name};
use crate::rows;
use crate::session::Watch;
use crate::wanted::Wanted;
use feedline::element::DType;
use feedline::plan::Card;
use feedline::save::column_names;
use feedline::{Error, Result};
use feedline_formats::compress::Compression;
use feedline_formats::npz;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

#[cfg(feature = "columnar")]
const SHOW: [Option<Show>; 2] = [Some(super::columnar::parquet), Some(super::columnar::arrow)];
#[cfg(not(feature = "columnar"))]
const SHOW: [Option<Show>; 2] = [None, None];

/// Columns: their names and types, in words.
pub type Schema = Vec<(String, String)>;

/// What can be done with a file whatever its columns are.
struct Arrays {
    check: fn(&File, &Watch<'_>) -> Result<Checked>,
    count: fn(&File) -> Result<u64>,
    schema: fn(&File) -> Result<Schema>,
}

#[cfg(feature = "columnar")]
static ARRAYS: Option<Arrays> =
    Some(Arrays { check: super::columnar::check, count: super::columnar::count, schema: super::columnar::schema });
#[cfg(not(feature = "columnar"))]
static ARRAYS: Option<Arrays> = None;

pub static PARQUET: Format = Format {
    name: "parquet",
    about: "columns in row groups, with a schema",
    endings: &["parquet", "pq"],
    likely: |head| head.starts_with(b"PAR1").into(),
    op: "parquet",
    params,
    writer: "parquet",
    options: in_pages,
    reader: None,
    check,
    count,
    index: None,
    kind: Kind::Table,
    show: SHOW[0],
    prepare: as_they_are,
};

pub static ARROW: Format = Format {
    name: "arrow",
    about: "Arrow files and streams (also Feather)",
    endings: &["arrow", "feather", "ipc", "arrows"],
    likely: |head| match head {
        [b'A', b'R', b'R', b'O', b'W', b'1', ..] => Likely::Surely,
        // A stream begins with the length of its schema.
        [0xff, 0xff, 0xff, 0xff, _, _, 0, 0, ..] => Likely::Maybe,
        _ => Likely::No,
    },
    op: "arrow",
    params,
    writer: "arrow",
    options: in_pages,
    reader: None,
    check,
    count,
    index: None,
    kind: Kind::Table,
    show: SHOW[1],
    prepare: as_they_are,
};

pub static NUMPY: Format = Format {
    name: "npy",
    about: "NumPy arrays, .npy and .npz: a row is what lies along the first axis",
    endings: &["npy", "npz"],
    likely: |head| match head {
        [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => Likely::Surely,
        [b'P', b'K', 3, 4, ..] => Likely::Maybe,
        _ => Likely::No,
    },
    op: "numpy",
    params,
    writer: "npy",
    options: not_compressed,
    reader: None,
    check,
    count,
    index: None,
    kind: Kind::Table,
    show: None,
    prepare: as_they_are,
};

fn params(files: &[File], wanted: &Wanted<'_>) -> Result<Json> {
    let columns = wanted.columns;
    if wanted.fill.is_empty() || std::ptr::eq(files[0].format, &NUMPY) {
        no_fill(files, wanted)?;
        return unfilled(files, columns);
    }
    filled(files, columns, &|all| wanted.fill.check(all), &|name, dtype| wanted.fill.of(name, dtype))
}

/// The same with something in the place of nulls.
fn filled(
    files: &[File],
    columns: &[String],
    check: &dyn Fn(&[String]) -> Result<()>,
    fill: &dyn Fn(&str, DType) -> Result<Option<Json>>,
) -> Result<Json> {
    let mut params = unfilled(files, columns)?;
    let spec = rows::of_params(files[0].format, params.clone())?.spec().clone();
    let names = column_names(&spec);
    check(&names)?;
    let mut fills = serde_json::Map::new();
    for (name, leaf) in names.iter().zip(spec.leaves()) {
        if let Some(value) = leaf.dtype().map(|dtype| fill(name, dtype)).transpose()?.flatten() {
            fills.insert(name.clone(), value);
        }
    }
    params["fill"] = json!({ "columns": fills });
    Ok(params)
}

/// Something of that type.
fn anything(dtype: DType) -> Json {
    match dtype {
        DType::String => "".into(),
        DType::Bool => false.into(),
        _ => 0.into(),
    }
}

fn unfilled(files: &[File], columns: &[String]) -> Result<Json> {
    if let Some(packed) = files.iter().find(|f| !f.is_plain()) {
        let text = "is compressed as a whole; this format is read at many places at once, so unpack it first";
        return Err(Error::usage(text).in_file(&packed.name, None));
    }
    let columns = (!columns.is_empty()).then_some(columns);
    Ok(json!({ "files": files.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(), "columns": columns }))
}

/// Pages are compressed, not the file.
fn in_pages(writing: &Writing<'_>) -> Result<Json> {
    not_whole(writing)?;
    let mut options = json!({ "binary": writing.binary, "types": writing.types });
    if let Some(kind) = writing.compression {
        options["compression"] = compression_name(kind).into();
    }
    Ok(options)
}

fn not_compressed(writing: &Writing<'_>) -> Result<Json> {
    not_whole(writing)?;
    match writing.compression {
        // What the name says is what is written.
        None | Some(Compression::None) => Ok(match super::ending(writing.name).as_deref() {
            Some("npz") => json!({ "archive": true }),
            Some("npy") => json!({ "archive": false }),
            _ => json!({}),
        }),
        Some(kind) => Err(Error::usage(format!("NumPy files are not compressed with {}", compression_name(kind)))),
    }
}

fn not_whole(writing: &Writing<'_>) -> Result<()> {
    match Compression::of_name(writing.name) {
        Compression::None => Ok(()),
        _ => {
            Err(Error::usage(format!("{} cannot be: a file of this format is not compressed as a whole", writing.name)))
        }
    }
}

/// The types of columns that rows do not have: those that files of the other format have again, and remarks on what becomes
/// of the others. What rows would change is refused.
#[cfg(feature = "columnar")]
pub fn types(files: &[File], to: &Format, wanted: &Wanted<'_>) -> Result<(BTreeMap<String, String>, Vec<String>)> {
    let knows_types = |format: &Format| [&PARQUET, &ARROW].iter().any(|f| std::ptr::eq(*f, format));
    let (mut types, mut remarks) = (BTreeMap::new(), Vec::new());
    if !knows_types(files[0].format) {
        return Ok((types, remarks));
    }
    for Logical { path, stored, plain, is_kept } in logical::of(files, wanted.columns, wanted.watch)? {
        match is_kept && knows_types(to) {
            true => drop(types.insert(path, stored)),
            false => remarks.push(format!("{path} is {stored}; its values are written as {plain}")),
        }
    }
    Ok((types, remarks))
}
#[cfg(not(feature = "columnar"))]
pub fn types(_: &[File], _: &Format, _: &Wanted<'_>) -> Result<(BTreeMap<String, String>, Vec<String>)> {
    Ok(Default::default())
}

/// Reads everything: pages have checksums, and everything has to fit together. Nulls are no damage: something stands for
/// them.
fn check(file: &File, watch: &Watch<'_>) -> Result<Checked> {
    let mut checked = Checked::default();
    let files = std::slice::from_ref(file);
    let params = match std::ptr::eq(file.format, &NUMPY) {
        true => unfilled(files, &[]),
        false => filled(files, &[], &|_| Ok(()), &|_, dtype| Ok(Some(anything(dtype)))),
    };
    match params.and_then(|params| rows::of_params(file.format, params)).and_then(|ds| ds.iter()) {
        Err(error) if is_damage(&error) => checked.bad(error.in_file(&file.name, None), 0),
        Err(error) => {
            checked = match arrays(file, &error) {
                Some(arrays) => (arrays.check)(file, watch),
                None => Err(error),
            }
            .map_err(|e| e.in_file(&file.name, None))?;
        }
        Ok(mut iter) => loop {
            match iter.next_chunk(&mut || watch.done(0)) {
                Ok(Some(chunk)) => {
                    checked.records += chunk.rows() as u64;
                    watch.done(0)?;
                }
                Ok(None) => break,
                Err(error) if is_damage(&error) => {
                    let at = checked.records + checked.broken;
                    checked.bad(error.in_file(&file.name, None), at);
                }
                Err(error) => return Err(error.in_file(&file.name, None)),
            }
        },
    }
    if std::ptr::eq(file.format, &NUMPY) && checked.broken == 0 && file.head.starts_with(b"PK") {
        let wrong = npz::check_stored(&file.source, file.stat.len, &mut |_| watch.done(0));
        wrong?.into_iter().for_each(|error| checked.bad(error.in_file(&file.name, None), 0));
    }
    watch.done(file.stat.len)?;
    Ok(checked)
}

/// How to look at a file that is refused for what its columns are.
fn arrays(file: &File, error: &Error) -> Option<&'static Arrays> {
    let is_of_columns = [&PARQUET, &ARROW].iter().any(|format| std::ptr::eq(*format, file.format));
    ARRAYS.as_ref().filter(|_| is_of_columns && file.is_plain() && error.kind() == feedline::Kind::Usage)
}

/// The columns and their types, of a file that is refused for what some of them are; else the error that says why.
pub fn schema(file: &File, error: Error) -> Result<Schema> {
    let Some(arrays) = arrays(file, &error) else { return Err(error) };
    let mut all = Vec::new();
    for (name, stored) in (arrays.schema)(file)? {
        let one = unfilled(std::slice::from_ref(file), std::slice::from_ref(&name));
        match one.and_then(|params| rows::of_params(file.format, params)) {
            Ok(ds) => {
                let types = ds.spec().leaves().into_iter().map(|leaf| leaf.to_string());
                all.extend(column_names(ds.spec()).into_iter().zip(types));
            }
            Err(_) => all.push((name, format!("{stored}, which has no place in an element"))),
        }
    }
    Ok(all)
}

fn count(file: &File, watch: &Watch<'_>) -> Result<u64> {
    let ds = match rows::of_params(file.format, unfilled(std::slice::from_ref(file), &[])?) {
        Ok(ds) => ds,
        Err(error) => {
            watch.done(file.stat.len)?;
            let counted = match arrays(file, &error) {
                Some(arrays) => (arrays.count)(file),
                None => Err(error),
            };
            return counted.map_err(|e| e.in_file(&file.name, None));
        }
    };
    watch.done(file.stat.len)?;
    match ds.cardinality() {
        Card::Known(n) => Ok(n),
        _ => {
            let (mut iter, mut rows) = (ds.iter()?, 0);
            while let Some(chunk) = iter.next_chunk(&mut || watch.done(0))? {
                rows += chunk.rows() as u64;
            }
            Ok(rows)
        }
    }
}
