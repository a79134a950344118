"""Cases of single operations: a function on given input, called at once and inside of a traced function."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import feedline as fl
import numpy as np

from . import values
from .events import Failure

Case = dict[str, Any]

PARTITIONS = {
    "row_splits": fl.io.RaggedFeature.RowSplits,
    "row_lengths": fl.io.RaggedFeature.RowLengths,
    "row_starts": fl.io.RaggedFeature.RowStarts,
    "row_limits": fl.io.RaggedFeature.RowLimits,
    "value_rowids": fl.io.RaggedFeature.ValueRowIds,
    "uniform": fl.io.RaggedFeature.UniformRowLength,
}


def observe(case: Case) -> dict[str, Any]:
    """What the operation gives for the input, or how it fails. Both ways to call it must agree."""
    function, argument = OPERATIONS[case["op"]](case)
    called = _result(lambda: function(argument))
    traced = _result(lambda: _in_a_function(function, argument))
    failed = [isinstance(side.get("error"), Failure) for side in (called, traced)]
    assert failed[0] == failed[1] and (failed[0] or called == traced), (called, traced)
    return called


def _result(compute: Callable[[], Any]) -> dict[str, Any]:
    try:
        return {"result": values.encode(compute())}
    except Exception as error:
        return {"error": Failure(error, "call")}


def _in_a_function(function: Callable[[Any], Any], argument: Any) -> Any:
    """The same in a map over some equal elements, which must not become Python."""
    ds = fl.Dataset.from_tensors(argument).repeat(3).map(function)
    assert "python" not in ds.explain().lower()
    results = list(ds)
    encoded = [values.encode(result) for result in results]
    assert encoded[1:] == encoded[:-1]
    return results[0]


def feature(json: dict[str, Any]) -> Any:
    """A feature description of the case format."""
    dtype = getattr(fl, json["dtype"])
    match json["kind"]:
        case "fixed":
            return fl.io.FixedLenFeature(json["shape"], dtype, json.get("default"))
        case "varlen":
            return fl.io.VarLenFeature(dtype)
        case "fixed_seq":
            missing = json.get("allow_missing", False)
            return fl.io.FixedLenSequenceFeature(json["shape"], dtype, missing, json.get("default"))
        case "sparse":
            keys = (json["index_key"], json["value_key"])
            return fl.io.SparseFeature(*keys, dtype, json["size"], json.get("already_sorted", False))
        case "ragged":
            partitions = [PARTITIONS[kind](what) for kind, what in json.get("partitions", [])]
            splits = getattr(fl, json.get("row_splits_dtype", "int32"))
            return fl.io.RaggedFeature(
                dtype, json.get("value_key"), partitions, splits, json.get("validate", False)
            )
    raise ValueError(f"not a feature of the case format: {json!r}")


def features(json: dict[str, Any]) -> dict[str, Any]:
    """Feature descriptions by name."""
    return {key: feature(item) for key, item in json.items()}


def _strings(texts: list[str]) -> np.ndarray[Any, Any]:
    array = np.empty(len(texts), object)
    array[:] = [base64.b64decode(text) for text in texts]
    return array


def _parse_example(case: Case) -> tuple[Callable[[Any], Any], Any]:
    asked = features(case["features"])
    if case["op"] == "parse_example":
        return lambda x: fl.io.parse_example(x, asked), _strings(case["serialized"])
    return lambda x: fl.io.parse_single_example(x, asked), base64.b64decode(case["serialized"][0])


def _parse_sequence_example(case: Case) -> tuple[Callable[[Any], Any], Any]:
    context, lists = features(case["context_features"]), features(case["sequence_features"])
    if case["op"] == "parse_sequence_example":
        return lambda x: fl.io.parse_sequence_example(x, context, lists), _strings(case["serialized"])
    record = base64.b64decode(case["serialized"][0])
    return lambda x: fl.io.parse_single_sequence_example(x, context, lists), record


def _decode_raw(case: Case) -> tuple[Callable[[Any], Any], Any]:
    params = {**case["params"], "out_type": getattr(fl, case["params"]["out_type"])}
    given = case["input"]
    argument = _strings(given) if isinstance(given, list) else base64.b64decode(given)
    return lambda x: getattr(fl.io, case["op"])(x, **params), argument


def csv_default(json: Any) -> Any:
    """A column of `record_defaults`: a dtype where the field is required, else its default."""
    return getattr(fl, json["required"]) if "required" in json else values.decode(json)


def _decode_csv(case: Case) -> tuple[Callable[[Any], Any], Any]:
    defaults = [csv_default(default) for default in case["record_defaults"]]
    return lambda x: tuple(fl.io.decode_csv(x, defaults, **case["params"])), values.decode(case["records"])


def _decode_image(case: Case) -> tuple[Callable[[Any], Any], Any]:
    return _image_function(case), base64.b64decode(case["contents"])


def _image(case: Case) -> tuple[Callable[[Any], Any], Any]:
    return _image_function(case), values.decode(case["input"])


def _image_function(case: Case) -> Callable[[Any], Any]:
    """A function of `fl.image` with the parameters of the case."""
    params = {key: getattr(fl, value) if key == "dtype" else value for key, value in case["params"].items()}
    boxes = {key: values.decode(value) for key, value in params.items() if isinstance(value, dict)}
    return lambda x: getattr(fl.image, case["op"])(x, **{**params, **boxes})


IMAGE_DECODERS = (
    "decode_and_crop_jpeg",
    "decode_bmp",
    "decode_gif",
    "decode_image",
    "decode_jpeg",
    "decode_png",
    "decode_webp",
    "extract_jpeg_shape",
    "is_jpeg",
)

IMAGE_FUNCTIONS = (
    "adjust_brightness",
    "adjust_contrast",
    "adjust_gamma",
    "adjust_hue",
    "adjust_saturation",
    "central_crop",
    "convert_image_dtype",
    "crop_and_resize",
    "crop_to_bounding_box",
    "flip_left_right",
    "flip_up_down",
    "grayscale_to_rgb",
    "hsv_to_rgb",
    "pad_to_bounding_box",
    "per_image_standardization",
    "random_brightness",
    "random_contrast",
    "random_crop",
    "random_hue",
    "random_jpeg_quality",
    "random_saturation",
    "resize",
    "resize_with_crop_or_pad",
    "resize_with_pad",
    "rgb_to_grayscale",
    "rgb_to_hsv",
    "rgb_to_yiq",
    "rgb_to_yuv",
    "rot90",
    "stateless_random_crop",
    "stateless_random_flip_left_right",
    "transpose",
    "yiq_to_rgb",
    "yuv_to_rgb",
)

OPERATIONS: dict[str, Callable[[Case], tuple[Callable[[Any], Any], Any]]] = {
    **dict.fromkeys(IMAGE_DECODERS, _decode_image),
    **dict.fromkeys(IMAGE_FUNCTIONS, _image),
    "decode_csv": _decode_csv,
    "decode_raw": _decode_raw,
    "parse_example": _parse_example,
    "parse_sequence_example": _parse_sequence_example,
    "parse_single_example": _parse_example,
    "parse_single_sequence_example": _parse_sequence_example,
    "parse_tensor": _decode_raw,
}
