"""Known dispatches and their times: counters may be in other rows and files than their kernels.

kernel_trace        Dispatch_Id 7 of process 12: id 4096, ts 100, dur 80
counter_collection  Dispatch_Id 7 of process 12 from 100 to 180: SQ_WAVES 128        below 4096
pmc_perf, long      Dispatch_ID 7 from 100 to 180: SQ_WAVES 128, from 900 to 970: GRBM_COUNT 5       two dispatches

A tool that collects counters in several passes runs the program once for each pass, and each run numbers its dispatches
from 1: the identity of a dispatch is its number, its process and its times.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.columnar.blocks import Block
from ktrace.model.arrays import Int64

from .common import agents

#: Replaces the time in the key of a dispatch without one: times beyond 2^62 are refused.
_NO_TIME = 1 << 62


class KnownDispatches:
    """The dispatches that became kernels: their ids, times and places, for counters that follow later."""

    def __init__(self) -> None:
        self._of_pass = _Index()
        self._by_number = _Index()
        self._remembered: dict[str, pa.Array] = {}
        self._rows = 0

    def add(self, block: Block, pids: Any, columns: dict[str, pa.Array]) -> None:
        """Adds kernels: rows with their numbers and times, and the columns to remember."""
        known = self._remembered
        self._remembered = {
            name: pa.concat_arrays([known[name], column]) if name in known else column
            for name, column in columns.items()
        }
        places = np.arange(self._rows, self._rows + len(block))
        self._rows += len(block)
        self._of_pass.add(keys_of(block, pids), places)
        if block.get("<ts>") is not None:
            self._by_number.add(_numbered(block, pids), places)

    def find(self, block: Block, pids: Any) -> Int64:
        """Returns the index of the kernel of each row, -1 for none.

        Rows without times belong to the kernel with their number, if only one has it.
        """
        found = self._of_pass.find(keys_of(block, pids))
        if block.get("<ts>") is None:
            by_number = self._by_number.find(_numbered(block, pids), unique=True)
            found = np.where(by_number >= 0, by_number, found)
        return found

    def columns(self, places: Int64) -> dict[str, pa.Array]:
        """The remembered columns of the kernels with those indices."""
        return {name: column.take(pa.array(places)) for name, column in self._remembered.items()}


class _Index:
    """Keys and the indices of their kernels, in sorted runs: a run is merged with shorter ones before it."""

    def __init__(self) -> None:
        self._runs: list[tuple[Int64, Int64]] = []

    def add(self, keys: Int64, places: Int64) -> None:
        while self._runs and len(self._runs[-1][0]) <= len(keys):
            before = self._runs.pop()
            keys, places = np.concatenate([before[0], keys]), np.concatenate([before[1], places])
        order = np.argsort(keys, kind="stable")
        self._runs.append((keys[order], places[order]))

    def find(self, keys: Int64, *, unique: bool = False) -> Int64:
        """The index that a key was first added with; if `unique`, -1 for a key that was added twice."""
        found = np.full(len(keys), -1, np.int64)
        times = np.zeros(len(keys), np.int64)
        for run, places in self._runs:
            at = np.searchsorted(run, keys)
            count = np.searchsorted(run, keys, side="right") - at
            new = (count > 0) & (found < 0)
            found[new] = places[at[new]]
            times += count
        return np.where(times > 1, -1, found) if unique else found


def keys_of(block: Block, pids: Any) -> Int64:
    """The key of each dispatch: number, process and times, or without times number, process, device and correlation."""
    if block.get("<ts>") is not None:
        return _mixed(len(block), pids, *(block.get(name) for name in ("<dispatch>", "<ts>", "<end>")))
    return _mixed(len(block), pids, block.get("<dispatch>"), agents(block.get("<agent>")), block.get("<correlation>"))


def _numbered(block: Block, pids: Any) -> Int64:
    return _mixed(len(block), pids, block.get("<dispatch>"))


def _mixed(rows: int, *parts: Any) -> Int64:
    """Hashes columns to 64 bits a row. The chance that two of a million dispatches collide is 1 in 30 million."""
    mixed = np.zeros(rows, np.uint64)
    for part in parts:
        if isinstance(part, pa.Array):
            numbers = pc.fill_null(part.cast(pa.int64()), _NO_TIME).to_numpy(zero_copy_only=False)
        else:
            numbers = np.full(rows, _NO_TIME if part is None else part, np.int64)
        mixed ^= numbers.astype(np.uint64)
        mixed += np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed ^= mixed >> np.uint64(shift)
            mixed *= np.uint64(factor)
        mixed ^= mixed >> np.uint64(31)
    return mixed.view(np.int64)
