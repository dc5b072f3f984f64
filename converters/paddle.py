"""The tables that Paddle's profiler prints: `paddle.profiler.Profiler.summary()`.

    ----------------------------Operator Summary----------------------------
    Time unit: ms
    Name                     Calls   CPU Total / Avg / Max / Min / Ratio(%)    GPU Total / Avg / Max / Min / Ratio(%)
    -----------------------Thread: All threads merged-----------------------
    matmul dygraph           6       0.28 / 0.05 / 0.14 / 0.02 / 17.98         1.20 / 0.20 / 0.30 / 0.10 / 62.50
      matmul kernel launch   6       0.21 / 0.03 / 0.12 / 0.01 / 75.81         1.20 / 0.20 / 0.30 / 0.10 / 100.00
        ampere_sgemm_...     6       - / - / - / - / -                         1.20 / 0.20 / 0.30 / 0.10 / 100.00

    ----------------------------Overview Summary----------------------------
    Event Type               Calls                      CPU Time                   Ratio (%)
    ProfileStep              3                          3.07                       100.00

python/paddle/profiler/profiler_statistic.py writes them. The GPU time of an operator is that of its kernels, which the
kernel summary has by name. Phases, users' ranges and event types are other views of the same time.

Reads operators and kernels as time that adds up, the rest as metrics.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.line_reader import LineReader
from ktrace.kit.text.lines import Line
from ktrace.kit.text.numbers import TIME_NS

_TITLE = re.compile(
    r"-{3,400}(?P<title>[A-Z][A-Za-z]{1,20}(?: [A-Z][a-z]{1,20})? Summary)(?: - (?P<place>[^-]{1,60}))?-{3,400}"
)
_UNIT = re.compile(r"Time unit: (s|ms|us|ns)")
_PART = r"(?:[0-9]{1,18}\.[0-9]{2}|-)"
_CELL = rf"{_PART}(?: / {_PART}){{4}}"
_ROW = re.compile(
    rf"(?P<indent> *)(?P<name>\S(?:.{{0,500}}?\S)??) {{2,}}(?P<calls>[0-9]{{1,18}}|-) {{2,}}(?P<first>{_CELL})"
    rf"(?: {{2,}}(?P<second>{_CELL}))?(?: {{2,}}(?P<flops>[0-9]{{1,30}}|-))?"
)
_PLAIN = re.compile(
    r" *(?P<name>\S(?:.{0,200}?\S)??) {2,}(?:(?P<calls>[0-9]{1,18}) {2,})?(?P<time>[0-9]{1,18}\.[0-9]{2}) {2,}"
    r"(?P<share>[0-9]{1,9}\.[0-9]{2})"
)
_MEMORY = re.compile(
    r" *(?P<name>\S(?:.{0,200}?\S)??) {2,}(?P<type>Allocated|Reserved) {2,}(?P<count>\d{1,18}) {2,}"
    r"(?P<frees>\d{1,18}) {2,}(?P<size>\d{1,18}) {2,}(?P<freed>\d{1,18}) {2,}(?P<more>-?\d{1,18})"
)
_PEAK = re.compile(r" *(Peak (?:Allocated|Reserved) Memory): ([0-9]{1,18})")
_DEVICE = re.compile(r" *(CPU\((?:Process|System)\)|GPU[0-9]{1,4}) {2,}([0-9]{1,9}\.[0-9]{2})")
_HEADING = re.compile(
    r"(?:Name|Event Type|Device|Calls)  .{0,300}(?:Ratio ?\(%\)|Utilization \(%\)|Increased Size).{0,300}"
)
_STRUCTURE = re.compile(
    r"[- ]+$|-+(?:Thread: .{1,60}| Flops Profiler (?:Begin|End) )-+$|Note:|In this table, |The time of events |Example:"
    r"|Events with different |Thread \d:|(?:Operator|Result): +\||After merged:|CPU\((?:Process|System)\) Utilization ="
    r"|GPU Utilization =|Unlike overview |(?:Communication|Computation|Overlap)[A-Za-z ]{0,60}[:=]"
)
_FIGURES = ("total", "avg", "max", "min")


def probe(sample: Sample) -> Match | None:
    """DIALECT for the headings of a table."""
    for number, text in enumerate(sample.lines, 1):
        if "PU Total / Avg / Max / Min / Ratio(%)" in text:
            return Match(Score.DIALECT, f"has a table of Paddle's profiler (line {number})")
    return None


class _Text(LineReader):
    """The table that a line is in: its title, its unit, whether its first figures are of the GPU, the rows around."""

    def __init__(self, source: Source, conversion: Conversion) -> None:
        super().__init__(source, conversion)
        self._title, self._device, self._table = "", "", -1
        self._factor = TIME_NS["ms"]
        self._of_gpu = False
        self._open: list[tuple[int, int]] = []  # indentation and id

    def take(self, line: Line) -> None:
        text, words = line.text.rstrip(), line.text.strip()
        if match := _TITLE.fullmatch(words):
            self._title, self._device, self._table = match["title"], match["place"] or "", self._table + 1
            self._of_gpu, self._open = False, []
            self._lines.structure()
        elif not self._title:
            if not text:
                self._lines.structure()
        elif match := _UNIT.fullmatch(words):
            self._factor = TIME_NS[match[1]]
            self._lines.structure()
        elif match := _ROW.fullmatch(text):
            self._add(match)
        elif match := _PLAIN.fullmatch(text):
            figures = {"total": float(Decimal(match["time"]) * self._factor), "percent": float(match["share"])}
            self._metric(match["name"], match["calls"] or "-", figures, gpu=self._of_gpu)
            self._lines.used()
        elif match := _MEMORY.fullmatch(text):
            self._memory(match)
        elif match := _PEAK.fullmatch(text):
            columns = {"unit": "B", "value": float(match[2]), "args": {"place": self._device}, **self._place()}
            self._rows.summary("metric", match[1], metric="memory", **columns)
            self._lines.used()
        elif match := _DEVICE.fullmatch(text):
            self._rows.summary(
                "metric", match[1], metric="utilization", unit="%", value=float(match[2]), **self._place()
            )
            self._lines.used()
        elif _HEADING.fullmatch(words):
            self._of_gpu = "GPU" in text and "CPU" not in text
            self._open = []
            self._lines.structure()
        elif not text or _STRUCTURE.match(words):
            self._lines.structure()

    def end(self) -> None:
        self._rows.fact("source", facts={"tool": "PaddlePaddle"})

    def _add(self, match: re.Match[str]) -> None:
        """Adds a row: an operator or a kernel, or the metrics of another view."""
        name, calls, first, second = match["name"], match["calls"], match["first"], match["second"]
        figures, more = self._figures(first), self._figures(second or "")
        indent = len(match["indent"])
        while self._open and self._open[-1][0] >= indent:
            self._open.pop()
        around = self._open[-1][1] if self._open else None
        kind = {"Operator Summary": "op", "Kernel Summary": "kernel"}.get(self._title)
        parent = around
        if kind and figures:
            flops = {"FLOPs": int(match["flops"])} if (match["flops"] or "-") not in ("-", "0") else {}
            columns: dict[str, Any] = {
                "count": _count(calls),
                "args": flops,
                "parent": around,
                **self._place(),
                **figures,
            }
            parent = self._rows.summary(kind, name, unit="ns", **columns)
        elif figures:
            parent = self._metric(name, calls, figures, gpu=self._of_gpu, parent=around)
        if more.get("total"):
            gpu = self._metric(name, calls, more, gpu=True, parent=parent)
            parent = gpu if parent is None else parent
        if parent is not None:
            self._open.append((indent, parent))
        self._lines.used()

    def _figures(self, cell: str) -> dict[str, Any]:
        """The figures of a cell that are there, in ns, and the share."""
        *times, share = cell.split(" / ") if cell else [""]
        named = zip(_FIGURES, times, strict=False)
        figures: dict[str, Any] = {name: float(Decimal(time) * self._factor) for name, time in named if time != "-"}
        return figures | ({"percent": float(share)} if figures and share != "-" else {})

    def _metric(self, name: str, calls: str, figures: dict[str, Any], *, gpu: bool, parent: int | None = None) -> int:
        """Adds the time of the CPU or the GPU of what isn't added up."""
        metric = "GPU time" if gpu else "time" if self._title == "Distribution Summary" else "CPU time"
        columns: dict[str, Any] = {"count": _count(calls), "parent": parent, **self._place(), **figures}
        return self._rows.summary("metric", name, metric=metric, unit="ns", **columns)

    def _memory(self, match: re.Match[str]) -> None:
        """Adds what a name allocated, in B."""
        args: dict[str, Any] = {"place": self._device, "Type": match["type"], "Free Count": int(match["frees"])}
        args |= {"Free Size": int(match["freed"]), "Increased Size": int(match["more"])}
        columns: dict[str, Any] = {"total": float(match["size"]), "count": int(match["count"]), **self._place()}
        self._rows.summary("alloc", match["name"], metric="memory", unit="B", args=args, **columns)
        self._lines.used()

    def _place(self) -> dict[str, Any]:
        return {"scope": [self._title], "table": self._table}


def _count(calls: str) -> int | None:
    return int(calls) if calls != "-" else None


FORMAT = Format(
    "paddle",
    "PaddlePaddle profiler tables: operators, kernels, phases",
    patterns=("*.txt", "*.log"),
    probe=probe,
    read=_Text.read,
    words=("pu total / avg / max / min / ratio(%)",),
    prose=True,
)
