//! CSV: the first line has the names, unless the command line says otherwise.

use super::{Checked, Format, Kind, Likely, Writing, count_records, each_record, files_param};
use crate::file::File;
use crate::session::Watch;
use feedline::element::Leaf;
use feedline::save::column_names;
use feedline::{Dataset, Error, Result};
use feedline_formats::csv::{Dialect, Rows, fields, texts};
use feedline_formats::records::Records;
use serde_json::{Value as Json, json};

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
    kind: Kind::Text,
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
    let is_tabs = match name.to_ascii_lowercase() {
        name if name.contains(".tsv") => true,
        _ => line.contains(&b'\t') && !line.contains(&b','),
    };
    Dialect { delim: if is_tabs { b'\t' } else { b',' }, quotes: true }
}

fn dialect(file: &File) -> Dialect {
    dialect_of(&file.name, &file.head)
}

fn params(files: &[File]) -> Result<Json> {
    let first = &files[0];
    let dialect = dialect(first);
    let mut params = json!({
        "files": files_param(files)?,
        "header": first.header,
        "field_delim": char::from(dialect.delim).to_string(),
        "compression_type": first.compression.name(),
        "as_dict": true,
    });
    if !first.header {
        let line = first.head.split(|b| *b == b'\n').next().unwrap_or_default();
        let columns =
            texts(line.strip_suffix(b"\r").unwrap_or(line), dialect).map_err(|e| e.in_file(&first.name, None))?;
        params["names"] = (0..columns.len()).map(|i| format!("c{i}")).collect();
    }
    Ok(params)
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
            "{name:?} is {leaf}, and a field of a CSV file is one value; write JSON lines, or leave it out (of Examples \
             with --schema)"
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
    each_record(file, &mut Rows::new(dialect, false), watch, &mut |byte, record| {
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
    Ok(checked)
}
