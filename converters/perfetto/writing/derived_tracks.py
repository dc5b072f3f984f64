"""Tracks that ktrace adds so that viewers show at first sight what devices do; ktrace leaves them out when it reads.

Above all processes, open: the steps, and for each stream what it does.

    steps                         |#3       ||#4       |    from the ranges of a thread
    GPU 0 stream 7                |gemm|atten|gemm |        runs of work of one operation, named after it

A track of TrackEvents without process, thread and parent stands at the viewer's root if it has slices and a child with
data; without a child it lands in a closed group (UI of v52 to v58). So each has a counter below it: how long a step
takes, how many pieces of work are in a run. Runs are never called after a kernel, so that sums by the name of a kernel
stay true. A run is as long as its work is busy, from its start on, so that the runs of a stream add up to the time in
which it is busy.

A process for each device, with a thread for each busy stream: what the overview of a viewer shows.

    NVIDIA H100 · GPU 0                 a process
      stream 7    |busy|  |busy    |    slices of the category "derived": pieces of time in which the stream is busy

Viewers open with the group of render stages closed, and their overview counts slices of threads alone. The packets have
a sequence of their own, with a number above those of all others.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cache

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from ktrace.model.arrays import Int64
from ktrace.model.json_text import encoded
from ktrace.model.masks import words_in
from ktrace.model.tracks import natural
from ktrace.naming.taxonomy import builtin_rules
from ktrace.stages.order import TimelineBatch
from ktrace.stages.select.wanted import step_of

from .. import field_numbers as f
from ..sidecar import DERIVED_SEQUENCES
from ..wire import int_tag, message, varint
from .arguments import TYPE_NAMES, HostArguments, InternedTexts, fresh, tagged
from .busy_pieces import BUSY, CATEGORY, NOTE, BusyPieces, Pieces
from .descriptors import Descriptors, merge_key, with_tids
from .fields import CodedField, ConstantField, Field, PieceTable, VarintField, number_field
from .render_stages import Gpu, Gpus
from .sequences import Events, packet
from .sequences import Sequence as PacketSequence

#: More streams than these are drawn as the busiest one of each device, and no more devices than these.
MOST_STREAMS, MOST_DEVICES = 12, 32

#: Runs of one operation are joined over gaps below this part of the trace, which nobody sees at first sight.
_UNSEEN = 4000

#: The most steps that are kept of a thread, and that are drawn of it: more are drawn several at once.
_MOST_STEPS, _DRAWN = 1 << 16, 1000

_BEGIN, _END, _COUNT = (f.TRACK_EVENT_TYPE[name] for name in ("TYPE_SLICE_BEGIN", "TYPE_SLICE_END", "TYPE_COUNTER"))
_TYPE, _TRACK = int_tag(f.TRACK_EVENT["type"]), int_tag(f.TRACK_EVENT["track_uuid"])


@cache
def _words() -> pa.Array:
    """What runs may be called."""
    operations = {operation for rule in builtin_rules() if (operation := rule.values.get("operation"))}
    return pa.array(sorted({*operations, "busy", "copy", "other"}))


class DerivedTexts:
    """The texts and arguments of derived slices, which a sequence interns."""

    def __init__(self) -> None:
        self._arguments = HostArguments()
        self._names = InternedTexts(f.INTERNED_DATA["event_names"], f.TRACK_EVENT["name_iid"], f.TRACK_EVENT["name"])
        self._category = InternedTexts(
            f.INTERNED_DATA["event_categories"], f.TRACK_EVENT["category_iids"], f.TRACK_EVENT["categories"]
        )

    def derived(self) -> bytes:
        """The fields that mark a slice as derived."""
        note = self._arguments.text("derived", NOTE.encode(), often=True)
        return self._category.field(CATEGORY.encode()) + tagged(HostArguments.tag, note)

    def name(self, text: str) -> bytes:
        """The field of a slice's name."""
        return self._names.field(text.encode("utf-8", "replace"), often=True)

    def number(self, name: str, values: Int64) -> Field:
        """The field of an argument that is a number."""
        arguments = self._arguments
        return number_field(HostArguments.tag, arguments.head(name), arguments.int_tag, values.view(np.uint64))

    def fresh(self) -> bytes:
        """The entries of InternedData that are new."""
        return fresh(self._category, self._names, self._arguments.names, self._arguments.texts)


class TakenNames:
    """The names of the trace that runs might be called, too, and so must not."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def add(self, batch: TimelineBatch) -> None:
        """Adds the names of a batch."""
        names = encoded(batch.column("name")).dictionary
        self._taken.update(names.filter(pc.is_in(names, _words())).to_pylist())

    def free(self, word: str) -> str:
        """The word, or another one that no row is called."""
        return f"{word} (busy)" if word in self._taken else word


class Steps:
    """The steps of threads: start, end and number, by index of the track."""

    def __init__(self) -> None:
        self._found: defaultdict[int, list[tuple[int, int, str]]] = defaultdict(list)

    def add(self, batch: TimelineBatch, is_host: Sequence[bool]) -> None:
        """Adds the ranges of threads that are steps."""
        rows = np.flatnonzero(words_in(batch.column("kind"), ("range",)))
        if not len(rows):
            return
        names = encoded(batch.column("name").take(pa.array(rows)))
        numbers = [None if name is None else step_of(name) for name in names.dictionary.to_pylist()]
        codes = names.indices.fill_null(0).to_numpy()
        rows = rows[is_step := np.array([number is not None for number in numbers], np.bool_)[codes]]
        ts, dur = batch.column("ts").to_numpy()[rows], batch.durations[rows]
        for track, start, length, code in zip(
            batch.track[rows].tolist(), ts.tolist(), dur.tolist(), codes[is_step].tolist(), strict=True
        ):
            if is_host[track] and length > 0 and len(self._found[track]) < _MOST_STEPS:
                self._found[track].append((start, start + length, f"#{numbers[code]}"))

    def of_processes(
        self, process_of: Callable[[int], tuple[int, str]], is_asked: Callable[[int], bool]
    ) -> list[tuple[int, list[tuple[int, int, str]]]]:
        """The track of the thread of each process that has most steps, and its steps without those within others.

        `is_asked` tells the tracks whose steps are.
        """
        best: dict[tuple[int, str], int] = {}
        for track, steps in sorted((track, steps) for track, steps in self._found.items() if is_asked(track)):
            process = process_of(track)
            if process not in best or len(steps) > len(self._found[best[process]]):
                best[process] = track
        return [(track, _drawn(self._found[track])) for track in best.values()]


def _drawn(steps: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """The steps one after the other; several at once where they are very many."""
    kept: list[tuple[int, int, str]] = []
    for start, end, name in sorted(steps, key=lambda one: (one[0], -one[1])):
        if not kept or start >= kept[-1][1]:
            kept.append((start, end, name))
    many = -(-len(kept) // _DRAWN)
    if many < 2:
        return kept
    groups = [kept[first : first + many] for first in range(0, len(kept), many)]
    return [(one[0][0], one[-1][1], f"{one[0][2]} to {one[-1][2]}") for one in groups]


class RootTrack(msgspec.Struct, frozen=True):
    """A track at the root: its name, its slices as columns, and the counter below it, which begins with each slice."""

    name: str
    start: Int64
    dur: Int64
    titles: list[str]
    counter: str
    unit: int
    counts: Int64
    arguments: dict[str, Int64]


def steps_track(name: str, steps: list[tuple[int, int, str]]) -> RootTrack:
    """The track of steps."""
    start, end = (np.array([one[which] for one in steps], np.int64) for which in range(2))
    unit = f.COUNTER_UNIT["UNIT_TIME_NS"]
    return RootTrack(name, start, end - start, [one[2] for one in steps], "time of a step", unit, end - start, {})


def runs_track(name: str, pieces: Pieces, busy: BusyPieces, taken: TakenNames) -> RootTrack:
    """The runs of one stream, from its pieces."""
    which = np.argmax(pieces.work, axis=1) if len(pieces) else np.zeros(0, np.int64)
    gap = max(int(pieces.end.max() - pieces.start.min()) // _UNSEEN, 1) if len(pieces) else 1
    cut = np.ones(len(pieces), np.bool_)
    cut[1:] = (which[1:] != which[:-1]) | (pieces.start[1:] - pieces.end[:-1] > gap)
    runs = pieces.joined(cut)
    titles = [taken.free(busy.word(number)) for number in which[cut].tolist()]
    unit = f.COUNTER_UNIT["UNIT_COUNT"]
    arguments = {"kernels": runs.kernels, "copies": runs.others, "span_ns": runs.end - runs.start}
    counts = runs.kernels + runs.others
    return RootTrack(name, runs.start, runs.busy, titles, "work in a run", unit, counts, arguments)


def chosen(streams: Iterable[int], busy: dict[int, int], device_of: Callable[[int], int]) -> list[int]:
    """The streams that are drawn: all, or of many the busiest one of each device."""
    streams = [*streams]
    if len(streams) <= MOST_STREAMS:
        return streams
    best: dict[int, int] = {}
    for stream in streams:
        device = device_of(stream)
        if device not in best or busy[stream] > busy[best[device]]:
            best[device] = stream
    return [stream for stream in streams if best[device_of(stream)] == stream][:MOST_DEVICES]


def descriptors(track: RootTrack, uuid: int, note: str) -> list[bytes]:
    """The descriptors of a track, with a note, and of the counter below it, which has the next uuid."""
    counter = message(f.COUNTER_DESCRIPTOR, unit=track.unit)
    return [
        message(f.TRACK_DESCRIPTOR, uuid=uuid, name=track.name, **merge_key(uuid), description=_noted(note)),
        message(f.TRACK_DESCRIPTOR, uuid=uuid + 1, parent_uuid=uuid, name=track.counter, counter=counter),
    ]


def _noted(note: str) -> str:
    """The description of a derived track, with the note of the trace if there is one."""
    return f"{NOTE}\n{note}" if note else NOTE


def events_of(
    tracks: Sequence[RootTrack], uuids: Sequence[int], texts: DerivedTexts
) -> tuple[bytes, list[Events], Int64]:
    """Returns the entries of InternedData, the slices and counters of all tracks, and the times of their packets."""
    events: list[Events] = []
    times: list[Int64] = []
    place = 0
    for track, uuid in zip(tracks, uuids, strict=True):
        count = len(track.start)
        at = place + 3 * np.arange(count)
        place += 3 * count
        titles = [texts.name(title) for title in track.titles]
        begin: list[Field] = [
            ConstantField(_TYPE + varint(_BEGIN) + _TRACK + varint(uuid) + texts.derived()),
            *(texts.number(name, column) for name, column in track.arguments.items()),
            CodedField(PieceTable(titles), np.arange(count, dtype=np.int32)),
        ]
        value = VarintField(int_tag(f.TRACK_EVENT["counter_value"]), track.counts.view(np.uint64))
        end = ConstantField(_TYPE + varint(_END) + _TRACK + varint(uuid))
        events += [
            Events([ConstantField(_TYPE + varint(_COUNT) + _TRACK + varint(uuid + 1)), value], at),
            Events(begin, at + 1),
            Events([end], at + 2),
        ]
        times.append(np.stack((track.start, track.start, track.start + track.dur), 1).ravel())
    return texts.fresh(), events, np.concatenate(times) if times else np.zeros(0, np.int64)


def padded(name: str, digits: int) -> str:
    """The name of a track at the root for viewers, which sort by name: numbers have spaces before them.

    A page shows several spaces as one.
    """
    return re.sub(r"[0-9]+", lambda number: number[0].rjust(digits), name)


#: Tracks at the root have uuids above those of devices and their threads.
_ROOTS = (1 << 62) + (1 << 47)


class _Thread(msgspec.Struct, frozen=True):
    """A stream: its process and thread ids, the uuid of its track, and its name without the id."""

    pid: int
    tid: int
    uuid: int
    name: str


class DeviceProcesses:
    """The processes of the devices of a machine."""

    def __init__(self, machine: int, gpus: Gpus, tracks: Descriptors) -> None:
        self._sequence = PacketSequence(DERIVED_SEQUENCES + machine, machine)
        self._texts = DerivedTexts()
        self._first_root = _ROOTS + (machine << 48)
        self._gpus, self._tracks = gpus, tracks
        self._written: set[int] = set()
        self._is_open = False

    def fresh(self, more: Iterable[int] = ()) -> bytes:
        """Returns the packets of processes that have tracks by now, or whose numbers are given, and had none before."""
        numbers = {*more, *(gpu.number for gpu in self._gpus.gpus if gpu.is_parent)} - self._written
        packets = [self._opening() if numbers else b""]
        for number in sorted(numbers):
            process = _process(self._gpus.gpus[number], number - len(self._gpus.gpus), self._tracks.note)
            packets.append(packet(self._sequence.later(), track_descriptor=process))
        self._written |= numbers
        return b"".join(packets)

    def _opening(self) -> bytes:
        """The first packet of the sequence, once."""
        opening, self._is_open = b"" if self._is_open else self._sequence.first(TYPE_NAMES), True
        return opening

    def counters(self, entries: bytes, ts: Int64, fields: list[Field]) -> tuple[bytes, Callable[[], memoryview]]:
        """Returns what introduces values of counters, and what makes their packets."""
        packets = self._sequence.packets("gpu_counter_event", [Events(fields, np.arange(len(ts)))], ts)
        return self._opening() + self._sequence.interning(entries), packets

    def pieces(self, pieces: Pieces, origin: int) -> tuple[bytes, Callable[[], memoryview] | None]:
        """Returns the packets of streams, and what makes those of their pieces."""
        streams_of = self._streams_of(pieces)
        if not streams_of:
            return b"", None
        sequence, packets = self._sequence, [self.fresh(streams_of)]
        threads: dict[int, _Thread] = {}
        for number, streams in streams_of.items():
            gpu = self._gpus.gpus[number]
            named = with_tids(gpu.pid, gpu.tids, _stream_names(streams, self._tracks))
            for place, (one, (tid, name)) in enumerate(zip(streams, named, strict=True)):
                thread = threads[one] = _Thread(gpu.pid, tid, gpu.uuid + 1 + place, name)
                packets.append(packet(sequence.later(), track_descriptor=_thread(gpu.uuid, thread, place)))
        rows = np.flatnonzero(np.isin(pieces.track, list(threads)))
        interned, events = _events(rows, pieces, threads, self._texts)
        ts = np.stack((pieces.start[rows], (pieces.start + pieces.busy)[rows]), 1).ravel() - origin
        make = sequence.packets("track_event", events, ts)
        return b"".join((*packets, sequence.interning(interned))), make

    def roots(
        self, busy_pieces: BusyPieces, pieces: Pieces, taken: TakenNames, steps: Sequence[RootTrack], origin: int
    ) -> tuple[bytes, Callable[[], memoryview] | None]:
        """Returns the packets of the tracks at the root, and what makes those of their slices: steps, then streams."""
        busy: dict[int, int] = {}
        for one, time in zip(pieces.track.tolist(), pieces.busy.tolist(), strict=True):
            busy[one] = busy.get(one, 0) + time
        streams_of = self._streams_of(pieces)
        numbers = {one: number for number, streams in streams_of.items() for one in streams}
        names: dict[int, str] = {}
        for number, streams in sorted(streams_of.items()):
            gpu = self._gpus.gpus[number]
            led = _short(gpu) if len(streams_of) > 1 or ": " in gpu.label else ""
            named = zip(streams, _stream_names(streams, self._tracks), strict=True)
            names |= {one: f"{led} {name}".strip() for one, name in sorted(named, key=lambda pair: natural(pair[1]))}
        drawn = chosen(names, busy, numbers.__getitem__)
        runs = (runs_track(names[one], pieces.of_track(one), busy_pieces, taken) for one in drawn)
        tracks = [*(replace(track, name=f" {track.name}") for track in steps), *runs]
        if not tracks:
            return b"", None
        tracks = [replace(track, name=padded(track.name, self._tracks.digits)) for track in tracks]
        uuids = [self._first_root + 2 * number for number in range(len(tracks))]
        entries, events, ts = events_of(tracks, uuids, self._texts)
        make = self._sequence.packets("track_event", events, ts - origin)
        packets = [
            packet(self._sequence.later(), track_descriptor=one)
            for track, uuid in zip(tracks, uuids, strict=True)
            for one in descriptors(track, uuid, self._tracks.note)
        ]
        return b"".join((self._opening(), *packets, self._sequence.interning(entries))), make

    def _streams_of(self, pieces: Pieces) -> dict[int, list[int]]:
        """The tracks of the busy streams of each device of this machine."""
        tracks: dict[int, list[int]] = {}
        for one in np.unique(pieces.track).tolist():
            if gpu := self._gpus.get(one):
                tracks.setdefault(gpu.number, []).append(one)
        return tracks


def _events(
    rows: Int64, pieces: Pieces, threads: dict[int, _Thread], texts: DerivedTexts
) -> tuple[bytes, list[Events]]:
    """Returns the entries of InternedData, and the starts and ends of slices."""
    of, codes = np.unique(pieces.track[rows], return_inverse=True)

    def place(kind: int) -> CodedField:
        table = [_TYPE + varint(kind) + _TRACK + varint(threads[one].uuid) for one in of.tolist()]
        return CodedField(PieceTable(table), codes.astype(np.int32))

    columns = {"kernels": pieces.kernels, "copies": pieces.others, "span_ns": pieces.end - pieces.start}
    begin: list[Field] = [
        place(_BEGIN),
        ConstantField(texts.derived() + texts.name(BUSY)),
        *(texts.number(name, column[rows]) for name, column in columns.items()),
    ]
    at = 2 * np.arange(len(rows))
    return texts.fresh(), [Events(begin, at), Events([place(_END)], at + 1)]


def _stream_names(streams: Sequence[int], tracks: Descriptors) -> list[str]:
    """Returns the names of streams, with that of the process before it where several share the device."""
    processes = [tracks.process(one) for one in streams]
    names = [tracks.stream(one) for one in streams]
    if len(dict(processes)) == 1:
        return names
    return [f"{process} {name}" for (_, process), name in zip(processes, names, strict=True)]


def _short(gpu: Gpu) -> str:
    """What tells a GPU from the others: its rank or host, else its number."""
    first, colon, _ = gpu.label.partition(": ")
    return first if colon else gpu.label.partition(" · ")[0]


def _process(gpu: Gpu, rank: int, note: str) -> bytes:
    return message(
        f.TRACK_DESCRIPTOR,
        uuid=gpu.uuid,
        process=message(f.PROCESS_DESCRIPTOR, pid=gpu.pid, process_name=gpu.process_name, legacy_sort_index=rank),
        description=_noted(note),
        child_ordering=f.CHILD_TRACKS_ORDERING["EXPLICIT"],
        sibling_order_rank=rank,
    )


def _thread(parent: int, thread: _Thread, rank: int) -> bytes:
    described = message(f.THREAD_DESCRIPTOR, pid=thread.pid, tid=thread.tid, thread_name=thread.name)
    return message(f.TRACK_DESCRIPTOR, uuid=thread.uuid, parent_uuid=parent, thread=described, sibling_order_rank=rank)
