//! Columns as Arrow arrays: what is written to Parquet and Arrow files. The inverse of `ops/arrow_arrays.rs`.

use crate::element::{B8, Chunk, Column, DType, Leaf, Spec, Tensor, Tree, Value};
use crate::error::{Error, Result};
use feedline_formats::columnar::array::builder::{BinaryBuilder, StringBuilder};
use feedline_formats::columnar::array::{
    ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, StructArray, make_array,
};
use feedline_formats::columnar::buffer::{BooleanBuffer, Buffer};
use feedline_formats::columnar::data::ArrayData;
use feedline_formats::columnar::schema::{DataType, Field, Fields, Schema, SchemaRef};
use feedline_formats::columnar::to_buffer;
use serde::Deserialize;
use std::sync::Arc;

/// Which columns of strings are bytes rather than text: all, or these.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Binary {
    All(bool),
    Some(Vec<String>),
}

impl Default for Binary {
    fn default() -> Binary {
        Binary::All(false)
    }
}

/// The columns of a dataset's elements: the keys of a dict, the numbers of a tuple, or one that is called `value`.
pub fn schema_of(spec: &Spec, binary: &Binary) -> Result<SchemaRef> {
    let fields = match spec {
        Tree::Leaf(_) => vec![field("value", spec, binary)?],
        _ => fields_of("", spec, binary)?,
    };
    if fields.is_empty() {
        return Err(Error::usage("the elements have no components: there is nothing to save"));
    }
    Ok(Arc::new(Schema::new(fields)))
}

fn fields_of(path: &str, tree: &Spec, binary: &Binary) -> Result<Vec<Field>> {
    let name = |key: &str| if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
    let named = |key: &str, item| field(&name(key), item, binary).map(|f| f.with_name(key));
    match tree {
        Tree::Map { items, .. } => items.iter().map(|(key, item)| named(key, item)).collect(),
        Tree::Tuple { items, .. } => items.iter().enumerate().map(|(i, item)| named(&i.to_string(), item)).collect(),
        Tree::Leaf(_) => Ok(vec![]),
    }
}

fn field(path: &str, tree: &Spec, binary: &Binary) -> Result<Field> {
    let Tree::Leaf(leaf) = tree else {
        let fields: Fields = fields_of(path, tree, binary)?.into();
        return Ok(Field::new(path, DataType::Struct(fields), false));
    };
    let (dtype, dims) = match leaf {
        Leaf::Tensor { dtype, shape } => (dtype, shape.dims().map(|d| d.to_vec())),
        Leaf::Ragged { dtype, shape, ragged_rank, .. } => {
            let lists = ragged_rank + 1;
            let dims = shape.dims().map(|d| d.iter().enumerate().map(|(i, d)| d.filter(|_| i >= lists)).collect());
            (dtype, dims)
        }
        other => {
            return Err(Error::usage(format!(
                "column {path:?}: {other} has no place in a table; turn it into a tensor"
            )));
        }
    };
    let dims: Vec<Option<usize>> = dims.ok_or_else(|| {
        Error::usage(format!("column {path:?}: {leaf} has an unknown number of axes; say it with ensure_shape"))
    })?;
    let bytes = match binary {
        Binary::All(all) => *all,
        Binary::Some(names) => names.iter().any(|n| n == path),
    };
    let mut data_type = match dtype {
        DType::Bool => DataType::Boolean,
        DType::Int8 => DataType::Int8,
        DType::Int16 => DataType::Int16,
        DType::Int32 => DataType::Int32,
        DType::Int64 => DataType::Int64,
        DType::Uint8 => DataType::UInt8,
        DType::Uint16 => DataType::UInt16,
        DType::Uint32 => DataType::UInt32,
        DType::Uint64 => DataType::UInt64,
        DType::Float16 => DataType::Float16,
        DType::Float32 => DataType::Float32,
        DType::Float64 => DataType::Float64,
        DType::String if bytes => DataType::Binary,
        DType::String => DataType::Utf8,
        DType::Bfloat16 => {
            return Err(Error::usage(format!("column {path:?}: tables have no bfloat16; cast it to float32")));
        }
    };
    for dim in dims.into_iter().rev() {
        let item = Arc::new(Field::new_list_field(data_type, false));
        data_type = match dim {
            None => DataType::List(item),
            Some(n) => {
                let n = i32::try_from(n).map_err(|_| Error::usage(format!("column {path:?}: an axis is too long")))?;
                DataType::FixedSizeList(item, n)
            }
        };
    }
    Ok(Field::new(path, data_type, false))
}

/// The rows of a chunk.
pub fn batch_of(chunk: &Chunk, schema: &SchemaRef) -> Result<RecordBatch> {
    let mut columns = chunk.columns().iter();
    let arrays = schema.fields().iter().map(|f| array(f.name(), f.data_type(), &mut columns, chunk.rows()));
    let arrays: Vec<ArrayRef> = arrays.collect::<Result<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(chunk.rows()));
    RecordBatch::try_new_with_options(schema.clone(), arrays, &options).map_err(|e| Error::data(e.to_string()))
}

fn array<'a>(
    path: &str,
    data_type: &DataType,
    columns: &mut impl Iterator<Item = &'a Column>,
    rows: usize,
) -> Result<ArrayRef> {
    if let DataType::Struct(fields) = data_type {
        let parts = fields.iter().map(|f| array(&format!("{path}.{}", f.name()), f.data_type(), columns, rows));
        let parts: Vec<ArrayRef> = parts.collect::<Result<_>>()?;
        let made = StructArray::try_new_with_length(fields.clone(), parts, None, rows);
        return made.map(|a| Arc::new(a) as ArrayRef).map_err(|e| Error::data(e.to_string()));
    }
    let column = columns.next().ok_or_else(|| Error::internal("fewer columns than fields"))?;
    // The lists of each level, one after the other, and the items of the innermost ones.
    let (levels, items) = match column {
        Column::Dense(t) => (regular(t.shape()), t.reshaped([t.len()])),
        Column::Rows(values, range) => flattened(&values[range.clone()], path)?,
    };
    let data = wrapped(path, data_type, rows, &levels, &items)?;
    Ok(make_array(data))
}

/// Lengths of the lists of each level, where all are alike.
fn regular(shape: &[usize]) -> Vec<Lengths> {
    let count = |axis: usize| shape[..axis].iter().product();
    (1..shape.len()).map(|axis| Lengths::Same(count(axis), shape[axis])).collect()
}

/// How long the lists of a level are.
enum Lengths {
    /// So many of one length.
    Same(usize, usize),
    Each(Vec<usize>),
}

fn flattened(values: &[Value], path: &str) -> Result<(Vec<Lengths>, Tensor)> {
    let mut levels: Vec<Vec<usize>> = Vec::new();
    let mut parts: Vec<Tensor> = Vec::new();
    let mut add = |level: usize, lengths: &mut dyn Iterator<Item = usize>| {
        if levels.len() <= level {
            levels.resize_with(level + 1, Vec::new);
        }
        levels[level].extend(lengths);
    };
    for value in values {
        let (mut level, tensor) = match value {
            Value::Tensor(t) => (0, t),
            Value::Ragged(r) => {
                add(0, &mut std::iter::once(r.rows()));
                for (i, splits) in r.splits.iter().enumerate() {
                    add(i + 1, &mut splits.windows(2).map(|w| (w[1] - w[0]) as usize));
                }
                (r.splits.len() + 1, &r.values)
            }
            other => return Err(Error::data(format!("column {path:?}: {other:?} has no place in a table"))),
        };
        // The axes of the tensor itself; of a ragged one's the first is what the splits have counted already.
        let first = usize::from(level > 0);
        for axis in first..tensor.rank() {
            let lists = tensor.shape()[..axis].iter().product::<usize>();
            add(level, &mut std::iter::repeat_n(tensor.shape()[axis], lists));
            level += 1;
        }
        parts.push(tensor.reshaped([tensor.len()]));
    }
    Ok((levels.into_iter().map(Lengths::Each).collect(), Tensor::concat(&parts)))
}

/// Puts lists around the items, from the outside in.
fn wrapped(path: &str, data_type: &DataType, rows: usize, levels: &[Lengths], items: &Tensor) -> Result<ArrayData> {
    let wrong = |text: String| Error::data(format!("column {path:?}: {text}"));
    let built = |b: Result<ArrayData>| b;
    let (field, first, rest) = match (data_type, levels.split_first()) {
        (DataType::List(f) | DataType::FixedSizeList(f, _), Some((first, rest))) => (f, first, rest),
        (DataType::List(_) | DataType::FixedSizeList(..), None) => {
            return Err(wrong("an element has fewer axes than its spec says".into()));
        }
        (_, None) => return built(plain(path, data_type, items)),
        (_, Some(_)) => return Err(wrong("an element has more axes than its spec says".into())),
    };
    let lengths: Box<dyn Iterator<Item = usize>> = match first {
        Lengths::Same(count, n) => Box::new(std::iter::repeat_n(*n, *count)),
        Lengths::Each(each) => Box::new(each.iter().copied()),
    };
    let builder = ArrayData::builder(data_type.clone()).len(rows);
    let (builder, inner) = match data_type {
        DataType::FixedSizeList(_, n) => {
            if let Some(odd) = lengths.into_iter().find(|len| *len as i64 != i64::from(*n)) {
                return Err(wrong(format!("an axis has {odd} items here; its spec says {n}")));
            }
            (builder, rows * *n as usize)
        }
        _ => {
            let mut offsets: Vec<i32> = Vec::with_capacity(rows + 1);
            let mut end = 0usize;
            offsets.push(0);
            for n in lengths {
                end += n;
                offsets.push(i32::try_from(end).map_err(|_| wrong("too many items for one batch".into()))?);
            }
            (builder.add_buffer(Buffer::from_vec(offsets)), end)
        }
    };
    let child = wrapped(path, field.data_type(), inner, rest, items)?;
    builder.add_child_data(child).build().map_err(|e| wrong(e.to_string()))
}

/// Items without lists around them.
fn plain(path: &str, data_type: &DataType, items: &Tensor) -> Result<ArrayData> {
    use feedline_formats::columnar::array::Array;
    if items.dtype() == DType::String && items.strs().map(|text| text.len()).sum::<usize>() > i32::MAX as usize {
        return Err(Error::data(format!("column {path:?}: strings of more than 2 GiB do not fit into one batch")));
    }
    match items.dtype() {
        DType::Bool => {
            let bits = items.items::<B8>();
            Ok(BooleanArray::new(BooleanBuffer::collect_bool(bits.len(), |i| bits[i].get()), None).to_data())
        }
        DType::String if *data_type == DataType::Utf8 => {
            let mut out = StringBuilder::new();
            for text in items.strs() {
                out.append_value(std::str::from_utf8(text).map_err(|_| {
                    Error::data(format!(
                        "column {path:?} has bytes that are no text (UTF-8); save it as bytes with binary=[{path:?}]"
                    ))
                })?);
            }
            Ok(out.finish().to_data())
        }
        DType::String => {
            let mut out = BinaryBuilder::new();
            items.strs().for_each(|bytes| out.append_value(bytes));
            Ok(out.finish().to_data())
        }
        _ => {
            let (buf, start) = items.buf();
            let bytes = items.len() * items.dtype().size();
            let buffer = to_buffer(buf.clone()).slice_with_length(start, bytes);
            let builder = ArrayData::builder(data_type.clone()).len(items.len()).add_buffer(buffer);
            builder.align_buffers(true).build().map_err(|e| Error::data(e.to_string()))
        }
    }
}
