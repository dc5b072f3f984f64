"""Kernels, copies, sets, migrations of unified memory, waits, calls and the profiler's own work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.columnar.blocks import Block, timed
from ktrace.model.batch import Batch
from ktrace.model.masks import present

from .names import COPIES, DRIVER, MEMORIES, OVERHEADS, RUNTIME, SYNCS, UNIFIED
from .reading import Reading, number


def _times(block: Block) -> dict[str, pa.Array]:
    begin, end = block.take("start"), block.take("end")
    return {"ts": begin, "dur": pc.subtract(end, begin)}


def kernels(reading: Reading, table: str) -> Iterator[Batch]:
    """Yields kernels; CUPTI's names are those of the compiler, mangled."""
    for block in reading.timed(table):
        static, dynamic = (number(block.take(f"{kind}SharedMemory"), 1 << 60) for kind in ("static", "dynamic"))
        shared = static if dynamic is None or static is None else pc.add(static, dynamic)
        completed, end = block.take("completed"), block.get("end")
        if completed is not None:  # it usually repeats `end`
            completed = pc.if_else(pc.equal(completed, end), pa.scalar(None, pa.int64()), completed)
        yield reading.events(
            table,
            block,
            kind="kernel",
            name=reading.text(block, "name", required=True),
            **_times(block),
            **reading.place(block),
            **{f"{part}_{axis}": block.take(f"{part}{axis.upper()}") for part in ("grid", "block") for axis in "xyz"},
            registers=number(block.take("registersPerThread"), 1 << 31),
            shared_memory=shared,
            shared_dynamic=dynamic,
            **{"args.completed": completed},
        )


def copies(reading: Reading, table: str) -> Iterator[Batch]:
    """Yields copies, named as nvprof prints them."""
    for block in reading.timed(table):
        ways = reading.word(block, "copyKind", COPIES, "")
        name: Any = "[CUDA memcpy]" if ways is None else pc.binary_join_element_wise("[CUDA memcpy ", ways, "]", "")
        memories = {
            f"args.{column}": reading.word(block, column, MEMORIES, "Unknown") for column in ("srcKind", "dstKind")
        }
        block_place = reading.place(block)
        yield reading.events(
            table,
            block,
            kind="memcpy",
            name=name,
            copy_kind=ways,
            bytes=block.take("bytes"),
            **_times(block),
            **block_place,
            **memories,
        )


def sets(reading: Reading, table: str) -> Iterator[Batch]:
    """Yields memsets."""
    for block in reading.timed(table):
        yield reading.events(
            table,
            block,
            kind="memset",
            name="[CUDA memset]",
            bytes=block.take("bytes"),
            **_times(block),
            **reading.place(block),
        )


def unified(reading: Reading, table: str) -> Iterator[Batch]:
    """Yields migrations as copies; faults and others as ranges, or as instants if they have no end."""
    for block in _ended(reading, table):
        kinds = block.get("counterKind")
        numbers = pa.nulls(len(block), pa.int64()) if kinds is None else kinds
        names = reading.word(
            block, "counterKind", {number: name for number, (name, _) in UNIFIED.items()}, "[Unified Memory]"
        )
        ways = pa.array([UNIFIED.get(number, ("", None))[1] for number in numbers.to_pylist()], pa.string())
        times = _times(block)
        at_once = pc.equal(times["dur"], 0).to_numpy(zero_copy_only=False)
        copied = present(ways)
        kind = np.where(copied, "memcpy", np.where(at_once, "instant", "range"))
        times["dur"] = pc.if_else(pa.array(~copied & at_once), pa.scalar(None, pa.int64()), times["dur"])
        value = block.take("value")
        columns: dict[str, Any] = {}
        if value is not None:
            columns["bytes"] = pc.if_else(ways.is_valid(), value, pa.scalar(None, pa.int64()))
            columns["args.value"] = pc.if_else(ways.is_valid(), pa.scalar(None, pa.int64()), value)
        yield reading.events(
            table,
            block,
            kind=pa.array(kind.tolist(), pa.string()),
            name="[Unified Memory]" if names is None else names,
            copy_kind=ways,
            **times,
            **reading.place(block),
            **columns,
        )


def _ended(reading: Reading, table: str) -> Iterator[Block]:
    """Yields the rows; a row without an end (0) ends where it begins."""
    for block in reading.blocks(table):
        begin, end = block.get("start"), block.get("end")
        if begin is None or end is None:
            reading.conversion.report.issue("bad-record", table, "has no start or end", len(block))
            return
        open_ = pc.fill_null(pc.equal(end, 0), False)
        columns = {name: block.get(name) for name in (key.removeprefix("args.") for key in block.rest())}
        columns["end"] = pc.if_else(open_, begin, end)
        whole = Block(
            block.place, block.numbers, {name: column for name, column in columns.items() if column is not None}
        )
        sound = timed(whole, reading.conversion, "start", "end")
        if len(sound):
            yield sound


def waits(reading: Reading, table: str) -> Iterator[Batch]:
    """Yields synchronisations."""
    for block in reading.timed(table):
        names = reading.word(block, "type", SYNCS, "Synchronize")
        yield reading.events(
            table,
            block,
            kind="sync",
            name="Synchronize" if names is None else names,
            **_times(block),
            **reading.place(block),
        )


def calls(reading: Reading, table: str) -> Iterator[Batch]:
    """Yields calls of the runtime or the driver."""
    driver = "DRIVER" in table.upper()
    for block in reading.timed(table):
        numbers = block.get("cbid")
        names = reading.word(block, "cbid", DRIVER if driver else RUNTIME, "cu" if driver else "cuda")
        yield reading.events(
            table,
            block,
            kind="api",
            name="[no name]" if names is None else names,
            cat="CUDA driver" if driver else "CUDA runtime",
            tid=block.take("threadId"),
            **_times(block),
            **{name: column for name, column in reading.place(block).items() if name in ("pid", "correlation")},
            **{"args.cbid": numbers},
        )


def overheads(reading: Reading, table: str) -> Iterator[Batch]:
    """Yields the profiler's own work."""
    for block in reading.timed(table):
        names = reading.word(block, "overheadKind", OVERHEADS, "Overhead")
        yield reading.events(
            table, block, kind="overhead", name="Overhead" if names is None else names, pid=reading.pid, **_times(block)
        )


#: Table without CUPTI_ACTIVITY_KIND_ -> its reader.
READERS: dict[str, Callable[[Reading, str], Iterator[Batch]]] = {
    "KERNEL": kernels,
    "CONCURRENT_KERNEL": kernels,
    "CDP_KERNEL": kernels,
    "MEMCPY": copies,
    "MEMCPY2": copies,
    "MEMSET": sets,
    "UNIFIED_MEMORY_COUNTER": unified,
    "SYNCHRONIZATION": waits,
    "RUNTIME": calls,
    "DRIVER": calls,
    "OVERHEAD": overheads,
}
