//! Which columns a CSV file has, and of which types, for whoever writes them again: a column is of numbers only if all of
//! its texts come back from numbers as they were.

use crate::file::File;
use crate::formats::first_records;
use crate::session::Watch;
use feedline::element::DType;
use feedline::{Error, Result};
use feedline_formats::csv::{Column, Dialect, Fill, Looks, Parser, Rows, Schema, Sink, Type, texts};
use std::ops::Range;

/// The names of the columns; `None` if the file is empty.
pub fn names(file: &File, dialect: Dialect, watch: &Watch<'_>) -> Result<Option<Vec<String>>> {
    let mut found = None;
    first_records(file, &mut Rows::new(dialect, false), 1, watch, &mut |_, record| {
        found.get_or_insert_with(|| texts(record?, dialect));
    })?;
    let Some(fields) = found.transpose().map_err(|e| e.in_file(&file.name, None))? else { return Ok(None) };
    // A byte order mark is no part of the first name.
    let name = |t: &Vec<u8>| String::from_utf8_lossy(t).trim_start_matches('\u{feff}').to_owned();
    let names: Vec<String> = match file.header {
        true => fields.iter().map(name).collect(),
        false => (0..fields.len()).map(|i| format!("c{i}")).collect(),
    };
    match names.iter().enumerate().find(|(i, n)| names[..*i].contains(n)) {
        Some((_, twice)) => Err(Error::data(format!("two columns have the name {twice:?}")).in_file(&file.name, None)),
        None => Ok(Some(names)),
    }
}

/// A row of a file.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub file: usize,
    pub row: u64,
    pub byte: u64,
}

/// What some rows tell of the columns.
pub struct Seen {
    /// Bits, one for each way that texts of the column look.
    looks: Vec<u8>,
    /// Where the first empty field of each is.
    pub empty: Vec<Option<Place>>,
    schema: Schema,
    pub rows: usize,
}

impl Seen {
    pub fn new(columns: usize, dialect: Dialect) -> Result<Seen> {
        let text = Column { name: String::new(), ty: Type::String, default: Fill::Text(vec![]) };
        let schema = Schema::new(dialect, vec![text; columns], None, vec![])?;
        Ok(Seen { looks: vec![0; columns], empty: vec![None; columns], schema, rows: 0 })
    }
    /// An error if it is no row of these columns; then nothing of it counts.
    pub fn row(&mut self, record: &[u8], place: Place) -> Result<()> {
        let mut sink = Look { record, place, looks: &mut self.looks, empty: &mut self.empty };
        Parser::new(&self.schema).row(record, &mut sink)?;
        self.rows += 1;
        Ok(())
    }
    /// The first rows of a file. Those that are broken are said by whoever reads them.
    pub fn file(&mut self, file: &File, number: usize, most: usize, dialect: Dialect, watch: &Watch<'_>) -> Result<()> {
        let (mut row, has_header) = (0, file.header && file.stat.len > 0);
        first_records(file, &mut Rows::new(dialect, has_header), most, watch, &mut |byte, record| {
            let _ = record.and_then(|record| self.row(record, Place { file: number, row, byte }));
            row += 1;
        })?;
        Ok(())
    }
    pub fn dtype(&self, column: usize) -> DType {
        let seen = |looks: &[Looks]| looks.iter().any(|l| self.looks[column] & bit(*l) != 0);
        let is_float = seen(&[Looks::Float, Looks::NotFinite]);
        match seen(&[Looks::Int, Looks::LongInt, Looks::Float]) {
            _ if seen(&[Looks::Text]) => DType::String,
            // Nothing but nan and inf may be words; nothing at all is text.
            false => DType::String,
            true if is_float && seen(&[Looks::LongInt]) => DType::String,
            true if is_float => DType::Float64,
            true => DType::Int64,
        }
    }
}

fn bit(looks: Looks) -> u8 {
    1 << looks as u8
}

/// Looks at the texts of one row.
struct Look<'a> {
    record: &'a [u8],
    place: Place,
    looks: &'a mut [u8],
    empty: &'a mut [Option<Place>],
}

impl Sink for Look<'_> {
    fn number<const N: usize>(&mut self, _: usize, _: [u8; N]) {}
    fn view(&mut self, column: usize, range: Range<usize>) {
        self.looks[column] |= bit(Looks::of(&self.record[range]));
    }
    fn copy(&mut self, column: usize, text: &[u8]) {
        self.looks[column] |= bit(Looks::of(text));
        if text.is_empty() {
            self.empty[column].get_or_insert(self.place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_what_all_of_their_texts_are() {
        let mut seen = Seen::new(8, Dialect::default()).unwrap();
        let rows = ["1,1,007,1,x,,nan,9007199254740993", "2,2.5,8,nan,2,,inf,0.5", "3,3,9,,4,,,1"].iter().enumerate();
        for (row, text) in rows {
            seen.row(text.as_bytes(), Place { file: 0, row: row as u64, byte: 0 }).unwrap();
        }
        let types: Vec<String> = (0..8).map(|i| seen.dtype(i).to_string()).collect();
        assert_eq!(types, ["int64", "float64", "string", "float64", "string", "string", "string", "string"]);
        assert_eq!(seen.empty[3].map(|place| place.row), Some(2));
        assert!(seen.row(b"1,2", Place { file: 0, row: 3, byte: 0 }).is_err());
        assert_eq!(seen.rows, 3);
    }
}
