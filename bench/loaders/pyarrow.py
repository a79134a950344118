"""pyarrow: its dataset scanner, and a shuffle of windows by NumPy, which is the fastest that was found."""
import numpy as np
import pyarrow.dataset as pads

import windows
from cells import Batches, Passes, cell

PACKAGE = "pyarrow"


def arrays(batch) -> dict[str, np.ndarray]:
    return {name: batch.column(name).to_numpy(zero_copy_only=False) for name in batch.schema.names}


@cell("W6", "pyarrow windows", "pyarrow pool")
def w6(files: list[str], window: int, batch: int) -> Batches:
    table = pads.dataset(files)
    return Passes(lambda: windows.shuffled(map(arrays, table.to_batches(batch_size=window)), window, batch))


@cell("W6", "pyarrow, each row group by itself", "pyarrow pool")
def w6_row_groups(files: list[str], window: int, batch: int) -> Batches:
    """Less work than the others do: rows stay within their 25,000 neighbours."""
    table = pads.dataset(files)
    return Passes(lambda: windows.shuffled(map(arrays, table.to_batches(batch_size=window)), 25_000, batch))


@cell("W6", "pyarrow, no shuffle", "pyarrow pool")
def w6_plain(files: list[str], window: int, batch: int) -> Batches:
    table = pads.dataset(files)
    return Passes(lambda: map(arrays, table.to_batches(batch_size=batch)))
