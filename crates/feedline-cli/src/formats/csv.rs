//! CSV: the first line has the names, unless the command line says otherwise.

use super::csv_columns::{self, Place, Seen};
use super::{
    Checked, Format, Kind, Likely, Shown, Writing, count_records, each_record, ending, files_param, first_records,
};
use crate::file::File;
use crate::rows::SEEN_RECORDS;
use crate::session::Watch;
use crate::show::{self, Limit};
use crate::wanted::Wanted;
use feedline::element::{DType, Leaf};
use feedline::save::column_names;
use feedline::{Dataset, Error, Result};
use feedline_formats::csv::{Dialect, Looks, Rows, fields, texts};
use feedline_formats::records::Records;
use serde_json::{Value as Json, json};
use std::ops::Range;

pub static FORMAT: Format = Format {
    name: "csv",
    about: "rows of text, or of text and numbers; .tsv with tabs",
    endings: &["csv", "tsv"],
    likely,
    op: "csv",
    params,
    writer: "csv",
    options,
    reader: Some(reader),
    check,
    count: count_records,
    index: None,
    kind: Kind::Text,
    show: Some(show),
    prepare: only_scalars,
};

/// Text whose first lines have equally many fields, more than one.
fn likely(head: &[u8]) -> Likely {
    if head.contains(&0) || std::str::from_utf8(&head[..head.len().min(1024)]).is_err_and(|e| e.error_len().is_some()) {
        return Likely::No;
    }
    let dialect = dialect_of("", head);
    // The last line may be cut.
    let whole = head.iter().rposition(|b| *b == b'\n').unwrap_or(0);
    let mut counts = head[..whole].split(|b| *b == b'\n').take(5).map(|line| fields(line, dialect).map(|f| f.len()));
    match counts.next() {
        Some(Ok(first)) if first > 1 && counts.all(|n| n.as_ref().is_ok_and(|n| *n == first)) => Likely::Maybe,
        _ => Likely::No,
    }
}

/// Tabs by the name, or where the first line has some and no comma.
fn dialect_of(name: &str, head: &[u8]) -> Dialect {
    let line = head.split(|b| *b == b'\n').next().unwrap_or_default();
    let is_tabs = ending(name).as_deref() == Some("tsv") || line.contains(&b'\t') && !line.contains(&b',');
    Dialect { delim: if is_tabs { b'\t' } else { b',' }, quotes: true }
}

fn dialect(file: &File) -> Dialect {
    dialect_of(&file.name, &file.head)
}

fn params(files: &[File], wanted: &Wanted<'_>) -> Result<Json> {
    let first = &files[0];
    let dialect = dialect(first);
    let names = csv_columns::names(first, dialect, wanted.watch)?
        .ok_or_else(|| Error::usage("is empty, so nothing tells its columns").in_file(&first.name, None))?;
    for other in files[1..].iter().filter(|file| file.header) {
        same_names(&names, first, other, dialect, wanted.watch)?;
    }
    let places = wanted.places(&names)?;
    let most = wanted.rows(files);
    let mut seen = Seen::new(names.len(), dialect)?;
    for (number, file) in files.iter().enumerate() {
        seen.file(file, number, most.saturating_sub(seen.rows), dialect, wanted.watch)?;
    }
    // They are read in the order of the file.
    let select: Vec<usize> = (0..names.len()).filter(|i| places.contains(i)).collect();
    let mut columns = Vec::new();
    for &i in &select {
        let (name, dtype) = (&names[i], seen.dtype(i));
        let fill = match dtype {
            // An empty text is a text.
            DType::String => wanted.fill.named(name, dtype)?.or(Some("".into())),
            dtype => wanted.fill.of(name, dtype)?,
        };
        if let (None, Some(place), true) = (&fill, seen.empty[i], wanted.strict) {
            let text = format!(
                "the column {name:?} of {dtype} is empty in row {} of the file; --fill {name}=VALUE says what stands for \
                 it, --columns NAME,… leaves the column out",
                place.row
            );
            return Err(Error::data(text).in_file(&files[place.file].name, Some(place.byte)));
        }
        columns.push(json!({ "name": name, "dtype": dtype, "default": fill }));
    }
    Ok(json!({
        "files": files_param(files)?,
        "header": first.header,
        "field_delim": char::from(dialect.delim).to_string(),
        "compression_type": first.compression.name(),
        "as_dict": true,
        "exact": true,
        "columns": columns,
        "select_cols": select,
    }))
}

/// Refuses a further file whose columns are others, or in another order.
fn same_names(names: &[String], first: &File, other: &File, dialect: Dialect, watch: &Watch<'_>) -> Result<()> {
    match csv_columns::names(other, dialect, watch)? {
        Some(others) if others != names => Err(Error::data(format!(
            "all files must have the same header, but {} has {:?} and {} has {:?}",
            first.name,
            names.join(","),
            other.name,
            others.join(",")
        ))),
        _ => Ok(()),
    }
}

/// Rows by the types that the first rows show; an empty field of numbers is null.
fn show(file: &File, rows: Range<usize>, limit: Limit, watch: &Watch<'_>) -> Result<Shown> {
    let dialect = dialect(file);
    let mut shown = Shown::default();
    let Some(names) = csv_columns::names(file, dialect, watch)? else { return Ok(shown) };
    let (mut seen, mut kept, mut number) = (Seen::new(names.len(), dialect)?, Vec::new(), 0);
    let most = rows.end.max(SEEN_RECORDS);
    let mut reader = Rows::new(dialect, file.header && file.stat.len > 0);
    first_records(file, &mut reader, most, watch, &mut |byte, record| {
        let (at, whole) = (Place { file: 0, row: number, byte }, seen.rows);
        let row = record.and_then(|record| {
            seen.row(record, at).map_err(|e| e.at_record(number).in_file(&file.name, Some(byte)))?;
            rows.contains(&whole).then(|| texts(record, dialect)).transpose()
        });
        number += 1;
        match row {
            Ok(row) => kept.extend(row),
            Err(error) => shown.damage = shown.damage.take().or(Some((whole, error))),
        }
    })?;
    let dtypes: Vec<DType> = (0..names.len()).map(|i| seen.dtype(i)).collect();
    let row = |texts: &Vec<Vec<u8>>| {
        let cells = names.iter().zip(&dtypes).zip(texts);
        cells.map(|((name, dtype), text)| (name.clone(), cell(text, *dtype, limit))).collect()
    };
    shown.rows = kept.iter().map(row).collect();
    Ok(shown)
}

fn cell(bytes: &[u8], dtype: DType, limit: Limit) -> Json {
    let text = || std::str::from_utf8(bytes).unwrap_or_default().trim();
    match (dtype, Looks::of(bytes)) {
        (DType::String, _) => show::text(bytes, limit),
        (_, Looks::Empty) => Json::Null,
        (DType::Int64, Looks::Int | Looks::LongInt) => text().parse::<i64>().map_or(Json::Null, Json::from),
        (_, Looks::Int | Looks::LongInt | Looks::Float | Looks::NotFinite) => {
            text().parse().map_or(Json::Null, show::float)
        }
        _ => show::text(bytes, limit),
    }
}

fn options(writing: &Writing<'_>) -> Result<Json> {
    let delim = char::from(dialect_of(writing.name, b"").delim).to_string();
    Ok(json!({ "compression_type": writing.whole().name(), "field_delim": delim }))
}

/// There are no lists.
fn only_scalars(rows: Dataset) -> Result<(Dataset, Vec<String>)> {
    let is_list = |leaf: &Leaf| leaf.shape().is_none_or(|shape| shape.rank().is_some_and(|rank| rank > 0));
    let names = column_names(rows.spec());
    match names.iter().zip(rows.spec().leaves()).find(|(_, leaf)| is_list(leaf)) {
        None => Ok((rows, vec![])),
        Some((name, leaf)) => Err(Error::usage(format!(
            "{name:?} is {leaf}, and a field of a CSV file is one value; write JSON lines, or leave it out with \
             --columns"
        ))),
    }
}

fn reader(file: &File) -> Result<Box<dyn Records>> {
    // A file of no bytes has no names to pass over.
    Ok(Box::new(Rows::new(dialect(file), file.header && file.stat.len > 0)))
}

/// Quotes are closed, and every row has as many fields as the first.
fn check(file: &File, watch: &Watch<'_>) -> Result<Checked> {
    let (mut checked, dialect) = (Checked::default(), dialect(file));
    let (mut number, mut columns) = (0, None);
    let end = each_record(file, &mut Rows::new(dialect, false), watch, &mut |byte, record| {
        let found = record.and_then(|record| {
            let found = fields(record, dialect).map_err(|e| e.at_byte(byte).in_file(&file.name, None))?.len();
            let wanted = *columns.get_or_insert(found);
            if found != wanted {
                let text = format!("a row of {found} fields, where the first has {wanted} (row {number} of the file)");
                return Err(Error::data(text).at_byte(byte).in_file(&file.name, None));
            }
            Ok(())
        });
        match found {
            // Names are no row.
            Ok(()) if number == 0 && file.header => {}
            Ok(()) => checked.good(byte),
            Err(error) => checked.bad(error, number),
        }
        number += 1;
    })?;
    checked.end(end);
    Ok(checked)
}
