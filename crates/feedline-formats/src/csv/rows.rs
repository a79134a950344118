//! A file cut into records: it knows quotes, and nothing of columns.

use super::{Dialect, header_names};
use crate::records::{Carry, Cut, Out, Records};
use feedline_io::{Buf, Error, Result};
use memchr::{memchr, memchr2, memchr3};
use std::sync::Arc;

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
        let text = "a record has a quote that is never closed (if quotes have no meaning in this file: \
                    use_quote_delim=False)";
        let error = Error::data(text).at_byte(self.carry.offset());
        self.pass();
        Cut::Fail(error)
    }
    fn too_long(&mut self) -> Cut {
        let limited =
            if self.max_bytes < MAX_RECORD_BYTES { " (a larger memory_limit allows longer ones)" } else { "" };
        let text = format!(
            "a record is longer than {} bytes{limited}; is there a quote that is never closed? (If quotes have no meaning \
             in this file: use_quote_delim=False)",
            self.max_bytes
        );
        let error = Error::data(text).at_byte(self.carry.offset());
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
        (!self.passing && !self.header && !self.given_up).then(|| self.carry.offset())
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
                // A carriage return that was seen last is no part of the record.
                Found::Nothing if !self.carry.is_finished() && self.seen <= self.max_bytes => return Cut::More,
                Found::Nothing if !self.carry.is_finished() => return self.too_long(),
                Found::Nothing if std::mem::take(&mut self.header) => {
                    let text = "is empty, where a header line is expected (header=True)";
                    return Cut::Fail(Error::data(text).at_byte(0));
                }
                Found::Nothing => return Cut::End,
            }
        }
        Cut::Records(given)
    }
}
