"""From counters to rates.

1. `told()` reads what the passes of this process have counted, as `explain("json")` tells it.
2. `shape` is what does not change while a plan runs: its operators and who reads whom. Operator 0 is the one
   that the consumer reads.
3. `Track` compares the readings of a pass. All that is shown (page, report, `feedline top`) is samples:
   numbers that need no further thought.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from .. import _native
from ..profiles import LIMITS

__all__ = ["Track", "left_out", "name_of", "process", "shape", "told"]

Json = dict[str, Any]

CONSUMER = 0.1
"""A consumer that waits less than this share of its time is the limit itself."""

WINDOW = 10
"""Readings over which the holder is looked for: 5 seconds."""

WAITS = {"input": "input_ns", "files": "io_ns", "room": "room_ns", "order": "order_ns"}
"""For what the segment behind an operator stands still, and the counters of that."""


def told(pass_: _native.Pass) -> Json:
    """What a pass tells of itself now: `explain("json")`, with numbers of the pass and the pipeline."""
    reading = json.loads(pass_.explain("json"))
    reading.update(id=pass_.id, pipeline=pass_.pipeline, time=time.time(), errors=pass_.errors)
    return reading


def operators(reading: Mapping[str, Any]) -> list[Json]:
    """The operators as they run, each once, the consumer's first."""
    found: dict[int, Json] = {}
    waiting = [reading["runs"]]
    while waiting:
        node = waiting.pop()
        if not node.get("as_above"):
            found.setdefault(node["id"], node)
        waiting.extend(reversed([*node["inputs"], *node.get("inside", ())]))
    return list(found.values())


def shape(reading: Mapping[str, Any]) -> list[Json]:
    """The operators and who reads whom: what stays the same during a pass."""
    nodes = operators(reading)
    place = {node["id"]: number for number, node in enumerate(nodes)}
    return [
        {
            "op": node["op"],
            "params": node["params"],
            "spec": node["spec"],
            "cardinality": node["cardinality"],
            # Datasets that a function makes and reads are drawn as if they were inputs.
            "inputs": [place[part["id"]] for part in (*node["inputs"], *node.get("inside", ()))],
        }
        for node in nodes
    ]


def left_out(reading: Mapping[str, Any]) -> list[Json]:
    """Bad elements that operators left out: how many, and why the first."""
    return [
        {
            "operator": entry["operator"],
            "elements": entry["elements"],
            "first": next(iter(entry["first"]), None),
        }
        for entry in (reading.get("pass") or {}).get("left_out", [])
        if entry["elements"]
    ]


def name_of(reading: Mapping[str, Any]) -> str:
    """A pipeline in a few words: its operators as they were written, from the source on."""
    names = []
    node = reading["written"]
    while True:
        names.append(node["op"])
        if len(node["inputs"]) != 1:
            break
        node = node["inputs"][0]
    return " → ".join(reversed(names))


class Track:
    """Makes samples of the readings of one pass."""

    def __init__(self) -> None:
        # Who holds a pipeline is asked of a longer time than the rates: it would flicker otherwise.
        self._before: deque[Mapping[str, Any]] = deque(maxlen=WINDOW)

    def sample(self, now: Mapping[str, Any]) -> Json:
        """What happened since the reading before; since the start of the pass, if there was none."""
        seconds, waited, nodes = _between(now, self._before[-1] if self._before else None)
        long_seconds, long_waited, long_nodes = _between(now, self._before[0] if self._before else None)
        passed, before = now["pass"], self._before[-1]["pass"] if self._before else {}
        buffers = passed.get("memory") or {}
        self._before.append(now)
        return {
            "time": now["time"],
            "span": seconds,
            "pass": now["id"],
            "seconds": passed["seconds"],
            "ended": bool(passed.get("ended")),
            "delivered": passed["delivered"],
            "rate": _per(passed["delivered"] - before.get("delivered", 0), seconds),
            "waited": waited,
            "holding": _holding(now, long_nodes, long_waited, long_seconds),
            **_ceiling(now),
            # All that the pipeline holds, whoever of its operators: more than their queues.
            "held": buffers.get("held_bytes", sum(node["held"] for node in nodes)),
            "limit_bytes": buffers.get("limit_bytes"),
            "given": buffers.get("consumer_bytes", 0),
            "memory": memory(),
            "nodes": nodes,
        }


def _between(now: Mapping[str, Any], before: Mapping[str, Any] | None) -> tuple[float, float, list[Json]]:
    """Seconds, the share of them that the consumer waited, and what the operators did."""
    passed, earlier = now["pass"], before["pass"] if before else {}
    seconds = passed["seconds"] - earlier.get("seconds", 0.0)
    waited = _per(passed["waited_seconds"] - earlier.get("waited_seconds", 0.0), seconds)
    old = {node["id"]: node.get("meter") or {} for node in operators(before)} if before else {}
    nodes = [_operator(node.get("meter") or {}, old.get(node["id"], {}), seconds) for node in operators(now)]
    return seconds, min(waited, 1.0), nodes


def _operator(meter: Mapping[str, Any], old: Mapping[str, Any], seconds: float) -> Json:
    def more(name: str) -> float:
        return max(meter.get(name, 0) - old.get(name, 0), 0)

    queue, old_queue = meter.get("queue") or {}, old.get("queue") or {}

    def more_of(name: str) -> float:
        return max(queue.get(name, 0) - old_queue.get(name, 0), 0)

    rows, busy = more("rows"), more("busy_ns")
    return {
        "rows": meter.get("rows", 0),
        "rate": _per(rows, seconds),
        "busy": _per(busy / 1e9, seconds),
        "row_ns": busy / rows if rows else None,
        "held": meter.get("held_bytes", 0),
        "held_peak": meter.get("held_bytes_peak", 0),
        "errors": meter.get("fails", 0),
        "chunk_rows": meter.get("chunk_rows", 0),
        "starved": _per(more("starved"), seconds),
        "fill": queue.get("fill"),
        "waits": {cause: _per(more_of(field) / 1e9, seconds) for cause, field in WAITS.items()}
        if queue
        else None,
    }


def _ceiling(now: Mapping[str, Any]) -> Json:
    """How fast the whole could be here, by the model of the pass so far, and in which way it is held."""
    ceiling = now.get("ceiling") or {}
    limit = ceiling.get("limit") or {}
    if ceiling.get("rate", 0.0) < ceiling.get("measured", 0.0):
        # What has been seen is possible: a model that says otherwise knows too little of this pass.
        ceiling = {}
    words = LIMITS.get(limit.get("limit", ""))
    return {"ceiling": ceiling.get("rate"), "headroom": ceiling.get("headroom"), "limit": words}


def _holding(now: Mapping[str, Any], nodes: list[Json], waited: float, seconds: float) -> int | str | None:
    """Who the others wait for: the number of an operator, or "consumer"; None while nothing is known."""
    if seconds <= 0 or not any(node["rows"] for node in nodes):
        return None
    if waited < CONSUMER:
        return "consumer"
    # The model knows what an operator may use; without one it is the operator that most time goes into.
    limit = (now.get("ceiling") or {}).get("limit") or {}
    places = [number for number, node in enumerate(operators(now)) if node["id"] == limit.get("id")]
    if places:
        return places[0]
    busiest = max(range(len(nodes)), key=lambda number: nodes[number]["busy"])
    return busiest if nodes[busiest]["busy"] > 0 else None


def _per(amount: float, seconds: float) -> float:
    return amount / seconds if seconds > 0 else 0.0


def memory() -> int:
    """Bytes that this process holds in memory; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def process() -> Json:
    """What the page and `feedline top` say about the process."""
    settings = _native.configuration()
    return {
        "pid": os.getpid(),
        "program": os.path.basename(sys.argv[0] if sys.argv and sys.argv[0] else "python"),
        "version": _native.__version__,
        "cpu_budget": settings["cpu_budget"],
        "memory_limit": settings["memory_limit"],
        "memory": memory(),
        "time": time.time(),
    }
