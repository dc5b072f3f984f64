"""Which dispatches were told already, and when they ran: counters come in other rows and files than their kernels.

kernel_trace        Dispatch_Id 7 of process 12: id 4096, ts 100, dur 80
counter_collection  Dispatch_Id 7 of process 12: SQ_WAVES 128        below 4096, at 100 for 80
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .blocks import Block

Int64 = npt.NDArray[np.int64]


class Dispatched:
    """The dispatches of which a kernel was made: their ids, times and places, for counters that come later."""

    def __init__(self) -> None:
        self._keys: Int64 = np.empty(0, np.int64)
        self._told: dict[str, pa.Array] = {}

    def add(self, keys: Int64, columns: dict[str, pa.Array]) -> None:
        """Adds kernels by the keys of their dispatches."""
        known = self._told
        parts = {
            name: pa.concat_arrays([known[name], column]) if name in known else column
            for name, column in columns.items()
        }
        keys_now = np.concatenate([self._keys, keys])
        if (np.diff(keys_now) < 0).any():
            order = np.argsort(keys_now, kind="stable")
            keys_now = keys_now[order]
            parts = {name: column.take(pa.array(order)) for name, column in parts.items()}
        self._keys, self._told = keys_now, parts

    def find(self, keys: Int64) -> Int64:
        """The place of the kernel of each dispatch, -1 where there is none."""
        if not len(self._keys):
            return np.full(len(keys), -1, np.int64)
        at = np.searchsorted(self._keys, keys)
        at[at == len(self._keys)] = 0
        return np.where(self._keys[at] == keys, at, -1)

    def columns(self, places: Int64) -> dict[str, pa.Array]:
        """What the kernels at those places say."""
        return {name: column.take(pa.array(places)) for name, column in self._told.items()}


def keys_of(block: Block, pids: Any) -> Int64:
    """The key of each dispatch: its number, which is unique in its process, and the process."""
    dispatches = block.get("<dispatch>")
    if dispatches is None:
        return np.full(len(block), -1, np.int64)
    numbers = pc.fill_null(dispatches, -1).to_numpy(zero_copy_only=False)
    process = pc.fill_null(pids, 0).to_numpy(zero_copy_only=False) if isinstance(pids, pa.Array) else pids or 0
    keys: Int64 = np.where(numbers < 0, -1, numbers + (process % (1 << 22)) * (1 << 40))
    return keys
