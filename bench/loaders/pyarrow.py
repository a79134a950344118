"""pyarrow: its dataset scanner, and a shuffle of windows by NumPy, which is the fastest that was found."""
import numpy as np
import pyarrow.dataset as pads

from cells import Batches, Passes, cell

PACKAGE = "pyarrow"


def arrays(batch) -> dict[str, np.ndarray]:
    return {name: batch.column(name).to_numpy(zero_copy_only=False) for name in batch.schema.names}


@cell("W6", "pyarrow windows", "pyarrow pool")
def w6(files: list[str], window: int, batch: int) -> Batches:
    table, rng = pads.dataset(files), np.random.default_rng(0)

    def one_pass():
        for part in table.to_batches(batch_size=window):
            columns, order = arrays(part), rng.permutation(len(part))
            for start in range(0, len(order), batch):
                rows = order[start:start + batch]
                yield {name: column[rows] for name, column in columns.items()}

    return Passes(one_pass)


@cell("W6", "pyarrow, no shuffle", "pyarrow pool")
def w6_plain(files: list[str], window: int, batch: int) -> Batches:
    table = pads.dataset(files)
    return Passes(lambda: map(arrays, table.to_batches(batch_size=batch)))
