"""Reads work on the device: kernels, copies, memsets, graphs, synchronisation.

A stream that waits for a CUDA event waits for the call that recorded the event:

    CUDA_EVENT        correlationId 52, eventSyncId 9     cudaEventRecord of correlation 52 records
    SYNCHRONIZATION   eventSyncId 9                       a stream waits for that: arrow call -> synchronisation

Calls are examined while they are read, and only those with the correlation of a recorded event are kept.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.columnar.blocks import BatchBuilder, Block, timed
from ktrace.kit.columnar.dictionaries import constant
from ktrace.kit.sqlite import Database
from ktrace.model.arrays import Int64
from ktrace.model.batch import Batch
from ktrace.store.joins import positions

from .reading import ExportReader, numbered
from .typed_columns import NOTHING, distinct_words, filled, filled_part, without


class Waits:
    """The recorded events, and the ids of the calls that recorded them."""

    def __init__(self, database: Database, batches: BatchBuilder) -> None:
        self._batches = batches
        pids, correlations, records = ([np.zeros(0, np.int64)] for _ in range(3))
        for table in database.like("CUPTI_ACTIVITY_KIND_CUDA_EVENT"):
            part = database.part(table, ("globalPid", "correlationId", "eventSyncId"))
            pids.append(filled_part(part, "globalPid", -1) >> 24 & 0xFFFFFF)
            correlations.append(filled_part(part, "correlationId", -1))
            records.append(filled_part(part, "eventSyncId", -1))
        pid, correlation, record = map(np.concatenate, (pids, correlations, records))
        correlated = correlation > 0
        calls = _key(pid[correlated], correlation[correlated])
        self._wanted = np.unique(calls)
        self._calls = np.full(len(self._wanted), -1, np.int64)
        synced = (record[correlated] >= 0) & (record[correlated] != NOTHING)
        # If a number was recorded several times, the last record counts.
        records_of, last = np.unique(_key(pid[correlated], record[correlated])[synced][::-1], return_index=True)
        self._records, self._call_of = records_of, calls[synced][::-1][last]

    def add_calls(self, ids: Int64, pid: pa.Array | None, correlation: pa.Array | None) -> None:
        """Keeps the first call of each correlation that recorded an event."""
        if not len(self._wanted) or pid is None or correlation is None:
            return
        place = positions(_key(_numbers(pid), _numbers(correlation)), self._wanted)
        matches = np.flatnonzero(place >= 0)[::-1]
        new = matches[self._calls[place[matches]] < 0]
        self._calls[place[new]] = ids[new]

    def calls_of(self, pid: pa.Array, correlation: pa.Array) -> pa.Array:
        """Returns the ids of the calls with these correlations, null if there is none."""
        calls = self._calls_by_key(_key(_numbers(pid), _numbers(correlation)))
        return pa.array(calls, mask=calls < 0)

    def arrivals(self, ids: Int64, pids: Int64, records: Int64) -> Iterator[Batch]:
        """Yields both ends of the arrows to synchronisations; their ids are the two after the synchronisation's."""
        place = positions(_key(pids, records), self._records)
        called, calls = place >= 0, np.full(len(ids), -1, np.int64)
        calls[called] = self._calls_by_key(self._call_of[place[called]])
        waits = np.flatnonzero((calls >= 0) & (records != NOTHING))
        if not len(waits):
            return
        # Every arrow has its own key: a call has as many arrows as there are streams that wait for its event.
        parts = (pids[waits], records[waits], ids[waits])
        keys = pc.binary_join_element_wise(*(pa.array(part).cast(pa.string()) for part in parts), ":")
        for number, (role, event) in enumerate((("out", calls[waits]), ("in", ids[waits])), 1):
            columns = {"key": keys, "role": role, "event": event, "pid": pids[waits], "name": "CUDA event"}
            yield self._batches.batch("links", ids[waits] + number, link="wait", **columns)

    def _calls_by_key(self, keys: Int64) -> Int64:
        """Returns the ids of the calls with these keys, -1 if there is none."""
        place = positions(keys, self._wanted)
        called, calls = place >= 0, np.full(len(keys), -1, np.int64)
        calls[called] = self._calls[place[called]]
        return calls


def _key(pid: Int64, number: Int64) -> Int64:
    return (pid << 38) ^ number


def _numbers(column: pa.Array) -> Int64:
    return filled(column, len(column), -1)


#: Names of rows without a name.
_COPY, _GRAPH, _SYNC = "[CUDA memcpy]", "CUDA graph", "synchronization"

#: Kinds of copies from this on are migrations of unified memory.
_UNIFIED = 11

#: The label of a kind of copy: "Unified Host-to-Device", "HtoD" or "CUDA_MEMCPY_KIND_HTOD".
_DIRECTION = re.compile(
    r"(?:.*[ _])?([HDAP])(?:ost|evice|rray|eer)?-?to-?([HDAP])(?:ost|evice|rray|eer)?", re.IGNORECASE
)

Rows = Iterator[tuple[Block, Int64, dict[str, Any]]]


def _work(reading: ExportReader, table: str, *, each: int = 1, work: bool = True) -> Rows:
    """Yields the rows of a table with their ids and the columns that all work on a device has."""
    for block, ids in reading.timed(table, "start", end="end", each=each):
        place = reading.places.work(block, work=work)
        columns = {
            **block.span("start", "end"),
            **place,
            "correlation": reading.correlation(block),
            **reading.nodes.columns(block, place.get("pid")),
        }
        yield block, ids, columns


def kernels(reading: ExportReader, table: str) -> Iterator[Batch]:
    """Yields a kernel for each row; columns that the model doesn't have become arguments."""
    for block, ids, columns in _work(reading, table):
        demangled, mangled = block.get("demangledName"), block.get("mangledName")
        if demangled is not None and mangled is not None and mangled.equals(demangled):
            block.drop("mangledName")
        columns.update(reading.name(block, "demangledName", "shortName", "mangledName"))
        block.drop("shortName")  # without its template arguments, which tell kernels apart
        for what in ("grid", "block"):
            columns.update({f"{what}_{axis}": block.take(f"{what}{axis.upper()}") for axis in "xyz"})
        columns.update(_resources(block) | {"cluster_size": _cluster_size(block)})
        yield reading.batches.events(block, ids, kind="kernel", **columns, **reading.args(block, table))


def _resources(block: Block) -> dict[str, pa.Array | None]:
    """Returns registers and shared memory; impossible numbers are kept as arguments."""
    columns: dict[str, pa.Array | None] = {}
    registers = block.get("registersPerThread")
    if registers is not None:
        columns["registers"] = plausible = _below(registers, 1 << 31).cast(pa.int32())
        if plausible.null_count == registers.null_count:
            block.drop("registersPerThread")
    static, dynamic = block.get("staticSharedMemory"), block.take("dynamicSharedMemory")
    columns["shared_dynamic"] = columns["shared_memory"] = dynamic
    if static is not None:
        parts = [static] if dynamic is None else [static, dynamic]
        columns["shared_memory"] = total = functools.reduce(pc.add, (_below(part, 1 << 62) for part in parts))
        if total.null_count == static.null_count:
            block.drop("staticSharedMemory")
    return columns


def _cluster_size(block: Block) -> pa.Array | None:
    """The blocks of a cluster, from three columns, which stay arguments; a dimension that isn't stated is 1."""
    size = block.get("clusterX")
    if size is None:
        return None
    size = _below(size, 1 << 20)
    for axis in "YZ":
        extent = block.get(f"cluster{axis}")
        if extent is not None:
            size = pc.multiply(size, _below(pc.fill_null(extent, 1), 1 << 20))
    return size


def _below(column: pa.Array, limit: int) -> pa.Array:
    """Returns the column with null in place of numbers whose absolute value is too large."""
    span = pc.min_max(column)
    if span["min"].as_py() is None or -limit <= span["min"].as_py() <= span["max"].as_py() < limit:
        return column
    return pc.if_else(pc.and_(pc.greater_equal(column, -limit), pc.less(column, limit)), column, None)


def copies(reading: ExportReader, table: str) -> Iterator[Batch]:
    """Yields a copy for each row, named as in nsys stats."""
    for block, ids, columns in _work(reading, table):
        kind, stream = block.take("copyKind"), columns.get("stream")
        columns.update({"name": constant(_COPY, len(block)), "bytes": block.take("bytes")})
        if kind is not None:
            labels = reading.enums.column("CUDA_MEMCPY_OPER", kind)
            columns.update({"name": _renamed(labels, _copy_name, _COPY), "copy_kind": _renamed(labels, _direction)})
        if kind is not None and stream is not None:  # migrations of unified memory aren't on a stream
            unified = pc.and_(pc.greater_equal(kind, _UNIFIED), pc.equal(stream, 0))
            columns["stream"] = pc.if_else(pc.fill_null(unified, False), None, stream)
        yield reading.batches.events(block, ids, kind="memcpy", **columns, **reading.args(block, table))


def _copy_name(label: str) -> str:
    unified = label.removeprefix("Unified ")
    return f"[CUDA memcpy {label}]" if unified == label else f"[CUDA Unified Memory memcpy {unified}]"


def _direction(label: str) -> str:
    match = _DIRECTION.fullmatch(label)
    return f"{match[1]}to{match[2]}".upper().replace("TO", "to") if match else label


def _renamed(column: pa.DictionaryArray, rename: Callable[[str], str], null: str | None = None) -> pa.Array:
    """Returns the column with its words renamed, and `null` in place of null."""
    codes, words = distinct_words(rename(word) for word in column.dictionary.to_pylist())
    named = pa.DictionaryArray.from_arrays(codes.take(column.indices), words)
    return named if null is None or not named.null_count else pc.fill_null(named.cast(pa.string()), null)


def sets(reading: ExportReader, table: str) -> Iterator[Batch]:
    """Yields a memset for each row."""
    for block, ids, columns in _work(reading, table):
        columns.update({"name": "[CUDA memset]", "bytes": block.take("bytes")})
        yield reading.batches.events(block, ids, kind="memset", **columns, **reading.args(block, table))


def graphs(reading: ExportReader, table: str) -> Iterator[Batch]:
    """Yields a graph for each row: a launch of a whole CUDA graph, whose kernels aren't recorded."""
    for block, ids, columns in _work(reading, table):
        number = block.get("graphId", "graphExecId")
        columns["name"] = constant(_GRAPH, len(block)) if number is None else numbered(_GRAPH, number)
        yield reading.batches.events(block, ids, kind="graph", **columns, **reading.args(block, table))


def synchronisations(reading: ExportReader, table: str, waits: Waits) -> Iterator[Batch]:
    """Yields a sync for each row, on the stream that waits, and the arrow from the call that recorded its event."""
    for block, ids, columns in _work(reading, table, each=3, work=False):
        kind, event, recorded = block.take("syncType"), block.take("eventId"), block.take("eventSyncId")
        columns["name"] = constant(_SYNC, len(block))
        if kind is not None:
            columns["name"] = _renamed(reading.enums.column("CUPTI_SYNC_TYPE", kind), str, _SYNC)
        if event is not None:
            columns["args.eventId"] = without(event, NOTHING)
        if recorded is not None:
            columns["args.eventSyncId"] = without(recorded, NOTHING)
        pid = columns.get("pid")
        yield reading.batches.events(block, ids, kind="sync", **columns, **reading.args(block, table))
        if recorded is not None and pid is not None:
            yield from waits.arrivals(ids, pc.fill_null(pid, -1).to_numpy(), pc.fill_null(recorded, NOTHING).to_numpy())


def event_records(reading: ExportReader, table: str, waits: Waits) -> Iterator[Batch]:
    """Yields an instant on its stream for each event with a time; for the others an end of an arrow on their call.

    Before schema 3.24 no event has a time; since then the time is 0 or null if it wasn't collected.
    """
    for block in reading.blocks(table):
        times = block.get("timestamp", "start")
        timed_rows = pa.repeat(False, len(block))
        if times is not None:
            timed_rows = pc.fill_null(pc.not_equal(times, 0), False)
        if timed_rows.true_count < len(block):
            yield _event_ends(reading, table, block.filter(pc.invert(timed_rows)), waits)
        if timed_rows.true_count:
            start = "timestamp" if block.get("timestamp") is not None else "start"
            rows = timed(block.filter(timed_rows), reading.conversion, start)
            if len(rows):
                yield _event_instants(reading, table, rows)


def _event_instants(reading: ExportReader, table: str, block: Block) -> Batch:
    ts, recorded = block.take("timestamp", "start"), block.take("eventSyncId")
    columns: dict[str, Any] = reading.places.work(block, work=False)
    if recorded is not None:
        columns["args.eventSyncId"] = without(recorded, NOTHING)
    columns |= {"kind": "instant", "name": "CUDA event", "ts": ts, "correlation": reading.correlation(block)}
    return reading.batches.events(block, reading.batches.ids(len(block)), **columns, **reading.args(block, table))


def _event_ends(reading: ExportReader, table: str, block: Block, waits: Waits) -> Batch:
    block.drop("timestamp", "start")
    event, recorded, correlation = block.get("eventId"), block.take("eventSyncId"), block.get("correlationId")
    columns: dict[str, Any] = reading.places.work(block, work=False)
    parts = (columns.get("pid"), event)
    keys = pc.binary_join_element_wise(
        *(pc.fill_null(part, -1).cast(pa.string()) for part in parts if part is not None), ":"
    )
    columns |= {"link": "event", "key": keys, "role": "out", "name": "CUDA event"}
    if recorded is not None:
        columns["args.eventSyncId"] = without(recorded, NOTHING)
    if correlation is not None and "pid" in columns:
        columns["event"] = waits.calls_of(columns["pid"], correlation)
    reading.conversion.report.used(len(block))
    ids = reading.batches.ids(len(block))
    return reading.batches.batch("links", ids, **columns, **reading.args(block, table), **block.rest())
