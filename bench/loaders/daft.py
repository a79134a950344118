"""Daft: its reader, and a shuffle of windows by NumPy: it has no streaming shuffle of its own."""
import daft
import numpy as np

import windows
from cells import Batches, Passes, cell

PACKAGE = "daft"


def arrays(table) -> dict[str, np.ndarray]:
    return {name: table.column(name).to_numpy(zero_copy_only=False) for name in table.schema.names}


@cell("W6", "daft windows", "daft pool")
def w6(files: list[str], window: int, batch: int) -> Batches:
    frame = daft.read_parquet(files)
    return Passes(lambda: windows.shuffled(map(arrays, frame.to_arrow_iter()), window, batch))
