//! Reading `tf.train.Example` and `tf.train.SequenceExample`: `io.parse_example` and its kin.
//!
//! 1. `feature.rs` is what is asked for. A feature of the result may need several of the record (values and their places),
//!    and several may need the same one: `Plan` finds what must be read.
//! 2. `columns.rs` goes over all records of a chunk once and makes a column of values for each of those.
//! 3. `shapes.rs` makes results of the columns: what is dense is done already.
//!
//! One record a row and a batch of records a row differ in the third step only.

mod columns;
mod feature;
mod shapes;

use super::super::{Arg, Attrs, Func, Made, RowAt, RowsAt, Several, dense};
use crate::element::{Column, DType, Dims, Element, Leaf, Shape, Tensor, Value, count};
use crate::error::{Error, Result};
use columns::{Columns, Count, Need, Record, Values};
use feature::{Feature, Kind, stored};
use feedline_formats::example::Stored;
use shapes::{Cuts, Part, Places, iota, items, padded, sparse_rows, sparse_vector, start};
use std::ops::Range;

pub static FUNCS: &[Func] = &[
    Func {
        name: "io.parse_example",
        doc: "The features of serialized Examples, by name.",
        make: |args, attrs| make(args, attrs, Form::Example, None),
        pure: true,
    },
    Func {
        name: "io.parse_single_example",
        doc: "The features of one serialized Example, by name.",
        make: |args, attrs| make(args, attrs, Form::Example, Some(0)),
        pure: true,
    },
    Func {
        name: "io.parse_sequence_example",
        doc: "The context, the feature lists and their lengths of serialized SequenceExamples.",
        make: |args, attrs| make(args, attrs, Form::SequenceExample, Some(1)),
        pure: true,
    },
    Func {
        name: "io.parse_single_sequence_example",
        doc: "The context and the feature lists of one serialized SequenceExample.",
        make: |args, attrs| make(args, attrs, Form::SequenceExample, Some(0)),
        pure: true,
    },
];

#[derive(Clone, Copy, PartialEq)]
enum Form {
    Example,
    SequenceExample,
}

/// What must be read for some features, and from which of it each is made.
#[derive(Default)]
struct Plan {
    features: Vec<Feature>,
    needs: Vec<Need>,
    /// For each feature: its values, then those that say where they belong.
    reads: Vec<Vec<usize>>,
}

impl Plan {
    fn new(features: Vec<Feature>, args: &[Leaf], in_list: bool) -> Result<Plan> {
        let mut plan = Plan::default();
        for feature in features {
            feature.check(args, in_list)?;
            if plan.features.iter().any(|f| f.name == feature.name) {
                return Err(Error::usage(format!("feature {:?} is asked for twice", feature.name)));
            }
            let values = stored(&feature.name, feature.dtype)?;
            let mut reads = Vec::new();
            let any = Count::Any { of: 1 };
            match &feature.kind {
                Kind::Fixed { shape, default } => {
                    reads.push(plan.need(&feature.name, values, Count::fixed(shape, *default)?, false));
                }
                // Each step of a list is one item; in an Example the items follow each other.
                Kind::Sequence { shape, allow_missing, .. } if in_list => {
                    reads.push(plan.need(&feature.name, values, Count::fixed(shape, None)?, !allow_missing));
                }
                Kind::Sequence { shape, .. } => {
                    reads.push(plan.need(&feature.name, values, Count::Any { of: count(shape)? }, false));
                }
                Kind::Varlen => reads.push(plan.need(&feature.name, values, any, false)),
                Kind::Sparse { value, index, .. } => {
                    reads.push(plan.need(value, values, any.clone(), false));
                    index.iter().for_each(|key| reads.push(plan.need(key, Stored::Ints, any.clone(), false)));
                }
                Kind::Ragged { value, partitions, .. } => {
                    reads.push(plan.need(value, values, any.clone(), false));
                    let keys = partitions.iter().filter_map(|p| p.key());
                    keys.for_each(|key| reads.push(plan.need(key, Stored::Ints, any.clone(), false)));
                }
            }
            plan.reads.push(reads);
            plan.features.push(feature);
        }
        Ok(plan)
    }

    /// The number of a need; equal ones are read once.
    fn need(&mut self, key: &str, stored: Stored, count: Count, required: bool) -> usize {
        let need = Need { key: key.into(), stored, count, required };
        self.needs.iter().position(|n| *n == need).unwrap_or_else(|| {
            self.needs.push(need);
            self.needs.len() - 1
        })
    }
}

impl Feature {
    fn places<'a>(&'a self, parts: &[Part<'a>]) -> Option<Places<'a>> {
        let Kind::Sparse { size, sorted, .. } = &self.kind else { return None };
        let (values, indices) = (parts[0], parts[1..].to_vec());
        Some(Places { name: &self.name, values, indices, size, sorted: *sorted })
    }
    fn cuts<'a>(&'a self, parts: &[Part<'a>]) -> Option<Cuts<'a>> {
        let Kind::Ragged { partitions, splits, .. } = &self.kind else { return None };
        let mut said = parts[1..].iter().copied();
        let partitions = partitions.iter().map(|p| (p, p.key().and_then(|_| said.next()))).collect();
        Some(Cuts { name: &self.name, values: parts[0], partitions, splits: *splits })
    }

    /// The results for all rows. Each row has `per` records, and an axis for them if they are a `batch`.
    fn column(
        &self,
        columns: &[Values],
        reads: &[usize],
        rows: usize,
        batch: Option<usize>,
        args: &Args<'_>,
    ) -> Result<Column> {
        let per = batch.unwrap_or(1);
        if let (Kind::Fixed { .. }, Values::Fixed(tensor)) = (&self.kind, &columns[reads[0]]) {
            let Some(n) = batch else { return Ok(Column::Dense(tensor.clone())) };
            let shape: Shape = [rows, n].into_iter().chain(tensor.shape()[1..].iter().copied()).collect();
            return Ok(Column::Dense(tensor.reshaped(shape)));
        }
        let parts: Vec<Part<'_>> = reads.iter().map(|&r| columns[r].any()).collect();
        let (values, ends) = parts[0];
        let units = |row: usize| row * per..(row + 1) * per;
        let range = |units: &Range<usize>| start(ends, units.start)..start(ends, units.end);
        // Rows of equal length are one tensor.
        let first = ends.first().copied().unwrap_or(0);
        let even = batch.is_none() && rows > 0 && ends.iter().enumerate().all(|(i, &end)| end == (i + 1) * first);
        let made: Result<Vec<Value>> = match &self.kind {
            Kind::Sequence { shape, .. } if even => {
                let n = items(values, 0..first, shape).rows();
                let shape: Shape = [rows, n].into_iter().chain(shape.iter().copied()).collect();
                return Ok(Column::Dense(values.reshaped(shape)));
            }
            Kind::Ragged { partitions, .. } if even && partitions.is_empty() => {
                return Ok(Column::Dense(values.reshaped([rows, first])));
            }
            Kind::Sequence { shape, .. } if batch.is_none() => {
                (0..rows).map(|row| Ok(Value::Tensor(items(values, range(&units(row)), shape)))).collect()
            }
            Kind::Sequence { shape, default, .. } => (0..rows)
                .map(|row| {
                    let default = default.map(|d| args.get(d, row));
                    let default = default.as_ref().map(|d| d.tensor());
                    Ok(Value::Tensor(padded(values, ends, units(row), shape, default)?))
                })
                .collect(),
            Kind::Varlen if batch.is_none() => {
                let longest = (0..rows).map(|row| range(&units(row)).len()).max().unwrap_or(0);
                let iota = iota(longest);
                Ok((0..rows).map(|row| sparse_vector(values, range(&units(row)), &iota)).collect())
            }
            Kind::Varlen => Ok((0..rows).map(|row| sparse_rows(values, ends, units(row), None)).collect()),
            Kind::Sparse { .. } => {
                let places = self.places(&parts).expect("a sparse feature");
                (0..rows).map(|row| places.sparse(units(row), batch.is_some())).collect()
            }
            Kind::Ragged { .. } => {
                let cuts = self.cuts(&parts).expect("a ragged feature");
                (0..rows).map(|row| cuts.ragged(units(row), batch.is_some(), None)).collect()
            }
            Kind::Fixed { .. } => unreachable!("read as a tensor"),
        };
        Ok(Column::from_values(made?))
    }

    /// The result of a feature list in one row. `steps` are the ends of its records' steps.
    fn list(&self, parts: &[Part<'_>], steps: &[usize], records: Range<usize>, batched: bool) -> Result<Value> {
        let (values, ends) = parts[0];
        let units = start(steps, records.start)..start(steps, records.end);
        let groups = batched.then(|| &steps[records.clone()]);
        match &self.kind {
            Kind::Sequence { shape, .. } if batched => {
                let of = shape.iter().product::<usize>();
                let record_ends: Vec<usize> = steps.iter().map(|step| step * of).collect();
                padded(values, &record_ends, records, shape, None).map(Value::Tensor)
            }
            Kind::Sequence { shape, .. } => {
                let n = units.len();
                let shape: Shape = std::iter::once(n).chain(shape.iter().copied()).collect();
                let range = start(ends, units.start)..start(ends, units.end);
                Ok(Value::Tensor(values.slice(range).into_reshaped(shape)))
            }
            Kind::Varlen => Ok(sparse_rows(values, ends, units, groups)),
            Kind::Ragged { .. } => self.cuts(parts).expect("a ragged feature").ragged(units, true, groups),
            Kind::Fixed { .. } | Kind::Sparse { .. } => unreachable!("refused for lists"),
        }
    }
}

/// The arguments of the call, of which the first are the records and the others defaults.
enum Args<'a> {
    Row(&'a [Value]),
    Rows(&'a [Arg]),
}

impl Args<'_> {
    fn get(&self, number: usize, row: usize) -> Value {
        match self {
            Args::Row(values) => values[number].clone(),
            Args::Rows(args) => args[number].get(row),
        }
    }
}

struct Parse {
    features: Plan,
    columns: Columns,
    /// Of SequenceExamples.
    lists: Option<(Plan, Columns)>,
    batched: bool,
}

impl Parse {
    fn run(&self, records: &[Record<'_>], rows: usize, args: Args<'_>) -> Result<Vec<Column>> {
        let batch = self.batched.then(|| records.len().checked_div(rows).unwrap_or(0));
        let per = batch.unwrap_or(1);
        let default = |number: usize, record: usize| args.get(number, record / per.max(1));
        let columns = self.columns.read(records, &default)?;
        let Plan { features, reads, .. } = &self.features;
        let context = features.iter().zip(reads).map(|(f, reads)| f.column(&columns, reads, rows, batch, &args));
        let mut out = context.collect::<Result<Vec<_>>>()?;
        let Some((Plan { features, reads, .. }, columns)) = &self.lists else { return Ok(out) };
        let columns = columns.read_lists(records)?;
        let records = |row: usize| row * per..(row + 1) * per;
        for (feature, reads) in features.iter().zip(reads) {
            // The lists that say how values are cut have the steps of the values, or the cutting tells.
            let steps = &columns[reads[0]].1;
            let parts: Vec<Part<'_>> = reads.iter().map(|&r| columns[r].0.any()).collect();
            if let Some(&odd) = reads.iter().find(|&&r| columns[r].1 != *steps) {
                let (name, key) = (&feature.name, &self.lists.as_ref().expect("it has lists").0.needs[odd].key);
                return Err(Error::data(format!("feature list {name:?} and {key:?}, which cuts it, differ in steps")));
            }
            let values = (0..rows).map(|row| feature.list(&parts, steps, records(row), self.batched));
            out.push(Column::from_values(values.collect::<Result<Vec<_>>>()?));
        }
        if let Some(n) = batch {
            for (_, reads) in features.iter().zip(reads).filter(|(f, _)| matches!(f.kind, Kind::Sequence { .. })) {
                let steps = &columns[reads[0]].1;
                let lengths: Vec<i64> = (0..steps.len()).map(|i| (steps[i] - start(steps, i)) as i64).collect();
                out.push(Column::Dense(Tensor::from_items([rows, n], &lengths)));
            }
        }
        Ok(out)
    }
}

impl Several for Parse {
    fn row(&self, args: &[Value], _at: RowAt) -> Result<Element> {
        let serialized = args[0].tensor();
        let rank = usize::from(self.batched);
        if serialized.rank() != rank {
            let what = if self.batched { "a vector of strings" } else { "one string" };
            let have = serialized.shape();
            return Err(Error::data(format!("the records must be {what}, but have shape {have:?}")));
        }
        let records: Vec<Record<'_>> = (0..serialized.len()).map(|i| Record::new(serialized, i)).collect();
        let columns = self.run(&records, 1, Args::Row(args))?;
        Ok(columns.iter().map(|c| c.get(0)).collect())
    }

    fn rows(&self, args: &mut [Arg], rows: usize, _at: RowsAt<'_>) -> Result<Option<Vec<Column>>> {
        let Arg::Rows(column) = &args[0] else { return Ok(None) };
        let records: Vec<Record<'_>> = match column {
            Column::Dense(t) if t.rank() == 1 + usize::from(self.batched) => {
                (0..t.len()).map(|i| Record::new(t, i)).collect()
            }
            // Long strings travel one by one.
            Column::Rows(values, range) if !self.batched && rows > 0 => {
                let scalars = values[range.clone()].iter().map(|v| v.as_tensor().filter(|t| t.rank() == 0));
                match scalars.map(|t| Some(Record::new(t?, 0))).collect() {
                    Some(records) => records,
                    None => return Ok(None),
                }
            }
            _ => return Ok(None),
        };
        self.run(&records, rows, Args::Rows(args)).map(Some)
    }
}

fn features(attrs: &Attrs, name: &str) -> Result<Vec<Feature>> {
    match attrs.get(name) {
        None => Ok(vec![]),
        Some(json) => Ok(serde_json::from_value(json.clone())?),
    }
}

/// `rank` is that of the records, where it is not theirs to say.
fn make(args: &[Leaf], attrs: &Attrs, form: Form, rank: Option<usize>) -> Result<Made> {
    let (dtype, shape) = dense(args, 0)?;
    if dtype != DType::String {
        return Err(Error::usage(format!("the records must be strings, not {dtype}")));
    }
    let rank = rank.or(shape.rank()).unwrap_or(1);
    if rank > 1 || !shape.compatible(&Dims::of(vec![None; rank])) {
        let what = if rank == 0 { "one string, a scalar" } else { "a vector of strings" };
        let help = match (form, shape.rank()) {
            (Form::Example, Some(1)) => "; parse_example takes a vector",
            (Form::SequenceExample, Some(1)) => "; parse_sequence_example takes a vector",
            (Form::SequenceExample, Some(0)) => "; parse_single_sequence_example takes one",
            _ => "",
        };
        return Err(Error::usage(format!("the records must be {what}, but have shape {shape}{help}")));
    }
    let outer: Vec<Option<usize>> = (0..rank).map(|_| shape.first()).collect();
    let context = Plan::new(features(attrs, "features")?, args, false)?;
    let mut specs: Vec<Leaf> = context.features.iter().map(|f| f.leaf(&outer)).collect();
    let lists = match form {
        Form::Example => None,
        Form::SequenceExample => {
            let plan = Plan::new(features(attrs, "lists")?, args, true)?;
            specs.extend(plan.features.iter().map(|f| f.list_leaf(&outer)));
            if rank == 1 {
                let lengths = plan.features.iter().filter(|f| matches!(f.kind, Kind::Sequence { .. }));
                specs.extend(lengths.map(|_| Leaf::tensor(DType::Int64, Dims::of(outer.iter().copied()))));
            }
            let columns = Columns::new(plan.needs.clone(), "SequenceExample");
            Some((plan, columns))
        }
    };
    if specs.is_empty() {
        return Err(Error::usage("no features are asked for"));
    }
    let message = if form == Form::Example { "Example" } else { "SequenceExample" };
    let columns = Columns::new(context.needs.clone(), message);
    Made::several(specs, Parse { features: context, columns, lists, batched: rank == 1 })
}

#[cfg(test)]
mod tests;
