//! Objects as lines.

use feedline_io::{Error, Result};
use std::fmt;

/// Writes objects, a line each.
#[derive(Debug, Default)]
pub struct Writer {
    out: Vec<u8>,
    /// Something stands before: a comma comes first.
    comma: bool,
}

impl Writer {
    fn value(&mut self) {
        if self.comma {
            self.out.push(b',');
        }
        self.comma = true;
    }
    pub fn open(&mut self, bracket: u8) {
        self.value();
        self.out.push(bracket);
        self.comma = false;
    }
    pub fn close(&mut self, bracket: u8) {
        self.out.push(bracket);
        self.comma = true;
    }
    pub fn key(&mut self, name: &str) -> Result<()> {
        self.text(name.as_bytes())?;
        self.out.push(b':');
        self.comma = false;
        Ok(())
    }
    pub fn text(&mut self, text: &[u8]) -> Result<()> {
        let text = std::str::from_utf8(text).map_err(|_| {
            Error::data("JSON holds only text, and these bytes are not UTF-8; encode them first (fl.io.encode_base64)")
        })?;
        self.value();
        serde_json::to_writer(&mut self.out, text)?;
        Ok(())
    }
    pub fn bool(&mut self, b: bool) {
        self.value();
        self.out.extend_from_slice(if b { b"true" } else { b"false" });
    }
    pub fn int(&mut self, n: impl fmt::Display) {
        use std::io::Write;
        self.value();
        write!(self.out, "{n}").expect("memory can be written");
    }
    /// A number in its shortest form that reads back to the same.
    pub fn float(&mut self, x: impl fmt::Debug + Into<f64> + Copy) -> Result<()> {
        use std::io::Write;
        if !x.into().is_finite() {
            return Err(Error::data(format!("JSON has no {x:?}; put another number in its place before writing")));
        }
        self.value();
        write!(self.out, "{x:?}").expect("memory can be written");
        Ok(())
    }
    pub fn null(&mut self) {
        self.value();
        self.out.extend_from_slice(b"null");
    }
    pub fn end_line(&mut self) {
        self.out.push(b'\n');
        self.comma = false;
    }
    /// What is written so far, and starts anew.
    pub fn take(&mut self) -> Vec<u8> {
        self.comma = false;
        std::mem::take(&mut self.out)
    }
    pub fn written(&self) -> usize {
        self.out.len()
    }
}
