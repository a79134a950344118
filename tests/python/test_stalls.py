"""Long waits say what is waited for; a pass can be asked what it is doing."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import feedline as fl
import pytest

PATIENCE = 60
"""Seconds until a test gives up: nothing here takes long unless it hangs."""


class Lines(logging.Handler):
    """Collects what is logged, and wakes whoever waits for so many lines."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.more = threading.Condition()

    def emit(self, record: logging.LogRecord) -> None:
        with self.more:
            self.lines.append(record.getMessage())
            self.more.notify_all()

    def wait_for(self, count: int, what: str = "") -> list[str]:
        with self.more:
            assert self.more.wait_for(lambda: len(self.reports(what)) >= count, PATIENCE), self.lines
            return self.reports(what)

    def reports(self, what: str = "") -> list[str]:
        return [line for line in self.lines if "has waited for" in line and what in line]


@pytest.fixture
def log() -> Iterator[Lines]:
    lines = Lines()
    logger = logging.getLogger("feedline")
    before = logger.level
    logger.addHandler(lines)
    logger.setLevel(logging.WARNING)
    yield lines
    logger.removeHandler(lines)
    logger.setLevel(before)


class Gate:
    """A function that does not come back until it is opened."""

    def __init__(self) -> None:
        self.event = threading.Event()

    def __call__(self, x: Any) -> Any:
        if int(x) == 2:
            assert self.event.wait(PATIENCE)
        return x


def read(it: Any) -> tuple[threading.Thread, list[Any]]:
    """All elements of an iterator, by another thread."""
    got: list[Any] = []
    thread = threading.Thread(target=lambda: got.extend(int(x) for x in it))
    thread.start()
    return thread, got


def test_a_function_that_does_not_come_back_is_named(log: Lines) -> None:
    gate = Gate()
    ds = fl.Dataset.range(4).map(gate, python=True, output_signature=fl.TensorSpec((), fl.int64))
    ds = ds.with_options(stall_seconds=0.02, chunk_rows=1)
    it = iter(ds)
    thread, got = read(it)
    try:
        first, second = log.wait_for(2)[:2]
        shown = it.debug()
        everything = fl.debug.dump()
    finally:
        gate.event.set()
        thread.join(PATIENCE)
    assert got == [0, 1, 2, 3]
    for line in (first, second):
        assert "step 2 has waited for" in line and "map has been at work for" in line, line
    assert "step 2 waits since" in shown and "a worker is at map for" in shown, shown
    assert "pool: 1 of" in shown or "pool: 2 of" in shown, shown
    assert "step 2 waits since" in everything
    assert "not waiting" in it.debug()


def test_a_consumer_that_is_away_is_not_waiting(log: Lines) -> None:
    away = threading.Event()
    it = iter(fl.Dataset.range(3).with_options(stall_seconds=0.0, chunk_rows=3))
    next(it)
    log.lines.clear()
    away.wait(0.2)
    assert [int(x) for x in (next(it), next(it))] == [1, 2]
    assert log.reports() == []


def test_a_store_that_does_not_answer_is_named(log: Lines) -> None:
    opened = threading.Event()
    text = b"line\n" * 1000

    class Slow(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.answer(b"", len(text))

        def do_GET(self) -> None:
            assert opened.wait(PATIENCE)
            first, last = (int(n) for n in self.headers["Range"].removeprefix("bytes=").split("-"))
            part = text[first : last + 1]
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{first + len(part) - 1}/{len(text)}")
            self.answer(part, len(part), begun=True)

        def answer(self, body: bytes, length: int, begun: bool = False) -> None:
            if not begun:
                self.send_response(200)
            self.send_header("Content-Length", str(length))
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("ETag", '"one"')
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/lines.txt"
    got: list[Any] = []
    it = iter(fl.TextLineDataset(url).with_options(stall_seconds=0.02))
    thread = threading.Thread(target=lambda: got.extend(it))
    thread.start()
    try:
        [line, *_] = log.wait_for(1, "bytes of " + url)
        shown = it.debug()
    finally:
        opened.set()
        thread.join(PATIENCE)
        server.shutdown()
        server.server_close()
    assert len(got) == 1000
    assert line.startswith("step 0 has waited") and "text_line waits for" in line and "asked for" in line, (
        line
    )
    assert f"read of {url}" in shown, shown


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="there is no such signal here")
def test_a_signal_writes_what_is_going_on(log: Lines) -> None:
    before = signal.getsignal(signal.SIGUSR1)
    it = iter(fl.Dataset.range(3))
    try:
        fl.debug.on_signal()
        os.kill(os.getpid(), signal.SIGUSR1)
        with log.more:
            assert log.more.wait_for(lambda: any("pool:" in line for line in log.lines), PATIENCE)
    finally:
        signal.signal(signal.SIGUSR1, before)
    it.close()


def test_nothing_is_installed_by_importing() -> None:
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL
    with pytest.raises(ValueError, match="stall_seconds"):
        fl.Dataset.range(3).with_options(stall_seconds=-1)
