//! What commands share with the outside: where results and remarks go, how far the work is, threads, and being stopped.

use feedline::{Error, Result};
use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value as Json, json};
use std::cell::RefCell;
use std::io::{BufWriter, IsTerminal, Stdout, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::time::Duration;

pub struct Session<'a> {
    pub json: bool,
    quiet: bool,
    pub threads: usize,
    poll: RefCell<&'a mut dyn FnMut() -> bool>,
    stop: AtomicBool,
    out: RefCell<BufWriter<Stdout>>,
}

/// What a bar counts.
#[derive(Clone, Copy)]
pub enum Unit {
    Bytes,
    Rows,
}

/// How far work is, and whether to go on with it. Threads share one.
#[derive(Clone)]
pub struct Watch<'a> {
    bar: ProgressBar,
    stop: &'a AtomicBool,
}

impl Watch<'_> {
    /// So much more is done. An error if the command is to stop.
    pub fn done(&self, more: u64) -> Result<()> {
        self.bar.inc(more);
        match self.stop.load(Relaxed) {
            true => Err(interrupted()),
            false => Ok(()),
        }
    }
    pub fn set_done(&self, all: u64) {
        self.bar.set_position(all);
    }
    /// Takes the bar away, so that results stand alone.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

fn interrupted() -> Error {
    Error::new(feedline::Kind::Cancelled, "interrupted")
}

/// An error of writing results.
pub fn unwritable(error: std::io::Error) -> Error {
    Error::io(&error).with_source(Arc::new(error))
}

impl<'a> Session<'a> {
    pub fn new(json: bool, quiet: bool, threads: Option<usize>, poll: &'a mut dyn FnMut() -> bool) -> Session<'a> {
        let threads = threads.or_else(|| std::thread::available_parallelism().ok().map(|n| n.get())).unwrap_or(1);
        let out = RefCell::new(BufWriter::new(std::io::stdout()));
        Session { json, quiet, threads, poll: RefCell::new(poll), stop: AtomicBool::new(false), out }
    }

    /// A bar on stderr for work of that size; 0: nobody knows.
    pub fn watch(&self, what: &'static str, total: u64, unit: Unit) -> Watch<'_> {
        let hidden = self.quiet || !std::io::stderr().is_terminal();
        let target = if hidden { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(10) };
        let bar = ProgressBar::with_draw_target((total > 0).then_some(total), target);
        let (done, rate) = match unit {
            Unit::Bytes => ("{bytes} of {total_bytes}", "{bytes_per_sec}"),
            Unit::Rows => ("{human_pos} of about {human_len} rows", "{per_sec}"),
        };
        let text = match (total, unit) {
            (0, Unit::Bytes) => "{msg} {spinner} {bytes}, {bytes_per_sec}".to_owned(),
            (0, Unit::Rows) => "{msg} {spinner} {human_pos} rows, {per_sec}".to_owned(),
            _ => format!("{{msg}} {{wide_bar}} {done}, {rate}, {{eta}} left"),
        };
        bar.set_style(ProgressStyle::with_template(&text).expect("a template of our own"));
        bar.set_message(what);
        Watch { bar, stop: &self.stop }
    }

    /// An error if the command is to stop. For the main thread only.
    pub fn go_on(&self) -> Result<()> {
        if (self.poll.borrow_mut())() {
            self.stop.store(true, Relaxed);
        }
        match self.stop.load(Relaxed) {
            true => Err(interrupted()),
            false => Ok(()),
        }
    }

    /// Does all jobs, some side by side. Results are in the order of the jobs.
    pub fn each<J: Sync, R: Send>(&self, jobs: &[J], work: impl Fn(&J) -> R + Sync) -> Vec<R> {
        self.each_on(self.threads, jobs, work)
    }
    /// The same for jobs that wait more than they work.
    pub fn each_waiting<J: Sync, R: Send>(&self, jobs: &[J], work: impl Fn(&J) -> R + Sync) -> Vec<R> {
        self.each_on(self.threads.max(16), jobs, work)
    }
    /// Something long on a thread of its own, so that this one hears when to stop.
    pub fn aside<R: Send>(&self, work: impl Fn() -> R + Sync) -> R {
        self.each_on(1, &[()], |()| work()).pop().expect("one job has one result")
    }
    fn each_on<J: Sync, R: Send>(&self, threads: usize, jobs: &[J], work: impl Fn(&J) -> R + Sync) -> Vec<R> {
        let next = AtomicUsize::new(0);
        let (send, receive) = mpsc::channel();
        let mut results: Vec<Option<R>> = jobs.iter().map(|_| None).collect();
        std::thread::scope(|scope| {
            for _ in 0..threads.min(jobs.len()) {
                let (next, work, send) = (&next, &work, send.clone());
                scope.spawn(move || {
                    while let Some((at, job)) = Some(next.fetch_add(1, Relaxed)).and_then(|i| Some((i, jobs.get(i)?))) {
                        // The other side goes away only when this thread is gone.
                        let _ = send.send((at, work(job)));
                    }
                });
            }
            drop(send);
            loop {
                match receive.recv_timeout(Duration::from_millis(100)) {
                    Ok((at, result)) => results[at] = Some(result),
                    Err(mpsc::RecvTimeoutError::Disconnected) => break,
                    Err(mpsc::RecvTimeoutError::Timeout) => {}
                }
                // Threads see the flag, and end with an error of their own.
                let _ = self.go_on();
            }
        });
        results.into_iter().map(|r| r.expect("every job was done")).collect()
    }

    /// A line of the result.
    pub fn line(&self, text: impl std::fmt::Display) -> Result<()> {
        writeln!(self.out.borrow_mut(), "{text}").map_err(unwritable)
    }
    /// The result as JSON.
    pub fn document(&self, json: &Json) -> Result<()> {
        let mut out = self.out.borrow_mut();
        serde_json::to_writer_pretty(&mut *out, json).map_err(|e| unwritable(e.into()))?;
        writeln!(out).map_err(unwritable)
    }
    pub fn flush(&self) -> Result<()> {
        self.out.borrow_mut().flush().map_err(unwritable)
    }
    /// Something a person may want to know, which is not the result.
    pub fn remark(&self, text: impl std::fmt::Display) {
        if !self.quiet {
            eprintln!("{text}");
        }
    }
    /// The last words of a command that failed.
    pub fn failed(&self, error: &Error) {
        let _ = self.flush();
        eprintln!("feedline: {error}");
        if self.json {
            let _ = self.document(&json!({ "error": error_json(error) }));
            let _ = self.flush();
        }
    }
}

pub fn error_json(error: &Error) -> Json {
    let at = error.at();
    json!({ "kind": error.kind().name(), "message": error.message(), "file": at.file.as_deref(), "byte": at.byte,
            "record": at.record })
}

pub fn count(n: u64) -> HumanCount {
    HumanCount(n)
}
pub fn bytes(n: u64) -> HumanBytes {
    HumanBytes(n)
}
/// `1 record`, `2,000 records`.
pub fn plural(n: u64, word: &str) -> String {
    format!("{} {word}{}", count(n), if n == 1 { "" } else { "s" })
}
/// GB a second, as people compare it with memory.
pub fn rate(bytes: u64, took: Duration) -> f64 {
    bytes as f64 / 1e9 / took.as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_done_once_and_in_order() {
        let mut poll = || false;
        let session = Session::new(false, true, Some(3), &mut poll);
        let jobs: Vec<u64> = (0..100).collect();
        assert_eq!(session.each(&jobs, |n| n * 2), (0..100).map(|n| n * 2).collect::<Vec<_>>());
        assert!(session.each(&[] as &[u64], |n| *n).is_empty());
    }

    #[test]
    fn a_stop_reaches_the_threads() {
        let mut poll = || true;
        let session = Session::new(false, true, Some(2), &mut poll);
        let watch = session.watch("waiting", 0, Unit::Bytes);
        let done = session.each(&[1, 2], |_| {
            loop {
                std::thread::sleep(Duration::from_millis(1));
                watch.done(1)?;
            }
            #[allow(unreachable_code)]
            Ok::<(), Error>(())
        });
        assert!(done.iter().all(|d| d.as_ref().unwrap_err().kind() == feedline::Kind::Cancelled));
    }
}
