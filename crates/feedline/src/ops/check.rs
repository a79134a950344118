//! What the tests of operators share: a dataset as a line of text, and runs that must all give it.

use crate::dataset::Dataset;
use crate::element::{DType, Element, Spec, Tensor, Value};
use crate::error::{Error, Result};
use crate::expr::{Builder, NodeId};
use crate::options::Options;
use crate::plan::{Bound, Plan};
use crate::runtime::{Iter, Pool};
use serde_json::json;
use std::sync::Arc;

/// Reads a dataset with chunks of several sizes, serially and ahead, and compares each time. `!` stands for an error.
pub fn same(ds: &Dataset, expect: &str) {
    for chunk_rows in [Some(1), Some(2), Some(3), Some(7), Some(64), None] {
        for prefetch in [Some(false), None] {
            let options = Options { chunk_rows, prefetch, ..Default::default() };
            let got = shown(&ds.with_options(options).unwrap());
            assert_eq!(got, expect, "chunk_rows {chunk_rows:?}, prefetch {prefetch:?}");
        }
    }
    let (json, attachments) = crate::plan::write_plan(ds.plan()).unwrap();
    let again = crate::plan::read_plan(&json, attachments).unwrap();
    assert_eq!(read_plan(&again), expect, "written and read back");
    assert_eq!((&again.spec, again.card), (ds.spec(), ds.cardinality()));
}

pub fn shown(ds: &Dataset) -> String {
    read_plan(ds.plan())
}

fn read_plan(plan: &Plan) -> String {
    read_bound(&Bound { plan: plan.clone(), env: Arc::new([]) })
}

fn read_bound(bound: &Bound) -> String {
    // A pool of its own: datasets inside elements are read while the outer one is, whatever else runs.
    let pool = Pool::new(2);
    let mut iter = Iter::new(bound, 0, pool.clone()).unwrap();
    let mut out = Vec::new();
    while let Some(element) = iter.next_element() {
        out.push(match element {
            Ok(element) => element.iter().map(show).collect::<Vec<_>>().join(","),
            Err(_) => "!".into(),
        });
        assert!(out.len() < 10_000, "no end");
    }
    assert!(iter.next_element().is_none(), "the end stays the end");
    drop(iter);
    pool.stop();
    out.join(" ")
}

/// `3`, `[1 2]` for a vector, `[2, 2: 1 2 3 4]` for more axes, `{0 1}` for a dataset.
pub fn show(value: &Value) -> String {
    let items = |t: &Tensor| {
        let shown: Vec<String> = (0..t.len())
            .map(|i| match t.dtype() {
                DType::String => String::from_utf8_lossy(t.str_at(i)).into_owned(),
                DType::Int64 => t.items::<i64>()[i].to_string(),
                DType::Int32 => t.items::<i32>()[i].to_string(),
                DType::Float32 => t.items::<f32>()[i].to_string(),
                other => panic!("not shown: {other}"),
            })
            .collect();
        shown.join(" ")
    };
    match value {
        Value::Tensor(t) if t.rank() == 0 => items(t),
        Value::Tensor(t) if t.rank() == 1 => format!("[{}]", items(t)),
        Value::Tensor(t) => format!("{:?}[{}]", t.shape(), items(t)),
        Value::Ragged(r) => format!("ragged{:?}[{}]", r.splits, items(&r.values)),
        Value::Sparse(s) => format!("sparse{:?}[{}][{}]", s.shape, items(&s.indices), items(&s.values)),
        Value::Absent => "-".into(),
        Value::Dataset(_) => format!("{{{}}}", read_bound(Bound::of(value).unwrap())),
    }
}

/// int64 elements; the one with this value fails.
pub fn fail_at(ds: &Dataset, bad: i64) -> Dataset {
    let f = move |e: Element| match e[0].tensor().item::<i64>() {
        x if x == bad => Err(Error::data("bad")),
        _ => Ok(e),
    };
    ds.map_fn(Spec::scalar(DType::Int64), f).unwrap()
}

/// x to a vector of x times x, of unknown length.
pub fn fill_x(ds: &Dataset) -> Dataset {
    let spec = Spec::leaf(crate::element::Leaf::tensor(DType::Int64, crate::element::Dims::of([None])));
    ds.map_fn(spec, |e| {
        let x: i64 = e[0].tensor().item();
        Ok(smallvec::smallvec![Value::Tensor(Tensor::from_items([x as usize], &vec![x; x as usize]))])
    })
    .unwrap()
}

/// int64 scalars as a dataset.
pub fn ints(values: &[i64]) -> Dataset {
    let values: Arc<[i64]> = values.into();
    Dataset::range(values.len() as i64)
        .unwrap()
        .map_fn(Spec::scalar(DType::Int64), move |e| {
            let i = e[0].tensor().item::<i64>() as usize;
            Ok(smallvec::smallvec![Value::Tensor(Tensor::scalar(values[i]))])
        })
        .unwrap()
}

/// An operator from its written parameters, as Python makes it.
pub fn op(name: &str, params: serde_json::Value, inputs: &[&Dataset]) -> Result<Dataset> {
    let op = (crate::ops::find(name)?.read)(params)?;
    Ok(Dataset::from_plan(Plan::new(op, inputs.iter().map(|d| d.plan().clone()).collect())?))
}

/// Traced: x to range(x).
pub fn ranges(b: &mut Builder, x: &[NodeId]) -> Result<NodeId> {
    let stop = b.export(x[0]);
    let params = json!({"start": 0, "stop": {"symbol": stop}, "step": 1, "output_type": "int64"});
    let inner = op("range", params, &[])?;
    Ok(b.dataset(Bound::nested(inner.plan().clone()), inner.spec().clone()))
}
