"""What some formats can do beyond reading a whole input: the types of those functions of a `Format`.

read_part     some columns or some rows (`Pushdown`), in a fraction of the time that all of them take
read_range    one of the ranges of bytes (`ByteRange`) into which `ranges` cuts an input
read_nodes    the operators of a run with their arguments (`OpNode`), for `--execution-trace`
export        a file of another format with the same content, which lives as long as it is read:

    run.nsys-rep  ──► nsys export ──► /tmp/ktrace.x/run.sqlite ──► the reader of `nsys`

A format without `read_part` is read whole: then more comes back than was asked for. And what `read` of another package
must keep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ktrace.errors import KtraceError

if TYPE_CHECKING:
    from ktrace.conversion import Conversion
    from ktrace.input.source import Source
    from ktrace.model.arrays import Int64
    from ktrace.model.batch import Batch

    Make = Callable[[Source, Conversion], AbstractContextManager[Source]]


class Pushdown(msgspec.Struct, frozen=True):
    """The columns and rows that will be looked at. Each field is None for all; a reader may leave out others.

    Attributes
    ----------
    columns
        Names of columns. Columns that are never null come back in any case.
    ids
        Ids of rows, sorted. Rows left out by id are not counted.
    ranks
        Ranks of sources. Rows of other ranks that are left out are counted in the report.
    """

    columns: frozenset[str] | None = None
    ids: Int64 | None = None
    ranks: frozenset[int] | None = None

    def __bool__(self) -> bool:
        return self.columns is not None or self.ids is not None or self.ranks is not None


class ByteRange(msgspec.Struct):
    """A range of bytes of a document, whose events one worker reads while others read the rest.

    Its events begin at `start`, or where `guessed` at the first event that can be recognised from there on, and end
    before the first event that begins at `stop` or later. The range with `stop` None goes to the end of the document
    and also reads everything next to the list of events, even what comes before it.

    The reader fills in what it found, -1 where unknown: where its events `begun` and `end`, whether the list is
    `closed` there, and for the last range where the `list` of events begins.
    """

    start: int
    stop: int | None = None
    guessed: bool = True
    begun: int = -1
    end: int = -1
    closed: bool = False
    list: int = -1


class OpNode(NamedTuple):
    """An operator of an execution trace: its record-function id (0 if it has none), process and name.

    `args` has the JSON text of each argument by name.
    """

    record_function: int
    pid: int | None
    name: str
    args: dict[str, bytes]


_kept: ContextVar[tuple[ExitStack, dict[str, Source]] | None] = ContextVar("kept", default=None)


@contextmanager
def kept_exports() -> Iterator[None]:
    """Within this block a file that was made for an input is kept for its next reading."""
    with ExitStack() as stack:
        token = _kept.set((stack, {}))
        try:
            yield
        finally:
            _kept.reset(token)


@contextmanager
def exported_source(make: Make, source: Source, conversion: Conversion) -> Iterator[Source]:
    """Yields the source with the file that `make` makes for it. Raises what `make` raises."""
    kept = _kept.get()
    if kept is None:
        with make(source, conversion) as made:
            yield made
        return
    stack, sources = kept
    if source.path not in sources:
        sources[source.path] = stack.enter_context(make(source, conversion))
    yield sources[source.path]


def guarded(
    reader: str,
    read: Callable[[Source, Conversion], Iterator[Batch]],
    source: Source,
    conversion: Conversion,
) -> Iterator[Batch]:
    """Yields the batches that the reader of a plug-in yields.

    Raises what it raises, TypeError for anything but a batch, and KtraceError if it doesn't account for every record.
    """
    from ktrace.model.batch import Batch

    for batch in iter(read(source, conversion)):
        if not isinstance(batch, Batch):
            raise TypeError(f"it yields a {type(batch).__name__}, not a Batch")
        yield batch
    if not conversion.report.reader.balanced():
        ledger = conversion.report.reader
        accounted = ledger.given + ledger.removed.total() - ledger.added.total()
        raise KtraceError(
            f"{reader} counted {ledger.taken:,} records, but accounted for {accounted:,}",
            path=source.path,
            remedy="report it to the authors of that package, or name another format",
        )
