"""Where the time of steps went on each device: parts that add up to it, to the nanosecond.

device   [ gemm           ]      [ softmax ] [ copy ]
                [ all_reduce  ]
step    | compute: gemm   |exp.| | compute: softmax | idle: launch-bound | exposed copies | idle: synchronisation |

At each instant one part counts: of compute the piece that began first, else communication, else a copy, else the cause
of the gap. Where the files of several ranks tell when the last one began a collective, communication until then is
waiting, and transfer after it. The time of a step on a device is that of `StepUse.span`; without steps it is the
recording.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from ktrace.analysis.questions.collectives import COLUMNS as COLLECTIVE_COLUMNS
from ktrace.analysis.questions.collectives import CollectivesQuestion
from ktrace.analysis.work.device_work import Events, Work
from ktrace.analysis.work.durations import COMMUNICATION, COMPUTE, COPY
from ktrace.analysis.work.gaps import CAUSES, HOST_CLASSES, LATE, SETUP, SPOKEN, SYNCHRONISED, causes_of, gaps_of
from ktrace.analysis.work.groups import OTHER, Group, InSteps
from ktrace.analysis.work.occurrences import (
    DeviceSteps,
    labels_of_steps,
    steps_of_device,
    steps_of_work,
)
from ktrace.analysis.work.question import Answer, Labels
from ktrace.analysis.work.window import recorded
from ktrace.model.arrays import Bools, Int64, UInt8
from ktrace.model.batch import Batch
from ktrace.stages.select.intervals import Intervals
from ktrace.store import Spill
from ktrace.store.joins import each_group, positions
from ktrace.tables import Column, Table, cut, percent

#: The columns of the model that it looks at.
COLUMNS: frozenset[str] = COLLECTIVE_COLUMNS

#: The name of the question, as `--by` takes it.
NAME = "breakdown"

#: What some causes of idle time are called among the parts; the others by their own names.
_IDLE = {LATE: "launch-bound", SYNCHRONISED: "synchronisation", SETUP: "one-time set-up"}
#: What people read instead of the name of a part: the words of the tables of idle time.
SPOKEN_PARTS = {
    f"idle: {_IDLE.get(at, word)}": f"idle: {SPOKEN[word]}" for at, word in enumerate(CAUSES) if word in SPOKEN
}

_BEFORE, _AFTER = "idle: before the first work", "idle: after the last work"
_EXPOSED = {COMMUNICATION: "exposed communication", COPY: "exposed copies"}
#: The parts of exposed communication whose counterparts on other ranks are known.
WAITING, TRANSFER = (f"{_EXPOSED[COMMUNICATION]}: {part}" for part in ("waiting for other ranks", "transfer"))

_UNTIL = "Waiting lasts until the last rank begins the same collective, in the clocks that --by collective names."


def questions(names: Sequence[str], spill: Spill) -> Breakdown:
    """The question of what the time of steps consists of."""
    return Breakdown(CollectivesQuestion(spill, NAME))


class BreakdownAnswer(msgspec.Struct, frozen=True):
    """The parts of the time of all steps on all devices, the heaviest first; they add up to `whole` ns.

    A part is a group: `total` is its time, `count` the pieces of work that begin in a step, or the gaps, and `in_steps`
    has both for each step, None without steps. `steps` is their number.
    """

    parts: list[Group]
    whole: int
    steps: int

    def tables(self, top: int | None = None, *, brief: bool = False) -> list[Table]:
        """The parts as a table, with at most `top` rows."""
        columns = [
            Column("part", spoken=SPOKEN_PARTS),
            Column("time", "ns"),
            Column("share", "%"),
            Column("count", "count"),
        ]
        columns += [Column("per step", "ns")] if self.steps else []
        rows = [
            (one.key, one.total, percent(one.total, self.whole), one.count)
            + ((one.total / self.steps,) if self.steps else ())
            for one in self.parts
        ]
        title = "where step time went" if self.steps else "where recorded time went"
        notes = [_UNTIL] if is_divided(self.parts) else []
        return [cut(Table(NAME, title, tuple(columns), rows, notes), top)]


def is_divided(parts: Sequence[Group]) -> bool:
    """Whether some communication is told apart as waiting and transfer."""
    return any(one.key == TRANSFER for one in parts)


def undivided(parts: Sequence[Group]) -> list[Group]:
    """The parts with all exposed communication as one, as in a recording of one rank."""
    word = _EXPOSED[COMMUNICATION]
    some = [one for one in parts if one.key in (word, WAITING, TRANSFER)]
    total, count = sum(one.total for one in some), sum(one.count or 0 for one in some if one.key != WAITING)
    steps = [one.in_steps for one in some if one.in_steps is not None]
    in_steps = InSteps.together(steps) if steps else None
    together = Group(word, total, count, total / count if count else None, in_steps=in_steps)
    return [*(one for one in parts if one not in some), together]


class Breakdown:
    """The question; what it needs is in the work, its calls, the spans and the steps."""

    spans = True

    def __init__(self, collectives: CollectivesQuestion) -> None:
        self._collectives = collectives

    def see(self, batch: Batch) -> None:
        """Collects the collectives, of which a part is waiting for other ranks."""
        self._collectives.see(batch)

    def answer(self, work: Work, labels: Labels) -> Mapping[str, Answer]:
        """The answer, if there is device work."""
        if work.rows is not work.gathered.work or not len(work):
            return {}
        steps, number = labels_of_steps(work.gathered)
        parts, has_steps = _Parts(work, len(steps)), bool((number >= 0).any())
        waits = self._collectives.waits(work)
        for events in work.each():
            if len(events) and (len(steps_of_work(events).steps.label) or not has_steps):
                _add_source(parts, work, events, _waited(events, waits))
        return {NAME: parts.answer()} if parts.times.any() else {}


class _Parts:
    """Time and count of each part in each step: a row for each part, a column for each step, or one without steps.

    The parts of compute come first, by the operation of the work, then the others as they occur.
    """

    def __init__(self, work: Work, steps: int) -> None:
        operations = [f"compute: {operation or OTHER}" for operation in work.operations]
        self._steps = steps
        self._number = {word: place for place, word in enumerate(dict.fromkeys(operations))}
        self.of_shape = np.array([self._number[word] for word in operations], np.int64)
        self.times = np.zeros((len(self._number), max(steps, 1)), np.int64)
        self._counts = self.times.copy()

    def number(self, word: str) -> int:
        """The number of a part."""
        if word not in self._number:
            self._number[word] = len(self._number)
            row = np.zeros((1, self.times.shape[1]), np.int64)
            self.times, self._counts = np.append(self.times, row, axis=0), np.append(self._counts, row, axis=0)
        return self._number[word]

    def add(self, part: Int64, step: Int64, time: Int64 | int, count: Int64 | int) -> None:
        """Adds pieces of parts in steps."""
        np.add.at(self.times, (part, step), time)
        np.add.at(self._counts, (part, step), count)

    def answer(self) -> BreakdownAnswer:
        """The parts that have time, the heaviest first."""
        parts = []
        for word, time, count in zip(self._number, self.times, self._counts, strict=True):
            total, often = int(time.sum()), int(count.sum())
            in_steps = InSteps.from_times(time.astype(np.float64), count) if self._steps else None
            if total or often:
                parts.append(Group(word, total, often, total / often if often else None, in_steps=in_steps))
        parts.sort(key=lambda one: (-one.total, one.key))
        return BreakdownAnswer(parts, int(self.times.sum()), self._steps)


def _waited(events: Events, waits: Mapping[str, tuple[Int64, Int64]]) -> Int64:
    """How long each piece of work waited for other ranks, ns; -1 where that isn't known."""
    ids, times = waits.get(events.source, (events.ids[:0],) * 2)
    return np.append(times, -1)[positions(events.ids, ids)]


def _add_source(parts: _Parts, work: Work, events: Events, waited: Int64) -> None:
    """Adds the devices of a source; of several sources, those without steps don't count if others have some."""
    gaps, order = _idle(work, events, parts), events.by_device
    for place, group in enumerate(each_group((events.places[0][order],))):
        rows = order[group]
        first = int(events.ts[rows[0]])
        last = first + int(events.spans[place])
        steps = steps_or_recording(work, events, rows, (first, last))
        if len(steps.begin):
            _add_work(parts, events, rows, steps, waited[rows])
            on_device = gaps.place == place
            _add_gaps(parts, steps, gaps.part[on_device], gaps.begin[on_device], gaps.end[on_device])
            bounds = np.array([steps.begin[0], min(first, steps.end[-1]), max(last, steps.begin[0]), steps.end[-1]])
            words = np.array([parts.number(_BEFORE), parts.number(_AFTER)])
            lasts = bounds[1::2] > bounds[::2]
            _add_gaps(parts, steps, words[lasts], bounds[::2][lasts], bounds[1::2][lasts])


def steps_or_recording(work: Work, events: Events, rows: Int64, span: tuple[int, int]) -> DeviceSteps:
    """When the device whose work is in these rows was at each step.

    Without steps the whole recording counts as one, or the `span` of the work, where that is longer.
    """
    if len(steps_of_work(events).steps.label):
        return steps_of_device(events, *steps_of_work(events), rows)
    begins, ends = recorded(work, events)
    return DeviceSteps(np.array([min(begins, span[0])]), np.array([max(ends, span[1])]), np.zeros(1, np.int64))


def _add_gaps(parts: _Parts, steps: DeviceSteps, part: Int64, begin: Int64, end: Int64) -> None:
    """Adds intervals within steps; each counts once, in the first step that it reaches."""
    row, step, since, until = steps.clip(begin, end)
    first = np.ones(len(row), np.int64)
    first[1:] = row[1:] != row[:-1]
    parts.add(part[row], steps.label[step], until - since, first)


def _add_work(parts: _Parts, events: Events, rows: Int64, steps: DeviceSteps, waited: Int64) -> None:
    """Adds the work of a device, whose rows are in the order of time; a piece counts in the step in which it begins."""
    begin, end = events.ts[rows], (events.ts + events.dur)[rows]
    role, part = events.roles[rows], parts.of_shape[events.shape[rows]]
    for one, word in _EXPOSED.items():
        if np.any(role == one):
            part = np.where(role == one, parts.number(word), part)
    if np.any(waiting := (role == COMMUNICATION) & (waited >= 0)):
        begin, end, role, part = _divided(parts, waiting, waited, begin, end, role, part)
    covered = Intervals.union(begin[:0], end[:0])
    for one in (COMPUTE, COMMUNICATION, COPY):
        of_role = role == one
        ts, stop = begin[of_role], end[of_role]
        reached = np.maximum.accumulate(stop)
        since = np.maximum(ts, np.append(ts[:1], reached[:-1]))
        lasts = np.flatnonzero(stop > since)  # of pieces at the same time the one that began first
        row, step, at, until = steps.clip(since[lasts], stop[lasts])
        hidden = covered.until(until) - covered.until(at)
        parts.add(part[of_role][lasts][row], steps.label[step], until - at - hidden, 0)
        step = steps.around(ts)
        there = np.flatnonzero(step >= 0)
        parts.add(part[of_role][there], steps.label[step[there]], 0, 1)
        covered = Intervals.union(np.append(covered.begin, ts), np.append(covered.end, stop))


def _divided(
    parts: _Parts, waiting: Bools, waited: Int64, begin: Int64, end: Int64, role: UInt8, part: Int64
) -> tuple[Int64, Int64, UInt8, Int64]:
    """The pieces of a device with those that waited for other ranks as two, in the order of time."""
    part, began = np.where(waiting, parts.number(TRANSFER), part), np.where(waiting, begin + waited, begin)
    rows = np.flatnonzero(waiting & (waited > 0))
    order = np.argsort(np.append(began, begin[rows]), kind="stable")
    return (
        np.append(began, begin[rows])[order],
        np.append(end, began[rows])[order],
        np.append(role, role[rows])[order],
        np.append(part, np.full(len(rows), parts.number(WAITING)))[order],
    )


class _Idle(NamedTuple):
    """The gaps of the devices of a source, those of a late host divided by what the host was in."""

    place: Int64
    begin: Int64
    end: Int64
    part: Int64


def _idle(work: Work, events: Events, parts: _Parts) -> _Idle:
    gaps, (cause, meanwhile) = gaps_of(events), causes_of(events)
    names = np.array([parts.number(f"idle: {_IDLE.get(place, word)}") for place, word in enumerate(CAUSES)])
    whole = np.flatnonzero(cause != LATE)
    late = np.flatnonzero((cause == LATE)[meanwhile.gap])
    gap, time = meanwhile.gap[late], meanwhile.time[late]
    passed = np.concatenate([[0], np.cumsum(time)])
    first = np.searchsorted(gap, gap)  # parts of a gap follow one another
    begin = gaps.begin[gap] + passed[:-1] - passed[first]
    part = np.full(len(gap), names[LATE])
    for word, pattern in HOST_CLASSES.items():
        part[meanwhile.named(pattern.search)[meanwhile.name[late]]] = parts.number(f"idle: {word}")
    launching = np.flatnonzero(cause == LATE)
    launching = launching[gaps.end[launching] > gaps.launched[launching]]
    return _Idle(
        np.concatenate([gaps.place[whole], gaps.place[gap], gaps.place[launching]]),
        np.concatenate([gaps.begin[whole], begin, gaps.launched[launching]]),
        np.concatenate([gaps.end[whole], begin + time, gaps.end[launching]]),
        np.concatenate([names[cause[whole]], part, np.full(len(launching), names[LATE])]),
    )
