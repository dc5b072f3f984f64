"""Tasks of a device that repeat others: the same device, stream and task, at the same time.

a task around its subtask   AI_CORE, stream 47, task 0, 465,180 - 252,420     KERNEL_MIX_AIC, stream 47, task 0, 466,760
a row of task_time          MIX_AIC, stream 47, task 0, 465,180 - 252,420     op_summary, stream 47, task 0, 466,760

Ids of tasks are used again after a while, so that the time counts, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ktrace.model.arrays import Bools, Int64


class Tasks:
    """Tasks by device, stream and id, and by their start: 16 bytes are kept for each.

    `keys` has a row for each part of a task's id, and `starts` is in ns.
    """

    def __init__(self, keys: Int64, starts: Int64) -> None:
        self._values = [np.unique(key) for key in keys]
        codes, _ = self._codes(keys)
        self._tasks, numbers = np.unique(codes, return_inverse=True)
        self._starts = np.sort(starts)
        self._places = np.sort(numbers * (len(starts) + 1) + np.searchsorted(self._starts, starts))

    def _codes(self, keys: Int64 | Sequence[Int64]) -> tuple[Int64, Bools]:
        """A number for each id, and whether all of its parts occur."""
        codes, occur = np.zeros(len(keys[0]), np.int64), np.ones(len(keys[0]), np.bool_)
        for key, values in zip(keys, self._values, strict=True):
            at = np.minimum(np.searchsorted(values, key), len(values) - 1)
            codes = codes * len(values) + at
            occur &= values[at] == key
        return codes, occur

    def within(self, keys: Sequence[Int64], starts: Int64, ends: Int64) -> Bools:
        """Whether one of the tasks with each id begins at or after a start, and before an end."""
        if not len(self._starts):
            return np.zeros(len(starts), np.bool_)
        codes, occur = self._codes(keys)
        numbers = np.minimum(np.searchsorted(self._tasks, codes), len(self._tasks) - 1)
        begins, beyond = (np.searchsorted(self._starts, times) for times in (starts, ends))
        first, last = (np.searchsorted(self._places, numbers * (len(self._starts) + 1) + at) for at in (begins, beyond))
        found: Bools = occur & (self._tasks[numbers] == codes) & (last > first)
        return found
