//! `batch(batch_size)`: consecutive elements stacked along a new first axis.

use super::batches::Beside;
use crate::dataset::Dataset;
use crate::element::{Chunk, Column, Element, Leaf, Pos, Run, Shape, Spec};
use crate::error::{Error, Result};
use crate::op::{Int, Op, OpInfo, Param, Props, at_least, read};
use crate::ops::Open;
use crate::plan::{Card, Plan};
use crate::runtime::{At, BuildCx, Built, Cx, Hold, Index, Mark, Meter, Over, Pull, Stage, bytes_text};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

pub static INFO: OpInfo = OpInfo {
    name: "batch",
    doc: "Stacks consecutive elements along a new first axis.",
    params: &[
        Param::new("batch_size", "", "elements in a batch"),
        Param::new("drop_remainder", "False", "leave out a last batch that is not full"),
    ],
    read: read::<Batch>,
};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    pub batch_size: Int,
    #[serde(default)]
    pub drop_remainder: bool,
}

impl Dataset {
    /// Stacks `batch_size` consecutive elements; the last batch may be smaller unless it is dropped.
    ///
    /// ```
    /// # use feedline::Dataset;
    /// let ds = Dataset::range(5)?.batch(2, false)?;
    /// let sizes: Vec<usize> = ds.iter()?.map(|e| e.unwrap()[0].tensor().len()).collect();
    /// assert_eq!(sizes, [2, 2, 1]);
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn batch(&self, batch_size: i64, drop_remainder: bool) -> Result<Dataset> {
        self.apply(Batch { batch_size: batch_size.into(), drop_remainder })
    }
}

/// The spec of a batch of such elements.
pub fn batched(spec: &Spec, size: Option<usize>) -> Result<Spec> {
    spec.try_map(&mut |leaf| {
        Ok(match leaf {
            Leaf::Tensor { dtype, shape } => Leaf::Tensor { dtype: *dtype, shape: shape.under(size) },
            Leaf::Ragged { dtype, shape, ragged_rank, splits } => {
                Leaf::Ragged { dtype: *dtype, shape: shape.under(size), ragged_rank: ragged_rank + 1, splits: *splits }
            }
            Leaf::Sparse { dtype, shape } => Leaf::Sparse { dtype: *dtype, shape: shape.under(size) },
            Leaf::Absent => Leaf::Absent,
            Leaf::Dataset(_) => {
                return Err(Error::usage(
                    "datasets inside elements cannot be batched; turn them into tensors first, for example with \
                     flat_map(lambda window: window.batch(size))",
                ));
            }
        })
    })
}

/// How many batches n elements make.
pub fn batches(card: Card, size: Option<u64>, drop_remainder: bool) -> Card {
    match (card, size) {
        (Card::Known(n), Some(b)) if drop_remainder => Card::Known(n / b),
        (Card::Known(n), Some(b)) => Card::Known(n.div_ceil(b)),
        (Card::Known(_), None) => Card::Unknown,
        (other, _) => other,
    }
}

impl Op for Batch {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, inputs: &[Plan]) -> Result<Spec> {
        if let Some(n) = self.batch_size.known() {
            at_least("batch_size", n, 1)?;
        }
        let size = self.batch_size.known().filter(|_| self.drop_remainder).map(|n| n as usize);
        batched(&inputs[0].spec, size)
    }
    fn cardinality(&self, inputs: &[Plan]) -> Card {
        batches(inputs[0].card, self.batch_size.known().map(|n| n as u64), self.drop_remainder)
    }
    fn props(&self) -> Props {
        Props { carries: true, ..Props::default() }
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        let size = self.size(cx)?;
        // A batch that is known to be larger than all that there may be is refused before anything is read. One that has
        // fewer rows than were asked for is not known to be.
        if let (Some(bytes), Some(rows)) = (fixed_bytes(&node.inputs[0].spec, size), node.inputs[0].card.known())
            && rows >= size as u64
        {
            cx.hold(node).set(bytes).map_err(|over| too_large(over, size, size))?;
        }
        let input = Open::new(cx, &node.inputs, cx.stage_of_batches(&node.inputs[0], size)?);
        Ok(Built::Stage(Box::new(BatchStage {
            input,
            gather: Gather::new(size, cx.hold(node)),
            meter: cx.run.meters.of(node.id),
            drop_remainder: self.drop_remainder,
            made: 0,
            back: None,
        })))
    }
    fn index(&self, cx: &BuildCx, node: &Plan) -> Result<Option<Arc<dyn Index>>> {
        let Some(input) = cx.index(&node.inputs[0])? else { return Ok(None) };
        let size = self.size(cx)? as u64;
        let len = if self.drop_remainder { input.len() / size } else { input.len().div_ceil(size) };
        Ok(Some(Arc::new(BatchIndex { input, size, len })))
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
}

impl Batch {
    fn size(&self, cx: &BuildCx) -> Result<usize> {
        let n = self.batch_size.get(cx)?;
        at_least("batch_size", n, 1)?;
        Ok(n as usize)
    }
}

/// Collects rows until there are enough for a batch.
pub struct Gather {
    pub rows: usize,
    parts: Vec<Chunk>,
    held: usize,
    hold: Hold,
    run: Run,
    beside: Beside,
    /// Of all that came.
    largest: usize,
    /// Of those that are held, wherever they lie.
    bytes: usize,
    /// Of those that are held and go together, at most.
    together: usize,
}

impl Gather {
    pub fn new(rows: usize, hold: Hold) -> Gather {
        Gather {
            rows,
            parts: vec![],
            held: 0,
            hold,
            beside: Beside::Nothing,
            largest: 0,
            bytes: 0,
            together: 0,
            run: Run::default(),
        }
    }
    /// For what takes memory beside its rows.
    pub fn making(self, beside: Beside) -> Gather {
        Gather { beside, ..self }
    }
    pub fn missing(&self) -> usize {
        self.rows - self.held
    }
    pub fn is_empty(&self) -> bool {
        self.held == 0
    }
    /// Takes rows (at most as many as are missing). Where there is no memory for them all are lost.
    pub fn push(&mut self, chunk: Chunk) -> Result<()> {
        let (rows, all) = (chunk.rows(), chunk.nbytes());
        self.bytes += all;
        let held = self.held + rows;
        let beside = match self.beside {
            Beside::Nothing => 0,
            Beside::Same => self.bytes,
            Beside::Largest => {
                self.largest = self.largest.max(largest(&chunk));
                self.largest.saturating_mul(held)
            }
        };
        self.hold.expect_rows(self.rows as u64, held, self.bytes.saturating_add(beside));
        let bytes = if chunk.is_kept() { 0 } else { all };
        self.held += rows;
        self.run.follow(self.parts.last(), &chunk).trim(self.parts.iter_mut().rev());
        self.parts.push(chunk);
        let kept = self.hold.set(self.hold.bytes() + bytes);
        // Rows go as they are copied, but those that lie in one block not before the last of them; all of a block stay there.
        let (chunks, together) = self.run.together();
        self.together = self.together.max(together);
        let beside = if chunks < self.parts.len() { self.together } else { 0 };
        let Err(over) = kept.and_then(|()| self.hold.fits_beside(beside)) else { return Ok(()) };
        let (held, rows) = (self.held, self.rows);
        self.clear();
        Err(too_large(over, held, rows))
    }
    pub fn clear(&mut self) {
        self.parts.clear();
        self.run = Run::default();
        (self.held, self.bytes, self.together) = (0, 0, 0);
        let _ = self.hold.set(0);
    }
    /// All that was collected as one chunk, and what is made of it, which counts beside it.
    pub fn make<T>(&mut self, make: impl FnOnce(&Chunk, &mut Hold) -> T) -> (Chunk, T) {
        let held = self.hold.bytes();
        let rows = self.take().0;
        let _ = self.hold.set(held);
        let made = make(&rows, &mut self.hold);
        let _ = self.hold.set(0);
        (rows, made)
    }
    /// All that was collected as one chunk, and the bytes that were copied for it.
    pub fn take(&mut self) -> (Chunk, usize) {
        (self.held, self.bytes, self.together, self.run) = (0, 0, 0, Run::default());
        let _ = self.hold.set(0);
        let mut parts = std::mem::take(&mut self.parts);
        match parts.len() {
            1 => (parts.remove(0), 0),
            _ => Chunk::gathered(Pos::Run(0), parts),
        }
    }
}

/// A batch that cannot be, when `held` of its rows are there.
fn too_large(over: Over, held: usize, rows: usize) -> Error {
    let what = format!("{held} of the {rows} elements of a batch take {}", bytes_text(over.bytes));
    Over { bytes: (over.bytes / held.max(1) + 1).saturating_mul(rows), ..over }.error(&what, "make smaller batches")
}

/// Bytes of the largest row, or of one that has the largest of each component.
fn largest(chunk: &Chunk) -> usize {
    let of = |column: &Column| match column {
        Column::Dense(t) => t.nbytes() / t.rows().max(1),
        Column::Rows(values, rows) => values[rows.clone()].iter().map(|value| value.nbytes()).max().unwrap_or(0),
    };
    chunk.columns().iter().map(of).sum()
}

/// What a batch takes if its elements have a fixed size.
pub fn fixed_bytes(spec: &Spec, size: usize) -> Option<usize> {
    let bytes = |leaf: &&Leaf| match leaf {
        Leaf::Tensor { dtype, shape } => {
            let sizes: Option<Vec<usize>> = shape.dims()?.iter().copied().collect();
            sizes?.into_iter().try_fold(dtype.size(), usize::checked_mul)
        }
        _ => None,
    };
    let row: Vec<usize> = spec.leaves().iter().map(bytes).collect::<Option<_>>()?;
    row.into_iter().try_fold(0, usize::checked_add)?.checked_mul(size)
}

/// All rows of a chunk as one element.
pub fn stack(chunk: &Chunk) -> Result<Element> {
    chunk.columns().iter().map(|c| c.stack()).collect()
}

struct BatchStage {
    input: Open<Box<dyn Stage>>,
    gather: Gather,
    meter: Arc<Meter>,
    drop_remainder: bool,
    made: u64,
    /// Rows that were taken too early: they come next.
    back: Option<Chunk>,
}

impl BatchStage {
    fn pull(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        let Some(back) = &mut self.back else {
            return self.input.get().map_or(Pull::End, |input| input.next(cx, want));
        };
        let front = back.split_front(want);
        if back.rows() == 0 {
            self.back = None;
        }
        Pull::Rows(front)
    }
}

impl Stage for BatchStage {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        loop {
            if self.input.get().is_none() {
                return Pull::End;
            }
            let size = self.gather.rows;
            // With nothing collected, several batches can be cut out of one dense chunk at once.
            let ask = if self.gather.is_empty() { size.saturating_mul(want) } else { self.gather.missing() };
            match self.pull(cx, ask) {
                Pull::Rows(mut chunk) => {
                    let whole = chunk.rows() / size;
                    if self.gather.is_empty() && whole > 0 {
                        let full = chunk.split_front(whole * size);
                        if chunk.rows() > 0
                            && let Err(error) = self.gather.push(chunk)
                        {
                            return Pull::Fail(error);
                        }
                        return self.many(full, whole);
                    }
                    if let Err(error) = self.gather.push(chunk) {
                        return Pull::Fail(error);
                    }
                    if self.gather.missing() > 0 {
                        continue;
                    }
                }
                // The elements that were collected for this batch are lost with the one that failed.
                Pull::Fail(error) => {
                    self.gather.clear();
                    return Pull::Fail(error);
                }
                Pull::Pending => return Pull::Pending,
                Pull::End => {
                    self.input.end();
                    if self.gather.is_empty() || self.drop_remainder {
                        return Pull::End;
                    }
                }
            }
            let (chunk, copied) = self.gather.take();
            self.meter.copied.fetch_add(copied as u64, Relaxed);
            return self.one(chunk);
        }
    }
    fn mark(&mut self, out: &mut Mark) {
        out.number(self.made);
        self.input.mark(out);
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        self.made = at.number()?;
        self.gather.clear();
        self.back = None;
        self.input.seek(at)
    }
    fn pass(&mut self, results: u64) -> bool {
        let rows = results.checked_mul(self.gather.rows as u64).filter(|_| self.is_settled());
        let passed = rows.is_some_and(|rows| self.input.if_open().is_some_and(|input| input.pass(rows)));
        self.made += if passed { results } else { 0 };
        passed
    }
    fn is_settled(&self) -> bool {
        self.gather.is_empty() && self.back.is_none()
    }
    fn replays(&self) -> bool {
        true
    }
}

impl BatchStage {
    /// Cuts a chunk of `whole` batches: a new shape for dense columns, no copy.
    fn many(&mut self, chunk: Chunk, whole: usize) -> Pull {
        let size = self.gather.rows;
        let first = self.made;
        let pos = chunk.pos.grouped(chunk.rows(), size, first);
        if chunk.columns().iter().all(|c| matches!(c, Column::Dense(_))) {
            let columns = chunk.into_columns().into_iter().map(|c| match c {
                Column::Dense(t) => {
                    let mut shape: Shape = smallvec::smallvec![whole, size];
                    shape.extend_from_slice(&t.shape()[1..]);
                    Column::Dense(t.into_reshaped(shape))
                }
                rows => rows,
            });
            self.made += whole as u64;
            return Pull::Rows(Chunk::new(whole, pos, columns));
        }
        // One batch at a time: its rows may not fit together, and that must cost this batch only.
        let mut chunk = chunk;
        let one = chunk.split_front(size);
        if chunk.rows() > 0 {
            self.back = Some(chunk);
        }
        self.one(one)
    }
    fn one(&mut self, rows: Chunk) -> Pull {
        match rows.into_batch(self.made) {
            Ok(batch) => {
                self.made += 1;
                Pull::Rows(batch)
            }
            Err(error) => Pull::Fail(error.at_element(self.made)),
        }
    }
}

pub(super) struct Nothing;

impl Stage for Nothing {
    fn next(&mut self, _: &mut Cx<'_>, _: usize) -> Pull {
        Pull::End
    }
    fn mark(&mut self, _: &mut Mark) {}
    fn seek(&mut self, _: &mut At<'_>) -> Result<()> {
        Ok(())
    }
}

struct BatchIndex {
    input: Arc<dyn Index>,
    size: u64,
    len: u64,
}

impl Index for BatchIndex {
    fn len(&self) -> u64 {
        self.len
    }
    fn get(&self, rows: &[u64]) -> Result<Chunk> {
        let batch = |&b: &u64| {
            let of: Vec<u64> = (b * self.size..((b + 1) * self.size).min(self.input.len())).collect();
            let chunk = self.input.get(&of)?;
            Ok((stack(&chunk)?, chunk.pos.grouped(of.len(), of.len(), b)))
        };
        let (elements, of): (Vec<Element>, Vec<Pos>) =
            rows.iter().map(batch).collect::<Result<Vec<_>>>()?.into_iter().unzip();
        Ok(Chunk::from_elements(Pos::picked(of.iter().map(|pos| (pos, 0))), elements))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::{DType, Dims, Tensor, Value};
    use crate::expr::Builder;
    use crate::options::Options;
    use crate::runtime::{Iter, Pool};
    use serde_json::json;

    /// A traced function to rows of 1,280 bytes, all items x: large enough to be made in place.
    fn pictures(ds: &Dataset) -> Dataset {
        let wide = Tensor::from_items([320], &[0f32; 320]);
        ds.map(|b: &mut Builder, x| {
            let x = b.call("cast", &[x[0]], serde_json::from_value(json!({"dtype": "float32"})).unwrap())?;
            let wide = b.constant(Value::Tensor(wide))?;
            let spread = b.call("add", &[x, wide], Default::default())?;
            let one = b.constant(Value::Tensor(Tensor::scalar(1f32)))?;
            b.call("multiply", &[spread, one], Default::default())
        })
        .unwrap()
    }

    /// The first item of each row of each batch (`!` for an error), and the bytes that `batch` copied.
    fn read(ds: &Dataset, chunk_rows: Option<usize>) -> (String, u64) {
        let ds = ds.with_options(Options { chunk_rows, ..Default::default() }).unwrap();
        let bound = crate::plan::Bound { plan: ds.plan().clone(), env: Arc::new([]) };
        let pool = Pool::new(2);
        let mut iter = Iter::new(&bound, 0, pool.clone()).unwrap();
        let mut shown = Vec::new();
        while let Some(batch) = iter.next_element() {
            let Ok(batch) = batch else {
                shown.push("!".to_string());
                continue;
            };
            let t = batch[0].tensor();
            assert!(t.bytes().as_ptr().addr().is_multiple_of(crate::element::ALIGN) && !t.buf().0.is_frozen());
            let rows: Vec<Vec<f32>> = t.items::<f32>().chunks(320).map(|r| r.to_vec()).collect();
            assert!(rows.iter().all(|r| r.iter().all(|x| *x == r[0])), "a row is in one piece");
            shown.push(format!("{:?}", rows.iter().map(|r| r[0] as i64).collect::<Vec<_>>()));
        }
        let mut copied = 0;
        iter.plan.walk(&mut |p| copied += iter.meters().get(p.id).map_or(0, |m| m.copied.load(Relaxed)));
        drop(iter);
        pool.stop();
        (shown.join(" "), copied)
    }

    #[test]
    fn rows_are_made_where_the_batch_lies() {
        let ds = pictures(&Dataset::range(100).unwrap()).batch(8, false).unwrap();
        let (expect, _) = read(&ds, Some(100));
        for chunk_rows in [1, 2, 3, 5, 7, 8, 16] {
            assert_eq!(read(&ds, Some(chunk_rows)), (expect.clone(), 0), "chunks of {chunk_rows}");
        }
        assert_eq!(read(&ds.take(9).unwrap(), Some(3)).1, 0);
        let dropped = pictures(&Dataset::range(100).unwrap()).batch(8, true).unwrap();
        assert_eq!(read(&dropped, Some(3)), (expect[..expect.rfind(" [").unwrap()].to_string(), 0));
        // What a cache keeps is copied by workers, each row to its place.
        let kept = pictures(&Dataset::range(100).unwrap()).cache().unwrap().batch(8, false).unwrap();
        assert_eq!(read(&kept, Some(3)), (expect.clone(), 0));
        assert_eq!(read(&kept, Some(3)), (expect, 0));
    }

    #[test]
    fn failures_move_batches_and_later_ones_are_in_place_again() {
        let failing = |bad: i64| {
            let keep = move |x: i64| (x - bad).rem_euclid(1000) != 0;
            Dataset::range(2000)
                .unwrap()
                .map(|b, x| {
                    let bad = b.constant(Value::Tensor(Tensor::scalar(bad)))?;
                    let rest = b.call("subtract", &[x[0], bad], Default::default())?;
                    let thousand = b.constant(Value::Tensor(Tensor::scalar(1000i64)))?;
                    let zero = b.call("mod", &[rest, thousand], Default::default())?;
                    // An integer division by zero fails, and nothing else does.
                    let same = b.call("floordiv", &[zero, zero], Default::default())?;
                    let x = b.call("multiply", &[x[0], same], Default::default())?;
                    Ok(x)
                })
                .map(|ds| (ds, keep))
                .unwrap()
        };
        for bad in [0, 3, 8, 13] {
            let (ds, keep) = failing(bad);
            let ds = pictures(&ds).batch(8, false).unwrap();
            let mut expect = Vec::new();
            let mut batch: Vec<i64> = Vec::new();
            for x in 0..2000 {
                if !keep(x) {
                    batch.clear();
                    expect.push("!".to_string());
                    continue;
                }
                batch.push(x);
                if batch.len() == 8 {
                    expect.push(format!("{batch:?}"));
                    batch.clear();
                }
            }
            expect.extend((!batch.is_empty()).then(|| format!("{batch:?}")));
            for chunk_rows in [Some(1), Some(3), Some(7), Some(64), None] {
                let (got, copied) = read(&ds, chunk_rows);
                assert_eq!(got, expect.join(" "), "chunks of {chunk_rows:?}, {bad} fails");
                assert!(copied < 2000 * 1280 / 4, "{copied} bytes copied in chunks of {chunk_rows:?}");
            }
        }
    }

    #[test]
    fn filters_and_twins_are_copied() {
        let ds = pictures(&Dataset::range(40).unwrap());
        let odd = ds.filter_fn(|e| Ok(e[0].tensor().items::<f32>()[0] % 2.0 == 1.0)).unwrap().batch(4, false).unwrap();
        let expect = read(&odd, Some(100)).0;
        (1..9).for_each(|n| assert_eq!(read(&odd, Some(n)).0, expect));
        let spec = Spec::leaf(Leaf::tensor(DType::Float32, Dims::of([Some(320)])));
        let host = ds.map_fn(spec, Ok).unwrap().batch(4, false).unwrap();
        let expect = read(&host, Some(100)).0;
        (1..9).for_each(|n| assert_eq!(read(&host, Some(n)).0, expect));
        let mut builder = Builder::new(ds.spec());
        let one = builder.constant(Value::Tensor(Tensor::scalar(1f32))).unwrap();
        let x = builder.call("add", &[0, one], Default::default()).unwrap();
        let twins = crate::element::Tree::tuple(vec![x, x].into_iter().map(crate::element::Tree::Leaf).collect());
        let twins = ds.map_graph(builder.finish(&twins)).unwrap().batch(4, false).unwrap();
        for (i, batch) in twins.iter().unwrap().enumerate() {
            let batch = batch.unwrap();
            assert_eq!(batch[0], batch[1]);
            assert_eq!(batch[0].tensor().items::<f32>()[0], (4 * i + 1) as f32);
        }
    }
}
