"""Counters and allocations: AICORE_FREQ (MHz), MEMORY_RECORD and OP_MEMORY (bytes)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.columnar.blocks import Block, timed
from ktrace.model.batch import Batch

from .reading import Reading, known, with_whole

#: Column of MEMORY_RECORD -> the name of its counter.
_MEMORY = {"totalAllocated": "Total Allocated", "totalReserved": "Total Reserved", "totalActive": "Total Active"}


def read_frequencies(reading: Reading, table: str) -> Iterator[Batch]:
    """AICORE_FREQ: the clock of the cores."""
    for block in _blocks(reading, table, "timestampNs"):
        value = block.take("freq")
        yield reading.batches.events(
            block,
            reading.ids[table].of(block.numbers),
            kind="counter",
            name="AI Core Freq",
            ts=block.take("timestampNs"),
            device=reading.device(block),
            value=None if value is None else _number(value),
            unit="MHz",
        )


def read_memory(reading: Reading, table: str) -> Iterator[Batch]:
    """MEMORY_RECORD: a counter for each total; the ids of a row are consecutive."""
    for block in _blocks(reading, table, "timestamp"):
        component = reading.text(block, "component", required=True)
        ids = reading.ids[table].of(block.numbers)
        shared = {"ts": block.take("timestamp"), "device": reading.device(block), "kind": "counter", "unit": "B"}
        values = {
            name: _number(block.take(column)) for column, name in _MEMORY.items() if block.get(column) is not None
        }
        reading.conversion.report.used(len(block))
        rest: dict[str, Any] = block.rest()
        for offset, (name, value) in enumerate(values.items()):
            names = pc.binary_join_element_wise(component, name, " ")
            columns = {**shared, "name": names, "value": value, **(rest if not offset else {})}
            yield reading.batches.batch("events", ids + offset, timing="measured", **columns)


def read_allocations(reading: Reading, table: str) -> Iterator[Batch]:
    """OP_MEMORY: allocations of operators; the time of the release is an argument."""
    for block in _blocks(reading, table, "allocationTime"):
        yield reading.batches.events(
            block,
            reading.ids[table].of(block.numbers),
            kind="alloc",
            name=reading.text(block, "name", required=True),
            ts=block.take("allocationTime"),
            device=reading.device(block),
            bytes=known(block, "size"),
        )


def _blocks(reading: Reading, table: str, time: str) -> Iterator[Block]:
    for found in reading.database.blocks(table, reading.conversion.batch_rows):
        block = timed(with_whole(found, time), reading.conversion, time)
        if len(block):
            yield block


def _number(column: pa.Array | None) -> pa.Array | None:
    """A column as float64; texts and bytes are null."""
    if column is None:
        return None
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        return pa.nulls(len(column), pa.float64())
    return pc.cast(column, pa.float64(), safe=False)
