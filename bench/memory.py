"""What pipelines take of memory: feedline with `memory_limit` and with more than it needs, beside tf.data.

    make bench-memory                       # into results/memory.md

The pipelines are those of tests/memory, in tf.data those of memory_tfdata.py; each is a process of its own. A peak
is the highest resident size above that of the idle process, in which the library has already run a small pipeline. tf.data
has no limit to set; its pipelines use AUTOTUNE, as its guide says.
"""
from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from environments import interpreter
from machine import machine

HERE = Path(__file__).resolve().parent
MEMORY = HERE.parent / "tests" / "memory"
LIMIT = 64 << 20
ROOMY = 4 << 30
# What is asked for.
MOST = 1.1
NAMES = {
    "heavy_tailed": "3,000 elements of 16 kB to 8 MB",
    "heavy_tailed_stopped": "the same, and the consumer stops for a while",
    "heavy_tailed_ahead": "the same with `prefetch(1000)` twice",
    "heavy_tailed_batches": "ragged batches of 4 of them",
    "shuffled": "`shuffle(512)` of records of 64 kB, 8 files at a time",
    "shuffled_stopped": "the same, and the consumer stops for a while",
    "shuffled_lines": "`shuffle(20_000)` of lines of 10 bytes",
    "interleaved": "records of 64 kB, 64 files at a time",
    "interleaved_stopped": "the same, and the consumer stops for a while",
    "interleaved_long": "records of 1.5 MB, 64 files at a time",
    "windows": "windows of 64 records, each 16 further",
    "cache_keep": "`cache()` of 134 MB: what fits is kept",
    "cache_spill": "`cache()` of 134 MB: the rest goes to disk",
}


def run(command: list[str]) -> dict[str, Any]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=HERE)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def measured(name: str, folder: str, python: str, other: str) -> dict[str, Any]:
    child = str(MEMORY / "child.py")
    limited, roomy = (run([python, child, name, str(limit), folder]) for limit in (LIMIT, ROOMY))
    there = run([other, str(HERE / "memory_tfdata.py"), "cache" if name.startswith("cache") else name, folder])
    same = {(r["elements"], r["total"]) for r in (limited, roomy, there)}
    return {"limited": limited, "roomy": roomy, "tfdata": there, "same": len(same) == 1}


def of_limit(found: dict[str, Any]) -> float:
    return (found["limited"]["peak"] - 2 * found["limited"]["largest"]) / LIMIT


def row(name: str, tells: str, found: dict[str, Any]) -> str:
    limited, roomy, there = found["limited"], found["roomy"], found["tfdata"]
    cells = [name, tells, *(f"{r['peak'] / 1e6:,.0f}" for r in (limited, roomy, there)), f"{of_limit(found):.2f}",
             f"{there['peak'] / limited['peak']:.1f}", "yes" if found["same"] else "no"]
    return "| " + " | ".join(cells) + " |"


HEAD = """# What pipelines take of memory

Written by `bench/memory.py` (`make bench-memory`), which says what is measured.

{when}: {cpu}, {cores} cores, {memory_gib} GiB, Linux {linux}. MB above the idle process; the limit is {limit:.1f} MB. *Of the
limit* leaves out two of the largest elements, which the consumer has; 1.1 is asked for.

| pipeline | | with the limit | with 4 GiB | tf.data | of the limit | tf.data x | same elements |
|---|---|--:|--:|--:|--:|--:|---|
"""


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    python, other = str(interpreter("feedline", None)), str(interpreter("tfdata", None))
    text = HEAD.format(when=time.strftime("%Y-%m-%d"), limit=LIMIT / 1e6, **machine())
    print(text, end="", flush=True)
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        write = "import sys; sys.path.insert(0, sys.argv[1]); import written; written.write(written.Path(sys.argv[2]))"
        subprocess.run([python, "-c", write, str(MEMORY), folder], check=True)
        for name, tells in NAMES.items():
            found = measured(name, folder, python, other)
            line = row(name, tells, found)
            print(line, flush=True)
            text += line + "\n"
            if of_limit(found) > MOST or not found["same"]:
                wrong.append(name)
    (HERE / "results" / "memory.md").write_text(text)
    if wrong:
        raise SystemExit(f"more than {MOST} of the limit, or other elements: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
