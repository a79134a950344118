//! `cache()`: the elements are kept in memory after the first complete pass.

use super::held::Held;
use crate::dataset::Dataset;
use crate::element::{Chunk, Spec, Value};
use crate::error::Result;
use crate::op::{Op, OpInfo, read};
use crate::plan::{Card, Plan};
use crate::runtime::sync::{Mutex, lock};
use crate::runtime::{BuildCx, Built, Cx, Index, Pull, Stage};
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

type Kept = (Option<Weak<[Value]>>, Held);

impl Store {
    fn find(list: &[Kept], env: &Arc<[Value]>) -> Option<Held> {
        let same = |key: &Option<Weak<[Value]>>| match key {
            None => env.is_empty(),
            Some(key) => key.ptr_eq(&Arc::downgrade(env)),
        };
        list.iter().find(|(key, _)| same(key)).map(|(_, held)| held.clone())
    }
    fn get(&self, env: &Arc<[Value]>) -> Option<Held> {
        let _brief = brief();
        Store::find(&lock(&self.0), env)
    }
    /// The first complete pass wins.
    fn put(&self, env: &Arc<[Value]>, held: Held) {
        let _brief = brief();
        let mut list = lock(&self.0);
        list.retain(|(key, _)| key.as_ref().is_none_or(|k| k.strong_count() > 0));
        if Store::find(&list, env).is_none() {
            list.push(((!env.is_empty()).then(|| Arc::downgrade(env)), held));
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
        if let Some(held) = self.store.get(&cx.env) {
            return Ok(held.into_stage());
        }
        let (store, env) = (self.store.clone(), cx.env.clone());
        let input = cx.stage(&node.inputs[0])?;
        Ok(Built::Stage(Box::new(CacheStage { input, store, env, filling: Some(Filling::default()) })))
    }
    fn index(&self, cx: &BuildCx, node: &Plan) -> Result<Option<Arc<dyn Index>>> {
        match self.store.get(&cx.env) {
            Some(held) => Ok(Some(Arc::new(held))),
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
    input: Box<dyn Stage>,
    store: Arc<Store>,
    env: Arc<[Value]>,
    /// `None` once this pass can no longer fill the cache.
    filling: Option<Filling>,
}

impl Stage for CacheStage {
    fn next(&mut self, cx: &mut Cx<'_>, want: usize) -> Pull {
        let pull = self.input.next(cx, want);
        match &pull {
            Pull::Rows(chunk) => {
                if let Some(filling) = &mut self.filling {
                    chunk.freeze();
                    filling.push(chunk.clone());
                }
            }
            Pull::Fail(error) => {
                if self.filling.take().is_some() {
                    log::warn!(
                        "cache: an element failed, so this pass is not kept and the next one starts anew: {error}"
                    );
                }
            }
            // Stages that are stopped also say that they are at the end.
            Pull::End if !cx.is_cancelled() => {
                if let Some(filling) = self.filling.take() {
                    self.store.put(&self.env, filling.finish());
                }
            }
            Pull::Pending | Pull::End => {}
        }
        pull
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
        let held = |n| Held::new(Chunk::new(n, crate::element::Pos::Run(0), []));
        let env = |n: i64| -> Arc<[Value]> { [Value::Tensor(Tensor::scalar(n))].into() };
        let (a, b) = (env(1), env(2));
        store.put(&a, held(1));
        assert!(store.get(&b).is_none() && store.get(&Arc::from([])).is_none());
        store.put(&Arc::from([]), held(3));
        drop(a);
        store.put(&b, held(2));
        assert_eq!((store.get(&b).unwrap().len(), store.get(&Arc::from([])).unwrap().len()), (2, 3));
        assert_eq!(lock(&store.0).len(), 2);
    }
}
