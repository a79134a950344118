//! Work that may take long before there is an iterator: building a dataset reads footers, indexes, headers, listings.
//!
//! 1. It runs on a thread of its own, without the interpreter: other Python threads go on meanwhile, also one that serves
//!    what is being read.
//! 2. The caller waits in short steps and looks for signals between them, so that Ctrl-C is answered at once.
//! 3. Work that nobody waits for any more ends by itself: reads have deadlines. What it made is dropped; Python objects in
//!    it are let go of when somebody holds the interpreter again.

use crate::error::{IntoPy, interrupted};
use feedline::{Error, Kind, Result};
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
        let thread = Builder::new().name("feedline-build".into()).stack_size(STACK_BYTES);
        let thread = thread
            // Nobody hears it if the caller was interrupted.
            .spawn(move || drop(tell.send(work())))
            .map_err(|e| Error::new(Kind::Io, format!("no thread could be started to read files: {e}")))?;
        loop {
            match told.recv_timeout(STEP) {
                Err(RecvTimeoutError::Timeout) => look_for_signals()?,
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

/// Asked while something long runs: has the user interrupted it?
pub fn look_for_signals() -> Result<()> {
    match Python::try_attach(|py| py.check_signals()) {
        Some(Err(e)) => Err(interrupted(e)),
        _ => Ok(()),
    }
}
