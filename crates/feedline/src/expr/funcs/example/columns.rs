//! One pass over records: the values of every feature that somebody needs, in one column each, whichever shapes they will
//! get. Features of a fixed number of values are written straight into the tensor that goes on.

use super::feature::dtype_of;
use crate::element::{Shape, StringsBuilder, Tensor, Value, check_room, count};
use crate::error::{Error, Result};
use feedline_formats::alike::Alike;
use feedline_formats::example::{Entries, Feature, Stored, Wanted};
use feedline_formats::sequence_example::{FeatureList, Lists};
use feedline_formats::wire::Malformed;
use feedline_io::Counted;

/// What is needed of each record.
#[derive(Clone, Debug, PartialEq)]
pub struct Need {
    pub key: String,
    pub stored: Stored,
    pub count: Count,
    /// A list of features that must be there.
    pub required: bool,
}

/// How many values there may be.
#[derive(Clone, Debug, PartialEq)]
pub enum Count {
    /// As many as the shape has room for. The default is an argument of the call.
    Fixed { shape: Vec<usize>, want: usize, default: Option<usize> },
    /// Any multiple of this.
    Any { of: usize },
}

impl Count {
    pub fn fixed(shape: &[usize], default: Option<usize>) -> Result<Count> {
        Ok(Count::Fixed { shape: shape.into(), want: count(shape)?, default })
    }
}

/// A record: a string of a tensor.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    tensor: &'a Tensor,
    index: usize,
    bytes: &'a [u8],
}

impl<'a> Record<'a> {
    pub fn new(tensor: &'a Tensor, index: usize) -> Record<'a> {
        Record { tensor, index, bytes: tensor.str_at(index) }
    }
    /// Appends a byte string of it to others.
    #[inline]
    fn push(self, part: &[u8], out: &mut StringsBuilder) {
        let from = part.as_ptr() as usize - self.bytes.as_ptr() as usize;
        self.tensor.push_part(out, self.index, from..from + part.len());
    }
}

/// The values of one feature in all records.
#[derive(Debug)]
pub enum Values {
    /// `[records] + shape`.
    Fixed(Tensor),
    /// All of them, and for each record where its values end.
    Any { values: Tensor, ends: Vec<usize> },
}

impl Values {
    /// The values one after the other, and where those of each record end.
    pub fn any(&self) -> (&Tensor, &[usize]) {
        match self {
            Values::Any { values, ends } => (values, ends),
            Values::Fixed(_) => unreachable!("asked for as a list"),
        }
    }
}

/// Values of one type that grow.
enum Grow {
    Ints(Counted<i64>),
    Floats(Counted<f32>),
    Strings(StringsBuilder),
}

impl Grow {
    fn new(stored: Stored, room: usize) -> Grow {
        match stored {
            Stored::Ints => Grow::Ints(Counted::with_capacity(room)),
            Stored::Floats => Grow::Floats(Counted::with_capacity(room)),
            Stored::Bytes => Grow::Strings(StringsBuilder::with_capacity(room)),
        }
    }
    #[inline]
    fn push(&mut self, feature: Feature<'_>, record: Record<'_>) -> std::result::Result<usize, Malformed> {
        match self {
            Grow::Ints(out) => feature.each_int(|n| out.push(n)),
            Grow::Floats(out) => feature.floats_onto(out),
            Grow::Strings(out) => feature.each_bytes(|part| record.push(part, out)),
        }
    }
    fn finish(self) -> Tensor {
        match self {
            Grow::Ints(items) => Tensor::from_items([items.len()], &items),
            Grow::Floats(items) => Tensor::from_items([items.len()], &items),
            Grow::Strings(strings) => {
                let n = strings.len();
                strings.tensor([n])
            }
        }
    }
}

/// Where the values of one feature go.
enum Sink<'t> {
    /// What is left to be written of a tensor.
    Ints(&'t mut [i64]),
    Floats(&'t mut [f32]),
    Strings(StringsBuilder),
    Any(Grow, Vec<usize>),
}

/// The slots of the next record.
#[inline]
fn slots<'t, T>(left: &mut &'t mut [T], want: usize) -> &'t mut [T] {
    let (slots, rest) = std::mem::take(left).split_at_mut(want);
    *left = rest;
    slots
}

/// A reader of some features.
pub struct Columns {
    wanted: Wanted,
    needs: Vec<Need>,
    /// For each need the number of its name in `wanted`.
    names: Vec<usize>,
    /// What the records are, for messages.
    message: &'static str,
}

impl Columns {
    pub fn new(needs: Vec<Need>, message: &'static str) -> Columns {
        let wanted = Wanted::new(needs.iter().map(|n| &n.key));
        let names = needs.iter().map(|n| wanted.find(n.key.as_bytes()).expect("it is wanted")).collect();
        Columns { wanted, needs, names, message }
    }

    /// Reads all records. `default` gives the value of an argument (the first number) for a record (the second).
    pub fn read(&self, records: &[Record<'_>], default: &dyn Fn(usize, usize) -> Value) -> Result<Vec<Values>> {
        let rows = records.len();
        let mut tensors = self.needs.iter().map(|need| need.tensor(rows)).collect::<Result<Vec<_>>>()?;
        let mut sinks: Vec<Sink<'_>> =
            self.needs.iter().zip(&mut tensors).map(|(need, tensor)| need.sink(tensor, rows)).collect();
        let mut found: Vec<Option<Feature<'_>>> = vec![None; self.wanted.len()];
        let mut alike = Alike::default();
        for (row, &record) in records.iter().enumerate() {
            let bytes = record.bytes;
            let fail = |e: Malformed| self.broken(e, record, row, rows);
            self.wanted.read(bytes, &mut alike, &mut found).map_err(fail)?;
            for ((need, sink), &name) in self.needs.iter().zip(&mut sinks).zip(&self.names) {
                match found[name] {
                    Some(feature) if feature.stored == Some(need.stored) => {
                        let have = need.put(sink, feature, record).map_err(fail)?;
                        if !need.accepts(have) {
                            return Err(need.wrong_count(have).of_record(row, rows));
                        }
                    }
                    Some(Feature { stored: Some(other), .. }) => {
                        return Err(need.wrong_type("feature", other).of_record(row, rows));
                    }
                    _ => {
                        let missing = need.put_missing(sink, record, |argument| default(argument, row));
                        missing.map_err(|e| e.of_record(row, rows))?;
                    }
                }
            }
        }
        let made: Vec<Option<Values>> =
            sinks.into_iter().zip(&self.needs).map(|(sink, need)| sink.finish(need, rows)).collect();
        // What is not made by a sink was written into its tensor.
        let values = made.into_iter().zip(tensors).map(|(made, tensor)| made.or(tensor.map(Values::Fixed)));
        Ok(values.map(|v| v.expect("a sink or a tensor")).collect())
    }

    /// Reads the lists of features of all records: the values of every step, and for each record where its steps end.
    pub fn read_lists(&self, records: &[Record<'_>]) -> Result<Vec<(Values, Vec<usize>)>> {
        let rows = records.len();
        let grow = |need: &Need| (Grow::new(need.stored, rows), Vec::with_capacity(rows), Vec::with_capacity(rows));
        let mut sinks: Vec<(Grow, Vec<usize>, Vec<usize>)> = self.needs.iter().map(grow).collect();
        let mut found: Vec<Option<FeatureList<'_>>> = vec![None; self.wanted.len()];
        for (row, &record) in records.iter().enumerate() {
            let fail = |e: Malformed| self.broken(e, record, row, rows);
            self.wanted.read_lists(record.bytes, &mut found).map_err(fail)?;
            for ((need, (grow, ends, steps)), &name) in self.needs.iter().zip(&mut sinks).zip(&self.names) {
                let Some(list) = found[name] else {
                    if need.required {
                        return Err(need.missing("feature list", record.bytes).of_record(row, rows));
                    }
                    steps.push(ends.len());
                    continue;
                };
                for (step, feature) in list.steps().enumerate() {
                    let feature = feature.map_err(fail)?;
                    let at = |e: Error| e.of_record(row, rows).of("step", step);
                    let have = match feature.stored {
                        Some(other) if other != need.stored => {
                            return Err(at(need.wrong_type("feature list", other)));
                        }
                        Some(_) => grow.push(feature, record).map_err(fail)?,
                        None => 0,
                    };
                    if !need.accepts(have) {
                        return Err(at(need.wrong_count(have)));
                    }
                    ends.push(ends.last().copied().unwrap_or(0) + have);
                }
                steps.push(ends.len());
            }
        }
        Ok(sinks.into_iter().map(|(grow, ends, steps)| (Values::Any { values: grow.finish(), ends }, steps)).collect())
    }

    #[cold]
    fn broken(&self, e: Malformed, record: Record<'_>, row: usize, rows: usize) -> Error {
        e.within(record.bytes, self.message).of_record(row, rows)
    }
}

impl Need {
    /// The tensor that is written into, for a fixed number of numbers.
    fn tensor(&self, rows: usize) -> Result<Option<Tensor>> {
        let Count::Fixed { shape, .. } = &self.count else { return Ok(None) };
        let shape: Shape = std::iter::once(rows).chain(shape.iter().copied()).collect();
        check_room(dtype_of(self.stored), &shape)?;
        Ok((self.stored != Stored::Bytes).then(|| Tensor::new(dtype_of(self.stored), shape)))
    }
    fn sink<'t>(&self, tensor: &'t mut Option<Tensor>, rows: usize) -> Sink<'t> {
        match (&self.count, self.stored, tensor) {
            (Count::Any { .. }, ..) => Sink::Any(Grow::new(self.stored, rows), Vec::with_capacity(rows)),
            (Count::Fixed { .. }, Stored::Ints, Some(tensor)) => Sink::Ints(tensor.items_mut()),
            (Count::Fixed { .. }, _, Some(tensor)) => Sink::Floats(tensor.items_mut()),
            (Count::Fixed { want, .. }, _, None) => Sink::Strings(StringsBuilder::with_capacity(rows * want)),
        }
    }
    /// How many values a record has room for, where that is fixed.
    fn want(&self) -> usize {
        match self.count {
            Count::Fixed { want, .. } => want,
            Count::Any { of } => of,
        }
    }
    fn accepts(&self, have: usize) -> bool {
        match self.count {
            Count::Fixed { want, .. } => have == want,
            Count::Any { of } => of == 1 || (of == 0 && have == 0) || (of > 0 && have.is_multiple_of(of)),
        }
    }

    /// Takes in the values of a record and says how many there are. The caller looks whether that is right.
    #[inline]
    fn put(
        &self,
        sink: &mut Sink<'_>,
        feature: Feature<'_>,
        record: Record<'_>,
    ) -> std::result::Result<usize, Malformed> {
        match sink {
            Sink::Ints(left) => feature.ints_into(slots(left, self.want())),
            Sink::Floats(left) => feature.floats_into(slots(left, self.want())),
            Sink::Strings(out) => feature.each_bytes(|part| record.push(part, out)),
            Sink::Any(grow, ends) => {
                let have = grow.push(feature, record)?;
                ends.push(ends.last().copied().unwrap_or(0) + have);
                Ok(have)
            }
        }
    }

    /// A record does not have it, or it says nothing.
    #[cold]
    fn put_missing(&self, sink: &mut Sink<'_>, record: Record<'_>, default: impl Fn(usize) -> Value) -> Result<()> {
        if let Sink::Any(_, ends) = sink {
            ends.push(ends.last().copied().unwrap_or(0));
            return Ok(());
        }
        let Count::Fixed { default: Some(number), want, shape } = &self.count else {
            return Err(self.missing("feature", record.bytes));
        };
        let value = default(*number);
        let value = value.tensor();
        if value.len() != *want {
            let (key, have) = (&self.key, value.shape());
            let message = format!("feature {key:?}: a default of shape {have:?} does not fit the shape {shape:?}");
            return Err(Error::data(message));
        }
        match sink {
            Sink::Ints(left) => slots(left, *want).copy_from_slice(value.items()),
            Sink::Floats(left) => slots(left, *want).copy_from_slice(value.items()),
            Sink::Strings(out) => value.strs().for_each(|s| out.push(s)),
            Sink::Any(..) => {}
        }
        Ok(())
    }

    #[cold]
    fn wrong_type(&self, what: &str, have: Stored) -> Error {
        let (key, have, want) = (&self.key, have.name(), self.stored.name());
        Error::data(format!(
            "{what} {key:?} holds {have}, but {want} was asked for; ask for {have} and cast the result"
        ))
    }

    #[cold]
    fn wrong_count(&self, have: usize) -> Error {
        let key = &self.key;
        Error::data(match &self.count {
            Count::Fixed { shape, want, default: Some(_) } if have == 0 => format!(
                "feature {key:?} is there with an empty list, but the shape {shape:?} needs {want} values; a \
                 default_value only stands for a feature that is not there"
            ),
            Count::Fixed { shape, want, .. } => format!(
                "feature {key:?} has {have} values, but the shape {shape:?} needs {want}; use VarLenFeature, \
                 RaggedFeature or FixedLenSequenceFeature if their number varies"
            ),
            Count::Any { of } => {
                format!("feature {key:?} has {have} values, which is no multiple of the {of} of one item")
            }
        })
    }

    /// Says what is there instead: names are misspelt more often than missing.
    #[cold]
    fn missing(&self, what: &str, record: &[u8]) -> Error {
        let (names, help): (Vec<&[u8]>, _) = match what {
            "feature" => (Entries::new(record).map_while(|e| Some(e.ok()?.0)).collect(), "a default_value"),
            _ => (Lists::new(record).map_while(|e| Some(e.ok()?.0)).collect(), "allow_missing=True"),
        };
        const SHOW: usize = 12;
        let shown: Vec<String> = names.iter().take(SHOW).map(|n| format!("{:?}", String::from_utf8_lossy(n))).collect();
        let have = match (shown.is_empty(), names.len() > SHOW) {
            (true, _) => "none at all".into(),
            (_, false) => shown.join(", "),
            (_, true) => format!("{}, …", shown.join(", ")),
        };
        let key = &self.key;
        Error::data(format!(
            "{what} {key:?} is required, but the record does not have it (it has {have}); give {help} if it may be missing"
        ))
    }
}

impl Sink<'_> {
    /// The values, unless they were written into a tensor.
    fn finish(self, need: &Need, rows: usize) -> Option<Values> {
        match (self, &need.count) {
            (Sink::Any(grow, ends), _) => Some(Values::Any { values: grow.finish(), ends }),
            (Sink::Strings(strings), Count::Fixed { shape, .. }) => {
                let shape: Shape = std::iter::once(rows).chain(shape.iter().copied()).collect();
                Some(Values::Fixed(strings.tensor(shape)))
            }
            _ => None,
        }
    }
}

/// Errors that say which of several records it was.
trait OfRecord {
    fn of_record(self, row: usize, rows: usize) -> Error;
    fn of(self, what: &str, number: usize) -> Error;
}

impl OfRecord for Error {
    fn of_record(self, row: usize, rows: usize) -> Error {
        if rows == 1 { self } else { self.of("record", row) }
    }
    fn of(self, what: &str, number: usize) -> Error {
        Error::new(self.kind(), format!("{what} {number}: {}", self.message()))
    }
}
