"""Reads a Trace Event JSON document: passes its events as columns to `rows`, its other members one by one to `member`.

    read_document(source, conversion, rows, member, folded, quoted=False, part=None) -> Iterator[Batch]

    rows(events: Events, conversion: Conversion) -> Iterator[Batch]
        is called with some events of the document at a time, in any process, with the `conversion.report` of that part;
        it keeps no state between calls. It states the outcome of each event: report.used(n) for those that became rows,
        report.used(n, outcome="catalog"), report.issue("bad-record", f"id {at}", ...). The decoder has called
        report.record() for all events, and has settled elements that it doesn't pass on: `{}` and null ("structure"),
        elements that aren't objects or can't be repaired ("bad-record").

    member(found: Member, conversion: Conversion) -> Iterable[Batch]
        is called in the parent process for each member of the top-level object that isn't a list of events, in the
        order of the document: deviceProperties, baseTimeNanoseconds, otherData, stackFrames, ... Members aren't
        records: they aren't counted. A member of more than `LARGEST_MEMBER` bytes is reported, not passed on.

    part
        is the byte range of the first list of events to read; `member` is called only for the last range.

    folded
        are categories whose flows repeat other events (by `correlation`): the decoder counts them and makes no columns,
        so that `rows` gets only flows with information of their own.

    quoted
        means that the program always writes its numbers in quotes, so that this isn't reported as a repair.

The columns of `Events`, in addition to events.py: texts are dictionary<int32, string>; lists, objects, null and columns
of several types are dictionary<int32, binary>, the source's JSON text (always so for lists such as grid, which are then
parsed once for each distinct text: `column.dictionary`); columns of only int are int64, of only numbers with a point or
exponent float64. The same event has the same values at every reading, but a column's type may differ between two
`Events`.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import closing, contextmanager
from typing import BinaryIO

from ktrace.conversion import Conversion
from ktrace.input.capabilities import ByteRange
from ktrace.input.source import Source
from ktrace.model.batch import Batch
from ktrace.parallel.fork import may_fork

from .chunks import Text
from .containers import Document
from .events import Events, Member, MemberOf, RowsOf
from .lists import read_range

#: A stored (compressed) file of at least this many bytes is read by several processes.
LEAST_STORED = 4 << 20


def read_document(
    source: Source,
    conversion: Conversion,
    rows: RowsOf,
    member: MemberOf,
    folded: Container[str] = (),
    *,
    quoted: bool = False,
    part: ByteRange | None = None,
) -> Iterator[Batch]:
    """Yields the batches of a document; memory is bounded by the batch, whatever the size of the document.

    Raises DamagedInput if it isn't Trace Event JSON at all.
    """
    if part and part.stop is not None:
        with source.open() as stream:
            for events in read_range(Text(stream), part, conversion.report, folded, quoted=quoted):
                yield from rows(events, conversion)
        return
    with (
        _opened(source, conversion) as (stream, file),
        closing(
            iter(Document(Text(stream), conversion, source.path, file, rows, folded, quoted=quoted, part=part))
        ) as items,
    ):
        for item in items:
            if isinstance(item, Events):
                yield from rows(item, conversion)
            elif isinstance(item, Member):
                yield from member(item, conversion)
            else:  # a batch from another process
                yield item


@contextmanager
def _opened(source: Source, conversion: Conversion) -> Iterator[tuple[BinaryIO, str]]:
    """Opens the text as a stream, and returns the file that contains it if several processes shall read it.

    Large compressed input is inflated into a temporary file first.
    """
    if conversion.jobs > 1 and may_fork() and (source.size or 0) >= LEAST_STORED:
        with source.local_path() as path, path.open("rb") as stream:
            yield stream, str(path)
    else:
        with source.open() as stream:
            yield stream, ""
