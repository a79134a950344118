//! What stands around the data: a header, and checksums behind it.

use super::Result;

/// How the compressed data is wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrap {
    Gzip,
    Zlib,
}

/// The checksum of the results.
pub enum Sum {
    Crc(crc32fast::Hasher),
    Adler(simd_adler32::Adler32),
}

impl Sum {
    pub fn new(wrap: Wrap) -> Sum {
        match wrap {
            Wrap::Gzip => Sum::Crc(crc32fast::Hasher::new()),
            Wrap::Zlib => Sum::Adler(simd_adler32::Adler32::new()),
        }
    }
    pub fn add(&mut self, bytes: &[u8]) {
        match self {
            Sum::Crc(sum) => sum.update(bytes),
            Sum::Adler(sum) => sum.write(bytes),
        }
    }
    fn get(&self) -> u32 {
        match self {
            Sum::Crc(sum) => sum.clone().finalize(),
            Sum::Adler(sum) => sum.finish(),
        }
    }
}

/// How much of a header is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    part: Part,
    /// Bytes of this part so far, and the last one of them.
    at: usize,
    last: u8,
    /// The parts that follow, as GZIP tells it.
    parts: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Fixed,
    ExtraLength,
    Extra(usize),
    /// A name or a comment, which ends with a zero.
    Text,
    Sum,
}

/// The bits that say which parts follow, in the order of these.
const EXTRA: u8 = 4;
const NAME: u8 = 8;
const COMMENT: u8 = 16;
const HEAD_SUM: u8 = 2;
const RESERVED: u8 = 0xe0;

impl Head {
    /// Takes the next byte, `sum` being that of those before it. True if it was the last one.
    pub fn take(&mut self, wrap: Wrap, byte: u8, sum: &mut Sum) -> Result<bool> {
        let (at, last) = (self.at, std::mem::replace(&mut self.last, byte));
        self.at += 1;
        if wrap == Wrap::Zlib {
            return match at {
                0 if byte & 15 != 8 || byte >> 4 > 7 => Err("the header is wrong".into()),
                0 => Ok(false),
                _ if (u32::from(last) << 8 | u32::from(byte)) % 31 != 0 => Err("the header is wrong".into()),
                _ if byte & 32 != 0 => Err("it needs a dictionary".into()),
                _ => Ok(true),
            };
        }
        let whole = match self.part {
            Part::Fixed => {
                let wrong = match at {
                    0 => byte != 0x1f,
                    1 => byte != 0x8b,
                    2 => byte != 8,
                    3 => byte & RESERVED != 0,
                    _ => false,
                };
                if wrong {
                    return Err("the header is wrong".into());
                }
                if at == 3 {
                    self.parts = byte;
                }
                at == 9
            }
            Part::ExtraLength if at == 1 => {
                let left = usize::from(byte) << 8 | usize::from(last);
                (self.part, self.at) = (Part::Extra(left), 0);
                left == 0
            }
            Part::ExtraLength => false,
            Part::Extra(left) => at + 1 == left,
            Part::Text => byte == 0,
            Part::Sum if at == 1 => {
                if sum.get() & 0xffff != u32::from(byte) << 8 | u32::from(last) {
                    return Err("the header has another checksum".into());
                }
                return Ok(true);
            }
            Part::Sum => false,
        };
        if self.part != Part::Sum {
            sum.add(&[byte]);
        }
        Ok(whole && !self.next())
    }
    /// Goes on to the next part, if there is one.
    fn next(&mut self) -> bool {
        let parts = [(EXTRA, Part::ExtraLength), (NAME, Part::Text), (COMMENT, Part::Text), (HEAD_SUM, Part::Sum)];
        let Some((bit, part)) = parts.into_iter().find(|(bit, _)| self.parts & bit != 0) else { return false };
        self.parts &= !bit;
        (self.part, self.at) = (part, 0);
        true
    }
}

/// How much is read of what stands behind the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tail {
    at: usize,
    read: u64,
}

impl Tail {
    /// Takes the next byte. True if it was the last one, and all is as it should be.
    pub fn take(&mut self, wrap: Wrap, byte: u8, sum: &Sum, made: u64) -> Result<bool> {
        self.read |= u64::from(byte) << (8 * self.at);
        self.at += 1;
        let stored = match (wrap, self.at) {
            (Wrap::Zlib, 4) => (self.read as u32).swap_bytes(),
            (Wrap::Gzip, 8) if (self.read >> 32) as u32 != made as u32 => {
                return Err("it has another length than it says".into());
            }
            (Wrap::Gzip, 8) => self.read as u32,
            _ => return Ok(false),
        };
        match stored == sum.get() {
            true => Ok(true),
            false => Err("it has another checksum than it says".into()),
        }
    }
}
