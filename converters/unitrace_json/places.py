"""Which pids are devices, and which of their queues are OpenCL's."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.input.source import Source
from ktrace.model.batch import Batch

#: Pids and tids of devices count down from here; each rank begins 2^5 (until 2025: 2^13) lower.
LAST = (1 << 32) - 1

#: No process of a host has a pid as great as this one.
_FIRST = LAST - (1 << 24)

_QUEUE = re.compile(
    rb'"thread_name"\s*,\s*"pid"\s*:\s*(\d{1,10})\s*,\s*"tid"\s*:\s*(\d{1,10})\s*,\s*"ts"\s*:\s*[\d.]{1,40}\s*,'
    rb'\s*"args"\s*:\s*\{\s*"name"\s*:\s*"(?:Thread \d{1,20} )?CL(?: Queue<[^">]{0,100}>)?"'
)
_CHUNK = 4 << 20
_LONGEST = 512


def devices_in(batch: Batch) -> dict[int, int]:
    """Returns the pids of devices in a batch, with their ordinals."""
    if not batch.has("pid"):
        return {}
    pids = pc.unique(batch.column("pid").drop_null())
    return {pid: LAST - pid for pid in pids.filter(pc.greater(pids, _FIRST)).to_pylist() if pid <= LAST}


def opencl_queues(source: Source) -> frozenset[tuple[int, int]]:
    """Returns device and stream of the queues of OpenCL, by their names anywhere in the document."""
    found: set[tuple[int, int]] = set()
    with source.open(quiet=True) as stream:
        text = b""
        while data := stream.read(_CHUNK):
            text = text[-_LONGEST:] + data
            if b'"thread_name"' in text:
                found.update((LAST - int(pid), LAST - int(tid)) for pid, tid in _QUEUE.findall(text))
    return frozenset(found)


def small_streams(batch: Batch) -> Batch:
    """Counts the streams of devices from 0 on."""
    if not batch.has("stream") or not batch.has("device"):
        return batch
    stream = batch.column("stream").cast(pa.int64())
    mine = pc.and_(pc.is_valid(batch.column("device")), pc.greater(stream, _FIRST))
    columns = {name: batch.columns.column(name) for name in batch.columns.schema.names}
    columns["stream"] = pc.if_else(pc.fill_null(mine, False), pc.subtract(LAST, stream), stream)
    return Batch(batch.record, pa.RecordBatch.from_pydict(columns))
