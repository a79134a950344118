"""make_batched_features_dataset and SqlDataset: whole pipelines out of files, by tf.data's names."""

from __future__ import annotations

import pickle
import sqlite3
import threading
from pathlib import Path
from typing import Any

import feedline as fl
import numpy as np
import pytest

FEATURES = {"n": fl.io.FixedLenFeature([], fl.int64), "v": fl.io.VarLenFeature(fl.float32)}
make = fl.data.experimental.make_batched_features_dataset


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def example(n: int) -> bytes:
    v = fl.train.Feature(float_list=fl.train.FloatList([n / 2] * (n % 3)))
    ints = fl.train.Feature(int64_list=fl.train.Int64List([n]))
    return fl.train.Example(fl.train.Features({"n": ints, "v": v})).SerializeToString()


def write_parts() -> None:
    for part in range(3):
        with fl.io.TFRecordWriter(f"part-{part}.tfrecord") as writer:
            for n in range(10):
                writer.write(example(part * 10 + n))


def test_batches_of_features() -> None:
    write_parts()
    batches = list(make("part-*.tfrecord", 8, FEATURES, num_epochs=1, shuffle=False))
    assert [len(batch["n"]) for batch in batches] == [8, 8, 8, 6]
    assert np.concatenate([batch["n"] for batch in batches]).tolist() == list(range(30))
    assert batches[0]["v"].dense_shape.tolist() == [8, 2]
    several = list(make("part-*.tfrecord", 30, FEATURES, num_epochs=1, shuffle=False, reader_num_threads=3))
    assert several[0]["n"].tolist() == [part * 10 + n for n in range(10) for part in range(3)]
    assert len(list(make("part-*.tfrecord", 8, FEATURES, num_epochs=1, drop_final_batch=True))) == 3


def test_features_are_shuffled_repeated_and_split() -> None:
    write_parts()
    ds = make("part-*.tfrecord", 7, FEATURES, label_key="n", shuffle_seed=3)
    assert ds.cardinality() in (fl.UNKNOWN_CARDINALITY, fl.INFINITE_CARDINALITY)
    first = list(ds.take(9))
    assert all(set(x) == {"v"} and y.shape == (7,) for x, y in first)
    seen = np.concatenate([y for _, y in first])
    assert sorted(seen[:30].tolist()) == list(range(30)) and seen[:30].tolist() != list(range(30))
    again = np.concatenate(
        [y for _, y in make("part-*.tfrecord", 7, FEATURES, label_key="n", shuffle_seed=3).take(9)]
    )
    assert seen.tolist() == again.tolist()


def test_features_by_another_reader() -> None:
    write_parts()

    def keyed(name: Any, size: int) -> fl.Dataset:
        return fl.TFRecordDataset(name, buffer_size=size).enumerate()

    batches = make("part-1.tfrecord", 10, FEATURES, keyed, reader_args=[4096], num_epochs=1, shuffle=False)
    assert next(iter(batches))["n"].tolist() == list(range(10, 20))


def test_features_refused() -> None:
    write_parts()
    with pytest.raises(ValueError, match="label_key 'x' is not one of the features"):
        make("part-*.tfrecord", 7, FEATURES, label_key="x")
    with pytest.raises(fl.errors.FileError, match="no file matches"):
        make("none-*", 7, FEATURES)


TYPES = (fl.string, fl.int32, fl.float64)


def plants(rows: int = 5) -> None:
    with sqlite3.connect("plants.db") as database:
        database.execute("create table plants (name text, leaves int, height real)")
        database.executemany(
            "insert into plants values (?, ?, ?)", [(f"p{i}", i, i / 4) for i in range(rows)]
        )


def sql(query: str = "select * from plants order by leaves", types: Any = TYPES) -> fl.Dataset:
    return fl.data.experimental.SqlDataset("sqlite", "plants.db", query, types)


def test_rows_of_a_query() -> None:
    plants()
    rows = list(sql().batch(5))
    assert rows[0][0].tolist() == [f"p{i}".encode() for i in range(5)]
    assert rows[0][1].dtype == np.int32 and rows[0][2].tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert len(list(sql("select name from plants where leaves > 2", (fl.string,)))) == 2
    assert list(pickle.loads(pickle.dumps(sql()))) == list(sql())


def test_a_query_is_resumed() -> None:
    plants(20)
    rows = iter(sql())
    for _ in range(7):
        next(rows)
    rest = sql().iter(rows.state_dict())
    assert [int(row[1]) for row in rest] == list(range(7, 20))


def test_rows_are_read_by_any_thread() -> None:
    plants(40)
    rows = iter(sql().with_options(cpu_budget=1))
    got: list[int] = []
    for _ in range(8):  # the consumer reads where no worker is free, and the database was opened by another
        reader = threading.Thread(target=lambda: got.extend(int(next(rows)[1]) for _ in range(5)))
        reader.start()
        reader.join()
    assert got == list(range(40))


def test_queries_refused() -> None:
    with pytest.raises(FileNotFoundError, match=r"plants\.db"):
        sql()
    plants()
    with pytest.raises(ValueError, match="'sqlite', not 'mysql'"):
        fl.data.experimental.SqlDataset("mysql", "plants.db", "select 1", (fl.int32,))
    with pytest.raises(TypeError, match="3 columns, output_types 1"):
        list(sql(types=(fl.string,)))
    with pytest.raises(TypeError, match="'p0' is not a value of dtype int32"):
        list(sql("select name from plants", (fl.int32,)))
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        list(sql("select * from trees"))
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        list(sql("delete from plants returning *"))
