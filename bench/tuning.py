"""What AUTOTUNE reaches, beside the best of a few configurations set by hand, on pipelines whose costs are known.

    python bench/tuning.py [NAME ...] [--warm 10] [--window 3] [--out bench/results]

Each run is a process of its own. AUTOTUNE is measured after `--warm` seconds, hand-set configurations (a number of parallel
calls, a length of the last queue) after a fifth of that; they take turns with it. Beside rates: the most threads that were
seen, workers and those that wait for reads; what a consumer that sleeps costs; how much slower a consumer's own work is. The
machine should have nothing else to do. Rates are of this run alone: only their ratios mean something elsewhere."""
from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent
CORES = len(os.sched_getaffinity(0))
MANY = 10**15
# (parallel calls, elements ahead)
GRID = [(1, 2), (2, 8), (CORES, 1), (CORES, 16), (2 * CORES, 64)]
# What the issue asks for: the share of the best rate, the CPU of a sleeper, the slow-down of a consumer's own work.
LEAST_RATIO, MOST_ASLEEP, MOST_SLOWER = 0.95, 0.02, 0.03


@dataclass(frozen=True)
class Case:
    """`make(fl, calls, folder, shift)`: the pipeline, with `calls` parallel calls, whose costs change at `shift` if at all.

    `consumer`: what the loop does with each element: nothing, `work` (seconds of computing), or `sleep` (seconds)."""

    make: Callable[[Any, int, Path, float], Any]
    tells: str
    work: float = 0.0
    sleep: float = 0.0


def heavy(fl: Any, items: Any) -> Callable[[Any], Any]:
    """Native work: some ten nanoseconds an item. `items` is a number, or makes one of the element."""

    def function(x: Any) -> Any:
        count = items(x) if callable(items) else items
        grid = fl.cast(fl.range(count), fl.float32) + fl.cast(x, fl.float32)
        return fl.reduce_sum(fl.sin(grid) * fl.cos(grid))

    return function


def python(fl: Any, function: Callable[[Any], Any], calls: int) -> dict[str, Any]:
    return {"map_func": function, "python": True, "num_parallel_calls": calls,
            "output_signature": fl.TensorSpec((), fl.int64)}


def spin(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def spinning(seconds: float) -> Callable[[Any], Any]:
    return lambda x: (spin(seconds), x)[1]


def sleeping(before: float, after: float, shift: float) -> Callable[[Any], Any]:
    return lambda x: (time.sleep(before if time.monotonic() < shift else after), x)[1]


def tailed(fl: Any) -> Callable[[Any], Any]:
    """Half of the elements are cheap, one in a hundred costs fifty times as much."""
    import numpy as np

    drawn = np.minimum(np.random.default_rng(1).pareto(1.1, 4096) * 500 + 500, 60_000).astype(np.int64)
    return lambda x: fl.gather(drawn, x % 4096)


def stored(fl: Any, folder: Path, files: int, records: int, size: int, first_byte_s: float) -> list[str]:
    from store import served

    names = []
    for number in range(files):
        names.append(str(folder / f"{number:04}.tfrecord"))
        with fl.io.TFRecordWriter(names[-1]) as out:
            for record in range(records):
                out.write(bytes([record % 256]) * size)
    return served(names, first_byte_s)


def remote(files: int, records: int, size: int, first_byte_s: float) -> Callable[[Any, int, Path, float], Any]:
    def make(fl: Any, calls: int, folder: Path, shift: float) -> Any:
        names = stored(fl, folder, files, records, size, first_byte_s)
        read = fl.Dataset.from_tensor_slices(names).repeat().interleave(
            fl.TFRecordDataset, cycle_length=16, num_parallel_calls=calls)
        return read.map(lambda r: fl.strings.length(r), num_parallel_calls=calls).batch(8)

    return make


CASES: dict[str, Case] = {
    "fixed": Case(lambda fl, calls, folder, shift: fl.Dataset.range(MANY).map(
        heavy(fl, 8000), num_parallel_calls=calls).batch(4), "one function of a fixed cost"),
    "tiny": Case(lambda fl, calls, folder, shift: fl.Dataset.range(MANY).map(
        lambda x: x * 2 + 1, num_parallel_calls=calls).batch(256), "a function that costs less than a call"),
    "heavy-tailed": Case(lambda fl, calls, folder, shift: fl.Dataset.range(MANY).map(
        heavy(fl, tailed(fl)), num_parallel_calls=calls).batch(8), "costs with a heavy tail"),
    "uneven": Case(lambda fl, calls, folder, shift: fl.Dataset.range(MANY).map(
        heavy(fl, 6000), num_parallel_calls=calls).filter(lambda x: x == x).map(
        heavy(fl, 500), num_parallel_calls=calls).batch(8), "two functions, one twelve times the other"),
    "alternating": Case(lambda fl, calls, folder, shift: fl.Dataset.range(MANY).map(
        heavy(fl, lambda x: fl.where(x // 4000 % 2 == 0, 300, 6000)), num_parallel_calls=calls).batch(8),
        "every 4,000 elements the cost is another one"),
    "shuffled": Case(lambda fl, calls, folder, shift: fl.Dataset.range(MANY).shuffle(10_000, seed=1).map(
        heavy(fl, 1000), num_parallel_calls=calls).batch(32), "a buffer in front of it"),
    "shifting": Case(lambda fl, calls, folder, shift: fl.Dataset.range(MANY).map(
        **python(fl, sleeping(0.0005, 0.004, shift), calls)).batch(4), "a Python call that waits; then eight times as long"),
    "python": Case(lambda fl, calls, folder, shift: fl.Dataset.range(MANY).map(
        **python(fl, spinning(0.0002), calls)).batch(16), "a Python function that computes"),
    "far": Case(remote(64, 64, 16 << 10, 0.03), "files of a megabyte from a slow store"),
    "far and small": Case(remote(256, 8, 2 << 10, 0.03), "small files from a slow store"),
    "slow consumer": Case(lambda fl, calls, folder, shift: fl.Dataset.range(MANY).map(
        heavy(fl, 1000), num_parallel_calls=calls).batch(8), "a loop that computes 5 ms an element", work=0.005),
    "sleeping consumer": Case(lambda fl, calls, folder, shift: fl.Dataset.range(MANY).map(
        heavy(fl, 1000), num_parallel_calls=calls).batch(8), "a loop that sleeps 50 ms an element", sleep=0.05),
}


def threads() -> tuple[int, int]:
    """Workers, and other threads of ours: those that wait for reads."""
    names = []
    for task in os.listdir("/proc/self/task"):
        try:
            names.append(Path("/proc/self/task", task, "comm").read_text().strip())
        except OSError:
            continue
    ours = [name.removeprefix("feedline-") for name in names if name.startswith("feedline-")]
    workers = sum(name.isdigit() for name in ours)
    return workers, len(ours) - workers


def counted(most: list[int], over: threading.Event) -> None:
    while not over.wait(0.1):
        most[:] = map(max, most, threads())


def consume(elements: Iterator[Any], case: Case, seconds: float) -> tuple[int, float, float]:
    """Elements, seconds, and the seconds of the loop's own work."""
    count, own, begin = 0, 0.0, time.perf_counter()
    while (now := time.perf_counter()) - begin < seconds:
        next(elements)
        count += 1
        if case.work:
            own += worked(case.work)
        if case.sleep:
            time.sleep(case.sleep)
    return count, now - begin, own


def worked(seconds: float) -> float:
    """How long a fixed amount of work takes, that takes so many seconds on a machine of its own."""
    begin, total = time.perf_counter(), 0
    for n in range(int(seconds * LOOPS_A_SECOND)):
        total += n
    return time.perf_counter() - begin


LOOPS_A_SECOND = 2e7


def child(name: str, calls: int, ahead: int, warm: float, window: float) -> dict[str, Any]:
    """One run, in this process."""
    import feedline as fl

    case, most, over = CASES[name], [0, 0], threading.Event()
    with tempfile.TemporaryDirectory() as folder:
        ds = case.make(fl, calls or fl.AUTOTUNE, Path(folder), time.monotonic() + warm / 2)
        if ahead:
            ds = ds.prefetch(ahead)
        alone = [worked(case.work) for _ in range(50)] if case.work else []
        watch = threading.Thread(target=counted, args=(most, over), daemon=True)
        watch.start()
        elements = iter(ds)
        consume(elements, case, warm)
        cpu = time.process_time()
        count, seconds, own = consume(elements, case, window)
        cpu = time.process_time() - cpu
        over.set()
        watch.join()
        del elements
        alone += [worked(case.work) for _ in alone]
        for server in sys.modules["store"].SERVERS if "store" in sys.modules else []:
            server.kill()
            server.wait()
    return {"rate": count / seconds, "cpu": cpu / seconds, "workers": most[0], "io": most[1],
            "budget": fl.configuration()["cpu_budget"], "slower": own / count / median(alone) - 1 if alone else None}


def run(name: str, calls: int, ahead: int, warm: float, window: float) -> dict[str, Any]:
    command = [sys.executable, __file__, "--child", name, str(calls), str(ahead), str(warm), str(window)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20 * (warm + window) + 120)
    if done.returncode != 0:
        raise SystemExit(f"{name}: {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def measure(name: str, warm: float, window: float) -> dict[str, Any]:
    """AUTOTUNE before, between and after the others: what the machine does meanwhile falls on all alike."""
    auto, by_hand = [run(name, 0, 0, warm, window)], []
    for number, (calls, ahead) in enumerate(GRID):
        by_hand.append({"calls": calls, "ahead": ahead, **run(name, calls, ahead, warm / 5, window)})
        if number == len(GRID) // 2:
            auto.append(run(name, 0, 0, warm, window))
    auto.append(run(name, 0, 0, warm, window))
    return {"auto": auto, "by_hand": by_hand}


def line(name: str, found: dict[str, Any]) -> tuple[str, list[str]]:
    """The row of the table, and what is not as it should be."""
    auto = sorted(found["auto"], key=lambda r: r["rate"])[len(found["auto"]) // 2]
    best = max(found["by_hand"], key=lambda r: r["rate"])
    ratio, workers = auto["rate"] / best["rate"], max(r["workers"] for r in found["auto"])
    case, wrong = CASES[name], []
    if ratio < LEAST_RATIO:
        wrong.append(f"{name}: {ratio:.2f} of the best by hand")
    if workers > auto["budget"]:
        wrong.append(f"{name}: {workers} workers, {auto['budget']} are allowed")
    if case.sleep and auto["cpu"] - awake(case) > MOST_ASLEEP:
        wrong.append(f"{name}: {auto['cpu']:.3f} CPUs while the consumer sleeps")
    if auto["slower"] is not None and auto["slower"] > MOST_SLOWER:
        wrong.append(f"{name}: the consumer's own work takes {auto['slower']:.1%} longer")
    slower = "" if auto["slower"] is None else f"{auto['slower']:+.1%}"
    cells = [name, case.tells, f"{auto['rate']:,.0f}", f"{best['rate']:,.0f}", f"{best['calls']}, {best['ahead']}",
             f"{ratio:.2f}", f"{workers} of {auto['budget']} + {auto['io']}", f"{auto['cpu']:.2f}", slower]
    return "| " + " | ".join(cells) + " |", wrong


def awake(case: Case) -> float:
    """CPUs that the elements take which a sleeper does read: 8,000 items of 15 ns each."""
    return 8000 * 15e-9 / case.sleep


HEAD = """# AUTOTUNE beside what is set by hand

Written by `make bench-tuning`: elements a second after {warm:g} s of AUTOTUNE (the median of three runs), and of the best of
{grid} configurations (parallel calls, elements ahead) in the same session, on {cores} cores.

| pipeline | | AUTOTUNE | best by hand | which | ratio | threads: workers, I/O | CPUs | consumer slower |
|---|---|---|---|---|---|---|---|---|
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*CASES, []], metavar="NAME")
    parser.add_argument("--warm", type=float, default=10)
    parser.add_argument("--window", type=float, default=3)
    parser.add_argument("--out", type=Path, default=HERE / "results")
    given = parser.parse_args()
    text, wrong = HEAD.format(warm=given.warm, grid=len(GRID), cores=CORES), []
    print(text, end="")
    for name in given.names or CASES:
        row, bad = line(name, measure(name, given.warm, given.window))
        print(row, flush=True)
        text, wrong = text + row + "\n", wrong + bad
    print("\n".join(["", *wrong] if wrong else ["", "All as asked for."]))
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "tuning.md").write_text(text + "\n" + "\n".join(f"- {w}" for w in wrong) + ("\n" if wrong else ""))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(child(sys.argv[2], *map(int, sys.argv[3:5]), *map(float, sys.argv[5:7]))))
    else:
        main()
