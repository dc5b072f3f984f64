"""Memory of the device: allocations with their running totals, pools, page faults of unified memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.converters._shared.columnar.dictionaries import constant
from ktrace.model.arrays import Int64
from ktrace.model.batch import Batch

from .reading import Reading

#: memoryOperationType of memory that is given back.
_GIVEN_BACK = 1

#: What stands for a null among numbers.
_NONE = np.iinfo(np.int64).min


def usage(reading: Reading, table: str) -> Iterator[Batch]:
    """An allocation each, negative where memory is given back; then how much its process had of that kind each time."""
    seen: list[Int64] = []
    for block, ids in reading.timed(table, "start"):
        ts, operation = block.take("start"), block.get("memoryOperationType")
        process = reading.places.process(block)
        place: dict[str, Any] = {**process, **reading.places.device(block, process.get("pid"))}
        size, kind = block.take("bytes"), block.get("memKind")
        given_back = None if operation is None else pc.fill_null(pc.equal(operation, _GIVEN_BACK), False)
        signed = size if size is None or given_back is None else pc.if_else(given_back, pc.negate(size), size)
        if signed is not None:
            parts = [ts, place.get("pid"), place.get("device"), place.get("context"), kind, pc.fill_null(signed, 0)]
            seen.append(np.stack([ids, *(_numbers(part, len(block)) for part in parts)], axis=1))
        said = reading.said(block, table)
        names = said.pop("args.memoryOperationType", constant("Allocation", len(block)))
        if kind is None:
            said.pop("args.memKind", None)
        columns: dict[str, Any] = {"name": names, "bytes": signed, "correlation": reading.correlation(block)}
        yield reading.batches.events(block, ids, kind="alloc", ts=ts, **place, **columns, **said)
    if seen:
        yield from _totals(reading, np.concatenate(seen))


def _totals(reading: Reading, rows: Int64) -> Iterator[Batch]:
    """Counters of allocations: columns id, ts, pid, device, context, kind of memory, bytes."""
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
        kinds = reading.enums.column("CUDA_MEM_KIND", pa.array(part[:, 5], mask=part[:, 5] == _NONE))
        words = [f"allocated ({word})" for word in kinds.dictionary.to_pylist()]
        track = pa.DictionaryArray.from_arrays(kinds.indices, pa.array(words, pa.string()))
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
                name: pa.array(part[:, column], mask=part[:, column] == _NONE)
                for name, column in (("pid", 2), ("device", 3), ("context", 4))
            },
        )


def _numbers(column: pa.Array | None, rows: int) -> Int64:
    if column is None:
        return np.full(rows, _NONE)
    numbers: Int64 = column.fill_null(_NONE).to_numpy(zero_copy_only=False)
    return numbers


def pools(reading: Reading, table: str) -> Iterator[Batch]:
    """What happens to a pool of memory: an instant each."""
    for block, ids in reading.timed(table, "start"):
        ts = block.take("start")
        process = reading.places.process(block)
        place: dict[str, Any] = {**process, **reading.places.device(block, process.get("pid"))}
        correlation = reading.correlation(block)
        said = reading.said(block, table)
        done = said.pop("args.operationType", None)
        words = ["memory pool " + word.lower() for word in done.dictionary.to_pylist()] if done is not None else []
        name = pa.DictionaryArray.from_arrays(done.indices, pa.array(words)) if done is not None else "memory pool"
        columns: dict[str, Any] = {"name": name, "correlation": correlation, "track": "memory pools"}
        yield reading.batches.events(block, ids, kind="instant", ts=ts, **place, **columns, **said)


def page_faults(reading: Reading, table: str, name: str) -> Iterator[Batch]:
    """Page faults of unified memory: of the CPU an instant each, of a GPU a range each, in which several happened."""
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
        said = reading.said(block, table)
        yield reading.batches.events(block, ids, ts=ts, **columns, **said)
