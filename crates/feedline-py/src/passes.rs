//! The passes of this process, for whoever looks at them: the page, metrics, `feedline top`.
//!
//! 1. Every iterator has a `Pass`. The list holds it weakly: it is gone with its iterator.
//! 2. A look reads counters. It waits for no consumer and no worker, and costs the loop nothing.
//! 3. Elements are not kept, unless somebody wants to see one: then the next that is delivered, until it is taken.

use crate::error::IntoPy;
use feedline::plan::{Bound as BoundPlan, Format, Plan};
use feedline::runtime::{Iter, Meters, Stopper};
use feedline_io::brief;
use pyo3::prelude::*;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

static PASSES: Mutex<Vec<Weak<Pass>>> = Mutex::new(Vec::new());

/// So many errors are remembered, the newest.
const ERRORS: usize = 20;

pub struct Pass {
    id: u64,
    asked: BoundPlan,
    running: Mutex<Running>,
    wanted: AtomicBool,
    element: Mutex<Option<Py<PyAny>>>,
    errors: Mutex<VecDeque<(f64, String)>>,
    /// Passes that were there before a fork belong to the parent.
    pid: u32,
}

/// The plan as it runs, and its meters: others after `load_state_dict`.
struct Running {
    plan: Plan,
    meters: Arc<Meters>,
    stopper: Stopper,
}

impl Running {
    fn of(iter: &Iter) -> Running {
        Running { plan: iter.plan.clone(), meters: iter.meters().clone(), stopper: iter.stopper() }
    }
}

/// Only inside of `brief()`.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

impl Pass {
    pub fn new(iter: &Iter, asked: BoundPlan) -> Arc<Pass> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let running = Mutex::new(Running::of(iter));
        let (wanted, element, errors) = Default::default();
        let (id, pid) = (NEXT.fetch_add(1, Relaxed), std::process::id());
        let pass = Arc::new(Pass { id, asked, running, wanted, element, errors, pid });
        let _brief = brief();
        let mut list = lock(&PASSES);
        if list.len() == list.capacity() {
            list.retain(|p| p.strong_count() > 0);
        }
        list.push(Arc::downgrade(&pass));
        pass
    }
    /// The iterator went elsewhere.
    pub fn set_running(&self, iter: &Iter) {
        let _brief = brief();
        *lock(&self.running) = Running::of(iter);
    }
    pub fn explain(&self, format: Format) -> String {
        let (plan, meters) = {
            let _brief = brief();
            let running = lock(&self.running);
            (running.plan.clone(), running.meters.clone())
        };
        feedline::plan::explain_pass(&self.asked.plan, &plan, &meters, format)
    }
    /// An element goes to the consumer.
    pub fn delivers(&self, element: &Bound<'_, PyAny>) {
        if self.wanted.load(Relaxed) {
            self.keep(element);
        }
    }
    #[cold]
    fn keep(&self, element: &Bound<'_, PyAny>) {
        self.wanted.store(false, Relaxed);
        let element = element.clone().unbind();
        let old = {
            let _brief = brief();
            lock(&self.element).replace(element)
        };
        // Dropping it may run Python: not under the lock.
        drop(old);
    }
    /// An error goes to the consumer.
    pub fn fails(&self, text: String) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |t| t.as_secs_f64());
        let _brief = brief();
        let mut errors = lock(&self.errors);
        if errors.len() == ERRORS {
            errors.pop_front();
        }
        errors.push_back((now, text));
    }
}

/// A pass as Python sees it. It does not keep the iterator alive.
#[pyclass(frozen, name = "Pass", module = "feedline._native")]
pub struct PyPass(Arc<Pass>);

#[pymethods]
impl PyPass {
    #[getter]
    fn id(&self) -> u64 {
        self.0.id
    }
    /// What it is doing at this moment, in words.
    fn debug(&self) -> String {
        let stopper = lock(&self.0.running).stopper.clone();
        stopper.now().to_string()
    }
    /// The same for all passes over a dataset.
    #[getter]
    fn pipeline(&self) -> u64 {
        self.0.asked.plan.id
    }
    #[pyo3(signature = (format="text"))]
    fn explain(&self, format: &str) -> PyResult<String> {
        Ok(self.0.explain(Format::parse(format).py()?))
    }
    #[getter]
    fn errors(&self) -> Vec<(f64, String)> {
        let _brief = brief();
        lock(&self.0.errors).iter().cloned().collect()
    }
    /// Asks for the next element that is delivered, or no longer.
    fn want(&self, wanted: bool) {
        self.0.wanted.store(wanted, Relaxed);
    }
    /// The element that was kept, once.
    fn take(&self) -> Option<Py<PyAny>> {
        let _brief = brief();
        lock(&self.0.element).take()
    }
}

/// The passes that have an iterator now, oldest first.
#[pyfunction]
pub fn passes() -> Vec<PyPass> {
    let _brief = brief();
    let pid = std::process::id();
    lock(&PASSES).iter().filter_map(Weak::upgrade).filter(|p| p.pid == pid).map(PyPass).collect()
}

/// Shows all plans that run.
pub fn each_plan(mut show: impl FnMut(&Plan)) {
    for pass in passes() {
        let plan = {
            let _brief = brief();
            lock(&pass.0.running).plan.clone()
        };
        show(&plan);
    }
}
