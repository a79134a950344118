//! What a cache keeps in memory, for all iterators of the dataset. A part of `cache`.

use super::origin::Origin;
use super::place::Filled;
use crate::element::{Chunk, Value};
use crate::ops::held::Held;
use crate::runtime::sync::{Mutex, lock};
use feedline_io::brief;
use std::fmt;
use std::sync::{Arc, Weak};

/// What all iterators of the dataset share. A dataset inside a function is another one for each value around it.
#[derive(Default)]
pub struct Store {
    kept: Mutex<Vec<Kept>>,
    /// What was kept in the process of a state, and is not there in this one: the pass to fill it with.
    missed: Mutex<Option<Origin>>,
}

type Kept = (Option<Weak<[Value]>>, Filled);

impl Store {
    fn find(list: &[Kept], env: &Arc<[Value]>) -> Option<Filled> {
        let same = |key: &Option<Weak<[Value]>>| match key {
            None => env.is_empty(),
            Some(key) => key.ptr_eq(&Arc::downgrade(env)),
        };
        list.iter().find(|(key, _)| same(key)).map(|(_, filled)| filled.clone())
    }
    pub fn get(&self, env: &Arc<[Value]>) -> Option<Filled> {
        let _brief = brief();
        Store::find(&lock(&self.kept), env)
    }
    /// A state says that passes read what that one gave.
    pub fn miss(&self, origin: Option<Origin>) {
        let _brief = brief();
        *lock(&self.missed) = origin;
    }
    /// Not for datasets inside of functions, which are new for each value.
    pub fn missed(&self, env: &Arc<[Value]>) -> Option<Origin> {
        let _brief = brief();
        lock(&self.missed).clone().filter(|_| env.is_empty())
    }
    /// The first complete pass wins.
    pub fn put(&self, env: &Arc<[Value]>, filled: Filled) {
        let _brief = brief();
        let mut list = lock(&self.kept);
        list.retain(|(key, _)| key.as_ref().is_none_or(|k| k.strong_count() > 0));
        if Store::find(&list, env).is_none() {
            list.push(((!env.is_empty()).then(|| Arc::downgrade(env)), filled));
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let _brief = brief();
        f.write_str(if lock(&self.kept).is_empty() { "not filled" } else { "filled" })
    }
}

/// Chunks are put together into blocks of about this size, so that later passes are not bound to the small chunks with
/// which the first one started.
const BLOCK_BYTES: usize = 4 << 20;

#[derive(Default)]
pub struct Blocks {
    pub blocks: Vec<Chunk>,
    pub open: Vec<Chunk>,
    pub bytes: usize,
    pub rows: u64,
}

impl Blocks {
    pub fn push(&mut self, chunk: Chunk) {
        self.rows += chunk.rows() as u64;
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
            self.blocks.push(crate::ops::joined(&self.open));
        }
        self.open.clear();
        self.bytes = 0;
    }
    pub fn finish(mut self) -> Held {
        self.close();
        Held::blocks(self.blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::super::origin::Origin;
    use super::super::place::Rows;
    use super::*;
    use crate::element::Tensor;
    use crate::runtime::Index;

    #[test]
    fn neighbours_stay_where_they_are() {
        let t = Tensor::from_items([6], &[0i64, 1, 2, 3, 4, 5]);
        let all = Chunk::new(6, crate::element::Pos::Run(0), [crate::element::Column::Dense(t)]);
        let mut filling = Blocks::default();
        (0..6).for_each(|i| filling.push(all.slice(i..i + 1)));
        assert_eq!((filling.open.len(), filling.finish().len()), (1, 6));
    }

    #[test]
    fn values_around_a_dataset_have_their_own() {
        let store = Store::default();
        let held = |n| Filled {
            rows: Rows::Memory(Held::new(Chunk::new(n, crate::element::Pos::Run(0), []))),
            rest: None,
            origin: Origin { epoch: 0, start: Arc::new([]), never: None },
            kept: Arc::default(),
        };
        let env = |n: i64| -> Arc<[Value]> { [Value::Tensor(Tensor::scalar(n))].into() };
        let (a, b) = (env(1), env(2));
        store.put(&a, held(1));
        assert!(store.get(&b).is_none() && store.get(&Arc::from([])).is_none());
        store.put(&Arc::from([]), held(3));
        drop(a);
        store.put(&b, held(2));
        let rows = |env: &Arc<[Value]>| match store.get(env).unwrap().rows {
            Rows::Memory(held) => held.len(),
            #[cfg(feature = "columnar")]
            _ => unreachable!("in memory"),
        };
        assert_eq!((rows(&b), rows(&Arc::from([]))), (2, 3));
        assert_eq!(lock(&store.kept).len(), 2);
    }
}
