"""Building a dataset may read far-away files: other threads go on meanwhile, and Ctrl-C is answered."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import feedline as fl
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

DELAY = 0.3
"""How long the server thinks about every request, in seconds."""
SOME = 5
"""Turns of another thread in that time that show that it goes on; many more are usual."""


@contextmanager
def slow_server(
    files: dict[str, bytes], delay: float | list[float], requests: list[tuple[float, str]] | None = None
) -> Iterator[str]:
    """The address of a server in this process that answers each request only after a while.

    Args:
        files: What it serves, by name.
        delay: How long it thinks, in seconds; a list of one number can be changed while it runs.
        requests: Gets the time of each request, and what it asks for.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self, body: bool) -> None:
            if requests is not None:
                requests.append((time.time(), f"{self.command} {self.headers.get('Range', '')}".strip()))
            time.sleep(delay[0] if isinstance(delay, list) else delay)
            data = files[self.path.strip("/")]
            first, last = 0, len(data) - 1
            asked = self.headers.get("Range")
            if asked:
                first_text, last_text = asked.removeprefix("bytes=").split("-")
                if first_text:
                    first = int(first_text)
                    last = min(last, int(last_text or last))
                else:
                    first = max(0, len(data) - int(last_text))
            part = data[first : last + 1]
            self.send_response(206 if asked else 200)
            self.send_header("Content-Length", str(len(part)))
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("ETag", '"1"')
            if asked:
                self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
            self.end_headers()
            if body:
                self.wfile.write(part)

        def do_GET(self) -> None:
            self.answer(True)

        def do_HEAD(self) -> None:
            self.answer(False)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def ticks() -> Iterator[list[int]]:
    """How often another Python thread, which does so every few milliseconds, came to its turn so far."""
    turns = [0]
    over = threading.Event()

    def run() -> None:
        while not over.wait(0.005):
            turns[0] += 1

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield turns
    finally:
        over.set()
        thread.join()


def parquet() -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"x": [1, 2, 3], "y": [4, 5, 6]}), out)
    return out.getvalue()


def npy() -> bytes:
    out = io.BytesIO()
    np.save(out, np.arange(3))
    return out.getvalue()


def records(folder: Path) -> bytes:
    with fl.io.TFRecordWriter(folder / "records") as writer:
        for word in (b"a", b"b", b"c"):
            writer.write(word)
    return (folder / "records").read_bytes()


def samples(folder: Path, count: int = 3) -> bytes:
    rows = {"__key__": [f"{i:06}" for i in range(count)], "txt": [b"x" * 100] * count}
    fl.Dataset.from_tensor_slices(rows).save_tar(folder / "samples.tar", overwrite=True)
    return (folder / "samples.tar").read_bytes()


READERS: dict[str, Callable[[str], fl.Dataset]] = {
    "a.parquet": fl.ParquetDataset,
    "a.npy": fl.NumpyDataset,
    "a.jsonl": fl.JsonLinesDataset,
    "a.csv": lambda url: fl.data.experimental.make_csv_dataset(url, 3, num_epochs=1, shuffle=False),
    "a.tfrecord": lambda url: fl.TFRecordDataset(url, index=True),
    "a.tar": lambda url: fl.WebDataset(url, index=True),
}


@pytest.mark.parametrize("name", READERS)
def test_other_threads_go_on(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The server is one of those threads: if it were stopped, this would wait for ever.
    monkeypatch.setenv("FEEDLINE_INDEX_DIR", str(tmp_path))
    files = {
        "a.parquet": parquet,
        "a.npy": npy,
        "a.jsonl": lambda: b'{"x": 1}\n{"x": 2}\n{"x": 3}\n',
        "a.csv": lambda: b"x\n1\n2\n3\n",
        "a.tfrecord": lambda: records(tmp_path),
        "a.tar": lambda: samples(tmp_path),
    }
    with slow_server({name: files[name]()}, DELAY) as address, ticks() as turns:
        start = time.monotonic()
        dataset = READERS[name](f"{address}/{name}")
        assert time.monotonic() - start >= DELAY, "nothing was read: the test tests nothing"
        assert turns[0] > SOME
        assert len(list(dataset)) == (1 if name == "a.csv" else 3)


@pytest.mark.parametrize("fields", [None, ["txt"]])
def test_an_index_is_made_of_a_far_tar_file_once(
    fields: list[str] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Members are small, so that headers cannot be had without reading all of it: 3 MB.
    monkeypatch.setenv("FEEDLINE_INDEX_DIR", str(tmp_path / "indexes"))
    requests: list[tuple[float, str]] = []
    with slow_server({"a.tar": samples(tmp_path, 3000)}, 0, requests) as address:
        assert len(fl.WebDataset(f"{address}/a.tar", fields, index=True)) == 3000
        assert any(request.startswith("GET") for _, request in requests)
        requests.clear()
        ds = fl.WebDataset(f"{address}/a.tar", fields, index=True)
        assert len(ds) == 3000
        assert [request for _, request in requests if request.startswith("GET")] == []
        assert ds[2999]["txt"] == b"x" * 100


def test_a_pickled_dataset_is_made_again_without_the_interpreter() -> None:
    import pickle

    with slow_server({"a.parquet": parquet()}, DELAY) as address, ticks() as turns:
        pickled = pickle.dumps(fl.ParquetDataset(f"{address}/a.parquet"))
        assert len(list(pickle.loads(pickled))) == 3
        assert turns[0] > SOME


def test_a_reader_of_fewer_columns_is_made_without_the_interpreter() -> None:
    # `explain` and a pass rewrite the plan, for which the file is opened again.
    archive = io.BytesIO()
    np.savez(archive, x=np.arange(3), y=np.arange(3))
    with slow_server({"a.npz": archive.getvalue()}, DELAY) as address, ticks() as turns:
        for look in (lambda ds: "columns" in ds.explain(), lambda ds: len(list(ds)) == 3):
            assert look(fl.NumpyDataset(f"{address}/a.npz").map(lambda row: row["x"]))
        assert turns[0] > SOME


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize(
    "build", ["fl.ParquetDataset(url)", "fl.TFRecordDataset(url, index=True)", "fl.NumpyDataset([url, url])"]
)
def test_ctrl_c_while_building(build: str, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(
        textwrap.dedent(f"""
            import sys, time
            import feedline as fl

            url = sys.argv[1]
            print("ready", flush=True)
            try:
                {build}
            except KeyboardInterrupt:
                print("interrupted", time.time(), flush=True)
                print("works", [int(x) for x in fl.Dataset.range(3).map(lambda x: x + 1)], flush=True)
        """)
    )
    with slow_server({"a": parquet()}, 5.0) as address:
        process = subprocess.Popen(
            [sys.executable, str(file), f"{address}/a"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            time.sleep(0.5)
            sent = time.time()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=4)
        finally:
            process.kill()
    lines = out.splitlines()
    assert lines and lines[0].startswith("interrupted"), (out, err)
    assert float(lines[0].split()[1]) - sent < 1.0
    assert lines[1] == "works [1, 2, 3]"
    assert process.returncode == 0 and err == ""


def npz() -> bytes:
    archive = io.BytesIO()
    np.savez(archive, x=np.arange(3), y=np.arange(3))
    return archive.getvalue()


WAITS = {
    "by number": ("fl.TFRecordDataset(url + '.tfrecord', index=True)", "ds[1]"),
    "peek": ("fl.TFRecordDataset(url + '.tfrecord')", "ds.peek()"),
    "slice": ("fl.TFRecordDataset(url + '.tfrecord', index=True)", "ds[1:].peek()"),
    "iter": ("fl.NumpyDataset(url + '.npz').map(lambda row: row['x'])", "iter(ds)"),
    "explain": ("fl.NumpyDataset(url + '.npz').map(lambda row: row['x'])", "ds.explain()"),
    "state": ("fl.TFRecordDataset(url + '.tfrecord').shuffle(2, seed=1)", "next(ds.iter(state))"),
    "load": (
        "fl.TFRecordDataset(url + '.tfrecord').shuffle(2, seed=1)",
        "it.load_state_dict(state); next(it)",
    ),
}


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("waits", WAITS)
def test_ctrl_c_while_something_is_read(waits: str, tmp_path: Path) -> None:
    made, call = WAITS[waits]
    file = tmp_path / "program.py"
    file.write_text(
        textwrap.dedent(f"""
            import sys, time
            import feedline as fl

            url = sys.argv[1]
            ds = {made}
            if {waits in ("state", "load")}:
                it = iter(ds)
                next(it)
                state = it.state_dict()
            print("ready", flush=True)
            sys.stdin.readline()
            try:
                {call}
                print("done", flush=True)
            except KeyboardInterrupt:
                print("interrupted", time.time(), flush=True)
                print("works", [int(x) for x in fl.Dataset.range(3).map(lambda x: x + 1)], flush=True)
        """)
    )
    delay = [0.0]
    files = {"a.tfrecord": records(tmp_path), "a.npz": npz()}
    with slow_server(files, delay) as address:
        process = subprocess.Popen(
            [sys.executable, str(file), f"{address}/a"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "FEEDLINE_INDEX_DIR": str(tmp_path / "none" / "here")},
        )
        try:
            assert process.stdout is not None and process.stdin is not None
            assert process.stdout.readline() == "ready\n", process.stderr and process.stderr.read()
            delay[0] = 10.0
            process.stdin.write("\n")
            process.stdin.flush()
            time.sleep(1.0)
            sent = time.time()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=8)
        finally:
            process.kill()
    lines = out.splitlines()
    assert lines and lines[0].startswith("interrupted"), (out, err)
    assert float(lines[0].split()[1]) - sent < 4.0
    assert lines[1] == "works [1, 2, 3]"
    assert process.returncode == 0 and err == ""


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize(
    "build",
    ["fl.NumpyDataset([url + '.npz'] * 100)", "fl.TFRecordDataset([url + '.tfrecord'] * 100, index=True)"],
)
def test_what_was_interrupted_reads_no_further(build: str, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(
        textwrap.dedent(f"""
            import sys, time
            import feedline as fl

            url = sys.argv[1]
            print("ready", flush=True)
            try:
                {build}
            except KeyboardInterrupt:
                print("interrupted", flush=True)
                time.sleep(4)
        """)
    )
    requests: list[tuple[float, str]] = []
    files = {"a.tfrecord": records(tmp_path), "a.npz": npz()}
    with slow_server(files, 0.5, requests) as address:
        process = subprocess.Popen(
            [sys.executable, str(file), f"{address}/a"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "FEEDLINE_INDEX_DIR": str(tmp_path / "none" / "here")},
        )
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            time.sleep(1.0)
            sent = time.time()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)
        finally:
            process.kill()
    assert out == "interrupted\n" and err == "", (out, err)
    assert requests and not [when for when, _ in requests if when > sent + 2]


def test_errors_come_through(tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 this is none PAR1")
    with pytest.raises(fl.errors.DataError, match=r"bad\.parquet"):
        fl.ParquetDataset(tmp_path / "bad.parquet")
    with pytest.raises(FileNotFoundError, match=r"missing\.parquet"):
        fl.ParquetDataset(tmp_path / "missing.parquet")
