"""Ragged tensors: rows of different lengths, kept as one flat array and the places where the rows begin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .dtypes import DType, as_dtype, int64
from .lazy_numpy import np
from .spec import RaggedTensorSpec

__all__ = ["RaggedTensor", "constant", "stack"]


class RaggedTensor:
    """Rows of different lengths.

    >>> rt = RaggedTensor([1, 2, 3], [[0, 1, 3]])
    >>> rt.to_list(), rt.shape
    ([[1], [2, 3]], (2, None))

    Args:
        flat_values: All items, row after row.
        nested_row_splits: For each ragged axis, from the outermost, where its rows begin in what follows; the
            last number is where the last row ends.
    """

    __slots__ = ("flat_values", "nested_row_splits")

    flat_values: np.ndarray[Any, Any]
    nested_row_splits: tuple[np.ndarray[Any, Any], ...]

    def __init__(self, flat_values: Any, nested_row_splits: Sequence[Any]) -> None:
        self.flat_values = flat_values if isinstance(flat_values, np.ndarray) else _array(flat_values, None)
        self.nested_row_splits = tuple(_splits(splits) for splits in nested_row_splits)

    @classmethod
    def from_row_splits(cls, values: Any, row_splits: Any) -> RaggedTensor:
        """Rows of `values` (an array or a ragged tensor) that begin at the given places."""
        if isinstance(values, RaggedTensor):
            return cls(values.flat_values, (row_splits, *values.nested_row_splits))
        return cls(values, (row_splits,))

    @classmethod
    def from_nested_row_splits(cls, flat_values: Any, nested_row_splits: Sequence[Any]) -> RaggedTensor:
        """The same as the constructor, under TensorFlow's name."""
        return cls(flat_values, nested_row_splits)

    @classmethod
    def from_row_lengths(cls, values: Any, row_lengths: Any) -> RaggedTensor:
        """Rows of `values` with the given lengths.

        >>> RaggedTensor.from_row_lengths([1, 2, 3], [2, 0, 1]).to_list()
        [[1, 2], [], [3]]
        """
        lengths = np.asarray(row_lengths, np.int64)
        return cls.from_row_splits(values, np.concatenate([[0], np.cumsum(lengths)]))

    @property
    def ragged_rank(self) -> int:
        """How many axes are ragged."""
        return len(self.nested_row_splits)

    @property
    def row_splits(self) -> np.ndarray[Any, Any]:
        """Where the rows of the outermost ragged axis begin and the last one ends."""
        if not self.nested_row_splits:
            raise ValueError("a ragged tensor of ragged_rank 0 has no row splits")
        return self.nested_row_splits[0]

    @property
    def values(self) -> Any:
        """What the outermost rows are cut from: an array, or a ragged tensor of one ragged axis less."""
        if self.ragged_rank <= 1:
            return self.flat_values
        return RaggedTensor(self.flat_values, self.nested_row_splits[1:])

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The shape, with None for each ragged axis."""
        if not self.nested_row_splits:
            return tuple(self.flat_values.shape)
        ragged = (None,) * self.ragged_rank
        return (len(self), *ragged, *self.flat_values.shape[1:])

    @property
    def dtype(self) -> DType:
        """The dtype of the items."""
        return as_dtype(self.flat_values.dtype)

    @property
    def spec(self) -> RaggedTensorSpec:
        """The exact spec of this value."""
        splits = self.nested_row_splits[0].dtype if self.nested_row_splits else int64
        return RaggedTensorSpec(self.shape, self.dtype, self.ragged_rank, splits)

    def nrows(self) -> int:
        """The number of rows."""
        return len(self)

    def row_lengths(self) -> np.ndarray[Any, Any]:
        """The length of each row."""
        return np.diff(self.row_splits)

    def to_list(self) -> list[Any]:
        """The rows as nested lists."""
        if not self.nested_row_splits:
            return self.flat_values.tolist()
        return [row.to_list() if isinstance(row, RaggedTensor) else row.tolist() for row in self]

    def to_tensor(self, default_value: Any = None, shape: Any = None) -> np.ndarray[Any, Any]:
        """A dense array: every row is filled up to the longest (or to `shape`) with a default value.

        >>> RaggedTensor([1, 2, 3], [[0, 1, 3]]).to_tensor(-1).tolist()
        [[1, -1], [2, 3]]
        """
        if not self.nested_row_splits:
            return self.flat_values
        sizes = list(_longest(self))
        for axis, size in enumerate(shape or ()):
            if size is not None:
                sizes[axis] = size
        if default_value is None:
            default_value = b"" if self.flat_values.dtype == object else 0
        out = np.full(sizes, default_value, self.flat_values.dtype)
        _fill(out, self)
        return out

    def numpy(self) -> np.ndarray[Any, Any]:
        """The rows as an array: of numbers if they are equally long, else of arrays."""
        if not self.nested_row_splits:
            return self.flat_values
        rows = [row.numpy() if isinstance(row, RaggedTensor) else row for row in self]
        if len({row.shape for row in rows}) == 1:
            return np.stack(rows)
        out = np.empty(len(rows), object)
        for index, row in enumerate(rows):
            out[index] = row
        return out

    def __len__(self) -> int:
        return len(self.nested_row_splits[0]) - 1 if self.nested_row_splits else len(self.flat_values)

    def __getitem__(self, key: Any) -> Any:
        if not self.nested_row_splits:
            return self.flat_values[key]
        if isinstance(key, tuple):
            first, rest = key[0], key[1:]
            row = self[first]
            return row[rest if len(rest) > 1 else rest[0]] if rest else row
        if isinstance(key, slice):
            return self._rows(range(len(self))[key])
        index = key.__index__()
        if index < -len(self) or index >= len(self):
            raise IndexError(f"row {index} of a ragged tensor with {len(self)} rows")
        start, stop = self.row_splits[index % len(self)], self.row_splits[index % len(self) + 1]
        return self.values[int(start) : int(stop)]

    def _rows(self, rows: range) -> RaggedTensor:
        splits = self.row_splits
        if rows.step == 1:
            start, stop = int(splits[rows.start]), int(splits[max(rows.stop, rows.start)])
            cut = splits[rows.start : max(rows.stop, rows.start) + 1] - start
            return RaggedTensor.from_row_splits(self.values[start:stop], cut)
        return stack([self[row] for row in rows], self.ragged_rank, self.flat_values[:0], splits.dtype)

    def __iter__(self) -> Iterator[Any]:
        return (self[row] for row in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RaggedTensor):
            return NotImplemented
        return (
            self.ragged_rank == other.ragged_rank
            and np.array_equal(self.flat_values, other.flat_values)
            and all(map(np.array_equal, self.nested_row_splits, other.nested_row_splits))
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<RaggedTensor {self.to_list()}>"

    def __reduce__(self) -> Any:
        return RaggedTensor, (self.flat_values, self.nested_row_splits)


def stack(rows: Sequence[Any], ragged_rank: int, empty: Any, splits_dtype: Any) -> RaggedTensor:
    """Rows (arrays, or ragged tensors of one ragged axis less) as one ragged tensor.

    Args:
        rows: The rows.
        ragged_rank: The ragged rank of the result.
        empty: An array without items that has the dtype and inner shape, for the case of no rows.
        splits_dtype: The dtype of the row splits.
    """
    if ragged_rank == 1:
        flat = np.concatenate([empty, *rows]) if rows else empty
        return RaggedTensor(flat, (_from_lengths([len(row) for row in rows], splits_dtype),))
    inner = [part for row in rows for part in row]
    below = stack(inner, ragged_rank - 1, empty, splits_dtype)
    return RaggedTensor.from_row_splits(below, _from_lengths([len(row) for row in rows], splits_dtype))


def constant(
    pylist: Any,
    dtype: Any = None,
    ragged_rank: int | None = None,
    inner_shape: tuple[int, ...] | None = None,
    row_splits_dtype: Any = int64,
) -> RaggedTensor:
    """A ragged tensor from nested lists.

    >>> constant([[1, 2], [], [3]])
    <RaggedTensor [[1, 2], [], [3]]>

    Args:
        pylist: Nested lists; all items lie at the same depth.
        dtype: The dtype of the items; found from them if it is not given (int32, float32, bool, string).
        ragged_rank: How many axes are ragged: all but the first if it is not given.
        inner_shape: The shape of the items below the ragged axes.
        row_splits_dtype: int32 or int64.
    """
    depth = _depth(pylist)
    if depth == 0:
        raise ValueError(
            "fl.ragged.constant needs a list of rows, not a single item; use fl.constant for that"
        )
    if ragged_rank is None:
        ragged_rank = max(depth - 1 - len(inner_shape or ()), 0)
    if ragged_rank >= depth and depth > 0 and _has_items(pylist):
        raise ValueError(f"ragged_rank must be below the depth of the lists, {depth}, not {ragged_rank}")
    splits = []
    rows = pylist
    for _ in range(ragged_rank):
        splits.append(_from_lengths([len(row) for row in rows], as_dtype(row_splits_dtype).dtype))
        rows = [item for row in rows for item in row]
    flat = _array(rows, dtype)
    if inner_shape is not None:
        flat = flat.reshape(-1, *inner_shape)
    return RaggedTensor(flat, splits)


def _depth(value: Any) -> int:
    if not isinstance(value, (list, tuple, np.ndarray)):
        return 0
    return 1 + max((_depth(item) for item in value), default=0)


def _has_items(value: Any) -> bool:
    return any(map(_has_items, value)) if isinstance(value, (list, tuple, np.ndarray)) else True


def _array(values: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """An array by feedline's rules for Python values: int is int32, float is float32, text is bytes."""
    array = np.asarray(values) if _has_items(values) else np.asarray(values, np.float32)
    if dtype is not None:
        kind = as_dtype(dtype).dtype
    elif isinstance(values, np.ndarray) or (
        array.dtype.kind in "biufO" and array.dtype not in (np.int64, np.float64)
    ):
        kind = array.dtype
    else:
        kind = np.dtype({"i": np.int32, "f": np.float32}.get(array.dtype.kind, object))
    if kind.kind != "O":
        return array.astype(kind)
    text = np.empty(array.shape, object)
    for place, item in zip(np.ndindex(array.shape), _items(values), strict=True):
        text[place] = item.encode() if isinstance(item, str) else item
    return text


def _items(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple, np.ndarray)):
        for item in value:
            yield from _items(item)
    else:
        yield value


def _from_lengths(lengths: list[int], dtype: Any) -> np.ndarray[Any, Any]:
    splits = np.zeros(len(lengths) + 1, dtype)
    np.cumsum(lengths, out=splits[1:])
    return splits


def _splits(values: Any) -> np.ndarray[Any, Any]:
    array = np.asarray(values)
    return array if array.dtype in (np.int32, np.int64) else array.astype(np.int64)


def _longest(rows: Any) -> tuple[int, ...]:
    """The smallest dense shape that has room for all rows."""
    if not isinstance(rows, RaggedTensor) or not rows.nested_row_splits:
        return tuple(getattr(rows, "flat_values", rows).shape)
    inner = rows.values
    longest = int(rows.row_lengths().max(initial=0))
    below = _longest(inner)[1:] if isinstance(inner, RaggedTensor) else inner.shape[1:]
    return (len(rows), longest, *below)


def _fill(out: np.ndarray[Any, Any], rows: Any) -> None:
    if not isinstance(rows, RaggedTensor):
        place = tuple(slice(min(size, room)) for size, room in zip(rows.shape, out.shape, strict=True))
        out[place] = rows[place]
        return
    for target, row in zip(out, rows, strict=False):
        _fill(target, row)
