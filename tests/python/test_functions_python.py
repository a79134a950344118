"""Functions that cannot be traced run as Python, and what they raise arrives as it is."""

from __future__ import annotations

import functools
import logging
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import feedline as fl
import numpy as np
import pytest
from outcomes import outcomes

D = fl.Dataset


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


# What Python does with a value behind the back of operators must not pass silently.

BEHIND = {
    "f-string": (lambda x: f"{x}", [b"0", b"1", b"2"]),
    "str()": (lambda x: str(x), [b"0", b"1", b"2"]),
    "format": (lambda x: "img_{}.png".format(x), [b"img_0.png", b"img_1.png", b"img_2.png"]),  # noqa: UP032
    "percent": (lambda x: "%d" % x, [b"0", b"1", b"2"]),  # noqa: UP031
    "dict.get": (lambda x: {0: 7}.get(x, 5), [7, 5, 5]),
    "dict[]": (lambda x: {0: 7, 1: 8, 2: 9}[x], [7, 8, 9]),
    "in a set": (lambda x: x in {1, 2}, [False, True, True]),
    "in a tuple": (lambda x: x in (1, 2), [False, True, True]),
    "if": (lambda x: 1 if x > 1 else 0, [0, 0, 1]),
    "chained": (lambda x: 0 < x < 2, [False, True, False]),
    "and": (lambda x: x > 0 and x < 2, [False, True, False]),
    "not": (lambda x: not x, [True, False, False]),
    "max()": (lambda x: max(x, 1), [1, 1, 2]),
    "range()": (lambda x: sum(range(x)), [0, 0, 1]),
    "list index": (lambda x: [4, 5, 6][x], [4, 5, 6]),
    "int()": (lambda x: int(x), [0, 1, 2]),
    "math": (lambda x: __import__("math").floor(x), [0, 1, 2]),
    "numpy()": (lambda x: x.numpy() + 1, [1, 2, 3]),
    "item()": (lambda x: x.item(), [0, 1, 2]),
    "np.asarray": (lambda x: np.asarray(x), [0, 1, 2]),
    "try": (lambda x: tried(x), [0, 1, 2]),
    "np.unique": (lambda x: np.unique(x)[0], [0, 1, 2]),
    "isinstance": (lambda x: isinstance(x.tolist(), int), [True, True, True]),
}


def tried(x: Any) -> Any:
    """Hides the question for the value."""
    try:
        return int(x)
    except TypeError:
        return x


@pytest.mark.parametrize("kind", BEHIND)
def test_functions_that_need_the_value_run_as_python(kind: str) -> None:
    function, expected = BEHIND[kind]
    assert list(D.range(3).map(function)) == expected


def records(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name.startswith("feedline")]


def test_the_fallback_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    def halve(x: Any) -> Any:
        if x > 2:  # asks for the value
            return x // 2
        return x

    with caplog.at_level(logging.WARNING, "feedline"):
        for _ in range(3):
            assert list(D.range(5).map(halve)) == [0, 1, 2, 1, 2]
    (message,) = records(caplog)
    line = halve.__code__.co_firstlineno + 1
    assert f"test_functions_python.py:{line}" in message
    assert "if x > 2:  # asks for the value" in message
    assert "map" in message and "halve" in message and "fl.where" in message


def test_each_function_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "feedline"):
        D.range(5).map(lambda x: int(x))
        D.range(5).filter(lambda x: bool(x > 1))
    assert [message.partition("(")[0] for message in records(caplog)] == ["map", "filter"]


def test_traced_functions_and_python_on_request_are_not_told_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "feedline"):
        list(D.range(5).map(lambda x: x + 1).map(lambda x: int(x), python=True))
    assert records(caplog) == []


def test_traced_functions_are_called_once() -> None:
    calls = []

    def counted(x: Any) -> Any:
        calls.append(x)
        return x + 1

    dataset = D.range(100).map(counted)
    list(dataset)
    list(dataset)
    assert len(calls) == 1
    assert isinstance(calls[0], fl.Symbol)


def test_python_functions_get_numpy_values() -> None:
    seen = []

    def look(row: Any, number: Any, text: Any) -> Any:
        seen.append((type(row), type(number), type(text)))
        return number

    dataset = D.from_tensor_slices((np.zeros((3, 2)), [1, 2, 3], ["a", "b", "c"])).map(look, python=True)
    assert list(dataset) == [1, 2, 3]
    assert set(seen) == {(np.ndarray, np.int32, bytes)}


def test_native_refuses_what_cannot_be_traced() -> None:
    with pytest.raises(ValueError, match=r"(?s)map.*native=True.*int\(\).*test_functions_python.py"):
        D.range(3).map(lambda x: int(x), native=True)
    assert list(D.range(3).map(lambda x: x + 1, native=True)) == [1, 2, 3]


def test_output_signature_states_the_shape() -> None:
    spec = fl.TensorSpec((2,), fl.float32)
    dataset = D.range(3).map(lambda x: [float(x), 1.0], python=True, output_signature=spec)
    assert dataset.element_spec == spec
    assert [row.tolist() for row in dataset] == [[0, 1], [1, 1], [2, 1]]
    with pytest.raises(ValueError, match=r"\[2\]"):
        list(D.range(3).map(lambda x: [1.0], python=True, output_signature=spec))


def test_python_functions_of_an_empty_dataset_need_a_signature() -> None:
    with pytest.raises(ValueError, match="output_signature"):
        D.range(0).map(lambda x: int(x))
    signature = fl.TensorSpec((), fl.int64)
    assert list(D.range(0).map(lambda x: int(x), output_signature=signature)) == []


@pytest.mark.parametrize("made", ["lambda", "partial", "object", "method", "builtin", "numpy", "feedline"])
def test_anything_callable_is_a_function(made: str) -> None:
    class Adder:
        def __call__(self, x: Any) -> Any:
            return x + 1

        def add(self, x: Any) -> Any:
            return x + 1

    function = {
        "lambda": lambda x: x + 1,
        "partial": functools.partial(lambda a, x: x + a, 1),
        "object": Adder(),
        "method": Adder().add,
        "builtin": abs,
        "numpy": np.abs,
        "feedline": fl.abs,
    }[made]
    assert list(D.range(1, 3).map(function, native=True)) == [function(1), function(2)]


# Exceptions


class Custom(Exception):
    """An exception of the user's own."""

    def __init__(self, code: int) -> None:
        super().__init__(f"code {code}")
        self.code = code


def fails_at_two(x: Any) -> Any:
    """Raises for one element."""
    if int(x) == 2:
        raise Custom(7)  # the line that fails
    return x


@pytest.mark.parametrize("chunk_rows", [1, 2, 100])
def test_exceptions_arrive_as_they_are_and_iteration_goes_on(chunk_rows: int) -> None:
    dataset = D.range(5).map(fails_at_two, python=True).with_options(chunk_rows=chunk_rows)
    for _ in range(2):
        found = outcomes(dataset)
        error = found.pop(2)
        assert found == [0, 1, 3, 4]
        assert type(error) is Custom and error.code == 7
        lines = "".join(traceback.format_tb(error.__traceback__))
        assert "raise Custom(7)  # the line that fails" in lines
        assert "fails_at_two" in lines


def test_an_exception_names_operator_and_element() -> None:
    error = outcomes(D.range(5).map(fails_at_two, python=True))[2]
    notes = getattr(error, "__notes__", None)
    if notes is not None:
        assert "map" in notes[0] and "element 2" in notes[0]


def test_an_exception_loses_one_element_of_what_follows() -> None:
    dataset = D.range(7).map(fails_at_two, python=True)
    assert list(dataset.ignore_errors()) == [0, 1, 3, 4, 5, 6]
    assert [batch.tolist() for batch in dataset.ignore_errors().batch(3)] == [[0, 1, 3], [4, 5, 6]]
    assert [x for x in outcomes(dataset.map(lambda x: x * 2)) if not isinstance(x, Custom)] == [
        0,
        2,
        6,
        8,
        10,
        12,
    ]


def test_each_failing_element_has_its_own_exception() -> None:
    def fail(x: Any) -> Any:
        raise Custom(int(x))

    dataset = D.range(4).map(fail, python=True, output_signature=fl.TensorSpec((), fl.int64))
    assert [error.code for error in outcomes(dataset)] == [0, 1, 2, 3]


def test_stop_iteration_in_a_function_is_no_end() -> None:
    def stop(x: Any) -> Any:
        if int(x) == 1:
            raise StopIteration
        return x

    found = outcomes(D.range(3).map(stop, python=True, output_signature=fl.TensorSpec((), fl.int64)))
    assert [found[0], found[2]] == [0, 2]
    assert isinstance(found[1], RuntimeError)


@pytest.mark.parametrize(
    "error", [KeyError("x"), OSError(2, "gone"), MemoryError(), AssertionError(), SystemError()]
)
def test_builtin_exceptions_arrive_too(error: Exception) -> None:
    def fail(x: Any) -> Any:
        raise error

    dataset = D.range(1).map(fail, python=True, output_signature=fl.TensorSpec((), fl.int64))
    (found,) = outcomes(dataset)
    assert found is error or (type(found) is type(error) and found.args == error.args)


def test_exceptions_while_tracing_are_raised_at_once() -> None:
    with pytest.raises(ZeroDivisionError):
        D.range(3).map(lambda x: 1 / 0)


def test_errors_of_traced_functions_stand_in_their_place() -> None:
    found = outcomes(D.range(4).map(lambda x: 6 // (x - 2)))
    assert found[:2] == [-3, -6] and found[3] == 6
    assert isinstance(found[2], fl.errors.DataError) and isinstance(found[2], ValueError)
    assert "division by zero" in str(found[2]) and "element 2" in str(found[2])


def test_wrong_results_of_python_functions_are_errors_of_their_element() -> None:
    signature = fl.TensorSpec((), fl.int64)
    dataset = D.range(4).map(
        lambda x: 1.5 if x == 1 else "a" if x == 2 else int(x), output_signature=signature
    )
    found = outcomes(dataset)
    assert [found[0], found[3]] == [0, 3]
    assert all(isinstance(error, (TypeError, ValueError)) for error in found[1:3])


def numbers_by(function: Callable[[Any], Any]) -> fl.Dataset:
    spec = fl.TensorSpec((), fl.int64)
    return fl.Dataset.range(10_000).map(function, python=True, num_parallel_calls=2, output_signature=spec)


def test_what_is_ready_is_handed_on_while_the_next_is_made() -> None:
    """Also where the only worker has a step of some milliseconds before it, and room for many more."""
    calls = 0

    def slow(x: Any) -> Any:
        nonlocal calls
        calls += 1
        time.sleep(0.003)
        return x

    it = numbers_by(slow).batch(1).prefetch(64).iter(cpu_budget=1, chunk_rows=1)
    ahead = []
    for taken in range(1, 60):
        next(it)
        ahead.append(calls - taken)
    it.close()
    assert max(ahead) < 8


def test_no_worker_waits_for_the_lock_while_another_takes_it_again_and_again() -> None:
    """What the one had begun would hold up all that the other makes, until there is no room for more."""
    last: dict[int, int] = {}

    def busy(x: Any) -> Any:
        last[threading.get_ident()] = int(x)
        begin = time.thread_time()
        while time.thread_time() - begin < 0.001:
            pass
        return x

    it = numbers_by(busy).iter(cpu_budget=2, chunk_rows=1)
    ahead = []
    for taken in range(300):
        next(it)
        ahead.append(max(last.values()) - taken)
    it.close()
    assert max(ahead) < 64
