"""What tracy-csvexport of the Tracy profiler (github wolfpld/tracy, csvexport/) writes of a trace.

    name,src_file,src_line,total_ns,total_perc,counts,mean_ns,min_ns,max_ns,std_ns      (without an option)
    Renderer::draw,render.cpp,120,1500000,12.500000,3,500000,400000,600000,100000.000000

    name,src_file,src_line,ns_since_start,exec_time_ns,thread,value                     (-u; with -p also plots)
    Assets<A, B>::track,lib.rs,11,48210,1200,3,text of the zone
    frame time,,,48300,,,16.600000

    name,src_file,Time from start of program,GPU execution time                         (-g)
    MessageName,total_ns                                                                (-m)

Nothing is in quotes: a name with commas has more cells than the headings. `thread` is Tracy's own number of a thread;
until 2023 there was no `value`.

Reads the tables in blocks of columns, and rows whose names have commas one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.columnar.blocks import BatchBuilder, Block, timed
from ktrace.kit.columnar.csv_blocks import CsvBlocks, CsvRows, CsvTable
from ktrace.kit.columnar.text_cells import floats
from ktrace.kit.columnar.typed_cells import Field, Number, Text, Time, Whole, typed
from ktrace.kit.text.headings import find_csv
from ktrace.kit.text.lines import Line
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder
from ktrace.report import Report

STATISTICS, ZONES, GPU_ZONES, MESSAGES = "statistics of zones", "zones", "GPU zones", "messages"

_HEADINGS = {
    STATISTICS: ("name", "src_file", "src_line", "total_ns", "counts"),
    ZONES: ("name", "src_file", "src_line", "ns_since_start", "exec_time_ns"),
    GPU_ZONES: ("name", "src_file", "Time from start of program", "GPU execution time"),
    MESSAGES: ("MessageName", "total_ns"),
}

_LINES = 20


def table_kind(cells: Sequence[str]) -> str | None:
    """What a table with these headings has, None for another line."""
    return next((kind for kind, needed in _HEADINGS.items() if set(needed) <= set(cells)), None)


def probe(sample: Sample) -> Match | None:
    """DIALECT for the headings of any of the tables."""
    for number, kind in find_csv((sample.text or "")[: 1 << 14].splitlines()[:_LINES], table_kind):
        return Match(Score.DIALECT, f"has the headings of tracy-csvexport's {kind} (line {number})")
    return None


_FIELDS: dict[str, dict[str, Field]] = {
    STATISTICS: {
        "name": Text("name"),
        "total": Number("total_ns"),
        "percent": Number("total_perc"),
        "count": Whole("counts"),
        "avg": Number("mean_ns"),
        "min": Number("min_ns"),
        "max": Number("max_ns"),
        "stddev": Number("std_ns"),
    },
    ZONES: {
        "name": Text("name"),
        "ts": Time("ns_since_start"),
        "dur": Time("exec_time_ns"),
        "tid": Whole("thread"),
        "value": Text("value"),
    },
    GPU_ZONES: {"name": Text("name"), "ts": Time("Time from start of program"), "dur": Time("GPU execution time")},
    MESSAGES: {"name": Text("MessageName"), "ts": Time("total_ns")},
}

#: Columns whose cells are numbers, or empty in the rows of plots. Only the first column and the last one are texts that
#: may have a separator.
_NUMBERS = frozenset(
    (
        *("src_line", "total_ns", "total_perc", "counts", "mean_ns", "min_ns", "max_ns", "std_ns", "ns_since_start"),
        *("exec_time_ns", "thread", "Time from start of program", "GPU execution time"),
    )
)


_NUMBER = r"-?\d[\d.]*(?:e[+-]?\d+)?"


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields zones as ranges, plots as counters, messages as logs; statistics as summaries."""
    facts = RowBuilder(conversion, first_id=0)
    facts.tool_and_clock("Tracy", "session")
    lines = CsvBlocks(source, conversion, table_kind, bare_quotes=True)
    rows = _Rows(conversion)
    table: CsvTable | None = None
    odd: list[tuple[int, tuple[str, ...]]] = []
    for item in lines:
        if isinstance(item, Line):
            if table and (cells := split(item.text, table)):
                lines.used()
                odd.append((item.number, cells))
            if len(odd) < conversion.batch_rows:
                continue
        if table and odd:
            yield from rows.batches(_block(odd, table, conversion.report))
            odd.clear()
        if isinstance(item, CsvTable):
            table = item
        elif isinstance(item, CsvRows):
            yield from rows.batches(item)
    if table and odd:
        yield from rows.batches(_block(odd, table, conversion.report))
    if rows.has_gpu:
        facts.fact("device", device=0, name="GPU")
    yield from facts.rest()


def _block(odd: list[tuple[int, tuple[str, ...]]], table: CsvTable, report: Report) -> CsvRows:
    """Lines that were read one by one as rows; these count them again."""
    report.used(-len(odd))
    columns = [pa.array(cells) for cells in zip(*(cells for _, cells in odd), strict=True)]
    numbers = pa.array([number for number, _ in odd])
    return CsvRows(table, Block("line", numbers, dict(zip(table.headings, columns, strict=True))))


def split(text: str, table: CsvTable) -> tuple[str, ...] | None:
    """The cells of a line with separators in its first or last text; None if it can't be split."""
    for pattern in _patterns(table.headings, table.dialect.separator):
        if match := pattern.fullmatch(text):
            return match.groups()
    return None


@lru_cache(maxsize=8)
def _patterns(headings: tuple[str, ...], separator: str) -> list[re.Pattern[str]]:
    """A row by its numbers; in the second place that of a plot, which has a time and a value alone."""
    mark, last = re.escape(separator), len(headings) - 1
    row, plot = ["(.*?)"], ["(.*?)"]
    for index, heading in enumerate(headings[1:], 1):
        text = "(.*)" if index == last else f"([^{mark}]*)"
        row.append(f"({_NUMBER})" if heading in _NUMBERS else text)
        plot.append(f"({_NUMBER})" if heading in ("ns_since_start", "value") else "()")
    return [re.compile(mark.join(parts)) for parts in ((row, plot) if headings[last] == "value" else (row,))]


class _Rows:
    """Makes rows of the model. `has_gpu`: there were zones of a GPU."""

    def __init__(self, conversion: Conversion) -> None:
        self._conversion = conversion
        self._batches = BatchBuilder(conversion)
        self.has_gpu = False

    def batches(self, rows: CsvRows) -> Iterator[Batch]:
        """Yields the rows of one block."""
        kind = rows.table.what
        block = typed(rows, _FIELDS[kind], self._conversion.report)
        if kind == STATISTICS:
            block = block.sound(block.or_nulls("<total>").is_valid(), "no total_ns", self._conversion.report)
        elif kind == ZONES:
            block = self._with_plots(block)
        else:
            block = timed(block, self._conversion, "<ts>", dur="<dur>")
        if not len(block):
            return
        columns: dict[str, Any] = {field: block.take(f"<{field}>") for field in _FIELDS[kind]}
        ids = block.numbers.to_numpy()
        if kind == STATISTICS:
            columns |= {"kind": "range", "unit": "ns", "table": rows.table.ordinal}
            yield self._batches.summaries(block, ids, **columns)
            return
        if kind == GPU_ZONES:
            self.has_gpu = True
            columns["device"] = 0
        elif kind == ZONES:
            columns |= {"args.value": block.take("<text>"), "track": block.take("<track>")}
        kinds = block.take("<kind>")
        columns["kind"] = kinds if kinds is not None else "log" if kind == MESSAGES else "range"
        yield self._batches.events(block, ids, **columns)

    def _with_plots(self, block: Block) -> Block:
        """Tells points of plots, which have a value and no duration, from zones, whose value is a text."""
        texts, is_plot = block.or_nulls("<value>").cast(pa.string()), block.or_nulls("<dur>").is_null()
        values = floats(pc.if_else(is_plot, texts, None))
        sound = pc.or_(pc.invert(is_plot), values.is_valid())
        kept = pc.if_else(pc.or_(is_plot, pc.equal(pc.binary_length(texts), 0)), None, texts)
        tracks = pc.if_else(is_plot, block.get("<name>"), None)
        kinds = pc.if_else(is_plot, "counter", "range")
        block = block.replaced({"<value>": values, "<text>": kept, "<track>": tracks, "<kind>": kinds})
        block = block.sound(sound, "no exec_time_ns and no value", self._conversion.report)
        return timed(block, self._conversion, "<ts>", dur="<dur>", open_end=True)


FORMAT = Format(
    "tracy-csv",
    "Tracy csvexport: zones, statistics, GPU zones, messages, plots",
    patterns=("*.csv",),
    probe=probe,
    read=read,
    words=("src_file", "messagename"),
    prose=True,
)
