//! The operators, one file each. Adding one: a file, and two lines here. `tests` compares the folder with the table.

mod batch;
mod batches;
#[cfg(test)]
mod check;
mod choose_from_datasets;
mod flat_map;
mod group_by_reducer;
mod group_by_window;
mod interleave;
mod map;
mod nested;
mod padded_batch;
mod ragged_batch;
mod range;
mod rebatch;
mod rows;
mod sample_from_datasets;
mod scan;
mod sparse_batch;
mod unbatch;
mod weave;
mod window;
mod with_options;

use crate::element::{DType, Spec, Tensor};
use crate::error::{Error, Result};
use crate::expr::{Graph, Kind};
use crate::op::{Function, OpInfo, Props};
use crate::plan::{Bound, Plan};
use crate::runtime::BuildCx;

/// Every operator.
pub static OPS: &[&OpInfo] = &[
    &batch::INFO,
    &choose_from_datasets::INFO,
    &flat_map::INFO,
    &group_by_reducer::INFO,
    &group_by_window::INFO,
    &interleave::INFO,
    &map::INFO,
    &nested::INFO,
    &padded_batch::INFO,
    &ragged_batch::INFO,
    &range::INFO,
    &rebatch::INFO,
    &rows::INFO,
    &sample_from_datasets::INFO,
    &scan::INFO,
    &sparse_batch::INFO,
    &unbatch::INFO,
    &window::INFO,
    &with_options::INFO,
];

pub fn find(name: &str) -> Result<&'static OpInfo> {
    OPS.iter().copied().find(|i| i.name == name).ok_or_else(|| Error::usage(format!("there is no operator {name:?}")))
}

/// `rows` numbers of that dtype, computed as int64 and wrapped or converted.
fn counted(dtype: DType, rows: usize, at: impl Fn(usize) -> i64) -> Tensor {
    let mut tensor = Tensor::new(dtype, [rows]);
    macro_rules! fill {
        ($t:ty, $convert:expr) => {
            tensor.items_mut::<$t>().iter_mut().enumerate().for_each(|(i, x)| *x = $convert(at(i)))
        };
    }
    match dtype {
        DType::Int8 => fill!(i8, |x| x as i8),
        DType::Int16 => fill!(i16, |x| x as i16),
        DType::Int32 => fill!(i32, |x| x as i32),
        DType::Int64 => fill!(i64, |x| x),
        DType::Uint8 => fill!(u8, |x| x as u8),
        DType::Uint16 => fill!(u16, |x| x as u16),
        DType::Uint32 => fill!(u32, |x| x as u32),
        DType::Uint64 => fill!(u64, |x| x as u64),
        DType::Float16 => fill!(half::f16, |x| half::f16::from_f64(x as f64)),
        DType::Bfloat16 => fill!(half::bf16, |x| half::bf16::from_f64(x as f64)),
        DType::Float32 => fill!(f32, |x| x as f32),
        DType::Float64 => fill!(f64, |x| x as f64),
        DType::Bool | DType::String => unreachable!("refused when the plan was built"),
    }
    tensor
}

/// Refuses 0 and numbers below AUTOTUNE.
fn check_parallel(calls: Option<i64>) -> Result<()> {
    match calls {
        Some(n) if n == 0 || n < -1 => {
            Err(Error::usage(format!("num_parallel_calls must be positive or AUTOTUNE (-1), not {n}")))
        }
        _ => Ok(()),
    }
}

/// `num_parallel_calls` as a cap: AUTOTUNE is none. `None` (unset) stays: the operator decides.
fn cap(calls: Option<i64>) -> Option<usize> {
    calls.map(|n| usize::try_from(n).unwrap_or(usize::MAX))
}

/// Whether an operator keeps the order: its own word, else the pipeline's; serial operators always do.
fn ordered(cx: &BuildCx, calls: Option<i64>, own: Option<bool>) -> bool {
    calls.is_none() || own.or(cx.run.options.deterministic).unwrap_or(true)
}

/// A function that carries a state must give it back with the same structure and dtypes; shapes may change.
pub(crate) fn check_state(before: &Spec, after: &Spec) -> Result<()> {
    before.join(after).map(|_| ()).map_err(|_| {
        Error::usage(format!(
            "the function must return a state of the structure and dtypes that it got, {before}, but returns {after}; cast it"
        ))
    })
}

/// What functions and the datasets inside them make of the operator that calls them.
fn function_props(functions: &[&Function]) -> Props {
    let mut props = Props::default();
    for function in functions {
        let graph = &function.0;
        props.host |= map::is_serial_host(graph);
        props.pure &= graph.is_pure();
        for_each_dataset(graph, &mut |plan| {
            let own = plan.op.props();
            props.host |= own.host;
            props.pure &= own.pure;
        });
    }
    props
}

/// Every operator of every dataset that a function contains.
fn for_each_dataset(graph: &Graph, f: &mut impl FnMut(&Plan)) {
    for node in &graph.nodes {
        match &node.kind {
            Kind::Dataset(nested) => {
                if let Some(bound) = nested.0.as_any().downcast_ref::<Bound>() {
                    bound.plan.walk(f);
                }
            }
            Kind::Cond { then, otherwise, .. } => {
                for_each_dataset(then, f);
                for_each_dataset(otherwise, f);
            }
            _ => {}
        }
    }
}
