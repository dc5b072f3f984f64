"""The slices at the ends of launches that a document of ROCm's tools states by place and time.

    {"ph": "X", "name": "hipLaunchKernel", "pid": 77, "tid": 78, "ts": 10, "dur": 5}      id 3
    {"ph": "s", "pid": 77, "tid": 78, "ts": 12, "id": 1, "cat": "api_op"}                 its end is at event 3

Summaries join work with its call by the ids of rows. Arrows follow the slices in the file; one that doesn't stays as it
is.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.arrays import Int64
from ktrace.model.batch import Batch
from ktrace.model.json_text import decoded
from ktrace.model.masks import words_in

_PLACE = ("pid", "tid", "device", "stream")

#: How many slices that begin later may have ended before the one around an end.
_PASSED = 64


class ArrowEnds:
    """Gives the ends of launches the id of the innermost slice around them, on their thread or stream."""

    def __init__(self) -> None:
        self._slices: dict[tuple[int, ...], list[Int64]] = {}
        self._sorted: dict[tuple[int, ...], Int64] = {}

    def attach(self, batch: Batch) -> Batch:
        """The batch; of launches with the events at their ends."""
        if batch.record == "events" and batch.has("dur"):
            for place, rows in self._by_place(batch):
                times = (batch.column(name).fill_null(0).to_numpy()[rows] for name in ("ts", "dur", "id"))
                ts, dur, ids = (column.astype(np.int64) for column in times)
                self._slices.setdefault(place, []).append(np.stack([ts, ts + dur, ids]))
                self._sorted.pop(place, None)
        elif batch.record == "links" and batch.has("ts") and words_in(batch.column("link"), ("launch",)).any():
            return self._with_events(batch)
        return batch

    def _by_place(self, batch: Batch) -> list[tuple[tuple[int, ...], Int64]]:
        """The rows of a batch by their place."""
        columns = [
            batch.column(name).fill_null(-1).to_numpy() if batch.has(name) else np.full(len(batch), -1)
            for name in _PLACE
        ]
        distinct, of = np.unique(np.stack(columns).astype(np.int64), axis=1, return_inverse=True)
        of = of.reshape(-1)
        return [(tuple(place), np.flatnonzero(of == number)) for number, place in enumerate(distinct.T.tolist())]

    def _with_events(self, batch: Batch) -> Batch:
        ts, rows_of_ends = batch.column("ts").to_numpy().astype(np.int64), np.full(len(batch), -1, np.int64)
        for place, rows in self._by_place(batch):
            begins, ends, ids = self._at(place)
            at = np.searchsorted(begins, ts[rows], "right") - 1
            for _ in range(_PASSED if len(begins) else 0):
                around = (at >= 0) & (ends[np.maximum(at, 0)] >= ts[rows]) & (rows_of_ends[rows] < 0)
                rows_of_ends[rows[around]] = ids[at[around]]
                at -= 1
        launches = words_in(batch.column("link"), ("launch",))
        event = pa.array(rows_of_ends, mask=(rows_of_ends < 0) | ~launches)
        columns = {"event": pc.coalesce(batch.column("event"), event) if batch.has("event") else event}
        if batch.has("bind"):
            columns["bind"] = pc.if_else(event.is_valid(), None, decoded(batch.column("bind"))).dictionary_encode()
        return batch.replaced(columns)

    def _at(self, place: tuple[int, ...]) -> Int64:
        """Begins, ends and ids of the slices of a place, by begin; of one instant the outermost first."""
        if place not in self._sorted:
            rows = np.concatenate(self._slices.get(place, [np.zeros((3, 0), np.int64)]), axis=1)
            self._sorted[place] = rows[:, np.lexsort((-rows[1], rows[0]))]
        return self._sorted[place]
