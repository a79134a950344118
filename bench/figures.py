"""The table of figures in README.md, out of results.json: the rows that a reader should see first. `run.py` writes it
with the results.

    python3 bench/figures.py           # writes it again
    python3 bench/figures.py --check   # fails if it is not current
"""
from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from summary import is_ours

README = Path(__file__).parent.parent / "README.md"
RESULTS = Path(__file__).parent / "results" / "results.json"
BEGIN, END = "<!-- figures: written by bench/figures.py -->\n", "<!-- /figures -->\n"

# A workload in a reader's words, and of its cells those that are shown: variants and what to call them.
SHOWN = {
    "W1": ("`range(2M)`, `map(x*2+1)`, `batch(128)`", {
        "feedline": "**feedline**",
        "torch DataLoader index tensors": "PyTorch DataLoader, index tensors by hand",
        "torch DataLoader batched sampler": "PyTorch DataLoader, batched sampler",
        "tf.data batch-then-map": "tf.data, batch then map",
        "tf.data": "tf.data, as written",
    }),
    "W8": ("60,000 x 28 x 28, full shuffle, `batch(128)`, float32/255", {
        "feedline global shuffle": "**feedline, `shuffle()`**",
        "feedline": "**feedline, `shuffle(60_000)`** (tf.data's order)",
        "torch DataLoader index tensors": "PyTorch DataLoader, index tensors by hand",
        "mlx-data": "mlx-data",
        "tf.data": "tf.data",
    }),
    "W2": ("500,000 Examples in TFRecords, `interleave`, parse, `batch(256)`", {
        "feedline parse-each": "**feedline**, parsed one by one",
        "tf.data parse-batch": "tf.data, parsed by batches",
        "tf.data parse-each": "tf.data, parsed one by one",
    }),
    "W6": ("Parquet of 2M x 40, `shuffle(100_000)`, `batch(4096)`", {
        "feedline": "**feedline**",
        "daft windows": "Daft",
        "pyarrow windows": "pyarrow and NumPy",
    }),
    "W3": ("JPEGs in TFRecords, random-resized crop, flip, normalise, `batch(64)`", {
        "feedline": "**feedline**",
        "mlx-data": "mlx-data",
        "tf.data tuned": "tf.data, tuned by hand",
        "DALI": "DALI on the CPU",
        "torchvision v2 tensor": "torchvision, 2 workers",
    }),
    "W4": ("JPEGs in folders, resize, middle, normalise, `batch(64)`", {
        "feedline": "**feedline**",
        "mlx-data": "mlx-data",
        "tf.data": "tf.data",
    }),
}


def figures(results: dict[str, Any]) -> str:
    """What stands between the two comments."""
    cells = {(row["workload"], row["variant"]): row for row in results["cells"] if "rate" in row}
    shown = [cells[workload, variant] for workload, (_, variants) in SHOWN.items() for variant in variants
             if (workload, variant) in cells]
    machine, settings = results["machine"], results["settings"]
    # Each workload's rows are of one run on one machine; which one is in its first row where there were several.
    several = len({row["cpu"] for row in shown}) > 1
    where = f"{machine['cores']} cores" if several else f"{machine['cores']} cores ({machine['cpu']})"
    lines = [f"| the same work, {where}, each workload in one run, {max(row['when'] for row in shown)} | rate "
             "| CPU s per million | peak MB | first batch |", "|---|--:|--:|--:|--:|"]
    for workload, (what, variants) in SHOWN.items():
        rows = [(label, cells[workload, variant]) for variant, label in variants.items() if (workload, variant) in cells]
        if several and rows:
            what = f"{what} ({rows[0][1]['cpu']})"
        lines += [line(what if at == 0 else "…", label, row) for at, (label, row) in enumerate(rows)]
    spreads = [round(100 * (row["highest"] - row["lowest"]) / row["rate"]) for row in shown]
    repeats = sorted({row["repeats"] for row in shown})
    processes = "one process" if repeats == [1] else f"{' or '.join(map(str, repeats))} processes"
    lines += ["", f"Medians of {settings['windows']} windows of {settings['min_s']:g} to {settings['max_s']:g} s in "
              f"{processes} each, which spread by {min(spreads)} to {max(spreads)} %.",
              "All rows: [bench/results/results.md](bench/results/results.md)."]
    return "\n".join(lines) + "\n"


def line(what: str, label: str, row: dict[str, Any]) -> str:
    rate = f"{rounded(row['rate'], 3)}/s"
    strong = f"**{rate}**" if is_ours(row) else rate
    between = " " if what == "…" else ": "
    return (f"| {what}{between}{label} | {strong} | {rounded(row['cpu_ns'] / 1e3, 2)} "
            f"| {row['peak_bytes'] / 1e6:,.0f} | {row['first_batch_ms']:,.0f} ms |")


def rounded(value: float, digits: int) -> str:
    """So many digits that say something, and no exponent."""
    value = float(f"{value:.{digits}g}")
    return f"{value:,.0f}" if value >= 10 ** (digits - 1) else f"{value:#.{digits}g}"


def current(readme: str, results: dict[str, Any]) -> str:
    """README.md with these figures."""
    before, _, rest = readme.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise SystemExit(f"README.md has no place for the figures: {BEGIN.strip()} … {END.strip()}")
    return before + BEGIN + figures(results) + END + after


def main(check: bool) -> None:
    readme = README.read_text()
    made = current(readme, json.loads(RESULTS.read_text()))
    if not check:
        README.write_text(made)
    elif made != readme:
        raise SystemExit("the figures in README.md are not those of results.json: run bench/figures.py")


if __name__ == "__main__":
    main("--check" in sys.argv[1:])
