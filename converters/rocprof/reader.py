"""rocprof's and rocprofv2's tables, CSV and printed, as kernels, calls, counters and summaries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.columnar.blocks import Block
from ktrace.kit.columnar.csv_blocks import CsvBlocks, CsvRows, CsvTable
from ktrace.kit.rocm.csv_file import IDS_OF_FILE, RocmFile, read_file
from ktrace.kit.rocm.rows import Agents
from ktrace.kit.rocm.tables import table_kind
from ktrace.kit.text.headings import Dialect
from ktrace.kit.text.lines import Line
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from .printed import printed_counter, printed_row

#: rocprof's own messages.
_MESSAGE = re.compile(
    r"(?:RPL|ROCP?[Rr]of\w*|ROCtracer|Enabling|File '.*' is generating|dump json)\b.*|.*contexts collected.*",
    re.DOTALL,
)

#: `results.hip_stats.csv`
_STATS = re.compile(r"(?:.*\.)?(\w*stats)\.csv")


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields events for rows with times, summaries for the others."""
    scope = _STATS.fullmatch(PurePath(source.name).name)
    printed = _Printed(conversion)
    agents, rows = Agents(), RowBuilder(conversion)
    file = RocmFile(source, scope=scope[1] if scope else "")
    yield from read_file(file, conversion, agents, rows, printed.line, printed.rest)
    agents.facts(rows, IDS_OF_FILE)
    rows.fact("clock", facts={"kind": "monotonic"})
    yield from rows.rest()


class _Printed:
    """Gathers printed rows while they belong to the same kind of table."""

    def __init__(self, conversion: Conversion) -> None:
        self._size = conversion.batch_rows
        self._gathered: list[tuple[int, dict[str, str]]] = []
        self._what: str | None = None

    def line(self, line: Line, blocks: CsvBlocks) -> Iterator[CsvRows]:
        """Takes a line outside of CSV tables; yields gathered rows if it begins another table."""
        if (counter := printed_counter(line.text)) and self._gathered:
            self._gathered[-1][1][counter[0]] = counter[1]
            blocks.became("counters")
        elif row := printed_row(line.text):
            what = table_kind(list(row))
            if what is None:
                return
            if len(self._gathered) >= self._size or (self._gathered and what != self._what):
                yield from self.rest()
            self._what = what
            self._gathered.append((line.number, row))
            blocks.defer()
        elif _MESSAGE.fullmatch(line.text.strip()):
            blocks.structure()

    def rest(self) -> Iterator[CsvRows]:
        """Yields the gathered rows."""
        gathered, self._gathered = self._gathered, []
        if gathered:
            names = tuple(dict.fromkeys(name for _, row in gathered for name in row))
            columns = {name: pa.array([row.get(name, "") for _, row in gathered], pa.string()) for name in names}
            table = CsvTable(0, gathered[0][0], names, ("",) * len(names), self._what, Dialect("", False))
            yield CsvRows(table, Block("line", pa.array([number for number, _ in gathered], pa.int64()), columns))
