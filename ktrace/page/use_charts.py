"""Charts over time: use of devices, steps, layers, waits.

cuda:0      ██████▒▒▓▓░░░   compute, overlapped and exposed communication, copies, idle
steps       ▅▆▅▅█▅▅         a column for each step, by operation
gaps        │───○──────     median, 95th percentile, longest
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from markupsafe import Markup

from ktrace.analysis.summary.summary import Summary
from ktrace.analysis.work.groups import OTHER, DeviceUse, Group, Spread
from ktrace.model.arrays import Float64
from ktrace.page.blocks import Bars, Legend, Lists, Plot, Row, Section, named, share
from ktrace.page.charts import LogAxis, Segment, columns, stack
from ktrace.tables.figures import brief, duration, harmless

#: The most that is drawn: devices, columns of steps.
_DEVICES, _COLUMNS = 32, 120

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
        Segment("compute and communication at once", overlapped, "overlapped"),
        Segment("communication alone (exposed)", use.exposed_communication, "communication"),
        Segment("copies alone", use.busy - use.compute - use.exposed_communication, "copies"),
        Segment("idle", use.idle, "idle"),
    ]


def device_row(label: str, use: DeviceUse, longest: int) -> Row:
    """The bar of a device; `longest` is the span of the longest bar."""
    drawn = stack(device_parts(use), longest)
    return Row(named(label), drawn, share(use.busy, use.span), f" of {brief(use.span)}")


def device_legend(uses: Iterable[DeviceUse]) -> Legend:
    """The names of the parts that occur on any device, in their order."""
    parts = {part.name: part for use in uses for part in device_parts(use) if part.value > 0}
    return Legend([(part.name, part.colour) for part in parts.values()])


def devices(uses: Sequence[DeviceUse]) -> Section | None:
    """A bar for each device."""
    drawn = [use for use in uses if use.span > 0][:_DEVICES]
    if not drawn:
        return None
    longest = max(use.span for use in drawn)
    rows = [device_row(use.label, use, longest) for use in drawn]
    if len(uses) > len(drawn):
        rows.append(Row(named(f"{len(uses) - len(drawn):,} more"), rest=True))
    hint = "Busy time from the begin of the first to the end of the last work."
    return Section("devices", "Use of devices", hint, [Bars(rows), device_legend(drawn)])


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
    rest = totals - sum(operations.values(), np.zeros(len(totals)))
    if rest.max() > 0.5:
        operations[OTHER] = rest
    colours = {OTHER: "other", **colours}
    walls = np.array([use.wall for use in summary.step_use])
    stacks, titles, marks, per = [], [], [], -(-len(totals) // _COLUMNS)
    for part in _parts(len(totals), per):
        stacks.append([Segment(name, float(of[part].mean()), colours[name]) for name, of in operations.items()])
        lines = [f"{_named(summary.steps[part])}: {duration(float(totals[part].mean()))} of work"]
        if len(walls):
            marks.append(float(walls[part].mean()))
            lines.append(f"{_WALL}: {duration(marks[-1])}")
        lines += [f"{harmless(one.name)}: {duration(one.value)}" for one in stacks[-1] if one.value > 0]
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
    known = share(float(totals.sum()), summary.total)
    hint = f"All work of each layer; {known} of the work has a layer.{_averaged(per, 'layers')}"
    return Section("layers", "Layer by layer", hint, [_plot(columns(stacks, titles), names)])


def step_totals(summary: Summary) -> Float64 | None:
    """All work in each step, ns; None where it isn't known."""
    known = [group.steps for group in summary.groups.get("operation", []) if group.steps is not None]
    if not known or not summary.steps:
        return None
    total: Float64 = np.sum(known, axis=0)
    return total


def waits(uses: Sequence[DeviceUse]) -> Section | None:
    """Gaps between work, and the time from launch to start."""
    lists = []
    for title, of in (("gaps without work", "gaps"), ("from launch to begin", "queueing")):
        known: list[tuple[str, Spread]] = []
        for use in uses[:_DEVICES]:
            spread: Spread | None = getattr(use, of)
            if spread and spread.count:
                known.append((use.label, spread))
        if known:
            lists.append((title, _spreads(known)))
    hint = "A line at the median, a ring at the 95th percentile, on to the longest."
    return Section("waits", "Waits", hint, [Lists(lists)]) if lists else None


def _spreads(known: Sequence[tuple[str, Spread]]) -> Bars:
    axis = LogAxis(min(spread.median for _, spread in known), max(spread.max for _, spread in known))
    rows = []
    for label, spread in known:
        title = (
            f"{spread.count:,} times, {duration(spread.total)} in all: median {duration(spread.median)}, "
            f"95th percentile {duration(spread.p95)}, longest {duration(spread.max)}"
        )
        drawn = axis.spread(spread.median, spread.p95, spread.max, title)
        rows.append(Row(named(label), drawn, brief(spread.total), f" in {spread.count:,}"))
    return Bars(rows, scale=axis.ticks())


def _plot(drawn: Markup, names: Sequence[str]) -> Plot:
    return Plot(drawn, harmless(names[0]), harmless(names[-1]))


def _parts(count: int, per: int) -> list[slice]:
    return [slice(first, first + per) for first in range(0, count, per)]


def _averaged(per: int, what: str) -> str:
    return f" A column is the mean of {per} {what}." if per > 1 else ""


def _named(names: Sequence[str]) -> str:
    if len(names) == 1:
        return harmless(names[0])
    return f"{harmless(names[0])} to {harmless(names[-1])}, on average"
