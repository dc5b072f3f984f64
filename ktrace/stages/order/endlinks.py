"""Moves links on the end of a slice that was written apart from its begin to the slice.

event  id 16  begin            event  id 16  slice
event  id 21  end        ──►
link   event 21                link   event 16
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.arrays import Int32
from ktrace.model.batch import Batch, arrow_schema
from ktrace.store.events import EventStore, values
from ktrace.store.joins import find
from ktrace.store.spill import Batches, Runs, Spill, ranges
from ktrace.store.vocabulary import Vocabularies


class EndLinks:
    """Keeps links that name an event until it is known which events are ends of slices."""

    def __init__(self, spill: Spill, words: Vocabularies) -> None:
        self._spill = spill
        self._words = words
        self._waiting = Batches(spill, "end_links")
        self._starts = [0]
        self._on = Runs(spill, "on_ends", [("event", "i8"), ("source", "i4"), ("number", "i8")])

    def keep(self, columns: pa.RecordBatch) -> None:
        """Keeps links that name an event."""
        event, _ = values(columns, "event")
        source = self._words.encode("source", columns.column("source"), arrow_schema("links").field("source").type)
        first = self._starts[-1]
        self._on.append(event=event, source=source.to_numpy(), number=np.arange(first, first + len(event)))
        self._waiting.append(columns)
        self._starts.append(first + len(event))

    def rest(self, store: EventStore, pairs: Runs, sources: Int32, size: int) -> Iterator[Batch]:
        """Yields the links, moved from ends to begins. `sources` is the number of the source of each track."""
        event = np.zeros(len(self._on), np.int64)
        moved = np.zeros(len(self._on), np.bool_)
        ends = Runs(self._spill, "ids_of_ends", [("end", "i8"), ("source", "i4"), ("begin", "i8")])
        keys = store.keys.rows
        for _, rows in pairs.blocks(size):
            source = sources[keys["track"][rows["end"]]]
            ends.append(end=keys["id"][rows["end"]], source=source, begin=keys["id"][rows["begin"]])
        for low, high in ranges(sorted({*ends.cuts(size), *self._on.cuts(size)})):
            wanted, known = self._on.rows[self._on.between(low, high)], ends.rows[ends.between(low, high)]
            if len(wanted):
                found = find((wanted["event"], wanted["source"]), (known["end"], known["source"]))
                there = found >= 0
                event[wanted["number"][there]] = known["begin"][found[there]]
                moved[wanted["number"][there]] = True
        for number in range(len(self._waiting)):
            columns, here = self._waiting.get(number), slice(*self._starts[number : number + 2])
            if moved[here].any():
                new = pc.if_else(pa.array(moved[here]), pa.array(event[here]), columns.column("event"))
                columns = columns.set_column(columns.schema.get_field_index("event"), "event", new)
            yield Batch("links", columns)
