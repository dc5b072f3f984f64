"""The database of nvprof as events, NVTX, and metrics and events of kernels as counters that are their children.

An NVTX range is two rows with the same id; the first one has the name:

flags 1   an instant          flags 2   a range begins       flags 4   the range with that id ends

Metrics and events have no names: an id is CUPTI's number on that device. Facts: scripts that read such files.

METRIC             id 1210      value BLOB 8 bytes, a float64 or a whole number   correlationId 11
EVENT              id 83886182  value "4096"  domain 5                            correlationId 11
METRIC_INSTANCE, EVENT_INSTANCE                   one for each unit of the device: instance 0, 1, ...
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.columnar.blocks import Block, timed
from ktrace.kit.sqlite import Database, opened
from ktrace.model.arrays import Int64
from ktrace.model.batch import Batch
from ktrace.model.masks import present
from ktrace.model.row_builder import RowBuilder
from ktrace.store.joins import positions

from .reading import NvvpReader
from .work import READERS

#: A float64 below this is in fact a whole number.
_LEAST = 1e-300

_PLACE = ("start", "end", "deviceId", "contextId", "streamId")


class Kernels:
    """The kernels of some tables by their correlation, with their ids, times and places."""

    def __init__(self, reading: NvvpReader, tables: Sequence[str]) -> None:
        parts: list[pa.Table] = []
        for table in tables:
            needed = [name for name in ("correlationId", *_PLACE) if reading.database.has(table, name)]
            if not {"correlationId", "start", "end"} <= set(needed):
                continue
            size = reading.conversion.batch_rows
            for block in reading.database.blocks(table, size, needed, counted=False):
                columns = {name: _whole_number(block, name) for name in ("correlationId", *_PLACE)}
                parts.append(pa.table({"id": pa.array(reading.ids(table, block)), **columns}))
        self._rows = pa.concat_tables(parts) if parts else None
        if self._rows is not None:
            begin, end = self._rows["start"], self._rows["end"]
            timed = pc.and_(pc.greater_equal(end, begin), pc.greater(end, 0))
            self._rows = self._rows.filter(pc.and_(timed, self._rows["correlationId"].is_valid())).combine_chunks()
            self._rows = self._rows.sort_by("correlationId")
            self._keys: Int64 = self._rows["correlationId"].to_numpy()

    def find(self, correlations: pa.Array) -> Int64:
        """The row of each correlation, -1 for none."""
        if self._rows is None:
            return np.full(len(correlations), -1)
        return positions(correlations.fill_null(-1).to_numpy(zero_copy_only=False), self._keys)

    def place(self, rows: Int64) -> dict[str, Any]:
        """Parent, time, device, context, stream of the counters of some rows."""
        assert self._rows is not None  # else no row was found
        columns = {name: self._rows[name].combine_chunks().take(pa.array(rows)) for name in ("id", *_PLACE)}
        return {
            "parent": columns["id"],
            "ts": columns["start"],
            "dur": pc.subtract(columns["end"], columns["start"]),
            **{name: columns[f"{name}Id"] for name in ("device", "context", "stream")},
        }


def counters(reading: NvvpReader, table: str, kernels: Kernels) -> Iterator[Batch]:
    """Yields a counter for each row; reports rows without a value or a kernel."""
    what = "metric" if "METRIC" in table.upper() else "event"
    for block in reading.blocks(table):
        ids, correlations, values = block.get("id"), block.get("correlationId"), _values(block)
        if ids is None or correlations is None or values is None:
            reading.conversion.report.issue("bad-record", table, "has no id, correlationId or value", len(block))
            return
        rows, has_value = kernels.find(correlations), present(values)
        for row in np.flatnonzero((rows < 0) | ~has_value).tolist():
            why = "no kernel has its correlationId" if has_value[row] else "no value"
            reading.conversion.report.issue("bad-record", block.where(row), why)
        good = pa.array((rows >= 0) & has_value)
        sound = block.filter(good)
        if not len(sound):
            continue
        numbers = sound.take("id")
        assert numbers is not None
        sound.drop("correlationId", "value", "$value")
        yield reading.events(
            table,
            sound,
            kind="counter",
            name=pc.binary_join_element_wise(what, pc.fill_null(numbers.cast(pa.string()), "?"), " "),
            value=values.filter(good),
            pid=reading.pid,
            **kernels.place(rows[good.to_numpy(zero_copy_only=False)]),
        )


def _whole_number(block: Block, name: str) -> pa.Array:
    column = block.get(name)
    if column is None or not pa.types.is_integer(column.type):
        return pa.nulls(len(block), pa.int64())
    return column.cast(pa.int64())


def _values(block: Block) -> pa.DoubleArray | None:
    """The values as float64; null for none."""
    numbers, others = block.get("value"), block.get("$value")
    if numbers is None and (others is None or not pa.types.is_large_binary(others.type)):
        return None
    if numbers is not None:
        return numbers.cast(pa.float64(), safe=False)
    assert others is not None
    return pa.array([_value(blob) for blob in others.to_pylist()], pa.float64())


def _value(blob: bytes | None) -> float | None:
    if blob is None or len(blob) not in (4, 8):
        return None
    whole = int.from_bytes(blob, "little")
    if len(blob) == 4:
        return float(whole)
    number = float(np.frombuffer(blob, "<f8")[0])
    return float(whole) if 0 < abs(number) < _LEAST else number


_BEGINS, _ENDS = 2, 4


def markers(reading: NvvpReader, table: str) -> Iterator[Batch]:
    """Yields ranges and instants on their threads, or on the process; the domain is the track."""
    report, database = reading.conversion.report, reading.database
    if lacking := [name for name in ("flags", "id", "timestamp") if not database.has(table, name)]:
        report.record(count := database.count(table))
        report.issue("bad-record", table, f"has no column {', '.join(lacking)}", count)
        return
    ids, ends = _sorted(*_whole(reading, table, ["id", "timestamp"], _ENDS))
    starts = np.unique(_whole(reading, table, ["id"], _BEGINS)[0])
    for block in reading.blocks(table):
        good = np.ones(len(block), np.bool_)
        for name in ("flags", "id", "timestamp"):
            column = block.get(name)
            has_start = np.zeros(len(block), np.bool_) if column is None else present(column)
            for row in np.flatnonzero(good & ~has_start).tolist():
                report.issue("bad-record", block.where(row), f"{name} isn't a number")
            good &= has_start
        sound = timed(block.filter(pa.array(good)), reading.conversion, "timestamp")
        flags, numbers = sound.get("flags"), sound.get("id")
        if not len(sound) or flags is None or numbers is None:
            continue
        is_end = pc.not_equal(pc.bit_wise_and(flags, _ENDS), 0).to_numpy(zero_copy_only=False)
        has_start = np.isin(numbers.to_numpy(), starts)
        for row in np.flatnonzero(is_end & ~has_start).tolist():
            report.issue("end-without-begin", sound.where(row), f"id {numbers[row]}")
        report.used(int((is_end & has_start).sum()), outcome="its start")
        rest = sound.filter(pa.array(~is_end))
        rest.drop("_id_")
        if len(rest):
            yield _events(reading, table, rest, ids, ends)


def _whole(reading: NvvpReader, table: str, columns: list[str], flag: int) -> list[Int64]:
    """Columns of the rows with that flag in which all of these columns are numbers."""
    where = " AND ".join([f"flags & {flag}", *(f"typeof({name}) = 'integer'" for name in columns)])
    rows = reading.database.query(table, f'SELECT {", ".join(columns)} FROM "{table}" WHERE {where}')
    values = np.array(rows, np.int64).reshape(-1, len(columns))
    return [values[:, index] for index in range(len(columns))]


def _sorted(ids: Int64, ends: Int64) -> tuple[Int64, Int64]:
    order = np.argsort(ids, kind="stable")
    return ids[order], ends[order]


def _events(reading: NvvpReader, table: str, block: Block, ids: Int64, ends: Int64) -> Batch:
    flags, numbers, times = block.take("flags"), block.take("id"), block.take("timestamp")
    assert flags is not None and numbers is not None and times is not None
    begins = pc.not_equal(pc.bit_wise_and(flags, _BEGINS), 0).to_numpy(zero_copy_only=False)
    at = positions(numbers.to_numpy(), ids)
    matched = begins & (at >= 0)
    dur = np.append(ends, 0)[at] - times.to_numpy()
    names = reading.text(block, "name", required=True)
    batch: Batch = reading.events(
        table,
        block,
        kind=pa.array(np.where(begins, "range", "instant").tolist(), pa.string()),
        name=names,
        ts=times,
        dur=pa.array(dur, mask=~(matched & (dur >= 0))),
        track=reading.text(block, "domain"),
        **owners(block),
    )
    return batch


def owners(block: Block) -> dict[str, Any]:
    """Process and thread of the objects: two numbers of four bytes; for a process (kind 1) only the first."""
    kinds, objects = block.get("objectKind"), block.get("objectId")
    if kinds is None or objects is None or not pa.types.is_large_binary(objects.type):
        return {}
    block.drop("objectKind", "objectId")
    pids: list[int | None] = []
    tids: list[int | None] = []
    for kind, raw in zip(kinds.to_pylist(), objects.to_pylist(), strict=True):
        pair = struct.unpack_from("<II", raw) if kind in (1, 2) and raw and len(raw) >= 8 else (None, None)
        pids.append(pair[0])
        tids.append(pair[1] if kind == 2 else None)
    return {"pid": pa.array(pids, pa.int64()), "tid": pa.array(tids, pa.int64())}


_PREFIX = "CUPTI_ACTIVITY_KIND_"

#: Tables for the catalog.
_FACTS = ("DEVICE", "NAME", "CONTEXT")

#: Tables of values that were counted while kernels ran.
_COUNTED = ("METRIC", "EVENT", "METRIC_INSTANCE", "EVENT_INSTANCE")

#: Fact of a device -> its column.
_DEVICE = {
    "sm_count": "numMultiprocessors",
    "memory": "globalMemorySize",
    "warp_size": "numThreadsPerWarp",
    "clock_khz": "coreClockRate",
}


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields kernels, copies, sets, calls, markers, overheads, counters; devices and names. Reports other tables."""
    with opened(source, conversion) as database:
        tables = {
            name.upper().removeprefix(_PREFIX): name for name in database.tables if name.upper().startswith(_PREFIX)
        }
        reading = NvvpReader(database, conversion, list(tables.values()))
        for kind, table in tables.items():
            if kind in READERS:
                yield from READERS[kind](reading, table)
            elif kind == "MARKER":
                yield from markers(reading, table)
            elif kind in _COUNTED:
                continue
            elif kind not in _FACTS and (count := database.count(table)):
                conversion.report.record(count)
                conversion.report.issue("unrecognised", table, "a table that isn't read", count)
        counted = [table for kind, table in tables.items() if kind in _COUNTED and database.count(table)]
        kernels = Kernels(reading, [table for kind, table in tables.items() if "KERNEL" in kind] if counted else ())
        for table in counted:
            yield from counters(reading, table, kernels)
        rows = RowBuilder(conversion, first_id=reading.last_id)
        rows.fact("clock", facts={"kind": "unix", "at_ns": 0, "unix_ns": 0})
        _devices(reading, database, tables, rows)
        _names(reading, tables, rows)
        yield from rows.rest()


def _devices(reading: NvvpReader, database: Database, tables: dict[str, str], rows: RowBuilder) -> None:
    for block in reading.blocks(tables["DEVICE"]) if "DEVICE" in tables else ():
        names, ids = reading.text(block, "name"), block.get("id")
        reading.conversion.report.used(len(block), outcome="catalog")
        if ids is None:
            continue
        columns = {fact: block.get(column) for fact, column in _DEVICE.items()}
        major, minor = block.get("computeCapabilityMajor"), block.get("computeCapabilityMinor")
        for row, number in enumerate(ids.to_pylist()):
            if number is None:
                continue
            facts = {"api": "cuda", "vendor": "NVIDIA"}
            facts |= {fact: column[row].as_py() for fact, column in columns.items() if column is not None}
            if major is not None and minor is not None:
                facts["compute_capability"] = f"{major[row]}.{minor[row]}"
            rows.fact("device", device=number, name=None if names is None else names[row].as_py(), facts=facts)
    for block in reading.blocks(tables["CONTEXT"]) if "CONTEXT" in tables else ():
        reading.conversion.report.used(len(block), outcome="catalog")
        devices, contexts = block.get("deviceId"), block.get("contextId")
        if devices is not None and contexts is not None:
            for device, context in zip(devices.to_pylist(), contexts.to_pylist(), strict=True):
                rows.fact("context", pid=reading.pid, device=device, context=context)


def _names(reading: NvvpReader, tables: dict[str, str], rows: RowBuilder) -> None:
    """Adds the names that the program gave its process and threads."""
    for block in reading.blocks(tables["NAME"]) if "NAME" in tables else ():
        names, places = reading.text(block, "name"), owners(block)
        reading.conversion.report.used(len(block), outcome="catalog")
        if names is None or not places:
            continue
        for name, pid, tid in zip(names.to_pylist(), places["pid"].to_pylist(), places["tid"].to_pylist(), strict=True):
            if name and pid is not None:
                rows.fact("process" if tid is None else "thread", pid=pid, tid=tid, name=name)
