//! The list of a column whose rows are values of their own: shared by counting, and charged to whoever it was made for.
//!
//! 1. What stands around short rows takes more than they do: their places in the list, and the lists of ragged and sparse rows.
//!    They lie in no block, so they are charged here.
//! 2. Short rows that are kept for long lie together in one block (`together`). A small block for each of them takes three
//!    times as much, and the C library keeps the holes between them: a shuffle of short rows took twice what was counted.

use super::dtype::DType;
use super::tensor::Tensor;
use super::value::Value;
use feedline_io::{Account, Scratch, taken};
use std::ops::{Deref, Range};
use std::sync::Arc;

/// Longer rows have blocks of their own.
const SHORT_BYTES: usize = 1024;

#[derive(Clone)]
pub struct Values(Arc<List>);

/// What stands around a list: what counts its holders, and what the C library takes for both.
pub const AROUND: usize = 96;

struct List {
    values: Vec<Value>,
    _taken: Scratch,
}

impl Values {
    /// Whether both are the same list.
    pub fn same(&self, other: &Values) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
    /// Whether somebody else has it too.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
    /// Some of them, without a copy if these are all and nobody else has them.
    pub fn into_vec(self, rows: Range<usize>) -> Vec<Value> {
        if rows.len() < self.len() {
            return self[rows].to_vec();
        }
        Arc::try_unwrap(self.0).map_or_else(|list| list.values.clone(), |list| list.values)
    }
}

impl Deref for Values {
    type Target = [Value];
    fn deref(&self) -> &[Value] {
        &self.0.values
    }
}

impl From<Vec<Value>> for Values {
    fn from(mut values: Vec<Value>) -> Values {
        // One that grew may have as much again that it does not use.
        if values.capacity() - values.len() > values.len() / 8 {
            values.shrink_to_fit();
        }
        let places = values.capacity() * Value::PLACE;
        let lists = values.iter().map(Value::list_bytes).sum::<usize>();
        let _taken = taken(places + lists + AROUND, Account::current());
        Values(Arc::new(List { values, _taken }))
    }
}

impl FromIterator<Value> for Values {
    fn from_iter<I: IntoIterator<Item = Value>>(values: I) -> Values {
        values.into_iter().collect::<Vec<Value>>().into()
    }
}

impl std::fmt::Debug for Values {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The tensor of a short row.
fn short(value: &Value) -> Option<&Tensor> {
    let tensor = match value {
        Value::Tensor(t) => t,
        Value::Ragged(r) => &r.values,
        _ => return None,
    };
    (tensor.dtype() != DType::String && tensor.nbytes() <= SHORT_BYTES).then_some(tensor)
}

/// Whether most of these are short rows that have a block each.
pub fn are_apart(values: &[Value]) -> bool {
    let alone = |value: &&Value| short(value).is_some_and(Tensor::is_alone);
    values.len() > 1 && values.iter().filter(alone).count() * 2 > values.len()
}

/// Whether somebody keeps them anyway, as far as the first short one tells.
pub fn are_kept(values: &[Value]) -> bool {
    values.iter().find_map(short).is_some_and(|t| t.buf().0.is_kept())
}

/// The same with short rows side by side in a new block.
pub fn together(mut values: Vec<Value>) -> Vec<Value> {
    let all = || values.iter().filter_map(short);
    let Some(dtype) = all().map(Tensor::dtype).next() else { return values };
    let items = all().map(Tensor::len).sum::<usize>();
    let block = Tensor::join(dtype, [items], all());
    let mut at = 0;
    for value in &mut values {
        let Some(tensor) = short(value) else { continue };
        let placed = block.slice(at..at + tensor.len()).into_reshaped(tensor.shape());
        at += tensor.len();
        match value {
            Value::Ragged(r) => Arc::make_mut(r).values = placed,
            value => *value = Value::Tensor(placed),
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::value::Ragged;

    fn row(n: i64, items: usize) -> Tensor {
        Tensor::from_items([items], &vec![n; items])
    }

    #[test]
    fn short_rows_lie_together() {
        let ragged = |n: i64| {
            let splits = vec![Arc::from([0, 1, n])];
            Value::Ragged(Arc::new(Ragged { values: row(n, n as usize), splits, splits_dtype: DType::Int64 }))
        };
        let tensors: Vec<Value> = (0..9).map(|n| row(n, n as usize).into()).collect();
        for mut rows in [tensors, (2..9).map(ragged).collect()] {
            rows.push(row(7, 1000).into());
            assert!(are_apart(&rows));
            let packed = together(rows.clone());
            assert_eq!(packed, rows);
            assert!(!are_apart(&packed));
            let block = |v: &Value| v.tensors().next().map(|t| t.buf().0.as_slice().as_ptr());
            let blocks: Vec<_> = packed.iter().map(block).collect();
            assert!(
                blocks[..blocks.len() - 1].iter().all(|b| *b == blocks[0])
                    && blocks.last() == rows.last().map(block).as_ref()
            );
        }
        assert!(!are_apart(&[row(1, 1000).into(), row(2, 1001).into()]), "long ones");
        assert!(!are_apart(&[row(1, 1).into()]), "one");
    }

    #[test]
    fn what_stands_around_rows_is_charged() {
        let account = Account::open(1 << 30, usize::MAX);
        let entered = Account::enter(Some(account));
        let list: Values = vec![Value::Absent; 5000].into();
        drop(entered);
        assert_eq!(account.live(), 5000 * Value::PLACE + AROUND);
        drop(list);
        drop(Account::enter(None));
        assert_eq!(account.live(), 0);
        account.close();
    }
}
