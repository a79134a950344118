//! `unique()`: each element only where it comes first.

use crate::dataset::Dataset;
use crate::element::{Chunk, Column, DType, Leaf, Spec, Tensor};
use crate::error::{Error, Result};
use crate::op::{Op, OpInfo, read};
use crate::plan::{Card, Plan};
use crate::runtime::{At, BuildCx, Built, Cx, Hold, Mark, Pull, Stage, bytes_text};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

pub static INFO: OpInfo = OpInfo {
    name: "unique",
    doc: "Leaves out elements that came before in this pass; remembers every distinct one.",
    params: &[],
    read: read::<Unique>,
};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unique {}

impl Dataset {
    /// Each element (one component: int32, int64 or string) only where it comes first.
    ///
    /// ```
    /// # use feedline::{Dataset, element::Tensor};
    /// let ds = Dataset::from_tensor_slices(Tensor::strings([4], &["a", "b", "a", ""]))?.unique()?;
    /// assert_eq!(ds.iter()?.count(), 3);
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn unique(&self) -> Result<Dataset> {
        self.apply(Unique {})
    }
}

impl Op for Unique {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, inputs: &[Plan]) -> Result<Spec> {
        let spec = &inputs[0].spec;
        match spec.leaves().as_slice() {
            [Leaf::Tensor { dtype: DType::Int32 | DType::Int64 | DType::String, .. }] => Ok(spec.clone()),
            [_] => {
                Err(Error::usage(format!("elements must be int32, int64 or string, not {spec}; convert them with map")))
            }
            _ => Err(Error::usage(format!("elements must have one component, not {spec}; pick it with map"))),
        }
    }
    fn cardinality(&self, _: &[Plan]) -> Card {
        Card::Unknown
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        let input = cx.stage(&node.inputs[0])?;
        Ok(Built::Stage(Box::new(UniqueStage { input, seen: Seen::default(), hold: cx.hold(node), ended: false })))
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
}

/// What came before: whole scalars by value, everything else by its bytes and shape.
#[derive(Default)]
struct Seen {
    scalars: HashSet<i64>,
    others: HashSet<Box<[u8]>>,
    /// What the keys of `others` take.
    bytes: usize,
    key: Vec<u8>,
}

impl Seen {
    fn is_empty(&self) -> bool {
        self.scalars.is_empty() && self.others.is_empty()
    }
    /// What it takes of memory.
    fn bytes(&self) -> usize {
        self.scalars.capacity() * 9 + self.others.capacity() * 17 + self.bytes
    }
    /// Rows of a chunk that are new.
    fn new_rows(&mut self, column: &Column) -> Vec<usize> {
        match column {
            Column::Dense(t) if t.rank() == 1 && t.dtype() == DType::Int64 => {
                let items = t.items::<i64>().iter().enumerate();
                items.filter(|(_, x)| self.scalars.insert(**x)).map(|(i, _)| i).collect()
            }
            Column::Dense(t) if t.rank() == 1 && t.dtype() == DType::Int32 => {
                let items = t.items::<i32>().iter().enumerate();
                items.filter(|(_, x)| self.scalars.insert(i64::from(**x))).map(|(i, _)| i).collect()
            }
            Column::Dense(t) => (0..t.rows()).filter(|&i| self.is_new(&t.row(i))).collect(),
            Column::Rows(v, r) => (0..r.len()).filter(|&i| self.is_new(v[r.start + i].tensor())).collect(),
        }
    }
    fn is_new(&mut self, t: &Tensor) -> bool {
        match (t.rank(), t.dtype()) {
            (0, DType::Int64) => return self.scalars.insert(t.item()),
            (0, DType::Int32) => return self.scalars.insert(i64::from(t.item::<i32>())),
            _ => {}
        }
        let key = &mut self.key;
        key.clear();
        key.push(t.rank() as u8);
        t.shape().iter().for_each(|d| key.extend(d.to_le_bytes()));
        if t.dtype() == DType::String {
            t.strs().for_each(|s| {
                key.extend(s.len().to_le_bytes());
                key.extend(s);
            });
        } else {
            key.extend(t.bytes());
        }
        let is_new = !self.others.contains(key.as_slice()) && self.others.insert(key.as_slice().into());
        self.bytes += if is_new { key.len() + 16 } else { 0 };
        is_new
    }
}

struct UniqueStage {
    input: Box<dyn Stage>,
    seen: Seen,
    hold: Hold,
    /// There was no room for more.
    ended: bool,
}

impl Stage for UniqueStage {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        while !cx.is_cancelled() && !self.ended {
            let chunk: Chunk = crate::rows!(self.input.next(cx, want));
            let new = self.seen.new_rows(&chunk.columns()[0]);
            if let Err(over) = self.hold.reserve(self.seen.bytes()) {
                let seen = self.seen.scalars.len() + self.seen.others.len();
                (self.seen, self.ended) = (Seen::default(), true);
                let _ = self.hold.reserve(0);
                let what = format!("{seen} different elements to remember take {}", bytes_text(over.bytes));
                let whole = over.for_all(None, seen as u64);
                return Pull::Fail(whole.error(&what, "let it see keys (numbers, hashes) instead of whole elements"));
            }
            if !new.is_empty() {
                return Pull::Rows(super::kept(chunk, &new));
            }
        }
        Pull::End
    }
    fn mark(&mut self, out: &mut Mark) {
        self.input.mark(out);
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        (self.seen, self.ended) = (Seen::default(), false);
        let _ = self.hold.reserve(0);
        self.input.seek(at)
    }
    // All that came so far is remembered: it is read again from the start.
    fn is_settled(&self) -> bool {
        self.seen.is_empty()
    }
    fn replays(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{in_chunks, ints};

    #[test]
    fn whole_values_are_compared() {
        let vectors = [vec![1i64, 2], vec![2, 1], vec![1, 2], vec![1], vec![1, 2]];
        let ds = Dataset::from_list(vectors.map(|v| Tensor::from_items([v.len()], &v))).unwrap().unique().unwrap();
        assert_eq!(ds.iter().unwrap().count(), 3);
        let strings = Tensor::strings([3, 2], &["ab", "c", "a", "bc", "ab", "c"]);
        let ds = Dataset::from_tensor_slices(strings).unwrap().unique().unwrap();
        assert_eq!(ds.iter().unwrap().count(), 2);
    }

    #[test]
    fn scalars_in_any_chunks() {
        let ds = Dataset::range(3).unwrap().repeat(Some(4)).unwrap().unique().unwrap();
        for rows in [1, 2, 100] {
            assert_eq!(ints(&in_chunks(&ds, rows)), [0, 1, 2]);
        }
        assert_eq!(ints(&ds.repeat(Some(2)).unwrap()), [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn other_elements_are_refused() {
        let floats = Dataset::from_tensor_slices(Tensor::from_items([2], &[1f32, 1.])).unwrap();
        assert!(floats.unique().is_err());
        let pair = Dataset::range(3).unwrap().enumerate(0).unwrap();
        assert!(pair.unique().unwrap_err().to_string().contains("one component"));
    }
}
