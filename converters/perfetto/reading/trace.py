"""From packets to rows: some thousand packets at a time, first their states, then their events as columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ktrace.input.limits import current, exceeded, sized
from ktrace.kit.columnar.protobuf import LENGTH, VARINT, Column, Fields, parse, signed
from ktrace.model.arrays import Bools, Int64, UInt8
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder
from ktrace.store.joins import ranges

from .. import field_numbers as f
from ..sidecar import DERIVED_SEQUENCES
from .arguments import Chunk
from .context import Context, Events, PacketTimes
from .gpu_packets import GpuPackets, Specifications, read_stages
from .messages import (
    COUNTER,
    EVENT,
    STAGE,
    Alternatives,
    Data,
    SequenceState,
    inflated,
    joined_bytes,
    packets,
    test_event_text,
)
from .track_events import read_foreign_events, read_ktrace_events

_P = f.TRACE_PACKET
_NAMES = {number: name for name, number in _P.items()}
_COMPRESSED = ("compressed_packets", "zstd_compressed_packets")
_ROW = _P["ktrace_row"]
_CLEARED, _NEEDED = (
    f.SEQUENCE_FLAGS[name] for name in ("SEQ_INCREMENTAL_STATE_CLEARED", "SEQ_NEEDS_INCREMENTAL_STATE")
)

#: Bytes of packets that are read at once, unless one is larger.
_MOST_AT_ONCE = 1 << 24

#: Fields that describe the packet itself.
_OF_THE_PACKET = {
    _P[name]
    for name in (
        *("timestamp", "timestamp_clock_id", "trusted_uid", "trusted_packet_sequence_id", "trusted_pid"),
        *("sequence_flags", "incremental_state_cleared", "previous_packet_dropped", "first_packet_on_sequence"),
        *("machine_id", "ktrace_row"),
    )
}

#: Packets about the recording, not about what was recorded.
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
RareFields = dict[str, tuple[bytes, int]]


class _Packets(NamedTuple):
    """Some uncompressed packets: their fields, and a column for what decides the meaning of others.

    `start` is where each begins in the chunk's data, `start + base` its id. `state` is the index of a state of the
    chunk, `ts` ns by the clock that the packet names. `bad` packets aren't protobuf, `derived` ones are left out.
    """

    chunk: Chunk
    found: Fields
    base: int
    start: Int64
    sequence: Int64
    state: Int64
    machine: Int64
    ts: Int64
    bad: Bools
    derived: Bools


class TraceReader:
    """Reads the packets of a trace and those that are compressed in it."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._report = context.conversion.report
        self._specifications = Specifications()
        self._rows = RowBuilder(context.conversion)
        self._gpus = GpuPackets(context, self._rows)
        self._links: list[Batch] = []  # new links of the sidecar
        self._own_clock: set[int] = set()  # sequences that may have a default clock
        self._limits = current()
        self._stored = self._inflated_bytes = self._depth = 0  # of the file, of compressed packets, of their nesting
        self._next_virtual = 0  # place of the next inflated packets: as if they followed the file
        self._open: tuple[UInt8, Events, list[SequenceState]] | None = None

    def read(self, data: Data, base: int = 0) -> Iterator[Batch]:
        """Yields the rows of the packets in `data`; `base` is added to a place in it to make an id."""
        if not base:
            self._next_virtual = self._stored = len(data)
        for start, end in packets(data, self._report, base):
            yield from self._packets(data, base, start, end)

    def rest(self) -> Iterator[Batch]:
        """Yields the slices that never ended, at the end of a trace that ktrace wrote."""
        if self._open is not None:
            before, events, states = self._open
            self._open = None
            data = np.concatenate([before, np.zeros(1024, np.uint8)])
            chunk = self._new_chunk(data, states)
            yield from self._ktrace_events(chunk, events, last=True)

    def _new_chunk(self, data: UInt8, states: list[SequenceState]) -> Chunk:
        context, expanded = self.context, self.context.conversion.expanded
        names, texts = context.argument_names, context.trace_texts
        return Chunk(data, states, texts, names, expanded, by_ktrace=context.by_ktrace)

    def _packets(self, data: Data, base: int, start: Int64, end: Int64) -> Iterator[Batch]:
        """Yields the rows of some packets; packets compressed in them take their place."""
        before, opened, states = self._open or (np.empty(0, np.uint8), None, [])
        first, last = int(start[0]), int(end[-1])
        if last - first > _MOST_AT_ONCE + self._limits.value:
            what = f"a packet has more than {sized(self._limits.value)}"
            raise exceeded("value", what, where=self.context.where(base + int(start[-1])))
        chunk = self._new_chunk(joined_bytes(before, data, first, last), list(states))
        shift = len(before) - first
        fields = parse(chunk.data, start + shift, end + shift)
        compressed = [fields.get(_P[name], LENGTH) for name in _COMPRESSED]
        if not any(len(column.owner) for column in compressed):
            yield from self._chunk(chunk, fields, start + shift, base - shift, opened)
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
        """Yields the rows of compressed packets."""
        parts = parse(
            np.frombuffer(packet + bytes(64), np.uint8), np.zeros(1, np.int64), np.array([len(packet)], np.int64)
        )
        self._report.used(outcome="compressed packets")
        for name in _COMPRESSED:
            column = parts.get(_P[name], LENGTH)
            for start, size in zip(column.start.tolist(), column.value.tolist(), strict=True):
                try:
                    inner = inflated(name, packet[start : start + size], self._limits.value)
                except ValueError as error:
                    self._report.record()
                    self._report.issue("bad-record", self.context.where(id_), f"can't be decompressed: {error}")
                    continue
                self._check_inflated(len(inner), self.context.where(id_))
                base, self._next_virtual = self._next_virtual, self._next_virtual + len(inner)
                self._depth += 1
                yield from self.read(inner, base)
                self._depth -= 1

    def _check_inflated(self, size: int, where: str) -> None:
        """Raises DamagedInput for packets that are too large, too many, or too deep in one another."""
        if size > self._limits.value:
            raise exceeded("value", f"compressed packets give more than {sized(size - 1)}", where=where)
        if self._depth >= self._limits.depth:
            raise exceeded("depth", f"compressed packets are nested {self._depth + 1:,} deep", where=where)
        self._inflated_bytes += size
        self._limits.check_inflated(self._inflated_bytes, self._stored, None)

    def _chunk(self, chunk: Chunk, fields: Fields, start: Int64, base: int, opened: Events | None) -> Iterator[Batch]:
        """Yields the rows of uncompressed packets. `start` and `base` refer to the chunk's data."""
        count = fields.count
        sequence = signed(fields.get(_P["trusted_packet_sequence_id"], VARINT).last(count))
        flags = signed(fields.get(_P["sequence_flags"], VARINT).last(count))
        flags |= signed(fields.get(_P["incremental_state_cleared"], VARINT).last(count)) & _CLEARED
        bad = np.isin(np.arange(count), fields.bad)
        derived = (sequence >= DERIVED_SEQUENCES) & self.context.by_ktrace & ~bad
        machine = signed(fields.get(_P["machine_id"], VARINT).last(count))
        state = self._states(chunk, fields, sequence, (flags & _CLEARED) > 0, machine)
        ts = signed(fields.get(_P["timestamp"], VARINT).last(count)).copy()
        these = _Packets(chunk, fields, base, start, sequence, state, machine, ts, bad, derived)
        clock = self._walk(these)
        valid = np.array([one.valid for one in chunk.states], np.bool_)[state] if chunk.states else bad
        taken = self._account(these, (flags & _NEEDED > 0) & ~(valid | bad | derived))
        yield from self._rows.rest()
        yield from self._links
        self._links = []
        data = Alternatives(fields)
        if len(data.several):
            where = self.context.where(int(start[data.several[0]]) + base)
            self._report.issue("duplicate-key", where, "the data of a packet", len(data.several))
        columns = fields.get(COUNTER, LENGTH)
        selected = data.kept(columns, taken)
        if selected.any():
            yield from self._gpus.values(chunk, _events(these, columns, selected, clock), base)
        ids = fields.get(_ROW, VARINT)
        rows = (signed(ids.last(count)), ids.has(count)) if self.context.by_ktrace else None
        columns = fields.get(STAGE, LENGTH)
        selected = data.kept(columns, taken)
        if selected.any():
            stages = _events(these, columns, selected, clock, rows)
            yield from read_stages(self.context, chunk, stages, self._specifications)
        columns = fields.get(EVENT, LENGTH)
        events = _events(these, columns, data.kept(columns, taken), clock, rows)
        if not self.context.by_ktrace:
            if len(events):
                yield from read_foreign_events(self.context, chunk, events)
            return
        if opened is not None:
            events = _appended(opened, events)
        if len(events):
            yield from self._ktrace_events(chunk, events, last=False)

    def _ktrace_events(self, chunk: Chunk, events: Events, *, last: bool) -> Iterator[Batch]:
        """Yields the rows of a trace that ktrace wrote; keeps slices that are still open with their bytes."""
        for part in read_ktrace_events(self.context, chunk, events, last=last):
            if isinstance(part, Batch):
                yield part
            elif len(part):
                self._open = _copied(chunk, part)
            else:
                self._open = None

    def _states(self, chunk: Chunk, fields: Fields, sequence: Int64, cleared: Bools, machine: Int64) -> Int64:
        """Returns the index of each packet's state: a new state begins where it is cleared or its defaults change.

        All packets of a sequence are of one machine.
        """
        count = fields.count
        change = cleared | fields.get(_P["trace_packet_defaults"], LENGTH).has(count)
        of = np.empty(count, np.int64)
        order = np.argsort(sequence, kind="stable")
        cuts = np.flatnonzero(np.diff(sequence[order])) + 1
        for rows in np.split(order, cuts) if count else ():
            number = int(sequence[rows[0]])
            current = self.context.sequences.setdefault(number, SequenceState(machine=int(machine[rows[0]])))
            places = [len(chunk.states)]
            chunk.states.append(current)
            for row in rows[change[rows]].tolist():
                new = SequenceState(valid=True, machine=int(machine[row]))
                current = new if cleared[row] else current.with_defaults_of(current)
                places.append(len(chunk.states))
                chunk.states.append(current)
            self.context.sequences[number] = current
            of[rows] = np.array(places)[np.cumsum(change[rows])]
        return of

    def _walk(self, packets: _Packets) -> Int64 | None:
        """Visits, in their order, the packets that change the meaning of others or are rare.

        Fills in the times of packets with a clock of their own, and reports rare fields that can't be read.
        Returns the codes of the clocks' names for times that can't be converted to the main clock; None if all can.
        """
        chunk, packet_fields, base, start, sequence, state, machine, ts, bad, derived = packets
        times = PacketTimes(self.context.clocks, chunk, packet_fields, sequence, state, ts, self._own_clock)
        skipped = bad | derived
        for row, fields in _rare(chunk, packet_fields):
            if skipped[row]:
                continue
            try:
                if "clock_snapshot" in fields:
                    times.until(row)
                self._change(fields, chunk.states[int(state[row])], int(sequence[row]), int(machine[row]))
                if fields.keys() & _TIMED:
                    times.until(row + 1)
                    clock = None if times.names is None else int(times.names[row])
                    name = None if clock is None or clock < 0 else chunk.chunk_texts.texts[clock]
                    self._read_rare(fields, base, int(ts[row]), name, int(machine[row]))
                elif "gpu_info" in fields:
                    self._gpus.info(fields["gpu_info"][0], int(machine[row]))
                elif "for_testing" in fields and self.context.sidecar is not None:
                    links = self.context.sidecar.add(test_event_text(fields["for_testing"][0]))
                    self._links += [] if links is None else [links]
            except ValueError as error:
                skipped[row] = True
                self._report.issue("bad-record", self.context.where(int(start[row]) + base), str(error), 0)
        times.until(packet_fields.count)
        return times.names

    def _change(self, fields: RareFields, state: SequenceState, sequence: int, machine: int) -> None:
        """Applies what a packet changes for itself and later ones."""
        context = self.context
        if "clock_snapshot" in fields:
            context.clocks.snapshot(fields["clock_snapshot"][0], sequence)
        if "trace_packet_defaults" in fields:
            state.defaults(fields["trace_packet_defaults"][0])
        if "interned_data" in fields:
            state.intern(fields["interned_data"][0], context.trace_texts, context.argument_names)
        if "track_descriptor" in fields:
            context.tracks.describe(fields["track_descriptor"][0], machine)
        if "process_tree" in fields:
            context.tracks.processes(machine).tree(fields["process_tree"][0])
        if "process_descriptor" in fields:
            context.tracks.processes(machine).process(fields["process_descriptor"][0])
        if "thread_descriptor" in fields:
            context.tracks.processes(machine).thread(fields["thread_descriptor"][0])

    def _read_rare(self, fields: RareFields, base: int, ts: int, clock: str | None, machine: int) -> None:
        """Reads a rare packet that has its own rows."""
        for name, (data, at) in fields.items():
            if name == "gpu_counter_event":
                self._gpus.describe(data)
            elif name == "gpu_mem_total_event":
                self._gpus.memory(data, base + at, ts, clock, machine)
            elif name == "gpu_log":
                self._gpus.log(data, base + at, ts, clock, machine)

    def _account(self, packets: _Packets, lost: Bools) -> Bools:
        """Counts what became of each packet without events, and returns a mask of those with events."""
        _, fields, base, start, _, _, _, _, bad, derived = packets
        count, report = fields.count, self._report
        if n := int(derived.sum()):
            report.used(n, outcome="derived for viewers")
        left = ~derived
        for rows, why in ((bad, "not protobuf"), (lost, "needs a state of its sequence that never began")):
            for row in np.flatnonzero(rows & left).tolist():
                report.issue("bad-record", self.context.where(int(start[row]) + base), why)
            left &= ~rows
        rows = np.zeros(count, np.bool_)
        for number in (EVENT, STAGE, COUNTER):
            rows[fields.get(number, LENGTH).owner] = True
        taken = rows & left
        left &= ~rows
        for name in ("gpu_mem_total_event", "gpu_log"):
            selected = fields.get(_P[name], LENGTH).has(count) & left
            report.used(int(selected.sum()))
            left &= ~selected
        for tag in fields.tags:
            number = tag >> 3
            if number in _OF_THE_PACKET or not left.any():
                continue
            selected = fields.get(number, tag & 7).has(count) & left
            if selected.any():
                first = base + int(start[selected.argmax()])
                self._count_without_rows(_NAMES.get(number, f"field {number}"), int(selected.sum()), first)
                left &= ~selected
        if left.any():
            report.used(int(left.sum()), outcome="structure")
        return taken

    def _count_without_rows(self, name: str, count: int, id_: int) -> None:
        """Counts packets of a kind without rows: read, about the recording, or unread."""
        if name in _READ:
            self._report.used(count, outcome=name)
        elif name in _OF_THE_RECORDING:
            self._report.used(count, outcome="about the recording")
        else:
            if not self.context.unread:
                self.context.first_unread = id_
            self.context.unread[name] += count


def _events(
    packets: _Packets, column: Column, selected: Bools, clock: Int64 | None, rows: tuple[Int64, Bools] | None = None
) -> Events:
    """The messages of some packets. `rows` has the ids that ktrace gave their rows, and which packets have one."""
    owner, start = column.owner[selected], column.start[selected]
    order = np.argsort(owner, kind="stable")
    owner, start, size = owner[order], start[order], signed(column.value)[selected][order]
    clocks = None if clock is None else clock[owner]
    id_ = start + packets.base
    row = id_ if rows is None else np.where(rows[1][owner], rows[0][owner], id_)
    return Events(id_, row, packets.ts[owner], packets.state[owner], start, start + size, clocks)


def _rare(chunk: Chunk, fields: Fields) -> Iterator[tuple[int, RareFields]]:
    """Yields the packets with a field of `_READ`, and these fields; of counter packets only those with a descriptor."""
    parts = {name: _places(fields.get(_P[name], LENGTH)) for name in _READ}
    counters = fields.get(COUNTER, LENGTH)
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
    """Returns packet -> begin and size of the field's bytes; a repeated message has several."""
    places: dict[int, list[tuple[int, int]]] = {}
    for owner, start, size in zip(column.owner.tolist(), column.start.tolist(), column.value.tolist(), strict=True):
        places.setdefault(owner, []).append((start, size))
    return places


def _appended(opened: Events, events: Events) -> Events:
    """The open events, then the new ones; their bytes are in the same order."""
    id_, row, ts, state, start, end = (
        np.concatenate([getattr(opened, name), getattr(events, name)])
        for name in ("id", "row", "ts", "state", "start", "end")
    )
    clock = None
    if opened.clock is not None or events.clock is not None:
        both = (np.full(len(part), -1) if part.clock is None else part.clock for part in (opened, events))
        clock = np.concatenate([*both])
    return Events(id_, row, ts, state, start, end, clock)


def _copied(chunk: Chunk, events: Events) -> tuple[UInt8, Events, list[SequenceState]]:
    """Returns the bytes of those events, the events with their places in these bytes, and their states."""
    size = events.end - events.start
    data, end = chunk.data[ranges(events.start, size)], np.cumsum(size)
    used, state = np.unique(events.state, return_inverse=True)
    states = [chunk.states[number] for number in used.tolist()]
    return data, Events(events.id, events.row, events.ts, state, end - size, end), states
