"""The charts of a summary: key figures, use of the devices, operations, steps, kernels, waits.

header      span, busy, exposed communication, occupancy
devices     ██████▒▒▓▓░░░   (charts.py)
why idle    launch-bound  ███
operations  gemm  ████████  61.5%
steps       ▅▆▅▅█▅▅         (charts.py)
kernels     name  ████  ─▁█▃──   total time, and how long single launches took

The charts of answers: why devices are idle, how near the work is to what the machine can do.

why idle    launch-bound      ███████  89.0%        aten::addmm   ███  the host in the gaps
            launch latency    █        11.0%        cudaMalloc    █
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
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
from markupsafe import Markup

from ktrace.analysis.answers.summary.nature import NATURES
from ktrace.analysis.answers.summary.summary import Summary
from ktrace.analysis.questions.idle import IdleAnswer
from ktrace.analysis.questions.memory.answer import MemoryAnswer, MemoryUse
from ktrace.analysis.questions.roofline.answer import RooflineAnswer
from ktrace.analysis.work.gaps import SPOKEN, SPOKEN_HOST
from ktrace.analysis.work.groups import OTHER, DeviceUse, Group
from ktrace.page.blocks import BarRow, Bars, KeyFigure, Lists, Plot, Section, named, share, tag
from ktrace.page.charts import (
    LogAxis,
    Segment,
    bar,
    columns,
    layers,
    operation_colours,
    step_totals,
    steps,
    waits,
)
from ktrace.page.ranks import devices
from ktrace.report import counted
from ktrace.tables import brief, duration, escape_controls, exact, size

#: The most that is drawn: operations, groups of other kinds, kernels, runs.
_OPERATIONS, _GROUPS, _KERNELS, _RUNS = 14, 8, 25, 6

_WORK = {"events": "device work", "statistics": "work in tables", "samples": "samples"}

#: What one of the heaviest is called where it isn't the launch of a kernel, and the title above them.
_CALLED = {"host": ("call", "Top calls"), "samples": ("sample", "Top functions")}

#: The other columns that work is grouped by, below the kernels.
_OTHERS = ("library", "precision", "stream", "device", "rank", "source", "run")


#: 2000 and 2100 in s of unix time: what a clock says outside of them isn't when something was recorded.
_EARLIEST, _LATEST = 946_684_800, 4_102_444_800

#: So many devices, hosts or files are named in the line of what the figures are of.
_NAMES = 3


def charts(summary: Summary) -> list[Section]:
    """The parts of the page that the trace has figures for."""
    colours = operation_colours(summary.groups.get("operation", []))
    parts: list[Section | None] = [*devices(summary), idle(summary)]
    if summary.runs:
        for number, (run, one) in enumerate([*summary.runs.items()][:_RUNS]):
            parts += [_operations(one, colours, f"-{number}", f": {run}"), _kernels(one, f"-{number}", f": {run}")]
    else:
        parts += [_operations(summary, colours), steps(summary, colours), layers(summary), _kernels(summary)]
    parts += [machine(summary, colours), memory(summary), _others(summary), waits(summary.devices)]
    return [part for part in parts if part]


def key_figures(summary: Summary) -> list[KeyFigure]:
    """The boxes at the top of the page."""
    figures: list[KeyFigure] = []
    if summary.span:
        figures.append(("span", brief(summary.span[1] - summary.span[0]), "first start to last end"))
    count = counted(summary.count, "time") if summary.count is not None else ""
    if summary.unit == "ns":
        what = NATURES[summary.nature].time if summary.work == "host" else _WORK.get(summary.work, summary.work)
        figures.append((what, brief(summary.total), count))
    figures += _of_devices(summary.devices)
    if summary.steps:
        totals = step_totals(summary)
        middle = "" if totals is None else f"{brief(float(np.median(totals)))} of work each"
        figures.append(("step" if len(summary.steps) == 1 else "steps", f"{len(summary.steps):,}", middle))
    if operations := [group for group in summary.groups.get("operation", []) if group.key != OTHER]:
        part = share(operations[0].total, summary.total)
        figures.append(("top operation", operations[0].key, f"{part} of the work"))
    return figures


def origin(summary: Summary) -> list[str]:
    """What the figures are of: devices, hosts, files with sizes, the time of recording, as far as these are known."""
    names = Counter(use.name for use in summary.devices if use.name)
    parts = [_few([f"{count:,} x {name}" if count > 1 else name for name, count in names.items()])]
    parts.append(_few(summary.setting.hosts))
    inputs = dict.fromkeys(one["path"] for one in summary.report.inputs) if summary.report else {}
    files = [path for text in inputs if (path := Path(text)).is_file()]
    if files:
        total = size(sum(path.stat().st_size for path in files))
        parts.append(f"{_few([path.name for path in files])}, {total}")
    begin = (summary.span[0] + (summary.setting.unix_offset or 0)) // 10**9 if summary.span else 0
    if summary.setting.unix_offset is not None and _EARLIEST < begin < _LATEST:
        parts.append(f"recorded {datetime.fromtimestamp(begin, timezone.utc):%Y-%m-%d %H:%M} UTC")
    elif files:
        latest = max(path.stat().st_mtime for path in files)
        parts.append(f"file of {datetime.fromtimestamp(latest, timezone.utc):%Y-%m-%d %H:%M} UTC")
    return [part for part in parts if part]


def _few(names: Sequence[str]) -> str:
    """Names in a line: all of three, else the first and how many others there are."""
    return ", ".join(names) if len(names) <= _NAMES else f"{names[0]} and {len(names) - 1:,} more"


def _of_devices(uses: Sequence[DeviceUse]) -> list[KeyFigure]:
    """Key figures of all devices together."""
    span, busy = sum(use.span for use in uses), sum(use.busy for use in uses)
    if not span:
        return []
    many = f" on {len(uses):,} devices" if len(uses) > 1 else ""
    figures: list[KeyFigure] = [("busy", share(busy, span), f"{brief(span - busy)} idle{many}")]
    if communication := sum(use.communication for use in uses):
        exposed = sum(use.exposed_communication for use in uses)
        detail = f"{brief(exposed)} of {brief(communication)}"
        figures.append(("exposed communication", share(exposed, span), detail))
    occupancies = [(use.occupancy, use.busy) for use in uses if use.occupancy is not None]
    if weight := sum(time for _, time in occupancies):
        mean = sum(occupancy * time for occupancy, time in occupancies) / weight
        figures.append(("achieved occupancy", f"{mean:.1f}%", "mean by time"))
    return figures


def _operations(summary: Summary, colours: dict[str, str], place: str = "", of: str = "") -> Section | None:
    """A bar for each operation; `place` ends the anchor and `of` the heading where there are several such parts."""
    groups = summary.groups.get("operation", [])
    if not groups:
        return None
    hint = "Share of all work, longest first."
    drawn = _groups(summary, groups, _OPERATIONS, colours)
    return Section(f"operations{place}", f"By operation{of}", hint, [drawn])


def _others(summary: Summary) -> Section | None:
    """The other columns that work is grouped by, as lists next to each other; of the same groups by other names one.

    Each rank has a device and a file of its own, mostly.
    """
    others: dict[str, list[Group]] = {}
    shown: list[list[tuple[float, int]]] = []
    for by in _OTHERS:
        groups = summary.groups.get(by, [])
        figures = sorted((group.total, group.count or 0) for group in groups)
        if len(groups) > 1 and figures not in shown:
            others[by] = groups
            shown.append(figures)
    if not others:
        return None
    lists = [
        (by, _groups(summary, groups, _GROUPS, {group.key: "k1" for group in groups})) for by, groups in others.items()
    ]
    return Section("groups", "Also by", "", [Lists(lists)])


def _groups(summary: Summary, groups: Sequence[Group], top: int, colours: dict[str, str]) -> Bars:
    """A bar for each of the first `top` groups, and one for the rest."""
    longest = max(group.total for group in groups)
    rows = []
    for group in groups[:top]:
        colour = "other" if group.key == OTHER else colours.get(group.key, "other")
        drawn = bar(group.total, longest, colour, _tooltip(group, summary))
        rows.append(BarRow(named(group.key), drawn, *_value(group.total, summary)))
    if more := groups[top:]:
        rest = sum(group.total for group in more)
        drawn = bar(min(rest, longest), longest, "other", f"{len(more):,} more: {exact(rest, summary.unit)}")
        rows.append(BarRow(named(f"{len(more):,} more"), drawn, *_value(rest, summary), rest=True))
    return Bars(rows)


def _kernels(summary: Summary, place: str = "", of: str = "") -> Section | None:
    """The heaviest kernels: their total time and, on one axis, the times of single launches."""
    groups = summary.groups.get("kernel", [])
    if not groups:
        return None
    drawn = groups[:_KERNELS]
    axis = _axis(drawn) if summary.unit == "ns" else None
    longest = max(group.total for group in drawn)
    rows = []
    for group in drawn:
        time = bar(group.total, longest, "k1", _tooltip(group, summary))
        strip = _strip(group, axis) if axis else None
        rows.append(BarRow(named(group.key, title=group.name), time, *_value(group.total, summary), strip))
    if more := groups[_KERNELS:]:
        value = _value(sum(group.total for group in more), summary)
        rows.append(BarRow(named(f"{len(more):,} more"), None, *value, rest=True))
    call, title = _CALLED.get(summary.work, ("launch", "Top kernels"))
    hint = "Share of all work."
    if axis:
        hint += f" Right: the time of one {call}, its median (line) and 95th percentile (ring)."
    bars = Bars(rows, "kernels" if axis else "names", head=axis.ticks() if axis else None)
    return Section(f"kernels{place}", f"{title}{of}", hint, [bars])


def _axis(groups: Sequence[Group]) -> LogAxis | None:
    """The axis for the times of single launches; None where the source doesn't have them."""
    lowest = [group.min for group in groups if group.min is not None]
    highest = [group.max for group in groups if group.max is not None]
    return LogAxis(min(lowest), max(highest)) if lowest and highest else None


def _strip(group: Group, axis: LogAxis) -> Markup | None:
    title = _spread(group)
    if group.durations is not None and group.median is not None and group.p95 is not None:
        return axis.strip(group.durations, group.median, group.p95, title)
    middle = group.median if group.median is not None else group.average
    if group.min is None or group.max is None or middle is None:
        return None
    return axis.range(group.min, middle, group.max, title)


def _value(total: float, summary: Summary) -> tuple[str, str]:
    """The figures of a row: the share and the time; only the share where the source has no times."""
    return share(total, summary.total), f" {brief(total)}" if summary.unit == "ns" else ""


def _tooltip(group: Group, summary: Summary) -> str:
    """The group's figures in words."""
    lines = [
        escape_controls(group.key),
        f"{exact(group.total, summary.unit)}, {share(group.total, summary.total)} of all",
    ]
    if group.count is not None:
        lines.append(counted(group.count, "time"))
    return "\n".join([*lines, _spread(group)]).rstrip()


def _spread(group: Group) -> str:
    figures = {
        "shortest": group.min,
        "median": group.median,
        "average": group.average,
        "95th percentile": group.p95,
        "longest": group.max,
    }
    return ", ".join(f"{name} {duration(value)}" for name, value in figures.items() if value is not None)


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
        positive = [value for value in values if value > 0]
        self._low = math.floor(math.log10(min(positive)) - 0.1)
        self._high = max(math.log10(max(positive)) + 0.25, self._low + 1)
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
            causes[SPOKEN.get(cause.cause, cause.cause)] += cause.time
            for span in cause.host:
                spans[SPOKEN_HOST.get(span.name, span.name)] += span.time
    whole = causes.total()
    if not whole:
        return None
    lists = [("cause", _bars(causes, whole)), ("CPU activity during gaps", _bars(spans, whole))]
    hint = "Shares of idle time, between the first and the last work of a device."
    return Section("idle", "Why devices are idle", hint, [Lists([(title, bars) for title, bars in lists if bars.rows])])


#: Columns of the chart of memory over time, and how many charts there are.
_MOMENTS, _PLACES = 120, 4


def memory(summary: Summary) -> Section | None:
    """The memory of each device over time: the most that is allocated in each part of it."""
    answer = summary.answers.get("memory")
    if not isinstance(answer, MemoryAnswer):
        return None
    plots = [_memory(use) for use in answer.places[:_PLACES] if len(use.times) > 1 and use.peak > 0]
    hint = "Peak of allocated memory in each interval; the line is what the allocator has reserved."
    return Section("memory", "Memory", hint, plots) if plots else None


def _memory(use: MemoryUse) -> Plot:
    """A column for each part of the time of a device."""
    end = max(int(use.times[-1]), 1)
    at = np.minimum(use.times * _MOMENTS // end, _MOMENTS - 1)
    stacks, titles, marks = [], [], []
    for moment in range(_MOMENTS):
        low, high = np.searchsorted(at, [moment, moment + 1]).tolist()
        rows = slice(max(low - 1, 0), max(high, 1))  # with what was there when it began
        most = int(use.allocated[rows].max()) if high else use.before or 0
        stacks.append([Segment("allocated", most, "k1")])
        titles.append(f"{duration(moment * end / _MOMENTS)}: {size(most)}")
        if use.reservations is not None:
            marks.append(float(use.reservations[rows].max()))
    return Plot(columns(stacks, titles, marks, size), use.label, duration(end))


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
    return Section("roofline", "Roofline", hint, plots) if plots else None


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
    if undrawn := len(times) - len(drawn):
        time = times.total() - sum(time for _, time in drawn)
        rows.append(BarRow(named(f"{undrawn:,} more"), None, share(time, whole), f" {brief(time)}", rest=True))
    return Bars(rows)
