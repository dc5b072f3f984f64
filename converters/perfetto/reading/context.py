"""What one reading knows: the report, texts, tracks, clocks and the state of each sequence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.kit.columnar.dictionaries import constant, words
from ktrace.model.arrays import Int64
from ktrace.model.batch import Batch

from ..proto.sidecar import Sidecar
from .argument_values import Chunk, Values
from .clocks import Clocks
from .sequence_state import SequenceState, TextPool
from .tracks import Tracks


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
    clocks: Clocks = field(default_factory=Clocks)
    trace_texts: TextPool = field(default_factory=TextPool)
    argument_names: TextPool = field(default_factory=TextPool)
    sequences: dict[int, SequenceState] = field(default_factory=dict)
    observer: StageObserver | None = None  # collects what GPU tabs of viewers need
    #: Metrics whose kernels aren't known yet, and their machines.
    kernel_metrics: list[tuple[Batch, Int64]] = field(default_factory=list)
    known_flows: set[int] = field(default_factory=set)
    open_states: set[int] = field(default_factory=set)  # places with an open state
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

    def source(self) -> str:
        """The source of rows whose place has none."""
        if self.by_ktrace:
            for place in self.tracks.places:
                if "source" in place.columns:
                    return str(place.columns["source"])
        return self.conversion.label
