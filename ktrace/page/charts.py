"""Charts as inline SVG, drawn in percent of their width so that they fit a phone and a wall.

    stack      ████████▒▒▒░░      parts of a whole: the use of a device
    bar        ██████             one figure next to others
    diverging     ◄██│            less or more than before
    columns    ▂▅█▃▂              a stack for each step
    strip      ─▁▃█▅▂──           how long single launches took, on a logarithmic axis

Colours are classes of the style sheet (`k1`, `communication`, ...), so that light, dark and print each have their own.
Each drawing also has its figures as text, in a `<title>`. Charts over time are made of these:

cuda:0      ██████▒▒▓▓░░░   compute, overlapped and exposed communication, copies, idle
steps       ▅▆▅▅█▅▅         a column for each step, by operation
gaps        │───○──────     median, 95th percentile, longest
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from ktrace.analysis.work.groups import MANY, OTHER, DeviceUse, Group, InSteps, Spread
from ktrace.model.arrays import Float64, Int64
from ktrace.page.blocks import BarRow, Bars, Legend, Lists, Plot, Section, named, share, tag
from ktrace.tables import TIMES, brief, duration, escape_controls

if TYPE_CHECKING:
    from ktrace.analysis.answers.summary.summary import Summary

#: Times of the model are shorter.
_GREATEST = 2.0**62

#: Classes of duration in which a strip counts launches; the most labels of an axis.
_CLASSES, _LABELS = 60, 4


@dataclass(frozen=True)
class Segment:
    """A piece of a stack: its name, its figure (ns), the class of its colour."""

    name: str
    value: float
    colour: str


def percent(value: float, whole: float) -> str:
    """A length in SVG: 12.345%; 0% where the whole is 0."""
    return f"{100 * value / whole:.3f}%" if whole > 0 else "0%"


def stack(parts: Sequence[Segment], whole: float) -> Markup:
    """A bar of parts one after the other; `whole` is its full width."""
    drawn, titles, begin = [], [], 0.0
    for part in parts:
        if part.value > 0:
            place = {"x": percent(begin, whole), "width": percent(part.value, whole), "height": "100%"}
            titles.append(f"{escape_controls(part.name)}: {duration(part.value)}, {share(part.value, whole)}")
            drawn.append(tag("rect", tag("title", titles[-1]), class_=part.colour, **place))
            begin += part.value
    return _svg("stack", drawn, "; ".join(titles))


def bar(value: float, longest: float, colour: str, title: str) -> Markup:
    """A bar as long as `value` is in relation to `longest`."""
    rect = tag("rect", tag("title", title), class_=colour, width=percent(max(value, 0), longest), height="100%", rx=2)
    return _svg("bar", [rect])


def pair(before: float, after: float, longest: float, title: str) -> Markup:
    """Two bars, one above the other: before in grey, after in colour."""
    upper = tag("rect", class_="before", width=percent(before, longest), height="42%", rx=2)
    lower = tag("rect", class_="after", y="50%", width=percent(after, longest), height="50%", rx=2)
    return _svg("pair", [tag("g", tag("title", title), upper, lower)])


def diverging(change: float, longest: float, colour: str, title: str) -> Markup:
    """A bar from the middle: to the left less, to the right more."""
    length = 50 * min(abs(change) / longest, 1) if longest else 0.0
    x = 50 - length if change < 0 else 50.0
    rect = tag("rect", tag("title", title), class_=colour, x=f"{x:.3f}%", width=f"{length:.3f}%", height="100%", rx=2)
    axis = tag("line", class_="axis", x1="50%", x2="50%", y1="0", y2="100%")
    return _svg("diverging", [rect, axis])


def columns(
    stacks: Sequence[Sequence[Segment]],
    titles: Sequence[str],
    marks: Sequence[float] = (),
    figure: Callable[[float], str] | None = None,
) -> Markup:
    """A column for each stack, in their order, before grid lines at round figures; `marks` are lines across columns.

    `figure` writes the figures of the axis, by default as times.
    """
    highest = max([*(sum(part.value for part in parts) for parts in stacks), *marks], default=0.0)
    lines = _round_steps(highest)
    top = max(highest, lines[-1]) * 1.04 or 1.0
    drawn = []
    for line in lines:
        y = percent(top - line, top)
        drawn.append(tag("line", class_="grid", x1="0", x2="100%", y1=y, y2=y))
        drawn.append(tag("text", (figure or _tick)(line), class_="tick", x="-8", y=y, dy="4", text_anchor="end"))
    each = 100 / max(len(stacks), 1)
    for place, (parts, title) in enumerate(zip(stacks, titles, strict=True)):
        rects, below = [], 0.0
        for part in parts:
            below += part.value
            box = {"x": f"{(place + 0.08) * each:.3f}%", "width": f"{0.84 * each:.3f}%"}
            box |= {"y": percent(top - below, top), "height": percent(part.value, top)}
            rects.append(tag("rect", class_=part.colour, **box))
        drawn.append(tag("g", tag("title", title), rects, class_="column"))
    for place, mark in enumerate(marks):
        ends = {"x1": f"{(place + 0.04) * each:.3f}%", "x2": f"{(place + 0.96) * each:.3f}%"}
        drawn.append(tag("line", class_="mark", y1=percent(top - mark, top), y2=percent(top - mark, top), **ends))
    return _svg("columns", drawn, "; ".join(title.partition("\n")[0] for title in titles))


def _bounded(ns: float) -> float:
    """A time that has a place on the axis, also for an infinite one and NaN."""
    return min(max(1.0, ns), _GREATEST)


class LogAxis:
    """A logarithmic axis of times, shared by charts that are drawn one below the other."""

    def __init__(self, shortest: float, longest: float) -> None:
        self._low = math.log10(_bounded(shortest)) - 0.03
        self._high = max(math.log10(_bounded(longest)) + 0.03, self._low + 0.5)

    def at(self, ns: float) -> float:
        """The place of a time, in percent of the width."""
        place = 100 * (math.log10(_bounded(ns)) - self._low) / (self._high - self._low)
        return min(max(place, 0.0), 100.0)

    def ticks(self) -> Markup:
        """The labels of the axis: a few round times."""
        marks, times = [], self._round()
        for time in times[:: -(-len(times) // _LABELS) or 1]:
            x = self.at(time)
            anchor = "start" if x < 3 else "end" if x > 97 else "middle"
            marks.append(tag("text", _tick(time), class_="tick", x=f"{x:.3f}%", y="80%", text_anchor=anchor))
        return _svg("axis", marks)

    def _round(self) -> list[float]:
        """The powers of ten on the axis; where they are few, also twice and five times these."""
        powers = range(math.floor(self._low), math.floor(self._high) + 1)
        factors = (1,) if self._high - self._low > 2 else (1, 2, 5)
        times = (factor * 10.0**power for power in powers for factor in factors)
        return [time for time in times if self._low <= math.log10(time) <= self._high]

    def _lines(self) -> list[Markup]:
        places = (f"{self.at(time):.3f}%" for time in self._round())
        return [tag("line", class_="grid", x1=x, x2=x, y1="0", y2="100%") for x in places]

    def strip(self, durations: Int64, median: float, p95: float, title: str) -> Markup:
        """A histogram of sorted durations, a line at the median, a ring at the 95th percentile.

        Its height is the square root of the number of launches, so that a few slow ones are visible.
        """
        bounds = 10 ** np.linspace(self._low, self._high, _CLASSES + 1)[1:-1]
        counts = np.diff(np.searchsorted(durations, bounds), prepend=0, append=len(durations))
        heights = 100 * np.sqrt(counts / max(counts.max(), 1))
        width = 100 / _CLASSES
        steps = "".join(f"V{100 - height:.1f}H{(place + 1) * width:.2f}" for place, height in enumerate(heights))
        path = tag("path", class_="mound", d=f"M0 100{steps}V100Z")
        mound = tag("svg", path, viewBox="0 0 100 100", preserveAspectRatio="none", width="100%", height="100%")
        return self._titled(title, mound, self._marks(median, p95))

    def range(self, low: float, middle: float, high: float, title: str) -> Markup:
        """A line from the lowest to the highest value, with a mark at the middle one."""
        y = {"y1": "50%", "y2": "50%"}
        line = tag("line", class_="reach", x1=f"{self.at(low):.3f}%", x2=f"{self.at(high):.3f}%", **y)
        return self._titled(title, line, self._marks(middle, None))

    def spread(self, median: float, p95: float, longest: float, title: str) -> Markup:
        """A line from the median (a mark) through the 95th percentile (a ring) to the longest."""
        y = {"y1": "50%", "y2": "50%"}
        thick = tag("line", class_="most", x1=f"{self.at(median):.3f}%", x2=f"{self.at(p95):.3f}%", **y)
        thin = tag("line", class_="reach", x1=f"{self.at(p95):.3f}%", x2=f"{self.at(longest):.3f}%", **y)
        return self._titled(title, thin, thick, self._marks(median, p95))

    def _marks(self, middle: float, p95: float | None) -> list[Markup]:
        x = f"{self.at(middle):.3f}%"
        marks = [tag("line", class_="median", x1=x, x2=x, y1="8%", y2="92%")]
        if p95 is not None:
            marks.append(tag("circle", class_="p95", cx=f"{self.at(p95):.3f}%", cy="50%", r=3))
        return marks

    def _titled(self, title: str, *drawn: object) -> Markup:
        """The strip on the grid lines of the axis; its whole area shows the title as a tooltip."""
        cover = tag("rect", class_="cover", width="100%", height="100%")
        return _svg("strip", [*self._lines(), tag("g", tag("title", title), *drawn, cover)])


def _svg(kind: str, drawn: Sequence[object], label: str | None = None) -> Markup:
    """The chart; `label` describes it where no text next to it does."""
    label_attributes = {"role": "img", "aria_label": label} if label else {"aria_hidden": "true"}
    return tag("svg", drawn, class_=f"chart {kind}", width="100%", **label_attributes)


def _tick(ns: float) -> str:
    """A round time on an axis: 100 us."""
    factor, unit = next(((factor, unit) for factor, unit in TIMES if ns >= factor), (1, "ns"))
    return f"{ns / factor:,g} {unit}"


def _round_steps(highest: float) -> list[float]:
    """Two to four round figures above 0, up to `highest` or slightly more."""
    if highest <= 0:
        return [1.0]
    rough = highest / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough)
    return [step * count for count in range(1, math.floor(highest / step) + 1)] or [step]


#: The most columns of steps that are drawn.
_COLUMNS = 120

#: Operations with a fixed colour; the heaviest of the others get the remaining colours.
_FIXED = {"collective": "communication", "copy": "copies"}
_COLOURS = ("k1", "k2", "k3", "k4", "k5", "k6")


#: The meaning of the line across a step.
_WALL = "time of the step on the host"


def operation_colours(operations: Sequence[Group]) -> dict[str, str]:
    """The colour class of each operation that has a colour."""
    free = iter(_COLOURS)
    colours = {}
    for group in operations:
        if group.key != OTHER and (colour := _FIXED.get(group.key) or next(free, None)):
            colours[group.key] = colour
    return colours


def device_parts(use: DeviceUse) -> list[Segment]:
    """The activities of a device; they add up to its span."""
    overlapped = use.communication - use.exposed_communication
    return [
        Segment("compute", use.compute - overlapped, "compute"),
        Segment("compute and communication overlapped", overlapped, "overlapped"),
        Segment("communication alone (exposed)", use.exposed_communication, "communication"),
        Segment("copies alone", use.busy - use.compute - use.exposed_communication, "copies"),
        Segment("idle", use.idle, "idle"),
    ]


def device_row(label: str, use: DeviceUse, longest: int, *tags: str) -> BarRow:
    """The bar of a device; `longest` is the span of the longest bar."""
    drawn = stack(device_parts(use), longest)
    return BarRow(named(label, *tags), drawn, share(use.busy, use.span), f" of {brief(use.span)}")


def device_legend(uses: Iterable[DeviceUse]) -> Legend:
    """The names of the parts that occur on any device, in their order."""
    parts = {part.name: part for use in uses for part in device_parts(use) if part.value > 0}
    return Legend([(part.name, part.colour) for part in parts.values()])


def steps(summary: Summary, colours: dict[str, str]) -> Section | None:
    """A column for each step; where steps are many, a column is the mean of a few."""
    totals = step_totals(summary)
    if totals is None or len(totals) < 2:
        return None
    operations = {
        group.key: group.steps
        for group in summary.groups["operation"]
        if group.key in colours and group.steps is not None
    }
    other_time = totals - sum(operations.values(), np.zeros(len(totals)))
    if other_time.max() > 0.5:
        operations[OTHER] = other_time
    colours = {OTHER: "other", **colours}
    walls = np.array([use.wall for use in summary.step_use])
    stacks, titles, marks, per = [], [], [], -(-len(totals) // _COLUMNS)
    for part in _parts(len(totals), per):
        stacks.append([Segment(name, float(of[part].mean()), colours[name]) for name, of in operations.items()])
        lines = [f"{_named(summary.steps[part])}: {duration(float(totals[part].mean()))} of work"]
        if len(walls):
            marks.append(float(walls[part].mean()))
            lines.append(f"{_WALL}: {duration(marks[-1])}")
        lines += [f"{escape_controls(one.name)}: {duration(one.value)}" for one in stacks[-1] if one.value > 0]
        titles.append("\n".join(lines))
    hint = f"Device work that was launched in each step, by operation.{_averaged(per, 'steps')}"
    used = [(name, colours[name]) for name in operations]
    drawn = _plot(columns(stacks, titles, marks), summary.steps)
    return Section("steps", "Step by step", hint, [drawn, Legend([*used, (_WALL, "mark")] if marks else used)])


def layers(summary: Summary) -> Section | None:
    """A column for each layer, in their order; the hint states the share of work that has a layer."""
    groups = [group for group in summary.groups.get("layer", []) if group.key != OTHER]
    if len(groups) < 2 or summary.unit != "ns":
        return None
    names, totals = [group.key for group in groups], np.array([group.total for group in groups])
    stacks, titles, per = [], [], -(-len(groups) // _COLUMNS)
    for part in _parts(len(groups), per):
        mean = float(totals[part].mean())
        stacks.append([Segment(_named(names[part]), mean, "k1")])
        titles.append(f"{_named(names[part])}: {duration(mean)}, {share(mean, summary.total)} of all")
    share_of_work = share(float(totals.sum()), summary.total)
    hint = f"All work of each layer; {share_of_work} of the work has a layer.{_averaged(per, 'layers')}"
    return Section("layers", "Layer by layer", hint, [_plot(columns(stacks, titles), names)])


def step_totals(summary: Summary) -> Float64 | None:
    """All work in each step, ns; None where it isn't known."""
    in_steps = [one.in_steps for one in summary.groups.get("operation", []) if one.in_steps is not None]
    return InSteps.together(in_steps).times() if in_steps and summary.steps else None


def waits(uses: Sequence[DeviceUse]) -> Section | None:
    """Gaps between work, and the time from launch to start."""
    lists = []
    for title, of in (("gaps without work", "gaps"), ("from launch to start", "queueing")):
        spreads: list[tuple[str, Spread]] = []
        for use in uses:
            spread: Spread | None = getattr(use, of)
            if spread and spread.count:
                spreads.append((use.label, spread))
        if len(uses) > MANY:
            spreads = sorted(spreads, key=lambda one: -one[1].total)[:MANY]
        if spreads:
            lists.append((title, _spreads(spreads)))
    most = f" Of {len(uses):,} devices those with the most." if len(uses) > MANY else ""
    hint = f"Line: median; ring: 95th percentile; right end: maximum.{most}"
    return Section("waits", "Waits", hint, [Lists(lists)]) if lists else None


def _spreads(spreads: Sequence[tuple[str, Spread]]) -> Bars:
    axis = LogAxis(min(spread.median for _, spread in spreads), max(spread.max for _, spread in spreads))
    rows = []
    for label, spread in spreads:
        title = (
            f"{spread.count:,} times, {duration(spread.total)} in all: median {duration(spread.median)}, "
            f"95th percentile {duration(spread.p95)}, longest {duration(spread.max)}"
        )
        drawn = axis.spread(spread.median, spread.p95, spread.max, title)
        rows.append(BarRow(named(label), drawn, brief(spread.total), f" in {spread.count:,}"))
    return Bars(rows, scale=axis.ticks())


def _plot(drawn: Markup, names: Sequence[str]) -> Plot:
    return Plot(drawn, escape_controls(names[0]), escape_controls(names[-1]))


def _parts(count: int, per: int) -> list[slice]:
    return [slice(first, first + per) for first in range(0, count, per)]


def _averaged(per: int, what: str) -> str:
    return f" A column is the mean of {per} {what}." if per > 1 else ""


def _named(names: Sequence[str]) -> str:
    if len(names) == 1:
        return escape_controls(names[0])
    return f"{escape_controls(names[0])} to {escape_controls(names[-1])}, on average"
