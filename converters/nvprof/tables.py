"""Recognises the tables of nvprof by their headings. Facts: its manual and real files.

Start,Duration,Grid X,...,Device,Context,Stream,Name        --print-gpu-trace, and --print-api-trace with it
Start,Duration,Name                                         --print-api-trace
Name,Start Time(ns),Duration(ns),GridX,...                  the Visual Profiler's own CSV
Name,Start Time,Duration,Grid Size,Block Size,Regs,...      its table of details
Type,Time(%),Time,Calls,Avg,Min,Max,Name                    the summary
Device,Kernel,Invocations,Metric Name,Metric Description,Min,Max,Avg      --metrics (--events: Event Name, ..., Total)
Device,Context,Stream,Kernel,Correlation_ID,ipc,...         --metrics with --print-gpu-trace: one row for each launch
Device,Count,Avg Size,Min Size,Max Size,Total Size,Total Time,Name        unified memory
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ktrace.kit.text.headings import STATISTICS, Columns, heading

from .names import device

if TYPE_CHECKING:
    from ktrace.kit.columnar.csv_blocks import CsvTable

TRACE, SUMMARY, METRICS, LAUNCHES, MEMORY = "trace", "summary", "metrics", "launches", "memory"

#: (kind of table, the headings that it has, without units and in lower case); the first match wins.
KINDS: tuple[tuple[str, frozenset[str]], ...] = (
    (METRICS, frozenset({"kernel", "invocations", "metric name"})),
    (METRICS, frozenset({"kernel", "invocations", "event name"})),
    (MEMORY, frozenset({"count", "avg size", "total size", "name"})),
    (SUMMARY, frozenset({"time %", "time", "calls", "avg", "name"})),
    (LAUNCHES, frozenset({"device", "context", "stream", "kernel"})),
    (TRACE, frozenset({"name", "start time", "duration", "gridx"})),
    (TRACE, frozenset({"name", "start time", "duration", "grid size"})),
)

#: The headings of a trace have no units; those of Nsight Systems do.
_TRACE = frozenset({"start", "duration", "name"})

#: Each table has at least one of these.
_NAMES = frozenset({"name", "kernel"})

FIGURES = Columns(
    {"name": ("name",), "type": ("type",), "device": ("device",), **STATISTICS, "total": ("time", "total time")},
    required=("name", "count"),
)


def table_kind(cells: Sequence[str]) -> str | None:
    """Returns the kind of the table with these headings, None for other tables."""
    names = {cell.casefold() for cell in cells}
    if not names & _NAMES:
        return None
    if names >= _TRACE:
        return TRACE
    keys = {heading(cell).key for cell in cells} | {heading(cell).name.casefold() for cell in cells}
    return next((kind for kind, words in KINDS if words <= keys), None)


def is_own_trace(cells: Sequence[str]) -> bool:
    """Whether only nvprof has a trace with these headings."""
    keys = {heading(cell).name.casefold() for cell in cells}
    return bool(keys & {"grid x", "gridx", "grid size"}) and bool(
        keys & {"registers per thread", "static smem", "start time"}
    )


def shifted(table: CsvTable, text: str) -> dict[str, str] | None:
    """Reads a row of a trace with one cell too many or too few before its device, as some versions write copies.

    The cells get the units of their columns appended. Returns None for another line.
    """
    names = [name.casefold() for name in table.headings]
    if table.what != TRACE or "device" not in names or "throughput" not in names:
        return None
    cells = table.dialect.cells(text) or []
    first, last = names.index("throughput") + 1, names.index("device") - len(names)
    inner = cells[first:last]
    if abs(len(cells) - len(names)) != 1 or device(cells[last])[0] is None or not cells[0][:1].isdecimal():
        return None
    filled = [cell for cell in inner if cell]
    room = len(names) + last - first
    if len(filled) > room:
        return None
    whole = [*cells[:first], *filled, *[""] * (room - len(filled)), *cells[last:]]
    return {
        name: cell + unit if cell else "" for name, cell, unit in zip(table.headings, whole, table.units, strict=True)
    }
