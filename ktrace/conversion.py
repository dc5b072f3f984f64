"""What a reader or writer is told about the conversion that it is part of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ktrace.report import Report

if TYPE_CHECKING:
    from ktrace.model.arrays import Int64


@dataclass
class Span:
    """Bytes of a document whose events one reading takes, while others take the rest.

    The events begin at `start` exactly, or where `guessed` at the first one that can be told there or behind, and go
    on to the first that begins at `stop` or behind. With `stop` None they go to the end of the document, and what it
    says beside its events, in front of them as well, is taken, too.

    What the reader met: where its events begin (`begun`) and end (`end`), whether that is the `closed` list's end, and
    with `stop` None where the list of events begins (`list`). -1 is not known.
    """

    start: int
    stop: int | None = None
    guessed: bool = True
    begun: int = -1
    end: int = -1
    closed: bool = False
    list: int = -1


@dataclass
class Conversion:
    """The settings of one conversion and the report that it fills.

    `label` is the source label of the rows that are read, `batch_rows` the greatest size of a batch.
    `progress`, if given, is told how many bytes of the input were taken. `jobs` is how many processes may work.
    `columns` are those that will be looked at, None for all; a reader to which it makes a difference may leave out
    others. `ids` are of the rows that will be looked at, sorted, None for all; a reader that finds rows by id may leave
    out others, uncounted. `ranks` are those of which rows will be looked at, None for all; a reader that knows the rank
    of whole files may leave out those of others, and notes it. `span` is the part of the input that is to be read, one
    of those that `Format.spans` gives.
    """

    report: Report
    label: str = "input"
    batch_rows: int = 65_536
    options: Mapping[str, str] = field(default_factory=dict)
    progress: Callable[[int], None] | None = None
    jobs: int = 1
    columns: frozenset[str] | None = None
    ids: Int64 | None = None
    ranks: frozenset[int] | None = None
    span: Span | None = None
