"""Reads Kineto traces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ktrace.conversion import Conversion
from ktrace.errors import ClosedFormat
from ktrace.input.capabilities import ByteRange
from ktrace.input.source import Source
from ktrace.kit.trace_json.document import read_document
from ktrace.kit.trace_json.member import Member
from ktrace.kit.trace_json.phases import mapper
from ktrace.model.batch import Batch
from ktrace.model.fitting import fitted_facts
from ktrace.model.json_text import dump_json
from ktrace.model.row_builder import to_batch

from . import MEMORY_BY_CATEGORY, MEMORY_TIMELINE, NUMBERS
from .dialect import DIALECT
from .facts import clock, facts_of
from .memory_timeline import read_memory_by_category, read_memory_timeline
from .stacks import read_stacks
from .work_items import in_blocks

#: Times after this (ns; September 2001) count from 1970, as Kineto wrote them before it had baseTimeNanoseconds.
_SINCE_1970 = 10**18


def read(source: Source, conversion: Conversion, part: ByteRange | None = None) -> Iterator[Batch]:
    """Yields the batches of a trace, a memory timeline, or stacks with their times.

    Raises DamagedInput if the file isn't Trace Event JSON at all, ClosedFormat for an HTML page with a picture.
    """
    with source.open(quiet=True) as stream:
        head = stream.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
    if MEMORY_TIMELINE.match(head):
        return read_memory_timeline(source, conversion)
    if MEMORY_BY_CATEGORY.match(head):
        return read_memory_by_category(source, conversion)
    if head[:1] == b"<":
        raise ClosedFormat("is an HTML page, not a trace", path=source.path, remedy=NUMBERS)
    if head and head[:1] not in b"[{":
        return read_stacks(source, conversion)
    return _read_trace(source, conversion, part)


def _read_trace(source: Source, conversion: Conversion, part: ByteRange | None) -> Iterator[Batch]:
    """Yields the events of all categories, the links, and the facts of the document."""
    facts: list[Batch] = []
    anchored = False

    def read_member(member: Member, conversion: Conversion) -> Iterable[Batch]:
        nonlocal anchored
        anchored |= member.key == "baseTimeNanoseconds"
        facts.extend(_facts(member, conversion))
        return ()

    first = None
    events = read_document(source, conversion, mapper(DIALECT), read_member, DIALECT.folded, part=part)
    for batch in in_blocks(events):
        if first is None and batch.record == "events":
            first = batch.columns.column("ts")[0].as_py()
        yield batch
    yield from facts
    if part and part.stop is not None:
        return  # only the worker of the last byte range has seen whether there is an anchor
    if first is not None and first > _SINCE_1970 and not anchored:
        yield to_batch("catalog", [_row(clock("unix", unix_ns=0), conversion, 0)])


def _facts(member: Member, conversion: Conversion) -> Iterable[Batch]:
    """Returns the facts in a member of the document."""
    rows = [_row(row, conversion, member.byte) for row in facts_of(member.key, member.value())]
    return [to_batch("catalog", fitted_facts(rows))] if rows else []


def _row(row: dict[str, object], conversion: Conversion, identity: int) -> dict[str, object]:
    complete = row | {"source": conversion.label, "id": identity, "facts": dump_json(row["facts"])}
    return {name: cell for name, cell in complete.items() if cell is not None}
