//! `padded_batch(batch_size)`: a batch of tensors of different sizes, each filled up at the end of its axes.

use super::batch::batches;
use super::batches::{Batches, Beside};
use crate::dataset::Dataset;
use crate::element::{Chunk, Column, DType, Dims, Element, Leaf, Packed, Shape, Spec, Tensor, Value, check_room};
use crate::error::{Error, Result};
use crate::op::{Int, Op, OpInfo, Param, at_least, read};
use crate::plan::{Card, Plan};
use crate::runtime::{BuildCx, Built, Hold, Index, bytes_text};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub static INFO: OpInfo = OpInfo {
    name: "padded_batch",
    doc: "Stacks consecutive elements of different sizes, filling each up at the end of its axes.",
    params: &[
        Param::new("batch_size", "", "elements in a batch"),
        Param::new("padded_shapes", "None", "the size of each axis; None: the longest in the batch"),
        Param::new("padding_values", "None", "what to fill up with; None: 0, False or the empty string"),
        Param::new("drop_remainder", "False", "leave out a last batch that is not full"),
    ],
    read: read::<PaddedBatch>,
};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaddedBatch {
    batch_size: Int,
    /// For each leaf the sizes to fill up to; `None` and -1: the longest. No list: what the spec says.
    #[serde(default)]
    padded_shapes: Option<Vec<Option<Vec<Option<i64>>>>>,
    #[serde(default)]
    padding_values: Option<Vec<Option<Packed>>>,
    #[serde(default)]
    drop_remainder: bool,
}

impl Dataset {
    /// Batches of tensors that are filled up with zeros to the longest in the batch.
    ///
    /// ```
    /// # use feedline::Dataset;
    /// let ds = Dataset::range(5)?.batch(2, false)?.padded_batch(3, false)?;
    /// let batch = ds.iter()?.next().unwrap()?;
    /// assert_eq!(batch[0].tensor().shape(), [3, 2]);
    /// assert_eq!(batch[0].tensor().items::<i64>(), [0, 1, 2, 3, 4, 0]);
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn padded_batch(&self, batch_size: i64, drop_remainder: bool) -> Result<Dataset> {
        let batch_size = batch_size.into();
        self.apply(PaddedBatch { batch_size, padded_shapes: None, padding_values: None, drop_remainder })
    }
}

/// How one leaf is filled up.
#[derive(Clone)]
struct Pad {
    /// Fixed sizes; `None`: the longest.
    dims: Vec<Option<usize>>,
    value: Tensor,
    /// The leaf's name in messages.
    path: String,
}

impl PaddedBatch {
    fn pads(&self, input: &Spec) -> Result<Vec<Pad>> {
        let leaves = input.leaves();
        let counted = |what: &str, n: Option<usize>| match n {
            Some(n) if n != leaves.len() => {
                Err(Error::usage(format!("{what} has {n} components, the elements have {}", leaves.len())))
            }
            _ => Ok(()),
        };
        counted("padded_shapes", self.padded_shapes.as_ref().map(|l| l.len()))?;
        counted("padding_values", self.padding_values.as_ref().map(|l| l.len()))?;
        leaves
            .iter()
            .zip(input.paths())
            .enumerate()
            .map(|(i, (leaf, path))| {
                let Leaf::Tensor { dtype, shape } = leaf else {
                    return Err(Error::usage(format!(
                        "component {path} is {leaf}, but only dense tensors can be filled up; use batch or ragged_batch"
                    )));
                };
                let given = self.padded_shapes.as_ref().and_then(|l| l[i].as_ref());
                let dims = padded_dims(shape, given.map(|d| d.as_slice()), &path)?;
                let value = self.padding_values.as_ref().and_then(|l| l[i].as_ref());
                Ok(Pad { dims, value: padding(*dtype, value, &path)?, path })
            })
            .collect()
    }
    fn make(&self, input: &Spec) -> Result<impl Fn(&Chunk, &mut Hold) -> Result<Element> + Send + Sync + 'static> {
        let pads = self.pads(input)?;
        Ok(move |chunk: &Chunk, hold: &mut Hold| {
            chunk.columns().iter().zip(&pads).map(|(column, pad)| pad.batch(column, hold)).collect()
        })
    }
}

fn padded_dims(own: &Dims, given: Option<&[Option<i64>]>, path: &str) -> Result<Vec<Option<usize>>> {
    let Some(given) = given else {
        return own
            .dims()
            .map(|d| d.to_vec())
            .ok_or_else(|| Error::usage(format!("the rank of component {path} is not known; say its padded_shapes")));
    };
    if let Some(d) = given.iter().flatten().find(|d| **d < -1) {
        return Err(Error::usage(format!("padded_shapes has the size {d}; write None for the longest in the batch")));
    }
    let dims: Vec<Option<usize>> = given.iter().map(|d| d.and_then(|d| usize::try_from(d).ok())).collect();
    if let Some(own_dims) = own.dims() {
        let fits = own_dims.len() == dims.len()
            && own_dims.iter().zip(&dims).all(|(o, d)| o.is_none_or(|o| d.is_none_or(|d| o <= d)));
        if !fits {
            let wanted = Dims(Some(dims));
            return Err(Error::usage(format!(
                "component {path} of shape {own} cannot be filled up to {wanted}: padded_shapes needs one size of at least \
                 that length for each axis"
            )));
        }
    }
    Ok(dims)
}

fn padding(dtype: DType, given: Option<&Packed>, path: &str) -> Result<Tensor> {
    let Some(given) = given else { return Ok(Tensor::zeros(dtype, [])) };
    match given.values.as_slice() {
        [Value::Tensor(t)] if t.rank() == 0 && t.dtype() == dtype => Ok(t.clone()),
        [Value::Tensor(t)] if t.rank() == 0 => Err(Error::usage(format!(
            "the padding value of component {path} is {}, the component {dtype}; cast it to {dtype}",
            t.dtype()
        ))),
        _ => Err(Error::usage(format!("the padding value of component {path} must be a scalar, not {}", given.spec))),
    }
}

impl Pad {
    /// All rows of a column, filled up, as one tensor.
    fn batch(&self, column: &Column, hold: &mut Hold) -> Result<Value> {
        if let Column::Dense(t) = column
            && t.rank() == self.dims.len() + 1
            && t.shape()[1..].iter().zip(&self.dims).all(|(have, want)| want.is_none_or(|w| w == *have))
        {
            return Ok(Value::Tensor(t.clone()));
        }
        let rows = column.values();
        let mut shape: Shape = smallvec::smallvec![rows.len()];
        shape.extend(self.dims.iter().map(|d| d.unwrap_or(0)));
        for (i, value) in rows.iter().enumerate() {
            let own = value.tensor().shape();
            if own.len() != self.dims.len() {
                return Err(Error::data(format!(
                    "element {i} of the batch has {} axes in component {}, but padded_shapes has {}",
                    own.len(),
                    self.path,
                    self.dims.len()
                )));
            }
            for (axis, (have, fixed)) in own.iter().zip(&self.dims).enumerate() {
                match fixed {
                    Some(size) if have > size => {
                        return Err(Error::new(
                            crate::error::Kind::Loss,
                            format!(
                                "element {i} of the batch has the shape {own:?} in component {}, longer than the {size} that \
                             padded_shapes allows for axis {axis}",
                                self.path
                            ),
                        ));
                    }
                    Some(_) => {}
                    None => shape[axis + 1] = shape[axis + 1].max(*have),
                }
            }
        }
        let tensors: Vec<&Tensor> = rows.iter().map(|v| v.tensor()).collect();
        // One long element makes all of them long: what that takes has nothing to do with what they take.
        let bytes = check_room(self.value.dtype(), &shape)?.saturating_add(self.string_bytes(&tensors, &shape));
        hold.set(hold.bytes().saturating_add(bytes)).map_err(|over| {
            let of = if self.path.is_empty() { "they are".into() } else { format!("component {} is", self.path) };
            let what = format!(
                "the {} elements of a batch take {} when {of} filled up to the shape {:?}",
                rows.len(),
                bytes_text(over.bytes),
                &shape[1..]
            );
            over.error(&what, "make smaller batches, or batches of elements of like size (bucket_by_sequence_length)")
        })?;
        Ok(Value::Tensor(match self.value.dtype() {
            DType::String => self.strings(&tensors, shape),
            _ => self.items(&tensors, shape),
        }))
    }
    /// What the strings take beside their places.
    fn string_bytes(&self, rows: &[&Tensor], shape: &[usize]) -> usize {
        if self.value.dtype() != DType::String {
            return 0;
        }
        let missing = shape.iter().product::<usize>() - rows.iter().map(|t| t.len()).sum::<usize>();
        let own = rows.iter().flat_map(|t| t.strs()).map(<[u8]>::len).sum::<usize>();
        own.saturating_add(missing.saturating_mul(self.value.str_at(0).len()))
    }
    fn items(&self, rows: &[&Tensor], shape: Shape) -> Tensor {
        let size = self.value.dtype().size();
        let mut out = Tensor::new(self.value.dtype(), shape.clone());
        let row_bytes = shape[1..].iter().product::<usize>() * size;
        let fill = self.value.bytes();
        let to = out.bytes_mut();
        for (i, row) in rows.iter().enumerate() {
            let slot = &mut to[i * row_bytes..(i + 1) * row_bytes];
            copy_padded(row.bytes(), row.shape(), slot, &shape[1..], fill);
        }
        out
    }
    fn strings(&self, rows: &[&Tensor], shape: Shape) -> Tensor {
        let inner = &shape[1..];
        let mut out = crate::element::StringsBuilder::with_capacity(shape.iter().product());
        for row in rows {
            push_padded(row, 0, row.shape(), inner, self.value.str_at(0), &mut out);
        }
        out.tensor(shape)
    }
}

/// Copies a row-major block into a larger one of the same rank and fills the rest.
fn copy_padded(from: &[u8], own: &[usize], to: &mut [u8], wanted: &[usize], fill: &[u8]) {
    if own.is_empty() || own[1..] == wanted[1..] {
        // Only the first axis grows: one run of bytes, then the filling.
        let (head, rest) = to.split_at_mut(from.len());
        head.copy_from_slice(from);
        return fill_with(rest, fill);
    }
    if from.is_empty() {
        return fill_with(to, fill);
    }
    let (own_step, step) = (from.len() / own[0], to.len() / wanted[0]);
    let (head, rest) = to.split_at_mut(own[0] * step);
    for (from, to) in from.chunks_exact(own_step).zip(head.chunks_exact_mut(step)) {
        copy_padded(from, &own[1..], to, &wanted[1..], fill);
    }
    fill_with(rest, fill);
}

fn fill_with(to: &mut [u8], item: &[u8]) {
    if item.iter().all(|b| *b == item[0]) {
        return to.fill(item[0]);
    }
    to.chunks_exact_mut(item.len()).for_each(|slot| slot.copy_from_slice(item));
}

/// The same for strings: `at` is the number of the block's first string in `row`.
fn push_padded(
    row: &Tensor,
    at: usize,
    own: &[usize],
    wanted: &[usize],
    fill: &[u8],
    out: &mut crate::element::StringsBuilder,
) {
    let Some((&n, inner)) = own.split_first() else { return out.push(row.str_at(at)) };
    let step: usize = inner.iter().product();
    (0..n).for_each(|i| push_padded(row, at + i * step, inner, &wanted[1..], fill, out));
    let missing = (wanted[0] - n) * wanted[1..].iter().product::<usize>();
    (0..missing).for_each(|_| out.push(fill));
}

impl Op for PaddedBatch {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, inputs: &[Plan]) -> Result<Spec> {
        if let Some(n) = self.batch_size.known() {
            at_least("batch_size", n, 1)?;
        }
        let size = self.batch_size.known().filter(|_| self.drop_remainder).map(|n| n as usize);
        let mut pads = self.pads(&inputs[0].spec)?.into_iter();
        inputs[0].spec.try_map(&mut |_| {
            let pad = pads.next().expect("one for each leaf");
            Ok(Leaf::tensor(pad.value.dtype(), Dims(Some(pad.dims)).under(size)))
        })
    }
    fn cardinality(&self, inputs: &[Plan]) -> Card {
        batches(inputs[0].card, self.batch_size.known().map(|n| n as u64), self.drop_remainder)
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        let make = self.make(&node.inputs[0].spec)?;
        Batches { size: self.batch_size, drop_remainder: self.drop_remainder, beside: Beside::Largest }
            .build(cx, node, make)
    }
    fn index(&self, cx: &BuildCx, node: &Plan) -> Result<Option<Arc<dyn Index>>> {
        let make = self.make(&node.inputs[0].spec)?;
        Batches { size: self.batch_size, drop_remainder: self.drop_remainder, beside: Beside::Largest }
            .index(cx, node, make)
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::*;
    use super::*;
    use serde_json::json;

    fn filled() -> Dataset {
        fill_x(&Dataset::range_from(1, 5, 1).unwrap())
    }
    fn value(t: Tensor) -> serde_json::Value {
        let spec = Spec::leaf(Leaf::of_tensor(&t));
        serde_json::to_value(Packed { spec, values: vec![t.into()] }).unwrap()
    }
    fn padded(ds: &Dataset, params: serde_json::Value) -> Result<Dataset> {
        op("padded_batch", params, &[ds])
    }

    #[test]
    fn the_longest_decides_unless_a_size_is_given() {
        let ds = filled();
        same(&ds.padded_batch(2, false).unwrap(), "[2, 2][1 0 2 2] [2, 4][3 3 3 0 4 4 4 4]");
        same(&ds.padded_batch(3, true).unwrap(), "[3, 3][1 0 0 2 2 0 3 3 3]");
        let six = padded(
            &ds,
            json!({"batch_size": 3, "padded_shapes": [[5]], "padding_values": [value(Tensor::scalar(-1i64))]}),
        );
        same(&six.unwrap(), "[3, 5][1 -1 -1 -1 -1 2 2 -1 -1 -1 3 3 3 -1 -1] [1, 5][4 4 4 4 -1]");
        assert_eq!(
            padded(&ds, json!({"batch_size": 2, "padded_shapes": [[6]]})).unwrap().spec().to_string(),
            "int64[?, 6]"
        );
        assert_eq!(ds.padded_batch(3, true).unwrap().spec().to_string(), "int64[3, ?]");
        same(&Dataset::range(4).unwrap().padded_batch(3, false).unwrap(), "[0 1 2] [3]");
    }

    #[test]
    fn a_long_element_costs_its_batch() {
        let ds = padded(&filled(), json!({"batch_size": 1, "padded_shapes": [[2]]})).unwrap();
        same(&ds, "[1, 2][1 0] [1, 2][2 2] ! !");
        let ds = padded(&filled(), json!({"batch_size": 2, "padded_shapes": [[3]]})).unwrap();
        same(&ds, "[2, 3][1 0 0 2 2 0] !");
    }

    #[test]
    fn all_axes_grow() {
        let spec = Spec::leaf(Leaf::tensor(DType::Int32, Dims::of([None, None])));
        let matrices = move |e: Element| {
            Ok(smallvec::smallvec![Value::Tensor(match e[0].tensor().item::<i64>() {
                0 => Tensor::from_items([1, 3], &[1i32, 2, 3]),
                1 => Tensor::from_items([2, 1], &[4i32, 5]),
                2 => Tensor::from_items([2, 2], &[6i32, 7, 8, 9]),
                _ => Tensor::from_items([0, 3], &[] as &[i32]),
            })])
        };
        let ds = Dataset::range(4).unwrap().map_fn(spec, matrices).unwrap();
        same(&ds.padded_batch(4, false).unwrap(), "[4, 2, 3][1 2 3 0 0 0 4 0 0 5 0 0 6 7 0 8 9 0 0 0 0 0 0 0]");
        let words = Spec::leaf(Leaf::tensor(DType::String, Dims::of([None, None])));
        let strings = |e: Element| {
            Ok(smallvec::smallvec![Value::Tensor(match e[0].tensor().item::<i64>() {
                0 => Tensor::strings([1, 2], &["a", "b"]),
                _ => Tensor::strings([2, 1], &["c", "d"]),
            })])
        };
        let ds = Dataset::range(2).unwrap().map_fn(words, strings).unwrap();
        let params = json!({"batch_size": 2, "padding_values": [value(Tensor::string(b"."))]});
        same(&padded(&ds, params).unwrap(), "[2, 2, 2][a b . . c . d .]");
    }

    #[test]
    fn a_batch_that_one_long_element_makes_too_large_is_refused() {
        let long = |e: Element| {
            let n = if e[0].tensor().item::<i64>() == 5 { 10_000 } else { 1 };
            Ok(smallvec::smallvec![Value::Tensor(Tensor::zeros(DType::Int64, [n]))])
        };
        let spec = Spec::leaf(Leaf::tensor(DType::Int64, Dims::of([None])));
        let ds = Dataset::range(400).unwrap().map_fn(spec, long).unwrap();
        let refused = |ds: Dataset, limit: usize| -> Vec<String> {
            let options = crate::Options { memory_limit: Some(limit), ..Default::default() };
            let it = ds.with_options(options).unwrap().iter().unwrap();
            it.map(|batch| batch.map_or_else(|e| e.to_string(), |_| String::new())).collect()
        };
        let longest = refused(ds.padded_batch(200, false).unwrap(), 8 << 20);
        for part in [
            "the 200 elements of a batch take 16.1 MB when they are filled up to the shape [10000]; operators may keep",
            "7.3 MB of the memory_limit of 8.4 MB: raise it to 19.6 MB or more",
            "bucket_by_sequence_length",
        ] {
            assert!(longest[0].contains(part), "{}", longest[0]);
        }
        assert_eq!(longest[1..], [""], "the next batch is a small one");
        assert_eq!(refused(ds.padded_batch(200, false).unwrap(), 19 << 20), ["", ""]);
        let fixed = padded(&ds.take(4).unwrap(), json!({"batch_size": 2, "padded_shapes": [[1_000_000]]})).unwrap();
        assert!(refused(fixed, 8 << 20).iter().all(|text| text.contains("the 2 elements of a batch take 16.0 MB")));
    }

    #[test]
    fn what_does_not_fit_into_memory_is_an_error() {
        for size in [1i64 << 40, 1 << 62] {
            same(&padded(&filled(), json!({"batch_size": 2, "padded_shapes": [[size]]})).unwrap(), "! !");
        }
    }

    #[test]
    fn wrong_parameters_are_refused() {
        let ds = filled();
        for params in [
            json!({"batch_size": 0}),
            json!({"batch_size": 2, "padded_shapes": [[-2]]}),
            json!({"batch_size": 2, "padded_shapes": [[null, null]]}),
            json!({"batch_size": 2, "padded_shapes": [[null], [null]]}),
            json!({"batch_size": 2, "padding_values": [value(Tensor::scalar(1i32))]}),
            json!({"batch_size": 2, "padding_values": [value(Tensor::from_items([2], &[1i64, 2]))]}),
        ] {
            assert!(padded(&ds, params.clone()).is_err(), "{params}");
        }
        let unknown = ds.map_fn(Spec::leaf(Leaf::tensor(DType::Int64, Dims::unknown())), Ok).unwrap();
        assert!(unknown.padded_batch(2, false).is_err());
        let known = padded(&unknown, json!({"batch_size": 2, "padded_shapes": [[null]]})).unwrap();
        same(&known, "[2, 2][1 0 2 2] [2, 4][3 3 3 0 4 4 4 4]");
        let wrong_rank = padded(&unknown, json!({"batch_size": 2, "padded_shapes": [[null, null]]})).unwrap();
        same(&wrong_rank, "! !");
    }
}
