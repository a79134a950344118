"""Mistakes that are seen in a pipeline before it runs: each with a pipeline that has it, and one without."""

from __future__ import annotations

import re
import runpy
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import feedline as fl
import numpy as np
import pytest
from goldens import cases, steps
from goldens.calls import Calls
from goldens.test_goldens import write_file

D = fl.Dataset
ROOT = Path(__file__).parents[2]
TEN, NINE = D.from_tensor_slices(np.arange(10)), D.from_tensor_slices(np.arange(9))


def noise(x: Any) -> Any:
    return fl.cast(x, fl.float32) + fl.random.uniform([])


RNG = np.random.default_rng(3)


def noisy_copies(i: Any) -> fl.Dataset:
    return D.range(3).map(lambda x: x + fl.random.uniform([], maxval=9, dtype=fl.int64))


def mixed_copies(i: Any, again: bool = True) -> fl.Dataset:
    return D.range(3).shuffle(3, reshuffle_each_iteration=again)


def sampled(again: bool) -> fl.Dataset:
    parts = [D.range(5), D.range(5, 10)]
    return D.sample_from_datasets(parts, seed=1, rerandomize_each_iteration=again)


def augmented(x: Any) -> Any:
    return x + RNG.normal()


def augmented_copies(i: Any) -> fl.Dataset:
    return D.range(3).map(augmented, python=True, output_signature=fl.TensorSpec((), fl.float64))


def augmented_by_its_number(x: Any) -> Any:
    return x + np.random.default_rng(int(x)).normal()


def files() -> fl.Dataset:
    return D.list_files([str(ROOT / "docs" / "guide.md"), str(ROOT / "docs" / "warnings.md")])


# Code: what has the mistake, what has not.
PAIRS: dict[str, tuple[list[Callable[[], fl.Dataset]], list[Callable[[], fl.Dataset]]]] = {
    "FL006": (
        [
            lambda: D.range(9).map(noise).cache(),
            lambda: D.range(9).map(noise).batch(2).cache().repeat(),
            lambda: D.range(9).flat_map(noisy_copies).cache(),
            lambda: D.range(9).interleave(noisy_copies).batch(2).cache(),
            lambda: D.range(9).interleave(noisy_copies, num_parallel_calls=2).snapshot("folder"),
            lambda: D.range(9).flat_map(lambda i: D.range(i).flat_map(noisy_copies)).cache(),
            lambda: D.random(seed=1, rerandomize_each_iteration=True).take(9).cache(),
            lambda: D.range(9).map(augmented, python=True).cache(),
            lambda: D.range(9).map(lambda x: fl.py_function(augmented, [x], fl.float64)).cache(),
            lambda: D.range(9).flat_map(augmented_copies).cache(),
        ],
        [
            lambda: D.range(9).cache().map(noise),
            lambda: D.range(9).map(lambda x: x + 1).cache(),
            lambda: D.range(9).cache().flat_map(noisy_copies),
            lambda: D.range(9).flat_map(lambda i: D.range(i).map(lambda x: x + 1)).cache(),
            lambda: D.random(seed=1).take(9).cache(),
            lambda: D.range(9).cache().map(augmented, python=True),
            lambda: D.range(9).map(lambda x: int(x) + 1, python=True).cache(),
            lambda: D.range(9).map(augmented_by_its_number, python=True).cache(),
        ],
    ),
    "FL007": (
        [
            lambda: D.range(9).shuffle(9).cache(),
            lambda: D.range(9).flat_map(mixed_copies).cache(),
            lambda: D.range(9).interleave(mixed_copies).batch(2).snapshot("folder"),
            lambda: sampled(True).cache(),
            lambda: D.range(9).flat_map(lambda i: sampled(True)).cache(),
            lambda: files().cache(),
            lambda: files().interleave(fl.TextLineDataset).cache(),
        ],
        [
            lambda: D.range(9).cache().shuffle(9),
            lambda: D.range(9).shuffle(9).cache().shuffle(9),
            lambda: D.range(9).cache().flat_map(mixed_copies),
            lambda: D.range(9).flat_map(mixed_copies).cache().shuffle(9),
            lambda: D.range(9).shuffle(9).cache().window(3).flat_map(lambda w: w.shuffle(3)),
            lambda: D.range(9).flat_map(lambda i: mixed_copies(i, again=False)).cache(),
            lambda: sampled(False).cache(),
            lambda: sampled(True).cache().shuffle(9),
            lambda: files().cache().shuffle(9),
        ],
    ),
    "FL008": (
        [
            lambda: D.range(9).batch(2).shuffle(4),
            lambda: D.range(9).padded_batch(2).map(lambda x: x).shuffle(4),
        ],
        [lambda: D.range(9).shuffle(9).batch(2), lambda: D.range(9).batch(2).unbatch().shuffle(9)],
    ),
    "FL009": ([lambda: D.range(9).repeat(3).shuffle(9)], [lambda: D.range(9).shuffle(9).repeat(3)]),
    "FL010": (
        [lambda: D.range(10_000).shuffle(50)],
        [
            lambda: D.range(10_000).shuffle(),
            lambda: D.range(10_000).shuffle(500),
            lambda: D.range(50).shuffle(2),
        ],
    ),
    "FL011": (
        [lambda: D.range(9).shuffle(9).skip(2), lambda: D.range(9).shuffle(9, seed=1).prefetch(1).skip(2)],
        [
            lambda: D.range(9).shuffle(9, reshuffle_each_iteration=False).skip(2),
            lambda: D.range(9).shuffle(9).take(2),
            lambda: D.range(9).skip(2).shuffle(9),
        ],
    ),
    "FL012": (
        [lambda: D.range(9).shuffle(9).shard(3, 0)],
        [lambda: D.range(9).shard(3, 0).shuffle(9), lambda: D.range(9).shuffle(9, seed=1).shard(3, 0)],
    ),
    "FL013": (
        [lambda: D.range(9).repeat().filter(lambda x: x > 3)],
        [lambda: D.range(9).filter(lambda x: x > 3).repeat(), lambda: D.counter().filter(lambda x: x > 3)],
    ),
    "FL014": (
        [lambda: D.range(1000).with_options(memory_limit=5000).cache()],
        [
            lambda: D.range(1000).cache(),
            lambda: D.range(1000).with_options(memory_limit=5000).cache("folder"),
        ],
    ),
    "FL015": ([lambda: D.range(9).repeat().cache()], [lambda: D.range(9).cache().repeat()]),
    "FL016": (
        [lambda: D.range(1000).with_options(memory_limit=5000).shuffle(900)],
        [lambda: D.range(1000).shuffle(900), lambda: D.range(1000).with_options(memory_limit=5000).shuffle()],
    ),
    "FL017": (
        [lambda: D.zip((D.range(9).shuffle(9), D.range(9).map(lambda x: x > 2).shuffle(9)))],
        [
            lambda: D.zip((D.range(9), D.range(9).map(lambda x: x > 2))).shuffle(9),
            lambda: D.zip((D.range(9).shuffle(9), D.range(9).shuffle(9))),
        ],
    ),
    "FL018": (
        [lambda: D.range(9).batch(2), lambda: D.range(9).map(lambda x: fl.range(x))],
        [lambda: D.range(9).batch(2, drop_remainder=True)],
    ),
    "FL019": (
        [lambda: D.range(9).batch(10, drop_remainder=True), lambda: D.range(9).skip(9)],
        [lambda: D.range(9).batch(10), lambda: D.range(9).skip(8), lambda: D.range(0).skip(3)],
    ),
    "FL050": (
        [
            lambda: D.zip((TEN, NINE)),
            lambda: D.zip({"x": TEN.batch(2).map(lambda x: x + 1), "y": NINE}),
            lambda: D.zip((TEN, D.counter(), NINE)).batch(2),
        ],
        [
            lambda: D.zip((TEN, D.from_tensor_slices(np.arange(10)))),
            lambda: D.zip((TEN.take(9), NINE)),
            lambda: D.zip((TEN, TEN.skip(1))),
            lambda: D.zip((TEN, TEN.batch(2))),
            lambda: D.zip((D.range(100), NINE)),
            lambda: D.zip((D.counter(), NINE)),
            lambda: D.zip((NINE.repeat(2), TEN)),
            lambda: D.zip((TEN, NINE.filter(lambda x: x > 1))),
        ],
    ),
}


def codes(dataset: fl.Dataset, code: str) -> list[str]:
    return [found.code for found in dataset.lint(fixed_shapes=code == "FL018")]


@pytest.mark.parametrize("code", PAIRS)
def test_each_code_is_found_where_it_is_and_nowhere_else(code: str) -> None:
    wrong, right = PAIRS[code]
    for build in wrong:
        assert code in codes(build(), code), build()
    for build in right:
        assert codes(build(), code) == [], build()


def test_all_codes_are_tested_and_explained() -> None:
    page = (ROOT / "docs" / "warnings.md").read_text()
    kinds = {kind.code: kind for kind in fl.warnings.FeedlineWarning.__subclasses__()}
    found_while_running = {f"FL00{n}" for n in range(1, 6)}
    assert set(PAIRS) == set(kinds) - found_while_running
    for code in PAIRS:
        section = re.search(rf"^## {code}\n\n`fl\.warnings\.(\w+)`", page, re.MULTILINE)
        assert section and section[1] == kinds[code].__name__, code


def test_a_finding_says_where_what_and_what_to_write() -> None:
    (found,) = D.range(9).batch(2).shuffle(4).lint()
    assert found.code == "FL008" and found.at.startswith("shuffle(buffer_size=4")
    assert "batch" in found.text and found.fix == ".shuffle(buffer_size).batch(batch_size)"
    assert str(found).startswith("FL008 shuffle(")


def test_a_finding_says_in_which_function_and_how_sure_it_is() -> None:
    (found,) = D.range(9).flat_map(noisy_copies).cache().lint()
    assert "in the function of flat_map draws random numbers before cache()" in found.text
    (found,) = D.range(9).map(augmented, python=True).cache().lint()
    assert "augmented" in found.text and "may draw random numbers" in found.text
    (found,) = D.range(9).interleave(mixed_copies).cache().lint()
    assert found.text.startswith("shuffle() in the function of interleave stands before cache()")
    (found,) = sampled(True).cache().lint()
    assert found.text.startswith("sample_from_datasets() stands before cache()")
    assert found.fix.startswith("sample_from_datasets([part.cache(), ...])")


def test_the_first_iterator_warns_and_later_ones_do_not() -> None:
    dataset = D.range(9).batch(2).shuffle(4)
    with pytest.warns(
        fl.warnings.ShuffledBatches, match=r"FL008: shuffle.*Better: \.shuffle.*#fl008"
    ) as given:
        list(dataset)
    assert given[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(dataset)
        list(dataset.iter(prefetch=False))


def test_a_warning_is_silenced_by_its_class() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=fl.warnings.ShuffledBatches)
        list(D.range(9).batch(2).shuffle(4))


def test_shapes_are_a_matter_of_asking() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(D.range(9).batch(2))


# The recorded cases that are about these very things.
ON_PURPOSE = {
    "FL007": {"cache/015", "persist/011"},
    "FL008": {"fuzz/002", "fuzz/046", "fuzz/069", "fuzz_struct/001", "fuzz_struct/031", "shuffle/016"},
    "FL009": {"cardinality/118", "fuzz_struct/016", "shuffle/014", "shuffle/029"},
    "FL013": {"cardinality/006", "filter/012"},
    "FL015": {"cache/018", "cardinality/122"},
    "FL019": {
        "batch/005",
        "fuzz_struct/019",
        "fuzz_struct/040",
        "fuzz_struct/061",
        "take_skip/010",
        "take_skip/011",
    },
}


def test_no_false_alarm_in_the_recorded_cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, set[str]] = {}
    for case in cases.collect(cases.DATA):
        if "op" in case:
            continue
        folder = tmp_path / case["id"]
        folder.mkdir(parents=True)
        monkeypatch.chdir(folder)
        for name, content in case.get("files", {}).items():
            write_file(folder / name, content)
        fl.random.set_seed(case.get("global_seed"))
        try:
            dataset = steps.build(case["steps"], Calls())
        except steps.BuildError:
            continue
        finally:
            fl.random.set_seed(None)
        for finding in dataset.lint():
            found.setdefault(finding.code, set()).add(case["id"])
    assert found == ON_PURPOSE


# Those that need no training framework; tests/frameworks runs the others.
EXAMPLES = [
    "b_prefetch",
    "c_parallel_calls",
    "d_jpeg_files",
    "e_records",
    "f_whole_batches",
    "g_range",
    "h_interleave",
]


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_false_alarm_in_the_examples(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "migrate"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", fl.warnings.FeedlineWarning)
        runpy.run_path(str(ROOT / "examples" / "migrate" / f"{name}.py"), run_name="__main__")


def test_training_pipelines_as_they_are_meant() -> None:
    data = D.from_tensor_slices((np.zeros((2000, 4), np.float32), np.zeros(2000, np.int64)))
    train = data.skip(400).cache().shuffle(1600).map(lambda x, y: (noise(x[0]), y)).batch(32).repeat()
    test = data.take(400).batch(32)
    mixed = D.sample_from_datasets([data.repeat(), data.repeat()]).shuffle(100).batch(8)
    for dataset in (train, test, mixed, train.prefetch(fl.AUTOTUNE), train.take(1)):
        assert dataset.lint() == []
