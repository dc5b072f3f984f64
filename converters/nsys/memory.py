"""Reads memory of the device: allocations with their running totals, pools, page faults of unified memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.columnar.dictionaries import constant, mapped_words
from ktrace.model.arrays import Int64
from ktrace.model.batch import Batch

from .columns import filled
from .reading import Reading

#: The memoryOperationType of freed memory.
_FREED = 1

#: The number in place of null.
_NULL = np.iinfo(np.int64).min


def usage(reading: Reading, table: str) -> Iterator[Batch]:
    """Yields an allocation for each row, negative for freed memory, then counters with running totals by kind."""
    seen: list[Int64] = []
    for block, ids in reading.timed(table, "start"):
        ts, operation = block.take("start"), block.get("memoryOperationType")
        process = reading.places.process(block)
        place: dict[str, Any] = {**process, **reading.places.device(block, process.get("pid"))}
        size, kind = block.take("bytes"), block.get("memKind")
        freed = None if operation is None else pc.fill_null(pc.equal(operation, _FREED), False)
        signed = size if size is None or freed is None else pc.if_else(freed, pc.negate(size), size)
        if signed is not None:
            parts = [ts, place.get("pid"), place.get("device"), place.get("context"), kind, pc.fill_null(signed, 0)]
            seen.append(np.stack([ids, *(filled(part, len(block), _NULL) for part in parts)], axis=1))
        args = reading.args(block, table)
        names = args.pop("args.memoryOperationType", constant("Allocation", len(block)))
        if kind is None:
            args.pop("args.memKind", None)
        columns: dict[str, Any] = {"name": names, "bytes": signed, "correlation": reading.correlation(block)}
        yield reading.batches.events(block, ids, kind="alloc", ts=ts, **place, **columns, **args)
    if seen:
        yield from _totals(reading, np.concatenate(seen))


def _totals(reading: Reading, rows: Int64) -> Iterator[Batch]:
    """Yields counters for allocations; `rows` has the columns id, ts, pid, device, context, kind of memory, bytes."""
    order = np.lexsort((rows[:, 0], rows[:, 1], rows[:, 5], rows[:, 3], rows[:, 2]))
    ordered = rows[order]
    total = np.cumsum(ordered[:, 6])
    series = ordered[:, [2, 3, 5]]
    begins = np.concatenate([[True], (series[1:] != series[:-1]).any(axis=1)])
    total -= (total - ordered[:, 6])[begins][np.cumsum(begins) - 1]
    value = np.empty(len(rows), np.int64)
    value[order] = total
    size = reading.conversion.batch_rows
    for first in range(0, len(rows), size):
        part = rows[first : first + size]
        kinds = reading.enums.column("CUDA_MEM_KIND", pa.array(part[:, 5], mask=part[:, 5] == _NULL))
        track = mapped_words(kinds, lambda word: f"allocated ({word})")
        yield reading.batches.batch(
            "events",
            reading.batches.ids(len(part)),
            parent=part[:, 0],
            kind="counter",
            name="allocated",
            timing="derived",
            ts=part[:, 1],
            track=pc.fill_null(track.cast(pa.string()), "allocated"),
            value=value[first : first + size].astype(np.float64),
            unit="B",
            **{
                name: pa.array(part[:, column], mask=part[:, column] == _NULL)
                for name, column in (("pid", 2), ("device", 3), ("context", 4))
            },
        )


def pools(reading: Reading, table: str) -> Iterator[Batch]:
    """Yields an instant for each operation on a memory pool."""
    for block, ids in reading.timed(table, "start"):
        ts = block.take("start")
        process = reading.places.process(block)
        place: dict[str, Any] = {**process, **reading.places.device(block, process.get("pid"))}
        correlation = reading.correlation(block)
        args = reading.args(block, table)
        operation = args.pop("args.operationType", None)
        name: pa.DictionaryArray | str = "memory pool"
        if operation is not None:
            name = mapped_words(operation, lambda word: "memory pool " + word.lower())
        columns: dict[str, Any] = {"name": name, "correlation": correlation, "track": "memory pools"}
        yield reading.batches.events(block, ids, kind="instant", ts=ts, **place, **columns, **args)


def page_faults(reading: Reading, table: str, name: str) -> Iterator[Batch]:
    """Yields page faults of unified memory: an instant for the CPU, a range with several faults for a GPU."""
    for block, ids in reading.timed(table, "start", end="end"):
        ts, ends = block.take("start"), block.take("end")
        process = reading.places.process(block)
        columns: dict[str, Any] = {
            **process,
            **reading.places.device(block, process.get("pid")),
            "kind": "instant" if ends is None else "range",
            "dur": None if ends is None else pc.subtract(ends, ts),
            "name": name,
            "track": "page faults",
        }
        yield reading.batches.events(block, ids, ts=ts, **columns, **reading.args(block, table))
