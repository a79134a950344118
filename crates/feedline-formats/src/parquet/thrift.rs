//! Thrift's compact protocol, in which Parquet has its footer, its indexes and the headers of its pages: structs of fields
//! with numbers, each with its type, so that what is not wanted can be passed over.
//!
//! A reader takes no memory, and as many steps as there are bytes: no count is believed that the bytes behind it cannot
//! have. Where it stops, `left` says how far it came.

use crate::wire::varint;

/// What was read, or why nothing can be.
pub type Read<T> = Result<T, &'static str>;

pub struct Compact<'a> {
    rest: &'a [u8],
}

/// Types of fields.
pub const TRUE: u8 = 1;
pub const FALSE: u8 = 2;
pub const BYTE: u8 = 3;
pub const I16: u8 = 4;
pub const I32: u8 = 5;
pub const I64: u8 = 6;
pub const DOUBLE: u8 = 7;
pub const BINARY: u8 = 8;
pub const LIST: u8 = 9;
pub const SET: u8 = 10;
pub const MAP: u8 = 11;
pub const STRUCT: u8 = 12;
pub const UUID: u8 = 13;

/// Values inside of values that are passed over, at most: as many as the library passes over.
const MOST_NESTED: usize = 64;

const ENDS: &str = "it ends early";
const TOO_MANY: &str = "a list claims more items than there are bytes left";

impl<'a> Compact<'a> {
    pub fn new(bytes: &'a [u8]) -> Compact<'a> {
        Compact { rest: bytes }
    }
    /// Bytes that were not read so far.
    pub fn left(&self) -> usize {
        self.rest.len()
    }
    /// The fields of a struct, up to its end: their numbers and types. What `take` does not take is passed over.
    pub fn fields(&mut self, take: impl FnMut(&mut Self, i16, u8) -> Read<bool>) -> Read<()> {
        self.fields_within(0, take)
    }
    fn fields_within(&mut self, depth: usize, mut take: impl FnMut(&mut Self, i16, u8) -> Read<bool>) -> Read<()> {
        const NO_FIELD: &str = "a field has a number that none can have";
        let mut number = 0i16;
        loop {
            let byte = self.byte()?;
            if byte == 0 {
                return Ok(());
            }
            number = match byte >> 4 {
                0 => self.i32()?.try_into().map_err(|_| NO_FIELD)?,
                step => number.checked_add(step.into()).ok_or(NO_FIELD)?,
            };
            let ty = byte & 15;
            if !take(self, number, ty)? {
                self.skip_within(depth, ty)?;
            }
        }
    }
    /// How many items a list has, and their type.
    pub fn list(&mut self) -> Read<(usize, u8)> {
        let byte = self.byte()?;
        let n = if byte >> 4 == 15 { self.number()? } else { u64::from(byte >> 4) };
        match usize::try_from(n) {
            Ok(n) if n <= self.rest.len() => Ok((n, byte & 15)),
            _ => Err(TOO_MANY),
        }
    }
    pub fn i32(&mut self) -> Read<i32> {
        let n = self.number()?;
        i32::try_from((n >> 1) as i64 ^ -((n & 1) as i64)).map_err(|_| "a number is too large")
    }
    /// Whether a struct that begins here has no field.
    pub fn is_empty_struct(&self) -> bool {
        self.rest.first() == Some(&0)
    }
    /// Passes over a field.
    pub fn skip(&mut self, ty: u8) -> Read<()> {
        self.skip_within(0, ty)
    }
    fn byte(&mut self) -> Read<u8> {
        let (byte, rest) = self.rest.split_first().ok_or(ENDS)?;
        self.rest = rest;
        Ok(*byte)
    }
    fn bytes(&mut self, n: u64) -> Read<()> {
        self.rest = usize::try_from(n).ok().and_then(|n| self.rest.get(n..)).ok_or(ENDS)?;
        Ok(())
    }
    fn number(&mut self) -> Read<u64> {
        varint(&mut self.rest).map_err(|_| "a number ends early or never")
    }
    fn skip_within(&mut self, depth: usize, ty: u8) -> Read<()> {
        if depth > MOST_NESTED {
            return Err("it is nested too deep");
        }
        match ty {
            TRUE | FALSE => Ok(()),
            BYTE => self.bytes(1),
            I16 | I32 | I64 => self.number().map(drop),
            DOUBLE => self.bytes(8),
            UUID => self.bytes(16),
            BINARY => {
                let n = self.number()?;
                self.bytes(n)
            }
            LIST | SET => {
                let (n, ty) = self.list()?;
                self.items(n, &[ty], depth)
            }
            MAP => match self.number()? {
                0 => Ok(()),
                n => {
                    let types = self.byte()?;
                    let n = usize::try_from(n).ok().filter(|n| *n <= self.rest.len() / 2).ok_or(TOO_MANY)?;
                    self.items(n, &[types >> 4, types & 15], depth)
                }
            },
            STRUCT => self.fields_within(depth + 1, |_, _, _| Ok(false)),
            _ => Err("a field has a type that there is not"),
        }
    }
    /// `n` times values of these types, each of which takes a byte at least. Booleans would, too, but the library passes
    /// over lists of them as if they took none, and goes on at another place than this reader: what comes next would not be
    /// what was looked at. The format has such lists in column indexes only, which nobody reads here.
    fn items(&mut self, n: usize, types: &[u8], depth: usize) -> Read<()> {
        for _ in 0..n {
            for &ty in types {
                match ty {
                    TRUE | FALSE => return Err("it has a list of booleans, which the format has nowhere in it"),
                    ty => self.skip_within(depth + 1, ty)?,
                }
            }
        }
        Ok(())
    }
}
