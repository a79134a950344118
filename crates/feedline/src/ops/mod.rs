//! The operators, one file each. Adding one: a file, and two lines here. `tests` compares the folder with the table.

#[cfg(feature = "columnar")]
pub mod arrow;
#[cfg(feature = "columnar")]
mod arrow_arrays;
mod assert_cardinality;
mod batch;
mod batches;
mod cache;
#[cfg(test)]
mod check;
mod choose_from_datasets;
mod concatenate;
mod counter;
mod csv;
mod enumerate;
pub mod filter;
mod fixed_length_record;
mod flat_map;
pub mod from_generator;
mod from_list;
mod from_tensor_slices;
mod from_tensors;
mod group_by_reducer;
mod group_by_window;
mod held;
mod ignore_errors;
mod interleave;
mod json_lines;
#[cfg(feature = "columnar")]
mod kept_files;
#[cfg(feature = "columnar")]
mod kept_set;
#[cfg(feature = "columnar")]
mod load;
pub mod map;
mod map_away;
mod nested;
pub mod numpy;
mod padded_batch;
#[cfg(feature = "columnar")]
pub mod parquet;
pub(crate) mod parts;
mod prefetch;
mod ragged_batch;
mod random;
mod range;
mod rebatch;
mod record_files;
mod repeat;
mod rows;
mod runs;
mod sample_from_datasets;
mod scan;
pub mod shard;
mod shuffle;
mod skip;
#[cfg(feature = "columnar")]
mod snapshot;
mod sparse_batch;
#[cfg(feature = "columnar")]
mod stored_set;
mod table;
mod take;
mod take_while;
mod text_line;
mod tf_record;
mod unbatch;
mod unique;
#[cfg(feature = "columnar")]
mod wanted_columns;
mod weave;
mod web_dataset;
mod window;
mod with_options;
mod with_origin;
mod zip;

use crate::element::{Chunk, DType, Pos, Spec, Tensor};
use crate::error::{Error, Result};
use crate::op::{Function, OpInfo, Props};
use crate::options::OnError;
use crate::plan::{Card, Plan};
use crate::runtime::{At, BuildCx, EndsBelow, Mark, PassSeeds, Stage, Taken, unfit};

/// Every operator.
pub static OPS: &[&OpInfo] = &[
    #[cfg(feature = "columnar")]
    &arrow::INFO,
    &assert_cardinality::INFO,
    &batch::INFO,
    &cache::INFO,
    &choose_from_datasets::INFO,
    &concatenate::INFO,
    &counter::INFO,
    &csv::INFO,
    &enumerate::INFO,
    &filter::INFO,
    &fixed_length_record::INFO,
    &flat_map::INFO,
    &from_generator::INFO,
    &from_list::INFO,
    &from_tensor_slices::INFO,
    &from_tensors::INFO,
    &group_by_reducer::INFO,
    &group_by_window::INFO,
    &ignore_errors::INFO,
    &interleave::INFO,
    &json_lines::INFO,
    #[cfg(feature = "columnar")]
    &load::INFO,
    &map::INFO,
    &nested::INFO,
    &numpy::INFO,
    &padded_batch::INFO,
    #[cfg(feature = "columnar")]
    &parquet::INFO,
    &prefetch::INFO,
    &ragged_batch::INFO,
    &random::INFO,
    &range::INFO,
    &rebatch::INFO,
    &repeat::INFO,
    &rows::INFO,
    &sample_from_datasets::INFO,
    &scan::INFO,
    &shard::INFO,
    &shuffle::INFO,
    &skip::INFO,
    #[cfg(feature = "columnar")]
    &snapshot::INFO,
    &sparse_batch::INFO,
    &take::INFO,
    &take_while::INFO,
    &text_line::INFO,
    &tf_record::INFO,
    &unbatch::INFO,
    &unique::INFO,
    &web_dataset::INFO,
    &window::INFO,
    &with_options::INFO,
    &with_origin::INFO,
    &zip::INFO,
];

pub fn find(name: &str) -> Result<&'static OpInfo> {
    OPS.iter().copied().find(|i| i.name == name).ok_or_else(|| Error::usage(format!("there is no operator {name:?}")))
}

/// Refuses another number of inputs than the operator reads. Those that are not named here read one.
pub(crate) fn check_inputs(name: &str, given: usize) -> Result<()> {
    let needed = match name {
        "arrow"
        | "counter"
        | "csv"
        | "fixed_length_record"
        | "from_generator"
        | "from_list"
        | "from_tensor_slices"
        | "from_tensors"
        | "json_lines"
        | "load"
        | "nested"
        | "numpy"
        | "parquet"
        | "random"
        | "range"
        | "rows"
        | "text_line"
        | "tf_record"
        | "web_dataset" => 0,
        // These have their own words for too few.
        "choose_from_datasets" | "concatenate" | "parts" | "sample_from_datasets" | "zip" => return Ok(()),
        _ => 1,
    };
    if given == needed {
        return Ok(());
    }
    Err(Error::usage(format!("{name}: {given} input datasets were given; it needs {needed}")))
}

/// Files and columns as `explain` shows them: the first file stands for all.
fn show_files(files: &[String], columns: Option<&[String]>) -> String {
    let first = files.first().map_or("", |f| f.as_str());
    let more = if files.len() > 1 { format!(" and {} more", files.len() - 1) } else { String::new() };
    let columns = columns.map_or(String::new(), |c| format!(", columns={c:?}"));
    format!("{first}{more}{columns}")
}

/// How many elements are left of so many where those that fail may be left out.
fn after_errors(card: Card, on_error: Option<OnError>) -> Card {
    match (card, on_error) {
        (Card::Known(n), Some(OnError::Skip | OnError::Quarantine)) if n > 0 => Card::Unknown,
        _ => card,
    }
}

/// What an operator does with errors, behind its other parameters.
fn show_on_error(on_error: Option<OnError>) -> &'static str {
    match on_error {
        None => "",
        Some(OnError::Raise) => ", on_error=raise",
        Some(OnError::Skip) => ", on_error=skip",
        Some(OnError::Quarantine) => ", on_error=quarantine",
    }
}

/// What an operator reads until it needs no more of it: then it is let go, so that whatever works ahead stops and files are
/// closed. Copies that read again what was read before are sent from place to place: they keep it, and come back.
struct Open<T> {
    input: Option<T>,
    ended: bool,
    keeps: bool,
    below: EndsBelow,
}

impl<T> Open<T> {
    /// A stage of these inputs, or several of them. `cx` has the ends of those who read it.
    fn new(cx: &BuildCx, inputs: &[Plan], input: T) -> Open<T> {
        Open { input: Some(input), ended: false, keeps: cx.is_sent_about(), below: EndsBelow::new(cx, inputs) }
    }
    /// What is read, unless it has ended: then it is let go.
    fn get(&mut self) -> Option<&mut T> {
        if self.ended {
            self.let_go();
        }
        self.if_open()
    }
    /// The same for whoever only looks.
    fn if_open(&mut self) -> Option<&mut T> {
        self.input.as_mut().filter(|_| !self.ended)
    }
    fn is_open(&self) -> bool {
        !self.ended
    }
    /// No more is needed.
    fn end(&mut self) {
        self.ended = true;
        self.below.note();
        self.let_go();
    }
    fn let_go(&mut self) {
        if !self.keeps {
            self.input = None;
        }
    }
    /// What a state says. One that has ended there is let go when somebody pulls: until then it may be sent elsewhere.
    fn set_open(&mut self, open: bool) -> Result<Option<&mut T>> {
        self.ended = !open;
        if open { self.input.as_mut().ok_or_else(unfit).map(Some) } else { Ok(None) }
    }
}

impl Open<Box<dyn Stage>> {
    fn mark(&mut self, out: &mut Mark) {
        out.flag(self.is_open());
        match self.if_open() {
            Some(input) => input.mark(out),
            None => self.below.mark(out),
        }
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        match self.set_open(at.flag()?)? {
            Some(input) => input.seek(at),
            None => self.below.seek(at),
        }
    }
}

/// These rows of a chunk (in rising order), without a copy if they are neighbours.
fn kept(chunk: Chunk, rows: &[usize]) -> Chunk {
    match (rows.first(), rows.last()) {
        (Some(0), _) if rows.len() == chunk.rows() => chunk,
        (Some(&first), Some(&last)) if last - first + 1 == rows.len() => chunk.slice(first..last + 1),
        _ => chunk.take(rows),
    }
}

/// The rows of all parts with the positions that they have.
fn joined(parts: &[Chunk]) -> Chunk {
    if let [one] = parts {
        return one.clone();
    }
    let mut next = parts[0].pos.at(0);
    let run = parts.iter().all(|c| {
        let follows = c.pos == Pos::Run(next);
        next += c.rows() as u64;
        follows
    });
    let pos = match run {
        true => parts[0].pos.clone(),
        false => Pos::picked(parts.iter().flat_map(|c| (0..c.rows()).map(|r| (&c.pos, r)))),
    };
    Chunk::concat(pos, parts)
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
        let mut add = |plan: &Plan| {
            let own = plan.op.props();
            // Inside of a function there is nobody to wait but the one who calls it.
            props.host |= own.host || plan.is::<map::Map>().is_some_and(|map| map.workers.is_some());
            props.pure &= own.pure;
        };
        function.each_dataset(&mut |dataset| dataset.plan.walk(&mut add));
    }
    props
}

/// The seeds that datasets inside these functions take whenever one is opened, and with what they are.
fn seeds_taken(cx: &BuildCx, functions: &[&Function]) -> (Taken, BuildCx) {
    /// Those of functions inside of functions, too.
    fn find(function: &Function, out: &mut Vec<std::sync::Arc<PassSeeds>>) {
        let mut add = |plan: &Plan| {
            out.extend(plan.op.seeds().cloned());
            plan.op.functions().into_iter().for_each(|function| find(function, out));
        };
        function.each_dataset(&mut |dataset| dataset.plan.walk(&mut add));
    }
    let mut seeds = Vec::new();
    functions.iter().for_each(|function| find(function, &mut seeds));
    Taken::of(cx, &seeds)
}

#[cfg(test)]
pub(crate) mod testing {
    //! What the operators' own tests share.

    use super::find;
    use crate::dataset::Dataset;
    use crate::element::Spec;
    use crate::error::{Error, Result};
    use crate::options::Options;
    use crate::plan::Plan;

    /// A source from its written parameters.
    pub fn source(name: &str, params: serde_json::Value) -> Result<Dataset> {
        Ok(Dataset::from_plan(Plan::new((find(name)?.read)(params)?, vec![])?))
    }
    /// The int64 scalars of a dataset that does not fail.
    pub fn ints(ds: &Dataset) -> Vec<i64> {
        ds.iter().unwrap().map(|e| e.unwrap()[0].tensor().item()).collect()
    }
    /// `0..n` in which some numbers fail.
    pub fn failing(n: i64, bad: &[i64]) -> Dataset {
        let bad = bad.to_vec();
        let check = move |e: crate::element::Element| match bad.contains(&e[0].tensor().item()) {
            true => Err(Error::data("bad")),
            false => Ok(e),
        };
        Dataset::range(n).unwrap().map_fn(Spec::scalar(crate::element::DType::Int64), check).unwrap()
    }
    /// All elements as text: components with commas, errors as `!`.
    pub fn events(ds: &Dataset) -> String {
        let show = |e: Result<crate::element::Element>| match e {
            Ok(e) => e.iter().map(|v| v.tensor().item::<i64>().to_string()).collect::<Vec<_>>().join(","),
            Err(_) => "!".into(),
        };
        ds.iter().unwrap().map(show).collect::<Vec<String>>().join(" ")
    }
    /// Waits for what a worker does a moment later.
    pub fn until(done: impl Fn() -> bool) {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while !done() {
            assert!(std::time::Instant::now() < end, "it does not come to that");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
    /// The same dataset, run in chunks of that many rows.
    pub fn in_chunks(ds: &Dataset, rows: usize) -> Dataset {
        ds.with_options(Options { chunk_rows: Some(rows), ..Options::default() }).unwrap()
    }
}
