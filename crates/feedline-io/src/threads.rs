//! The few threads that wait, so that threads that compute need not. They are started when something first has to wait,
//! stay for ten idle seconds, and are never more than `LIMIT` of a kind. There are two kinds: those that read, and never
//! wait for anything but a disk; and those that do what may itself wait for reads. With one kind, jobs that wait for
//! reads could take all threads, and no read would ever be done.

use crate::Task;
use crate::account::Account;
use crate::fork::in_child;
use crate::task::Promise;
use crate::wanted::Interest;
use crate::witness::Witness;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// Cold reads of 110 KB gained nothing from more than 4 threads on a local disk; network disks want more.
const LIMIT: usize = 8;
const IDLE: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

/// The threads of a process, of both kinds.
#[derive(Default)]
struct All {
    reads: Threads,
    jobs: Threads,
}

/// Threads of one kind.
#[derive(Default)]
struct Threads {
    queue: Mutex<Queue>,
    work: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

/// Leaked once a process: the child of a fork has none of the parent's threads, and makes its own.
static ALL: AtomicPtr<All> = AtomicPtr::new(std::ptr::null_mut());

fn all() -> &'static All {
    // ORDER: acquire pairs with the release that published them.
    let found = ALL.load(Ordering::Acquire);
    if found.is_null() {
        in_child(|| ALL.store(std::ptr::null_mut(), Ordering::Relaxed));
        let new = Box::into_raw(Box::default());
        // ORDER: release publishes the contents; acquire sees another thread's.
        match ALL.compare_exchange(found, new, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: published, and never freed.
            Ok(_) => return unsafe { &*new },
            Err(other) => {
                // SAFETY: `new` was never shared; `other` was published by another thread and is never freed.
                return unsafe {
                    drop(Box::from_raw(new));
                    &*other
                };
            }
        }
    }
    // SAFETY: published, and never freed.
    unsafe { &*found }
}

/// Runs a job that may wait, also for reads.
pub fn in_background(job: impl FnOnce() + Send + 'static) {
    let (witness, interest) = (Witness::current(), Interest::current());
    all().jobs.run("feedline-job", move || {
        let (_watched, _working) = (Witness::enter(witness), Interest::enter(interest));
        job();
    });
}

/// Runs a read, which waits for nothing but a disk.
pub(crate) fn read_in_background(job: impl FnOnce() + Send + 'static) {
    all().reads.run("feedline-io", job);
}

impl Threads {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&'static self, name: &str, job: impl FnOnce() + Send + 'static) {
        let account = Account::current();
        let job: Job = Box::new(move || {
            let _entered = Account::enter(account);
            job();
        });
        let mut queue = self.lock();
        queue.jobs.push_back(job);
        if queue.idle < queue.jobs.len() && queue.threads < LIMIT {
            let started = std::thread::Builder::new().name(name.into()).spawn(|| self.serve());
            match started {
                Ok(_) => queue.threads += 1,
                // Without any thread the job is done here: slower, but done.
                Err(_) if queue.threads == 0 => {
                    let job = queue.jobs.pop_back().expect("just pushed");
                    drop(queue);
                    job();
                    return;
                }
                Err(_) => {}
            }
        }
        drop(queue);
        self.work.notify_one();
    }

    fn serve(&self) {
        let mut queue = self.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                drop(queue);
                // A job that panics loses its promise, which says so; the thread goes on.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
                queue = self.lock();
                continue;
            }
            queue.idle += 1;
            let (back, timeout) = self.work.wait_timeout(queue, IDLE).unwrap_or_else(PoisonError::into_inner);
            queue = back;
            queue.idle -= 1;
            if timeout.timed_out() && queue.jobs.is_empty() {
                queue.threads -= 1;
                return;
            }
        }
    }
}

/// Runs work that waits for disks itself, and for other things by `await`: no thread is held by the second.
pub(crate) fn spawn<T: Send + 'static>(lost: fn() -> T, work: impl Future<Output = T> + Send + 'static) -> Task<T> {
    let (promise, task) = Task::promised(lost);
    let state = Mutex::new(Some((Box::pin(work) as Pin<Box<_>>, promise)));
    Arc::new(Spawned { state }).wake();
    task
}

type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

struct Spawned<T> {
    /// `None` once it is done. The lock makes a wake-up during a poll wait for its end, and then poll again.
    state: Mutex<Option<(Work<T>, Promise<T>)>>,
}

impl<T: Send + 'static> Wake for Spawned<T> {
    fn wake(self: Arc<Self>) {
        read_in_background(move || {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            // Taken out, so that a panic loses the promise, which says so.
            let Some((mut work, promise)) = state.take() else { return };
            let waker = Waker::from(self.clone());
            match work.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(value) => promise.fulfil(value),
                Poll::Pending if promise.is_unwanted() => {}
                Poll::Pending => *state = Some((work, promise)),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_jobs_are_all_done() {
        let tasks: Vec<_> = (0..100)
            .map(|i| {
                let (promise, task) = Task::promised(|| usize::MAX);
                in_background(move || promise.fulfil(i));
                task
            })
            .collect();
        assert_eq!(tasks.into_iter().map(Task::wait).sum::<usize>(), 4950);
        assert!(all().jobs.lock().threads <= LIMIT);
    }

    #[test]
    fn spawned_work_awaits_without_a_thread() {
        // Far more than there are threads, all waiting for something that comes later.
        let (promises, tasks): (Vec<_>, Vec<_>) = (0..100)
            .map(|i| {
                let (promise, task) = Task::promised(|| 0);
                (promise, spawn(|| usize::MAX, async move { i + task.await + Task::ready(1).await }))
            })
            .unzip();
        for promise in promises {
            promise.fulfil(10);
        }
        assert_eq!(tasks.into_iter().map(Task::wait).sum::<usize>(), 4950 + 1100);
        let lost = spawn(|| "lost", async { std::panic::resume_unwind(Box::new("on purpose")) });
        assert_eq!(lost.wait(), "lost");
    }

    #[test]
    fn jobs_may_wait_for_reads() {
        // More than there are threads, each waiting for a read and for spawned work.
        let tasks: Vec<_> = (0..4 * LIMIT)
            .map(|i| {
                let (promise, task) = Task::promised(|| usize::MAX);
                in_background(move || {
                    let (read, wanted) = Task::promised(|| usize::MAX);
                    read_in_background(move || read.fulfil(i));
                    promise.fulfil(wanted.wait() + spawn(|| usize::MAX, async { 1 }).wait());
                });
                task
            })
            .collect();
        assert_eq!(tasks.into_iter().map(Task::wait).sum::<usize>(), (1..=4 * LIMIT).sum::<usize>());
    }

    #[test]
    fn a_panic_costs_its_own_job() {
        let (promise, task) = Task::promised(|| "lost");
        in_background(move || {
            let _promise = promise;
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        assert_eq!(task.wait(), "lost");
        let (promise, task) = Task::promised(|| "lost");
        in_background(move || promise.fulfil("done"));
        assert_eq!(task.wait(), "done");
    }
}
