"""Rows of GPUs: rpd2tracing gives each a process of its number, and each queue a thread.

{"name": "process_name", "ph": "M", "pid":"2","args":{"name":"GPU2"}}     2 is a GPU: device 2, not a process
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model import Batch
from ktrace.source import Source

from .._shared.dictionaries import encoded

_GPU = re.compile(
    rb'"process_name"\s*,\s*"ph"\s*:\s*"M"\s*,\s*"pid"\s*:\s*"?(\d{1,18})"?\s*,'
    rb'\s*"args"\s*:\s*\{\s*"name"\s*:\s*"GPU'
)

#: Bytes at the beginning in which the names of processes stand.
_HEAD = 1 << 20

#: What is said of a process, or of a thread, of such a number.
_ENTITIES = {"process": "device", "thread": "stream"}


def gpus_of(source: Source) -> pa.Int64Array:
    """The pids that are GPUs."""
    with source.open(quiet=True) as stream:
        head = stream.read(_HEAD)
    return pa.array(sorted({int(pid) for pid in _GPU.findall(head)}), pa.int64())


def on_devices(batch: Batch, gpus: pa.Int64Array) -> Batch:
    """The batch with those pids as devices and their tids as streams."""
    if not len(gpus) or not batch.has("pid"):
        return batch
    mine = pc.is_in(batch.column("pid"), value_set=gpus)
    if not mine.true_count:
        return batch
    columns = {name: batch.columns.column(name) for name in batch.columns.schema.names}
    for host, device in (("pid", "device"), ("tid", "stream")):
        if host in columns:
            columns[device] = pc.if_else(mine, columns[host], batch.column(device))
            columns[host] = pc.if_else(mine, None, columns[host])
    if batch.record == "catalog":
        words = columns["entity"] = encoded(columns["entity"]).dictionary_decode()
        for word, other in _ENTITIES.items():
            changed = pc.and_(mine, pc.equal(words, word))
            columns["entity"] = pc.if_else(changed, other, columns["entity"])
        columns["entity"] = columns["entity"].dictionary_encode()
    return Batch(batch.record, pa.RecordBatch.from_pydict(columns))
