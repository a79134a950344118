"""Examples and SequenceExamples as tensors: `tf.io.parse_example` and its kin.

They work on real strings at once and inside of traced functions. `ds.map(lambda record:
fl.io.parse_single_example(record, features)).batch(n)` reads each record once, in Rust, and only touches what
is asked for: there is no need to batch first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..calls import as_tensor, call_parts, constant, dtype_of
from ..dtypes import as_dtype, string
from ..spec import as_shape, shape_text
from .features import FixedLenFeature, FixedLenSequenceFeature, RaggedFeature, SparseFeature, VarLenFeature

__all__ = [
    "parse_example",
    "parse_sequence_example",
    "parse_single_example",
    "parse_single_sequence_example",
]

Features = Mapping[str, Any]

_PARTITIONS = {
    RaggedFeature.RowSplits: "row_splits",
    RaggedFeature.RowLengths: "row_lengths",
    RaggedFeature.RowStarts: "row_starts",
    RaggedFeature.RowLimits: "row_limits",
    RaggedFeature.ValueRowIds: "value_rowids",
    RaggedFeature.UniformRowLength: "uniform",
}


def parse_single_example(
    serialized: Any, features: Features, example_names: Any = None, name: str | None = None
) -> dict[str, Any]:
    """The features of one serialized Example, by name.

    >>> import feedline as fl
    >>> record = fl.train.Example(fl.train.Features({"x": fl.train.Feature(int64_list=[7])}))
    >>> features = {"x": fl.io.FixedLenFeature([], fl.int64)}
    >>> fl.io.parse_single_example(record.SerializeToString(), features)
    {'x': np.int64(7)}

    Args:
        serialized: A byte string.
        features: What to read: a dict from names to `FixedLenFeature`, `VarLenFeature`, `RaggedFeature`, …
        example_names: Not used; accepted for TensorFlow's sake, as is `name`.
        name: Not used.
    """
    return _examples("io.parse_single_example", serialized, features)


def parse_example(
    serialized: Any, features: Features, example_names: Any = None, name: str | None = None
) -> dict[str, Any]:
    """The features of a vector of serialized Examples, by name, with an axis for the records in front.

    One record that does not fit fails the whole batch; the message says which it is. In a pipeline,
    `parse_single_example` before `batch` is as fast, and one bad record is one bad element.

    Args:
        serialized: A vector of byte strings.
        features: What to read: a dict from names to `FixedLenFeature`, `VarLenFeature`, `RaggedFeature`, …
        example_names: Not used; accepted for TensorFlow's sake, as is `name`.
        name: Not used.
    """
    return _examples("io.parse_example", serialized, features)


def parse_single_sequence_example(
    serialized: Any,
    context_features: Features | None = None,
    sequence_features: Features | None = None,
    example_name: Any = None,
    name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The context and the feature lists of one serialized SequenceExample, by name.

    Args:
        serialized: A byte string.
        context_features: What to read of the context, as for `parse_single_example`.
        sequence_features: What to read of the lists: a dict from names to `FixedLenSequenceFeature`,
            `VarLenFeature` or `RaggedFeature`.
        example_name: Not used; accepted for TensorFlow's sake, as is `name`.
        name: Not used.
    """
    context, lists, parts = _sequences(
        "io.parse_single_sequence_example", serialized, context_features, sequence_features
    )
    return dict(zip(context, parts, strict=False)), dict(zip(lists, parts[len(context) :], strict=True))


def parse_sequence_example(
    serialized: Any,
    context_features: Features | None = None,
    sequence_features: Features | None = None,
    example_names: Any = None,
    name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The context and the feature lists of a vector of serialized SequenceExamples, and the lists' lengths.

    Lists of `FixedLenSequenceFeature` are filled up to the longest of the batch; the third dict says how many
    steps each record has of them.

    Args:
        serialized: A vector of byte strings.
        context_features: What to read of the context, as for `parse_example`.
        sequence_features: What to read of the lists: a dict from names to `FixedLenSequenceFeature`,
            `VarLenFeature` or `RaggedFeature`.
        example_names: Not used; accepted for TensorFlow's sake, as is `name`.
        name: Not used.
    """
    context, lists, parts = _sequences(
        "io.parse_sequence_example", serialized, context_features, sequence_features
    )
    padded = [key for key in lists if isinstance((sequence_features or {})[key], FixedLenSequenceFeature)]
    first, second = len(context), len(context) + len(lists)
    return (
        dict(zip(context, parts[:first], strict=True)),
        dict(zip(lists, parts[first:second], strict=True)),
        dict(zip(padded, parts[second:], strict=True)),
    )


def _examples(function: str, serialized: Any, features: Features) -> dict[str, Any]:
    args = [as_tensor(serialized, string)]
    names, asked = _asked(function, "features", features, args)
    if not names:
        raise ValueError(f"{function}: no features are asked for; name at least one")
    return dict(zip(names, call_parts(function, args, features=asked), strict=True))


def _sequences(
    function: str, serialized: Any, context: Features | None, lists: Features | None
) -> tuple[list[str], list[str], list[Any]]:
    args = [as_tensor(serialized, string)]
    context_names, asked = _asked(function, "context_features", context or {}, args)
    list_names, asked_lists = _asked(function, "sequence_features", lists or {}, args)
    if not context_names and not list_names:
        raise ValueError(f"{function}: no features are asked for; name at least one of the context or a list")
    return context_names, list_names, call_parts(function, args, features=asked, lists=asked_lists)


def _asked(function: str, what: str, features: Features, args: list[Any]) -> tuple[list[str], list[Any]]:
    """The names in order, and what the function of the table wants to know of each. Defaults join `args`."""
    if not isinstance(features, Mapping):
        raise TypeError(f"{function}: {what} must be a dict from names to features, not {features!r}")
    for key in features:
        if not isinstance(key, str):
            raise TypeError(f"{function}: the names in {what} are strings, not {key!r}")
    names = sorted(features)
    return names, [{"name": key, **_written(function, key, features[key], args)} for key in names]


def _written(function: str, key: str, feature: Any, args: list[Any]) -> dict[str, Any]:
    where = f"{function}: feature {key!r}"
    if isinstance(feature, FixedLenFeature):
        return {"kind": "fixed", **_dense(where, feature, args)}
    if isinstance(feature, FixedLenSequenceFeature):
        return {
            "kind": "sequence",
            **_dense(where, feature, args),
            "allow_missing": bool(feature.allow_missing),
        }
    if isinstance(feature, VarLenFeature):
        return {"kind": "varlen", "dtype": _dtype(where, feature)}
    if isinstance(feature, SparseFeature):
        keys = [feature.index_key] if isinstance(feature.index_key, str) else list(feature.index_key)
        sizes = feature.size if isinstance(feature.size, Iterable) else [feature.size]
        return {
            "kind": "sparse",
            "dtype": _dtype(where, feature),
            "value": feature.value_key,
            "index": keys,
            "size": [int(size) for size in sizes],
            "sorted": bool(feature.already_sorted),
        }
    if isinstance(feature, RaggedFeature):
        return {
            "kind": "ragged",
            "dtype": _dtype(where, feature),
            "value": key if feature.value_key is None else feature.value_key,
            "partitions": [_partition(where, partition) for partition in feature.partitions],
            "splits": as_dtype(feature.row_splits_dtype).name,
        }
    raise TypeError(
        f"{where} must be a FixedLenFeature, FixedLenSequenceFeature, VarLenFeature, SparseFeature or "
        f"RaggedFeature of fl.io, not {feature!r}"
    )


def _dtype(where: str, feature: Any) -> str:
    if feature.dtype is None:
        raise ValueError(f"{where}: the dtype is missing; it is fl.int64, fl.float32 or fl.string")
    return as_dtype(feature.dtype).name


def _dense(where: str, feature: FixedLenFeature | FixedLenSequenceFeature, args: list[Any]) -> dict[str, Any]:
    shape = as_shape(feature.shape)
    if shape is None or None in shape:
        raise ValueError(
            f"{where}: the shape must be known, not {shape_text(shape)}; use VarLenFeature, RaggedFeature or "
            "FixedLenSequenceFeature if the number of values varies"
        )
    written: dict[str, Any] = {"dtype": _dtype(where, feature), "shape": list(shape)}
    if feature.default_value is not None:
        own = dtype_of(feature.default_value)
        wanted = as_dtype(feature.dtype)
        args.append(feature.default_value if own == wanted else constant(feature.default_value, wanted))
        written["default"] = len(args) - 1
    return written


def _partition(where: str, partition: Any) -> dict[str, Any]:
    name = _PARTITIONS.get(type(partition))
    if name is None:
        raise TypeError(
            f"{where}: a partition is one of RaggedFeature.RowSplits, RowLengths, RowStarts, RowLimits, "
            f"ValueRowIds and UniformRowLength, not {partition!r}"
        )
    return {name: partition[0]}
