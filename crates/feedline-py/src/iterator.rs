//! A pass over a dataset, as Python's iterator. The interpreter is released while it waits.

use crate::apart::{apart, look_for_signals};
use crate::error::{IntoPy, to_py};
use crate::host::{LINE, is_shut_down};
use crate::passes::Pass;
use crate::plan::{json_to_py, state_from_py};
use crate::structure::{self, spec_to_py};
use crate::values::cell_to_py;
use feedline::Kind;
use feedline::Options;
use feedline::element::{Chunk, Spec, Tree};
use feedline::plan::Bound as BoundPlan;
use feedline::runtime::{Iter, Stopper};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

/// Where an iterator was. As long as it is kept, what it may have to tell of is kept too: it is meant for a while, not for an
/// epoch.
#[pyclass(frozen, module = "feedline._native")]
pub struct Moment {
    moment: feedline::runtime::Moment,
    pid: u32,
}

#[pymethods]
impl Moment {
    /// What `state_dict` of the iterator would have given.
    fn state_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if self.pid != std::process::id() {
            return Err(forked());
        }
        let json = py.detach(|| self.moment.state().and_then(|state| state.to_json()));
        json_to_py(py, &json.py()?)
    }
}

#[pyclass(subclass, module = "feedline._native")]
pub struct Iterator {
    iter: ManuallyDrop<Mutex<Iter>>,
    spec: Spec,
    /// The plan as the user wrote it, and the options of this pass.
    asked: BoundPlan,
    options: Option<Options>,
    /// Tuples of leaves only: the commonest structure, built without walking the tree.
    flat: Option<usize>,
    stopper: Mutex<Stopper>,
    /// For whoever looks at it.
    pass: Arc<Pass>,
    /// Elements that were asked for, about: threads may count at once.
    asked_for: AtomicU32,
    /// The process that made it: after a fork its workers do not exist in the child.
    pid: u32,
}

/// So many elements that are there already are given out between two looks for signals.
const LOOK_EVERY: u32 = 16;

fn forked() -> PyErr {
    crate::error::value_error(
        "this iterator was made before a fork and its workers stayed in the parent; make a new one with iter(dataset)",
    )
}

impl Drop for Iterator {
    fn drop(&mut self) {
        // In the child of a fork it is left as it is: a worker of the parent may have locked some of it.
        if !self.is_forked() {
            // SAFETY: dropped once, here.
            unsafe { ManuallyDrop::drop(&mut self.iter) }
        }
    }
}

impl Iterator {
    pub fn new(iter: Iter, asked: BoundPlan, options: Option<Options>) -> Iterator {
        let spec = asked.plan.spec.clone();
        let flat = match &spec {
            Tree::Tuple { tag: None, items } if items.iter().all(|i| matches!(i, Tree::Leaf(_))) => Some(items.len()),
            _ => None,
        };
        let stopper = Mutex::new(iter.stopper());
        let pass = Pass::new(&iter, asked.clone());
        let (iter, pid) = (ManuallyDrop::new(Mutex::new(iter)), std::process::id());
        Iterator { iter, spec, asked, options, flat, stopper, pass, asked_for: AtomicU32::new(0), pid }
    }
    fn stopper(&self) -> MutexGuard<'_, Stopper> {
        self.stopper.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn is_forked(&self) -> bool {
        self.pid != std::process::id()
    }

    /// Two Python threads may share an iterator: each element goes to one of them.
    fn lock(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, Iter>> {
        loop {
            match self.iter.try_lock() {
                Ok(guard) => return Ok(guard),
                Err(TryLockError::Poisoned(e)) => return Ok(e.into_inner()),
                // A thread of the parent had it, and nobody will ever give it back.
                Err(TryLockError::WouldBlock) if self.is_forked() => return Err(forked()),
                // Whoever holds it may need the interpreter to go on: wait without it, then try again.
                Err(TryLockError::WouldBlock) => py.detach(|| drop(self.iter.lock())),
            }
        }
    }

    fn row<'py>(&self, py: Python<'py>, chunk: &Chunk, row: usize) -> PyResult<Bound<'py, PyAny>> {
        let columns = chunk.columns();
        if let Tree::Leaf(_) = self.spec {
            return cell_to_py(py, &columns[0], row);
        }
        if self.flat.is_some() {
            let items =
                columns.iter().map(|c| cell_to_py(py, c, row)).collect::<PyResult<smallvec::SmallVec<[_; 4]>>>()?;
            return Ok(PyTuple::new(py, items)?.into_any());
        }
        let mut column = columns.iter();
        structure::build(py, &self.spec, &mut |_| cell_to_py(py, column.next().expect("a column for each leaf"), row))
    }
}

#[pymethods]
impl Iterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }
    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        // Loops in C, `list(ds)` for instance, look for no signals. Before an element is taken, which would be lost; and
        // without the lock, since a handler may ask for elements. A look costs up to 10 ns, a small element 200.
        let asked = self.asked_for.load(Relaxed).wrapping_add(1);
        self.asked_for.store(asked, Relaxed);
        if asked.is_multiple_of(LOOK_EVERY) {
            py.check_signals()?;
        }
        let mut guard = self.lock(py)?;
        let iter = &mut *guard;
        loop {
            let entered = iter.enter();
            if let Some((chunk, row)) = iter.next_ready() {
                let element = self.row(py, chunk, row)?;
                self.pass.delivers(&element);
                return Ok(Some(element));
            }
            drop(entered);
            if self.is_forked() {
                return Err(forked());
            }
            let (more, waits) = py.detach(|| (iter.fetch(&mut look_for_signals), LINE.consumer()));
            drop(waits);
            match more {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                // A thread that reads on while the interpreter ends finds the end, not an error that nobody can act on.
                Err(error) if error.kind() == Kind::Cancelled && is_shut_down() => return Ok(None),
                Err(error) => {
                    if error.kind() != Kind::Cancelled {
                        self.pass.fails(error.to_string());
                    }
                    return Err(to_py(&error));
                }
            }
        }
    }
    #[getter]
    fn spec<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        spec_to_py(py, &self.spec)
    }
    /// Stops at once, also while another thread waits for an element.
    fn close(&self) {
        if self.is_forked() {
            return;
        }
        self.stopper().stop();
        if let Ok(mut iter) = self.iter.try_lock() {
            iter.close();
        }
    }
    /// What the pass is doing at this moment, in words: what its consumer waits for, queues, workers, reads under way.
    ///
    /// It can be asked by any thread, also while another one waits for an element.
    fn debug(&self) -> PyResult<String> {
        if self.is_forked() {
            return Err(forked());
        }
        let stopper = self.stopper().clone();
        Ok(stopper.now().to_string())
    }
    fn delivered(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.lock(py)?.delivered())
    }
    #[pyo3(signature = (format="text"))]
    fn explain(&self, format: &str) -> PyResult<String> {
        Ok(self.pass.explain(feedline::plan::Format::parse(format).py()?))
    }
    /// Where this iterator is: what `Dataset.iter(state)` and `load_state_dict` go on from.
    ///
    /// It tells of the elements that were delivered, not of those that workers have made ahead, and holds none of them.
    /// Taking it is cheap enough to be done at every step. It is made of dicts, lists, numbers and text: `json.dumps`
    /// takes it.
    ///
    /// Raises:
    ///     FailedPreconditionError: An operator cannot be resumed, such as a plain Python generator; the text names it.
    fn state_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let mut guard = self.lock(py)?;
        if self.is_forked() {
            return Err(forked());
        }
        let iter = &mut *guard;
        // A generator may have to be asked, by a worker that needs the interpreter.
        let json = py.detach(|| iter.state().and_then(|state| state.to_json()));
        json_to_py(py, &json.py()?)
    }
    /// Where this iterator is at this moment, to be told later: next to nothing as long as nobody asks.
    fn moment(&self, py: Python<'_>) -> PyResult<Moment> {
        let mut guard = self.lock(py)?;
        if self.is_forked() {
            return Err(forked());
        }
        let iter = &mut *guard;
        Ok(Moment { moment: py.detach(|| iter.moment()).py()?, pid: self.pid })
    }
    /// Goes to where another iterator of the same dataset was, in whatever process.
    ///
    /// Raises:
    ///     ValueError: The state was taken from a dataset that does something else; the text says what.
    fn load_state_dict(&self, py: Python<'_>, state: &Bound<'_, PyAny>) -> PyResult<()> {
        let state = state_from_py(state)?;
        let mut guard = self.lock(py)?;
        if self.is_forked() {
            return Err(forked());
        }
        let (asked, options) = (self.asked.clone(), self.options.clone());
        // One that is refused leaves this pass as it is. Then it ends before the new one begins: it may be the one that writes
        // a cache, and only one can.
        py.detach(|| feedline::check_state(&asked, options.clone(), &state)).py()?;
        let iter = &mut *guard;
        py.detach(|| iter.close());
        let new = apart(py, move || feedline::iterate_from(&asked, options, &state))?;
        *self.stopper() = new.stopper();
        self.pass.set_running(&new);
        let old = std::mem::replace(iter, new);
        py.detach(|| drop(old));
        Ok(())
    }
}
