"""Writes a timeline as a Perfetto trace: every slice, point and counter value a TrackEvent on its track."""

from __future__ import annotations

import math
from typing import NamedTuple

from ktrace.catalog import Catalog
from ktrace.conversion import Conversion
from ktrace.model import POINT_KINDS, Batch
from ktrace.order import Timeline, TimelineBatch
from ktrace.sink import Sink

from .._shared.arguments import values
from . import numbers as n
from .descriptors import Descriptors
from .events import Encoder
from .wire import bytes_field, bytes_tag, double_field, fixed64_field, int_field, int_tag, varint

#: Number of the one sequence that the packets are on. 0 is not allowed.
_SEQUENCE = int_field(n.TRACE_PACKET_TRUSTED_PACKET_SEQUENCE_ID, 1)
_FIRST = (
    _SEQUENCE
    + int_field(n.TRACE_PACKET_FIRST_PACKET_ON_SEQUENCE, 1)
    + int_field(n.TRACE_PACKET_SEQUENCE_FLAGS, n.SEQ_INCREMENTAL_STATE_CLEARED)
)
_LATER = _SEQUENCE + int_field(n.TRACE_PACKET_SEQUENCE_FLAGS, n.SEQ_NEEDS_INCREMENTAL_STATE)

_PACKET = bytes_tag(n.TRACE_PACKET)
_TIME = int_tag(n.TRACE_PACKET_TIMESTAMP)
_EVENT = bytes_tag(n.TRACE_PACKET_TRACK_EVENT)
_BEGIN = int_field(n.TRACK_EVENT_TYPE, n.TYPE_SLICE_BEGIN)
_END = int_field(n.TRACK_EVENT_TYPE, n.TYPE_SLICE_END)
_INSTANT = int_field(n.TRACK_EVENT_TYPE, n.TYPE_INSTANT)
_COUNTER = int_field(n.TRACK_EVENT_TYPE, n.TYPE_COUNTER)
_TRACK = int_tag(n.TRACK_EVENT_TRACK_UUID)

#: Bytes that are gathered before they are given to the output.
_CHUNK = 1 << 20


class Writer:
    """A TimelineWriter of one sequence of TrackEvents."""

    def __init__(self, sink: Sink, conversion: Conversion) -> None:
        self._stream = sink.open()
        self._report = conversion.report
        self._encoder = Encoder()
        self._buffer = bytearray()
        self._origin = 0

    def start(self, timeline: Timeline) -> None:
        """Writes the packet that opens the sequence, and the clock where the source knows the time of day."""
        self._origin = min(timeline.start, 0)
        note = ""
        if self._origin:
            note = f"The times shown are {-self._origin} ns later than those of the source, which begin below 0."
            self._report.issue("origin", "output", f"{-self._origin} ns were added", 0)
        self._tracks = Descriptors(timeline.tracks, timeline.catalog, note)
        self._packet(_FIRST)
        if anchor := _unix_anchor(timeline.catalog, timeline.start):
            at_ns, unix_ns = anchor
            clocks = _clock(n.BUILTIN_CLOCK_BOOTTIME, at_ns - self._origin) + _clock(n.BUILTIN_CLOCK_REALTIME, unix_ns)
            self._packet(_LATER + bytes_field(n.TRACE_PACKET_CLOCK_SNAPSHOT, clocks))

    def write(self, batch: TimelineBatch) -> int:
        """Writes the rows and returns how many events and arrow ends it kept.

        A counter that is no number has no place.
        """
        events, edges = batch.batch, batch.edges
        heads = self._heads(batch)
        series = _series(events)
        self._tracks.expect_counters((int(batch.track[row]), counter.name) for row, counter in series.items())
        slices: dict[tuple[int, int], bytes] = {}  # (track, lane) -> field
        packets: list[tuple[int, bytes]] = []
        columns = (edges.ts.tolist(), edges.row.tolist(), edges.track.tolist(), edges.lane.tolist())
        for ts, row, track, lane in zip(*columns, strict=True):
            if row in series:
                if series[row].value:
                    uuid = self._tracks.counter(track, series[row].name, series[row].unit)
                    packets.append((ts, _COUNTER + _TRACK + varint(uuid) + series[row].value + heads[row]))
                continue
            place = slices.get((track, lane))
            if place is None:
                place = slices[track, lane] = _TRACK + varint(self._tracks.track(track, lane))
            packets.append((ts, place + (heads[row] if row >= 0 else _END)))
        self._introduce()
        self._events(packets)
        return len(batch) - sum(not counter.value for counter in series.values()) + batch.link_ends

    def _heads(self, batch: TimelineBatch) -> list[bytes]:
        """For each row the TrackEvent of its begin, or of the point that it is, without its track."""
        heads = self._encoder.bodies(batch.batch)
        for row, kind in enumerate(values(batch.batch, "kind")):
            if kind != "counter":
                heads[row] = (_INSTANT if kind in POINT_KINDS else _BEGIN) + heads[row]
        arrows = batch.arrows
        for row, arrow in zip(arrows.row.tolist(), arrows.arrow.tolist(), strict=True):
            heads[row] += fixed64_field(n.TRACK_EVENT_FLOW_IDS, arrow)
        return heads

    def close(self) -> None:
        """Writes what is left."""
        self._introduce()
        self._stream.write(self._buffer)
        self._buffer.clear()

    def _introduce(self) -> None:
        """Writes the descriptors and texts that the next events refer to."""
        for descriptor in self._tracks.fresh:
            self._packet(_LATER + descriptor)
        self._tracks.fresh.clear()
        if interned := self._encoder.fresh():
            self._packet(_LATER + interned)

    def _events(self, events: list[tuple[int, bytes]]) -> None:
        """Writes events as packets."""
        buffer, origin = self._buffer, self._origin
        for ts, event in events:
            packet = _TIME + varint(ts - origin) + _LATER + _EVENT + varint(len(event)) + event
            buffer += _PACKET + varint(len(packet)) + packet
        if len(buffer) >= _CHUNK:
            self._stream.write(buffer)
            buffer.clear()

    def _packet(self, fields: bytes) -> None:
        self._buffer += bytes_field(n.TRACE_PACKET, fields)


class _Counter(NamedTuple):
    """The value of a counter, as a field (empty where it is no number), and the series that it belongs to."""

    name: str
    unit: str | None
    value: bytes


def _series(events: Batch) -> dict[int, _Counter]:
    """Row -> counter value, for the rows that are counters."""
    columns = zip(
        values(events, "kind"), values(events, "name"), values(events, "unit"), values(events, "value"), strict=True
    )
    return {
        row: _Counter(name, unit, _counter_value(value))
        for row, (kind, name, unit, value) in enumerate(columns)
        if kind == "counter"
    }


def _counter_value(value: float | None) -> bytes:
    if value is None or not math.isfinite(value):
        return b""
    if value.is_integer() and abs(value) < 2**53:
        return int_field(n.TRACK_EVENT_COUNTER_VALUE, int(value))
    return double_field(n.TRACK_EVENT_DOUBLE_COUNTER_VALUE, value)


def _unix_anchor(catalog: Catalog, start: int) -> tuple[int, int] | None:
    """(ns of the trace, unix ns) at the begin of the trace, None where no source says, or two disagree."""
    offsets = {
        entry.facts["unix_ns"] - entry.facts["at_ns"]
        for entry in catalog.of("clock")
        if "unix_ns" in entry.facts and "at_ns" in entry.facts
    }
    if len(offsets) != 1:
        return None
    (offset,) = offsets
    return (start, start + offset) if start + offset > 0 else None


def _clock(clock: int, ns: int) -> bytes:
    fields = int_field(n.CLOCK_SNAPSHOT_CLOCK_CLOCK_ID, clock) + int_field(n.CLOCK_SNAPSHOT_CLOCK_TIMESTAMP, ns)
    return bytes_field(n.CLOCK_SNAPSHOT_CLOCKS, fields)
