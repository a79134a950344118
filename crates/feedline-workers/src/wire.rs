//! Values as bytes, as they lie in a message. Both sides are the same program, so there is no version; what cannot be
//! read is an error all the same.
//!
//! | what | bytes |
//! |---|---|
//! | errand | key, rows, columns; the position of each row; the columns |
//! | column | 0 and one tensor whose first axis counts rows, or 1 and a value for each row |
//! | value | a kind; then dtype, rank and sizes; then the items, aligned, or the lengths of strings and all of them |
//! | answer | for each row 0 and its values, or 1 and the error: message, exception, trace; or 2, its bytes, and how many it may have |

use crate::link::Outbox;
use feedline::element::{
    Column, DType, Element, Leaf, Ragged, Shape, Slots, Sparse, StringsBuilder, Tensor, Value, count,
};
use feedline::expr::{Errand, Part};
use feedline::runtime::bytes_text;
use feedline::{Error, Kind, Result};
use std::fmt;
use std::io;
use std::sync::Arc;

const ABSENT: u8 = 0;
const PLAIN: u8 = 1;
const STRINGS: u8 = 2;
const RAGGED: u8 = 3;
const SPARSE: u8 = 4;

const DTYPES: [DType; 14] = [
    DType::Bool,
    DType::Int8,
    DType::Int16,
    DType::Int32,
    DType::Int64,
    DType::Uint8,
    DType::Uint16,
    DType::Uint32,
    DType::Uint64,
    DType::Float16,
    DType::Bfloat16,
    DType::Float32,
    DType::Float64,
    DType::String,
];

/// What a worker says of an error: the exception as its language stores it, and where it came from in words.
#[derive(Debug)]
pub struct Told {
    pub message: String,
    pub exception: Vec<u8>,
    pub trace: String,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
impl std::error::Error for Told {}

// ---- Writing ----

pub fn write_errand(out: &mut Outbox, errand: &Errand, key: u64) -> io::Result<()> {
    out.begin();
    out.number(key)?;
    out.number(errand.rows as u64)?;
    out.number(errand.columns.len() as u64)?;
    for row in 0..errand.rows {
        out.number(errand.pos.at(row))?;
    }
    for column in &errand.columns {
        match column {
            Column::Dense(t) => {
                out.put(&[0])?;
                write_tensor(out, t)?;
            }
            Column::Rows(values, rows) => {
                out.put(&[1])?;
                values[rows.clone()].iter().try_for_each(|v| write_value(out, v))?;
            }
        }
    }
    Ok(())
}

/// One row of an answer.
pub fn write_row(out: &mut Outbox, row: &std::result::Result<Element, Told>) -> io::Result<()> {
    match row {
        Ok(values) => {
            out.put(&[0])?;
            values.iter().try_for_each(|v| write_value(out, v))
        }
        Err(told) => {
            out.put(&[1])?;
            write_told(out, told)
        }
    }
}

/// Bytes of one row of an answer, or a little less than that.
pub fn row_bytes(row: &std::result::Result<Element, Told>) -> usize {
    let of = |t: &Tensor| t.nbytes() + if t.dtype() == DType::String { 8 * t.len() } else { 0 };
    match row {
        Ok(values) => values.iter().map(|v| v.tensors().map(of).sum::<usize>() + 64).sum(),
        Err(told) => told.message.len() + told.exception.len() + told.trace.len(),
    }
}

/// A row that is not to be written.
pub fn write_refused(out: &mut Outbox, bytes: u64, most: u64) -> io::Result<()> {
    out.put(&[2])?;
    out.number(bytes)?;
    out.number(most)
}

pub fn write_told(out: &mut Outbox, told: &Told) -> io::Result<()> {
    out.text(told.message.as_bytes())?;
    out.text(&told.exception)?;
    out.text(told.trace.as_bytes())
}

fn write_value(out: &mut Outbox, value: &Value) -> io::Result<()> {
    match value {
        Value::Absent => out.put(&[ABSENT]),
        Value::Tensor(t) => write_tensor(out, t),
        Value::Ragged(r) => {
            out.put(&[RAGGED, code(r.splits_dtype), r.splits.len() as u8])?;
            write_tensor(out, &r.values)?;
            r.splits.iter().try_for_each(|split| write_numbers(out, split))
        }
        Value::Sparse(s) => {
            out.put(&[SPARSE])?;
            write_tensor(out, &s.indices)?;
            write_tensor(out, &s.values)?;
            write_numbers(out, &s.shape)
        }
        // Plans with such elements are refused before they run.
        Value::Dataset(_) => Err(io::Error::other("a dataset inside an element cannot go to another process")),
    }
}

fn write_numbers(out: &mut Outbox, numbers: &[i64]) -> io::Result<()> {
    out.number(numbers.len() as u64)?;
    numbers.iter().try_for_each(|n| out.number(*n as u64))
}

fn write_tensor(out: &mut Outbox, t: &Tensor) -> io::Result<()> {
    let rank = u8::try_from(t.rank()).map_err(|_| io::Error::other("a tensor of more than 255 axes"))?;
    let kind = if t.dtype() == DType::String { STRINGS } else { PLAIN };
    out.put(&[kind, code(t.dtype()), rank])?;
    t.shape().iter().try_for_each(|d| out.number(*d as u64))?;
    if kind == STRINGS {
        (0..t.len()).try_for_each(|i| out.number(t.str_at(i).len() as u64))?;
        return (0..t.len()).try_for_each(|i| out.put(t.str_at(i)));
    }
    out.put(t.bytes())
}

fn code(dtype: DType) -> u8 {
    DTYPES.iter().position(|d| *d == dtype).expect("every dtype is listed") as u8
}

// ---- Reading ----

fn broken(what: &str) -> Error {
    Error::internal(format!("a message between processes is broken: {what}"))
}

struct Reader<'a> {
    body: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.body.split_at_checked(len).ok_or_else(|| broken("it is too short"))?;
        self.body = rest;
        Ok(taken)
    }
    fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }
    fn number(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().expect("eight bytes")))
    }
    fn size(&mut self) -> Result<usize> {
        usize::try_from(self.number()?).map_err(|_| broken("a size"))
    }
    /// A number of things that take at least `bytes` each: no more than there can be.
    fn count(&mut self, bytes: usize) -> Result<usize> {
        let n = self.size()?;
        if n.checked_mul(bytes).is_none_or(|all| all > self.body.len()) { Err(broken("a count")) } else { Ok(n) }
    }
    fn numbers(&mut self) -> Result<Vec<i64>> {
        let n = self.count(8)?;
        (0..n).map(|_| Ok(self.number()? as i64)).collect()
    }
    fn text(&mut self) -> Result<&'a [u8]> {
        let n = self.size()?;
        self.take(n)
    }
    fn dtype(&mut self) -> Result<DType> {
        DTYPES.get(usize::from(self.byte()?)).copied().ok_or_else(|| broken("a dtype"))
    }

    fn seen(&mut self) -> Result<Seen<'a>> {
        match self.byte()? {
            ABSENT => Ok(Seen::Absent),
            kind @ (PLAIN | STRINGS) => {
                let (dtype, rank) = (self.dtype()?, self.byte()?);
                if (dtype == DType::String) != (kind == STRINGS) {
                    return Err(broken("strings"));
                }
                let shape = (0..rank).map(|_| self.size()).collect::<Result<Shape>>()?;
                let n = count(&shape)?;
                if kind == PLAIN {
                    let len = n.checked_mul(dtype.size()).ok_or_else(|| broken("a shape"))?;
                    return Ok(Seen::Plain(dtype, shape, self.take(len)?));
                }
                if n.checked_mul(8).is_none_or(|all| all > self.body.len()) {
                    return Err(broken("strings"));
                }
                let lens = (0..n).map(|_| self.size()).collect::<Result<Vec<_>>>()?;
                let strings = lens.into_iter().map(|len| self.take(len)).collect::<Result<_>>()?;
                Ok(Seen::Strings(shape, strings))
            }
            RAGGED => {
                let (splits_dtype, levels) = (self.dtype()?, self.byte()?);
                let values = self.seen()?.tensor()?;
                let splits = (0..levels).map(|_| Ok(self.numbers()?.into())).collect::<Result<Vec<Arc<[i64]>>>>()?;
                for (level, split) in splits.iter().enumerate() {
                    let end = splits.get(level + 1).map_or(values.rows(), |s| s.len().saturating_sub(1));
                    let rising = split.windows(2).all(|w| w[0] <= w[1]);
                    if split.first() != Some(&0) || !rising || split.last() != Some(&(end as i64)) {
                        return Err(broken("row splits"));
                    }
                }
                Ok(Seen::Other(Value::Ragged(Arc::new(Ragged { values, splits, splits_dtype }))))
            }
            SPARSE => {
                let (indices, values) = (self.seen()?.tensor()?, self.seen()?.tensor()?);
                let shape = self.numbers()?;
                let fits = indices.dtype() == DType::Int64 && indices.shape() == [values.len(), shape.len()];
                if !fits || values.rank() != 1 {
                    return Err(broken("a sparse tensor"));
                }
                Ok(Seen::Other(Value::Sparse(Arc::new(Sparse { indices, values, shape }))))
            }
            _ => Err(broken("a kind of value")),
        }
    }

    pub fn told(&mut self) -> Result<Told> {
        let message = String::from_utf8_lossy(self.text()?).into_owned();
        let exception = self.text()?.to_vec();
        Ok(Told { message, exception, trace: String::from_utf8_lossy(self.text()?).into_owned() })
    }
}

/// A value in a message, not copied yet.
enum Seen<'a> {
    Absent,
    Plain(DType, Shape, &'a [u8]),
    Strings(Shape, Vec<&'a [u8]>),
    Other(Value),
}

impl Seen<'_> {
    fn tensor(&self) -> Result<Tensor> {
        match self.value() {
            Value::Tensor(t) => Ok(t),
            _ => Err(broken("a part that is no tensor")),
        }
    }
    /// The value, in memory of its own.
    fn value(&self) -> Value {
        match self {
            Seen::Absent => Value::Absent,
            Seen::Plain(dtype, shape, bytes) => {
                let mut t = Tensor::new(*dtype, shape.clone());
                t.bytes_mut().copy_from_slice(bytes);
                Value::Tensor(t)
            }
            Seen::Strings(shape, strings) => {
                let mut b = StringsBuilder::with_capacity(strings.len());
                strings.iter().for_each(|s| b.push(s));
                Value::Tensor(b.tensor(shape.clone()))
            }
            Seen::Other(value) => value.clone(),
        }
    }
    /// Row `i` of a column.
    fn row(&self, i: usize) -> Value {
        match self {
            Seen::Plain(dtype, shape, bytes) => {
                let len = bytes.len() / shape[0];
                Seen::Plain(*dtype, shape[1..].into(), &bytes[i * len..(i + 1) * len]).value()
            }
            Seen::Strings(shape, strings) => {
                let len = strings.len() / shape[0];
                Seen::Strings(shape[1..].into(), strings[i * len..(i + 1) * len].to_vec()).value()
            }
            Seen::Absent | Seen::Other(_) => self.value(),
        }
    }
}

pub fn read_told(body: &[u8]) -> Result<Told> {
    Reader { body }.told()
}

/// Rows to work on, as they lie in a message.
pub struct Rows<'a> {
    pub key: u64,
    pub pos: Vec<u64>,
    columns: Vec<Arrived<'a>>,
}

enum Arrived<'a> {
    Dense(Seen<'a>),
    Rows(Vec<Seen<'a>>),
}

impl<'a> Rows<'a> {
    pub fn read(body: &'a [u8]) -> Result<Rows<'a>> {
        let mut r = Reader { body };
        let key = r.number()?;
        let (rows, columns) = (r.count(8)?, r.size()?);
        let pos = (0..rows).map(|_| r.number()).collect::<Result<Vec<_>>>()?;
        let mut arrived = Vec::new();
        for _ in 0..columns {
            arrived.push(match r.byte()? {
                0 => {
                    let seen = r.seen()?;
                    let first = match &seen {
                        Seen::Plain(_, shape, _) | Seen::Strings(shape, _) => shape.first().copied(),
                        Seen::Absent | Seen::Other(_) => None,
                    };
                    if first != Some(rows) {
                        return Err(broken("a column"));
                    }
                    Arrived::Dense(seen)
                }
                _ => Arrived::Rows((0..rows).map(|_| r.seen()).collect::<Result<_>>()?),
            });
        }
        Ok(Rows { key, pos, columns: arrived })
    }
    /// The arguments of one call, in memory of their own.
    pub fn element(&self, row: usize) -> Element {
        let of = |column: &Arrived<'_>| match column {
            Arrived::Dense(seen) => seen.row(row),
            Arrived::Rows(values) => values[row].value(),
        };
        self.columns.iter().map(of).collect()
    }
}

/// What came of `rows` rows. Results are made in the slots where they fit.
pub fn read_answer(body: &[u8], rows: usize, leaves: &[Leaf], mut slots: Slots, limit: usize) -> Result<Vec<Part>> {
    let mut r = Reader { body };
    let mut parts = Vec::new();
    let mut run: Vec<Vec<Seen<'_>>> = leaves.iter().map(|_| Vec::with_capacity(rows)).collect();
    let mut length = 0;
    for _ in 0..rows {
        let error = match r.byte()? {
            0 => {
                run.iter_mut().try_for_each(|column| r.seen().map(|seen| column.push(seen)))?;
                length += 1;
                continue;
            }
            1 => {
                let told = r.told()?;
                Error::func(told.message.clone()).with_source(Arc::new(told))
            }
            _ => too_large("comes back of one element", r.size()?, r.size()?, limit),
        };
        parts.extend(flushed(&mut run, &mut length, leaves, &mut Slots::new())?);
        parts.push(Part::Fail(error));
        // What was meant for all rows does not fit the others.
        slots.clear();
    }
    parts.extend(flushed(&mut run, &mut length, leaves, &mut slots)?);
    Ok(parts)
}

/// What is sent to a worker, or comes back, takes its bytes twice: in the memory that both sides have, and here. It may take
/// `most` of the limit.
pub fn too_large(what: &str, bytes: usize, most: usize, limit: usize) -> Error {
    let twice = bytes.saturating_mul(2);
    let beside = match limit.saturating_sub(most) {
        0 => String::new(),
        kept => format!(", of which operators keep {}", bytes_text(kept)),
    };
    let needed = (twice + twice / 8).saturating_add(limit.saturating_sub(most));
    Error::new(
        Kind::Budget,
        format!(
            "what {what} takes {}, and as much again on its way between the processes, which is more than the memory_limit of \
             {}{beside}: raise it to {} or more, or let the function get or return less",
            bytes_text(bytes),
            bytes_text(limit),
            bytes_text(needed),
        ),
    )
}

fn flushed(run: &mut [Vec<Seen<'_>>], length: &mut usize, leaves: &[Leaf], slots: &mut Slots) -> Result<Option<Part>> {
    let rows = std::mem::take(length);
    if rows == 0 {
        return Ok(None);
    }
    let mut columns = Vec::with_capacity(leaves.len());
    for (i, (seen, leaf)) in run.iter_mut().zip(leaves).enumerate() {
        let slot = slots.get_mut(i).and_then(|s| s.as_mut());
        let column = match slot {
            Some(slot) => slot.offer(rows, || column_of(seen)),
            None => column_of(seen),
        };
        let fits = match &column {
            Column::Dense(_) => leaf.accepts(&column.get(0)),
            Column::Rows(values, all) => values[all.clone()].iter().all(|v| leaf.accepts(v)),
        };
        if !fits {
            return Err(broken("a result of another type than was declared"));
        }
        columns.push(column);
        seen.clear();
    }
    Ok(Some(Part::Rows(rows, columns)))
}

fn column_of(seen: &[Seen<'_>]) -> Column {
    if let Some(Seen::Plain(dtype, shape, _)) = seen.first()
        && seen.iter().all(|s| matches!(s, Seen::Plain(d, s, _) if d == dtype && s == shape))
    {
        let mut all: Shape = smallvec::smallvec![seen.len()];
        all.extend_from_slice(shape);
        let mut t = Tensor::new(*dtype, all);
        let mut to = t.bytes_mut();
        for s in seen {
            let Seen::Plain(_, _, bytes) = s else { unreachable!("all are plain") };
            let (head, rest) = to.split_at_mut(bytes.len());
            head.copy_from_slice(bytes);
            to = rest;
        }
        return Column::Dense(t);
    }
    Column::from_values(seen.iter().map(|s| s.value()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{Inbox, Kind};
    use feedline::element::{Dims, Pos, Slot};
    use std::os::unix::net::UnixStream;

    fn sent(write: impl FnOnce(&mut Outbox), read: impl FnOnce(&[u8])) {
        let (a, b) = UnixStream::pair().unwrap();
        let mut out = Outbox::new(a);
        write(&mut out);
        out.send(Kind::Work, 0).unwrap();
        read(Inbox::new(b).receive().unwrap().unwrap().body);
    }

    fn values() -> Vec<Value> {
        let ragged = |n: i64| {
            let values = Tensor::from_items([n as usize], &(0..n).collect::<Vec<_>>());
            Value::Ragged(Arc::new(Ragged { values, splits: vec![[0, 0, n].into()], splits_dtype: DType::Int64 }))
        };
        let sparse = Sparse {
            indices: Tensor::from_items([1, 2], &[0i64, 1]),
            values: Tensor::from_items([1], &[2.5f32]),
            shape: vec![2, 2],
        };
        vec![
            Tensor::scalar(7i64).into(),
            Tensor::from_items([2, 3], &[1f32, 2., 3., 4., 5., 6.]).into(),
            Tensor::new(DType::Uint8, [0, 5]).into(),
            Tensor::strings([2], &["", "two"]).into(),
            Tensor::string(&vec![b'x'; 100_000]).into(),
            Value::Absent,
            ragged(3),
            Value::Sparse(Arc::new(sparse)),
        ]
    }

    #[test]
    fn arguments_arrive_as_they_were() {
        for value in values() {
            let column = Column::from_values(vec![value.clone(); 3]);
            let (pos, slots, account) = (Pos::Run(5), Slots::new(), None);
            let errand = Errand { columns: vec![column], rows: 3, epoch: 1, pos, slots, account };
            sent(
                |out| write_errand(out, &errand, 9).unwrap(),
                |body| {
                    let rows = Rows::read(body).unwrap();
                    assert_eq!((rows.key, &rows.pos[..]), (9, &[5, 6, 7][..]));
                    (0..3).for_each(|i| assert_eq!(rows.element(i)[0], value));
                    (0..body.len().min(200)).for_each(|n| assert!(Rows::read(&body[..n]).is_err(), "cut at {n}"));
                },
            );
        }
    }

    #[test]
    fn answers_arrive_as_they_were() {
        let values = values();
        let leaves: Vec<Leaf> = values.iter().map(|v| Leaf::of(v).unwrap()).collect();
        let fail = || Told { message: "no".into(), exception: vec![1, 2], trace: "there".into() };
        sent(
            |out| {
                out.begin();
                for row in [Ok(()), Ok(()), Err(fail()), Ok(())] {
                    write_row(out, &row.map(|()| values.iter().cloned().collect())).unwrap();
                }
            },
            |body| {
                let parts = read_answer(body, 4, &leaves, Slots::new(), 0).unwrap();
                let [Part::Rows(2, first), Part::Fail(error), Part::Rows(1, last)] = &parts[..] else { panic!() };
                assert!(error.to_string().contains("no"));
                for (i, value) in values.iter().enumerate() {
                    assert_eq!((&first[i].get(1), &last[i].get(0)), (value, value));
                }
                assert!(read_answer(body, 5, &leaves, Slots::new(), 0).is_err());
                assert!(read_answer(body, 4, &leaves[..3], Slots::new(), 0).is_err());
            },
        );
    }

    #[test]
    fn results_lie_in_their_slots() {
        let leaf = Leaf::tensor(DType::Float32, Dims::known(&[2]));
        let slots: Slots = smallvec::smallvec![Some(Slot::new(DType::Float32, 8, 3))];
        let row = |x: f32| Ok(smallvec::smallvec![Tensor::from_items([2], &[x, x]).into()]);
        sent(
            |out| {
                out.begin();
                [1., 2., 3.].into_iter().for_each(|x| write_row(out, &row(x)).unwrap());
            },
            |body| match &read_answer(body, 3, &[leaf], slots, 0).unwrap()[..] {
                [Part::Rows(3, columns)] => match &columns[0] {
                    Column::Dense(t) => assert_eq!(t.items::<f32>(), [1., 1., 2., 2., 3., 3.]),
                    rows => panic!("{rows:?}"),
                },
                _ => panic!("one run of rows"),
            },
        );
    }
}
