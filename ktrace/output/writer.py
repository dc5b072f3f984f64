"""The protocols that the `writer.py` of a room implements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ktrace.conversion import Conversion
    from ktrace.model.batch import Batch
    from ktrace.output.sink import Sink
    from ktrace.stages.order.timeline import Timeline, TimelineBatch


class TableWriter(Protocol):
    """A writer that accepts batches in any order."""

    def __init__(self, sink: Sink, conversion: Conversion) -> None: ...

    def write(self, batch: Batch) -> int:
        """Writes the rows and returns how many it kept, not counting the catalog."""

    def close(self) -> None:
        """Finishes the output."""


class TimelineWriter(Protocol):
    """A writer that accepts the rows of the stage `order`: sorted, paired and nested, with their arrows.

    A writer may have an attribute `left_out`: what it didn't keep of the last batch, in words, for the report.
    """

    def __init__(self, sink: Sink, conversion: Conversion) -> None: ...

    def start(self, timeline: Timeline) -> None:
        """Receives the catalog, the tracks and the span, before the first batch."""

    def write(self, batch: TimelineBatch) -> int:
        """Writes the rows and returns how many events and arrow ends it kept."""

    def close(self) -> None:
        """Finishes the output."""
