"""Which call launched which device work: by correlation within a process.

call   correlation 71  process 4242  ts 100  dur 40      ──►  the launch of the kernel: of two calls the outermost
call   correlation 71  process 4242  ts 110  dur 20
kernel correlation 71  process 4242
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ktrace.model.arrays import AnyArray, Bools, Int32, Int64
from ktrace.store.joins import positions, starts

#: Device work whose launches are looked up at once.
BLOCK = 1 << 18

#: The greatest number for a correlation and a process together.
_GREATEST = 1 << 62


class Correlated(NamedTuple):
    """Calls or device work: their correlation (0: none), and the numbers of their process and machine.

    `known` tells where the process is known; rows of an unknown process of one machine share a number.
    """

    correlation: Int64
    process: Int32
    machine: Int32
    known: Bools


def find_launches(work: Correlated, calls: Correlated, order: Callable[[], Sequence[AnyArray]]) -> Int64:
    """The position of the call that launched each piece of work, -1 where there is none.

    Of several calls of a process with one correlation the first one counts, sorted by the columns that `order`
    returns, the last of which is the first criterion. Work of an unknown process that finds no call there is launched
    by the call of the machine with its correlation, where only one process has one.
    """
    found = np.full(len(work.correlation), -1, np.int64)
    mine = np.flatnonzero(calls.correlation)
    if not len(found) or not len(mine):
        return found
    groups = 1 + max(int(column.max()) for rows in (work, calls) for column in (rows.process, rows.machine))
    numbers = _Numbers(calls.correlation[mine], groups)
    key = numbers.of(calls.correlation[mine], calls.process[mine])
    if np.any(key[1:] <= key[:-1]):
        rows = np.lexsort((*(column[mine] for column in order()), key))
        rows = rows[starts((key[rows],))]
        key, mine = key[rows], mine[rows]
    some_unknown = not work.known.all()
    if some_unknown:
        machine = numbers.of(calls.correlation[mine], calls.machine[mine])
        machine, first, often = np.unique(machine, return_index=True, return_counts=True)
        machine, alone = machine[often == 1], mine[first[often == 1]]
    for start in range(0, len(found), BLOCK):
        block = slice(start, start + BLOCK)
        correlation = work.correlation[block]
        call = _look_up(numbers.of(correlation, work.process[block]), key, mine)
        if some_unknown:
            on_machine = _look_up(numbers.of(correlation, work.machine[block]), machine, alone)
            call = np.where((call < 0) & ~work.known[block], on_machine, call)
        found[block] = np.where(correlation == 0, -1, call)
    return found


class _Numbers:
    """Numbers for pairs of a correlation and a group, such as its process; -1 where no call has the correlation."""

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


def _look_up(wanted: Int64, keys: Int64, places: Int64) -> Int64:
    """The place of each wanted key, -1 where there is none; `keys` rise."""
    if not len(keys):
        return np.full(len(wanted), -1, np.int64)
    at = positions(wanted, keys)
    return np.where(at < 0, -1, places[at])
