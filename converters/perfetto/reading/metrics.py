"""Metrics of kernels in a trace of ktrace: counters at a kernel's begin become its children.

Only their GPU and time are in the packets, and they stand behind all kernels. So the kernels that begin at those
times are looked for in a second reading, which a trace without such metrics is spared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.model.arrays import Int64
from ktrace.model.batch import DEVICE_KINDS, TRACK_COLUMNS, Batch
from ktrace.model.json_text import decoded
from ktrace.report import Report

from ..proto.sidecar import Sidecar
from .context import Context
from .packets import Data
from .trace import TraceReader
from .tracks import Tracks

#: The columns of a kernel that its metrics share.
_SHARED = (*TRACK_COLUMNS, "dur", "timing")


def with_parents(context: Context, data: Data) -> Iterator[Batch]:
    """The counters that were held back, each with the kernel that begins at its time on its GPU as parent.

    Where several do, it is the one on a queue of that GPU; a counter that has none stays as it is.
    """
    if not context.held:
        return
    batches = [batch for batch, _ in context.held]
    held = pa.Table.from_batches([batch.columns for batch in batches], batches[0].columns.schema)
    kernels = _kernels(context, data, pc.unique(held["ts"]))
    if kernels is None:
        yield from batches
        return
    times, devices = (np.asarray(kernels[name].fill_null(-1)) for name in ("ts", "device"))
    order = np.lexsort((devices, times))
    times = times[order]
    gpus = _Gpus(context.sidecar, kernels, order)
    for batch, machine in context.held:
        ts, gpu = (np.asarray(batch.column(name)) for name in ("ts", "device"))
        first = np.searchsorted(times, ts)
        last = np.searchsorted(times, ts, "right")
        at = first.copy()
        for row in np.flatnonzero(last - first > 1).tolist():
            at[row] += gpus.first((int(machine[row]), int(gpu[row])), int(first[row]), int(last[row]))
        found = pa.array(order[np.minimum(at, len(order) - 1)], mask=first == last)
        columns = dict(zip(batch.columns.schema.names, batch.columns.columns, strict=True))
        columns["parent"] = kernels["id"].take(found).combine_chunks()
        for name in _SHARED:
            if name in kernels.schema.names:
                theirs = decoded(kernels[name].take(found).combine_chunks())
                columns[name] = _joined(name, decoded(columns[name]), theirs) if name in columns else theirs
        yield Batch("events", pa.RecordBatch.from_pydict(columns))


def _joined(name: str, own: pa.Array, theirs: pa.Array) -> pa.Array:
    """What a metric and its kernel say of a column: the kernel, but for a metric that is derived."""
    found = pc.coalesce(theirs, own)
    return pc.if_else(pc.equal(own, "derived"), own, found) if name == "timing" else found


class _Gpus:
    """Which kernels are on which GPU, by the queues of the sidecar; a trace that is older has numbers of devices."""

    def __init__(self, sidecar: Sidecar | None, kernels: pa.Table, order: Int64) -> None:
        self._queues: dict[tuple[int, int], set[tuple[Any, ...]]] = {}
        for place in sidecar.queues.values() if sidecar else ():
            if isinstance(gpu := place.get("gpu"), list) and len(gpu) == 2:
                self._queues.setdefault((gpu[0], gpu[1]), set()).add(tuple(place.get(name) for name in TRACK_COLUMNS))
        self._kernels = kernels
        self._order = order

    def first(self, gpu: tuple[int, int], begin: int, end: int) -> int:
        """The first of the ordered kernels from `begin` to `end` that is on the GPU, counted from `begin`; else 0."""
        rows = self._kernels.take(pa.array(self._order[begin:end])).to_pylist()
        known = self._queues.get(gpu)
        for number, row in enumerate(rows):
            if row["device"] == gpu[1] if known is None else tuple(row.get(name) for name in TRACK_COLUMNS) in known:
                return number
        return 0


def _kernels(context: Context, data: Data, times: pa.Array) -> pa.Table | None:
    """The device work that begins at those times; None where there is none."""
    conversion = Conversion(Report(), context.conversion.label)
    sidecar = context.sidecar and Sidecar(context.sidecar.version, context.sidecar.origin_ns)
    again = Context(conversion, sidecar, Tracks(conversion.label, sidecar))
    parts = []
    for batch in TraceReader(again).read(data):
        if batch.record != "events":
            continue
        kind = pc.is_in(decoded(batch.column("kind")), pa.array(DEVICE_KINDS))
        mine = pc.and_(kind, pc.is_in(batch.column("ts"), times))
        if pc.any(mine).as_py():
            names = ("id", "ts", *_SHARED)
            parts.append(pa.RecordBatch.from_pydict({name: decoded(batch.column(name)).filter(mine) for name in names}))
    return pa.Table.from_batches(parts) if parts else None
