"""From packets to rows: some thousand packets at a time, their states first, then their events as columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ktrace.converters._shared.columnar.protobuf import LENGTH, VARINT, Bytes, Column, Fields, Int64, parse, signed
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from ..proto import field_numbers as f
from .args import Chunk
from .clocks import Times
from .context import Context, Events
from .gpu_packets import GpuPackets
from .interned_stages import Specifications
from .packets import Data, inflated, packets, said, together
from .render_stages import read_stages
from .state import State
from .track_events import read_events, read_own

_P = f.TRACE_PACKET
_NAMES = {number: name for name, number in _P.items()}
_COMPRESSED = ("compressed_packets", "zstd_compressed_packets")
_EVENT, _STAGE, _COUNTER = _P["track_event"], _P["gpu_render_stage_event"], _P["gpu_counter_event"]
_CLEARED, _NEEDED = (
    f.SEQUENCE_FLAGS[name] for name in ("SEQ_INCREMENTAL_STATE_CLEARED", "SEQ_NEEDS_INCREMENTAL_STATE")
)

#: Fields of a packet that are about the packet itself.
_OF_THE_PACKET = {
    _P[name]
    for name in (
        *("timestamp", "timestamp_clock_id", "trusted_uid", "trusted_packet_sequence_id", "trusted_pid"),
        *("sequence_flags", "incremental_state_cleared", "previous_packet_dropped", "first_packet_on_sequence"),
        "machine_id",
    )
}

#: Packets about the recording, which say nothing of what was recorded.
_OF_THE_RECORDING = {
    *("trace_config", "trace_stats", "trace_uuid", "service_event", "synchronization_marker", "system_info"),
    *("extension_descriptor", "trigger", "clone_snapshot_trigger", "ui_state", "chrome_trigger", "trace_provenance"),
}

#: Fields that change what later packets mean, and those that are read here.
_CHANGING = ("interned_data", "trace_packet_defaults", "clock_snapshot", "track_descriptor", "process_tree")
_READ = (
    *(*_CHANGING, "process_descriptor", "thread_descriptor", "gpu_counter_event", "gpu_mem_total_event", "gpu_log"),
    *("gpu_info", "for_testing"),
)

_TIMED = {"gpu_counter_event", "gpu_mem_total_event", "gpu_log"}

#: Name of a packet's field -> its bytes, and where they begin.
Here = dict[str, tuple[bytes, int]]

_NO_BYTES = np.empty(0, np.uint8)


class TraceReader:
    """Reads the packets of one trace and of those that are compressed in it."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._report = context.conversion.report
        self._old = Specifications()
        self._rows = RowBuilder(context.conversion)
        self._gpus = GpuPackets(context, self._rows)
        self._links: list[Batch] = []  # that the sidecar has just said
        self._own_clock: set[int] = set()  # sequences that may have a default clock
        self._beyond = 0  # where packets that were compressed stand, as it were: behind the file
        self._open: tuple[Bytes, Events, list[State]] | None = None

    def read(self, data: Data, base: int = 0) -> Iterator[Batch]:
        """The rows of the packets in `data`; `base` is what is added to a place in it to make an id."""
        if not base:
            self._beyond = len(data)
        for start, end in packets(data, self._report, base):
            yield from self._packets(data, base, start, end)

    def rest(self) -> Iterator[Batch]:
        """The slices that never ended, at the end of a trace of ktrace."""
        if self._open is not None:
            before, events, states = self._open
            self._open = None
            data = np.concatenate([before, np.zeros(1024, np.uint8)])
            chunk = self._new_chunk(data, states)
            yield from self._own(chunk, events, last=True)

    def _new_chunk(self, data: Bytes, states: list[State]) -> Chunk:
        return Chunk(data, states, self.context.pool, self.context.keys, by_ktrace=self.context.own)

    def _packets(self, data: Data, base: int, start: Int64, end: Int64) -> Iterator[Batch]:
        """The rows of some packets, those that they hold compressed in their place."""
        before, opened, states = self._open or (_NO_BYTES, None, [])
        first, last = int(start[0]), int(end[-1])
        chunk = self._new_chunk(together(before, data, first, last), list(states))
        shift = len(before) - first
        found = parse(chunk.data, start + shift, end + shift)
        compressed = [found.get(_P[name], LENGTH) for name in _COMPRESSED]
        if not any(len(column.owner) for column in compressed):
            yield from self._chunk(chunk, found, start + shift, base - shift, opened)
            return
        at = 0
        for row in np.unique(np.concatenate([column.owner for column in compressed])).tolist():
            if row > at:
                yield from self._packets(data, base, start[at:row], end[at:row])
            yield from self._inflated(data[int(start[row]) : int(end[row])], base + int(start[row]))
            at = row + 1
        if at < len(start):
            yield from self._packets(data, base, start[at:], end[at:])

    def _inflated(self, packet: bytes, id_: int) -> Iterator[Batch]:
        """The rows of compressed packets."""
        parts = parse(
            np.frombuffer(packet + bytes(64), np.uint8), np.zeros(1, np.int64), np.array([len(packet)], np.int64)
        )
        self._report.used(outcome="compressed packets")
        for name in _COMPRESSED:
            column = parts.get(_P[name], LENGTH)
            for start, size in zip(column.start.tolist(), column.value.tolist(), strict=True):
                try:
                    inner = inflated(name, packet[start : start + size])
                except ValueError as error:
                    self._report.record()
                    self._report.issue("bad-record", self.context.where(id_), f"can't be inflated: {error}")
                    continue
                base, self._beyond = self._beyond, self._beyond + len(inner)
                yield from self.read(inner, base)

    def _chunk(self, chunk: Chunk, found: Fields, start: Int64, base: int, opened: Events | None) -> Iterator[Batch]:
        """The rows of packets without compressed ones. `start` and `base` are those of the chunk's data."""
        count = found.count
        sequence = signed(found.get(_P["trusted_packet_sequence_id"], VARINT).last(count))
        flags = signed(found.get(_P["sequence_flags"], VARINT).last(count))
        flags |= signed(found.get(_P["incremental_state_cleared"], VARINT).last(count)) & _CLEARED
        bad = np.zeros(count, np.bool_)
        bad[found.bad] = True
        machine = signed(found.get(_P["machine_id"], VARINT).last(count))
        state = self._states(chunk, found, sequence, (flags & _CLEARED) > 0, machine)
        ts = signed(found.get(_P["timestamp"], VARINT).last(count)).copy()
        clock = self._walk(chunk, found, start, base, sequence, state, machine, ts, bad)
        valid = np.array([one.valid for one in chunk.states], np.bool_)[state] if chunk.states else bad
        lost = (flags & _NEEDED > 0) & ~valid & ~bad
        taken = self._accounts(found, bad, lost, base, start)
        yield from self._rows.rest()
        yield from self._links
        self._links.clear()
        columns = found.get(_COUNTER, LENGTH)
        mine = taken[columns.owner]
        if mine.any():
            yield from self._gpus.values(chunk, self._events(columns, mine, base, ts, state, clock), base)
        columns = found.get(_STAGE, LENGTH)
        mine = taken[columns.owner]
        if mine.any():
            yield from read_stages(self.context, chunk, self._events(columns, mine, base, ts, state, clock), self._old)
        columns = found.get(_EVENT, LENGTH)
        mine = taken[columns.owner]
        events = self._events(columns, mine, base, ts, state, clock)
        if not self.context.own:
            if len(events):
                yield from read_events(self.context, chunk, events)
            return
        if opened is not None:
            events = _behind(opened, events)
        if len(events):
            yield from self._own(chunk, events, last=False)

    def _own(self, chunk: Chunk, events: Events, *, last: bool) -> Iterator[Batch]:
        """The rows of a trace of ktrace; slices that are still open are kept with their bytes."""
        for part in read_own(self.context, chunk, events, last=last):
            if isinstance(part, Batch):
                yield part
            elif len(part):
                self._open = _kept(chunk, part)
            else:
                self._open = None

    def _events(self, column: Any, mine: Any, base: int, ts: Int64, state: Int64, clock: Int64 | None) -> Events:
        owner, start = column.owner[mine], column.start[mine]
        order = np.argsort(owner, kind="stable")
        owner, start, size = owner[order], start[order], signed(column.value)[mine][order]
        clocks = None if clock is None else clock[owner]
        return Events(start + base, ts[owner], state[owner], start, start + size, clocks)

    def _states(self, chunk: Chunk, found: Fields, sequence: Int64, cleared: Any, machine: Int64) -> Int64:
        """The state of each packet: a new one where it is cleared or its defaults change. One sequence, one machine."""
        count = found.count
        change = cleared | found.get(_P["trace_packet_defaults"], LENGTH).has(count)
        of = np.empty(count, np.int64)
        order = np.argsort(sequence, kind="stable")
        cuts = np.flatnonzero(np.diff(sequence[order])) + 1
        for rows in np.split(order, cuts) if count else ():
            number = int(sequence[rows[0]])
            current = self.context.sequences.setdefault(number, State(machine=int(machine[rows[0]])))
            places = [len(chunk.states)]
            chunk.states.append(current)
            for row in rows[change[rows]].tolist():
                current = (
                    State(valid=True, machine=int(machine[row])) if cleared[row] else current.with_defaults_of(current)
                )
                places.append(len(chunk.states))
                chunk.states.append(current)
            self.context.sequences[number] = current
            of[rows] = np.array(places)[np.cumsum(change[rows])]
        return of

    def _walk(
        self,
        chunk: Chunk,
        found: Fields,
        start: Int64,
        base: int,
        sequence: Int64,
        state: Int64,
        machine: Int64,
        ts: Int64,
        bad: npt.NDArray[np.bool_],
    ) -> Int64 | None:
        """Goes through the packets, in their order, that change what others mean or are of a rare kind.

        Fills in the times of those with a clock of their own, and returns the codes of the clocks' names where a time
        can't be told by the main clock; None where there is no such.
        """
        times = Times(self.context.clocks, chunk, found, sequence, state, ts, self._own_clock)
        for row, here in _rare(chunk, found):
            if bad[row]:
                continue
            try:
                if "clock_snapshot" in here:
                    times.until(row)
                self._change(here, chunk.states[int(state[row])], int(sequence[row]), int(machine[row]))
                if here.keys() & _TIMED:
                    times.until(row + 1)
                    clock = None if times.names is None else int(times.names[row])
                    name = None if clock is None or clock < 0 else chunk.own.texts[clock]
                    self._take(here, base, int(ts[row]), name, int(machine[row]))
                elif "gpu_info" in here:
                    self._gpus.info(here["gpu_info"][0], int(machine[row]))
                elif "for_testing" in here and self.context.sidecar is not None:
                    links = self.context.sidecar.take(said(here["for_testing"][0]) or "")
                    self._links += [] if links is None else [links]
            except ValueError as error:
                bad[row] = True
                self._report.issue("bad-record", self.context.where(int(start[row]) + base), str(error), 0)
        times.until(found.count)
        return times.names

    def _change(self, here: Here, state: State, sequence: int, machine: int) -> None:
        """Takes what a packet changes for itself and those behind it."""
        context = self.context
        if "clock_snapshot" in here:
            context.clocks.snapshot(here["clock_snapshot"][0], sequence)
        if "trace_packet_defaults" in here:
            state.defaults(here["trace_packet_defaults"][0])
        if "interned_data" in here:
            state.intern(here["interned_data"][0], context.pool, context.keys)
        if "track_descriptor" in here:
            context.tracks.describe(here["track_descriptor"][0], machine)
        if "process_tree" in here:
            context.tracks.processes(machine).tree(here["process_tree"][0])
        if "process_descriptor" in here:
            context.tracks.processes(machine).process(here["process_descriptor"][0])
        if "thread_descriptor" in here:
            context.tracks.processes(machine).thread(here["thread_descriptor"][0])

    def _take(self, here: Here, base: int, ts: int, clock: str | None, machine: int) -> None:
        """Takes a packet of a rare kind that has rows of its own."""
        for name, (data, at) in here.items():
            if name == "gpu_counter_event":
                self._gpus.describe(data)
            elif name == "gpu_mem_total_event":
                self._gpus.memory(data, base + at, ts, clock, machine)
            elif name == "gpu_log":
                self._gpus.log(data, base + at, ts, clock, machine)

    def _accounts(self, found: Fields, bad: Any, lost: Any, base: int, start: Int64) -> Any:
        """Says what became of each packet, but for those with rows, and returns a mask of these."""
        count, report = found.count, self._report
        left = np.ones(count, np.bool_)
        for rows, why in ((bad, "no protobuf"), (lost, "needs a state of its sequence that never began")):
            for row in np.flatnonzero(rows & left).tolist():
                report.issue("bad-record", self.context.where(int(start[row]) + base), why)
            left &= ~rows
        rows = np.zeros(count, np.bool_)
        for number in (_EVENT, _STAGE, _COUNTER):
            rows[found.get(number, LENGTH).owner] = True
        taken = rows & left
        left &= ~rows
        for name in ("gpu_mem_total_event", "gpu_log"):
            mine = found.get(_P[name], LENGTH).has(count) & left
            report.used(int(mine.sum()))
            left &= ~mine
        for tag in found.tags:
            number = tag >> 3
            if number in _OF_THE_PACKET or not left.any():
                continue
            mine = found.get(number, tag & 7).has(count) & left
            if mine.any():
                first = base + int(start[mine.argmax()])
                self._is_of_no_row(_NAMES.get(number, f"field {number}"), int(mine.sum()), first)
                left &= ~mine
        if left.any():
            report.used(int(left.sum()), outcome="structure")
        return taken

    def _is_of_no_row(self, name: str, count: int, id_: int) -> None:
        """Counts packets of a kind that gives no row: read, about the recording, or unread."""
        if name in _READ:
            self._report.used(count, outcome=name)
        elif name in _OF_THE_RECORDING:
            self._report.used(count, outcome="about the recording")
        else:
            if not self.context.unread:
                self.context.first_unread = id_
            self.context.unread[name] += count


def _rare(chunk: Chunk, found: Fields) -> Iterator[tuple[int, Here]]:
    """The packets, in their order, with a field of `_READ`, and these fields; of counters those with a descriptor."""
    parts = {name: _places(found.get(_P[name], LENGTH)) for name in _READ}
    counters = found.get(_COUNTER, LENGTH)
    described = parse(chunk.data, counters.start, counters.start + signed(counters.value))
    with_descriptor = described.get(f.GPU_COUNTER_EVENT["counter_descriptor"], LENGTH).owner
    keep = set(counters.owner[with_descriptor].tolist())
    parts["gpu_counter_event"] = {row: at for row, at in parts["gpu_counter_event"].items() if row in keep}
    for row in sorted(set().union(*parts.values())):
        yield (
            row,
            {
                name: (b"".join(chunk.data[at : at + size].tobytes() for at, size in places[row]), places[row][0][0])
                for name, places in parts.items()
                if row in places
            },
        )


def _places(column: Column) -> dict[int, list[tuple[int, int]]]:
    """Packet -> where the field's bytes begin, and how many they are; of a message that is repeated each part of it."""
    places: dict[int, list[tuple[int, int]]] = {}
    for owner, start, size in zip(column.owner.tolist(), column.start.tolist(), column.value.tolist(), strict=True):
        places.setdefault(owner, []).append((start, size))
    return places


def _behind(opened: Events, events: Events) -> Events:
    """The events behind those that are still open, whose bytes stand before theirs."""
    id_, ts, state, start, end = (
        np.concatenate([getattr(opened, name), getattr(events, name)]) for name in ("id", "ts", "state", "start", "end")
    )
    clock = None
    if opened.clock is not None or events.clock is not None:
        both = (np.full(len(part), -1) if part.clock is None else part.clock for part in (opened, events))
        clock = np.concatenate([*both])
    return Events(id_, ts, state, start, end, clock)


def _kept(chunk: Chunk, events: Events) -> tuple[Bytes, Events, list[State]]:
    """The bytes of those events, the events with their places among these, and their states."""
    size = events.end - events.start
    end = np.cumsum(size)
    data = chunk.data[np.repeat(events.start - (end - size), size) + np.arange(int(end[-1]))]
    used, state = np.unique(events.state, return_inverse=True)
    states = [chunk.states[number] for number in used.tolist()]
    return data, Events(events.id, events.ts, state, end - size, end), states
