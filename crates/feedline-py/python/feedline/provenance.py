"""Where a row came from, and how it became what it is.

>>> import feedline as fl
>>> ds = fl.Dataset.range(100).shuffle(10, seed=1).map(lambda x: x * 2).batch(4)
>>> batch = list(ds)[3]
>>> found = ds.locate(3, 2)
>>> found.origin.position * 2 == batch[2]
np.True_
>>> [stage.operator for stage in ds.replay(3, 2)]
['range', 'shuffle', 'map', 'batch']
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

__all__ = ["Draw", "Located", "Origin", "Replayed", "StageValue"]


@dataclass(frozen=True)
class Origin:
    """A row of a source.

    Attributes:
        operator: The source; or the operator that put rows together without telling which, if `position` is
            None.
        position: The row's place in what the source gave.
        epoch: The pass that random numbers of the source belong to.
        file: The file that it was read from.
        record: The number of the record in the file.
        byte: Where its data begins in the file (in what was unpacked, if it is compressed).
    """

    operator: str
    position: int | None
    epoch: int
    file: str | None = None
    record: int | None = None
    byte: int | None = None

    def __str__(self) -> str:
        if self.position is None:
            return f"not traced through {self.operator}"
        where = f"{self.operator}, position {self.position}"
        if self.file is None:
            return where
        return f"{where}: {self.file}, record {self.record} at byte {self.byte}"


@dataclass(frozen=True)
class Draw:
    """Random numbers that a function drew for the row: they follow from these and nothing else."""

    operator: str
    function: str
    seed: int
    use: int
    epoch: int
    position: int


@dataclass(frozen=True)
class Located:
    """Where a row of a pass came from.

    Attributes:
        step: The number of the element in the pass, from 0 on.
        row: The row of the batch.
        epoch: The number of the pass.
        origins: Rows of sources: one, or several where an operator put them together.
        draws: What random functions drew for it.
    """

    step: int
    row: int | None
    epoch: int
    origins: tuple[Origin, ...]
    draws: tuple[Draw, ...]

    @property
    def origin(self) -> Origin:
        """The row of a source, where it is one.

        Raises:
            ValueError: It was made of several; `origins` has them.
        """
        if len(self.origins) != 1:
            raise ValueError(f"the row was made of {len(self.origins)} rows; look at origins")
        return self.origins[0]

    def __str__(self) -> str:
        row = "" if self.row is None else f", row {self.row}"
        lines = [f"step {self.step}{row} of pass {self.epoch}"]
        lines += [f"  from {origin}" for origin in self.origins]
        lines += [
            f"  {draw.operator} drew {draw.function}: seed {draw.seed}, use {draw.use}, epoch {draw.epoch}, "
            f"position {draw.position}"
            for draw in self.draws
        ]
        return "\n".join(lines)


@dataclass(frozen=True)
class StageValue:
    """What an operator made of a row: for a batch, the whole batch that it is in.

    Attributes:
        operator: The operator.
        params: Its parameters, in short.
        position: The row's position there.
        value: What it gave.
    """

    operator: str
    params: str
    position: int
    value: Any


class Replayed(Sequence[StageValue]):
    """What every operator made of a row, in their order; in notebooks with pictures."""

    def __init__(self, located: Located, stages: Sequence[StageValue]) -> None:
        self.located = located
        self._stages = tuple(stages)

    def __getitem__(self, index: Any) -> Any:
        return self._stages[index]

    def __len__(self) -> int:
        return len(self._stages)

    def __iter__(self) -> Iterator[StageValue]:
        return iter(self._stages)

    def __repr__(self) -> str:
        lines = [str(self.located)]
        lines += [f"  {s.operator}({_cut(s.params, 60)}): {_text(s.value)}" for s in self._stages]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = []
        for stage in self._stages:
            call = escape(f"{stage.operator}({_cut(stage.params, 60)})")
            pictures = "".join(_picture(leaf) for leaf in _leaves(stage.value))
            rows.append(f"<tr><td>{call}</td><td>{escape(_text(stage.value))}</td><td>{pictures}</td></tr>")
        head = "<tr><th>operator</th><th>value</th><th></th></tr>"
        return f"<pre>{escape(str(self.located))}</pre><table>{head}{''.join(rows)}</table>"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _leaves(value: Any) -> list[Any]:
    from .nest import flatten

    return list(flatten(value))


def _text(value: Any) -> str:
    """Small values as they are, arrays by their type and range."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (tuple, list)):
        return "(" + ", ".join(_text(v) for v in value) + ")"
    if isinstance(value, bytes):
        return repr(value) if len(value) <= 40 else f"{value[:32]!r}… {len(value)} bytes"
    shape, size = getattr(value, "shape", None), getattr(value, "size", 0)
    if not shape or size <= 8:
        return _cut(repr(value), 120)
    text = f"{value.dtype}{list(shape)}"
    if value.dtype.kind in "iuf" and size:
        text += f" from {value.min()} to {value.max()}"
    return text


def _picture(value: Any) -> str:
    """A picture as HTML, if the value looks like one; of a batch, the first ones."""
    import base64

    import numpy as np

    from . import image

    if not isinstance(value, np.ndarray) or value.ndim not in (3, 4) or value.shape[-1] not in (1, 3, 4):
        return ""
    if value.size == 0 or min(value.shape[-3:-1]) < 4 or value.dtype.kind not in "uf":
        return ""
    found = []
    for picture in value[None] if value.ndim == 3 else value[:4]:
        if picture.dtype != np.uint8:
            low, high = float(picture.min()), float(picture.max())
            scale = 255 / (high - low) if high > low else 0.0
            picture = ((picture.astype(np.float32) - low) * scale).astype(np.uint8)
        png = image.encode_png(np.ascontiguousarray(picture))
        data = base64.b64encode(bytes(np.asarray(png).item())).decode()
        found.append(f'<img alt="a picture of {picture.shape}" src="data:image/png;base64,{data}">')
    return "".join(found)


def _origin(found: dict[str, Any]) -> Origin:
    return Origin(**found)


def located(found: dict[str, Any]) -> Located:
    """What the compiled part found, as an object."""
    origins = tuple(_origin(one) for one in found["origins"])
    draws = tuple(Draw(**one) for one in found["draws"])
    return Located(found["step"], found["row"], found["epoch"], origins, draws)


def replayed(found: dict[str, Any]) -> Replayed:
    """The same with what every operator made of it."""
    return Replayed(located(found), [StageValue(*stage) for stage in found["stages"]])
