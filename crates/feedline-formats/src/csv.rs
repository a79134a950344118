//! CSV by tf.data's rules, which are RFC 4180's and stricter: a field is quoted if it begins with a quote, a quote inside
//! is doubled, and a quote anywhere else is an error.
//!
//! Reading has two steps, so that the second can be done by many: `Rows` cuts a file into records (it knows quotes, and
//! nothing of columns), `Parser` turns one record into cells of typed columns, straight into their memory.

use crate::records::{Carry, Cut, Out, Records};
use feedline_io::{Buf, Error, Result};
use memchr::{memchr, memchr2, memchr3};
use std::ops::Range;
use std::sync::Arc;

/// What separates and what quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    pub delim: u8,
    /// Whether quotes have a meaning.
    pub quotes: bool,
}

impl Default for Dialect {
    fn default() -> Dialect {
        Dialect { delim: b',', quotes: true }
    }
}

impl Dialect {
    pub fn new(delim: &str, quotes: bool) -> Result<Dialect> {
        match delim.as_bytes() {
            [b'\n' | b'\r'] => Err(Error::usage("field_delim must not be a line end")),
            [b'"'] if quotes => Err(Error::usage("field_delim must not be a quote, unless use_quote_delim is False")),
            [delim] => Ok(Dialect { delim: *delim, quotes }),
            _ => Err(Error::usage(format!("field_delim must be one ASCII character, not {delim:?}"))),
        }
    }
}

/// A record longer than this is an error: a quote that nobody closes must not collect the rest of a large file.
pub const MAX_RECORD_BYTES: usize = 256 << 20;

/// Cuts a file into records. Line ends are `\n`, `\r\n` and `\r`; inside of quotes they are text.
pub struct Rows {
    carry: Carry,
    dialect: Dialect,
    /// How far the rest was looked at, and whether that place is inside of quotes.
    seen: usize,
    quoted: bool,
    /// The first record is still to be passed over.
    header: bool,
    /// The names that it must have.
    names: Option<Arc<[String]>>,
    /// It has others: what follows would be taken for what it is not.
    given_up: bool,
    /// In a record that was too long, up to the next line end.
    passing: bool,
    max_bytes: usize,
}

/// What `Rows` finds at the front of its bytes.
enum Found {
    /// A record of that many bytes, and a line end of that many.
    Record(usize, usize),
    Nothing,
}

impl Rows {
    pub fn new(dialect: Dialect, header: bool) -> Rows {
        let (carry, max_bytes) = (Carry::default(), MAX_RECORD_BYTES);
        let (names, given_up) = (None, false);
        Rows { carry, dialect, seen: 0, quoted: false, header, names, given_up, passing: false, max_bytes }
    }
    /// Refuses files whose header has other names, or these in another order.
    pub fn named(self, names: Option<Arc<[String]>>) -> Rows {
        Rows { names, ..self }
    }
    pub fn max_bytes(self, max_bytes: usize) -> Rows {
        Rows { max_bytes, ..self }
    }

    fn find(&mut self) -> Found {
        let (rest, last) = (self.carry.rest(), self.carry.is_finished());
        loop {
            let tail = &rest[self.seen..];
            let hit = match (self.quoted, self.dialect.quotes) {
                (true, _) => memchr(b'"', tail),
                (false, true) => memchr3(b'\n', b'\r', b'"', tail),
                (false, false) => memchr2(b'\n', b'\r', tail),
            };
            let Some(hit) = hit else {
                self.seen = rest.len();
                return if last && !rest.is_empty() { Found::Record(rest.len(), 0) } else { Found::Nothing };
            };
            let (at, next) = (self.seen + hit, rest.get(self.seen + hit + 1));
            self.seen = at;
            // A closing quote and a carriage return are understood with the byte behind them.
            if next.is_none() && !last && (self.quoted || rest[at] == b'\r') {
                return Found::Nothing;
            }
            match rest[at] {
                b'"' if self.quoted && next == Some(&b'"') => self.seen += 2,
                b'"' if self.quoted => {
                    self.quoted = false;
                    self.seen += 1;
                }
                b'"' => {
                    self.quoted = at == 0 || rest[at - 1] == self.dialect.delim;
                    self.seen += 1;
                }
                b'\r' if next == Some(&b'\n') => return Found::Record(at, 2),
                _ => return Found::Record(at, 1),
            }
        }
    }
    fn advance(&mut self, bytes: usize) {
        self.carry.advance(bytes);
        (self.seen, self.quoted) = (0, false);
    }
    /// Passes over the header, which is so long, unless it has other names than the file should have.
    fn pass_header(&mut self, len: usize, end: usize) -> Result<()> {
        if let Some(names) = &self.names {
            let found = header_names(&self.carry.rest()[..len], self.dialect)?;
            if found[..] != names[..] {
                return Err(Error::data(format!(
                    "the header is {found:?}, but that of the first file is {names:?}; files that are read together must \
                     have the same columns in the same order"
                )));
            }
        }
        self.advance(len + end);
        Ok(())
    }
    /// Gives up the record in front: goes on after the first line end, wherever quotes stand.
    fn pass(&mut self) {
        let line = memchr(b'\n', self.carry.rest());
        self.passing = line.is_none() && !self.carry.is_finished();
        self.advance(line.map_or(self.carry.rest().len(), |at| at + 1));
    }
    /// One quote too many must not cost the rest of the file.
    fn unclosed(&mut self) -> Cut {
        let error = Error::data(format!(
            "the record that begins at byte {} has a quote that is never closed (if quotes have no meaning in this file: \
             use_quote_delim=False)",
            self.carry.offset()
        ));
        self.pass();
        Cut::Fail(error)
    }
    fn too_long(&mut self) -> Cut {
        let error = Error::data(format!(
            "the record that begins at byte {} is longer than {} bytes; is there a quote that is never closed? (If quotes \
             have no meaning in this file: use_quote_delim=False)",
            self.carry.offset(),
            self.max_bytes
        ));
        self.pass();
        Cut::Fail(error)
    }
}

impl Records for Rows {
    fn feed(&mut self, block: Buf) {
        self.carry.feed(block);
    }
    fn finish(&mut self) {
        self.carry.finish();
    }
    fn base(&self) -> u64 {
        self.carry.base()
    }
    fn place(&self) -> Option<u64> {
        (!self.passing && !self.header).then(|| self.carry.offset())
    }
    fn start_at(&mut self, byte: u64, _: u64) -> bool {
        (self.carry, self.header) = (Carry::at(byte), false);
        true
    }
    fn cut(&mut self, want: usize, out: &mut dyn Out) -> Cut {
        if self.given_up {
            return Cut::End;
        }
        if self.passing {
            self.pass();
        }
        let mut given = 0;
        while given < want {
            match self.find() {
                Found::Record(len, _) if len > self.max_bytes && given == 0 => return self.too_long(),
                Found::Record(len, _) if len > self.max_bytes => break,
                Found::Record(..) if self.quoted && given > 0 => break,
                Found::Record(..) if self.quoted => return self.unclosed(),
                Found::Record(len, end) if std::mem::take(&mut self.header) => {
                    if let Err(error) = self.pass_header(len, end) {
                        self.given_up = true;
                        return Cut::Fail(error.at_byte(0).that_ends());
                    }
                }
                Found::Record(len, end) => {
                    let start = self.carry.start();
                    out.view(self.carry.block(), start..start + len);
                    given += 1;
                    self.advance(len + end);
                }
                Found::Nothing if given > 0 => break,
                Found::Nothing if !self.carry.is_finished() && self.carry.rest().len() <= self.max_bytes => {
                    return Cut::More;
                }
                Found::Nothing if !self.carry.is_finished() => return self.too_long(),
                Found::Nothing if std::mem::take(&mut self.header) => {
                    return Cut::Fail(Error::data("is empty, where a header line is expected (header=True)"));
                }
                Found::Nothing => return Cut::End,
            }
        }
        Cut::Records(given)
    }
}

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
        Ok(Schema { dialect, columns, select, na, blank_is_a_field: true, exact: false, stops })
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
                Some(select) => select.get(column) == Some(&number),
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

/// Text of a file in a message: as much of it as helps.
fn shown(text: &[u8]) -> String {
    match text.get(..40) {
        Some(head) => format!("{:?}…", String::from_utf8_lossy(head)),
        None => format!("{:?}", String::from_utf8_lossy(text)),
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

/// The types of columns as far as some rows tell: a column may only widen, and empty fields tell nothing.
#[derive(Clone, Debug, Default)]
pub struct Inference {
    types: Vec<Option<Type>>,
}

impl Inference {
    pub fn new(columns: usize) -> Inference {
        Inference { types: vec![None; columns] }
    }
    pub fn row(&mut self, texts: &[Vec<u8>], na: &[u8]) -> Result<()> {
        if texts.len() != self.types.len() {
            return Err(Error::data(format!(
                "the record has {} fields, {} are expected",
                texts.len(),
                self.types.len()
            )));
        }
        for (ty, text) in self.types.iter_mut().zip(texts) {
            if !text.is_empty() && text != na {
                *ty = Some(Type::infer(text, *ty));
            }
        }
        Ok(())
    }
    /// A column of which nothing is known is text.
    pub fn types(&self) -> Vec<Type> {
        self.types.iter().map(|t| t.unwrap_or(Type::String)).collect()
    }
}

/// What a field could be, for whoever writes it again: what a number would not keep is text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looks {
    Empty,
    /// A whole number that a float holds exactly.
    Int,
    /// One that only an int64 does.
    LongInt,
    Float,
    /// nan or inf, which may be words.
    NotFinite,
    Text,
}

impl Looks {
    pub fn of(text: &[u8]) -> Looks {
        if text.is_empty() {
            return Looks::Empty;
        }
        match int(text) {
            _ if has_more_than_number(text) => Looks::Text,
            Ok(0) if text.contains(&b'-') => Looks::Float,
            Ok(n) if n.unsigned_abs() <= EXACT_IN_FLOAT => Looks::Int,
            Ok(_) => Looks::LongInt,
            Err(NotInt::Beyond) => Looks::Text,
            Err(NotInt::Text) => match float::<f64>(text) {
                Some(x) if x.is_finite() => Looks::Float,
                // 1e999 is not infinite, it is beyond what a float64 holds.
                Some(_) if !text.iter().any(u8::is_ascii_digit) => Looks::NotFinite,
                _ => Looks::Text,
            },
        }
    }
}

/// Whole numbers up to this one are different as float64.
const EXACT_IN_FLOAT: u64 = 1 << 53;

/// Whether a text has a plus sign or leading zeros, which a number does not have.
fn has_more_than_number(text: &[u8]) -> bool {
    let digits = match trim(text) {
        [b'+', ..] => return true,
        [b'-', digits @ ..] => digits,
        digits => digits,
    };
    matches!(digits, [b'0', b'0'..=b'9', ..])
}

/// Whether a number can stand for its text in a column of that type. That it is a number is found out elsewhere.
fn keeps(text: &[u8], ty: Type) -> bool {
    let is_minus_zero = || matches!(trim(text), [b'-', zeros @ ..] if zeros.iter().all(|b| *b == b'0'));
    match ty {
        _ if has_more_than_number(text) => false,
        Type::Int32 | Type::Int64 => !is_minus_zero(),
        // Long enough to be beyond what a float holds.
        Type::Float32 | Type::Float64 if text.len() > 15 => !matches!(Looks::of(text), Looks::LongInt | Looks::Text),
        _ => true,
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum NotInt {
    Text,
    Beyond,
}

/// White space as C's `isspace` has it.
fn trim(mut text: &[u8]) -> &[u8] {
    let is_space = |b: &u8| b.is_ascii_whitespace() || *b == 0x0b;
    while let [first, rest @ ..] = text
        && is_space(first)
    {
        text = rest;
    }
    while let [rest @ .., last] = text
        && is_space(last)
    {
        text = rest;
    }
    text
}

/// A whole number with spaces around it.
fn int(text: &[u8]) -> std::result::Result<i64, NotInt> {
    let (negative, digits) = match trim(text) {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return Err(NotInt::Text);
    }
    let mut n = 0u64;
    let mut beyond = false;
    for (i, byte) in digits.iter().enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(NotInt::Text);
        }
        n = if i < 19 {
            n.wrapping_mul(10).wrapping_add(digit as u64)
        } else {
            // More digits than 64 bits have for sure: leading zeros are possible.
            let next = n.checked_mul(10).and_then(|n| n.checked_add(digit as u64));
            beyond |= next.is_none();
            next.unwrap_or(0)
        };
    }
    let n = if negative { 0i64.checked_sub_unsigned(n) } else { i64::try_from(n).ok() };
    n.filter(|_| !beyond).ok_or(NotInt::Beyond)
}

/// A number with spaces around it; `nan`, `inf` and `infinity` are numbers.
fn float<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(trim(text)).ok()?.parse().ok()
}

/// Writes records by RFC 4180, with `\n` as the line end: fields are quoted where they have to be, quotes doubled.
#[derive(Debug, Default)]
pub struct Writer {
    dialect: Dialect,
    out: Vec<u8>,
    /// Where the row begins in `out`.
    row: usize,
    fields: usize,
}

impl Writer {
    pub fn new(dialect: Dialect) -> Writer {
        Writer { dialect, ..Writer::default() }
    }
    fn field(&mut self) {
        if self.fields > 0 {
            self.out.push(self.dialect.delim);
        }
        self.fields += 1;
    }
    /// Fails only where quotes are switched off and the text needs them.
    pub fn text(&mut self, text: &[u8]) -> Result<()> {
        let delim = self.dialect.delim;
        let special = |b: &u8| *b == delim || matches!(b, b'\n' | b'\r') || (*b == b'"' && self.dialect.quotes);
        let needs_quotes = text.iter().any(special);
        if needs_quotes && !self.dialect.quotes {
            return Err(Error::data(format!("{} cannot be written without quotes", shown(text))));
        }
        self.field();
        if !needs_quotes {
            self.out.extend_from_slice(text);
            return Ok(());
        }
        self.out.push(b'"');
        for byte in text {
            self.out.push(*byte);
            if *byte == b'"' {
                self.out.push(b'"');
            }
        }
        self.out.push(b'"');
        Ok(())
    }
    /// A number in its shortest form that reads back to the same.
    pub fn number(&mut self, number: impl std::fmt::Debug) {
        use std::io::Write;
        self.field();
        write!(self.out, "{number:?}").expect("memory can be written");
    }
    pub fn end_row(&mut self) {
        // One empty field would be a blank line, which many readers pass over.
        if self.fields == 1 && self.out.len() == self.row && self.dialect.quotes {
            self.out.extend_from_slice(b"\"\"");
        }
        self.out.push(b'\n');
        (self.fields, self.row) = (0, self.out.len());
    }
    /// What is written so far, and starts anew.
    pub fn take(&mut self) -> Vec<u8> {
        self.row = 0;
        std::mem::take(&mut self.out)
    }
    pub fn written(&self) -> usize {
        self.out.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::collect;
    use proptest::prelude::*;

    /// Cells as text, for comparisons.
    #[derive(Default)]
    struct Shown {
        record: Vec<u8>,
        cells: Vec<String>,
        types: Vec<Type>,
    }
    impl Sink for Shown {
        fn number<const N: usize>(&mut self, column: usize, bytes: [u8; N]) {
            self.cells[column] = match self.types[column] {
                Type::Int32 => i32::from_ne_bytes(bytes[..].try_into().unwrap()).to_string(),
                Type::Int64 => i64::from_ne_bytes(bytes[..].try_into().unwrap()).to_string(),
                Type::Float32 => f32::from_ne_bytes(bytes[..].try_into().unwrap()).to_string(),
                Type::Float64 => f64::from_ne_bytes(bytes[..].try_into().unwrap()).to_string(),
                Type::String => unreachable!(),
            };
        }
        fn view(&mut self, column: usize, range: Range<usize>) {
            self.cells[column] = String::from_utf8_lossy(&self.record[range]).into();
        }
        fn copy(&mut self, column: usize, text: &[u8]) {
            self.cells[column] = String::from_utf8_lossy(text).into();
        }
    }

    fn required(types: &[Type]) -> Vec<Column> {
        types.iter().map(|ty| Column { name: String::new(), ty: *ty, default: Fill::Required }).collect()
    }
    fn parse(schema: &Schema, record: &str) -> std::result::Result<Vec<String>, String> {
        let types = schema.columns.iter().map(|c| c.ty).collect();
        let cells = vec![String::new(); schema.columns.len()];
        let mut sink = Shown { record: record.into(), cells, types };
        Parser::new(schema).row(record.as_bytes(), &mut sink).map_err(|e| e.to_string())?;
        Ok(sink.cells)
    }
    fn schema(types: &[Type]) -> Schema {
        Schema::new(Dialect::default(), required(types), None, vec![]).unwrap()
    }
    fn rows(text: &[u8], header: bool, block: usize) -> Vec<std::result::Result<String, String>> {
        let mut rows = Rows::new(Dialect::default(), header);
        let all = collect(&mut rows, text.chunks(block)).into_iter();
        all.map(|r| r.map(|r| String::from_utf8(r).unwrap()).map_err(|e| e.to_string())).collect()
    }

    #[test]
    fn records_end_at_line_ends_outside_of_quotes() {
        let text = b"1,\"a\nb\",c\r\n\n\"x\"\"\n\",y\rz\"q\nlast";
        for block in 1..text.len() {
            let all: Vec<String> = rows(text, false, block).into_iter().map(|r| r.unwrap()).collect();
            assert_eq!(all, ["1,\"a\nb\",c", "", "\"x\"\"\n\",y", "z\"q", "last"], "blocks of {block}");
        }
    }

    #[test]
    fn headers_are_passed_over_and_missed() {
        assert_eq!(rows(b"a,\"b\nc\"\n1,2\n", true, 3), [Ok("1,2".into())]);
        assert!(rows(b"", true, 3)[0].as_ref().unwrap_err().contains("header"));
        assert_eq!(rows(b"a", true, 3), []);
    }

    #[test]
    fn a_quote_that_is_never_closed_costs_one_record() {
        for block in [1, 4, 100] {
            let mut reader = Rows::new(Dialect::default(), false).max_bytes(6);
            let all = collect(&mut reader, b"a\n\"bcdefgh\nij\nk\n".chunks(block));
            assert!(all[1].as_ref().unwrap_err().to_string().contains("byte 2 is longer"), "{all:?}");
            let rest: Vec<_> = all[2..].iter().map(|r| r.as_ref().unwrap().as_slice()).collect();
            assert_eq!(rest, [&b"ij"[..], b"k"]);
        }
    }

    #[test]
    fn cells_have_types() {
        use Type::*;
        let s = schema(&[Int32, Float32, String]);
        assert_eq!(parse(&s, "1,2.5,a").unwrap(), ["1", "2.5", "a"]);
        assert_eq!(parse(&s, " 1 , 2.5 , a ").unwrap(), ["1", "2.5", " a "]);
        assert_eq!(parse(&s, "-7,1e3,\"a\"\"b,\"").unwrap(), ["-7", "1000", "a\"b,"]);
        assert_eq!(parse(&s, "\"3\",-inf,x").unwrap(), ["3", "-inf", "x"]);
        let s = schema(&[Int64, Float64]);
        assert_eq!(parse(&s, "-9223372036854775808,0.1").unwrap(), ["-9223372036854775808", "0.1"]);
        assert_eq!(parse(&s, "000000000000000000000000012,nan").unwrap(), ["12", "NaN"]);
        assert!(parse(&s, "9223372036854775808,1").unwrap_err().contains("beyond what an int64"));
        assert!(parse(&s, "99999999999999999999999,1").unwrap_err().contains("beyond what an int64"));
    }

    #[test]
    fn errors_say_which_field_and_why() {
        use Type::*;
        let s = schema(&[Int32, Float32, String]);
        for (record, message) in [
            ("1,2.5", "has 2 fields, 3 are expected"),
            ("1,2.5,a,b", "has 4 fields, 3 are expected"),
            (",2.5,a", "field 0 is empty"),
            ("1,2.5,", "field 2 is empty"),
            ("", "field 0 is empty"),
            ("x,2.5,a", "field 0 is \"x\", not an int32"),
            ("1.5,2.5,a", "not an int32"),
            ("99999999999,2.5,a", "read it as int64"),
            ("1,2.5.1,a", "field 1 is \"2.5.1\", not a float32"),
            ("1,2.5,a\"b", "field 2 has a quote inside"),
            ("1,2.5,\"ab", "never closed"),
            ("1,2.5,\"a\"b", "after its closing quote"),
            ("1,2.5,a\nb", "line end inside"),
        ] {
            assert!(parse(&s, record).unwrap_err().contains(message), "{record}: {:?}", parse(&s, record));
        }
        let named = vec![Column { name: "age".into(), ty: Int32, default: Fill::Required }];
        let s = Schema::new(Dialect::default(), named, Some(vec![2]), vec![]).unwrap();
        assert!(parse(&s, "1,2,x").unwrap_err().contains("field 2 (\"age\")"));
        assert!(parse(&s, "1,2").unwrap_err().contains("has 2 fields, and field 2 is wanted"));
        assert_eq!(parse(&s, "1,2,3,4").unwrap(), ["3"]);
    }

    #[test]
    fn defaults_stand_in() {
        let columns = vec![
            Column { name: String::new(), ty: Type::Int32, default: Fill::Int(9) },
            Column { name: String::new(), ty: Type::Float64, default: Fill::Float(1.5) },
            Column { name: String::new(), ty: Type::String, default: Fill::Text(b"dd".to_vec()) },
        ];
        let s = Schema::new(Dialect::default(), columns, None, b"NA".to_vec()).unwrap();
        assert_eq!(parse(&s, ",,").unwrap(), ["9", "1.5", "dd"]);
        assert_eq!(parse(&s, "NA,NA,NA").unwrap(), ["9", "1.5", "dd"]);
        assert!(parse(&s, "").unwrap_err().contains("has 1 fields"));
        let s = Schema::new(Dialect::default(), s.columns[..1].to_vec(), None, vec![]).unwrap();
        assert_eq!(parse(&s, "").unwrap(), ["9"]);
        assert!(parse(&s.blank_has_no_field(), "").unwrap_err().contains("has 0 fields"));
    }

    #[test]
    fn wrong_parameters_are_refused() {
        assert!(
            Dialect::new(",,", true).is_err() && Dialect::new("", true).is_err() && Dialect::new("é", true).is_err()
        );
        let columns = || required(&[Type::String, Type::String]);
        for select in [vec![1, 0], vec![0, 0], vec![0], vec![-1, 0]] {
            assert!(Schema::new(Dialect::default(), columns(), Some(select), vec![]).is_err());
        }
    }

    #[test]
    fn texts_that_numbers_do_not_keep_are_text() {
        for (text, looks) in [
            ("", Looks::Empty),
            ("7", Looks::Int),
            ("-12", Looks::Int),
            (" 3 ", Looks::Int),
            ("0", Looks::Int),
            ("-0", Looks::Float),
            ("9007199254740993", Looks::LongInt),
            ("9223372036854775808", Looks::Text),
            ("007", Looks::Text),
            ("+1", Looks::Text),
            ("-01.5", Looks::Text),
            ("0.5", Looks::Float),
            ("1e3", Looks::Float),
            ("1e999", Looks::Text),
            ("nan", Looks::NotFinite),
            ("-inf", Looks::NotFinite),
            ("x", Looks::Text),
        ] {
            assert_eq!(Looks::of(text.as_bytes()), looks, "{text}");
        }
        let s = schema(&[Type::Int64, Type::Float64]).exact();
        assert_eq!(parse(&s, "7,-0").unwrap(), ["7", "-0"]);
        for bad in ["007,1", "+7,1", "-0,1", "7,+1", "7,01", "7,9007199254740993", "7,99999999999999999999"] {
            assert!(parse(&s, bad).unwrap_err().contains("would not stay so"), "{bad}");
        }
    }

    #[test]
    fn columns_only_widen() {
        let mut found = Inference::new(5);
        for row in [["1", "99999999999", "1.5", "x", ""], ["2", "3", "4", "5", ""], ["", "1e300", "nan", "", ""]] {
            found.row(&row.map(|t| t.as_bytes().to_vec()), b"").unwrap();
        }
        assert_eq!(found.types(), [Type::Int32, Type::Float64, Type::Float32, Type::String, Type::String]);
        assert!(found.row(&[vec![]], b"").is_err());
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(
            table in prop::collection::vec(prop::collection::vec("[ab,\"\n\r ]{0,6}", 3), 1..6),
            block in 1usize..20,
        ) {
            let mut ours = Writer::default();
            let mut theirs = csv::WriterBuilder::new().terminator(csv::Terminator::Any(b'\n')).from_writer(vec![]);
            for row in &table {
                row.iter().for_each(|f| ours.text(f.as_bytes()).unwrap());
                ours.end_row();
                theirs.write_record(row).unwrap();
            }
            for bytes in [ours.take(), theirs.into_inner().unwrap()] {
                let read: Vec<Vec<String>> = csv::ReaderBuilder::new().has_headers(false).from_reader(&bytes[..])
                    .records().map(|r| r.unwrap().iter().map(String::from).collect()).collect();
                prop_assert_eq!(&read, &table);
                let records = collect(&mut Rows::new(Dialect::default(), false), bytes.chunks(block));
                let ours: Vec<Vec<String>> = records.into_iter().map(|r| {
                    let texts = texts(&r.unwrap(), Dialect::default()).unwrap();
                    texts.into_iter().map(|t| String::from_utf8(t).unwrap()).collect()
                }).collect();
                prop_assert_eq!(&ours, &table);
            }
        }

        #[test]
        fn any_block_size_gives_the_same(text in "[a,\"\n\r]{0,30}", block in 1usize..12, quotes: bool) {
            let dialect = Dialect { quotes, ..Dialect::default() };
            let read = |block| -> Vec<std::result::Result<Vec<u8>, String>> {
                let all = collect(&mut Rows::new(dialect, false), text.as_bytes().chunks(block));
                all.into_iter().map(|r| r.map_err(|e| e.to_string())).collect()
            };
            prop_assert_eq!(read(block), read(1000));
        }

        #[test]
        fn numbers_are_rusts(n: i64, x: f32, y: f64) {
            let s = schema(&[Type::Int64, Type::Float32, Type::Float64]);
            let mut w = Writer::default();
            w.number(n);
            w.number(x);
            w.number(y);
            let text = String::from_utf8(w.take()).unwrap();
            prop_assert_eq!(parse(&s, &text).unwrap(), [n.to_string(), x.to_string(), y.to_string()]);
        }
    }
}
