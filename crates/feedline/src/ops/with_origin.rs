//! `with_origin()`: each element with where it came from.

use crate::dataset::Dataset;
use crate::element::{Chunk, Column, DType, Origin, Spec, StringsBuilder, Tensor, Tree};
use crate::error::{Error, Kind, Result};
use crate::op::{Op, OpInfo, read};
use crate::plan::{Card, Plan};
use crate::runtime::{BuildCx, Built, ChunkFn, Item};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub static INFO: OpInfo = OpInfo {
    name: "with_origin",
    doc: "Pairs each element with where it came from: file, record, byte and position.",
    params: &[],
    read: read::<WithOrigin>,
};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WithOrigin {}

impl Dataset {
    /// Pairs each element with a map of `file`, `record`, `byte` and `position`: where it was in its source. What is not
    /// known is empty, or -1.
    ///
    /// ```
    /// # use feedline::Dataset;
    /// let ds = Dataset::range(9)?.shuffle(Some(9), Some(1), true)?.with_origin()?;
    /// for element in ds.iter()? {
    ///     // Components in order: the element's own, then the origin's.
    ///     let element = element?;
    ///     assert_eq!(element[0].tensor().item::<i64>(), element[4].tensor().item::<i64>());
    /// }
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn with_origin(&self) -> Result<Dataset> {
        self.apply(WithOrigin {})
    }
}

impl Op for WithOrigin {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, inputs: &[Plan]) -> Result<Spec> {
        let number = || Spec::scalar(DType::Int64);
        let fields =
            [("file", Spec::scalar(DType::String)), ("record", number()), ("byte", number()), ("position", number())];
        let items = fields.into_iter().map(|(name, spec)| (name.into(), spec)).collect();
        Ok(Spec::tuple(vec![inputs[0].spec.clone(), Tree::Map { tag: None, items }]))
    }
    fn cardinality(&self, inputs: &[Plan]) -> Card {
        inputs[0].card
    }
    fn wants_origins(&self) -> bool {
        true
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        cx.then(node, Arc::new(Append), None, true)
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
}

/// Adds the columns that tell the origin.
struct Append;

impl ChunkFn for Append {
    fn run(&self, chunk: Chunk, out: &mut Vec<Item>) {
        let rows = chunk.rows();
        let mut files = StringsBuilder::with_capacity(rows);
        let mut numbers: [Vec<i64>; 3] = Default::default();
        for row in 0..rows {
            let Some(Origin::Row { source, position, record, byte }) = chunk.pos.origin(row) else {
                let each = (0..rows).map(|row| Item::Fail(not_one(&chunk, row)));
                return out.extend(each);
            };
            files.push(source.file.as_deref().unwrap_or_default().as_bytes());
            let known = [*record, *byte, Some(*position)].map(|n| n.map_or(-1, |n| n as i64));
            numbers.iter_mut().zip(known).for_each(|(column, n)| column.push(n));
        }
        let (pos, columns) = (chunk.pos.clone(), chunk.into_columns());
        let numbers = numbers.into_iter().map(|n| Column::Dense(Tensor::from_items([rows], &n)));
        let origin = std::iter::once(Column::Dense(files.tensor([rows]))).chain(numbers);
        out.push(Item::Rows(Chunk::new(rows, pos, columns.into_iter().chain(origin))));
    }
    fn keeps_rows(&self) -> bool {
        true
    }
    fn repeats(&self) -> bool {
        true
    }
}

#[cold]
fn not_one(chunk: &Chunk, row: usize) -> Error {
    let text = match chunk.pos.origin(row) {
        Some(Origin::Lost(op)) => format!("{op} does not tell which rows it put together"),
        _ => "the elements were made of several rows each, by batch or zip".into(),
    };
    let text = format!("no single origin: {text}; use with_origin before that");
    Error::new(Kind::Precondition, text).at_element(chunk.pos.at(row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{in_chunks, ints};

    #[test]
    fn positions_stay_with_their_elements() {
        let ds = Dataset::range(20).unwrap().shuffle(Some(7), Some(3), true).unwrap().skip(3).unwrap();
        let ds = ds.with_origin().unwrap().batch(4, false).unwrap();
        for rows in [1, 3, 100] {
            for element in in_chunks(&ds, rows).iter().unwrap() {
                let element = element.unwrap();
                assert_eq!(element[0].tensor().items::<i64>(), element[4].tensor().items::<i64>());
                assert!(element[1].tensor().strs().all(|file| file.is_empty()));
                assert!(element[2].tensor().items::<i64>().iter().all(|n| *n == -1));
            }
        }
    }

    #[test]
    fn batches_have_no_single_origin() {
        let ds = Dataset::range(4).unwrap().batch(2, false).unwrap().with_origin().unwrap();
        let error = ds.iter().unwrap().next().unwrap().unwrap_err();
        assert!(error.to_string().contains("before that"), "{error}");
        assert_eq!(ints(&Dataset::range(2).unwrap()), [0, 1]);
    }
}
