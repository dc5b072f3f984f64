"""The steps in a row of a run in which a rank is late, where it isn't throughout.

step      0    1    2    3    4    5    6    7
late by   1   -2    0    1   90   95   88   92 us      rank 2 is late in steps 4 to 7

Without steps, parts of a run with equally many collectives take their place: rank 2 is late in collectives 41 to 80.
"""

from __future__ import annotations

import msgspec
import numpy as np

from ktrace.analysis.questions.collectives.found import CollectiveTable
from ktrace.analysis.work.device_work import Work
from ktrace.analysis.work.occurrences import labels_of_steps, steps_of_work
from ktrace.model.arrays import Bools, Float64, Int64
from ktrace.stages.select.wanted import step_of
from ktrace.store.joins import positions

#: In a step the rank is late if it is last in more than this part of its collectives.
_MOSTLY = 0.8

#: So many steps in a row, and so many others: fewer happen by chance, or are known by nothing.
_FEWEST, _OTHERS = 4, 2

#: Without steps, a run has so many parts at most. A rank may begin to be late amid one: those beside are no others.
_BLOCKS = 16

#: In each of these steps it is later than in all others by this factor, and in none by so much less than in the worst.
_LATER = 2.0


class Stretch(msgspec.Struct, frozen=True):
    """Steps in which a rank is late: their numbers, and which of its collectives are in them.

    Without steps, `unit` is collective, and the numbers are those of the rank's collectives, from 1.
    """

    unit: str
    first: int
    last: int
    rows: Int64


def stretch_of(table: CollectiveTable, work: Work, rows: Int64, late: Float64, is_last: Bools) -> Stretch | None:
    """The longest stretch of steps in which a rank is late, None where there is none, or it is late throughout.

    `rows` are its rows of the table, by time; `late` how much later than the others it begins each, in ns, and
    `is_last` whether it is the last there.
    """
    step, labels = _steps_of(table, work, rows)
    inside = np.flatnonzero(step >= 0)
    if not len(inside):
        return among_collectives(rows, late, is_last)
    numbers, place = np.unique(step[inside], return_inverse=True)
    count = np.bincount(place)
    led = np.bincount(place, is_last[inside]) > _MOSTLY * count
    bounds = late_steps(np.bincount(place, late[inside]) / count, led)
    if bounds is None:
        return None
    first, last = (step_of(labels[numbers[at]]) for at in (bounds[0], bounds[1] - 1))
    if first is None or last is None:
        return None
    return Stretch("step", first, last, rows[inside[(place >= bounds[0]) & (place < bounds[1])]])


def among_collectives(rows: Int64, late: Float64, is_last: Bools) -> Stretch | None:
    """The stretch of parts of a run, where nothing tells of its steps."""
    count = len(rows)
    place = np.arange(count) * min(count, _BLOCKS) // max(count, 1)
    each = np.bincount(place)
    bounds = late_steps(np.bincount(place, late) / each, np.bincount(place, is_last) > _MOSTLY * each, beside=1)
    if bounds is None:
        return None
    there = np.flatnonzero((place >= bounds[0]) & (place < bounds[1]))
    return Stretch("collective", int(there[0]) + 1, int(there[-1]) + 1, rows[there])


def late_steps(late: Float64, led: Bools, beside: int = 0) -> tuple[int, int] | None:
    """The first of the steps in which a rank is late, and the first after them; None where these aren't told apart.

    `late` is by how much it is in each step, `led` whether it is the last there. So many `beside` them don't count.
    """
    if len(late) < _FEWEST + _OTHERS:
        return None
    first, end = _longest(led & (_LATER * late > late.max()))  # beside them it may be last by chance, by less
    others = np.append(late[: max(first - beside, 0)], late[end + beside :])
    is_apart = end - first >= _FEWEST and len(others) >= _OTHERS
    return (first, end) if is_apart and late[first:end].min() > _LATER * np.abs(others).max() else None


def _steps_of(table: CollectiveTable, work: Work, rows: Int64) -> tuple[Int64, list[str]]:
    """The step of each row of a rank as an index of labels, -1 where it isn't known."""
    step = np.full(len(rows), -1, np.int64)
    labels, _ = labels_of_steps(work.gathered)
    source = table.ranks[table.rank[rows[0]]].source if len(rows) else ""
    if not labels or not work.is_on_devices or source not in work.rows.sources:
        return step, labels
    events = work.for_source(source)
    among, occurrence = steps_of_work(events)
    order = np.argsort(events.ids, kind="stable")
    at = positions(table.id[rows], events.ids[order])
    there = np.flatnonzero(at >= 0)
    around = occurrence[order[at[there]]]
    step[there] = np.where(around >= 0, np.append(among.label, -1)[around], -1)
    return step, labels


def _longest(led: Bools) -> tuple[int, int]:
    """Where the longest run of true values begins and ends."""
    bounds = np.flatnonzero(np.diff(np.concatenate([[False], led, [False]]).astype(np.int8)))
    begins, ends = bounds[::2], bounds[1::2]
    if not len(begins):
        return 0, 0
    most = int((ends - begins).argmax())
    return int(begins[most]), int(ends[most])
