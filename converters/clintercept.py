"""The report of the Intercept Layer for OpenCL Applications (clintercept_report.txt, or at the end of its log).

Total Enqueues: 16

Device Performance Timing Results for Intel(R) Graphics [0x5916] (24CUs, 1100MHz):

Total Time (ns): 457092230

                          Function Name,  Calls,     Time (ns), Time (%),  Average (ns),      Min (ns), ...
blur SIMD16 GWS[ 3840 x 2160 ] LWS[ NULL ],     16,     457091912,  100.00%,      28568244,      28467166, ...
"""

from __future__ import annotations

import re
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.intel import ParsedName, intercepted
from ktrace.kit.text.line_reader import LineReader
from ktrace.kit.text.lines import Line

TITLE = re.compile(r"^ *(Host|Device) Performance Timing Results(?: for (.+))?: *$", re.MULTILINE)


def probe(sample: Sample) -> Match | None:
    """DIALECT for a title of the report."""
    for part in (sample.head, sample.tail):
        if b"Performance Timing Results" in part and (
            match := TITLE.search(part.decode("utf-8", "replace").replace("\r", ""))
        ):
            return Match(Score.DIALECT, f"contains '{match[0].strip()[:60]}'")
    return None


_NS = r"\d{1,18}"
_ROW = re.compile(
    rf"(?P<name>\S.*?), +(?P<count>{_NS}), +(?P<total>{_NS}), +(?P<percent>\d{{1,9}}\.\d{{1,6}}|-?nan|inf)%?, +"
    rf"(?P<avg>{_NS}), +(?P<min>{_NS}), +(?P<max>{_NS})"
)
_HEADINGS = re.compile(r"Function Name, +Calls, +Time \(ns\), +.*", re.DOTALL)
_TOTAL = re.compile(rf"Total Time \(ns\): +({_NS})")
_ENQUEUES = re.compile(rf"Total Enqueues: ({_NS})")
_LOG = re.compile(r"(?:CLIntercept|Control |Timer Started|\.\.\. )")


class _Timings(LineReader):
    """Adds a summary for each row and total of the tables of timings; devices as facts."""

    def __init__(self, source: Source, conversion: Conversion) -> None:
        super().__init__(source, conversion)
        self._place: dict[str, Any] = {}
        self._host = True
        self._table = -1
        self._devices: list[str] = []

    def take(self, line: Line) -> None:
        text = line.text.strip()
        if not text or _HEADINGS.fullmatch(text) or _LOG.match(text):
            self._lines.structure()
        elif match := TITLE.fullmatch(text):
            self._begin(match[1], match[2])
            self._lines.structure()
        elif self._add(text):
            self._lines.used()

    def end(self) -> None:
        for device, name in enumerate(self._devices):
            self._rows.fact("device", device=device, name=name, facts={"api": "opencl"})

    def _begin(self, what: str, device: str | None) -> None:
        """A table begins: of the host, or of a device."""
        self._host = what == "Host"
        self._table += 1
        self._place = {"table": self._table, "scope": [f"{what} Performance Timing"]}
        if device:
            self._place["device"] = len(self._devices)
            self._devices.append(device)

    def _add(self, text: str) -> bool:
        """Adds a line; returns whether it has figures."""
        if match := _ENQUEUES.fullmatch(text):
            self._rows.summary("metric", "Total Enqueues", metric="count", unit="count", value=float(int(match[1])))
            return True
        if not self._place:
            return False
        if match := _TOTAL.fullmatch(text):
            self._rows.summary("total", "Total Time", unit="ns", total=float(int(match[1])), **self._place)
            return True
        match = _ROW.fullmatch(text)
        if not match:
            return False
        self._row(match)
        return True

    def _row(self, match: re.Match[str]) -> None:
        parts = ParsedName("api", match["name"]) if self._host else intercepted(match["name"])
        share = match["percent"]
        self._rows.summary(
            parts.kind,
            parts.name,
            unit="ns",
            count=int(match["count"]),
            total=float(int(match["total"])),
            percent=float(share) if share[0].isdigit() else None,
            avg=float(int(match["avg"])),
            min=float(int(match["min"])),
            max=float(int(match["max"])),
            args=parts.args,
            **parts.columns,
            **self._place,
        )


FORMAT = Format(
    "clintercept",
    "OpenCL Intercept Layer: the report of its timings",
    patterns=("clintercept_report.txt", "*.txt", "*.log"),
    probe=probe,
    read=_Timings.read,
    words=("performance timing results",),
    prose=True,
)
