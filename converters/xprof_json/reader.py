"""Reads the JSON of XLA's profiler: processes are planes, threads are their lines."""

from __future__ import annotations

from collections.abc import Iterator

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.trace_json.dialect import Dialect, Into, Rule
from ktrace.kit.trace_json.document import read_document
from ktrace.kit.trace_json.events import Events
from ktrace.kit.trace_json.phases import mapper
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from .lines import Lines, lines_of
from .rows import on_lines

#: What an event is follows from its line, not from a category: there are none.
DIALECT = Dialect(cats={}, other=Rule("range", columns={"correlation_id": Into("correlation", "digits")}))


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields work, calls, ranges and instants. Raises DamagedInput if it isn't Trace Event JSON at all."""
    lines: Lines = lines_of(source)
    rows_of = mapper(DIALECT)

    def placed(events: Events, conversion: Conversion) -> Iterator[Batch]:
        for batch in rows_of(events, conversion):
            yield on_lines(batch, lines)

    yield from read_document(source, conversion, placed, lambda found, conversion: ())
    rows = RowBuilder(conversion, first_id=0)
    rows.fact("source", facts={"tool": "XLA profiler"})
    rows.fact("clock", facts={"kind": "session"})
    yield from rows.rest()
