"""Which Python functions may draw random numbers, as far as their code tells."""

from __future__ import annotations

import functools
import random
import secrets
from collections.abc import Callable
from random import gauss, shuffle
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.random as npr
import pytest
from feedline.function_randomness import may_draw
from numpy.random import rand

RNG = np.random.default_rng(0)
SETTINGS = SimpleNamespace(random=3, rng=4)
NAMES = ["random", "rand"]


def helper(x: Any) -> Any:
    return x + np.random.normal(size=3)


def steady(x: Any) -> Any:
    return x + 1


def imports(x: Any) -> Any:
    import random as chance

    return x + chance.gauss(0, 1)


def imports_a_part(x: Any) -> Any:
    from numpy.random import default_rng

    rng = default_rng()
    return x + rng.normal()


def has_a_function(x: Any) -> Any:
    def inner() -> Any:
        return random.random()

    return [inner() for _ in range(3)]


def by_another_name(x: Any) -> Any:
    chance = np.random
    return chance.rand() + x


def with_default(x: Any, rng: Any = RNG) -> Any:
    return x + rng.normal()


def takes_generator(rng: Any, x: Any) -> Any:
    return x + rng.normal()


def closed(rng: Any) -> Callable[[Any], Any]:
    return lambda x: x + rng.normal()


def wrapped(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(function)
    def called(x: Any) -> Any:
        return function(x)

    return called


class Augment:
    def __init__(self, rng: Any) -> None:
        self.rng = rng

    def __call__(self, x: Any) -> Any:
        return self.moved(x)

    def moved(self, x: Any) -> Any:
        return x + self.rng.random()


AUGMENT = Augment(random.Random(3))


def seeds_first(x: Any) -> Any:
    np.random.seed(int(x))
    return x + np.random.rand()


def seeds_a_generator(x: Any) -> Any:
    RNG_OF_ITS_OWN.seed(int(x))
    return x + RNG_OF_ITS_OWN.random()


RNG_OF_ITS_OWN = random.Random()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + random.random(),
        lambda x: x + random.randint(0, 9),
        lambda x: x + np.random.rand(),
        lambda x: x + np.random.default_rng().normal(),
        lambda x: x + npr.normal(size=(2, 3)),
        lambda x: x + rand(),
        lambda x: gauss(x, 1),
        shuffle,
        lambda x: secrets.randbelow(9),
        lambda x: secrets.choice([x, 1]),
        lambda x: x + RNG.normal(),
        lambda x: helper(x),
        lambda x: AUGMENT(x),
        lambda x: AUGMENT.moved(x),
        lambda x: random.Random().random(),
        imports,
        imports_a_part,
        has_a_function,
        by_another_name,
        with_default,
        functools.partial(takes_generator, RNG),
        functools.partial(takes_generator, rng=RNG),
        closed(RNG),
        wrapped(helper),
        AUGMENT,
        AUGMENT.moved,
    ],
)
def test_what_draws(function: Any) -> None:
    assert may_draw(function)


@pytest.mark.parametrize(
    "function",
    [
        steady,
        lambda x: np.sort(x),
        lambda x: steady(x),
        lambda x: SETTINGS.random + SETTINGS.rng,
        lambda x: NAMES[0] + "random",
        lambda x: x.random(),
        # What comes of a seed is the same in each epoch.
        lambda x: x + np.random.default_rng(int(x)).normal(),
        lambda x: x + random.Random(int(x)).random(),
        lambda x: isinstance(x, np.random.Generator),
        seeds_first,
        seeds_a_generator,
        takes_generator,
        functools.partial(takes_generator, None),
        wrapped(steady),
        Augment(None),
        len,
        np.abs,
        SimpleNamespace(),
        str,
    ],
)
def test_what_does_not(function: Any) -> None:
    assert not may_draw(function)


def test_nothing_of_the_users_runs() -> None:
    class Touchy:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(name)

        @property
        def rng(self) -> Any:
            raise AssertionError

        def __call__(self, x: Any) -> Any:
            return self.rng.random() + self.other

    touchy = Touchy()
    assert not may_draw(touchy)
    assert not may_draw(lambda x: touchy.rng(x))
