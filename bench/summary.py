"""One row out of all the runs of a cell: medians over every window of every process, and their spread."""
from __future__ import annotations

from statistics import median
from typing import Any

NOISY_CORES = .15


def is_ours(row: dict[str, Any]) -> bool:
    """Whether it is feedline's: `loaders/feedline.py`, or `feedline_<library>.py` with the functions of a library."""
    return row["loader"].partition("_")[0] == "feedline"


def is_peer(row: dict[str, Any]) -> bool:
    return not is_ours(row) and row["loader"] != "limits"


def summarise(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """`runs` are results of `run_cell`. Failed runs are counted; if all failed, there is only `error`."""
    good = [run for run in runs if "error" not in run]
    if not good:
        return {"error": runs[-1]["error"]}
    windows = [w for run in good for w in run["windows"]]
    step_s = good[0]["step_s"]
    rates = [w["items"] / w["seconds"] for w in windows]
    return {
        "what": good[0]["what"], "unit": good[0]["unit"], "version": good[0]["version"],
        "threads": good[0]["threads"], "processes": len(good), "failed": len(runs) - len(good),
        "rate": median(rates), "lowest": min(rates), "highest": max(rates),
        "cpu_ns": median(w["cpu_s"] / w["items"] for w in windows) * 1e9,
        "cores": median(w["cpu_s"] / w["seconds"] for w in windows),
        # Of a consumer that takes its time; one that throws batches away is never busy.
        "busy": median(w["batches"] * step_s / w["seconds"] for w in windows) if step_s else None,
        "foreign_cores": median(w["foreign_cores"] for w in windows),
        "peak_bytes": max(run["peak_bytes"] for run in good),
        "first_batch_ms": median(run["first_batch_ms"] for run in good),
        "found": good[0]["found"], "differs": sorted({key for run in good for key in run["differs"]}),
    }


def add_ratios(rows: list[dict[str, Any]]) -> None:
    """Adds to each row its rate over the best peer's and over tf.data's best, within its workload. A row with
    another result than asked for is no yardstick."""
    for workload in {row["workload"] for row in rows}:
        good = [row for row in rows if row["workload"] == workload and "rate" in row]
        right = [row for row in good if not row["differs"]]
        peer = max((row["rate"] for row in right if is_peer(row)), default=None)
        tfdata = max((row["rate"] for row in right if row["loader"] == "tfdata"), default=None)
        for row in good:
            row["x_best_peer"] = row["rate"] / peer if peer else None
            row["x_tfdata"] = row["rate"] / tfdata if tfdata else None
