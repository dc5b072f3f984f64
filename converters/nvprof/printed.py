"""The tables as nvprof prints them, a line at a time: numbers with their units in the cells, columns padded.

  Start  Duration  Grid Size  (Block Size)  Regs*  SSMem*  DSMem*   Size  Throughput   Device  Context  Stream  Name
133.8ms  135.78us          -             -      -       -       -  409KB    3.01GB/s  GT 640M        1       2  [CUDA]
137.1ms   1.717ms  (20 10 1)     (32 32 1)     29     8KB      0B      -           -  GT 640M        1       2  f() [94]

            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:   88.94%  80.095ms       100  800.95us  785.62us  819.20us  [CUDA memcpy HtoD]

Invocations                               Metric Name                        Metric Description         Min  Max  Avg
Device "GeForce GT 640M (0)"
    Kernel: mul(float*)
        301                                       ipc                              Executed IPC    1.28  1.29  1.29
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

#: What a cell of a column of a trace looks like; of others a word without blanks.
_CELLS = {
    "Grid Size": r"-|\(\d+ \d+ \d+\)",
    "(Block Size)": r"-|\(\d+ \d+ \d+\)",
    "Device": r"\S.*?",
    "Context": r"-|\d+",
    "Stream": r"-|\d+",
    "Unified Memory": r"-|\S.*?",
    "Name": r"\S.*?",
}
_TRACE = re.compile(r"\s*Start\s+Duration\s.*\bName\s*")
_SUMMARY = re.compile(r"\s*(?:Type\s+)?Time\(%\)\s+Time\s+Calls\s+Avg\s+Min\s+Max\s+Name\s*")
_METRICS = re.compile(r"\s*Invocations\s+(Metric|Event) Name\s.*\bMin\s+Max\s+Avg\b.*")
_MEMORY = re.compile(r"\s*Count\s+Avg Size\s+Min Size\s+Max Size\s+Total Size\s+Total Time\s+Name\s*")
_HEADINGS = re.compile(
    r"Grid Size|\(Block Size\)|Unified Memory|Virtual Address|(?:Avg|Min|Max|Total) Size|Total Time|\S+"
)
_SUMMARY_ROW = re.compile(
    r"\s*(?:(?P<type>[A-Za-z][\w ()]*?):)?\s+(?P<percent>[\d.]+%)\s+(?P<total>\S+)\s+(?P<calls>\d+)"
    r"\s+(?P<avg>\S+)\s+(?P<min>\S+)\s+(?P<max>\S+)\s{1,2}(?P<name>\S.*)"
)
_FIGURE = r"(?:[\d.]\S*%?|-|\w+ \(\d+\)|N/A|<OVERFLOW>)"
_METRIC_ROW = re.compile(
    rf"\s*(?P<invocations>\d+)\s+(?P<metric>[\w.]+)\s+(?P<description>\S.*?)\s+(?P<min>{_FIGURE})\s+(?P<max>{_FIGURE})"
    rf"\s+(?P<avg>{_FIGURE})\s*"
)
_EVENT_ROW = re.compile(
    rf"\s*(?P<invocations>\d+)\s+(?P<metric>[\w.]+)\s+(?P<min>{_FIGURE})\s+(?P<max>{_FIGURE})\s+(?P<avg>{_FIGURE})"
    rf"(?:\s+(?P<total>{_FIGURE}))?\s*"
)
_MEMORY_ROW = re.compile(r"\s*(\d+)\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S.*)")
DEVICE = re.compile(r'\s*Device "(.*)"\s*')
_KERNEL = re.compile(r"\s*Kernel: (.*\S)\s*")
_SIZES = re.compile(r"\((\d+) (\d+) (\d+)\)")

#: What a trace calls its columns in text -> in CSV.
_AS_CSV = {"Regs*": "Registers Per Thread", "SSMem*": "Static SMem", "DSMem*": "Dynamic SMem"}


@dataclass
class Printed:
    """The table that is open: its kind, the headings of a trace, and the device and kernel that the rows are of."""

    kind: str
    ordinal: int
    headings: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    place: dict[str, str] = field(default_factory=dict)


def opened(text: str, ordinal: int) -> Printed | None:
    """The table of which a line is the headings."""
    if _TRACE.fullmatch(text) and '"' not in text and "," not in text:
        headings = tuple(_HEADINGS.findall(text))
        cells = (f"({_CELLS.get(name, '[^ ]+')})" for name in headings)
        return Printed("trace", ordinal, headings, re.compile(r"\s*" + r"\s+".join(cells) + r"\s*"))
    for kind, pattern in (("summary", _SUMMARY), ("metrics", _METRICS), ("memory", _MEMORY)):
        if found := pattern.fullmatch(text):
            return Printed("events" if kind == "metrics" and found[1] == "Event" else kind, ordinal)
    return None


def trace_row(table: Printed, text: str) -> dict[str, str] | None:
    """The cells of a row of a trace under the headings of CSV, None where it is none."""
    found = table.pattern.fullmatch(text) if table.pattern else None
    if not found:
        return None
    row: dict[str, str] = {}
    for name, cell in zip(table.headings, found.groups(), strict=True):
        if name in ("Grid Size", "(Block Size)"):
            part = "Grid" if name == "Grid Size" else "Block"
            sizes = _SIZES.fullmatch(cell)
            row |= {f"{part} {axis}": sizes[i] if sizes else "" for i, axis in enumerate("XYZ", 1)}
        else:
            row[_AS_CSV.get(name, name)] = "" if cell == "-" else cell
    return row


def summary_row(text: str) -> Mapping[str, str] | None:
    """The cells of a row of a summary: type ('' where it goes on), percent, total, calls, avg, min, max, name."""
    found = _SUMMARY_ROW.fullmatch(text)
    return found.groupdict(default="") if found else None


def metric_row(table: Printed, text: str) -> dict[str, str] | None:
    """The cells of a row of metrics or events, as CSV has them; the lines that name device and kernel give {}."""
    for key, pattern in (("device", DEVICE), ("kernel", _KERNEL)):
        if place := pattern.fullmatch(text):
            table.place[key] = place[1]
            return {}
    events = table.kind == "events"
    found = (_EVENT_ROW if events else _METRIC_ROW).fullmatch(text)
    if not found:
        return None
    row = {key: cell for key, cell in found.groupdict().items() if cell is not None}
    row["event name" if events else "metric name"] = row.pop("metric")
    if "description" in row:
        row["metric description"] = row.pop("description")
    return {**table.place, **row}


def memory_row(text: str, device: str) -> list[str] | None:
    """The cells of a row of unified memory, the device first; None where it is none."""
    found = _MEMORY_ROW.fullmatch(text)
    return [device, *found.groups()] if found else None
