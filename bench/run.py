"""Runs workloads x loaders, each cell in its own fresh process, and writes results/<name>.json and .md. A whole run
also writes the figures in README.md.

    python3 bench/run.py                                  # everything
    python3 bench/run.py W8 --loaders feedline tfdata     # some of it, into results/partial.*
    python3 bench/run.py --quick                          # a smoke run, into results/quick.*
"""
from __future__ import annotations

import argparse
import json
import subprocess
import time
from pathlib import Path
from typing import Any

import figures
from cells import listed, loaders
from child import run_cell
from environments import NoEnvironment, interpreter
from machine import machine
from micro import import_times
from report import report
from summary import add_ratios, summarise

HERE = Path(__file__).parent
RESULTS = HERE / "results"
FULL = {"repeats": 3, "windows": 5, "min_s": 1.0, "max_s": 3.0}
QUICK = {"repeats": 1, "windows": 3, "min_s": .2, "max_s": .4}
LIMIT_S = 120


def main() -> None:
    args = arguments()
    settings = dict(QUICK if args.quick else FULL)
    settings["repeats"] = args.repeats or settings["repeats"]
    todo = [(workload, loader, variant) for loader in args.loaders or loaders() for workload, variant in listed(loader)
            if not args.workloads or workload in args.workloads]
    pythons = {loader: prepared(loader, args.python) for loader in dict.fromkeys(loader for _, loader, _ in todo)}
    todo.sort(key=lambda cell: (cell[0][0] != "W", int("".join(filter(str.isdigit, cell[0]))), cell[0]))
    subprocess.run([interpreter("data", None), HERE / "inputs.py", *sorted({cell[0] for cell in todo})], check=True)
    runs = run_all(todo, pythons, settings)
    on = {"when": time.strftime("%Y-%m-%d"), "cpu": machine()["cpu"], "repeats": settings["repeats"]}
    cells = [dict(zip(("workload", "loader", "variant"), cell, strict=True)) | on | summarise(runs[cell]) for cell in todo]
    add_ratios(cells)
    results = {"when": time.strftime("%Y-%m-%d"), "machine": machine(), "settings": settings, "cells": cells,
               "imports": imports(pythons.get("feedline"), args.quick)}
    if args.keep:
        results["cells"] = kept_cells({cell["workload"] for cell in cells}) + cells
    some = "partial" if (args.workloads or args.loaders) and not args.keep else "results"
    write(results, args.name or ("quick" if args.quick else some))


def kept_cells(measured: set[str]) -> list[dict[str, Any]]:
    """The cells of the last results whose workloads were not measured now: a workload's cells are of one run."""
    last = json.loads((RESULTS / "results.json").read_text())
    on = {"when": last["when"], "cpu": last["machine"]["cpu"], "repeats": last["settings"]["repeats"]}
    return [on | cell for cell in last["cells"] if cell["workload"] not in measured]


def arguments() -> argparse.Namespace:
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    known = sorted({workload for loader in loaders() for workload, _ in listed(loader)})
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=f"of {', '.join(known)}; else all")
    parser.add_argument("--loaders", nargs="+", choices=loaders(), help="else all")
    parser.add_argument("--keep", action="store_true", help="other workloads' cells stay in results.json")
    parser.add_argument("--quick", action="store_true", help="short windows, one process: does it run?")
    parser.add_argument("--repeats", type=int, help="fresh processes a cell")
    parser.add_argument("--python", type=Path, help="feedline's interpreter; .venv/bin/python if not given")
    parser.add_argument("--name", help="of the result files")
    args = parser.parse_args()
    if unknown := set(args.workloads) - set(known):
        parser.error(f"no cell has workload {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    return args


def prepared(loader: str, feedline_python: Path | None) -> Path | NoEnvironment:
    """The loader's interpreter, or why there is none: one missing loader must not stop the others."""
    try:
        return interpreter(loader, feedline_python)
    except NoEnvironment as e:
        print(f"{loader}: {e}", flush=True)
        return e


def run_all(todo: list[tuple[str, str, str]], pythons: dict[str, Path | NoEnvironment],
            settings: dict[str, Any]) -> dict[tuple[str, str, str], list[dict[str, Any]]]:
    """Every cell once, then every cell again: a slow hour of the machine falls on all loaders alike."""
    options = [f"--{key.replace('_', '-')}={settings[key]}" for key in ("windows", "min_s", "max_s")]
    runs: dict[tuple[str, str, str], list[dict[str, Any]]] = {cell: [] for cell in todo}
    for turn in range(settings["repeats"]):
        for workload, loader, variant in todo:
            python = pythons[loader]
            result = ({"error": str(python)} if isinstance(python, NoEnvironment)
                      else run_cell(python, loader, workload, variant, options, LIMIT_S))
            runs[workload, loader, variant].append(result)
            row = summarise([result])
            shown = row.get("error") or f"{row['rate']:,.0f} {row['unit']}/s"
            print(f"{turn + 1}/{settings['repeats']} {workload} {variant}: {shown}", flush=True)
    return runs


def imports(python: Path | NoEnvironment | None, quick: bool) -> dict[str, Any]:
    if not isinstance(python, Path):
        return {}
    try:
        return import_times(python, 3 if quick else 11)
    except subprocess.CalledProcessError:
        return {}


def write(results: dict[str, Any], name: str) -> None:
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(results, indent=1) + "\n")
    (RESULTS / f"{name}.md").write_text(report(results))
    if name == "results":
        figures.main(check=False)
    print(f"written: {(RESULTS / name).relative_to(HERE.parent)}.json and .md")


if __name__ == "__main__":
    main()
