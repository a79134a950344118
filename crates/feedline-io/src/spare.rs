//! Memory of others that nobody uses at the moment and that is kept for later, what processes share for instance. It counts
//! as the free lists do, and gives way before them.

use crate::account::{live_bytes, room};
use crate::buf::kept_bytes;
use crate::fork::brief;
use crate::in_child;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError, Weak};

static BYTES: AtomicUsize = AtomicUsize::new(0);
static WHO: Mutex<Vec<Weak<dyn Spare>>> = Mutex::new(Vec::new());

/// Whoever keeps such memory.
pub trait Spare: Send + Sync {
    /// Gives all of it back to the system. It must not wait for anybody, and can leave out what somebody is just at.
    fn give_back(&self);
}

/// Has it asked when memory is short, as long as it lives. Nobody is asked in the child of a fork: it is the parent's memory.
pub fn keeps_spare(who: Weak<dyn Spare>) {
    in_child(forget);
    let _brief = brief();
    let mut all = WHO.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|who| who.strong_count() > 0);
    all.push(who);
}

/// So many bytes more are kept, or fewer.
pub fn note_spare(bytes: isize) {
    // More is never given back than was kept; but the child of a fork has forgotten what its parent kept.
    let _ = BYTES.fetch_update(Relaxed, Relaxed, |now| Some(now.saturating_add_signed(bytes)));
}

/// Whether there is room to keep so many bytes more.
pub fn may_keep_spare(bytes: usize) -> bool {
    live_bytes().saturating_add(kept_bytes()).saturating_add(spare_bytes()).saturating_add(bytes) <= room()
}

/// Bytes that are kept now.
pub fn spare_bytes() -> usize {
    BYTES.load(Relaxed)
}

/// Asks all to give back what they keep.
pub(crate) fn give_back_spare() {
    let all = {
        let _brief = brief();
        WHO.lock().unwrap_or_else(PoisonError::into_inner).clone()
    };
    all.iter().filter_map(Weak::upgrade).for_each(|who| who.give_back());
}

fn forget() {
    BYTES.store(0, Relaxed);
    WHO.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Account, Buf};
    use std::sync::Arc;

    struct Keeps(AtomicUsize);

    impl Spare for Keeps {
        fn give_back(&self) {
            note_spare(-(self.0.swap(0, Relaxed) as isize));
        }
    }

    #[test]
    fn what_is_kept_gives_way_to_what_is_needed() {
        let keeps = Arc::new(Keeps(AtomicUsize::new(40 << 20)));
        let who: Weak<dyn Spare> = Arc::downgrade(&(keeps.clone() as Arc<dyn Spare>));
        keeps_spare(who);
        note_spare(40 << 20);
        // The limits of all add up, and other tests have some.
        let account = Account::open(1 << 40, 64 << 20);
        let entered = Account::enter(Some(account));
        drop(Buf::new(4 << 20));
        assert_eq!(keeps.0.load(Relaxed), 40 << 20);
        let needed = Buf::new(32 << 20);
        assert_eq!(keeps.0.load(Relaxed), 0);
        drop((needed, entered));
        account.close();
    }
}
