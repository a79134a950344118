"""Values and specs between the case files and feedline.

`decode` turns case JSON into what a user would pass in. `encode` and `encode_spec` turn what feedline gave
into case JSON, and `normalise` brings recorded JSON into the same form, so that a comparison is `==` on
plain data and a failing test shows a readable difference. The plain form differs from the file's in three
points: byte strings are `bytes`, floats are exact values of their dtype, mappings are lists of pairs (their
order counts).
"""

from __future__ import annotations

import base64
import math
from typing import Any

import feedline as fl
import numpy as np

Json = Any


def decode(json: Json) -> Any:
    """The input value that a piece of case JSON stands for."""
    match json:
        case {"py": value}:
            return value
        case {"t": items}:
            return tuple(decode(item) for item in items)
        case {"m": items}:
            return {key: decode(item) for key, item in items.items()}
        case {"none": True}:
            return None
        case {"ragged": {"d": dtype, "v": rows, **rest}}:
            rank = {"ragged_rank": rest["ragged_rank"]} if "ragged_rank" in rest else {}
            return fl.ragged.constant(_scalars(dtype, rows), dtype=getattr(fl, dtype), **rank)
        case {"sparse": {"d": dtype, "indices": indices, "values": values, "dense_shape": shape}}:
            positions = np.array(indices, np.int64).reshape(len(values), len(shape))
            return fl.SparseTensor(positions, _array(dtype, [len(values)], values), shape)
        case {"d": "string", "s": [], "v": [value]}:
            return _bytes(value)
        case {"d": dtype, "s": shape, "v": values}:
            return _array(dtype, shape, values)
        case {"d": dtype, "s": shape, "b64": text}:
            return np.frombuffer(base64.b64decode(text), np.dtype(dtype).newbyteorder("<")).reshape(shape)
    raise ValueError(f"not a value of the case format: {json!r}")


def decode_spec(json: Json) -> Any:
    """The element spec that a piece of case JSON stands for."""
    match json:
        case {"t": items}:
            return tuple(decode_spec(item) for item in items)
        case {"m": items}:
            return {key: decode_spec(item) for key, item in items.items()}
        case {"d": dtype, "s": shape}:
            return fl.TensorSpec(None if shape is None else tuple(shape), getattr(fl, dtype))
    raise ValueError(f"not a spec of the case format: {json!r}")


def encode(value: Any) -> Json:
    """An element that feedline delivered, in the plain form."""
    if value is None:
        return {"none": True}
    if isinstance(value, tuple):
        return {"t": [encode(item) for item in value]}
    if isinstance(value, dict):
        return {"m": [[key, encode(item)] for key, item in value.items()]}
    if isinstance(value, fl.Dataset):
        return {"ds": [encode(item) for item in value]}
    if isinstance(value, fl.RaggedTensor):
        dtype = _dtype_name(value.flat_values)
        rows = _scalars(dtype, value.to_list())
        return {"ragged": {"d": dtype, "ragged_rank": value.ragged_rank, "s": list(value.shape), "v": rows}}
    if isinstance(value, fl.SparseTensor):
        dtype = _dtype_name(value.values)
        entries = _scalars(dtype, value.values.tolist())
        shape = np.asarray(value.dense_shape).tolist()
        indices = np.asarray(value.indices).tolist()
        return {"sparse": {"d": dtype, "indices": indices, "values": entries, "dense_shape": shape}}
    if isinstance(value, bytes):
        return {"d": "string", "s": [], "v": [value]}
    array = np.asarray(value)
    dtype = _dtype_name(array)
    return {"d": dtype, "s": list(array.shape), "v": _scalars(dtype, array.ravel().tolist())}


def encode_spec(spec: Any) -> Json:
    """An `element_spec` in the plain form."""
    if isinstance(spec, tuple):
        return {"t": [encode_spec(item) for item in spec]}
    if isinstance(spec, dict):
        return {"m": [[key, encode_spec(item)] for key, item in spec.items()]}
    if isinstance(spec, fl.NoneSpec):
        return {"none": True}
    if isinstance(spec, fl.DatasetSpec):
        return {"ds": encode_spec(spec.element_spec)}
    leaf = {"d": spec.dtype.name, "s": None if spec.shape is None else list(spec.shape)}
    if isinstance(spec, fl.RaggedTensorSpec):
        return {"ragged": {**leaf, "ragged_rank": spec.ragged_rank, "row_splits": spec.row_splits_dtype.name}}
    if isinstance(spec, fl.SparseTensorSpec):
        return {"sparse": leaf}
    return leaf


def normalise(json: Json) -> Json:
    """Recorded JSON (an element, a spec, or any structure that holds them) in the plain form."""
    match json:
        case {"other": "NoneTensorSpec"}:
            return {"none": True}
        case {"m": items}:
            return {"m": [[key, normalise(item)] for key, item in items.items()]}
        case {"ragged": {"d": dtype, "v": rows, **rest}}:
            return {"ragged": {"d": dtype, "v": _scalars(dtype, rows), **rest}}
        case {"sparse": {"d": dtype, "values": values, **rest}}:
            return {"sparse": {"d": dtype, "values": _scalars(dtype, values), **rest}}
        case {"d": dtype, "s": shape, "v": values}:
            return {"d": dtype, "s": shape, "v": _scalars(dtype, values)}
        case {"d": _, "s": _, "b64": _}:
            return encode(decode(json))
        case dict():
            return {key: normalise(item) for key, item in json.items()}
        case list():
            return [normalise(item) for item in json]
    return json


def _array(dtype: str, shape: list[int], values: list[Any]) -> np.ndarray:
    array = np.empty(len(values), object if dtype == "string" else dtype)
    for index, value in enumerate(values):  # one by one: a list of bytes would lose trailing zero bytes
        array[index] = _bytes(value) if dtype == "string" else value
    return array.reshape(shape)


def _dtype_name(array: Any) -> str:
    dtype = np.asarray(array).dtype
    return "string" if dtype.hasobject else dtype.name


def _scalars(dtype: str, values: Any) -> Any:
    """Nested lists of scalars in the plain form."""
    if isinstance(values, list):
        return [_scalars(dtype, value) for value in values]
    if dtype == "string":
        return _bytes(values)
    if dtype.startswith("float"):
        number = float(np.dtype(dtype).type(values))
        return number if math.isfinite(number) else str(number)
    return values


def _bytes(value: Json) -> bytes:
    match value:
        case bytes():
            return value
        case str():
            return value.encode()
        case {"b64": text}:
            return base64.b64decode(text)
    raise ValueError(f"not a byte string of the case format: {value!r}")
