"""What devices did with their time, from unions of intervals and their overlap.

stream 7    [ gemm        ]      [ norm ]          compute
stream 20          [ all_reduce      ]             communication; exposed        ██████
stream 21                        [ copy   ]        copies; exposed                     ███
busy        ███████████████████████████████

Compute, exposed communication, exposed copies and idle time divide the span: no ns is in two of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ktrace.analysis.work.figures import sorted_by, spread
from ktrace.analysis.work.groups import DeviceUse
from ktrace.analysis.work.stored_columns import BLOCK
from ktrace.model.arrays import Floats, Int64, Integers
from ktrace.stages.select.intervals import Intervals

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

    Computed in windows of time with the begins of `block` pieces each; work that lasts longer continues in the next.
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
        times += _times(begins, ends, roles, busy)
    return Usage(np.concatenate(gaps), *times.tolist())


def _beyond(until: np.int64, end: Int64, role: Integers) -> tuple[Int64, Int64, Integers]:
    """The work of each role that lasts beyond a time, as one piece from that time on."""
    lasts = end > until
    roles = np.unique(role[lasts])
    ends = np.array([end[lasts & (role == one)].max() for one in roles], np.int64)
    return np.full(len(roles), until, np.int64), ends, roles


def _times(begin: Int64, end: Int64, role: Integers, busy: Intervals) -> list[int]:
    """The times of `Usage`."""
    compute, communication, copies = (
        Intervals.union(begin[role == one], end[role == one]) for one in (COMPUTE, COMMUNICATION, COPY)
    )
    exposed = communication.without(compute)
    rest = busy.length - compute.length - exposed
    return [busy.length, compute.length, communication.length, copies.length, exposed, rest]


def parts_of(group: Int64, groups: int, begin: Int64, end: Int64, role: Integers, block: int = BLOCK) -> Int64:
    """A row for each group of work: busy, compute, communication, copies, exposed communication and exposed copies.

    `group` is -1 for work without a group. Groups with together about `block` pieces are computed at once.
    """
    order = sorted_by(group + 1, groups + 1)
    bounds = np.cumsum(np.bincount(group + 1, minlength=groups + 1))
    found = np.zeros((groups, 6), np.int64)
    first = 0
    while first < groups:
        last = max(first + 1, int(np.searchsorted(bounds, bounds[first] + block, "right")) - 1)
        rows = order[bounds[first] : bounds[last]]
        if len(rows):
            found[first:last] = _parts_of(group[rows] - first, last - first, begin[rows], end[rows], role[rows])
        first = last
    return found


def _parts_of(group: Int64, groups: int, begin: Int64, end: Int64, role: Integers) -> Int64:
    compute, communication, copies = ((role == one) for one in (COMPUTE, COMMUNICATION, COPY))
    every = np.ones(len(role), np.bool_)
    busy, alone, sent, moved, sending = (
        _lengths(group[mine], groups, begin[mine], end[mine])
        for mine in (every, compute, communication, copies, compute | communication)
    )
    return np.stack([busy, alone, sent, moved, sending - alone, busy - sending], axis=1)


def _lengths(group: Int64, groups: int, begin: Int64, end: Int64) -> Int64:
    """The total time of the intervals of each group; computed at once, with the groups one after another on a line."""
    found = np.zeros(groups, np.int64)
    if not len(group):
        return found
    low = int(begin.min())
    stride = int(end.max()) - low + 1
    block = max(1, _GREATEST // stride)  # how many groups the line has space for
    for first in range(0, groups, block):
        mine = slice(None) if block >= groups else (group >= first) & (group < first + block)
        start = (group[mine] - first) * stride - low
        line = Intervals.union(begin[mine] + start, end[mine] + start)
        np.add.at(found, first + line.begin // stride, line.end - line.begin)
    return found


class Place(NamedTuple):
    """A device."""

    label: str
    source: str
    device: int | None
    rank: int | None
    name: str | None


def device_use(
    place: Place,
    begin: Int64,
    end: Int64,
    role: Integers,
    waits: Int64,
    occupancy: Floats,
) -> DeviceUse:
    """The use of a device by this work.

    `waits` are the known times between the return of a call and the begin of the work that it launched; `occupancy` is
    in percent, NaN if it isn't known.
    """
    found = usage(begin, end, role)
    known = ~np.isnan(occupancy) & (end > begin)
    weights = (end - begin)[known]
    return DeviceUse(
        **place._asdict(),
        **(found._asdict() | {"gaps": spread(found.gaps)}),
        span=int(end.max() - begin.min()),
        queueing=spread(waits),
        occupancy=float(np.average(occupancy[known], weights=weights)) if len(weights) else None,
    )
