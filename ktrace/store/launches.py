"""Which call launched which device work: a join by correlation within a process.

call   correlation 71  process 4242  ts 100  dur 40      ──►  the launch of the kernel: of two calls the outermost
call   correlation 71  process 4242  ts 110  dur 20
kernel correlation 71  process 4242

Where a process counts its calls anew, or each thread its own, times tell:

call   correlation 71  thread 1      ts 900              ──►  the launch of a kernel at 910, not of the one above

As much work as calls is in their order. Else work is of the last call before it, if each call gets some, or the call
before that is far away. Of work on several streams that begins after several calls, which launched it isn't known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.arrays import AnyArray, Bools, Int32, Int64
from ktrace.store.joins import Moments, find, greatest_so_far, group_start_mask, positions

#: Device work whose launches are looked up at once.
BLOCK = 1 << 18

#: The greatest number for a correlation and a process together.
_GREATEST = 1 << 62

#: A call is far away if work begins so many times sooner after the next call than that came after it.
_FAR = 4


class Correlated(NamedTuple):
    """Calls or device work: their correlation (0: none), and the numbers of their process, machine and lane.

    The lane is the thread of a call, and the stream of work. `known` tells where the process is known; rows of an
    unknown process of one machine share a number.
    """

    correlation: Int64
    process: Int32
    machine: Int32
    known: Bools
    lane: Int32


def find_launches(
    work: Correlated, calls: Correlated, order: Callable[[], Sequence[AnyArray]], begin: Callable[[], Int64]
) -> Int64:
    """The position of the call that launched each piece of work, -1 where there is none or which one isn't known.

    Of several calls of a process with one correlation that lie in one another the first one counts, sorted by the
    columns that `order` returns; the last two, and the first criteria, are their negative ends and their begins. Among
    calls one after another the `begin` of work decides. Work of an unknown process that finds no call there is launched
    by the call of the machine with its correlation, where only one process has one.
    """
    call_of_work = np.full(len(work.correlation), -1, np.int64)
    launching = np.flatnonzero(calls.correlation)
    if not len(call_of_work) or not len(launching):
        return call_of_work
    groups = 1 + max(int(column.max()) for rows in (work, calls) for column in (rows.process, rows.machine))
    numbers = _Numbers(calls.correlation[launching], groups)
    key = numbers.numbers(calls.correlation[launching], calls.process[launching])
    repeated = None
    if np.any(key[1:] <= key[:-1]):
        rows = np.lexsort((*(column[launching] for column in order()), key))
        is_first = group_start_mask((key[rows],))
        if not is_first.all():
            repeated = launching[rows], np.cumsum(is_first) - 1
        rows = rows[is_first]
        key, launching = key[rows], launching[rows]
    some_unknown = not work.known.all()
    if some_unknown:
        machine = numbers.numbers(calls.correlation[launching], calls.machine[launching])
        machine, first, often = np.unique(machine, return_index=True, return_counts=True)
        machine, alone = machine[often == 1], launching[first[often == 1]]
    for start in range(0, len(call_of_work), BLOCK):
        block = slice(start, start + BLOCK)
        correlation = work.correlation[block]
        call = _look_up(numbers.numbers(correlation, work.process[block]), key, launching)
        if some_unknown:
            on_machine = _look_up(numbers.numbers(correlation, work.machine[block]), machine, alone)
            call = np.where((call < 0) & ~work.known[block], on_machine, call)
        call_of_work[block] = np.where(correlation == 0, -1, call)
    if repeated:
        _tell_apart(call_of_work, *repeated, work.lane, calls.lane, order(), begin())
    return call_of_work


def _tell_apart(
    call_of_work: Int64, rows: Int64, key: Int64, stream: Int32, thread: Int32, order: Sequence[AnyArray], begin: Int64
) -> None:
    """Sets the calls of work by time where several `rows` of calls, sorted by `key` and time, have its correlation."""
    ts, end = order[-1][rows], -order[-2][rows]
    several = np.bincount(key)[key] > 1
    several[several] = _outermost(key[several], thread[rows[several]], ts[several], end[several])
    several &= np.bincount(key[several], minlength=int(key[-1]) + 1)[key] > 1
    if not several.any():
        return
    rows, ts, key = rows[several], ts[several], np.cumsum(group_start_mask((key[several],))) - 1
    group_of_call = np.full(len(thread), -1, np.int64)
    group_of_call[rows] = key
    doubtful = np.flatnonzero(call_of_work >= 0)
    doubtful = doubtful[group_of_call[call_of_work[doubtful]] >= 0]
    if len(doubtful):
        group = group_of_call[call_of_work[doubtful]]
        by_time = _told_by_time(group, begin[doubtful], stream[doubtful], key, ts)
        call_of_work[doubtful] = np.where(by_time < 0, -1, rows[by_time])


def _outermost(key: Int64, thread: Int32, ts: Int64, end: Int64) -> Bools:
    """Which calls, sorted by key and begin, lie in no other call of their key and thread."""
    order = np.lexsort((thread, key))  # stable: calls of a thread stay in the order of their begins
    columns = key[order], thread[order]
    until = greatest_so_far(end[order], columns)
    is_outer = group_start_mask(columns)
    is_outer[1:] |= ts[order][1:] >= until[:-1]
    result = np.empty(len(order), np.bool_)
    result[order] = is_outer
    return result


def _told_by_time(group: Int64, begin: Int64, stream: Int32, of_call: Int64, ts: Int64) -> Int64:
    """The position of the call of each piece of work, -1 where times don't tell.

    `group` is the number of its key, `of_call` that of each call, by which calls are sorted, and by their begins `ts`.
    """
    size = int(of_call[-1]) + 1
    first = np.searchsorted(of_call, np.arange(size))
    calls, pieces = np.bincount(of_call, minlength=size), np.bincount(group, minlength=size)
    order = np.lexsort((begin, group))
    of, at = group[order], begin[order]
    rank = np.arange(len(of)) - np.searchsorted(of, of)
    in_order = np.where(rank < calls[of], first[of] + rank, -1)
    in_order[_may_be_others(of, at, stream[order], in_order, ts)] = -1
    call = np.empty(len(of), np.int64)
    call[order] = np.where((calls == pieces)[of], in_order, _last_before(of, at, of_call, ts, first))
    return call


def _may_be_others(of: Int64, at: Int64, stream: Int32, in_order: Int64, ts: Int64) -> Bools:
    """Which work may be that of a neighbour: on another stream, after the begins of the calls of both."""
    either = (of[1:] == of[:-1]) & (stream[1:] != stream[:-1]) & (at[:-1] >= ts[in_order[1:]])
    result: Bools = np.append(either, False) | np.insert(either, 0, False)
    return result


def _last_before(of: Int64, at: Int64, of_call: Int64, ts: Int64, first: Int64) -> Int64:
    """The last call before each piece of work, -1 where it may be an earlier one."""
    last = Moments(of_call, ts).last(of, at)
    last = np.where(last < 0, first[of], last)
    has_work = np.zeros(len(ts), np.bool_)
    has_work[last] = True
    is_whole = np.minimum.reduceat(has_work, first)[of]
    is_far = _FAR * (at - ts[last]) <= ts[last] - ts[last - 1]
    return np.where(is_whole | (last == first[of]) | is_far, last, -1)


_LINKS = pa.schema([("key", pa.string()), ("role", pa.string()), ("event", pa.int64())])


def linked(links: list[pa.RecordBatch], work: Int64, calls: Int64) -> Int64:
    """The index of the call from which an arrow leads to each piece of work, -1 where there is none.

    `links` have key, role and event; `work` and `calls` are ids. All have the same source.
    """
    rows = pa.Table.from_batches([batch.cast(_LINKS) for batch in links]).combine_chunks()
    key = rows["key"].combine_chunks().dictionary_encode().indices.to_numpy()
    event, out = rows["event"].to_numpy(), pc.equal(rows["role"], "out").to_numpy()
    begun = find((key[~out],), (key[out],))
    has_call = begun >= 0
    call = np.full(len(begun), -1, np.int64)
    call[has_call] = find((event[out][begun[has_call]],), (calls,))
    end = find((work,), (event[~out],))
    return np.where(end >= 0, call[end], -1) if len(call) else end


class _Numbers:
    """Numbers for pairs of a correlation and a group, such as its process; -1 where no call has the correlation."""

    def __init__(self, correlation: Int64, groups: int) -> None:
        self._groups, self._low, self._high = groups, int(correlation.min()), int(correlation.max())
        self._known = np.unique(correlation) if (self._high - self._low + 1) * groups >= _GREATEST else None

    def numbers(self, correlation: Int64, group: Int32) -> Int64:
        """The numbers, which rise with the correlation."""
        if self._known is None:
            inside = (correlation >= self._low) & (correlation <= self._high)
            numbers = np.where(inside, correlation, self._low)
            numbers -= self._low
        else:
            numbers = np.searchsorted(self._known, correlation)
            numbers[numbers == len(self._known)] = 0
            inside = self._known[numbers] == correlation
        numbers *= self._groups
        numbers += group
        numbers[~inside] = -1
        return numbers


def _look_up(values: Int64, keys: Int64, places: Int64) -> Int64:
    """The place of each value among the keys, which rise; -1 where there is none."""
    if not len(keys):
        return np.full(len(values), -1, np.int64)
    at = positions(values, keys)
    return np.where(at < 0, -1, places[at])
