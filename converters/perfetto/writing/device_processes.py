"""What a viewer shows of devices at first sight: a process for each device, with a thread for each busy stream.

    NVIDIA H100 #0                      a process
      stream 7    |gemm|  |attention|   slices of the category "derived": pieces of time in which the stream is busy

Viewers open with the group of render stages closed, and their overview counts slices of threads alone. The pieces are
derived from device work: work that overlaps or touches is one piece. If a trace has more than `MOST` of these,
neighbours are joined, except at the longest gaps and at the first gap of each cell of time. A slice is as long as its
piece is busy, from its start on: its gaps are at its end, so that a device that is busy half of the time looks so.

The packets have a sequence of their own, with a number above those of all others: ktrace leaves them out when it reads
the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ktrace.model.arrays import Bools, Int64, Integers
from ktrace.model.batch import DEVICE_KINDS
from ktrace.model.json_text import encoded
from ktrace.model.masks import words_in
from ktrace.naming.short_names import short_name
from ktrace.naming.taxonomy import taxonomy
from ktrace.stages.order import TimelineBatch
from ktrace.store.joins import greatest_so_far, sorted_by

from .. import field_numbers as f
from ..sidecar import DERIVED_SEQUENCES
from ..wire import bytes_field, bytes_tag, int_field, int_tag, text_field, varint
from .arguments import TYPE_NAMES, HostArguments, InternedTexts, fresh
from .descriptors import Descriptors
from .fields import CodedField, ConstantField, Field, PieceTable, number_field
from .gpu_tracks import Gpu, Gpus
from .sequences import Events, Packets, packet
from .sequences import Sequence as PacketSequence
from .track_names import with_tids

#: The most pieces of a trace, if it has fewer streams.
MOST = 4000

#: The shortest cell of time, 2 ** _FIRST_CELL ns, and the longest one.
_FIRST_CELL, _LAST_CELL = 10, 62

#: Spreads numbers that are close to each other, by the golden ratio: of equally long gaps, some everywhere are kept.
_SPREAD = np.uint64(0x9E3779B97F4A7C15)

#: Operations that are told apart, and names whose operation is looked up: all further ones are "other" and "kernel".
_OPERATIONS, _NAMES = 31, 4096

#: A time before any other, and the longest gap after work.
_NEVER, LONGEST_GAP = -(1 << 62), 1 << 61


@dataclass(frozen=True)
class Pieces:
    """Pieces of time on tracks. All arrays are int64 and have the same length.

    `gap` is how long the track was idle before, below 1 where the piece continues the one before, and `origin` the
    start of the uninterrupted work that the piece begins with. `busy` is the length of the union of the work in ns,
    `work` how long work of each operation takes (a column each, the first for others), `longest` the duration of the
    longest and `name` the number of its name.
    """

    track: Int64
    start: Int64
    end: Int64
    gap: Int64
    origin: Int64
    busy: Int64
    kernels: Int64
    others: Int64
    longest: Int64
    name: Int64
    work: Int64

    def __len__(self) -> int:
        return len(self.track)

    def joined(self, cut: Bools) -> Pieces:
        """These ordered pieces, joined to the one before where there is no cut; the first one has a cut."""
        if not len(self):
            return self
        first, piece = np.flatnonzero(cut), np.cumsum(cut) - 1
        longest = np.maximum.reduceat(self.longest, first)
        at = np.flatnonzero(self.longest == longest[piece])
        name = self.name[at[np.unique(piece[at], return_index=True)[1]]]
        busy, kernels, others, work = (
            np.add.reduceat(column, first, axis=0) for column in (self.busy, self.kernels, self.others, self.work)
        )
        end = np.maximum.reduceat(self.end, first)
        start, gap, origin = self.start[first], self.gap[first], self.origin[first]
        return Pieces(self.track[first], start, end, gap, origin, busy, kernels, others, longest, name, work)

    def cells(self, bits: int) -> Bools:
        """Returns which of these ordered pieces are the first of a track, or of a cell of 2 ** `bits` ns."""
        found = np.ones(len(self), np.bool_)
        cell = self.origin >> bits
        found[1:] = (self.track[1:] != self.track[:-1]) | (cell[1:] != cell[:-1])
        return found


def _joined(parts: list[Pieces]) -> Pieces:
    """All pieces in the order of tracks and time."""
    width = max(part.work.shape[1] for part in parts)
    parts = [replace(part, work=np.pad(part.work, ((0, 0), (0, width - part.work.shape[1])))) for part in parts]
    columns = [np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(Pieces)]
    order = np.lexsort((columns[1], columns[0]))
    return Pieces(*(column[order] for column in columns))


def _none() -> Pieces:
    empty = np.empty(0, np.int64)
    return Pieces(*(empty,) * 10, np.empty((0, 1), np.int64))


class Reach:
    """How far the work of each track has come."""

    def __init__(self) -> None:
        self._ends: dict[int, tuple[int, int]] = {}  # track -> start of its last uninterrupted work, end of all so far

    def ends(self) -> dict[int, int]:
        """Returns the end of the work of each track."""
        return {track: end for track, (_, end) in self._ends.items()}

    def placed(self, track: Int64, start: Int64, end: Int64) -> tuple[Int64, Int64, Int64]:
        """Returns gap and origin of ordered work, and what each adds to the time in which its track is busy."""
        reach = greatest_so_far(end, (track,))
        before = np.full(len(track), _NEVER, np.int64)
        before[1:] = reach[:-1]
        first = np.flatnonzero(np.append(True, track[1:] != track[:-1]))
        known = np.array([self._ends.get(one, (_NEVER, _NEVER)) for one in track[first].tolist()], np.int64)
        before[first] = known[:, 1]
        before = np.maximum(before, np.repeat(known[:, 1], np.diff(np.append(first, len(track)))))
        gap = start - before
        origin = start.copy()
        origin[first] = np.where(gap[first] > 0, start[first], known[:, 0])
        begins = gap > 0
        begins[first] = True
        origin = origin[np.maximum.accumulate(np.where(begins, np.arange(len(track)), 0))]
        last = np.append(first[1:], len(track)) - 1
        until = np.maximum(reach[last], known[:, 1])
        self._ends.update(
            zip(track[first].tolist(), zip(origin[last].tolist(), until.tolist(), strict=True), strict=True)
        )
        return gap, origin, np.maximum(end - np.maximum(start, before), 0)


def _values_of(codes: Integers, value: Callable[[int], Any]) -> Int64:
    """The value of each code; `value` is asked once for each that there is."""
    used = np.flatnonzero(np.bincount(codes))
    values = np.array([value(one) for one in used.tolist()], np.int64)
    table = np.zeros((len(used) and int(used[-1]) + 1, *values.shape[1:]), np.int64)
    table[used] = values
    found: Int64 = table[codes]
    return found


class BusyPieces:
    """Gathers the busy pieces of streams from batches in the order of time. `most` is the most pieces."""

    def __init__(self, most: int = MOST) -> None:
        self.names: list[str] = []
        self.operations: list[str] = []
        self._most = most
        self._cell = _FIRST_CELL
        self._least = 0  # shorter gaps aren't among the longest
        self._parts: list[Pieces] = []
        self._waiting = 0  # pieces that came since they were last joined
        self._reach = Reach()
        self._numbers: dict[tuple[str, bool], tuple[int, int]] = {}  # name, is a kernel -> its number, its operation's

    def add(self, batch: TimelineBatch, stream_of: Callable[[int], int]) -> None:
        """Adds the device work of a batch; `stream_of` returns the track whose stream a track belongs to."""
        kinds = batch.column("kind")
        rows = np.flatnonzero(batch.work & words_in(kinds, DEVICE_KINDS))
        if not len(rows):
            return
        track = _values_of(batch.track[rows], stream_of)
        rows = rows[order := sorted_by(track, int(track.max()) + 1)]
        track = track[order]
        start = batch.column("ts").to_numpy()[rows]
        dur = batch.durations[rows]
        kernel = words_in(kinds, ("kernel",))[rows]
        name, operation = self._named(batch, rows, kernel)
        self._gather(track, start, start + dur, kernel.astype(np.int64), name, operation)

    def _gather(self, track: Int64, start: Int64, end: Int64, kernel: Int64, name: Int64, operation: Int64) -> None:
        """Adds ordered work as pieces."""
        dur = end - start
        gap, origin, busy = self._reach.placed(track, start, end)
        nothing = np.empty((len(track), 0), np.int64)
        one = Pieces(track, start, end, gap, origin, busy, kernel, 1 - kernel, dur, name, nothing)
        cut = (gap > 0) & (one.cells(self._cell) | (gap >= self._least)) if self._least else gap > 0
        cut[np.flatnonzero(np.diff(track, prepend=track[0] - 1))] = True
        new, piece = one.joined(cut), np.cumsum(cut) - 1
        width = len(self.operations) + 1
        work = np.bincount(piece * width + operation, dur, len(new) * width)  # exact below 2^53 ns, 104 days
        self._parts.append(replace(new, work=work.astype(np.int64).reshape(len(new), -1)))
        self._waiting += len(new)
        if self._waiting > max(2 * self._most, len(self._parts[0])):
            self.finish()

    def _named(self, batch: TimelineBatch, rows: Int64, kernel: Bools) -> tuple[Int64, Int64]:
        """Returns the number of the name of each row, and that of its operation."""
        names = encoded(batch.column("name"))
        codes = names.indices.fill_null(0).to_numpy()[rows] * np.int64(2) + kernel
        words = names.dictionary
        both = _values_of(codes, lambda code: self._number(words[code // 2].as_py(), bool(code % 2)))
        return both[:, 0], both[:, 1]

    def _number(self, name: str, kernel: bool) -> tuple[int, int]:
        known = self._numbers.get((name, kernel))
        if known is not None:
            return known
        word = "kernel" if kernel else "copy"
        if len(self._numbers) >= _NAMES:
            return -1, self._operation(word)
        word = taxonomy().labels(name, "kernel").operation or word if kernel else word
        self.names.append(short_name(name) or word)
        known = self._numbers[name, kernel] = (len(self.names) - 1, self._operation(word))
        return known

    def _operation(self, word: str) -> int:
        """The number of an operation from 1, 0 for those that aren't told apart."""
        if word not in self.operations:
            if len(self.operations) >= _OPERATIONS:
                return 0
            self.operations.append(word)
        return self.operations.index(word) + 1

    def finish(self) -> Pieces:
        """Returns the pieces so far in the order of tracks and time, no more than there may be."""
        pieces = _joined(self._parts) if self._parts else _none()
        pieces = pieces.joined(pieces.gap > 0)
        if self._least or len(pieces) > self._most:
            pieces = pieces.joined(self._cuts(pieces))
        self._parts, self._waiting = [pieces], 0
        return pieces

    def _cuts(self, pieces: Pieces) -> Bools:
        """Returns which pieces aren't joined to the one before: half of them at the longest gaps, half in cells.

        It is the same whatever was joined before: a gap that isn't among the longest so far won't be later.
        """
        half = self._most // 2
        while np.count_nonzero(cut := pieces.cells(self._cell)) > half and self._cell < _LAST_CELL:
            self._cell += 1
        known = np.flatnonzero(pieces.gap < LONGEST_GAP)  # a track's first piece has no gap
        spread = pieces.start[known].view(np.uint64) * _SPREAD
        longest = known[np.lexsort((spread, -pieces.gap[known]))][:half]
        cut[longest] = True
        self._least = max(int(pieces.gap[longest].min(initial=-_NEVER)), 1) if len(longest) == half else 1
        return cut

    def title(self, pieces: Pieces, number: int) -> str:
        """What a piece is called: its kernel or copy if it is the only one, else what takes the most time."""
        many = int(pieces.kernels[number] + pieces.others[number])
        if many == 1 and pieces.name[number] >= 0:
            return self.names[int(pieces.name[number])]
        others, *known = pieces.work[number].tolist()
        most = max(known, default=0)
        word = self.operations[known.index(most)] if most >= others and known else "other"
        share = 100 * int(pieces.busy[number]) // max(int(pieces.end[number] - pieces.start[number]), 1)
        return f"{word} ({many:,}, {share} % busy)"


#: The category of the slices, and what an argument of each says.
CATEGORY = "derived"
_NOTE = "ktrace: derived from kernels and copies, which are on tracks of their own; the gaps of a piece are at its end"

_BEGIN, _END = (f.TRACK_EVENT_TYPE[name] for name in ("TYPE_SLICE_BEGIN", "TYPE_SLICE_END"))
_TYPE, _TRACK = int_tag(f.TRACK_EVENT["type"]), int_tag(f.TRACK_EVENT["track_uuid"])


@dataclass(frozen=True)
class _Thread:
    """A stream: its process and thread ids, the uuid of its track, and its name without the id."""

    pid: int
    tid: int
    uuid: int
    name: str


class DeviceProcesses:
    """The processes of the devices of a machine."""

    def __init__(self, machine: int, gpus: Gpus, tracks: Descriptors) -> None:
        self._sequence = PacketSequence(DERIVED_SEQUENCES + machine, machine)
        self._gpus, self._tracks = gpus, tracks
        self._written: set[int] = set()
        self._is_open = False

    def fresh(self, more: Iterable[int] = ()) -> bytes:
        """Returns the packets of processes that have tracks by now, or whose numbers are given, and had none before."""
        numbers = {*more, *(gpu.number for gpu in self._gpus.gpus if gpu.is_parent)} - self._written
        packets = [self._opening() if numbers else b""]
        for number in sorted(numbers):
            process = _process(self._gpus.gpus[number], number - len(self._gpus.gpus), self._tracks.note)
            packets.append(packet(self._sequence.later() + process))
        self._written |= numbers
        return b"".join(packets)

    def _opening(self) -> bytes:
        """The first packet of the sequence, once."""
        opening, self._is_open = b"" if self._is_open else self._sequence.first(TYPE_NAMES), True
        return opening

    def counters(self, entries: bytes, ts: Int64, fields: list[Field]) -> tuple[bytes, Callable[[], memoryview]]:
        """Returns what introduces values of counters, and what makes their packets."""
        make = Packets(self._sequence, bytes_tag(f.TRACE_PACKET["gpu_counter_event"]))
        return self._opening() + self._sequence.interning(entries), make.of([Events(fields, np.arange(len(ts)))], ts)

    def pieces(self, found: BusyPieces, pieces: Pieces, origin: int) -> tuple[bytes, Callable[[], memoryview] | None]:
        """Returns the packets of streams, and what makes those of their pieces."""
        streams_of: dict[int, list[int]] = {}
        for one in np.unique(pieces.track).tolist():
            if gpu := self._gpus.of(one):
                streams_of.setdefault(gpu.number, []).append(one)
        if not streams_of:
            return b"", None
        sequence, packets = self._sequence, [self.fresh(streams_of)]
        threads: dict[int, _Thread] = {}
        for number, streams in streams_of.items():
            gpu = self._gpus.gpus[number]
            named = with_tids([gpu.pid, *gpu.tids], _stream_names(streams, self._tracks))
            for place, (one, (tid, name)) in enumerate(zip(streams, named, strict=True)):
                thread = threads[one] = _Thread(gpu.pid, tid, gpu.uuid + 1 + place, name)
                packets.append(packet(sequence.later() + _thread(gpu.uuid, thread, place)))
        rows = np.flatnonzero(np.isin(pieces.track, list(threads)))
        interned, events = _events(rows, pieces, threads, found)
        ts = np.stack((pieces.start[rows], (pieces.start + pieces.busy)[rows]), 1).ravel() - origin
        make = Packets(sequence, bytes_tag(f.TRACE_PACKET["track_event"])).of(events, ts)
        return b"".join((*packets, sequence.interning(interned))), make


def _events(rows: Int64, pieces: Pieces, threads: dict[int, _Thread], found: BusyPieces) -> tuple[bytes, list[Events]]:
    """Returns the entries of InternedData, and the starts and ends of slices."""
    arguments = HostArguments()
    texts = InternedTexts(f.INTERNED_DATA["event_names"], f.TRACK_EVENT["name_iid"], f.TRACK_EVENT["name"])
    category = InternedTexts(
        f.INTERNED_DATA["event_categories"], f.TRACK_EVENT["category_iids"], f.TRACK_EVENT["categories"]
    )
    titles = [texts.field(found.title(pieces, row).encode("utf-8", "replace"), often=False) for row in rows.tolist()]
    of, codes = np.unique(pieces.track[rows], return_inverse=True)

    def place(kind: int) -> CodedField:
        table = [_TYPE + varint(kind) + _TRACK + varint(threads[one].uuid) for one in of.tolist()]
        return CodedField(PieceTable(table), codes.astype(np.int32))

    columns = {"kernels": pieces.kernels, "copies": pieces.others, "span_ns": pieces.end - pieces.start}
    begin: list[Field] = [
        place(_BEGIN),
        ConstantField(category.field(CATEGORY.encode()) + arguments.text("derived", _NOTE.encode(), often=True)),
        *(
            number_field(HostArguments.tag, arguments.head(name), arguments.int_tag, column[rows].view(np.uint64))
            for name, column in columns.items()
        ),
        CodedField(PieceTable(titles), np.arange(len(titles), dtype=np.int32)),
    ]
    at = 2 * np.arange(len(rows))
    return fresh(category, texts, arguments.names, arguments.texts), [Events(begin, at), Events([place(_END)], at + 1)]


def _stream_names(streams: Sequence[int], tracks: Descriptors) -> list[str]:
    """Returns the names of streams, with that of the process before it where several share the device."""
    processes = [tracks.process(one) for one in streams]
    names = [tracks.stream(one) for one in streams]
    if len(dict(processes)) == 1:
        return names
    return [f"{process} {name}" for (_, process), name in zip(processes, names, strict=True)]


def _process(gpu: Gpu, rank: int, note: str) -> bytes:
    process = (
        int_field(f.PROCESS_DESCRIPTOR["pid"], gpu.pid)
        + text_field(f.PROCESS_DESCRIPTOR["process_name"], gpu.label)
        + int_field(f.PROCESS_DESCRIPTOR["legacy_sort_index"], rank)
    )
    return bytes_field(
        f.TRACE_PACKET["track_descriptor"],
        int_field(f.TRACK_DESCRIPTOR["uuid"], gpu.uuid)
        + bytes_field(f.TRACK_DESCRIPTOR["process"], process)
        + text_field(f.TRACK_DESCRIPTOR["description"], "\n".join(line for line in (_NOTE, note) if line))
        + int_field(f.TRACK_DESCRIPTOR["child_ordering"], f.CHILD_TRACKS_ORDERING["EXPLICIT"])
        + int_field(f.TRACK_DESCRIPTOR["sibling_order_rank"], rank),
    )


def _thread(parent: int, thread: _Thread, rank: int) -> bytes:
    body = (
        int_field(f.THREAD_DESCRIPTOR["pid"], thread.pid)
        + int_field(f.THREAD_DESCRIPTOR["tid"], thread.tid)
        + text_field(f.THREAD_DESCRIPTOR["thread_name"], thread.name)
    )
    return bytes_field(
        f.TRACE_PACKET["track_descriptor"],
        int_field(f.TRACK_DESCRIPTOR["uuid"], thread.uuid)
        + int_field(f.TRACK_DESCRIPTOR["parent_uuid"], parent)
        + bytes_field(f.TRACK_DESCRIPTOR["thread"], body)
        + int_field(f.TRACK_DESCRIPTOR["sibling_order_rank"], rank),
    )
