"""Where rows came from, and how they became what they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import feedline as fl
import numpy as np
import pytest


def records(path: Path, contents: list[bytes]) -> str:
    with fl.io.TFRecordWriter(str(path)) as writer:
        for content in contents:
            writer.write(content)
    return str(path)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    return [records(tmp_path / f"{k}.tfrecord", [b"%d-%d" % (k, n) for n in range(5)]) for k in range(4)]


def pipeline(files: list[str], interleaved: bool) -> fl.Dataset:
    if interleaved:
        ds = fl.Dataset.from_tensor_slices(files).interleave(fl.TFRecordDataset, 2, num_parallel_calls=2)
    else:
        ds = fl.TFRecordDataset(files)
    return ds.shuffle(6, seed=4).map(lambda r: {"text": r, "noise": fl.random.uniform([], seed=3)}).batch(3)


@pytest.mark.parametrize("interleaved", [False, True])
def test_rows_are_found_in_their_files(files: list[str], interleaved: bool) -> None:
    ds = pipeline(files, interleaved)
    for _ in range(2):
        batches = list(ds)
        for step, row in ((0, 0), (2, 1), (6, 1)):
            text = batches[step]["text"][row]
            found = ds.locate(step, row)
            file, record = text.decode().split("-")
            assert found.origin.file == files[int(file)]
            assert found.origin.record == int(record)
            data = Path(found.origin.file).read_bytes()
            assert data[found.origin.byte :].startswith(text)
            [draw] = found.draws
            assert (draw.operator, draw.function, draw.epoch) == ("map", "random.uniform", found.epoch)
            assert ds.locate(step, row) == found
            assert "record" in str(found) and "random.uniform" in str(found)


def test_every_stage_is_shown(files: list[str]) -> None:
    ds = pipeline(files, False)
    batches = list(ds)
    shown = ds.replay(4, 2)
    assert [s.operator for s in shown] == ["tf_record", "shuffle", "map", "batch"]
    assert shown[0].value == shown[1].value == batches[4]["text"][2]
    assert shown[2].value["noise"] == batches[4]["noise"][2]
    np.testing.assert_array_equal(shown[3].value["text"], batches[4]["text"])
    assert "shuffle(" in repr(shown) and str(shown[0].value) in repr(shown)
    assert len(shown[1:]) == 3


def test_the_search_begins_at_a_state(files: list[str]) -> None:
    ds = pipeline(files, False)
    it = iter(ds)
    next(it)
    next(it)
    state = it.state_dict()
    batches = [None, None, *it]
    found = ds.locate(4, 1, state=state)
    assert found.origin == ds.locate(4, 1).origin
    assert batches[4]["text"][1].decode().split("-")[1] == str(found.origin.record)  # type: ignore[index]
    with pytest.raises(ValueError, match="behind element 1"):
        ds.locate(1, 0, state=state)


def test_pictures_are_shown() -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (6, 8, 8, 3), dtype=np.uint8)
    ds = fl.Dataset.from_tensor_slices(pictures)
    ds = ds.map(lambda p: fl.image.random_flip_left_right(fl.cast(p, fl.float32) / 255, seed=1)).batch(2)
    shown = ds.replay(1, 1)
    np.testing.assert_array_equal(shown[0].value, pictures[3])
    html = shown._repr_html_()
    assert html.count("data:image/png;base64,") == 1 + 1 + 2
    assert "uint8[8, 8, 3]" in repr(shown)


def test_what_cannot_be_traced_is_said() -> None:
    ds = fl.Dataset.range(10).scan(fl.constant(0, fl.int64), lambda s, x: (s + x, s + x)).batch(2)
    assert ds.locate(1, 1).origin.position == 3
    ds = fl.Dataset.range(10).window(2).flat_map(lambda w: w.batch(2))
    assert [o.position for o in ds.locate(1).origins] == [2, 3]
    counts = fl.data.experimental.Reducer(lambda _: fl.constant(0, fl.int64), lambda n, _: n + 1, lambda n: n)
    ds = fl.Dataset.range(10).apply(fl.data.experimental.group_by_reducer(lambda x: x % 3, counts))
    origin = ds.locate(1).origin
    assert origin.position is None and str(origin) == "not traced through group_by_reducer"
    ds = fl.Dataset.range(4).with_options(deterministic=False)
    with pytest.raises(fl.errors.FailedPreconditionError, match="deterministic"):
        ds.locate(0)


def test_several_sources_and_places_that_are_not_there() -> None:
    ds = fl.Dataset.zip(fl.Dataset.range(5), fl.Dataset.range(10, 15).shuffle(5, seed=1))
    pairs = list(ds)
    found = ds.locate(2)
    assert [o.position for o in found.origins] == [2, pairs[2][1] - 10]
    with pytest.raises(ValueError, match="2 rows"):
        found.origin  # noqa: B018
    with pytest.raises(fl.errors.OutOfRangeError, match="5 elements"):
        ds.locate(5)
    with pytest.raises(fl.errors.OutOfRangeError, match="row 3"):
        fl.Dataset.range(4).batch(2).locate(0, 3)


def test_what_was_skipped_does_not_count(files: list[str]) -> None:
    def check(text: Any) -> Any:
        return fl.debugging.ensure(text, text != b"0-2", "bad")

    ds = fl.TFRecordDataset(files).map(check).batch(2).with_options(on_error="skip")
    assert list(ds)[1][0] == b"0-3"
    assert ds.locate(1, 0).origin.record == 3


def test_quarantined_records_tell_their_file(files: list[str], tmp_path: Path) -> None:
    def check(text: Any) -> Any:
        return fl.debugging.ensure(text, text != b"2-3", "bad")

    ds = fl.TFRecordDataset(files).shuffle(7, seed=2).map(check)
    ds = ds.with_options(on_error="quarantine", quarantine=tmp_path / "bad")
    assert len(list(ds)) == 19
    [entry] = fl.quarantined(tmp_path / "bad")
    assert (entry.file, entry.record, entry.raw) == (files[2], 3, b"2-3")
    assert entry.byte is not None and Path(files[2]).read_bytes()[entry.byte :].startswith(b"2-3")


def test_rows_by_number_are_found_in_their_files(files: list[str]) -> None:
    ds = fl.TFRecordDataset(files, index=True).shuffle(seed=9).batch(4)
    batches = list(ds)
    found = ds.locate(3, 2).origin
    file, record = batches[3][2].decode().split("-")
    assert (found.file, found.record) == (files[int(file)], int(record))
    assert found.byte is not None
