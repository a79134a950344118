//! Whether somebody still waits for what a thread makes. What was interrupted ends where it next waits, opens a file or
//! reads a block, and its reads are given up with it.
//!
//! 1. A thread works for an `Interest` (`enter`), and so do those that do parts of its work (`in_background`). Whoever
//!    waits for the result and does not want it any more says so (`give_up`).
//! 2. A thread that cannot be left alone looks for itself (`watched`): where it waits, it asks now and then whether to stop.
//! 3. Workers of a pipeline work for nobody in this sense: a pass has a flag of its own.

use crate::{Error, Result};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Whoever waits looks this often.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// Asked now and then by a thread that waits: its error ends the work.
pub type Look = fn() -> Result<()>;

thread_local! {
    static WORKS_FOR: RefCell<Option<(Interest, Option<Look>)>> = const { RefCell::new(None) };
}

#[derive(Clone, Debug, Default)]
pub struct Interest(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    given_up: AtomicBool,
    /// What the look said.
    why: Mutex<Option<Error>>,
}

impl Interest {
    /// Whom this thread works for.
    pub fn current() -> Option<Interest> {
        with_current(|interest, _| interest.clone())
    }
    /// Lets this thread work for it, or for nobody, until the result is dropped.
    pub fn enter(interest: Option<Interest>) -> Working {
        replace(interest.map(|interest| (interest, None)))
    }
    pub fn give_up(&self) {
        self.0.given_up.store(true, Relaxed);
    }
    fn is_given_up(&self) -> bool {
        self.0.given_up.load(Relaxed)
    }
}

fn with_current<R>(f: impl FnOnce(&Interest, Option<Look>) -> R) -> Option<R> {
    WORKS_FOR.try_with(|current| current.borrow().as_ref().map(|(interest, look)| f(interest, *look))).ok().flatten()
}

fn replace(with: Option<(Interest, Option<Look>)>) -> Working {
    Working { before: WORKS_FOR.try_with(|current| current.replace(with)).ok().flatten() }
}

/// As long as it lives the thread works for an interest.
#[must_use]
pub struct Working {
    before: Option<(Interest, Option<Look>)>,
}

impl Drop for Working {
    fn drop(&mut self) {
        let _ = WORKS_FOR.try_with(|current| current.replace(self.before.take()));
    }
}

/// What `work` gives. Where it waits, this thread asks `look`, whose error is then the result.
pub fn watched<R>(look: Look, work: impl FnOnce() -> Result<R>) -> Result<R> {
    let interest = Interest::default();
    let _working = replace(Some((interest.clone(), Some(look))));
    let result = work();
    match interest.0.why.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(why) => Err(why),
        None => result,
    }
}

/// An error if nobody waits for what this thread makes.
pub fn wanted() -> Result<()> {
    match with_current(|interest, _| interest.is_given_up()) {
        Some(true) => Err(Error::cancelled()),
        _ => Ok(()),
    }
}

/// The same for a thread that has waited for a while: it looks for itself if it is to.
pub fn still_wanted() -> Result<()> {
    if let Some((interest, Some(look))) = with_current(|interest, look| (interest.clone(), look))
        && !interest.is_given_up()
        && let Err(why) = look()
    {
        *interest.0.why.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
        interest.give_up();
    }
    wanted()
}

/// Whether a thread has to wake up now and then while it waits.
pub(crate) fn is_watched() -> bool {
    with_current(|_, _| ()).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Task, in_background};

    fn never() -> Task<Result<u8>> {
        let (promise, task) = Task::promised(|| Err(Error::internal("lost")));
        std::mem::forget(promise);
        task
    }

    #[test]
    fn whoever_waits_for_nobody_stops() {
        let interest = Interest::default();
        let working = interest.clone();
        let thread = std::thread::spawn(move || {
            let _working = Interest::enter(Some(working));
            let first: Result<u8> = Task::ready(Ok(1)).wait();
            // Also on a thread that does a part of the work.
            let (promise, task) = Task::promised(|| Err(Error::internal("lost")));
            in_background(move || promise.fulfil(never().wait()));
            (first, wanted(), task.wait(), never().wait(), wanted(), crate::open("a"))
        });
        std::thread::sleep(2 * LOOK);
        assert!(!thread.is_finished());
        interest.give_up();
        let (first, before, elsewhere, here, after, opened) = thread.join().unwrap();
        assert!(first.is_ok() && before.is_ok() && elsewhere.is_err() && here.is_err());
        assert_eq!([after.unwrap_err().kind(), opened.unwrap_err().kind()], [Kind::Cancelled; 2]);
    }

    #[test]
    fn whoever_looks_for_itself_stops_with_what_it_saw() {
        let seen = watched(|| Err(Error::usage("enough")), || never().wait());
        assert_eq!(seen.unwrap_err().message(), "enough");
        assert_eq!(watched(|| Err(Error::usage("enough")), || Ok(7)).unwrap(), 7);
        assert!(wanted().is_ok() && Interest::current().is_none());
    }
}
