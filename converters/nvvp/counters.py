"""Metrics and events of kernels, as counters that are their children.

METRIC             id 1210      value BLOB 8 bytes, a float64 or a whole number   correlationId 11
EVENT              id 83886182  value "4096"  domain 5                            correlationId 11
METRIC_INSTANCE, EVENT_INSTANCE                   one for each unit of the device: instance 0, 1, ...

The file doesn't contain their names: an id is CUPTI's number on that device. Facts: scripts that read such files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.columnar.blocks import Block
from ktrace.model.arrays import Int64
from ktrace.model.batch import Batch
from ktrace.model.masks import present

from .reading import NvvpReader

#: A float64 below this is in fact a whole number.
_LEAST = 1e-300

_PLACE = ("start", "end", "deviceId", "contextId", "streamId")


class Kernels:
    """The kernels of some tables by their correlation, with their ids, times and places."""

    def __init__(self, reading: NvvpReader, tables: Sequence[str]) -> None:
        found: list[pa.Table] = []
        for table in tables:
            wanted = [name for name in ("correlationId", *_PLACE) if reading.database.has(table, name)]
            if not {"correlationId", "start", "end"} <= set(wanted):
                continue
            size = reading.conversion.batch_rows
            for block in reading.database.blocks(table, size, wanted, counted=False):
                columns = {name: _whole(block, name) for name in ("correlationId", *_PLACE)}
                found.append(pa.table({"id": pa.array(reading.ids(table, block)), **columns}))
        self._rows = pa.concat_tables(found) if found else None
        if self._rows is not None:
            begin, end = self._rows["start"], self._rows["end"]
            timed = pc.and_(pc.greater_equal(end, begin), pc.greater(end, 0))
            self._rows = self._rows.filter(pc.and_(timed, self._rows["correlationId"].is_valid())).combine_chunks()
            self._rows = self._rows.sort_by("correlationId")
            self._keys: Int64 = self._rows["correlationId"].to_numpy()

    def find(self, correlations: pa.Array) -> Int64:
        """The row of each correlation, -1 for none."""
        if self._rows is None or not len(self._keys):
            return np.full(len(correlations), -1)
        wanted = correlations.fill_null(-1).to_numpy(zero_copy_only=False)
        at = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        return np.where(self._keys[at] == wanted, at, -1)

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


def _whole(block: Block, name: str) -> pa.Array:
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
