"""Python functions in worker processes: what comes out, what goes wrong, and what is left behind."""

from __future__ import annotations

import gc
import os
import pickle
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import feedline as fl
import numpy as np
import pytest
from outcomes import outcomes

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX")
D = fl.Dataset
SCALAR = fl.TensorSpec((), fl.int64)


def kinds(dataset: Any) -> list[Any]:
    """Elements, and classes of exceptions in the places of others."""
    return [type(found) if isinstance(found, Exception) else found for found in outcomes(dataset)]


def triple(x: Any) -> Any:
    return x * 3


# What comes out


@pytest.mark.parametrize("workers", [1, 3, fl.AUTOTUNE])
@pytest.mark.parametrize("chunk_rows", [None, 1, 7])
def test_results_come_in_order(workers: int, chunk_rows: int | None) -> None:
    dataset = D.range(60).map(triple, python=True, workers=workers)
    dataset = dataset.with_options(chunk_rows=chunk_rows)
    assert [int(x) for x in dataset] == [x * 3 for x in range(60)]
    assert len(dataset) == 60


def test_other_processes_do_the_work_side_by_side(tmp_path: Path) -> None:
    def met(x: Any) -> Any:
        (tmp_path / str(os.getpid())).touch()
        while len(os.listdir(tmp_path)) < 2:
            time.sleep(0.001)
        return os.getpid()

    seen = {int(x) for x in D.range(20).map(met, workers=2, output_signature=SCALAR)}
    assert len(seen) == 2 and os.getpid() not in seen


def test_unordered_results_are_all_there() -> None:
    def slow(x: Any) -> Any:
        time.sleep(0.01 if x % 5 == 0 else 0)
        return x

    dataset = D.range(50).map(slow, workers=2, deterministic=False)
    assert sorted(int(x) for x in dataset) == list(range(50))


class Pair(NamedTuple):
    """A structure with a class."""

    a: Any
    b: Any


STRUCTURES: dict[str, tuple[Any, Any]] = {
    "scalars": (D.range(5), lambda x: (x, float(x), bool(x % 2))),
    "strings": (D.from_tensor_slices(["a", "ü", ""]), lambda s: s + b"!"),
    "texts": (D.range(3), lambda x: {"name": f"n{x}", "list": ["a", "b" * int(x)]}),
    "dicts": (D.range(4).map(lambda x: {"x": x, "y": {"z": x + 1}}), lambda d: {"sum": d["x"] + d["y"]["z"]}),
    "tuples": (D.range(4).enumerate(), lambda i, x: (x, (i, i + x))),
    "shapes": (D.range(5), lambda x: np.arange(int(x))),
    "arrays": (D.from_tensor_slices(np.arange(24.0).reshape(4, 3, 2)), lambda a: a.T),
    "halves": (D.range(4), lambda x: np.float16(x) / 2),
    "ragged": (D.range(1, 5).map(lambda x: fl.range(x)).ragged_batch(2), lambda r: r),
    "ragged out": (D.range(3), lambda x: fl.ragged.constant([[1] * int(x), [2]])),
    "sparse": (D.range(3), lambda x: fl.SparseTensor([[0, int(x)]], [5], [2, 3])),
    "none": (D.range(3), lambda x: (x, None)),
    "namedtuples": (D.range(3).map(lambda x: Pair(x, x + 1)), lambda p: Pair(p.b, p.a)),
    "batches": (D.range(10).batch(4), lambda b: b[::-1]),
    "nothing": (D.range(0), lambda x: x),
}


@pytest.mark.parametrize("kind", STRUCTURES)
def test_elements_of_all_kinds_pass(kind: str) -> None:
    dataset, function = STRUCTURES[kind]
    how: dict[str, Any] = {"output_signature": SCALAR} if kind == "nothing" else {}
    here = dataset.map(function, python=True, **how)
    away = dataset.map(function, workers=2, **how)
    assert away.element_spec == here.element_spec
    assert [repr(x) for x in away] == [repr(x) for x in here]


def test_large_arrays_pass() -> None:
    def grown(x: Any) -> Any:
        return np.full(10 << 20, x, np.uint8)

    first = list(D.range(6).map(grown, workers=2).map(lambda a: a[:: 1 << 20]))
    assert [x.tolist() for x in first] == [[i] * 10 for i in range(6)]
    back = D.from_tensors(np.ones((5 << 20) // 4, np.float32)).repeat(4).map(lambda a: a.sum(), workers=2)
    assert [float(x) for x in back] == [float((5 << 20) // 4)] * 4


def test_what_is_handed_out_stays() -> None:
    """Memory that processes share is used again; arrays that somebody holds are not in it."""
    kept = list(D.range(200).map(lambda x: np.full(30_000, x), workers=2))
    assert all((array == i).all() for i, array in enumerate(kept))
    kept[3][:] = -1
    assert (kept[2] == 2).all() and (kept[4] == 4).all()


def test_functions_may_keep_and_change_what_they_get() -> None:
    def kept(a: Any, store: list[Any] = []) -> Any:  # noqa: B006
        store.append(a)
        a += 1
        return np.array([(s == s[0]).all() for s in store]).all()

    dataset = D.from_tensor_slices(np.repeat(np.arange(40), 20_000).reshape(40, -1)).map(kept, workers=1)
    assert all(dataset)


def test_functions_may_return_the_same_array_again_and_again() -> None:
    scratch = np.zeros(1000)

    def filled(x: Any) -> Any:
        scratch[:] = x
        return scratch

    assert [float(a[-1]) for a in D.range(50).map(filled, workers=2)] == list(range(50))


def test_batches_of_known_shape() -> None:
    signature = (fl.TensorSpec((100, 100), fl.float32), SCALAR)
    dataset = D.range(100).map(
        lambda x: (np.full((100, 100), x, np.float32), x), workers=2, output_signature=signature
    )
    rows = 0
    for images, labels in dataset.batch(32):
        assert (images == labels[:, None, None]).all()
        rows += len(labels)
    assert rows == 100


def test_functions_of_all_kinds_are_sent() -> None:
    factor = 7

    class Times:
        def __init__(self, n: int) -> None:
            self.n = n

        def __call__(self, x: Any) -> Any:
            return x * self.n

        def method(self, x: Any) -> Any:
            return x + self.n

    import functools

    for function in (lambda x: x * factor, Times(7), Times(7).method, triple, functools.partial(max, 5)):
        assert [int(x) for x in D.range(4).map(function, workers=1)] == [int(function(x)) for x in range(4)]


def test_what_a_function_refers_to_may_change_between_passes() -> None:
    factor = [1]
    dataset = D.range(3).map(lambda x: x * factor[0], workers=1)
    assert [int(x) for x in dataset] == [0, 1, 2]
    factor[0] = 10
    assert [int(x) for x in dataset] == [0, 10, 20]


def test_workers_are_kept_between_passes() -> None:
    dataset = D.range(4).map(lambda x: os.getpid(), workers=1)
    assert len({int(x) for _ in range(3) for x in dataset}) == 1


def test_side_by_side_iterators_share_the_workers() -> None:
    dataset = D.range(100).map(triple, workers=2)
    for a, b in zip(dataset, dataset, strict=True):
        assert a == b


def test_inside_of_other_functions() -> None:
    inner = D.range(4).map(triple, workers=2)
    assert [int(x) for x in D.range(3).flat_map(lambda _: inner)] == [0, 3, 6, 9] * 3


def test_between_other_operators() -> None:
    dataset = D.range(100).filter(lambda x: x % 2 == 0).map(lambda x: int(x) + 1, workers=2)
    dataset = dataset.map(lambda x: x * 2).shuffle(10, seed=1).batch(7).prefetch(2)
    assert sorted(int(x) for batch in dataset for x in batch) == [2 * (x + 1) for x in range(0, 100, 2)]


def test_random_numbers_belong_to_elements() -> None:
    def drawn(x: Any) -> Any:
        return np.float64(random.random()), np.random.rand(2), np.int64(fl.worker_info().seed % 1000)

    signature = (fl.TensorSpec((), fl.float64), fl.TensorSpec((2,), fl.float64), SCALAR)
    datasets = [D.range(30).map(drawn, workers=n, output_signature=signature) for n in (1, 3)]
    one, three = ([repr(x) for x in dataset] for dataset in datasets)
    assert one == three and len(set(one)) == 30
    assert [repr(x) for x in datasets[0]] != one, "another pass has other numbers"
    assert fl.worker_info() is None


def test_the_first_random_number_of_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Sent by name: nothing in the message tells what it draws from, and NumPy imports that when first used.
    (tmp_path / "dice.py").write_text("import numpy as np\n\n\ndef thrown(x):\n    return np.random.rand()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import dice  # type: ignore[import-not-found]

    signature = fl.TensorSpec((), fl.float64)
    datasets = [D.range(4).map(dice.thrown, workers=n, output_signature=signature) for n in (1, 2)]
    one, two = ([float(x) for x in dataset] for dataset in datasets)
    assert one == two and len(set(one)) == 4


def test_groups_of_elements() -> None:
    def doubled(x: Any) -> Any:
        assert x.shape in ((8,), (4,))
        return x * 2, x.sum().repeat(len(x))

    for how in ({"python": True}, {"workers": 2}, {}):
        if not how:
            assert [int(x) for x in D.range(9).map_batches(lambda x: x + 1, 4)] == list(range(1, 10))
            continue
        got = [(int(a), int(b)) for a, b in D.range(20).map_batches(doubled, 8, **how)]
        assert got == [(2 * x, sum(range(x // 8 * 8, min(x // 8 * 8 + 8, 20)))) for x in range(20)]
    assert [int(x) for x in D.range(6).map_batches(lambda x: x[x > 3], 4, python=True)] == [4, 5]


# States and pickles


def test_states_resume_anywhere() -> None:
    def made(workers: int) -> Any:
        return D.range(40).shuffle(10, seed=3).map(lambda x: int(x) + 1, workers=workers).batch(3)

    whole = [x.tolist() for x in made(2)]
    for taken in (0, 1, 5, 13, 14):
        iterator = iter(made(2))
        for _ in range(taken):
            next(iterator)
        state = iterator.state_dict()
        assert [x.tolist() for x in made(1).iter(state=state)] == whole[taken:]


def test_pickled_datasets_have_workers_of_their_own() -> None:
    dataset = D.range(5).map(lambda x: int(x) + 1, workers=2)
    first = [int(x) for x in dataset]
    assert [int(x) for x in pickle.loads(pickle.dumps(dataset))] == first


def test_they_are_shown() -> None:
    dataset = D.range(5).map(triple, workers=2)
    list(dataset)
    assert "workers=2" in repr(dataset) and "workers=2" in dataset.explain()


# What goes wrong


class Own(Exception):
    """An exception with arguments that pickle cannot pass on."""

    def __init__(self, a: Any, b: Any) -> None:
        super().__init__(f"{a} and {b}")


def test_errors_stand_in_the_place_of_their_elements() -> None:
    def choosy(x: Any) -> Any:
        if x % 4 == 1:
            raise KeyError(int(x))
        return x

    found = kinds(D.range(9).map(choosy, workers=2))
    assert [x if isinstance(x, type) else int(x) for x in found] == [0, KeyError, 2, 3, 4, KeyError, 6, 7, 8]


def test_errors_tell_where_they_come_from() -> None:
    def broken(x: Any) -> Any:
        raise ValueError(f"bad {x}")  # here

    with pytest.raises(ValueError, match="bad 0") as caught:
        list(D.range(3).map(broken, workers=1, output_signature=SCALAR))
    assert "# here" in str(caught.value.__cause__) and __file__ in str(caught.value.__cause__)
    if sys.version_info >= (3, 11):
        assert "element 0" in caught.value.__notes__[0]


def test_exceptions_that_cannot_be_pickled_come_in_words() -> None:
    def broken(x: Any) -> Any:
        raise Own(1, 2)

    with pytest.raises(RuntimeError, match="1 and 2"):
        list(D.range(3).map(broken, workers=1, output_signature=SCALAR))


def test_results_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="cannot be used"):
        list(D.range(3).map(lambda x: "text", workers=1, output_signature=SCALAR))


def test_functions_that_cannot_be_sent() -> None:
    lock = __import__("threading").Lock()
    dataset = D.range(3).map(lambda x: x + bool(lock), workers=1, output_signature=SCALAR)
    with pytest.raises(TypeError, match="cannot be sent"):
        list(dataset)


def test_functions_that_cannot_be_had_there(tmp_path: Path) -> None:
    (tmp_path / "only_here.py").write_text("def same(x):\n    return x\n")
    sys.path.insert(0, str(tmp_path))
    import only_here  # type: ignore[import-not-found]

    dataset = D.range(3).map(only_here.same, workers=2)
    (tmp_path / "only_here.py").unlink()
    sys.path.remove(str(tmp_path))
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match="only_here"):
            list(dataset)


def fatal(x: Any) -> Any:
    if x == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return x


def test_a_death_ends_the_pipeline() -> None:
    dataset = D.range(20).map(fatal, workers=2, output_signature=SCALAR)
    for _ in range(2):
        found = kinds(dataset.with_options(chunk_rows=1))
        assert [int(x) for x in found[:-1]] == [0, 1, 2, 3, 4] and found[-1] is fl.errors.AbortedError
    with pytest.raises(fl.errors.AbortedError, match=r"killed by signal 9 \(SIGKILL\)"):
        list(dataset.ignore_errors())
    with pytest.raises(fl.errors.AbortedError, match="exited with code 3"):
        list(D.range(3).map(lambda x: os._exit(3), workers=1, output_signature=SCALAR))


def test_a_death_may_cost_only_its_element() -> None:
    dataset = D.range(12).map(fatal, workers=2, output_signature=SCALAR, on_worker_death="restart")
    found = kinds(dataset)
    assert [x if isinstance(x, type) else int(x) for x in found] == [
        *range(5),
        fl.errors.InvalidArgumentError,
        *range(6, 12),
    ]


def test_an_element_is_tried_again(tmp_path: Path) -> None:
    def once(x: Any) -> Any:
        if x == 3 and not (tmp_path / "died").exists():
            (tmp_path / "died").touch()
            os.abort()
        return x

    dataset = D.range(6).map(once, workers=2, output_signature=SCALAR, on_worker_death="restart")
    assert [int(x) for x in dataset] == list(range(6))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"workers": 0}, "workers must be positive"),
        ({"workers": -2}, "workers must be positive"),
        ({"workers": 1 << 20}, "workers must be between"),
        ({"workers": 2.5}, "whole number"),
        ({"workers": 2, "num_parallel_calls": 2}, "excludes num_parallel_calls"),
        ({"workers": 2, "synchronous": True}, "synchronous"),
        ({"workers": 2, "native": True}, "exclude each other"),
        ({"workers": 2, "on_worker_death": "cry"}, "on_worker_death"),
    ],
)
def test_wrong_parameters(how: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        D.range(3).map(triple, **how)


def test_datasets_inside_of_elements_stay() -> None:
    with pytest.raises(ValueError, match="another process"):
        D.range(4).window(2).map(lambda w: 1, workers=1, output_signature=SCALAR)


# What is left behind


def workers_of(pid: int) -> set[int]:
    """The child processes, zombies too."""
    listed = subprocess.run(["ps", "--ppid", str(pid), "-o", "pid=,args="], capture_output=True, text=True)
    lines = (line.split(None, 1) for line in listed.stdout.splitlines())
    return {int(pid) for pid, args in lines if "ps --ppid" not in args}


def until(true: Any) -> None:
    """Waits; what never happens is found out by the limit of every test."""
    while not true():
        time.sleep(0.01)


def counts() -> tuple[int, int, int]:
    """Child processes, threads and open files of this process."""
    return len(workers_of(os.getpid())), len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@linux
def test_nothing_is_left_of_a_thousand_iterators() -> None:
    list(D.range(100).map(lambda x: x + 1))
    gc.collect()
    until(lambda: not workers_of(os.getpid()))
    before = counts()
    dataset = D.range(1000).map(triple, workers=2)
    for i in range(1000):
        iterator = iter(dataset)
        if i % 2:
            next(iterator)
    del iterator, dataset
    gc.collect()
    until(lambda: counts() <= before)


@linux
def test_nothing_is_left_of_many_datasets() -> None:
    gc.collect()
    until(lambda: not workers_of(os.getpid()))
    before = counts()
    for _ in range(5):
        assert int(next(iter(D.range(1000).map(lambda x: np.full(50_000, x), workers=2)))[0]) == 0
    gc.collect()
    until(lambda: counts() <= before)


LEAVING = {
    "the end": "list(ds)",
    "in the middle": "it = iter(ds); next(it)",
    "sys.exit": "it = iter(ds); next(it); sys.exit(3)",
    "os._exit": "it = iter(ds); next(it); os._exit(3)",
    "an exception": "it = iter(ds); next(it); sys.stderr.close(); 1 / 0",
    "killed": "it = iter(ds); next(it); os.kill(os.getpid(), 9)",
    "stuck functions": "it = iter(fl.Dataset.range(9).map(stuck, workers=2, output_signature=S))",
}


@linux
@pytest.mark.parametrize("how", LEAVING)
def test_nobody_survives_the_program(how: str, tmp_path: Path) -> None:
    source = """
        import os, sys, time
        import feedline as fl
        S = fl.TensorSpec((), fl.int64)
        pids = sys.argv[1]

        def noted(x):
            open(os.path.join(pids, str(os.getpid())), "w").close()
            return x

        def stuck(x):
            noted(x)
            time.sleep(600)

        ds = fl.Dataset.range(100).map(noted, workers=2)
    """
    (tmp_path / "pids").mkdir()
    (tmp_path / "program.py").write_text(textwrap.dedent(source) + LEAVING[how] + "\n")
    subprocess.run([sys.executable, str(tmp_path / "program.py"), str(tmp_path / "pids")], timeout=60)
    pids = os.listdir(tmp_path / "pids")

    def ended(pid: str) -> bool:
        try:
            return "feedline" not in Path(f"/proc/{pid}/cmdline").read_text()
        except OSError:
            return True

    until(lambda: all(ended(pid) for pid in pids))


def test_ctrl_c_ends_it_at_once(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        textwrap.dedent("""
        import time
        import feedline as fl

        def slow(x):
            time.sleep(0.2 if x < 3 else 600)
            return x

        print("begin", flush=True)
        try:
            for x in fl.Dataset.range(10).map(slow, workers=2, output_signature=fl.TensorSpec((), fl.int64)):
                print("next", flush=True)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        """)
    )
    running = subprocess.Popen(
        [sys.executable, str(tmp_path / "program.py")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert running.stdout is not None
    for _ in range(4):
        running.stdout.readline()
    os.killpg(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert out == "interrupted\n" and err == "" and running.returncode == 0


@pytest.mark.parametrize("start", ["fork", "spawn", "forkserver"])
def test_processes_that_have_pipelines_with_workers(start: str, tmp_path: Path) -> None:
    source = f"""
        import multiprocessing
        import feedline as fl

        def plus(x):
            return int(x) + 1

        ds = fl.Dataset.range(20).map(plus, workers=2)

        def total(shard):
            return sum(int(x) for x in ds.shard(2, shard))

        if __name__ == "__main__":
            it = iter(ds)
            next(it)
            with multiprocessing.get_context("{start}").Pool(2) as pool:
                print(sum(pool.map(total, range(2))), sum(int(x) for x in it))
    """
    (tmp_path / "program.py").write_text(textwrap.dedent(source))
    done = subprocess.run(
        [sys.executable, str(tmp_path / "program.py")], capture_output=True, text=True, timeout=120
    )
    assert (done.stdout, done.returncode) == ("210 209\n", 0), done.stderr


def test_scripts_need_no_guard(program: Any) -> None:
    result = program("""
        import feedline as fl

        def plus(x):
            return int(x) + 1

        print([int(x) for x in fl.Dataset.range(3).map(plus, workers=2)])
    """)
    assert result.stdout == "[1, 2, 3]\n"


def test_what_workers_print_is_seen(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import feedline as fl\n"
        "list(fl.Dataset.range(1).map(lambda x: (print('from a worker'), x)[1], workers=1,"
        " output_signature=fl.TensorSpec((), fl.int64)))\n"
    )
    done = subprocess.run(
        [sys.executable, str(tmp_path / "program.py")], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "from a worker\n", done.stderr


@pytest.fixture(autouse=True)
def not_too_long() -> Iterator[None]:
    """Crews of tests that are over end before the next one counts processes."""
    yield
    gc.collect()


def test_advice_is_given_once(caplog: Any) -> None:
    def busy(x: Any) -> Any:
        start = time.thread_time()
        while time.thread_time() - start < 0.1:
            pass
        return x

    before = fl.configuration()["cpu_budget"]
    fl.configure(cpu_budget=2)
    list(D.range(30).map(busy, python=True))
    fl.configure(cpu_budget=before)
    told = [record.getMessage() for record in caplog.records if "workers=2" in record.getMessage()]
    assert len(told) == 1 and "busy" in told[0]


def test_cheap_functions_get_no_advice(program: Any) -> None:
    program("""
        import feedline as fl
        list(fl.Dataset.range(1000).map(lambda x: int(x), python=True))
    """)
