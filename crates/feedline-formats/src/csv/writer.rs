//! Records as text.

use super::{Dialect, shown};
use feedline_io::{Error, Result};

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
