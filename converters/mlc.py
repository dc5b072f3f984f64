"""Kernel statistics of MLC-LLM and WebLLM in Markdown, made by scripts from the log of GPU timestamps.

    ## Profiling Analysis: Llama 3.2 1B q4f16_1 on Apple M2
    ### Kernel Execution Statistics (Sorted by Total Time)
    Kernel Name          | Total_Time_ms | Iterations | Avg_Time_ms | Peak_Time_ms | % of Total | Cumulative %
    -----------------------------------------------------------------------------------------------------------
    NT_matmul7_kernel_2  | 1030.28       | 64         | 16.10       | 40.57        | 45.64%     | 45.64%

A capture often has a second table, the kernels with the highest peaks. It repeats figures of the first one.

Reads the kernels of each capture as summaries, with their peaks folded in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.headings import STATISTICS as COMMON
from ktrace.kit.text.headings import Columns, Figures, Heading, is_total, plain
from ktrace.kit.text.lines import Lines
from ktrace.kit.text.tables import Row, Table, find_tables, read_tables
from ktrace.kit.text.titles import Title
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder
from ktrace.report import Report

_TITLES = ("profiling analysis:", "kernel execution statistics")


def probe(sample: Sample) -> Match | None:
    """DIALECT for a table below one of MLC's titles, or with MLC's three characteristic columns."""
    text = sample.text
    if not text or "|" not in text or not _may_be(sample.folded):
        return None
    for table in find_tables(sample, columns_of):
        for title in table.path:
            if any(words in title.text.casefold() for words in _TITLES):
                return Match(Score.DIALECT, f"has a table of kernels below the title '{title.text}'")
        if _has_typical_columns(table):
            return Match(Score.DIALECT, f"has the columns Iterations, Peak Time and Cumulative % (line {table.line})")
    return None


def _may_be(text: str) -> bool:
    """Whether the text has the words at all; checking first avoids searching most files for tables."""
    return any(title in text for title in _TITLES) or ("iterations" in text and "cumulative" in text)


def _has_typical_columns(table: Table) -> bool:
    keys = {head.key for head in table.headings}
    return {"iterations", "cumulative %"} <= keys and PEAKS.match(table.headings) is not None


_SPELLINGS = {
    "name": ("kernel name", "kernel", "name"),
    **COMMON,
    "percent": ("of total %", "percent", "percentage", "time %", "%"),
}

#: The statistics of each kernel.
STATISTICS = Columns(_SPELLINGS, required=("name", "total", "count"), others=("cumulative %",))

#: The peaks of some kernels, which the statistics contain as well.
PEAKS = Columns({"name": _SPELLINGS["name"], "max": _SPELLINGS["max"]}, required=("name", "max"))


def columns_of(headings: Sequence[Heading], below: object = None) -> dict[str, int] | None:
    """Returns the columns of a table of statistics, else those of a table of peaks."""
    return STATISTICS.match(headings) or (PEAKS.match(headings) if len(headings) < 4 else None)


_PRECISION = re.compile(r"\bq\d+(?:b?f\d+|fp8)\w*")
_DEVICE = re.compile(r"\bon (?P<name>\S.*)$")


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a kernel for each row, a run for each capture. Keeps the rows of a capture until the next one begins."""
    lines, rows = Lines(source, conversion), RowBuilder(conversion)
    devices: dict[str, int] = {}
    capture: _Capture | None = None
    for item in read_tables(lines, columns_of):
        if isinstance(item, Table):
            _note_unknown(item, conversion.report)
        elif isinstance(item, Row):
            done = capture if capture and not capture.includes(item.table) else None
            if capture is None or done:
                capture = _Capture(_title(item.table))
            capture.take(item, lines)
            if done:
                done.write(rows, lines, devices, conversion.report)
        yield from rows.ready()
    if capture:
        capture.write(rows, lines, devices, conversion.report)
    yield from rows.rest()


def _title(table: Table) -> Title | None:
    """Returns the title of the capture: the first that mentions profiling, else the outermost of several."""
    about_profiling = (title for title in table.path if "profiling" in title.text.casefold())
    return next(about_profiling, table.path[0] if len(table.path) > 1 else None)


def _note_unknown(table: Table, report: Report) -> None:
    for heading in STATISTICS.unknown(table.headings, table.fields or {}):
        report.issue("unknown-column", f"line {table.line}", heading)


def _has_statistics(table: Table) -> bool:
    return "total" in (table.fields or {})


@dataclass
class _Capture:
    """One capture: its title, its tables, its kernels in the order of the source, and the peaks by kernel."""

    title: Title | None
    statistics: Table | None = None
    peak_table: Table | None = None
    kernels: list[tuple[Row, Figures]] = field(default_factory=list)
    peaks: dict[str, tuple[Row, Figures]] = field(default_factory=dict)

    def includes(self, table: Table) -> bool:
        """Whether a table belongs to this capture: it has the same title and is the first of its sort."""
        current = self.statistics if _has_statistics(table) else self.peak_table
        return _title(table) == self.title and (current is None or current is table)

    def take(self, row: Row, lines: Lines) -> None:
        """Reads a row; the line of a peak is deferred until its kernel is known."""
        name, figures = row.text("name"), row.figures()
        if not name or not figures:
            lines.skip("bad-record", "no figure" if name else "no name")
        elif _has_statistics(row.table):
            self.statistics = row.table
            self.kernels.append((row, figures))
            lines.used()
        elif name in self.peaks:
            lines.skip("bad-record", "a second peak of the same kernel")
        else:
            self.peak_table = row.table
            self.peaks[name] = (row, figures)
            lines.defer()

    def write(self, rows: RowBuilder, lines: Lines, devices: dict[str, int], report: Report) -> None:
        """Adds the kernels; the peak of a kernel without statistics becomes a row of its own."""
        run = self.title.text.split(":", 1)[-1].strip() if self.title else None
        precision = _PRECISION.search(run or "")
        common = {
            "run": run,
            "device": _device(run or "", devices, rows),
            "precision": precision.group() if precision else None,
        }
        for row, figures in self.kernels:
            if peak := self.peaks.pop(row.text("name"), None):
                lines.became("folded")
                _fold(*peak, row, figures, report)
            _add(rows, row, figures, common)
        for row, figures in self.peaks.values():
            lines.used()
            _add(rows, row, figures, common)


def _device(run: str, devices: dict[str, int], rows: RowBuilder) -> int | None:
    """Returns the ordinal of the device that a run's title names; adds its catalog entry the first time."""
    match = _DEVICE.search(run)
    if not match:
        return None
    name = match.group("name")
    if name not in devices:
        devices[name] = len(devices)
        rows.fact("device", device=devices[name], name=name)
    return devices[name]


def _fold(peak_row: Row, peak: Figures, row: Row, figures: Figures, report: Report) -> None:
    """Folds a peak into the statistics of its kernel; if they differ, args keep the peak table's figure."""
    where, cell = f"line {peak_row.line}", peak_row.text("max")
    report.issue("folded", where, f"into line {row.line}")
    if figures.columns.setdefault("max", peak.columns["max"]) != peak.columns["max"]:
        report.issue("disagreement", where, f"peak of {row.text('name')}: {cell}; {row.text('max')} in line {row.line}")
        table = peak_row.table
        assert table.fields is not None
        figures.args[table.headings[table.fields["max"]].text] = plain(cell)


def _add(rows: RowBuilder, row: Row, figures: Figures, common: dict[str, str | int | None]) -> None:
    table = row.table
    columns = figures.columns | common
    name = row.text("name")
    kind = "total" if is_total(name) else "kernel"
    rows.summary(kind, name, table=table.ordinal, scope=table.scope, args=figures.args, **columns)


FORMAT = Format(
    "mlc",
    "MLC kernel statistics in Markdown",
    patterns=("*.md", "*.txt"),
    probe=probe,
    read=read,
    words=("profiling analysis:", "kernel execution statistics", "cumulative"),
    prose=True,
)
