"""What AUTOTUNE reaches, beside the best of a few configurations set by hand, on pipelines whose costs are known.

    python bench/tuning.py [NAME ...] [--warm 6] [--seconds 300] [--out bench/results]

Each is a process of its own: AUTOTUNE, which runs `--warm` seconds, and each configuration (a number of parallel calls, a length
of the last queue, sometimes rows a chunk), which runs a fifth of that. Then they take turns, short parts of a second each, in
another order every round: what a shared machine does meanwhile, which is more than what is measured here, falls on all of a
round alike. So rates are compared within rounds, and the ratio is the median of these. There are rounds until its standard
error is small, or for `--seconds`: files that come in bursts want more of them than sums. (In one process they shared workers and
Python's lock, of which there is one: whoever came behind one that still filled a long queue was slower for it.) Those that
are far behind are left out after a few rounds. Which is the best is taken from every second round, and compared in
the others, and the other way round: the luckiest of several that are equally good is no measure. Where elements cost
differently, a turn counts what those cost that came in it, and not how many they were: of costs with a heavy tail another
turn of 800 has a tenth more.

Beside rates: the most threads that were seen, workers and those that wait for reads; what a consumer that sleeps costs; how
much slower a consumer's own work is right after it took an element, when there is one to make, than a moment later. The
rates are of this run alone: only ratios mean something elsewhere."""
from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
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
# (parallel calls, elements ahead, rows a chunk if they are set, too). The interleaves of CASES have 16 datasets at once.
GRID = [(1, 2, 0), (CORES, 1, 0), (CORES, 16, 0), (2 * CORES, 64, 0), (16, 64, 0), (CORES, 16, 16), (CORES, 16, 256)]
# What the issue asks for: the share of the best rate, the CPU of a sleeper, the slow-down of a consumer's own work.
LEAST_RATIO, MOST_ASLEEP, MOST_SLOWER = 0.95, 0.02, 0.03
# Threads that wait and do not compute: reads, jobs such as listing folders, the network's, and that which hands on messages.
MOST_IO = 8 + 8 + 2 + 1
# Seconds of a turn, the first of which do not count: what was made ahead while others had theirs is used up. Workers hand it on
# between their steps, and one of 256 rows takes up to 30 ms.
SETTLE_S, WINDOW_S = 0.1, 0.15
# How long one that fills its queue is waited for, and how long it is looked at to see whether it still does.
MOST_FILLING_S, LOOK_S = 2.0, 0.02
# How long a call alone is looked at.
ALONE_S = 0.1
LEAST_ROUNDS = 12
# The standard error of a ratio that is good enough.
MOST_ERROR = 0.01
# In a batch of those whose elements cost differently.
ROWS = 8
# A configuration that is slower than this share of the best one need not be measured to the end.
BEHIND = 0.85


@dataclass(frozen=True)
class Case:
    """`make(fl, calls, folder, shift)`: the pipeline, with `calls` parallel calls, whose costs change at `shift` if at all.

    What the loop does with each element: nothing, `work` (seconds of computing), or `sleep` (seconds). `few`: so few come in
    a second, or of such different costs, that turns have to be several times as long. Chunks of more than `most_rows` would
    take longer than a turn: what they have made before it would count in it. `costs` tells of the numbers that rows are made
    of what each costs, if they differ."""

    make: Callable[[Any, int, Path, float], Any]
    tells: str
    work: float = 0.0
    sleep: float = 0.0
    few: bool = False
    most_rows: int = 256
    costs: Callable[[Any], Any] | None = None
    # The call that each of its rows is, and how many an element has.
    call: Callable[[Any], Any] | None = None
    rows: int = 1

    @property
    def times(self) -> int:
        return 4 if self.few else 1


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


def computing(seconds: float) -> Callable[[Any], Any]:
    """A fixed amount of work: if it ended at a time, what passes while another thread has Python's lock would be done, too."""
    return lambda x: (worked(seconds), x)[1]


def sleeping(before: float, after: float, shift: float) -> Callable[[Any], Any]:
    return lambda x: (time.sleep(before if time.monotonic() < shift else after), x)[1]


def tailed(x: Any) -> Any:
    """Items of these numbers: half of them are cheap, one in a hundred costs fifty times as much."""
    import feedline as fl
    import numpy as np

    drawn = np.minimum(np.random.default_rng(1).pareto(1.1, 4096) * 500 + 500, 60_000).astype(np.int64)
    return drawn[x % 4096] if isinstance(x, np.ndarray) else fl.gather(drawn, x % 4096)


def alternating(x: Any) -> Any:
    import feedline as fl
    import numpy as np

    return (np if isinstance(x, np.ndarray) else fl).where(x // 400 % 2 == 0, 300, 6000)


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
        heavy(fl, tailed), num_parallel_calls=calls).batch(ROWS), "costs with a heavy tail", few=True, costs=tailed),
    "uneven": Case(lambda fl, calls, folder, shift: fl.Dataset.range(MANY).map(
        heavy(fl, 6000), num_parallel_calls=calls).filter(lambda x: x == x).map(
        heavy(fl, 500), num_parallel_calls=calls).batch(8), "two functions, one twelve times the other"),
    "alternating": Case(lambda fl, calls, folder, shift: fl.Dataset.range(MANY).map(
        heavy(fl, alternating), num_parallel_calls=calls).batch(ROWS), "every 400 elements the cost is another one",
        few=True, costs=alternating),
    "shuffled": Case(lambda fl, calls, folder, shift: fl.Dataset.range(MANY).shuffle(10_000, seed=1).map(
        heavy(fl, 1000), num_parallel_calls=calls).batch(32), "a buffer in front of it"),
    "shifting": Case(lambda fl, calls, folder, shift: fl.Dataset.range(MANY).map(
        **python(fl, sleeping(0.0005, 0.004, shift), calls)).batch(4), "a Python call that waits; then eight times as long",
        few=True, most_rows=16),
    "python": Case(lambda fl, calls, folder, shift: fl.Dataset.range(MANY).map(
        **python(fl, computing(0.0002), calls)).batch(16), "a Python function that computes", few=True,
        call=computing(0.0002), rows=16),
    "far": Case(remote(64, 64, 16 << 10, 0.03), "files of a megabyte from a slow store", few=True),
    "far and small": Case(remote(256, 8, 2 << 10, 0.03), "small files from a slow store", few=True),
    "slow consumer": Case(lambda fl, calls, folder, shift: fl.Dataset.range(MANY).map(
        heavy(fl, 1000), num_parallel_calls=calls).batch(8), "a loop that computes 10 ms an element", work=0.005, few=True),
    "sleeping consumer": Case(lambda fl, calls, folder, shift: fl.Dataset.range(MANY).map(
        heavy(fl, 1000), num_parallel_calls=calls).batch(8), "a loop that sleeps 50 ms an element", sleep=0.05, few=True),
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


def consume(elements: Iterator[Any], case: Case, seconds: float) -> dict[str, float]:
    """Elements, seconds, and the seconds of the loop's own work: with an element to make, and without."""
    count, own, alone, begin = 0, 0.0, 0.0, time.perf_counter()
    while (now := time.perf_counter()) - begin < seconds:
        next(elements)
        count += 1
        if case.work:
            own += worked(case.work)
            alone += worked(case.work)
        if case.sleep:
            time.sleep(case.sleep)
    return {"count": count, "seconds": now - begin, "own": own, "alone": alone}


def worked(seconds: float) -> float:
    """How long a fixed amount of work takes, that takes so many seconds on a machine of its own."""
    begin, total = time.perf_counter(), 0
    for n in range(int(seconds * LOOPS_A_SECOND)):
        total += n
    return time.perf_counter() - begin


LOOPS_A_SECOND = 2e7


def child(name: str, number: int, warm: float) -> None:
    """One configuration, the first of them AUTOTUNE: says when it is warm, takes a turn for each line that it reads, and says
    at last how many threads there were."""
    import feedline as fl

    case, most, over = CASES[name], [0, 0], threading.Event()
    calls, ahead, rows = [(0, 0, 0), *GRID][number]
    with tempfile.TemporaryDirectory() as folder:
        watch = threading.Thread(target=counted, args=(most, over), daemon=True)
        watch.start()
        ds = case.make(fl, calls or fl.AUTOTUNE, Path(folder), time.monotonic() + (0 if calls else warm / 2))
        ds = ds.prefetch(ahead) if ahead else ds
        elements = Counted(ds.with_options(chunk_rows=rows) if rows else ds)
        consume(elements, case, warm / 5 if calls else warm)
        still()
        print("warm", flush=True)
        try:
            # Until it is told to end, or whoever told it is gone.
            for line in iter(sys.stdin.readline, ""):
                if line == "end\n":
                    break
                print(json.dumps(turn(elements, case)), flush=True)
        finally:
            for server in sys.modules["store"].SERVERS if "store" in sys.modules else []:
                server.kill()
                server.wait()
        over.set()
        watch.join()
    print(json.dumps({"workers": most[0], "io": most[1], "budget": fl.configuration()["cpu_budget"]}), flush=True)


class Counted:
    """Elements, and how many were taken."""

    def __init__(self, elements: Any) -> None:
        self.elements, self.count = iter(elements), 0

    def __iter__(self) -> Counted:
        return self

    def __next__(self) -> Any:
        self.count += 1
        return next(self.elements)


class Child:
    """A configuration in its process."""

    def __init__(self, name: str, number: int, warm: float) -> None:
        command = [sys.executable, __file__, "--child", name, str(number), str(warm)]
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        self.line()

    def line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.errors.seek(0)
            raise SystemExit(self.errors.read())
        return line

    def told(self, what: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        return json.loads(self.line())

    def end(self) -> None:
        """It ends its servers first."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.errors.close()


def turn(elements: Counted, case: Case) -> dict[str, float]:
    """One measurement. Over when the queue is full again, so that whoever is next has the machine."""
    consume(elements, case, SETTLE_S * case.times)
    cpu, first = time.process_time(), elements.count
    found = consume(elements, case, WINDOW_S * case.times)
    found["cpu"] = time.process_time() - cpu
    if case.costs:
        import numpy as np

        found["cost"] = float(case.costs(np.arange(first * ROWS, elements.count * ROWS)).sum())
    still()
    if case.call:
        found["cost"] = found["count"] * case.rows * alone(case.call)
    return found


def alone(call: Callable[[Any], Any]) -> float:
    """Seconds of a call when nothing is beside it."""
    begin = time.perf_counter()
    for calls in itertools.count(1):
        call(calls)
        if (taken := time.perf_counter() - begin) > ALONE_S:
            return taken / calls
    raise AssertionError


def still() -> None:
    """Waits until this process hardly computes, or for `MOST_FILLING_S`."""
    begin = time.monotonic()
    while time.monotonic() - begin < MOST_FILLING_S:
        cpu = time.process_time()
        time.sleep(LOOK_S)
        if time.process_time() - cpu < LOOK_S / 5:
            return


def a_second(turns: list[dict[str, float]], what: str) -> float:
    return sum(turn[what] for turn in turns) / sum(turn["seconds"] for turn in turns)


def rate(case: Case, turns: list[dict[str, float]]) -> float:
    """Elements a second, or what they cost if they differ. Where the loop works itself: the share of the time that this work takes when nothing is beside it,
    which does not depend on how fast the machine is just then."""
    return a_second(turns, "alone" if case.work else "cost" if case.costs or case.call else "count")


def measure(name: str, warm: float, seconds: float) -> dict[str, Any]:
    """All configurations of one pipeline: of each its turns, the first of them AUTOTUNE."""
    case = CASES[name]
    begin = time.monotonic()
    running: list[Child] = []
    try:
        for number in range(len(GRID) + 1):
            running.append(Child(name, number, warm))
        turns: list[list[dict[str, float]]] = [[] for _ in running]
        order = [0, *(number for number, (_, _, rows) in enumerate(GRID, 1) if rows <= case.most_rows)]
        for number in itertools.count(1):
            random.shuffle(order)
            for which in order:
                turns[which].append(running[which].told("turn"))
            late = time.monotonic() - begin > seconds
            if number >= LEAST_ROUNDS and (late or ratio_to_best(case, turns)[2] <= MOST_ERROR):
                break
            if number == LEAST_ROUNDS // 2:
                best = max(rate(case, own) for own in turns[1:] if own)
                order = [which for which in order if which == 0 or rate(case, turns[which]) > BEHIND * best]
        seen = [process.told("end") for process in running]
    finally:
        for process in running:
            process.end()
    return {"turns": turns, **{what: max(each[what] for each in seen) for what in ("workers", "io", "budget")}}


def ratio_to_best(case: Case, turns: list[list[dict[str, float]]]) -> tuple[float, int, float]:
    """AUTOTUNE's rate as a share of that of the best by hand, which that is, and the standard error of the share."""
    auto, *by_hand = turns
    # In a turn of a slow one there may be nothing.
    shares = {number: [rate(case, [a]) / max(rate(case, [b]), 1e-9) for a, b in zip(auto, own, strict=True)]
              for number, own in enumerate(by_hand) if len(own) == len(auto)}
    ratios = []
    for half in (0, 1):
        best = min(shares, key=lambda number: median(shares[number][half::2]))
        ratios.append(median(shares[best][1 - half::2]))
    best = min(shares, key=lambda number: median(shares[number]))
    middle = median(shares[best])
    # Of a median, as far as what is measured is normal; its spread as that of the middle half, so that single turns count little.
    spread = 1.4826 * median(abs(share - middle) for share in shares[best])
    return sum(ratios) / 2, best, 1.2533 * spread / len(auto) ** 0.5


def line(name: str, found: dict[str, Any]) -> tuple[str, list[str]]:
    """The row of the table, and what is not as it should be."""
    auto, *by_hand = found["turns"]
    ratio, best, error = ratio_to_best(CASES[name], found["turns"])
    case, wrong, workers, budget = CASES[name], [], found["workers"], found["budget"]
    cpu = a_second(auto, "cpu")
    slower = a_second(auto, "own") / a_second(auto, "alone") - 1 if case.work else 0.0
    if ratio < LEAST_RATIO:
        wrong.append(f"{name}: {ratio:.2f} of the best by hand")
    if workers > budget:
        wrong.append(f"{name}: {workers} workers, {budget} are allowed")
    if found["io"] > MOST_IO:
        wrong.append(f"{name}: {found['io']} threads that wait for reads")
    if case.sleep and cpu - awake(case) > MOST_ASLEEP:
        wrong.append(f"{name}: {cpu:.3f} CPUs while the consumer sleeps")
    if case.work and slower > MOST_SLOWER:
        wrong.append(f"{name}: the consumer's own work takes {slower:.1%} longer")
    cells = [name, case.tells, f"{a_second(auto, 'count'):,.0f}", f"{a_second(by_hand[best], 'count'):,.0f}",
             "{}, {}".format(*GRID[best]) + (f", {GRID[best][2]}" if GRID[best][2] else ""), f"{ratio:.2f} ± {error:.2f}", f"{workers} of {budget} + {found['io']}", f"{cpu:.2f}",
             f"{slower:+.1%}" if case.work else ""]
    return "| " + " | ".join(cells) + " |", wrong


def awake(case: Case) -> float:
    """CPUs that the elements take which a sleeper does read: 8,000 items of 15 ns each."""
    return 8000 * 15e-9 / case.sleep


HEAD = """# AUTOTUNE beside what is set by hand

Written by `make bench-tuning`: elements a second after {warm:g} s of AUTOTUNE, and of the best of {grid} configurations
(parallel calls, elements ahead, rows a chunk where they are set) that take turns with it, each in a process, on {cores} cores, {seconds:g} s at most. The ratio is
the median of those within rounds of turns, with its standard error; of "python" that of the shares of its time in which a process
called the function, since not all processes call it equally fast. Of "shifting" chunks of 256 rows are left out: one takes longer than a turn.

| pipeline | | AUTOTUNE | best by hand | which | ratio | threads: workers, I/O | CPUs | consumer slower |
|---|---|---|---|---|---|---|---|---|
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*CASES, []], metavar="NAME")
    parser.add_argument("--warm", type=float, default=6)
    parser.add_argument("--seconds", type=float, default=300, help="for all turns of a pipeline, at most")
    parser.add_argument("--out", type=Path, default=HERE / "results")
    given = parser.parse_args()
    text, wrong = HEAD.format(warm=given.warm, grid=len(GRID), cores=CORES, seconds=given.seconds), []
    print(text, end="")
    for name in given.names or CASES:
        row, bad = line(name, measure(name, given.warm, given.seconds))
        print(row, flush=True)
        text, wrong = text + row + "\n", wrong + bad
    print("\n".join(["", *wrong] if wrong else ["", "All as asked for."]))
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "tuning.md").write_text(text + "\n" + "\n".join(f"- {w}" for w in wrong) + ("\n" if wrong else ""))
    if wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
    else:
        main()
