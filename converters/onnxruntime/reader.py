"""Reads ONNX Runtime's profiles."""

from __future__ import annotations

from collections.abc import Iterator

from ktrace.conversion import Conversion
from ktrace.input.capabilities import ByteRange
from ktrace.input.source import Source
from ktrace.kit.trace_json.document import read_document
from ktrace.kit.trace_json.events import Events
from ktrace.kit.trace_json.phases import mapper
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from .dialect import DIALECT
from .rows import completed, is_device_work

#: The profiler records no further event of the host after this one.
MOST_EVENTS = 1_000_000

_ROWS = mapper(DIALECT)


def read(source: Source, conversion: Conversion, part: ByteRange | None = None) -> Iterator[Batch]:
    """Yields the events of a session. Raises DamagedInput if the file isn't Trace Event JSON at all."""
    events = 0
    for batch in read_document(source, conversion, _rows, lambda found, conversion: (), part=part):
        if batch.record == "events" and not is_device_work(batch):
            events += len(batch)
        yield batch
    if part and part.stop is not None:
        return
    if events == MOST_EVENTS and part is None:
        conversion.report.issue("cut", "the last event", "ONNX Runtime records 1,000,000 events and no more", 0)
    rows = RowBuilder(conversion, first_id=0)
    rows.fact("source", facts={"tool": "ONNX Runtime"})
    rows.fact("clock", facts={"kind": "session"})
    yield from rows.rest()


def _rows(events: Events, conversion: Conversion) -> Iterator[Batch]:
    yield from map(completed, _ROWS(events, conversion))
