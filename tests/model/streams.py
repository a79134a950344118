"""The operators as generators over events.

An event is an element or `FAILED`, which stands in the place of an element that could not be made; the stream
goes on after it. A function that fails raises `ElementFailed`. Infinite streams are fine as long as nobody
reads them to the end.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from . import tree


class ElementFailed(Exception):
    """A function could not make its result."""


class _Failed:
    def __repr__(self) -> str:
        return "FAILED"


FAILED = _Failed()

Events = Iterator[Any]
Open = Callable[[], Events]
Function = Callable[..., Any]


def attempt(function: Function, *arguments: Any) -> Any:
    """The result of a function, or FAILED."""
    try:
        return function(*arguments)
    except ElementFailed:
        return FAILED


def map_(events: Events, function: Function) -> Events:
    """A failing element leaves a failure in its place."""
    for event in events:
        yield event if event is FAILED else attempt(function, event)


def filter_(events: Events, predicate: Function) -> Events:
    """Keeps what the predicate accepts, and every failure, those of the predicate included."""
    for event in events:
        kept = FAILED if event is FAILED else attempt(predicate, event)
        if kept is FAILED:
            yield FAILED
        elif kept:
            yield event


def take_while(events: Events, predicate: Function) -> Events:
    """Ends for good at the first False."""
    for event in events:
        kept = FAILED if event is FAILED else attempt(predicate, event)
        if kept is not FAILED and not kept:
            return
        yield FAILED if kept is FAILED else event


def flat_map(events: Events, function: Function) -> Events:
    """The inner streams one after the other."""
    for event in events:
        inner = FAILED if event is FAILED else attempt(function, event)
        if inner is FAILED:
            yield FAILED
        else:
            yield from inner.open()


def interleave(events: Events, function: Function, cycle: int, block: int, parallel: bool) -> Events:
    """Slots are visited in turn; a visit reads up to `block` elements, and an ended slot passes its turn on.

    The forms differ in failures only. Sequential: a failure has no part in the count, the same slot goes on.
    Parallel: a failure counts as an element, and a failing input as an inner stream of just that failure.
    """
    slots: list[Events | None] = [None] * cycle
    at, read, ended = 0, 0, False
    while not ended or any(slots):
        slot = slots[at]
        if slot is None and not ended:
            event = next(events, events)
            ended = event is events
            inner = FAILED if event is FAILED or ended else attempt(function, event)
            if inner is not FAILED:
                slots[at] = inner.open()
            elif parallel and not ended:
                slots[at] = iter([FAILED])
            elif not ended:
                yield FAILED
            continue
        event = slot if slot is None else next(slot, slot)
        if event is slot:
            slots[at] = None
            at, read = (at + 1) % cycle, 0
            continue
        yield event
        read += event is not FAILED or parallel
        if read == block:
            at, read = (at + 1) % cycle, 0


def batch(events: Events, sizes: Iterable[int], drop_remainder: bool, stack: Function) -> Events:
    """Groups of the given sizes. A failure costs what was collected for its group and itself."""
    for size in sizes:
        group = []
        failed = False
        while len(group) < size and not failed:
            event = next(events, events)
            if event is events:
                break
            failed = event is FAILED
            group.append(event)
        if failed:
            yield FAILED
        elif len(group) == size:
            yield attempt(stack, group)
        else:
            if group and not drop_remainder:
                yield attempt(stack, group)
            return


def stack(group: list[Any]) -> Any:
    """Elements on a new first axis; unequal shapes fail."""

    def stack_leaves(*leaves: Any) -> Any:
        if len({leaf.shape for leaf in leaves}) > 1:
            raise ElementFailed
        return np.stack(leaves)

    return tree.map_leaves(stack_leaves, *group)


def unbatch(events: Events) -> Events:
    """The rows of every element; components of unequal length fail."""
    for event in events:
        sizes = {len(leaf) for leaf in tree.leaves(event)} if event is not FAILED else {}
        if len(sizes) != 1:
            yield FAILED
            continue
        for index in range(sizes.pop()):
            yield tree.map_leaves(lambda leaf, i=index: leaf[i : i + 1].reshape(leaf.shape[1:]), event)


def window(events: Events, size: int, shift: int, stride: int, drop_remainder: bool) -> Iterator[Any]:
    """Lists of members by position; a window with a failing member fails."""
    seen: dict[int, Any] = {}
    read = 0
    for start in itertools.count(0, shift):
        positions = [start + step * stride for step in range(size)]
        while read <= positions[-1]:
            event = next(events, events)
            if event is events:
                break
            seen[read] = event
            read += 1
        members = [seen[position] for position in positions if position in seen]
        if not members or (drop_remainder and len(members) < size):
            return
        yield FAILED if any(member is FAILED for member in members) else members
        seen = {position: event for position, event in seen.items() if position >= start + shift}


def shuffle(events: Events, size: int, draws: Iterator[int]) -> Events:
    """A buffer in order of age: one is drawn, the oldest takes its place. Failures pass it at once."""
    buffer: list[Any] = []
    while True:
        for event in events:
            if event is FAILED:
                yield FAILED
                continue
            buffer.append(event)
            if len(buffer) == size:
                break
        if not buffer:
            return
        chosen = next(draws) % len(buffer)
        buffer[0], buffer[chosen] = buffer[chosen], buffer[0]
        yield buffer.pop(0)


def repeat(open_input: Open, count: int) -> Events:
    """Epoch after epoch; for ever when negative, unless an epoch has nothing."""
    for _ in range(count) if count >= 0 else itertools.count():
        empty = True
        for event in open_input():
            empty = False
            yield event
        if empty and count < 0:
            return


def take(events: Events, count: int) -> Events:
    """Up to `count` elements and the failures among them; what follows is not read."""
    taken = 0
    while count < 0 or taken < count:
        event = next(events, events)
        if event is events:
            return
        taken += event is not FAILED
        yield event


def skip(events: Events, count: int) -> Events:
    """Drops the elements that `take` would give; failures among them are delivered. Negative drops all."""
    if count < 0:
        return
    dropped = 0
    for event in events:
        if event is FAILED or dropped == count:
            yield event
        else:
            dropped += 1


def shard(events: Events, num_shards: int, index: int) -> Events:
    """Every num_shards-th element; a failure has no position and shows in every shard."""
    position = 0
    for event in events:
        if event is FAILED or position % num_shards == index:
            yield event
        position += event is not FAILED


def scan(events: Events, state: Any, function: Function) -> Events:
    """A running state, which failures leave as it is."""
    for event in events:
        result = FAILED if event is FAILED else attempt(function, state, event)
        if result is not FAILED:
            state, result = result
        yield result


def enumerate_(events: Events, start: int) -> Events:
    """Numbers follow input positions: that of a failure is left out."""
    for number, event in enumerate(events, start):
        yield FAILED if event is FAILED else (tree.leaf(number), event)


def zip_(streams: list[Events], pack: Function) -> Events:
    """All inputs advance in every step, so they stay aligned after a failure; an end anywhere ends it."""
    end = object()
    while True:
        row = [next(stream, end) for stream in streams]
        if any(event is end for event in row):
            return
        yield FAILED if any(event is FAILED for event in row) else pack(row)


def concatenate(first: Events, open_second: Open) -> Events:
    """One after the other."""
    yield from first
    yield from open_second()


def record(events: Events, store: Callable[[list[Any]], None]) -> Events:
    """Passes events on and stores them after a complete pass without failures."""
    passed = []
    for event in events:
        passed.append(event)
        yield event
    if all(event is not FAILED for event in passed):
        store(passed)


def unique(events: Events) -> Events:
    """First occurrences, by the whole value."""
    known = set()
    for event in events:
        key = event if event is FAILED else (event.shape, tuple(event.ravel().tolist()))
        if event is FAILED or key not in known:
            known.add(key)
            yield event


def ignore_errors(events: Events) -> Events:
    """Failures vanish."""
    return (event for event in events if event is not FAILED)


def group_by_window(events: Events, key: Function, reduce: Function, size: int) -> Events:
    """A full window is read out before more input is read; unfinished ones come at the end by rising key."""
    windows: dict[int, list[Any]] = {}
    for event in events:
        found = FAILED if event is FAILED else attempt(key, event)
        if found is FAILED:
            yield FAILED
            continue
        members = windows.setdefault(int(found), [])
        members.append(event)
        if len(members) == size:
            yield from reduce(windows.pop(int(found))).open()
    for found in sorted(windows):
        yield from reduce(windows[found]).open()
