"""Trains a picture classifier with Keras on JAX, fed by feedline: `make demo`.

Four kinds of things stand in front of a sky with clouds, small or large, in many shades, in good and bad
light, and are photographed badly. The pictures are written as a folder of JPEGs for each class and as
TFRecords. The model learns from augmented crops of the TFRecords and is tested on the folders.

demo-out/ then has the data, and contact-sheet.png: a batch as the model sees it.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "jax")

import feedline as fl
import keras
import numpy as np

OUT = Path("demo-out")
CLASSES = ["ball", "box", "ring", "tent"]
COLOURS = {"ball": (200, 60, 50), "box": (60, 90, 190), "ring": (220, 190, 60), "tent": (60, 150, 80)}
TRAINING, TESTING = 60, 15
SIZE, BATCH, EPOCHS = 48, 16, 8


# The data set.


def shape(name: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Where the thing is, in coordinates in which it reaches from -1 to 1; 1 inside, 0 outside."""
    radius = np.hypot(x, y)
    inside = {
        "ball": radius < 1,
        "box": (abs(x) < 0.85) & (abs(y) < 0.85),
        "ring": (radius < 1) & (radius > 0.55),
        "tent": (y < 0.8) & (y > 2.2 * abs(x) - 1),
    }
    return inside[name].astype(np.float32)


def photo(name: str, random: np.random.Generator) -> np.ndarray:
    """A picture of a thing: uint8, about 120 x 160 x 3."""
    height, width = random.integers(112, 128), random.integers(150, 170)
    y, x = np.mgrid[:height, :width].astype(np.float32)
    sky, ground = random.uniform(60, 220, 3), random.uniform(30, 180, 3)
    picture = sky + (ground - sky) * (y / height)[..., None]
    for _ in range(4):
        cloud = np.exp(
            -((x - random.uniform(0, width)) ** 2) / 900 - (y - random.uniform(0, height)) ** 2 / 200
        )
        picture += cloud[..., None] * random.uniform(-25, 35)

    size = random.uniform(34, 48)
    middle = random.uniform(size, width - size), random.uniform(size, height - size)
    turn = random.uniform(-0.35, 0.35)
    dx, dy = (x - middle[0]) / size, (y - middle[1]) / size
    mask = shape(name, dx * np.cos(turn) + dy * np.sin(turn), dy * np.cos(turn) - dx * np.sin(turn))
    colour = COLOURS[name] + random.normal(0, 40, 3)
    shade = 1 + 0.25 * dx + 0.15 * dy
    picture += (colour * shade[..., None] - picture) * mask[..., None]

    picture = picture * random.uniform(0.7, 1.2) + random.normal(0, 8, picture.shape)
    return picture.clip(0, 255).astype(np.uint8)


def example(jpeg: bytes, label: int) -> bytes:
    """A record as TensorFlow's tools write them."""
    features = {
        "image/encoded": fl.train.Feature(bytes_list=[jpeg]),
        "image/class/label": fl.train.Feature(int64_list=[label]),
    }
    return fl.train.Example(fl.train.Features(features)).SerializeToString()


def write_pictures(seed: int = 1) -> None:
    """The data set, as test/<class>/<number>.jpg and as train-<n>.tfrecord."""
    random = np.random.default_rng(seed)
    for name in CLASSES:
        folder = OUT / "test" / name
        folder.mkdir(parents=True)
        for number in range(TESTING):
            jpeg = bytes(fl.image.encode_jpeg(photo(name, random), quality=90))
            (folder / f"{number:03}.jpg").write_bytes(jpeg)
    for shard in range(2):
        with fl.io.TFRecordWriter(str(OUT / f"train-{shard}.tfrecord")) as writer:
            for _ in range(TRAINING // 2):
                for label, name in enumerate(CLASSES):
                    jpeg = bytes(fl.image.encode_jpeg(photo(name, random), quality=90))
                    writer.write(example(jpeg, label))


# The pipelines. The functions are called once, to record what they do; they run without Python.

MEAN, DEVIATION = [0.45, 0.45, 0.45], [0.25, 0.25, 0.25]
FEATURES = {
    "image/encoded": fl.io.FixedLenFeature([], fl.string),
    "image/class/label": fl.io.FixedLenFeature([], fl.int64),
}


def augmented(record):
    """A part of a picture in a record, flipped, and brighter or darker, anew in each epoch."""
    parts = fl.io.parse_single_example(record, FEATURES)
    image = fl.image.decode_jpeg(parts["image/encoded"], channels=3)
    image = fl.image.random_resized_crop(image, (SIZE, SIZE), scale=(0.75, 1.0))
    image = fl.image.random_flip_left_right(image)
    image = fl.image.normalize(image, MEAN, DEVIATION)
    return image + fl.random.uniform([], -0.3, 0.3), parts["image/class/label"]


def training() -> fl.Dataset:
    """Augmented batches of the records, in a new order in each epoch."""
    records = fl.TFRecordDataset([str(file) for file in sorted(OUT.glob("train-*.tfrecord"))])
    return (
        records.shuffle(len(CLASSES) * TRAINING)
        .map(augmented, num_parallel_calls=fl.AUTOTUNE)
        .batch(BATCH, drop_remainder=True)
        .prefetch(fl.AUTOTUNE)
        .assert_cardinality(len(CLASSES) * TRAINING // BATCH)
    )


def testing() -> fl.Dataset:
    """The pictures of the folders, whole and in order."""
    files = fl.utils.image_dataset_from_directory(
        OUT / "test", image_size=(SIZE, SIZE), batch_size=BATCH, shuffle=False, verbose=False
    )
    return files.map(lambda images, labels: (fl.image.normalize(images, MEAN, DEVIATION), labels))


def contact_sheet(images: np.ndarray, columns: int = 8) -> bytes:
    """The pictures of a batch side by side, as the bytes of a PNG."""
    pixels = ((images * DEVIATION + MEAN).clip(0, 1) * 255).astype(np.uint8).repeat(2, 1).repeat(2, 2)
    framed = np.pad(pixels, ((0, 0), (2, 2), (2, 2), (0, 0)), constant_values=255)
    lines = [np.concatenate(list(framed[i : i + columns]), 1) for i in range(0, len(framed), columns)]
    return bytes(fl.image.encode_png(np.concatenate(lines)))


# The model.


def network() -> keras.Model:
    """A small convolutional network."""
    layers = keras.layers
    model = keras.Sequential([keras.Input((SIZE, SIZE, 3))])
    for filters in (16, 32, 64):
        model.add(layers.Conv2D(filters, 5, strides=2, padding="same", use_bias=False))
        model.add(layers.BatchNormalization(momentum=0.8))
        model.add(layers.ReLU())
    model.add(layers.GlobalMaxPooling2D())
    model.add(layers.Dense(len(CLASSES)))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.Adam(5e-3), loss=loss, metrics=["accuracy"])
    return model


def main() -> None:
    """Makes the pictures, learns from them, and shows what the pipeline did."""
    keras.utils.set_random_seed(1)
    fl.random.set_seed(1)
    start = time.perf_counter()
    shutil.rmtree(OUT, ignore_errors=True)
    write_pictures()
    count = len(CLASSES) * (TRAINING + TESTING)
    print(f"{count} pictures of {len(CLASSES)} classes in {OUT}/ ({time.perf_counter() - start:.1f} s)\n")

    train, test = training(), testing()
    model = network()
    start = time.perf_counter()
    history = model.fit(train, epochs=EPOCHS, validation_data=test).history
    images, _ = train.peek()
    (OUT / "contact-sheet.png").write_bytes(contact_sheet(images))

    print(f"\ntest accuracy {max(history['val_accuracy']):.1%} after {time.perf_counter() - start:.1f} s")
    print(f"an augmented batch is in {OUT / 'contact-sheet.png'}\n")
    print(train.explain())


if __name__ == "__main__":
    main()
