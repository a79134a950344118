//! A record as cells of typed columns.

use super::infer::{NotInt, float, int, keeps};
use super::{Dialect, shown};
use feedline_io::{Error, Result};
use memchr::memchr;
use std::ops::Range;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Type {
    Int32,
    Int64,
    Float32,
    Float64,
    String,
}

impl Type {
    pub fn name(self) -> &'static str {
        match self {
            Type::Int32 => "int32",
            Type::Int64 => "int64",
            Type::Float32 => "float32",
            Type::Float64 => "float64",
            Type::String => "string",
        }
    }
    /// The narrowest type, in this order and not before `at_least`, that the text fits.
    pub fn infer(text: &[u8], at_least: Option<Type>) -> Type {
        let fits = |t: Type| match t {
            Type::Int32 => int(text).is_ok_and(|n| i32::try_from(n).is_ok()),
            Type::Int64 => int(text).is_ok(),
            // A number that overflows to infinity does not fit; one that is written as infinity does.
            Type::Float32 => float(text).is_some_and(|x: f64| !x.is_finite() || (x as f32).is_finite()),
            Type::Float64 => float::<f64>(text).is_some(),
            Type::String => true,
        };
        [Type::Int32, Type::Int64, Type::Float32, Type::Float64]
            .into_iter()
            .find(|t| Some(*t) >= at_least && fits(*t))
            .unwrap_or(Type::String)
    }
}

/// What stands in for an empty field.
#[derive(Clone, Debug, PartialEq)]
pub enum Fill {
    /// Nothing does: the field is required.
    Required,
    Int(i64),
    Float(f64),
    Text(Vec<u8>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// For messages; may be empty.
    pub name: String,
    pub ty: Type,
    pub default: Fill,
}

/// Where the cells of a row go. Numbers of a row that fails may have been put before that is known: the next row puts
/// its own in their place. Texts are put only when nothing can fail any more.
pub trait Sink {
    /// The number in the bytes of this machine.
    fn number<const N: usize>(&mut self, column: usize, bytes: [u8; N]);
    /// Text that lies in the record.
    fn view(&mut self, column: usize, range: Range<usize>);
    /// Text that had to be put together.
    fn copy(&mut self, column: usize, text: &[u8]);
}

/// What the records of a file mean.
#[derive(Clone, Debug)]
pub struct Schema {
    dialect: Dialect,
    columns: Vec<Column>,
    /// The numbers of the columns that are wanted, rising; all if there are none.
    select: Option<Vec<usize>>,
    /// Those that are not, where all others are: one more than there are columns is an error.
    exclude: Option<Vec<usize>>,
    /// Stands for an empty field, beside the empty field itself.
    na: Vec<u8>,
    /// A record of no bytes has one empty field, as a blank line in a file does; otherwise it has none.
    blank_is_a_field: bool,
    /// Numbers that would not be written back as they are written are errors.
    exact: bool,
    /// Bytes at which an unquoted field ends, or must not go on.
    stops: [bool; 256],
}

impl Schema {
    pub fn new(dialect: Dialect, columns: Vec<Column>, select: Option<Vec<i64>>, na: Vec<u8>) -> Result<Schema> {
        let select = select.map(|select| check_select(&select, columns.len())).transpose()?;
        let mut stops = [false; 256];
        for byte in [dialect.delim, b'\n', b'\r'] {
            stops[byte as usize] = true;
        }
        stops[b'"' as usize] |= dialect.quotes;
        Ok(Schema { dialect, columns, select, exclude: None, na, blank_is_a_field: true, exact: false, stops })
    }
    /// All columns but these, instead of a choice.
    pub fn without(self, exclude: &[i64]) -> Result<Schema> {
        if self.select.is_some() {
            return Err(Error::usage("there are select_cols and exclude_cols: give one of them"));
        }
        if exclude.iter().any(|c| *c < 0) {
            return Err(Error::usage(format!("exclude_cols must not be negative, but is {exclude:?}")));
        }
        let exclude: Vec<usize> = exclude.iter().map(|c| *c as usize).collect();
        let select = (0..).filter(|column| !exclude.contains(column)).take(self.columns.len()).collect();
        Ok(Schema { select: Some(select), exclude: Some(exclude), ..self })
    }
    /// For strings from elsewhere, in which an empty one has no fields.
    pub fn blank_has_no_field(self) -> Schema {
        Schema { blank_is_a_field: false, ..self }
    }
    /// For whoever writes the numbers again: 007 and +1 are errors, since they would come back as 7 and 1.
    pub fn exact(self) -> Schema {
        Schema { exact: true, ..self }
    }
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }
    fn is_na(&self, text: &[u8]) -> bool {
        text.is_empty() || text == self.na
    }
    /// The field as messages call it: by number in the record, and by name if it has one.
    fn called(&self, column: usize) -> String {
        let number = self.select.as_ref().map_or(column, |s| s[column]);
        match self.columns[column].name.as_str() {
            "" => format!("field {number}"),
            name => format!("field {number} ({name:?})"),
        }
    }
}

fn check_select(select: &[i64], columns: usize) -> Result<Vec<usize>> {
    if select.len() != columns {
        return Err(Error::usage(format!("select_cols has {} columns and record_defaults {columns}", select.len())));
    }
    if select.iter().any(|c| *c < 0) || !select.is_sorted_by(|a, b| a < b) {
        return Err(Error::usage(format!("select_cols must be rising and not negative, not {select:?}")));
    }
    Ok(select.iter().map(|c| *c as usize).collect())
}

/// A field of a record: where its text lies, and whether it has doubled quotes in it.
#[derive(Clone, Debug)]
pub struct Field {
    pub text: Range<usize>,
    pub doubled: bool,
}

impl Field {
    /// Its text, put together in `scratch` if there are doubled quotes.
    pub fn text<'a>(&self, record: &'a [u8], scratch: &'a mut Vec<u8>) -> &'a [u8] {
        let text = &record[self.text.clone()];
        if !self.doubled {
            return text;
        }
        scratch.clear();
        let mut parts = text.split(|b| *b == b'"');
        scratch.extend_from_slice(parts.next().unwrap_or_default());
        // Quotes come in pairs: an empty part lies between the two of each.
        while let (Some(_), Some(part)) = (parts.next(), parts.next()) {
            scratch.push(b'"');
            scratch.extend_from_slice(part);
        }
        scratch
    }
}

/// Turns records into cells. Keeps memory between rows: one for each thread.
#[derive(Clone, Debug)]
pub struct Parser<'a> {
    schema: &'a Schema,
    texts: Vec<(usize, Field)>,
    scratch: Vec<u8>,
}

impl<'a> Parser<'a> {
    pub fn new(schema: &'a Schema) -> Parser<'a> {
        Parser { schema, texts: Vec::new(), scratch: Vec::new() }
    }

    /// The cells of one record. Errors say which field, and what is wrong with it.
    pub fn row(&mut self, record: &[u8], sink: &mut impl Sink) -> Result<()> {
        let schema = self.schema;
        let wanted = schema.columns.len();
        self.texts.clear();
        let (mut at, mut number, mut column) = (0, 0, 0);
        let mut more = schema.blank_is_a_field || !record.is_empty();
        while more {
            let field;
            (field, more) = next_field(record, &mut at, schema.dialect, &schema.stops)
                .map_err(|why| Error::data(format!("field {number} {why}")))?;
            let is_wanted = match &schema.select {
                None if number == wanted => return Err(self.wrong_count(record)),
                None => true,
                Some(select) => match (select.get(column), &schema.exclude) {
                    (None, Some(exclude)) if !exclude.contains(&number) => return Err(self.wrong_count(record)),
                    (next, _) => next == Some(&number),
                },
            };
            if is_wanted {
                self.cell(record, column, field, sink)?;
                column += 1;
            }
            number += 1;
        }
        if column < wanted {
            return Err(self.wrong_count(record));
        }
        for (column, field) in self.texts.drain(..) {
            match &schema.columns[column].default {
                Fill::Text(text) if schema.is_na(&record[field.text.clone()]) => sink.copy(column, text),
                _ if field.doubled => sink.copy(column, field.text(record, &mut self.scratch)),
                _ => sink.view(column, field.text),
            }
        }
        Ok(())
    }

    fn cell(&mut self, record: &[u8], column: usize, field: Field, sink: &mut impl Sink) -> Result<()> {
        let schema = self.schema;
        let Column { ty, default, .. } = &schema.columns[column];
        let text = &record[field.text.clone()];
        let is_na = schema.is_na(text);
        if is_na && *default == Fill::Required {
            return Err(Error::data(format!(
                "{} is {}, and a value is required; a default for the column would take its place",
                schema.called(column),
                if text.is_empty() { "empty".into() } else { shown(text) }
            )));
        }
        if *ty == Type::String {
            self.texts.push((column, field));
            return Ok(());
        }
        if schema.exact && !is_na && !keeps(text, *ty) {
            let (called, ty) = (schema.called(column), ty.name());
            return Err(Error::data(format!("{called} is {}, which would not stay so as an {ty}", shown(text))));
        }
        // Doubled quotes in a number are an error in any form of them.
        match (ty, is_na) {
            (Type::Int32, false) => {
                let n = int(text).and_then(|n| i32::try_from(n).map_err(|_| NotInt::Beyond));
                sink.number(column, n.map_err(|why| self.bad_int(column, text, why))?.to_ne_bytes());
            }
            (Type::Int64, false) => {
                let n = int(text).map_err(|why| self.bad_int(column, text, why))?;
                sink.number(column, n.to_ne_bytes());
            }
            (Type::Float32, false) => {
                let x: f32 = float(text).ok_or_else(|| self.bad_float(column, text))?;
                sink.number(column, x.to_ne_bytes());
            }
            (Type::Float64, false) => {
                let x: f64 = float(text).ok_or_else(|| self.bad_float(column, text))?;
                sink.number(column, x.to_ne_bytes());
            }
            (ty, _) => {
                let (n, x) = match default {
                    Fill::Int(n) => (*n, *n as f64),
                    Fill::Float(x) => (*x as i64, *x),
                    _ => (0, 0.0),
                };
                match ty {
                    Type::Int32 => sink.number(column, (n as i32).to_ne_bytes()),
                    Type::Int64 => sink.number(column, n.to_ne_bytes()),
                    Type::Float32 => sink.number(column, (x as f32).to_ne_bytes()),
                    _ => sink.number(column, x.to_ne_bytes()),
                }
            }
        }
        Ok(())
    }

    #[cold]
    fn wrong_count(&self, record: &[u8]) -> Error {
        let found = fields(record, self.schema.dialect).map_or(0, |f| f.len());
        let found = if record.is_empty() && !self.schema.blank_is_a_field { 0 } else { found };
        if let Some(exclude) = &self.schema.exclude {
            let left = (0..found).filter(|number| !exclude.contains(number)).count();
            let wanted = self.schema.columns.len();
            return Error::data(format!(
                "the record has {found} fields, {left} of them not in exclude_cols; {wanted} are expected"
            ));
        }
        Error::data(match &self.schema.select {
            None => format!("the record has {found} fields, {} are expected", self.schema.columns.len()),
            Some(select) => {
                format!("the record has {found} fields, and field {} is wanted", select.last().copied().unwrap_or(0))
            }
        })
    }
    #[cold]
    fn bad_int(&self, column: usize, text: &[u8], why: NotInt) -> Error {
        let (called, ty) = (self.schema.called(column), self.schema.columns[column].ty);
        Error::data(match why {
            NotInt::Text => format!("{called} is {}, not an {}", shown(text), ty.name()),
            NotInt::Beyond if ty == Type::Int32 => {
                format!("{called} is {}, beyond what an int32 holds; read it as int64", shown(text))
            }
            NotInt::Beyond => format!("{called} is {}, beyond what an int64 holds", shown(text)),
        })
    }
    #[cold]
    fn bad_float(&self, column: usize, text: &[u8]) -> Error {
        let ty = self.schema.columns[column].ty.name();
        Error::data(format!("{} is {}, not a {ty}", self.schema.called(column), shown(text)))
    }
}

/// The field at `at`, which moves behind it and its delimiter, and whether another follows.
fn next_field(
    record: &[u8],
    at: &mut usize,
    dialect: Dialect,
    stops: &[bool; 256],
) -> std::result::Result<(Field, bool), String> {
    let start = *at;
    let rest = &record[start..];
    let (text, doubled, end) = if dialect.quotes && rest.first() == Some(&b'"') {
        let (mut close, mut doubled) = (1, false);
        loop {
            close += memchr(b'"', &rest[close..]).ok_or("begins with a quote that is never closed")?;
            if rest.get(close + 1) != Some(&b'"') {
                break;
            }
            doubled = true;
            close += 2;
        }
        if rest.get(close + 1).is_some_and(|next| *next != dialect.delim) {
            return Err("goes on after its closing quote; a quote inside of a quoted field must be doubled".into());
        }
        (1..close, doubled, close + 1)
    } else {
        let end = rest.iter().position(|b| stops[*b as usize]).unwrap_or(rest.len());
        match rest.get(end) {
            Some(b'"') if dialect.delim != b'"' => {
                return Err("has a quote inside, and does not begin with one; quote the entire field, or read with \
                            use_quote_delim=False"
                    .into());
            }
            Some(b'\n' | b'\r') => {
                return Err("has a line end inside; quote the field, or take the line end off".into());
            }
            _ => (0..end, false, end),
        }
    };
    *at = start + end + 1;
    Ok((Field { text: start + text.start..start + text.end, doubled }, end < rest.len()))
}

/// All fields of a record, for headers and inference.
pub fn fields(record: &[u8], dialect: Dialect) -> Result<Vec<Field>> {
    let schema = Schema::new(dialect, vec![], None, vec![])?;
    let (mut all, mut at, mut more) = (Vec::new(), 0, true);
    while more {
        let field;
        (field, more) = next_field(record, &mut at, dialect, &schema.stops)
            .map_err(|why| Error::data(format!("field {} {why}", all.len())))?;
        all.push(field);
    }
    Ok(all)
}

/// The names in a header. A byte order mark is no part of the first.
pub fn header_names(record: &[u8], dialect: Dialect) -> Result<Vec<String>> {
    let record = record.strip_prefix("\u{feff}".as_bytes()).unwrap_or(record);
    Ok(texts(record, dialect)?.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect())
}

/// The texts of all fields of a record.
pub fn texts(record: &[u8], dialect: Dialect) -> Result<Vec<Vec<u8>>> {
    let mut scratch = Vec::new();
    Ok(fields(record, dialect)?.iter().map(|f| f.text(record, &mut scratch).to_vec()).collect())
}
