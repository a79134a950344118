//! Messages of the core, given to Python's `logging` under the logger `feedline`.
//!
//! 1. Whoever has something to say may be a worker that holds locks: it only puts the message into a list.
//! 2. A thread of its own attaches to the interpreter and hands them on in order. The first message starts it.
//! 3. The list is bounded; what does not fit is counted and told.
//! 4. At interpreter exit, what was said before is still handed on.

use crate::host::attach;
use feedline_io::{brief, in_child};
use log::{Level, LevelFilter, Log, Metadata, Record};
use pyo3::prelude::*;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// So many messages wait at most.
const WAITING: usize = 1000;

struct Message {
    level: Level,
    target: String,
    text: String,
}

struct Waiting {
    messages: Vec<Message>,
    lost: usize,
    /// Whether the thread is there, and whether it is handing something on.
    started: bool,
    busy: bool,
}

static WAIT: Mutex<Waiting> = Mutex::new(Waiting { messages: Vec::new(), lost: 0, started: false, busy: false });
static CALL: Condvar = Condvar::new();

struct Bridge;

fn waiting() -> MutexGuard<'static, Waiting> {
    WAIT.lock().unwrap_or_else(|e| e.into_inner())
}

impl Log for Bridge {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("feedline")
    }
    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        // Made before the lock is taken: a text may take its time.
        let target = logger_name(record.target());
        let message = Message { level: record.level(), target, text: record.args().to_string() };
        let _brief = brief();
        let mut waiting = waiting();
        if waiting.messages.len() >= WAITING {
            waiting.lost += 1;
            return;
        }
        waiting.messages.push(message);
        if !waiting.started {
            // Without a thread to be had there is nobody to tell.
            waiting.started = std::thread::Builder::new().name("feedline-log".into()).spawn(hand_on).is_ok();
        }
        CALL.notify_all();
    }
    fn flush(&self) {}
}

/// `feedline_io::retry` is `feedline.io.retry`: all are below the logger `feedline`.
fn logger_name(target: &str) -> String {
    target.replacen("feedline_", "feedline.", 1).replace("::", ".")
}

/// Lets messages of the core come to Python.
pub fn install() {
    if log::set_logger(&Bridge).is_ok() {
        log::set_max_level(LevelFilter::Debug);
        in_child(|| {
            let mut waiting = waiting();
            waiting.started = false;
            waiting.busy = false;
            waiting.messages.clear();
        });
    }
}

/// Waits a moment until all that was said has been handed on. The interpreter must not be held.
pub fn finish() {
    let start = Instant::now();
    let done = |w: &Waiting| !w.started || (w.messages.is_empty() && !w.busy);
    while !done(&waiting()) && start.elapsed() < Duration::from_secs(1) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn hand_on() {
    loop {
        let (messages, lost) = {
            let mut waiting = waiting();
            waiting.busy = false;
            while waiting.messages.is_empty() {
                waiting = CALL.wait(waiting).unwrap_or_else(|e| e.into_inner());
            }
            waiting.busy = true;
            (std::mem::take(&mut waiting.messages), std::mem::take(&mut waiting.lost))
        };
        let told = attach(|py| tell(py, &messages, lost));
        if told.is_none() {
            return;
        }
    }
}

fn tell(py: Python<'_>, messages: &[Message], lost: usize) {
    let told = (|| -> PyResult<()> {
        let logging = py.import("logging")?;
        for message in messages {
            let logger = logging.call_method1("getLogger", (&message.target,))?;
            let level = match message.level {
                Level::Error => 40,
                Level::Warn => 30,
                Level::Info => 20,
                Level::Debug | Level::Trace => 10,
            };
            logger.call_method1("log", (level, "%s", &message.text))?;
        }
        if lost > 0 {
            let logger = logging.call_method1("getLogger", ("feedline",))?;
            logger.call_method1("warning", ("%s more messages came too fast to be told", lost))?;
        }
        Ok(())
    })();
    if let Err(error) = told {
        error.write_unraisable(py, None);
    }
}
