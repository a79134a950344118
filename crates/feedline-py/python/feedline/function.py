"""From a Python function to a function of the pipeline.

1. The function is called once with symbolic values in the structure of the elements. A plain tuple is
   unpacked into positional arguments, one level; anything else (dicts, NamedTuples, dataclasses) is one
   argument.
2. What it returns is the structure of the results: a list counts as a tuple, numbers and arrays become
   constants, a dataset becomes a dataset-valued component.
3. If it asks for a value while it is traced, it cannot be recorded. Then it runs as plain Python, element by
   element; the dtypes of its results are found by calling it on the first element. One log line says so, and
   why.
"""

from __future__ import annotations

import linecache
import os.path
from collections.abc import Callable
from typing import Any

from . import _native, nest, trace
from .calls import node
from .dtypes import as_dtype
from .errors import FeedlineError
from .params import naming
from .ragged import RaggedTensor
from .sparse import SparseTensor
from .spec import DatasetSpec, NoneSpec, RaggedTensorSpec, SparseTensorSpec, TensorSpec, spec_text
from .trace import NeedsValue, Tracer

__all__ = ["branches", "register_classes", "traced"]

Sample = Callable[[], Any]


def traced(
    function: Callable[..., Any],
    spec: Any,
    *,
    op: str,
    sample: Sample | None = None,
    python: bool = False,
    native: bool = False,
    output_signature: Any = None,
) -> _native.Function:
    """Records a function of elements of the given spec.

    Args:
        function: The user's function.
        spec: The spec of its argument.
        op: The operator that it is for; messages name it.
        sample: Gives a real argument, should the function have to run as Python and its results be unknown.
        python: Do not trace; run it as Python.
        native: Refuse a function that cannot be traced.
        output_signature: The spec of its results, if it runs as Python.
    """
    if not callable(function):
        raise TypeError(f"{op} takes a function, not {function!r}")
    if python and native:
        raise ValueError(f"{op}: python=True and native=True exclude each other")
    if python:
        return _as_python(function, spec, op, sample, output_signature, None)
    tracer = Tracer(spec)
    try:
        with tracer:
            arguments = [tracer.argument(i) for i in range(tracer.native.leaf_count)]
            argument = nest.pack_sequence_as(spec, arguments, lists=False)
            result = _called(function, _with_fields(argument, op), op)
            if result is None:
                raise ValueError(
                    f"{op}: {name_of(function)} returned None; a function of elements must return a value"
                )
            return tracer.native.finish(_outputs(tracer, result, op))
    except (TypeError, AttributeError, ValueError) as error:
        request = _request(error, tracer)
        if request is None:
            raise
        if native:
            raise ValueError(
                f"{op}: {name_of(function)} cannot be traced, and native=True forbids to run it as Python: "
                f"{request}"
            ) from error
        if tracer.parent is not None:
            # As Python it must do without the symbolic values around it. If it cannot, that is for the
            # function around it to solve, which then runs as Python too.
            if sample is None:
                raise
            try:
                with trace.eagerly():
                    _called(function, sample(), op)
            except NeedsValue:
                raise request from None
        return _as_python(function, spec, op, sample, output_signature, request)


def _called(function: Callable[..., Any], argument: Any, op: str) -> Any:
    parts = argument if type(argument) is tuple else (argument,)
    try:
        return function(*parts)
    except TypeError as error:
        if type(error) is not TypeError or "argument" not in str(error) or not _only_ours(error):
            raise
        # The call itself failed: the function takes another number of arguments.
        given = f"{len(parts)} arguments" if len(parts) != 1 else "1 argument"
        raise TypeError(f"{op}: {error}; it is called with {given}") from None


def _only_ours(error: BaseException) -> bool:
    """Whether an exception came up before the user's function was entered."""
    step = error.__traceback__
    while step is not None and step.tb_frame.f_code.co_filename.startswith(os.path.dirname(__file__)):
        step = step.tb_next
    return step is None


class _Fields(dict[str, Any]):
    """An element that is a dict, as a function gets it: a field that it lacks is named with those it has."""

    op = ""

    def __missing__(self, key: Any) -> Any:
        fields = ", ".join(map(repr, self))
        raise KeyError(f"{self.op}: {key!r} is not a field of the element; the fields are {fields}")


def _with_fields(value: Any, op: str) -> Any:
    if type(value) is dict:
        made = _Fields((key, _with_fields(item, op)) for key, item in value.items())
        made.op = op
        return made
    return tuple(_with_fields(item, op) for item in value) if type(value) is tuple else value


def _request(error: BaseException, tracer: Tracer) -> NeedsValue | None:
    """The request for a value behind an exception, if that is what it is about."""
    if isinstance(error, NeedsValue):
        return error
    if tracer.asked is not None and isinstance(error, (TypeError, ValueError)):
        return tracer.asked
    if isinstance(error, TypeError) and "Symbol" in str(error):
        return NeedsValue(f"a function that does not know symbolic values ({error})")
    return None


def _outputs(tracer: Tracer, result: Any, op: str) -> Any:
    """The structure of nodes for what a function returned."""
    from .dataset import Dataset

    if isinstance(result, trace.Traced):
        return tracer.node_of(result)
    if isinstance(result, Dataset):
        return tracer.dataset_node(result)
    if nest.is_nested(result):
        register_class(result)
        parts = [_outputs(tracer, nest.part(result, key), op) for key in nest.keys(result)]
        return tuple(parts) if isinstance(result, list) else nest.rebuilt(result, parts)
    try:
        return node(tracer, result)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{op}: the function returned {result!r}, which is no tensor, number, text or dataset"
        ) from error


def register_class(value: Any) -> None:
    """Tells the compiled part of a NamedTuple's or dataclass's class, so that elements come out as it."""
    if nest.is_namedtuple(value) or nest.is_dataclass(value):
        cls = type(value)
        _native.register_class(f"{cls.__module__}:{cls.__qualname__}", cls)


def register_classes(value: Any) -> None:
    """The same for every class in a structure."""
    if nest.is_nested(value, lists=False):
        register_class(value)
        for key in nest.keys(value):
            register_classes(nest.part(value, key))


def name_of(function: Any) -> str:
    """A function as messages name it."""
    return getattr(function, "__qualname__", None) or type(function).__name__


# Running as Python.

_told: set[Any] = set()


def _as_python(
    function: Callable[..., Any],
    spec: Any,
    op: str,
    sample: Sample | None,
    signature: Any,
    request: NeedsValue | None,
) -> _native.Function:
    if request is not None and request.what == "numpy()":
        function = _with_tensors(function)
    given = signature is not None
    if not given:
        signature = _learned(function, op, sample, request)
    with naming(f"{op}: output_signature" if given else op):
        register_classes(signature)
        made = _native.host_function(spec, function, signature, type(spec) is tuple)
    if request is not None:
        _tell(function, op, request)
    return made


def _with_tensors(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with arguments that answer `.numpy()`, for those that were written for such."""
    import functools

    from .tensor import as_tensors

    @functools.wraps(function)
    def called(*args: Any) -> Any:
        return function(*map(as_tensors, args))

    return called


def _learned(function: Callable[..., Any], op: str, sample: Sample | None, request: NeedsValue | None) -> Any:
    """The spec of a Python function's results, from a call with a real element."""
    why = "" if request is None else f" ({request})"
    ask = f"{op}: {name_of(function)} runs as Python{why}; say what it returns with output_signature"
    if sample is None:
        raise request or ValueError(ask)
    try:
        with trace.eagerly():
            argument = sample()
    except StopIteration:
        raise ValueError(f"{ask}, because the input has no element to try it on") from None
    except FeedlineError as error:
        raise ValueError(f"{ask}, because the first element of the input failed") from error
    with trace.eagerly():
        result = _called(function, argument, op)
    if result is None:
        raise ValueError(
            f"{op}: {name_of(function)} returned None; a function of elements must return a value"
        )
    return spec_of(result)


def spec_of(value: Any) -> Any:
    """The spec of results like this one: dtypes and structure, with shapes left open."""
    from .dataset import Dataset

    if value is None:
        return NoneSpec()
    if isinstance(value, Dataset):
        return DatasetSpec(value.element_spec)
    if isinstance(value, RaggedTensor):
        return RaggedTensorSpec(None, value.dtype, value.ragged_rank, value.spec.row_splits_dtype)
    if isinstance(value, SparseTensor):
        return SparseTensorSpec(None, value.dtype)
    if nest.is_nested(value):
        parts = [spec_of(nest.part(value, key)) for key in nest.keys(value)]
        return tuple(parts) if isinstance(value, list) else nest.rebuilt(value, parts)
    return TensorSpec(None, as_dtype(_native.pack(value).spec.dtype))


def _tell(function: Any, op: str, request: NeedsValue) -> None:
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    key = getattr(function, "__code__", None) or id(function)
    if key in _told:
        return
    _told.add(key)
    import logging

    file, line = request.where
    code = linecache.getline(file, line).strip()
    at = f"{os.path.basename(file)}:{line}" + (f" `{code}`" if code else "")
    advice = f"; {request.advice}" if request.advice else ""
    logging.getLogger("feedline").warning(
        "%s(%s) runs as Python for each element, slower than a traced function: "
        "%s asks for the value of a tensor at %s%s",
        op,
        name_of(function),
        request.what,
        at,
        advice,
    )


# Conditional parts.


def branches(pred: Any, true_fn: Callable[[], Any], false_fn: Callable[[], Any]) -> Any:
    """What `fl.cond` records: two functions without arguments, of which one runs for each element."""
    tracer = trace.required()
    structures = []
    functions = []
    for function in (true_fn, false_fn):
        inner = Tracer(())
        with inner:
            outputs = _outputs(inner, function(), "cond")
            functions.append(inner.native.finish(outputs))
        structures.append(outputs)
    try:
        nest.assert_same_structure(*structures)
    except (TypeError, ValueError) as error:
        returned = " and ".join(spec_text(function.spec) for function in functions)
        raise type(error)(f"cond: both functions must return the same structure, not {returned}") from None
    nodes = tracer.native.cond(node(tracer, pred), *functions)
    return nest.pack_sequence_as(structures[0], [tracer.argument(n) for n in nodes])
