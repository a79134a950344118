"""Parquet, Arrow and NumPy files: read what others wrote, write what others read, refuse what is broken."""

from __future__ import annotations

import io
import json
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import feedline as fl
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

ROWS = 1000


def table(rows: int = ROWS, dictionary: bool = True) -> pa.Table:
    """A column of each kind that can be read."""
    rng = np.random.default_rng(0)
    words = pa.array([f"c{i % 5}" for i in range(rows)])
    return pa.table(
        {
            "i": pa.array(np.arange(rows)),
            "f": pa.array(rng.random(rows, np.float32)),
            "b": pa.array(rng.random(rows) < 0.5),
            "s": pa.array([f"row {i}" for i in range(rows)]),
            "large": pa.array([f"{i}" * (i % 3) for i in range(rows)], pa.large_string()),
            "bytes": pa.array([bytes([i % 256, 255]) for i in range(rows)], pa.binary(2)),
            "l": pa.array([list(range(i % 4)) for i in range(rows)]),
            "ll": pa.array(
                [[[j] * j for j in range(i % 3)] for i in range(rows)], pa.list_(pa.list_(pa.int32()))
            ),
            "ls": pa.array([[str(j) for j in range(i % 3)] for i in range(rows)]),
            "fixed": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(rows * 3, dtype=np.float32)), 3),
            "d": words.dictionary_encode() if dictionary else words,
            "ts": pa.array(np.arange(rows).astype("M8[us]")),
            "day": pa.array(np.arange(rows).astype("M8[D]")),
            "dec": pa.array([i / 4 for i in range(rows)]).cast(pa.decimal128(10, 2)),
            "st": pa.array([{"a": i, "b": str(i)} for i in range(rows)]),
            "u8": pa.array(np.arange(rows).astype(np.uint8)),
            "h": pa.array(np.arange(rows).astype(np.float16)),
        }
    )


def plain(value: Any) -> Any:
    """A value of an element as pyarrow's `as_py` has it."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, fl.RaggedTensor):
        return value.to_list()
    if isinstance(value, bytes):
        return value.decode("latin1")
    if isinstance(value, np.ndarray):
        return [plain(part) for part in value.tolist()]
    return value.item() if isinstance(value, np.generic) else value


def expected(source: pa.Table) -> list[dict[str, Any]]:
    def one(name: str, value: Any) -> Any:
        match name:
            case "ts":
                return int(np.datetime64(value, "us").astype(np.int64))
            case "day":
                return int(np.datetime64(value, "D").astype(np.int64))
            case "dec":
                return float(value)
            case "bytes":
                return value.decode("latin1")
        return value

    return [{name: one(name, value) for name, value in row.items()} for row in source.to_pylist()]


def write(path: Path, source: pa.Table, kind: str) -> str:
    match kind:
        case "parquet":
            pq.write_table(source, path, row_group_size=300)
        case "parquet v2 zstd":
            pq.write_table(
                source,
                path,
                row_group_size=300,
                compression="zstd",
                data_page_version="2.0",
                write_page_index=True,
            )
        case "feather":
            pyarrow.feather.write_feather(source, str(path), compression="uncompressed", chunksize=300)
        case "feather lz4":
            pyarrow.feather.write_feather(source, str(path), compression="lz4", chunksize=300)
        case "stream":
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, source.schema) as stream:
                stream.write_table(source, max_chunksize=170)
    return str(path)


def read(path: str, kind: str, **options: Any) -> fl.Dataset:
    return (
        fl.ParquetDataset(path, **options) if kind.startswith("parquet") else fl.ArrowDataset(path, **options)
    )


KINDS = ["parquet", "parquet v2 zstd", "feather", "feather lz4", "stream"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dictionary", [True, False])
def test_what_pyarrow_wrote(tmp_path: Path, kind: str, dictionary: bool) -> None:
    source = table(dictionary=dictionary)
    ds = read(write(tmp_path / "a", source, kind), kind)
    rows = expected(source)
    assert len(ds) == ROWS
    assert [plain(row) for row in ds] == rows
    for i in (0, 1, 299, 300, ROWS - 1):
        assert plain(ds[i]) == rows[i]
    assert plain(next(iter(ds.skip(777)))) == rows[777]
    assert sorted(int(row["i"]) for row in ds.shuffle(seed=1)) == list(range(ROWS))
    small = ds.with_options(chunk_rows=7)
    assert [plain(row) for row in small] == rows


@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_read_back(tmp_path: Path, kind: str) -> None:
    source = table(50)
    ds = read(write(tmp_path / "a", source, kind), kind)
    rows = [plain(row) for row in ds]
    saved = ds.save_parquet(tmp_path / "out.parquet", compression="zstd", row_group_rows=20, binary=["bytes"])
    assert saved.elements == 50
    assert ds.save_arrow(tmp_path / "out.arrow", batch_rows=16, binary=["bytes"]).elements == 50
    assert [plain(row) for row in fl.ParquetDataset(tmp_path / "out.parquet")] == rows
    assert [plain(row) for row in fl.ArrowDataset(tmp_path / "out.arrow")] == rows
    for back in (pq.read_table(tmp_path / "out.parquet"), pyarrow.feather.read_table(tmp_path / "out.arrow")):
        for name in ("i", "f", "b", "s", "l", "ll", "ls", "fixed", "st", "h", "bytes"):
            assert back[name].to_pylist() == source[name].to_pylist(), name
    assert pq.ParquetFile(tmp_path / "out.parquet").num_row_groups == 3


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd", "gzip"])
def test_a_large_row_group_is_the_same_under_any_limit(tmp_path: Path, compression: str) -> None:
    """Read as a whole with pages that are kept, or piece by piece; from a state in the middle, too."""
    rng = np.random.default_rng(0)
    n = 300_000
    columns = {
        "plain": rng.random(n),
        "packed": rng.integers(0, 5000, n),
        "text": np.array([f"word {i}" for i in range(97)])[rng.integers(0, 97, n)],
        "holes": pa.array(rng.integers(0, 9, n), mask=rng.random(n) < 0.1),
        "list": pa.array(np.arange(2 * n, dtype=np.int32)).cast(pa.int32()),
    }
    columns["list"] = pa.FixedSizeListArray.from_arrays(columns["list"], 2)
    path = str(tmp_path / "large.parquet")
    pq.write_table(pa.table(columns), path, row_group_size=n, compression=compression)
    whole = fl.ParquetDataset(path, fill={"holes": -1}).batch(5000)
    piecewise = whole.with_options(memory_limit="24MB")
    for ds in (whole, piecewise):
        seen = list(ds)
        for name in ("plain", "packed"):
            assert np.array_equal(np.concatenate([b[name] for b in seen]), columns[name])
        assert np.concatenate([b["text"] for b in seen]).tolist() == [t.encode() for t in columns["text"]]
        holes = np.concatenate([b["holes"] for b in seen])
        assert np.array_equal(holes, columns["holes"].fill_null(-1).to_numpy())
        assert np.array_equal(np.concatenate([b["list"] for b in seen]).reshape(-1), np.arange(2 * n))
    it = iter(whole)
    before = [next(it)["packed"] for _ in range(23)]
    rest = [b["packed"] for b in piecewise.iter(state=it.state_dict())]
    assert np.array_equal(np.concatenate(before + rest), columns["packed"])


def test_batches_of_lists_are_ragged(tmp_path: Path) -> None:
    ds = fl.ParquetDataset(write(tmp_path / "a", table(10), "parquet"))
    batch = next(iter(ds.batch(5)))
    assert batch["l"].to_list() == [[], [0], [0, 1], [0, 1, 2], []]
    assert batch["st"]["a"].tolist() == [0, 1, 2, 3, 4]
    assert batch["fixed"].shape == (5, 3)


def test_arrays_are_the_readers_own(tmp_path: Path) -> None:
    """What is handed out can be written to, and nobody else sees it."""
    ds = fl.ParquetDataset(write(tmp_path / "a", table(100).select(["i", "f"]), "parquet"))
    for batch in ds.batch(10):
        batch["i"][:] = -1
    assert [int(row["i"]) for row in ds] == list(range(100))
    first = ds.batch(10)[0]
    first["i"][:] = -1
    assert ds.batch(10)[0]["i"].tolist() == list(range(10))


def columns_read(ds: fl.Dataset) -> str:
    """The parameters of the source as it runs."""
    node = json.loads(ds.explain("json"))["runs"]
    while node["inputs"]:
        node = node["inputs"][0]
    return node["params"]


def test_only_what_a_map_reads_is_decoded(tmp_path: Path) -> None:
    path = write(tmp_path / "a", table(100), "parquet")
    shuffled = fl.ParquetDataset(path).shuffle(10, seed=1, reshuffle_each_iteration=False)
    narrow = shuffled.take(50).batch(4).map(lambda row: (row["i"], row["st"]["b"]))
    assert "narrow_columns" in narrow.explain()
    assert columns_read(narrow).endswith('columns=["i", "st"]')
    wide = narrow.with_options(rewrite=False)
    for (a, b), (c, d) in zip(narrow, wide, strict=True):
        assert a.tolist() == c.tolist()
        assert b.tolist() == d.tolist()
    everything = fl.ParquetDataset(path).map(lambda row: row)
    assert "narrow_columns" not in everything.explain()
    constant = fl.ParquetDataset(path).map(lambda row: fl.constant(1))
    assert len(list(constant)) == 100


def test_several_files_and_columns(tmp_path: Path) -> None:
    for k in range(12):
        part = pa.table({"x": np.arange(5) + 5 * k, "y": np.zeros(5)})
        pq.write_table(part.select(["y", "x"] if k % 2 else ["x", "y"]), tmp_path / f"part-{k:02}.parquet")
    pq.write_table(pa.table({"x": np.arange(0), "y": np.zeros(0)}), tmp_path / "part-05b.parquet")
    for files in (tmp_path, str(tmp_path / "*.parquet"), sorted(tmp_path.iterdir())):
        ds = fl.ParquetDataset(files, columns=["y", "x"])
        assert list(ds.element_spec) == ["y", "x"]
        assert [int(row["x"]) for row in ds] == list(range(60))
    with pytest.raises(FileNotFoundError, match="no file matches"):
        fl.ParquetDataset(str(tmp_path / "*.nothing"))
    with pytest.raises(ValueError, match='there is no column "z"; the columns are x, y'):
        fl.ParquetDataset(tmp_path, columns=["z"])
    pq.write_table(
        pa.table({"x": np.arange(5, dtype=np.int32), "y": np.zeros(5)}), tmp_path / "part-99.parquet"
    )
    with pytest.raises(
        fl.errors.DataError, match=r"column \"x\" is int32.*but int64 \(Int64\) in the first file.*part-99"
    ):
        fl.ParquetDataset(tmp_path)


@pytest.mark.parametrize("kind", ["parquet", "feather"])
def test_a_column_that_only_a_later_file_has(tmp_path: Path, kind: str) -> None:
    files: Any = [
        write(tmp_path / "a", pa.table({"x": [1]}), kind),
        write(tmp_path / "b", pa.table({"y": ["new"], "x": [2]}), kind),
    ]
    with pytest.raises(fl.errors.DataError, match=r'column "y" is here and not in the first file.*/b\)'):
        read(files, kind)
    assert [int(row["x"]) for row in read(files, kind, columns=["x"])] == [1, 2]


@pytest.mark.parametrize("kind", KINDS)
def test_nulls_fail_or_are_filled(tmp_path: Path, kind: str) -> None:
    source = pa.table(
        {
            "x": pa.array([1.0, None, 3.0, 4.0]),
            "y": pa.array([1, 2, None, 4]),
            "s": pa.array(["a", "b", "c", None]),
            "l": pa.array([[1], [2, 3], [], [None, 4]]),
        }
    )
    path = write(tmp_path / "a", source, kind)
    ds = read(path, kind)
    events = []
    iterator = iter(ds)
    for _ in range(4):
        try:
            events.append(int(next(iterator)["y"]))
        except fl.errors.DataError as error:
            events.append(str(error))
    assert events[0] == 1
    assert 'column "x" is null here' in events[1]
    assert "element 1" in events[1] and path in events[1]
    assert 'column "y"' in events[2] and 'column "l"' in events[3]
    assert len(list(ds.ignore_errors())) == 1
    with pytest.raises(fl.errors.DataError, match="is null"):
        ds[2]
    filled = read(path, kind, fill={"x": float("nan"), "y": -1, "s": "none", "l": 0})
    assert [plain(row) for row in filled][1:] == [
        {"x": pytest.approx(float("nan"), nan_ok=True), "y": 2, "s": "b", "l": [2, 3]},
        {"x": 3.0, "y": -1, "s": "c", "l": []},
        {"x": 4.0, "y": 4, "s": "none", "l": [0, 4]},
    ]
    floats = read(path, kind, columns=["x"], fill=float("nan"))
    assert np.isnan([row["x"] for row in floats][1])
    with pytest.raises(ValueError, match="is no int64"):
        read(path, kind, fill={"y": "text"})
    with pytest.raises(ValueError, match="which is no column"):
        read(path, kind, fill={"q": 1})


@pytest.mark.parametrize("kind", KINDS)
def test_nulls_above_are_filled(tmp_path: Path, kind: str) -> None:
    source = pa.table(
        {
            "st": pa.array([{"q": 1, "t": "a"}, None, {"q": None, "t": "c"}]),
            "pair": pa.array([[1, 2], None, [3, None]], pa.list_(pa.int64(), 2)),
        }
    )
    path = write(tmp_path / "a", source, kind)
    with pytest.raises(fl.errors.DataError, match="is null"):
        list(read(path, kind))
    filled = read(path, kind, fill={"st.q": -1, "st.t": "?", "pair": 0})
    assert [plain(row) for row in filled] == [
        {"st": {"q": 1, "t": "a"}, "pair": [1, 2]},
        {"st": {"q": -1, "t": "?"}, "pair": [0, 0]},
        {"st": {"q": -1, "t": "c"}, "pair": [3, 0]},
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_structs_and_lists_of_one_size_that_are_null_are_filled(tmp_path: Path, kind: str) -> None:
    """Each field of a struct has its own fill, each item of a list of fixed size the list's."""
    inner = pa.struct({"x": pa.int64(), "y": pa.string(), "l": pa.list_(pa.int64())})
    source = pa.table(
        {
            "st": pa.array([{"x": 1, "y": "a", "l": [1]}, None, {"x": None, "y": "c", "l": None}], inner),
            "fl": pa.array([[1.0, 2.0], None, [3.0, None]], pa.list_(pa.float64(), 2)),
        }
    )
    path = write(tmp_path / "a", source, kind)
    fill = {"st.x": -1, "st.y": "", "st.l": 0, "fl": 0.0}
    assert [plain(row) for row in read(path, kind, fill=fill)] == [
        {"st": {"x": 1, "y": "a", "l": [1]}, "fl": [1.0, 2.0]},
        {"st": {"x": -1, "y": "", "l": []}, "fl": [0.0, 0.0]},
        {"st": {"x": -1, "y": "c", "l": []}, "fl": [3.0, 0.0]},
    ]
    # What is missing is named as it has to be given.
    for left_out in fill:
        others = {key: value for key, value in fill.items() if key != left_out}
        with pytest.raises(fl.errors.DataError, match=f'fill={{"{left_out}": value}}'):
            read(path, kind, fill=others)[1]
    with pytest.raises(
        ValueError, match=r'"st.zz", which is no column; there are \["st.x", "st.y", "st.l", "fl"'
    ):
        read(path, kind, fill={"st.zz": -1})
    with pytest.raises(ValueError, match=r'"st", which is a struct; name its fields: \["st.x"'):
        read(path, kind, fill={"st": -1})


@pytest.mark.parametrize("kind", KINDS)
def test_files_must_have_the_same_units(tmp_path: Path, kind: str) -> None:
    """Seconds are not mixed with microseconds; instants of other zones are the same instants."""

    def file(name: str, data_type: pa.DataType) -> str:
        return write(tmp_path / name, pa.table({"t": pa.array([0, 1000], data_type)}), kind)

    seconds, micros = file("a", pa.timestamp("ms")), file("b", pa.timestamp("us"))
    with pytest.raises(
        fl.errors.DataError,
        match=r'column "t" is .*\(Timestamp\(µs\)\) here.*\(Timestamp\(ms\)\) in the first.*b',
    ):
        read([seconds, micros], kind)
    with pytest.raises(fl.errors.DataError, match="must agree"):
        read([seconds, file("c", pa.int64())], kind)
    zoned = file("d", pa.timestamp("ms", "Europe/Berlin"))
    assert [int(row["t"]) for row in read([seconds, zoned], kind)] == [0, 1000, 0, 1000]


@pytest.mark.parametrize("kind", KINDS)
def test_nulls_that_nobody_reads_fail_nothing(tmp_path: Path, kind: str) -> None:
    """Whichever columns there are: rows can be counted without a look at any."""
    source = pa.table({"i": [1, None, 3], "d": ["u", "v", None], "n": pa.array([None, 1, 2], pa.int8())})
    path = write(tmp_path / "a", source, kind)
    ds = read(path, kind)
    assert list(ds.map(lambda r: r["d"]).take(2)) == [b"u", b"v"]
    with pytest.raises(fl.errors.DataError, match='column "d" is null'):
        list(ds.map(lambda r: r["d"]))
    for columns in (["i", "d", "n"], ["d", "i"], ["i"], ["d"]):
        ones = read(path, kind, columns=columns).map(lambda r: 1)
        assert [int(x) for x in ones] == [1, 1, 1]


def test_strings_of_dictionaries_are_there_once(tmp_path: Path) -> None:
    """Rows that share a long string: also more of it than one array of Arrow can have."""
    rows, text = 150_000, "x" * 20_000
    words = pa.array(["a", text, "unused", "0123456789abc"])
    places = pa.array((np.arange(rows) % 100 > 0).astype(np.int32) + 2 * (np.arange(rows) == 77))
    source = pa.table({"s": pa.DictionaryArray.from_arrays(places, words), "i": np.arange(rows)})
    pq.write_table(source, tmp_path / "a.parquet", row_group_size=rows)
    pyarrow.feather.write_feather(source, tmp_path / "a.feather", chunksize=rows, compression="uncompressed")
    for ds in (
        fl.ParquetDataset(tmp_path / "a.parquet"),
        fl.ArrowDataset(tmp_path / "a.feather"),
    ):
        lengths = np.array(list(ds.map(lambda r: fl.strings.length(r["s"])).batch(10_000).unbatch()))
        expected = np.where(np.arange(rows) % 100 > 0, len(text), 1)
        expected[77] = 13
        assert np.array_equal(lengths, expected)
        assert [ds[i]["s"] for i in (0, 1, 77)] == [b"a", text.encode(), b"0123456789abc"]


def test_types_without_a_place(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    maps = pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))
    pq.write_table(pa.table({"ok": [1], "m": maps, "ls": pa.array([[{"a": 1}]])}), path)
    with pytest.raises(ValueError, match=r'column "m" has the type .*leave it out with columns'):
        fl.ParquetDataset(path)
    with pytest.raises(ValueError, match="a list of structs"):
        fl.ParquetDataset(path, columns=["ls"])
    assert [int(row["ok"]) for row in fl.ParquetDataset(path, columns=["ok"])] == [1]


def test_pandas_and_polars(tmp_path: Path) -> None:
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    frame = {"x": [1, 2, 3], "name": ["a", "b", "c"], "when": [10, 20, 30]}
    pd.DataFrame(frame).to_parquet(tmp_path / "pandas.parquet")
    pl.DataFrame(frame).write_parquet(tmp_path / "polars.parquet")
    pl.DataFrame(frame).write_ipc(
        tmp_path / "polars.arrow", compression="uncompressed", compat_level=pl.CompatLevel.oldest()
    )
    rows = [{"x": x, "name": name, "when": when} for x, name, when in zip(*frame.values(), strict=True)]
    for name in ("pandas.parquet", "polars.parquet"):
        assert [plain(row) for row in fl.ParquetDataset(tmp_path / name)] == rows
    ds = fl.ArrowDataset(tmp_path / "polars.arrow")
    assert [plain(row) for row in ds] == rows
    ds.save_parquet(tmp_path / "out.parquet")
    assert pd.read_parquet(tmp_path / "out.parquet").to_dict("list") == frame
    assert pl.read_parquet(tmp_path / "out.parquet").to_dict(as_series=False) == frame


def test_a_folder_of_hugging_face_datasets(tmp_path: Path) -> None:
    """The layout that `Dataset.save_to_disk` writes: streams, and a list of them in state.json."""
    folder = tmp_path / "saved"
    folder.mkdir()
    names = []
    for k in (1, 0):
        name = f"data-0000{k}-of-00002.arrow"
        part = pa.table({"text": [f"{k}.{i}" for i in range(3)], "label": np.arange(3)})
        write(folder / name, part, "stream")
        names.append({"filename": name})
    state = {"_data_files": names, "_fingerprint": "f", "_format_type": None, "_split": "train"}
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "dataset_info.json").write_text("{}")
    ds = fl.ArrowDataset(folder)
    assert [row["text"] for row in ds] == [b"1.0", b"1.1", b"1.2", b"0.0", b"0.1", b"0.2"]
    (tmp_path / "dataset_dict.json").write_text(json.dumps({"splits": ["saved"]}))
    with pytest.raises(ValueError, match=r"several splits; name one of them: .*saved"):
        fl.ArrowDataset(tmp_path)
    (folder / "state.json").write_text(
        json.dumps(state | {"_indices_files": [{"filename": "indices.arrow"}]})
    )
    with pytest.raises(ValueError, match="flatten_indices"):
        fl.ArrowDataset(folder)
    (folder / "state.json").write_text(json.dumps(state | {"_data_files": [{"filename": "../x.arrow"}]}))
    with pytest.raises(ValueError, match="outside"):
        fl.ArrowDataset(folder)
    for broken, why in [
        ("{", "no JSON"),
        ("[]", "not an object"),
        ("{}", "_data_files"),
        ('{"_data_files": 3}', "_data_files"),
        ('{"_data_files": [{}]}', "filename"),
        ('{"_data_files": ["a.arrow"]}', "filename"),
        ('{"_data_files": [{"filename": null}]}', "filename"),
    ]:
        (folder / "state.json").write_text(broken)
        with pytest.raises(fl.errors.DataError, match=f"state.json .*{why}") as caught:
            fl.ArrowDataset(folder)
        assert caught.value.file == str(folder / "state.json")
    (tmp_path / "dataset_dict.json").write_bytes(b"\xff")
    with pytest.raises(fl.errors.DataError, match=r"dataset_dict\.json is no JSON"):
        fl.ArrowDataset(tmp_path)


# ---- Shards and broken runs ----


def test_shards_take_turns(tmp_path: Path) -> None:
    ds = fl.Dataset.range(10).map(lambda x: {"x": x, "y": (x, x * 2)})
    saved = ds.save_parquet(tmp_path / "out.parquet", shards=4)
    assert saved.elements == 10
    assert [Path(name).name for name in saved.files] == [f"out-0000{k}-of-00004.parquet" for k in range(4)]
    back = fl.ParquetDataset(tmp_path)
    assert [int(row["x"]) for row in back] == [0, 4, 8, 1, 5, 9, 2, 6, 3, 7]
    assert back[1]["y"]["1"] == 8
    (tmp_path / "arrow").mkdir()
    unknown = ds.filter(lambda row: row["x"] >= 0)
    assert unknown.save_arrow(tmp_path / "arrow" / "a.arrow", shards=2).elements == 10
    assert sorted(int(row["x"]) for row in fl.ArrowDataset(tmp_path / "arrow")) == list(range(10))


def test_a_broken_run_leaves_nothing(tmp_path: Path) -> None:
    def fails(x: Any) -> Any:
        if int(x) == 700:
            raise RuntimeError("on purpose")
        return np.int64(x)

    ds = (
        fl.Dataset.range(1000)
        .map(lambda x: fl.py_function(fails, [x], fl.int64))
        .map(lambda x: fl.ensure_shape(x, ()))
    )
    for save in (
        lambda: ds.save_parquet(tmp_path / "a.parquet"),
        lambda: ds.save_arrow(tmp_path / "a.arrow"),
        lambda: ds.save_npy(tmp_path / "a.npy"),
    ):
        with pytest.raises(RuntimeError, match="on purpose"):
            save()
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    numbers = fl.Dataset.range(3)
    with pytest.raises(ValueError, match="endless"):
        numbers.repeat().save_parquet(tmp_path / "a")
    with pytest.raises(ValueError, match="bfloat16"):
        numbers.map(lambda x: fl.cast(x, fl.bfloat16)).save_parquet(tmp_path / "a")
    with pytest.raises(ValueError, match="no compression"):
        numbers.save_parquet(tmp_path / "a", compression="best")
    with pytest.raises(ValueError, match="between 1 and"):
        numbers.save_parquet(tmp_path / "a", shards=0)
    with pytest.raises(fl.errors.DataError, match=r"no text.*binary="):
        fl.Dataset.from_tensor_slices([b"\xff"]).save_parquet(tmp_path / "a")
    with pytest.raises(ValueError, match=r"ends with \.npy"):
        numbers.save_npy(tmp_path / "a.npz")
    with pytest.raises(ValueError, match=r"ends with \.npz"):
        numbers.map(lambda x: (x, x)).save_npy(tmp_path / "a.npy")
    with pytest.raises(ValueError, match="ensure_shape"):
        fl.Dataset.from_tensor_slices(fl.ragged.constant([[1], [2, 3]])).map(lambda x: x + 1).save_npy(
            tmp_path / "a.npy"
        )
    assert list(tmp_path.iterdir()) == []


# ---- NumPy ----


@pytest.fixture
def cube() -> np.ndarray:
    return np.random.default_rng(1).random((100, 3, 4)).astype(np.float32)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x,
        np.asfortranarray,
        lambda x: x.astype(">f4"),
        lambda x: x.astype("<f8"),
        lambda x: x[:, 0, 0],
        lambda x: x > 0.5,
        lambda x: (x * 100).astype(np.int8),
        lambda x: (x * 100).astype(">u2"),
        lambda x: x[:0],
        lambda x: x[:, :0],
        lambda x: np.asfortranarray(x[:, :, 0]),
        lambda x: (x * 1e6).astype("M8[s]"),
        lambda x: np.repeat(x, 200, axis=2),
    ],
)
def test_npy(tmp_path: Path, cube: np.ndarray, change: Callable[[np.ndarray], np.ndarray]) -> None:
    array = change(cube)
    np.save(tmp_path / "a.npy", array)
    array = array.astype(np.int64) if array.dtype.kind == "M" else array
    ds = fl.NumpyDataset(tmp_path / "a.npy")
    assert len(ds) == len(array)
    got = list(ds)
    for row, wanted in zip(got, array, strict=True):
        assert np.array_equal(row, wanted)
        assert np.asarray(row).dtype == array.dtype.newbyteorder("=")
    if len(array):
        assert np.array_equal(ds[len(array) // 2], array[len(array) // 2])
        assert np.array_equal(
            np.sort([np.sum(row) for row in ds.shuffle(seed=1)]), np.sort([np.sum(row) for row in got])
        )
    if array.dtype.kind != "M" and array.size:
        ds.save_npy(tmp_path / "out.npy")
        assert np.array_equal(np.load(tmp_path / "out.npy"), array)


def test_structured_npy(tmp_path: Path) -> None:
    fields = [("a", "<i4"), ("b", ">f8", (2,)), ("c", [("d", "S3"), ("e", "U4")])]
    array = np.zeros(100, dtype=np.dtype(fields, align=False))
    array["a"], array["b"] = np.arange(100), np.random.default_rng(0).random((100, 2))
    array["c"]["d"], array["c"]["e"] = b"ab", "\u00e9x"
    for align in (False, True):
        np.save(tmp_path / "a.npy", array.astype(np.dtype(fields, align=align)))
        ds = fl.NumpyDataset(tmp_path / "a.npy")
        row = ds[41]
        assert (int(row["a"]), row["c"]["d"], row["c"]["e"].decode()) == (41, b"ab", "\u00e9x")
        assert np.array_equal(np.stack([row["b"] for row in ds]), array["b"])
        assert list(fl.NumpyDataset(tmp_path / "a.npy", columns=["b"]).element_spec) == ["b"]


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz(tmp_path: Path, cube: np.ndarray, save: Callable[..., None]) -> None:
    save(tmp_path / "a.npz", x=cube, y=np.arange(100))
    ds = fl.NumpyDataset(tmp_path / "a.npz")
    assert np.array_equal(np.stack([row["x"] for row in ds]), cube)
    assert (int(ds[57]["y"]), len(ds)) == (57, 100)
    assert list(fl.NumpyDataset(tmp_path / "a.npz", columns=["y"]).element_spec) == ["y"]
    assert columns_read(ds.map(lambda row: row["y"])).endswith('columns=["y"]')
    ds.save_npy(tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as back:
        assert np.array_equal(back["x"], cube) and np.array_equal(back["y"], np.arange(100))
    assert np.array_equal(np.stack([row["x"] for row in fl.NumpyDataset(tmp_path / "out.npz")]), cube)
    save(tmp_path / "uneven.npz", x=cube, y=np.arange(99))
    with pytest.raises(fl.errors.DataError, match='99 rows and "x" has 100'):
        fl.NumpyDataset(tmp_path / "uneven.npz")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_only_the_members_that_are_wanted_are_looked_at(tmp_path: Path, save: Callable[..., None]) -> None:
    unwanted = {"short": np.arange(3), "single": np.int64(3), "objects": np.array([{}, 1], dtype=object)}
    save(tmp_path / "a.npz", x=np.arange(5), **unwanted)
    with zipfile.ZipFile(tmp_path / "a.npz", "a") as archive:
        archive.writestr("meta.json", "{}")
        archive.writestr("packed.npy", b"x" * 1000, zipfile.ZIP_BZIP2)
    assert [int(row["x"]) for row in fl.NumpyDataset(tmp_path / "a.npz", columns=["x"])] == list(range(5))
    with pytest.raises(ValueError, match=r'no column "z"; there are \["x", "short"'):
        fl.NumpyDataset(tmp_path / "a.npz", columns=["x", "z"])
    for name in (*unwanted, "meta.json", "packed"):
        with pytest.raises(fl.errors.DataError, match=name):
            fl.NumpyDataset(tmp_path / "a.npz", columns=["x", name])


def test_compressed_arrays_are_unpacked_within_the_limit(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros((4, 1 << 20), np.uint8), y=np.arange(4))
    ds = fl.NumpyDataset(tmp_path / "a.npz")
    small = ds.with_options(memory_limit="2MB")
    for read in (lambda: list(small), lambda: list(small.shuffle(seed=1))):
        with pytest.raises(MemoryError, match=r"4\.2 MB are unpacked as a whole.*memory_limit of 2\.1 MB"):
            read()
    # Only what is wanted counts, and there is nothing to unpack before it is read.
    assert [int(y) for y in small.map(lambda row: row["y"])] == list(range(4))
    assert sum(row["x"].size for row in ds.with_options(memory_limit="8MB")) == 4 << 20
    assert ds[2]["x"].shape == (1 << 20,)


def test_compressed_arrays_are_unpacked_within_the_limit_of_the_process(tmp_path: Path, program: Any) -> None:
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros(320_000_000, np.uint8))
    result = program(
        f"""
        import resource
        import feedline as fl

        fl.configure(memory_limit="100MB")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        ds = fl.NumpyDataset({str(tmp_path / "a.npz")!r})
        for read in (lambda: next(iter(ds)), lambda: ds[0]):
            try:
                read()
            except MemoryError as error:
                assert "320.0 MB" in str(error) and "104.9 MB" in str(error), error
                print("refused")
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000
        """
    )
    assert result.stdout.split() == ["refused", "refused"], result


def test_arrays_side_by_side_and_one_after_the_other(tmp_path: Path) -> None:
    for k in range(3):
        np.save(tmp_path / f"x{k}.npy", np.arange(4) + 4 * k)
    assert [int(x) for x in fl.NumpyDataset(tmp_path)] == list(range(12))
    both = fl.NumpyDataset({"a": tmp_path / "x0.npy", "b": tmp_path / "x1.npy"})
    assert plain(both[1]) == {"a": 1, "b": 5}
    np.save(tmp_path / "x9.npy", np.arange(4.0))
    with pytest.raises(fl.errors.DataError, match=r"float64.*int64.*x9"):
        fl.NumpyDataset(tmp_path)


def test_archives_as_numpy_reads_them(tmp_path: Path) -> None:
    """A member that was added again counts, and names of fields are not always ASCII."""
    path = tmp_path / "a.npz"
    np.savez(path, x=np.arange(3), y=np.arange(3))
    newer = io.BytesIO()
    np.save(newer, np.arange(3) + 10)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("x.npy", newer.getvalue())
    with np.load(path) as theirs:
        assert [int(row["x"]) for row in fl.NumpyDataset(path)] == theirs["x"].tolist() == [10, 11, 12]
    np.save(tmp_path / "b.npy", np.array([(1, 2)], [("größe", "<i4"), ("n", "<i4")]))
    assert next(iter(fl.NumpyDataset(tmp_path / "b.npy"))) == {"größe": 1, "n": 2}


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "o.npy", np.array([{}, 1], dtype=object), allow_pickle=True)
    with pytest.raises(fl.errors.DataError, match="pickle"):
        fl.NumpyDataset(tmp_path / "o.npy")
    np.savez(tmp_path / "o.npz", a=np.array([[], 1], dtype=object))
    with pytest.raises(fl.errors.DataError, match="pickle"):
        fl.NumpyDataset(tmp_path / "o.npz")


# ---- Damage ----


def damaged(tmp_path: Path) -> dict[str, tuple[bytes, Callable[[Path], fl.Dataset]]]:
    """Small files of each kind, and how they are read."""
    small = table(40)
    nested = small.select(["i", "s", "l", "ll", "fixed", "st", "b"])
    out = {}
    for kind in KINDS:
        reader = fl.ParquetDataset if kind.startswith("parquet") else fl.ArrowDataset
        out[kind] = Path(write(tmp_path / "x", small if "lz4" in kind else nested, kind)).read_bytes(), reader
    array = np.arange(60.0).reshape(20, 3)
    for name, save in (("x.npy", np.save), ("x.npz", np.savez), ("y.npz", np.savez_compressed)):
        save(tmp_path / name, array)
        out[name] = (tmp_path / name).read_bytes(), fl.NumpyDataset
    return out


ERRORS = (fl.errors.DataError, ValueError, OSError, fl.errors.FailedPreconditionError)


def drain(reader: Callable[[Path], fl.Dataset], path: Path) -> None:
    """Reads all that can be read; errors of ours are fine, anything else is not."""
    try:
        ds = reader(path)
    except ERRORS:
        return
    if len(ds) > 10_000:
        return
    for _ in ds.ignore_errors():
        pass
    for i in (0, len(ds) - 1):
        try:
            if 0 <= i < len(ds):
                ds[i]
        except ERRORS:
            pass


def test_files_that_are_cut_off(tmp_path: Path) -> None:
    for kind, (whole, reader) in damaged(tmp_path).items():
        path = tmp_path / "cut"
        for size in [*range(min(64, len(whole))), *range(64, len(whole) - 1, max(1, len(whole) // 40))]:
            path.write_bytes(whole[:size])
            if kind == "stream":
                # Nothing at the end of it must be there: what is whole is read.
                drain(reader, path)
                continue
            with pytest.raises(ERRORS):
                list(reader(path))


def test_files_with_wrong_bytes(tmp_path: Path) -> None:
    rng = random.Random(5)
    for whole, reader in damaged(tmp_path).values():
        path = tmp_path / "wrong"
        for _ in range(150):
            bad = bytearray(whole)
            for _ in range(rng.choice([1, 1, 2, 8])):
                at = rng.randrange(len(bad))
                bad[at] = rng.choice([0, 255, 127, 128, bad[at] ^ (1 << rng.randrange(8))])
            path.write_bytes(bad)
            drain(reader, path)


def test_a_file_that_changes_under_the_reader(tmp_path: Path) -> None:
    for kind, (whole, reader) in damaged(tmp_path).items():
        path = tmp_path / "changing"
        path.write_bytes(whole)
        ds = reader(path)
        path.write_bytes(whole[: len(whole) // 2])
        if kind == "y.npz":
            continue  # Decompressed when it was opened.
        with pytest.raises(ERRORS):
            list(ds)


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"this is not a table")
    with pytest.raises(fl.errors.DataError, match=r"is not a Parquet file: it ends with able.*a\.parquet"):
        fl.ParquetDataset(path)
    with pytest.raises(fl.errors.DataError, match="Arrow file"):
        fl.ArrowDataset(path)
    with pytest.raises(fl.errors.DataError, match=r"is not an \.npy file"):
        fl.NumpyDataset(path)
    write(path, table(10), "parquet")
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    with pytest.raises(fl.errors.DataError, match="no footer: it is cut off"):
        fl.ParquetDataset(path)
    path.write_bytes(whole[:-8] + b"\xff\xff\xff\x7fPAR1")
    with pytest.raises(fl.errors.DataError, match="the footer claims to have 2147483647 bytes"):
        fl.ParquetDataset(path)
    with pytest.raises(OSError, match="nothing"):
        fl.ParquetDataset(tmp_path / "nothing.parquet")
    with pytest.raises(TypeError, match="is no path"):
        fl.ParquetDataset([1])


def test_a_plan_can_be_stored(tmp_path: Path) -> None:
    import pickle

    path = write(tmp_path / "a", table(20), "parquet")
    ds = fl.ParquetDataset(path, columns=["x", "i"][1:], fill=float("nan")).batch(3)
    again = pickle.loads(pickle.dumps(ds))
    assert [batch["i"].tolist() for batch in again] == [batch["i"].tolist() for batch in ds]
    assert again.fingerprint() == ds.fingerprint() if hasattr(ds, "fingerprint") else True


def test_states_of_a_piece_that_begins_in_the_middle(tmp_path: Path) -> None:
    """Behind a skip, and behind a state: the rows before are not given again."""

    def numbers(elements: Any) -> list[int]:
        return [int(next(iter(e.values()))) if isinstance(e, dict) else int(e) for e in elements]

    np.save(tmp_path / "a.npy", np.arange(10))
    fl.Dataset.range(50_000).save_parquet(tmp_path / "a.parquet", row_group_rows=50_000)
    for ds, expected in (
        (fl.NumpyDataset([str(tmp_path / "a.npy")]).skip(5), list(range(5, 10))),
        (fl.ParquetDataset(str(tmp_path / "a.parquet")).skip(40_000), list(range(40_000, 50_000))),
    ):
        assert numbers(ds) == expected
        for taken in (0, 1, 3):
            it = ds.iter()
            for _ in range(taken):
                next(it)
            # Taken again from a pass that was itself restored.
            again = ds.iter(it.state_dict())
            assert numbers(ds.iter(again.state_dict())) == expected[taken:]


def test_a_file_that_fails_costs_the_next_one_nothing(tmp_path: Path) -> None:
    """Rows that were to be skipped in it are not skipped in the next."""
    names = [str(tmp_path / f"{n}.npy") for n in range(3)]
    for n, name in enumerate(names):
        np.save(name, np.arange(100 * n, 100 * n + 10))
    ds = fl.NumpyDataset(names).skip(5)
    with open(names[0], "ab") as file:
        file.write(b"x")
    assert [int(n) for n in ds.ignore_errors()] == [*range(100, 110), *range(200, 210)]
