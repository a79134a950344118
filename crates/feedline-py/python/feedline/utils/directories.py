"""Datasets of pictures and texts in class folders: files, labels, orders and splits are those of Keras."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .. import image, io, ops, strings
from ..class_folders import LabelledDataset, files_below, files_of_classes, folder_of
from ..dataset import Dataset
from ..dtypes import float32
from ..lazy_numpy import np
from ..params import integer
from ..preprocessing.resizing import smart_resize
from ..seeds import op_seed

__all__ = ["image_dataset_from_directory", "text_dataset_from_directory"]

PICTURES = (".bmp", ".gif", ".jpeg", ".jpg", ".png")
TEXTS = (".txt",)
CHANNELS = {"grayscale": 1, "rgb": 3, "rgba": 4}
METHODS = (
    "area",
    "bicubic",
    "bilinear",
    "gaussian",
    "lanczos3",
    "lanczos5",
    "mitchellcubic",
    "nearest",
)
LABEL_MODES = ("int", "categorical", "binary", None)


def image_dataset_from_directory(
    directory: Any,
    labels: Any = "inferred",
    label_mode: str | None = "int",
    class_names: Sequence[str] | None = None,
    color_mode: str = "rgb",
    batch_size: int | None = 32,
    image_size: Any = (256, 256),
    shuffle: bool = True,
    seed: int | None = None,
    validation_split: float | None = None,
    subset: str | None = None,
    interpolation: str = "bilinear",
    follow_links: bool = False,
    crop_to_aspect_ratio: bool = False,
    pad_to_aspect_ratio: bool = False,
    data_format: str | None = None,
    format: str = "tf",
    verbose: bool = True,
) -> Any:
    """Batches of pictures from folders that are classes: `directory/cat/1.png`, `directory/dog/2.jpg`, ...

    >>> import os, feedline as fl, numpy as np
    >>> for name in ("cat/1.png", "cat/2.png", "dog/1.png"):
    ...     os.makedirs(os.path.dirname(f"photos/{name}"), exist_ok=True)
    ...     _ = open(f"photos/{name}", "wb").write(fl.image.encode_png(np.full((4, 6, 3), 7, np.uint8)))
    >>> ds = fl.utils.image_dataset_from_directory("photos", image_size=(2, 2), shuffle=False)
    Found 3 files belonging to 2 classes.
    >>> ds.class_names
    ['cat', 'dog']
    >>> for pictures, labels in ds:
    ...     print(pictures.shape, pictures.dtype, labels)
    (3, 2, 2, 3) float32 [0 0 1]

    Files, labels, their order for a seed and the parts of a split are those of Keras. A file that cannot be
    decoded is an error that names it, in its place.

    Args:
        directory: The folder. Sub-folders are classes, sorted by name; files of a class may lie deeper.
            Endings: .bmp .gif .jpeg .jpg .png (of an animation the first frame).
        labels: "inferred" from the folders; None for pictures alone; or a list, one number a file, in the
            order of the sorted paths.
        label_mode: "int" (int32), "categorical" (float32, a vector), "binary" (float32, for two classes), or
            None for pictures alone.
        class_names: Which classes, in which order.
        color_mode: "rgb", "rgba" or "grayscale".
        batch_size: Pictures of a batch; None gives pictures one by one.
        image_size: Height and width, or one number for both.
        shuffle: Another order each pass. Without it: sorted by path.
        seed: Makes the order reproducible.
        validation_split: The share of the files, between 0 and 1, that is set aside: the last ones of the
            (shuffled) list.
        subset: With a split: "training", "validation", or "both" for a pair of datasets.
        interpolation: A method of `fl.image.resize`. Pixels are float32 for all of them.
        follow_links: Whether links to folders are followed.
        crop_to_aspect_ratio: Cuts the largest part out of the middle that has the proportions of
            `image_size`, in place of distorting.
        pad_to_aspect_ratio: Puts black beside the picture, in place of distorting.
        data_format: "channels_last" or "channels_first".
        format: "tf"; for the sake of Keras.
        verbose: Whether a line is printed about what was found.

    Returns:
        A dataset with `class_names` and `file_paths`, or a pair of them. `file_paths` is the order before the
        shuffle of each pass.

    Raises:
        ValueError: No file was found, arguments do not go together, or a part of a split would be empty.
        FileNotFoundError: There is no such folder.
    """
    op = "image_dataset_from_directory"
    if color_mode not in CHANNELS:
        raise ValueError(f"{op}: color_mode must be one of {', '.join(CHANNELS)}, not {color_mode!r}")
    if interpolation.lower() not in METHODS:
        raise ValueError(f"{op}: interpolation must be one of {', '.join(METHODS)}, not {interpolation!r}")
    if crop_to_aspect_ratio and pad_to_aspect_ratio:
        raise ValueError(f"{op}: crop_to_aspect_ratio and pad_to_aspect_ratio exclude each other")
    if data_format not in (None, "channels_last", "channels_first"):
        raise ValueError(
            f'{op}: data_format must be "channels_last" or "channels_first", not {data_format!r}'
        )
    size, method, channels = _size(op, image_size), interpolation.lower(), CHANNELS[color_mode]

    def load(path: Any) -> Any:
        picture = image.decode_image(io.read_file(path), channels=channels, expand_animations=False)
        if pad_to_aspect_ratio:
            picture = image.resize_with_pad(picture, *size, method=method)
        elif crop_to_aspect_ratio:
            picture = smart_resize(picture, size, method)
        else:
            picture = image.resize(picture, size, method)
        picture = ops.cast(picture, float32)
        return ops.transpose(picture, [2, 0, 1]) if data_format == "channels_first" else picture

    asked = _Asked(op, labels, label_mode, class_names, batch_size, shuffle, seed, validation_split, subset)
    asked.check_format(format)
    return asked.datasets(directory, PICTURES, follow_links, verbose, load)


def text_dataset_from_directory(
    directory: Any,
    labels: Any = "inferred",
    label_mode: str | None = "int",
    class_names: Sequence[str] | None = None,
    batch_size: int | None = 32,
    max_length: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    validation_split: float | None = None,
    subset: str | None = None,
    follow_links: bool = False,
    format: str = "tf",
    verbose: bool = True,
) -> Any:
    """Batches of texts from folders that are classes: each .txt file is one string.

    >>> import os, feedline as fl
    >>> for name in ("neg/1.txt", "pos/1.txt"):
    ...     os.makedirs(os.path.dirname(f"reviews/{name}"), exist_ok=True)
    ...     _ = open(f"reviews/{name}", "w").write("it was " + name[:3])
    >>> ds = fl.utils.text_dataset_from_directory("reviews", shuffle=False, verbose=False)
    >>> for texts, labels in ds:
    ...     print(texts, labels)
    [b'it was neg' b'it was pos'] [0 1]

    Args:
        directory: The folder; see `image_dataset_from_directory` for this and what is not said here.
        labels: "inferred", None, or a list.
        label_mode: "int", "categorical", "binary" or None.
        class_names: Which classes, in which order.
        batch_size: Texts of a batch; None gives texts one by one.
        max_length: Bytes after which a text is cut off.
        shuffle: Another order each pass.
        seed: Makes the order reproducible.
        validation_split: The share of the files that is set aside.
        subset: With a split: "training", "validation" or "both".
        follow_links: Whether links to folders are followed.
        format: "tf"; for the sake of Keras.
        verbose: Whether a line is printed about what was found.
    """
    op = "text_dataset_from_directory"
    length = None if max_length is None else integer(op, "max_length", max_length)

    def load(path: Any) -> Any:
        text = io.read_file(path)
        return text if length is None else strings.substr(text, 0, length)

    asked = _Asked(op, labels, label_mode, class_names, batch_size, shuffle, seed, validation_split, subset)
    asked.check_format(format)
    return asked.datasets(directory, TEXTS, follow_links, verbose, load)


@dataclass
class _Asked:
    """What was asked for, whatever the files are."""

    op: str
    labels: Any
    label_mode: str | None
    class_names: Sequence[str] | None
    batch_size: int | None
    shuffle: bool
    seed: int | None
    validation_split: float | None
    subset: str | None

    def __post_init__(self) -> None:
        op = self.op
        if self.label_mode not in LABEL_MODES:
            raise ValueError(
                f'{op}: label_mode must be "int", "categorical", "binary" or None, not {self.label_mode!r}'
            )
        if isinstance(self.labels, str) and self.labels != "inferred":
            raise ValueError(f'{op}: labels must be "inferred", a list or None, not {self.labels!r}')
        if self.labels is not None and not isinstance(self.labels, str):
            if self.class_names is not None:
                raise ValueError(f'{op}: class_names goes with labels="inferred" only')
            self.labels = [integer(op, "each of labels", label) for label in self.labels]
        if self.labels is None or self.label_mode is None:
            self.labels = self.label_mode = None
        if self.batch_size is not None and integer(op, "batch_size", self.batch_size) < 1:
            raise ValueError(f"{op}: batch_size must be at least 1, not {self.batch_size}")
        self._check_split()

    def _check_split(self) -> None:
        op, split, subset = self.op, self.validation_split, self.subset
        if (split is None) != (subset is None):
            raise ValueError(
                f"{op}: validation_split and subset go together; split={split!r}, subset={subset!r}"
            )
        if split is None:
            return
        if not 0 < split < 1:
            raise ValueError(f"{op}: validation_split must lie between 0 and 1, not {split}")
        if subset not in ("training", "validation", "both"):
            raise ValueError(f'{op}: subset must be "training", "validation" or "both", not {subset!r}')
        if self.shuffle and self.seed is None:
            raise ValueError(
                f"{op}: a split of shuffled files needs a seed, or the parts of two calls would overlap; "
                "give one, or shuffle=False"
            )

    def check_format(self, format: str) -> None:
        """Other formats are other libraries."""
        if format != "tf":
            raise ValueError(
                f'{self.op}: format must be "tf", not {format!r}; the dataset is one of feedline'
            )

    def datasets(
        self,
        directory: Any,
        extensions: tuple[str, ...],
        follow_links: bool,
        verbose: bool,
        load: Callable[[Any], Any],
    ) -> Any:
        """The dataset, or the pair of them."""
        folder = folder_of(self.op, directory)
        paths, labels, names = self._files(folder, extensions, follow_links)
        if not paths:
            raise ValueError(
                f"{self.op}: no file in {folder} ends with {' or '.join(extensions)}"
                + ("; files must lie in sub-folders, one a class" if self.labels == "inferred" else "")
            )
        if verbose:
            told = f"Found {len(paths)} files"
            print(told + (f" belonging to {len(names)} classes." if names is not None else "."))
        seed = drawn_seed(self.seed)
        if self.shuffle:
            order = np.random.RandomState(seed).permutation(len(paths))
            paths, labels = [paths[i] for i in order], [labels[i] for i in order]
        parts = []
        for part, shuffled in self._parts(len(paths), verbose):
            ds = self._dataset(paths[part], labels[part], names, load, seed if shuffled else None)
            if names is not None and not self.shuffle:
                self._warn_of_missing(labels[part], names)
            parts.append(LabelledDataset.of(ds, names, paths[part]))
        return parts[0] if len(parts) == 1 else parts

    def _files(
        self, folder: str, extensions: tuple[str, ...], follow_links: bool
    ) -> tuple[list[str], list[int], list[str] | None]:
        if self.labels == "inferred":
            files = files_of_classes(self.op, folder, extensions, self.class_names, follow_links)
            empty = files.empty_classes()
            if self.class_names is None and empty and files.paths:
                _log(f"{self.op}: these classes have no files, but count as classes: {', '.join(empty)}")
            self._check_classes(len(files.class_names), files.labels)
            return files.paths, files.labels, files.class_names
        paths = list(files_below(folder, extensions, follow_links))
        if self.labels is None:
            return paths, [0] * len(paths), None
        if len(self.labels) != len(paths):
            raise ValueError(
                f"{self.op}: there are {len(self.labels)} labels for {len(paths)} files; each file needs "
                "one, in the order of the sorted paths"
            )
        names = [str(label) for label in sorted(set(self.labels))]
        self._check_classes(len(names), self.labels)
        return paths, list(self.labels), names

    def _check_classes(self, count: int, labels: list[int]) -> None:
        if self.label_mode == "binary" and count != 2:
            raise ValueError(
                f'{self.op}: label_mode="binary" is for exactly 2 classes, but there are {count}'
            )
        outside = [label for label in labels if not 0 <= label < count]
        if outside and self.label_mode != "int":
            raise ValueError(
                f"{self.op}: label_mode={self.label_mode!r} needs labels from 0 to {count - 1}, one for each "
                f"of the {count} classes, but there is {outside[0]}"
            )

    def _parts(self, count: int, verbose: bool) -> list[tuple[slice, bool]]:
        """The files of each dataset, and whether each pass shuffles them."""
        if self.validation_split is None:
            return [(slice(0, count), self.shuffle)]
        held = int(self.validation_split * count)
        if held == 0:
            raise ValueError(
                f"{self.op}: a validation_split of {self.validation_split} of {count} files is less than one "
                f"file; it must be at least {1 / count:.3g}"
            )
        training, validation = (
            (slice(0, count - held), self.shuffle),
            (slice(count - held, count), self.shuffle),
        )
        if verbose:
            if self.subset in ("training", "both"):
                print(f"Using {count - held} files for training.")
            if self.subset in ("validation", "both"):
                print(f"Using {held} files for validation.")
        if self.subset == "both":
            return [training, (validation[0], False)]
        return [training if self.subset == "training" else validation]

    def _warn_of_missing(self, labels: list[int], names: list[str]) -> None:
        if self.validation_split is not None and self.labels == "inferred":
            missing = [name for number, name in enumerate(names) if number not in set(labels)]
            if missing:
                _log(
                    f"{self.op}: files are split in sorted order, so one part has none of the classes "
                    f"{', '.join(missing)}; shuffle=True with a seed mixes them"
                )

    def _dataset(
        self,
        paths: list[str],
        labels: list[int],
        names: list[str] | None,
        load: Callable[[Any], Any],
        seed: int | None,
    ) -> Dataset:
        mode, count = self.label_mode, len(names or ())

        def element(path: Any, label: Any) -> Any:
            if mode == "categorical":
                label = ops.one_hot(label, count)
            elif mode == "binary":
                label = ops.expand_dims(ops.cast(label, float32), -1)
            return load(path), label

        if mode is None:
            ds = Dataset.from_tensor_slices(paths)
        else:
            ds = Dataset.from_tensor_slices((paths, np.asarray(labels, np.int32)))
        if seed is not None:
            ds = ds.shuffle(1024 if self.batch_size is None else 8 * self.batch_size, seed=seed)
        ds = ds.map(load if mode is None else element)
        return ds if self.batch_size is None else ds.batch(self.batch_size)


def drawn_seed(seed: int | None) -> int:
    """A seed for NumPy's generator: the given one, or one that follows from the global seed."""
    return op_seed(None) % 2**31 if seed is None else int(seed)


def _size(op: str, size: Any) -> tuple[int, int]:
    sides = [size, size] if hasattr(size, "__index__") else list(size)
    if len(sides) != 2:
        raise ValueError(f"{op}: image_size must be height and width, not {size!r}")
    height, width = (integer(op, "image_size", side) for side in sides)
    if height < 1 or width < 1:
        raise ValueError(f"{op}: image_size must be positive, not {size!r}")
    return height, width


def _log(message: str) -> None:
    logging.getLogger("feedline").warning(message)
