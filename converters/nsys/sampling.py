"""Reads what was sampled while the program ran: metrics of the hardware, threads with their stacks, who had a core.

GPU_METRICS               timestamp 5000  typeId 0x10000000000ff00  metricId 11  value 37      a counter
TARGET_INFO_GPU_METRICS   typeId ...  metricId 11  metricName "SMs Active [Throughput %]"
COMPOSITE_EVENTS          id 2000  start 24479746  cpu 20  threadState 1  cpuCycles 1      a sample of its thread
SCHED_EVENTS              start 21932   cpu 118  isSchedIn 1  globalTid 302119224788637    a slice of that thread
                          start 183273  cpu 118  isSchedIn 0  globalTid 302119224788637    on the track CPU 118

GPUs, network cards, switches and CPU cores have metrics; each series has its own track. nsys cuts some values to 32
bits in GPU_METRICS, but keeps them in GENERIC_EVENTS, from which they are restored:

GPU_METRICS      timestamp 20000  typeId 0x...03  metricId 11  value 705032704      the low 32 bits of 5,000,000,000
GENERIC_EVENTS   timestamp 20000  typeId 0x...03  data {"PCIe TX Throughput": "5000000000"}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.input.sqlite_file import quoted_name
from ktrace.kit.columnar.blocks import Block
from ktrace.model.arrays import Int64
from ktrace.model.batch import Batch
from ktrace.model.json_text import load_json
from ktrace.model.masks import present

from .reading import ExportReader, core_track
from .typed_columns import distinct_tuples, filled, pid_of, tid_of

#: Columns of rows that wait for their end: id, start, cpu, isSchedIn, globalTid, rowid, and why the thread left.
_ID, _START, _CPU, _IN, _THREAD, _ROW, _STATE, _BLOCK = range(8)

_REASONS = (("threadState", "SAMPLING_THREAD_STATE", _STATE), ("threadBlock", "SCHEDULING_THREAD_BLOCK", _BLOCK))


def scheduling(reading: ExportReader, table: str, names: dict[int, str]) -> Iterator[Batch]:
    """Yields a range for each time that a thread is on a core, with the id of the row that ends it.

    Reports an end without a start.
    """
    waiting = np.zeros((0, 8), np.int64)
    for block, ids in reading.timed(table, "start"):
        parts = [block.get(name) for name in ("start", "cpu", "isSchedIn", "globalTid")]
        numbers = [np.zeros(len(block), np.int64) if part is None else np.asarray(part.fill_null(-1)) for part in parts]
        reasons = [filled(block.get(name), len(block), -1) for name, _, _ in _REASONS]
        rows = np.stack([ids, *numbers, block.numbers.to_numpy(), *reasons], axis=1)
        reading.places.threads.update(np.unique(numbers[3][numbers[3] >= 0]).tolist())
        slices, waiting = _slices(reading, table, np.concatenate([waiting, rows]))
        if len(slices):
            yield _batch(reading, slices, names)
    if len(waiting):
        waiting = waiting[np.argsort(waiting[:, _ID], kind="stable")]
        waiting[:, _ID] = reading.batches.ids(len(waiting))
        waiting[:, [_IN, _STATE, _BLOCK]] = -1
        reading.conversion.report.used(len(waiting))
        for first in range(0, len(waiting), reading.conversion.batch_rows):
            yield _batch(reading, waiting[first : first + reading.conversion.batch_rows], names)


def _slices(reading: ExportReader, table: str, rows: Int64) -> tuple[Int64, Int64]:
    """Returns starts with the ids of their ends and durations in place of `isSchedIn`, and the starts that still wait.

    A slice without its own end ends when the next one on its core begins.
    """
    report = reading.conversion.report
    rows = rows[np.lexsort((rows[:, _ID], rows[:, _CPU]))]
    begins = rows[:, _IN] != 0
    ending = np.append(rows[1:, _CPU] == rows[:-1, _CPU], False) & begins
    orphan = ~begins & ~np.append(False, ending[:-1])
    for row in rows[orphan].tolist():
        report.issue("end-without-begin", f"{table} row {row[_ROW]}", f"cpu {row[_CPU]}")
    slices, ends = rows[ending], rows[np.flatnonzero(ending) + 1]
    slices[:, _ID] = ends[:, _ID]
    slices[:, _IN] = np.maximum(ends[:, _START] - slices[:, _START], 0)
    own_end = ends[:, _IN] == 0
    for column in (_STATE, _BLOCK):
        slices[:, column] = np.where(own_end, ends[:, column], -1)
    report.used(len(slices))
    report.used(int(own_end.sum()), outcome="end of a slice")
    return slices[np.argsort(slices[:, _ID], kind="stable")], rows[begins & ~ending]


def _batch(reading: ExportReader, slices: Int64, names: dict[int, str]) -> Batch:
    """Returns slices on cores, named after their threads."""
    threads, thread = np.unique(slices[:, _THREAD], return_inverse=True)
    cores, core = np.unique(slices[:, _CPU], return_inverse=True)
    reading.places.cores.update(cores.tolist())
    words = [names.get(number) or f"thread {tid_of(number)}" for number in threads.tolist()]
    pids, tids = (np.array([part(n) for n in threads.tolist()], np.int64)[thread] for part in (pid_of, tid_of))
    return reading.batches.batch(
        "events",
        slices[:, _ID],
        kind="range",
        name=pa.DictionaryArray.from_arrays(pa.array(thread.astype(np.int32)), pa.array(words, pa.string())),
        cat="scheduling",
        timing="measured",
        ts=slices[:, _START],
        dur=pa.array(slices[:, _IN], mask=slices[:, _IN] < 0),
        track=pa.DictionaryArray.from_arrays(
            pa.array(core.astype(np.int32)), pa.array([core_track(number) for number in cores.tolist()], pa.string())
        ),
        **{"args.pid": pids, "args.tid": tids},
        **{
            f"args.{name}": reading.enums.column(enum, pa.array(slices[:, column], mask=slices[:, column] < 0))
            for name, enum, column in _REASONS
            if (slices[:, column] >= 0).any()
        },
    )


def samples(reading: ExportReader, table: str) -> Iterator[Batch]:
    """Yields a sample for each row, with its stack."""
    for block, ids in reading.timed(table, "start"):
        ts, number = block.take("start"), block.get("id")
        columns: dict[str, Any] = {**reading.places.thread(block), "name": "sample", "track": "samples"}
        cycles = block.take("cpuCycles")
        if cycles is not None:
            columns |= {"value": cycles.cast(pa.float64(), safe=False), "unit": "cycles"}
        stacks = None if number is None else reading.stacks.column("SAMPLING_CALLCHAINS", number)
        if stacks is not None:
            columns["args.stack"] = stacks
            block.drop("id")
        args = reading.args(block, table)
        yield reading.batches.events(block, ids, kind="sample", ts=ts, **columns, **args)


#: The least number that doesn't fit into 32 bits with a sign, and the number of 32-bit numbers.
_LEAST, _NUMBERS = 1 << 31, 1 << 32

#: SQLite's pattern for a text with a number of ten digits or more, as 2^31 has.
_LONG = f"*{'[0-9]' * 10}*"


class WideValues:
    """The values of GENERIC_EVENTS that don't fit into 32 bits, by time and type."""

    def __init__(self, reading: ExportReader, names: dict[tuple[int, int], str]) -> None:
        self._reading = reading
        self._names = {key: plain(name) for key, name in names.items()}
        self._known = {(key[0], name) for key, name in self._names.items()}
        rows = list(self._read())
        numbers = np.array([row[:3] for row in rows], np.int64).reshape(-1, 3)
        order = np.lexsort((numbers[:, 1], numbers[:, 0]))
        self._numbers = numbers[order]
        self._wide_names = [rows[place][3] for place in order.tolist()]

    def _read(self) -> Iterator[tuple[int, int, int, str]]:
        """Yields time, type, value and name of each value that may not fit into 32 bits."""
        database, size = self._reading.database, self._reading.conversion.batch_rows
        for table in database.like("GENERIC_EVENTS"):
            if not all(database.has(table, name) for name in ("typeId", "data")):
                continue
            times = [name for name in ("timestamp", "rawTimestamp") if database.has(table, name)]
            where = f"{quoted_name('data')} GLOB '{_LONG}'"
            for block in database.blocks(table, size, (*times, "typeId", "data"), where=where, counted=False):
                for ts, kind, text in zip(*_lists(block, times), strict=True):
                    for name, value in _whole_numbers(text):
                        if isinstance(ts, int) and isinstance(kind, int) and _LEAST <= value < 1 << 63:
                            yield ts, kind, value, plain(name)

    def of(self, ts: pa.Array, kinds: Int64, metrics: Int64, values: pa.Array) -> tuple[Int64, Int64]:
        """Returns the places of rows of GPU_METRICS whose values were cut, and their full values."""
        nothing = np.zeros(0, np.int64)
        if not len(self._numbers) or not pa.types.is_int64(values.type):
            return nothing, nothing
        times, numbers = (column.fill_null(-1).to_numpy(zero_copy_only=False) for column in (ts, values))
        at = np.flatnonzero(np.isin(times, self._numbers[:, 0]))
        pairs = [
            (row, wide)
            for row in at.tolist()
            if (wide := self._wide(int(times[row]), int(kinds[row]), int(metrics[row]), int(numbers[row])))
        ]
        if not pairs:
            return nothing, nothing
        places, wide_values = np.array(pairs, np.int64).T
        return places, wide_values

    def _wide(self, ts: int, kind: int, metric: int, value: int) -> int:
        """Returns the full value of a cut value, 0 unless it is certain."""
        first = int(np.searchsorted(self._numbers[:, 0], ts))
        name = self._names.get((kind, metric))
        candidates: set[int] = set()
        for place in range(first, int(np.searchsorted(self._numbers[:, 0], ts, "right"))):
            _, other, wide = self._numbers[place].tolist()
            wide_name = self._wide_names[place]
            if other == kind and (wide - value) % _NUMBERS == 0 and wide != value:
                if wide_name == name:
                    return int(wide)
                if (kind, wide_name) not in self._known:
                    candidates.add(wide)
        return candidates.pop() if len(candidates) == 1 else 0


def plain(name: str) -> str:
    """Returns a metric's name without its unit: "pcie tx throughput" for "PCIe TX Throughput [Throughput %]"."""
    return " ".join(name.partition("[")[0].casefold().split())


def _lists(block: Block, times: list[str]) -> tuple[list[object], list[object], list[object]]:
    columns = [column for name in times if (column := block.get(name)) is not None and pa.types.is_int64(column.type)]
    ts = pc.coalesce(*columns).to_pylist() if columns else [None] * len(block)
    kinds, texts = (block.or_nulls(name).to_pylist() for name in ("typeId", "data"))
    return ts, kinds, texts


def _whole_numbers(text: object) -> Iterator[tuple[str, int]]:
    """Yields the whole numbers of a JSON object with their names; they may be in quotes."""
    try:
        value = load_json(text) if isinstance(text, (str, bytes)) else None
    except (ValueError, RecursionError):
        return
    for name, number in value.items() if isinstance(value, dict) else ():
        if type(number) is int:
            yield name, number
        elif isinstance(number, str) and number.isascii() and number.isdigit() and len(number) < 20:
            yield name, int(number)


_BRACKETS = re.compile(r"\[([^\[\]]+)\]\s*$")


def unit_of(name: str) -> str | None:
    """Returns the unit at the end of a metric's name: % of "SMs Active [Throughput %]", MHz of "GPC Clock [MHz]"."""
    unit = _BRACKETS.search(name)
    return None if unit is None else "%" if "%" in unit[1] else unit[1]


class Series:
    """The names and units of series, which two numbers identify."""

    def __init__(self, names: dict[tuple[int, int], str], units: dict[tuple[int, int], str | None]) -> None:
        self._names = names
        self._units = units

    def columns(self, first: Int64, second: Int64) -> dict[str, pa.Array]:
        """Returns the columns `name`, `track` and `unit` of rows with these numbers."""
        codes, keys = distinct_tuples([pa.array(first), pa.array(second)], len(first))
        names = [self._names.get(key) or f"metric {key[1]}" for key in keys]
        units = [self._units.get(key) for key in keys]
        place = pa.array(codes, pa.int32())
        name = pa.DictionaryArray.from_arrays(place, pa.array(names, pa.string()))
        columns = {"name": name, "track": name}
        if any(units):
            columns["unit"] = pa.array(units, pa.string()).take(place).dictionary_encode()
        return columns


def with_time(block: Block) -> Block:
    """Returns the rows with the raw timestamp in place of a null timestamp."""
    ts, raw = block.get("timestamp"), block.get("rawTimestamp")
    if ts is None or raw is None:
        return block
    if ts.null_count:
        block = block.replaced({"timestamp": pc.coalesce(ts, raw)})
    return block


def gpu_metrics(reading: ExportReader, table: str) -> Iterator[Batch]:
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


def _restored(reading: ExportReader, block: Block, value: pa.Array, places: Int64, wide: Int64) -> dict[str, pa.Array]:
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


def sampled(reading: ExportReader, table: str, info: str, keys: tuple[str, str]) -> Iterator[Batch]:
    """Yields metrics over spans of time; the table `info` has their names and units under one or two numbers."""
    names: dict[tuple[int, int], str] = {}
    units: dict[tuple[int, int], str | None] = {}
    key_columns = ("metricsListId", "metricsIdx") if info == "TARGET_INFO_NETWORK_METRICS" else ("", "id")
    for described in reading.database.like(info):
        for first, second, name, unit in reading.database.rows(
            described, key_columns[0] or "none", key_columns[1], "name", "unit"
        ):
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


def _components(reading: ExportReader, table: str) -> dict[int, str]:
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
    codes, keys = distinct_tuples([names.indices, where.fill_null(-1)], len(names))
    words = names.dictionary.to_pylist()
    shown = [f"{words[name]} ({components.get(place) or f'{word} {place}'.strip()})" for name, place in keys]
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(shown, pa.string()))


def _value(column: pa.Array | None) -> pa.Array | None:
    return None if column is None else column.cast(pa.float64(), safe=False)


def _numbers(block: Block, name: str) -> Int64:
    return filled(block.take(name), len(block), 0)
