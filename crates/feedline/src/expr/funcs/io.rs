//! Strings that hold other data: raw numbers, compressed bytes, tensors as protobuf, Examples as JSON.

use super::super::{Arg, Attrs, ByRow, Func, Kernel, Made, RowAt, RowsAt, arity, dense};
use super::broadcast::{Elementwise, Tensors};
use crate::element::{B8, Column, DType, Dims, Leaf, Shape, StringsBuilder, Tensor, Value, check_room};
use crate::error::{Error, Result};
use feedline_formats::compress::Compression;
use feedline_formats::decompress::{LIMIT_BYTES, decompress};
use feedline_formats::json_example::put_json_example;

pub static FUNCS: &[Func] = &[
    Func {
        name: "io.decode_raw",
        doc: "The bytes of strings as numbers, on a new last axis.",
        make: make_decode_raw,
        pure: true,
    },
    Func {
        name: "io.decode_compressed",
        doc: "The contents of strings that were compressed with GZIP, ZLIB or ZSTD.",
        make: make_decode_compressed,
        pure: true,
    },
    Func {
        name: "io.decode_json_example",
        doc: "Examples in protobuf's JSON form as serialized Examples.",
        make: |args, _| strings_to_strings(args, |text, out| put_json_example(out, text)),
        pure: true,
    },
    Func {
        name: "io.parse_tensor",
        doc: "The tensor that a string holds as a serialized TensorProto.",
        make: make_parse_tensor,
        pure: true,
    },
    Func {
        name: "io.serialize_tensor",
        doc: "A tensor as a string: a serialized TensorProto.",
        make: make_serialize_tensor,
        pure: true,
    },
];

fn string_arg(args: &[Leaf]) -> Result<&Dims> {
    arity::<1>(args)?;
    match dense(args, 0)? {
        (DType::String, shape) => Ok(shape),
        (dtype, _) => Err(Error::usage(format!("expects strings, not {dtype}"))),
    }
}

fn strings_to_strings(
    args: &[Leaf],
    f: impl Fn(&[u8], &mut Vec<u8>) -> Result<()> + Send + Sync + 'static,
) -> Result<Made> {
    let shape = string_arg(args)?.clone();
    let kernel = Elementwise::new(move |t: Tensors| {
        let mut out = StringsBuilder::with_capacity(t[0].len());
        let mut text = Vec::new();
        for s in t[0].strs() {
            text.clear();
            f(s, &mut text)?;
            out.push(&text);
        }
        Ok(out.tensor(t[0].shape()))
    });
    Made::new(Leaf::tensor(DType::String, shape), kernel)
}

fn make_decode_compressed(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    let kind = Compression::parse(attrs.str("compression_type")?.unwrap_or(""))?;
    let shape = string_arg(args)?.clone();
    let kernel = Elementwise::new(move |t: Tensors| {
        let mut out = StringsBuilder::with_capacity(t[0].len());
        for s in t[0].strs() {
            let (block, len) = decompress(s, kind, LIMIT_BYTES)?;
            // What has much room to spare is copied.
            match len > block.len() / 4 * 3 {
                true => out.push_view(&block, 0..len),
                false => out.push(&block.as_slice()[..len]),
            }
        }
        Ok(out.tensor(t[0].shape()))
    });
    Made::new(Leaf::tensor(DType::String, shape), kernel)
}

/// How `decode_raw` reads.
struct Raw {
    dtype: DType,
    big_endian: bool,
    fixed_length: Option<usize>,
}

impl Raw {
    /// The items of strings of one length.
    fn decode(&self, strings: &Tensor) -> Result<Tensor> {
        let size = self.dtype.size();
        let length = match (self.fixed_length, strings.strs().next()) {
            (Some(length), _) => length,
            (None, first) => first.map_or(0, |s| s.len()),
        };
        if let Some((i, odd)) = strings.strs().enumerate().find(|(_, s)| s.len() != length)
            && self.fixed_length.is_none()
        {
            return Err(Error::data(format!(
                "strings of different lengths do not make one tensor: string 0 has {length} bytes, string {i} has {}; give \
                 fixed_length to cut and fill them",
                odd.len()
            )));
        }
        if !length.is_multiple_of(size) {
            return Err(Error::data(format!(
                "{length} bytes are no whole number of {}, which takes {size}",
                self.dtype
            )));
        }
        let shape: Shape = strings.shape().iter().copied().chain([length / size]).collect();
        check_room(self.dtype, &shape)?;
        let mut out = Tensor::new(self.dtype, shape);
        if length == 0 {
            return Ok(out);
        }
        for (s, slots) in strings.strs().zip(out.bytes_mut().chunks_exact_mut(length)) {
            let (front, back) = slots.split_at_mut(s.len().min(length));
            front.copy_from_slice(&s[..front.len()]);
            back.fill(0);
        }
        if self.big_endian && size > 1 {
            out.bytes_mut().chunks_exact_mut(size).for_each(|item| item.reverse());
        }
        if self.dtype == DType::Bool {
            out.items_mut::<B8>().iter_mut().for_each(|b| *b = b.get().into());
        }
        Ok(out)
    }
}

impl Kernel for Raw {
    fn row(&self, args: &[Value], _at: RowAt) -> Result<Value> {
        self.decode(args[0].tensor()).map(Value::Tensor)
    }
    fn rows(&self, args: &mut [Arg], _rows: usize, _at: RowsAt<'_>) -> Result<Option<Column>> {
        let Arg::Rows(Column::Dense(strings)) = &args[0] else { return Ok(None) };
        let mut lengths = strings.strs().map(|s| s.len());
        let first = lengths.next();
        // Without strings nothing says how long their items would be, except in each row.
        if self.fixed_length.is_none() && (first.is_none() || !lengths.all(|n| Some(n) == first)) {
            return Ok(None);
        }
        drop(lengths);
        self.decode(strings).map(|t| Some(Column::Dense(t)))
    }
}

fn make_decode_raw(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    let shape = string_arg(args)?;
    let dtype = attrs.need("out_type", attrs.dtype("out_type")?)?;
    if dtype == DType::String {
        return Err(Error::usage("out_type must be a type of numbers, or bool, not string"));
    }
    let fixed_length = match attrs.i64("fixed_length")? {
        None => None,
        Some(n) if n > 0 && (n as u64).is_multiple_of(dtype.size() as u64) => Some(n as usize),
        Some(n) => {
            let size = dtype.size();
            return Err(Error::usage(format!(
                "fixed_length is a number of bytes, a positive multiple of the {size} of {dtype}, not {n}"
            )));
        }
    };
    let big_endian = attrs.bool("little_endian")? == Some(false);
    let last = fixed_length.map(|n| n / dtype.size());
    let shape = Dims(shape.dims().map(|dims| dims.iter().copied().chain([last]).collect()));
    Made::new(Leaf::tensor(dtype, shape), Raw { dtype, big_endian, fixed_length })
}

fn make_parse_tensor(args: &[Leaf], attrs: &Attrs) -> Result<Made> {
    let shape = string_arg(args)?;
    if shape.rank().is_some_and(|rank| rank > 0) {
        return Err(Error::usage(format!("expects one string, not a tensor of shape {shape}; use map for several")));
    }
    let dtype = attrs.need("out_type", attrs.dtype("out_type")?)?;
    let kernel = ByRow(move |args: &[Value]| {
        let serialized = args[0].tensor();
        if serialized.rank() != 0 {
            return Err(Error::data(format!("expects one string, not a tensor of shape {:?}", serialized.shape())));
        }
        let bytes = serialized.str_at(0);
        let tensor = Tensor::parsed(bytes)?;
        if tensor.dtype() != dtype {
            let have = tensor.dtype();
            return Err(Error::data(format!("the string holds a tensor of {have}, but {dtype} was asked for")));
        }
        Ok(Value::Tensor(tensor))
    });
    Made::new(Leaf::tensor(dtype, Dims::unknown()), kernel)
}

fn make_serialize_tensor(args: &[Leaf], _attrs: &Attrs) -> Result<Made> {
    arity::<1>(args)?;
    dense(args, 0)?;
    let kernel = ByRow(|args: &[Value]| Ok(Value::Tensor(Tensor::string(&args[0].tensor().serialized()))));
    Made::new(Leaf::scalar(DType::String), kernel)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{call, fails, refused};
    use super::*;
    use serde_json::json;

    #[test]
    fn raw_numbers() {
        let bytes = Tensor::string(&[1, 2, 3, 4]);
        let little = call("io.decode_raw", &[bytes.clone()], json!({"out_type": "uint16"}));
        assert_eq!(little, Tensor::from_items([2], &[513u16, 1027]));
        let big = call("io.decode_raw", &[bytes.clone()], json!({"out_type": "uint16", "little_endian": false}));
        assert_eq!(big, Tensor::from_items([2], &[258u16, 772]));
        let several = Tensor::strings([2], &[&b"\x01"[..], b"\x02\x03\x04"]);
        let fixed = call("io.decode_raw", &[several.clone()], json!({"out_type": "uint8", "fixed_length": 2}));
        assert_eq!(fixed, Tensor::from_items([2, 2], &[1u8, 0, 2, 3]));
        let bools = call("io.decode_raw", &[bytes.clone()], json!({"out_type": "bool"}));
        assert_eq!(bools.bytes(), [1, 1, 1, 1]);
        let error = fails("io.decode_raw", &[several], json!({"out_type": "uint8"}));
        assert!(error.to_string().contains("string 1 has 3"), "{error}");
        let error = fails("io.decode_raw", &[bytes.clone()], json!({"out_type": "int64"}));
        assert!(error.to_string().contains("4 bytes are no whole number of int64"), "{error}");
        refused("io.decode_raw", &[bytes.clone()], json!({"out_type": "string"}));
        refused("io.decode_raw", &[bytes], json!({"out_type": "int32", "fixed_length": 6}));
    }

    #[test]
    fn tensors_there_and_back() {
        for tensor in [
            Tensor::from_items([2, 3], &[1i64, -2, 3, 4, 5, 6]),
            Tensor::scalar(1.5f64),
            Tensor::from_items([0, 2], &[0f32; 0]),
            Tensor::strings([2], &["a", "\u{e9}"]),
            Tensor::from_items([2], &[B8(1), B8(0)]),
        ] {
            let string = call("io.serialize_tensor", &[tensor.clone()], json!({}));
            let attrs = json!({"out_type": tensor.dtype().name()});
            assert_eq!(call("io.parse_tensor", &[string.clone()], attrs), tensor);
            let error = fails("io.parse_tensor", &[string], json!({"out_type": "uint8"}));
            assert!(error.to_string().contains("but uint8 was asked for"), "{error}");
        }
        let error = fails("io.parse_tensor", &[Tensor::string(b"\xff")], json!({"out_type": "uint8"}));
        assert!(error.to_string().contains("not a valid tensor"), "{error}");
    }

    #[test]
    fn compressed_strings() {
        let zlib = [0x78, 0x9c, 0x4b, 0x4c, 0x4a, 0x06, 0x00, 0x02, 0x4d, 0x01, 0x27];
        let out = call("io.decode_compressed", &[Tensor::string(&zlib)], json!({"compression_type": "ZLIB"}));
        assert_eq!(out.str_at(0), b"abc");
        assert_eq!(call("io.decode_compressed", &[Tensor::string(b"x")], json!({})).str_at(0), b"x");
        fails("io.decode_compressed", &[Tensor::string(b"x")], json!({"compression_type": "GZIP"}));
        let error = refused("io.decode_compressed", &[Tensor::string(b"x")], json!({"compression_type": "gzip"}));
        assert!(error.to_string().contains("write \"GZIP\""), "{error}");
    }

    #[test]
    fn json_examples() {
        let text = r#"{"features": {"feature": {"x": {"int64List": {"value": ["7"]}}}}}"#;
        let out = call("io.decode_json_example", &[Tensor::strings([1], &[text])], json!({}));
        assert_eq!(out.str_at(0), b"\x0a\x0c\x0a\x0a\x0a\x01x\x12\x05\x1a\x03\x0a\x01\x07");
        fails("io.decode_json_example", &[Tensor::string(b"{")], json!({}));
    }
}
