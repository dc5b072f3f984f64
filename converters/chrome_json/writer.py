"""Writes a timeline as Chrome trace JSON, one event per line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import ktrace
from ktrace.conversion import Conversion
from ktrace.kit.canonical.records import as_bytes, json_rows
from ktrace.model.batch import VERSION, Batch
from ktrace.model.catalog import Catalog
from ktrace.model.json_text import dump_json, load_json
from ktrace.model.masks import words_in
from ktrace.output.sink import Sink
from ktrace.stages.order.timeline import Timeline, TimelineBatch

from .lines import SEPARATOR, Flows, Lines
from .track_ids import FlowIds, TrackIds

#: Rows whose lines are made at once; limits memory.
CHUNK = 32_768

#: Key of `otherData` that viewers ignore.
OTHER_DATA_KEY = "ktrace"


class Writer:
    """A TimelineWriter of complete events (X), instants (i), counters (C) and flows (s, t, f)."""

    def __init__(self, sink: Sink, conversion: Conversion) -> None:
        self._stream = sink.open()
        self._report = conversion.report
        self._flow_ids = FlowIds()
        self._is_first = True

    def start(self, timeline: Timeline) -> None:
        """Writes the head. Times count from the start of the trace."""
        self._rows = TrackIds(timeline.tracks, timeline.catalog)
        self._lines = Lines(self._rows, timeline.start, timeline.end)
        if timeline.start:
            self._report.issue("origin", "output", f"{timeline.start} ns were subtracted", 0)
        about = {"ktrace": VERSION, "version": ktrace.__version__, "origin_ns": timeline.start} | self._rows.facts()
        about["catalog"] = _catalog(timeline.catalog)
        head = {"displayTimeUnit": "ns", "otherData": {OTHER_DATA_KEY: about}}
        self._stream.write((dump_json(head)[:-1] + ',"traceEvents":[\n').encode("utf-8", "replace"))

    def write(self, batch: TimelineBatch) -> int:
        """Writes the rows and returns the number of events and arrow ends that it kept.

        A counter that isn't a number is left out.
        """
        flows = self._flow_ids.flows(batch.arrows)
        kept = sum(self._write(batch, first, flows) for first in range(0, len(batch), CHUNK))
        return kept + batch.link_ends

    def close(self) -> None:
        """Writes the end."""
        self._stream.write(b"\n]}\n")

    def _write(self, batch: TimelineBatch, first: int, flow_ids: Flows) -> int:
        """Writes the rows from `first` on and returns how many it kept."""
        events = Batch("events", batch.batch.columns.slice(first, CHUNK))
        track = batch.track[first : first + CHUNK]
        flows = self._lines.flows(events, track, batch.arrows, first, flow_ids)
        counter = words_in(events.column("kind"), ("counter",))
        if not counter.any():
            self._put(self._lines.slices(events, track, flows))
            return len(events)
        number = pc.is_finite(events.column("value")).fill_null(False).to_numpy(zero_copy_only=False)
        texts, places = [], []
        for mask in (~counter, counter & number):
            index = np.flatnonzero(mask)
            if len(index):
                taken = Batch("events", events.columns.take(pa.array(index)))
                if mask[index[0]] and counter[index[0]]:
                    texts.append(self._lines.counters(taken, track[index]))
                else:
                    mine = None if flows is None else flows.take(pa.array(index))
                    texts.append(self._lines.slices(taken, track[index], mine))
                places.append(index)
        if texts:
            order = np.argsort(np.concatenate(places), kind="stable")
            self._put(pa.concat_arrays(texts).take(pa.array(order)))
        return len(events) - int(np.count_nonzero(counter & ~number))

    def _put(self, lines: pa.BinaryArray) -> None:
        """Writes lines, after the lines that name new processes and threads."""
        names = "".join(SEPARATOR + line for line in self._rows.fresh).encode("utf-8", "replace")
        self._rows.fresh = []
        for text in (memoryview(names), as_bytes(lines)):
            if len(text):
                self._stream.write(text[len(SEPARATOR) :] if self._is_first else text)
                self._is_first = False


def _catalog(catalog: Catalog) -> list[dict[str, Any]]:
    """The rows of the catalog as in the canonical JSON forms, without `record`."""
    rows = [load_json(row) for row in json_rows(catalog.to_batch()).to_pylist()]
    return [{key: value for key, value in row.items() if key != "record"} for row in rows]
