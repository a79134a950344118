"""DALI on the CPU: its TFRecord reader parses while it reads, in its own threads."""
import nvidia.dali.tfrecord as tfr
from nvidia.dali import fn, pipeline_def

from cells import Batches, cell

PACKAGE = "nvidia-dali-cuda130"


class Stream:
    """Batches of a pipeline as tuples of arrays; it goes round for ever."""

    def __init__(self, pipeline) -> None:
        self.pipeline = pipeline
        pipeline.build()

    def __iter__(self):
        while True:
            yield tuple(out.as_array().reshape(-1) for out in self.pipeline.run())


def index(name: str) -> str:
    """The text index that the reader wants: a line of offset and size a record."""
    path = name + ".idx"
    with open(name, "rb") as records, open(path, "w") as out:
        at = 0
        while header := records.read(12):
            size = int.from_bytes(header[:8], "little") + 16
            out.write(f"{at} {size}\n")
            at += size
            records.seek(at)
    return path


@cell("W2", "DALI", "2")
def w2(files: list[str], batch: int) -> Batches:
    features = {f"f{j}": tfr.FixedLenFeature([1], tfr.float32, 0.0) for j in range(10)}
    features["label"] = tfr.FixedLenFeature([1], tfr.int64, 0)

    @pipeline_def
    def pipeline():
        parsed = fn.readers.tfrecord(path=files, index_path=[index(name) for name in files], features=features)
        return tuple(parsed[name] for name in features)

    return Stream(pipeline(batch_size=batch, num_threads=2, device_id=None, prefetch_queue_depth=2))
