"""The processes of devices, and the slices of their busy pieces, as packets of a sequence of their own.

Its number is above those of all others, and so ktrace leaves its packets out when it reads the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ktrace.model.arrays import Int64

from ..proto import field_numbers as f
from ..proto.sidecar import DERIVED_SEQUENCES
from ..proto.wire import bytes_field, bytes_tag, int_field, int_tag, text_field, varint
from .arguments import TYPE_NAMES, HostArguments, InternedTexts, fresh
from .busy_pieces import BusyPieces, Pieces
from .descriptors import Descriptors
from .fields import CodedField, ConstantField, Field, NumberField, PieceTable
from .gpu_tracks import Gpu, Gpus
from .sequences import Events, Packets, packet
from .sequences import Sequence as PacketSequence
from .track_names import with_tids

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
            NumberField(HostArguments.tag, arguments.head(name) + arguments.int_tag, column[rows].view(np.uint64))
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
