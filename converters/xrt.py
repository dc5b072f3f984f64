"""The timeline of Xilinx Runtime's OpenCL profiling (timeline_trace=true): timeline_trace.csv, opencl_trace.csv.

    Timeline Trace
    Tool version: 2020.1

    Time_msec,Name,Event,Address_Port,Size,Latency_cycles,Start_cycles,End_cycles,Latency_usec,Start_msec,End_msec,
    100.000000,clFinish|General,START,,,,,,,,,,,0,
    100.250000,clFinish|General,END,,,,,,,,,,,0,
    200.000000,KERNEL|plat|mm|mm|1:1:1|all,START,0X1D8,1,,,,,,,4,None,
    200.220000,KERNEL|plat|mm|mm|1:1:1|all,END,0X1D8,1,,,,,,,4,None,
    200.100000,Kernel_Write|plat|mm|mm|mm_1|m_axi-DDR[1]|DDR,Write,Out,17,16,17316452,17316468,0.064,200.100000,200.100064,

Calls, kernels and copies of the host have a START and an END; transfers and stalls of a kernel have both in one row.
Facts: src/runtime_src/xdp/profile/writer of Xilinx/XRT, 2018 to 2023. Times are ms with six decimals: whole ns.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.line_reader import LineReader
from ktrace.kit.text.lines import Line, quoted_cells
from ktrace.kit.text.numbers import number, to_ns
from ktrace.kit.text.titles import likely_lines

_HEADINGS = ["Time_msec", "Name", "Event", "Address_Port", "Size"]
_COLUMNS = (*_HEADINGS, "Latency_cycles", "Start_cycles", "End_cycles", "Latency_usec", "Start_msec", "End_msec")

#: What copies between host and device are called.
_COPIES = {"Host_Write": "HtoD", "Host_Read": "DtoH", "WRITE_BUFFER": "HtoD", "READ_BUFFER": "DtoH"}

#: Times are below this many ms.
_LATEST = 1 << 41


def probe(sample: Sample) -> Match | None:
    """DIALECT for the headings."""
    for number_, line in likely_lines(sample, ("time_msec,name,event",)):
        if _is_heading(line):
            return Match(Score.DIALECT, f"has the headings of Xilinx Runtime's timeline (line {number_})")
    return None


def _is_heading(line: str) -> bool:
    return [cell.strip() for cell in line.split(",")][: len(_HEADINGS)] == _HEADINGS


def _ms(text: str | None) -> int | None:
    """A time in ms as whole ns, None for another cell."""
    value = number(text) if text else None
    return to_ns(value, "ms")[0] if value is not None and value.is_finite() and 0 <= value < _LATEST else None


class _Timeline(LineReader):
    """Adds calls of the host, kernels, copies, and what a kernel transferred or waited for.

    Keeps the starts whose ends are awaited, by name and address: the first that began ends first.
    """

    def __init__(self, source: Source, conversion: Conversion) -> None:
        super().__init__(source, conversion)
        self._rows.tool_and_clock("Xilinx Runtime", "session")
        self._is_open = False
        self._starts: defaultdict[tuple[str, str], deque[tuple[int, int]]] = defaultdict(deque)

    def take(self, line: Line) -> None:
        if not line.text.strip():
            self._lines.structure()
        elif _is_heading(line.text):
            self._is_open = True
            self._lines.structure()
        elif self._is_open:
            self._row(line.number, dict(zip(_COLUMNS, map(str.strip, quoted_cells(line.text)), strict=False)))
        if self._lines.peek() is None:
            for number in sorted(number for starts in self._starts.values() for number, _ in starts):
                self._lines.skip_deferred("cut", number, number, "a start without its end")

    def _row(self, line: int, cells: dict[str, str]) -> None:
        """Accounts for a row, and adds the event that it completes."""
        at, name, event = _ms(cells.get("Time_msec")), cells.get("Name", ""), cells.get("Event", "")
        if at is None or not name:
            self._lines.skip("bad-record", "no time or no name")
            return
        key = (name, cells.get("Address_Port", ""))
        if event == "START":
            self._starts[key].append((line, at))
            self._lines.defer()
        elif event == "END":
            self._end(key, at, cells)
        elif (start := _ms(cells.get("Start_msec"))) is not None and (end := _ms(cells.get("End_msec"))) is not None:
            self._add(name, start, end, cells, {"event": event})
        else:
            self._lines.skip("bad-record", "no start or no end")

    def _end(self, key: tuple[str, str], at: int, cells: dict[str, str]) -> None:
        starts = self._starts[key]
        if not starts:
            self._lines.skip("end-without-begin")
            return
        line, start = starts.popleft()
        if at < start:
            self._lines.skip_deferred("negative-duration", line, line, f"{at - start} ns")
            self._lines.skip("negative-duration", f"{at - start} ns")
            return
        self._add(key[0], start, at, cells, {}, 2)

    def _add(
        self, name: str, start: int, end: int, cells: dict[str, str], args: dict[str, Any], lines: int = 1
    ) -> None:
        """Adds an event: of a kernel, a copy, a transfer of a kernel, or a call of the host."""
        if end < start:
            self._lines.skip("negative-duration", f"{end - start} ns")
            return
        what, *parts = name.split("|")
        times: dict[str, Any] = {"ts": start, "dur": end - start}
        args |= {key: cells[key] for key in ("Address_Port", "Size", "Latency_cycles") if cells.get(key)}
        if what == "KERNEL":
            labels = dict(zip(("platform", "binary", "kernel", "work_group", "unit"), parts, strict=False))
            kernel = labels.pop("kernel", what)
            self._rows.event("kernel", kernel, device=0, track=labels.get("unit"), args=labels | args, **times)
        elif what in _COPIES:
            self._rows.event("memcpy", what, device=0, copy_kind=_COPIES[what], args=args | {"name": name}, **times)
        elif what.startswith("Kernel_"):
            track = "|".join(parts[3:]) or what
            self._rows.event("range", what, device=0, track=track, args=args | {"name": name}, **times)
        else:
            self._rows.event("api", what, track="|".join(parts) or "host", args=args, **times)
        self._lines.used(lines)


FORMAT = Format(
    "xrt",
    "Xilinx Runtime: timeline of kernels, transfers and calls (timeline_trace.csv)",
    patterns=("timeline_trace*.csv", "opencl_trace.csv"),
    probe=probe,
    read=_Timeline.read,
    words=("time_msec,name,event",),
    prose=True,
)
