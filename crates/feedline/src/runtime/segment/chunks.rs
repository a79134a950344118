//! How many rows a step of a segment takes, and what is taken note of for that.

use super::{Bounds, Shared};
use crate::tune::{Around, Because, because, next_rows};
use std::sync::atomic::Ordering::Relaxed;

impl Shared {
    /// Rows to ask the head for now, when `begun` of a batch are there.
    pub(super) fn want_now(&self, begun: usize) -> usize {
        let want = self.want.load(Relaxed).min(self.bounds.rows).max(1);
        match self.bounds.chunk_rows {
            Some(_) => want,
            None => crate::tune::whole_batches(want, begun, self.bounds.grain),
        }
    }

    /// Takes note of what a step cost, and how much of that was waiting for Python's lock: the more steps there are the more
    /// often is the lock handed over, so chunks must not shrink for it.
    pub(super) fn adapt(&self, rows: usize, bytes: usize, takes: usize, (ns, locked_ns): (u64, u64)) {
        self.note_cost(ns);
        let ns = ns.saturating_sub(locked_ns);
        if self.bounds.chunk_rows.is_some() || rows == 0 {
            return;
        }
        let Bounds { grain, bytes: most, .. } = self.bounds;
        // What it makes on the way counts where it is too much, whatever is left of it.
        let bytes = if takes > most / 4 { bytes.max(takes) } else { bytes };
        let asked = self.want.load(Relaxed);
        let around = Around { grain, room: most / 4, locks: locked_ns > 0 };
        let want = next_rows(asked, rows, bytes, ns, around);
        self.want.store(want, Relaxed);
        self.meter.chunk_rows.store(want as u64, Relaxed);
        self.chose_rows(want, if want == asked { because(want, rows, bytes, ns, around) } else { Because::Growing });
    }

    pub(super) fn note_cost(&self, ns: u64) {
        let cost = self.cost_ns.load(Relaxed);
        self.cost_ns.store(if cost == 0 { ns } else { (cost * 3 + ns) / 4 }, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use crate::Dataset;
    use crate::element::{DType, Dims, Element, Leaf, Spec};
    use crate::error::Result;
    use crate::expr::{Graph, HostFn};
    use crate::runtime::note_lock_wait;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::time::{Duration, Instant};

    /// Waits a while for a lock, or does something else meanwhile, and is cheap but for that. Counts the chunks.
    #[derive(Debug)]
    struct Waits {
        for_the_lock: bool,
        chunks: AtomicUsize,
    }

    impl HostFn for Waits {
        fn name(&self) -> String {
            "waits".into()
        }
        fn call(&self, args: Element) -> Result<Element> {
            Ok(args)
        }
        fn scoped(&self, body: &mut dyn FnMut()) {
            let begun = Instant::now();
            std::thread::sleep(Duration::from_millis(9));
            if self.for_the_lock {
                note_lock_wait(begun.elapsed());
            }
            self.chunks.fetch_add(1, Relaxed);
            body();
        }
        fn parallel(&self) -> bool {
            false
        }
    }

    /// Chunks that 320 rows make, with batches of 16 behind them.
    fn chunks(for_the_lock: bool) -> usize {
        let function = Arc::new(Waits { for_the_lock, chunks: AtomicUsize::new(0) });
        let ds = Dataset::range(320).unwrap();
        let spec = Spec::leaf(Leaf::tensor(DType::Int64, Dims::known(&[])));
        let ds = ds.map_graph(Graph::host(ds.spec(), function.clone(), spec)).unwrap().batch(16, false).unwrap();
        assert_eq!(ds.iter().unwrap().count(), 20);
        function.chunks.load(Relaxed)
    }

    #[test]
    fn waiting_for_the_lock_does_not_make_chunks_small() {
        // A step that takes that long in work of its own has a row.
        assert_eq!(chunks(false), 320);
        // More of them than there are batches: they grow to that first.
        assert!(chunks(true) < 80);
    }
}
