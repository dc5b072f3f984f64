"""The charts of answers: why devices are idle, how near the work is to what the machine can do.

why idle    host late         ███████  89.0%        aten::addmm   ███  the host in the gaps
            launch overhead   █        11.0%        cudaMalloc    █
roofline
TFLOP/s     ____________ bf16      the roof: the memory's rate times FLOP/byte, up to the peak of the type
          ／  o   O
        ／ o                       an operator, with a circle as large as its time
      ／    FLOP/byte              both axes are logarithmic
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ktrace.analysis.idle.causes import IdleAnswer
from ktrace.analysis.roofline.answer import RooflineAnswer
from ktrace.analysis.summary.summary import Summary
from ktrace.page.blocks import BarRow, Bars, Lists, Plot, Section, named, share, tag
from ktrace.page.charts import bar
from ktrace.tables.figures import brief, duration

#: The largest and the smallest circle, in pixels.
_LARGEST, _SMALLEST = 16.0, 4.0


@dataclass(frozen=True)
class Point:
    """An operator: FLOPs per byte, TFLOP/s, its part of the time of all operators (0 to 1), its figures in words."""

    intensity: float
    tflops: float
    share: float
    title: str
    colour: str = "k1"


def roofline(points: Sequence[Point], ceilings: dict[str, float], gb_per_s: float | None) -> Markup:
    """The chart; `ceilings` are the peak TFLOP/s by type, `gb_per_s` the rate of the memory, None if it isn't known.

    Raises ValueError without points.
    """
    across = _Axis([point.intensity for point in points] + [1.0, 1000.0])
    up = _Axis([point.tflops for point in points] + list(ceilings.values()))
    drawn: list[object] = [*_grid(across, up)]
    for name, peak in ceilings.items():
        begin = 1e3 * peak / gb_per_s if gb_per_s else across.lowest
        line = {"x1": across.at(max(begin, across.lowest)), "x2": "100%", "y1": up.down(peak), "y2": up.down(peak)}
        drawn.append(tag("line", class_="mark", **line))
        drawn.append(tag("text", f"{name} {peak:,g}", x="100%", y=up.down(peak), dy="-4", text_anchor="end"))
    if gb_per_s:
        drawn.append(_slope(across, up, gb_per_s, max(ceilings.values(), default=up.highest)))
    for point in sorted(points, key=lambda point: -point.share):
        radius = max(_SMALLEST, _LARGEST * math.sqrt(point.share))
        place = {"cx": across.at(point.intensity), "cy": up.down(point.tflops), "r": f"{radius:.1f}"}
        drawn.append(tag("circle", tag("title", point.title), class_=f"{point.colour} dot", **place))
    label = "; ".join(point.title.replace("\n", ", ") for point in points[:10])
    return tag("svg", drawn, class_="chart columns", width="100%", role="img", aria_label=label)


class _Axis:
    """A logarithmic axis that takes in all values."""

    def __init__(self, values: Sequence[float]) -> None:
        known = [value for value in values if value > 0]
        self._low = math.floor(math.log10(min(known)) - 0.1)
        self._high = max(math.log10(max(known)) + 0.25, self._low + 1)
        self.lowest, self.highest = 10.0**self._low, 10.0**self._high

    def _place(self, value: float) -> float:
        return 100 * (math.log10(value) - self._low) / (self._high - self._low)

    def at(self, value: float) -> str:
        """The place from the left."""
        return f"{self._place(value):.2f}%"

    def down(self, value: float) -> str:
        """The place from the top."""
        return f"{100 - self._place(value):.2f}%"

    def decades(self) -> list[float]:
        """The powers of ten on the axis."""
        return [10.0**power for power in range(self._low, math.floor(self._high) + 1)]


def _grid(across: _Axis, up: _Axis) -> list[Markup]:
    """Lines and labels at powers of ten."""
    drawn = []
    for value in up.decades():
        y = up.down(value)
        drawn.append(tag("line", class_="grid", x1="0", x2="100%", y1=y, y2=y))
        drawn.append(tag("text", f"{value:g}", class_="tick", x="-8", y=y, dy="4", text_anchor="end"))
    for value in across.decades():
        x = across.at(value)
        drawn.append(tag("line", class_="grid", x1=x, x2=x, y1="0", y2="100%"))
        drawn.append(tag("text", f"{value:g}", class_="tick", x=x, y="100%", dx="3", dy="-4"))
    return drawn


def _slope(across: _Axis, up: _Axis, gb_per_s: float, highest: float) -> Markup:
    """The roof of the memory, from the left or the bottom up to the highest peak."""
    begin = max(across.lowest, 1e3 * up.lowest / gb_per_s)
    end = min(across.highest, 1e3 * highest / gb_per_s)
    line = {"x1": across.at(begin), "x2": across.at(end)}
    line |= {"y1": up.down(begin * gb_per_s / 1e3), "y2": up.down(end * gb_per_s / 1e3)}
    return tag("line", tag("title", f"memory: {gb_per_s:,g} GB/s"), class_="mark", **line)


#: How many spans of the host are drawn.
_SPANS = 8

#: How many operators the roofline shows.
_OPERATORS = 60


def idle(summary: Summary) -> Section | None:
    """The idle time of all devices by cause, and what the host did in the gaps that it decided."""
    answer = summary.answers.get("idle")
    if not isinstance(answer, IdleAnswer):
        return None
    causes: Counter[str] = Counter()
    spans: Counter[str] = Counter()
    for device in answer.devices:
        for cause in device.causes:
            causes[cause.cause] += cause.time
            for span in cause.host:
                spans[span.name] += span.time
    whole = causes.total()
    if not whole:
        return None
    lists = [("cause", _bars(causes, whole)), ("what the host did meanwhile", _bars(spans, whole))]
    hint = "Shares of the time in which devices had nothing to do between their first and their last work."
    return Section("idle", "Why devices are idle", hint, [Lists([(title, bars) for title, bars in lists if bars.rows])])


def machine(summary: Summary, colours: dict[str, str]) -> Section | None:
    """The roofline of each device whose peak rates are known; `colours` are those of operations."""
    answer = summary.answers.get("roofline")
    if not isinstance(answer, RooflineAnswer):
        return None
    plots = []
    for number, (device, peak) in enumerate(zip(answer.work, answer.peak_of, strict=True)):
        rates = [rate for rate in answer.operators if rate.item and rate.item.device == number]
        rates = [rate for rate in rates if rate.intensity and rate.tflops][:_OPERATORS]
        if peak is None or not rates:
            continue
        whole = sum(rate.time for rate in rates)
        used = {rate.item.precision for rate in rates if rate.item}
        ceilings = {name: rate for name, rate in peak.tflops.items() if name in used}
        points = [
            Point(
                rate.intensity or 0,
                rate.tflops or 0,
                rate.time / whole,
                f"{rate.key} {rate.item.shapes if rate.item else ''}\n{rate.tflops:,.4g} TFLOP/s,"
                f" {rate.intensity:,.4g} FLOP/byte, {duration(rate.time)}",
                colours.get(rate.item.operation if rate.item else "", "k1"),
            )
            for rate in rates
        ]
        plots.append(Plot(roofline(points, ceilings, peak.gb_per_s), f"{device.label}: FLOP/byte", "up: TFLOP/s"))
    hint = "Each circle is an operator with its shapes, as large as its time; the lines are what the device can do."
    return Section("roofline", "How near to the machine", hint, plots) if plots else None


def _bars(times: Counter[str], whole: int) -> Bars:
    """A bar for each of the longest times, and a line for the rest."""
    drawn = times.most_common(_SPANS)
    longest = drawn[0][1] if drawn else 0
    rows = [
        BarRow(
            named(name),
            bar(time, longest, "k1", f"{name}: {duration(time)}"),
            share(time, whole),
            f" {brief(time)}",
        )
        for name, time in drawn
    ]
    if rest := len(times) - len(drawn):
        time = times.total() - sum(time for _, time in drawn)
        rows.append(BarRow(named(f"{rest:,} more"), None, share(time, whole), f" {brief(time)}", rest=True))
    return Bars(rows)
