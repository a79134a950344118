"""DALI on the CPU: everything in its own two threads, from its readers to whole batches. A batch is a view of DALI's
memory, good until the next one is asked for."""
from pathlib import Path

import numpy as np
import nvidia.dali.tfrecord as tfr
from nvidia.dali import fn, pipeline_def, types

from cells import Batches, cell
from data import Photos
from pictures import MEAN, SIDE, STD

PACKAGE = "nvidia-dali-cuda130"


class Stream:
    """Batches of a pipeline as tuples of arrays, the labels last; endless."""

    def __init__(self, pipeline, batch: int) -> None:
        self.pipeline = pipeline(batch_size=batch, num_threads=2, device_id=None, prefetch_queue_depth=2)
        self.pipeline.build()

    def __iter__(self):
        while True:
            *rest, labels = (out.as_tensor() for out in self.pipeline.run())
            yield (*map(array, rest), array(labels).astype("int64"))


def array(tensor):
    """Numbers come as rows of one."""
    x = np.asarray(tensor)
    return x.reshape(-1) if x.ndim == 2 else x


def index(name: str) -> str:
    """The text index that the reader wants, a line of offset and size a record; kept beside the file."""
    path = Path(name + ".idx")
    if not path.exists():
        lines, at = [], 0
        with open(name, "rb") as records:
            while header := records.read(12):
                size = int.from_bytes(header[:8], "little") + 16
                lines.append(f"{at} {size}\n")
                at += size
                records.seek(at)
        path.write_text("".join(lines))
    return str(path)


def records(files: list[str], features: dict, **options):
    return fn.readers.tfrecord(path=files, index_path=[index(name) for name in files], features=features, **options)


@cell("W2", "DALI", "2")
def w2(files: list[str], batch: int) -> Batches:
    features = {f"f{j}": tfr.FixedLenFeature([1], tfr.float32, 0.0) for j in range(10)}
    features["label"] = tfr.FixedLenFeature([1], tfr.int64, 0)

    @pipeline_def
    def pipeline():
        return tuple(records(files, features)[name] for name in features)

    return Stream(pipeline, batch)


IMAGE = {"image/encoded": tfr.FixedLenFeature((), tfr.string, ""),
         "image/class/label": tfr.FixedLenFeature([1], tfr.int64, 0)}
NORMAL = {"mean": MEAN.tolist(), "std": STD.tolist(), "dtype": types.FLOAT, "output_layout": "HWC"}


def train(photos: Photos, batch: int, window: int) -> Batches:
    @pipeline_def
    def pipeline():
        parsed = records(photos.records, IMAGE, random_shuffle=True, initial_fill=window)
        image = fn.decoders.image_random_crop(parsed["image/encoded"], device="cpu",
                                              random_area=(.08, 1.), random_aspect_ratio=(3 / 4, 4 / 3))
        image = fn.resize(image, size=(SIDE, SIDE))
        image = fn.crop_mirror_normalize(image, mirror=fn.random.coin_flip(), **NORMAL)
        return image, parsed["image/class/label"]

    return Stream(pipeline, batch)


@cell("W3", "DALI", "2")
def w3(photos: Photos, batch: int) -> Batches:
    return train(photos, batch, 2 * batch)


@cell("W10", "DALI", "2")
def w10(photos: Photos, batch: int, window: int) -> Batches:
    return train(photos, batch, window)


@cell("W4", "DALI", "2")
def w4(photos: Photos, batch: int) -> Batches:
    @pipeline_def
    def pipeline():
        jpeg, label = fn.readers.file(file_root=photos.folder)
        image = fn.decoders.image(jpeg, device="cpu")
        image = fn.resize(image, resize_shorter=256)
        return fn.crop_mirror_normalize(image, crop=(SIDE, SIDE), **NORMAL), label

    return Stream(pipeline, batch)
