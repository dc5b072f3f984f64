"""Which call launched which device work, as a table: found as for a summary, by correlation id or by arrows.

source  id  call_id  call              call_ts  call_dur  call_pid  call_tid  queue
rank0   49  7        cudaLaunchKernel  1_000    6_000     4242      4242      1_500
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from ktrace.analysis.query.views import LAUNCHED_SCHEMA
from ktrace.analysis.work.columns import BLOCK, StoredColumns, source_of
from ktrace.analysis.work.events import Events, Work
from ktrace.analysis.work.gather import SummaryInput, kinds_in
from ktrace.model.arrays import Int32, Int64
from ktrace.model.batch import HOST_KINDS, TRACK_COLUMNS, Batch
from ktrace.model.json_text import encoded
from ktrace.naming.taxonomy import taxonomy
from ktrace.store.events import values
from ktrace.store.spill import Spill

#: The columns of events and links that joining needs.
COLUMNS = {
    "events": frozenset({*TRACK_COLUMNS, "id", "parent", "clock", "kind", "name", "ts", "dur", "correlation"}),
    "links": frozenset({"source", "id", "link", "key", "role", "event"}),
}


class Launches:
    """Collects calls and device work from batches, and joins them. Batches have one source each."""

    def __init__(self, spill: Spill) -> None:
        self._gathered = SummaryInput(taxonomy(None), spill)
        self._names: dict[str, int] = {}
        self._named = StoredColumns(spill, "call_names", id="i8", name="i4")

    def know(self, batch: Batch) -> None:
        """Collects the calls and arrows of a batch, also those that a filter leaves out."""
        self._gathered.know(batch)
        if batch.record == "events" and len(batch):
            (host,) = kinds_in(batch, HOST_KINDS)
            api = kinds_in(batch, ("api",))[0]
            correlation, _ = values(batch.columns, "correlation")
            rows = np.flatnonzero(api | (host & (correlation != 0)))
            if len(rows):
                id_ = batch.column("id").to_numpy()[rows]
                self._named.add(source_of(batch), id=id_, name=self._numbers(batch, rows))

    def count(self, batch: Batch) -> None:
        """Collects the device work of a batch."""
        self._gathered.count(batch)

    def tables(self) -> Iterator[pa.RecordBatch]:
        """Yields the launches of each source."""
        work = Work.of_devices(self._gathered)
        words = pa.array(self._names, pa.string())
        for events in work.each():
            for first in range(0, len(events), BLOCK):
                rows = first + np.flatnonzero(events.call[first : first + BLOCK] >= 0)
                if len(rows):
                    yield self._batch(events, rows, words, work)

    def _batch(self, events: Events, rows: Int64, words: pa.Array, work: Work) -> pa.RecordBatch:
        calls, call = events.calls, events.call[rows]
        ids, waits = calls["id"][call], events.waits[rows]
        dur, thread = calls["dur"][call], calls["thread"][call]
        known = self._named.of(events.source)
        order = np.argsort(known["id"], kind="stable")
        name = known["name"][order[np.searchsorted(known["id"], ids, sorter=order)]]
        places = {part: pa.array([one[part] for one in work.threads], pa.int64()) for part in ("pid", "tid")}
        columns = {
            "source": pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(rows), np.int32)), [events.source]),
            "id": pa.array(events.ids[rows]),
            "call_id": pa.array(ids),
            "call": pa.DictionaryArray.from_arrays(pa.array(name), words),
            "call_ts": pa.array(calls["ts"][call]),
            "call_dur": pa.array(dur, mask=dur < 0),
            "call_pid": places["pid"].take(pa.array(thread)),
            "call_tid": places["tid"].take(pa.array(thread)),
            "queue": pa.array(waits, mask=waits < 0),
        }
        return pa.RecordBatch.from_arrays([columns[name] for name in LAUNCHED_SCHEMA.names], schema=LAUNCHED_SCHEMA)

    def _numbers(self, batch: Batch, rows: Int64) -> Int32:
        """The numbers of the names of these rows."""
        words = encoded(batch.column("name"))
        codes = words.indices.to_numpy(zero_copy_only=False)[rows]
        used, which = np.unique(codes, return_inverse=True)
        texts = words.dictionary.take(pa.array(used)).to_pylist()
        numbers = np.array([self._names.setdefault(text, len(self._names)) for text in texts], np.int32)
        found: Int32 = numbers[which]
        return found
