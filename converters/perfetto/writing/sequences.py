"""The packets of a trace: the two sequences of each machine, and what the machines share: output, tracks, sidecar."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Sequence as Several
from functools import cache
from typing import Any, NamedTuple

import msgspec
import numpy as np

from ktrace.model.arrays import Int64
from ktrace.parallel.threads import InOrder
from ktrace.report import Report
from ktrace.stages.order import Timeline

from .. import field_numbers as f
from ..sidecar import place_texts
from ..wire import bytes_tag, int_tag, message
from .descriptors import Descriptors
from .fields import ConstantField, Field, MessageField, Part, VarintField, encoder

_PACKET = bytes_tag(f.TRACE["packet"])
_TIME = int_tag(f.TRACE_PACKET["timestamp"])
_ROW = int_tag(f.TRACE_PACKET["ktrace_row"])


class Sequence(NamedTuple):
    """A sequence of packets: its number, which isn't 0, and its machine, 0 if there is only one."""

    number: int
    machine: int = 0

    @property
    def fields(self) -> bytes:
        """The fields that all its packets have."""
        return message(f.TRACE_PACKET, trusted_packet_sequence_id=self.number) + of_machine(self.machine)

    def later(self) -> bytes:
        """The fields of all its packets but the first."""
        return self.fields + message(f.TRACE_PACKET, sequence_flags=f.SEQUENCE_FLAGS["SEQ_NEEDS_INCREMENTAL_STATE"])

    def interning(self, entries: bytes) -> bytes:
        """A packet that adds entries to its InternedData; empty if there are none.

        A packet has all of them in one field: Perfetto takes the last value of a singular field, where protobuf
        libraries merge the values.
        """
        return packet(self.later(), interned_data=entries) if entries else b""

    def first(self, entries: bytes = b"", clocks: Several[bytes] = ()) -> bytes:
        """The packet that starts it anew, with entries of InternedData and the readings of a clock snapshot."""
        return packet(
            self.fields,
            sequence_flags=f.SEQUENCE_FLAGS["SEQ_INCREMENTAL_STATE_CLEARED"],
            clock_snapshot=b"".join(clocks) or None,
            interned_data=entries or None,
        )

    def packets(self, kind: str, messages: Several[Events], ts: Int64) -> Callable[[], memoryview]:
        """Returns what makes the bytes of later packets with messages of a kind, in order.

        `ts` has the timestamps by position.
        """
        later, tag = ConstantField(self.later()), bytes_tag(f.TRACE_PACKET[kind])
        parts = []
        for message_fields, positions, ids in messages:
            fields: list[Field] = [VarintField(_TIME, ts[positions].view(np.uint64)), later]
            if ids is not None:
                fields.append(VarintField(_ROW, ids.view(np.uint64)))
            fields.append(MessageField(tag, b"", message_fields))
            parts.append(Part([MessageField(_PACKET, b"", fields)], positions))
        make = encoder(parts, len(ts))
        return lambda: make()[0]


def host_and_gpu(machine: int) -> tuple[Sequence, Sequence]:
    """The two sequences of a machine."""
    first = 2 * max(machine - 1, 0) + 1
    return Sequence(first, machine), Sequence(first + 1, machine)


def of_machine(machine: int) -> bytes:
    """The field of a packet that names its machine; empty for 0."""
    return message(f.TRACE_PACKET, machine_id=machine or None)


def packet(head: bytes = b"", **fields: bytes | int | None) -> bytes:
    """A packet of encoded fields and further ones by their names."""
    return message(f.TRACE, packet=head + message(f.TRACE_PACKET, **fields))


def clock(number: int, ns: int) -> bytes:
    """A reading of a clock in a snapshot."""
    return message(f.CLOCK_SNAPSHOT, clocks=message(f.CLOCK, clock_id=number, timestamp=ns))


class Events(NamedTuple):
    """Messages with the same fields: their positions among all, and the ids of the rows that they show, if any."""

    fields: Several[Field]
    positions: Int64
    ids: Int64 | None = None


class TraceOutput(msgspec.Struct):
    """The output of all machines.

    `origin` is subtracted from all times, and `machine` is the machine of the sidecar's packets.
    """

    stream: InOrder
    report: Report
    timeline: Timeline
    origin: int
    tracks: Descriptors
    machine: int

    def write(self, data: bytes) -> None:
        """Writes packets."""
        self.stream.write(data)

    def make(self, packets: Callable[[], memoryview], *, worthwhile: bool = False) -> None:
        """Writes packets that are yet to be made, in a thread if they are many."""
        self.stream.make(packets, worthwhile=worthwhile)

    def write_sidecar(self, texts: Iterable[str]) -> None:
        """Writes packets of the sidecar."""
        for text in texts:
            self.write(packet(of_machine(self.machine), for_testing=message(f.TEST_EVENT, str=text)))

    def write_places(self, queues: dict[int, dict[str, Any]]) -> None:
        """Writes the columns of the tracks and counters that are new since the last call, and of these queues."""
        columns_of = cache(self.columns_of)  # a track may have very many lanes
        new = (*self.tracks.new_lanes, *self.tracks.new_counters)
        self.write_sidecar(place_texts("tracks", ((uuid, columns_of(number) | more) for uuid, number, more in new)))
        self.tracks.new_lanes.clear()
        self.tracks.new_counters.clear()
        self.write_sidecar(place_texts("queues", queues.items()))

    def columns_of(self, number: int) -> dict[str, Any]:
        """The columns of a track that aren't null; of a lane without its name, which isn't the source's."""
        columns = self.timeline.tracks[number]._asdict()
        if number >= self.timeline.first_lane:
            del columns["track"]
        return {name: value for name, value in columns.items() if value is not None}
