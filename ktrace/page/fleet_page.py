"""The page of a fleet: a map of rank by step, and the stages of the pipeline.

    own time beyond peers      waiting for others
0   ░░░░░░░░░░                 ▒▒▒▒▒▒▒▒▒▒
5   ██████████                 ░░░░░░░░░░        a slow rank waits least itself
"""

from __future__ import annotations

import numpy as np

from ktrace.fleet.answer import cells_of, head, lines_of, name_of
from ktrace.fleet.together import Fleet
from ktrace.model.arrays import Float64, Int64
from ktrace.page.blocks import BarRow, Bars, KeyFigure, Legend, Plot, Section, named, tag
from ktrace.page.charts import Segment, stack
from ktrace.page.ranks import HEAD, HIGHEST, LINES, TALLEST, panel, rank_labels
from ktrace.tables import brief

#: The most columns of the map; a cell is darkest from this part of a step on.
_COLUMNS, _DARKEST = 60, 0.2

#: What the parts of a step are called.
_COLLECTIVES = "collectives without compute"


def key_figures(fleet: Fleet) -> list[KeyFigure]:
    """The boxes at the top of the page."""
    of = f"{len(fleet.steps):,} steps" if fleet.steps else "whole recordings"
    return [
        ("ranks", f"{len(fleet.ranks):,}", f"{sum(one.events for one in fleet.ranks):,} events"),
        ("step", brief(fleet.step), f"median of {of}"),
        ("slow throughout", f"{len(fleet.chronic):,}", "ranks"),
        ("slow for a while", f"{len(fleet.passing):,}", "ranks"),
    ]


def origin(fleet: Fleet) -> list[str]:
    """What the figures are of."""
    return head(fleet).split(" · ")


def charts(fleet: Fleet) -> list[Section]:
    """The map and the stages, where the recording tells of them."""
    return [part for part in (_map(fleet), _stages(fleet)) if part]


def _map(fleet: Fleet) -> Section | None:
    if not fleet.steps:
        return None
    lines = lines_of(fleet, LINES)
    beyond = fleet.beyond()
    titles = [_title(fleet, line, np.nan_to_num(beyond[line], nan=0.0)) for line in lines]
    height = max(4, min(TALLEST, HIGHEST // len(lines)))
    own_depth = _depth(fleet, beyond, lines)
    panels = [panel(own_depth, "own time beyond the peers", "compute", titles, height, 0)]
    if np.nansum(fleet.waited) > 0:
        waited = _depth(fleet, fleet.waited, lines)
        panels.append(panel(waited, "waiting for others in collectives", "communication", titles, height, 1))
    slow = {one.place for one in (*fleet.chronic, *fleet.passing)}
    names = [name_of(fleet.ranks[line[0]]).removeprefix("rank ") for line in lines]
    labels = rank_labels(names, [bool(slow & {*line.tolist()}) for line in lines], height)
    drawn = tag(
        "svg", panels, labels, class_="chart", width="100%", height=HEAD + height * len(lines), role="img",
        aria_label="; ".join(titles[:8]),
    )  # fmt: skip
    several = f" A line is {len(lines[0]):,} ranks, and shows the most of any." if len(lines[0]) > 1 else ""
    per = len(fleet.steps) / own_depth.shape[1]
    each = f" A column is {per:.3g} steps." if per > 1 else ""
    hint = (
        "From left to right the steps, from top to bottom the ranks. Own time is the time of a step without exposed "
        f"communication; darkest from {100 * _DARKEST:.0f}% of a step beyond the median of the peers.{several}{each}"
    )
    return Section(
        "ranks", "Rank by step", hint, [Plot(drawn, f"step {fleet.steps[0]}", f"step {fleet.steps[-1]}")]
    )  # fmt: skip


def _depth(fleet: Fleet, times: Float64, lines: list[Int64]) -> Int64:
    cells = cells_of(times / fleet.step, lines, _COLUMNS)
    return np.clip(np.rint(10 * cells / _DARKEST), 0, 10).astype(np.int64)


def _title(fleet: Fleet, line: Int64, beyond: Float64) -> str:
    """What a line says where one points at it."""
    first, last = (fleet.ranks[line[at]] for at in (0, -1))
    names = name_of(first) if first is last else f"{name_of(first)} to {name_of(last)}"
    worst = fleet.ranks[line[int(beyond.mean(axis=1).argmax())]]
    return f"{names}: up to {brief(float(beyond.max()))} beyond the peers; ktrace view {worst.path}"


def _stages(fleet: Fleet) -> Section | None:
    if len(fleet.stages) < 2:
        return None
    longest = max(one.step for one in fleet.stages)
    rows = []
    for one in fleet.stages:
        parts = (
            ("compute", one.compute, "compute"),
            (_COLLECTIVES, one.collectives, "communication"),
            ("bubble", one.bubble, "idle"),
        )
        segments = [Segment(word, one.step * share / 100, colour) for word, share, colour in parts]
        rows.append(BarRow(named(f"stage {one.stage}"), stack(segments, longest), f"{one.bubble:.1f}%", " bubble"))
    legend = Legend([("compute", "compute"), (_COLLECTIVES, "communication"), ("bubble", "idle")])
    return Section("stages", "Stages of the pipeline", "Medians of ranks and steps.", [Bars(rows), legend])
