"""Figures of groups of durations, and what devices did with their time.

    group      0   1   0   0   1
    duration   5   9   1   3   7     ──►   0: count 3, total 9, median 3;  1: count 2, total 16, median 8

A percentile between two durations is interpolated linearly (type 7 of Hyndman and Fan, as in numpy, pandas and
spreadsheets): the median of 7 and 9 is 8.

stream 7    [ gemm        ]      [ norm ]          compute
stream 20          [ all_reduce      ]             communication; exposed        ██████
stream 21                        [ copy   ]        copies; exposed                     ███
busy        ███████████████████████████████

Compute, exposed communication, exposed copies and idle time divide the span: no ns is in two of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import truediv
from typing import Any, NamedTuple

import numpy as np

from ktrace.analysis.work.groups import DeviceUse, Group, InSteps, Spread
from ktrace.analysis.work.stored_columns import BLOCK, StoredColumns, new_column
from ktrace.model.arrays import AnyArray, Float64, Floats, Int32, Int64, Integers
from ktrace.stages.select.intervals import Intervals
from ktrace.store import Spill
from ktrace.store.joins import distinct, ranges, sorted_by

#: Returns the number of the group of each row, from columns.
Number = Callable[[dict[str, Any]], Int32]


def by_group(group: Integers, groups: int) -> Callable[[int], Int64]:
    """A function that returns the indices of the rows of a group."""
    order = sorted_by(group, groups)
    bounds = np.concatenate([[0], np.cumsum(np.bincount(group, minlength=groups))])
    return lambda number: order[bounds[number] : bounds[number + 1]]


class Durations:
    """Durations of work, from which groups are made.

    They are kept source by source, rising, with the number of their `shape`, and if there are any, of their `step` and
    `layer` (-1: none). With `grids` they have the number of their `grid`, and their `turn` in steps: the order in which
    they start. Large columns are in files; the groups remain usable after the folder has been removed.
    """

    def __init__(
        self, spill: Spill, steps: int = 0, layers: int = 0, name: str = "durations", *, grids: bool = False
    ) -> None:
        """`steps` and `layers` are the numbers of steps and layers; `name` is that of the files."""
        self._spill, self._steps = spill, steps
        self._names = ["dur", "shape", *(["step"] if steps else []), *(["layer"] if layers else [])]
        self._names += [*(["grid"] if grids else []), *(["turn"] if grids and steps else [])]
        self._rows = StoredColumns(spill, name, **{column: "i8" if column == "dur" else "i4" for column in self._names})

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, source: str, **columns: AnyArray) -> None:
        """Adds all work of a source; `ts` is needed for turns alone."""
        if "turn" in self._names:
            columns["turn"] = len(self) + np.argsort(np.argsort(columns["ts"], kind="stable"))
        order = np.argsort(columns["dur"])
        for first in range(0, len(order), BLOCK):
            block = order[first : first + BLOCK]
            self._rows.add(source, **{name: columns[name][block] for name in self._names})

    def groups(
        self, by: str, number: Number, keys: Sequence[str], names: Sequence[str | None] | None = None
    ) -> list[Group]:
        """A group for each key that any row has, heaviest first; `number` returns the indices of the keys of rows.

        `names` are the whole names of the keys.
        """
        columns = self.columns(by, number, len(keys))
        there = np.flatnonzero(columns.every.counts)
        merged = [
            columns.group(place, keys[place], names[place] if names else None, figures)
            for place, figures in zip(there.tolist(), columns.every.figures(), strict=True)
        ]
        return sorted(merged, key=lambda one: (-one.total, one.key))

    def columns(self, by: str, number: Number, groups: int) -> GroupColumns:
        """The figures of groups, of which groups are made; `number` returns the group of each row."""
        counts, cells = np.zeros(groups, np.int64), _Cells(groups, self._steps)
        for rows in self._blocks():
            group = number(rows)
            counts += np.bincount(group, minlength=groups)
            cells.add(group, rows)
        every, inside = Samples(self._column(f"by.{by}", number, counts), counts), cells.counts()
        within, turns = every, None
        if self._steps and int(inside.sum()) < len(self):
            within = Samples(self._column(f"by.{by}.inside", number, inside, inside=True), inside)
        if "turn" in self._names:
            turns = self._column(f"by.{by}.turns", number, inside, inside=True, turns=True)
        if len(self._rows.sources) > 1:  # they rise within each source
            every.sort(turns if within is every else None)
            if within is not every:
                within.sort(turns)
        return GroupColumns(every, within, cells, turns) if self._steps else GroupColumns(every)

    def distinct(self, number: Callable[[dict[str, Any]], Int64]) -> Int64:
        """The distinct numbers of all rows, in ascending order."""
        numbers = np.zeros(0, np.int64)
        for rows in self._blocks():
            numbers = np.union1d(numbers, number(rows))
        return numbers

    def totals(self, number: Int32, keys: Sequence[str]) -> list[Group]:
        """A group with its total and count for each key that any row has; `number` is the key of each shape."""
        counts, totals = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
        for rows in self._blocks():
            group = number[rows["shape"]]
            counts += np.bincount(group, minlength=len(keys))
            np.add.at(totals, group, rows["dur"])
        there = np.flatnonzero(counts).tolist()
        return [Group(keys[place], int(totals[place]), int(counts[place])) for place in there]

    def _blocks(self, *, inside: bool = False) -> Iterator[dict[str, Any]]:
        """Yields the rows, source after source, those of each in rising order; with `inside` only those in steps."""
        rows = self._rows.all()
        for first in range(0, len(self), BLOCK):
            block = {name: column[first : first + BLOCK] for name, column in rows.items()}
            selected = block["step"] >= 0 if inside else slice(None)
            yield {name: column[selected] for name, column in block.items()}

    def _column(self, name: str, number: Number, counts: Int64, *, inside: bool = False, turns: bool = False) -> Int64:
        """The durations of all groups, or where they stand in the order of steps and turns; group by group.

        With `inside` only those in steps. They rise within each source.
        """
        free = np.cumsum(counts) - counts
        column = new_column(self._spill, name, int(counts.sum()))
        for rows in self._blocks(inside=inside):
            group = number(rows)
            counts = np.bincount(group, minlength=len(free))
            values = rows["step"] * np.int64(len(self)) + rows["turn"] if turns else rows["dur"]
            column[ranges(free, counts)] = values[sorted_by(group, len(free))]
            free += counts
        return column


#: Total, count, average, median, p95, p99, least and most.
Figures = tuple[int, int, float, float, float, float, int, int]


class Samples:
    """Durations of groups, one group after another, those of each group in ascending order once they are sorted.

    `counts` has the number of each group, `bounds` where each begins, and the end.
    """

    def __init__(self, values: Int64, counts: Int64) -> None:
        self.values, self.counts = values, counts
        self.bounds: Int64 = np.concatenate([[0], np.cumsum(counts)])

    def of(self, group: int) -> Int64:
        """The values of one group."""
        values: Int64 = self.values[self.bounds[group] : self.bounds[group + 1]]
        return values

    def sort(self, others: Int64 | None = None) -> None:
        """Sorts those of each group, and moves the values of another column with them."""
        for group in np.flatnonzero(self.counts > 1).tolist():
            values = self.of(group)
            if others is not None:
                theirs = others[self.bounds[group] : self.bounds[group + 1]]
                theirs[:] = theirs[np.argsort(values, kind="stable")]
            values.sort()

    def of_groups(self, groups: Int64) -> Samples:
        """The columns of the given groups, in their order."""
        counts = self.counts[groups]
        return Samples(self.values[ranges(self.bounds[groups], counts)], counts)

    def totals(self) -> Int64:
        """The total of each group that has any."""
        first = self.bounds[:-1][self.counts > 0]
        totals: Int64 = np.add.reduceat(self.values, first) if len(first) else first
        return totals

    def percentile(self, percent: float) -> Float64:
        """A percentile of each group that has any."""
        count = self.counts[self.counts > 0]
        first, place = self.bounds[:-1][self.counts > 0], np.float64(percent) / 100 * (count - 1)
        low = np.floor(place).astype(np.int64)
        one, next_ = self.values[first + low], self.values[first + np.minimum(low + 1, count - 1)]
        quantile: Float64 = one + (next_ - one) * (place - low)
        return quantile

    def figures(self) -> Iterator[Figures]:
        """The figures of each group that has any."""
        there = self.counts > 0
        totals, counts = self.totals().tolist(), self.counts[there].tolist()
        average = list(map(truediv, totals, counts))
        quantiles = (self.percentile(percent).tolist() for percent in (50, 95, 99))
        least, most = self.values[self.bounds[:-1][there]].tolist(), self.values[self.bounds[1:][there] - 1].tolist()
        yield from zip(totals, counts, average, *quantiles, least, most, strict=True)


class GroupColumns(NamedTuple):
    """The figures of all groups, of which a `Group` is made when it is asked for.

    `within` are the durations in steps, `cells` the time and the number of rows of each group in each step, `turns`
    the order of the durations in steps; None without steps, and without turns.
    """

    every: Samples
    within: Samples | None = None
    cells: _Cells | None = None
    turns: Int64 | None = None

    def group(self, place: int, key: str, name: str | None = None, figures: Figures | None = None) -> Group:
        """A group, which has rows, with its figures, if they are known already."""
        if figures is None:
            figures = next(self.every.of_groups(np.array([place])).figures())
        if self.within is None or self.cells is None:
            return Group(key, *figures, name=name, durations=self.every.of(place))
        within, in_steps, places = self.within.of(place), self.cells.of(place), None
        if self.turns is not None:
            places = _of_places(within, self.turns[slice(*self.within.bounds[place : place + 2])], in_steps)
        return Group(
            key,
            *figures,
            name=name,
            durations=self.every.of(place),
            in_steps=in_steps,
            inside=within,
            places=places,
        )


class _Cells:
    """The time and the number of events of each key in each step, without those that have none.

    Sums of whole ns below 2^53 (104 days) are exact.
    """

    def __init__(self, keys: int, steps: int) -> None:
        self._keys, self._steps = keys, steps
        self._parts: list[tuple[Int64, Float64, Int64]] = []

    def add(self, group: Int32, rows: dict[str, Any]) -> None:
        """Adds rows by the number of their keys."""
        if not self._steps:
            return
        inside = rows["step"] >= 0
        cell = group[inside].astype(np.int64) * self._steps + rows["step"][inside]
        self._parts.append(_added_up(self._keys * self._steps, cell, rows["dur"][inside], np.ones(len(cell))))
        if len(self._parts) > _PARTS:
            self._cells()

    def _cells(self) -> tuple[Int64, Float64, Int64]:
        """Cell, time and count of all rows, rising."""
        if not self._parts:
            return np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64)
        if len(self._parts) > 1:
            cell, time, count = map(np.concatenate, zip(*self._parts, strict=True))
            self._parts = [_added_up(self._keys * self._steps, cell, time, count)]
        return self._parts[0]

    def counts(self) -> Int64:
        """The number of events in steps of each key."""
        cell, _, count = self._cells()
        return np.bincount(cell // max(1, self._steps), count, self._keys).astype(np.int64)

    def of(self, key: int) -> InSteps:
        """The time and count of a group in each step."""
        cell, time, count = self._cells()
        first, last = np.searchsorted(cell, [key * self._steps, (key + 1) * self._steps])
        return InSteps(self._steps, cell[first:last] % self._steps, time[first:last], count[first:last])


#: So many parts are kept before they are added up.
_PARTS = 64


def _added_up(cells: int, cell: Int64, time: AnyArray, count: AnyArray) -> tuple[Int64, Float64, Int64]:
    """The cells that occur, rising, and the sums of their times and counts."""
    first, which = distinct(cell, cells)
    times = np.asarray(np.bincount(which, time, len(first)), np.float64)
    return cell[first], times, np.bincount(which, count, len(first)).astype(np.int64)


def _of_places(durations: Int64, turns: Int64, in_steps: InSteps) -> Int64 | None:
    """The events of each step (a row) in the order of their starts; None if steps have different counts."""
    count = in_steps.count
    if count is None or not len(count) or len(count) < in_steps.steps or np.any(count != count[0]):
        return None
    return durations[np.argsort(turns)].reshape(len(count), -1)


def percentiles(rising: Int64, which: Sequence[float]) -> list[float]:
    """Percentiles of some numbers in rising order; there is at least one."""
    samples = Samples(rising, np.array([len(rising)]))
    return [float(samples.percentile(percent)[0]) for percent in which]


def spread(times: Int64) -> Spread | None:
    """Median and extremes of some times, None if there are none."""
    if not len(times):
        return None
    rising = np.sort(times)
    median, p95 = percentiles(rising, (50, 95))
    return Spread(len(rising), int(rising.sum()), median, p95, int(rising[-1]))


#: The role of a piece of work for the use of a device.
COMPUTE, COMMUNICATION, COPY = 0, 1, 2

#: The greatest time on a line.
_GREATEST = 1 << 61


class Usage(NamedTuple):
    """The gaps between work, and the times of `DeviceUse`, in ns."""

    gaps: Int64
    busy: int
    compute: int
    communication: int
    copies: int
    exposed_communication: int
    exposed_copies: int


def usage(begin: Int64, end: Int64, role: Integers, block: int = BLOCK) -> Usage:
    """The use of a device by some work; `role` is COMPUTE, COMMUNICATION or COPY for each piece.

    Computed in windows of time with the starts of `block` pieces each; work that lasts longer continues in the next.
    """
    order = None if np.all(begin[1:] >= begin[:-1]) else np.argsort(begin, kind="stable")
    times, gaps, reached = np.zeros(6, np.int64), [np.zeros(0, np.int64)], None
    open_ = begin[:0], end[:0], role[:0]
    for first in range(0, len(begin), block):
        rows = slice(first, first + block) if order is None else order[first : first + block]
        here = begin[rows], end[rows], role[rows]
        begins, ends, roles = (np.concatenate(pair) for pair in zip(open_, here, strict=True))
        if first + block < len(begin):
            until = begin[first + block if order is None else order[first + block]]
            open_ = _beyond(until, ends, roles)
            ends = np.minimum(ends, until)
        busy = Intervals.union(begins, ends)
        if len(busy.begin):
            between = busy.gaps() if reached is None else busy.begin - np.append(reached, busy.end[:-1])
            gaps.append(between[between > 0])
            reached = busy.end[-1]
        compute, communication, copies, sending = (
            Intervals.union(begins[rows], ends[rows]).length
            for rows in (roles == COMPUTE, roles == COMMUNICATION, roles == COPY, roles != COPY)
        )
        times += [busy.length, compute, communication, copies, sending - compute, busy.length - sending]
    return Usage(np.concatenate(gaps), *times.tolist())


def _beyond(until: np.int64, end: Int64, role: Integers) -> tuple[Int64, Int64, Integers]:
    """The work of each role that lasts beyond a time, as one piece from that time on."""
    lasts = end > until
    roles = np.unique(role[lasts])
    ends = np.array([end[lasts & (role == one)].max() for one in roles], np.int64)
    return np.full(len(roles), until, np.int64), ends, roles


def parts_of(group: Int64, groups: int, begin: Int64, end: Int64, role: Integers, block: int = BLOCK) -> Int64:
    """A row for each group of work: busy, compute, communication, copies, exposed communication and exposed copies.

    `group` is -1 for work without a group. Groups with together about `block` pieces are computed at once.
    """
    order = sorted_by(group + 1, groups + 1)
    bounds = np.cumsum(np.bincount(group + 1, minlength=groups + 1))
    parts = np.zeros((groups, 6), np.int64)
    first = 0
    while first < groups:
        last = max(first + 1, int(np.searchsorted(bounds, bounds[first] + block, "right")) - 1)
        rows = order[bounds[first] : bounds[last]]
        if len(rows):
            parts[first:last] = _parts_of(group[rows] - first, last - first, begin[rows], end[rows], role[rows])
        first = last
    return parts


def _parts_of(group: Int64, groups: int, begin: Int64, end: Int64, role: Integers) -> Int64:
    compute, communication, copies = ((role == one) for one in (COMPUTE, COMMUNICATION, COPY))
    every = np.ones(len(role), np.bool_)
    busy, alone, sent, moved, sending = (
        _lengths(group[rows], groups, begin[rows], end[rows])
        for rows in (every, compute, communication, copies, compute | communication)
    )
    return np.stack([busy, alone, sent, moved, sending - alone, busy - sending], axis=1)


def _lengths(group: Int64, groups: int, begin: Int64, end: Int64) -> Int64:
    """The total time of the intervals of each group; computed at once, with the groups one after another on a line."""
    lengths = np.zeros(groups, np.int64)
    if not len(group):
        return lengths
    low = int(begin.min())
    stride = int(end.max()) - low + 1
    block = max(1, _GREATEST // stride)  # how many groups the line has space for
    for first in range(0, groups, block):
        rows = slice(None) if block >= groups else (group >= first) & (group < first + block)
        start = (group[rows] - first) * stride - low
        line = Intervals.union(begin[rows] + start, end[rows] + start)
        np.add.at(lengths, first + line.begin // stride, line.end - line.begin)
    return lengths


def course(begin: Int64, end: Int64, role: Integers, parts: int) -> Int64:
    """How the time from first start to last end divides, in equal parts: compute, exposed communication, all."""
    edges = int(begin.min()) + (int(end.max()) - int(begin.min())) * np.arange(parts + 1) // parts
    computes, sends = role == COMPUTE, (role == COMPUTE) | (role == COMMUNICATION)
    alone, sending = (np.diff(Intervals.union(begin[rows], end[rows]).until(edges)) for rows in (computes, sends))
    return np.column_stack([alone, sending - alone, np.diff(edges)])


class Place(NamedTuple):
    """A device."""

    label: str
    source: str
    device: int | None
    rank: int | None
    name: str | None


def device_use(place: Place, used: Usage, span: int, waits: Int64, occupancy: Floats, dur: Int64) -> DeviceUse:
    """The use of a device, from the start of the first to the end of the last work on it (`span`, in ns).

    `waits` are the known times between the return of a call and the start of the work that it launched; `occupancy` of
    each piece of work, which lasts `dur`, is in percent, NaN if it isn't known.
    """
    has_occupancy = ~np.isnan(occupancy) & (dur > 0)
    weights = dur[has_occupancy]
    return DeviceUse(
        **place._asdict(),
        **(used._asdict() | {"gaps": spread(used.gaps)}),
        span=span,
        queueing=spread(waits),
        occupancy=float(np.average(occupancy[has_occupancy], weights=weights)) if len(weights) else None,
    )
