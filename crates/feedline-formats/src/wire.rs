//! Protobuf's wire format: fields of a message in a slice, one after the other, every length checked. What the messages
//! that TensorFlow stores (`example`, `sequence_example`, `tensor_proto`) are read and written with.
//!
//! A reader never recurses and never allocates. It is as strict as `prost`, which the tests hold it to: a known field
//! under a wire type that it cannot have is an error, because in practice it means that the bytes are something else.

use feedline_io::Error;

/// How deep groups (of unknown fields; nobody writes them today) may be nested.
const GROUP_DEPTH: usize = 100;

/// Bytes that are no message: why, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    what: &'static str,
    /// The address of the byte, which is told as a distance from the record's first.
    at: usize,
}

impl Malformed {
    #[cold]
    pub fn new(what: &'static str, at: &[u8]) -> Malformed {
        Malformed { what, at: at.as_ptr() as usize }
    }
    /// In words. `record` is what was being read, `message` what it should have been.
    #[cold]
    pub fn within(self, record: &[u8], message: &str) -> Error {
        let byte = self.at.saturating_sub(record.as_ptr() as usize).min(record.len());
        let of = record.len();
        Error::data(format!("not a valid {message}: {} at byte {byte} of {of}", self.what))
    }
}

pub type Result<T> = std::result::Result<T, Malformed>;

/// What stands in a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Field<'a> {
    Varint(u64),
    Fixed32([u8; 4]),
    Fixed64([u8; 8]),
    Bytes(&'a [u8]),
    /// Skipped already; never in a message that we know.
    Group,
}

/// The number at the front, which is cut off.
#[inline]
pub fn varint(rest: &mut &[u8]) -> Result<u64> {
    match *rest {
        [byte, tail @ ..] if *byte < 0x80 => {
            *rest = tail;
            Ok(u64::from(*byte))
        }
        _ => long_varint(rest),
    }
}

fn long_varint(rest: &mut &[u8]) -> Result<u64> {
    let mut n = 0;
    for (i, &byte) in rest.iter().take(10).enumerate() {
        n |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            // The tenth byte has one bit left.
            if i == 9 && byte > 1 {
                break;
            }
            *rest = &rest[i + 1..];
            return Ok(n);
        }
    }
    Err(Malformed::new(if rest.len() < 10 { "a number that is cut off" } else { "a number of over 64 bits" }, rest))
}

/// That many bytes from the front, which are cut off.
#[inline]
pub fn take<'a>(rest: &mut &'a [u8], len: u64) -> Result<&'a [u8]> {
    match usize::try_from(len).ok().and_then(|len| rest.split_at_checked(len)) {
        Some((bytes, tail)) => {
            *rest = tail;
            Ok(bytes)
        }
        None => Err(Malformed::new("a length beyond the end", rest)),
    }
}

#[inline]
fn array<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N]> {
    match rest.split_first_chunk::<N>() {
        Some((bytes, tail)) => {
            *rest = tail;
            Ok(*bytes)
        }
        None => Err(Malformed::new("a number that is cut off", rest)),
    }
}

/// The fields of a message, in order.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    /// Where the field began that was read last.
    at: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub fn new(message: &'a [u8]) -> Fields<'a> {
        Fields { at: message, rest: message }
    }
    /// The field that was read last, with its tag.
    pub fn last(&self) -> &'a [u8] {
        &self.at[..self.at.len() - self.rest.len()]
    }
    /// What is not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
    /// Passes over a field that is known to have so many bytes, and gives them.
    #[inline]
    pub fn pass(&mut self, bytes: usize) -> &'a [u8] {
        self.at = self.rest;
        let (field, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        field
    }
    /// The last field is one that we know, but of another type.
    #[cold]
    pub fn wrong_type(&self) -> Malformed {
        Malformed::new("a field of the wrong type", self.at)
    }
    /// The bytes, string or message that the last field should hold.
    #[inline]
    pub fn bytes(&self, field: Field<'a>) -> Result<&'a [u8]> {
        match field {
            Field::Bytes(bytes) => Ok(bytes),
            _ => Err(self.wrong_type()),
        }
    }
    /// The number that the last field should hold.
    #[inline]
    pub fn number(&self, field: Field<'a>) -> Result<u64> {
        match field {
            Field::Varint(n) => Ok(n),
            _ => Err(self.wrong_type()),
        }
    }
    /// The next field's number and contents.
    #[inline]
    pub fn read(&mut self) -> Result<Option<(u32, Field<'a>)>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        self.at = self.rest;
        let (number, wire) = tag(&mut self.rest)?;
        let field = match wire {
            0 => Field::Varint(varint(&mut self.rest)?),
            1 => Field::Fixed64(array(&mut self.rest)?),
            2 => {
                let len = varint(&mut self.rest)?;
                Field::Bytes(take(&mut self.rest, len)?)
            }
            5 => Field::Fixed32(array(&mut self.rest)?),
            _ => {
                skip_group(&mut self.rest, number, wire)?;
                Field::Group
            }
        };
        Ok(Some((number, field)))
    }
}

/// A field's number and wire type.
#[inline]
fn tag(rest: &mut &[u8]) -> Result<(u32, u8)> {
    let at = *rest;
    let tag = varint(rest)?;
    match u32::try_from(tag) {
        Ok(tag) if tag >= 8 && tag & 7 <= 5 => Ok((tag >> 3, (tag & 7) as u8)),
        _ => Err(Malformed::new("no field", at)),
    }
}

/// Cuts off what follows the beginning of a group, up to its end.
#[cold]
fn skip_group(rest: &mut &[u8], number: u32, wire: u8) -> Result<()> {
    if wire == 4 {
        return Err(Malformed::new("the end of a group that has not begun", rest));
    }
    let mut open = [0; GROUP_DEPTH];
    open[0] = number;
    let mut depth = 1;
    while depth > 0 {
        let at = *rest;
        let (number, wire) = tag(rest)?;
        match wire {
            0 => drop(varint(rest)?),
            1 => drop(array::<8>(rest)?),
            2 => {
                let len = varint(rest)?;
                take(rest, len)?;
            }
            3 if depth == GROUP_DEPTH => return Err(Malformed::new("groups nested too deeply", at)),
            3 => {
                open[depth] = number;
                depth += 1;
            }
            4 if open[depth - 1] == number => depth -= 1,
            4 => return Err(Malformed::new("the end of another group", at)),
            _ => drop(array::<4>(rest)?),
        }
    }
    Ok(())
}

/// How many bytes a number takes.
pub fn varint_len(n: u64) -> usize {
    (64 - (n | 1).leading_zeros() as usize).div_ceil(7)
}

pub fn put_varint(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// The tag and length of a field of bytes; they come after it.
pub fn put_len(out: &mut Vec<u8>, number: u32, len: usize) {
    put_varint(out, u64::from(number << 3 | 2));
    put_varint(out, len as u64);
}

pub fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_len(out, number, bytes.len());
    out.extend_from_slice(bytes);
}

/// A number, unless it is zero: what is not written reads as zero.
pub fn put_number(out: &mut Vec<u8>, number: u32, n: u64) {
    if n != 0 {
        put_varint(out, u64::from(number << 3));
        put_varint(out, n);
    }
}

/// The size of a field of `len` bytes, with its tag (of a number below 16) and its length.
pub fn bytes_len(len: usize) -> usize {
    1 + varint_len(len as u64) + len
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Vec<(u32, Field<'_>)>> {
        let mut fields = Fields::new(bytes);
        std::iter::from_fn(|| fields.read().transpose()).collect()
    }

    #[test]
    fn numbers_of_every_length() {
        for bits in 0..64 {
            for n in [1u64 << bits, (1 << bits) - 1, u64::MAX >> bits] {
                let mut bytes = Vec::new();
                put_varint(&mut bytes, n);
                assert_eq!(bytes.len(), varint_len(n));
                let mut rest = &bytes[..];
                assert_eq!(varint(&mut rest), Ok(n));
                assert!(rest.is_empty());
                assert!(varint(&mut &bytes[..bytes.len() - 1]).is_err());
            }
        }
        assert!(varint(&mut &[0xff; 10][..]).is_err());
        let mut over = [0xff; 10];
        over[9] = 2;
        assert!(varint(&mut &over[..]).is_err());
    }

    #[test]
    fn groups_are_skipped() {
        // Group 1 holds a number, a group 2 with a fixed32, and ends; then field 3.
        let bytes = [0x0b, 0x10, 0x05, 0x13, 0x1d, 1, 2, 3, 4, 0x14, 0x0c, 0x18, 7];
        assert_eq!(read(&bytes), Ok(vec![(1, Field::Group), (3, Field::Varint(7))]));
        assert!(read(&bytes[..9]).is_err());
        assert!(read(&[0x0b, 0x14]).is_err());
        assert!(read(&[0x0c]).is_err());
        assert!(read(&[0x0b; 100_000]).is_err());
    }

    #[test]
    fn errors_say_where() {
        let record = [0x08, 0x01, 0x12, 0x05, 0x00];
        let error = read(&record).unwrap_err().within(&record, "Example");
        assert_eq!(error.to_string(), "not a valid Example: a length beyond the end at byte 4 of 5");
        assert!(read(&[0x07]).is_err());
        assert!(read(&[0x00]).is_err());
    }
}
