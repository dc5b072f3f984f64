"""Reads one CSV file of ROCm's profilers, whichever table it contains.

host/12_kernel_trace.csv: line 7        the place of a row if the file is one of a folder
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.columnar.csv_blocks import CsvBlocks, CsvRows
from ktrace.kit.text.lines import Line
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from .dispatches import DispatchRows
from .known_dispatches import KnownDispatches
from .rows import Agents, OtherRows, add_statistics
from .tables import AGENTS, COUNTERS, DISPATCH, STATS, table_kind

#: The ids of a file in a folder begin at this times its number: enough for 2^32 lines.
IDS_OF_FILE = 1 << 44


@dataclass
class RocmFile:
    """A file: its place, what its name says about its rows, and the dispatches in other files of its process.

    `scope` is the subject of its statistics. `number` is its position among the files.
    """

    source: Source
    number: int = 0
    place: str = ""
    pid: int | None = None
    host: str | None = None
    scope: str = ""
    dispatched: KnownDispatches = field(default_factory=KnownDispatches)
    remember: bool = False


#: What a format does with a line outside of tables: it may make rows of lines.
OnLine = Callable[[Line, CsvBlocks], Iterator[CsvRows]]


def read_file(
    file: RocmFile,
    conversion: Conversion,
    agents: Agents,
    rows: RowBuilder,
    on_line: OnLine | None = None,
    at_end: Callable[[], Iterator[CsvRows]] | None = None,
) -> Iterator[Batch]:
    """Yields the rows of a file; adds statistics to `rows`, agents to `agents`.

    `at_end` yields the rows that `on_line` gathered.
    """
    reading = _CsvReader(file, conversion, agents, rows)
    blocks = CsvBlocks(file.source, conversion, table_kind, place=file.place)
    for item in blocks:
        if isinstance(item, CsvRows):
            yield from reading.rows(item)
        elif isinstance(item, Line) and on_line:
            for part in on_line(item, blocks):
                yield from reading.rows(part)
        yield from rows.ready()
    for part in at_end() if at_end else ():
        yield from reading.rows(part)


class _CsvReader:
    """Makes rows of the tables of a file."""

    def __init__(self, file: RocmFile, conversion: Conversion, agents: Agents, rows: RowBuilder) -> None:
        first, pid, host = file.number * IDS_OF_FILE, file.pid, file.host
        self._file = file
        self._conversion = conversion
        self._agents = agents
        self._summaries = rows
        self._others = OtherRows(conversion, first_id=first, pid=pid, host=host)
        self._dispatches = DispatchRows(
            conversion,
            first_id=first,
            pid=pid,
            host=host,
            dispatched=file.dispatched,
            remember=file.remember,
            engines=agents.engines,
        )

    def rows(self, item: CsvRows) -> Iterator[Batch]:
        kind, file = item.table.what, self._file
        if kind in (DISPATCH, COUNTERS):
            yield from self._dispatches.rows(item)
        elif kind == AGENTS:
            self._agents.take(item, self._conversion, file.host)
        elif kind == STATS:
            add_statistics(
                item,
                self._summaries,
                self._conversion,
                first_id=file.number * IDS_OF_FILE,
                scope=file.scope,
                host=file.host,
                pid=file.pid,
            )
        else:
            yield self._others.rows(item)
