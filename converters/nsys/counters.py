"""Reads sampled metrics of GPUs, network cards, switches, CPU cores as counters; each series has its own track.

GPU_METRICS               timestamp 5000  typeId 0x10000000000ff00  metricId 11  value 37
TARGET_INFO_GPU_METRICS   typeId ...  metricId 11  metricName "SMs Active [Throughput %]"
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.columnar.blocks import Block
from ktrace.model.arrays import Int32, Int64
from ktrace.model.batch import Batch
from ktrace.model.masks import present

from .columns import filled
from .reading import Reading
from .wrapped import WideValues

_BRACKETS = re.compile(r"\[([^\[\]]+)\]\s*$")


def unit_of(name: str) -> str | None:
    """Returns the unit at the end of a metric's name: % of "SMs Active [Throughput %]", MHz of "GPC Clock [MHz]"."""
    found = _BRACKETS.search(name)
    return None if found is None else "%" if "%" in found[1] else found[1]


class Series:
    """The names and units of series, which two numbers identify."""

    def __init__(self, names: dict[tuple[int, int], str], units: dict[tuple[int, int], str | None]) -> None:
        self._names = names
        self._units = units

    def columns(self, first: Int64, second: Int64) -> dict[str, pa.Array]:
        """Returns the columns `name`, `track` and `unit` of rows with these numbers."""
        codes, keys = _pairs(first, second)
        names = [self._names.get(key) or f"metric {key[1]}" for key in keys]
        units = [self._units.get(key) for key in keys]
        place = pa.array(codes)
        name = pa.DictionaryArray.from_arrays(place, pa.array(names, pa.string()))
        columns = {"name": name, "track": name}
        if any(units):
            columns["unit"] = pa.array(units, pa.string()).take(place).dictionary_encode()
        return columns


def _pairs(first: Int64, second: Int64) -> tuple[Int32, list[tuple[int, int]]]:
    """Returns for each row the index of its pair, and the distinct pairs."""
    high, low = (pa.array(column).dictionary_encode() for column in (first, second))
    codes = high.indices.to_numpy().astype(np.int64) * len(low.dictionary) + low.indices.to_numpy()
    present = np.flatnonzero(np.bincount(codes, minlength=1))
    number = np.zeros(int(present.max(initial=0)) + 1, np.int32)
    number[present] = np.arange(len(present))
    highs, lows, width = high.dictionary.to_pylist(), low.dictionary.to_pylist(), max(1, len(low.dictionary))
    return number[codes], [(highs[code // width], lows[code % width]) for code in present.tolist()]


def with_time(block: Block) -> Block:
    """Returns the rows with the raw timestamp in place of a null timestamp."""
    ts, raw = block.get("timestamp"), block.get("rawTimestamp")
    if ts is None or raw is None:
        return block
    if ts.null_count:
        block = block.replaced({"timestamp": pc.coalesce(ts, raw)})
    return block


def gpu_metrics(reading: Reading, table: str) -> Iterator[Batch]:
    """Yields the metrics of GPUs and SoCs. The lowest byte of typeId is the GPU."""
    names: dict[tuple[int, int], str] = {}
    for info in reading.database.like(r"TARGET_INFO_(GPU|SOC)_METRICS"):
        for kind, metric, name in reading.database.rows(info, "typeId", "metricId", "metricName"):
            if isinstance(kind, int) and isinstance(metric, int) and isinstance(name, str):
                names[kind, metric] = name
    series = Series(names, {key: unit_of(name) for key, name in names.items()})
    wide = WideValues(reading, names)
    for block, ids in reading.timed(table, "timestamp", "rawTimestamp", prepare=with_time):
        kinds, metrics = (_numbers(block, name) for name in ("typeId", "metricId"))
        columns: dict[str, Any] = series.columns(kinds, metrics)
        ts, value = block.take("timestamp", "rawTimestamp"), block.take("value")
        columns |= {"ts": ts, "value": _value(value)}
        if value is not None and ts is not None:
            columns |= _restored(reading, block, value, *wide.of(ts, kinds, metrics, value))
        if not table.upper().startswith("SOC"):
            columns |= reading.places.gpus(pa.array(kinds & 0xFF))
        yield reading.batches.events(block, ids, kind="counter", **columns)


def _restored(reading: Reading, block: Block, value: pa.Array, places: Int64, wide: Int64) -> dict[str, pa.Array]:
    """Returns the values as they were before nsys cut them to 32 bits, with the cut values as arguments."""
    report = reading.conversion.report
    cut = np.zeros(len(block), np.bool_)
    cut[places] = True
    negative = pc.fill_null(pc.less(value, 0), False).to_numpy(zero_copy_only=False) & ~cut
    if negative.any():
        first = int(np.flatnonzero(negative)[0])
        detail = f"value {value[first]}, and GENERIC_EVENTS doesn't have the full value"
        report.issue("wrapped", block.where(first), detail, int(negative.sum()))
    if not len(places):
        return {}
    report.issue("wrapped", block.where(int(places[0])), f"value {value[int(places[0])]} of {wide[0]}", len(places))
    numbers = value.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64)
    numbers[places] = wide
    restored = pa.array(numbers, mask=~present(value))
    return {"value": restored, "args.value": pc.if_else(pa.array(cut), value, None)}


def sampled(reading: Reading, table: str, info: str, keys: tuple[str, str]) -> Iterator[Batch]:
    """Yields metrics over spans of time; the table `info` has their names and units under one or two numbers."""
    names: dict[tuple[int, int], str] = {}
    units: dict[tuple[int, int], str | None] = {}
    own = ("metricsListId", "metricsIdx") if info == "TARGET_INFO_NETWORK_METRICS" else ("", "id")
    for described in reading.database.like(info):
        for first, second, name, unit in reading.database.rows(described, own[0] or "none", own[1], "name", "unit"):
            if isinstance(second, int) and isinstance(name, str):
                names[first or 0, second], units[first or 0, second] = name, str(unit) if unit else None
    series = Series(names, units)
    components = _components(reading, table)
    for block, ids in reading.timed(table, "start", end="end"):
        start, end = block.take("start"), block.take("end")
        first = _numbers(block, keys[0]) if keys[0] else np.zeros(len(block), np.int64)
        columns: dict[str, Any] = series.columns(first, _numbers(block, keys[1]))
        where = block.take("nicId", "globalId", "componentId")
        if where is not None:
            columns["track"] = _placed(columns["name"], where, "NIC" if "NIC" in table.upper() else "", components)
        port = block.take("portId")
        if port is not None:
            columns["track"] = _placed(columns.get("track", columns["name"]), port, "port", {})
        dur = None if end is None else pc.subtract(end, start)
        value = _value(block.take("value", "count"))
        yield reading.batches.events(block, ids, kind="counter", ts=start, dur=dur, value=value, **columns)


def _components(reading: Reading, table: str) -> dict[int, str]:
    """Returns the names of the network cards or components of a chip by their numbers in a table."""
    database = reading.database
    if database.has(table, "componentId"):
        return {
            number: name if instance is None else f"{name} {instance}"
            for info in database.like("TARGET_INFO_COMPONENT")
            for number, name, instance in database.rows(info, "componentId", "name", "instance")
            if isinstance(name, str)
        }
    cards = {
        number: name
        for info in database.like("TARGET_INFO_NIC_INFO")
        for number, name in database.rows(info, "nicId", "name")
        if isinstance(name, str)
    }
    if database.has(table, "nicId"):
        return cards
    return {
        global_id: cards[number]
        for id_map in database.like("NIC_ID_MAP")
        for number, global_id in database.rows(id_map, "nicId", "globalId")
        if number in cards
    }


def _placed(names: pa.DictionaryArray, where: pa.Array, word: str, components: dict[int, str]) -> pa.DictionaryArray:
    """Returns the names of series with the card, port or core that they belong to."""
    codes, keys = _pairs(
        names.indices.to_numpy(zero_copy_only=False).astype(np.int64),
        where.fill_null(-1).to_numpy(zero_copy_only=False),
    )
    words = names.dictionary.to_pylist()
    shown = [f"{words[name]} ({components.get(place) or f'{word} {place}'.strip()})" for name, place in keys]
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(shown, pa.string()))


def _value(column: pa.Array | None) -> pa.Array | None:
    return None if column is None else column.cast(pa.float64(), safe=False)


def _numbers(block: Block, name: str) -> Int64:
    return filled(block.take(name), len(block), 0)
