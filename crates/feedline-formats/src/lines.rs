//! Lines of text by tf.data's rules: the newline is not part of a line, every carriage return is removed (inside a line,
//! too), blank lines count, and so does a last line without a newline. Bytes pass otherwise unchanged.

use crate::records::{Carry, Cut, Out, Records};
use feedline_io::{Buf, Error};
use memchr::memchr;

/// A line longer than this is an error: a file without newlines (not a text file) must not be collected whole.
pub const MAX_LINE_BYTES: usize = 1 << 30;

/// Cuts lines.
pub struct Lines {
    carry: Carry,
    /// Bytes of the rest that are known to hold no newline.
    seen: usize,
    max_bytes: usize,
    /// Leave out lines of nothing but white space.
    skip_blank: bool,
    /// In a line that was too long, whose rest is passed over.
    passing: bool,
    /// Without the carriage returns: kept for its memory.
    scratch: Vec<u8>,
}

impl Default for Lines {
    fn default() -> Lines {
        let carry = Carry::default();
        Lines { carry, seen: 0, max_bytes: MAX_LINE_BYTES, skip_blank: false, passing: false, scratch: Vec::new() }
    }
}

impl Lines {
    pub fn skip_blank(self) -> Lines {
        Lines { skip_blank: true, ..self }
    }
    pub fn max_bytes(self, max_bytes: usize) -> Lines {
        Lines { max_bytes, ..self }
    }

    /// Hands out the line of `len` bytes that the rest begins with; false if it is left out.
    fn put(&mut self, len: usize, out: &mut dyn Out) -> bool {
        let line = &self.carry.rest()[..len];
        if self.skip_blank && line.trim_ascii().is_empty() {
            return false;
        }
        let start = self.carry.start();
        match memchr(b'\r', line) {
            None => out.view(self.carry.block(), start..start + len),
            Some(cr) if cr + 1 == len => out.view(self.carry.block(), start..start + cr),
            Some(_) => {
                self.scratch.clear();
                self.scratch.extend(line.iter().filter(|b| **b != b'\r'));
                out.copy(self.carry.offset(), &self.scratch);
            }
        }
        true
    }
}

impl Records for Lines {
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
        (!self.passing).then(|| self.carry.offset())
    }
    fn start_at(&mut self, byte: u64, _: u64) -> bool {
        self.carry = Carry::at(byte);
        true
    }
    fn cut(&mut self, want: usize, out: &mut dyn Out) -> Cut {
        let mut given = 0;
        while given < want {
            let rest = self.carry.rest();
            let (len, whole) = match memchr(b'\n', &rest[self.seen..]) {
                Some(at) => (self.seen + at, 1),
                None if self.carry.is_finished() && (!rest.is_empty() || self.passing) => (rest.len(), 0),
                None if given > 0 => return Cut::Records(given),
                None if self.carry.is_finished() => return Cut::End,
                None => {
                    self.seen = rest.len();
                    if self.passing || self.seen > self.max_bytes {
                        let offset = self.carry.offset();
                        self.carry.advance(self.seen);
                        self.seen = 0;
                        if !std::mem::replace(&mut self.passing, true) {
                            return Cut::Fail(too_long(self.max_bytes, offset));
                        }
                    }
                    return Cut::More;
                }
            };
            self.seen = 0;
            if !std::mem::take(&mut self.passing) {
                if len > self.max_bytes {
                    if given > 0 {
                        return Cut::Records(given);
                    }
                    let offset = self.carry.offset();
                    self.carry.advance(len + whole);
                    return Cut::Fail(too_long(self.max_bytes, offset));
                }
                given += self.put(len, out) as usize;
            }
            self.carry.advance(len + whole);
        }
        Cut::Records(given)
    }
}

fn too_long(max_bytes: usize, offset: u64) -> Error {
    let limited = if max_bytes < MAX_LINE_BYTES { " (a larger memory_limit allows longer ones)" } else { "" };
    let text = format!("a line is longer than {max_bytes} bytes{limited}; is this a text file, and not compressed?");
    Error::data(text).at_byte(offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::collect;
    use proptest::prelude::*;

    fn lines(text: &[u8], block: usize) -> Vec<Vec<u8>> {
        collect(&mut Lines::default(), text.chunks(block)).into_iter().map(|r| r.unwrap()).collect()
    }

    #[test]
    fn the_rules() {
        assert_eq!(lines(b"one\ntwo\n\nfour\n", 5), [&b"one"[..], b"two", b"", b"four"]);
        assert_eq!(lines(b"x\ny", 2), [b"x", b"y"]);
        assert_eq!(lines(b"x\ry\nz\r", 9), [&b"xy"[..], b"z"]);
        assert_eq!(lines(b"\n", 1), [b""]);
        assert!(lines(b"", 1).is_empty());
        assert_eq!(lines(b"\xff\xfe\n\0x\n", 3), [b"\xff\xfe", b"\0x"]);
    }

    #[test]
    fn blank_lines_can_be_left_out() {
        let all = collect(&mut Lines::default().skip_blank(), b"\n a\n \t\r\nb\n  ".chunks(3));
        assert_eq!(all.into_iter().map(|r| r.unwrap()).collect::<Vec<_>>(), [&b" a"[..], b"b"]);
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over() {
        for block in [1, 3, 100] {
            let mut reader = Lines::default().max_bytes(4);
            let all = collect(&mut reader, b"ab\n1234567890\ncd\n".chunks(block));
            assert_eq!(all[0].as_ref().unwrap(), b"ab");
            assert_eq!(all[1].as_ref().unwrap_err().at().byte, Some(3));
            assert!(all[1].as_ref().unwrap_err().message().contains("a line is longer than 4 bytes"));
            assert_eq!(all[2].as_ref().unwrap(), b"cd");
            assert_eq!(all.len(), 3);
        }
    }

    proptest! {
        #[test]
        fn any_block_size_gives_the_same(text in "[ab\r\n]{0,40}", block in 1usize..12) {
            let mut expected: Vec<Vec<u8>> =
                text.split('\n').map(|line| line.replace('\r', "").into_bytes()).collect();
            if text.is_empty() || text.ends_with('\n') {
                expected.pop();
            }
            prop_assert_eq!(lines(text.as_bytes(), block), expected);
        }
    }
}
