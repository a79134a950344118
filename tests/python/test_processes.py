"""Signals, the end of the interpreter, forks, and datasets that travel to other processes."""

from __future__ import annotations

import copy
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any, NamedTuple

import feedline as fl
import numpy as np
import pytest

D = fl.Dataset
posix = pytest.mark.skipif(sys.platform == "win32", reason="signals and forks of POSIX")
SLACK = 1.5
"""Seconds within which a program must have answered a signal; generous for a busy machine."""

# Ctrl-C

WAITS = {
    "a loop in C that never waits": """
        import collections
        ds = fl.Dataset.range(1 << 40).batch(8)
        ready()
        collections.deque(ds, 0)
    """,
    "a loop in C over plain values": """
        ds = fl.Dataset.range(1 << 40)
        ready()
        max(map(abs, ds))
    """,
    "a python function that sleeps": """
        def slow(x):
            time.sleep(0.05)
            return x
        ds = fl.Dataset.range(1_000_000).map(slow, python=True).batch(100_000)
        ready()
        next(iter(ds))
    """,
    "a generator that sleeps": """
        def slow():
            while True:
                time.sleep(0.05)
                yield 1
        ds = fl.Dataset.from_generator(slow, output_signature=fl.TensorSpec((), fl.int64)).batch(100_000)
        ready()
        next(iter(ds))
    """,
    "a native loop without end": """
        ds = fl.Dataset.counter().filter(lambda x: x < 0)
        ready()
        next(iter(ds))
    """,
    "a native loop in reduce": """
        ds = fl.Dataset.range(1 << 60)
        ready()
        ds.reduce(np.int64(0), lambda s, x: s + x)
    """,
    "a large shuffle buffer": """
        ds = fl.Dataset.range(1 << 40).map(lambda x: fl.fill([0], x)).shuffle(1 << 40)
        ready()
        next(iter(ds))
    """,
    "skipping": """
        ds = fl.Dataset.range(1 << 60).filter(lambda x: x >= 0).skip(1 << 59)
        ready()
        next(iter(ds))
    """,
    "a loop over many elements": """
        ds = fl.Dataset.counter()
        ready()
        for x in ds:
            pass
    """,
    "reading the length of everything": """
        ds = fl.Dataset.counter().filter(lambda x: x < 0)
        ready()
        list(ds)
    """,
}

FRAME = """
import sys, time
import feedline as fl
import numpy as np

def ready():
    print("ready", flush=True)

try:
{body}
except KeyboardInterrupt:
    print("interrupted", time.time(), flush=True)
    print("works", [int(x) for x in fl.Dataset.range(3).map(lambda x: x + 1)], flush=True)
else:
    print("not interrupted", flush=True)
"""


@posix
@pytest.mark.parametrize("kind", WAITS)
def test_ctrl_c_is_answered(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(FRAME.format(body=textwrap.indent(textwrap.dedent(WAITS[kind]), "    ")))
    process = subprocess.Popen(
        [sys.executable, str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        sent = time.time()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=8)
    except subprocess.TimeoutExpired:
        raise AssertionError("the program hangs after the signal") from None
    finally:
        process.kill()
    lines = out.splitlines()
    assert lines and lines[0].startswith("interrupted"), (out, err)
    assert float(lines[0].split()[1]) - sent < SLACK
    assert lines[1] == "works [1, 2, 3]"
    assert process.returncode == 0 and err == ""


@posix
def test_ctrl_c_without_a_handler_ends_the_program(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(
        "import feedline as fl\n"
        "ds = fl.Dataset.counter().filter(lambda x: x < 0)\n"
        "print('ready', flush=True)\n"
        "next(iter(ds))\n"
    )
    process = subprocess.Popen(
        [sys.executable, str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=8)
    finally:
        process.kill()
    assert process.returncode == -signal.SIGINT
    assert err.rstrip().endswith("KeyboardInterrupt") and "program.py" in err


@posix
def test_an_iterator_goes_on_after_ctrl_c(program: Any) -> None:
    result = program("""
        import os, signal, threading, time
        import feedline as fl

        def slow(x):
            time.sleep(0.1)
            return x

        it = iter(fl.Dataset.range(8).map(slow, python=True).batch(4))
        threading.Timer(0.15, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            next(it)
            print("missed")
        except KeyboardInterrupt:
            print([batch.tolist() for batch in it])
    """)
    assert result.stdout == "[[0, 1, 2, 3], [4, 5, 6, 7]]\n"


# The end of the interpreter

ENDS = {
    "a live iterator": """
        it = iter(fl.Dataset.counter().map(lambda x: x + 1).batch(10).prefetch(10))
        next(it)
    """,
    "many live iterators": """
        its = [iter(fl.Dataset.counter().map(lambda x: x + 1).shuffle(100)) for _ in range(50)]
        [next(it) for it in its]
    """,
    "a generator that is blocked": """
        def blocked():
            yield 1
            threading.Event().wait()
        it = iter(fl.Dataset.from_generator(blocked, output_signature=fl.TensorSpec((), fl.int64)))
        next(it)
        time.sleep(0.2)
    """,
    "a generator that sleeps": """
        def sleepy():
            yield 1
            time.sleep(1000)
        it = iter(fl.Dataset.from_generator(sleepy, output_signature=fl.TensorSpec((), fl.int64)))
        next(it)
        time.sleep(0.2)
    """,
    "python functions in workers": """
        def work(x):
            return sum(range(1000)) + int(x)
        it = iter(fl.Dataset.counter().map(work, python=True).prefetch(100))
        next(it)
    """,
    "python functions that sleep a little": """
        def work(x):
            time.sleep(0.05)
            return x
        it = iter(fl.Dataset.counter().map(work, python=True).prefetch(100))
        next(it)
    """,
    "a python function that sleeps": """
        def work(x):
            if x > 2:
                time.sleep(1000)
            return x
        it = iter(fl.Dataset.counter().map(work, python=True).prefetch(100))
        next(it)
        time.sleep(0.2)
    """,
    "a closed iterator whose generator goes on": """
        go = threading.Event()
        def waiting():
            yield 1
            go.wait()
            yield 2
        it = iter(fl.Dataset.from_generator(waiting, output_signature=fl.TensorSpec((), fl.int64)))
        next(it)
        time.sleep(0.2)
        it.close()
        go.set()
    """,
    "an iterator in a cycle": """
        class Holder:
            pass
        holder = Holder()
        holder.me = holder
        holder.it = iter(fl.Dataset.counter().map(lambda x: int(x), python=True))
        next(holder.it)
    """,
    "a thread that reads": """
        def read():
            for _ in fl.Dataset.counter().map(lambda x: int(x), python=True):
                pass
        threading.Thread(target=read, daemon=True).start()
        time.sleep(0.2)
    """,
    "an iterator read at exit": """
        import atexit
        it = iter(fl.Dataset.counter().map(lambda x: x + 1))
        next(it)
        atexit.register(lambda: next(it))
    """,
    "an object that iterates when it is deleted": """
        class Late:
            def __del__(self):
                list(fl.Dataset.range(3))
        late = Late()
        late.me = late
        list(fl.Dataset.range(3))
    """,
    "an exception that was kept": """
        def fail(x):
            raise ValueError(x)
        kept = []
        try:
            list(fl.Dataset.range(3).map(fail, python=True, output_signature=fl.TensorSpec((), fl.int64)))
        except ValueError as error:
            kept.append(error)
    """,
}


@pytest.mark.parametrize("kind", ENDS)
def test_the_interpreter_ends_cleanly(kind: str, program: Any) -> None:
    head = "import threading, time\nimport feedline as fl\n"
    for _ in range(2):  # what goes wrong here goes wrong now and then
        result = program(head + textwrap.dedent(ENDS[kind]) + "print('end')\n")
        assert result.stdout == "end\n"


@pytest.mark.parametrize(
    "kind", ["a live iterator", "python functions in workers", "a generator that is blocked"]
)
def test_sys_exit_gives_its_code(kind: str, program: Any) -> None:
    head = "import sys, threading, time\nimport feedline as fl\n"
    program(head + textwrap.dedent(ENDS[kind]) + "sys.exit(3)\n", code=3)


# Forks


@posix
def test_a_fork_in_the_middle(program: Any) -> None:
    result = program("""
        import os, sys
        import feedline as fl

        ds = fl.Dataset.range(1000).map(lambda x: x * 2).batch(10)
        it = iter(ds)
        assert next(it).tolist() == list(range(0, 20, 2))
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            assert sum(int(batch.sum()) for batch in ds) == 999000
            assert list(fl.Dataset.range(3).map(lambda x: int(x), python=True)) == [0, 1, 2]
            try:
                next(it)
            except Exception as error:
                print("child:", type(error).__name__, "fork" in str(error), flush=True)
            else:
                print("child: no error", flush=True)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert status == 0, status
        assert sum(int(batch.sum()) for batch in it) == 999000 - 90
        print("parent: done")
    """)
    first, second = result.stdout.splitlines()
    assert second == "parent: done"
    assert first.startswith("child: ") and first.endswith(" True")


@posix
def test_a_child_of_a_fork_ends_by_itself(program: Any) -> None:
    """Also by the normal way out, with iterators of the parent still there."""
    result = program("""
        import os, sys
        import feedline as fl

        it = iter(fl.Dataset.counter().map(lambda x: int(x), python=True).prefetch(10))
        next(it)
        child = os.fork()
        if child == 0:
            list(fl.Dataset.range(10).batch(3))
            sys.exit(5)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), int(next(it)))
    """)
    assert result.stdout == "5 1\n"


@posix
def test_forks_while_workers_are_busy(program: Any) -> None:
    result = program("""
        import os
        import feedline as fl

        it = iter(fl.Dataset.counter().map(lambda x: fl.fill([1000], x)).batch(100))
        next(it)
        for _ in range(20):
            child = os.fork()
            if child == 0:
                total = sum(int(x) for x in fl.Dataset.range(100).map(lambda x: x + 1).shuffle(10))
                os._exit(0 if total == 5050 else 1)
            _, status = os.waitpid(child, 0)
            assert status == 0, status
            next(it)
        print("done")
    """)
    assert result.stdout == "done\n"


@posix
def test_children_use_what_busy_threads_of_the_parent_use(program: Any) -> None:
    """Memory, seeds, caches and tables of the same datasets, at any moment."""
    result = program("""
        import os, signal, threading
        import feedline as fl
        import numpy as np

        table = fl.lookup.StaticHashTable(
            fl.lookup.KeyValueTensorInitializer(np.arange(9), np.arange(9) * 2), np.int64(-1)
        )
        nested = fl.Dataset.range(20).flat_map(lambda x: fl.Dataset.range(x).shuffle(9, seed=1).cache())
        pictures = nested.map(lambda x: fl.fill([64, 64], table.lookup(x % 9))).batch(16)
        stop = False

        def read():
            while not stop:
                for _ in pictures:
                    if stop:
                        break

        threads = [threading.Thread(target=read) for _ in range(2)]
        [thread.start() for thread in threads]
        it = iter(pictures.repeat())
        for _ in range(20):
            next(it)
            child = os.fork()
            if child == 0:
                signal.alarm(30)
                ok = sum(len(batch) for batch in pictures) == 190
                del it
                os._exit(0 if ok else 1)
            _, status = os.waitpid(child, 0)
            assert status == 0, status
        stop = True
        [thread.join() for thread in threads]
        print("done")
    """)
    assert result.stdout == "done\n"


@posix
def test_a_pool_of_forked_processes(program: Any) -> None:
    result = program("""
        import multiprocessing
        import feedline as fl

        ds = fl.Dataset.range(100).map(lambda x: x + 1)

        def total(shard):
            return sum(int(x) for x in ds.shard(4, shard))

        list(ds)
        with multiprocessing.get_context("fork").Pool(4) as pool:
            print(sum(pool.map(total, range(4))))
    """)
    assert result.stdout == "5050\n"


@pytest.mark.parametrize("start", ["spawn", "forkserver"])
def test_a_dataset_in_a_process_that_starts_anew(program: Any, start: str) -> None:
    result = program(f"""
        import multiprocessing
        import feedline as fl
        import numpy as np

        def square(x):
            return int(x) ** 2

        def total(ds):
            return sum(int(x) for x in ds)

        if __name__ == "__main__":
            arrays = fl.Dataset.from_tensor_slices(np.arange(10)).map(lambda x: x + 1)
            python = fl.Dataset.range(5).map(square, python=True)
            scripts = fl.Dataset.range(5).map(lambda x: int(x) + 1, python=True)
            with multiprocessing.get_context("{start}").Pool(1) as pool:
                print(pool.map(total, [arrays, python, scripts]))
    """)
    assert result.stdout == "[55, 30, 15]\n"


# Pickle


class Pair(NamedTuple):
    """A structure with a class."""

    a: Any
    b: Any


def square(x: Any) -> int:
    """A function of a module."""
    return int(x) ** 2


def three() -> Any:
    """A generator of a module."""
    yield from range(3)


SCALAR = fl.TensorSpec((), fl.int64)
DATASETS = {
    "range": D.range(5),
    "arrays": D.from_tensor_slices((np.arange(6.0).reshape(3, 2), np.arange(3))),
    "strings": D.from_tensor_slices(["a", "ü"]),
    "structure": D.from_tensor_slices({"p": Pair([1, 2], [3, 4])}),
    "none": D.from_tensors((1, None)),
    "list": D.from_list([[1], [1, 2]]),
    "ragged": D.from_tensors(fl.ragged.constant([[1], [2, 3]])),
    "ragged_batch": D.range(3).map(lambda x: fl.range(x)).ragged_batch(2),
    "sparse": D.from_tensors(fl.SparseTensor([[0, 1]], [5], [2, 2])),
    "traced": D.range(5).map(lambda x: {"x": x * 2, "y": np.sqrt(x)}),
    "captured array": D.range(3).map(lambda x: fl.gather(np.arange(10, 13), x)),
    "cond": D.range(4).map(lambda x: fl.cond(x > 1, lambda: x, lambda: -x)),
    "flat_map": D.range(4).flat_map(lambda x: D.range(x).map(lambda y: x + y)),
    "filter": D.range(6).filter(lambda x: x % 2 == 0),
    "scan": D.range(4).scan(np.int64(0), lambda s, x: (s + x, s)),
    "group_by_window": D.range(6).group_by_window(lambda x: x % 2, lambda k, w: w.batch(3), 3),
    "window": D.range(6).window(2).flat_map(lambda w: w.batch(2)),
    "zip": D.zip({"a": D.range(3), "b": (D.range(3),)}),
    "shuffle": D.range(10).shuffle(10, seed=3),
    "random": D.range(4).map(lambda x: fl.random.normal([2], seed=1)),
    "options": D.range(4).with_options(cpu_budget=1, deterministic=False),
    "module function": D.range(4).map(square, python=True),
    "lambda as python": D.range(4).map(lambda x: int(x) + 1, python=True),
    "numpy_function": D.range(4).map(lambda x: fl.numpy_function(square, [x], fl.int64)),
    "generator": D.from_generator(three, output_signature=SCALAR),
    "generator with args": D.from_generator(lambda n: range(n), output_signature=SCALAR, args=(3,)),
    "padded_batch": D.range(4).map(lambda x: fl.fill([x], x)).padded_batch(2, padding_values=np.int64(-1)),
    "cache": D.range(3).cache().repeat(2),
}


def values(dataset: Any) -> list[Any]:
    return [repr(element) for element in dataset]


@pytest.mark.parametrize("kind", DATASETS)
def test_pickled_datasets_are_equal(kind: str) -> None:
    dataset = DATASETS[kind]
    data = pickle.dumps(dataset)
    made, again = pickle.loads(data), pickle.loads(data)
    assert made.element_spec == dataset.element_spec
    assert made.cardinality() == dataset.cardinality()
    assert made.options() == dataset.options()
    assert repr(made) == repr(dataset)
    assert values(made) == values(again)
    if kind not in ("shuffle", "random"):
        assert values(made) == values(dataset)


@pytest.mark.parametrize(
    "kind", [kind for kind in DATASETS if "python" not in kind and "generator" not in kind]
)
def test_fingerprints_survive_pickling(kind: str) -> None:
    dataset = DATASETS[kind]
    assert pickle.loads(pickle.dumps(dataset)).fingerprint() == dataset.fingerprint()


@pytest.mark.parametrize("kind", DATASETS)
def test_deep_copies_are_equal(kind: str) -> None:
    dataset = DATASETS[kind]
    made = copy.deepcopy(dataset)
    assert type(made) is type(dataset)
    assert made.element_spec == dataset.element_spec
    if kind not in ("shuffle", "random"):
        assert values(made) == values(dataset)
    assert copy.copy(dataset).element_spec == dataset.element_spec


def test_a_pickled_dataset_starts_with_the_first_epoch() -> None:
    dataset = D.range(10).shuffle(10, seed=3)
    data = pickle.dumps(dataset)
    first = values(dataset)
    values(dataset)
    assert values(pickle.loads(data)) == first


@pytest.mark.parametrize(
    "spec",
    [
        fl.TensorSpec((None, 3), fl.float16),
        fl.TensorSpec(None, fl.string),
        fl.RaggedTensorSpec((2, None), fl.int32),
        fl.SparseTensorSpec((2, 3), fl.float64),
        fl.NoneSpec(),
        fl.DatasetSpec((fl.TensorSpec((), fl.int64), {"a": fl.NoneSpec()})),
    ],
    ids=str,
)
def test_specs_can_be_pickled_and_copied(spec: Any) -> None:
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert copy.deepcopy(spec) == spec
    assert hash(copy.deepcopy(spec)) == hash(spec)


@pytest.mark.parametrize(
    "value", [fl.ragged.constant([[1], [2, 3]]), fl.SparseTensor([[0]], [1], [3])], ids=repr
)
def test_ragged_and_sparse_values_can_be_pickled(value: Any) -> None:
    assert pickle.loads(pickle.dumps(value)) == value


def test_iterators_and_symbols_refuse_to_be_pickled() -> None:
    with pytest.raises(TypeError):
        pickle.dumps(iter(D.range(3)))
    with pytest.raises(TypeError, match="symbolic"):
        D.range(3).map(lambda x: pickle.dumps(x) and x, native=True)


def test_fingerprints_are_the_same_in_every_process(program: Any) -> None:
    source = """
        import feedline as fl
        import numpy as np
        ds = fl.Dataset.from_tensor_slices({"x": np.arange(5), "y": list("abcde")}).shuffle(3, seed=1)
        print(ds.map(lambda d: {"z": d["x"] * 2.5, "y": d["y"]}).batch(2).fingerprint())
    """
    first = program(source).stdout
    assert first == program(source, env={"PYTHONHASHSEED": "5"}).stdout and len(first) > 8


DIFFERENT = [
    D.range(5),
    D.range(6),
    D.range(5).batch(2),
    D.range(5).batch(3),
    D.range(5).batch(2, drop_remainder=True),
    D.range(5).map(lambda x: x + 1),
    D.range(5).map(lambda x: x + 2),
    D.range(5).shuffle(3, seed=1),
    D.range(5).shuffle(3, seed=2),
    D.from_tensor_slices(np.arange(5)),
    D.from_tensor_slices(np.arange(1, 6)),
    D.from_tensor_slices(np.arange(5, dtype=np.int32)),
    D.from_tensor_slices(["a"]),
    D.from_tensor_slices(["b"]),
]


def test_different_pipelines_have_different_fingerprints() -> None:
    assert len({dataset.fingerprint() for dataset in DIFFERENT}) == len(DIFFERENT)
    assert D.range(5).batch(2).fingerprint() == D.range(5).batch(2).fingerprint()


# The environment


def test_settings_from_the_environment(program: Any) -> None:
    source = """
        import feedline as fl
        settings = fl.configuration()
        print(settings["cpu_budget"], settings["memory_limit"])
        print(sum(int(x) for x in fl.Dataset.range(10).map(lambda x: x + 1)))
    """
    result = program(source, env={"FEEDLINE_CPU_BUDGET": "3", "FEEDLINE_MEMORY_LIMIT": "64MB"})
    assert result.stdout.split() == ["3", str(64 << 20), "55"]
    result = program(source, env={"FEEDLINE_CPU_BUDGET": "1", "FEEDLINE_MEMORY_LIMIT": "1000000"})
    assert result.stdout.split() == ["1", "1000000", "55"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("FEEDLINE_CPU_BUDGET", "many"),
        ("FEEDLINE_CPU_BUDGET", "0"),
        ("FEEDLINE_CPU_BUDGET", "-1"),
        ("FEEDLINE_MEMORY_LIMIT", "much"),
        ("FEEDLINE_MEMORY_LIMIT", "0"),
        ("FEEDLINE_LOG", "LOUD"),
    ],
)
def test_wrong_settings_in_the_environment_name_the_variable(name: str, value: str, program: Any) -> None:
    result = program("import feedline", env={name: value}, code=1, clean=False)
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("ValueError") and name in last


def test_empty_variables_are_not_set(program: Any) -> None:
    program(
        "import feedline as fl; print(list(fl.Dataset.range(2)))",
        env={"FEEDLINE_CPU_BUDGET": "", "FEEDLINE_MEMORY_LIMIT": "", "FEEDLINE_LOG": ""},
    )


@pytest.mark.parametrize(("level", "told"), [("", True), ("WARNING", True), ("error", False)])
def test_the_log_level(level: str, told: bool, program: Any) -> None:
    source = """
        import feedline as fl
        print(list(fl.Dataset.range(2).map(lambda x: int(x))))
    """
    result = program(source, env={"FEEDLINE_LOG": level}, clean=False)
    assert ("runs as Python" in result.stderr) == told


def test_importing_is_quiet_and_light(program: Any) -> None:
    result = program("""
        import sys
        import feedline
        print(sorted({"numpy", "torch", "tensorflow", "jax", "pandas", "cloudpickle"} & set(sys.modules)))
    """)
    assert result.stdout == "[]\n"
