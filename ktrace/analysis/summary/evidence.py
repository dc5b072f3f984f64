"""The rows that show a finding: the longest launches of the heaviest work, what was longest without compute."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from ktrace.analysis.summary.findings import HEAVIEST, heaviest_of
from ktrace.analysis.work.device_work import Events, Work
from ktrace.analysis.work.durations import COMMUNICATION, COMPUTE, COPY, by_group
from ktrace.analysis.work.findings import SHOWN, Evidence, longest
from ktrace.analysis.work.groups import Group
from ktrace.analysis.work.question import Labels
from ktrace.model.arrays import Bools, Int64
from ktrace.stages.select.intervals import Intervals


def evidence_of(work: Work, labels: Labels, heaviest: dict[str, list[Group]]) -> dict[str, list[Evidence]]:
    """The longest rows of each finding about work, by its code."""
    shapes: dict[str, Bools] = {}
    for by in HEAVIEST:
        group, key = heaviest_of(heaviest[by]), labels.key(by)
        if group is not None:
            shapes[f"heaviest.{by}"] = np.array([key(shape) == group.key for shape in work.shapes], np.bool_)
    found: dict[str, list[Evidence]] = {}
    for events in work.each():
        for code, mine in shapes.items():
            found.setdefault(code, []).extend(_rows(work, events, np.where(mine[events.shape], events.dur, 0)))
        if work.is_on_devices:
            for kind, times in _exposed(events):
                found.setdefault(f"exposed.{kind}", []).extend(_rows(work, events, times))
    return {code: sorted(rows, key=lambda row: -row.time_ns)[:SHOWN] for code, rows in found.items() if rows}


def _rows(work: Work, events: Events, times: Int64) -> Iterable[Evidence]:
    """The rows of a source with the greatest of these times."""
    for row in longest(times):
        shape, begin, id_ = work.shapes[events.shape[row]], int(events.ts[row]), int(events.ids[row])
        name, end = str(shape.get("short_name") or shape["name"]), begin + int(events.dur[row])
        yield Evidence(events.source, id_ if work.is_on_devices else None, name, begin, end, int(times[row]))


def _exposed(events: Events) -> Iterator[tuple[str, Int64]]:
    """For communication and for copies, how long each was alone on its device."""
    if not np.any(events.roles != COMPUTE):
        return
    which, places = events.places
    rows_of = by_group(which, len(places))
    alone = {role: np.zeros(len(events), np.int64) for role in (COMMUNICATION, COPY)}
    for number in range(len(places)):
        rows = rows_of(number)
        begin, end, roles = events.ts[rows], events.ts[rows] + events.dur[rows], events.roles[rows]
        for role, hiding in ((COMMUNICATION, (COMPUTE,)), (COPY, (COMPUTE, COMMUNICATION))):
            mine, others = roles == role, np.isin(roles, hiding)
            hidden = Intervals.union(begin[others], end[others])
            alone[role][rows[mine]] = end[mine] - begin[mine] - (hidden.until(end[mine]) - hidden.until(begin[mine]))
    yield from (("communication", alone[COMMUNICATION]), ("copies", alone[COPY]))
