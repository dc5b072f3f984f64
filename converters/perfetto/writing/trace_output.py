"""What the machines of a trace share: the output, the tracks, and the sidecar."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, islice
from typing import Any

from ktrace.model.tracks import Track
from ktrace.parallel.threads import InOrder
from ktrace.report import Report
from ktrace.stages.order.timeline import Timeline

from ..proto import field_numbers as f
from ..proto.sidecar import place_texts
from ..proto.wire import bytes_field, text_field
from .descriptors import Descriptors
from .sequences import of_machine, packet


@dataclass
class TraceOutput:
    """The output of all machines.

    `origin` is subtracted from all times, and `machine` is the machine of the sidecar's packets.
    """

    stream: InOrder
    report: Report
    timeline: Timeline
    origin: int
    tracks: Descriptors
    machine: int
    #: How many tracks and counters the sidecar has described so far.
    _described: list[int] = field(default_factory=lambda: [0, 0])

    def write(self, data: bytes) -> None:
        """Writes packets."""
        self.stream.write(data)

    def make(self, packets: Callable[[], memoryview], *, worthwhile: bool = False) -> None:
        """Writes packets that are yet to be made, in a thread if they are many."""
        self.stream.make(packets, worthwhile=worthwhile)

    def write_sidecar(self, texts: Iterable[str]) -> None:
        """Writes packets of the sidecar."""
        for text in texts:
            event = bytes_field(f.TRACE_PACKET["for_testing"], text_field(f.TEST_EVENT["str"], text))
            self.write(packet(of_machine(self.machine) + event))

    def write_places(self, queues: dict[int, dict[str, Any]]) -> None:
        """Writes the columns of the tracks and counters that are new since the last call, and of these queues."""
        self.write_sidecar(place_texts("tracks", chain(self._new_lanes(), self._new_counters())))
        self.write_sidecar(place_texts("queues", queues.items()))

    def _new_lanes(self) -> Iterator[tuple[int, dict[str, Any]]]:
        of = cache(lambda number: columns_of(self.timeline.tracks[number]))  # a track may have very many lanes
        for uuid, number in islice(self.tracks.lanes(), self._described[0], None):
            self._described[0] += 1
            yield uuid, of(number)

    def _new_counters(self) -> Iterator[tuple[int, dict[str, Any]]]:
        for uuid, number, name, unit in islice(self.tracks.counters(), self._described[1], None):
            self._described[1] += 1
            yield uuid, columns_of(self.timeline.tracks[number]) | {"counter": name} | ({"unit": unit} if unit else {})


def columns_of(track: Track) -> dict[str, Any]:
    """The track columns that aren't null."""
    return {name: value for name, value in track._asdict().items() if value is not None}
