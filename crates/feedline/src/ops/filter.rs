//! `filter(predicate)`: the elements for which the predicate holds.

use crate::dataset::Dataset;
use crate::element::{B8, Chunk, Column, DType, Element, Leaf, Spec, Tensor, Value};
use crate::error::{Error, Result};
use crate::expr::{Graph, RowsAt};
use crate::op::{Bound, Function, Op, OpInfo, Param, Props, read};
use crate::ops::map::{RustFn, is_serial_host};
use crate::options::OnError;
use crate::plan::{Card, Plan};
use crate::runtime::{BuildCx, Built, ChunkFn, Item};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub static INFO: OpInfo = OpInfo {
    name: "filter",
    doc: "Keeps the elements for which the predicate is true.",
    params: &[
        Param::new("predicate", "", "a function from an element to a bool scalar"),
        Param::new("on_error", "None", "what becomes of elements that fail: \"raise\", \"skip\", \"quarantine\""),
    ],
    read: read::<Filter>,
};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    pub predicate: Function,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_error: Option<OnError>,
}

/// A Rust predicate as a traced function.
pub(super) fn predicate(spec: &Spec, f: impl Fn(&Element) -> Result<bool> + Send + Sync + 'static) -> Function {
    let call = move |e: Element| f(&e).map(|b| smallvec::smallvec![Value::Tensor(Tensor::scalar(B8::from(b)))]);
    Function::new(Graph::host(spec, Arc::new(RustFn(Box::new(call))), Spec::scalar(DType::Bool)))
}

impl Dataset {
    /// The elements for which a Rust function says yes.
    ///
    /// ```
    /// # use feedline::Dataset;
    /// let ds = Dataset::range(5)?.filter_fn(|e| Ok(e[0].tensor().item::<i64>() % 2 == 1))?;
    /// assert_eq!(ds.iter()?.count(), 2);
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn filter_fn(&self, f: impl Fn(&Element) -> Result<bool> + Send + Sync + 'static) -> Result<Dataset> {
        self.apply(Filter { predicate: predicate(self.spec(), f), on_error: None })
    }
    pub fn filter_graph(&self, graph: Graph) -> Result<Dataset> {
        self.apply(Filter { predicate: Function::new(graph), on_error: None })
    }
}

impl Op for Filter {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, inputs: &[Plan]) -> Result<Spec> {
        self.predicate.judges(&inputs[0].spec)
    }
    fn cardinality(&self, _: &[Plan]) -> Card {
        Card::Unknown
    }
    fn on_error(&self) -> Option<OnError> {
        self.on_error
    }
    fn props(&self) -> Props {
        let graph = &self.predicate.0;
        Props { host: is_serial_host(graph), pure: graph.is_pure(), ..Props::default() }
    }
    fn functions(&self) -> Vec<&Function> {
        vec![&self.predicate]
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        cx.then(node, Arc::new(FilterFn(self.predicate.bound(cx))), None, true)
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
    fn show(&self) -> String {
        format!("{:?}{}", self.predicate, super::show_on_error(self.on_error))
    }
}

/// What a predicate says of the rows of a chunk.
pub(super) enum Verdicts {
    /// A bool for each row.
    All(Tensor),
    /// Row by row, because one failed or was not a scalar, or because host code is called.
    Each(Vec<Result<bool>>),
}

/// Asks a predicate about every row. With `until_false` host code is not called for rows behind the first no.
pub(super) fn judge(predicate: &Bound, chunk: &Chunk, until_false: bool) -> Verdicts {
    let Some(host) = predicate.graph.host_fn() else {
        return match eval(predicate, chunk) {
            Ok(Column::Dense(t)) if t.rank() == 1 && t.dtype() == DType::Bool => Verdicts::All(t),
            Ok(column) => Verdicts::Each((0..chunk.rows()).map(|row| truth(column.get(row), chunk, row)).collect()),
            Err(_) => Verdicts::Each((0..chunk.rows()).map(|row| one(predicate, chunk, row)).collect()),
        };
    };
    let mut each = Vec::with_capacity(chunk.rows());
    host.scoped(&mut || {
        for row in 0..chunk.rows() {
            each.push(one(predicate, chunk, row));
            if until_false && matches!(each.last(), Some(Ok(false))) {
                break;
            }
        }
    });
    Verdicts::Each(each)
}

fn eval(predicate: &Bound, chunk: &Chunk) -> Result<Column> {
    let at = RowsAt { epoch: predicate.epoch, pos: &chunk.pos };
    let columns = predicate.graph.eval(chunk.columns(), &predicate.captures, chunk.rows(), at)?;
    columns.into_iter().next().ok_or_else(|| Error::internal("a predicate without a result"))
}

fn one(predicate: &Bound, chunk: &Chunk, row: usize) -> Result<bool> {
    let column = eval(predicate, &chunk.slice(row..row + 1)).map_err(|e| chunk.blame(e, row))?;
    truth(column.get(0), chunk, row)
}

fn truth(value: Value, chunk: &Chunk, row: usize) -> Result<bool> {
    match &value {
        // One item under another shape is accepted where no shape was known before, as in tf.data.
        Value::Tensor(t) if t.len() == 1 && t.dtype() == DType::Bool => Ok(t.item::<B8>().get()),
        other => {
            let got = Leaf::of(other).map_or("a dataset".into(), |l| l.to_string());
            let text = format!("the predicate must return a bool scalar, but returned {got}");
            Err(chunk.blame(Error::func(text), row))
        }
    }
}

/// The rows that are kept, and errors in their places.
pub(super) fn sift(chunk: Chunk, verdicts: impl Iterator<Item = Result<bool>>, out: &mut impl Extend<Item>) {
    let mut rows = Vec::new();
    for (row, verdict) in verdicts.enumerate() {
        match verdict {
            Ok(true) => rows.push(row),
            Ok(false) => {}
            Err(error) => {
                if !rows.is_empty() {
                    out.extend([Item::Rows(super::kept(chunk.clone(), &rows))]);
                    rows.clear();
                }
                out.extend([Item::Fail(error)]);
            }
        }
    }
    if !rows.is_empty() {
        out.extend([Item::Rows(super::kept(chunk, &rows))]);
    }
}

struct FilterFn(Bound);

impl ChunkFn for FilterFn {
    fn run(&self, chunk: Chunk, out: &mut Vec<Item>) {
        match judge(&self.0, &chunk, false) {
            Verdicts::All(t) => sift(chunk, t.items::<B8>().iter().map(|b| Ok(b.get())), out),
            Verdicts::Each(each) => sift(chunk, each.into_iter(), out),
        }
    }
    fn is_host(&self) -> bool {
        is_serial_host(&self.0.graph)
    }
    fn repeats(&self) -> bool {
        self.0.graph.host_fn().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::{Dims, Packed};
    use crate::ops::testing::{events, in_chunks, ints};

    #[test]
    fn errors_of_the_predicate_cost_their_row() {
        let ds = Dataset::range(5).unwrap().filter_fn(|e| match e[0].tensor().item::<i64>() {
            2 => Err(Error::func("no")),
            x => Ok(x > 0),
        });
        for rows in [1, 3, 100] {
            assert_eq!(events(&in_chunks(ds.as_ref().unwrap(), rows)), "1 ! 3 4");
        }
        assert_eq!(ds.unwrap().cardinality(), Card::Unknown);
    }

    #[test]
    fn whole_chunks() {
        let bits: Vec<B8> = (0..1000).map(|i| B8::from(i % 3 == 0 || i > 700)).collect();
        let ds = Dataset::from_tensor_slices(Tensor::from_items([1000], &bits)).unwrap();
        let kept = ds.filter_graph(Graph::identity(ds.spec())).unwrap();
        assert_eq!(kept.iter().unwrap().count(), bits.iter().filter(|b| b.get()).count());
        assert_eq!(ints(&Dataset::range(100_000).unwrap().filter_fn(|_| Ok(false)).unwrap()).len(), 0);
    }

    #[test]
    fn the_predicate_must_be_a_bool_scalar() {
        let numbers = Dataset::range(3).unwrap();
        let text = numbers.filter_graph(Graph::identity(numbers.spec())).unwrap_err().to_string();
        assert!(text.contains("bool scalar") && text.contains("int64"), "{text}");
        // A shape that is known only at run time.
        let of = |b: &[bool]| {
            Value::Tensor(Tensor::from_items([b.len()], &b.iter().map(|&b| B8::from(b)).collect::<Vec<_>>()))
        };
        let spec = Spec::leaf(Leaf::tensor(DType::Bool, Dims::unknown()));
        let scalar = Value::Tensor(Tensor::scalar(B8::from(true)));
        let packed = |v: Value| Packed::new(spec.clone(), vec![v]).unwrap();
        let ds = Dataset::from_list([packed(scalar.clone()), packed(of(&[true, true])), packed(scalar)]).unwrap();
        let kept = ds.filter_graph(Graph::identity(ds.spec())).unwrap();
        let ok: Vec<bool> = kept.iter().unwrap().map(|e| e.is_ok()).collect();
        assert_eq!(ok, [true, false, true]);
    }
}
