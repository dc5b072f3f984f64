"""A process for each device, with a thread for each busy stream: what the overview of a viewer shows.

    NVIDIA H100 #0                      a process
      stream 7    |busy|  |busy    |    slices of the category "derived": pieces of time in which the stream is busy

Viewers open with the group of render stages closed, and their overview counts slices of threads alone. What streams do
is above all processes, in the tracks of `root_tracks`.

The packets have a sequence of their own, with a number above those of all others: ktrace leaves them out when it reads
the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from ktrace.model.arrays import Int64
from ktrace.model.tracks import natural

from .. import field_numbers as f
from ..sidecar import DERIVED_SEQUENCES
from ..wire import bytes_field, bytes_tag, int_field, int_tag, text_field, varint
from .arguments import TYPE_NAMES
from .busy_pieces import BUSY, NOTE, BusyPieces, Pieces
from .descriptors import Descriptors
from .fields import CodedField, ConstantField, Field, PieceTable
from .gpu_tracks import Gpu, Gpus
from .root_tracks import DerivedTexts, RootTrack, TakenNames, chosen, descriptors, events_of, runs_track
from .sequences import Events, Packets, packet
from .sequences import Sequence as PacketSequence
from .track_names import in_order_of_names, with_tids

#: Tracks at the root have uuids above those of devices and their threads.
_ROOTS = (1 << 62) + (1 << 47)

_BEGIN, _END = (f.TRACK_EVENT_TYPE[name] for name in ("TYPE_SLICE_BEGIN", "TYPE_SLICE_END"))
_TYPE, _TRACK = int_tag(f.TRACK_EVENT["type"]), int_tag(f.TRACK_EVENT["track_uuid"])


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

    def pieces(self, pieces: Pieces, origin: int) -> tuple[bytes, Callable[[], memoryview] | None]:
        """Returns the packets of streams, and what makes those of their pieces."""
        streams_of = self._streams_of(pieces)
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
        interned, events = _events(rows, pieces, threads, self._texts)
        ts = np.stack((pieces.start[rows], (pieces.start + pieces.busy)[rows]), 1).ravel() - origin
        make = Packets(sequence, bytes_tag(f.TRACE_PACKET["track_event"])).of(events, ts)
        return b"".join((*packets, sequence.interning(interned))), make

    def roots(
        self, found: BusyPieces, pieces: Pieces, taken: TakenNames, steps: Sequence[RootTrack], origin: int
    ) -> tuple[bytes, Callable[[], memoryview] | None]:
        """Returns the packets of the tracks at the root, and what makes those of their slices: steps, then streams."""
        busy: dict[int, int] = {}
        for one, time in zip(pieces.track.tolist(), pieces.busy.tolist(), strict=True):
            busy[one] = busy.get(one, 0) + time
        streams_of = self._streams_of(pieces)
        numbers = {one: number for number, streams in streams_of.items() for one in streams}
        names: dict[int, str] = {}
        for number, streams in streams_of.items():
            gpu = self._gpus.gpus[number]
            led = _short(gpu) if len(streams_of) > 1 or ": " in gpu.label else ""
            named = zip(streams, _stream_names(streams, self._tracks), strict=True)
            names |= {one: f"{led} {name}".strip() for one, name in sorted(named, key=lambda pair: natural(pair[1]))}
        drawn = chosen(names, busy, numbers.__getitem__)
        tracks = [*steps, *(runs_track(names[one], pieces.of(one), found, taken) for one in drawn)]
        if not tracks:
            return b"", None
        titles = in_order_of_names([track.name for track in tracks])
        tracks = [replace(track, name=name) for track, name in zip(tracks, titles, strict=True)]
        uuids = [self._first_root + 2 * number for number in range(len(tracks))]
        described = [
            one
            for track, uuid in zip(tracks, uuids, strict=True)
            for one in descriptors(track, uuid, self._tracks.note)
        ]
        entries, events, ts = events_of(tracks, uuids, self._texts)
        make = Packets(self._sequence, bytes_tag(f.TRACE_PACKET["track_event"])).of(events, ts - origin)
        packets = [self._opening(), *(packet(self._sequence.later() + one) for one in described)]
        return b"".join((*packets, self._sequence.interning(entries))), make

    def _streams_of(self, pieces: Pieces) -> dict[int, list[int]]:
        """The tracks of the busy streams of each device of this machine."""
        found: dict[int, list[int]] = {}
        for one in np.unique(pieces.track).tolist():
            if gpu := self._gpus.of(one):
                found.setdefault(gpu.number, []).append(one)
        return found


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
    number = gpu.label.rpartition(" ")[2]
    return first if colon else f"GPU {number}" if number.startswith("#") else gpu.label


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
        + text_field(f.TRACK_DESCRIPTOR["description"], "\n".join(line for line in (NOTE, note) if line))
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
