"""Reads unitrace's JSON."""

from __future__ import annotations

from collections.abc import Iterator

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.trace_json.document import read_document
from ktrace.kit.trace_json.events import Events
from ktrace.kit.trace_json.gpus import on_devices
from ktrace.kit.trace_json.phases import mapper
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from .decorations import in_parts, launches, marked
from .dialect import DIALECT
from .places import devices_in, opencl_queues, small_streams


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields device work, calls, ranges and launches. Raises DamagedInput if it isn't Trace Event JSON at all."""
    rows_of, opencl = mapper(DIALECT), opencl_queues(source)

    def placed(events: Events, conversion: Conversion) -> Iterator[Batch]:
        for batch in rows_of(events, conversion):
            found = small_streams(on_devices(batch, devices_in(batch)))
            if found.record == "events":
                found = marked(in_parts(found, opencl))
            elif found.record == "links":
                found = launches(found)
            yield found

    yield from read_document(source, conversion, placed, lambda found, conversion: ())
    rows = RowBuilder(conversion, first_id=0)
    rows.fact("source", facts={"tool": "unitrace"})
    rows.fact("clock", facts={"kind": "unix"})
    yield from rows.rest()
