"""What datasets say about themselves: explain, repr, HTML, specs, and lengths that are not known."""

from __future__ import annotations

import contextlib
import html.parser
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import feedline as fl
import numpy as np
import pytest

D = fl.Dataset


def pipeline() -> fl.Dataset:
    return D.range(1000).map(lambda x: x * 2).map(lambda x: x + 1).filter(lambda x: x % 3 == 0).batch(10)


PIPELINES = {
    "range": D.range(5),
    "fused": pipeline(),
    "arrays": D.from_tensor_slices({"x": np.zeros((3, 2)), "y": ["a", "b", "c"]}),
    "python": D.range(5).map(lambda x: int(x), python=True),
    "shuffle": D.range(5).shuffle(3, seed=1).repeat(2).cache(),
    "all orders": D.range(5).shuffle(seed=1),
    "zip": D.zip((D.range(5), {"a": D.range(5).map(lambda x: x + 7)})),
    "concatenate": D.range(5).concatenate(D.range(5).batch(1).unbatch()),
    "choose": D.choose_from_datasets([D.range(5), D.range(5)], D.range(2)),
    "interleave": D.range(3).interleave(lambda x: D.range(x).map(lambda y: y * x)),
    "window": D.range(6).window(2).flat_map(lambda w: w.batch(2)),
    "group": D.range(6).group_by_window(lambda x: x % 2, lambda k, w: w.batch(2), 2),
    "generator": D.from_generator(lambda: range(3), output_signature=fl.TensorSpec((), fl.int64)),
    "options": D.range(5).with_options(cpu_budget=1, deterministic=False, memory_limit="1MB"),
    "ragged": D.range(5).map(lambda x: fl.range(x)).ragged_batch(2),
    "endless": D.counter().map(lambda x: x + 1).take(5),
    "none": D.from_tensors((1, None)),
    "long": D.range(5).map(lambda x: sum([x + i for i in range(100)])),
    "scan": D.range(5).scan(np.int64(0), lambda s, x: (s + x, s)),
    "random": D.range(5).map(lambda x: fl.random.uniform([2], seed=1)),
    "text with <tags>": D.from_tensor_slices({"<b>&": [1, 2]}),
}


def operators(node: dict[str, Any]) -> list[str]:
    """The operators of a plan, from the end to the sources."""
    return [node["op"], *(op for part in node["inputs"] for op in operators(part))]


@pytest.mark.parametrize("kind", PIPELINES)
@pytest.mark.parametrize("ran", [False, True])
def test_every_pipeline_explains_itself(kind: str, ran: bool) -> None:
    dataset = PIPELINES[kind]
    if ran:
        list(dataset)
    text = dataset.explain()
    assert "as written" in text
    assert dataset.explain("text") == text or ran
    told = json.loads(dataset.explain("json"))
    for op in operators(told["written"]):
        assert re.search(rf"^\s*{op}\(", text, re.MULTILINE), f"{op} is not in the text"
    assert not re.search(r"0x[0-9a-f]{6,}", text), "an address says nothing"
    assert max(map(len, text.splitlines())) < 200


def test_before_and_after_a_pass() -> None:
    dataset = pipeline()
    assert "not run yet" in dataset.explain()
    list(dataset)
    text = dataset.explain()
    assert "not run yet" not in text and "as it ran last" in text
    assert "34 elements" in text and "share" in text and "limit" in text
    assert "fuse_maps" in text


def test_json_has_the_numbers() -> None:
    dataset = pipeline()
    list(dataset)
    told = json.loads(dataset.explain("json"))
    assert operators(told["written"]) == ["batch", "filter", "map", "map", "range"]
    assert told["pass"]["delivered"] == 34
    batch = told["runs"]
    assert batch["meter"]["rows"] == 34 and batch["meter"]["fails"] == 0
    rows = {op: node["meter"]["rows"] for op, node in nodes(batch)}
    assert rows["range"] == 1000


def test_what_was_chosen_is_told_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("".join(f"{n}\n" for n in range(10_000)))
    lines = fl.TextLineDataset(str(tmp_path / "lines"))
    dataset = lines.map(lambda x: fl.strings.length(x), num_parallel_calls=1).prefetch(4).batch(8)
    dataset = dataset.with_options(cpu_budget=1)
    list(dataset)
    told = json.loads(dataset.explain("json"))["tuning"]
    by = {(choice["what"], choice["operator"]): choice for choice in told}
    assert by["workers", None]["value"] == 1 and "cpu_budget" in by["workers", None]["why"]
    assert by["calls", "map"]["cap"] == 1 and "num_parallel_calls" in by["calls", "map"]["why"]
    assert by["read_ahead_bytes", None]["value"] > 0 and "reader" in by["read_ahead_bytes", None]["why"]
    assert any(choice["cap"] == 4 and "asked for" in choice["why"] for choice in told)
    assert all(choice["why"] and choice["value"] > 0 for choice in told)
    text = dataset.explain()
    block = text.partition("\ntuning:\n")[2]
    assert "1 worker at once" in block and "a chunk (" in block and "in the queue (" in block


def chunk_rows(it: fl.Iterator) -> int:
    """How many rows of the last segment's head travel together now."""
    told = json.loads(it.explain("json"))["tuning"]
    return [choice for choice in told if choice["what"] == "chunk_rows"][-1]["value"]


def test_chunks_follow_a_cost_that_changes() -> None:
    """A thousand times as much from one element on: they become small, and stay that."""
    dear = 1 << 16
    rows = D.range(1 << 40).map(lambda x: fl.reduce_sum(fl.sort(fl.fill([fl.where(x < dear, 4, 40_000)], x))))
    it = iter(rows)
    for _ in range(dear // 2):
        next(it)
    before = chunk_rows(it)
    assert before >= 16
    for _ in range(dear // 2):
        next(it)
    until = time.monotonic() + 20
    while chunk_rows(it) > 1 and time.monotonic() < until:
        next(it)
    for _ in range(50):
        next(it)
        # One of them takes about as long as a step should, if nobody else has the cores.
        assert chunk_rows(it) <= 4


TUNED = """if True:
    import logging, time
    import feedline as fl

    said = set()

    class Heard(logging.Handler):
        def emit(self, record):
            text = record.getMessage()
            said.update(words for words in ("chunks have up to", "lie ready") if words in text)
            print(text, flush=True)

    logging.getLogger("feedline").addHandler(Heard())
    it = iter(fl.Dataset.range(1 << 40).map(lambda x: fl.fill([1 << 17], x)).batch(1))
    until = time.monotonic() + 20
    while time.monotonic() < until and len(said) < 2:
        next(it)
        time.sleep(0.06)
"""


def test_what_was_chosen_is_logged_with_its_reason() -> None:
    """Rows a chunk, and what lies ready for a loop that is slower."""
    settings = {**os.environ, "FEEDLINE_LOG": "DEBUG"}
    done = subprocess.run(
        [sys.executable, "-c", TUNED], capture_output=True, text=True, timeout=120, env=settings
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"chunks have up to \d+ rows? now: \w+", done.stdout), done.stdout
    assert re.search(r"lie ready for the consumer now \(before: .*\): \w+", done.stdout), done.stdout


def test_a_slow_loop_has_less_ahead() -> None:
    """If it is steady; nothing is taken from one that is fast."""
    rows = D.range(1 << 40).map(lambda x: fl.fill([1 << 17], x)).batch(1)
    it = iter(rows)

    def queue() -> dict[str, Any]:
        told = json.loads(it.explain("json"))["tuning"]
        return [choice for choice in told if choice["what"] == "queue_bytes"][-1]

    next(it)
    most = queue()["value"]
    assert most == 32 << 20 and "quarter" in queue()["why"]
    until = time.monotonic() + 20
    while queue()["value"] > most // 2 and time.monotonic() < until:
        next(it)
        time.sleep(0.06)
    assert queue()["value"] <= most // 2 and "steady" in queue()["why"]


def nodes(node: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(node["op"], node), *(pair for part in node["inputs"] for pair in nodes(part))]


def test_errors_are_counted() -> None:
    dataset = D.range(10).map(lambda x: 6 // (x - 2)).ignore_errors()
    list(dataset)
    told = dict(nodes(json.loads(dataset.explain("json"))["runs"]))
    assert told["map"]["meter"]["fails"] == 1


def test_a_pass_that_was_left_early() -> None:
    dataset = pipeline()
    iterator = iter(dataset)
    next(iterator)
    assert "1 element " in iterator.explain() and "1 elements" not in iterator.explain()
    del iterator
    assert "as it ran last" in dataset.explain()


def test_rewrites_can_be_turned_off() -> None:
    dataset = pipeline().with_options(rewrite=False, prefetch=False)
    list(dataset)
    assert "fuse" not in dataset.explain()
    assert "map" in operators(json.loads(dataset.explain("json"))["runs"])


def test_explaining_runs_nothing() -> None:
    calls = []

    def count(x: Any) -> Any:
        calls.append(x)
        return x

    dataset = D.range(5).map(count, python=True, output_signature=fl.TensorSpec((), fl.int64))
    dataset.explain(), dataset.explain("json"), repr(dataset), dataset._repr_html_()
    assert calls == []


REPRS = [
    (D.range(10), "range(10): int64, 10 elements"),
    (D.range(1), "range(1): int64, 1 element"),
    (D.range(2, 8, 3), "range(start=2, stop=8, step=3): int64, 2 elements"),
    (D.range(10).batch(3), "range(10).batch(3): int64[?], 4 elements"),
    (D.range(10).batch(3, drop_remainder=True), "int64[3], 3 elements"),
    (D.range(10).map(lambda x: x + 1), "range(10).map(add(x, 1)): int64, 10 elements"),
    (D.range(10).repeat(), "range(10).repeat(): int64, endless"),
    (D.range(10).filter(lambda x: x > 1), "unknown length"),
    (D.from_tensor_slices(np.zeros((3, 2))), "from_tensor_slices(float64[3, 2]): float64[2], 3 elements"),
    (D.zip((D.range(2), D.range(2))), "zip(range(2), range(2)): (int64, int64), 2 elements"),
    (D.from_tensor_slices({"a": [1], "b": ["x"]}), "{a: int32, b: string}, 1 element"),
    (D.range(4).window(2), "dataset of int64, 2 elements"),
    (D.range(4).shuffle(2), "range(4).shuffle(buffer_size=2"),
    (D.range(4).shuffle(), "range(4).shuffle()"),
    (D.range(4).with_options(cpu_budget=1), "range(4).with_options(cpu_budget=1)"),
]


@pytest.mark.parametrize(("dataset", "text"), REPRS, ids=[text[:40] for _, text in REPRS])
def test_repr(dataset: fl.Dataset, text: str) -> None:
    assert text in repr(dataset)
    assert str(dataset) == repr(dataset)


@pytest.mark.parametrize("kind", PIPELINES)
def test_reprs_are_short_and_the_same_each_time(kind: str) -> None:
    text = repr(PIPELINES[kind])
    assert text == repr(PIPELINES[kind])
    assert "\n" not in text and len(text) < 400
    assert not re.search(r"0x[0-9a-f]{6,}", text)


class Cells(html.parser.HTMLParser):
    """The cells of a table, and whether all elements are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows: list[list[str]] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "td":
            self.rows[-1].append(data)


@pytest.mark.parametrize("kind", PIPELINES)
def test_html_is_well_formed(kind: str) -> None:
    dataset = PIPELINES[kind]
    cells = Cells()
    cells.feed(dataset._repr_html_())
    cells.close()
    assert cells.open == []
    written = json.loads(dataset.explain("json"))["written"]
    text = " ".join(cell for row in cells.rows for cell in row)
    for op in operators(written):
        assert f"{op}(" in text
    assert "add(x, 7)" in text or kind != "zip"


@pytest.mark.parametrize("kind", PIPELINES)
@pytest.mark.parametrize("ran", [False, True])
def test_every_pipeline_is_drawn(kind: str, ran: bool) -> None:
    dataset = PIPELINES[kind]
    if ran:
        list(dataset)
    told = json.loads(dataset.explain("json"))
    for format, arrow in (("dot", "->"), ("mermaid", "-->")):
        text = dataset.explain(format)
        for op in operators(told["runs" if ran else "written"]):
            assert f"{op}(" in text
        lines = text.splitlines()
        assert sum(f" {arrow} n" in line for line in lines) <= len(lines) - 2
        names = set(re.findall(r"^  (n\d+)\s?\[", text, re.MULTILINE))
        assert set(re.findall(r"n\d+", " ".join(line for line in lines if f" {arrow} " in line))) <= names


def test_other_formats_are_refused() -> None:
    with pytest.raises(ValueError, match="text, json, dot, mermaid and html"):
        D.range(3).explain("png")


def test_the_ceiling_is_told() -> None:
    dataset = pipeline()
    list(dataset)
    told = json.loads(dataset.explain("json"))
    ceiling = told["ceiling"]
    assert ceiling["rate"] > 0 and ceiling["limit"]["name"] in operators(told["runs"])
    assert "at best" in dataset.explain() and "at best" in dataset.explain("html")


SPECS = [
    (fl.TensorSpec((None, 3), fl.float32), "float32[?, 3]", "TensorSpec(shape=(None, 3), dtype=fl.float32)"),
    (fl.TensorSpec((), fl.string), "string", "TensorSpec(shape=(), dtype=fl.string)"),
    (fl.TensorSpec(None, fl.int64), "int64<unknown rank>", "TensorSpec(shape=None, dtype=fl.int64)"),
    (fl.RaggedTensorSpec((2, None), fl.int32), "ragged int32[2, ?]", "RaggedTensorSpec(shape=(2, None)"),
    (
        fl.SparseTensorSpec((2, 3), fl.bool),
        "sparse bool[2, 3]",
        "SparseTensorSpec(shape=(2, 3), dtype=fl.bool)",
    ),
    (fl.NoneSpec(), "none", "NoneSpec()"),
    (fl.DatasetSpec(fl.TensorSpec((), fl.int64)), "dataset of int64", "DatasetSpec(TensorSpec("),
]


@pytest.mark.parametrize(("spec", "text", "code"), SPECS, ids=[text for _, text, _ in SPECS])
def test_specs_in_words(spec: Any, text: str, code: str) -> None:
    assert str(spec) == text
    assert repr(spec).startswith(code)
    made = eval(
        repr(spec), {"fl": fl, **{name: getattr(fl, name) for name in dir(fl) if name.endswith("Spec")}}
    )
    assert made == spec and hash(made) == hash(spec)


def test_specs_compare() -> None:
    assert fl.TensorSpec([2], "int32") == fl.TensorSpec((2,), np.int32)
    assert fl.TensorSpec([2], "int32") != fl.TensorSpec((3,), np.int32)
    assert fl.TensorSpec([2], "int32") != fl.TensorSpec((2,), np.int64)
    assert fl.TensorSpec([None, 2], "int32").is_compatible_with(np.zeros((5, 2), np.int32))
    assert not fl.TensorSpec([None, 2], "int32").is_compatible_with(np.zeros((5, 3), np.int32))


LENGTHS = [
    (lambda: D.counter(), "take"),
    (lambda: D.range(3).repeat(), "take"),
    (lambda: D.range(3).filter(lambda x: x > 1), "assert_cardinality"),
    (lambda: D.range(3).flat_map(lambda x: D.range(x)), "assert_cardinality"),
    (
        lambda: D.from_generator(lambda: [1], output_signature=fl.TensorSpec((), fl.int64)),
        "assert_cardinality",
    ),
]


@pytest.mark.parametrize(("build", "advice"), LENGTHS)
def test_lengths_that_are_not_known_say_what_to_do(build: Any, advice: str) -> None:
    with pytest.raises(TypeError, match=advice):
        len(build())
    assert build().cardinality() in (fl.INFINITE_CARDINALITY, fl.UNKNOWN_CARDINALITY)


def test_lengths_that_are_known() -> None:
    assert len(D.range(10).batch(3)) == 4
    assert len(D.range(3).filter(lambda x: x > 1).assert_cardinality(1)) == 1
    assert len(D.counter().take(7)) == 7


def test_a_wrong_length_is_told_at_the_end() -> None:
    dataset = D.range(3).assert_cardinality(5)
    iterator = iter(dataset)
    assert [next(iterator) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(fl.errors.FailedPreconditionError, match=r"(?s)5.*3|3.*5"):
        next(iterator)


@pytest.mark.parametrize(
    "value", [fl.ragged.constant([[1], [2, 3]]), fl.SparseTensor([[0, 1]], [5], [2, 2])], ids=repr
)
def test_values_show_their_items(value: Any) -> None:
    assert ("[[1], [2, 3]]" in repr(value)) or ("(0, 1): 5" in repr(value))


def test_a_symbol_shows_its_spec() -> None:
    seen = []
    D.from_tensor_slices(np.zeros((3, 2), np.float32)).map(lambda x: (seen.append(repr(x)), x)[1])
    assert seen == ["<symbolic float32[2]>"]


def test_wide_elements_are_cut_in_text_only() -> None:
    ds = D.from_tensor_slices({f"field_{i:02}": np.zeros((3, 4)) for i in range(40)}).map(lambda e: e)
    for _ in range(2):
        text = ds.explain()
        assert "field_00" in text and "…" in text and "field_39" not in text
        assert max(map(len, text.splitlines())) < 170
        assert "field_39" in json.loads(ds.explain("json"))["written"]["spec"]
        assert "field_39" in ds.explain("html")
        list(ds)


def test_what_datasets_in_functions_hold_is_told_of_whoever_opens_them() -> None:
    """Of all that are open at once; what nobody keeps is on its way."""
    rows = fl.Dataset.range(400).map(lambda x: fl.fill([25_000], x))
    for ds, buffers in [
        (fl.Dataset.range(16).flat_map(lambda i: rows.shuffle(50, seed=1)), 1),
        (fl.Dataset.range(4).interleave(lambda i: rows.shuffle(50, seed=1), cycle_length=4), 4),
    ]:
        with contextlib.closing(iter(ds)) as it:
            for _ in range(40):
                next(it)
            text = it.explain()
        ran = text[text.index("as it ran") :]
        (row,) = [line for line in ran.splitlines() if re.match(r" *(flat_map|interleave)\(", line)]
        now = re.search(r" (\d+\.\d) MB +\d+\.\d MB$", row)
        assert now and float(now[1]) >= buffers * 50 * 0.2 * 0.95, row
        on_its_way = r"memory: \d+\.\d MB now \(.* of it read ahead, being made or handed on\) and "
        assert re.search(on_its_way, text), text
