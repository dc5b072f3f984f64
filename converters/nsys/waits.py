"""Finds the call that recorded the CUDA event which a stream waits for.

    CUDA_EVENT        correlationId 52, eventSyncId 9     cudaEventRecord of correlation 52 records
    SYNCHRONIZATION   eventSyncId 9                       a stream waits for that: arrow call -> synchronisation

Calls are examined while they are read, and only those with the correlation of a recorded event are kept.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.columnar.blocks import Batches
from ktrace.kit.sqlite.database import Database
from ktrace.model.arrays import Int64
from ktrace.model.batch import Batch
from ktrace.store.joins import positions

from .columns import filled, filled_part
from .places import NOTHING


class Waits:
    """The recorded events, and the ids of the calls that recorded them."""

    def __init__(self, database: Database, batches: Batches) -> None:
        self._batches = batches
        pids, correlations, records = ([np.zeros(0, np.int64)] for _ in range(3))
        for table in database.like("CUPTI_ACTIVITY_KIND_CUDA_EVENT"):
            part = database.part(table, ("globalPid", "correlationId", "eventSyncId"))
            pids.append(filled_part(part, "globalPid", -1) >> 24 & 0xFFFFFF)
            correlations.append(filled_part(part, "correlationId", -1))
            records.append(filled_part(part, "eventSyncId", -1))
        pid, correlation, record = map(np.concatenate, (pids, correlations, records))
        known = correlation > 0
        calls = _key(pid[known], correlation[known])
        self._wanted = np.unique(calls)
        self._calls = np.full(len(self._wanted), -1, np.int64)
        synced = (record[known] >= 0) & (record[known] != NOTHING)
        # If a number was recorded several times, the last record counts.
        records_of, last = np.unique(_key(pid[known], record[known])[synced][::-1], return_index=True)
        self._records, self._call_of = records_of, calls[synced][::-1][last]

    def add_calls(self, ids: Int64, pid: pa.Array | None, correlation: pa.Array | None) -> None:
        """Keeps the first call of each correlation that recorded an event."""
        if not len(self._wanted) or pid is None or correlation is None:
            return
        place = positions(_key(_numbers(pid), _numbers(correlation)), self._wanted)
        matches = np.flatnonzero(place >= 0)[::-1]
        new = matches[self._calls[place[matches]] < 0]
        self._calls[place[new]] = ids[new]

    def calls_of(self, pid: pa.Array, correlation: pa.Array) -> pa.Array:
        """Returns the ids of the calls with these correlations, null if there is none."""
        calls = self._calls_by_key(_key(_numbers(pid), _numbers(correlation)))
        return pa.array(calls, mask=calls < 0)

    def arrivals(self, ids: Int64, pids: Int64, records: Int64) -> Iterator[Batch]:
        """Yields both ends of the arrows to synchronisations; their ids are the two after the synchronisation's."""
        place = positions(_key(pids, records), self._records)
        known, calls = place >= 0, np.full(len(ids), -1, np.int64)
        calls[known] = self._calls_by_key(self._call_of[place[known]])
        waits = np.flatnonzero((calls >= 0) & (records != NOTHING))
        if not len(waits):
            return
        # Every arrow has its own key: a call has as many arrows as there are streams that wait for its event.
        parts = (pids[waits], records[waits], ids[waits])
        keys = pc.binary_join_element_wise(*(pa.array(part).cast(pa.string()) for part in parts), ":")
        for number, (role, event) in enumerate((("out", calls[waits]), ("in", ids[waits])), 1):
            columns = {"key": keys, "role": role, "event": event, "pid": pids[waits], "name": "CUDA event"}
            yield self._batches.batch("links", ids[waits] + number, link="wait", **columns)

    def _calls_by_key(self, keys: Int64) -> Int64:
        """Returns the ids of the calls with these keys, -1 if there is none."""
        place = positions(keys, self._wanted)
        known, calls = place >= 0, np.full(len(keys), -1, np.int64)
        calls[known] = self._calls[place[known]]
        return calls


def _key(pid: Int64, number: Int64) -> Int64:
    return (pid << 38) ^ number


def _numbers(column: pa.Array) -> Int64:
    return filled(column, len(column), -1)
