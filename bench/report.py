"""results.md out of results.json: a table a workload, fastest first, and the small costs of feedline."""
from __future__ import annotations

from typing import Any

from summary import NOISY_CORES, is_ours

HEAD = ("| loader | {unit}/s | spread | CPU s per {many} | cores | peak MB | first batch ms | x best peer "
        "| x tf.data | same result |{busy}\n|---|--:|--:|--:|--:|--:|--:|--:|--:|---|{align}")


def report(results: dict[str, Any]) -> str:
    m, settings, rows = results["machine"], results["settings"], results["cells"]
    timing = "Windows in each process: {windows}, of {min_s:g} to {max_s:g} s"
    versions = {f"{row['loader']} {row['version']}" for row in rows if "version" in row}
    parts = [
        "# Benchmark results\n\nWritten by `bench/run.py`; `bench/README.md` says how a cell is measured.\n",
        f"{m['cores']} cores, {m['memory_gib']} GiB, Linux {m['linux']}. "
        f"{timing.format(**settings)}. {', '.join(sorted(versions))}.\n",
        "The rate is the median of all windows, the spread (max - min) / median over them. (!) means that "
        f"other programs used more than {NOISY_CORES} of a core meanwhile.\n",
    ]
    for workload in dict.fromkeys(row["workload"] for row in rows):
        parts += table(workload, [row for row in rows if row["workload"] == workload])
    return "\n".join(parts + micro(results)) + "\n"


def table(workload: str, rows: list[dict[str, Any]]) -> list[str]:
    good = sorted((row for row in rows if "rate" in row), key=lambda row: -row["rate"])
    what = next((row["what"] for row in good), "no cell ran")
    unit = next((row["unit"] for row in good), "items")
    failed = [f"| {name(row)} | failed: {row['error'].replace('|', '/')} |" + " |" * 8
              for row in rows if "error" in row]
    busy, align = (" busy |", "--:|") if any(stepping(row) for row in good) else ("", "")
    head = HEAD.format(unit=unit, many="1,000" if many(unit) == 1_000 else "million", busy=busy, align=align)
    return [f"\n## {workload}: {what}\n", f"{measured(rows[0])}\n", head, *map(line, good), *failed]


def measured(row: dict[str, Any]) -> str:
    """When and on what: workloads may be of different runs."""
    processes = "one process" if row["repeats"] == 1 else f"{row['repeats']} processes"
    return f"{row['when']}, {row['cpu']}, {processes} a cell."


def stepping(row: dict[str, Any]) -> bool:
    """Whether its consumer takes its time. Results of workloads that were kept may be older than the question."""
    return row.get("busy") is not None


def many(unit: str) -> int:
    """Of how many the CPU time is given: a picture takes as long as thousands of numbers."""
    return 1_000 if unit == "images" else 1_000_000


def line(row: dict[str, Any]) -> str:
    noisy = " (!)" if row["foreign_cores"] > NOISY_CORES else ""
    failed = f" ({row['failed']} of {row['failed'] + row['processes']} runs failed)" if row["failed"] else ""
    same = "yes" if not row["differs"] else "NO: " + ", ".join(row["differs"])
    busy = f" {row['busy']:.1%} |" if stepping(row) else ""
    spread = (row["highest"] - row["lowest"]) / row["rate"]
    return (f"| {name(row)}{failed} | {row['rate']:,.0f}{noisy} | {spread:.0%} | {row['cpu_ns'] * many(row['unit']) / 1e9:.3g} "
            f"| {row['cores']:.2f} | {row['peak_bytes'] / 1e6:,.0f} | {row['first_batch_ms']:,.1f} "
            f"| {ratio(row['x_best_peer'])} | {ratio(row['x_tfdata'])} | {same} |{busy}")


def name(row: dict[str, Any]) -> str:
    return f"**{row['variant']}**" if is_ours(row) else row["variant"]


def ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def micro(results: dict[str, Any]) -> list[str]:
    """The costs of feedline that no ratio shows, taken from the import times and from its cells."""
    cells = {row["workload"]: row for row in results["cells"]
             if row["variant"] == "feedline" and "rate" in row}
    lines = []
    for module, taken in results["imports"].items():
        what = "bare interpreter start" if module == "bare" else f"`import {module}`, less the bare start"
        lines.append(f"| {what} | {taken['ms']:.1f} ms (spread {taken['spread_ms']:.1f}) |")
    if row := cells.get("M1"):
        lines.append(f"| one batch through Python, batches of 1 | {1e6 / row['rate']:.2f} us |")
    if row := cells.get("W1"):
        lines.append(f"| CPU an element of W1 | {row['cpu_ns']:.1f} ns |")
        lines.append(f"| peak memory of W1 | {row['peak_bytes'] / 1e6:,.0f} MB |")
    return ["\n## Small costs of feedline\n", "| what | figure |\n|---|--:|", *lines] if lines else []
