//! The treaty between traced expressions and the functions they call: a `Func` checks types when it is traced and makes a
//! `Kernel`, which computes rows. One table (`funcs::FUNCS`) lists them all.

use crate::element::{Column, DType, Element, Leaf, Pos, Slot, Value};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::sync::Arc;

/// A function that expressions can call. Names are TensorFlow's, with a dotted module (`strings.length`).
pub struct Func {
    pub name: &'static str,
    /// One sentence for the reference page.
    pub doc: &'static str,
    /// Types out and the code to run, from the types in and the attributes. Refuses what cannot work.
    pub make: fn(&[Leaf], &Attrs) -> Result<Made>,
    /// False if the result depends on more than the arguments (random numbers): never folded into a constant.
    pub pure: bool,
}

pub struct Made {
    /// Of the result; absent for a function of several.
    pub spec: Leaf,
    pub work: Work,
}

impl Made {
    pub fn new(spec: Leaf, kernel: impl Kernel + 'static) -> Result<Made> {
        Ok(Made { spec, work: Work::One(Arc::new(kernel)) })
    }
    /// A function of several results.
    pub fn several(specs: Vec<Leaf>, kernel: impl Several + 'static) -> Result<Made> {
        Ok(Made { spec: Leaf::Absent, work: Work::Several(specs.into(), Arc::new(kernel)) })
    }
    /// What computes the only result.
    pub fn kernel(&self) -> &Arc<dyn Kernel> {
        match &self.work {
            Work::One(kernel) => kernel,
            Work::Several(..) => panic!("a function of several results where one is expected"),
        }
    }
    /// The specs of all results.
    pub fn specs(&self) -> &[Leaf] {
        match &self.work {
            Work::One(_) => std::slice::from_ref(&self.spec),
            Work::Several(specs, _) => specs,
        }
    }
}

/// What a call runs.
#[derive(Clone)]
pub enum Work {
    One(Arc<dyn Kernel>),
    /// With the specs of its results, which parts of the call name.
    Several(Arc<[Leaf]>, Arc<dyn Several>),
}

impl Work {
    /// All results for one element.
    pub fn row(&self, args: &[Value], at: RowAt) -> Result<Element> {
        match self {
            Work::One(kernel) => Ok(smallvec::smallvec![kernel.row(args, at)?]),
            Work::Several(_, kernel) => kernel.row(args, at),
        }
    }
}

/// Where a row stands: what random numbers depend on.
#[derive(Clone, Copy, Debug)]
pub struct RowAt {
    pub epoch: u64,
    pub pos: u64,
}

/// The same for the rows of a chunk.
#[derive(Clone, Copy, Debug)]
pub struct RowsAt<'a> {
    pub epoch: u64,
    pub pos: &'a Pos,
}

impl RowsAt<'_> {
    pub fn row(&self, row: usize) -> RowAt {
        RowAt { epoch: self.epoch, pos: self.pos.at(row) }
    }
}

/// An argument of a whole chunk: a value for each row, or one for all.
#[derive(Clone, Debug)]
pub enum Arg {
    Rows(Column),
    Same(Value),
}

impl Arg {
    pub fn get(&self, row: usize) -> Value {
        match self {
            Arg::Rows(c) => c.get(row),
            Arg::Same(v) => v.clone(),
        }
    }
    pub fn slice(&self, rows: std::ops::Range<usize>) -> Arg {
        match self {
            Arg::Rows(c) => Arg::Rows(c.slice(rows)),
            same => same.clone(),
        }
    }
    pub fn take(&self, index: &[usize]) -> Arg {
        match self {
            Arg::Rows(c) => Arg::Rows(c.take(index)),
            same => same.clone(),
        }
    }
    pub fn into_column(self, rows: usize) -> Column {
        match self {
            Arg::Rows(c) => c,
            Arg::Same(v) => Column::repeated(&v, rows),
        }
    }
}

/// What runs. `row` is the meaning; `rows` a faster way to the same results.
pub trait Kernel: Send + Sync {
    /// One element's arguments to one result. Fails for that element only.
    fn row(&self, args: &[Value], at: RowAt) -> Result<Value>;

    /// All rows at once, or `Ok(None)` if these arguments want `row` (then `args` must be left as they were). On
    /// success it may have taken the arguments apart: a tensor that nobody else holds can be overwritten in place.
    fn rows(&self, _args: &mut [Arg], _rows: usize, _at: RowsAt<'_>) -> Result<Option<Column>> {
        Ok(None)
    }

    /// Whether `rows` overwrites an argument that has the type of the result, where it can. The memory in which the
    /// result belongs is then offered to whoever makes that argument.
    fn overwrites(&self) -> bool {
        false
    }
}

/// The same for a function of several results, as a parser has.
pub trait Several: Send + Sync {
    fn row(&self, args: &[Value], at: RowAt) -> Result<Element>;

    fn rows(&self, _args: &mut [Arg], _rows: usize, _at: RowsAt<'_>) -> Result<Option<Vec<Column>>> {
        Ok(None)
    }
}

/// Runs a kernel of several results over a chunk.
pub fn run_several(
    kernel: &dyn Several,
    mut args: Vec<Arg>,
    outputs: usize,
    rows: usize,
    at: RowsAt<'_>,
) -> Result<Vec<Column>> {
    if let Some(columns) = kernel.rows(&mut args, rows, at)? {
        return Ok(columns);
    }
    let mut columns: Vec<Vec<Value>> = (0..outputs).map(|_| Vec::with_capacity(rows)).collect();
    for row in 0..rows {
        let row_args: Vec<Value> = args.iter().map(|a| a.get(row)).collect();
        columns.iter_mut().zip(kernel.row(&row_args, at.row(row))?).for_each(|(c, v)| c.push(v));
    }
    Ok(columns.into_iter().map(Column::from_values).collect())
}

/// Runs a kernel over a chunk by whichever way fits; in `slot`, if it makes its result there.
pub fn run(
    kernel: &dyn Kernel,
    mut args: Vec<Arg>,
    rows: usize,
    at: RowsAt<'_>,
    mut slot: Option<&mut Slot>,
) -> Result<Column> {
    if let Some(column) = offered(&mut slot, rows, || kernel.rows(&mut args, rows, at))? {
        return Ok(column);
    }
    let mut values = Vec::with_capacity(rows);
    let mut row_args = Vec::with_capacity(args.len());
    for row in 0..rows {
        row_args.clear();
        row_args.extend(args.iter().map(|a| a.get(row)));
        values.push(offered(&mut slot, 1, || kernel.row(&row_args, at.row(row)))?);
    }
    Ok(Column::from_values(values))
}

fn offered<R>(slot: &mut Option<&mut Slot>, rows: usize, f: impl FnOnce() -> R) -> R {
    match slot {
        Some(slot) => slot.offer(rows, f),
        None => f(),
    }
}

/// A kernel from a plain function of the arguments.
pub struct ByRow<F>(pub F);

impl<F: Fn(&[Value]) -> Result<Value> + Send + Sync> Kernel for ByRow<F> {
    fn row(&self, args: &[Value], _at: RowAt) -> Result<Value> {
        (self.0)(args)
    }
}

/// The constant attributes of a call (`axis`, `dtype`, …): a JSON object with typed access.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Attrs(pub serde_json::Map<String, Json>);

impl Attrs {
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.0.get(name).filter(|v| !v.is_null())
    }
    fn typed<'a, T>(&'a self, name: &str, what: &str, f: impl Fn(&'a Json) -> Option<T>) -> Result<Option<T>> {
        match self.get(name) {
            None => Ok(None),
            Some(v) => f(v).map(Some).ok_or_else(|| Error::usage(format!("{name} must be {what}, not {v}"))),
        }
    }
    pub fn i64(&self, name: &str) -> Result<Option<i64>> {
        self.typed(name, "an integer", Json::as_i64)
    }
    pub fn f64(&self, name: &str) -> Result<Option<f64>> {
        self.typed(name, "a number", Json::as_f64)
    }
    pub fn bool(&self, name: &str) -> Result<Option<bool>> {
        self.typed(name, "True or False", Json::as_bool)
    }
    pub fn str(&self, name: &str) -> Result<Option<&str>> {
        self.typed(name, "a string", Json::as_str)
    }
    /// A list of integers; a single one counts as a list of one. `null` inside becomes -1.
    pub fn i64s(&self, name: &str) -> Result<Option<Vec<i64>>> {
        self.typed(name, "an integer or a list of integers", |v| match v {
            Json::Array(list) => list.iter().map(|v| if v.is_null() { Some(-1) } else { v.as_i64() }).collect(),
            v => Some(vec![v.as_i64()?]),
        })
    }
    pub fn dtype(&self, name: &str) -> Result<Option<DType>> {
        self.str(name)?.map(DType::parse).transpose()
    }
    pub fn need<T>(&self, name: &str, found: Option<T>) -> Result<T> {
        found.ok_or_else(|| Error::usage(format!("{name} is missing")))
    }
}

/// The only argument, two arguments, … or an error that says how many are wanted.
pub fn arity<const N: usize>(args: &[Leaf]) -> Result<&[Leaf; N]> {
    args.try_into().map_err(|_| Error::usage(format!("takes {N} arguments, {} given", args.len())))
}

/// The dtype of a dense tensor argument, or an error that names the argument.
pub fn dense(args: &[Leaf], i: usize) -> Result<(DType, &crate::element::Dims)> {
    match args.get(i) {
        Some(Leaf::Tensor { dtype, shape }) => Ok((*dtype, shape)),
        Some(other) => Err(Error::usage(format!("argument {i} must be a dense tensor, not {other}"))),
        None => Err(Error::usage(format!("argument {i} is missing"))),
    }
}
