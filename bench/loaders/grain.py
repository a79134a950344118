"""Grain: MapDataset read inline, which for elements this cheap beats its default of 16 reading threads."""
import grain
import numpy as np
from numpy import ndarray

from cells import Batches, cell

PACKAGE = "grain"
INLINE = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)


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
