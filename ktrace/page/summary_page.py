"""The charts of a summary: key figures, use of the devices, operations, steps, kernels, waits.

header      span, busy, exposed communication, occupancy
devices     ██████▒▒▓▓░░░   (charts.py)
why idle    host late  ███  (answer_charts.py)
operations  gemm  ████████  61.5%
steps       ▅▆▅▅█▅▅         (charts.py)
kernels     name  ████  ─▁█▃──   total time, and how long single launches took
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from ktrace.analysis.summary.summary import Summary
from ktrace.analysis.work.groups import OTHER, DeviceUse, Group
from ktrace.page import answer_charts
from ktrace.page.blocks import BarRow, Bars, KeyFigure, Lists, Section, named, share
from ktrace.page.charts import LogAxis, bar, devices, layers, operation_colours, step_totals, steps, waits
from ktrace.tables.figures import brief, duration, escape_controls, exact

#: The most that is drawn: operations, groups of other kinds, kernels, runs.
_OPERATIONS, _GROUPS, _KERNELS, _RUNS = 14, 8, 25, 6

_WORK = {"events": "device work", "statistics": "work in tables", "host": "work on the host"}

#: The other columns that work is grouped by, below the kernels.
_OTHERS = ("library", "precision", "stream", "device", "rank", "source", "run")


def charts(summary: Summary) -> list[Section]:
    """The parts of the page that the trace has figures for."""
    colours = operation_colours(summary.groups.get("operation", []))
    parts = [devices(summary.devices), answer_charts.idle(summary)]
    if summary.runs:
        for number, (run, one) in enumerate([*summary.runs.items()][:_RUNS]):
            parts += [_operations(one, colours, f"-{number}", f": {run}"), _kernels(one, f"-{number}", f": {run}")]
    else:
        parts += [_operations(summary, colours), steps(summary, colours), layers(summary), _kernels(summary)]
    parts += [answer_charts.machine(summary, colours), _others(summary), waits(summary.devices)]
    return [part for part in parts if part]


def key_figures(summary: Summary) -> list[KeyFigure]:
    """The boxes at the top of the page."""
    figures: list[KeyFigure] = []
    if summary.span:
        figures.append(("span", brief(summary.span[1] - summary.span[0]), "first start to last end"))
    count = f"{summary.count:,} times" if summary.count is not None else ""
    if summary.unit == "ns":
        figures.append((_WORK.get(summary.work, summary.work), brief(summary.total), count))
    figures += _of_devices(summary.devices)
    if summary.steps:
        totals = step_totals(summary)
        middle = "" if totals is None else f"{brief(float(np.median(totals)))} of work each"
        figures.append(("steps", f"{len(summary.steps):,}", middle))
    if operations := [group for group in summary.groups.get("operation", []) if group.key != OTHER]:
        part = share(operations[0].total, summary.total)
        figures.append(("heaviest operation", operations[0].key, f"{part} of the work"))
    return figures


def _of_devices(uses: Sequence[DeviceUse]) -> list[KeyFigure]:
    """Key figures of all devices together."""
    span, busy = sum(use.span for use in uses), sum(use.busy for use in uses)
    if not span:
        return []
    many = f" on {len(uses)} devices" if len(uses) > 1 else ""
    figures: list[KeyFigure] = [("busy", share(busy, span), f"{brief(span - busy)} idle{many}")]
    if communication := sum(use.communication for use in uses):
        exposed = sum(use.exposed_communication for use in uses)
        detail = f"{brief(exposed)} of {brief(communication)}"
        figures.append(("exposed communication", share(exposed, span), detail))
    known = [(use.occupancy, use.busy) for use in uses if use.occupancy is not None]
    if weight := sum(time for _, time in known):
        mean = sum(occupancy * time for occupancy, time in known) / weight
        figures.append(("achieved occupancy", f"{mean:.1f}%", "mean by time"))
    return figures


def _operations(summary: Summary, colours: dict[str, str], place: str = "", of: str = "") -> Section | None:
    """A bar for each operation; `place` ends the anchor and `of` the heading where there are several such parts."""
    groups = summary.groups.get("operation", [])
    if not groups:
        return None
    hint = "Share of all work, the heaviest first."
    drawn = _groups(summary, groups, _OPERATIONS, colours)
    return Section(f"operations{place}", f"By operation{of}", hint, [drawn])


def _others(summary: Summary) -> Section | None:
    """The other columns that work is grouped by, as lists next to each other."""
    known = {by: groups for by in _OTHERS if len(groups := summary.groups.get(by, [])) > 1}
    if not known:
        return None
    lists = [
        (by, _groups(summary, groups, _GROUPS, {group.key: "k1" for group in groups})) for by, groups in known.items()
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
    call, title = ("call", "Heaviest calls") if summary.work == "host" else ("launch", "Heaviest kernels")
    hint = "Share of all work."
    if axis:
        hint += f" On the right the time of one {call}: a line at the median, a ring at the 95th percentile."
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
        lines.append(f"{group.count:,} times")
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
