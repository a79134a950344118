//! `shuffle(buffer_size)`: another order. With a buffer it is tf.data's, exactly; without one it is a permutation of all
//! elements that needs no memory.

mod buffer;
mod journal;
mod packed;
mod parts;
mod permutation;
mod rows;

use crate::dataset::Dataset;
use crate::element::Spec;
use crate::error::{Error, Result};
use crate::op::{Int, Op, OpInfo, Param, Props, at_least, read};
use crate::plan::{Card, Plan};
use crate::runtime::{BuildCx, Built, Index, Numbers, PassSeeds, bytes_text, streams};
use permutation::{Gather, Permutation, PermutedIndex};
use rows::{Rows, Together};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, OnceLock};

pub static INFO: OpInfo = OpInfo {
    name: "shuffle",
    doc: "Puts elements into a random order.",
    params: &[
        Param::new("buffer_size", "None", "elements to choose from; -2: all; None: a permutation that needs no memory"),
        Param::new("buffer_bytes", "None", "bytes of elements to choose from, instead of or beside their number"),
        Param::new("seed", "None", "makes the order repeatable; None: another one for each dataset"),
        Param::new("seed2", "None", "the second half of the seed"),
        Param::new("reshuffle_each_iteration", "True", "another order in each pass"),
    ],
    read: read::<Shuffle>,
};

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shuffle {
    #[serde(default)]
    buffer_size: Option<Int>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    buffer_bytes: Option<Int>,
    #[serde(default)]
    seed: Option<i64>,
    #[serde(default)]
    seed2: Option<i64>,
    #[serde(default)]
    reshuffle_each_iteration: Option<bool>,
    /// Chosen when first needed; passes draw from it, one after the other.
    #[serde(skip)]
    seeds: OnceLock<Arc<PassSeeds>>,
}

impl Dataset {
    /// Elements in another order: chosen from a buffer, or (`None`) permuted as a whole by number.
    ///
    /// ```
    /// # use feedline::Dataset;
    /// let ds = Dataset::range(10)?.shuffle(Some(10), Some(42), false)?;
    /// let n: Vec<i64> = ds.iter()?.map(|e| e.unwrap()[0].tensor().item()).collect();
    /// assert_eq!(n, [2, 0, 7, 8, 9, 3, 6, 4, 1, 5]);
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn shuffle(&self, buffer_size: Option<i64>, seed: Option<i64>, reshuffle: bool) -> Result<Dataset> {
        self.apply(Shuffle {
            buffer_size: buffer_size.map(Into::into),
            buffer_bytes: None,
            seed,
            seed2: None,
            reshuffle_each_iteration: Some(reshuffle),
            seeds: OnceLock::new(),
        })
    }
    /// The same with a buffer that holds elements of so many bytes, however many these are: it is filled until the
    /// contents of its elements reach the bound.
    ///
    /// ```
    /// # use feedline::Dataset;
    /// let ds = Dataset::range(1000)?.shuffle_bytes(2400, Some(42), false)?;
    /// let first: i64 = ds.iter()?.next().unwrap()?[0].tensor().item();
    /// assert!(first < 100); // a number takes 24 bytes: 8 and what an element takes by itself
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn shuffle_bytes(&self, buffer_bytes: i64, seed: Option<i64>, reshuffle: bool) -> Result<Dataset> {
        self.apply(Shuffle {
            buffer_size: None,
            buffer_bytes: Some(buffer_bytes.into()),
            seed,
            seed2: None,
            reshuffle_each_iteration: Some(reshuffle),
            seeds: OnceLock::new(),
        })
    }
}

/// `usize::MAX` stands for everything.
fn buffer_rows(size: i64) -> Result<usize> {
    match size {
        -2 => Ok(usize::MAX),
        n if n > 0 => Ok(n as usize),
        n => Err(Error::usage(format!(
            "buffer_size must be positive, not {n}; -2 takes the whole dataset into the buffer, None needs no buffer"
        ))),
    }
}

impl Shuffle {
    /// Whether all elements are permuted, without a buffer.
    fn is_permutation(&self) -> bool {
        self.buffer_size.is_none() && self.buffer_bytes.is_none()
    }
    fn each_pass(&self) -> bool {
        self.reshuffle_each_iteration != Some(false)
    }
    fn pass_seeds(&self) -> &Arc<PassSeeds> {
        self.seeds.get_or_init(|| Arc::new(PassSeeds::new(self.seed, self.seed2, self.each_pass())))
    }
    /// The permuted input of the pass that `cx` belongs to.
    fn permuted(&self, cx: &BuildCx, input: &Plan) -> Result<PermutedIndex> {
        let index = cx.index(input)?.ok_or_else(|| no_numbers(streams(input)))?;
        let (a, b) = self.pass_seeds().pair();
        let epoch = if self.each_pass() { cx.epoch } else { 0 };
        let order = Permutation::new(index.len(), [a, b, epoch]);
        Ok(PermutedIndex { input: index, order })
    }
}

fn no_numbers(op: Option<&str>) -> Error {
    Error::usage(format!(
        "shuffle() without a buffer_size needs elements by number, but {} streams; give a buffer_size",
        op.unwrap_or("its input")
    ))
}

impl Op for Shuffle {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, inputs: &[Plan]) -> Result<Spec> {
        if self.is_permutation() {
            streams(&inputs[0]).map_or(Ok(()), |op| Err(no_numbers(Some(op))))?;
        }
        if let Some(n) = self.buffer_size.and_then(|n| n.known()) {
            buffer_rows(n)?;
        }
        if let Some(n) = self.buffer_bytes.and_then(|n| n.known()) {
            at_least("buffer_bytes", n, 1)?;
        }
        Ok(inputs[0].spec.clone())
    }
    fn cardinality(&self, inputs: &[Plan]) -> Card {
        inputs[0].card
    }
    fn props(&self) -> Props {
        Props {
            pure: self.seed.or(self.seed2).is_some() && !self.each_pass(),
            carries: true,
            keeps: true,
            ..Props::default()
        }
    }
    fn seeds(&self) -> Option<&Arc<PassSeeds>> {
        Some(self.pass_seeds())
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        if self.is_permutation() {
            let index = self.permuted(cx, &node.inputs[0])?;
            let together = index.input.together();
            let head = Box::new(Numbers { len: index.len(), at: 0, together });
            let gather = Arc::new(Gather::new(index));
            return Ok(match together {
                1 => cx.open(node, head, gather),
                _ => cx.open_coarse(node, head, gather),
            });
        }
        let size = self.buffer_size.map_or(Ok(usize::MAX), |n| buffer_rows(n.get(cx)?))?;
        let bytes = self.buffer_bytes.map(|n| n.get(cx)).transpose()?;
        if let Some(n) = bytes {
            at_least("buffer_bytes", n, 1)?;
            cx.hold(node).set(n as usize).map_err(|over| {
                over.error(
                    &format!("a buffer of {} is too large", bytes_text(n as usize)),
                    "give a smaller buffer_bytes",
                )
            })?;
        }
        let size = (size, bytes.map(|n| n as usize));
        // Where bytes count, those of each column do.
        let together = Rows::of_many_columns(&node.spec).filter(|_| bytes.is_none()).map(Arc::new);
        // The input is started first: an inner shuffle draws its seeds before an outer one.
        let input = match &together {
            Some(rows) => cx.stage_with(&node.inputs[0], Arc::new(Together(rows.clone())))?,
            None => cx.stage(&node.inputs[0])?,
        };
        let stage = buffer::BufferStage::new(cx, node, input, size, self.pass_seeds().start(cx), together)?;
        Ok(Built::Stage(Box::new(stage)))
    }
    fn index(&self, cx: &BuildCx, node: &Plan) -> Result<Option<Arc<dyn Index>>> {
        match self.is_permutation() {
            false => Ok(None),
            true => Ok(Some(Arc::new(self.permuted(cx, &node.inputs[0])?))),
        }
    }
    fn reads_by_number(&self) -> bool {
        self.is_permutation()
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{events, failing, in_chunks, ints};

    fn range(n: i64) -> Dataset {
        Dataset::range(n).unwrap()
    }

    #[test]
    fn orders_are_those_of_tf_data() {
        let fixed = |n, b, seed| ints(&range(n).shuffle(Some(b), Some(seed), false).unwrap());
        assert_eq!(fixed(10, 3, 7), [0, 2, 3, 4, 5, 7, 6, 1, 8, 9]);
        assert_eq!(fixed(5, 100, 3), [2, 4, 3, 0, 1]);
        assert_eq!(fixed(20, 5, 1), [2, 5, 1, 0, 6, 9, 7, 10, 12, 8, 3, 15, 4, 13, 14, 11, 19, 17, 16, 18]);
        assert_eq!(fixed(6, 6, -1), [3, 0, 4, 1, 2, 5]);
        assert_eq!(fixed(6, 6, 2147483648), [3, 5, 0, 4, 1, 2]);
        assert_eq!(fixed(6, 1, 1), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn passes_draw_from_one_stream() {
        let ds = range(8).shuffle(Some(4), Some(0), true).unwrap();
        assert_eq!(ints(&ds), [0, 3, 2, 6, 5, 4, 7, 1]);
        assert_eq!(ints(&in_chunks(&ds, 3)), [3, 0, 2, 6, 7, 1, 5, 4]);
        assert_eq!(ints(&ds), [1, 4, 2, 3, 0, 5, 6, 7]);
        let ds = range(8).shuffle(Some(-2), Some(42), true).unwrap();
        assert_eq!([ints(&ds), ints(&ds)], [[1, 4, 0, 6, 5, 2, 3, 7], [3, 2, 4, 5, 1, 7, 6, 0]]);
        let ds = range(6).shuffle(Some(6), Some(42), true).unwrap().repeat(Some(3)).unwrap();
        assert_eq!(ints(&ds), [3, 2, 1, 4, 5, 0, 3, 5, 2, 4, 0, 1, 0, 1, 5, 2, 3, 4]);
        let ds = range(6).shuffle(Some(3), Some(42), true).unwrap().shuffle(Some(3), Some(43), true).unwrap();
        assert_eq!([ints(&ds), ints(&ds)], [[4, 3, 5, 2, 0, 1], [1, 4, 3, 5, 2, 0]]);
    }

    #[test]
    fn the_next_order_does_not_depend_on_how_far_workers_were() {
        use crate::ops::check::op;
        use serde_json::json;
        let nested = || {
            let ds = range(200).flat_map(|b, x| {
                let stop = b.export(x[0]);
                let range = json!({"start": 0, "stop": {"symbol": stop}, "step": 1, "output_type": "int64"});
                let inner = op("shuffle", json!({"buffer_size": 9, "seed": 1}), &[&op("range", range, &[])?])?;
                Ok(b.dataset(crate::plan::Bound::nested(inner.plan().clone()), inner.spec().clone()))
            });
            ds.unwrap()
        };
        let second = |read: usize| {
            let ds = nested();
            assert_eq!(ds.iter().unwrap().take(read).count(), read);
            ints(&ds)
        };
        let order = second(1);
        assert_eq!(second(5000), order);
        let all = nested();
        assert_ne!(ints(&all), order);
        assert_ne!(ints(&all), order, "read to the end, it goes on behind it");
    }

    #[test]
    fn errors_come_when_they_are_met() {
        for rows in [1, 2, 100] {
            let ds = failing(6, &[3]).shuffle(Some(4), Some(42), true).unwrap();
            assert_eq!(events(&in_chunks(&ds, rows)), "! 1 5 0 4 2");
            let ds = failing(8, &[6]).shuffle(Some(3), Some(42), true).unwrap();
            assert_eq!(events(&in_chunks(&ds, rows)), "0 3 4 2 ! 1 5 7");
        }
    }

    #[test]
    fn buffers_must_be_positive() {
        assert!(range(5).shuffle(Some(0), None, true).is_err());
        assert!(range(5).shuffle(Some(-1), None, true).unwrap_err().to_string().contains("-2"));
        assert_eq!(ints(&range(0).shuffle(Some(4), None, true).unwrap()).len(), 0);
        assert_eq!(
            ints(&range(4).repeat(None).unwrap().shuffle(Some(3), Some(42), true).unwrap().take(10).unwrap()),
            [0, 3, 0, 2, 1, 1, 0, 2, 1, 3]
        );
    }

    #[test]
    fn permutations_need_numbers() {
        let text =
            range(9).ignore_errors(false).unwrap().skip(1).unwrap().shuffle(None, None, true).unwrap_err().to_string();
        assert!(text.contains("but ignore_errors streams; give a buffer_size"), "{text}");
        let ds = range(1000).shuffle(None, Some(3), true).unwrap();
        let (a, b) = (ints(&ds), ints(&ds));
        assert_ne!(a, b);
        for mut order in [a.clone(), b] {
            order.sort();
            assert_eq!(order, (0..1000).collect::<Vec<_>>());
        }
        let fixed = range(1000).shuffle(None, Some(3), false).unwrap();
        assert_eq!(ints(&fixed), ints(&in_chunks(&fixed, 17)));
        assert_eq!(ints(&fixed), a);
        let chunk = fixed.index().unwrap().get(&[5, 0]).unwrap();
        assert_eq!(chunk.element(0)[0].tensor().item::<i64>(), a[5]);
        assert_eq!(chunk.pos.at(1), a[0] as u64);
    }

    #[test]
    fn a_failing_row_costs_that_row() {
        let ds = failing(100, &[7, 50]).shuffle(None, Some(1), true).unwrap();
        let ok = ds.iter().unwrap().filter(|e| e.is_ok()).count();
        assert_eq!((ok, ds.iter().unwrap().count()), (98, 100));
    }

    #[test]
    fn long_records_do_not_keep_alive_what_they_were_read_with() {
        use crate::element::{Column, DType, StringsBuilder};
        // Records of 32 KiB, cut out of blocks that hold 32 of them.
        let block = feedline_io::Buf::zeroed(1 << 20);
        let mut strings = StringsBuilder::with_capacity(32);
        (0..32).for_each(|i| strings.push_view(&block, i << 15..(i + 1) << 15));
        let ds = Dataset::from_tensor_slices(vec![strings.tensor([32])]).unwrap();
        let mut iter = ds.shuffle(Some(8), Some(1), false).unwrap().iter().unwrap();
        let first = iter.next().unwrap().unwrap();
        let text = Column::from_values(vec![first[0].clone()]);
        let Column::Dense(text) = text else { panic!("strings are dense") };
        assert_eq!((text.dtype(), text.str_at(0).len()), (DType::String, 1 << 15));
        let inside = block.as_slice().as_ptr_range();
        assert!(!inside.contains(&text.str_at(0).as_ptr()), "it lies in memory of its own");
    }

    #[test]
    fn packed_rows_and_others_in_one_buffer() {
        use crate::element::{Tensor, Tree};
        use crate::expr::{Attrs, Builder};
        // What a function made is packed; what an array keeps is not, and ends the packing. Of nine columns workers put
        // rows together, of two the shuffle does.
        for (columns, most) in [(2, 90), (9, 90), (9, 5000)] {
            let half = most / 2;
            let made = |n: i64| {
                let mut b = Builder::new(range(n).spec());
                let twice = b.call("add", &[0, 0], Attrs::default()).unwrap();
                let leaves = (0..columns).map(|i| Tree::Leaf(if i == 1 { twice } else { 0 }));
                range(n).map_graph(b.finish(&Tree::tuple(leaves.collect()))).unwrap()
            };
            let kept = |column: i64| (half..most).map(|x| if column == 1 { 2 * x } else { x }).collect::<Vec<i64>>();
            let kept: Vec<Tensor> =
                (0..columns).map(|c| Tensor::from_items([(most - half) as usize], &kept(c))).collect();
            let kept = Dataset::from_tensor_slices(kept).unwrap();
            let both = [
                made(half).concatenate(&kept).unwrap(),
                made(half).concatenate(&kept.concatenate(&made(9)).unwrap()).unwrap(),
            ];
            for (both, all) in both.iter().zip([most, most + 9]) {
                let order = ints(&range(all).shuffle(Some(20), Some(5), false).unwrap());
                let row =
                    |x: i64| (0..columns).map(|c| (if c == 1 { 2 * x } else { x }).to_string()).collect::<Vec<_>>();
                let behind = |x: &i64| row(if *x < most { *x } else { *x - most }).join(",");
                let wanted = order.iter().map(behind).collect::<Vec<_>>().join(" ");
                for rows in [1, 7, 64, 4096] {
                    let ds = both.shuffle(Some(20), Some(5), false).unwrap();
                    assert!(
                        events(&in_chunks(&ds, rows)) == wanted,
                        "{columns} columns, {all} rows in chunks of {rows}"
                    );
                }
            }
        }
    }
}
