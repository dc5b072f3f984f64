"""A whole Trace Event JSON document: its events as columns to the phases, its other members one by one.

What a room calls, and what it hands over:

    read_document(source, conversion, rows, member, folded, quoted=False, part=None) -> Iterator[Batch]

    rows(events: Events, conversion: Conversion) -> Iterator[Batch]
        is called for some events of the document at a time, in any process, with `conversion.report` that of the part;
        it keeps no state from one call to the next. It says what became of each event: report.used(n) for those that
        gave rows, report.used(n, outcome="catalog"), report.issue("bad-record", f"id {at}", ...). The decoder has
        called report.record() for all, and has settled those that it can't hand over: `{}` and null ("structure"), what
        isn't an object or can't be repaired (bad-record).

    member(found: Member, conversion: Conversion) -> Iterable[Batch]
        is called in the parent process for each member of a top-level object that is no list of events, in the order
        of the document: deviceProperties, baseTimeNanoseconds, otherData, stackFrames, ... wherever they stand. Members
        are no records: nothing is counted. One of more than `LARGEST_MEMBER` bytes is reported, and not handed over.

    part
        is the range of the first list of events that is read; `member` is called with the last range alone.

    folded
        are categories of which flows say what other events say, too (by `correlation`): the decoder counts them, and
        makes no columns of them, so that `rows` sees only those that have something of their own.

    quoted
        says that the program always writes its numbers in quotes: they are no repair then.

The columns of `Events`, beyond what events.py says: texts are dictionary<int32, string>; lists, objects, null and
columns of several types are dictionary<int32, binary>, the JSON text as it stands (lists such as grid always so, hence
one parse for each distinct text: `column.dictionary`); numbers all int are int64, all with a point or exponent float64.
The same event has the same values at every reading, though a column's type may differ between two `Events`.
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

from .byte_ranges import read_range
from .chunks import Text
from .containers import Document
from .events import Events
from .member import Member, MemberOf, RowsOf

#: Bytes of a stored (compressed) file from which on several processes read it.
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
    """The batches of a document, bounded by the batch whatever the size of the document.

    Raises DamagedInput for what is no Trace Event JSON at all.
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
        ) as found,
    ):
        for item in found:
            if isinstance(item, Events):
                yield from rows(item, conversion)
            elif isinstance(item, Member):
                yield from member(item, conversion)
            else:  # other processes made it
                yield item


@contextmanager
def _opened(source: Source, conversion: Conversion) -> Iterator[tuple[BinaryIO, str]]:
    """The text as a stream, and the file that has it, if several processes are to read it.

    Compressed input that is worth it is inflated into a temporary file first.
    """
    if conversion.jobs > 1 and may_fork() and (source.size or 0) >= LEAST_STORED:
        with source.local_path() as path, path.open("rb") as stream:
            yield stream, str(path)
    else:
        with source.open() as stream:
            yield stream, ""
