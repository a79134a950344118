"""Elements that fail: raised, skipped or quarantined, and always counted."""

from __future__ import annotations

import io
import json
import pickle
import tarfile
from pathlib import Path
from typing import Any

import feedline as fl
import pytest
from feedline import _native


def odd_fails(x: Any) -> Any:
    return fl.debugging.ensure(x, x % 2 == 0, "odd")


def left_out(ds: fl.Dataset) -> list[dict[str, Any]]:
    found = json.loads(ds.explain("json"))["pass"]["left_out"]
    assert isinstance(found, list)
    return found


def records(path: Path, *contents: bytes) -> str:
    with fl.io.TFRecordWriter(str(path)) as writer:
        for content in contents:
            writer.write(content)
    return str(path)


@pytest.mark.parametrize("budget", [1, 2, 4])
def test_skipped_elements_do_not_cost_their_batch(budget: int) -> None:
    ds = fl.Dataset.range(1000).map(odd_fails).batch(64)
    with pytest.raises(fl.errors.InvalidArgumentError, match="odd"):
        list(ds)
    ds = ds.with_options(on_error="skip", cpu_budget=budget)
    batches = list(ds)
    assert [len(b) for b in batches] == [64] * 7 + [52]
    assert [int(x) for b in batches for x in b] == list(range(0, 1000, 2))
    [one] = left_out(ds)
    assert (one["operator"], one["elements"], one["on_error"]) == ("map", 500, "skip")
    assert "odd" in one["first"][0] and "element 1" in one["first"][0]
    assert "map left out 500 elements that failed" in ds.explain()


def test_exceptions_of_python_functions_are_skipped_too() -> None:
    def strict(x: Any) -> Any:
        if int(x) == 3:
            raise KeyError("three")
        return x

    ds = fl.Dataset.range(5).map(strict, python=True, on_error="skip")
    assert list(ds) == [0, 1, 2, 4]
    assert ds.cardinality() == fl.UNKNOWN_CARDINALITY
    assert "three" in left_out(ds)[0]["first"][0]


def test_an_operator_decides_for_itself() -> None:
    ds = fl.Dataset.range(6).map(lambda x: fl.debugging.ensure(x, x != 2, "two"))
    ds = ds.map(lambda x: fl.debugging.ensure(x, x != 4, "four"), on_error="skip")
    it = iter(ds)
    assert [int(next(it)), int(next(it))] == [0, 1]
    with pytest.raises(fl.errors.InvalidArgumentError, match="two"):
        next(it)
    assert [int(x) for x in it] == [3, 5]
    ds = ds.with_options(on_error="skip").map(
        lambda x: fl.debugging.ensure(x, x != 5, "five"), on_error="raise"
    )
    with pytest.raises(fl.errors.InvalidArgumentError, match="five"):
        list(ds)


def test_filters_have_a_policy() -> None:
    ds = fl.Dataset.range(6).filter(lambda x: odd_fails(x) > 0, on_error="skip")
    assert list(ds) == [2, 4]
    assert left_out(ds)[0]["elements"] == 3


def test_too_many_raise_and_say_which() -> None:
    ds = fl.Dataset.range(1000).map(odd_fails)
    with pytest.raises(
        fl.errors.InvalidArgumentError, match=r"max_errors=3 allows fewer; the first: .*odd"
    ) as e:
        list(ds.with_options(on_error="skip", max_errors=3))
    assert "4 of 8 elements" in str(e.value)
    with pytest.raises(fl.errors.InvalidArgumentError, match=r"max_errors=0.25"):
        list(ds.with_options(on_error="skip", max_errors=0.25))
    assert len(list(ds.with_options(on_error="skip", max_errors=0.5))) == 500
    assert len(list(ds.with_options(on_error="skip", max_errors=500))) == 500


def test_wrong_policies_are_refused() -> None:
    ds = fl.Dataset.range(3)
    with pytest.raises(ValueError, match='on_error must be "raise"'):
        ds.map(odd_fails, on_error="ignore")
    with pytest.raises(ValueError, match="on_error must be"):
        ds.with_options(on_error="drop")
    for most in (-1, 1.5, float("nan")):
        with pytest.raises(ValueError, match="max_errors is a count"):
            ds.with_options(max_errors=most)
    with pytest.raises(ValueError, match="needs a folder"):
        list(ds.with_options(on_error="quarantine"))


def test_ignored_errors_are_counted() -> None:
    ds = fl.Dataset.range(10).map(odd_fails).ignore_errors()
    assert len(list(ds)) == 5
    assert left_out(ds)[0]["operator"] == "ignore_errors" and left_out(ds)[0]["elements"] == 5


def test_a_resumed_pass_goes_on_counting() -> None:
    plain = fl.Dataset.range(200).shuffle(20, seed=1, reshuffle_each_iteration=False).map(odd_fails).batch(10)
    ds = plain.with_options(on_error="skip")
    whole = [b.tolist() for b in ds]
    it = iter(ds)
    first = [next(it).tolist() for _ in range(4)]
    state = json.loads(json.dumps(it.state_dict()))
    it.close()
    rest = ds.iter(state)
    assert first + [b.tolist() for b in rest] == whole
    assert left_out(ds)[0]["elements"] == 100
    with pytest.raises(ValueError, match="run in another way"):
        plain.iter(state)


def test_errors_inside_of_functions_are_counted() -> None:
    ds = fl.Dataset.range(3).flat_map(lambda n: fl.Dataset.range(4).map(odd_fails))
    ds = ds.with_options(on_error="skip")
    assert list(ds) == [0, 2] * 3
    assert left_out(ds)[0]["elements"] == 6


def test_a_generator_that_raises_is_never_left_out() -> None:
    def numbers() -> Any:
        yield 1
        raise OSError("gone")

    ds = fl.Dataset.from_generator(numbers, output_signature=fl.TensorSpec((), fl.int64))
    with pytest.raises(OSError, match="gone"):
        list(ds.with_options(on_error="skip"))


def test_damaged_records_are_passed_and_the_rest_of_the_file_is_read(tmp_path: Path) -> None:
    name = records(tmp_path / "a", b"one", b"two", b"three")
    data = bytearray(Path(name).read_bytes())
    data[19 + 12] ^= 1
    Path(name).write_bytes(data)
    bad = tmp_path / "bad"
    ds = fl.TFRecordDataset(name).with_options(on_error="quarantine", quarantine=bad)
    assert list(ds) == [b"one", b"three"]
    [entry] = fl.quarantined(bad)
    assert (entry.operator, entry.kind, entry.file, entry.byte) == ("tf_record", "loss", name, 19)
    assert entry.record == 1 and entry.raw is None and entry.input is None
    [tried] = fl.retry(bad, ds)
    assert tried.ok is None and "read again" in tried.note
    assert list(fl.TFRecordDataset(name, on_error="skip")) == [b"one", b"three"]


def test_quarantined_records_are_those_of_the_file_and_can_be_tried_again(tmp_path: Path) -> None:
    name = records(tmp_path / "a", b"1", b"x", b"3", b"y")
    bad = tmp_path / "bad"

    def pipeline(fixed: bool) -> fl.Dataset:
        def parse(text: Any) -> Any:
            return fl.strings.to_number(fl.strings.regex_replace(text, "x", "7") if fixed else text, fl.int64)

        ds = fl.TFRecordDataset(name).map(parse).filter(lambda x: x < 9).map(lambda x: x * 10).batch(2)
        return ds.with_options(on_error="quarantine", quarantine=bad)

    assert [b.tolist() for b in pipeline(False)] == [[10, 30]]
    first, second = fl.quarantined(bad)
    assert (first.raw, second.raw, first.position, second.epoch) == (b"x", b"y", 1, 0)
    again = fl.retry(bad, pipeline(False))
    assert [a.ok for a in again] == [False, False]
    assert isinstance(again[0].error, fl.errors.InvalidArgumentError)
    again = fl.retry(bad, pipeline(True))
    assert [(a.ok, a.value) for a in again] == [(True, 70), (False, None)]
    assert fl.retry(bad, fl.Dataset.range(3))[0].ok is None
    # Any reader of TFRecord files and Examples reads what was written.
    [file] = bad.iterdir()
    examples = [fl.train.Example.FromString(r) for r in fl.TFRecordDataset(str(file)).as_numpy_iterator()]
    assert [e.features.feature["raw"].bytes_list.value[0] for e in examples] == [b"x", b"y"]


def test_what_cannot_be_written_is_an_error_before_anything_runs(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    ds = fl.Dataset.range(3).map(odd_fails).with_options(on_error="quarantine", quarantine=file)
    with pytest.raises(OSError):
        iter(ds)
    with pytest.raises(OSError, match="no folder"):
        fl.quarantined(tmp_path / "none")
    good = fl.Dataset.range(3).with_options(on_error="quarantine", quarantine=tmp_path / "good")
    assert len(list(good)) == 3 and fl.quarantined(tmp_path / "good") == []


def test_a_quarantine_that_was_cut_off_or_is_foreign(tmp_path: Path) -> None:
    ds = fl.Dataset.range(6).map(odd_fails).with_options(on_error="quarantine", quarantine=tmp_path)
    list(ds)
    [file] = tmp_path.iterdir()
    data = file.read_bytes()
    file.write_bytes(data[:-3])
    assert [e.position for e in fl.quarantined(tmp_path)] == [1, 3]
    records(tmp_path / "quarantine-0.tfrecord", b"\xff\xff\xff")
    with pytest.raises(fl.errors.FeedlineError, match="quarantine-0"):
        fl.quarantined(tmp_path)
    assert _native.quarantined is not None


def test_errors_say_where_in_attributes(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    with fl.io.TFRecordWriter(path) as writer:
        for _ in range(3):
            writer.write(b"abc" * 10)
    data = bytearray(path.read_bytes())
    data[-6] ^= 1
    path.write_bytes(data)
    with pytest.raises(fl.errors.DataLossError) as caught:
        list(fl.TFRecordDataset(path))
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert (error.operator, error.file) == ("tf_record", str(path))
        assert (error.byte, error.record, error.element) == (92, 2, None)
    with pytest.raises(FileNotFoundError) as missing:
        list(fl.TFRecordDataset(tmp_path / "none"))
    assert isinstance(missing.value, fl.errors.NotFoundError)
    assert missing.value.file == str(tmp_path / "none") and missing.value.byte is None
    words = fl.Dataset.from_tensor_slices([b"abcd", b"abc"]).map(lambda x: fl.io.decode_raw(x, fl.int32))
    with pytest.raises(fl.errors.DataError) as bad:
        list(words)
    assert (bad.value.element, bad.value.file) == (1, None)
    assert fl.errors.DataError("made by hand").file is None


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_a_member_that_is_too_long_costs_its_sample(mode: Any, tmp_path: Path) -> None:
    path = str(tmp_path / ("a.tar.gz" if "gz" in mode else "a.tar"))
    with tarfile.open(path, mode) as out:
        for sample, size in enumerate([10, 7 << 20, 20]):
            for extension, length in (("cls", 1), ("txt", size), ("id", 2)):
                info = tarfile.TarInfo(f"{sample}.{extension}")
                info.size = length
                out.addfile(info, io.BytesIO(bytes(length)))
    compression = {"compression_type": "GZIP"} if "gz" in mode else {}
    it = fl.WebDataset(path, fields=["txt", "id"], **compression).iter(memory_limit="8MB")
    assert len(next(it)["txt"]) == 10
    with pytest.raises(MemoryError, match=r"7\.3 MB is longer than .* of a memory_limit of 8\.4 MB"):
        next(it)
    assert len(next(it)["txt"]) == 20 and next(it, None) is None
