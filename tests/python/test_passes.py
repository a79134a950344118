"""Passes for frameworks that begin an element ahead: an error or an interrupt loses nothing, and states are
where the consumer is.
"""

from __future__ import annotations

from typing import Any

import feedline as fl
import pytest
from feedline.frameworks.passes import Pass


def whole(element: Any) -> Any:
    return element


def checked(bad: int) -> fl.Dataset:
    def check(x: Any) -> Any:
        if x == bad:
            raise ZeroDivisionError("bad")
        return x

    return fl.Dataset.range(5).map(check, python=True, output_signature=fl.TensorSpec((), fl.int64))


def delivered(given: Pass) -> int:
    return given.state_dict()["delivered"]


def test_an_element_is_made_ready_ahead() -> None:
    begun: list[int] = []

    def begin(element: Any) -> Any:
        begun.append(int(element))
        return element

    given = Pass(iter(fl.Dataset.range(3)), begin, whole)
    assert delivered(given) == 0
    for number in range(3):
        assert next(given) == number
        assert begun == [0, 1, 2][: number + 2]
        assert delivered(given) == number + 1
        assert not given.state_dict()["ended"]
    for _ in range(2):
        assert next(given, None) is None
        assert given.state_dict()["ended"]


@pytest.mark.parametrize("bad", [0, 2, 4])
def test_an_error_comes_in_place_of_its_own_element(bad: int) -> None:
    given = Pass(iter(checked(bad)), whole, whole)
    for number in range(5):
        if number == bad:
            with pytest.raises(ZeroDivisionError):
                next(given)
        else:
            before = given.state_dict()
            assert next(given) == number
            # The state goes on with the same element.
            again = Pass(checked(bad).iter(before), whole, whole)
            if number < bad:
                assert next(again) == number
    assert next(given, None) is None


def test_the_state_before_an_error_goes_on_with_it() -> None:
    given = Pass(iter(checked(2)), whole, whole)
    assert [int(next(given)) for _ in range(2)] == [0, 1]
    assert delivered(given) == 2
    again = Pass(iter(checked(2)), whole, whole)
    again.load_state_dict(given.state_dict())
    with pytest.raises(ZeroDivisionError):
        next(again)
    assert [int(x) for x in again] == [3, 4]


def test_an_element_that_cannot_be_begun_is_passed_over() -> None:
    def begin(element: Any) -> Any:
        if element == 1:
            raise ValueError("odd one out")
        return element

    given = Pass(iter(fl.Dataset.range(4)), begin, whole)
    assert next(given) == 0
    with pytest.raises(ValueError, match="odd one out"):
        next(given)
    assert [int(x) for x in given] == [2, 3]


class Interrupted:
    """An iterator that is interrupted once, before its element of that number."""

    def __init__(self, dataset: fl.Dataset, at: int) -> None:
        self.iterator = iter(dataset)
        self.at, self.count = at, 0

    def __iter__(self) -> Interrupted:
        return self

    def __next__(self) -> Any:
        if self.count == self.at:
            self.at = -1
            raise KeyboardInterrupt
        self.count += 1
        return next(self.iterator)

    def state_dict(self) -> Any:
        return self.iterator.state_dict()

    def moment(self) -> Any:
        return self.iterator.moment()


@pytest.mark.parametrize("at", [0, 1, 3])
def test_an_interrupt_is_raised_at_once_and_loses_nothing(at: int) -> None:
    given = Pass(Interrupted(fl.Dataset.range(5), at), whole, whole)
    expected = max(at - 1, 0)
    assert [int(next(given)) for _ in range(expected)] == list(range(expected))
    with pytest.raises(KeyboardInterrupt):
        next(given)
    assert delivered(given) == expected
    assert [int(x) for x in fl.Dataset.range(5).iter(given.state_dict())] == list(range(expected, 5))
    assert [int(x) for x in given] == list(range(expected, 5))


@pytest.mark.parametrize("at", [0, 1, 3])
def test_an_interrupt_of_a_transfer_loses_nothing(at: int) -> None:
    waiting = [at]

    def begin(element: Any) -> Any:
        if element in waiting:
            waiting.clear()
            raise KeyboardInterrupt
        return element

    given = Pass(iter(fl.Dataset.range(5)), begin, whole)
    expected = max(at - 1, 0)
    assert [int(next(given)) for _ in range(expected)] == list(range(expected))
    with pytest.raises(KeyboardInterrupt):
        next(given)
    assert delivered(given) == expected
    assert [int(x) for x in given] == list(range(expected, 5))
