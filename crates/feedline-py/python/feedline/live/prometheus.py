"""Counters in the text format of Prometheus (version 0.0.4).

They are counted from the start of each pass, and begin at 0 with the next: `rate()` knows that counters do
so. Passes over one dataset that run at the same time are added up.
"""

from __future__ import annotations

from .. import _native
from .passes import Json, left_out, operators, process, told

__all__ = ["CONTENT_TYPE", "metrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_PASS: dict[str, tuple[str, str, str, float]] = {
    "feedline_elements_delivered_total": ("counter", "Elements handed to the consumer.", "delivered", 1),
    "feedline_consumer_waited_seconds_total": ("counter", "Time the consumer waited.", "waited_seconds", 1),
    "feedline_pass_seconds_total": ("counter", "Time since the pass began.", "seconds", 1),
}
_SUMS: dict[str, tuple[str, ...]] = {
    "feedline_elements_left_out_total": ("counter", "Bad elements that operators left out."),
    "feedline_held_bytes": ("gauge", "Bytes that the pipeline holds now, in queues, buffers and read-ahead."),
}
_OPERATOR: dict[str, tuple[str, str, str, float]] = {
    "feedline_operator_rows_total": ("counter", "Rows that the operator gave.", "rows", 1),
    "feedline_operator_busy_seconds_total": ("counter", "Time inside the operator.", "busy_ns", 1e-9),
    "feedline_operator_errors_total": ("counter", "Rows that failed in the operator.", "fails", 1),
    "feedline_operator_starved_total": ("counter", "Pulls that found nothing below.", "starved", 1),
    "feedline_operator_copied_bytes_total": ("counter", "Bytes that it had to copy.", "copied_bytes", 1),
    "feedline_operator_held_bytes": ("gauge", "Bytes that its queue holds now.", "held_bytes", 1),
}
_TUNING: dict[str, tuple[str, ...]] = {
    "feedline_tuning": (
        "gauge",
        "What was chosen: workers, rows a chunk, calls at once, bytes of queues and of read-ahead.",
    ),
}
_PROCESS = {
    "feedline_cpu_budget": ("gauge", "Workers that may run at once.", "cpu_budget"),
    "feedline_memory_limit_bytes": (
        "gauge",
        "Bytes that buffers may hold, if that is limited.",
        "memory_limit",
    ),
    "process_resident_memory_bytes": ("gauge", "Bytes that the process holds in memory.", "memory"),
}

Labels = tuple[tuple[str, str], ...]


def metrics() -> str:
    """All counters of this process."""
    values: dict[str, dict[Labels, float]] = {name: {} for name in (*_PASS, *_SUMS, *_OPERATOR, *_TUNING)}

    def add(name: str, labels: Labels, value: float) -> None:
        values[name][labels] = values[name].get(labels, 0.0) + value

    for reading in map(told, _native.passes()):
        of: Labels = (("pipeline", str(reading["pipeline"])),)
        for name, (_, _, field, scale) in _PASS.items():
            add(name, of, reading["pass"][field] * scale)
        add("feedline_elements_left_out_total", of, sum(e["elements"] for e in left_out(reading)))
        add("feedline_held_bytes", of, (reading["pass"].get("memory") or {}).get("held_bytes", 0))
        for number, node in enumerate(operators(reading)):
            labels = (*of, ("operator", node["op"]), ("number", str(number)))
            for name, (_, _, field, scale) in _OPERATOR.items():
                add(name, labels, (node.get("meter") or {}).get(field, 0) * scale)
        for number, choice in enumerate(reading.get("tuning") or []):
            named = {"what": choice["what"], "operator": choice["operator"] or "", "number": str(number)}
            # Of passes at the same time the last one tells.
            values["feedline_tuning"][(*of, *named.items())] = choice["value"]
    lines = []
    for name, (kind, text, *_) in {**_PASS, **_SUMS, **_OPERATOR, **_TUNING}.items():
        lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
        lines += [f"{name}{_labels(labels)} {value:.17g}" for labels, value in values[name].items()]
    known: Json = process()
    for name, (kind, text, field) in _PROCESS.items():
        if known[field] is not None:
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}", f"{name} {known[field]}"]
    return "\n".join(lines) + "\n"


def _labels(labels: Labels) -> str:
    def escaped(value: str) -> str:
        return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

    return "{" + ",".join(f'{name}="{escaped(value)}"' for name, value in labels) + "}"
