"""What caches on disk, snapshots and states are known by: files, functions, and what they refer to."""

from __future__ import annotations

import importlib
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import threading
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import feedline as fl
import numpy as np
import pytest
from feedline.function_identity import code_of, of

NUMBER = fl.TensorSpec((), fl.int64)
N = fl.Dataset


def elements(ds):
    return [x if isinstance(x, bytes) else np.asarray(x).tolist() for x in ds]


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


READERS = {
    "interleave": lambda: N.list_files("a.*", shuffle=False).interleave(fl.TextLineDataset),
    "parallel reads": lambda: fl.TextLineDataset(["a.txt"], num_parallel_reads=2),
    "flat_map": lambda: N.from_tensor_slices(["a.txt"]).flat_map(fl.TextLineDataset),
    "read_file": lambda: N.from_tensor_slices(["a.txt"]).map(fl.io.read_file),
    "parallel read_file": lambda: N.from_tensor_slices(["a.txt"]).map(fl.io.read_file, num_parallel_calls=2),
    "literal": lambda: fl.TextLineDataset("a.txt"),
    "inside a cache": lambda: N.from_tensor_slices(["a.txt"]).map(fl.io.read_file).cache("inner").prefetch(2),
    "ahead": lambda: (
        N.from_tensor_slices(["a.txt"]).interleave(fl.TextLineDataset, num_parallel_calls=2).prefetch(2)
    ),
}
KEEPERS = {
    "cache": lambda ds: ds.cache("c"),
    "snapshot": lambda ds: ds.snapshot("s"),
    "shards": lambda ds: ds.snapshot("t", shard_func=lambda x: fl.cast(0, fl.int64)),
}


@pytest.mark.parametrize("keeper", KEEPERS)
@pytest.mark.parametrize("reader", READERS)
def test_what_was_made_of_files_goes_with_them(reader, keeper):
    def make():
        return KEEPERS[keeper](READERS[reader]())

    file = Path("a.txt")
    file.write_text("1\n2\n")
    first = elements(make())
    assert elements(make()) == first
    file.write_text("1\n3\n55\n")
    changed = elements(READERS[reader]())
    assert elements(make()) == changed != first
    assert elements(make()) == changed


@pytest.mark.parametrize("keeper", KEEPERS)
def test_what_is_unchanged_is_not_made_again(keeper):
    def make():
        return KEEPERS[keeper](N.from_tensor_slices(["a.txt", "b.txt"]).flat_map(fl.TextLineDataset))

    Path("a.txt").write_text("1\n2\n")
    Path("b.txt").write_text("3\n")
    expected = elements(make())
    folder = {"cache": "c", "snapshot": "s", "shards": "t"}[keeper]
    (manifest,) = Path(folder).rglob("dataset.json")
    before = manifest.stat().st_mtime_ns
    assert set(json.loads(manifest.read_text())["origin"]["files"]) == {"a.txt", "b.txt"}
    assert elements(make()) == expected
    assert manifest.stat().st_mtime_ns == before


def test_a_file_that_is_gone_or_new_is_a_change(caplog):
    names = ["a.txt", "b.txt"]

    def make():
        return N.from_tensor_slices(names).map(fl.io.read_file).ignore_errors().cache("c")

    Path("a.txt").write_text("a")
    assert elements(make()) == [b"a"]
    Path("b.txt").write_text("b")
    with caplog.at_level(logging.WARNING, "feedline"):
        assert elements(make()) == [b"a", b"b"]
    assert "b.txt was not there then" in caplog.text
    os.remove("a.txt")
    with caplog.at_level(logging.WARNING, "feedline"):
        assert elements(make()) == [b"b"]
    assert "a.txt is not there any more" in caplog.text


def test_the_part_of_a_pass_goes_with_its_files():
    def make():
        ds = N.from_tensor_slices([f"{i}.txt" for i in range(300)]).map(fl.io.read_file)
        return ds.cache("c").with_options(prefetch=False, chunk_rows=1)

    for i in range(300):
        Path(f"{i}.txt").write_text(str(i))

    def some():
        it = iter(make())
        first = [next(it) for _ in range(200)]
        it.close()
        return first

    some()
    (partial,) = Path("c").rglob("partial.json")
    record = json.loads(partial.read_text())["origin"]["files"]
    assert {"0.txt", "199.txt"} <= set(record)
    # It is gone on with, and the files of its first part are still known.
    Path("0.txt").write_text("other")
    expected = [b"other", *(str(i).encode() for i in range(1, 300))]
    assert elements(make()) == expected
    some_more = json.loads(next(Path("c").rglob("dataset.json")).read_text())["origin"]["files"]
    assert len(some_more) == 300
    Path("0.txt").write_text("yet another")
    assert elements(make())[:2] == [b"yet another", b"1"]


def test_parts_that_are_gone_on_with_keep_their_files():
    def make():
        ds = N.from_tensor_slices([f"{i}.txt" for i in range(300)]).map(fl.io.read_file)
        return ds.cache("c").with_options(prefetch=False, chunk_rows=1)

    for i in range(300):
        Path(f"{i}.txt").write_text(str(i))
    it = iter(make())
    for _ in range(200):
        next(it)
    it.close()
    assert len(elements(make())) == 300
    Path("0.txt").write_text("other")
    assert elements(make())[0] == b"other"


def test_a_state_of_a_cache_of_files():
    def make():
        return N.from_tensor_slices(["a.txt", "b.txt"]).flat_map(fl.TextLineDataset).cache("c")

    Path("a.txt").write_text("1\n2\n")
    Path("b.txt").write_text("3\n")
    for _ in range(2):
        it = iter(make())
        next(it)
        state = json.loads(json.dumps(it.state_dict()))
        rest = list(it)
        assert list(make().iter(state)) == rest


class Slots:
    __slots__ = ("k",)

    def __init__(self, k):
        self.k = k

    def __call__(self, x):
        return int(x) + self.k


@dataclass(frozen=True, slots=True)
class Config:
    k: int


def closed_over(value):
    return lambda x: (x, value)


def made(source, name="f", **names):
    space = {"__name__": "__main__", **names}
    exec(source, space)
    return space[name]


PAIRS = {
    "slots": lambda k: Slots(k),
    "slots of a dataclass": lambda k: closed_over(Config(k)),
    "pattern": lambda k: closed_over(re.compile("ab"[k])),
    "decimal": lambda k: closed_over(Decimal(k)),
    "array": lambda k: closed_over(np.arange(5) + k),
    "nested": lambda k: closed_over({"a": [{"b": Slots(k)}]}),
    "class code": lambda k: made(f"class F:\n def __call__(self, x): return x + {k}\nf = F()"),
    "base class": lambda k: made(f"class A:\n def g(self): return {k}\nclass B(A): pass\nf = B()"),
    "helper": lambda k: made(f"def h(x): return x + {k}\ndef f(x): return h(x)"),
    "helper of a helper": lambda k: made(f"def g(): return {k}\ndef h(): return g()\ndef f(x): return h()"),
    "global number": lambda k: made(f"K = {k}\ndef f(x): return x + K"),
    "default": lambda k: made(f"def f(x, k={k}): return x + k"),
    "bound method": lambda k: Slots(k).__call__,
    "global dict": lambda k: made(f"T = {{'a': {k}}}\ndef f(x): return T['a']"),
    "global list of lists": lambda k: made(f"T = [[1], [{k}]]\ndef f(x): return T[1][0]"),
    "global set": lambda k: made(f"T = {{'a', 'b', '{k}'}}\ndef f(x): return x in T"),
    "global object": lambda k: made(f"class C: pass\nT = C()\nT.k = {k}\ndef f(x): return T.k"),
    "global object of installed code": lambda k: made("def f(x): return T.b", T=Fraction(k, 7)),
    "global that holds itself": lambda k: made(f"T = [{k}]\nT.append(T)\ndef f(x): return T[0]"),
    "list of a class": lambda k: made(f"class C:\n T = [{k}]\ndef f(x): return C.T[0]"),
    "dict of a helper": lambda k: made(f"T = {{0: {k}}}\ndef h(x): return T[x]\ndef f(x): return h(x)"),
    "dict that others are set by": lambda k: made(
        f"T, U = {{0: {k}}}, {{}}\ndef f(x):\n U[x] = T[x]\n return U[x]"
    ),
    "module in a closure": lambda k: closes_over_module(k),
    "module imported inside": lambda k: made(own_module(k) and "def f(x):\n import own\n return own.K"),
    "name imported inside": lambda k: made(own_module(k) and "def f(x):\n from own import g\n return g()"),
    "dict of a module imported inside": lambda k: made(
        own_module(k) and "def f(x):\n import own\n return own.T"
    ),
    "module of a package": lambda k: made(own_module(k) and "import pack\ndef f(x): return pack.inner.K"),
    "module of a package inside": lambda k: made(
        own_module(k) and "def f(x):\n import pack.inner as p\n return p.K"
    ),
    "relative import": lambda k: made(
        own_module(k) and "def f(x):\n from .inner import K\n return K", __package__="pack"
    ),
}


def own_module(k):
    """A module of the user's own, and a package, that have this in them; not imported as yet."""
    text = f"K = {k}\nT = {{'a': [{k}]}}\ndef g(): return K\n"
    Path("own.py").write_text(text)
    Path("pack").mkdir(exist_ok=True)
    Path("pack/__init__.py").write_text("from . import inner\n")
    Path("pack/inner.py").write_text(text)
    for name in ("own", "pack", "pack.inner"):
        sys.modules.pop(name, None)
    # Two of the same length within a second look alike to it.
    shutil.rmtree("__pycache__", ignore_errors=True)
    shutil.rmtree("pack/__pycache__", ignore_errors=True)
    importlib.invalidate_caches()
    return True


def closes_over_module(k):
    own_module(k)
    return made("def make():\n import own\n return lambda x: own.T\nf = make()")


@pytest.mark.parametrize("kind", PAIRS)
def test_functions_that_differ_have_another_identity(kind):
    make = PAIRS[kind]
    assert of(make(0)) == of(make(0)) is not None
    assert of(make(0)) != of(make(1))


def test_what_calls_fill_does_not_count():
    f = made("SEEN, COUNT = [], 0\ndef f(x):\n global COUNT\n COUNT += 1\n SEEN.append(x)")
    before = of(f)
    f(1)
    assert of(f) == before
    source = """
from collections import Counter, deque
A, B, C, D, E = {}, Counter(), [0] * 9, deque(), {}
class Counts: pass
T = Counts()
T.n = 0
def f(x):
    A[x] = 1 if x else 2
    B[x] += 1
    C[x:x + 1] = [x, x]
    D.appendleft(x)
    T.n += 1
    if x in E:
        del E[x]
    E.setdefault(x, x)
"""
    f = made(source)
    before = of(f)
    f(1)
    assert of(f) == before is not None


def test_states_do_not_mind_what_data_is():
    """Only what is kept goes with data: a state was taken while they change."""
    for kind in ("global dict", "global object", "list of a class", "module imported inside"):
        assert code_of(PAIRS[kind](0)) == code_of(PAIRS[kind](1)) is not None


def test_installed_code_is_known_by_its_name(monkeypatch):
    """Nothing of it is imported for the sake of a name, nor taken for unknown."""
    # Other tests may have imported it.
    monkeypatch.delitem(sys.modules, "wsgiref.handlers", raising=False)
    f = made("def f(x):\n import wsgiref.handlers\n from numpy import linalg\n return linalg")
    assert of(f) is not None and "wsgiref.handlers" not in sys.modules
    source = "import logging, re, math\nfrom numpy import add, sum, float32, linalg\nfrom math import sin\n"
    source += "log = logging.getLogger('x')\nfind = re.compile('a').match\ndef f(x):\n log.info(x)\n"
    f = made(source + " return add(sum(x), float32(sin(1))) + linalg.norm(x) + math.pi + find('a')")
    assert of(f) is not None


def test_what_cannot_be_followed_is_named(caplog):
    with open("y", "w") as file, caplog.at_level(logging.WARNING, "feedline"):
        assert of(made("def f(x): return LOG.write(x)", LOG=file)) is None
        Path("broken.py").write_text("1 / 0")
        assert of(made("def f(x):\n import broken")) is None
    assert "TextIOWrapper" in caplog.text and "by the name LOG" in caplog.text
    assert "imports broken" in caplog.text and "division by zero" in caplog.text


def test_a_cache_goes_with_global_data():
    def add(k):
        f = made(f"T = {{'k': [{k}]}}\ndef f(x): return int(x) + T['k'][0]")
        return N.range(3).map(f, python=True, output_signature=NUMBER).cache("c")

    assert (elements(add(1)), elements(add(5)), elements(add(1))) == ([1, 2, 3], [5, 6, 7], [1, 2, 3])


def test_a_changed_function_has_a_cache_of_its_own():
    def add(k):
        return N.range(3).map(Slots(k), python=True, output_signature=NUMBER).cache("c")

    assert (elements(add(1)), elements(add(5)), elements(add(1))) == ([1, 2, 3], [5, 6, 7], [1, 2, 3])


def test_what_cannot_be_told_apart_is_never_shared(caplog):
    with open("x", "w") as file, caplog.at_level(logging.WARNING, "feedline"):
        assert of(closed_over(file)) is None
        assert of(closed_over(file)) is None
        assert code_of(closed_over(file)) == code_of(closed_over(file)) is not None
    assert len([r for r in caplog.records if "no other process" in r.message]) == 1
    assert "TextIOWrapper" in caplog.text
    # Locks hold nothing; lists may hold themselves.
    around = [threading.Lock()]
    around.append(around)
    assert of(closed_over(around)) is not None

    def make(rows):
        numbers = (i for i in rows)
        return N.range(2).map(lambda x: next(numbers), python=True, output_signature=NUMBER).cache("c")

    first = make([1, 2])
    assert (elements(first), elements(first)) == ([1, 2], [1, 2])
    assert elements(make([7, 8])) == [7, 8]


def test_a_state_notices_other_code():
    def add(f):
        return N.range(6).map(f, python=True, output_signature=NUMBER)

    def state(ds):
        it = iter(ds)
        next(it)
        next(it)
        return json.loads(json.dumps(it.state_dict()))

    taken = state(add(lambda x: int(x) + 1))
    assert elements(add(lambda x: int(x) + 1).iter(taken)) == [3, 4, 5, 6]
    with pytest.raises(ValueError, match=r"operator 2, map.*other code"):
        add(lambda x: int(x) + 1000).iter(taken)

    def numbers(k):
        source = f"def f():\n for i in range(6): yield i * {k}"
        resume = made(f"def f(n): return iter([i * {k} for i in range(n, 6)])")
        return N.from_generator(made(source), output_signature=NUMBER, resume=resume)

    taken = state(numbers(2))
    assert elements(numbers(2).iter(taken)) == [4, 6, 8, 10]
    with pytest.raises(ValueError, match=r"operator 1, from_generator.*other code"):
        numbers(3).iter(taken)
    # What another version of Python says of its code cannot be compared.
    taken["plan"]["functions"] = [[0, ["cpython-27-0 0123"]]]
    assert elements(numbers(2).iter(taken)) == [4, 6, 8, 10]


def test_a_state_does_not_mind_what_calls_change():
    class Counts:
        total = 0

        def __init__(self):
            self.calls, self.seen = 0, []

        def __call__(self, x):
            self.calls += 1
            Counts.total += 1
            self.seen.append(int(x))
            return int(x)

    def make():
        count, seen, one = 0, [], Counts()

        def f(x):
            nonlocal count
            count += 1
            seen.append(x)
            return one(x)

        return N.range(6).map(f, python=True, output_signature=NUMBER)

    it = iter(make())
    next(it)
    state = it.state_dict()
    assert elements(make().iter(state)) == [1, 2, 3, 4, 5]


PROGRAM = """
import json, re, sys
import feedline as fl
from decimal import Decimal
names, limits = {"a", "b", "c"}, {"x": {1, 2}, "y": frozenset("pq")}
pattern, one = re.compile("a|b"), Decimal(1)

class Add:
    def __init__(self, k):
        self.k, self.names = k, {"p", "q", "r"}
    def __call__(self, x):
        return int(x) + self.k if "a" in {"a", "b", "c"} else helper(x)

def helper(x):
    return len([y for y in names if pattern.match(y)]) + one + len(limits)

def closed(words, add):
    return lambda x: add(x) + (len(words) if x in {3, 4, 5} else 3)

S = fl.TensorSpec((), fl.int64)
ds = fl.Dataset.range(6).map(closed({"u", "v", "w"}, Add(10)), python=True, output_signature=S)
ds = ds.map(helper, python=True, output_signature=S) if "x" in sys.argv else ds
ds = ds.cache("c")
if len(sys.argv) > 1:
    print([int(x) for x in ds.iter(json.load(open("state.json")))], len(list(__import__("os").scandir("c"))))
else:
    it = iter(ds)
    next(it), next(it)
    json.dump(it.state_dict(), open("state.json", "w"))
    print([int(x) for x in it])
"""


def test_states_and_caches_are_found_by_other_processes():
    def run(seed, *args):
        env = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run([sys.executable, "p.py", *args], env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    Path("p.py").write_text(PROGRAM)
    first = run(1)
    for seed in (2, 3):
        assert run(seed, "again") == f"{first} 1"
