"""Grain: MapDataset read inline, which for cheap elements beats its default of 16 reading threads; pictures by OpenCV
on two threads, from the folder: its reader of TFRecord is not a random-access one."""
from random import Random

import cv2
import grain
import numpy as np
from numpy import ndarray

from by_hand import crop_box, middle, normaliser
from cells import Batches, cell
from data import Photos
from pictures import SIDE
from spin import spin

PACKAGE = "grain"
INLINE = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
TWO_THREADS = grain.ReadOptions(num_threads=2, prefetch_buffer_size=128)


def affine(x: ndarray) -> ndarray:
    return x * 2 + 1


@cell("W1", "grain", "1 (reads inline)")
def w1(n: int, batch: int) -> Batches:
    return grain.MapDataset.range(n).map(affine).repeat().batch(batch).to_iter_dataset(INLINE)


@cell("W1", "grain batch-then-map", "1 (reads inline)")
def w1_batched(n: int, batch: int) -> Batches:
    return grain.MapDataset.range(n).repeat().batch(batch).map(affine).to_iter_dataset(INLINE)


def example_class() -> type:
    """tf.train.Example for protobuf: Grain has no parser of its own."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="t", syntax="proto3")
    field = descriptor_pb2.FieldDescriptorProto

    def message(name: str, within=file.message_type, **fields: tuple[int, int, int, str]):
        made = within.add(name=name)
        for key, (number, kind, label, of) in fields.items():
            made.field.add(name=key, number=number, type=kind, label=label, type_name=of or None)
        return made

    one, many = field.LABEL_OPTIONAL, field.LABEL_REPEATED
    message("BytesList", value=(1, field.TYPE_BYTES, many, ""))
    message("FloatList", value=(1, field.TYPE_FLOAT, many, ""))
    message("Int64List", value=(1, field.TYPE_INT64, many, ""))
    message("Feature", bytes_list=(1, field.TYPE_MESSAGE, one, ".t.BytesList"),
            float_list=(2, field.TYPE_MESSAGE, one, ".t.FloatList"),
            int64_list=(3, field.TYPE_MESSAGE, one, ".t.Int64List"))
    features = message("Features", feature=(1, field.TYPE_MESSAGE, many, ".t.Features.FeatureEntry"))
    entry = message("FeatureEntry", features.nested_type, key=(1, field.TYPE_STRING, one, ""),
                    value=(2, field.TYPE_MESSAGE, one, ".t.Feature"))
    entry.options.map_entry = True
    message("Example", features=(1, field.TYPE_MESSAGE, one, ".t.Features"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Example"))


@cell("W2", "grain", "1")
def w2(files: list[str], batch: int) -> Batches:
    example, names = example_class(), [f"f{j}" for j in range(10)]

    def parse(record: bytes) -> dict[str, np.generic]:
        feature = example.FromString(record).features.feature
        row = {name: np.float32(feature[name].float_list.value[0]) for name in names}
        return row | {"label": np.int64(feature["label"].int64_list.value[0])}

    ds = grain.MapDataset.source(files).repeat().map(grain.experimental.TFRecordIterDataset)
    return grain.experimental.InterleaveIterDataset(ds, cycle_length=8).map(parse).batch(batch)


class Rows:
    """A random-access source of (image, label)."""

    def __init__(self, images: ndarray, labels: ndarray) -> None:
        self.images, self.labels = images, labels

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, i: int) -> tuple[ndarray, int]:
        return self.images[i], self.labels[i]


def scale(row: tuple[ndarray, ndarray]) -> tuple[ndarray, ndarray]:
    image = row[0].astype(np.float32)
    image /= 255
    return image, row[1]


@cell("W8", "grain", "1 (reads inline)")
def w8(images: ndarray, labels: ndarray, batch: int) -> Batches:
    ds = grain.MapDataset.source(Rows(images, labels)).shuffle(seed=0).repeat()
    return ds.batch(batch).map(scale).to_iter_dataset(INLINE)


@cell("W8", "grain permutation, gather", "1 (reads inline)")
def w8_gather(images: ndarray, labels: ndarray, batch: int) -> Batches:
    """By hand: shuffle row numbers instead of rows, and gather a batch at a time."""
    ds = grain.MapDataset.range(len(images)).shuffle(seed=0).repeat().batch(batch)
    return ds.map(lambda i: scale((images[i], labels[i]))).to_iter_dataset(INLINE)


cv2.setNumThreads(0)
normalise = normaliser()


def decode(name: str) -> ndarray:
    with open(name, "rb") as file:
        return cv2.imdecode(np.frombuffer(file.read(), np.uint8), cv2.IMREAD_COLOR_RGB)


def files(photos: Photos) -> grain.MapDataset:
    return grain.MapDataset.source(list(zip(photos.files, photos.labels, strict=True)))


def train(row: tuple[str, int], rng: np.random.Generator) -> tuple[ndarray, int]:
    image, random = decode(row[0]), Random(int(rng.integers(1 << 62)))
    y, x, h, w = crop_box(random, *image.shape[:2])
    image = cv2.resize(image[y:y + h, x:x + w], (SIDE, SIDE), interpolation=cv2.INTER_LINEAR)
    return normalise(cv2.flip(image, 1) if random.random() < .5 else image), row[1]


def crops(photos: Photos) -> grain.MapDataset:
    """It shuffles positions: no window of records is held."""
    return files(photos).seed(0).shuffle().repeat().random_map(train)


@cell("W3", "grain threads + cv2", "2 threads")
def w3(photos: Photos, batch: int) -> Batches:
    return crops(photos).to_iter_dataset(TWO_THREADS).batch(batch)


@cell("W10", "grain threads + cv2", "2 threads")
def w10(photos: Photos, batch: int, window: int) -> Batches:
    return w3(photos, batch)


def evaluate(row: tuple[str, int]) -> tuple[ndarray, int]:
    return normalise(middle(decode(row[0]), antialias=True)), row[1]


@cell("W4", "grain threads + cv2", "2 threads")
def w4(photos: Photos, batch: int) -> Batches:
    return files(photos).repeat().map(evaluate).to_iter_dataset(TWO_THREADS).batch(batch)


@cell("W7", "grain cache", "2 threads")
def w7(photos: Photos, batch: int) -> Batches:
    kept = grain.experimental.CacheIterDataset(files(photos).map(evaluate).to_iter_dataset(TWO_THREADS))
    return grain.experimental.RepeatIterDataset(kept).batch(batch)


def spun(n: int) -> grain.MapDataset:
    return grain.MapDataset.range(n).repeat().map(spin)


@cell("W9", "grain workers", "2 workers")
def w9(n: int, batch: int) -> Batches:
    """Each worker makes every other batch, so that they come in order."""
    one = grain.ReadOptions(num_threads=1, prefetch_buffer_size=4)
    return spun(n).batch(batch).to_iter_dataset(one).mp_prefetch(grain.MultiprocessingOptions(num_workers=2))


@cell("W9", "grain threads", "2 threads (one GIL)")
def w9_threads(n: int, batch: int) -> Batches:
    return spun(n).batch(batch).to_iter_dataset(TWO_THREADS)
