"""Which cores are used, also when that changes while a pipeline runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import feedline as fl
import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux says which thread may run where")


def run(code: str, *words: str) -> Any:
    """What a program prints, as JSON."""
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


AFFINITY = """if True:
    import json, os, threading, time
    from pathlib import Path
    import feedline as fl

    def workers():
        found = []
        for task in Path("/proc/self/task").iterdir():
            name = (task / "comm").read_text().strip()
            if name.startswith("feedline-") and name[9:].isdigit():
                found.append(sorted(os.sched_getaffinity(int(task.name))))
        return found

    def consume(seconds):
        # Long enough for whoever looks once a second.
        end, used, begun = time.monotonic() + seconds, time.process_time(), time.monotonic()
        while time.monotonic() < end:
            next(it)
        return (time.process_time() - used) / (time.monotonic() - begun)

    def now(seconds=2.5):
        consume(seconds)
        cpus = consume(1)
        return fl.configuration()["cpu_budget"], max(map(len, workers())), workers(), cpus

    cores = sorted(os.sched_getaffinity(0))
    it = iter(fl.Dataset.range(1 << 40).map(lambda x: fl.reduce_sum(fl.sort(fl.fill([20_000], x)))))
    told = [now(1)]
    os.sched_setaffinity(0, cores[:1])
    told.append(now())
    # A thread that asks has its own cores; it is the process that counts.
    asked = []
    def ask():
        os.sched_setaffinity(0, cores)
        asked.append(fl.configuration()["cpu_budget"])
    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    os.sched_setaffinity(0, cores)
    told.append(now())
    print(json.dumps([cores, told, asked]))
"""


def test_affinities_that_change_are_followed() -> None:
    """Fewer cores and more again: the budget, where workers may run, and what the process takes."""
    cores, (before, narrow, after), asked = run(AFFINITY)
    for found in (before, after):
        assert found[0] == len(cores)
        assert all(worker == cores for worker in found[2])
    assert narrow[0] == 1 and asked == [1]
    assert all(worker == cores[:1] for worker in narrow[2])
    # All of its threads share one core.
    assert narrow[3] <= 1.1


EXPLAINED = """if True:
    import json, os, time
    import feedline as fl

    def said():
        text = next(line.strip() for line in it.explain().splitlines() if "at once (" in line)
        told = json.loads(it.explain("json"))
        chosen = told["tuning"][0]
        assert chosen["what"] == "workers" and told["pass"]["cores"] == chosen["value"]
        return [text, chosen["value"], chosen["why"]]

    cores = sorted(os.sched_getaffinity(0))
    ds = fl.Dataset.range(1 << 40).map(lambda x: fl.reduce_sum(fl.fill([20_000], x)))
    it = iter(ds)
    next(it)
    found = [said()]
    os.sched_setaffinity(0, cores[:1])
    # Also while nobody works, since the queue is full.
    found.append(said())
    end = time.monotonic() + 2.5
    while time.monotonic() < end:
        next(it)
    found.append(said())
    fl.configure(cpu_budget=5)
    found.append(said())
    it.close()
    # What it was like at its end.
    fl.configure(cpu_budget=3)
    found.append(said())
    it = iter(ds.with_options(cpu_budget=2))
    found.append(said())
    fl.configure(cpu_budget=1)
    found.append(said())
    print(json.dumps([len(cores), found]))
"""


def test_a_running_pass_tells_the_workers_that_it_has_now() -> None:
    cores, (before, *found) = run(EXPLAINED)
    machine, asked = "as many cores as this process may use", "cpu_budget asks for it"
    assert before[1:] == [cores, machine]
    alone, five = [f"1 worker at once ({machine})", 1, machine], [f"5 workers at once ({asked})", 5, asked]
    own = "the pipeline's cpu_budget asks for it"
    assert found == [
        alone,
        alone,
        five,
        five,
        [f"2 workers at once ({own})", 2, own],
        [f"1 worker at once ({asked})", 1, asked],
    ]


TOLD = """if True:
    import json, queue, sys
    import feedline as fl

    arrived, late = queue.Queue(), []

    def told():
        for i in range(3):
            yield i
            try:
                arrived.get(timeout=20)
            except queue.Empty:
                late.append(i)

    whose, behind = sys.argv[1:]
    ds = fl.Dataset.from_generator(told, output_signature=fl.TensorSpec((), fl.int64))
    if behind == "calls":
        ds = ds.map(lambda x: x + 1, num_parallel_calls=2).map(lambda x: x - 1, num_parallel_calls=1)
    else:
        ds = ds.map(lambda x: x).prefetch(2)
    if whose == "process":
        fl.configure(cpu_budget=1)
    else:
        ds = ds.with_options(cpu_budget=1)
    found = []
    for x in ds.with_options(chunk_rows=1):
        found.append(int(x))
        arrived.put(x)
    print(json.dumps([found, late]))
"""


@pytest.mark.parametrize("whose", ["process", "pipeline"])
@pytest.mark.parametrize("behind", ["calls", "prefetch"])
def test_a_generator_may_wait_for_the_loop(whose: str, behind: str) -> None:
    """It has the only thread, and gives nothing until the loop has what it gave before."""
    assert run(TOLD, whose, behind) == [[0, 1, 2], []]


NICE = """if True:
    import json, os
    from pathlib import Path
    import feedline as fl

    def nice(process):
        return int(Path("/proc", process, "stat").read_text().rpartition(")")[2].split()[16])

    os.nice(2)
    # Started by whichever thread comes to it.
    ds = fl.Dataset.range(40).map(abs, python=True, workers=2)
    it = iter(ds)
    total = int(next(it))
    children = [path.read_text().split() for path in Path("/proc/self/task").glob("*/children")]
    found = sorted(nice(child) for some in children for child in some)
    total += sum(int(x) for x in it)
    print(json.dumps([total, found]))
"""


def test_worker_processes_are_nicer_than_the_loop_that_trains() -> None:
    """By 3, as the threads are."""
    total, found = run(NICE)
    assert total == sum(range(40))
    assert found and set(found) == {5}


@pytest.mark.parametrize("option", [{"cpu_budget": 1}, {"leave_cores": 100}])
def test_explain_tells_what_a_pipeline_may_use(option: dict[str, int]) -> None:
    """Its own settings, if they are less than those of the process."""
    ds = fl.Dataset.range(100).map(lambda x: x + 1).with_options(**option)
    it = iter(ds)
    assert len(list(it)) == 100
    chosen = json.loads(ds.explain("json"))["tuning"]
    workers = next(choice for choice in chosen if choice["what"] == "workers")
    assert workers["value"] == 1 and next(iter(option)) in workers["why"]


def test_the_limit_of_a_process_is_a_share_of_what_there_is() -> None:
    """Three quarters of what the machine has, or the control group allows."""
    code = "import feedline as fl, json; print(json.dumps(fl.configuration()['memory_limit']))"
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    allowed = [physical]
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers or "memory" in controllers.split(","):
            base = Path("/sys/fs/cgroup") / ("memory" if controllers else "")
            name = "memory.limit_in_bytes" if controllers else "memory.max"
            group = base / path.lstrip("/")
            for folder in (group, *group.parents):
                if (folder / name).exists() and (text := (folder / name).read_text().strip()).isdigit():
                    allowed.append(int(text))
    assert run(code) == min(allowed) // 4 * 3
