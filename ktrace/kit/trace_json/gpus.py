"""Rows of GPUs, for programs that represent each GPU as a process and each queue as a thread.

{"name": "process_name", "ph": "M", "pid":"2","args":{"name":"GPU2"}}     2 is a GPU: device 2, not a process
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.batch import Batch
from ktrace.model.json_text import encoded

#: Entity -> what it is if its process is a GPU.
_ENTITIES = {"process": "device", "thread": "stream"}


def on_devices(batch: Batch, gpus: Mapping[int, int]) -> Batch:
    """Moves the pids of GPUs to devices, by the numbers in `gpus`, and their tids to streams."""
    if not gpus or not batch.has("pid"):
        return batch
    pids = pa.array(sorted(gpus), pa.int64())
    mine = pc.is_in(batch.column("pid"), value_set=pids)
    if not mine.true_count:
        return batch
    columns = {name: batch.columns.column(name) for name in batch.columns.schema.names}
    numbers = pa.array([gpus[pid] for pid in pids.to_pylist()], pa.int64())
    device = numbers.take(pc.index_in(columns["pid"], value_set=pids))
    columns["device"] = pc.if_else(mine, device, batch.column("device"))
    columns["pid"] = pc.if_else(mine, None, columns["pid"])
    if "tid" in columns:
        columns["stream"] = pc.if_else(mine, columns["tid"], batch.column("stream"))
        columns["tid"] = pc.if_else(mine, None, columns["tid"])
    if batch.record == "catalog":
        words = encoded(columns["entity"]).dictionary_decode()
        for host, gpu in _ENTITIES.items():
            words = pc.if_else(pc.and_(mine, pc.equal(words, host)), gpu, words)
        columns["entity"] = words.dictionary_encode()
    return Batch(batch.record, pa.RecordBatch.from_pydict(columns))
