"""Ranks of a made-up job, whose clocks are known: true times, and what each rank's file would say of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ktrace.model.batch import Batch
from ktrace.model.row_builder import to_batch

ALLREDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def by_its_clock(true: int, ahead: int, ppm: float = 0.0) -> int:
    """What a clock says at a true time, that is ahead at 0 and gains."""
    return true + ahead + round(true * ppm / 1e6)


def collective(source: str, number: int, end: int, **columns: Any) -> dict[str, Any]:
    """The row of a collective that ends then; 50 us long unless `dur` says."""
    dur = columns.pop("dur", 50_000)
    row = {"source": source, "id": number, "kind": "kernel", "name": ALLREDUCE, "timing": "measured", "pid": 1}
    return row | {"device": 0, "stream": 20, "ts": end - dur, "dur": dur} | columns


def batches(rows: list[dict[str, Any]], facts: list[dict[str, Any]] | None = None, size: int = 50) -> Iterator[Batch]:
    """Events in their order, some at a time; the facts come last."""
    for first in range(0, len(rows), size):
        yield to_batch("events", rows[first : first + size])
    if facts:
        yield to_batch("catalog", facts)
