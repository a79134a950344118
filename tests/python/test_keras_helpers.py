"""`fl.utils` and class folders, beyond what the golden cases have."""

from __future__ import annotations

import logging
import os
import pickle
from pathlib import Path
from typing import Any

import feedline as fl
import feedline.tf as tf
import numpy as np
import pytest


def folder(root: Path, names: list[str], size: tuple[int, int] = (4, 6)) -> Path:
    """A folder of pictures, each filled with its number."""
    for number, name in enumerate(names):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(fl.image.encode_png(np.full((*size, 3), number, np.uint8)))
    return root


PETS = ["cat/1.png", "cat/2.png", "cat/3.png", "dog/1.png", "dog/2.png"]


def images(directory: Path, **params: Any) -> Any:
    return fl.utils.image_dataset_from_directory(directory, **{"verbose": False, "image_size": 3, **params})


def test_a_broken_picture_is_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    folder(tmp_path, PETS)
    (tmp_path / "cat" / "2.png").write_bytes(b"no picture at all")
    ds = images(tmp_path, shuffle=False, batch_size=None)
    iterator = iter(ds)
    next(iterator)
    with pytest.raises(fl.errors.DataError, match=r"2\.png"):
        next(iterator)
    assert [int(label) for _, label in iterator] == [0, 1, 1]
    assert len(list(ds.ignore_errors())) == 4


def test_a_file_that_went_away_is_named(tmp_path: Path) -> None:
    ds = images(folder(tmp_path, PETS), shuffle=False)
    (tmp_path / "dog" / "1.png").unlink()
    with pytest.raises(FileNotFoundError, match=r"1\.png"):
        list(ds)


def test_classes_stay_with_what_is_made_of_it(tmp_path: Path) -> None:
    ds = images(folder(tmp_path, PETS), shuffle=False, batch_size=2)
    later = ds.map(lambda x, y: (x / 255, y)).take(1)
    assert later.class_names == ["cat", "dog"] and later.class_indices == {"cat": 0, "dog": 1}
    assert not hasattr(later, "file_paths")
    again = pickle.loads(pickle.dumps(ds))
    assert (again.class_names, again.file_paths) == (ds.class_names, ds.file_paths)
    assert [y.tolist() for _, y in again] == [[0, 0], [0, 1], [1]]


def test_channels_first_and_grey(tmp_path: Path) -> None:
    ds = images(folder(tmp_path, PETS), data_format="channels_first", color_mode="grayscale", seed=1)
    assert ds.element_spec[0].shape == (None, 1, 3, 3)
    picture, _ = next(iter(ds))
    assert picture.shape == (5, 1, 3, 3)


def test_orders_are_reproducible(tmp_path: Path) -> None:
    folder(tmp_path, [f"{'ab'[n % 2]}/{n}.png" for n in range(30)])
    orders = []
    for _ in range(2):
        fl.random.set_seed(3)
        ds = images(tmp_path, batch_size=None)
        orders.append([float(x[0, 0, 0]) for x, _ in ds] + [float(x[0, 0, 0]) for x, _ in ds])
    fl.random.set_seed(None)
    assert orders[0] == orders[1] and orders[0][:30] != orders[0][30:]
    assert sorted(orders[0][:30]) == list(range(30))


def test_parts_are_disjoint_and_complete(tmp_path: Path) -> None:
    folder(tmp_path, [f"{'ab'[n % 2]}/{n}.png" for n in range(11)])
    split = {"validation_split": 0.3, "seed": 9}
    train, held = images(tmp_path, subset="both", **split)
    assert not set(train.file_paths) & set(held.file_paths)
    assert len(train.file_paths) + len(held.file_paths) == 11
    assert images(tmp_path, subset="training", **split).file_paths == train.file_paths
    assert images(tmp_path, subset="validation", **split).file_paths == held.file_paths


def test_surprises_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder(tmp_path, PETS)
    (tmp_path / "zebra").mkdir()
    with caplog.at_level(logging.WARNING, "feedline"):
        images(tmp_path)
        assert "zebra" in caplog.text
        caplog.clear()
        images(tmp_path, class_names=["cat", "dog"], shuffle=False, validation_split=0.4, subset="training")
        assert "none of the classes dog" in caplog.text
    with pytest.raises(ValueError, match=r"less than one file; it must be at least 0\.2"):
        images(tmp_path, validation_split=0.1, subset="both", seed=1)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"labels": "folders"}, "inferred"),
        ({"labels": [1, 2, 3, 4, 5], "label_mode": "categorical"}, "from 0 to 4"),
        ({"labels": [0, 0, 0, 1, 1], "class_names": ["a"]}, "class_names"),
        ({"class_names": ["cat", "cat"]}, "twice"),
        ({"image_size": (0, 3)}, "positive"),
        ({"data_format": "last"}, "channels_first"),
        ({"format": "grain"}, "grain"),
        ({"batch_size": 0}, "at least 1"),
    ],
)
def test_arguments_that_cannot_be(tmp_path: Path, params: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        images(folder(tmp_path, PETS), **params)


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        images(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="local disk"):
        fl.utils.text_dataset_from_directory("s3://bucket/folder")
    with pytest.raises(ValueError, match=r"sub-folders, one a class"):
        images(folder(tmp_path, ["1.png"]))


def test_links_are_followed_if_asked(tmp_path: Path) -> None:
    folder(tmp_path / "real", ["cat/1.png", "dog/1.png"])
    elsewhere = folder(tmp_path / "more", ["2.png"])
    (tmp_path / "real" / "cat" / "more").symlink_to(elsewhere, target_is_directory=True)
    assert len(images(tmp_path / "real").file_paths) == 2
    assert len(images(tmp_path / "real", follow_links=True).file_paths) == 3


def test_links_that_lead_back_are_not_followed(tmp_path: Path) -> None:
    folder(tmp_path, ["cat/1.png", "dog/a/1.png", "dog/b/2.png"])
    (tmp_path / "cat" / "up").symlink_to(tmp_path, target_is_directory=True)
    # Each leads into the other, and so back.
    (tmp_path / "dog" / "a" / "b").symlink_to(tmp_path / "dog" / "b", target_is_directory=True)
    (tmp_path / "dog" / "b" / "a").symlink_to(tmp_path / "dog" / "a", target_is_directory=True)
    found = fl.ClassFolderDataset(tmp_path, follow_links=True)
    names = [str(Path(path).relative_to(tmp_path)) for path in found.file_paths]
    assert names == ["cat/1.png", "dog/a/1.png", "dog/a/b/2.png", "dog/b/2.png", "dog/b/a/1.png"]


def test_folders_that_cannot_be_listed_are_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder(tmp_path, ["cat/1.png", "dog/a/1.png"])
    scandir = os.scandir

    def refused(path: Any) -> Any:
        # As the system does it for a user without rights; tests may run as one with all of them.
        if str(path).endswith("dog/a"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refused)
    for build in (fl.ClassFolderDataset, images):
        with pytest.raises(PermissionError, match="dog/a"):
            build(tmp_path)


def test_names_that_are_no_text_are_named(tmp_path: Path) -> None:
    folder(tmp_path, ["cat/1.png"])
    try:
        os.rename(tmp_path / "cat" / "1.png", os.fsencode(tmp_path) + b"/cat/\xff.png")
    except OSError:
        pytest.skip("this file system has only names that are text")
    for build in (fl.ClassFolderDataset, images):
        with pytest.raises(ValueError, match=r"udcff.*not UTF-8"):
            build(tmp_path)


def test_class_folders_by_number(tmp_path: Path) -> None:
    folder(tmp_path, [*PETS, "dog/.hidden.png", "dog/notes.txt"])
    ds = fl.ClassFolderDataset(tmp_path, extensions=[".PNG"])
    assert ds.class_names == ["cat", "dog"] and len(ds) == 6
    path, label = ds[4]
    assert path.decode().endswith("dog/1.png") and label == 1
    assert len(fl.ClassFolderDataset(tmp_path)) == 7
    read = fl.ClassFolderDataset(tmp_path, [".txt"], contents=True)
    assert fl.image.decode_png(next(iter(read))[0]).shape == (4, 6, 3)
    with pytest.raises(FileNotFoundError, match=r"\.jpg or \.gif"):
        fl.ClassFolderDataset(tmp_path, [".jpg", ".gif"])
    with pytest.raises(TypeError, match="a list"):
        fl.ClassFolderDataset(tmp_path, ".jpg")


def test_windows_by_number_and_with_features() -> None:
    data = np.arange(40, dtype=np.float32).reshape(20, 2)
    ds = fl.utils.timeseries_dataset_from_array(data, None, 4, batch_size=None)
    assert ds.element_spec.shape == (4, 2) and len(ds) == 17
    assert np.array_equal(ds[3], data[3:7])
    with pytest.raises(ValueError, match="only 2 targets"):
        fl.utils.timeseries_dataset_from_array(data, np.arange(7), 4, start_index=5)
    with pytest.raises(ValueError, match="sequence_length"):
        fl.utils.timeseries_dataset_from_array(data, None, 0)


def test_split_dataset() -> None:
    left, right = fl.utils.split_dataset(fl.Dataset.range(10), 0.75)
    assert (list(left), list(right)) == ([*range(8)], [8, 9])
    left, right = fl.utils.split_dataset(np.arange(10), right_size=3, shuffle=True, seed=1)
    assert sorted([*left, *right]) == [*range(10)] and list(left) == list(left) != sorted(left)
    left, right = fl.utils.split_dataset(fl.Dataset.range(10), 2, 3)
    assert (list(left), list(right)) == ([0, 1], [7, 8, 9])
    for sizes, message in [
        ((None, None), "left_size"),
        ((8, 5), "more than"),
        ((1.5,), "share"),
        ((10,), "1 and 9"),
    ]:
        with pytest.raises(ValueError, match=message):
            fl.utils.split_dataset(fl.Dataset.range(10), *sizes)
    with pytest.raises(ValueError, match="neither may be empty"):
        fl.utils.split_dataset(fl.Dataset.range(10), 0.01)
    with pytest.raises(ValueError, match="assert_cardinality"):
        fl.utils.split_dataset(fl.Dataset.range(9).filter(lambda x: x > 3), 0.5)


def test_to_categorical() -> None:
    assert fl.utils.to_categorical([[1], [0]], 3).tolist() == [[0, 1, 0], [1, 0, 0]]
    ds = fl.Dataset.range(3).map(lambda x: fl.utils.to_categorical(x, 3))
    assert np.array_equal(np.stack(list(ds)), np.eye(3))
    with pytest.raises(ValueError, match="from 0 to 1"):
        fl.utils.to_categorical([0, 2], 2)
    with pytest.raises(ValueError, match="num_classes"):
        fl.Dataset.range(3).map(fl.utils.to_categorical)


def test_names_of_tensorflow(tmp_path: Path) -> None:
    folder(tmp_path, PETS)
    ds = tf.keras.utils.image_dataset_from_directory(tmp_path, image_size=(2, 2), seed=1, verbose=False)
    pictures, labels = next(iter(ds))
    assert pictures.numpy().shape == (5, 2, 2, 3) and sorted(labels.numpy()) == [0, 0, 0, 1, 1]
    assert ds.class_names == ["cat", "dog"] and isinstance(ds, tf.data.Dataset)
    both = {"validation_split": 0.4, "subset": "both", "seed": 1, "image_size": 2, "verbose": False}
    train, held = tf.keras.preprocessing.image_dataset_from_directory(tmp_path, **both)
    assert (len(train.file_paths), len(held.file_paths)) == (3, 2)
    windows = tf.keras.utils.timeseries_dataset_from_array(np.arange(5), None, 2)
    assert next(iter(windows)).numpy().shape == (4, 2)
    left, _ = tf.keras.utils.split_dataset(windows.unbatch().assert_cardinality(4), 1)
    assert next(iter(left)).numpy().tolist() == [0, 1]
    generator = tf.keras.preprocessing.image.ImageDataGenerator(rescale=0.5)
    pictures, labels = next(iter(generator.flow_from_directory(tmp_path, (2, 2), shuffle=False)))
    assert pictures.numpy()[:, 0, 0, 0].tolist() == [0, 0.5, 1, 1.5, 2] and labels.numpy().shape == (5, 2)
    assert next(iter(generator.flow(np.ones((1, 2, 2, 1)), shuffle=False))).numpy().sum() == 2
    assert tf.keras.preprocessing.image.smart_resize(np.ones((4, 6, 1)), (2, 2)).numpy().shape == (2, 2, 1)
