"""What metering costs: the instructions of all that measures, as a share of those of a whole pass.

    python bench/metering.py                # into results/metering.md; wants valgrind

The pipelines are W1 and W3, in Rust alone (`crates/feedline/benches/metering.rs`). Callgrind counts the instructions of every
source line, also where the compiler has put a function into another one. Those of the meters and the clock are metering,
wherever they were called from; so is what they call.
"""
from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
# What the issue asks for.
CASES = {"numbers": ("W1", 0.05), "pictures": ("W3", 0.01)}
# Files whose every line measures, and functions of the C library that they call.
FILES = re.compile(r"(runtime/(meter|spans)\.rs|std/src/time\.rs|pal/unix/time\.rs|sys/time/\w+\.rs|core/src/time\.rs)$")
FUNCTIONS = re.compile(r"^(clock_gettime|__vdso_clock_gettime|getrusage)")


def built() -> Path:
    command = ["cargo", "bench", "-p", "feedline", "--features", "turbo", "--bench", "metering", "--no-run",
               "--message-format=json"]
    told = subprocess.run(command, cwd=HERE.parent, check=True, stdout=subprocess.PIPE, text=True).stdout
    names = [json.loads(line).get("executable") for line in told.splitlines()]
    return Path(next(name for name in reversed(names) if name))


def costs(path: Path) -> Iterator[tuple[str, str, int]]:
    """File, function and instructions of every line of a profile that is a function's own.

    Names are written once, with a number, and only the number from then on. The line behind `calls=` has what was spent in
    the function that was called, which is told there already."""
    names: dict[tuple[str, str], str] = {}

    def name(kind: str, text: str) -> str:
        number, _, rest = text.partition(" ")
        if not number.startswith("("):
            return text
        if rest:
            names[kind, number] = rest
        return names.get((kind, number), number)

    at = {"file": "", "function": ""}
    called = False
    for line in path.read_text().splitlines():
        key, found, text = line.partition("=")
        if found and key in ("fl", "fi", "fe", "cfi", "cfl"):
            file = name("file", text)
            if not key.startswith("c"):
                at["file"] = file
        elif found and key in ("fn", "cfn"):
            function = name("function", text)
            if key == "fn":
                at["function"] = function
        elif found and key in ("ob", "cob"):
            continue
        elif key == "calls":
            called = True
        elif line[:1] in "0123456789+-*" and line:
            if not called:
                yield at["file"], at["function"], int(line.split()[1])
            called = False


def measure(program: Path, which: str) -> tuple[int, int, dict[str, int]]:
    """All instructions of a pass, those that measure, and the latter by file or function."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "profile"
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", str(program), which]
        subprocess.run(command, check=True, stdout=sys.stderr, stderr=subprocess.DEVNULL)
        total, parts = 0, defaultdict(int)
        for file, function, instructions in costs(out):
            total += instructions
            if FILES.search(file):
                parts[Path(file).name] += instructions
            elif FUNCTIONS.search(function):
                parts[function.split("@")[0]] += instructions
    return total, sum(parts.values()), dict(parts)


HEAD = """# What metering costs

Written by `make bench-metering`: instructions of a pass in Rust on one worker, and those of them that measure.

| pipeline | instructions | of these metering | share | at most | where |
|---|--:|--:|--:|--:|---|
"""


def main() -> None:
    program, text, wrong = built(), HEAD, []
    for which, (workload, most) in CASES.items():
        total, metering, parts = measure(program, which)
        where = ", ".join(f"{name} {count:,}" for name, count in sorted(parts.items(), key=lambda one: -one[1]))
        text += f"| {workload} | {total:,} | {metering:,} | {metering / total:.2%} | {most:.0%} | {where} |\n"
        if not 0 < metering / total < most:
            wrong.append(f"{workload}: {metering / total:.2%}")
    print(text)
    (HERE / "results" / "metering.md").write_text(text)
    if wrong:
        raise SystemExit("not as asked for: " + "; ".join(wrong))


if __name__ == "__main__":
    main()
