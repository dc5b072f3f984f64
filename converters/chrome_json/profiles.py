"""CPU profiles within a trace of Chrome: their samples take the place of the events that contain them.

    {"ph":"P","name":"Profile","id":"0x7b","pid":7,"tid":11,"ts":100,"args":{"data":{"startTime":100}}}
    {"ph":"P","name":"ProfileChunk","id":"0x7b","pid":7,"tid":12,"ts":160,"args":{"data":{"cpuProfile":
     {"nodes":[{"id":1,"callFrame":{"functionName":"(root)"}}],"samples":[1]},"timeDeltas":[25]}}}
    {"ph":"I","name":"CpuProfile","pid":7,"tid":11,"ts":900,"args":{"data":{"cpuProfile":{"nodes":[..],"samples":[..],..}}}}
                                                                                              Chrome before 66

A chunk is written by the profiler's thread or, the last one, by the profile's own: their order in the file isn't that
of their times. So the text of all chunks is kept until the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.kit.v8 import CpuProfiles, Piece
from ktrace.model.arrays import Bools
from ktrace.model.batch import Batch
from ktrace.model.json_text import decoded, load_json
from ktrace.model.masks import words_in
from ktrace.model.row_builder import RowBuilder

_NAMES = ("Profile", "ProfileChunk", "CpuProfile")


class _Event(NamedTuple):
    """An event with a part of a profile: the id of its row, its time in ns, and its data as JSON."""

    name: str
    id: int
    ts: int
    pid: int | None
    tid: int | None
    data: bytes


class Profiles:
    """The profiles of a document."""

    def __init__(self, conversion: Conversion) -> None:
        self._rows = RowBuilder(conversion)
        self._report = conversion.report
        self._events: dict[tuple[int | None, str], list[_Event]] = {}

    def without(self, batch: Batch) -> Batch:
        """Takes the events of profiles out of a batch."""
        if batch.record != "events" or not batch.has("args.data"):
            return batch
        mine = words_in(batch.column("name"), _NAMES) & ~batch.column("args.data").is_null().to_numpy(False)
        if not mine.any():
            return batch
        taken = Batch("events", batch.columns.filter(pa.array(mine)))
        kept = self._keep(taken)
        mine[np.flatnonzero(mine)[~kept]] = False
        self._report.used(-int(kept.sum()))
        self._report.used(int(kept.sum()), outcome="structure")
        return Batch("events", batch.columns.filter(pa.array(~mine)))

    def _keep(self, batch: Batch) -> Bools:
        """Keeps the events with an object as data; returns which these are."""
        empty = pa.nulls(len(batch), pa.int64())
        columns = [decoded(batch.column(name)) for name in ("name", "id", "ts")]
        columns += [decoded(batch.column(name)) if batch.has(name) else empty for name in ("pid", "tid")]
        columns.append(decoded(batch.column("args.data")))
        ids = decoded(batch.column("args.$id")) if batch.has("args.$id") else empty
        kept = np.zeros(len(batch), np.bool_)
        for row, values in enumerate(zip(*(column.to_pylist() for column in columns), ids.to_pylist(), strict=True)):
            *fields, own = values
            event = _Event(*fields)
            kept[row] = isinstance(event.data, bytes) and event.data.startswith(b"{")
            if kept[row]:
                key = own if own is not None else f"tid {event.tid}"
                self._events.setdefault((event.pid, str(key)), []).append(event)
        return kept

    def rows(self) -> Iterator[Batch]:
        """Yields the samples of all profiles."""
        profiles = CpuProfiles(self._rows, self._report, "cpu ")
        for events in self._events.values():
            for _ in self._profile(sorted(events, key=lambda event: event.ts), profiles):
                yield from self._rows.ready()
        yield from self._rows.rest()

    def _profile(self, events: list[_Event], profiles: CpuProfiles) -> Iterator[None]:
        """Adds the samples of a profile, on the thread on which it began."""
        begun = next((event for event in events if event.name != "ProfileChunk"), events[0])
        found = [(event, load_json(event.data)) for event in events]
        times: dict[str, int] = {}
        for _, data in found:
            for source in (data, _object(data, "cpuProfile")):
                for key in ("startTime", "endTime"):
                    if type(value := source.get(key)) is int:
                        times.setdefault(key, value)
        pieces = [_piece(event, data) for event, data in found]
        if "startTime" not in times:
            lost = sum(len(piece.samples) for piece in pieces if isinstance(piece.samples, list))
            self._report.record(lost)
            self._report.issue("bad-record", f"id {begun.id}", "samples of a CPU profile that has no start", lost)
            return
        place = {"pid": begun.pid, "tid": begun.tid}
        yield from profiles.add(pieces, times["startTime"], times.get("endTime"), place)


def _piece(event: _Event, data: dict[str, Any]) -> Piece:
    profile = _object(data, "cpuProfile")
    deltas = data.get("timeDeltas", profile.get("timeDeltas"))
    return Piece(event.id + 1, f"id {event.id}", profile.get("nodes"), profile.get("samples"), deltas)


def _object(data: dict[str, Any], key: str) -> dict[str, Any]:
    found = data.get(key)
    return found if isinstance(found, dict) else {}
