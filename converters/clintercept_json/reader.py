"""Reads the layer's JSON."""

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
from .work import place, without_tracks


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields calls and device work. Raises DamagedInput if it isn't Trace Event JSON at all."""
    rows_of, queues = mapper(DIALECT), queues_of(source)

    def placed(events: Events, conversion: Conversion) -> Iterator[Batch]:
        for batch in rows_of(events, conversion):
            if batch.record == "events":
                yield device_work(batch, place, queues.device_of)
            elif batch.record == "catalog":
                yield without_tracks(batch)
            else:
                yield batch

    yield from read_document(source, conversion, placed, lambda found, conversion: (), DIALECT.folded)
    rows = RowBuilder(conversion, first_id=0)
    rows.fact("source", facts={"tool": "Intercept Layer for OpenCL Applications"})
    rows.fact("clock", facts={"kind": "session"})
    for device, name in enumerate(queues.devices):
        rows.fact("device", device=device, name=name, facts={"api": "opencl"})
    for queue, device in queues.device_of.items():
        rows.fact("stream", device=device, stream=queue, name=queues.names[queue])
    yield from rows.rest()
