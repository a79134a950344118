"""How right the doctor is: ceilings against measured rates, and predicted gains against those that a change made.

    make bench-doctor                              # into results/doctor.json and results/doctor.md
    python bench/doctor.py --seconds 0.5 --rounds 1 --name quick-doctor

The pipelines are those of tests/python/planted.py. A ceiling, with the time of the loop that reads, is compared with the rate
of a pipeline that nothing holds back needlessly. A gain is compared with what the same pipeline does once the change that
the doctor names is made: rounds of the two alternate, each has a ratio, and the median counts. Rounds are short and many: a
shared machine is not equally fast for long. It should have nothing else to do.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import feedline as fl

from machine import machine

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "python"))

from planted import PAIRS, TUNED, Pair

WARM = 0.5
"""Seconds of reading before anything is measured: caches fill, processes start, chunks find their size."""
NEAR = 0.2
"""How far off a prediction may be."""


def ceiling(name: str, dataset: fl.Dataset, seconds: float, rounds: int) -> dict[str, Any]:
    dataset.profile(WARM)
    profiles = [dataset.profile(seconds) for _ in range(rounds)]
    measured = statistics.median(p.rate for p in profiles)
    expected = statistics.median(p.expected for p in profiles)
    last = profiles[-1]
    return {
        "name": name, "measured": measured, "expected": expected, "off": expected / measured - 1,
        "ceiling": statistics.median(p.ceiling for p in profiles), "held_by": f"{last.bottleneck} ({last.limit})",
    }


def gain(pair: Pair, folder: Path, seconds: float, rounds: int) -> dict[str, Any]:
    made: dict[str, fl.Dataset] = {}
    for version in ("wrong", "right"):
        (folder / version).mkdir(parents=True)
        made[version] = getattr(pair, version)(folder / version)
        made[version].profile(WARM, step=pair.step)
    rates: dict[str, list[float]] = {"wrong": [], "right": []}
    predicted, first = [], []
    for _ in range(rounds):
        for version, dataset in made.items():
            profile = dataset.profile(seconds, step=pair.step)
            rates[version].append(profile.delivered / profile.seconds if pair.whole else profile.rate)
            if version == "wrong":
                found = profile.doctor()
                predicted.append(next((f.gain for f in found if f.cause == pair.cause), 1.0))
                first.append(found[0].cause if found else "nothing")
    made_of_it = statistics.median(right / wrong for right, wrong in zip(rates["right"], rates["wrong"], strict=True))
    said = statistics.median(predicted)
    return {
        "name": pair.name, "cause": pair.cause, "first": max(set(first), key=first.count),
        "predicted": said, "made": made_of_it, "off": said / made_of_it - 1,
    }


def summary(ceilings: list[dict[str, Any]], gains: list[dict[str, Any]]) -> str:
    off = sorted(abs(row["off"]) for row in ceilings)
    close = sum(abs(row["off"]) <= NEAR for row in gains)
    named = sum(row["first"] == row["cause"] for row in gains)
    return (
        f"Ceilings: {statistics.median(off):.0%} off in the median, {off[-1]:.0%} at worst, of {len(off)}. "
        f"Gains: the planted cause is named first in {named} of {len(gains)}, and the gain is within {NEAR:.0%} of what the "
        f"change made in {close}."
    )


def report(results: dict[str, Any]) -> str:
    m, s = results["machine"], results["settings"]
    lines = [
        "# How right the doctor is\n",
        "Written by `bench/doctor.py` (`make bench-doctor`), which says what is compared with what.\n",
        f"{results['when']}: {m['cpu']}, {m['cores']} cores, Linux {m['linux']}, feedline {results['version']}. "
        f"Rounds: {s['rounds']}, of {s['seconds']:g} s.\n",
        summary(results["ceilings"], results["gains"]) + "\n",
        "## The best rate\n",
        "| pipeline | measured, 1/s | expected, 1/s | off | ceiling, 1/s | held by |\n|---|--:|--:|--:|--:|---|",
        *(
            f"| {r['name']} | {r['measured']:.4g} | {r['expected']:.4g} | {r['off']:+.0%} | {r['ceiling']:.4g} | {r['held_by']} |"
            for r in results["ceilings"]
        ),
        "\n## What a change gains\n",
        "| fault | cause | named first | predicted | made | off |\n|---|---|---|--:|--:|--:|",
        *(
            f"| {r['name']} | {r['cause']} | {'yes' if r['first'] == r['cause'] else r['first']} | {r['predicted']:.2f} "
            f"| {r['made']:.2f} | {r['off']:+.0%} |"
            for r in results["gains"]
        ),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.9, help="of one measurement")
    parser.add_argument("--rounds", type=int, default=7, help="measurements of each pipeline")
    parser.add_argument("--name", default="doctor", help="of the files in results/")
    parser.add_argument("--only", default="", help="pipelines and faults with this in their name; nothing is written")
    given = parser.parse_args()
    ceilings, gains = [], []
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, build) in enumerate(TUNED.items()):
            if given.only in name:
                place = Path(folder) / f"ceiling{number}"
                place.mkdir()
                ceilings.append(row := ceiling(name, build(place), given.seconds, given.rounds))
                print(f"{name:32} {row['measured']:10.4g} {row['expected']:10.4g} {row['off']:+6.0%}  {row['held_by']}", flush=True)
        for number, pair in enumerate(PAIRS):
            if given.only in pair.name:
                gains.append(row := gain(pair, Path(folder) / f"gain{number}", given.seconds, given.rounds))
                print(f"{pair.name:32} {row['predicted']:10.2f} {row['made']:10.2f} {row['off']:+6.0%}  {row['first']}", flush=True)
    if given.only:
        return
    results = {
        "when": time.strftime("%Y-%m-%d"), "machine": machine(), "version": fl.__version__,
        "settings": {"seconds": given.seconds, "rounds": given.rounds}, "ceilings": ceilings, "gains": gains,
    }
    print(summary(ceilings, gains))
    out = HERE / "results" / given.name
    out.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")
    out.with_suffix(".md").write_text(report(results))


if __name__ == "__main__":
    main()
