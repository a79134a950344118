"""Makes the files that workloads read, once, in a process of its own: `inputs.py WORKLOAD ...`. What that takes of memory
must not count as a loader's."""
from __future__ import annotations

import sys

from workloads import WORKLOADS

# Workloads whose input photos.py makes.
PHOTOS = {"W3", "W4", "W7", "W10", "W12", "L1"}


def main(names: list[str]) -> None:
    if PHOTOS & set(names):
        import photos

        photos.main()
    for name in names:
        WORKLOADS[name].inputs()


if __name__ == "__main__":
    main(sys.argv[1:])
