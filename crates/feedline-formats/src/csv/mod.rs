//! CSV by tf.data's rules, which are RFC 4180's and stricter: a field is quoted if it begins with a quote, a quote inside
//! is doubled, and a quote anywhere else is an error.
//!
//! Reading has two steps, so that the second can be done by many: `Rows` cuts a file into records (it knows quotes, and
//! nothing of columns), `Parser` turns one record into cells of typed columns, straight into their memory.

mod cells;
mod infer;
mod rows;
#[cfg(test)]
mod tests;
mod writer;

pub use cells::{Column, Field, Fill, Parser, Schema, Sink, Type, fields, header_names, texts};
pub use infer::{Inference, Looks};
pub use rows::{MAX_RECORD_BYTES, Rows};
pub use writer::Writer;

use feedline_io::{Error, Result};

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

/// Text of a file in a message: as much of it as helps.
fn shown(text: &[u8]) -> String {
    match text.get(..40) {
        Some(head) => format!("{:?}…", String::from_utf8_lossy(head)),
        None => format!("{:?}", String::from_utf8_lossy(text)),
    }
}
