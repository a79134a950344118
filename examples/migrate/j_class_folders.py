"""A folder for each class, augmented as by Keras's ImageDataGenerator, into `model.fit`.

What was wrong: the generator was called inside `map` on `image.numpy()`. While TensorFlow records a function
there are no values, so neither is possible. feedline's generator is a traced function itself:
`random_transform` draws other numbers for every picture and every epoch, without Python.
"""

from __future__ import annotations

import data
import feedline.tf as tf
import keras

SIZE = 224


def main() -> None:
    """Trains for two epochs."""
    for name in ("cats", "dogs"):
        data.pictures(f"pets/{name}", 12)
    dataset = tf.keras.utils.image_dataset_from_directory(
        "pets", label_mode="categorical", image_size=(SIZE, SIZE), batch_size=32, seed=1
    )
    generator = tf.keras.preprocessing.image.ImageDataGenerator(
        rotation_range=20,
        width_shift_range=0.2,
        height_shift_range=0.2,
        shear_range=0.2,
        zoom_range=0.2,
        horizontal_flip=True,
        fill_mode="nearest",
        rescale=1 / 255,
    )

    def augmented(images, labels):
        return generator.standardize(generator.random_transform(images)), labels

    train = dataset.map(augmented, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)

    model = keras.Sequential(
        [
            keras.layers.Conv2D(8, 7, strides=4, activation="relu"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(len(dataset.class_names), activation="softmax"),
        ]
    )
    model.compile(optimizer="adam", loss="categorical_crossentropy", metrics=["accuracy"])
    model.fit(train, epochs=2, verbose=2)


if __name__ == "__main__":
    main()
