//! `cache()`: the elements are kept in memory after the first complete pass.
//!
//! A state does not hold them: a process that resumes reads them again, as the pass read them that filled the cache here,
//! and so fills its own.

use super::held::{Held, HeldStage};
use crate::dataset::Dataset;
use crate::element::{Chunk, Spec, Value};
use crate::error::Result;
use crate::op::{Op, OpInfo, read};
use crate::plan::{Card, Plan};
use crate::runtime::sync::{Mutex, lock};
use crate::runtime::{At, BuildCx, Built, Cx, Index, Mark, Pull, Saved, Stage};
use feedline_io::brief;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::{Arc, Weak};

pub static INFO: OpInfo = OpInfo {
    name: "cache",
    doc: "Keeps all elements in memory after the first complete pass; later passes read them there.",
    params: &[],
    read: read::<Cache>,
};

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    #[serde(skip)]
    store: Arc<Store>,
}

impl Dataset {
    /// Keeps the elements in memory. Only a pass that reads all of them without an error fills it.
    ///
    /// ```
    /// # use feedline::Dataset;
    /// let ds = Dataset::range(5)?.cache()?;
    /// assert_eq!((ds.iter()?.count(), ds.iter()?.count()), (5, 5));
    /// # Ok::<(), feedline::Error>(())
    /// ```
    pub fn cache(&self) -> Result<Dataset> {
        self.apply(Cache { store: Arc::default() })
    }
}

/// What all iterators of the dataset share. A dataset inside a function is another one for each value around it.
#[derive(Default)]
struct Store(Mutex<Vec<Kept>>);

type Kept = (Option<Weak<[Value]>>, Filled);

/// The elements, and the pass that they come from.
#[derive(Clone)]
struct Filled {
    held: Held,
    origin: Origin,
}

/// A pass over the input: what it gives depends on its epoch and on the seeds that it began with.
#[derive(Clone, PartialEq)]
struct Origin {
    epoch: u64,
    start: Arc<[Saved]>,
    /// Why there is no telling where it began.
    never: Option<&'static str>,
}

impl Origin {
    fn of(cx: &BuildCx, input: &mut dyn Stage) -> Origin {
        let (mut mark, mut start) = (Mark::default(), Vec::new());
        input.mark(&mut mark);
        let never = mark.saved(&mut start).err().map(|_| "an operator before cache cannot be resumed");
        Origin { epoch: cx.epoch, start: start.into(), never }
    }
    fn mark(&self, out: &mut Mark) {
        out.number(self.epoch);
        out.counted(&Mark::from(&*self.start));
        if let Some(why) = self.never {
            out.never(why);
        }
    }
    fn read(at: &mut At<'_>) -> Result<Origin> {
        Ok(Origin { epoch: at.number()?, start: at.counted()?.into(), never: None })
    }
}

impl Store {
    fn find(list: &[Kept], env: &Arc<[Value]>) -> Option<Filled> {
        let same = |key: &Option<Weak<[Value]>>| match key {
            None => env.is_empty(),
            Some(key) => key.ptr_eq(&Arc::downgrade(env)),
        };
        list.iter().find(|(key, _)| same(key)).map(|(_, filled)| filled.clone())
    }
    fn get(&self, env: &Arc<[Value]>) -> Option<Filled> {
        let _brief = brief();
        Store::find(&lock(&self.0), env)
    }
    /// The first complete pass wins.
    fn put(&self, env: &Arc<[Value]>, filled: Filled) {
        let _brief = brief();
        let mut list = lock(&self.0);
        list.retain(|(key, _)| key.as_ref().is_none_or(|k| k.strong_count() > 0));
        if Store::find(&list, env).is_none() {
            list.push(((!env.is_empty()).then(|| Arc::downgrade(env)), filled));
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let _brief = brief();
        f.write_str(if lock(&self.0).is_empty() { "not filled" } else { "filled" })
    }
}

impl Op for Cache {
    fn info(&self) -> &'static OpInfo {
        &INFO
    }
    fn spec(&self, inputs: &[Plan]) -> Result<Spec> {
        Ok(inputs[0].spec.clone())
    }
    fn cardinality(&self, inputs: &[Plan]) -> Card {
        inputs[0].card
    }
    fn build(&self, cx: &BuildCx, node: &Plan) -> Result<Built> {
        let (cx, plan, store) = (cx.clone(), node.inputs[0].clone(), self.store.clone());
        let (source, origin) = match store.get(&cx.env) {
            Some(Filled { held, origin }) => (Source::Held(held.stage()), origin),
            None => {
                let mut input = cx.stage(&plan)?;
                let origin = Origin::of(&cx, &mut *input);
                (Source::Input(input, Some(Filling::default())), origin)
            }
        };
        Ok(Built::Stage(Box::new(CacheStage { cx, plan, store, source, origin, given: 0, drop: 0 })))
    }
    fn index(&self, cx: &BuildCx, node: &Plan) -> Result<Option<Arc<dyn Index>>> {
        match self.store.get(&cx.env) {
            Some(filled) => Ok(Some(Arc::new(filled.held))),
            None => cx.index(&node.inputs[0]),
        }
    }
    fn write(&self) -> Result<serde_json::Value> {
        Ok(serde_json::to_value(self)?)
    }
}

/// Chunks are put together into blocks of about this size, so that later passes are not bound to the small chunks with
/// which the first one started.
const BLOCK_BYTES: usize = 4 << 20;

#[derive(Default)]
struct Filling {
    blocks: Vec<Chunk>,
    open: Vec<Chunk>,
    bytes: usize,
}

impl Filling {
    fn push(&mut self, chunk: Chunk) {
        let last = if self.open.is_empty() { self.blocks.last_mut() } else { self.open.last_mut() };
        // Rows that lie together already, for instance in an array, stay where they are.
        if last.is_some_and(|l| l.extend(&chunk)) {
            return;
        }
        self.bytes += chunk.nbytes();
        self.open.push(chunk);
        if self.bytes >= BLOCK_BYTES {
            self.close();
        }
    }
    fn close(&mut self) {
        if !self.open.is_empty() {
            self.blocks.push(super::joined(&self.open));
        }
        self.open.clear();
        self.bytes = 0;
    }
    fn finish(mut self) -> Held {
        self.close();
        Held::blocks(self.blocks)
    }
}

struct CacheStage {
    cx: BuildCx,
    plan: Plan,
    store: Arc<Store>,
    source: Source,
    origin: Origin,
    /// Elements and errors so far.
    given: u64,
    /// To be left out, though they are kept: they were given before the state was taken.
    drop: u64,
}

enum Source {
    Held(HeldStage),
    /// What was read so far; `None` once this pass can no longer fill the cache.
    Input(Box<dyn Stage>, Option<Filling>),
}

impl CacheStage {
    fn pull(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        let (input, filling) = match &mut self.source {
            Source::Held(held) => return held.next(cx, want),
            Source::Input(input, filling) => (input, filling),
        };
        let pull = input.next(cx, want);
        match &pull {
            Pull::Rows(chunk) => {
                if let Some(filling) = filling {
                    chunk.freeze();
                    filling.push(chunk.clone());
                }
            }
            Pull::Fail(error) => {
                if filling.take().is_some() {
                    log::warn!(
                        "cache: an element failed, so this pass is not kept and the next one starts anew: {error}"
                    );
                }
            }
            // Stages that are stopped also say that they are at the end.
            Pull::End if !cx.is_cancelled() => {
                if let Some(filling) = filling.take() {
                    let filled = Filled { held: filling.finish(), origin: self.origin.clone() };
                    self.store.put(&self.cx.env, filled);
                }
            }
            Pull::Pending | Pull::End => {}
        }
        pull
    }
}

impl Stage for CacheStage {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        loop {
            let ask = if self.drop > 0 { self.drop.min(1 << 12) as usize } else { want };
            let pull = self.pull(cx, ask);
            let events = match &pull {
                Pull::Rows(chunk) => chunk.rows() as u64,
                Pull::Fail(_) => 1,
                Pull::Pending | Pull::End => return pull,
            };
            self.given += events;
            if self.drop == 0 {
                return pull;
            }
            self.drop -= events;
        }
    }
    fn mark(&mut self, out: &mut Mark) {
        out.number(self.given + self.drop);
        self.origin.mark(out);
    }
    fn seek(&mut self, at: &mut At<'_>) -> Result<()> {
        let given = at.number()?;
        let origin = Origin::read(at)?;
        let same = origin == self.origin || self.plan.is_pure();
        if let Some(filled) = self.store.get(&self.cx.env).filter(|f| f.origin == origin || self.plan.is_pure()) {
            let mut held = filled.held.stage();
            held.seek(&mut At::new(&[Saved::Number(given)]))?;
            (self.source, self.origin, self.given, self.drop) = (Source::Held(held), filled.origin, given, 0);
            return Ok(());
        }
        // What lies ahead is read on to; for anything else the pass begins anew.
        if !(same && matches!(self.source, Source::Input(..)) && self.given <= given) {
            let cx = BuildCx { epoch: origin.epoch, ..self.cx.clone() };
            let mut input = cx.stage(&self.plan)?;
            input.seek(&mut At::new(&origin.start))?;
            (self.source, self.origin, self.given) = (Source::Input(input, Some(Filling::default())), origin, 0);
        }
        self.drop = given - self.given;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::{DType, Tensor};
    use crate::ops::testing::{events, in_chunks, ints};
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// A dataset that counts how often its elements are computed; number `bad` fails the first time.
    fn counted(n: i64, bad: i64) -> (Dataset, Arc<AtomicUsize>) {
        let calls = Arc::new(AtomicUsize::new(0));
        let (seen, failed) = (calls.clone(), AtomicUsize::new(0));
        let ds = Dataset::range(n).unwrap().map_fn(Spec::scalar(DType::Int64), move |e| {
            seen.fetch_add(1, Relaxed);
            if e[0].tensor().item::<i64>() == bad && failed.fetch_add(1, Relaxed) == 0 {
                return Err(crate::Error::data("once"));
            }
            Ok(e)
        });
        (ds.unwrap(), calls)
    }

    #[test]
    fn the_input_is_read_once() {
        let (ds, calls) = counted(5000, -1);
        let ds = ds.cache().unwrap();
        let all: Vec<i64> = (0..5000).collect();
        assert_eq!(ints(&ds), all);
        assert_eq!(ints(&in_chunks(&ds, 7)), all);
        assert_eq!(ints(&ds.repeat(Some(2)).unwrap()).len(), 10_000);
        assert_eq!(calls.load(Relaxed), 5000);
        let index = ds.index().unwrap();
        assert_eq!(index.get(&[4999, 0]).unwrap().element(0)[0].tensor().item::<i64>(), 4999);
        assert_eq!(calls.load(Relaxed), 5000);
    }

    #[test]
    fn a_pass_with_an_error_is_not_kept() {
        let (ds, calls) = counted(4, 1);
        let ds = ds.cache().unwrap();
        assert_eq!(events(&ds), "0 ! 2 3");
        assert_eq!(events(&ds), "0 1 2 3");
        assert_eq!((events(&ds).as_str(), calls.load(Relaxed)), ("0 1 2 3", 8));
    }

    #[test]
    fn a_pass_that_stops_early_is_not_kept() {
        let (ds, calls) = counted(100_000, -1);
        let ds = ds.cache().unwrap();
        assert_eq!(ds.iter().unwrap().take(2).count(), 2);
        assert_eq!(ints(&ds).len(), 100_000);
        assert!(calls.load(Relaxed) > 100_000);
    }

    #[test]
    fn neighbours_stay_where_they_are() {
        let t = Tensor::from_items([6], &[0i64, 1, 2, 3, 4, 5]);
        let all = Chunk::new(6, crate::element::Pos::Run(0), [crate::element::Column::Dense(t)]);
        let mut filling = Filling::default();
        (0..6).for_each(|i| filling.push(all.slice(i..i + 1)));
        assert_eq!((filling.open.len(), filling.finish().len()), (1, 6));
    }

    #[test]
    fn values_around_a_dataset_have_their_own() {
        let store = Store::default();
        let held = |n| Filled {
            held: Held::new(Chunk::new(n, crate::element::Pos::Run(0), [])),
            origin: Origin { epoch: 0, start: Arc::new([]), never: None },
        };
        let env = |n: i64| -> Arc<[Value]> { [Value::Tensor(Tensor::scalar(n))].into() };
        let (a, b) = (env(1), env(2));
        store.put(&a, held(1));
        assert!(store.get(&b).is_none() && store.get(&Arc::from([])).is_none());
        store.put(&Arc::from([]), held(3));
        drop(a);
        store.put(&b, held(2));
        let rows = |env: &Arc<[Value]>| store.get(env).unwrap().held.len();
        assert_eq!((rows(&b), rows(&Arc::from([]))), (2, 3));
        assert_eq!(lock(&store.0).len(), 2);
    }
}
