"""A pass as a file to keep or to mail: the page with what was recorded inside."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .passes import Json, Track, left_out, name_of, process, shape
from .sampler import SAMPLER

if TYPE_CHECKING:
    from ..dataset import Dataset

__all__ = ["report", "state_of"]


def report(what: Dataset | Sequence[Mapping[str, Any]] | None, path: str | os.PathLike[str]) -> Path:
    """Writes an HTML file that needs nothing else: the same page as `fl.dashboard` shows, with recorded data.

    >>> import feedline as fl
    >>> ds = fl.Dataset.range(1000).map(lambda x: x * 2).batch(10)
    >>> _ = list(ds)
    >>> fl.report(ds, "report.html").name
    'report.html'

    Args:
        what: A dataset, whose last pass is shown; readings of one pass, each what `explain("json")` gave as a
            dict with a `time` in seconds; or None: all that the page of this process has seen.
        path: The file.

    Raises:
        ValueError: There is nothing to show yet.
    """
    from .server import page

    if what is None:
        state = SAMPLER.state()
    elif isinstance(what, Sequence):
        state = state_of(what)
    else:
        reading = json.loads(what.explain("json"))
        if reading["pass"] is None:
            raise ValueError("the dataset has not been read yet; iterate over it first")
        state = state_of([reading])
    if not any(pipeline["samples"] for pipeline in state["pipelines"]):
        raise ValueError("there is nothing to show yet: no pipeline has run while somebody looked")
    target = Path(path)
    target.write_text(page(json.dumps(state)), encoding="utf-8")
    return target


def state_of(readings: Sequence[Mapping[str, Any]]) -> Json:
    """Readings of one pass, in the form in which the server tells the page of them."""
    if not readings:
        raise ValueError("there are no readings to show")
    track = Track()
    samples = [
        {"number": number, **track.sample({"time": one["pass"]["seconds"], "id": 1, **one})}
        for number, one in enumerate(readings)
    ]
    last = dict(readings[-1])
    pipeline = {
        "id": 1,
        "name": name_of(last),
        "rules": [f"{rule['rule']}: {rule['on']}" for rule in last["rules"]],
        "passes": 1,
        "alive": False,
        "nodes": shape(last),
        "left_out": left_out(last),
        "samples": samples,
    }
    errors = [{"time": moment, "from": "", "text": text} for moment, text in last.get("errors", [])]
    return {"number": len(samples), "process": process(), "pipelines": [pipeline], "errors": errors}
