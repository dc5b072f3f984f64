"""Recognises the tables of nvprof by their headings, and the parts of a row's name. Facts: its manual and real files.

Start,Duration,Grid X,...,Device,Context,Stream,Name        --print-gpu-trace, and --print-api-trace with it
Start,Duration,Name                                         --print-api-trace
Name,Start Time(ns),Duration(ns),GridX,...                  the Visual Profiler's own CSV
Name,Start Time,Duration,Grid Size,Block Size,Regs,...      its table of details
Type,Time(%),Time,Calls,Avg,Min,Max,Name                    the summary
Device,Kernel,Invocations,Metric Name,Metric Description,Min,Max,Avg      --metrics (--events: Event Name, ..., Total)
Device,Context,Stream,Kernel,Correlation_ID,ipc,...         --metrics with --print-gpu-trace: one row for each launch
Device,Count,Avg Size,Min Size,Max Size,Total Size,Total Time,Name        unified memory

A name has its kind, the direction of a copy, the number of the launch:

void scan<float>(float*) [1098]      a kernel, launched by the call with that number
cudaLaunchKernel (scan [1098])       that call
Memcpy HtoD [sync]  Memset           a copy and a fill, as the Visual Profiler names them
[CUDA memcpy HtoD]  [CUDA memset]  [Unified Memory Memcpy DtoH]  [Unified Memory GPU page faults]  [Marker] step
GeForce GTX 1080 Ti (0)              a device and its number; printed tables cut it off, sometimes after the number
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ktrace.kit.text.headings import STATISTICS, Columns, heading

if TYPE_CHECKING:
    from ktrace.kit.columnar.csv_blocks import CsvTable

_COPY = re.compile(r"\[(?:CUDA|Unified Memory) memcpy (\w+)(?: [^\]]*)?\]", re.IGNORECASE)

#: As the Visual Profiler writes them.
_BARE_COPY = re.compile(r"memcpy(?: (\w+))?(?: \[[^\]]*\])?", re.IGNORECASE)
_BARE_SET = re.compile(r"memset(?: \[[^\]]*\])?", re.IGNORECASE)
_LAUNCHED = re.compile(r"(.*\S) \[(\d{1,18})\]", re.DOTALL)
_LAUNCHES = re.compile(r"cu\w+ \((?:.* )?\[(\d{1,18})\]\)", re.DOTALL)
_API = re.compile(r"cu(?:da)?[A-Z]\w*(?: \(.*\))?|acc_\w+.*", re.DOTALL)
_MARKER = re.compile(r"\[(?:Marker|Range start|Range end)\]", re.IGNORECASE)
_DEVICE = re.compile(r"(.*\S) \((\d{1,9})\)?")


class Named(NamedTuple):
    """The parts of a name; `name` is without the number of the launch, which is `correlation`."""

    kind: str
    name: str
    copy_kind: str | None = None
    correlation: int | None = None


def named(text: str, on_device: bool) -> Named:
    """Returns the parts of a row's name. `on_device`: the row has a device or a grid."""
    if text.startswith("["):
        if copy := _COPY.fullmatch(text):
            return Named("memcpy", text, copy[1])
        if text.casefold().startswith("[cuda memset"):
            return Named("memset", text)
        return Named("range", text)
    if copy := _BARE_COPY.fullmatch(text):
        return Named("memcpy", text, copy[1])
    if _BARE_SET.fullmatch(text):
        return Named("memset", text)
    if not on_device or _API.fullmatch(text):
        launch = _LAUNCHES.fullmatch(text)
        return Named("api", text, None, int(launch[1]) if launch else None)
    launched = _LAUNCHED.fullmatch(text)
    return Named("kernel", launched[1], None, int(launched[2])) if launched else Named("kernel", text)


def device(text: str) -> tuple[int | None, str | None]:
    """Returns the number and the name of a device; the text may also be only a number."""
    if match := _DEVICE.fullmatch(text):
        return int(match[2]), match[1]
    return (int(text), None) if text.isdecimal() and len(text) < 10 else (None, text or None)


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
    most = len(names) + last - first
    if len(filled) > most:
        return None
    whole = [*cells[:first], *filled, *[""] * (most - len(filled)), *cells[last:]]
    return {
        name: cell + unit if cell else "" for name, cell, unit in zip(table.headings, whole, table.units, strict=True)
    }
