"""The rows that show a finding: the longest launches of the heaviest work, what was longest without compute.

`LongestRows` has those of all work, for findings that are only known later: a comparison's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from ktrace.analysis.summary.findings import HEAVIEST, heaviest_of
from ktrace.analysis.work.device_work import Events, Work
from ktrace.analysis.work.durations import COMMUNICATION, COMPUTE, COPY, by_group
from ktrace.analysis.work.findings import SHOWN, Evidence, longest
from ktrace.analysis.work.gaps import gaps_of
from ktrace.analysis.work.groups import GRID, Group
from ktrace.analysis.work.question import Labels
from ktrace.model.arrays import Bools, Int64
from ktrace.stages.select.intervals import Intervals
from ktrace.store.joins import group_start_mask

#: The criteria whose keys shapes tell.
_SHOWN_BY = ("kernel", "operation", "library", "precision", "stream", "device", "rank", "source", GRID)


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


class LongestRows:
    """The longest launches of each shape of work, and the longest gaps of devices; of what is in steps, if any is."""

    def __init__(self, work: Work, labels: Labels) -> None:
        self._keys = {by: list(map(labels.key(by), work.shapes)) for by in _SHOWN_BY}
        self._shapes = np.zeros(0, np.int32)
        self._launches: list[Evidence] = []
        self.gaps: list[Evidence] = []

    def add(self, work: Work, events: Events, mine: Bools) -> None:
        """Adds the work of a source that is `mine`."""
        rows = np.flatnonzero(mine & (events.dur > 0))
        order = rows[np.lexsort((-events.dur[rows], events.shape[rows]))]
        first = np.flatnonzero(group_start_mask((events.shape[order],)))
        last = np.append(first[1:], len(order))[: len(first)] - 1
        rows = order[np.unique(np.minimum(first[:, None] + np.arange(SHOWN), last[:, None]))]
        self._shapes = np.append(self._shapes, events.shape[rows])
        self._launches += [_row(work, events, row, int(events.dur[row])) for row in rows.tolist()]
        if not work.is_on_devices:
            return
        which, places = events.places
        gaps = gaps_of(events, which, len(places))
        for gap in longest(np.where(mine[gaps.after], gaps.length, 0)):
            begin, end = int(gaps.begin[gap]), int(gaps.end[gap])
            after = _row(work, events, int(gaps.after[gap]), end - begin)
            self.gaps.append(after._replace(begin_ns=begin, end_ns=end))
        self.gaps = sorted(self.gaps, key=lambda row: -row.time_ns)[:SHOWN]

    def of(self, by: str, key: str) -> list[Evidence]:
        """The longest launches of the work with a key of a criterion; none where a shape doesn't tell the key."""
        keys = self._keys.get(by, [])
        mine = np.array([one == key for one in keys], np.bool_)
        rows = [self._launches[place] for place in np.flatnonzero(mine[self._shapes])] if len(keys) else []
        return sorted(rows, key=lambda row: -row.time_ns)[:SHOWN]


def _rows(work: Work, events: Events, times: Int64) -> Iterable[Evidence]:
    """The rows of a source with the greatest of these times."""
    return (_row(work, events, row, int(times[row])) for row in longest(times))


def _row(work: Work, events: Events, row: int, time: int) -> Evidence:
    """A row of a source, of which so much time counts."""
    shape, begin, id_ = work.shapes[events.shape[row]], int(events.ts[row]), int(events.ids[row])
    name, end = str(shape.get("short_name") or shape["name"]), begin + int(events.dur[row])
    return Evidence(events.source, id_ if work.is_on_devices else None, name, begin, end, time)


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
