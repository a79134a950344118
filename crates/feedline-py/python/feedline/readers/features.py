"""Batches of parsed Examples out of TFRecord files, in one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import io
from ..dataset import AUTOTUNE, Dataset
from ..params import integer
from .files import expanded
from .tfrecord import TFRecordDataset

__all__ = ["make_batched_features_dataset"]


def make_batched_features_dataset(
    file_pattern: str | Sequence[str],
    batch_size: int,
    features: Mapping[str, Any],
    reader: Callable[..., Dataset] | None = None,
    label_key: str | None = None,
    reader_args: Sequence[Any] | None = None,
    num_epochs: int | None = None,
    shuffle: bool = True,
    shuffle_buffer_size: int = 10000,
    shuffle_seed: int | None = None,
    prefetch_buffer_size: int | None = None,
    reader_num_threads: int | None = None,
    parser_num_threads: int | None = None,
    sloppy_ordering: bool = False,
    drop_final_batch: bool = False,
) -> Dataset:
    """Batches of the Examples in files, parsed into dictionaries by the names of their features.

    >>> import feedline as fl
    >>> example = fl.train.Example(fl.train.Features(
    ...     {"n": fl.train.Feature(int64_list=fl.train.Int64List([7]))}))
    >>> with fl.io.TFRecordWriter("numbers.tfrecord") as writer:
    ...     writer.write(example.SerializeToString())
    >>> make = fl.data.experimental.make_batched_features_dataset
    >>> features = {"n": fl.io.FixedLenFeature([], fl.int64)}
    >>> next(iter(make("numbers.tfrecord", 1, features, num_epochs=1, shuffle=False)))
    {'n': array([7])}

    Args:
        file_pattern: A path, also with `*`, `?` and `[]` in it, or a list of them.
        batch_size: Examples of a batch.
        features: The wanted features by name: `fl.io.FixedLenFeature` and the like.
        reader: Makes the dataset of serialized Examples of one file; by default `fl.TFRecordDataset`. Of
            pairs, the second part is taken.
        label_key: The feature to split off: elements are then pairs of a dictionary and the label.
        reader_args: More arguments for `reader`, behind the name of the file.
        num_epochs: How often the data is repeated; None: for ever, with full batches only.
        shuffle: Shuffle the files and the Examples. **On by default**, as in tf.data.
        shuffle_buffer_size: How many Examples the shuffle holds.
        shuffle_seed: Makes the order the same in every run.
        prefetch_buffer_size: Batches made ahead.
        reader_num_threads: Files read at once, an Example of each in turn; by default one after the other.
        parser_num_threads: How many batches are parsed at once; by default as many as there are cores for.
        sloppy_ordering: Examples of several files may come in any order.
        drop_final_batch: Leave out a last batch that is not full.

    Raises:
        FileError: No file matches.
        ValueError: `label_key` is not among the features.
    """
    op = "make_batched_features_dataset"
    if label_key is not None and label_key not in features:
        raise ValueError(f"{op}: label_key {label_key!r} is not one of the features {sorted(features)}")
    found = expanded(op, file_pattern)
    files = [found] if isinstance(found, str) else found
    make = TFRecordDataset if reader is None else reader
    threads = 1 if reader_num_threads is None else integer(op, "reader_num_threads", reader_num_threads)

    def records_of(name: Any) -> Dataset:
        return make(name, *(reader_args or ()))

    dataset = Dataset.from_tensor_slices(files)
    if shuffle:
        dataset = dataset.shuffle(len(files), shuffle_seed)
    dataset = dataset.interleave(
        records_of,
        None if threads == AUTOTUNE else threads,
        num_parallel_calls=threads,
        deterministic=not sloppy_ordering,
    )
    if isinstance(dataset.element_spec, tuple):
        dataset = dataset.map(lambda *parts: parts[-1])
    if shuffle:
        dataset = dataset.shuffle(shuffle_buffer_size, shuffle_seed)
    if num_epochs != 1:
        dataset = dataset.repeat(num_epochs)
    dataset = dataset.batch(batch_size, drop_remainder=drop_final_batch or num_epochs is None)

    def parse(serialized: Any) -> Any:
        parsed = io.parse_example(serialized, dict(features))
        return parsed if label_key is None else (parsed, parsed.pop(label_key))

    dataset = dataset.map(parse, AUTOTUNE if parser_num_threads is None else parser_num_threads)
    return dataset.prefetch(AUTOTUNE if prefetch_buffer_size is None else prefetch_buffer_size)
