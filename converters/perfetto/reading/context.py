"""What one reading knows: the report, texts, tracks, the state of each sequence, and the clocks.

    track_descriptor { uuid 2  process { pid 4242  process_name "python3" } }
    track_descriptor { uuid 3  parent_uuid 2  thread { pid 4242 tid 4243 thread_name "worker" } }
    track_descriptor { uuid 9  parent_uuid 3  name "queue" }                 pid 4242, tid 4243, track "9"
    track_descriptor { uuid 10 parent_uuid 2  counter { unit_name "W" } }    pid 4242, track "10"

The sidecar of a trace that ktrace wrote maps uuids to their track columns.

    packet { clock_snapshot { clocks { BOOTTIME 1000 } clocks { REALTIME 1700000000000001000 }
                              clocks { 64  900  is_incremental } } }

A snapshot relates clocks; times of packets are converted to the main clock. Clock ids below 64 belong to the machine,
64 to 127 to the sequence, higher ones to the trace.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.kit.columnar.dictionaries import constant, words
from ktrace.kit.columnar.protobuf import LENGTH, VARINT, Fields, distinct_of, fields_of, signed
from ktrace.model.arrays import Int64, UInt64
from ktrace.model.batch import TRACK_COLUMNS, Batch

from .. import field_numbers as f
from ..sidecar import Sidecar
from .arguments import Chunk, Values
from .messages import SequenceState, TextPool, as_bytes, first, gather, int32, int64, text

_UNITS = {"UNIT_TIME_NS": "ns", "UNIT_COUNT": "count", "UNIT_SIZE_BYTES": "B"}
_UNIT = {number: _UNITS.get(name) for name, number in f.COUNTER_UNIT.items()}
_INT_COLUMNS = ("pid", "tid", "device", "context", "stream")

#: The machine's number is above this many bits of a uuid.
_UUID_BITS = 64


def with_machine(uuid: int, machine: int) -> int:
    """The uuid with its machine before it: uuids are unique per machine only."""
    return machine << _UUID_BITS | uuid


def without_machine(uuid: int) -> int:
    """The uuid without its machine."""
    return uuid & ((1 << _UUID_BITS) - 1)


def host_of(machine: int) -> str | None:
    """A name for the host of a machine that has only a number; None for machine 0, the only one."""
    return f"machine {machine}" if machine else None


@dataclass
class Descriptor:
    """What the descriptors of a track contain."""

    parent: int | None = None
    name: str | None = None
    description: str | None = None
    pid: int | None = None
    tid: int | None = None
    order: int | None = None
    is_process: bool = False
    is_counter: bool = False
    unit: str | None = None
    scale: int = 1
    incremental: bool = False


@dataclass
class TrackPlace:
    """Where rows are: their track columns. A counter has a name and a unit; `uuid` is that of its descriptor."""

    columns: dict[str, Any]
    counter: str | None = None
    unit: str | None = None
    uuid: int | None = None
    scale: int = 1
    incremental: bool = False
    total: float = 0.0  # sum of an incremental counter so far


@dataclass
class Processes:
    """Names of processes and threads, and the process of each thread, from all kinds of packets."""

    names: dict[int, str] = field(default_factory=dict)
    labels: dict[int, list[str]] = field(default_factory=dict)
    parents: dict[int, int] = field(default_factory=dict)
    commands: dict[int, str] = field(default_factory=dict)
    threads: dict[tuple[int | None, int], str] = field(default_factory=dict)

    def process(self, data: bytes) -> int:
        """Reads a ProcessDescriptor and returns its pid."""
        p = f.PROCESS_DESCRIPTOR
        fields = gather(data)
        pid = int32(first(fields, p["pid"], 0))
        command = [text(part) for part in fields.get(p["cmdline"], [])]
        if name := text(first(fields, p["process_name"], b"")) or " ".join(command):
            self.names[pid] = name
        if command:
            self.commands[pid] = " ".join(command)
        if labels := [text(label) for label in fields.get(p["process_labels"], [])]:
            self.labels[pid] = labels
        return pid

    def thread(self, data: bytes) -> tuple[int | None, int]:
        """Reads a ThreadDescriptor and returns pid and tid."""
        t = f.THREAD_DESCRIPTOR
        fields = gather(data)
        pid: int | None = int32(first(fields, t["pid"], 0)) if t["pid"] in fields else None
        tid = int64(first(fields, t["tid"], 0))
        if name := text(first(fields, t["thread_name"], b"")):
            self.threads[pid, tid] = name
        return pid, tid

    def tree(self, data: bytes) -> None:
        """Reads a ProcessTree."""
        for process in gather(data).get(f.PROCESS_TREE["processes"], []):
            fields = gather(as_bytes(process))
            pid = int32(first(fields, f.PROCESS["pid"], 0))
            command = [text(part) for part in fields.get(f.PROCESS["cmdline"], [])]
            if command:
                self.names.setdefault(pid, command[0])
                self.commands[pid] = " ".join(command)
            if f.PROCESS["ppid"] in fields:
                self.parents[pid] = int32(first(fields, f.PROCESS["ppid"], 0))
        for thread in gather(data).get(f.PROCESS_TREE["threads"], []):
            fields = gather(as_bytes(thread))
            of = int32(first(fields, f.THREAD["tgid"], 0)) if f.THREAD["tgid"] in fields else None
            if name := text(first(fields, f.THREAD["name"], b"")):
                self.threads.setdefault((of, int32(first(fields, f.THREAD["tid"], 0))), name)


class Tracks:
    """Maps uuids to places. A place keeps its columns, even if another descriptor follows."""

    def __init__(self, label: str, sidecar: Sidecar | None) -> None:
        self.places: list[TrackPlace] = []
        self._processes: dict[int, Processes] = {}
        self.descriptors: dict[int, Descriptor] = {}
        self._label = label
        self._sidecar = sidecar
        self._of_uuid: dict[int, int] = {}
        self._of_key: dict[Any, int] = {}

    def processes(self, machine: int) -> Processes:
        """The processes of a machine."""
        return self._processes.setdefault(machine, Processes())

    def describe(self, data: bytes, machine: int = 0) -> None:
        """Reads a TrackDescriptor. Raises ValueError if it isn't protobuf."""
        t = f.TRACK_DESCRIPTOR
        fields = gather(data)
        uuid = with_machine(int(first(fields, t["uuid"], 0)), machine)
        processes = self.processes(machine)
        track = self.descriptors.setdefault(uuid, Descriptor())
        if t["parent_uuid"] in fields:
            track.parent = with_machine(int(first(fields, t["parent_uuid"], 0)), machine)
        for name in ("name", "static_name", "atrace_name"):
            track.name = text(first(fields, t[name], b"")) or track.name
        track.description = text(first(fields, t["description"], b"")) or track.description
        if t["sibling_order_rank"] in fields:
            track.order = int32(first(fields, t["sibling_order_rank"], 0))
        if t["process"] in fields:
            track.pid, track.is_process = processes.process(as_bytes(fields[t["process"]][-1])), True
        if t["thread"] in fields:
            track.pid, track.tid = processes.thread(as_bytes(fields[t["thread"]][-1]))
        if t["counter"] in fields:
            self._counter(track, as_bytes(fields[t["counter"]][-1]))

    def _counter(self, track: Descriptor, data: bytes) -> None:
        c = f.COUNTER_DESCRIPTOR
        fields = gather(data)
        track.is_counter = True
        track.unit = text(first(fields, c["unit_name"], b"")) or _UNIT.get(int(first(fields, c["unit"], 0)))
        track.scale = int64(first(fields, c["unit_multiplier"], 0)) or 1
        track.incremental = bool(first(fields, c["is_incremental"], 0))
        if builtin := int(first(fields, c["type"], 0)):
            names = {1: ("thread time", "ns"), 2: ("thread instructions", "count")}
            name, unit = names.get(builtin, (None, None))
            track.name, track.unit = track.name or name, track.unit or unit

    def title(self, uuid: int) -> str:
        """The name of a track, or of the thread that it is; '' if it has none."""
        track = self.descriptors.get(uuid, Descriptor())
        thread = (
            self.processes(uuid >> _UUID_BITS).threads.get((track.pid, track.tid), "") if track.tid is not None else ""
        )
        return track.name or thread

    def at(self, uuids: UInt64, machine: Int64) -> Int64:
        """Returns the indexes of the places of many uuids, each of a machine."""
        numbers = np.empty(len(uuids), np.int64)
        for one in np.unique(machine).tolist():
            rows = machine == one
            distinct, back = distinct_of(uuids[rows])
            numbers[rows] = np.array([self.place_number(uuid, one) for uuid in distinct.tolist()], np.int64)[back]
        return numbers

    def place_number(self, uuid: int, machine: int) -> int:
        """Returns the index of the place of a uuid."""
        key = with_machine(uuid, machine)
        number = self._of_uuid.get(key)
        if number is None:
            number = self._of_uuid[key] = self.add(self._place(key))
        return number

    def keyed(self, key: Any, **columns: Any) -> int:
        """Returns the index of the place with that key; a new place gets these columns."""
        number = self._of_key.get(key)
        if number is None:
            given = {name: value for name, value in columns.items() if value is not None}
            number = self._of_key[key] = self.add(TrackPlace({"source": self._label} | given))
        return number

    def queue(self, iid: int, arguments: Mapping[str, Any]) -> int | None:
        """Returns the index of the place that the sidecar has for a hardware queue, None if it has none.

        A stage without a context has none in its columns either: it shares the queue of a stream that has one. On a
        lane of graphs the arguments alone have context and stream.
        """
        if self._sidecar is None or iid not in self._sidecar.queues:
            return None
        typed = {name: arguments[name] for name in ("context", "stream") if name in arguments}
        columns = _legal(typed | self._sidecar.queues[iid])
        if "context" not in typed:
            columns.pop("context", None)
        return self.keyed(("queue", iid, *typed.items()), **columns)

    def add(self, place: TrackPlace) -> int:
        """Adds a place and returns its index."""
        self.places.append(place)
        return len(self.places) - 1

    def _place(self, uuid: int) -> TrackPlace:
        if self._sidecar is not None and without_machine(uuid) in self._sidecar.tracks:
            columns = _legal(self._sidecar.tracks[without_machine(uuid)])
            counter, unit = columns.pop("counter", None), columns.pop("unit", None)
            return TrackPlace({"source": self._label} | columns, counter, unit, uuid)
        track = self.descriptors.get(uuid, Descriptor())
        columns = {"source": self._label} | self._owner(uuid)
        if host := host_of(uuid >> _UUID_BITS):
            columns["host"] = host
        if not (track.is_process or track.tid is not None) or track.is_counter:
            columns["track"] = str(without_machine(uuid))
        counter = (track.name or str(without_machine(uuid))) if track.is_counter else None
        return TrackPlace(columns, counter, track.unit, uuid, track.scale, track.incremental)

    def _owner(self, uuid: int) -> dict[str, Any]:
        """The process and thread of a track: its own, or those of the nearest parent that has any."""
        met: set[int] = set()
        at: int | None = uuid
        while at is not None and at not in met and at in self.descriptors:
            met.add(at)
            track = self.descriptors[at]
            if track.pid is not None or track.tid is not None:
                columns = {"pid": track.pid, "tid": track.tid}
                return {name: value for name, value in columns.items() if value is not None}
            at = track.parent
        return {}

    def columns(self, place: Int64) -> dict[str, pa.Array]:
        """Returns the track columns, and the internal `run`, of rows at those places."""
        used = np.flatnonzero(np.bincount(place, minlength=len(self.places)))
        index = np.zeros(len(self.places), np.int32)
        index[used] = np.arange(len(used))
        back = pa.array(index[place])
        typed = {}
        for name in (*TRACK_COLUMNS, "run"):
            values = [self.places[number].columns.get(name) for number in used.tolist()]
            if all(value is None for value in values):
                continue
            if name in _INT_COLUMNS:
                typed[name] = pa.array(values, pa.int64()).take(back)
                continue
            distinct = {value: number for number, value in enumerate(dict.fromkeys(v for v in values if v is not None))}
            codes = pa.array([distinct.get(value) for value in values], pa.int32()).take(back)
            typed[name] = pa.DictionaryArray.from_arrays(codes, pa.array(list(distinct), pa.string()))
        return typed

    def facts(self) -> Iterator[dict[str, Any]]:
        """Yields the contents of the descriptors as rows of the catalog without source and id."""
        for machine in sorted(self._processes):
            yield from self._process_facts(machine)
        for place in self.places:
            track = self.descriptors.get(place.uuid) if place.uuid is not None else None
            if track is None or "track" not in place.columns:
                continue
            facts = {"description": track.description, "unit": track.unit if track.is_counter else None}
            parent = self.descriptors.get(track.parent) if track.parent else None
            if track.parent and not (parent and (parent.is_process or parent.tid is not None)):
                facts["parent_track"] = str(without_machine(track.parent))
            key = {name: value for name, value in place.columns.items() if name not in ("source", "run")}
            yield {"entity": "track", **key, "name": track.name, "order": track.order, "facts": _given(facts)}

    def _process_facts(self, machine: int) -> Iterator[dict[str, Any]]:
        """Yields facts about the processes and threads of a machine."""
        processes, host = self._processes[machine], host_of(machine)
        described = [track for uuid, track in self.descriptors.items() if uuid >> _UUID_BITS == machine]
        orders = {track.pid: track.order for track in described if track.is_process and track.order is not None}
        if host:
            yield {"entity": "host", "host": host, "name": host}
        for pid in sorted({*processes.names, *processes.commands, *processes.labels, *processes.parents}):
            facts = {
                "command": processes.commands.get(pid),
                "labels": processes.labels.get(pid),
                "parent_pid": processes.parents.get(pid),
            }
            name, order = processes.names.get(pid), orders.get(pid)
            key = {"entity": "process", "host": host, "pid": pid}
            yield key | {"name": name, "order": order, "facts": _given(facts)}
        for (of, tid), name in processes.threads.items():
            yield {"entity": "thread", "host": host, "pid": of, "tid": tid, "name": name}


def _given(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if value is not None}


def _legal(columns: dict[str, Any]) -> dict[str, Any]:
    """The columns of a sidecar that have the types of the model."""
    types = dict.fromkeys(_INT_COLUMNS, int)
    return {name: value for name, value in columns.items() if isinstance(value, types.get(name, str))}


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
            clocks = []
            for here, at in front:
                for one, other in list(self._snapshots):
                    if one == here and other not in reached:
                        there = at + self._offset(one, other, at)
                        if other == main:
                            return there
                        reached.add(other)
                        clocks.append((other, there))
            front = clocks
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
        fields: Fields,
        sequence: Int64,
        state: Int64,
        ts: Int64,
        own_clock: set[int],
    ) -> None:
        self.names: Int64 | None = None
        self._clocks, self._chunk, self._sequence, self._state, self._ts = clocks, chunk, sequence, state, ts
        given = fields.get(_P["timestamp_clock_id"], VARINT)
        self._given = np.full(fields.count, -1, np.int64)
        self._given[given.owner] = signed(given.value)
        own_clock.update(sequence[fields.get(_P["trace_packet_defaults"], LENGTH).owner].tolist())
        odd = self._given >= 0
        if own_clock:
            odd |= np.isin(sequence, list(own_clock))
        odd &= fields.get(_P["timestamp"], VARINT).has(fields.count)
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
            correlation = batch.column("correlation")
            rows = batch.columns.filter(correlation.is_valid())
            pid = rows.column("pid").fill_null(-1) if batch.has("pid") else pa.array(np.full(len(rows), -1))
            self.correlated.append(tuple(column.to_numpy() for column in (rows["id"], rows["correlation"], pid)))

    def source(self) -> str:
        """The source of rows whose place has none."""
        if self.by_ktrace:
            for place in self.tracks.places:
                if "source" in place.columns:
                    return str(place.columns["source"])
        return self.conversion.label
