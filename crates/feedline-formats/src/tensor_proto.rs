//! `tensorflow.TensorProto`: what `tf.io.serialize_tensor` writes and `tf.io.parse_tensor` reads.

use crate::wire::{Field, Fields, Malformed, Result, put_bytes, put_len, put_number, take, varint, varint_len};
use std::borrow::Cow;

/// The dtypes: name, number in `tensorflow.DataType`, bytes per item, the field that holds single values.
const TYPES: &[(&str, u64, usize, u32)] = &[
    ("float32", 1, 4, 5),
    ("float64", 2, 8, 6),
    ("int32", 3, 4, 7),
    ("uint8", 4, 1, 7),
    ("int16", 5, 2, 7),
    ("int8", 6, 1, 7),
    ("string", 7, 0, 8),
    ("int64", 9, 8, 10),
    ("bool", 10, 1, 11),
    ("bfloat16", 14, 2, 13),
    ("uint16", 17, 2, 7),
    ("float16", 19, 2, 13),
    ("uint32", 22, 4, 16),
    ("uint64", 23, 8, 17),
];

/// Items that are not written but follow from the rule that the last value stands for all the rest: as many bytes at most.
const REPEATED_BYTES: usize = 64 << 20;

/// A tensor as it was written.
#[derive(Debug, PartialEq)]
pub struct TensorProto<'a> {
    pub dtype: &'static str,
    pub shape: Vec<usize>,
    pub items: Items<'a>,
}

#[derive(Debug, PartialEq)]
pub enum Items<'a> {
    /// Numbers, in little-endian order.
    Numbers(Cow<'a, [u8]>),
    Strings(Vec<&'a [u8]>),
}

/// Reads a tensor. The number of items is that of the shape.
pub fn read(message: &[u8]) -> Result<TensorProto<'_>> {
    let (mut code, mut shape, mut content) = (0, Vec::new(), None);
    let mut fields = Fields::new(message);
    while let Some((number, field)) = fields.read()? {
        match number {
            1 => code = fields.number(field)?,
            2 => put_dims(fields.bytes(field)?, &mut shape)?,
            4 => content = Some(fields.bytes(field)?).filter(|bytes| !bytes.is_empty()),
            _ => {}
        }
    }
    let Some(&(dtype, _, size, values_field)) = TYPES.iter().find(|t| t.1 == code) else {
        return Err(Malformed::new("a tensor of a dtype that is not known", message));
    };
    let count = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
    let Some(count) = count.filter(|n| n.checked_mul(size.max(16)).is_some_and(|b| b <= isize::MAX as usize)) else {
        return Err(Malformed::new("a tensor of too many items", message));
    };
    let items = match (content, dtype) {
        (Some(content), "string") => Items::Strings(listed(content, count)?),
        (Some(content), _) if content.len() == count * size => Items::Numbers(content.into()),
        (Some(content), _) => return Err(Malformed::new("contents whose length is not that of the shape", content)),
        (None, "string") => Items::Strings(strings(message, count)?),
        (None, _) => Items::Numbers(numbers(message, values_field, size, count)?.into()),
    };
    Ok(TensorProto { dtype, shape, items })
}

/// Appends the sizes of a `TensorShapeProto`.
fn put_dims(message: &[u8], shape: &mut Vec<usize>) -> Result<()> {
    let mut fields = Fields::new(message);
    while let Some((number, field)) = fields.read()? {
        match number {
            2 => {
                let mut size = 0;
                let mut dim = Fields::new(fields.bytes(field)?);
                while let Some((number, field)) = dim.read()? {
                    if number == 1 {
                        size = dim.number(field)?;
                    }
                }
                let known = usize::try_from(size).ok().filter(|n| *n <= isize::MAX as usize);
                shape.push(known.ok_or_else(|| Malformed::new("a size that is negative or unknown", message))?);
            }
            3 if fields.number(field)? != 0 => return Err(Malformed::new("a shape of unknown rank", message)),
            _ => {}
        }
    }
    Ok(())
}

/// Strings with all their lengths in front.
fn listed(content: &[u8], count: usize) -> Result<Vec<&[u8]>> {
    let mut rest = content;
    let mut lengths = Vec::new();
    for _ in 0..count {
        lengths.push(varint(&mut rest)?);
    }
    let strings = lengths.into_iter().map(|len| take(&mut rest, len)).collect::<Result<_>>()?;
    match rest {
        [] => Ok(strings),
        _ => Err(Malformed::new("contents beyond the last string", rest)),
    }
}

fn strings(message: &[u8], count: usize) -> Result<Vec<&[u8]>> {
    let mut strings: Vec<&[u8]> = Vec::new();
    let mut fields = Fields::new(message);
    while let Some((number, field)) = fields.read()? {
        if number == 8 {
            strings.push(fields.bytes(field)?);
        }
    }
    let room = REPEATED_BYTES / size_of::<&[u8]>();
    fill_up(&mut strings, count, room, message)?;
    Ok(strings)
}

/// The values of one of the fields for single values, cut to the size of the items.
fn numbers(message: &[u8], values_field: u32, size: usize, count: usize) -> Result<Vec<u8>> {
    let mut items: Vec<[u8; 8]> = Vec::new();
    let mut fields = Fields::new(message);
    while let Some((number, field)) = fields.read()? {
        if number != values_field {
            continue;
        }
        match (values_field, field) {
            (5, Field::Bytes(run)) => fixed::<4>(run, &mut items)?,
            (6, Field::Bytes(run)) => fixed::<8>(run, &mut items)?,
            (5, Field::Fixed32(value)) => fixed::<4>(&value, &mut items)?,
            (6, Field::Fixed64(value)) => fixed::<8>(&value, &mut items)?,
            (5 | 6, _) => return Err(fields.wrong_type()),
            (_, Field::Varint(n)) => items.push(n.to_le_bytes()),
            (_, Field::Bytes(mut run)) => {
                while !run.is_empty() {
                    items.push(varint(&mut run)?.to_le_bytes());
                }
            }
            _ => return Err(fields.wrong_type()),
        }
    }
    fill_up(&mut items, count, REPEATED_BYTES / size_of::<[u8; 8]>(), message)?;
    Ok(items.iter().flat_map(|item| &item[..size]).copied().collect())
}

fn fixed<const N: usize>(run: &[u8], items: &mut Vec<[u8; 8]>) -> Result<()> {
    let (values, rest) = run.as_chunks::<N>();
    if !rest.is_empty() {
        return Err(Malformed::new("a float that is cut off", rest));
    }
    items.extend(values.iter().map(|value| {
        let mut item = [0; 8];
        item[..N].copy_from_slice(value);
        item
    }));
    Ok(())
}

/// The last value stands for all the rest; none for zeros.
fn fill_up<T: Copy + Default>(items: &mut Vec<T>, count: usize, most: usize, message: &[u8]) -> Result<()> {
    if items.len() > count {
        return Err(Malformed::new("more values than the shape has room for", message));
    }
    if count - items.len() > most {
        return Err(Malformed::new("a few values for too many items", message));
    }
    items.resize(count, items.last().copied().unwrap_or_default());
    Ok(())
}

fn put_head(out: &mut Vec<u8>, dtype: &str, shape: &[usize]) -> usize {
    let (_, code, size, _) = TYPES.iter().find(|t| t.0 == dtype).expect("a dtype of ours");
    put_number(out, 1, *code);
    let dim_len = |n: usize| if n == 0 { 0 } else { 1 + varint_len(n as u64) };
    put_len(out, 2, shape.iter().map(|&n| 2 + dim_len(n)).sum());
    for &n in shape {
        put_len(out, 2, dim_len(n));
        put_number(out, 1, n as u64);
    }
    *size
}

/// Appends a tensor of numbers, given as little-endian bytes. The dtype is one of the names that `read` gives.
pub fn put_numbers(out: &mut Vec<u8>, dtype: &str, shape: &[usize], items: &[u8]) {
    let size = put_head(out, dtype, shape);
    debug_assert_eq!(items.len(), size * shape.iter().product::<usize>());
    if !items.is_empty() {
        put_bytes(out, 4, items);
    }
}

/// Appends a tensor of strings.
pub fn put_strings<'a>(out: &mut Vec<u8>, shape: &[usize], strings: impl Iterator<Item = &'a [u8]>) {
    put_head(out, "string", shape);
    strings.for_each(|s| put_bytes(out, 8, s));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for (dtype, _, size, _) in TYPES.iter().filter(|t| t.0 != "string") {
            for shape in [&[][..], &[3], &[2, 0], &[2, 300]] {
                let items: Vec<u8> = (0..size * shape.iter().product::<usize>()).map(|i| i as u8).collect();
                let mut bytes = Vec::new();
                put_numbers(&mut bytes, dtype, shape, &items);
                let read = read(&bytes).unwrap();
                assert_eq!((read.dtype, &read.shape[..]), (*dtype, shape));
                assert_eq!(read.items, Items::Numbers(items.into()));
            }
        }
        let mut bytes = Vec::new();
        put_strings(&mut bytes, &[2], [&b"ab"[..], b""].into_iter());
        assert_eq!(read(&bytes).unwrap().items, Items::Strings(vec![b"ab", b""]));
    }

    #[test]
    fn single_values_and_the_last_for_the_rest() {
        // float32 [3] with float_val [1.5, 2.0], then int32 [2] with one value, bool scalars, strings.
        let floats = [0x08, 1, 0x12, 4, 0x12, 2, 0x08, 3, 0x2a, 8, 0, 0, 0xc0, 0x3f, 0, 0, 0, 0x40];
        let Items::Numbers(items) = read(&floats).unwrap().items else { panic!("numbers") };
        let floats: Vec<f32> = items.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        assert_eq!(floats, [1.5, 2.0, 2.0]);
        let ints = read(&[0x08, 3, 0x12, 4, 0x12, 2, 0x08, 2, 0x38, 0x07]).unwrap();
        assert_eq!(ints.items, Items::Numbers(vec![7, 0, 0, 0, 7, 0, 0, 0].into()));
        assert_eq!(read(&[0x08, 10, 0x58, 1]).unwrap().items, Items::Numbers(vec![1].into()));
        assert_eq!(read(&[0x08, 10]).unwrap().items, Items::Numbers(vec![0].into()));
        let text = read(&[0x08, 7, 0x12, 4, 0x12, 2, 0x08, 2, 0x42, 1, b'x']).unwrap();
        assert_eq!(text.items, Items::Strings(vec![b"x", b"x"]));
        // Strings with their lengths in front.
        let text = read(&[0x08, 7, 0x12, 4, 0x12, 2, 0x08, 2, 0x22, 5, 1, 2, b'a', b'b', b'c']).unwrap();
        assert_eq!(text.items, Items::Strings(vec![b"a", b"bc"]));
    }

    #[test]
    fn hostile_shapes_are_refused() {
        let shaped = |dims: &[u64], rest: &[u8]| {
            let mut shape = Vec::new();
            for &n in dims {
                let mut dim = Vec::new();
                put_number(&mut dim, 1, n);
                put_bytes(&mut shape, 2, &dim);
            }
            let mut bytes = vec![0x08, 9];
            put_bytes(&mut bytes, 2, &shape);
            bytes.extend_from_slice(rest);
            bytes
        };
        let why = |bytes: Vec<u8>| read(&bytes).unwrap_err().within(&bytes, "tensor").to_string();
        assert!(why(shaped(&[1 << 40], &[0x50, 1])).contains("too many items"));
        assert!(why(shaped(&[1 << 40, 1 << 40], &[])).contains("too many items"));
        assert!(why(shaped(&[u64::MAX], &[])).contains("negative"));
        assert!(why(shaped(&[2], &[0x22, 3, 1, 2, 3])).contains("length"));
        assert!(why(shaped(&[1], &[0x50, 1, 0x50, 2])).contains("more values"));
        assert!(why(vec![0x08, 8]).contains("dtype"));
        assert!(why(vec![0xff, 0xff]).contains("cut off"));
        // A size of zero hides another that is too large.
        assert!(read(&shaped(&[0, 1 << 62, 1 << 62], &[])).is_ok());
    }
}
