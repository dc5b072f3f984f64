"""Trees that `proton-viewer` and hatchet print of a profile: metrics before names, kernels at the ends of branches.

    proton-viewer -m time/ms,tflop16/s matmul.hatchet
    3.000 650.100 ROOT
    ├─ 2.000 700.200 cublas [M=512]
    │  └─ 2.000 nan nvjet_tst_128x256
    └─ 1.000 550.300 matmul_kernel

    Legend (Metric: time/ms (inc) Min: 0.00 Max: 3.00)

The command, or the legend, says which metric is a time and its unit: without that nothing is known of the figures. A
time includes those below it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.device_names import device_work
from ktrace.kit.text.line_reader import LineReader
from ktrace.kit.text.lines import Line
from ktrace.kit.text.numbers import duration_ns
from ktrace.kit.text.trees import INCLUSIVE

_ROW = re.compile(r"(?P<branch>[│├└─ ]{0,400})(?P<figures>(?:(?:\d{1,15}\.\d{3}|nan) ){1,8})(?P<name>\S.{0,4000})")
_COMMAND = re.compile(r"proton-viewer\b.{0,200}? (?:-m|--metrics) +(?P<metrics>[\w/,]{1,200})")
_LEGEND = re.compile(r"\s*Legend \(Metric: (?P<metrics>\S{1,80}) ")
_TIME = re.compile(r"(?P<avg>avg_)?time/(?P<unit>s|ms|us|ns)")


def _metrics(lines: Sequence[str]) -> list[str]:
    """The metrics that the command or the legend names, in the order of the figures; none if neither is there."""
    for pattern in (_COMMAND, _LEGEND):
        for line in lines:
            if (match := pattern.search(line)) and any(map(_TIME.fullmatch, match["metrics"].split(","))):
                return match["metrics"].split(",")
    return []


def probe(sample: Sample) -> Match | None:
    """DIALECT for a tree with a ROOT and a time of a known unit; NEAR without that."""
    for number, line in enumerate(sample.lines, 1):
        match = _ROW.fullmatch(line) if line.endswith(" ROOT") else None
        if match and not match["branch"]:
            if _metrics(sample.lines):
                return Match(Score.DIALECT, f"has a tree of proton-viewer (line {number})")
            return Match(Score.NEAR, f"has a tree of proton-viewer (line {number}), but not its metrics (-m time/ms)")
    return None


class ProtonTree(LineReader):
    """Adds kernels, which are the rows without others below them, and the times of what they are within."""

    def __init__(self, source: Source, conversion: Conversion) -> None:
        super().__init__(source, conversion)
        self._metrics = _metrics(source.sample().lines)
        if not self._metrics:
            raise DamagedInput(
                "nothing says which figure of the tree is a time",
                path=source.path,
                expected="the command above it, such as proton-viewer -m time/ms, or the legend below it",
                remedy="paste one of them, too, or give the profile (run.hatchet)",
            )
        times = ((index, match) for index, metric in enumerate(self._metrics) if (match := _TIME.fullmatch(metric)))
        self._place, self._time = next(times)
        self._above: list[tuple[int, str]] = []  # the depth and the name of each row that the next one may be below

    def take(self, line: Line) -> None:
        match = _ROW.fullmatch(line.text)
        if not match:
            if not line.text.strip() or _LEGEND.match(line.text):
                self._lines.structure()
            return
        metrics, figures = self._metrics, match["figures"].split()
        name, depth = match["name"], len(match["branch"])
        total = duration_ns(figures[self._place], self._time["unit"]) if len(figures) == len(metrics) else None
        if total is None:
            self._lines.skip("bad-record", "no time")
            return
        while self._above and self._above[-1][0] >= depth:
            self._above.pop()
        below = _ROW.fullmatch(self._lines.peek() or "")
        is_inner = below is not None and len(below["branch"]) > depth
        kind, copy_kind = device_work(name)
        kind = "total" if not depth and is_inner else "metric" if is_inner else kind
        shown = zip(metrics, figures, strict=True)
        args = {metric: figure for metric, figure in shown if metric != metrics[self._place]}
        columns: dict[str, Any] = {"avg" if self._time["avg"] else "total": total, "args": args or None}
        columns |= {"metric": INCLUSIVE} if kind == "metric" else {"copy_kind": copy_kind}
        self._rows.summary(kind, name, scope=[word for _, word in self._above] or None, unit="ns", **columns)
        self._above.append((depth, name))
        self._lines.used()


FORMAT = Format(
    "proton-tree",
    "trees of Triton's proton-viewer, with the metric of time",
    patterns=("*.txt", "*.log"),
    probe=probe,
    read=ProtonTree.read,
    words=(" root",),
    prose=True,
)
