//! Something that will be there later: a future that can also be waited for by a plain thread.

use crate::wanted::{LOOK, is_watched, still_wanted};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// A result that somebody else makes. Dropping it does not stop the work, only the interest in it.
pub struct Task<T>(State<T>);

enum State<T> {
    Ready(Option<T>),
    Later(Arc<Shared<T>>),
}

struct Shared<T> {
    slot: Mutex<(Option<T>, Option<Waker>)>,
    done: Condvar,
    lost: fn() -> T,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, (Option<T>, Option<Waker>)> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// The result, once it is there; for a thread that works for nobody any more, that it is lost.
    fn take(&self) -> T {
        let (mut slot, watched) = (self.lock(), is_watched());
        loop {
            if let Some(value) = slot.0.take() {
                return value;
            }
            if !watched {
                slot = self.done.wait(slot).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let (back, timeout) = self.done.wait_timeout(slot, LOOK).unwrap_or_else(PoisonError::into_inner);
            slot = back;
            if timeout.timed_out() && slot.0.is_none() {
                // Whoever fulfils it must not have to wait for the look.
                drop(slot);
                if still_wanted().is_err() {
                    return (self.lost)();
                }
                slot = self.lock();
            }
        }
    }
}

/// How many promises there are.
static PROMISED: AtomicUsize = AtomicUsize::new(0);

/// How many results somebody is making in this process. In the child of a fork those of the parent count, too.
pub fn promised() -> usize {
    PROMISED.load(Relaxed)
}

/// Whoever makes the result. Dropped without one (a panic), the task gets `lost`.
pub struct Promise<T> {
    shared: Arc<Shared<T>>,
    lost: Option<fn() -> T>,
}

impl<T> Task<T> {
    pub fn ready(value: T) -> Task<T> {
        Task(State::Ready(Some(value)))
    }
    /// A task and the promise that fulfils it.
    pub fn promised(lost: fn() -> T) -> (Promise<T>, Task<T>) {
        let shared = Arc::new(Shared { slot: Mutex::new((None, None)), done: Condvar::new(), lost });
        PROMISED.fetch_add(1, Relaxed);
        (Promise { shared: shared.clone(), lost: Some(lost) }, Task(State::Later(shared)))
    }
    /// Whether the result was there from the start.
    pub fn was_ready(&self) -> bool {
        matches!(self.0, State::Ready(_))
    }
    /// The result if it is there; otherwise `waker` is called when it is.
    pub fn poll_with(&mut self, waker: &Waker) -> Poll<T> {
        match &mut self.0 {
            State::Ready(value) => Poll::Ready(value.take().expect("polled after its end")),
            State::Later(shared) => {
                let mut slot = shared.lock();
                match slot.0.take() {
                    Some(value) => Poll::Ready(value),
                    None => {
                        slot.1 = Some(waker.clone());
                        Poll::Pending
                    }
                }
            }
        }
    }
    /// Blocks this thread until it is there, without taking it: the next poll has it.
    pub fn settle(&mut self) {
        if let State::Later(shared) = &self.0 {
            let value = shared.take();
            self.0 = State::Ready(Some(value));
        }
    }
    /// Blocks this thread until it is there.
    pub fn wait(self) -> T {
        match self.0 {
            State::Ready(value) => value.expect("waited for after its end"),
            State::Later(shared) => shared.take(),
        }
    }
}

impl<T> Unpin for Task<T> {}

impl<T> std::fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            State::Ready(_) => "Task(ready)",
            State::Later(_) => "Task(later)",
        })
    }
}

impl<T> Future for Task<T> {
    type Output = T;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        self.poll_with(cx.waker())
    }
}

impl<T> Promise<T> {
    pub fn fulfil(mut self, value: T) {
        self.lost = None;
        self.put(value);
    }
    /// Nobody waits for the result any more: it need not be made.
    pub fn is_unwanted(&self) -> bool {
        Arc::strong_count(&self.shared) == 1
    }
    fn put(&self, value: T) {
        PROMISED.fetch_sub(1, Relaxed);
        let waker = {
            let mut slot = self.shared.lock();
            slot.0 = Some(value);
            slot.1.take()
        };
        self.shared.done.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> std::fmt::Debug for Promise<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Promise")
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        if let Some(lost) = self.lost.take() {
            self.put(lost());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_arrive_and_lost_ones_say_so() {
        let (promise, task) = Task::promised(|| -1);
        let made = std::thread::spawn(move || promise.fulfil(7));
        assert_eq!(task.wait(), 7);
        made.join().unwrap();
        let (promise, mut task) = Task::promised(|| -1);
        assert!(task.poll_with(Waker::noop()).is_pending());
        drop(promise);
        assert_eq!(task.poll_with(Waker::noop()), Poll::Ready(-1));
        assert_eq!(Task::ready(3).wait(), 3);
        let (promise, mut task) = Task::promised(|| -1);
        let made = std::thread::spawn(move || promise.fulfil(8));
        task.settle();
        assert_eq!(task.poll_with(Waker::noop()), Poll::Ready(8));
        made.join().unwrap();
    }
}
