"""Runs one cell in this process and prints its result as a line of JSON: `cell.py LOADER WORKLOAD VARIANT`.

It runs under the loader's own interpreter; run.py starts it, watches its memory and ends it.
"""
from __future__ import annotations

import argparse
import importlib
import json
import os
from importlib.metadata import version

from cells import CELLS
from measure import Timing, measure
from proc import MEASURED
from workloads import WORKLOADS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("loader")
    parser.add_argument("workload")
    parser.add_argument("variant")
    parser.add_argument("--windows", type=int, default=3)
    parser.add_argument("--min-s", type=float, default=1)
    parser.add_argument("--max-s", type=float, default=3)
    args = parser.parse_args()
    package = importlib.import_module(f"loaders.{args.loader}").PACKAGE
    workload = WORKLOADS[args.workload]
    timing = Timing(args.windows, args.min_s, args.max_s)
    result = measure(workload, CELLS[args.workload, args.variant], timing, lambda: print(MEASURED, flush=True))
    about = {"what": workload.what, "unit": workload.unit, "version": version(package)}
    print(json.dumps(about | result), flush=True)
    os._exit(0)  # the worker pools of some loaders never let the interpreter end


if __name__ == "__main__":
    main()
