//! Python functions inside pipelines: called one element at a time, with the interpreter attached once per chunk.

use crate::error::raised;
use crate::lent;
use crate::structure;
use crate::values::{Whose, convert, value_for};
use feedline::element::{Element, Spec, Tree};
use feedline::expr::{Ask, Crew, HostFn};
use feedline::runtime::{Line, note_lock_wait};
use feedline::{Error, Result};
use feedline_workers::{Slot, Start};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};
use std::time::{Duration, Instant};

/// Set at interpreter exit: from then on workers leave Python alone.
static SHUT_DOWN: AtomicBool = AtomicBool::new(false);

/// Threads that are in Python now.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

/// Who wants the interpreter's lock.
pub static LINE: Line = Line::new();

/// Called at interpreter exit. A worker that comes back from a wait after the interpreter is gone would be ended in
/// the middle of our code, so those that are in Python get a moment to come out. One that is stuck stays behind.
#[pyfunction]
pub fn shutdown(py: Python<'_>) {
    py.detach(crate::log::finish);
    SHUT_DOWN.store(true, SeqCst);
    py.detach(|| {
        feedline_workers::end_all();
        let start = Instant::now();
        while INSIDE.load(SeqCst) > 0 && start.elapsed() < Duration::from_secs(2) {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

/// Attaches unless the interpreter is going away.
pub fn attach<R>(f: impl FnOnce(Python<'_>) -> R) -> Option<R> {
    /// Out again, also where it unwinds.
    struct Inside;
    impl Drop for Inside {
        fn drop(&mut self) {
            INSIDE.fetch_sub(1, SeqCst);
        }
    }
    INSIDE.fetch_add(1, SeqCst);
    let _inside = Inside;
    match SHUT_DOWN.load(SeqCst) {
        true => None,
        false => Python::try_attach(f),
    }
}

/// The same for many calls at once, when it is this worker's turn: the wait for the interpreter's lock is counted as such.
pub fn attach_counted<R>(f: impl FnOnce(Python<'_>) -> R) -> Option<R> {
    let start = Instant::now();
    let waits = LINE.worker();
    attach(|py| {
        drop(waits);
        note_lock_wait(start.elapsed());
        f(py)
    })
}

/// The name of a callable, without the address that its own text may have.
pub fn name_of(callable: &Py<PyAny>) -> String {
    attach(|py| {
        let callable = callable.bind(py);
        let own = callable.getattr("__qualname__").and_then(|n| n.extract::<String>());
        own.or_else(|_| callable.get_type().name().map(|n| n.to_string())).ok()
    })
    .flatten()
    .unwrap_or_else(|| "a Python function".into())
}

/// What tells a callable from others, in later processes too: `feedline.function_identity` knows. At interpreter exit, nothing.
pub fn identity_of(callable: &Py<PyAny>) -> Option<Vec<u8>> {
    asked(callable, "of")
}

/// The same without what calls may change.
pub fn code_of(callable: &Py<PyAny>) -> Option<String> {
    asked(callable, "code_of")
}

/// Whether it seems to draw random numbers: `feedline.function_randomness` reads its code.
fn may_draw(callable: &Py<PyAny>) -> bool {
    let own = |py: Python<'_>| -> PyResult<bool> {
        py.import("feedline.function_randomness")?.call_method1("may_draw", (callable,))?.extract()
    };
    attach(|py| own(py).unwrap_or(false)).unwrap_or(false)
}

fn asked<T: for<'a, 'py> FromPyObject<'a, 'py, Error = PyErr>>(callable: &Py<PyAny>, what: &str) -> Option<T> {
    let own = |py: Python<'_>| -> PyResult<Option<T>> {
        py.import("feedline.function_identity")?.call_method1(what, (callable,))?.extract()
    };
    attach(|py| own(py).ok()).flatten().flatten()
}

/// Whether the interpreter is ending.
pub fn is_shut_down() -> bool {
    SHUT_DOWN.load(SeqCst)
}

/// A Python callable with what is known of its arguments and results.
pub struct PyFunc {
    pub func: Py<PyAny>,
    /// The argument's structure; its leaves arrive in order.
    pub input: Spec,
    /// A tuple becomes several positional arguments.
    pub unpack: bool,
    pub output: Spec,
    /// The processes that call it, where the user wants some.
    crew: Slot,
    /// What calls in this process have cost.
    spent: Spent,
}

/// Calls in this process: how many, and the CPU time that they took, during which no other thread ran Python.
#[derive(Default)]
struct Spent {
    calls: AtomicU64,
    ns: AtomicU64,
    told: AtomicBool,
}

/// After so much time of one core it is worth saying that there are others.
const WORTH_TELLING_NS: u64 = 2_000_000_000;

/// CPU time of this thread.
fn thread_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills in two numbers.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl std::fmt::Debug for PyFunc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name())
    }
}

impl PyFunc {
    pub fn new(func: Py<PyAny>, input: Spec, unpack: bool, output: Spec) -> PyFunc {
        PyFunc { func, input, unpack, output, crew: Slot::default(), spent: Spent::default() }
    }

    pub fn try_call(&self, py: Python<'_>, args: Element) -> PyResult<Element> {
        let mut values = lent::apart(args).into_iter();
        let mut leaf =
            |_: &feedline::element::Leaf| value_for(py, values.next().expect("a value for each leaf"), Whose::Function);
        let args = match &self.input {
            Tree::Tuple { items, .. } if self.unpack => {
                let items = items.iter().map(|i| structure::build(py, i, &mut leaf)).collect::<PyResult<Vec<_>>>()?;
                PyTuple::new(py, items)?
            }
            one => PyTuple::new(py, [structure::build(py, one, &mut leaf)?])?,
        };
        let result = self.func.bind(py).call1(args)?;
        let mut out = Element::new();
        convert(&result, &self.output, &mut out).map_err(|e| {
            let text = format!("what {} returned cannot be used: {}", self.name(), e.value(py));
            crate::error::value_error(text)
        })?;
        Ok(out)
    }
}

impl HostFn for PyFunc {
    fn name(&self) -> String {
        name_of(&self.func)
    }
    fn identity(&self) -> Option<Vec<u8>> {
        identity_of(&self.func)
    }
    fn code(&self) -> Option<String> {
        code_of(&self.func)
    }
    fn may_draw(&self) -> bool {
        may_draw(&self.func)
    }
    fn call(&self, args: Element) -> Result<Element> {
        self.spent.calls.fetch_add(1, Relaxed);
        let called = |py: Python<'_>| self.try_call(py, args).and_then(|out| lent::taken_over(py, out)).map_err(raised);
        attach(called).unwrap_or_else(|| Err(Error::cancelled()))
    }
    fn scoped(&self, body: &mut dyn FnMut()) {
        let scope = |py: Python<'_>| {
            let start = thread_ns();
            body();
            let ns = thread_ns().saturating_sub(start);
            if self.spent.ns.fetch_add(ns, Relaxed) + ns > WORTH_TELLING_NS && !self.spent.told.swap(true, Relaxed) {
                self.advise(py);
            }
        };
        // At interpreter exit there is nothing to attach to; calls inside then say so.
        if attach_counted(scope).is_none() {
            body();
        }
    }
    fn parallel(&self) -> bool {
        false
    }
    fn crew(&self, ask: &Ask) -> Result<Option<Arc<dyn Crew>>> {
        let start = || attach(|py| self.start(py).map_err(raised)).unwrap_or_else(|| Err(Error::cancelled()));
        self.crew.crew(ask, start).map(Some)
    }
}

impl PyFunc {
    /// Says once that the function keeps one core busy while others wait.
    fn advise(&self, py: Python<'_>) {
        let (calls, ns) = (self.spent.calls.load(Relaxed), self.spent.ns.load(Relaxed));
        let advised = py.import("feedline.workers").and_then(|m| m.call_method1("advise", (self.name(), calls, ns)));
        // Advice that cannot be given must not fail the pipeline.
        drop(advised);
    }
    /// How a process is started that can call it: `feedline.workers` knows.
    fn start(&self, py: Python<'_>) -> PyResult<Start> {
        let specs = (structure::spec_to_py(py, &self.input)?, structure::spec_to_py(py, &self.output)?);
        let made = py.import("feedline.workers")?.call_method1("start", (&self.func, specs.0, specs.1, self.unpack))?;
        let (command, setup, seed): (Vec<String>, Vec<u8>, u64) = made.extract()?;
        let outputs = self.output.leaves().into_iter().cloned().collect();
        // Many processes share the cores: a library that starts a thread for each would be in its own way.
        let defaults = ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"].map(|name| (name, "1")).to_vec();
        Ok(Start { command, defaults, setup, outputs, name: self.name(), seed })
    }
}
