"""nvprof's tables, CSV and printed, as events and summaries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.columnar.blocks import Block
from ktrace.kit.columnar.csv_blocks import CsvBlocks, CsvRows, CsvTable
from ktrace.kit.text.headings import Dialect, Heading, heading
from ktrace.kit.text.lines import Line
from ktrace.kit.text.titles import without_prefix
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from .figures import Figures, with_unit
from .printed import (
    DEVICE,
    Printed,
    launch_row,
    memory_row,
    metric_row,
    opened,
    path_row,
    sampled_row,
    summary_row,
    trace_row,
)
from .tables import MEMORY, METRICS, SUMMARY, TRACE, shifted, table_kind
from .traces import IDS, Traces, bytes_of

_PREFIX = re.compile(r"\s*(?:==(\d{1,18})==|={6,}) ?")
_COMMAND = re.compile(r"(?:NV|PG)PROF is profiling process (\d{1,18}), command: (.*)")
_WARNING = re.compile(r"(?:Warning|Error): .*")
_NOTHING = re.compile(r"No (?:kernels|API activities|events/metrics) were profiled\.\s*")
_SCOPE = re.compile(r"(API calls|Open\w+ \(\w+\)|CPU profiling result \([\w -]+\)|Dependency Analysis|NVTX result):?.*")
_RANGE = re.compile(r"\s*(Thread|Domain|Range) \"(.*)\"(?: \(id = (\d{1,18})\))?\s*")
_FAULTS = re.compile(r"Total CPU Page faults: (\d+)\s*")
_LEGEND = re.compile(r"(?:Regs|SSMem|DSMem|SrcMemType|DstMemType): .*")
_SUMMARY_HEADINGS = tuple(map(heading, ("Type", "Time(%)", "Time", "Calls", "Avg", "Min", "Max", "Name")))
_MEMORY_NAMES = ("Device", "Count", "Avg Size", "Min Size", "Max Size", "Total Size", "Total Time", "Name")
_MEMORY_HEADINGS = tuple(map(heading, _MEMORY_NAMES))


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields events from traces, summaries from the other tables. Skips and reports the program's own output."""
    reading = _NvprofReader(source, conversion)
    for item in reading.blocks:
        if isinstance(item, CsvTable):
            yield from reading.end_printed()
            reading.begin(item)
        elif isinstance(item, CsvRows):
            yield from reading.rows_of(item)
        else:
            yield from reading.line(item)
        yield from reading.rows.ready()
    yield from reading.end_printed()
    reading.facts()
    yield from reading.rows.rest()


class _NvprofReader:
    """The state of reading: the open table, and its rows that are gathered for a batch."""

    def __init__(self, source: Source, conversion: Conversion) -> None:
        self.blocks = CsvBlocks(source, conversion, table_kind)
        self.rows = RowBuilder(conversion)
        self._conversion = conversion
        factors = bytes_of(source.sample())
        self._traces = Traces(conversion, factors)
        self._figures = Figures(self.rows, self._traces.devices, factors)
        self._printed: Printed | None = None
        self._table: CsvTable | None = None
        self._gathered: list[tuple[int, dict[str, str]]] = []
        self._commands: dict[int, str] = {}
        self._tables = 0
        self._scope = ""
        self._last = 0

    def begin(self, table: CsvTable) -> None:
        """Begins a CSV table."""
        self._printed, self._table = None, table
        self._tables += 1
        self._last = table.line
        self._figures.begin(self._scope)

    def rows_of(self, item: CsvRows) -> Iterator[Batch]:
        """Yields rows of a CSV table."""
        self._last = item.block.numbers[-1].as_py()
        if item.table.what == TRACE:
            yield self._traces.events(item)
            return
        headings = [with_unit(name, unit) for name, unit in zip(item.table.headings, item.table.units, strict=True)]
        keys = [name.casefold() for name in item.table.headings]
        columns = [item.block.take(name).to_pylist() for name in item.table.headings]  # type: ignore[union-attr]
        for index, line in enumerate(item.block.numbers.to_pylist()):
            cells = [column[index] for column in columns]
            row, table = dict(zip(keys, cells, strict=True)), self._tables - 1
            if item.table.what == SUMMARY:
                wrong = self._figures.summary(line, table, headings, cells)
            elif item.table.what == METRICS:
                wrong = self._figures.metric(line, table, row)
            elif item.table.what == MEMORY:
                wrong = self._figures.memory(line, table, headings, cells)
            else:
                wrong = self._launch(line, table, headings, cells)
            if wrong:
                self._conversion.report.issue("bad-record", f"line {line}", wrong)
            else:
                self._conversion.report.used()
            yield from self.rows.ready()

    def _launch(self, line: int, table: int, headings: Sequence[Heading], cells: Sequence[str]) -> str | None:
        plain_names = {"device", "context", "stream", "kernel", "correlation_id"}
        names = [head.text.casefold() if head.text.casefold() in plain_names else head.text for head in headings]
        row = dict(zip(names, cells, strict=True))
        units = {name: head.unit for name, head in zip(names, headings, strict=True) if name not in plain_names}
        return self._figures.launch(line, table, row, units)

    def line(self, read_line: Line) -> Iterator[Batch]:
        """Takes a line that isn't a row of a CSV table."""
        self._last = read_line.number
        line = Line(read_line.number, without_prefix(read_line.text))
        if prefix := _PREFIX.match(line.text):
            yield from self._message(line.text[prefix.end() :], int(prefix[1]) if prefix[1] else None)
        elif _NOTHING.fullmatch(line.text):
            self._note(line.text.strip(), line.number)
        elif table := opened(line.text, self._tables):
            yield from self.end_printed()
            self._printed, self._table = table, None
            self._tables += 1
            self._figures.begin(self._scope)
            self.blocks.structure()
        elif _LEGEND.fullmatch(line.text):
            self.blocks.structure()
        elif faults := _FAULTS.fullmatch(line.text):
            self._note("Total CPU Page faults", line.number, value=float(faults[1]))
        elif (place := DEVICE.fullmatch(line.text)) and not (
            self._printed and self._printed.kind in ("metrics", "events")
        ):
            self._figures.device = place[1]
            self.blocks.structure()
        elif self._printed:
            self._row(self._printed, line)
        elif self._table and (row := shifted(self._table, line.text)):
            self._gathered.append((line.number, row))
            self.blocks.defer()
        if len(self._gathered) >= self._conversion.batch_rows:
            yield from self.end_printed()

    def _message(self, words: str, pid: int | None) -> Iterator[Batch]:
        """Takes a message of nvprof: the process, the subject of the tables that follow, a warning."""
        if pid is not None and pid != self._traces.pid:
            yield from self.end_printed()  # its rows belong to the previous process
            self._traces.pid = self._figures.pid = pid
        if match := _COMMAND.fullmatch(words):
            self._commands[int(match[1])] = match[2]
            self._traces.pid = self._figures.pid = int(match[1])
        if _WARNING.fullmatch(words) or _NOTHING.fullmatch(words):
            self._note(words, self._last)
        elif faults := _FAULTS.fullmatch(words):
            self._note("Total CPU Page faults", self._last, value=float(faults[1]))
        elif place := _RANGE.fullmatch(words):
            self._figures.within(place[1], place[2])
            self.blocks.structure()
        else:
            self.blocks.structure()
            if words.rstrip().endswith(":"):
                yield from self._section(words)

    def _section(self, words: str) -> Iterator[Batch]:
        """Begins a section of tables with another subject."""
        scope = _SCOPE.fullmatch(words)
        self._scope = scope[1] if scope else ""
        self._figures.device = ""
        self._figures.ranges.clear()
        if self._scope.startswith("CPU"):  # older versions have no headings
            yield from self.end_printed()
            self._printed = Printed("samples", self._tables)
            self._tables += 1
            self._figures.begin(self._scope)

    def _note(self, words: str, line: int, **columns: float) -> None:
        kind, metric = ("metric", "count") if columns else ("note", "note")
        self.rows.summary(kind, words, metric=metric, id=line * IDS, pid=self._figures.pid, **columns)
        self.blocks.used()

    def _row(self, table: Printed, line: Line) -> None:
        """Takes a row of a printed table; leaves another line to be reported."""
        if table.shape:
            if row := trace_row(table.shape, line.text):
                self._gathered.append((line.number, row))
                self.blocks.defer()
            return
        wrong: str | None = ""
        if table.kind == "summary":
            if match := summary_row(line.text):
                wrong = self._figures.summary(line.number, table.ordinal, _SUMMARY_HEADINGS, list(match.values()))
        elif table.kind == "path":
            if path := path_row(line.text):
                wrong = self._figures.path(line.number, table.ordinal, *path)
        elif table.kind == "samples":
            if sampled := sampled_row(line.text):
                wrong = self._figures.sampled(line.number, table.ordinal, sampled)
        elif table.kind == "launches":
            if launch := launch_row(table, line.text):
                wrong = self._launch(line.number, table.ordinal, [*map(heading, table.headings)], launch)
        elif table.kind == "memory":
            if cells := memory_row(line.text, self._figures.device):
                wrong = self._figures.memory(line.number, table.ordinal, _MEMORY_HEADINGS, cells)
        else:
            metric = metric_row(table, line.text)
            if metric:
                wrong = self._figures.metric(line.number, table.ordinal, metric)
            elif metric is not None:
                self.blocks.structure()
        if wrong is None:
            self.blocks.used()
        elif wrong:
            self.blocks.skip("bad-record", wrong)

    def end_printed(self) -> Iterator[Batch]:
        """Yields the batch of the remaining rows of a printed trace."""
        gathered, self._gathered = self._gathered, []
        if gathered:
            yield self._traces.events(_as_rows(gathered))

    def facts(self) -> None:
        """Adds devices and processes to the catalog."""
        first = (self._last + 1) * IDS
        for number, name in sorted(self._traces.devices.items()):
            first = self.rows.fact("device", id=first, device=number, name=name, facts={"api": "cuda"}) + 1
        for pid, command in self._commands.items():
            first = self.rows.fact("process", id=first, pid=pid, name=command) + 1


def _as_rows(gathered: Sequence[tuple[int, Mapping[str, str]]]) -> CsvRows:
    """Rows of a printed trace as those of a CSV one."""
    names = tuple(gathered[0][1])
    columns = {name: pa.array([row.get(name, "") for _, row in gathered], pa.string()) for name in names}
    table = CsvTable(0, 0, names, ("",) * len(names), TRACE, Dialect("", False))
    return CsvRows(table, Block("line", pa.array([number for number, _ in gathered], pa.int64()), columns))
