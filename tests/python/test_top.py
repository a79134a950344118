"""`feedline top` and `feedline dash`: a process is looked at, through a pseudo-terminal and without one."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import textwrap
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

PATIENCE = 60.0
"""Seconds after which a command counts as hanging."""
PROGRAM = """
    import sys, time
    import feedline as fl
    ds = fl.Dataset.range(10**9).map(lambda x: fl.debugging.assert_none_equal(x % 100, 99, "one too many"))
    ds = ds.batch(8)
    small = fl.Dataset.range(10**9).shuffle(10)
    fl.serve()
    it, other = iter(small), iter(ds)
    print("ready", flush=True)
    while True:
        next(it)
        try:
            next(other)
        except fl.errors.InvalidArgumentError:
            pass
        time.sleep(0.005)
"""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("FEEDLINE_")}
    return {**kept, "XDG_RUNTIME_DIR": str(tmp_path), "TERM": "xterm"}


@contextlib.contextmanager
def started(env: dict[str, str], tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A program that trains, until the block ends."""
    file = tmp_path / "train.py"
    file.write_text(textwrap.dedent(PROGRAM))
    with subprocess.Popen([sys.executable, str(file)], env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


@pytest.fixture
def trainer(env: dict[str, str], tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    with started(env, tmp_path) as process:
        yield process


def command(env: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    line = (sys.executable, "-m", "feedline", *words)
    return subprocess.run(
        line, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


class Screen:
    """A command on a pseudo-terminal."""

    def __init__(self, env: dict[str, str], *words: str, lines: int = 30, columns: int = 100) -> None:
        self.file, other = pty.openpty()
        self.resize(lines, columns)
        line = (sys.executable, "-m", "feedline", *words)
        # A session of its own, so that keys of this terminal become signals of the command.
        self.process = subprocess.Popen(
            line, env=env, stdin=other, stdout=other, stderr=other, preexec_fn=lambda: own_terminal(other)
        )
        os.close(other)
        self.shown = ""

    def resize(self, lines: int, columns: int) -> None:
        fcntl.ioctl(self.file, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read(self) -> bool:
        """Takes what was written by now; False if the command is gone."""
        if not select.select([self.file], [], [], 0.1)[0]:
            return True
        try:
            data = os.read(self.file, 1 << 16)
        except OSError:
            return False
        self.shown += data.decode(errors="replace")
        return bool(data)

    def frame(self) -> list[str]:
        """The last page that was drawn whole, without colors."""
        pages = [page for page in self.shown.split("\x1b[H")[1:] if page.endswith("\x1b[J")]
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", pages[-1]).split("\r\n") if pages else []

    def wait_for(self, text: str) -> list[str]:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            going = self.read()
            if text in "\n".join(self.frame()):
                return self.frame()
            if not going:
                break
        raise AssertionError(f"{text!r} was not shown, but {self.shown[-3000:]!r}")

    def press(self, keys: bytes) -> None:
        os.write(self.file, keys)

    def end(self) -> int:
        """Waits for the end, reading on."""
        end = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < end:
            self.read()
        while self.read() and select.select([self.file], [], [], 0)[0]:
            pass
        return self.process.wait(1)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.file)


def own_terminal(file: int) -> None:
    os.setsid()
    fcntl.ioctl(file, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextlib.contextmanager
def screen(env: dict[str, str], *words: str, lines: int = 30, columns: int = 100) -> Iterator[Screen]:
    made = Screen(env, *words, lines=lines, columns=columns)
    try:
        yield made
    finally:
        made.close()


def test_it_draws_goes_on_and_obeys_keys(env: dict[str, str], trainer: subprocess.Popen[str]) -> None:
    with screen(env, "top") as top:
        first = top.wait_for("range → map → batch")
        assert f"process {trainer.pid}" in first[0] and "train.py" in first[0]
        assert any(line.lstrip("> ").startswith("map(") for line in first)
        top.wait_for("one too many")
        delivered = re.search(r"([\d,]+) delivered", "\n".join(top.frame()))
        assert delivered is not None
        end = time.monotonic() + PATIENCE
        while delivered[0] in "\n".join(top.frame()) and time.monotonic() < end:
            top.read()
        assert delivered[0] not in "\n".join(top.frame()), "numbers change"
        top.press(b"\t")
        top.wait_for("range → shuffle")
        top.press(b"p")
        top.wait_for("paused")
        top.press(b"p")
        top.wait_for("p: pause")
        top.press(b"q")
        assert top.end() == 0
        # The screen is as it was.
        assert top.shown.startswith("\x1b[?1049h") and "\x1b[?25h\x1b[?1049l" in top.shown


def test_it_fits_when_the_terminal_changes(env: dict[str, str], trainer: subprocess.Popen[str]) -> None:
    with screen(env, "top", str(trainer.pid), lines=40, columns=120) as top:
        top.wait_for("range → map → batch")
        for lines, columns in ((8, 40), (3, 12), (50, 200)):
            top.resize(lines, columns)
            seen, end = len(top.shown), time.monotonic() + PATIENCE
            while top.shown.count("\x1b[J", seen) < 2 and time.monotonic() < end:
                top.read()
            page = top.frame()
            assert len(page) <= lines and max(map(len, page)) <= columns
        assert max(map(len, page)) > 60


def test_ctrl_c_ends_it_in_order(env: dict[str, str], trainer: subprocess.Popen[str]) -> None:
    with screen(env, "top") as top:
        top.wait_for("operator")
        attributes = termios.tcgetattr(top.file)
        assert not attributes[3] & termios.ECHO
        top.press(b"\x03")
        assert top.end() == 130
        assert "\x1b[?25h\x1b[?1049l" in top.shown
        assert termios.tcgetattr(top.file)[3] & termios.ECHO


def test_the_end_of_the_process_is_told(env: dict[str, str], trainer: subprocess.Popen[str]) -> None:
    with screen(env, "top") as top:
        top.wait_for("operator")
        trainer.kill()
        trainer.wait()
        assert top.end() == 0
        assert f"process {trainer.pid} has ended" in top.shown


def test_without_a_terminal_it_prints_once(env: dict[str, str], trainer: subprocess.Popen[str]) -> None:
    done = command(env, "top")
    assert done.returncode == 0, done.stderr
    assert "range → map → batch" in done.stdout and "range → shuffle" in done.stdout
    assert "\x1b" not in done.stdout
    told = json.loads(command(env, "top", "--json", str(trainer.pid)).stdout)
    assert told["process"]["pid"] == trainer.pid and len(told["pipelines"]) == 2


def test_dash_says_where(env: dict[str, str], trainer: subprocess.Popen[str]) -> None:
    done = command(env, "dash")
    assert done.returncode == 0, done.stderr
    with urllib.request.urlopen(done.stdout.strip(), timeout=PATIENCE) as page:
        assert b"<title>feedline</title>" in page.read()
    told = json.loads(command(env, "dash", "--json").stdout)
    assert told == {"pid": trainer.pid, "url": done.stdout.strip()}


@pytest.mark.parametrize("name", ["top", "dash"])
def test_nobody_to_look_at(env: dict[str, str], name: str) -> None:
    none = command(env, name)
    assert none.returncode == 2 and "FEEDLINE_SERVE=1" in none.stderr
    other = command(env, name, "1")
    assert other.returncode == 2 and "process 1 cannot be looked at" in other.stderr


def test_of_several_one_must_be_named(
    env: dict[str, str], trainer: subprocess.Popen[str], tmp_path: Path
) -> None:
    second = tmp_path / "second"
    second.mkdir()
    with started(env, second) as other:
        done = command(env, "dash")
        assert done.returncode == 2
        assert str(trainer.pid) in done.stderr and str(other.pid) in done.stderr
        assert json.loads(command(env, "dash", "--json", str(other.pid)).stdout)["pid"] == other.pid


def test_a_process_that_does_not_answer(env: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "feedline"
    folder.mkdir()
    left = {"pid": os.getpid(), "host": "127.0.0.1", "port": 1, "token": "t", "program": "p"}
    (folder / f"{os.getpid()}.json").write_text(json.dumps(left))
    done = command(env, "top")
    assert done.returncode == 1 and "does not answer on port 1" in done.stderr
