//! From columns of values to what a feature is in the result: dense, padded, sparse or ragged.
//!
//! Everything here works on **units**: records, or the steps of a list of features. Where the values of unit `i` end is
//! `ends[i]`, so those of units `a..b` are `start(ends, a)..start(ends, b)`.

use super::feature::Partition;
use crate::element::{DType, Ragged, Shape, Sparse, StringsBuilder, Tensor, Value, check_room};
use crate::error::{Error, Result};
use std::ops::Range;
use std::sync::Arc;

/// Empty rows that row ids may make of a feature: a single one of them could ask for any number.
const MOST_EMPTY: i64 = 1 << 20;

/// A column of values, and where those of each unit end.
pub type Part<'a> = (&'a Tensor, &'a [usize]);

/// Where the values of a unit begin.
pub fn start(ends: &[usize], unit: usize) -> usize {
    if unit == 0 { 0 } else { ends[unit - 1] }
}

fn lengths<'a>(ends: &'a [usize], units: &Range<usize>) -> impl Iterator<Item = usize> + 'a {
    units.clone().map(|i| ends[i] - start(ends, i))
}

/// Items of that shape, one after the other: `[n] + shape`.
pub fn items(values: &Tensor, range: Range<usize>, shape: &[usize]) -> Tensor {
    let of: usize = shape.iter().product();
    let n = range.len().checked_div(of).unwrap_or(0);
    let shape: Shape = std::iter::once(n).chain(shape.iter().copied()).collect();
    values.slice(range).into_reshaped(shape)
}

/// The items of every unit, filled up to the longest: `[units, longest] + shape`.
pub fn padded(
    values: &Tensor,
    ends: &[usize],
    units: Range<usize>,
    shape: &[usize],
    default: Option<&Tensor>,
) -> Result<Tensor> {
    let of = shape.iter().product::<usize>();
    let longest = lengths(ends, &units).max().unwrap_or(0);
    let room: Shape =
        [units.len(), longest.checked_div(of).unwrap_or(0)].into_iter().chain(shape.iter().copied()).collect();
    check_room(values.dtype(), &room)?;
    let fill = match default {
        Some(default) => default.clone(),
        None => Tensor::zeros(values.dtype(), Shape::new()),
    };
    let from = |unit: usize| start(ends, unit)..ends[unit];
    if values.dtype() == DType::String {
        let mut out = StringsBuilder::with_capacity(units.len() * longest);
        for unit in units {
            let own = from(unit);
            let missing = longest - own.len();
            own.for_each(|i| values.push_str(&mut out, i));
            (0..missing).for_each(|_| out.push(fill.str_at(0)));
        }
        return Ok(out.tensor(room));
    }
    let size = values.dtype().size();
    let mut out = Tensor::new(values.dtype(), room);
    let (bytes, fill) = (values.bytes(), fill.bytes());
    for (unit, slots) in units.zip(out.bytes_mut().chunks_exact_mut((longest * size).max(1))) {
        let own = &bytes[start(ends, unit) * size..ends[unit] * size];
        let (front, back) = slots.split_at_mut(own.len());
        front.copy_from_slice(own);
        back.chunks_exact_mut(size).for_each(|slot| slot.copy_from_slice(fill));
    }
    Ok(out)
}

/// The values of one unit as a sparse vector. `iota` holds at least as many numbers, counted up.
pub fn sparse_vector(values: &Tensor, range: Range<usize>, iota: &Tensor) -> Value {
    let n = range.len();
    Value::Sparse(Arc::new(Sparse { indices: iota.slice(0..n), values: values.slice(range), shape: vec![n as i64] }))
}

/// The numbers 0, 1, … as coordinates; kept, so that whoever gets a part of it does not write into it.
pub fn iota(n: usize) -> Tensor {
    let numbers: Vec<i64> = (0..n as i64).collect();
    let iota = Tensor::from_items([n, 1], &numbers);
    iota.freeze();
    iota
}

/// The values of units as the rows of a sparse matrix; with `groups` (where each group of units ends) as those of a
/// sparse tensor `[groups, most units, longest]`.
pub fn sparse_rows(values: &Tensor, ends: &[usize], units: Range<usize>, groups: Option<&[usize]>) -> Value {
    let range = start(ends, units.start)..start(ends, units.end);
    let longest = lengths(ends, &units).max().unwrap_or(0) as i64;
    let rank = if groups.is_some() { 3 } else { 2 };
    let mut indices: Vec<i64> = Vec::with_capacity(range.len() * rank);
    let whole = [units.end];
    let mut from = units.start;
    let mut most = 0;
    for (group, &to) in groups.unwrap_or(&whole).iter().enumerate() {
        for unit in from..to {
            for place in 0..ends[unit] - start(ends, unit) {
                if groups.is_some() {
                    indices.push(group as i64);
                }
                indices.extend([(unit - from) as i64, place as i64]);
            }
        }
        most = most.max((to - from) as i64);
        from = to;
    }
    let shape = match groups {
        Some(groups) => vec![groups.len() as i64, most, longest],
        None => vec![units.len() as i64, longest],
    };
    let indices = Tensor::from_items([range.len(), rank], &indices);
    Value::Sparse(Arc::new(Sparse { indices, values: values.slice(range), shape }))
}

/// A feature whose places are features, too.
pub struct Places<'a> {
    pub name: &'a str,
    pub values: Part<'a>,
    pub indices: Vec<Part<'a>>,
    pub size: &'a [i64],
    pub sorted: bool,
}

impl Places<'_> {
    /// A sparse tensor of that size, or for a batch one with an axis for the units in front.
    pub fn sparse(&self, units: Range<usize>, batched: bool) -> Result<Value> {
        let (values, ends) = self.values;
        let range = start(ends, units.start)..start(ends, units.end);
        let rank = self.size.len() + usize::from(batched);
        let mut rows: Vec<i64> = Vec::with_capacity(range.len() * rank);
        for unit in units.clone() {
            let n = ends[unit] - start(ends, unit);
            for (places, index_ends) in &self.indices {
                let have = index_ends[unit] - start(index_ends, unit);
                if have != n {
                    let name = self.name;
                    let record = if batched { format!("record {}: ", unit - units.start) } else { String::new() };
                    return Err(Error::data(format!(
                        "{record}feature {name:?} has {n} values, but {have} indices; each value needs one of each key"
                    )));
                }
                debug_assert_eq!(places.dtype(), DType::Int64);
            }
            for k in 0..n {
                if batched {
                    rows.push((unit - units.start) as i64);
                }
                rows.extend(self.indices.iter().map(|(p, ends)| p.items::<i64>()[start(ends, unit) + k]));
            }
        }
        let mut values = values.slice(range.clone());
        let place = |k: usize| &rows[k * rank..(k + 1) * rank];
        if !self.sorted && !(1..range.len()).all(|k| place(k - 1) <= place(k)) {
            let mut order: Vec<usize> = (0..range.len()).collect();
            order.sort_by(|&a, &b| place(a).cmp(place(b)));
            values = values.take(&order);
            rows = order.iter().flat_map(|&k| place(k)).copied().collect();
        }
        let mut shape = self.size.to_vec();
        if batched {
            shape.insert(0, units.len() as i64);
        }
        let indices = Tensor::from_items([range.len(), rank], &rows);
        Ok(Value::Sparse(Arc::new(Sparse { indices, values, shape })))
    }
}

/// Where rows of these lengths begin, and the last one ends.
fn splits(lengths: Vec<usize>) -> Arc<[i64]> {
    let ends = lengths.into_iter().scan(0, |end, n| {
        *end += n as i64;
        Some(*end)
    });
    std::iter::once(0).chain(ends).collect()
}

/// A feature whose rows are cut by others.
pub struct Cuts<'a> {
    pub name: &'a str,
    pub values: Part<'a>,
    /// The outermost first; with what is said about each unit, except for uniform rows.
    pub partitions: Vec<(&'a Partition, Option<Part<'a>>)>,
    pub splits: DType,
}

impl Cuts<'_> {
    /// The values of units, cut. With `each`, units are rows of a ragged axis outside of it (else there is one unit);
    /// `groups` are the ends of groups of units, the rows of another one.
    pub fn ragged(&self, units: Range<usize>, each: bool, groups: Option<&[usize]>) -> Result<Value> {
        let (values, ends) = self.values;
        let range = start(ends, units.start)..start(ends, units.end);
        // Rows of each unit at the level that is being cut.
        let mut rows: Vec<usize> = lengths(ends, &units).collect();
        // Levels of splits, from the inside out, and dense axes inside of them.
        let mut levels: Vec<Arc<[i64]>> = Vec::new();
        let mut dense: Vec<usize> = Vec::new();
        for (partition, said) in self.partitions.iter().rev() {
            if let Partition::Uniform(length) = partition {
                if let Some(odd) = rows.iter().find(|n| !n.is_multiple_of(*length)) {
                    return Err(self.bad(format!("{odd} values or rows cannot be cut into rows of {length}")));
                }
                rows.iter_mut().for_each(|n| *n /= length);
                if levels.is_empty() {
                    dense.insert(0, *length);
                } else {
                    let total: usize = rows.iter().sum();
                    levels.push((0..=total).map(|i| (i * length) as i64).collect());
                }
                continue;
            }
            let (said, said_ends) = said.expect("a partition by a key is read");
            let said = said.items::<i64>();
            let mut splits = vec![0];
            for (unit, rows) in units.clone().zip(&mut rows) {
                let base = *splits.last().expect("it begins with 0");
                let cut =
                    cut(partition, &said[start(said_ends, unit)..said_ends[unit]], *rows as i64, base, &mut splits);
                *rows = cut.map_err(|e| self.bad(e))?;
            }
            levels.push(splits.into());
        }
        let n = range.len() / dense.iter().product::<usize>().max(1);
        let shape: Shape = std::iter::once(n).chain(dense).collect();
        let values = values.slice(range).into_reshaped(shape);
        if !each && levels.is_empty() {
            return Ok(Value::Tensor(values));
        }
        if each {
            levels.push(splits(rows));
        }
        if let Some(groups) = groups {
            levels.push(std::iter::once(0).chain(groups.iter().map(|&end| (end - units.start) as i64)).collect());
        }
        levels.reverse();
        Ok(Value::Ragged(Arc::new(Ragged { values, splits: levels, splits_dtype: self.splits })))
    }

    fn bad(&self, what: String) -> Error {
        Error::data(format!("feature {:?} cannot be cut into rows: {what}", self.name))
    }
}

/// Appends where the rows of a unit end, from `base` on, and says how many there are. `n` is what they must cover.
fn cut(
    partition: &Partition,
    said: &[i64],
    n: i64,
    base: i64,
    splits: &mut Vec<i64>,
) -> std::result::Result<usize, String> {
    let before = splits.len();
    let key = partition.key().unwrap_or_default();
    let ends_at = |end: i64| match end == n {
        true => Ok(()),
        false => Err(format!("by {key:?} the rows end at {end}, but there are {n} values or rows")),
    };
    let rising = |numbers: &[i64]| match numbers.windows(2).find(|w| w[0] > w[1]) {
        None => Ok(()),
        Some(w) => Err(format!("{key:?} must not fall, but goes from {} to {}", w[0], w[1])),
    };
    let begins_at_zero = |first: Option<&i64>| match first {
        Some(0) => Ok(()),
        Some(other) => Err(format!("{key:?} must begin with 0, not {other}")),
        None => ends_at(0),
    };
    match partition {
        Partition::RowSplits(_) => {
            begins_at_zero(said.first())?;
            rising(said)?;
            ends_at(said.last().copied().unwrap_or(0))?;
            splits.extend(said.iter().skip(1).map(|s| base + s));
        }
        Partition::RowStarts(_) => {
            begins_at_zero(said.first())?;
            rising(said)?;
            if let Some(last) = said.last().filter(|last| **last > n) {
                return Err(format!("by {key:?} a row begins at {last}, but there are {n} values or rows"));
            }
            splits.extend(said.iter().skip(1).map(|s| base + s));
            if !said.is_empty() {
                splits.push(base + n);
            }
        }
        Partition::RowLimits(_) => {
            rising(said)?;
            if let Some(first) = said.first().filter(|first| **first < 0) {
                return Err(format!("{key:?} must not be negative, but is {first}"));
            }
            ends_at(said.last().copied().unwrap_or(0))?;
            splits.extend(said.iter().map(|s| base + s));
        }
        Partition::RowLengths(_) => {
            let mut end = 0i64;
            for &length in said {
                end = match end.checked_add(length) {
                    Some(end) if length >= 0 && end <= n => end,
                    _ => {
                        return Err(format!(
                            "{key:?} has a length of {length}, which goes beyond the {n} values or rows"
                        ));
                    }
                };
                splits.push(base + end);
            }
            ends_at(end)?;
        }
        Partition::ValueRowids(_) => {
            if said.len() as i64 != n {
                return Err(format!("{key:?} has {} row ids for {n} values or rows", said.len()));
            }
            rising(said)?;
            if let Some(first) = said.first().filter(|first| **first < 0) {
                return Err(format!("{key:?} must not be negative, but is {first}"));
            }
            if let Some(last) = said.last().filter(|last| **last > n + MOST_EMPTY) {
                return Err(format!("{key:?} has a row id of {last}, which would leave over {MOST_EMPTY} rows empty"));
            }
            let mut at = 0;
            for row in 0..said.last().map_or(0, |last| last + 1) {
                at += said[at..].partition_point(|id| *id <= row);
                splits.push(base + at as i64);
            }
        }
        Partition::Uniform(_) => unreachable!("cut without a key"),
    }
    Ok(splits.len() - before)
}
