//! Forks. Only the thread that forked lives on in the child, with a copy of everything as it was at that moment: what
//! another thread had locked stays locked there for ever.
//!
//! 1. Locks that a child may want (of the pool of buffers, of what datasets keep between passes) are held briefly, and
//!    only inside `brief()`. A fork waits until nobody is inside, and nobody enters until it is over.
//! 2. What belongs to threads (queues of work) is left to the parent: functions given to `in_child` make the child forget
//!    it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Once, PoisonError};

/// How many are inside `brief()`; `FORKING` while a fork is under way.
static INSIDE: AtomicUsize = AtomicUsize::new(0);
const FORKING: usize = usize::MAX / 2;

static IN_CHILD: Mutex<Vec<fn()>> = Mutex::new(Vec::new());

/// As long as it lives this process does not fork. To be held for moments only, and never while waiting.
#[must_use]
pub struct Brief(());

/// Keeps forks away while a lock is held. May be nested.
pub fn brief() -> Brief {
    static HANDLERS: Once = Once::new();
    HANDLERS.call_once(|| {
        #[cfg(unix)]
        // SAFETY: plain functions that live as long as the process.
        unsafe {
            libc::pthread_atfork(Some(before), Some(after), Some(after_in_child))
        };
    });
    // ORDER: acquire, so that what happens inside comes after a fork that was under way.
    while INSIDE.fetch_add(1, Ordering::Acquire) >= FORKING {
        INSIDE.fetch_sub(1, Ordering::Relaxed);
        std::thread::yield_now();
    }
    Brief(())
}

impl Drop for Brief {
    fn drop(&mut self) {
        // ORDER: release, so that a fork that sees it gone sees what it did.
        INSIDE.fetch_sub(1, Ordering::Release);
    }
}

/// Has `forget` called in the children of forks from now on. It must not wait for anything.
pub fn in_child(forget: fn()) {
    let _brief = brief();
    let mut list = IN_CHILD.lock().unwrap_or_else(PoisonError::into_inner);
    if !list.contains(&forget) {
        list.push(forget);
    }
}

#[cfg(unix)]
extern "C" fn before() {
    // Whoever is inside may enter again, so nobody is kept out until all have left.
    // ORDER: acquire pairs with the release of those who left.
    while INSIDE.compare_exchange_weak(0, FORKING, Ordering::Acquire, Ordering::Relaxed).is_err() {
        std::thread::yield_now();
    }
}

#[cfg(unix)]
extern "C" fn after() {
    // Those who tried to enter meanwhile have added themselves, and will take that back.
    // ORDER: release opens the gate.
    INSIDE.fetch_sub(FORKING, Ordering::Release);
}

#[cfg(unix)]
extern "C" fn after_in_child() {
    // There are no others who could take anything back.
    // ORDER: as above.
    INSIDE.store(0, Ordering::Release);
    IN_CHILD.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|forget| forget());
}

#[cfg(all(test, unix))]
mod tests {
    use crate::{Buf, Task, in_background};
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    /// What a child wants: memory of several classes, and an I/O thread.
    fn works() -> bool {
        let bufs: Vec<Buf> = (12..22).map(|n| Buf::new(1 << n)).collect();
        let (promise, task) = Task::promised(|| 0);
        in_background(move || promise.fulfil(7));
        bufs.iter().all(|b| !b.is_empty()) && task.wait() == 7
    }

    /// Forks, and says whether `child` was true in the child. A child that hangs is ended by its alarm.
    fn fork(child: fn() -> bool) -> bool {
        // SAFETY: the child makes memory and threads, and ends without running anything of the parent's.
        let id = unsafe { libc::fork() };
        if id == 0 {
            // SAFETY: plain calls.
            unsafe {
                libc::alarm(20);
                libc::_exit(if child() { 0 } else { 1 });
            }
        }
        let mut status = -1;
        // SAFETY: waits for the child that was just made.
        unsafe { libc::waitpid(id, &mut status, 0) };
        status == 0
    }

    #[test]
    fn a_fork_waits_for_those_inside() {
        static LEFT: AtomicBool = AtomicBool::new(false);
        let inside = super::brief();
        let forking = std::thread::spawn(|| fork(|| LEFT.load(Relaxed)));
        std::thread::sleep(std::time::Duration::from_millis(50));
        LEFT.store(true, Relaxed);
        drop((super::brief(), inside));
        assert!(forking.join().unwrap(), "it forked while somebody was inside");
    }

    #[test]
    fn children_of_a_busy_parent_find_nothing_locked() {
        static STOP: AtomicBool = AtomicBool::new(false);
        let busy: Vec<_> = (0..3)
            .map(|_| {
                std::thread::spawn(|| {
                    while !STOP.load(Relaxed) {
                        assert!(works());
                    }
                })
            })
            .collect();
        for _ in 0..100 {
            assert!(fork(works), "the child failed or hung");
        }
        STOP.store(true, Relaxed);
        busy.into_iter().for_each(|t| t.join().unwrap());
    }
}
