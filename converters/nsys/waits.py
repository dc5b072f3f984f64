"""Which call recorded the CUDA event that a stream waits for.

    CUDA_EVENT        correlationId 52, eventSyncId 9     cudaEventRecord of correlation 52 records
    SYNCHRONIZATION   eventSyncId 9                       a stream waits for that: arrow call -> synchronisation

Calls are looked at while they are read, for the correlations of recorded events only.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ktrace.model import Batch

from .._shared.blocks import Batches
from .._shared.sqlite import Database
from .places import NOTHING, pid_of

Int64 = npt.NDArray[np.int64]


class Waits:
    """The recorded events, and the ids of the calls that recorded them."""

    def __init__(self, database: Database, batches: Batches) -> None:
        self._batches = batches
        correlations, records, pids = [], [], []
        for table in database.like("CUPTI_ACTIVITY_KIND_CUDA_EVENT"):
            for number, correlation, recorded in database.rows(table, "globalPid", "correlationId", "eventSyncId"):
                if isinstance(number, int) and isinstance(correlation, int) and correlation:
                    pids.append(pid_of(number))
                    correlations.append(correlation)
                    records.append(recorded if isinstance(recorded, int) else NOTHING)
        pid = np.array(pids, np.int64)
        self._wanted = np.unique(_key(pid, np.array(correlations, np.int64)))
        self._calls = np.full(len(self._wanted), -1, np.int64)
        self._recorded = {
            (process, record): key
            for process, record, key in zip(
                pids, records, _key(pid, np.array(correlations, np.int64)).tolist(), strict=True
            )
            if record != NOTHING
        }

    def see(self, ids: Int64, pid: pa.Array | None, correlation: pa.Array | None) -> None:
        """Is shown calls: remembers the first one of each correlation that it wants."""
        if not len(self._wanted) or pid is None or correlation is None:
            return
        keys = _key(_plain(pid), _plain(correlation))
        place = np.minimum(np.searchsorted(self._wanted, keys), len(self._wanted) - 1)
        hit = np.flatnonzero(self._wanted[place] == keys)[::-1]
        fresh = hit[self._calls[place[hit]] < 0]
        self._calls[place[fresh]] = ids[fresh]

    def calls_of(self, pid: pa.Array, correlation: pa.Array) -> pa.Array:
        """The ids of the calls of these correlations, null where there is none."""
        keys = _key(_plain(pid), _plain(correlation))
        found = np.array([self._call(key) for key in keys.tolist()], np.int64)
        return pa.array(found, mask=found < 0)

    def arrivals(self, ids: Int64, pids: Int64, records: Int64) -> Iterator[Batch]:
        """Both ends of the arrows to synchronisations: the one on the call by the id after the synchronisation's."""
        ends = []
        for row in np.flatnonzero(records != NOTHING).tolist():
            key = self._recorded.get((int(pids[row]), int(records[row])))
            call = -1 if key is None else self._call(key)
            if call >= 0:
                ends.append((int(ids[row]), call, int(pids[row]), int(records[row])))
        if not ends:
            return
        # The end on the call stands once for each arrow, and every arrow has a key of its own.
        numbers, calls, processes, _ = (np.array(part, np.int64) for part in zip(*ends, strict=True))
        keys = pa.array([f"{process}:{record}:{at}" for at, _, process, record in ends])
        for role, event, own in (("out", calls, numbers + 1), ("in", numbers, numbers + 2)):
            yield self._batches.batch(
                "links", own, link="wait", key=keys, role=role, event=event, pid=processes, name="CUDA event"
            )

    def _call(self, key: int) -> int:
        place = int(np.searchsorted(self._wanted, key))
        return int(self._calls[place]) if place < len(self._wanted) and self._wanted[place] == key else -1


def _key(pid: Int64, correlation: Int64) -> Int64:
    return (pid << 38) ^ correlation


def _plain(column: pa.Array) -> Int64:
    numbers: Int64 = (column.fill_null(-1) if column.null_count else column).to_numpy(zero_copy_only=False)
    return numbers
