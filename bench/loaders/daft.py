"""Daft: its reader, and a shuffle of windows by NumPy: it has no streaming shuffle of its own."""
import daft
import numpy as np

from cells import Batches, Passes, cell

PACKAGE = "daft"


@cell("W6", "daft windows", "daft pool")
def w6(files: list[str], window: int, batch: int) -> Batches:
    frame, rng = daft.read_parquet(files), np.random.default_rng(0)

    def one_pass():
        for table in frame.to_arrow_iter():
            for at in range(0, len(table), window):
                part = table.slice(at, window)
                columns = {name: part.column(name).to_numpy(zero_copy_only=False) for name in part.schema.names}
                order = rng.permutation(len(part))
                for start in range(0, len(order), batch):
                    rows = order[start:start + batch]
                    yield {name: column[rows] for name, column in columns.items()}

    return Passes(one_pass)
