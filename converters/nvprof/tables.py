"""The tables of nvprof by their headings, and what their columns are. Facts: its manual and real files.

Start,Duration,Grid X,...,Device,Context,Stream,Name        --print-gpu-trace, and --print-api-trace with it
Start,Duration,Name                                         --print-api-trace
Name,Start Time(ns),Duration(ns),GridX,...                  the Visual Profiler's own CSV
Name,Start Time,Duration,Grid Size,Block Size,Regs,...      its table of details
Type,Time(%),Time,Calls,Avg,Min,Max,Name                    the summary
Device,Kernel,Invocations,Metric Name,Metric Description,Min,Max,Avg      --metrics (--events: Event Name, ..., Total)
Device,Context,Stream,Kernel,Correlation_ID,ipc,...         --metrics with --print-gpu-trace: a launch a row
Device,Count,Avg Size,Min Size,Max Size,Total Size,Total Time,Name        unified memory
"""

from __future__ import annotations

from collections.abc import Sequence

from ktrace.converters._shared.columnar.csv_blocks import CsvTable
from ktrace.converters._shared.text.headings import STATISTICS, Columns, heading

from .names import device

TRACE, SUMMARY, METRICS, LAUNCHES, MEMORY = "trace", "summary", "metrics", "launches", "memory"

#: Headings without units, in lower case, that make a table one of a kind; the first that all are there wins.
KINDS: tuple[tuple[str, frozenset[str]], ...] = (
    (METRICS, frozenset({"kernel", "invocations", "metric name"})),
    (METRICS, frozenset({"kernel", "invocations", "event name"})),
    (MEMORY, frozenset({"count", "avg size", "total size", "name"})),
    (SUMMARY, frozenset({"time %", "time", "calls", "avg", "name"})),
    (LAUNCHES, frozenset({"device", "context", "stream", "kernel"})),
    (TRACE, frozenset({"name", "start time", "duration", "gridx"})),
    (TRACE, frozenset({"name", "start time", "duration", "grid size"})),
)

#: The trace's own headings stand without units; Nsight Systems has them in the heading.
_TRACE = frozenset({"start", "duration", "name"})

#: Each table has one of these.
_NAMES = frozenset({"name", "kernel"})

FIGURES = Columns(
    {"name": ("name",), "type": ("type",), "device": ("device",), **STATISTICS, "total": ("time", "total time")},
    required=("name", "count"),
)


def fits(cells: Sequence[str]) -> str | None:
    """What the headings are those of, None for other tables."""
    names = {cell.casefold() for cell in cells}
    if not names & _NAMES:
        return None
    if names >= _TRACE:
        return TRACE
    keys = {heading(cell).key for cell in cells} | {heading(cell).name.casefold() for cell in cells}
    return next((kind for kind, words in KINDS if words <= keys), None)


def is_own_trace(cells: Sequence[str]) -> bool:
    """Whether the headings of a trace are nobody else's."""
    keys = {heading(cell).name.casefold() for cell in cells}
    return bool(keys & {"grid x", "gridx", "grid size"}) and bool(
        keys & {"registers per thread", "static smem", "start time"}
    )


def shifted(table: CsvTable, text: str) -> dict[str, str] | None:
    """A row of a trace that has a cell too many or too few before its device, as some versions write copies.

    Cells have the units of their columns behind them. None for another line.
    """
    names = [name.casefold() for name in table.headings]
    if table.what != TRACE or "device" not in names or "throughput" not in names:
        return None
    cells = table.dialect.cells(text) or []
    first, last = names.index("throughput") + 1, names.index("device") - len(names)
    inner = cells[first:last]
    if abs(len(cells) - len(names)) != 1 or device(cells[last])[0] is None or not cells[0][:1].isdecimal():
        return None
    said = [cell for cell in inner if cell]
    room = len(names) + last - first
    if len(said) > room:
        return None
    whole = [*cells[:first], *said, *[""] * (room - len(said)), *cells[last:]]
    return {
        name: cell + unit if cell else "" for name, cell, unit in zip(table.headings, whole, table.units, strict=True)
    }
