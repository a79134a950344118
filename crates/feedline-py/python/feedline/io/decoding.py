"""Strings that hold other data: raw numbers, compressed bytes, tensors, Examples as JSON."""

from __future__ import annotations

from typing import Any

from ..calls import as_tensor, call
from ..dtypes import as_dtype, string

__all__ = ["decode_compressed", "decode_json_example", "decode_raw", "parse_tensor", "serialize_tensor"]


def decode_raw(
    input_bytes: Any,
    out_type: Any,
    little_endian: bool = True,
    fixed_length: int | None = None,
    name: str | None = None,
) -> Any:
    r"""The bytes of strings as numbers, on a new last axis.

    >>> import feedline as fl
    >>> fl.io.decode_raw(b"\x01\x02\x03\x04", fl.uint16).tolist()
    [513, 1027]

    Args:
        input_bytes: A string, or strings of equal lengths.
        out_type: The dtype of the numbers.
        little_endian: Whether the lowest byte of a number comes first.
        fixed_length: A number of bytes to which strings are cut, or filled up with zeros.
        name: Not used; accepted for TensorFlow's sake.
    """
    return call(
        "io.decode_raw",
        [as_tensor(input_bytes, string)],
        out_type=as_dtype(out_type),
        little_endian=bool(little_endian),
        fixed_length=fixed_length,
    )


def decode_compressed(bytes: Any, compression_type: str = "", name: str | None = None) -> Any:
    """The contents of strings that were compressed: "GZIP", "ZLIB", "ZSTD", or "" for none.

    A string whose contents take more than 1 GiB is an error.
    """
    return call("io.decode_compressed", [as_tensor(bytes, string)], compression_type=compression_type)


def decode_json_example(json_examples: Any, name: str | None = None) -> Any:
    """Examples in protobuf's JSON form as serialized Examples, which `parse_example` takes."""
    return call("io.decode_json_example", [as_tensor(json_examples, string)])


def parse_tensor(serialized: Any, out_type: Any, name: str | None = None) -> Any:
    """The tensor that `serialize_tensor` made a string of. Its dtype must be `out_type`."""
    return call("io.parse_tensor", [as_tensor(serialized, string)], out_type=as_dtype(out_type))


def serialize_tensor(tensor: Any, name: str | None = None) -> Any:
    """A tensor as a string, in TensorFlow's form (a TensorProto).

    >>> import feedline as fl
    >>> fl.io.parse_tensor(fl.io.serialize_tensor([[1.5, 2.5]]), fl.float32).tolist()
    [[1.5, 2.5]]
    """
    return call("io.serialize_tensor", [as_tensor(tensor)])
