//! What a cache keeps in memory, for all iterators of the dataset. A part of `cache`.

use super::origin::Origin;
use super::place::Filled;
use crate::element::{Chunk, Value};
use crate::ops::held::Held;
use crate::runtime::sync::atomic::{AtomicBool, Ordering::Relaxed};
use crate::runtime::sync::{Mutex, lock};
use crate::runtime::{BuildCx, Ends, Run};
use feedline_io::brief;
use std::fmt;
use std::sync::{Arc, Weak};

/// What all iterators of the dataset share. A dataset inside a function is another one for each value around it.
#[derive(Default)]
pub struct Store {
    kept: Mutex<Vec<Kept>>,
    /// What was kept in the process of a state, and is not there in this one: the passes to fill it with.
    missed: Mutex<Vec<Missed>>,
    /// The pass that files have, if they are kept there.
    on_disk: Mutex<Option<Origin>>,
}

struct Kept {
    /// Values around the dataset.
    env: Option<Weak<[Value]>>,
    filled: Filled,
    by: By,
}

struct Missed {
    origin: Origin,
    by: By,
}

/// The pass that filled it. Workers may have read all of it for a consumer who then left: whether they had depends on the
/// machine. So other passes have what was kept only once its consumer has seen the end, and so have all that may leave
/// some of it unread; those who begin later in the same pass, once what stands between has (`runtime/ends.rs`).
#[derive(Clone)]
pub struct By {
    run: Weak<Run>,
    finished: Arc<AtomicBool>,
    ends: Option<Arc<Ends>>,
    /// All passes give the same.
    pure: bool,
    /// Only for those who are not below these ends.
    beyond: bool,
}

impl By {
    pub fn new(cx: &BuildCx, pure: bool) -> By {
        let (run, finished) = (Arc::downgrade(&cx.run), cx.run.finished.clone());
        By { run, finished, ends: cx.ends.clone(), pure, beyond: false }
    }
    /// A pass that is over.
    pub fn over() -> By {
        By { run: Weak::new(), finished: Arc::default(), ends: None, pure: true, beyond: false }
    }
    /// Told as far as workers were: those below the ends are told by others, as far as whoever reads them was.
    pub fn beyond(self) -> By {
        By { beyond: true, ..self }
    }
    fn is_seen(&self) -> bool {
        Ends::were_seen(self.ends.as_ref())
    }
    /// Whether somebody may have what this one kept.
    fn is_for(&self, other: &By) -> bool {
        let (ends, others) = (self.ends.as_ref(), other.ends.as_ref());
        let is_meant = || !(self.beyond && Ends::is_below(others, ends)) && Ends::were_seen_by(ends, others);
        self.is_over() || self.run.ptr_eq(&other.run) && is_meant()
    }
    /// Whether what it kept waits for that end of that pass, or for nobody if there is none.
    fn is_told(&self, run: &Arc<Run>, end: Option<&Arc<Ends>>) -> bool {
        match self.is_over() {
            true => end.is_none(),
            false => std::ptr::eq(self.run.as_ptr(), Arc::as_ptr(run)) && Ends::wait_for(self.ends.as_ref(), end),
        }
    }
    /// Whether others may have it.
    fn is_over(&self) -> bool {
        self.pure || self.finished.load(Relaxed) && self.is_seen()
    }
    /// Whether nobody will ever have it.
    fn is_left(&self) -> bool {
        !self.is_over() && self.run.strong_count() == 0
    }
}

impl Kept {
    fn is_of(&self, env: &Arc<[Value]>) -> bool {
        match &self.env {
            None => env.is_empty(),
            Some(key) => key.ptr_eq(&Arc::downgrade(env)),
        }
    }
}

/// Where one dataset is read twice in a pass, each may have filled it: which of them came first depends on workers.
fn first<T>(kept: impl Iterator<Item = T>, origin: impl Fn(&T) -> &Origin) -> Option<T> {
    let mut kept: Vec<T> = kept.collect();
    if kept.len() > 1 {
        kept.sort_by_cached_key(|one| rank(origin(one)));
    }
    kept.into_iter().next()
}

fn rank(origin: &Origin) -> (u64, Option<String>) {
    (origin.epoch, origin.to_json().map(|json| json.to_string()).ok())
}

/// Whether passes give the one rather than the other.
pub fn comes_first(one: &Origin, other: &Origin) -> bool {
    one != other && rank(one) < rank(other)
}

impl Store {
    /// What is kept for that pass, or for those that begin later.
    pub fn get(&self, env: &Arc<[Value]>, by: &By) -> Option<Filled> {
        let _brief = brief();
        let mut list = lock(&self.kept);
        list.retain(|kept| !kept.by.is_left());
        let there = list.iter().filter(|kept| kept.is_of(env) && kept.by.is_for(by));
        let there = first(there, |kept| &kept.filled.origin).map(|kept| (kept.filled.clone(), kept.by.is_over()));
        // Nobody is given what comes behind one that all are given.
        if let Some((given, true)) = &there {
            let is_behind = |kept: &Kept| kept.is_of(env) && comes_first(&given.origin, &kept.filled.origin);
            list.retain(|kept| !is_behind(kept));
        }
        there.map(|(filled, _)| filled)
    }
    /// The pass that those give who begin now, if it is kept or was.
    pub fn origin_for(&self, by: &By) -> Option<Origin> {
        let none = Arc::from([]);
        let there = self.get(&none, by).map(|filled| filled.origin);
        first(there.into_iter().chain(self.missed(&none, by)), |origin| origin)
    }
    /// A state says that passes read what that one gave, those for whom it was kept.
    pub fn miss(&self, origin: Origin, by: By) {
        let _brief = brief();
        lock(&self.missed).push(Missed { origin, by });
    }
    /// Nothing that a state said counts any more, nor what was made with other seeds than these.
    pub fn miss_none(&self, seeds: u64) {
        let _brief = brief();
        lock(&self.missed).clear();
        lock(&self.kept).retain(|kept| kept.filled.origin.seeds == seeds);
    }
    /// Not for datasets inside of functions, which are new for each value.
    pub fn missed(&self, env: &Arc<[Value]>, by: &By) -> Option<Origin> {
        let _brief = brief();
        let mut list = lock(&self.missed);
        list.retain(|missed| !missed.by.is_left());
        let there = list.iter().filter(|missed| env.is_empty() && missed.by.is_for(by));
        first(there, |missed| &missed.origin).map(|missed| missed.origin.clone())
    }
    /// Files have that pass.
    #[cfg(feature = "columnar")]
    pub fn note_on_disk(&self, env: &Arc<[Value]>, origin: &Origin) {
        let _brief = brief();
        if env.is_empty() {
            *lock(&self.on_disk) = Some(origin.clone());
            lock(&self.missed).clear();
        }
    }
    /// The pass whose results those that begin later give, and whether they do so already; or else once that end of the one
    /// that runs was seen, or all of it: what it has kept by then is not read again by whoever goes on with it.
    pub fn passes_give(&self, run: &Arc<Run>, end: Option<&Arc<Ends>>) -> Option<(Origin, bool)> {
        let _brief = brief();
        let (kept, missed, none) = (lock(&self.kept), lock(&self.missed), Arc::from([]));
        let told = |by: &By| !by.is_left() && by.is_told(run, end);
        let there = kept.iter().filter(|kept| kept.is_of(&none) && told(&kept.by));
        let there = first(there.map(|kept| (&kept.filled.origin, &kept.by)), |one| one.0);
        let on_disk = lock(&self.on_disk).clone().filter(|_| end.is_none());
        if let (None, Some(origin)) = (there, on_disk) {
            return Some((origin, true));
        }
        let missed = missed.iter().filter(|missed| told(&missed.by)).map(|missed| (&missed.origin, &missed.by));
        first(there.into_iter().chain(missed), |one| one.0).map(|(origin, by)| (origin.clone(), by.is_over()))
    }
    /// The first complete pass wins, unless a state told of one before it.
    pub fn put(&self, env: &Arc<[Value]>, filled: Filled, by: By) {
        let _brief = brief();
        let mut list = lock(&self.kept);
        list.retain(|kept| kept.env.as_ref().is_none_or(|k| k.strong_count() > 0) && !kept.by.is_left());
        let is_other = |missed: &Missed| missed.origin != filled.origin && missed.by.is_for(&by);
        let is_missed = env.is_empty() && lock(&self.missed).iter().any(is_other);
        let is_behind = |kept: &Kept| !comes_first(&filled.origin, &kept.filled.origin);
        if !is_missed && !list.iter().any(|kept| kept.is_of(env) && kept.by.is_for(&by) && is_behind(kept)) {
            list.push(Kept { env: (!env.is_empty()).then(|| Arc::downgrade(env)), filled, by });
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
/// While a block is put together its rows are there twice: where memory is short blocks are such a part of what may be kept.
const BLOCK_PART: usize = 32;
/// Chunks of this size stay as they are: a block of them would be a copy, beside what others keep of the pass that fills it.
const WHOLE_BYTES: usize = 256 << 10;

pub struct Blocks {
    /// What a block has, about.
    each: usize,
    pub blocks: Vec<Chunk>,
    pub open: Vec<Chunk>,
    pub bytes: usize,
    pub rows: u64,
}

impl Blocks {
    /// For a pass that may have so many bytes.
    pub fn new(limit: usize) -> Blocks {
        let (blocks, open, bytes, rows) = Default::default();
        Blocks { each: (limit / BLOCK_PART).clamp(WHOLE_BYTES, BLOCK_BYTES), blocks, open, bytes, rows }
    }
    pub fn push(&mut self, chunk: Chunk) {
        self.rows += chunk.rows() as u64;
        let last = if self.open.is_empty() { self.blocks.last_mut() } else { self.open.last_mut() };
        // Rows that lie together already, for instance in an array, stay where they are.
        if last.is_some_and(|l| l.extend(&chunk)) {
            return;
        }
        let bytes = chunk.nbytes();
        if bytes >= WHOLE_BYTES {
            self.close();
            self.blocks.push(chunk);
            return;
        }
        self.bytes += bytes;
        self.open.push(chunk);
        if self.bytes >= self.each {
            self.close();
        }
    }
    fn close(&mut self) {
        if !self.open.is_empty() {
            // Each batch of ragged rows came as a chunk of its own.
            self.blocks.push(crate::ops::joined(&self.open).together_and_kept());
        }
        self.open.clear();
        self.bytes = 0;
    }
    pub fn finish(mut self) -> Held {
        self.close();
        Held::blocks(self.blocks).kept()
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
        let mut filling = Blocks::new(1 << 30);
        (0..6).for_each(|i| filling.push(all.slice(i..i + 1)));
        assert_eq!((filling.open.len(), filling.finish().len()), (1, 6));
    }

    #[test]
    fn values_around_a_dataset_have_their_own() {
        let store = Store::default();
        let held = |n| Filled {
            rows: Rows::Memory(Held::new(Chunk::new(n, crate::element::Pos::Run(0), []))),
            rest: None,
            origin: Origin::default(),
            kept: Arc::default(),
        };
        let env = |n: i64| -> Arc<[Value]> { [Value::Tensor(Tensor::scalar(n))].into() };
        let (a, b) = (env(1), env(2));
        let ds = crate::Dataset::range(1).unwrap();
        let by = By::new(&crate::runtime::testing_cx(ds.plan()), true);
        store.put(&a, held(1), by.clone());
        assert!(store.get(&b, &by).is_none() && store.get(&Arc::from([]), &by).is_none());
        store.put(&Arc::from([]), held(3), by.clone());
        drop(a);
        store.put(&b, held(2), by.clone());
        let rows = |env: &Arc<[Value]>| match store.get(env, &by).unwrap().rows {
            Rows::Memory(held) => held.len(),
            #[cfg(feature = "columnar")]
            _ => unreachable!("in memory"),
        };
        assert_eq!((rows(&b), rows(&Arc::from([]))), (2, 3));
        assert_eq!(lock(&store.kept).len(), 2);
    }
}
