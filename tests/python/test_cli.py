"""The command line as Python installs it: the same as the Rust binary, and Ctrl-C ends it in order."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import feedline as fl
import pytest
from feedline.cli import main

LIMIT = 60
"""Seconds after which a command counts as hanging."""


def command(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    words = (sys.executable, "-m", "feedline", *words)
    return subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=LIMIT, check=False)


def write(path: Path, rows: int) -> None:
    with fl.io.TFRecordWriter(str(path)) as writer:
        for n in range(rows):
            features = {"n": fl.train.Feature(int64_list=fl.train.Int64List(value=[n]))}
            example = fl.train.Example(features=fl.train.Features(feature=features))
            writer.write(example.SerializeToString())


def test_commands_work(tmp_path: Path) -> None:
    write(tmp_path / "a.tfrecord", 10)
    assert command("--version", cwd=tmp_path).stdout.startswith("feedline ")
    counted = command("count", "--json", "a.tfrecord", cwd=tmp_path)
    assert (counted.returncode, json.loads(counted.stdout)["records"]) == (0, 10)
    assert command("convert", "a.tfrecord", "a.jsonl", cwd=tmp_path).returncode == 0
    assert (tmp_path / "a.jsonl").read_text().splitlines()[3] == '{"n":3}'
    assert command("verify", "a.tfrecord", "a.jsonl", cwd=tmp_path).returncode == 0


def test_exit_codes(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "a.tfrecord"
    write(data, 3)
    assert main(["verify", str(data)]) == 0
    assert "3 records" in capfd.readouterr().out
    damaged = bytearray(data.read_bytes())
    damaged[14] ^= 1
    data.write_bytes(damaged)
    assert main(["verify", str(data)]) == 1
    assert "at byte 0" in capfd.readouterr().out
    assert main(["verify", str(tmp_path / "none")]) == 1
    assert main(["conquer"]) == 2
    assert "conquer" in capfd.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_no_half_file(tmp_path: Path, number: signal.Signals) -> None:
    write(tmp_path / "few.tfrecord", 100)
    (tmp_path / "many.tfrecord").write_bytes((tmp_path / "few.tfrecord").read_bytes() * 20_000)
    out = tmp_path / "out"
    out.mkdir()
    words = [sys.executable, "-m", "feedline", "convert", "many.tfrecord", "out/a.jsonl.gz"]
    process = subprocess.Popen(
        words, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    until = time.monotonic() + LIMIT
    while not os.listdir(out):
        assert process.poll() is None, "it ended before it wrote anything"
        assert time.monotonic() < until
        time.sleep(0.001)
    process.send_signal(number)
    _, said = process.communicate(timeout=LIMIT)
    assert process.returncode == 130, said
    assert "interrupted" in said and "Traceback" not in said
    assert os.listdir(out) == []
