"""Hugging Face datasets, streaming: a shuffle buffer of rows, as its guide says."""
import os

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}
import datasets

from cells import Batches, Passes, cell

PACKAGE = "datasets"


def stream(files: list[str]):
    return datasets.load_dataset("parquet", data_files=files, split="train", streaming=True)


@cell("W6", "datasets streaming", "1")
def w6(files: list[str], window: int, batch: int) -> Batches:
    rows = stream(files).shuffle(seed=0, buffer_size=window).with_format("numpy")
    return Passes(lambda: rows.iter(batch_size=batch))


@cell("W6", "datasets streaming, no shuffle", "1")
def w6_plain(files: list[str], window: int, batch: int) -> Batches:
    rows = stream(files).with_format("numpy")
    return Passes(lambda: rows.iter(batch_size=batch))
