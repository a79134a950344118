"""Keras's ImageDataGenerator: the same numbers give the same pixels, inside the pipeline."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from .. import image, io, ops, random
from ..calls import symbolic
from ..class_folders import Files, LabelledDataset, files_of_classes, folder_of
from ..dataset import Dataset
from ..dtypes import as_dtype, float32, float64, int64, uint8
from ..lazy_numpy import np
from ..params import integer
from ..spec import TensorSpec
from .transform import NEUTRAL, Warp, brightened, shifted

__all__ = ["ImageDataGenerator"]

Numbers = dict[str, Any]

ENDINGS = (".bmp", ".jpeg", ".jpg", ".png")
FOREIGN = (".ppm", ".tif", ".tiff")
"""What Keras reads through Pillow and feedline has no codec for."""


class ImageDataGenerator:
    """Random changes of pictures, and their normalisation.

    >>> import feedline as fl, numpy as np
    >>> pictures = np.zeros((6, 8, 8, 3), np.uint8)
    >>> gen = fl.preprocessing.ImageDataGenerator(rotation_range=20, horizontal_flip=True, rescale=1 / 255)
    >>> ds = fl.Dataset.from_tensor_slices(pictures).map(gen.random_transform).map(gen.standardize).batch(3)
    >>> ds.element_spec
    TensorSpec(shape=(None, 8, 8, 3), dtype=fl.float32)

    In a dataset, `random_transform` draws its own numbers for each picture: they follow from the seed and the
    position of the element, whatever the number of threads. It takes single pictures and batches. Called on
    an array it draws from NumPy's generator, as Keras does, and `get_random_transform(shape, seed)` gives
    exactly the numbers of Keras; `apply_transform` gives its pixels for them.

    Keras mixes up the axes: `height_shift_range` moves pictures sideways, by a part of their height, and
    those that are not square turn around a point beside their centre. Here the axes are right, unless
    `compatible=True` asks for what Keras does.

    Args:
        featurewise_center: Subtracts the mean of the data that `fit` saw, channel by channel.
        samplewise_center: Subtracts the mean of each picture.
        featurewise_std_normalization: Divides by the standard deviation of the data that `fit` saw.
        samplewise_std_normalization: Divides by the standard deviation of each picture.
        zca_whitening: Makes the pixels of the data that `fit` saw uncorrelated.
        zca_epsilon: Added to its singular values.
        rotation_range: Degrees to either side.
        width_shift_range: How far pictures move sideways to either side: a float below 1 is a part of the
            width, a larger one pixels; a whole number n is one of 0 to n - 1 pixels; a list has the values.
        height_shift_range: The same for up and down.
        brightness_range: Least and largest factor of brightness, by which 8-bit levels are multiplied.
        shear_range: Degrees to either side.
        zoom_range: A number z for factors from 1 - z to 1 + z, or the two ends. Below 1 enlarges. Height and
            width have a factor each.
        channel_shift_range: What is added to all values at most, to either side; they stay in their range.
        fill_mode: What lies outside: "nearest", "constant", "reflect" or "wrap".
        cval: The value outside, for "constant".
        horizontal_flip: Whether every other picture is mirrored left to right.
        vertical_flip: The same for up and down.
        rescale: A factor for all values.
        preprocessing_function: A function of a picture, before the rescaling. It is traced in a dataset.
        data_format: "channels_last" or "channels_first".
        validation_split: The share that `subset="validation"` of the flows takes: the first ones.
        interpolation_order: 0 (nearest pixel), 1 (linear), 2 to 5 (splines).
        dtype: The dtype of the pictures of the flows.
        compatible: Whether the axes are mixed up as in Keras.
    """

    def __init__(
        self,
        featurewise_center: bool = False,
        samplewise_center: bool = False,
        featurewise_std_normalization: bool = False,
        samplewise_std_normalization: bool = False,
        zca_whitening: bool = False,
        zca_epsilon: float = 1e-6,
        rotation_range: float = 0,
        width_shift_range: Any = 0.0,
        height_shift_range: Any = 0.0,
        brightness_range: Sequence[float] | None = None,
        shear_range: float = 0.0,
        zoom_range: Any = 0.0,
        channel_shift_range: float = 0.0,
        fill_mode: str = "nearest",
        cval: float = 0.0,
        horizontal_flip: bool = False,
        vertical_flip: bool = False,
        rescale: float | None = None,
        preprocessing_function: Callable[[Any], Any] | None = None,
        data_format: str | None = None,
        validation_split: float = 0.0,
        interpolation_order: int = 1,
        dtype: Any = None,
        *,
        compatible: bool = False,
    ) -> None:
        if data_format not in (None, "channels_last", "channels_first"):
            raise ValueError(f'data_format must be "channels_last" or "channels_first", not {data_format!r}')
        if fill_mode not in ("nearest", "constant", "reflect", "wrap"):
            raise ValueError(
                f'fill_mode must be "nearest", "constant", "reflect" or "wrap", not {fill_mode!r}'
            )
        if not 0 <= integer("ImageDataGenerator", "interpolation_order", interpolation_order) <= 5:
            raise ValueError(f"interpolation_order must lie between 0 and 5, not {interpolation_order}")
        if validation_split and not 0 < validation_split < 1:
            raise ValueError(f"validation_split must lie between 0 and 1, not {validation_split}")
        if brightness_range is not None and (isinstance(brightness_range, str) or len(brightness_range) != 2):
            raise ValueError(f"brightness_range must be two numbers, not {brightness_range!r}")
        self.featurewise_center = featurewise_center or featurewise_std_normalization or zca_whitening
        self.samplewise_center = samplewise_center or samplewise_std_normalization
        self.featurewise_std_normalization = featurewise_std_normalization and not zca_whitening
        self.samplewise_std_normalization = samplewise_std_normalization
        self.zca_whitening = zca_whitening
        self.zca_epsilon = zca_epsilon
        self.rotation_range = rotation_range
        self.width_shift_range = width_shift_range
        self.height_shift_range = height_shift_range
        self.brightness_range = None if brightness_range is None else [float(x) for x in brightness_range]
        self.shear_range = shear_range
        self.zoom_range = _zoom(zoom_range)
        self.channel_shift_range = channel_shift_range
        self.fill_mode = fill_mode
        self.cval = cval
        self.horizontal_flip = horizontal_flip
        self.vertical_flip = vertical_flip
        self.rescale = rescale
        self.preprocessing_function = preprocessing_function
        self.data_format = data_format or "channels_last"
        self.validation_split = validation_split
        self.interpolation_order = interpolation_order
        self.dtype = float32 if dtype is None else as_dtype(dtype)
        self.compatible = compatible
        self.mean: Any = None
        self.std: Any = None
        self.zca_whitening_matrix: Any = None

    # Drawing numbers.

    def get_random_transform(self, img_shape: Sequence[int], seed: int | None = None) -> Numbers:
        """The numbers of one random change, drawn in the order of Keras from NumPy's legacy generator.

        >>> import feedline as fl
        >>> gen = fl.preprocessing.ImageDataGenerator(rotation_range=90)
        >>> round(gen.get_random_transform((4, 4, 3), seed=5)["theta"], 3)
        -50.041

        Args:
            img_shape: The shape of the picture.
            seed: A seed of its own for these numbers; without it NumPy's global generator goes on.
        """
        rng: Any = np.random if seed is None else np.random.RandomState(seed)
        rows, columns = (img_shape[axis] for axis in self._axes())

        def either_side(limit: float) -> float:
            return rng.uniform(-limit, limit) if limit else 0.0

        def shift(limit: Any, size: int) -> float:
            if not np.any(limit):
                return 0.0
            if np.ndim(limit) or isinstance(limit, (int, np.integer)):
                drawn = rng.choice(limit) * rng.choice([-1, 1])
            else:
                drawn = rng.uniform(-limit, limit)
            return float(drawn) * (size if np.max(limit) < 1 else 1)

        numbers = dict(NEUTRAL)
        numbers["theta"] = either_side(self.rotation_range)
        up, across = shift(self.height_shift_range, rows), shift(self.width_shift_range, columns)
        numbers["tx"], numbers["ty"] = (up, across) if self.compatible else (across, up)
        numbers["shear"] = either_side(self.shear_range)
        if self.zoom_range != (1, 1):
            numbers["zx"], numbers["zy"] = (float(zoom) for zoom in rng.uniform(*self.zoom_range, 2))
        numbers["flip_horizontal"] = bool((rng.random_sample() < 0.5) and self.horizontal_flip)
        numbers["flip_vertical"] = bool((rng.random_sample() < 0.5) and self.vertical_flip)
        if self.channel_shift_range:
            numbers["channel_shift_intensity"] = either_side(self.channel_shift_range)
        if self.brightness_range is not None:
            numbers["brightness"] = rng.uniform(*self.brightness_range)
        return numbers

    def _drawn(self, picture: Any, seed: int | None) -> Numbers:
        """Symbolic numbers for a symbolic picture, or for each of a batch."""
        shape: Any = []
        if len(picture.shape) == 4:
            count = picture.shape[0]
            shape = [ops.shape(picture, int64)[0] if count is None else count]

        def uniform(low: float, high: float) -> Any:
            return random.uniform(shape, dtype=float64, seed=seed) * np.float64(high - low) + np.float64(low)

        def either_side(limit: float) -> Any:
            return uniform(-limit, limit) if limit else 0.0

        def shift(limit: Any, size: Any) -> Any:
            if not np.any(limit):
                return 0.0
            if np.ndim(limit) or isinstance(limit, (int, np.integer)):
                choices = np.asarray(limit if np.ndim(limit) else range(limit), np.float64)
                place = ops.cast(uniform(0, len(choices)), int64)
                sign = ops.where(uniform(0, 1) < np.float64(0.5), np.float64(-1), np.float64(1))
                drawn = ops.gather(choices, place) * sign
            else:
                drawn = uniform(-limit, limit)
            return drawn * size if np.max(limit) < 1 else drawn

        def coin() -> Any:
            return ops.cast(uniform(0, 1) < np.float64(0.5), float64)

        sizes = ops.cast(ops.shape(picture, int64), float64)
        rows, columns = (sizes[axis + len(picture.shape) - 3] for axis in self._axes())
        numbers = dict(NEUTRAL)
        numbers["theta"] = either_side(self.rotation_range)
        up, across = shift(self.height_shift_range, rows), shift(self.width_shift_range, columns)
        numbers["tx"], numbers["ty"] = (up, across) if self.compatible else (across, up)
        numbers["shear"] = either_side(self.shear_range)
        if self.zoom_range != (1, 1):
            numbers["zx"], numbers["zy"] = uniform(*self.zoom_range), uniform(*self.zoom_range)
        numbers["flip_horizontal"] = coin() if self.horizontal_flip else False
        numbers["flip_vertical"] = coin() if self.vertical_flip else False
        if self.channel_shift_range:
            numbers["channel_shift_intensity"] = either_side(self.channel_shift_range)
        if self.brightness_range is not None:
            numbers["brightness"] = uniform(*self.brightness_range)
        return numbers

    def _axes(self) -> tuple[int, int]:
        return (0, 1) if self.data_format == "channels_last" else (1, 2)

    # Changing pictures.

    def apply_transform(self, x: Any, transform_parameters: Mapping[str, Any]) -> Any:
        """The picture changed by given numbers, pixel for pixel as Keras changes it.

        >>> import feedline as fl, numpy as np
        >>> gen = fl.preprocessing.ImageDataGenerator()
        >>> row = np.array([[[1], [2], [3]]], np.float32)
        >>> gen.apply_transform(row, {"tx": 1}).reshape(-1).tolist()
        [2.0, 3.0, 3.0]

        Args:
            x: A picture, or a batch of them; uint8 and float32 keep their dtype, others become float32.
            transform_parameters: Some of theta, tx, ty, shear, zx, zy, flip_horizontal, flip_vertical,
                channel_shift_intensity and brightness; for a batch also a number for each picture.
        """
        unknown = set(transform_parameters) - set(NEUTRAL)
        if unknown:
            raise ValueError(f"there is no parameter {sorted(unknown)[0]!r}; there are {', '.join(NEUTRAL)}")
        picture = x if symbolic(x) else np.asarray(x)
        if picture.shape is None or len(picture.shape) not in (3, 4):
            raise ValueError(
                f"expects a picture of 3 axes, or a batch of them, not shape {picture.shape}; if it is not "
                "known, say it with fl.ensure_shape"
            )
        if as_dtype(picture.dtype) not in (uint8, float32):
            picture = ops.cast(picture, float32)
        picture = self._channels_last(picture)
        warp = Warp(self.interpolation_order, self.fill_mode, self.cval, self.compatible)
        picture = warp(picture, transform_parameters)
        values, own = picture, as_dtype(picture.dtype)
        for change, name in ((shifted, "channel_shift_intensity"), (brightened, "brightness")):
            number = transform_parameters.get(name)
            if number is not None:
                values = change(ops.cast(values, float32), number)
        if values is not picture:
            picture = values if own == float32 else ops.saturate_cast(values, own)
        return self._channels_back(picture)

    def random_transform(self, x: Any, seed: int | None = None) -> Any:
        """The picture, or each of a batch, changed at random.

        Args:
            x: A picture or a batch; symbolic in a dataset.
            seed: Makes it reproducible.
        """
        if not symbolic(x):
            return self.apply_transform(x, self.get_random_transform(np.shape(x)[-3:], seed))
        if x.shape is None or len(x.shape) not in (3, 4):
            raise ValueError(
                f"random_transform: expects a picture of 3 axes, or a batch of them, not shape {x.shape}; if "
                "it is not known, say it with fl.ensure_shape"
            )
        return self.apply_transform(x, self._drawn(x, seed))

    def standardize(self, x: Any) -> Any:
        """The picture, or each of a batch, normalised, as the options of the generator say."""
        picture = x if symbolic(x) else np.asarray(x)
        if self.preprocessing_function is not None:
            picture = self.preprocessing_function(picture)
        if not as_dtype(picture.dtype).is_floating:
            picture = ops.cast(picture, float32)
        kind = as_dtype(picture.dtype).as_numpy_dtype
        axes, tiny = [-3, -2, -1], kind(1e-6)
        if self.rescale:
            picture = picture * kind(self.rescale)
        if self.samplewise_center:
            picture = picture - ops.reduce_mean(picture, axes, True)
        if self.samplewise_std_normalization:
            picture = picture / (ops.reduce_std(picture, axes, True) + tiny)
        if self.featurewise_center and self._fitted(self.mean, "featurewise_center"):
            picture = picture - self.mean.astype(kind)
        if self.featurewise_std_normalization and self._fitted(self.std, "featurewise_std_normalization"):
            picture = picture / (self.std.astype(kind) + tiny)
        if self.zca_whitening and self._fitted(self.zca_whitening_matrix, "zca_whitening"):
            shape = ops.shape(picture, int64)
            flat = ops.reshape(picture, [-1, len(self.zca_whitening_matrix)])
            picture = ops.reshape(ops.matmul(flat, self.zca_whitening_matrix.astype(kind)), shape)
        return picture

    def __call__(self, x: Any) -> Any:
        """A random change, then the normalisation: what `flow` does to each picture."""
        return self.standardize(self.random_transform(ops.cast(x, self.dtype)))

    def _fitted(self, found: Any, option: str) -> bool:
        if found is None:
            _log(f"ImageDataGenerator: {option} does nothing until fit(data) was called")
        return found is not None

    def _channels_last(self, x: Any) -> Any:
        if self.data_format == "channels_last":
            return x
        return ops.transpose(x, [1, 2, 0] if len(x.shape) == 3 else [0, 2, 3, 1])

    def _channels_back(self, x: Any) -> Any:
        if self.data_format == "channels_last":
            return x
        return ops.transpose(x, [2, 0, 1] if len(x.shape) == 3 else [0, 3, 1, 2])

    def fit(self, x: Any, augment: bool = False, rounds: int = 1, seed: int | None = None) -> None:
        """Learns mean, standard deviation and whitening from data.

        >>> import feedline as fl, numpy as np
        >>> gen = fl.preprocessing.ImageDataGenerator(featurewise_center=True)
        >>> gen.fit(np.arange(8.0).reshape(2, 2, 2, 1))
        >>> gen.standardize(np.full((1, 1, 1), 3.5)).tolist()
        [[[0.0]]]

        Args:
            x: Pictures along a first axis.
            augment: Whether to learn from random changes of them.
            rounds: How many changes of each, then.
            seed: Makes those reproducible.
        """
        data: Any = np.array(x, np.float64 if self.dtype == float64 else np.float32)
        if data.ndim != 4 or not data.size:
            raise ValueError(f"fit: expects pictures along a first axis, not an array of shape {data.shape}")
        if augment:
            rng = np.random.RandomState(seed).randint
            drawn = [self.random_transform(x, seed=int(rng(2**31 - 1))) for _ in range(rounds) for x in data]
            data = np.stack(drawn)
        rows, columns = (axis + 1 for axis in self._axes())
        axes = (0, rows, columns)
        if self.featurewise_center:
            self.mean = data.mean(axis=axes, keepdims=True)[0]
            data -= self.mean
        if self.featurewise_std_normalization:
            self.std = data.std(axis=axes, keepdims=True)[0]
            data /= self.std + 1e-6
        if self.zca_whitening:
            flat = data.reshape(len(data), -1)
            u, s, _ = np.linalg.svd(flat.T, full_matrices=False)
            self.zca_whitening_matrix = (u * (np.sqrt(len(flat)) / (s + self.zca_epsilon))) @ u.T

    # Datasets.

    def flow(
        self,
        x: Any,
        y: Any = None,
        batch_size: int = 32,
        shuffle: bool = True,
        sample_weight: Any = None,
        seed: int | None = None,
        save_to_dir: Any = None,
        save_prefix: str = "",
        save_format: str = "png",
        ignore_class_split: bool = False,
        subset: str | None = None,
    ) -> Dataset:
        """Batches of changed pictures from arrays.

        >>> import feedline as fl, numpy as np
        >>> gen = fl.preprocessing.ImageDataGenerator(horizontal_flip=True)
        >>> ds = gen.flow(np.zeros((5, 4, 4, 1)), np.arange(5), batch_size=2, shuffle=False)
        >>> [labels.tolist() for _, labels in ds]
        [[0, 1], [2, 3], [4]]

        The dataset ends after each picture came once, and the next pass has another order; Keras's goes on
        for ever, which is `.repeat()` here. For a seed the orders are those of Keras, the changes are not:
        they are drawn inside the pipeline.

        Args:
            x: Pictures along a first axis.
            y: Labels; None gives pictures alone.
            batch_size: Pictures of a batch.
            shuffle: Another order each pass.
            sample_weight: Weights, one a picture.
            seed: Makes order and changes reproducible.
            save_to_dir: Not offered: a `map` with `fl.image.encode_png` can do it.
            save_prefix: Goes with it.
            save_format: Goes with it.
            ignore_class_split: Whether the parts of a split may have different classes.
            subset: "training" or "validation": a part by `validation_split`.
        """
        if save_to_dir is not None:
            raise ValueError("flow: save_to_dir is not offered; write pictures in a loop over the dataset")
        pictures = np.asarray(x)
        if pictures.ndim != 4:
            raise ValueError(
                f"flow: expects pictures along a first axis, not an array of shape {pictures.shape}"
            )
        arrays = [pictures, *(np.asarray(part) for part in (y, sample_weight) if part is not None)]
        if y is None and sample_weight is not None:
            raise ValueError("flow: sample_weight needs y")
        if any(len(part) != len(pictures) for part in arrays):
            raise ValueError(f"flow: the arrays have different lengths: {[len(part) for part in arrays]}")
        if subset is not None:
            held = self._held("flow", subset, len(pictures))
            if y is not None and not ignore_class_split:
                before, after = (
                    set(np.unique(part).tolist()) for part in (arrays[1][:held], arrays[1][held:])
                )
                if before != after:
                    raise ValueError(
                        "flow: the training and the validation part have different classes; shuffle the "
                        "arrays first, or pass ignore_class_split=True"
                    )
            part = slice(0, held) if subset == "validation" else slice(held, None)
            arrays = [array[part] for array in arrays]
        if not len(arrays[0]):
            raise ValueError("flow: there are no pictures")

        def element(picture: Any, *rest: Any) -> Any:
            changed = self._changed(picture, seed)
            return (changed, *rest) if rest else changed

        ds = _ordered(
            tuple(arrays) if len(arrays) > 1 else arrays[0], len(arrays[0]), batch_size, shuffle, seed
        )
        return ds.map(element).batch(batch_size)

    def flow_from_directory(
        self,
        directory: Any,
        target_size: Any = (256, 256),
        color_mode: str = "rgb",
        classes: Sequence[str] | None = None,
        class_mode: str | None = "categorical",
        batch_size: int = 32,
        shuffle: bool = True,
        seed: int | None = None,
        save_to_dir: Any = None,
        save_prefix: str = "",
        save_format: str = "png",
        follow_links: bool = False,
        subset: str | None = None,
        interpolation: str = "nearest",
        keep_aspect_ratio: bool = False,
    ) -> LabelledDataset:
        """Batches of changed pictures from class folders; see `flow` for the order.

        Args:
            directory: The folder. Sub-folders are classes, sorted by name, hidden ones too.
            target_size: Height and width.
            color_mode: "rgb", "rgba" or "grayscale".
            classes: Which classes, in which order.
            class_mode: "categorical", "binary", "sparse" (float32 numbers), "input" (the picture itself), or
                None for pictures alone.
            batch_size: Pictures of a batch.
            shuffle: Another order each pass.
            seed: Makes order and changes reproducible.
            save_to_dir: Not offered.
            save_prefix: Goes with it.
            save_format: Goes with it.
            follow_links: Whether links to folders are followed.
            subset: "training" or "validation": the first files of each class are for validation.
            interpolation: "nearest", "bilinear", "bicubic" or another method of `fl.image.resize`.
            keep_aspect_ratio: Cuts the largest part out of the middle that has the proportions of the size.

        Returns:
            A dataset with `class_names`, `class_indices` and `file_paths`.
        """
        from ..utils.directories import CHANNELS, METHODS
        from .resizing import smart_resize

        op = "flow_from_directory"
        if save_to_dir is not None:
            raise ValueError(f"{op}: save_to_dir is not offered; write pictures in a loop over the dataset")
        if color_mode not in CHANNELS:
            raise ValueError(f"{op}: color_mode must be one of {', '.join(CHANNELS)}, not {color_mode!r}")
        if interpolation not in METHODS:
            raise ValueError(
                f"{op}: interpolation must be one of {', '.join(METHODS)}, not {interpolation!r}"
            )
        modes = ("categorical", "binary", "sparse", "input", None)
        if class_mode not in modes:
            raise ValueError(f"{op}: class_mode must be one of {modes}, not {class_mode!r}")
        height, width = (integer(op, "target_size", side) for side in target_size)
        folder = folder_of(op, directory)
        files = files_of_classes(op, folder, (*ENDINGS, *FOREIGN), classes, follow_links, hidden=True)
        foreign = next((path for path in files.paths if path.lower().endswith(FOREIGN)), None)
        if foreign is not None:
            raise ValueError(f"{op}: {foreign} is in a format that cannot be read; convert it to PNG")
        if class_mode == "binary" and len(files.class_names) != 2:
            raise ValueError(
                f'{op}: class_mode="binary" is for 2 classes, there are {len(files.class_names)}'
            )
        if subset is not None:
            files = self._part_of_classes(op, files, subset)
        if not files.paths:
            raise ValueError(f"{op}: no file in {folder} ends with {' or '.join(ENDINGS)}")
        count = len(files.class_names)

        def element(path: Any, label: Any) -> Any:
            picture = image.decode_image(
                io.read_file(path), channels=CHANNELS[color_mode], expand_animations=False
            )
            resize = smart_resize if keep_aspect_ratio else image.resize
            picture = resize(picture, (height, width), interpolation)
            if self.data_format == "channels_first":
                picture = ops.transpose(picture, [2, 0, 1])
            changed = self._changed(picture, seed)
            match class_mode:
                case "categorical":
                    return changed, ops.one_hot(label, count, dtype=self.dtype)
                case "input":
                    return changed, changed
                case None:
                    return changed
            return changed, ops.cast(label, self.dtype)

        labels = np.asarray(files.labels, np.int32)
        ds = _ordered((files.paths, labels), len(labels), batch_size, shuffle, seed)
        return LabelledDataset.of(ds.map(element).batch(batch_size), files.class_names, files.paths)

    def _changed(self, picture: Any, seed: int | None) -> Any:
        return self.standardize(self.random_transform(ops.cast(picture, self.dtype), seed))

    def _held(self, op: str, subset: str, count: int) -> int:
        """How many are for validation."""
        if subset not in ("training", "validation"):
            raise ValueError(f'{op}: subset must be "training" or "validation", not {subset!r}')
        held = int(count * self.validation_split)
        if not held:
            raise ValueError(
                f"{op}: a validation_split of {self.validation_split} of {count} pictures leaves none for "
                "validation; give the generator a larger one"
            )
        return held

    def _part_of_classes(self, op: str, files: Files, subset: str) -> Files:
        self._held(op, subset, len(files.paths))
        paths: list[str] = []
        labels: list[int] = []
        for number in range(len(files.class_names)):
            own = [path for path, label in zip(files.paths, files.labels, strict=True) if label == number]
            held = int(len(own) * self.validation_split)
            part = own[:held] if subset == "validation" else own[held:]
            paths += part
            labels += [number] * len(part)
        return Files(paths, labels, files.class_names)


class _Orders:
    """Keras's order of each pass: NumPy's generator, seeded by the number of batches seen before."""

    def __init__(self, count: int, batches: int, seed: int) -> None:
        self.count, self.batches, self.seed, self.passes = count, batches, seed, 0

    def __call__(self) -> Iterator[Any]:
        seed = self.seed + self.passes * self.batches
        self.passes += 1
        yield np.random.RandomState(seed).permutation(self.count)


def _ordered(slices: Any, count: int, batch_size: int, shuffle: bool, seed: int | None) -> Dataset:
    """The slices of arrays, in the order of the flows."""
    if integer("flow", "batch_size", batch_size) < 1:
        raise ValueError(f"flow: batch_size must be at least 1, not {batch_size}")
    if not shuffle:
        return Dataset.from_tensor_slices(slices)
    if seed is None:
        return Dataset.from_tensor_slices(slices).shuffle()
    orders = _Orders(count, -(-count // batch_size), seed)
    # Python is asked once a pass, for all numbers.
    numbers = Dataset.from_generator(orders, output_signature=TensorSpec([count], int64)).unbatch()
    parts = slices if isinstance(slices, tuple) else (slices,)
    arrays = [np.asarray(part, object) if isinstance(part, list) else part for part in parts]

    def pick(number: Any) -> Any:
        found = tuple(ops.gather(array, number) for array in arrays)
        return found if isinstance(slices, tuple) else found[0]

    return numbers.map(pick).assert_cardinality(count)


def _zoom(zoom: Any) -> tuple[float, float]:
    if isinstance(zoom, (int, float)):
        return (1 - zoom, 1 + zoom) if zoom else (1, 1)
    if isinstance(zoom, (list, tuple)) and len(zoom) == 2 and all(isinstance(z, (int, float)) for z in zoom):
        return zoom[0], zoom[1]
    raise ValueError(f"zoom_range must be a number or a pair of numbers, not {zoom!r}")


def _log(message: str) -> None:
    logging.getLogger("feedline").warning(message)
