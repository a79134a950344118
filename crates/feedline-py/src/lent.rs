//! Arrays that Python code hands in while a pipeline runs: whose they are.
//!
//! 1. An array becomes a tensor on its own memory (`Lent`), and that is all where a user gives it to a dataset.
//! 2. What a function or a generator returned is taken over, once Python has let go of whatever stood around it: a generator
//!    may write into the same array for its next element, and a function return a row of a table that changes. So it is
//!    copied into memory of ours, unless it is large, nobody else has it, and it does not keep much more alive.
//! 3. A dataset that a function returned is made of arrays, too. Those that nobody else has are counted as what it is made of;
//!    others are there anyway, and are not charged to the pass.

use crate::error::IntoPy;
use crate::values::{Memory, Whose};
use feedline::element::{Buf, DType, Element, Nested, Ragged, Sparse, Tensor, Value};
use feedline::plan::Bound as BoundPlan;
use feedline_io::{Account, Scratch, scratch};
use numpy::npyffi::{NPY_ARRAY_OWNDATA, NPY_ARRAY_WRITEABLE, PyArrayObject};
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::ffi::{Py_REFCNT, PyObject};
use pyo3::prelude::*;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

/// Below this a copy costs little, and its memory is gone when it is: small arrays lie among others in the C library's arenas,
/// which keep what is free between them (a shuffle of 300 arrays of 160 kB under 64 MB: 1.07 to 1.3 of the
/// limit in four runs, 0.86 and 0.90 with copies).
const WORTH_KEEPING: usize = 1 << 20;
/// An array that is so many times what it is a part of is not kept for that.
const WASTE: usize = 2;

/// Keeps an array alive. What a pipeline alone has is charged to it, once that is known.
pub struct Lent {
    array: Py<PyUntypedArray>,
    charged: Mutex<Option<Scratch>>,
}

/// Whether an array of so many bytes should be copied at once: a pipeline runs, and would do that later.
pub fn is_to_copy(bytes: usize) -> bool {
    bytes < WORTH_KEEPING && Account::current().is_some()
}

impl Lent {
    pub fn new(array: &Bound<'_, PyUntypedArray>) -> Lent {
        Lent { array: array.clone().unbind(), charged: Mutex::new(None) }
    }
    fn of(block: &Buf) -> Option<&Lent> {
        block.keeper()?.downcast_ref()
    }
    fn object(&self) -> *mut PyArrayObject {
        self.array.as_ptr().cast()
    }
    /// The object whose memory it is a part of.
    fn base<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        // SAFETY: reads a field of an array that is alive, and that keeps its base alive.
        unsafe { Bound::from_borrowed_ptr_or_opt(py, (*self.object()).fields.base) }
    }
    /// Memory of ours, if it is an array on that.
    fn memory<'py>(&self, py: Python<'py>) -> Option<Bound<'py, Memory>> {
        self.base(py)?.cast_into().ok()
    }
    /// The object that has the memory, and all of its bytes. Of memory of ours that others have, too, it is a part.
    fn whole(&self, py: Python<'_>) -> (*mut PyObject, usize) {
        let bytes = |array: &Bound<'_, PyUntypedArray>| array.len() * array.dtype().itemsize();
        let of_memory = |memory: &Memory| match memory.block().is_shared() {
            true => bytes(self.array.bind(py)),
            false => memory.block().len(),
        };
        let of_base = |base: Bound<'_, PyAny>| match base.cast::<PyUntypedArray>() {
            Ok(array) => Some((base.as_ptr(), bytes(array))),
            Err(_) => base.cast::<Memory>().ok().map(|memory| (base.as_ptr(), of_memory(memory.get()))),
        };
        self.base(py).and_then(of_base).unwrap_or_else(|| (self.array.as_ptr(), bytes(self.array.bind(py))))
    }
    /// So many bytes are charged from now on.
    fn charge(&self, bytes: usize) {
        let mut charged = self.charged.lock().unwrap_or_else(PoisonError::into_inner);
        match (bytes, &mut *charged) {
            (0, charged) => *charged = None,
            (_, Some(charged)) => charged.resize(bytes),
            (_, charged) => *charged = Account::current().map(|_| scratch(bytes)),
        }
    }
}

/// The values that Python code has returned as the pipeline's own. Nobody holds what they came in any more.
pub fn taken_over(py: Python<'_>, mut values: Element) -> PyResult<Element> {
    for value in &mut values {
        match value {
            Value::Tensor(t) => own(py, t)?,
            Value::Ragged(r) => {
                let mut values = r.values.clone();
                own(py, &mut values)?;
                *r = Arc::new(Ragged { values, splits: r.splits.clone(), splits_dtype: r.splits_dtype });
            }
            Value::Sparse(s) => {
                let (mut indices, mut values) = (s.indices.clone(), s.values.clone());
                own(py, &mut indices)?;
                own(py, &mut values)?;
                *s = Arc::new(Sparse { indices, values, shape: s.shape.clone() });
            }
            Value::Dataset(dataset) => claim(py, dataset)?,
            Value::Absent => {}
        }
    }
    Ok(values)
}

/// Says of each array that a dataset is made of whether it goes with the dataset.
fn claim(py: Python<'_>, dataset: &Nested) -> PyResult<()> {
    // Tensors on each array, and such arrays on each of which they are parts.
    let (mut tensors, mut parts): (HashMap<_, isize>, HashMap<_, isize>) = Default::default();
    for lent in BoundPlan::given(dataset).py()?.into_iter().filter_map(Lent::of) {
        let count = tensors.entry(lent.array.as_ptr()).or_default();
        *count += 1;
        if let Some(base) = lent.base(py).filter(|_| *count == 1) {
            *parts.entry(base.as_ptr()).or_default() += 1;
        }
    }
    let holders = |object| tensors.get(&object).unwrap_or(&0) + parts.get(&object).unwrap_or(&0);
    let mut seen = HashSet::new();
    let own_bytes = |block: &Buf, is_own: bool| {
        let Some(lent) = Lent::of(block) else { return if is_own { block.own_bytes() } else { 0 } };
        if !is_own || !is_only(py, lent, holders) {
            lent.charge(0);
            return 0;
        }
        let (object, bytes) = lent.whole(py);
        let bytes = if seen.insert(object) { bytes } else { 0 };
        match lent.memory(py).filter(|memory| memory.get().block().is_own()) {
            // It is charged as a block already.
            Some(memory) => memory.get().stay(),
            None => lent.charge(bytes),
        }
        block.claim(bytes);
        bytes
    };
    BoundPlan::claim(dataset, own_bytes).py()
}

fn own(py: Python<'_>, tensor: &mut Tensor) -> PyResult<()> {
    if tensor.dtype() == DType::String {
        return Ok(());
    }
    let (block, start) = tensor.buf();
    let Some(lent) = Lent::of(block) else { return Ok(()) };
    let bytes = tensor.nbytes();
    if bytes < WORTH_KEEPING {
        return copy(tensor);
    }
    let (only, data) = (is_only(py, lent, |_| 1), block.as_slice()[start..].as_ptr());
    // SAFETY: reads a field of an array that is alive.
    let can_write = unsafe { (*lent.object()).fields.flags } & NPY_ARRAY_WRITEABLE != 0;
    let (block, start) = match lent.memory(py) {
        // What the function was given, and returned.
        Some(memory) => {
            let block = memory.get().block();
            let is_ours = only || memory.get().is_read_only();
            let is_given = memory.get().whose() != Whose::Consumer && block.is_own();
            if !is_ours || !(block.is_kept() || is_given) {
                return copy(tensor);
            }
            memory.get().stay();
            (block.clone(), data as usize - block.as_slice().as_ptr() as usize)
        }
        None if only && can_write && lent.whole(py).1 <= WASTE * bytes => {
            let keep = lent.array.clone_ref(py);
            // SAFETY: the memory is that of an array that can be written and that nobody but the tensor refers to; it lives as
            // long as `keep` does.
            (unsafe { Buf::adopted(data.cast_mut(), bytes, Box::new(keep)) }, 0)
        }
        None => return copy(tensor),
    };
    *tensor = Tensor::from_buf(tensor.dtype(), tensor.shape(), block, start).py()?;
    Ok(())
}

/// The arguments of a function, which may write to each of them: no two lie in the same memory.
pub fn apart(mut args: Element) -> Element {
    for at in 1..args.len() {
        let (before, rest) = args.split_at_mut(at);
        let Value::Tensor(tensor) = &mut rest[0] else { continue };
        let is_same = |other: &Value| other.as_tensor().is_some_and(|other| overlap(tensor, other));
        if before.iter().any(is_same) {
            *tensor = tensor.to_own();
        }
    }
    args
}

fn overlap(one: &Tensor, other: &Tensor) -> bool {
    let place = |t: &Tensor| t.bytes().as_ptr_range();
    let is_plain = |t: &Tensor| t.dtype() != DType::String && t.nbytes() > 0;
    is_plain(one) && is_plain(other) && place(one).start < place(other).end && place(other).start < place(one).end
}

fn copy(tensor: &mut Tensor) -> PyResult<()> {
    *tensor = tensor.to_own();
    Ok(())
}

/// Whether an array, and the one whose part it is, have no more holders than these.
fn is_only(py: Python<'_>, lent: &Lent, holders: impl Fn(*mut PyObject) -> isize) -> bool {
    let owns = |array: *mut PyArrayObject| {
        // SAFETY: reads fields of an array that is alive.
        let fields = unsafe { &(*array).fields };
        fields.weakreflist.is_null() && fields.flags & NPY_ARRAY_OWNDATA != 0
    };
    let array = lent.array.as_ptr();
    // SAFETY: reads fields of an array that is alive.
    let (count, weak) = unsafe { (Py_REFCNT(array), (*lent.object()).fields.weakreflist) };
    if count != holders(array) || !weak.is_null() {
        return false;
    }
    // SAFETY: an array keeps its base alive. The count is taken before anything here refers to it.
    let base_count = unsafe {
        (*lent.object()).fields.base.as_ref().map_or(0, |base| Py_REFCNT(std::ptr::from_ref(base).cast_mut()))
    };
    match lent.base(py) {
        None => owns(lent.object()),
        Some(base) if base_count != holders(base.as_ptr()) => false,
        Some(base) if base.is_exact_instance_of::<PyUntypedArray>() => owns(base.as_ptr().cast()),
        Some(base) => base.cast::<Memory>().is_ok_and(|memory| !memory.get().block().is_kept()),
    }
}
