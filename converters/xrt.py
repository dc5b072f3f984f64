"""The timeline trace of XRT and SDAccel as CSV: calls of OpenCL, kernels and what they transfer on an FPGA.

Time_msec,Name,Event,Address_Port,Size,Latency_cycles,Start_cycles,End_cycles,Latency_usec,Start_msec,End_msec,
100.000000,clFinish|General,START,,,,,,,,,,,0,                                    a call: begin and end in two rows
100.250000,clFinish|General,END,,,,,,,,,,,0,
200.000000,KERNEL|plat|mm|mm|1:1:1|all,START,0X1D8,1,,,,,,,4,None,                a kernel: the same
200.100000,Kernel_Write|plat|mm|...,Write,Out,17,16,17316452,17316468,0.064,200.100000,200.100064,     a transfer

XRT's profiling library (xdp) writes it. `Time_msec` is the time of the row; lines of the footer have no times.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.lines import Lines
from ktrace.kit.text.numbers import to_ns
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

_HEADING = (
    "Time_msec,Name,Event,Address_Port,Size,Latency_cycles,Start_cycles,End_cycles,Latency_usec,Start_msec,End_msec"
)
_CALL = re.compile(r"cl[A-Z]\w*|xrt\w+")
_COPIES = {"Host_Write": "HtoD", "Host_Read": "DtoH", "Kernel_Write": None, "Kernel_Read": None, "Kernel_Stream": None}

#: Starts that wait for their end, and the greatest time.
_MOST_OPEN = 1 << 17
_LIMIT = 1 << 62


class _Cells(NamedTuple):
    """The cells of a row that are read."""

    time: str
    name: str
    event: str
    port: str
    size: str
    cycles: str
    start: str
    end: str


def probe(sample: Sample) -> Match | None:
    """DIALECT for the headings."""
    found = _HEADING in (sample.text or "")
    return Match(Score.DIALECT, "has the headings of XRT's timeline trace") if found else None


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a slice for each pair of a start and an end, and for each row with both."""
    lines, rows = Lines(source, conversion), RowBuilder(conversion)
    rows.fact("source", facts={"tool": "XRT timeline trace"})
    opened: defaultdict[str, list[int]] = defaultdict(list)
    waiting, is_table = 0, False
    for line in lines:
        cells = _cells(line.text) if is_table else None
        if line.text.startswith(_HEADING):
            is_table = True
            lines.structure()
        elif not line.text.strip():
            lines.structure()
        elif cells is None or (time := _ns(cells.time)) is None:
            pass
        elif abs(time) >= _LIMIT:
            lines.skip("time-range", f"{cells.time} ms")
        elif cells.event == "START" and waiting < _MOST_OPEN:
            opened[cells.name].append(time)
            waiting += 1
            lines.became("folded")
        elif cells.event == "END" and opened[cells.name]:
            begin = opened[cells.name].pop()
            waiting -= 1
            if time < begin:
                lines.skip("negative-duration", f"{time - begin} ns")
            else:
                _add(rows, cells, begin, time)
                lines.used()
        elif cells.event == "END":
            lines.skip("end-without-begin", cells.name)
        elif (start := _ns(cells.start)) is not None and (end := _ns(cells.end)) is not None and start <= end < _LIMIT:
            _add(rows, cells, start, end)
            lines.used()
        else:
            lines.skip("bad-record", "no start and end")
        yield from rows.ready()
    for name, begins in opened.items():
        for begin in begins:
            kind, copy_kind = _kind(name)
            rows.event(kind, name, ts=begin, dur=None, copy_kind=copy_kind, **_place(name))
            conversion.report.issue("unfinished", name, rows=1)
    yield from rows.rest()


def _cells(text: str) -> _Cells | None:
    try:
        found = next(csv.reader([text]), [])
    except csv.Error:
        return None
    return _Cells(*found[:6], *found[9:11]) if len(found) >= 11 else None


def _ns(text: str) -> int | None:
    """A time in ms in ns, None for no time."""
    try:
        return to_ns(Decimal(text), "ms")[0]
    except (InvalidOperation, ValueError):
        return None


def _add(rows: RowBuilder, cells: _Cells, start: int, end: int) -> None:
    kind, copy_kind = _kind(cells.name)
    args = {"Address_Port": cells.port, "Size": cells.size, "Latency_cycles": cells.cycles}
    given = {key: text for key, text in args.items() if text}
    rows.event(kind, cells.name, ts=start, dur=end - start, copy_kind=copy_kind, args=given, **_place(cells.name))


def _kind(name: str) -> tuple[str, str | None]:
    """The kind of what a row is about, and the direction of a copy."""
    first = name.partition("|")[0]
    if first == "KERNEL":
        return "kernel", None
    if first in _COPIES:
        return "memcpy", _COPIES[first]
    return ("api" if _CALL.fullmatch(first) else "range"), None


def _place(name: str) -> dict[str, str]:
    """The track: calls are the host's, others are those of a kernel or port, as the name says."""
    first, _, rest = name.partition("|")
    place = {"track": "host" if not rest or rest == "General" else rest, "cat": first}
    parts = rest.split("|")
    return place | {"short_name": parts[2]} if first == "KERNEL" and len(parts) > 2 else place


FORMAT = Format(
    "xrt",
    "XRT's and SDAccel's timeline trace of an FPGA (CSV)",
    patterns=("*timeline_trace*.csv",),
    probe=probe,
    read=read,
    words=("time_msec,name,event,address_port",),
)
