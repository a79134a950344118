"""Cases of the TFRecord writer: the bytes of the file, and the checksums in them."""

from __future__ import annotations

import base64
import gzip
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import feedline as fl

Case = dict[str, Any]
Observed = dict[str, Any]

INFLATE = {"ZLIB": zlib.decompress, "GZIP": gzip.decompress}
MASK = 0xA282EAD8


def observe(case: Case) -> Observed:
    """What the writer leaves in a file, in the form of the case's `expect`."""
    return OBSERVERS[case["op"]](case)


def _file(case: Case) -> Observed:
    kind = case.get("params", {}).get("compression_type", "")
    content = _written([base64.b64decode(record) for record in case["records"]], kind)
    if kind:
        return {"decompressed_b64": base64.b64encode(INFLATE[kind](content)).decode()}
    return {"file_b64": base64.b64encode(content).decode()}


def _checksum(case: Case) -> Observed:
    """The masked checksum is the end of a record's frame; what was masked follows from it."""
    masked = int.from_bytes(_written([base64.b64decode(case["data"])], "")[-4:], "little")
    turned = (masked - MASK) & 0xFFFFFFFF
    return {"crc32c": (turned >> 17 | turned << 15) & 0xFFFFFFFF, "masked": masked}


def _written(records: list[bytes], kind: str) -> bytes:
    with fl.io.TFRecordWriter("written", kind) as out:
        for record in records:
            out.write(record)
    return Path("written").read_bytes()


OBSERVERS: dict[str, Callable[[Case], Observed]] = {"tfrecord_write": _file, "masked_crc32c": _checksum}
