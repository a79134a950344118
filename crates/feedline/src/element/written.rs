//! Values in written plans. Small ones are spelt out in JSON; large tensors and foreign objects (a Python function) are
//! put aside as attachments, and the JSON says which.

use super::dtype::DType;
use super::tensor::{StringsBuilder, Tensor};
use super::value::{Nested, READ_NESTED, Ragged, Sparse, Value};
use crate::error::Error;
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::any::Any;
use std::cell::RefCell;
use std::sync::Arc;

/// What a written plan refers to but does not spell out.
pub type Attachments = Vec<Arc<dyn Any + Send + Sync>>;

/// Who will read the written form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reader {
    /// This process, at once: functions and datasets are handed over as they are.
    Here,
    /// The same, but functions are made anew: of datasets there will be copies, which whoever copies puts in their place.
    Copies,
    /// Another process: everything but arrays and Python objects is spelt out.
    Elsewhere,
    /// Nobody: it is compared. What cannot change results is left out of datasets inside of functions.
    Nobody,
}

thread_local! {
    static CURRENT: RefCell<Option<(Reader, Attachments)>> = const { RefCell::new(None) };
}

/// Runs `f` while `attach` and `attached` refer to this list, and gives the list back.
pub fn with_attachments<R>(reader: Reader, list: Attachments, f: impl FnOnce() -> R) -> (R, Attachments) {
    let before = CURRENT.replace(Some((reader, list)));
    let result = f();
    (result, CURRENT.replace(before).map(|(_, list)| list).unwrap_or_default())
}

/// Puts an object aside if it will be read in this process.
pub fn attach_live(object: Arc<dyn Any + Send + Sync>) -> Option<usize> {
    CURRENT.with_borrow(|c| matches!(c, Some((Reader::Here, _)))).then(|| attach(object)).flatten()
}

/// Puts a dataset or a list of values aside if it will be read in this process.
pub fn attach_value(object: Arc<dyn Any + Send + Sync>) -> Option<usize> {
    let is_here = CURRENT.with_borrow(|c| matches!(c, Some((Reader::Here | Reader::Copies, _))));
    is_here.then(|| attach(object)).flatten()
}

/// Whether what is written now is only compared.
pub fn is_compared() -> bool {
    CURRENT.with_borrow(|c| matches!(c, Some((Reader::Nobody, _))))
}

/// Puts an object aside and says where; `None` if no list is open.
pub fn attach(object: Arc<dyn Any + Send + Sync>) -> Option<usize> {
    CURRENT.with_borrow_mut(|list| {
        let (_, list) = list.as_mut()?;
        list.push(object);
        Some(list.len() - 1)
    })
}

/// The object that was put aside there.
pub fn attached(i: usize) -> Option<Arc<dyn Any + Send + Sync>> {
    CURRENT.with_borrow(|list| list.as_ref()?.1.get(i).cloned())
}

const INLINE_BYTES: usize = 256;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Written {
    Attached(usize),
    Items { dtype: DType, shape: Vec<usize>, hex: String },
    Strings { shape: Vec<usize>, hex: Vec<String> },
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let text = text.as_bytes();
    if !text.len().is_multiple_of(2) {
        return None;
    }
    text.chunks(2).map(|p| u8::from_str_radix(std::str::from_utf8(p).ok()?, 16).ok()).collect()
}

impl Serialize for Tensor {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if self.nbytes() > INLINE_BYTES
            && let Some(i) = attach(Arc::new(self.clone()))
        {
            return Written::Attached(i).serialize(s);
        }
        let shape = self.shape().to_vec();
        match self.dtype() {
            DType::String => Written::Strings { shape, hex: self.strs().map(to_hex).collect() },
            dtype => Written::Items { dtype, shape, hex: to_hex(self.bytes()) },
        }
        .serialize(s)
    }
}

impl<'de> Deserialize<'de> for Tensor {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Tensor, D::Error> {
        let bad = || D::Error::custom("not a written tensor");
        match Written::deserialize(d)? {
            Written::Attached(i) => attached(i).and_then(|o| o.downcast_ref::<Tensor>().cloned()).ok_or_else(bad),
            Written::Items { dtype, shape, hex } => {
                let bytes = from_hex(&hex).ok_or_else(bad)?;
                if dtype == DType::String
                    || super::count(&shape).map_err(D::Error::custom)? * dtype.size() != bytes.len()
                {
                    return Err(bad());
                }
                let mut t = Tensor::new(dtype, shape.as_slice());
                t.bytes_mut().copy_from_slice(&bytes);
                Ok(t)
            }
            Written::Strings { shape, hex } => {
                if super::count(&shape).map_err(D::Error::custom)? != hex.len() {
                    return Err(bad());
                }
                let mut b = StringsBuilder::with_capacity(hex.len());
                for h in &hex {
                    b.push(&from_hex(h).ok_or_else(bad)?);
                }
                Ok(b.tensor(shape.as_slice()))
            }
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WrittenValue {
    Tensor(Tensor),
    Ragged { values: Tensor, splits: Vec<Arc<[i64]>>, dtype: DType },
    Sparse { indices: Tensor, values: Tensor, shape: Vec<i64> },
    Absent,
    Dataset(serde_json::Value),
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self.clone() {
            Value::Tensor(t) => WrittenValue::Tensor(t),
            Value::Ragged(r) => {
                WrittenValue::Ragged { values: r.values.clone(), splits: r.splits.clone(), dtype: r.splits_dtype }
            }
            Value::Sparse(v) => {
                WrittenValue::Sparse { indices: v.indices.clone(), values: v.values.clone(), shape: v.shape.clone() }
            }
            Value::Absent => WrittenValue::Absent,
            Value::Dataset(n) => WrittenValue::Dataset(n.0.write().map_err(S::Error::custom)?),
        }
        .serialize(s)
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Value, D::Error> {
        Ok(match WrittenValue::deserialize(d)? {
            WrittenValue::Tensor(t) => Value::Tensor(t),
            WrittenValue::Ragged { values, splits, dtype } => {
                if !splits_fit(&values, &splits, dtype) {
                    return Err(D::Error::custom("not a written ragged tensor"));
                }
                Value::Ragged(Arc::new(Ragged { values, splits, splits_dtype: dtype }))
            }
            WrittenValue::Sparse { indices, values, shape } => {
                let fits = indices.dtype() == DType::Int64 && values.rank() == 1;
                if !fits || indices.shape() != [values.len(), shape.len()] {
                    return Err(D::Error::custom("not a written sparse tensor"));
                }
                Value::Sparse(Arc::new(Sparse { indices, values, shape }))
            }
            WrittenValue::Absent => Value::Absent,
            WrittenValue::Dataset(json) => Value::Dataset(Nested::read(&json).map_err(D::Error::custom)?),
        })
    }
}

/// Whether each level of splits stays inside the next, and the last one inside the values.
fn splits_fit(values: &Tensor, splits: &[Arc<[i64]>], dtype: DType) -> bool {
    let next = splits.iter().skip(1).map(|s| s.len().saturating_sub(1)).chain([values.rows()]);
    let level = |s: &[i64], rows: usize| {
        let ends = s.first().zip(s.last());
        ends.is_some_and(|(first, last)| *first >= 0 && usize::try_from(*last).is_ok_and(|n| n <= rows))
            && s.is_sorted()
    };
    matches!(dtype, DType::Int32 | DType::Int64)
        && (splits.is_empty() || values.rank() > 0)
        && splits.iter().zip(next).all(|(s, rows)| level(s, rows))
}

impl Nested {
    pub fn read(json: &serde_json::Value) -> crate::Result<Nested> {
        let read = READ_NESTED.get().ok_or_else(|| Error::internal("no reader of written datasets"))?;
        read(json)
    }
}
