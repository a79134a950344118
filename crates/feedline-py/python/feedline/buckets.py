"""`bucket_by_sequence_length`: group_by_window with the bucket as the key, then a padded batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import nest, ops, padding
from .calls import dtype_of
from .debugging import ensure
from .dtypes import int64
from .lazy_numpy import np
from .params import integer

__all__ = ["bucketed"]


def bucketed(
    dataset: Any,
    length_of: Callable[..., Any],
    boundaries: Sequence[int],
    batch_sizes: Sequence[int],
    padded_shapes: Any,
    padding_values: Any,
    to_boundary: bool,
    no_padding: bool,
    drop_remainder: bool,
) -> Any:
    """The dataset of batches; the parameters are those of the method."""
    op = "bucket_by_sequence_length"
    limits = np.array([integer(op, "bucket_boundaries", b) for b in boundaries], np.int64)
    sizes = np.array([integer(op, "bucket_batch_sizes", s) for s in batch_sizes], np.int64)
    if len(sizes) != len(limits) + 1:
        raise ValueError(
            f"{op}: there must be one batch size more than boundaries, not {len(sizes)} batch sizes and "
            f"{len(limits)} boundaries"
        )
    if (sizes < 1).any():
        raise ValueError(f"{op}: bucket_batch_sizes must be positive, not {sizes.min()}")
    spec = dataset.element_spec

    def bucket_of(*element: Any) -> Any:
        length = length_of(*element)
        dtype = dtype_of(length)
        if dtype is not None and not dtype.is_integer:
            raise TypeError(f"{op}: element_length_func must return a whole number, not {dtype}")
        length = ops.cast(length, int64)
        return ops.searchsorted(limits, length, side="right", out_type=int64)

    def size_of(bucket: Any) -> Any:
        return ops.gather(sizes, bucket)

    def batched(bucket: Any, window: Any) -> Any:
        # A window holds at most a batch, so only dropping short ones needs the bucket's own size.
        size = size_of(bucket) if drop_remainder else int(sizes.max())
        if no_padding:
            return window.batch(size, drop_remainder=drop_remainder)
        if to_boundary:
            window = window.map(_filler(spec, limits, bucket, padded_shapes, padding_values))
        return window.padded_batch(size, padded_shapes, padding_values, drop_remainder)

    return dataset.group_by_window(bucket_of, batched, window_size_func=size_of)


def _filler(
    spec: Any, limits: Any, bucket: Any, padded_shapes: Any, padding_values: Any
) -> Callable[..., Any]:
    """A function that fills every axis of open size up to the bucket's boundary minus one."""
    shapes = padding.shapes(spec, padded_shapes)
    packed = padding.values(spec, padding_values)

    def fill(*element: Any) -> Any:
        value = element if type(spec) is tuple else element[0]
        last = len(limits) - 1
        room = ops.gather(limits, ops.minimum(bucket, np.int64(last))) - 1
        room = ensure(room, bucket <= last, "an element is as long as the last bucket boundary or longer")
        leaves = nest.flatten(value, lists=False)
        filled = [_filled(x, shape, p, room) for x, shape, p in zip(leaves, shapes, packed, strict=True)]
        return nest.pack_sequence_as(value, filled, lists=False)

    return fill


def _filled(x: Any, shape: list[int | None], packed: Any, room: Any) -> Any:
    if None not in shape:
        return x
    now = ops.shape(x, int64)
    paddings = [(0, room - now[axis] if size is None else 0) for axis, size in enumerate(shape)]
    default = b"" if x.dtype == "string" else 0
    return ops.pad(x, paddings, constant_values=default if packed is None else packed.unpack())
