"""Cases of Keras's helpers: datasets from folders and arrays, and the generator of augmented pictures."""

from __future__ import annotations

import base64
import contextlib
import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import feedline as fl
import numpy as np
from PIL import Image

from . import values
from .events import Failure

Case = dict[str, Any]
Observed = dict[str, Any]

PICTURES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".webp")


def observe(case: Case) -> Observed:
    """What feedline does with a case of these groups."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        try:
            return OBSERVERS[case["op"]](case, Path(folder))
        except Refused as refused:
            return {"error": Failure(refused.__cause__, "build")}
        except Exception as error:
            return {"error": Failure(error, "call")}


class Refused(Exception):
    """A dataset could not be built; the cause says why."""


def _build(make: Callable[..., Any], *args: Any, **params: Any) -> Any:
    try:
        return make(*args, **params)
    except Exception as error:
        raise Refused from error


def _directory(case: Case, folder: Path) -> Observed:
    for number, name in enumerate(case["tree"]):
        path = folder / name
        if name.endswith("/"):
            path.mkdir(parents=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix.lower() in PICTURES:
            Image.new("RGB", (2, 2), (10 + number,) * 3).save(path, quality=100)
        else:
            path.write_text(f"text {number}")
    params = {"image_size": [2, 2]} if case["op"].startswith("image") else {}
    made = _build(getattr(fl.utils, case["op"]), str(folder), **{**params, **case["params"]})
    datasets = made if isinstance(made, list) else [made]
    return {"datasets": [_facts(case, ds, folder) for ds in datasets]}


def _facts(case: Case, ds: Any, folder: Path) -> Observed:
    assert "python" not in ds.explain().lower()
    paths = [Path(path).relative_to(folder).as_posix() for path in ds.file_paths]
    facts: Observed = {
        "class_names": ds.class_names,
        "spec": values.encode_spec(ds.element_spec),
        "cardinality": int(ds.cardinality()),
        "epochs": [[_batch(case, element) for element in ds] for _ in range(case.get("epochs", 1))],
    }
    return {**facts, "file_paths": paths} if case["op"].startswith("image") else facts


def _batch(case: Case, element: Any) -> Observed:
    """The names of the files of a batch: pictures tell theirs by their pixels, texts by their words."""
    items, labels = element if isinstance(element, tuple) else (element, None)
    if case["op"].startswith("image"):
        pictures = np.asarray(items).reshape(-1, 2, 2, 3)
        assert all(np.ptp(picture) == 0 for picture in pictures)
        names = [case["tree"][round(float(picture.flat[0])) - 10] for picture in pictures]
    else:
        names = [text.decode() for text in np.atleast_1d(items)]
    return {"items": names, "labels": None if labels is None else np.atleast_1d(labels).tolist()}


def _load_one(case: Case, folder: Path) -> Observed:
    (folder / "only").mkdir()
    (folder / "only" / "it.png").write_bytes(base64.b64decode(case["png"]))
    params = {"shuffle": False, "label_mode": None, "batch_size": None, **case["params"]}
    ds = _build(fl.utils.image_dataset_from_directory, folder, **params)
    return {"result": values.encode(next(iter(ds)))}


def _smart_resize(case: Case, _: Path) -> Observed:
    picture, size = values.decode(case["input"]), case["params"]["size"]
    resized = fl.preprocessing.image.smart_resize(picture, size)
    spec = fl.TensorSpec((None, None, picture.shape[-1]), fl.uint8)
    unknown = fl.Dataset.from_generator(lambda: [picture], output_signature=spec)
    traced = unknown.map(lambda x: fl.preprocessing.image.smart_resize(x, size))
    assert np.array_equal(next(iter(traced)), resized)
    return {"result": values.encode(resized)}


def _timeseries(case: Case, _: Path) -> Observed:
    targets = case["params"]["targets"]
    params = {**case["params"], "targets": None if targets is None else np.asarray(targets, np.int64)}
    ds = _build(fl.utils.timeseries_dataset_from_array, np.asarray(case["data"], np.int64), **params)
    assert "python" not in ds.explain().lower()
    spec = values.encode_spec(ds.element_spec)
    return {
        "spec": _vague(spec, values.normalise(case["expect"].get("spec"))),
        "cardinality": int(ds.cardinality()),
        "elements": [values.encode(element) for element in ds],
    }


def _vague(spec: Any, recorded: Any) -> Any:
    """The spec, with sizes forgotten that the reference does not know: the length of a window, for one."""
    match spec, recorded:
        case {"t": ours}, {"t": theirs}:
            return {"t": [_vague(a, b) for a, b in zip(ours, theirs, strict=True)]}
        case {"d": dtype, "s": [*ours]}, {"s": [*theirs]}:
            return {"d": dtype, "s": [None if b is None else a for a, b in zip(ours, theirs, strict=True)]}
    return spec


def _generator(case: Case) -> Any:
    return fl.preprocessing.ImageDataGenerator(**case.get("generator", {}), compatible=True)


def _affine(case: Case, _: Path) -> Observed:
    generator, numbers = _generator(case), case["transform"]
    picture = values.decode(case["input"]).astype(np.float32)
    changed = generator.apply_transform(picture, numbers)
    traced = fl.Dataset.from_tensors(picture).map(lambda x: generator.apply_transform(x, numbers))
    assert np.array_equal(next(iter(traced)), changed)
    return {"result": values.encode(changed)}


def _random_params(case: Case, _: Path) -> Observed:
    return {"params": _generator(case).get_random_transform(case["shape"], case["seed"])}


def _standardize(case: Case, _: Path) -> Observed:
    generator = _generator(case)
    if "fit" in case:
        generator.fit(values.decode(case["fit"]))
    picture = values.decode(case["input"])
    normal = generator.standardize(picture)
    traced = next(iter(fl.Dataset.from_tensors(picture).map(generator.standardize)))
    assert np.allclose(traced, normal, atol=1e-5)
    return {"result": values.encode(normal)}


def _flow_order(case: Case, _: Path) -> Observed:
    pictures, labels = np.zeros((case["n"], 2, 2, 1), np.float32), np.arange(case["n"])
    ds = _generator(case).flow(pictures, labels, **case["flow"])
    # The reference goes on for ever, and its length is that of one pass.
    batches = ds.repeat().take(case["batches"])
    return {"length": len(ds), "labels": [labels.tolist() for _, labels in batches]}


OBSERVERS: dict[str, Callable[[Case, Path], Observed]] = {
    "affine": _affine,
    "flow_order": _flow_order,
    "image_dataset_from_directory": _directory,
    "load_one": _load_one,
    "random_params": _random_params,
    "smart_resize": _smart_resize,
    "standardize": _standardize,
    "text_dataset_from_directory": _directory,
    "timeseries_dataset_from_array": _timeseries,
}
