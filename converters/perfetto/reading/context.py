"""What one reading knows: the report, texts, tracks, the state of each sequence, and the clocks.

    packet { clock_snapshot { clocks { BOOTTIME 1000 } clocks { REALTIME 1700000000000001000 }
                              clocks { 64  900  is_incremental } } }

A snapshot relates clocks; times of packets are converted to the main clock. Clock ids below 64 belong to the machine,
64 to 127 to the sequence, higher ones to the trace.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.kit.columnar.dictionaries import constant, words
from ktrace.kit.columnar.protobuf import LENGTH, VARINT, Fields, distinct_of, fields_of, signed
from ktrace.model.arrays import Int64
from ktrace.model.batch import Batch

from .. import field_numbers as f
from ..sidecar import Sidecar
from .argument_values import Chunk, Values
from .sequence_state import SequenceState, TextPool
from .tracks import Tracks

#: (sequence or 0, clock id)
Clock = tuple[int, int]

_P = f.TRACE_PACKET

BOOTTIME, REALTIME = f.BUILTIN_CLOCK["BUILTIN_CLOCK_BOOTTIME"], f.BUILTIN_CLOCK["BUILTIN_CLOCK_REALTIME"]

_NAMES = {number: name.removeprefix("BUILTIN_CLOCK_").lower() for name, number in f.BUILTIN_CLOCK.items()}


class _Clocks:
    """All snapshots so far.

    `main` is the clock of packets that name none; `anchor` is (its ns, unix ns), None while unknown.
    """

    def __init__(self) -> None:
        self.main = BOOTTIME
        self.anchor: tuple[int, int] | None = None
        self._scale: dict[Clock, int] = {}
        self._last: dict[Clock, int] = {}  # incremental clock -> its last time
        self._snapshots: defaultdict[tuple[Clock, Clock], list[tuple[int, int]]] = defaultdict(list)

    def snapshot(self, data: bytes, sequence: int) -> None:
        """Reads a ClockSnapshot. Raises ValueError if it isn't protobuf."""
        times: dict[Clock, int] = {}
        for number, _, value in fields_of(data):
            if number == f.CLOCK_SNAPSHOT["primary_trace_clock"] and isinstance(value, int):
                self.main = value
            elif number == f.CLOCK_SNAPSHOT["clocks"] and isinstance(value, bytes):
                clock, ns = self._clock(value, sequence)
                times[clock] = ns
        for one, at in times.items():
            for other, there in times.items():
                if one != other:
                    self._snapshots[one, other].append((at, there))
        if self.anchor is None and (0, self.main) in times and (0, REALTIME) in times and self.main != REALTIME:
            self.anchor = times[0, self.main], times[0, REALTIME]

    def _clock(self, data: bytes, sequence: int) -> tuple[Clock, int]:
        given = {number: value for number, _, value in fields_of(data) if isinstance(value, int)}
        clock = _key(given.get(f.CLOCK["clock_id"], 0), sequence)
        scale = given.get(f.CLOCK["unit_multiplier_ns"], 0) or 1
        ns = given.get(f.CLOCK["timestamp"], 0) * scale
        self._scale[clock] = scale
        if given.get(f.CLOCK["is_incremental"]):
            self._last[clock] = ns
        else:
            self._last.pop(clock, None)
        return clock, ns

    def times(self, values: Int64, clock_id: int, sequence: int) -> tuple[Int64, str | None]:
        """Converts timestamps of packets of one sequence, in their order, without a snapshot between them.

        Returns ns of the main clock and None; if no snapshot relates the clocks, ns of their own clock and its name.
        """
        clock, main = _key(clock_id, sequence), (0, self.main)
        ns = values * self._scale.get(clock, 1)
        if clock in self._last and len(ns):
            ns = np.cumsum(ns) + self._last[clock]
            self._last[clock] = int(ns[-1])
        if clock_id == self.main:
            return ns, None
        if snapshots := self._snapshots.get((clock, main)):
            at, there = np.array(snapshots, np.int64).T
            last = np.maximum(np.searchsorted(at, ns, "right") - 1, 0)
            return ns + (there - at)[last], None
        converted = [self._convert(one, clock) for one in ns.tolist()]
        if any(one is None for one in converted):
            return ns, clock_name(clock)
        return np.array(converted, np.int64), None

    def _convert(self, ns: int, clock: Clock) -> int | None:
        """Returns the time on the main clock, by as few snapshots as possible; None if none relate the clocks."""
        main = (0, self.main)
        reached, front = {clock}, [(clock, ns)]
        while front:
            found = []
            for here, at in front:
                for one, other in list(self._snapshots):
                    if one == here and other not in reached:
                        there = at + self._offset(one, other, at)
                        if other == main:
                            return there
                        reached.add(other)
                        found.append((other, there))
            front = found
        return None

    def _offset(self, one: Clock, other: Clock, at: int) -> int:
        snapshots = self._snapshots[one, other]
        last = snapshots[max(bisect_right(snapshots, at, key=lambda times: times[0]) - 1, 0)]
        return last[1] - last[0]


def _key(clock: int, sequence: int) -> Clock:
    return (sequence if 64 <= clock < 128 else 0), clock


def clock_name(clock: Clock) -> str:
    """The name of a clock in the column `clock`."""
    sequence, number = clock
    return _NAMES.get(number) or (f"{sequence}/{number}" if sequence else str(number))


class PacketTimes:
    """Fills in `ts`, the times of a chunk's packets, up to the packet that the walk has reached.

    `own_clock` contains the sequences that may have a default clock. `names` has a code of `Chunk.chunk_texts` per
    packet: the name of a clock that no snapshot relates to the main clock, else -1. It is None if no packet has one.
    """

    def __init__(
        self,
        clocks: _Clocks,
        chunk: Chunk,
        found: Fields,
        sequence: Int64,
        state: Int64,
        ts: Int64,
        own_clock: set[int],
    ) -> None:
        self.names: Int64 | None = None
        self._clocks, self._chunk, self._sequence, self._state, self._ts = clocks, chunk, sequence, state, ts
        given = found.get(_P["timestamp_clock_id"], VARINT)
        self._given = np.full(found.count, -1, np.int64)
        self._given[given.owner] = signed(given.value)
        own_clock.update(sequence[found.get(_P["trace_packet_defaults"], LENGTH).owner].tolist())
        odd = self._given >= 0
        if own_clock:
            odd |= np.isin(sequence, list(own_clock))
        odd &= found.get(_P["timestamp"], VARINT).has(found.count)
        self._rows = np.flatnonzero(odd)
        self._done = 0

    def until(self, row: int) -> None:
        """Fills in the packets before `row`.

        All changes of clocks before `row` must have been read, and no later ones.
        """
        end = int(np.searchsorted(self._rows, row))
        rows = self._rows[self._done : end]
        self._done = end
        if not len(rows):
            return
        defaults = np.array([-1 if state.clock is None else state.clock for state in self._chunk.states], np.int64)
        clock = np.where(self._given[rows] >= 0, self._given[rows], defaults[self._state[rows]])
        key = self._sequence[rows] * (1 << 33) + clock  # sequence ids are of 32 bits
        for one in distinct_of(key[clock >= 0])[0].tolist():
            which = rows[(key == one) & (clock >= 0)]
            sequence, number = one >> 33, one & (1 << 33) - 1
            self._ts[which], name = self._clocks.times(self._ts[which], number, sequence)
            if name is not None:
                if self.names is None:
                    self.names = np.full(len(self._ts), -1, np.int64)
                self.names[which] = self._chunk.chunk_texts.code(name.encode())


@dataclass
class Events:
    """Packets of one kind as columns: place, id of the row, time in ns, index of the state in `Chunk.states`, and the
    start and end of the message in `Chunk.data`.

    `id` is the place of the message in the file, which is the id of the row too, unless ktrace wrote another `row`.
    `clock` has codes of `Chunk.chunk_texts`; None if all times are of the main clock.
    """

    id: Int64
    row: Int64
    ts: Int64
    state: Int64
    start: Int64
    end: Int64
    clock: Int64 | None = None

    def take(self, rows: Any) -> Events:
        """Some of them."""
        clock = None if self.clock is None else self.clock[rows]
        return Events(
            self.id[rows], self.row[rows], self.ts[rows], self.state[rows], self.start[rows], self.end[rows], clock
        )

    def __len__(self) -> int:
        return len(self.id)


class StageObserver(Protocol):
    """Receives render stages and counters while they are read."""

    def observe_stages(self, chunk: Chunk, values: Values, ts: Int64, is_kernel: Int64) -> None:
        """Receives render stages: their arguments, their times, and which of them are kernels."""

    def observe_counter(self, name: str, ts: Int64) -> None:
        """Receives the times at which a counter has values."""


@dataclass
class Context:
    """One reading."""

    conversion: Conversion
    sidecar: Sidecar | None
    tracks: Tracks
    clocks: _Clocks = field(default_factory=_Clocks)
    trace_texts: TextPool = field(default_factory=TextPool)
    argument_names: TextPool = field(default_factory=TextPool)
    sequences: dict[int, SequenceState] = field(default_factory=dict)
    observer: StageObserver | None = None  # collects what GPU tabs of viewers need
    #: Metrics whose kernels aren't known yet, and their machines.
    kernel_metrics: list[tuple[Batch, Int64]] = field(default_factory=list)
    known_flows: set[int] = field(default_factory=set)
    open_states: set[int] = field(default_factory=set)  # places with an open state
    decided_places: set[int] = field(default_factory=set)  # places that are known to be a device's, or not
    device_tracks: set[tuple[tuple[str, Any], ...]] = field(default_factory=set)  # columns of tracks of slices
    #: (row id, correlation, process or -1) of rows that have a correlation.
    correlated: list[tuple[Int64, Int64, Int64]] = field(default_factory=list)
    #: (event_id of a stage, row id, role) of rows that start or await it.
    stage_ends: list[tuple[Int64, Int64, str]] = field(default_factory=list)
    facts: dict[tuple[str, Any], dict[str, Any]] = field(default_factory=dict)  # (entity, key) -> facts
    devices: dict[tuple[str | None, int], dict[str, Any]] = field(default_factory=dict)  # (host, device) -> name, facts
    metrics: dict[str, dict[str, Any]] = field(default_factory=dict)  # name of a counter of a GPU -> facts
    unread: Counter[str] = field(default_factory=Counter)  # kind of packet that isn't read -> count
    first_unread: int = -1  # the place of the first of them
    stage_rows: list[tuple[Int64, Int64]] = field(default_factory=list)  # (event_id, row id) of render stages

    @property
    def by_ktrace(self) -> bool:
        """Whether ktrace wrote the trace, so that some arguments become columns again."""
        return self.sidecar is not None

    @property
    def origin(self) -> int:
        """The offset that is added to all times."""
        return self.sidecar.origin_ns if self.sidecar else 0

    def where(self, id_: int) -> str:
        """The name of a packet in the report."""
        return f"byte {id_}"

    def links(self, kind: str, id_: Int64, key: Int64, role: Int64, event: Int64) -> Iterator[Batch]:
        """Yields a batch of links. `role` indexes out, step, in; `key` has numbers, shown unsigned."""
        if not len(id_):
            return
        columns = {
            "source": constant(self.source(), len(id_)),
            "id": pa.array(id_),
            "link": constant(kind, len(id_)),
            "key": pa.array(key.view(np.uint64)).cast(pa.string()),
            "role": words(["out", "step", "in"], role),
            "event": pa.array(event),
        }
        yield Batch("links", pa.RecordBatch.from_pydict(columns))

    def correlations(self, batch: Batch) -> None:
        """Remembers the correlations of events, which say the same as the arrows of a launch."""
        if batch.has("correlation"):
            found = batch.column("correlation")
            rows = batch.columns.filter(found.is_valid())
            pid = rows.column("pid").fill_null(-1) if batch.has("pid") else pa.array(np.full(len(rows), -1))
            self.correlated.append(tuple(column.to_numpy() for column in (rows["id"], rows["correlation"], pid)))

    def source(self) -> str:
        """The source of rows whose place has none."""
        if self.by_ktrace:
            for place in self.tracks.places:
                if "source" in place.columns:
                    return str(place.columns["source"])
        return self.conversion.label
