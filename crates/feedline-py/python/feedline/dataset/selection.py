"""Operators that choose elements and their order, keep them, or read them ahead."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from .. import ops
from ..calls import dtype_of
from ..config import parse_bytes
from ..debugging import ensure
from ..dtypes import int64
from ..function import traced
from ..params import check_name, integer, naming
from ..seeds import get_seed
from ..spec import DatasetSpec, TensorSpec
from .core import AUTOTUNE, Core

if TYPE_CHECKING:
    from typing_extensions import Self


class Selection(Core):
    """Methods of `Dataset` that choose and order."""

    __slots__ = ()

    def take(self, count: int, name: str | None = None) -> Self:
        """The first elements: at most `count`, all for -1.

        >>> import feedline as fl
        >>> list(fl.Dataset.range(10).take(2).as_numpy_iterator())
        [np.int64(0), np.int64(1)]
        """
        check_name("take", name)
        return self._then("take", count=integer("take", "count", count))

    def skip(self, count: int, name: str | None = None) -> Self:
        """Without the first `count` elements; without all for -1.

        >>> import feedline as fl
        >>> list(fl.Dataset.range(4).skip(2).as_numpy_iterator())
        [np.int64(2), np.int64(3)]
        """
        check_name("skip", name)
        return self._then("skip", count=integer("skip", "count", count))

    def repeat(self, count: int | None = None, name: str | None = None) -> Self:
        """The elements several times over; for ever if no count (or -1) is given.

        >>> import feedline as fl
        >>> list(fl.Dataset.range(2).repeat(2).as_numpy_iterator())
        [np.int64(0), np.int64(1), np.int64(0), np.int64(1)]
        """
        check_name("repeat", name)
        times = None if count is None else integer("repeat", "count", count)
        return self._then("repeat", count=None if isinstance(times, int) and times < 0 else times)

    def shard(
        self,
        num_shards: int,
        index: int,
        name: str | None = None,
        *,
        equal: Literal["drop", "wrap"] | None = None,
    ) -> Self:
        """Every `num_shards`-th element, beginning with element `index`: the part of one of several workers.

        >>> import feedline as fl
        >>> list(fl.Dataset.range(5).shard(2, 1).as_numpy_iterator())
        [np.int64(1), np.int64(3)]

        Another number of parts can go on in the middle of a pass, and no element is lost or comes twice:
        from the states of all parts, made one by `merge_states`; or from that of any part, if they have gone
        equally far and only `map`, `batch` and `prefetch` follow.

        Args:
            num_shards: How many parts there are.
            index: Which part this is, from 0 on.
            name: A name for the operator, an identifier.
            equal: Gives all parts equally many elements, for those who must take the same number of steps:
                "drop" leaves out the last elements that are too few for all, "wrap" fills up with the first.
        """
        check_name("shard", name)
        return self._then(
            "shard",
            num_shards=integer("shard", "num_shards", num_shards),
            index=integer("shard", "index", index),
            **({} if equal is None else {"equal": equal}),
        )

    def shuffle(
        self,
        buffer_size: int | None = None,
        seed: int | None = None,
        reshuffle_each_iteration: bool | None = None,
        name: str | None = None,
        *,
        buffer_bytes: int | str | None = None,
    ) -> Self:
        """The elements in random order.

        >>> import feedline as fl
        >>> sorted(fl.Dataset.range(4).shuffle(seed=1).as_numpy_iterator())
        [np.int64(0), np.int64(1), np.int64(2), np.int64(3)]

        Args:
            buffer_size: From how many elements the next one is drawn. None is a uniform order of all
                elements: it costs no memory if they can be had by number, else all of them are held.
            seed: Makes the order reproducible.
            reshuffle_each_iteration: False gives the same order in every pass; True, the default, a new one.
            name: A name for the operator, an identifier.
            buffer_bytes: The same in bytes of what the elements contain, a number or text such as "64MB": the
                buffer is filled until it has as many. Given with a `buffer_size`, whichever is reached first
                counts. The order depends on the elements and the seed alone.

        A buffer of `buffer_size` elements that `memory_limit` has no room for is an error: to make it smaller
        would change the order.
        """
        check_name("shuffle", name)
        first, second = get_seed(seed, "shuffle")
        return self._then(
            "shuffle",
            buffer_size=None if buffer_size is None else integer("shuffle", "buffer_size", buffer_size),
            **({} if buffer_bytes is None else {"buffer_bytes": parse_bytes(buffer_bytes)}),
            seed=first,
            seed2=second,
            reshuffle_each_iteration=True
            if reshuffle_each_iteration is None
            else bool(reshuffle_each_iteration),
        )

    def prefetch(self, buffer_size: int | None = None, name: str | None = None) -> Self:
        """Reads ahead while the consumer works. A pipeline that does not end with one gets one.

        Args:
            buffer_size: How many elements (batches, after `batch`); None or `fl.AUTOTUNE` leave it to the
                runtime, 0 is none.
            name: A name for the operator, an identifier.
        """
        check_name("prefetch", name)
        size = None if buffer_size is None else integer("prefetch", "buffer_size", buffer_size)
        return self._then("prefetch", buffer_size=None if size == AUTOTUNE else size)

    def cache(
        self,
        filename: Any = "",
        name: str | None = None,
        *,
        on_full: Literal["error", "keep", "spill"] = "error",
    ) -> Self:
        """Keeps the elements of the first pass for later ones.

        >>> import feedline as fl
        >>> list(fl.Dataset.range(2).cache().repeat(2).as_numpy_iterator())
        [np.int64(0), np.int64(1), np.int64(0), np.int64(1)]

        Args:
            filename: The folder to keep them in, for later processes too; in memory if it is empty. Each
                pipeline has its own place there, known by its operators with their parameters, the code of
                its functions with the values that these refer to, and the files that it reads (name, length,
                and when they were written): none reads the elements of another, and if any of that changes
                they are made anew. Files that Python functions open by themselves are not part of it. A pass
                that breaks off, even a process that is killed, leaves what it has committed: the next pass
                reads that and goes on behind it, if its input can be resumed.
                One iterator at a time writes; others read what is there and the input behind it. A random
                function without a seed is another one in each process. In memory, only a complete pass is
                kept.
            name: A name for the operator, an identifier.
            on_full: What to do where `memory_limit` has no room for them. "error" ends the pass with the
                numbers. "keep" keeps the elements that fit; later passes make the others again, as the first
                pass did and in its order. "spill" moves all of them to a temporary folder (`TMPDIR`).
        """
        check_name("cache", name)
        if on_full not in ("error", "keep", "spill"):
            raise ValueError(f'cache: on_full is "error", "keep" or "spill", not {on_full!r}')
        extra = {} if on_full == "error" else {"on_full": on_full}
        if not filename:
            return self._then("cache", **extra)
        import os

        with naming("cache: filename"):
            path = os.fspath(filename)
        return self._then("cache", filename=path, **extra)

    def snapshot(
        self,
        path: Any,
        compression: str | None = "AUTO",
        reader_func: Callable[[Any], Any] | None = None,
        shard_func: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> Self:
        """Keeps the elements of the first pass in compressed files, for later passes and processes.

        Each pipeline has its own place in the folder, known by its operators, functions and files. Without
        functions it is `cache(path)` with compression: a pass that breaks off is gone on with, and later
        passes give the elements in the order of the first.

        >>> import feedline as fl
        >>> ds = fl.Dataset.range(3).map(lambda x: x * 2).snapshot("numbers")
        >>> list(ds.as_numpy_iterator()) == list(ds.as_numpy_iterator())
        True

        `shard_func` says into which shard each element is written, `reader_func` how later passes read the
        shards. The first pass gives the elements in their order while it writes them. Only a complete pass is
        kept, of one iterator at a time; others give their input.

        >>> def mixed(shards):
        ...     return shards.shuffle(4, seed=1).interleave(lambda shard: shard, cycle_length=2)
        >>> ds = fl.Dataset.range(8).snapshot("mixed", reader_func=mixed, shard_func=lambda x: x % 4)
        >>> first, second = list(ds.as_numpy_iterator()), list(ds.as_numpy_iterator())
        >>> first == sorted(second), first == second
        (True, False)

        A state that was taken while a snapshot was read needs that snapshot where it is resumed. One of a
        pass that wrote does not: where there is no snapshot, the input is read from its beginning once more,
        so that it can be written whole; unless it had come to its end by then (a shuffle behind it still gave
        elements), in which case the next pass writes it.

        Args:
            path: The folder.
            compression: "AUTO", "SNAPPY" and "LZ4" mean LZ4, "GZIP" and "ZSTD" mean ZSTD, None is none.
            reader_func: Gets a dataset of the shards, each a dataset, and returns one of elements, which is
                to have all of them. Without it, the shards come one after the other.
            shard_func: The number of an element's shard, a whole number from 0 to 511. Without it, a
                `reader_func` gets one shard. A random function without a seed is another one in each process,
                which then has a snapshot of its own.
            name: A name for the operator, an identifier.

        Raises:
            ValueError: `shard_func` gives anything but one whole number, or `reader_func` anything but a
                dataset of elements like those that are written.
        """
        check_name("snapshot", name)
        import os

        with naming("snapshot: path"):
            folder = os.fspath(path)
        if reader_func is None and shard_func is None:
            return self._then("cache", filename=folder, compression=compression or "NONE")
        reader = {}
        if reader_func is not None:
            shards = DatasetSpec(DatasetSpec(self.element_spec))
            reader["reader"] = traced(reader_func, shards, op="snapshot: reader_func")
        pairs = self._numbered((lambda *_: 0) if shard_func is None else shard_func)
        return pairs._then("snapshot", path=folder, compression=compression or "NONE", **reader)

    def _numbered(self, shard_func: Callable[..., Any]) -> Self:
        """The elements with the numbers of their shards in front."""
        spec = self.element_spec

        def numbered(*parts: Any) -> Any:
            return _shard_number(shard_func(*parts)), parts if type(spec) is tuple else parts[0]

        function = traced(
            functools.update_wrapper(numbered, shard_func) if callable(shard_func) else shard_func,
            spec,
            op="snapshot: shard_func",
            sample=self._sample(),
            output_signature=(TensorSpec((), int64), spec),
        )
        return self._then("map", function=function, num_parallel_calls=AUTOTUNE)

    def assert_cardinality(self, expected_cardinality: int, name: str | None = None) -> Self:
        """States the number of elements; another number is an error when the pipeline runs.

        >>> import feedline as fl
        >>> len(fl.Dataset.range(4).filter(lambda x: x < 2).assert_cardinality(2))
        2

        Args:
            expected_cardinality: The number, -1 for an endless dataset, -2 for an unknown one.
            name: A name for the operator, an identifier.
        """
        check_name("assert_cardinality", name)
        count = integer("assert_cardinality", "expected_cardinality", expected_cardinality)
        return self._then("assert_cardinality", count=count)


_MOST_SHARDS = 512


def _shard_number(number: Any) -> Any:
    """A whole number as one of a shard, or an error of its element; the operator refuses anything else."""
    dtype = dtype_of(number)
    if dtype is None and isinstance(number, int) and not isinstance(number, bool):
        dtype = int64
    if dtype is None or not dtype.is_integer:
        return number
    number = ops.cast(number, int64)
    fits = ops.logical_and(number >= 0, number < _MOST_SHARDS)
    return ensure(number, fits, f"snapshot: shard_func must give a number from 0 to {_MOST_SHARDS - 1}")
