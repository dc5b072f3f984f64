"""The devices of a job: of many a map of ranks by steps, and the worst of them by name.

    compute                    exposed communication
 0  ▒▒▒▒▒▒▒▒▒▒▒▒               ▒▒▒▒▒▒▒▒▒▒▒▒
 5  ████████████  ◂ late       ░░░░░░░░░░░░        the others wait for it, so it waits least itself
 8  ▒▒▒▒▒▒▒▒▒▒▒▒               ▒▒▒▒▒▒▒▒▒▒▒▒

A cell is as deep as its time is long beside the median of the map. Where ranks are more than lines, a line is several
of them, with the most compute and the least waiting of any, so that one late rank is seen among a thousand.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from ktrace.analysis.answers.summary.summary import Summary
from ktrace.analysis.work.groups import MANY, DeviceUse
from ktrace.model.arrays import Bools, Float64, Int64
from ktrace.page.blocks import BarRow, Bars, Plot, Section, named, tag
from ktrace.page.charts import device_legend, device_row
from ktrace.tables import brief, duration, escape_controls, percent

#: The most lines of the map; the most pixels of all and of one; those of a label and of the headings.
LINES, HIGHEST, TALLEST, _LABEL, HEAD = 64, 400, 14, 12, 18

#: The depths of a cell: the middle one at the median, the first at half of it, the last from half as much again on.
_DEPTHS = 10


def devices(summary: Summary) -> list[Section]:
    """A bar for each device; of many the map and the worst."""
    uses = [use for use in summary.devices if use.span > 0]
    if not uses:
        return []
    if len(uses) <= MANY:
        hint = "Busy time from the start of the first to the end of the last work."
        return [_bars(summary, "Device utilisation", hint, uses, uses)]
    worst = summary.worst
    by = "how long the others waited for them" if summary.others_waited else "how busy they are, the least first"
    hint = f"{len(uses):,} devices, sorted by {by}. Busy time from the start of the first to the end of the last work."
    drawn = _map(summary, uses)
    return ([drawn] if drawn else []) + [_bars(summary, "Device utilisation", hint, worst[:MANY], uses)]


def called(use: DeviceUse, uses: Sequence[DeviceUse]) -> str:
    """What tells a device apart stands first: rank 5 · GPU 0 · H100; the model where there are several."""
    if use.rank is None or sum(one.rank == use.rank and one.device == use.device for one in uses) > 1:
        return use.label
    words = [f"rank {use.rank}"] + ([f"GPU {use.device}"] if use.device is not None else [])
    several = len({one.name for one in uses}) > 1
    return " · ".join([*words, use.name] if several and use.name else words)


def _late(summary: Summary) -> tuple[object, object]:
    """The rank that the others wait for, where that is proved, and its source."""
    straggler = next((one for one in summary.findings if one.code == "straggler"), None)
    return (straggler.subject.get("rank"), straggler.subject.get("source")) if straggler else (None, None)


def _is_late(use: DeviceUse, late: tuple[object, object]) -> bool:
    return late[1] == use.source and late[0] in (str(use.rank), use.label)


def _bars(summary: Summary, title: str, hint: str, shown: Sequence[DeviceUse], uses: Sequence[DeviceUse]) -> Section:
    """The use of these devices as bars, and what the others of all have between them."""
    longest, late = max(use.span for use in shown), _late(summary)
    rows = [device_row(called(use, uses), use, longest, *["late"] * _is_late(use, late)) for use in shown]
    kept = {id(use) for use in shown}
    if rest := [percent(use.busy, use.span) or 0.0 for use in uses if id(use) not in kept]:
        words = f"{len(rest):,} more: busy {min(rest):.1f}% to {max(rest):.1f}%, median {np.median(rest):.1f}%"
        rows.append(BarRow(named(words), rest=True))
    return Section("devices", title, hint, [Bars(rows), device_legend(shown)])


def _map(summary: Summary, uses: Sequence[DeviceUse]) -> Section | None:
    """The map of all devices whose course is known; None without any."""
    with_course = [use for use in uses if use.course is not None]
    times = [use.course for use in with_course if use.course is not None]
    if not times:
        return None
    cells = np.stack(times).astype(np.float64)  # (device, part, what)
    size = -(-len(with_course) // LINES)
    groups = [slice(first, first + size) for first in range(0, len(with_course), size)]
    per = len(summary.steps) / cells.shape[1] if summary.steps else 1.0
    cells /= per
    late = _late(summary)
    compute = np.array([cells[group, :, 0].max(axis=0) for group in groups])
    waiting = np.array([cells[group, :, 1].min(axis=0) for group in groups])
    lines = [_line(with_course[group], with_course, cells[group], late) for group in groups]
    height = max(4, min(TALLEST, HIGHEST // len(groups)))
    panels = [_panel(compute, "compute", "compute", lines, height, 0)]
    if cells[:, :, 1].any():
        panels.append(_panel(waiting, "exposed communication, with the waiting", "communication", lines, height, 1))
    drawn = tag(
        "svg", panels, _labels(with_course, groups, height, late), class_="chart", width="100%",
        height=HEAD + height * len(groups), role="img", aria_label="; ".join(lines[:MANY]),
    )  # fmt: skip
    ends = (summary.steps[0], summary.steps[-1]) if summary.steps else ("first work", "last work")
    return Section(
        "ranks", "Rank by step" if summary.steps else "Ranks over time", _hint(summary, size, per), [Plot(drawn, *ends)]
    )


def _hint(summary: Summary, size: int, per: float) -> str:
    """How to read the map."""
    each = "step" if summary.steps else "sixtieth of the recording of a device"
    words = [f"From left to right each {each}"]
    words += [f", {per:.3g} of them in a column" if per > 1 else "", "; from top to bottom each rank. "]
    words += ["The darker, the longer the time compared with the median (darkest from 1.5 times the median)"]
    words += [f"; a line is {size:,} ranks, with the most compute and the least waiting of any." if size > 1 else "."]
    return "".join(words)


def _panel(values: Float64, title: str, colour: str, lines: Sequence[str], height: int, place: int) -> Markup:
    """A line for each group of devices: values (line, part) as cells whose depth is that beside the median."""
    middle = float(np.median(values)) or float(values.max()) / 1.5 or 1.0
    depth = np.clip(np.rint((values / middle - 0.5) * _DEPTHS), 0, _DEPTHS).astype(np.int64)
    return panel(depth, f"{title}, median {brief(middle)}", colour, lines, height, place)


def panel(depth: Int64, title: str, colour: str, lines: Sequence[str], height: int, place: int) -> Markup:
    """A line for each group of ranks: depths (line, column) from 0 to 10; `place` is 0 at the left, 1 at the right."""
    paths = [
        tag("path", d=_cells(depth == one), class_=colour, fill_opacity=f"{max(one, 0.5) / _DEPTHS:g}")
        for one in np.unique(depth).tolist()
    ]
    covers = [
        tag("rect", tag("title", line), class_="cover", x=0, y=y, width=depth.shape[1], height=1)
        for y, line in enumerate(lines)
    ]
    inner = tag(
        "svg", paths, covers, viewBox=f"0 0 {depth.shape[1]} {len(depth)}", preserveAspectRatio="none",
        shape_rendering="crispEdges", x=f"{52 * place}%", y=HEAD, width="48%", height=height * len(depth),
    )  # fmt: skip
    return Markup("").join([tag("text", title, x=f"{52 * place}%", y=HEAD - 6), inner])


def _cells(there: Bools) -> Markup:
    """The outlines of the cells of a grid (line, part), those next to each other in a line as one."""
    edges = np.diff(np.pad(there, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    begins, ends = np.argwhere(edges > 0).tolist(), np.argwhere(edges < 0).tolist()
    return Markup("").join(
        Markup(f"M{x} {y}h{end - x}v1h{x - end}z") for (y, x), (_, end) in zip(begins, ends, strict=True)
    )


def _labels(
    uses: Sequence[DeviceUse], groups: Sequence[slice], height: int, late: tuple[object, object]
) -> list[Markup]:
    """The ranks at the left, as many as have space, and the late one between the panels."""
    names = [
        str(first.rank) if first.rank is not None else escape_controls(first.label)[-8:]
        for first in (uses[group][0] for group in groups)
    ]
    return rank_labels(names, [any(_is_late(use, late) for use in uses[group]) for group in groups], height)


def rank_labels(names: Sequence[str], late: Sequence[bool], height: int) -> list[Markup]:
    """The names of lines at the left and the word at late ones between the panels, as many as have space."""
    every, drawn, free = -(-_LABEL // height), [], 0.0
    for line, (name, is_late) in enumerate(zip(names, late, strict=True)):
        y = HEAD + (line + 0.5) * height
        if line % every == 0:
            drawn.append(tag("text", name, class_="tick", x=-8, y=f"{y:g}", dy=4, text_anchor="end"))
        if is_late:
            drawn.append(tag("text", "◂ late" if y >= free else "◂", class_="late", x="48.3%", y=f"{y:g}", dy=4))
            free = y + _LABEL if y >= free else free
    return drawn


def _line(
    uses: Sequence[DeviceUse], with_course: Sequence[DeviceUse], cells: Float64, late: tuple[object, object]
) -> str:
    """What a line says where one points at it."""
    names = [escape_controls(called(use, with_course)) for use in uses]
    name = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
    compute, waiting = cells[:, :, 0].mean(axis=1), cells[:, :, 1].mean(axis=1)
    said = f"{name}: compute {_range(compute)}, exposed communication {_range(waiting)} on average"
    waited = [called(use, with_course) for use in uses if _is_late(use, late)]
    return said + (f"; the others wait for {waited[0]}" if waited else "")


def _range(times: Float64) -> str:
    low, high = duration(float(times.min())), duration(float(times.max()))
    return low if low == high else f"{low} to {high}"
