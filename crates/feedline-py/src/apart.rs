//! Work that may take long before there is an iterator: building a dataset reads footers, indexes, headers, listings.
//!
//! 1. It runs on a thread of its own, without the interpreter: other Python threads go on meanwhile, also one that serves
//!    what is being read.
//! 2. The caller waits in short steps and looks for signals between them, so that Ctrl-C is answered at once.
//! 3. Work that nobody waits for any more ends with what it waits for (`feedline-io/src/wanted.rs`). What it made is
//!    dropped; Python objects in it are let go of when somebody holds the interpreter again.
//!
//! What is mostly there at once, an element by its number for instance, is done by the caller itself, which looks for
//! signals where it has to wait: a thread would cost more (`watched`).

use crate::error::{IntoPy, interrupted};
use feedline::{Error, Kind, Result};
use feedline_io::Interest;
use pyo3::prelude::*;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread::Builder;
use std::time::Duration;

/// Signals are looked for this often.
const STEP: Duration = Duration::from_millis(50);
/// As much as a main thread has: plans of a thousand operators are read by calls inside calls.
const STACK_BYTES: usize = 8 << 20;

/// What `work` gives, unless a signal handler raises before it is done.
pub fn apart<R: Send + 'static>(py: Python<'_>, work: impl FnOnce() -> Result<R> + Send + 'static) -> PyResult<R> {
    py.detach(|| {
        let (tell, told) = sync_channel(1);
        let interest = Interest::default();
        let working = interest.clone();
        let thread = Builder::new().name("feedline-build".into()).stack_size(STACK_BYTES);
        let thread = thread
            // Nobody hears it if the caller was interrupted.
            .spawn(move || {
                let _working = Interest::enter(Some(working));
                drop(tell.send(work()));
            })
            .map_err(|e| Error::new(Kind::Io, format!("no thread could be started to read files: {e}")))?;
        loop {
            match told.recv_timeout(STEP) {
                Err(RecvTimeoutError::Timeout) => look_for_signals().inspect_err(|_| interest.give_up())?,
                // The thread is gone before this returns: a fork right after it finds none.
                answer => match (thread.join(), answer) {
                    (Err(panic), _) => std::panic::resume_unwind(panic),
                    (Ok(()), answer) => return answer.unwrap_or_else(|_| Err(Error::internal("no answer"))),
                },
            }
        }
    })
    .py()
}

/// What `work` gives, here and without the interpreter, unless a signal handler raises while it waits for something.
pub fn watched<R: Send>(py: Python<'_>, work: impl FnOnce() -> Result<R> + Send) -> PyResult<R> {
    py.detach(|| feedline_io::watched(look_for_signals, work)).py()
}

/// Asked while something long runs: has the user interrupted it?
pub fn look_for_signals() -> Result<()> {
    match Python::try_attach(|py| py.check_signals()) {
        Some(Err(e)) => Err(interrupted(e)),
        _ => Ok(()),
    }
}
