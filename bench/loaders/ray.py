"""Ray Data on a local cluster, with its local shuffle buffer."""
import os

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
import ray

from cells import Batches, Passes, cell

PACKAGE = "ray"


@cell("W6", "ray data", "all CPUs")
def w6(files: list[str], window: int, batch: int) -> Batches:
    ray.init(ignore_reinit_error=True, include_dashboard=False, logging_level="ERROR", object_store_memory=4 << 30)
    ray.data.DataContext.get_current().enable_progress_bars = False
    table = ray.data.read_parquet(files)
    options = {"batch_size": batch, "batch_format": "numpy", "local_shuffle_buffer_size": window}
    return Passes(lambda: table.iter_batches(prefetch_batches=2, **options))
