"""Misuse that runs: what is warned about, where, how often; and errors that explain."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import feedline as fl
import numpy as np
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "warnings.md"


def again(given: list[Any]) -> list[Any]:
    return [w for w in given if issubclass(w.category, fl.warnings.FirstElementAgain)]


def test_the_first_element_again_and_again() -> None:
    ds = fl.Dataset.range(10).batch(2)
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        counts = []
        for _ in range(8):
            next(iter(ds))  # This line.
            counts.append(len(again(given)))
    # At the third restart, and once.
    assert counts == [0, 0, 0, 1, 1, 1, 1, 1]
    (warning,) = again(given)
    assert warning.filename == __file__
    assert "# This line." in Path(__file__).read_text().splitlines()[warning.lineno - 1]
    assert "FL002" in str(warning.message) and "#fl002" in str(warning.message)


def test_other_ways_to_the_first_element() -> None:
    ds = fl.Dataset.range(10)
    with pytest.warns(fl.warnings.FirstElementAgain):
        for _ in range(4):
            iterator = ds.as_numpy_iterator()
            next(iterator)


def test_loops_that_are_right_are_not_warned_about() -> None:
    ds = fl.Dataset.range(10).batch(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(6):
            for _ in ds:
                pass
        for _ in range(6):
            iterator = iter(ds)
            next(iterator), next(iterator)
        for _ in range(6):
            next(iter(ds.skip(1)))
        one = ds.take(1)
        for _ in range(6):
            next(iter(one))
        for _ in range(6):
            ds.peek()


def test_every_warning_has_its_place_in_the_docs() -> None:
    kinds = [kind for name in fl.warnings.__all__ if isinstance(kind := getattr(fl.warnings, name), type)]
    codes = {kind.code for kind in kinds if kind is not fl.warnings.FeedlineWarning}
    assert len(codes) == len(kinds) - 1
    assert set(re.findall(r"^## (FL\d+)", PAGE.read_text(), re.MULTILINE)) == codes


def test_a_step_too_many_says_how_many_there_are() -> None:
    iterator = iter(fl.Dataset.range(20).batch(2))
    for _ in range(10):
        iterator.get_next()
    with pytest.raises(fl.errors.OutOfRangeError, match=r"all 10 elements .* add \.repeat\(\)"):
        iterator.get_next()


def test_a_length_that_is_not_known_explains_itself() -> None:
    with pytest.raises(TypeError, match=r"not known without reading it .*assert_cardinality"):
        len(fl.Dataset.range(9).filter(lambda x: x > 3))
    with pytest.raises(TypeError, match=r"endless .*take"):
        len(fl.Dataset.range(9).repeat())


def test_features_and_labels_of_different_lengths() -> None:
    with pytest.raises(ValueError, match=r"value\[0\] has 10 and value\[1\] has 9"):
        fl.Dataset.from_tensor_slices((np.zeros((10, 3)), np.zeros(9)))
    with pytest.raises(ValueError, match=r'value\["x"\] has 10 and value\["y"\] has 9'):
        fl.Dataset.from_tensor_slices({"x": np.zeros((10, 3)), "y": np.zeros(9)})
