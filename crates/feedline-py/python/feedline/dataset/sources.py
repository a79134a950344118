"""Where elements come from: ranges, values in memory, Python generators, random numbers."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .. import _native, calls, nest, trace
from ..dtypes import DType, as_dtype, int64
from ..errors import InvalidArgumentError
from ..function import register_classes
from ..lazy_numpy import np
from ..params import check_name, integer, naming
from ..paths import path_text
from ..ragged import RaggedTensor
from ..seeds import get_seed
from ..sparse import SparseTensor
from ..spec import DatasetSpec, NoneSpec, TensorSpec, as_shape
from .core import Core

if TYPE_CHECKING:
    from typing_extensions import Self


class Sources(Core):
    """Methods of `Dataset` that make a dataset from something else."""

    __slots__ = ()

    @classmethod
    def range(cls, *args: Any, output_type: Any = int64, name: str | None = None) -> Self:
        """Numbers, as Python's `range` gives them.

        >>> import feedline as fl
        >>> list(fl.Dataset.range(1, 10, 4).as_numpy_iterator())
        [np.int64(1), np.int64(5), np.int64(9)]

        Args:
            args: `stop`; or `start, stop`; or `start, stop, step`.
            output_type: The dtype of the numbers.
            name: A name for the operator, an identifier.

        Raises:
            ValueError: `step` is 0.
        """
        check_name("range", name)
        if not 1 <= len(args) <= 3:
            raise ValueError(
                f"range takes stop, or start and stop, or start, stop and step, not {len(args)} numbers"
            )
        start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
        with naming("range"):
            kind = as_dtype(output_type)
        return cls._make(
            "range",
            {
                "start": integer("range", "start", start),
                "stop": integer("range", "stop", stop),
                "step": integer("range", "step", step),
                "output_type": kind.name,
            },
        )

    @classmethod
    def from_tensors(cls, tensors: Any, name: str | None = None) -> Self:
        """One element: the whole structure.

        >>> import feedline as fl
        >>> list(fl.Dataset.from_tensors([1, 2]).as_numpy_iterator())
        [array([1, 2], dtype=int32)]

        Args:
            tensors: Arrays, numbers, text and lists of them, in tuples, dicts, NamedTuples and dataclasses.
            name: A name for the operator, an identifier.
        """
        check_name("from_tensors", name)
        with naming("from_tensors"):
            given = values(tensors)
        return cls._make("from_tensors", given)

    @classmethod
    def from_tensor_slices(cls, tensors: Any, name: str | None = None) -> Self:
        """An element for each row: all parts of the structure are cut along their first axis.

        Arrays are used where they lie, without a copy: do not change them while the dataset is read.

        >>> import feedline as fl
        >>> ds = fl.Dataset.from_tensor_slices({"x": [1, 2], "y": ["a", "b"]})
        >>> list(ds.as_numpy_iterator())
        [{'x': np.int32(1), 'y': b'a'}, {'x': np.int32(2), 'y': b'b'}]

        Args:
            tensors: Arrays and lists of equal length, in tuples, dicts, NamedTuples and dataclasses.
            name: A name for the operator, an identifier.

        Raises:
            ValueError: The lengths differ, or a part is a single number.
        """
        check_name("from_tensor_slices", name)
        with naming("from_tensor_slices"):
            given = values(tensors)
        return cls._make("from_tensor_slices", given)

    @classmethod
    def from_list(cls, elements: Iterable[Any], name: str | None = None) -> Self:
        """The elements of a list, which may be structures; their shapes may differ.

        >>> import feedline as fl
        >>> list(fl.Dataset.from_list([(1, "a"), (2, "b")]).as_numpy_iterator())
        [(np.int32(1), b'a'), (np.int32(2), b'b')]
        """
        check_name("from_list", name)
        with naming("from_list"):
            values = [_packed(element) for element in elements]
        if not values:
            raise ValueError("from_list needs at least one element: the structure of none cannot be known")
        return cls._make("from_list", {"values": values})

    @classmethod
    def from_generator(
        cls,
        generator: Callable[..., Iterable[Any]],
        output_types: Any = None,
        output_shapes: Any = None,
        args: Sequence[Any] | None = None,
        output_signature: Any = None,
        name: str | None = None,
        *,
        resume: Callable[[int], Iterable[Any]] | None = None,
    ) -> Self:
        """The values that a Python generator yields. It is called anew for every pass.

        >>> import feedline as fl
        >>> def count():
        ...     yield from range(3)
        >>> ds = fl.Dataset.from_generator(count, output_signature=fl.TensorSpec((), fl.int64))
        >>> list(ds.as_numpy_iterator())
        [np.int64(0), np.int64(1), np.int64(2)]

        Args:
            generator: A function that returns something to iterate over; not a generator object.
            output_types: The dtypes of the values, in their structure; their shapes are then unknown.
            output_shapes: The shapes that go with `output_types`.
            args: Arguments for the function.
            output_signature: The specs of the values, in their structure; in place of `output_types`.
            name: A name for the operator, an identifier.
            resume: From the number of values that were given to something that gives the others: what makes
                an iterator's state possible. Not needed where the function returns an object with
                `state_dict()` and `load_state_dict(state)`, which are called instead.

        Raises:
            TypeError: `generator` cannot be called, or its values are described twice or not at all.
        """
        check_name("from_generator", name)
        if not callable(generator):
            raise TypeError(
                f"from_generator takes a function that returns a new generator for every pass, not "
                f"{generator!r}; pass the function itself, without calling it"
            )
        with naming("from_generator"):
            spec = _signature(output_types, output_shapes, output_signature)
            register_classes(spec)
        if calls.symbolic(*(args or ())):
            raise trace.NeedsValue("from_generator with args of a traced function")
        if args:
            generator = functools.partial(generator, *[calls.constant(arg) for arg in args])
        return cls._make("from_generator", {"generator": generator, "spec": spec, "resume": resume})

    @classmethod
    def counter(cls, start: Any = 0, step: Any = 1, dtype: Any = int64, name: str | None = None) -> Self:
        """Numbers without end.

        >>> import feedline as fl
        >>> list(fl.Dataset.counter(5, 2).take(3).as_numpy_iterator())
        [np.int64(5), np.int64(7), np.int64(9)]
        """
        check_name("counter", name)
        with naming("counter"):
            kind = as_dtype(dtype)
            number = float if kind.is_floating else functools.partial(integer, "counter", "start and step")
            params = {"start": number(start), "step": number(step), "dtype": kind.name}
        return cls._make("counter", params)

    @classmethod
    def random(
        cls, seed: int | None = None, rerandomize_each_iteration: bool | None = None, name: str | None = None
    ) -> Self:
        """Random int64 numbers from 0 up to 2^32, without end.

        Args:
            seed: Makes them reproducible.
            rerandomize_each_iteration: With a seed: True gives other numbers in each pass, which are
                reproducible too; else each pass gives the same.
            name: A name for the operator, an identifier.
        """
        check_name("random", name)
        first, second = get_seed(seed, "random")
        params = {
            "seed": first,
            "seed2": second,
            "rerandomize_each_iteration": bool(rerandomize_each_iteration),
        }
        return cls._make("random", params)

    @classmethod
    def list_files(
        cls, file_pattern: Any, shuffle: bool | None = None, seed: int | None = None, name: str | None = None
    ) -> Self:
        """The names of the files that match a pattern, shuffled anew in each pass.

        >>> import feedline as fl
        >>> for name in ["b.txt", "a.txt"]:
        ...     _ = open(name, "w").close()
        >>> list(fl.Dataset.list_files("*.txt", shuffle=False).as_numpy_iterator())
        [b'a.txt', b'b.txt']

        The indexes that `index=True` leaves beside record files (`*.flidx`) are no data: they are left out,
        unless the pattern asks for them.

        Args:
            file_pattern: A pattern or a list of patterns; `*`, `?` and `[a-z]` stand for parts of a name and
                do not go across `/`; so `**` is one folder here, as in tf.data, while readers, such as
                `TextLineDataset`, take it as any number of folders. Paths, `s3://bucket/…` and the like.
            shuffle: False keeps the names sorted. By default they are shuffled: zip features and labels
                first, or list both with False.
            seed: Makes the order reproducible.
            name: A name for the operator, an identifier.

        Raises:
            ValueError: Nothing matches.
        """
        check_name("list_files", name)
        given = [file_pattern] if isinstance(file_pattern, (str, bytes, os.PathLike)) else file_pattern
        if hasattr(given, "tolist"):
            given = given.tolist()
            given = given if isinstance(given, list) else [given]
        patterns = [path_text("list_files", pattern) for pattern in given]
        with naming("list_files"):
            found = _native.glob_files(patterns)
        if not found:
            raise InvalidArgumentError(
                f"list_files: no file matches {', '.join(map(repr, patterns))} (looked from {os.getcwd()!r})"
            )
        files = cls.from_tensor_slices(found)
        return files if shuffle is False else files.shuffle(len(found), seed=seed)  # type: ignore[attr-defined]

    @classmethod
    def zip(cls, *args: Any, datasets: Any = None, name: str | None = None) -> Self:
        """Elements of several datasets side by side, up to the end of the shortest.

        >>> import feedline as fl
        >>> a, b = fl.Dataset.range(2), fl.Dataset.range(10, 12)
        >>> list(fl.Dataset.zip(a, b).as_numpy_iterator())
        [(np.int64(0), np.int64(10)), (np.int64(1), np.int64(11))]

        Args:
            args: Datasets, or one structure of datasets (tuples, dicts), which the elements then have.
            datasets: The structure, by keyword.
            name: A name for the operator, an identifier.

        Raises:
            TypeError: A list is given, or something that is no dataset.
        """
        check_name("zip", name)
        if bool(args) == (datasets is not None):
            raise TypeError("zip takes datasets, or one structure of datasets")
        structure = datasets if datasets is not None else args[0] if len(args) == 1 else args
        if isinstance(structure, Core):
            return cls(structure._plan) if structure._home is None else structure  # type: ignore[return-value]
        inputs: list[Core] = []

        def place(leaf: Any) -> int:
            if isinstance(leaf, list):
                raise TypeError("zip: a list is data, not structure; put the datasets into a tuple or a dict")
            if not isinstance(leaf, Core):
                raise TypeError(f"zip takes datasets, not {leaf!r}")
            inputs.append(leaf)
            return len(inputs) - 1

        register_classes(structure)
        places = nest.map_structure(place, structure, lists=False)
        if not inputs:
            raise TypeError("zip needs at least one dataset")
        return cls._make("zip", {"structure": places}, inputs)


def values(value: Any) -> dict[str, Any]:
    """The parameters of a source that holds values: packed ones, or references to symbolic ones."""
    leaves = nest.flatten(value, lists=False)
    if not calls.symbolic(*leaves):
        return {"values": _packed(value)}
    tracer = trace.required()
    nodes = [calls.node(tracer, leaf) for leaf in leaves]
    register_classes(value)
    symbols = [tracer.native.export(node) for node in nodes]
    specs = [tracer.native.leaf(node) for node in nodes]
    return {
        "symbols": nest.pack_sequence_as(value, symbols, lists=False),
        "spec": nest.pack_sequence_as(value, specs, lists=False),
    }


def _packed(value: Any) -> _native.Packed:
    register_classes(value)
    return _native.pack(nest.map_structure(_plain, value, lists=False))


def _plain(leaf: Any) -> Any:
    """A leaf as the compiled part takes it: arrays of other libraries become NumPy's."""
    known = (np.ndarray, np.generic, RaggedTensor, SparseTensor, Core)
    return leaf if isinstance(leaf, known) or not hasattr(leaf, "__array__") else np.asarray(leaf)


def _signature(output_types: Any, output_shapes: Any, output_signature: Any) -> Any:
    if output_signature is not None:
        if output_types is not None or output_shapes is not None:
            raise TypeError("from_generator: give output_signature or output_types, not both")
        for leaf in nest.flatten(output_signature):
            if isinstance(leaf, (DType, np.ndarray, np.generic)) or not (
                hasattr(leaf, "dtype") or isinstance(leaf, (NoneSpec, DatasetSpec))
            ):
                raise TypeError(
                    f"from_generator: output_signature is a structure of fl.TensorSpec, not of {leaf!r}"
                )
        return nest.map_structure(lambda leaf: leaf, _tuples(output_signature), lists=False)
    if output_types is None:
        raise TypeError(
            "from_generator: say what the generator yields, for example "
            "output_signature=fl.TensorSpec((), fl.int64)"
        )
    types = _tuples(output_types)
    if output_shapes is None:
        return nest.map_structure(lambda dtype: TensorSpec(None, dtype), types, lists=False)
    return _with_shapes(types, output_shapes)


def _with_shapes(types: Any, shapes: Any) -> Any:
    """Specs from a structure of dtypes and a structure of shapes, which are lists or tuples themselves."""
    if not nest.is_nested(types, lists=False):
        return TensorSpec(as_shape(shapes), types)
    keys = nest.keys(types)
    if not nest.is_nested(shapes) or set(nest.keys(shapes)) != set(keys):
        raise ValueError("from_generator: output_shapes and output_types have different structures")
    return nest.rebuilt(types, [_with_shapes(nest.part(types, key), nest.part(shapes, key)) for key in keys])


def _tuples(structure: Any) -> Any:
    """The structure with tuples in place of lists."""
    if isinstance(structure, list):
        return tuple(_tuples(item) for item in structure)
    if nest.is_nested(structure):
        return nest.rebuilt(structure, [_tuples(nest.part(structure, key)) for key in nest.keys(structure)])
    return structure
