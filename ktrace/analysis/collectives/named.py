"""What NCCL's own ranges (NVTX, in traces of Nsight Systems) state about the kernels launched in or after them.

thread 4242   [ ncclAllReduce, comm 77, 4 MiB ] [ ncclGroupEnd          ]
                                                   [ launch ]                  the only one since the last launch

A range names the kernel if it is the only one between the last launch of a collective on the thread and this launch,
and if both are the same operation. Of several in one group nothing tells which kernel is which.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ktrace.analysis.work.columns import StoredColumns, source_of
from ktrace.analysis.work.events import Events, Work
from ktrace.analysis.work.shapes import Shapes
from ktrace.model.arrays import Int64
from ktrace.model.batch import Batch
from ktrace.model.masks import NameTest, truth, words_in
from ktrace.naming.collectives import operation_in
from ktrace.store.events import values
from ktrace.store.spill import Spill

#: The domain of NCCL's ranges.
_DOMAIN = "NCCL"

_Thread = tuple[str | None, int | None, int | None]


class NamedCall(NamedTuple):
    """What a range of NCCL's states: operation, communicator, and the bytes of one rank."""

    operation: str
    comm: str
    size: int | None


class NamedCalls:
    """NCCL's ranges: ts, size (-1: not known), and the number of the shape."""

    def __init__(self, spill: Spill) -> None:
        self._shapes = Shapes(("host", "pid", "tid", "name", "comm"))
        self._rows = StoredColumns(spill, "named", ts="i8", size="i8", shape="i4")
        self._is_call = NameTest(lambda name: name.startswith("nccl") and operation_in(name) is not None)

    @property
    def sources(self) -> list[str]:
        """The sources that have ranges."""
        return self._rows.sources

    def add(self, batch: Batch) -> None:
        """Adds the ranges among events of one source."""
        if not batch.has("comm") or not batch.has("track"):
            return
        mine = words_in(batch.column("track"), (_DOMAIN,)) & words_in(batch.column("kind"), ("range",))
        mine &= truth(batch.column("comm").is_valid())
        if not mine.any():
            return
        rows = np.flatnonzero(mine & self._is_call(batch.column("name")))
        if len(rows):
            size, known = values(batch.columns, "bytes")
            ts = batch.column("ts").to_numpy()[rows]
            shape = self._shapes.number(batch, rows)
            self._rows.add(source_of(batch), ts=ts, size=np.where(known, size, -1)[rows], shape=shape)

    def of_launches(self, work: Work, source: str, ids: Int64, names: Sequence[str]) -> list[NamedCall | None]:
        """The range of each kernel, by its id and name."""
        events = Events(work, source)
        order = np.argsort(events.ids)
        place = order[np.minimum(np.searchsorted(events.ids, ids, sorter=order), len(order) - 1)]
        known = np.flatnonzero((events.ids[place] == ids) & (events.call[place] >= 0))
        call = events.call[place[known]]
        launches: defaultdict[_Thread, list[tuple[int, int]]] = defaultdict(list)
        begins, threads = events.calls["ts"][call].tolist(), events.calls["thread"][call].tolist()
        for row, ts, thread in zip(known.tolist(), begins, threads, strict=True):
            one = work.threads[thread]
            launches[one["host"], one["pid"], one["tid"]].append((ts, row))
        found: list[NamedCall | None] = [None] * len(ids)
        for thread, mine in launches.items():
            self._name(found, source, thread, sorted(mine), names)
        return found

    def _name(
        self,
        found: list[NamedCall | None],
        source: str,
        thread: _Thread,
        launches: list[tuple[int, int]],
        names: Sequence[str],
    ) -> None:
        """Fills in the ranges of the launches (time, row) of a thread."""
        shapes = self._shapes.all()
        on_thread = np.array([(one["host"], one["pid"], one["tid"]) == thread for one in shapes])
        rows = self._rows.of(source)
        mine = np.flatnonzero(on_thread[rows["shape"]])
        mine = mine[np.argsort(rows["ts"][mine], kind="stable")]
        until = np.searchsorted(rows["ts"][mine], [ts for ts, _ in launches], "right")
        since = 0
        for (_, row), after in zip(launches, until.tolist(), strict=True):
            if after - since == 1:
                shape, size = shapes[rows["shape"][mine[since]]], int(rows["size"][mine[since]])
                operation = operation_in(shape["name"]) or ""
                if operation_in(names[row]) in (None, operation):
                    found[row] = NamedCall(operation, shape["comm"], None if size < 0 else size)
            since = after
