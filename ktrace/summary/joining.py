"""Which call launched each piece of work, and which range is around a call.

thread 4242    [ ProfilerStep#3                          ]
                  [ layers.9        ]
                    [ launch, correlation 71 ]
stream 7                               [ gemm, correlation 71 ]     of step 3 and layers.9
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.arrays import Int32, Int64
from ktrace.stages.order.nesting import around, around_crossing
from ktrace.store.joins import find, fresh
from ktrace.summary.columns import BLOCK
from ktrace.summary.figures import by_group

_LINKS = pa.schema([("key", pa.string()), ("role", pa.string()), ("event", pa.int64())])

#: The greatest key that fits.
_GREATEST = 1 << 62


class Correlated(NamedTuple):
    """Rows with their correlation (0: none) and the numbers of their process (-1: not known) and machine."""

    correlation: Int64
    process: Int32
    machine: Int32


def launches(work: Correlated, calls: Correlated, ts: Int64, dur: Int64) -> Int64:
    """The place of the call that launched each piece of work, -1 where none is known. `ts`, `dur` are of the calls.

    They are joined by correlation within a process; work of which the process isn't known by that within the machine,
    where one process alone has a call with it. Of several calls the outermost counts, under which the others stand.
    """
    found = np.full(len(work.correlation), -1, np.int64)
    mine = np.flatnonzero(calls.correlation)
    if not len(found) or not len(mine):
        return found
    groups = 1 + max(int(column.max()) for one in (work, calls) for column in (one.process, one.machine))
    number = _Numbers(calls.correlation[mine], groups)
    key = number.of(calls.correlation[mine], calls.process[mine])
    if np.any(key[1:] <= key[:-1]):
        order = np.lexsort((-np.maximum(dur, 0)[mine], ts[mine], key))
        order = order[fresh((key[order],))]
        key, mine = key[order], mine[order]
    lost = np.any(work.process < 0)
    if lost:
        machine = number.of(calls.correlation[mine], calls.machine[mine])
        machine, first, often = np.unique(machine, return_index=True, return_counts=True)
        machine, alone = machine[often == 1], mine[first[often == 1]]
    for start in range(0, len(found), BLOCK):
        block = slice(start, start + BLOCK)
        correlation, process = work.correlation[block], work.process[block]
        place = _looked_up(number.of(correlation, process), key, mine)
        if lost:
            on_machine = _looked_up(number.of(correlation, work.machine[block]), machine, alone)
            place = np.where(process < 0, on_machine, place)
        found[block] = np.where(correlation == 0, -1, place)
    return found


class _Numbers:
    """Numbers for pairs of a correlation and one of so many groups, such as its process; -1 where no call has it."""

    def __init__(self, correlation: Int64, groups: int) -> None:
        self._groups, self._low, self._high = groups, int(correlation.min()), int(correlation.max())
        self._known = np.unique(correlation) if (self._high - self._low + 1) * groups >= _GREATEST else None

    def of(self, correlation: Int64, group: Int32) -> Int64:
        """The numbers, which rise with the correlation."""
        if self._known is None:
            inside = (correlation >= self._low) & (correlation <= self._high)
            found = np.where(inside, correlation, self._low)
            found -= self._low
        else:
            found = np.searchsorted(self._known, correlation)
            found[found == len(self._known)] = 0
            inside = self._known[found] == correlation
        found *= self._groups
        found += group
        found[~inside] = -1
        return found


def _looked_up(wanted: Int64, keys: Int64, places: Int64) -> Int64:
    """The place that belongs to each wanted key, -1 where there is none; `keys` rise."""
    if not len(keys):
        return np.full(len(wanted), -1, np.int64)
    at = np.searchsorted(keys, wanted)
    at[at == len(keys)] = 0
    return np.where(keys[at] == wanted, places[at], -1)


def linked(links: list[pa.RecordBatch], work: Int64, calls: Int64) -> Int64:
    """The place of the call from which an arrow leads to each piece of work, -1 where there is none.

    `links` have key, role and event; `work` and `calls` are ids. All are of one source.
    """
    rows = pa.Table.from_batches([batch.cast(_LINKS) for batch in links]).combine_chunks()
    key = rows["key"].combine_chunks().dictionary_encode().indices.to_numpy()
    event, out = rows["event"].to_numpy(), pc.equal(rows["role"], "out").to_numpy()
    begun = find((key[~out],), (key[out],))
    known = begun >= 0
    call = np.full(len(begun), -1, np.int64)
    call[known] = find((event[out][begun[known]],), (calls,))
    end = find((work,), (event[~out],))
    return np.where(end >= 0, call[end], -1) if len(call) else end


class Ranges:
    """Some ranges on tracks, among which is found which one is around a time. A range holds its begin, not its end."""

    def __init__(self, track: Int32, begin: Int64, end: Int64) -> None:
        # Between two bounds of ranges the answer is one, so that only the bounds are looked at.
        on, at = np.concatenate([track, track]), np.concatenate([begin, end])
        inside = innermost(np.concatenate([track, on]), np.concatenate([begin, at]), np.append(end, at))
        order = np.lexsort((at, on))
        self.track = track
        self._on, self._at, self._inside = on[order], at[order], inside[len(begin) :][order]

    def around(self, track: Int32, at: Int64) -> Int64:
        """For each time on a track the place of the innermost range that is around it, -1 where none is."""
        found = np.full(len(at), -1, np.int64)
        if not len(self.track) or not len(at):
            return found
        rows = by_group(track, int(max(track.max(), self.track.max())) + 1)
        for number in np.unique(self.track).tolist():
            mine = rows(number)
            low, high = np.searchsorted(self._on, [number, number + 1])
            place = low + np.searchsorted(self._at[low:high], at[mine], "right") - 1
            found[mine] = np.where(place >= low, self._inside[np.maximum(place, 0)], -1)
        return found


def innermost(track: Int32, begin: Int64, end: Int64) -> Int64:
    """For each slice the place of the innermost one around it on its track, -1 where none is."""
    order = np.lexsort((np.arange(len(track)), -end, begin, track))
    tracks, begins, ends = track[order], begin[order], end[order]
    outer, crossed = around(tracks, begins, ends)
    for number in crossed.tolist():
        low, high = np.searchsorted(tracks, [number, number + 1])
        own = around_crossing(begins[low:high], ends[low:high])
        outer[low:high] = np.where(own >= 0, own + low, -1)
    found = np.full(len(track), -1, np.int64)
    found[order] = np.where(outer >= 0, order[outer], -1)
    return found
