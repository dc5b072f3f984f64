"""The tables that nvprof prints, a line at a time: cells contain numbers with units, columns are padded.

            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:   88.94%  80.095ms       100  800.95us  785.62us  819.20us  [CUDA memcpy HtoD]

Invocations                               Metric Name                        Metric Description         Min  Max  Avg
Device "GeForce GT 640M (0)"
    Kernel: mul(float*)
        301                                       ipc                              Executed IPC    1.28  1.29  1.29

Critical path(%)  Critical path  Waiting time  Name               --dependency-analysis
          19.27%      2.298834s           0ns  mul(float*)

Time(%)      Time  Name                                           --cpu-profiling: a tree, of callers or of callees
 23.19%  62.5323s  propagate
 23.19%  62.5323s  | main

   Start  Duration   Grid Size   Block Size  Regs*   SSMem*  DSMem*      Size        Device  Context  Name
133.81ms  135.78us           -            -      -        -       -  409.60KB  GeForce GTX 10        1  [CUDA]
137.10ms  1.7170ms   (20 10 1)    (32 32 1)     29  8.000KB      0B         -  Quadro T2000 (0       1  f() [94]

Two blanks separate the columns of a trace; a device is cut after 15 letters, and may end in a number, as in
"GeForce GTX 10". Copies from web pages have only one blank. Its rows get the headings of CSV.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

_SUMMARY = re.compile(r"\s*(?:Type\s+)?Time ?\(%\)\s+Time\s+Calls\s+Avg\s+Min\s+Max\s+Name\s*")
_METRICS = re.compile(r"\s*Invocations\s+(Metric|Event) Name\s.*\bMin\s+Max\s+Avg\b.*", re.DOTALL)
_MEMORY = re.compile(r"\s*Count\s+Avg Size\s+Min Size\s+Max Size\s+Total Size\s+Total Time\s+Name\s*")
_SUMMARY_ROW = re.compile(
    r"\s*(?:(?P<type>[A-Za-z][\w ()]*?):\s*)?(?P<percent>\d+(?:\.\d*)?%?)\s+(?P<total>\d\S*)\s+(?P<calls>\d+)"
    r"\s+(?P<avg>\d\S*)\s+(?P<min>\d\S*)\s+(?P<max>\d\S*)\s+(?P<name>\S.*)"
)
#: Each line of headings contains one of these words.
_WORD = re.compile(r"\bName\b|\bKernel\b|\bInvocations\b")
#: Headings of launches with a column for each metric.
_LAUNCHES = frozenset({"Device", "Context", "Stream", "Kernel"})
_PATH = re.compile(r"\s*Critical path ?\(%\)\s+Critical path\s+Waiting time\s+Name\s*")
_PATH_ROW = re.compile(r"\s*(\d+(?:\.\d*)?%)\s+(\d\S*)\s+(\d\S*)\s+(\S.*)")
_SAMPLES = re.compile(r"\s*Time ?\(%\)\s+Time\s+Name\s*")
_SAMPLES_ROW = re.compile(r"(\s*)(\d+(?:\.\d*)?)%\s+(?=\S)(?:(\d[\d.]*[mun]?s)\s\s?)?([| ]*)(\S.*)", re.DOTALL)
_FIGURE = r"(?:-?[\d.]\S*|[+-]?(?:nan|inf)%?|-|\w+ \(\d+\)|N/A|<OVERFLOW>)"
_METRIC_ROW = re.compile(
    rf"\s*(?P<invocations>\d+)\s+(?P<metric>[\w.]+)\s+(?P<description>\S(?:.*?\S)??)\s+(?P<min>{_FIGURE})\s+(?P<max>{_FIGURE})"
    rf"\s+(?P<avg>{_FIGURE})\s*"
)
_EVENT_ROW = re.compile(
    rf"\s*(?P<invocations>\d+)\s+(?P<metric>[\w.]+)\s+(?P<min>{_FIGURE})\s+(?P<max>{_FIGURE})\s+(?P<avg>{_FIGURE})"
    rf"(?:\s+(?P<total>{_FIGURE}))?\s*"
)
_MEMORY_ROW = re.compile(r"\s*(\d+)\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S.*)")
DEVICE = re.compile(r'\s*Device "([^"]*)"(?:\s+Kernel: (.*\S))?\s*')
_KERNEL = re.compile(r"\s*Kernel: (.*\S)\s*")


@dataclass
class Printed:
    """The open table: its kind, its headings, and the device and kernel of its rows."""

    kind: str
    ordinal: int
    shape: _Shape | None = None
    headings: tuple[str, ...] = ()
    place: dict[str, str] = field(default_factory=dict)


def opened(text: str, ordinal: int) -> Printed | None:
    """Returns the table whose headings are in a line, None for another line."""
    if not _WORD.search(text):  # most lines are rows
        return None
    if shape := trace_shape(text):
        return Printed("trace", ordinal, shape)
    if (names := tuple(split(text))) and set(names) >= _LAUNCHES and "Name" not in names:
        return Printed("launches", ordinal, headings=names)
    for kind, pattern in (
        ("summary", _SUMMARY),
        ("metrics", _METRICS),
        ("memory", _MEMORY),
        ("path", _PATH),
        ("samples", _SAMPLES),
    ):
        if match := pattern.fullmatch(text):
            return Printed("events" if kind == "metrics" and match[1] == "Event" else kind, ordinal)
    return None


def summary_row(text: str) -> Mapping[str, str] | None:
    """The cells of a row of a summary: type ('' if it continues), percent, total, calls, avg, min, max, name."""
    match = _SUMMARY_ROW.fullmatch(text)
    return match.groupdict(default="") if match else None


def metric_row(table: Printed, text: str) -> dict[str, str] | None:
    """The cells of a row of metrics or events, as in CSV; {} for the lines that name device and kernel."""
    if place := DEVICE.fullmatch(text):
        table.place = {"device": place[1]} | ({"kernel": place[2]} if place[2] else {})
        return {}
    if place := _KERNEL.fullmatch(text):
        table.place["kernel"] = place[1]
        return {}
    events = table.kind == "events"
    match = (_EVENT_ROW if events else _METRIC_ROW).fullmatch(text)
    if not match:
        return None
    row = {key: cell for key, cell in match.groupdict().items() if cell is not None}
    row["event name" if events else "metric name"] = row.pop("metric")
    if "description" in row:
        row["metric description"] = row.pop("description")
    return {**table.place, **row}


def memory_row(text: str, device: str) -> list[str] | None:
    """The cells of a row of unified memory, the device first; None for another line."""
    match = _MEMORY_ROW.fullmatch(text)
    return [device, *match.groups()] if match else None


def path_row(text: str) -> tuple[str, ...] | None:
    """Share, time on the critical path, waiting time and name; None for another line."""
    match = _PATH_ROW.fullmatch(text)
    return match.groups() if match else None


class Sampled(NamedTuple):
    """A function of a CPU profile: its depth in the tree, its share, its time if there is one."""

    depth: int
    percent: str
    time: str | None
    name: str


def sampled_row(text: str) -> Sampled | None:
    """A row of a CPU profile. Its depth is that of the branches, in older versions of the blanks at the start."""
    match = _SAMPLES_ROW.fullmatch(text)
    return Sampled(len(match[4]) or (0 if match[3] else len(match[1])), match[2], match[3], match[5]) if match else None


def launch_row(table: Printed, text: str) -> list[str] | None:
    """The cells of a launch with its metrics, None if there aren't as many as headings."""
    cells = split(text)
    return cells if len(cells) == len(table.headings) else None


def split(text: str) -> list[str]:
    """The cells of a line, separated by two or more blanks."""
    return re.split(r"\s{2,}", text.strip())


_SIZE = r"-|\(\d+[ ,]+\d+[ ,]+\d+\)"
_PLACE = r"-|\d+"
_DEVICE = r"-|\S.{0,63}"
_UNBROKEN = r"\S+"

#: The pattern of a column's cells; cells of other columns are words without blanks.
_CELLS = {
    "Grid Size": _SIZE,
    "Block Size": _SIZE,
    "Device": _DEVICE,
    "Src Dev": _DEVICE,
    "Dst Dev": _DEVICE,
    "Context": _PLACE,
    "Stream": _PLACE,
    "Src Ctx": _PLACE,
    "Dst Ctx": _PLACE,
    "Unified Memory": r"-|PC \S+|\S+",
    "Name": r"\S.*",
}
_TRACE = re.compile(r"\s*Start\s+Duration\s.*\bName\s*")
_HEADINGS = re.compile(r"\(?(Grid Size|Block Size|Unified Memory|Virtual Address|(?:Src|Dst) (?:Dev|Ctx)|[^\s()]+)\)?")
_SIZES = re.compile(r"\((\d+)[ ,]+(\d+)[ ,]+(\d+)\)")

#: Heading in printed tables -> in CSV.
_AS_CSV = {"Regs*": "Registers Per Thread", "SSMem*": "Static SMem", "DSMem*": "Dynamic SMem"}


class _Shape(NamedTuple):
    """The headings of a trace, and the patterns of its rows: with two blanks between columns, or with one."""

    headings: tuple[str, ...]
    patterns: tuple[re.Pattern[str], ...]


def trace_shape(text: str) -> _Shape | None:
    """Returns the shape of the trace whose headings are in a line, None for another line."""
    if not _TRACE.fullmatch(text) or '"' in text or "," in text:
        return None
    headings = tuple(_HEADINGS.findall(text))
    cells = [f"({_CELLS.get(name, _UNBROKEN)})" for name in headings]
    parts = [cell.replace(_DEVICE, _DEVICE + "?") for cell in cells]  # the first two blanks end it
    return _Shape(
        headings,
        (re.compile(r"\s*" + r"\s{2,}".join(parts) + r"\s*"), re.compile(r"\s*" + r"\s+".join(cells) + r"\s*")),
    )


def trace_row(shape: _Shape, text: str) -> dict[str, str] | None:
    """The cells of a row under the headings of CSV, None for another line."""
    match = next((match for pattern in shape.patterns if (match := pattern.fullmatch(text))), None)
    if not match:
        return None
    row: dict[str, str] = {}
    for name, cell in zip(shape.headings, match.groups(), strict=True):
        if name in ("Grid Size", "Block Size"):
            sizes = _SIZES.fullmatch(cell)
            row |= {f"{name.split()[0]} {axis}": sizes[i] if sizes else "" for i, axis in enumerate("XYZ", 1)}
        else:
            row[_AS_CSV.get(name, name)] = "" if cell == "-" else cell.rstrip()
    return row
