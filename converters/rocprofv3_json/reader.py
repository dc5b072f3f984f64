"""Reads rocprofv3's JSON in one pass if the tables that records refer to precede them, else in two."""

from __future__ import annotations

from collections.abc import Iterator

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.source import Source
from ktrace.kit.columnar.blocks import Batches
from ktrace.kit.trace_json.chunks import Text
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder
from ktrace.report import Report

from .records import Reader
from .tool import NEEDED, Tool
from .walk import Member, Walk


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the rows of all records. Raises DamagedInput for another document."""
    batches, rows = Batches(conversion), RowBuilder(conversion, first_id=0)
    rows.fact("clock", facts={"kind": "boottime"})
    tools: dict[int, Tool] = {}
    readers: dict[int, Reader] = {}
    with source.open() as stream:
        for item in Walk(Text(stream), conversion.report, source.path):
            tool = tools.setdefault(item.entry, Tool())
            if isinstance(item, Member):
                if item.entry not in readers and (wrong := tool.add(item.path, item.text)):
                    conversion.report.issue("bad-record", f"entry {item.entry}", wrong, 0)
                continue
            if item.entry not in readers:
                counters_first = ("callback_records",) in tool.known
                if not tool.known.issuperset(NEEDED):
                    _look_ahead(source, item.entry, tool)
                readers[item.entry] = Reader(tool, batches, conversion, counters_first=counters_first)
            yield from readers[item.entry].read(item)
    if not tools:
        raise DamagedInput(
            "it contains no entry",
            path=source.path,
            expected='an object with "rocprofiler-sdk-tool"',
            remedy="export it again with rocprofv3 --output-format json",
        )
    for reader in readers.values():
        yield from reader.rest()
    for tool in tools.values():
        tool.facts(rows)
    yield from rows.rest()


def _look_ahead(source: Source, entry: int, tool: Tool) -> None:
    """Reads all members of an entry, including those after the records."""
    with source.open(quiet=True) as stream:
        for item in Walk(Text(stream), Report(), source.path, members_only=True):
            if isinstance(item, Member) and item.entry == entry:
                tool.add(item.path, item.text)
