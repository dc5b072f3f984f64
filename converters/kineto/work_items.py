"""Grids of HIP's calls that count work-items, as blocks.

    hipExtModuleLaunchKernel  grid [201216, 1, 1]  block [256, 1, 1]  correlation 7      786 blocks of 256 threads
    Cijk_Alik_Bljk_BBS_...    grid [201216, 1, 1]  block [256, 1, 1]  correlation 7      the same

Roctracer writes `globalWorkSizeX` of such a call where other calls have `gridDimX`, and Kineto copies it to the kernel
(HIP's API reference, `hipExtModuleLaunchKernel`; libkineto's RoctracerLogger). A kernel's call
is one before it in the file that has its correlation: Kineto writes calls before what they launched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.rocm.common import GRIDS_OF_WORK_ITEMS, blocks_of
from ktrace.model.arrays import Int64
from ktrace.model.batch import Batch
from ktrace.model.masks import words_in

_CALLS = pa.array(sorted(GRIDS_OF_WORK_ITEMS))


def in_blocks(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yields the batches with grids in blocks. Work-items that aren't whole blocks stay as the argument `grid`."""
    calls = _Calls()
    for batch in batches:
        if batch.record == "events" and batch.has("correlation") and batch.has("name"):
            rows = _launches(batch)
            if len(rows):
                calls.add(batch, rows)
            if calls.runs and batch.has("grid_x"):
                yield _converted(batch, np.union1d(rows, calls.launched(batch)))
                continue
        yield batch


class _Calls:
    """Correlations of calls and the ids of the first call with each, in sorted runs that halve in length."""

    def __init__(self) -> None:
        self.runs: list[tuple[Int64, Int64]] = []

    def add(self, batch: Batch, rows: Int64) -> None:
        """Adds calls."""
        which = pa.array(rows)
        run = tuple(batch.column(name).take(which).to_numpy() for name in ("correlation", "id"))
        while self.runs and 2 * len(run[0]) >= len(self.runs[-1][0]):
            run = tuple(map(np.concatenate, zip(self.runs.pop(), run, strict=True)))
        order = np.lexsort((run[1], run[0]))
        self.runs.append((run[0][order], run[1][order]))

    def launched(self, batch: Batch) -> Int64:
        """Returns the rows of kernels that such a call before them launched."""
        kernel = words_in(batch.column("kind"), ("kernel",)) & batch.column("correlation").is_valid().to_numpy(
            zero_copy_only=False
        )
        rows = np.flatnonzero(kernel)
        wanted, ids = (batch.column(name).take(pa.array(rows)).to_numpy() for name in ("correlation", "id"))
        found = np.zeros(len(rows), np.bool_)
        for correlations, calls in self.runs:
            at = np.minimum(np.searchsorted(correlations, wanted), len(correlations) - 1)
            found |= (correlations[at] == wanted) & (calls[at] < ids)
        return rows[found]


def _launches(batch: Batch) -> Int64:
    """Returns the rows of calls whose grid is in work-items."""
    names = batch.column("name")
    if pa.types.is_dictionary(names.type) and not pc.any(pc.is_in(names.dictionary, _CALLS)).as_py():
        return np.empty(0, np.int64)
    named = pc.and_(pc.is_in(names, _CALLS), batch.column("correlation").is_valid())
    return np.flatnonzero(pc.fill_null(named, False).to_numpy(zero_copy_only=False))


def _converted(batch: Batch, rows: Int64) -> Batch:
    """Returns the batch with the grids of these rows in blocks."""
    mine = np.zeros(len(batch), np.bool_)
    mine[rows] = True
    which = pa.array(mine)
    found = dict(zip(batch.columns.schema.names, batch.columns.columns, strict=True))
    uneven = np.zeros(len(batch), np.bool_)
    for axis in "xyz":
        made = blocks_of(found.get(f"grid_{axis}"), found.get(f"block_{axis}"))
        if made is None:
            continue
        grid = found[f"grid_{axis}"]
        whole = pc.and_(which, made.blocks.is_valid())
        found[f"grid_{axis}"] = pc.if_else(whole, made.blocks.cast(grid.type), grid)
        uneven |= mine & made.left.is_valid().to_numpy(zero_copy_only=False)
    if uneven.any():
        axes = zip(*(batch.column(f"grid_{axis}").to_pylist() for axis in "xyz"), strict=True)
        texts = [
            b"[%s]" % b",".join(b"%d" % one for one in of if one is not None) if left else None
            for of, left in zip(axes, uneven.tolist(), strict=True)
        ]
        found["args.grid"] = pa.array(texts, pa.binary())
    return Batch("events", pa.RecordBatch.from_pydict(found))
