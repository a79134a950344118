"""feedline as its users write it. Functions are traced: both orders of map and batch should cost the same."""
import feedline as fl
import store
from numpy import array, int64, ndarray

from cells import Batches, cell
from data import Photos
from pictures import MEAN, SIDE, STD
from spin import spin

PACKAGE = "feedline"


@cell("W1", "feedline", "pool")
def w1(n: int, batch: int) -> Batches:
    return fl.Dataset.range(n).map(lambda x: x * 2 + 1).batch(batch)


@cell("W1", "feedline batch-then-map", "pool")
def w1_batched(n: int, batch: int) -> Batches:
    return fl.Dataset.range(n).batch(batch).map(lambda x: x * 2 + 1)


FEATURES = {**{f"f{j}": fl.io.FixedLenFeature([], fl.float32) for j in range(10)},
            "label": fl.io.FixedLenFeature([], fl.int64)}


def records(files: list[str], compression: str = "") -> fl.Dataset:
    return fl.Dataset.from_tensor_slices(files).interleave(
        lambda name: fl.TFRecordDataset(name, compression), cycle_length=8, num_parallel_calls=fl.AUTOTUNE)


def parse(record):
    return fl.io.parse_single_example(record, FEATURES)


@cell("W2", "feedline parse-each", "pool")
def w2(files: list[str], batch: int) -> Batches:
    return records(files).map(parse).batch(batch)


@cell("W2", "feedline parse-batch", "pool")
def w2_batched(files: list[str], batch: int) -> Batches:
    return records(files).batch(batch).map(lambda r: fl.io.parse_example(r, FEATURES))


@cell("W2gz", "feedline parse-each", "pool")
def w2_gz(files: list[str], batch: int) -> Batches:
    return records(files, "GZIP").map(parse).batch(batch)


@cell("W6", "feedline", "pool")
def w6(files: list[str], window: int, batch: int) -> Batches:
    return fl.ParquetDataset(files).shuffle(window).batch(batch)


@cell("W6", "feedline, no shuffle", "pool")
def w6_plain(files: list[str], window: int, batch: int) -> Batches:
    return fl.ParquetDataset(files).batch(batch)


def stored(files: list[str], batch: int) -> Batches:
    shards = fl.Dataset.from_tensor_slices(files).shuffle(len(files))
    records = shards.interleave(fl.TFRecordDataset, cycle_length=8, num_parallel_calls=fl.AUTOTUNE)
    return records.map(lambda x: fl.io.decode_raw(x, fl.int32, fixed_length=65_536)).batch(batch)


@cell("W11", "feedline, 20 ms to the first byte", "pool")
def w11(files: list[str], batch: int) -> Batches:
    return stored(store.served(files, 0.02), batch)


@cell("W11", "feedline, no wait", "pool")
def w11_at_once(files: list[str], batch: int) -> Batches:
    return stored(store.served(files, 0), batch)


def scale(image, label):
    return fl.cast(image, fl.float32) / 255.0, label


@cell("W8", "feedline", "pool")
def w8(images: ndarray, labels: ndarray, batch: int) -> Batches:
    return fl.Dataset.from_tensor_slices((images, labels)).shuffle(60_000).batch(batch).map(scale)


@cell("W8", "feedline global shuffle", "pool")
def w8_global(images: ndarray, labels: ndarray, batch: int) -> Batches:
    return fl.Dataset.from_tensor_slices((images, labels)).shuffle().batch(batch).map(scale)


@cell("W8", "feedline map-then-batch", "pool")
def w8_map_first(images: ndarray, labels: ndarray, batch: int) -> Batches:
    return fl.Dataset.from_tensor_slices((images, labels)).shuffle(60_000).map(scale).batch(batch)


IMAGE = {"image/encoded": fl.io.FixedLenFeature([], fl.string), "image/class/label": fl.io.FixedLenFeature([], fl.int64)}
NORMAL = ((MEAN / 255).tolist(), (STD / 255).tolist())


def train(record):
    parsed = fl.io.parse_single_example(record, IMAGE)
    image = fl.image.decode_jpeg(parsed["image/encoded"], channels=3)
    image = fl.image.random_resized_crop(image, (SIDE, SIDE), antialias=True)
    return fl.image.normalize(fl.image.random_flip_left_right(image), *NORMAL), parsed["image/class/label"]


@cell("W3", "feedline", "pool")
def w3(photos: Photos, batch: int) -> Batches:
    return records(photos.records).map(train).batch(batch)


@cell("W12", "feedline", "pool")
def w12(photos: Photos, batch: int) -> Batches:
    return records(photos.records).repeat().map(train).batch(batch)


@cell("W10", "feedline", "pool")
def w10(photos: Photos, batch: int, window: int) -> Batches:
    return records(photos.records).shuffle(window).map(train).batch(batch)


def middle(name, label):
    image = fl.image.decode_jpeg(fl.io.read_file(name), channels=3)
    image = fl.image.resize_with_crop_or_pad(fl.image.resize_shorter_side(image, 256), SIDE, SIDE)
    return fl.image.normalize(image, *NORMAL), label


def middles(photos: Photos) -> fl.Dataset:
    return fl.Dataset.from_tensor_slices((photos.files, array(photos.labels))).map(middle)


@cell("W4", "feedline", "pool")
def w4(photos: Photos, batch: int) -> Batches:
    return middles(photos).batch(batch)


@cell("W7", "feedline cache, batch", "pool")
def w7(photos: Photos, batch: int) -> Batches:
    return middles(photos).cache().batch(batch)


@cell("W7", "feedline batch, cache", "pool")
def w7_batches(photos: Photos, batch: int) -> Batches:
    return middles(photos).batch(batch).cache()


@cell("M1", "feedline", "pool")
def m1(n: int, batch: int) -> Batches:
    return fl.Dataset.range(n).batch(batch)


def spun(x) -> int64:
    return int64(spin(int(x)))


@cell("W9", "feedline workers", "2 workers")
def w9(n: int, batch: int) -> Batches:
    return fl.Dataset.range(n).map(spun, workers=2).batch(batch)


@cell("W9", "feedline in-process", "1 (one GIL)")
def w9_here(n: int, batch: int) -> Batches:
    return fl.Dataset.range(n).map(spun, python=True).batch(batch)
