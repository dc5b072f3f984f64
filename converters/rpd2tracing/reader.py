"""Reads rpd2tracing's JSON."""

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

from .devices import gpus_of
from .dialect import DIALECT


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields work, calls, counters and launches. Raises DamagedInput if it isn't Trace Event JSON at all."""
    gpus, rows_of = gpus_of(source), mapper(DIALECT)

    def placed(events: Events, conversion: Conversion) -> Iterator[Batch]:
        for batch in rows_of(events, conversion):
            yield on_devices(batch, gpus)

    yield from read_document(source, conversion, placed, lambda found, conversion: (), quoted=DIALECT.quoted)
    rows = RowBuilder(conversion, first_id=0)
    rows.fact("source", facts={"tool": "rpd2tracing"})
    rows.fact("clock", facts={"kind": "monotonic"})
    yield from rows.rest()
