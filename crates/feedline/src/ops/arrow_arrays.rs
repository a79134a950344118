//! Arrow arrays as columns. Not an operator: what Parquet and Arrow files share.
//!
//! | Arrow | here |
//! |---|---|
//! | bool, integers, float16, 32 and 64 | the same; without nulls on the same memory, except for bool |
//! | utf8, binary (also large, view, of fixed size) | string, pointing into the array's bytes |
//! | date32, time32 | int32: days, and the type's unit |
//! | date64, time64, timestamp, duration | int64 in the type's unit; timestamps count from 1970 in UTC |
//! | decimal | float64: more than 15 digits are rounded |
//! | dictionary | its values |
//! | fixed-size list | one more axis |
//! | list, large list | a ragged axis |
//! | struct | a dict inside the element |
//!
//! Nulls have no place in a tensor: a row with one fails, unless `fill` says what stands for them.

use crate::element::{B8, Column, DType, Leaf, Ragged, Spec, StringsBuilder, Tensor, Tree, unstack};
use crate::error::{Error, Result};
use feedline_formats::columnar::array::cast::AsArray;
use feedline_formats::columnar::array::{Array, ArrayRef};
use feedline_formats::columnar::buffer::{Buffer, NullBuffer};
use feedline_formats::columnar::data::{ByteView, MAX_INLINE_VIEW_LEN};
use feedline_formats::columnar::schema::{DataType, Field};
use feedline_formats::columnar::{cast, from_buffer, from_decoded};
use feedline_io::Buf;
use half::{bf16, f16};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;

/// What stands in the place of nulls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fill {
    /// In all columns of floats that are not named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floats: Option<FillValue>,
    /// By column; a field of a struct is `struct.field`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub columns: BTreeMap<String, FillValue>,
}

/// One such value. Floats that JSON does not have are text: "nan", "inf", "-inf".
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FillValue {
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
}

impl Fill {
    pub fn is_empty(&self) -> bool {
        self == &Fill::default()
    }
    /// What to use in a column of that type.
    fn of(&self, path: &str, dtype: DType) -> Option<&FillValue> {
        self.columns.get(path).or_else(|| self.floats.as_ref().filter(|_| dtype.is_float()))
    }
    /// Refuses names that are no columns, or structs: their fields are filled. `paths` are all that could be named.
    pub fn check(&self, paths: &[String], spec: &Spec) -> Result<()> {
        if let Some(name) = self.columns.keys().find(|name| !paths.contains(name)) {
            let inside: Vec<&String> = paths.iter().filter(|p| p.starts_with(&format!("{name}."))).collect();
            return Err(Error::usage(match inside.is_empty() {
                true => format!("fill names {name:?}, which is no column; there are {paths:?}"),
                false => format!("fill names {name:?}, which is a struct; name its fields: {inside:?}"),
            }));
        }
        if let Tree::Map { items, .. } = spec {
            items.iter().try_for_each(|(name, tree)| self.check_tree(name, tree))?;
        }
        Ok(())
    }
    fn check_tree(&self, path: &str, tree: &Spec) -> Result<()> {
        match tree {
            Tree::Leaf(leaf) => match leaf.dtype().and_then(|d| Some((d, self.of(path, d)?))) {
                Some((dtype, value)) => value.bytes(dtype).map(|_| ()).map_err(|e| named(e, path)),
                None => Ok(()),
            },
            Tree::Map { items, .. } => {
                items.iter().try_for_each(|(name, tree)| self.check_tree(&format!("{path}.{name}"), tree))
            }
            Tree::Tuple { .. } => Ok(()),
        }
    }
}

impl FillValue {
    fn float(&self) -> Option<f64> {
        match self {
            FillValue::Int(n) => Some(*n as f64),
            FillValue::Float(x) => Some(*x),
            FillValue::Text(text) => text.parse().ok(),
            FillValue::Bool(_) => None,
        }
    }
    /// The value as an item of that type.
    fn bytes(&self, dtype: DType) -> Result<Vec<u8>> {
        let wrong = || Error::usage(format!("the fill {self:?} is no {dtype}"));
        macro_rules! int {
            ($t:ty) => {
                match self {
                    FillValue::Int(n) => <$t>::try_from(*n).map_err(|_| wrong())?.to_ne_bytes().to_vec(),
                    _ => return Err(wrong()),
                }
            };
        }
        Ok(match dtype {
            DType::Bool => match self {
                FillValue::Bool(b) => vec![u8::from(*b)],
                _ => return Err(wrong()),
            },
            DType::Int8 => int!(i8),
            DType::Int16 => int!(i16),
            DType::Int32 => int!(i32),
            DType::Int64 => int!(i64),
            DType::Uint8 => int!(u8),
            DType::Uint16 => int!(u16),
            DType::Uint32 => int!(u32),
            DType::Uint64 => int!(u64),
            DType::Float16 => f16::from_f64(self.float().ok_or_else(wrong)?).to_ne_bytes().to_vec(),
            DType::Bfloat16 => bf16::from_f64(self.float().ok_or_else(wrong)?).to_ne_bytes().to_vec(),
            DType::Float32 => (self.float().ok_or_else(wrong)? as f32).to_ne_bytes().to_vec(),
            DType::Float64 => self.float().ok_or_else(wrong)?.to_ne_bytes().to_vec(),
            DType::String => match self {
                FillValue::Text(text) => text.clone().into_bytes(),
                _ => return Err(wrong()),
            },
        })
    }
}

fn named(error: Error, path: &str) -> Error {
    Error::new(error.kind(), format!("column {path:?}: {}", error.message()))
}

/// The spec of a field's values.
pub fn spec_of(field: &Field) -> Result<Spec> {
    tree(field.name(), field.data_type())
}

fn tree(path: &str, data_type: &DataType) -> Result<Spec> {
    match data_type {
        DataType::Struct(fields) => {
            let items = fields
                .iter()
                .map(|f| Ok((f.name().as_str().into(), tree(&format!("{path}.{}", f.name()), f.data_type())?)));
            Ok(Tree::Map { tag: None, items: items.collect::<Result<_>>()? })
        }
        other => Ok(Tree::Leaf(leaf(path, other)?)),
    }
}

/// The names that its leaves have for `fill`.
pub fn leaf_paths(path: &str, spec: &Spec) -> Vec<String> {
    match spec {
        Tree::Map { items, .. } => {
            items.iter().flat_map(|(name, tree)| leaf_paths(&format!("{path}.{name}"), tree)).collect()
        }
        _ => vec![path.into()],
    }
}

/// The dtype that single values have.
fn dtype_of(data_type: &DataType) -> Option<DType> {
    use DataType::*;
    Some(match data_type {
        Boolean => DType::Bool,
        Int8 => DType::Int8,
        Int16 => DType::Int16,
        Int32 | Date32 | Time32(_) => DType::Int32,
        Int64 | Date64 | Time64(_) | Timestamp(..) | Duration(_) => DType::Int64,
        UInt8 => DType::Uint8,
        UInt16 => DType::Uint16,
        UInt32 => DType::Uint32,
        UInt64 => DType::Uint64,
        Float16 => DType::Float16,
        Float32 => DType::Float32,
        Float64 | Decimal32(..) | Decimal64(..) | Decimal128(..) | Decimal256(..) => DType::Float64,
        Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => DType::String,
        Dictionary(_, values) => return dtype_of(values),
        _ => return None,
    })
}

fn leaf(path: &str, data_type: &DataType) -> Result<Leaf> {
    if let Some(dtype) = dtype_of(data_type) {
        return Ok(Leaf::scalar(dtype));
    }
    let refused = |why: &str| {
        Err(Error::usage(format!(
            "column {path:?} has the type {data_type}, {why}; leave it out with columns=[...], or write it as another type"
        )))
    };
    match data_type {
        DataType::List(f) | DataType::LargeList(f) => Ok(match leaf(path, f.data_type())? {
            Leaf::Tensor { dtype, shape } => {
                Leaf::Ragged { dtype, shape: shape.under(None), ragged_rank: 0, splits: DType::Int64 }
            }
            Leaf::Ragged { dtype, shape, ragged_rank, splits } => {
                Leaf::Ragged { dtype, shape: shape.under(None), ragged_rank: ragged_rank + 1, splits }
            }
            _ => return refused("which has no place in an element"),
        }),
        DataType::FixedSizeList(f, n) => match (leaf(path, f.data_type())?, usize::try_from(*n)) {
            (Leaf::Tensor { dtype, shape }, Ok(n)) => Ok(Leaf::Tensor { dtype, shape: shape.under(Some(n)) }),
            _ => refused("a list of fixed size of lists that are not"),
        },
        DataType::Struct(_) => refused("a list of structs, which has no place in an element"),
        _ => refused("which has no place in an element"),
    }
}

/// Rows with nulls, each with the column that has them.
#[derive(Default)]
pub struct Nulls(Vec<(usize, String)>);

impl Nulls {
    /// The rows, each once, and their errors.
    pub fn errors(mut self) -> Vec<(usize, Error)> {
        self.0.sort();
        self.0.dedup_by_key(|(row, _)| *row);
        let error = |path: String| {
            Error::data(format!(
                "column {path:?} is null here; say what stands for nulls with fill={{{path:?}: value}}, leave the column \
                 out with columns=[...], or drop such rows with ignore_errors()"
            ))
        };
        self.0.into_iter().map(|(row, path)| (row, error(path))).collect()
    }
}

/// The columns of a field, one for each leaf of its spec. `outer` has the rows in which the struct around it is null: its
/// fields are, too.
pub fn columns_of(
    array: ArrayRef,
    outer: Option<&NullBuffer>,
    path: &str,
    fill: &Fill,
    out: &mut Vec<Column>,
    nulls: &mut Nulls,
) -> Result<()> {
    match array.data_type().clone() {
        DataType::Struct(fields) => {
            let bits = NullBuffer::union(outer, array.nulls());
            let children: Vec<ArrayRef> = array.as_struct().columns().to_vec();
            drop(array);
            for (child, field) in children.into_iter().zip(&fields) {
                columns_of(child, bits.as_ref(), &format!("{path}.{}", field.name()), fill, out, nulls)?;
            }
            Ok(())
        }
        DataType::List(_) | DataType::LargeList(_) => {
            out.push(ragged(array, outer, path, fill, nulls)?);
            Ok(())
        }
        _ => {
            out.push(Column::Dense(dense(array, outer, path, fill, &mut |item| nulls.0.push((item, path.into())))?));
            Ok(())
        }
    }
}

/// The places that are null.
fn null_places(bits: Option<&NullBuffer>) -> impl Iterator<Item = usize> {
    let bits = bits.filter(|bits| bits.null_count() > 0);
    bits.into_iter().flat_map(|bits| (0..bits.len()).filter(|&i| bits.is_null(i)))
}

/// The type of single values in lists.
fn item_type(mut data_type: &DataType) -> &DataType {
    while let DataType::List(f) | DataType::LargeList(f) | DataType::FixedSizeList(f, _) = data_type {
        data_type = f.data_type();
    }
    data_type
}

/// A list of lists of ... of dense items.
fn ragged(array: ArrayRef, outer: Option<&NullBuffer>, path: &str, fill: &Fill, nulls: &mut Nulls) -> Result<Column> {
    let rows = array.len();
    let mut splits: Vec<std::sync::Arc<[i64]>> = Vec::new();
    // The row to which an item of the innermost level so far belongs.
    let row_of = |splits: &[std::sync::Arc<[i64]>], item: usize| {
        splits.iter().rev().fold(item, |at, level| level.partition_point(|s| *s <= at as i64).saturating_sub(1))
    };
    let mut array = array;
    // With a fill, a list that is null is an empty one.
    let empty = dtype_of(item_type(array.data_type())).is_some_and(|d| fill.of(path, d).is_some());
    if !empty {
        nulls.0.extend(null_places(outer).map(|row| (row, path.into())));
    }
    loop {
        let (offsets, child): (Vec<i64>, ArrayRef) = match array.data_type() {
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                (list.offsets().iter().map(|&o| o.into()).collect(), list.values().clone())
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                (list.offsets().to_vec(), list.values().clone())
            }
            _ => break,
        };
        if !empty {
            nulls.0.extend(null_places(array.nulls()).map(|i| (row_of(&splits, i), path.into())));
        }
        splits.push(offsets.into());
        array = child;
    }
    let levels = splits.clone();
    let values = dense(array, None, path, fill, &mut |item| nulls.0.push((row_of(&levels, item), path.into())))?;
    let all = Ragged { values, splits, splits_dtype: DType::Int64 };
    let rows_of = unstack(&crate::element::Value::Ragged(all.into()))?;
    debug_assert_eq!(rows_of.len(), rows);
    Ok(Column::Rows(rows_of.into(), 0..rows))
}

/// Items of one shape; where something around them is null, `outer` says so. `null` hears of those that are null and not
/// filled.
fn dense(
    array: ArrayRef,
    outer: Option<&NullBuffer>,
    path: &str,
    fill: &Fill,
    null: &mut dyn FnMut(usize),
) -> Result<Tensor> {
    if let DataType::FixedSizeList(_, n) = *array.data_type() {
        let (rows, n) = (array.len(), n.max(0) as usize);
        let mut bits = NullBuffer::union(outer, array.nulls()).filter(|b| b.null_count() > 0);
        // With a fill, a list that is null is one of nulls.
        let is_filled = dtype_of(item_type(array.data_type())).is_some_and(|d| fill.of(path, d).is_some());
        let under = bits.take_if(|_| is_filled).map(|bits| bits.expand(n));
        null_places(bits.as_ref()).for_each(&mut *null);
        let list = array.as_fixed_size_list();
        let child = list.values().slice(0, rows * n);
        drop(array);
        // Items under a null list are reported with it.
        let mut inner = |item: usize| {
            let row = item / n.max(1);
            if !bits.as_ref().is_some_and(|b| b.is_null(row)) {
                null(row);
            }
        };
        let items = dense(child, under.as_ref(), path, fill, &mut inner)?;
        let shape: Vec<usize> = [rows, n].into_iter().chain(items.shape()[1..].iter().copied()).collect();
        return Ok(items.into_reshaped(shape));
    }
    let unfit = || Error::data(format!("column {path:?} has the type {} here", array.data_type()));
    let dtype = dtype_of(array.data_type()).ok_or_else(unfit)?;
    // Of a dictionary, also those whose value is null.
    let bits = NullBuffer::union(outer, array.logical_nulls().as_ref()).filter(|n| n.null_count() > 0);
    let filled = match (&bits, fill.of(path, dtype)) {
        (Some(_), Some(value)) => Some(value.bytes(dtype)?),
        _ => None,
    };
    if filled.is_none() {
        null_places(bits.as_ref()).for_each(null);
    }
    let is_null = |i: usize| filled.is_some() && bits.as_ref().is_some_and(|b| b.is_null(i));
    if dtype == DType::String {
        return strings(array, |i| is_null(i).then(|| filled.as_deref().unwrap_or_default()));
    }
    let mut tensor = numbers(array, dtype)?;
    if let Some(item) = &filled {
        let size = dtype.size();
        let slots = tensor.bytes_mut().chunks_exact_mut(size).enumerate();
        slots.filter(|(i, _)| is_null(*i)).for_each(|(_, slot)| slot.copy_from_slice(item));
    }
    Ok(tensor)
}

fn numbers(array: ArrayRef, dtype: DType) -> Result<Tensor> {
    let array = match array.data_type() {
        DataType::Dictionary(..)
        | DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => {
            let to = match array.data_type() {
                DataType::Dictionary(_, values) => (**values).clone(),
                _ => DataType::Float64,
            };
            let values = cast::cast(&array, &to).map_err(|e| Error::data(e.to_string()))?;
            return numbers(values, dtype);
        }
        _ => array,
    };
    let rows = array.len();
    if dtype == DType::Bool {
        let bits = array.as_boolean().values();
        let mut tensor = Tensor::new(dtype, [rows]);
        tensor.items_mut::<B8>().iter_mut().zip(bits.iter()).for_each(|(to, bit)| *to = bit.into());
        return Ok(tensor);
    }
    let data = array.to_data();
    let size = dtype.size();
    let items: Buffer = data.buffers()[0].slice_with_length(data.offset() * size, rows * size);
    // Whoever holds the memory alone may write it: everybody else lets go first.
    drop((data, array));
    let buf = from_buffer(items);
    if (buf.as_slice().as_ptr() as usize).is_multiple_of(size) {
        return Tensor::from_buf(dtype, [rows], buf, 0);
    }
    let mut own = Tensor::new(dtype, [rows]);
    own.bytes_mut().copy_from_slice(buf.as_slice());
    Ok(own)
}

fn strings<'a>(array: ArrayRef, fill: impl Fn(usize) -> Option<&'a [u8]>) -> Result<Tensor> {
    let rows = array.len();
    let mut out = StringsBuilder::with_capacity(rows);
    // Rows of a dictionary point to its values: a long one in many rows is there once.
    let (values, keys) = match array.as_any_dictionary_opt() {
        Some(dictionary) if dictionary.values().is_empty() => {
            (0..rows).for_each(|i| out.push(fill(i).unwrap_or_default()));
            return Ok(out.tensor([rows]));
        }
        Some(dictionary) => (Some(dictionary.values().clone()), Some(dictionary.normalized_keys())),
        None => (None, None),
    };
    let array = values.unwrap_or(array);
    let mut cut_of = |place: &mut dyn FnMut(&mut StringsBuilder, usize)| {
        for i in 0..rows {
            match fill(i) {
                Some(text) => out.push(text),
                None => place(&mut out, keys.as_ref().map_or(i, |keys| keys[i])),
            }
        }
    };
    let mut cut = |values: Buffer, range: &dyn Fn(usize) -> Range<usize>| {
        let buf = from_buffer(values);
        cut_of(&mut |out, i| out.push_view(&buf, range(i)));
    };
    macro_rules! by_views {
        ($array:expr) => {{
            let views = $array.views();
            // Short strings lie in the views themselves, behind their length. The others lie in memory that counts.
            let short = from_decoded(views.inner().clone());
            let bufs: Vec<Buf> = $array.data_buffers().iter().map(|b| from_buffer(b.clone())).collect();
            cut_of(&mut |out, i| match ByteView::from(views[i]) {
                view if view.length <= MAX_INLINE_VIEW_LEN => {
                    out.push_view(&short, i * 16 + 4..i * 16 + 4 + view.length as usize)
                }
                view => {
                    let from = view.offset as usize;
                    out.push_view(&bufs[view.buffer_index as usize], from..from + view.length as usize)
                }
            });
        }};
    }
    macro_rules! by_offsets {
        ($array:expr) => {{
            let (offsets, values) = ($array.offsets().clone(), $array.values().clone());
            // What nobody else holds becomes ours, and counts.
            drop(array);
            cut(values, &|i| offsets[i] as usize..offsets[i + 1] as usize);
        }};
    }
    match array.data_type().clone() {
        DataType::Utf8 => by_offsets!(array.as_string::<i32>()),
        DataType::LargeUtf8 => by_offsets!(array.as_string::<i64>()),
        DataType::Binary => by_offsets!(array.as_binary::<i32>()),
        DataType::LargeBinary => by_offsets!(array.as_binary::<i64>()),
        DataType::FixedSizeBinary(n) => {
            let (n, data) = (n as usize, array.to_data());
            let first = data.offset() * n;
            drop(array);
            cut(data.buffers()[0].clone(), &|i| first + i * n..first + (i + 1) * n);
        }
        DataType::Utf8View => by_views!(array.as_string_view()),
        DataType::BinaryView => by_views!(array.as_binary_view()),
        other => return Err(Error::internal(format!("{other} has no strings"))),
    }
    Ok(out.tensor([rows]))
}

/// Whether a file's field has values of the spec that the first file gave, and of the same meaning.
pub fn check_field(field: &Field, wanted: &Spec, first: &DataType) -> Result<()> {
    let own = spec_of(field)?;
    if own == *wanted && counted(field.data_type()) == counted(first) {
        return Ok(());
    }
    Err(Error::data(format!(
        "column {:?} is {own} ({}) here, but {wanted} ({first}) in the first file; files of one dataset must agree",
        field.name(),
        field.data_type()
    )))
}

/// What the numbers of each leaf count, where its type says that: seconds beside microseconds are no one column. In
/// different time zones they are still the same instants.
fn counted(data_type: &DataType) -> Vec<Option<DataType>> {
    use DataType::*;
    match data_type {
        Struct(fields) => fields.iter().flat_map(|f| counted(f.data_type())).collect(),
        List(f) | LargeList(f) | FixedSizeList(f, _) => counted(f.data_type()),
        Dictionary(_, values) => counted(values),
        Timestamp(unit, _) => vec![Some(Timestamp(*unit, None))],
        Date32 | Date64 | Time32(_) | Time64(_) | Duration(_) => vec![Some(data_type.clone())],
        _ => vec![None],
    }
}
