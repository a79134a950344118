//! Reads that are on their way, for whoever wants to know what is waited for. Only reads that have to wait come by here:
//! what the page cache has is there at once.

use crate::fork::{brief, in_child};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A read that was asked for and has not arrived.
#[derive(Clone, Debug)]
pub struct Read {
    pub name: String,
    pub at: u64,
    pub len: usize,
    pub since: Instant,
}

static NEXT: AtomicU64 = AtomicU64::new(0);
static READS: Mutex<BTreeMap<u64, Read>> = Mutex::new(BTreeMap::new());

fn reads() -> MutexGuard<'static, BTreeMap<u64, Read>> {
    READS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lives as long as a read is on its way.
pub(crate) struct Flight(u64);

impl Flight {
    pub fn begin(name: &str, at: u64, len: usize) -> Flight {
        // The reads of a parent do not arrive in its child.
        in_child(|| reads().clear());
        let id = NEXT.fetch_add(1, Relaxed);
        let _brief = brief();
        reads().insert(id, Read { name: name.into(), at, len, since: Instant::now() });
        Flight(id)
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let _brief = brief();
        reads().remove(&self.0);
    }
}

/// The reads of this process that are on their way, the oldest first.
pub fn reads_under_way() -> Vec<Read> {
    let _brief = brief();
    reads().values().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_there_until_they_arrive() {
        let ours = || reads_under_way().into_iter().filter(|r| r.name.starts_with("test/")).collect::<Vec<_>>();
        let first = Flight::begin("test/a", 10, 5);
        let second = Flight::begin("test/b", 0, 1);
        assert_eq!(ours().iter().map(|r| r.name.as_str()).collect::<Vec<_>>(), ["test/a", "test/b"]);
        drop(first);
        assert_eq!(ours().len(), 1);
        drop(second);
        assert!(ours().is_empty());
    }
}
