"""Reads accesses to files: opening, reading, writing.

OSRT_FILE_ACCESS_DESCRIPTORS  fileAccessId 3  processId 4242  filePath /data/a.bin
OSRT_FILE_ACCESS_EVENTS       fileAccessId 3  threadId 4243  startedAt 10  endedAt 25  eventType 2  bytesProcessed 4096
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.batch import Batch

from .facts import all_rows
from .reading import Reading

_WORDS = {"eventType": "OSRT_FILE_ACCESS_EVENT_TYPE"}


def accesses(reading: Reading, table: str) -> Iterator[Batch]:
    """Yields a call for each row, with the path of its file."""
    known = {
        row["fileAccessId"]: row
        for descriptors in reading.database.like("OSRT_FILE_ACCESS_DESCRIPTORS")
        for row in all_rows(reading, descriptors)
        if isinstance(row.get("fileAccessId"), int)
    }
    for block, ids in reading.timed(table, "startedAt", end="endedAt"):
        start, end = block.take("startedAt"), block.take("endedAt")
        columns: dict[str, Any] = {"kind": "api", "ts": start, "tid": block.take("threadId"), "cat": "file"}
        columns["dur"] = None if end is None else pc.subtract(end, start)
        file = block.get("fileAccessId")
        if file is not None:
            encoded = pc.fill_null(file, -1).dictionary_encode()
            files = [known.get(number, {}) for number in encoded.dictionary.to_pylist()]
            pids = pa.array([_whole(row.get("processId")) for row in files], pa.int64())
            columns["pid"] = pids.take(encoded.indices)
            paths = pa.array([row.get("filePath") for row in files], pa.string())
            columns["args.filePath"] = pa.DictionaryArray.from_arrays(encoded.indices, paths)
        columns |= reading.name(block, table, "apiCallId")
        columns["bytes"] = block.take("bytesProcessed")
        yield reading.batches.events(block, ids, **columns, **reading.args(block, table, _WORDS))


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) else None
