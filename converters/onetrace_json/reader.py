"""Reads the JSON of onetrace and its relatives."""

from __future__ import annotations

from collections.abc import Iterator

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.intel.tracks import device_work
from ktrace.kit.trace_json.document import read_document
from ktrace.kit.trace_json.events import Events
from ktrace.kit.trace_json.phases import mapper
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from .dialect import DIALECT
from .queues import queues_of


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields calls and device work. Raises DamagedInput if it isn't Trace Event JSON at all."""
    rows_of, queues = mapper(DIALECT), queues_of(source)

    def placed(events: Events, conversion: Conversion) -> Iterator[Batch]:
        for batch in rows_of(events, conversion):
            yield device_work(batch, queues.place, {}) if batch.record == "events" else batch

    yield from read_document(source, conversion, placed, lambda found, conversion: (), quoted=DIALECT.quoted)
    rows = RowBuilder(conversion, first_id=0)
    rows.fact("source", facts={"tool": "onetrace"})
    rows.fact("clock", facts={"kind": "session"})
    rows.fact("device", device=0, name="Intel GPU", facts={"vendor": "Intel"})
    for queue, stream in queues.streams.items():
        rows.fact("stream", device=0, stream=stream, name=f"Queue {queue}")
    yield from rows.rest()
