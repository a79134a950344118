//! Values across the border: NumPy arrays in and out, without copies where memory allows it.

use crate::error::{IntoPy, type_error, value_error};
use crate::lent::{self, Lent};
use crate::plan::PyPlan;
use crate::structure::{self, spec_from_py, spec_to_py};
use feedline::element::{
    ALIGN, B8, Buf, Column, DType, Element, Leaf, Ragged, Sparse, Spec, StringsBuilder, Tensor, Value,
};
use numpy::npyffi::{self, NPY_TYPES, PY_ARRAY_API, npy_intp};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyList, PyString, PyTuple};
use std::sync::Arc;

/// Keeps a tensor's memory alive as the base of a NumPy array; dropping it gives the memory back.
#[pyclass(frozen)]
pub struct Memory {
    tensor: Tensor,
    whose: Whose,
    /// Nobody has ever had it to write to.
    read_only: bool,
}

impl Memory {
    /// The memory that it keeps.
    pub fn block(&self) -> &Buf {
        self.tensor.buf().0
    }
    pub fn whose(&self) -> Whose {
        self.whose
    }
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }
    /// Says that a function has given it back.
    pub fn stay(&self) {
        if self.whose == Whose::Copied {
            self.block().take_back();
        }
    }
}

/// Who gets an array.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// Whoever takes elements out of a pipeline, or looks at values.
    Consumer,
    /// A function inside of a pipeline, which still has it.
    Function,
    /// The same, of a copy that was made for it: counted as the consumer's, since a function may keep it.
    Copied,
}

/// The Python names that conversions need, looked up once.
struct Names {
    asarray: Py<PyAny>,
    ascontiguousarray: Py<PyAny>,
    ragged: Py<PyAny>,
    sparse: Py<PyAny>,
    dataset: Py<PyAny>,
    bfloat16: Option<Py<PyAny>>,
}

static NAMES: PyOnceLock<Names> = PyOnceLock::new();

fn names(py: Python<'_>) -> PyResult<&Names> {
    NAMES.get_or_try_init(py, || {
        let np = py.import("numpy")?;
        let bfloat16 = py.import("ml_dtypes").and_then(|m| m.getattr("bfloat16")).ok();
        let bfloat16 = bfloat16.map(|t| np.getattr("dtype")?.call1((t,))).transpose()?;
        Ok(Names {
            asarray: np.getattr("asarray")?.unbind(),
            ascontiguousarray: np.getattr("ascontiguousarray")?.unbind(),
            ragged: py.import("feedline.ragged")?.getattr("RaggedTensor")?.unbind(),
            sparse: py.import("feedline.sparse")?.getattr("SparseTensor")?.unbind(),
            dataset: py.import("feedline.dataset")?.getattr("Dataset")?.unbind(),
            bfloat16: bfloat16.map(|t| t.unbind()),
        })
    })
}

fn type_num(dtype: DType) -> Option<NPY_TYPES> {
    Some(match dtype {
        DType::Bool => NPY_TYPES::NPY_BOOL,
        DType::Int8 => NPY_TYPES::NPY_BYTE,
        DType::Int16 => NPY_TYPES::NPY_SHORT,
        DType::Int32 => NPY_TYPES::NPY_INT,
        DType::Int64 => NPY_TYPES::NPY_LONG,
        DType::Uint8 => NPY_TYPES::NPY_UBYTE,
        DType::Uint16 => NPY_TYPES::NPY_USHORT,
        DType::Uint32 => NPY_TYPES::NPY_UINT,
        DType::Uint64 => NPY_TYPES::NPY_ULONG,
        DType::Float16 => NPY_TYPES::NPY_HALF,
        DType::Float32 => NPY_TYPES::NPY_FLOAT,
        DType::Float64 => NPY_TYPES::NPY_DOUBLE,
        DType::Bfloat16 => return None,
        DType::String => NPY_TYPES::NPY_OBJECT,
    })
}

/// A new reference to NumPy's description of a dtype.
fn descr(py: Python<'_>, dtype: DType) -> PyResult<*mut npyffi::PyArray_Descr> {
    match type_num(dtype) {
        // SAFETY: the interpreter is attached and the type number is one of NumPy's own.
        Some(n) => Ok(unsafe { PY_ARRAY_API.PyArray_DescrFromType(py, n as _) }),
        None => {
            let names = names(py)?;
            let found = names.bfloat16.as_ref().ok_or_else(|| {
                type_error("bfloat16 arrays need the package ml_dtypes (pip install ml_dtypes); or cast to float32")
            })?;
            Ok(found.clone_ref(py).into_ptr().cast())
        }
    }
}

/// What a cache keeps and is at least so large is handed out as it lies, to be read; what is smaller is copied, to be
/// written.
const READ_ONLY_BYTES: usize = 64 << 10;

/// A tensor as NumPy: a scalar for a scalar, else a writable array on the same memory. Memory that is not ours to
/// write, or not aligned, is copied; what is kept and large is not, and can only be read.
pub fn tensor_to_py<'py>(py: Python<'py>, tensor: Tensor, mut whose: Whose) -> PyResult<Bound<'py, PyAny>> {
    if tensor.dtype() == DType::String {
        return strings_to_py(py, &tensor);
    }
    let descr = descr(py, tensor.dtype())?;
    if tensor.rank() == 0 {
        // SAFETY: the data pointer is valid for one item; PyArray_Scalar copies it and takes no reference to descr.
        unsafe {
            let data = tensor.bytes().as_ptr().cast_mut().cast();
            let scalar = PY_ARRAY_API.PyArray_Scalar(py, data, descr, std::ptr::null_mut());
            pyo3::ffi::Py_DECREF(descr.cast());
            return Bound::from_owned_ptr_or_err(py, scalar);
        }
    }
    let mut tensor = tensor;
    let (buf, start) = tensor.buf();
    let is_aligned = (buf.as_slice().as_ptr() as usize + start).is_multiple_of(ALIGN);
    let read_only = is_aligned && buf.is_frozen() && !buf.is_foreign() && tensor.nbytes() >= READ_ONLY_BYTES;
    if (buf.is_frozen() && !read_only) || !is_aligned {
        let mut own = Tensor::new(tensor.dtype(), tensor.shape());
        own.bytes_mut().copy_from_slice(tensor.bytes());
        own.hand_out();
        tensor = own;
        if whose == Whose::Function {
            whose = Whose::Copied;
        }
    }
    let mut dims: smallvec::SmallVec<[npy_intp; 4]> = tensor.shape().iter().map(|&d| d as npy_intp).collect();
    let data = tensor.bytes().as_ptr().cast_mut();
    let memory = Bound::new(py, Memory { tensor, whose, read_only })?;
    // SAFETY: dims and data describe memory that `memory` keeps alive as the array's base; NewFromDescr steals the
    // reference to descr, SetBaseObject the one to memory. Rows of one block are handed out once each, or only to be read,
    // so writing through the array races with nobody.
    unsafe {
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            npyffi::get_type_object(py, npyffi::NpyTypes::PyArray_Type),
            descr,
            dims.len() as _,
            dims.as_mut_ptr(),
            std::ptr::null_mut(),
            data.cast(),
            if read_only { 0 } else { npyffi::NPY_ARRAY_WRITEABLE },
            std::ptr::null_mut(),
        );
        let array = Bound::from_owned_ptr_or_err(py, array)?;
        if PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), memory.into_ptr()) < 0 {
            return Err(PyErr::fetch(py));
        }
        Ok(array)
    }
}

fn strings_to_py<'py>(py: Python<'py>, tensor: &Tensor) -> PyResult<Bound<'py, PyAny>> {
    if tensor.rank() == 0 {
        return Ok(PyBytes::new(py, tensor.str_at(0)).into_any());
    }
    let flat: Vec<_> = tensor.strs().map(|s| PyBytes::new(py, s)).collect();
    let np = py.import("numpy")?;
    let array = np.call_method1("empty", (flat.len(), "O"))?;
    for (i, s) in flat.into_iter().enumerate() {
        array.set_item(i, s)?;
    }
    array.call_method1("reshape", (PyTuple::new(py, tensor.shape())?,))
}

pub fn value_to_py<'py>(py: Python<'py>, value: Value) -> PyResult<Bound<'py, PyAny>> {
    value_for(py, value, Whose::Consumer)
}

pub fn value_for<'py>(py: Python<'py>, value: Value, whose: Whose) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::Tensor(t) => tensor_to_py(py, t, whose),
        Value::Ragged(r) => {
            if r.splits.is_empty() {
                return tensor_to_py(py, r.values.clone(), whose);
            }
            let splits = r.splits.iter().map(|s| {
                let split = match r.splits_dtype {
                    DType::Int32 => Tensor::from_items([s.len()], &s.iter().map(|&x| x as i32).collect::<Vec<_>>()),
                    _ => Tensor::from_items([s.len()], s),
                };
                tensor_to_py(py, split, whose)
            });
            let splits = PyTuple::new(py, splits.collect::<PyResult<Vec<_>>>()?)?;
            names(py)?.ragged.bind(py).call1((tensor_to_py(py, r.values.clone(), whose)?, splits))
        }
        Value::Sparse(s) => {
            let shape = Tensor::from_items([s.shape.len()], &s.shape);
            names(py)?.sparse.bind(py).call1((
                tensor_to_py(py, s.indices.clone(), whose)?,
                tensor_to_py(py, s.values.clone(), whose)?,
                tensor_to_py(py, shape, whose)?,
            ))
        }
        Value::Absent => Ok(py.None().into_bound(py)),
        value @ Value::Dataset(_) => {
            let bound = feedline::plan::Bound::of(&value).py()?;
            let plan = Bound::new(py, PyPlan(bound.clone()))?;
            names(py)?.dataset.bind(py).call_method1("_from_plan", (plan,))
        }
    }
}

/// One leaf of one row.
pub fn cell_to_py<'py>(py: Python<'py>, column: &Column, row: usize) -> PyResult<Bound<'py, PyAny>> {
    match column {
        Column::Dense(t) => tensor_to_py(py, t.row(row), Whose::Consumer),
        rows => value_to_py(py, rows.get(row)),
    }
}

pub fn element_to_py<'py>(py: Python<'py>, spec: &Spec, element: Element) -> PyResult<Bound<'py, PyAny>> {
    let mut values = element.into_iter();
    structure::build(py, spec, &mut |_| value_to_py(py, values.next().expect("a value for each leaf")))
}

// ---- In ----

/// A Python object as one leaf, by what it is: lists are one tensor.
pub fn value_from_py(obj: &Bound<'_, PyAny>) -> PyResult<Value> {
    let py = obj.py();
    if obj.is_none() {
        return Ok(Value::Absent);
    }
    if let Some(tensor) = literal(obj)? {
        return Ok(Value::Tensor(tensor));
    }
    let names = names(py)?;
    if obj.is_instance(names.ragged.bind(py))? {
        return ragged_from_py(obj);
    }
    if obj.is_instance(names.sparse.bind(py))? {
        return sparse_from_py(obj);
    }
    if obj.is_instance(names.dataset.bind(py))? {
        let plan = obj.getattr("_plan")?;
        let plan = plan.cast::<PyPlan>()?.get();
        return Ok(Value::Dataset(feedline::element::Nested(Arc::new(plan.0.clone()))));
    }
    tensor_from_py(obj).map(Value::Tensor)
}

/// Plain Python scalars: the commonest case, without NumPy.
fn literal(obj: &Bound<'_, PyAny>) -> PyResult<Option<Tensor>> {
    if obj.is_exact_instance_of::<PyBool>() {
        return Ok(Some(Tensor::scalar(B8::from(obj.extract::<bool>()?))));
    }
    if obj.is_exact_instance_of::<PyInt>() {
        let n: i64 = obj.extract().map_err(|_| value_error(format!("{obj} does not fit into int64")))?;
        return Ok(Some(i32::try_from(n).map_or_else(|_| Tensor::scalar(n), Tensor::scalar)));
    }
    if obj.is_exact_instance_of::<PyFloat>() {
        return Ok(Some(Tensor::scalar(obj.extract::<f64>()? as f32)));
    }
    if let Ok(bytes) = obj.cast::<PyBytes>() {
        return Ok(Some(Tensor::string(bytes.as_bytes())));
    }
    if let Ok(text) = obj.cast::<PyString>() {
        return Ok(Some(Tensor::string(text.to_cow()?.as_bytes())));
    }
    Ok(None)
}

fn tensor_from_py(obj: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let py = obj.py();
    let names = names(py)?;
    let listed = obj.is_instance_of::<PyList>() || obj.is_instance_of::<PyTuple>();
    // NumPy's own strings would cut zeros off the end of bytes.
    let text =
        listed && first_leaf(obj)?.is_some_and(|l| l.is_instance_of::<PyBytes>() || l.is_instance_of::<PyString>());
    let made = match text && all_text(obj)? {
        true => names.asarray.bind(py).call1((obj, "O")),
        false => names.asarray.bind(py).call1((obj,)),
    };
    let array = made.map_err(|e| match listed {
        true => value_error(format!("a list must have rows of equal length and items of one type to be a tensor: {e}")),
        false => type_error(format!("{} cannot be a tensor: {e}", obj.get_type())),
    })?;
    let array = array.cast_into::<PyUntypedArray>()?;
    // NumPy turns numbers among strings into strings; that is hardly ever meant.
    if listed && matches!(array.dtype().kind(), b'U' | b'S') && !all_text(obj)? {
        return Err(value_error("a list that mixes text and numbers cannot be a tensor; use a tuple or convert them"));
    }
    let tensor = array_to_tensor(&array)?;
    if !listed {
        return Ok(tensor);
    }
    // Python's own numbers are int32 and float32 here, as in TensorFlow; NumPy's inside a list keep their dtype.
    let plain =
        first_leaf(obj)?.is_none_or(|l| l.is_exact_instance_of::<PyInt>() || l.is_exact_instance_of::<PyFloat>());
    Ok(match tensor.dtype() {
        DType::Int64 if plain => {
            let items: Option<Vec<i32>> = tensor.items::<i64>().iter().map(|&x| i32::try_from(x).ok()).collect();
            items.map_or_else(|| tensor.clone(), |items| Tensor::from_items(tensor.shape(), &items))
        }
        DType::Float64 if plain => {
            let items: Vec<f32> = tensor.items::<f64>().iter().map(|&x| x as f32).collect();
            Tensor::from_items(tensor.shape(), &items)
        }
        _ => tensor,
    })
}

fn all_text(obj: &Bound<'_, PyAny>) -> PyResult<bool> {
    if obj.is_instance_of::<PyList>() || obj.is_instance_of::<PyTuple>() {
        for item in obj.try_iter()? {
            if !all_text(&item?)? {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    // Arrays inside the list have been looked at by NumPy.
    Ok(obj.is_instance_of::<PyString>() || obj.is_instance_of::<PyBytes>() || obj.cast::<PyUntypedArray>().is_ok())
}

fn first_leaf<'py>(obj: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let mut at = obj.clone();
    while at.is_instance_of::<PyList>() || at.is_instance_of::<PyTuple>() {
        if at.len()? == 0 {
            return Ok(None);
        }
        at = at.get_item(0)?;
    }
    Ok(Some(at))
}

/// A NumPy array as a tensor: on the same memory if that is contiguous, aligned and of a type of ours.
fn array_to_tensor(array: &Bound<'_, PyUntypedArray>) -> PyResult<Tensor> {
    let py = array.py();
    let shape: Vec<usize> = array.shape().to_vec();
    let d = array.dtype();
    let dtype = match (d.kind(), d.itemsize()) {
        (b'b', _) => DType::Bool,
        (b'i', 1) => DType::Int8,
        (b'i', 2) => DType::Int16,
        (b'i', 4) => DType::Int32,
        (b'i', 8) => DType::Int64,
        (b'u', 1) => DType::Uint8,
        (b'u', 2) => DType::Uint16,
        (b'u', 4) => DType::Uint32,
        (b'u', 8) => DType::Uint64,
        (b'f', 2) => DType::Float16,
        (b'f', 4) => DType::Float32,
        (b'f', 8) => DType::Float64,
        (b'S' | b'U' | b'O' | b'T', _) => return strings_from_array(array, shape),
        _ if is_bfloat16(&d)? => DType::Bfloat16,
        _ => return Err(type_error(format!("arrays of dtype {d} have no place in an element"))),
    };
    let native = d.is_native_byteorder().unwrap_or(true);
    let contiguous = array.is_c_contiguous();
    // SAFETY: reading the data pointer of a live array.
    let ptr = unsafe { (*array.as_array_ptr()).fields.data as *const u8 };
    if !native || !contiguous || !(ptr as usize).is_multiple_of(dtype.size()) {
        let wanted = if native { d.into_any() } else { d.call_method1("newbyteorder", ("=",))? };
        let copy = names(py)?.asarray.bind(py).call1((array.call_method1("astype", (wanted,))?,))?;
        let copy = names(py)?.ascontiguousarray.bind(py).call1((copy,))?.cast_into::<PyUntypedArray>()?;
        // ascontiguousarray gives scalars an axis.
        return Ok(array_to_tensor(&copy)?.into_reshaped(shape));
    }
    let bytes = shape.iter().product::<usize>() * dtype.size();
    if lent::is_to_copy(bytes) {
        let mut own = Tensor::new(dtype, &shape[..]);
        if bytes > 0 {
            // SAFETY: the array is alive and contiguous, and has so many bytes; nobody runs Python meanwhile.
            own.bytes_mut().copy_from_slice(unsafe { std::slice::from_raw_parts(ptr, bytes) });
        }
        return Ok(own);
    }
    // SAFETY: the array's memory lives as long as the reference that we keep. Whoever writes to the array while a
    // pipeline reads it sees mixed values, as with every view in NumPy.
    let buf = unsafe { Buf::foreign(ptr, bytes, Box::new(Lent::new(array))) };
    Tensor::from_buf(dtype, shape, buf, 0).py()
}

fn is_bfloat16(d: &Bound<'_, PyArrayDescr>) -> PyResult<bool> {
    Ok(d.getattr("name")?.extract::<String>()? == "bfloat16")
}

fn strings_from_array(array: &Bound<'_, PyUntypedArray>, shape: Vec<usize>) -> PyResult<Tensor> {
    let flat = array.call_method0("ravel")?.call_method0("tolist")?;
    let list = flat.cast::<PyList>()?;
    let mut b = StringsBuilder::with_capacity(list.len());
    for item in list.iter() {
        if let Ok(bytes) = item.cast::<PyBytes>() {
            b.push(bytes.as_bytes());
        } else if let Ok(text) = item.cast::<PyString>() {
            b.push(text.to_cow()?.as_bytes());
        } else {
            return Err(value_error(format!(
                "a tensor has items of one type; {} stands among strings or other objects",
                item.repr()?
            )));
        }
    }
    Ok(b.tensor(shape))
}

fn ragged_from_py(obj: &Bound<'_, PyAny>) -> PyResult<Value> {
    let values = tensor_from_py(&obj.getattr("flat_values")?)?;
    let mut splits_dtype = DType::Int64;
    let mut splits: Vec<Arc<[i64]>> = Vec::new();
    for split in obj.getattr("nested_row_splits")?.try_iter()? {
        let t = tensor_from_py(&split?)?;
        splits_dtype = t.dtype();
        splits.push(match t.dtype() {
            DType::Int32 => t.items::<i32>().iter().map(|&x| x.into()).collect(),
            DType::Int64 => t.items::<i64>().into(),
            other => return Err(type_error(format!("row splits are int32 or int64, not {other}"))),
        });
    }
    // Splits decide what is sliced later: they are checked once, here.
    for (level, split) in splits.iter().enumerate() {
        let end = splits.get(level + 1).map_or(values.rows(), |s| s.len().saturating_sub(1));
        let rising = split.windows(2).all(|w| w[0] <= w[1]);
        if split.first() != Some(&0) || !rising || split.last().is_none_or(|&l| l as usize != end) {
            return Err(value_error(
                "the row splits of a ragged tensor rise from 0 to the number of values below them",
            ));
        }
    }
    Ok(Value::Ragged(Arc::new(Ragged { values, splits, splits_dtype })))
}

fn sparse_from_py(obj: &Bound<'_, PyAny>) -> PyResult<Value> {
    let indices = convert_tensor(&obj.getattr("indices")?, DType::Int64)?;
    let values = tensor_from_py(&obj.getattr("values")?)?;
    let shape = convert_tensor(&obj.getattr("dense_shape")?, DType::Int64)?.items::<i64>().to_vec();
    let good = indices.rank() == 2
        && indices.shape()[1] == shape.len()
        && values.rank() == 1
        && values.rows() == indices.rows();
    if !good {
        return Err(value_error("a sparse tensor has indices [n, rank], values [n] and dense_shape [rank]"));
    }
    Ok(Value::Sparse(Arc::new(Sparse { indices, values, shape })))
}

/// An object as a tensor of exactly that dtype. What would lose data is refused.
pub fn convert_tensor(obj: &Bound<'_, PyAny>, dtype: DType) -> PyResult<Tensor> {
    let tensor = match literal(obj)? {
        Some(t) => t,
        None => tensor_from_py(obj)?,
    };
    if tensor.dtype() == dtype {
        return Ok(tensor);
    }
    // Python's own floats were cut to float32; a wider type takes them whole.
    let tensor = match (dtype, obj.extract::<f64>()) {
        (DType::Float64, Ok(x)) if obj.is_exact_instance_of::<PyFloat>() => return Ok(Tensor::scalar(x)),
        _ => tensor,
    };
    let wrong = || value_error(format!("a value of dtype {} was given where {dtype} is declared", tensor.dtype()));
    if dtype == DType::String || tensor.dtype() == DType::String || dtype == DType::Bool {
        return Err(wrong());
    }
    let there = cast(&tensor, dtype)?;
    let back = cast(&there, tensor.dtype())?;
    // Floats may round; whole numbers must arrive whole.
    let rounds = dtype.is_float() && tensor.dtype().is_float();
    if back != tensor && !rounds {
        return Err(value_error(format!(
            "{} cannot be had exactly as {dtype}; convert it yourself if that is meant",
            obj.repr()?
        )));
    }
    Ok(there)
}

fn cast(tensor: &Tensor, dtype: DType) -> PyResult<Tensor> {
    let mut attrs = feedline::expr::Attrs::default();
    attrs.0.insert("dtype".into(), dtype.name().into());
    let func = feedline::expr::funcs::find("cast").py()?;
    let made = (func.make)(&[Leaf::of_tensor(tensor)], &attrs).py()?;
    let at = feedline::expr::RowAt { epoch: 0, pos: 0 };
    Ok(made.kernel().row(&[Value::Tensor(tensor.clone())], at).py()?.tensor().clone())
}

/// An object as a value of that leaf.
pub fn convert_leaf(obj: &Bound<'_, PyAny>, leaf: &Leaf) -> PyResult<Value> {
    let value = match leaf {
        Leaf::Tensor { dtype, .. } => Value::Tensor(convert_tensor(obj, *dtype)?),
        _ => value_from_py(obj)?,
    };
    if leaf.accepts(&value) {
        return Ok(value);
    }
    let got = Leaf::of(&value).map_or("a dataset".into(), |l| l.to_string());
    Err(value_error(format!("expected {leaf}, got {got}")))
}

/// An object as the leaves of a spec.
pub fn convert(obj: &Bound<'_, PyAny>, spec: &Spec, out: &mut Element) -> PyResult<()> {
    use feedline::element::Tree;
    use structure::Shape;
    let differ = || -> PyErr {
        let got = obj.repr().map_or_else(|_| "another structure".into(), |r| r.to_string());
        let got: String = got.chars().take(200).collect();
        value_error(format!("the value {got} does not have the declared structure {spec}"))
    };
    match spec {
        Tree::Leaf(leaf) => out.push(convert_leaf(obj, leaf)?),
        Tree::Tuple { items, .. } => match structure::look(obj, true)? {
            Shape::Tuple { items: given, .. } if given.len() == items.len() => {
                given.iter().zip(items).try_for_each(|(g, s)| convert(g, s, out))?;
            }
            _ => return Err(differ()),
        },
        Tree::Map { items, .. } => match structure::look(obj, true)? {
            Shape::Map { items: given, .. } if given.len() == items.len() => {
                for (k, s) in items {
                    let (_, g) = given.iter().find(|(l, _)| l == k).ok_or_else(differ)?;
                    convert(g, s, out)?;
                }
            }
            _ => return Err(differ()),
        },
    }
    Ok(())
}

/// Values with their structure, flattened once.
#[pyclass(frozen, module = "feedline._native")]
pub struct Packed(pub Arc<feedline::element::Packed>);

#[pymethods]
impl Packed {
    #[getter]
    fn spec<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        spec_to_py(py, &self.0.spec)
    }
    fn unpack<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        element_to_py(py, &self.0.spec, self.0.values.iter().cloned().collect())
    }
}

#[pyfunction]
#[pyo3(signature = (value, spec=None))]
pub fn pack(value: &Bound<'_, PyAny>, spec: Option<&Bound<'_, PyAny>>) -> PyResult<Packed> {
    if let Some(spec) = spec {
        let spec = spec_from_py(spec)?;
        let mut element = Element::new();
        convert(value, &spec, &mut element)?;
        return Ok(Packed(Arc::new(feedline::element::Packed { spec, values: element.into_vec() })));
    }
    let mut values = Vec::new();
    let spec = structure::tree(value, false, &mut |leaf| {
        let value = value_from_py(leaf)?;
        let spec = leaf_of(&value)?;
        values.push(value);
        Ok(spec)
    })?;
    Ok(Packed(Arc::new(feedline::element::Packed { spec, values })))
}

/// The exact spec of a value.
pub fn leaf_of(value: &Value) -> PyResult<Leaf> {
    match value {
        Value::Dataset(_) => {
            let bound = feedline::plan::Bound::of(value).py()?;
            Ok(Leaf::Dataset(Arc::new(bound.plan.spec.clone())))
        }
        value => Ok(Leaf::of(value).expect("all but datasets know their spec")),
    }
}
