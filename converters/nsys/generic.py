"""Events whose shape the capture itself describes: GPU metrics of old exports, plugins, ftrace, ETW.

GENERIC_EVENT_SOURCES  sourceId 2  data {"Name": "GpuMetrics"}       its rows are counters, unless GPU_METRICS has them
GENERIC_EVENT_TYPES    typeId 0x...02  sourceId 2                    the lowest byte of typeId is the GPU
GENERIC_EVENTS         rawTimestamp 5000  typeId 0x...02  data {"SM Active": "37", "GR Active": "41"}
GENERIC_EVENT_DATA     genericEventId 7  fieldIdx 1  intVal 42       in place of `data`, named by ..._TYPE_FIELDS
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.converters._shared.columnar.blocks import Block, timed
from ktrace.converters._shared.sqlite.lookup import Children
from ktrace.model.batch import Batch
from ktrace.model.json_text import quoted

from .counters import unit_of, with_time
from .payloads import json_column
from .reading import Reading

_METRICS = re.compile(r"(gpu|soc)\s*_?metrics", re.IGNORECASE)

#: Columns of GENERIC_EVENT_DATA, one of which holds the value.
_VALUES = ("intVal", "uintVal", "floatVal", "doubleVal")


class Types:
    """What the types of events are called, and which of them are samples of metrics."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        sources = self._named("GENERIC_EVENT_SOURCES", "sourceId", "sourceId")
        self.names: dict[int, str] = {}
        self.metrics: set[int] = set()
        for number, (source, name) in self._named("GENERIC_EVENT_TYPES", "typeId", "sourceId").items():
            if name:
                self.names[number] = name
            if _METRICS.fullmatch(sources.get(source, (0, None))[1] or ""):
                self.metrics.add(number)

    def _named(self, pattern: str, key: str, other: str) -> dict[int, tuple[int, str | None]]:
        database, strings = self._reading.database, self._reading.strings
        return {
            number: (more, strings.text(name) or _said_name(data))
            for table in database.like(pattern)
            for number, more, name, data in database.rows(table, key, other, "nameId", "data")
            if isinstance(number, int)
        }


def _said_name(data: object) -> str | None:
    """The name that the description of a type or source says."""
    try:
        value = json.loads(data) if isinstance(data, (str, bytes)) else None
    except (ValueError, RecursionError):
        return None
    name = value.get("Name") or value.get("name") if isinstance(value, dict) else None
    return name if isinstance(name, str) else None


class Fields:
    """The values of events that have them in a table of their own."""

    def __init__(self, reading: Reading, table: str) -> None:
        database = reading.database
        self._report = reading.conversion.report
        self._taken = 0
        self._names: dict[tuple[Any, Any], str] = {}
        for described in database.like("GENERIC_EVENT_TYPE_FIELDS"):
            for kind, number, name in database.rows(described, "typeId", "fieldIdx", "fieldNameId"):
                self._names[kind, number] = reading.strings.text(name) or f"field {number}"
        columns = ("fieldIdx", *_VALUES)
        self._rows = [
            Children(database, data, "genericEventId", columns, counted=True)
            for data in database.like("GENERIC_EVENT_DATA")
            if database.has(table, "genericEventId") and database.has(data, "genericEventId")
        ]

    def of(self, block: Block) -> pa.Array | None:
        """The values of each event as JSON text, null where it has none."""
        ids, kinds = block.get("genericEventId"), block.get("typeId")
        if ids is None or not self._rows or not self._rows[0].rows:
            return None
        of, columns = self._rows[0].of(ids)
        if not len(of):
            return None
        self._taken += len(of)
        types = [None] * len(of) if kinds is None else kinds.take(pa.array(of)).to_pylist()
        numbers = columns["fieldIdx"].to_pylist() if "fieldIdx" in columns else [None] * len(of)
        names = [self._names.get(key) or f"field {key[1]}" for key in zip(types, numbers, strict=True)]
        values = [columns[name].cast(pa.string()) for name in _VALUES if name in columns]
        value = pc.coalesce(*values, "null") if values else pa.array(["null"] * len(of))
        members = pc.binary_join_element_wise(quoted(pa.array(names, pa.string())), value, ":")
        ends = np.cumsum(np.bincount(of, minlength=len(block)))
        lists = pa.ListArray.from_arrays(pa.array(np.concatenate(([0], ends)).astype(np.int32)), members)
        texts = pc.binary_join_element_wise("{", pc.binary_join(lists, ","), "}", "")
        return pc.if_else(pc.equal(texts, "{}"), None, texts)

    def close(self) -> None:
        """Accounts for the rows of the table: those that no event took say again what its `data` says."""
        rows = sum(table.rows for table in self._rows)
        self._report.used(min(self._taken, rows), outcome="args")
        if rows > self._taken:
            self._report.used(rows - self._taken, outcome="folded")


def events(reading: Reading, table: str) -> Iterator[Batch]:
    """An instant each, named by its type, with its data as it is; samples of metrics are counters."""
    types, fields = Types(reading), Fields(reading, table)
    other = any(reading.database.count(name) for name in reading.database.like("GPU_METRICS|SOC_METRICS"))
    start = "timestamp" if reading.database.has(table, "timestamp") else "rawTimestamp"
    for whole in reading.blocks(table):
        block = timed(with_time(whole), reading.conversion, start)
        kinds = block.get("typeId")
        if kinds is not None and types.metrics and len(block):
            sampled = pc.fill_null(pc.is_in(kinds, pa.array(list(types.metrics), pa.int64())), False)
            if sampled.true_count:
                part, block = block.filter(sampled), block.filter(pc.invert(sampled))
                if other:
                    reading.conversion.report.used(len(part), outcome="folded")
                    reading.conversion.report.issue("folded", part.where(0), "stand in GPU_METRICS, too", len(part))
                else:
                    yield from _counters(reading, part, start)
        if len(block):
            yield _instants(reading, block, types, fields)
    fields.close()


def _counters(reading: Reading, block: Block, start: str) -> Iterator[Batch]:
    """A counter for each number of a sample's data."""
    data = block.get("data")
    texts = [None] * len(block) if data is None else data.to_pylist()
    rows: list[int] = []
    names: list[str] = []
    values: list[float] = []
    for row, text in enumerate(texts):
        numbers = _numbers_of(text)
        if not numbers:
            reading.conversion.report.issue(
                "bad-record", block.where(row), f"data is {text!r:.80}, no numbers by names"
            )
        rows.extend([row] * len(numbers))
        names.extend(numbers)
        values.extend(numbers.values())
    reading.conversion.report.used(len(set(rows)))
    if not rows:
        return
    place = pa.array(np.array(rows, np.int64))
    coded = pa.array(names, pa.string()).dictionary_encode()
    units = pa.array([unit_of(name) for name in coded.dictionary.to_pylist()], pa.string())
    rows_of: dict[str, pa.Array] = {name: block.get(name) for name in (start, "typeId")}
    columns = {"name": coded, "track": coded, "unit": units.take(coded.indices)}
    columns |= {"ts": rows_of[start].take(place)}
    columns |= reading.places.gpus(pc.bit_wise_and(rows_of["typeId"], 0xFF).take(place))
    ids = reading.batches.ids(len(rows))
    value = pa.array(values, pa.float64())
    yield reading.batches.batch("events", ids, timing="measured", kind="counter", value=value, **columns)


def _numbers_of(text: object) -> dict[str, float]:
    """The numbers of a JSON object, which may stand in quotes; nothing if it is no such object."""
    try:
        value = json.loads(text) if isinstance(text, (str, bytes)) else None
        return {name: float(number) for name, number in value.items()} if isinstance(value, dict) else {}
    except (ValueError, TypeError, RecursionError):
        return {}


def _instants(reading: Reading, block: Block, types: Types, fields: Fields) -> Batch:
    ids = reading.batches.ids(len(block))
    ts, kinds, data = block.take("timestamp", "rawTimestamp"), block.get("typeId"), block.take("data")
    name: pa.DictionaryArray | str = "event"
    if kinds is not None:
        encoded = pc.fill_null(kinds, -1).dictionary_encode()
        numbers = encoded.dictionary.to_pylist()
        words = [types.names.get(number) or f"event type {number}" for number in numbers]
        name = pa.DictionaryArray.from_arrays(encoded.indices, pa.array(words, pa.string()))
        if all(types.names.get(number) for number in numbers):
            block.drop("typeId")
    columns: dict[str, Any] = {"name": name, "track": "events of plugins", **reading.places.thread(block)}
    if columns.get("tid") is not None:
        del columns["track"]
    elif (process := block.take("processId")) is not None:
        columns |= {"pid": process, "tid": block.take("threadId")}
    if data is not None and data.null_count < len(block):
        columns["args.data"] = json_column(data.cast(pa.string()))
    elif (said := fields.of(block)) is not None:
        columns["args.data"] = said.cast(pa.binary())
        block.drop("genericEventId")
    return reading.batches.events(block, ids, kind="instant", ts=ts, **columns)
