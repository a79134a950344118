"""Operators that put elements together into batches, and take batches apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .. import padding
from ..dtypes import as_dtype, int64
from ..params import check_name, integer, naming, parallel_calls
from ..spec import as_shape
from .core import Core

if TYPE_CHECKING:
    from typing_extensions import Self


class Batching(Core):
    """Methods of `Dataset` that make and undo batches."""

    __slots__ = ()

    def batch(
        self,
        batch_size: int,
        drop_remainder: bool = False,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Self:
        """Puts consecutive elements together along a new first axis.

        >>> import feedline as fl
        >>> list(fl.Dataset.range(5).batch(2).as_numpy_iterator())
        [array([0, 1]), array([2, 3]), array([4])]

        Args:
            batch_size: How many.
            drop_remainder: Leave out the last batch if it is short; batches then have a known size.
            num_parallel_calls: Changes nothing. Rows are made side by side in the memory of their batch, by
                as many workers as there are for the `map` before it, which has a cap of its own; closing a
                batch is then hardly any work.
            deterministic: Changes nothing. Batches have the order of their elements, which
                `map(deterministic=False)` or the options may leave open.
            name: A name for the operator, an identifier.
        """
        check_name("batch", name)
        parallel_calls("batch", num_parallel_calls)
        size = integer("batch", "batch_size", batch_size)
        return self._then("batch", batch_size=size, drop_remainder=bool(drop_remainder))

    def padded_batch(
        self,
        batch_size: int,
        padded_shapes: Any = None,
        padding_values: Any = None,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Self:
        """Like `batch`, for elements of different sizes: each is filled up at the end of its axes.

        >>> import feedline as fl
        >>> ds = fl.Dataset.range(1, 4).map(lambda x: fl.fill([x], x))
        >>> list(ds.padded_batch(3).as_numpy_iterator())
        [array([[1, 0, 0],
               [2, 2, 0],
               [3, 3, 3]])]

        Args:
            batch_size: How many.
            padded_shapes: The shapes to fill up to, in the structure of the elements. None (or -1) for a
                size: the longest in the batch. Without it, every size that is not known is filled up to the
                    longest.
            padding_values: What to fill with, in the structure of the elements, or one value for all; of
                exactly the component's dtype. None: 0, "" or False.
            drop_remainder: Leave out the last batch if it is short.
            name: A name for the operator, an identifier.

        Raises:
            ValueError: The structure does not match, or a rank is unknown and no shape is given.
            TypeError: A padding value has another dtype, or components are ragged, sparse or datasets.
        """
        check_name("padded_batch", name)
        return self._then(
            "padded_batch",
            batch_size=integer("padded_batch", "batch_size", batch_size),
            padded_shapes=padding.shapes(self.element_spec, padded_shapes),
            padding_values=padding.values(self.element_spec, padding_values),
            drop_remainder=bool(drop_remainder),
        )

    def ragged_batch(
        self,
        batch_size: int,
        drop_remainder: bool = False,
        row_splits_dtype: Any = int64,
        name: str | None = None,
    ) -> Self:
        """Like `batch`, for elements of different sizes: components with unknown sizes become ragged tensors.

        >>> import feedline as fl
        >>> ds = fl.Dataset.range(3).map(lambda x: fl.range(x))
        >>> list(ds.ragged_batch(3))
        [<RaggedTensor [[], [0], [0, 1]]>]
        """
        check_name("ragged_batch", name)
        return self._then(
            "ragged_batch",
            batch_size=integer("ragged_batch", "batch_size", batch_size),
            drop_remainder=bool(drop_remainder),
            row_splits_dtype=as_dtype(row_splits_dtype).name,
        )

    def sparse_batch(self, batch_size: int, row_shape: Any, name: str | None = None) -> Self:
        """Batches as sparse tensors, for elements that are single tensors of different sizes.

        Args:
            batch_size: How many.
            row_shape: The shape of a row; None for a size: the longest in the batch.
            name: A name for the operator, an identifier.
        """
        check_name("sparse_batch", name)
        with naming("sparse_batch"):
            shape = as_shape(row_shape)
        if shape is None:
            raise ValueError("sparse_batch: row_shape is a list of sizes, with None for the longest")
        known = getattr(self.element_spec, "shape", None)
        if known is not None and len(known) != len(shape):
            raise ValueError(
                f"sparse_batch: row_shape {list(shape)} has {len(shape)} axes, but the elements have "
                f"{len(known)}"
            )
        size = integer("sparse_batch", "batch_size", batch_size)
        return self._then("sparse_batch", batch_size=size, row_shape=list(shape))

    def unbatch(self, name: str | None = None) -> Self:
        """Takes every element apart along its first axis.

        >>> import feedline as fl
        >>> list(fl.Dataset.from_tensor_slices([[1, 2], [3, 4]]).unbatch().as_numpy_iterator())
        [np.int32(1), np.int32(2), np.int32(3), np.int32(4)]
        """
        check_name("unbatch", name)
        return self._then("unbatch")

    def rebatch(
        self, batch_size: int | Sequence[int], drop_remainder: bool = False, name: str | None = None
    ) -> Self:
        """Batches of another size: `unbatch`, then `batch`.

        >>> import feedline as fl
        >>> list(fl.Dataset.range(6).batch(2).rebatch(3).as_numpy_iterator())
        [array([0, 1, 2]), array([3, 4, 5])]

        Args:
            batch_size: The size, or several sizes that are used in turn.
            drop_remainder: Leave out the last batch if it is short.
            name: A name for the operator, an identifier.
        """
        check_name("rebatch", name)
        one = not hasattr(batch_size, "__len__") or getattr(batch_size, "ndim", 1) == 0
        sizes: list[Any] = [batch_size] if one else list(batch_size)  # type: ignore[arg-type]
        if not one and any(
            getattr(size, "ndim", 0) or isinstance(size, (list, tuple, str)) for size in sizes
        ):
            raise ValueError(f"rebatch: batch_size is a number or a list of numbers, not {batch_size!r}")
        sizes = [integer("rebatch", "batch_size", size) for size in sizes]
        if one and sizes[0] <= 0:
            raise ValueError(f"rebatch: batch_size must be positive, not {sizes[0]}")
        return self._then("rebatch", batch_sizes=sizes, drop_remainder=bool(drop_remainder))

    def bucket_by_sequence_length(
        self,
        element_length_func: Callable[..., Any],
        bucket_boundaries: Sequence[int],
        bucket_batch_sizes: Sequence[int],
        padded_shapes: Any = None,
        padding_values: Any = None,
        pad_to_bucket_boundary: bool = False,
        no_padding: bool = False,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Self:
        """Padded batches of elements of similar length, so that little is filled up.

        >>> import feedline as fl
        >>> ds = fl.Dataset.from_tensor_slices([1, 5, 2, 6]).map(lambda x: fl.fill([x], x))
        >>> ds = ds.bucket_by_sequence_length(lambda x: fl.shape(x)[0], [4], [2, 2])
        >>> [batch.shape for batch in ds]
        [(2, 2), (2, 6)]

        Args:
            element_length_func: The length of an element, a whole-number scalar.
            bucket_boundaries: Where a new bucket begins: lengths below the first boundary, from it to below
                the second, and so on.
            bucket_batch_sizes: The batch size of each bucket; one more than boundaries.
            padded_shapes: As in `padded_batch`.
            padding_values: As in `padded_batch`.
            pad_to_bucket_boundary: Fill up to the bucket's boundary minus one, not to the longest; elements
                as long as the last boundary are then errors.
            no_padding: Use `batch` in place of `padded_batch`.
            drop_remainder: Leave out short batches.
            name: A name for the operator, an identifier.
        """
        check_name("bucket_by_sequence_length", name)
        from ..buckets import bucketed

        return bucketed(
            self,
            element_length_func,
            bucket_boundaries,
            bucket_batch_sizes,
            padded_shapes,
            padding_values,
            pad_to_bucket_boundary,
            no_padding,
            drop_remainder,
        )
