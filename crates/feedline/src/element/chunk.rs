//! Rows that travel together, column by column, each row with its position in the stream.

use super::dtype::DType;
use super::pos::Pos;
use super::spec::Spec;
use super::tensor::{Shape, Tensor, check_room, is_loose, is_waste};
use super::value::{Ragged, Sparse, Value};
use super::values::{AROUND, Values, are_apart, are_kept, together};
use crate::error::{Error, Result};
use feedline_io::Buf;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// One element: its leaves from left to right. The tree around them is the spec's.
pub type Element = SmallVec<[Value; 2]>;

/// Tensors up to this size are stacked when rows are put together; larger ones are moved by reference.
const STACK_BYTES: usize = 1024;
/// Parts of a block that are worth leaving where they lie have more bytes.
const LARGE: usize = 64 << 10;

/// One leaf of many rows.
#[derive(Clone, Debug)]
pub enum Column {
    /// All rows have one shape: the first axis counts rows.
    Dense(Tensor),
    /// Rows of different shapes, or not dense at all.
    Rows(Values, Range<usize>),
}

impl Column {
    /// Whether its strings and lists keep alive much more than they are.
    fn is_sparse(&self) -> bool {
        match self {
            Column::Dense(t) => t.is_sparse(),
            Column::Rows(..) => {
                let (kept, used) = self.kept_bytes();
                is_waste(kept, used)
            }
        }
    }
    /// Whether it keeps alive much more than it is, for whoever keeps it for long.
    fn is_loose(&self) -> bool {
        match self {
            Column::Dense(t) => is_loose(t.held_bytes(), t.nbytes()),
            Column::Rows(values, rows) => {
                // Rows that have memory of their own, most of which are short, need no closer look.
                let tensors = || values[rows.clone()].iter().flat_map(Value::tensors);
                tensors().any(|t| is_loose(t.held_bytes(), t.nbytes())) && is_loose(self.held_bytes(), self.nbytes())
            }
        }
    }
    /// Bytes of the blocks that would be gone without it, each counted once.
    pub(super) fn held_bytes(&self) -> usize {
        match self {
            Column::Dense(t) => t.held_bytes(),
            Column::Rows(values, rows) => {
                let blocks = values[rows.clone()].iter().flat_map(Value::tensors).flat_map(Tensor::blocks);
                blocks.map(|b| (b.as_slice().as_ptr(), b.held_bytes())).collect::<HashMap<_, _>>().values().sum()
            }
        }
    }
    /// Whether it lies in the same blocks as rows that came before, for sure.
    pub(super) fn lies_with(&self, before: &Column) -> bool {
        match (self, before) {
            (Column::Dense(a), Column::Dense(b)) => a.lies_among(b),
            (Column::Rows(a, _), Column::Rows(b, _)) => a.same(b),
            _ => false,
        }
    }
    /// Bytes of the blocks that it keeps alive, and bytes that it has.
    fn kept_bytes(&self) -> (usize, usize) {
        let (values, rows) = match self {
            Column::Dense(t) => return (t.blocks().map(Buf::len).sum(), t.nbytes()),
            Column::Rows(values, rows) => (values, rows),
        };
        let (mut blocks, mut used, mut last) = (HashMap::new(), 0, None::<&Tensor>);
        for value in &values[rows.clone()] {
            used += value.content_bytes();
            for tensor in value.tensors() {
                // Rows that lie together follow each other, mostly.
                if !last.replace(tensor).is_some_and(|last| last.lies_with(tensor)) {
                    blocks.extend(tensor.blocks().map(|block| (block.as_slice().as_ptr(), block.len())));
                }
            }
        }
        (blocks.values().sum(), used)
    }
    /// The same in memory of its own.
    fn to_own(&self) -> Column {
        match self {
            Column::Dense(t) => Column::Dense(t.to_own()),
            Column::Rows(values, rows) => {
                let values = values[rows.clone()].iter().map(Value::to_own).collect();
                Column::Rows(together(values).into(), 0..rows.len())
            }
        }
    }
    /// The same with short rows in one block, for whoever keeps them for long.
    fn together(&mut self) {
        if let Column::Rows(values, rows) = self
            && are_apart(&values[rows.clone()])
        {
            let (list, rows) = (std::mem::replace(values, vec![].into()), std::mem::take(rows));
            *self = Column::Rows(together(list.into_vec(rows.clone())).into(), 0..rows.len());
        }
    }
    /// Puts values together: densely if they are small tensors of one shape, or large ones that lie side by side.
    pub fn from_values(values: Vec<Value>) -> Column {
        let rows = values.len();
        let Some(Value::Tensor(first)) = values.first() else { return Column::Rows(values.into(), 0..rows) };
        if !values.iter().all(|v| matches!(v, Value::Tensor(t) if t.shape() == first.shape())) {
            return Column::Rows(values.into(), 0..rows);
        }
        if first.nbytes() <= STACK_BYTES {
            return Column::stacked(&values);
        }
        let mut shape: Shape = smallvec::smallvec![rows];
        shape.extend_from_slice(first.shape());
        let tensor = |v| if let Value::Tensor(t) = v { t } else { unreachable!("all are tensors") };
        match Tensor::rejoin(shape, values.into_iter().map(tensor).collect()) {
            Ok(t) => Column::Dense(t),
            Err(tensors) => Column::Rows(tensors.into_iter().map(Value::Tensor).collect(), 0..rows),
        }
    }
    /// The same of rows that were picked from several columns. Short ones are copied: each would keep alive the block that it
    /// lies in with others.
    pub(super) fn from_picked(values: Vec<Value>) -> Column {
        match Column::from_values(values) {
            Column::Rows(values, rows) if !are_kept(&values) => {
                Column::Rows(together(values.into_vec(rows.clone())).into(), rows)
            }
            column => column,
        }
    }
    /// Stacks dense tensors of one shape.
    fn stacked(values: &[Value]) -> Column {
        let first = values[0].tensor();
        let mut shape: Shape = smallvec::smallvec![values.len()];
        shape.extend_from_slice(first.shape());
        Column::Dense(Tensor::join(first.dtype(), shape, values.iter().map(|v| v.tensor())))
    }
    /// `rows` times the same value.
    pub fn repeated(value: &Value, rows: usize) -> Column {
        match value {
            Value::Tensor(t) if t.nbytes() <= STACK_BYTES && rows > 0 => {
                let mut shape: Shape = smallvec::smallvec![rows];
                shape.extend_from_slice(t.shape());
                Column::Dense(Tensor::join(t.dtype(), shape, std::iter::repeat_n(t, rows)))
            }
            v => Column::Rows(vec![v.clone(); rows].into(), 0..rows),
        }
    }
    pub fn rows(&self) -> usize {
        match self {
            Column::Dense(t) => t.rows(),
            Column::Rows(_, r) => r.len(),
        }
    }
    pub fn get(&self, row: usize) -> Value {
        match self {
            Column::Dense(t) => Value::Tensor(t.row(row)),
            Column::Rows(v, r) => v[r.start + row].clone(),
        }
    }
    pub fn values(&self) -> Vec<Value> {
        (0..self.rows()).map(|i| self.get(i)).collect()
    }
    pub fn slice(&self, rows: Range<usize>) -> Column {
        match self {
            Column::Dense(t) => Column::Dense(t.slice(rows)),
            Column::Rows(v, r) => Column::Rows(v.clone(), r.start + rows.start..r.start + rows.end),
        }
    }
    pub fn take(&self, index: &[usize]) -> Column {
        match self {
            Column::Dense(t) => Column::Dense(t.take(index)),
            Column::Rows(v, r) => {
                let v: Values = index.iter().map(|&i| v[r.start + i].clone()).collect();
                Column::Rows(v, 0..index.len())
            }
        }
    }
    /// The shape of all of them as one tensor, if they are tensors of one shape each.
    fn joint_shape(parts: &[Column]) -> Option<Shape> {
        let Column::Dense(first) = &parts[0] else { return None };
        let mut shape: Shape = first.shape().into();
        shape[0] = parts.iter().map(|c| c.rows()).sum();
        parts.iter().all(|c| matches!(c, Column::Dense(t) if t.shape()[1..] == shape[1..])).then_some(shape)
    }
    pub fn concat(parts: &[Column]) -> Column {
        match (parts, Column::joint_shape(parts)) {
            ([one], _) => one.clone(),
            (_, Some(shape)) => {
                Column::Dense(Tensor::join(parts[0].dense().dtype(), shape, parts.iter().map(Column::dense)))
            }
            (_, None) => {
                let values: Vec<Value> = parts.iter().flat_map(|c| (0..c.rows()).map(|row| c.get(row))).collect();
                let rows = 0..values.len();
                Column::Rows(values.into(), rows)
            }
        }
    }
    fn dense(&self) -> &Tensor {
        if let Column::Dense(t) = self { t } else { unreachable!("all parts are dense") }
    }
    /// What `concat` gives, and how many bytes had to be copied: none for rows that were made side by side. Others go as soon
    /// as they are copied, since all of them and what is made of them may be too much.
    fn gathered(parts: Vec<Column>) -> (Column, usize) {
        let copied = |parts: &[Column]| parts.iter().map(|c| c.nbytes()).sum();
        let Some(shape) = Column::joint_shape(&parts) else { return (Column::concat(&parts), copied(&parts)) };
        if let Some(whole) = Column::whole(&parts) {
            return (whole, 0);
        }
        let tensor = |c| if let Column::Dense(t) = c { t } else { unreachable!("all are dense") };
        match Tensor::rejoin(shape.clone(), parts.into_iter().map(tensor).collect()) {
            Ok(joined) => (Column::Dense(joined), 0),
            Err(tensors) => {
                let joined = Tensor::join(tensors[0].dtype(), shape, tensors.into_iter());
                let bytes = joined.nbytes();
                (Column::Dense(joined), bytes)
            }
        }
    }
    /// All rows as one value with a new first axis: what `batch` does to a leaf.
    pub fn stack(&self) -> Result<Value> {
        match self {
            Column::Dense(t) => Ok(Value::Tensor(t.clone())),
            Column::Rows(v, r) => stack_values(&v[r.clone()]),
        }
    }
    /// The same. Rows go as soon as they are copied.
    pub fn into_stack(self) -> Result<Value> {
        let (values, rows) = match self {
            Column::Dense(t) => return Ok(Value::Tensor(t)),
            Column::Rows(values, rows) => (values, rows),
        };
        let first = values[rows.start].as_tensor().map(|t| (t.dtype(), Shape::from(t.shape())));
        let is_like =
            |v: &Value| first.as_ref().is_some_and(|(_, shape)| v.as_tensor().is_some_and(|t| t.shape() == &shape[..]));
        if !values[rows.clone()].iter().all(is_like) {
            return stack_values(&values[rows]);
        }
        let (dtype, mut shape) = first.expect("all are like it");
        shape.insert(0, rows.len());
        let tensors = values
            .into_vec(rows)
            .into_iter()
            .map(|v| if let Value::Tensor(t) = v { t } else { unreachable!("all are") });
        Ok(Value::Tensor(Tensor::join(dtype, shape, tensors)))
    }
    /// Says that the rows are kept and must not change under whoever they are handed to.
    pub fn freeze(&self) {
        match self {
            Column::Dense(t) => t.freeze(),
            Column::Rows(v, r) => v[r.clone()].iter().for_each(|v| v.freeze()),
        }
    }
    /// The same for rows that are kept for later passes, and counted there.
    pub fn keep(&self) {
        match self {
            Column::Dense(t) => t.keep(),
            Column::Rows(v, r) => v[r.clone()].iter().for_each(|v| v.keep()),
        }
    }
    /// The same without what is there anyway, and what stands around it.
    pub fn own_bytes(&self) -> usize {
        match self {
            Column::Dense(t) => t.own_bytes(),
            Column::Rows(v, r) => v[r.clone()].iter().map(Value::own_bytes).sum(),
        }
    }
    pub fn nbytes(&self) -> usize {
        match self {
            Column::Dense(t) => t.nbytes(),
            Column::Rows(v, r) => AROUND + v[r.clone()].iter().map(|v| v.nbytes() + v.beside_bytes()).sum::<usize>(),
        }
    }
}

impl Column {
    /// Both one after the other without a copy, if they are neighbours in the same memory.
    fn joined(&self, next: &Column) -> Option<Column> {
        match (self, next) {
            (Column::Dense(a), Column::Dense(b)) => Some(Column::Dense(a.joined(b)?)),
            (Column::Rows(a, r), Column::Rows(b, q)) if a.same(b) && r.end == q.start => {
                Some(Column::Rows(a.clone(), r.start..q.end))
            }
            _ => None,
        }
    }
    /// Large parts that follow each other in a block and are most of it, as they lie: a copy would stand beside all of it.
    fn whole(parts: &[Column]) -> Option<Column> {
        let (first, rest) = parts.split_first().filter(|_| parts.iter().map(Column::nbytes).sum::<usize>() > LARGE)?;
        let all = rest.iter().try_fold(first.clone(), |all, next| all.joined(next))?;
        (all.held_bytes() > 0 && !all.is_loose()).then_some(all)
    }
    /// Whether somebody else keeps the memory alive too.
    pub fn is_shared(&self) -> bool {
        match self {
            Column::Dense(t) => t.is_shared(),
            Column::Rows(v, _) => v.is_shared(),
        }
    }
}

/// Values of one kind as one value with a new first axis.
pub fn stack_values(values: &[Value]) -> Result<Value> {
    match &values[0] {
        Value::Tensor(first) => {
            for (i, v) in values.iter().enumerate() {
                let t = v.tensor();
                if t.shape() != first.shape() {
                    return Err(Error::data(format!(
                        "elements of different shapes cannot be batched: element 0 of the batch has shape {:?}, \
                         element {i} has {:?}; resize or reshape them, or use padded_batch or ragged_batch",
                        first.shape(),
                        t.shape()
                    )));
                }
            }
            match Column::stacked(values) {
                Column::Dense(t) => Ok(Value::Tensor(t)),
                Column::Rows(..) => unreachable!("stacked is dense"),
            }
        }
        Value::Ragged(_) => Ok(Value::Ragged(Arc::new(stack_ragged(values)?))),
        Value::Sparse(_) => Ok(Value::Sparse(Arc::new(stack_sparse(values)?))),
        Value::Absent => Ok(Value::Absent),
        Value::Dataset(_) => {
            Err(Error::usage("datasets inside elements cannot be batched; use flat_map on them first"))
        }
    }
}

fn stack_ragged(values: &[Value]) -> Result<Ragged> {
    let parts: Vec<&Ragged> = values
        .iter()
        .map(|v| match v {
            Value::Ragged(r) => &**r,
            _ => unreachable!("one kind in a column"),
        })
        .collect();
    let inner = &parts[0].values.shape()[1..];
    if let Some(odd) = parts.iter().find(|p| p.values.shape()[1..] != *inner || p.splits.len() != parts[0].splits.len())
    {
        return Err(Error::data(format!(
            "ragged elements of different inner shapes cannot be batched: {inner:?} and {:?}",
            &odd.values.shape()[1..]
        )));
    }
    let mut splits: Vec<Vec<i64>> = vec![vec![0]; parts[0].splits.len() + 1];
    for p in &parts {
        let end = *splits[0].last().expect("starts with 0");
        splits[0].push(end + p.rows() as i64);
        for (all, own) in splits[1..].iter_mut().zip(&p.splits) {
            let base = *all.last().expect("starts with 0") - own.first().copied().unwrap_or(0);
            all.extend(own.iter().skip(1).map(|s| s + base));
        }
    }
    let tensors: Vec<Tensor> = parts.iter().map(|p| p.values.clone()).collect();
    Ok(Ragged {
        values: Tensor::concat(&tensors),
        splits: splits.into_iter().map(Into::into).collect(),
        splits_dtype: parts[0].splits_dtype,
    })
}

fn stack_sparse(values: &[Value]) -> Result<Sparse> {
    let parts: Vec<&Sparse> = values
        .iter()
        .map(|v| match v {
            Value::Sparse(s) => &**s,
            _ => unreachable!("one kind in a column"),
        })
        .collect();
    let rank = parts[0].shape.len();
    let mut shape = parts[0].shape.clone();
    let mut indices: Vec<i64> = Vec::new();
    for (i, p) in parts.iter().enumerate() {
        if p.shape.len() != rank {
            return Err(Error::data(format!(
                "sparse elements of different ranks cannot be batched: {rank} and {}",
                p.shape.len()
            )));
        }
        shape.iter_mut().zip(&p.shape).for_each(|(all, own)| *all = (*all).max(*own));
        for at in p.indices.items::<i64>().chunks(rank.max(1)) {
            indices.push(i as i64);
            indices.extend_from_slice(if rank == 0 { &[] } else { at });
        }
    }
    shape.insert(0, parts.len() as i64);
    let n = indices.len() / (rank + 1);
    let tensors: Vec<Tensor> = parts.iter().map(|p| p.values.clone()).collect();
    Ok(Sparse { indices: Tensor::from_items([n, rank + 1], &indices), values: Tensor::concat(&tensors), shape })
}

/// Whether there is room for that many rows, each a value of its own.
pub fn check_rows(rows: usize) -> Result<()> {
    // Twice: a list of values is copied once when it is shared.
    check_room(DType::Uint8, &[rows, 2 * size_of::<Value>()])
        .map(drop)
        .map_err(|_| Error::data(format!("{rows} rows do not fit into memory one by one")))
}

/// The inverse of `stack_values`: the rows along the first axis.
pub fn unstack(value: &Value) -> Result<Vec<Value>> {
    check_rows(match value {
        Value::Tensor(t) => t.rows(),
        Value::Ragged(r) => r.rows(),
        Value::Sparse(s) => usize::try_from(s.shape.first().copied().unwrap_or(0)).unwrap_or(0),
        Value::Absent | Value::Dataset(_) => 0,
    })?;
    Ok(match value {
        Value::Tensor(t) if t.rank() == 0 => return Err(Error::data("a scalar has no rows")),
        Value::Sparse(s) if s.shape.is_empty() => return Err(Error::data("a scalar has no rows")),
        Value::Tensor(t) => (0..t.rows()).map(|i| Value::Tensor(t.row(i))).collect(),
        Value::Ragged(r) => (0..r.rows()).map(|i| Value::Ragged(Arc::new(ragged_row(r, i)))).collect(),
        Value::Sparse(s) => sparse_rows(s),
        Value::Absent => return Err(Error::data("an absent component has no rows")),
        Value::Dataset(_) => return Err(Error::data("a dataset inside an element has no rows")),
    })
}

/// Row `i` of a ragged tensor, one level shallower; with no level left it is a dense tensor in ragged clothes.
pub fn ragged_row(r: &Ragged, i: usize) -> Ragged {
    let Some((first, rest)) = r.splits.split_first() else {
        return Ragged { values: r.values.row(i), splits: vec![], splits_dtype: r.splits_dtype };
    };
    let (mut from, mut to) = (first[i] as usize, first[i + 1] as usize);
    let mut splits = Vec::with_capacity(rest.len());
    for level in rest {
        let base = level[from];
        splits.push(level[from..=to].iter().map(|s| s - base).collect());
        (from, to) = (level[from] as usize, level[to] as usize);
    }
    Ragged { values: r.values.slice(from..to), splits, splits_dtype: r.splits_dtype }
}

fn sparse_rows(s: &Sparse) -> Vec<Value> {
    let rank = s.shape.len();
    let rows = s.shape.first().map_or(0, |&n| n.max(0) as usize);
    let all = s.indices.items::<i64>();
    let row_of = |k: usize| usize::try_from(all[k * rank]).ok().filter(|r| *r < rows);
    // The items in the order of their rows; most rows may have none, and share one empty tensor.
    let mut order: Vec<(usize, usize)> = (0..s.values.rows()).filter_map(|k| Some((row_of(k)?, k))).collect();
    order.sort_unstable();
    let made = |part: &[(usize, usize)]| {
        let take: Vec<usize> = part.iter().map(|(_, k)| *k).collect();
        let index: Vec<i64> = take.iter().flat_map(|k| &all[k * rank + 1..(k + 1) * rank]).copied().collect();
        Value::Sparse(Arc::new(Sparse {
            indices: Tensor::from_items([take.len(), rank - 1], &index),
            values: s.values.take(&take),
            shape: s.shape[1..].to_vec(),
        }))
    };
    let mut out = vec![made(&[]); rows];
    order.chunk_by(|a, b| a.0 == b.0).for_each(|part| out[part[0].0] = made(part));
    out
}

/// Some rows of a stream, with one column for each leaf of the spec.
#[derive(Clone, Debug)]
pub struct Chunk {
    rows: usize,
    pub pos: Pos,
    columns: SmallVec<[Column; 2]>,
}

impl Chunk {
    /// `rows` matters for elements without leaves; each column must have as many.
    pub fn new(rows: usize, pos: Pos, columns: impl IntoIterator<Item = Column>) -> Chunk {
        let columns: SmallVec<[Column; 2]> = columns.into_iter().collect();
        debug_assert!(columns.iter().all(|c| c.rows() == rows), "columns of different lengths");
        Chunk { rows, pos, columns }
    }
    pub fn from_elements(pos: Pos, elements: Vec<Element>) -> Chunk {
        let rows = elements.len();
        let leaves = elements.first().map_or(0, |e| e.len());
        let mut columns: Vec<Vec<Value>> = (0..leaves).map(|_| Vec::with_capacity(rows)).collect();
        for element in elements {
            columns.iter_mut().zip(element).for_each(|(c, v)| c.push(v));
        }
        Chunk::new(rows, pos, columns.into_iter().map(Column::from_values))
    }
    /// One row whose leaves are exactly these values.
    pub fn one(pos: u64, element: Element) -> Chunk {
        let columns = element.into_iter().map(|v| match v {
            Value::Tensor(t) => {
                let mut shape: Shape = smallvec::smallvec![1];
                shape.extend_from_slice(t.shape());
                Column::Dense(t.into_reshaped(shape))
            }
            v => Column::Rows(vec![v].into(), 0..1),
        });
        Chunk::new(1, Pos::Run(pos), columns)
    }
    pub fn rows(&self) -> usize {
        self.rows
    }
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }
    pub fn into_columns(self) -> SmallVec<[Column; 2]> {
        self.columns
    }
    pub fn element(&self, row: usize) -> Element {
        self.columns.iter().map(|c| c.get(row)).collect()
    }
    pub fn slice(&self, rows: Range<usize>) -> Chunk {
        Chunk {
            rows: rows.len(),
            pos: self.pos.slice(rows.clone()),
            columns: self.columns.iter().map(|c| c.slice(rows.clone())).collect(),
        }
    }
    /// Cuts off and returns the first `rows` rows.
    pub fn split_front(&mut self, rows: usize) -> Chunk {
        if rows >= self.rows {
            let rest = self.slice(self.rows..self.rows);
            return std::mem::replace(self, rest);
        }
        let front = self.slice(0..rows);
        *self = self.slice(rows..self.rows);
        front
    }
    pub fn take(&self, index: &[usize]) -> Chunk {
        Chunk {
            rows: index.len(),
            pos: self.pos.take(index),
            columns: self.columns.iter().map(|c| c.take(index)).collect(),
        }
    }
    /// Rows of all parts, one after the other, numbered from `pos`.
    pub fn concat(pos: Pos, parts: &[Chunk]) -> Chunk {
        let (rows, pos) = (parts.iter().map(|c| c.rows).sum(), Chunk::joined_pos(pos, parts));
        let leaves = parts[0].columns.len();
        let columns = (0..leaves).map(|k| {
            let column: SmallVec<[Column; 8]> = parts.iter().map(|p| p.columns[k].clone()).collect();
            Column::concat(&column)
        });
        Chunk::new(rows, pos, columns)
    }
    /// The same without a copy where rows were made side by side, and how many bytes had to be copied elsewhere.
    pub fn gathered(pos: Pos, parts: Vec<Chunk>) -> (Chunk, usize) {
        let (rows, pos) = (parts.iter().map(|c| c.rows).sum(), Chunk::joined_pos(pos, &parts));
        let leaves = parts[0].columns.len();
        let mut parts: Vec<_> = parts.into_iter().map(|p| p.columns.into_iter()).collect();
        let mut copied = 0;
        let columns: SmallVec<[Column; 2]> = (0..leaves)
            .map(|_| {
                let column = parts.iter_mut().map(|p| p.next().expect("as many leaves")).collect();
                let (column, bytes) = Column::gathered(column);
                copied += bytes;
                column
            })
            .collect();
        (Chunk::new(rows, pos, columns), copied)
    }
    /// Strings are given memory of their own: they may be small parts of large blocks. So are lists that are.
    pub fn with_own_strings(self) -> Chunk {
        self.with_own(|column| match column {
            Column::Dense(t) => t.dtype() == DType::String,
            Column::Rows(..) => column.is_sparse(),
        })
    }
    /// The same for strings and lists that do keep alive much more than they are.
    pub fn without_waste(self) -> Chunk {
        self.with_own(Column::is_sparse)
    }
    /// The same for whoever keeps rows for long, whatever they are: what keeps alive much more than it is gets memory of its
    /// own, unless that is there anyway.
    pub fn trimmed(mut self) -> Chunk {
        self.trim();
        self
    }
    pub fn trim(&mut self) {
        (0..self.columns.len()).for_each(|k| self.trim_column(k));
    }
    /// The same for one column.
    pub(super) fn trim_column(&mut self, k: usize) {
        let column = &mut self.columns[k];
        if column.is_loose() {
            *column = column.to_own();
        }
    }
    /// Short rows are put side by side, unless somebody keeps them anyway: what is kept for long should not lie in many small
    /// blocks.
    pub fn together(mut self) -> Chunk {
        let is_kept = |c: &Column| matches!(c, Column::Rows(values, rows) if are_kept(&values[rows.clone()]));
        self.columns.iter_mut().filter(|c| !is_kept(c)).for_each(Column::together);
        self
    }
    /// The same for whoever keeps them himself from now on.
    pub fn together_and_kept(mut self) -> Chunk {
        self.columns.iter_mut().for_each(Column::together);
        self.keep();
        self
    }
    /// The same for all that lies in blocks which should go soon: unless it stands in many rows each and is there once.
    pub fn apart(self) -> Chunk {
        self.with_own(|column| match column {
            Column::Dense(t) if t.dtype() != DType::String => t.buf().0.is_foreign(),
            column => {
                let (kept, used) = column.kept_bytes();
                !is_waste(used, kept)
            }
        })
    }
    fn with_own(mut self, which: impl Fn(&Column) -> bool) -> Chunk {
        for column in &mut self.columns {
            if which(column) {
                *column = column.to_own();
            }
        }
        self
    }
    pub fn freeze(&self) {
        self.columns.iter().for_each(|c| c.freeze());
    }
    pub fn keep(&self) {
        self.columns.iter().for_each(|c| c.keep());
    }
    /// Counts its memory as the consumer's, except what is kept for later passes.
    pub fn hand_out(&self) {
        self.columns.iter().for_each(|c| match c {
            Column::Dense(t) => t.hand_out(),
            Column::Rows(values, rows) => {
                values[rows.clone()].iter().filter_map(|v| v.as_tensor()).for_each(Tensor::hand_out)
            }
        });
    }
    /// Takes in `next` without a copy if it continues this chunk in the stream and in memory. False if it does not.
    pub fn extend(&mut self, next: &Chunk) -> bool {
        let follows = match (&self.pos, &next.pos) {
            (Pos::Run(a), Pos::Run(b)) => a + self.rows as u64 == *b,
            _ => false,
        };
        if !follows {
            return false;
        }
        let joined: Option<SmallVec<[Column; 2]>> =
            self.columns.iter().zip(&next.columns).map(|(a, b)| a.joined(b)).collect();
        let Some(columns) = joined else { return false };
        self.columns = columns;
        self.rows += next.rows;
        true
    }
    /// Whether all of its memory is kept for later passes anyway.
    pub fn is_kept(&self) -> bool {
        let kept = |t: &Tensor| t.dtype() != DType::String && t.buf().0.is_kept();
        !self.columns.is_empty()
            && self.columns.iter().all(|c| match c {
                Column::Dense(t) => kept(t),
                Column::Rows(values, rows) => values[rows.clone()].iter().all(|v| v.as_tensor().is_some_and(kept)),
            })
    }
    /// What its rows take, if they are not there anyway.
    pub fn own_bytes(&self) -> usize {
        if self.is_kept() { 0 } else { self.nbytes() }
    }
    /// The same with what they keep alive besides, where that is easily seen.
    pub fn held_bytes(&self) -> usize {
        let of = |column: &Column| match column {
            Column::Dense(_) => column.held_bytes().max(column.nbytes()),
            Column::Rows(..) => column.nbytes(),
        };
        if self.is_kept() { 0 } else { self.columns.iter().map(of).sum() }
    }
    /// Whether all of its memory is somebody else's, such as an array that the user made.
    pub fn is_foreign(&self) -> bool {
        let foreign =
            |c: &Column| matches!(c, Column::Dense(t) if t.dtype() != DType::String && t.buf().0.is_foreign());
        !self.columns.is_empty() && self.columns.iter().all(foreign)
    }
    /// Whether some of its rows are values of their own, in lists.
    pub fn has_lists(&self) -> bool {
        self.columns.iter().any(|c| matches!(c, Column::Rows(..)))
    }
    /// What each row takes, by its contents alone: whatever chunk it travels in, that is the same.
    pub fn row_bytes(&self) -> Vec<usize> {
        let mut sizes = vec![16; self.rows];
        for column in &self.columns {
            match column {
                Column::Dense(t) if t.dtype() == DType::String => {
                    let each = t.len() / self.rows.max(1);
                    t.strs().enumerate().for_each(|(i, s)| sizes[i / each.max(1)] += s.len() + 16);
                }
                Column::Dense(t) => sizes.iter_mut().for_each(|n| *n += t.nbytes() / self.rows.max(1)),
                Column::Rows(values, rows) => {
                    let each = values[rows.clone()].iter().map(Value::content_bytes);
                    sizes.iter_mut().zip(each).for_each(|(n, bytes)| *n += bytes);
                }
            }
        }
        sizes
    }
    /// Whether all of its memory is kept alive by others too.
    pub fn is_shared(&self) -> bool {
        self.columns.iter().all(|c| c.is_shared())
    }
    /// The same rows where others count. Their origins stay, if they are traced.
    pub fn with_pos(mut self, pos: Pos) -> Chunk {
        self.pos = self.pos.renumbered(pos);
        self
    }
    /// New positions of rows of several chunks one after the other, with the origins that they have.
    fn joined_pos(new: Pos, parts: &[Chunk]) -> Pos {
        if !parts.iter().any(|p| p.pos.is_traced()) {
            return new;
        }
        Pos::picked(parts.iter().flat_map(|p| (0..p.rows).map(|row| (&p.pos, row)))).renumbered(new)
    }
    /// One row whose leaves are exactly these values, made of all rows of another chunk.
    pub fn made_of(&self, pos: u64, element: Element) -> Chunk {
        let mut one = Chunk::one(pos, element);
        one.pos = self.pos.grouped(self.rows, self.rows, pos);
        one
    }
    /// All rows as one element, in their place.
    pub fn into_batch(mut self, pos: u64) -> Result<Chunk> {
        let columns = std::mem::take(&mut self.columns);
        let element = columns.into_iter().map(Column::into_stack).collect::<Result<Element>>()?;
        Ok(self.made_of(pos, element))
    }
    /// The error with a row in it: its position, what it is, and where it was read, if that is traced.
    #[cold]
    pub fn blame(&self, error: Error, row: usize) -> Error {
        self.pos.blame(error, row).with_row(Arc::new(self.element(row)))
    }
    /// The same columns in the order that another structure wants them.
    pub fn reordered(mut self, order: &[usize]) -> Chunk {
        if !order.iter().enumerate().all(|(i, o)| i == *o) {
            self.columns = order.iter().map(|&i| self.columns[i].clone()).collect();
        }
        self
    }
    pub fn nbytes(&self) -> usize {
        self.columns.iter().map(|c| c.nbytes()).sum::<usize>() + 16
    }
    /// The first leaf and row that break the promise, for messages.
    pub fn check(&self, spec: &Spec) -> Result<()> {
        for ((leaf, column), path) in spec.leaves().iter().zip(&self.columns).zip(spec.paths()) {
            for row in 0..self.rows {
                let value = column.get(row);
                if !leaf.accepts(&value) {
                    let got = super::spec::Leaf::of(&value).map_or("a dataset".into(), |l| l.to_string());
                    return Err(Error::data(format!("component {path} should be {leaf}, but is {got}"))
                        .at_element(self.pos.at(row)));
                }
            }
        }
        Ok(())
    }
}
