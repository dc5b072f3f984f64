"""Reads events whose fields the capture itself describes: GPU metrics of old exports, plugins, ftrace, ETW.

GENERIC_EVENT_SOURCES  sourceId 2  data {"Name": "GpuMetrics"}       its rows are counters, unless GPU_METRICS has them
GENERIC_EVENT_TYPES    typeId 0x...02  sourceId 2                    the lowest byte of typeId is the GPU
GENERIC_EVENTS         rawTimestamp 5000  typeId 0x...02  data {"SM Active": "37", "GR Active": "41"}
GENERIC_EVENT_DATA     genericEventId 7  fieldIdx 1  intVal 42       in place of `data`, named by ..._TYPE_FIELDS
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.columnar.blocks import Block, timed
from ktrace.kit.sqlite.lookup import Children
from ktrace.model.batch import Batch
from ktrace.model.json_text import load_json, quoted

from .nvtx import json_column
from .reading import ExportReader
from .sampling import unit_of, with_time

_METRICS = re.compile(r"(gpu|soc)\s*_?metrics", re.IGNORECASE)

#: Columns of GENERIC_EVENT_DATA, one of which contains the value.
_VALUES = ("intVal", "uintVal", "floatVal", "doubleVal")


class Types:
    """The names of the types of events, and which types are samples of metrics."""

    def __init__(self, reading: ExportReader) -> None:
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
            number: (parent, strings.text(name) or _name_in(data))
            for table in database.like(pattern)
            for number, parent, name, data in database.rows(table, key, other, "nameId", "data")
            if isinstance(number, int)
        }


def _name_in(data: object) -> str | None:
    """Returns the name in the description of a type or source."""
    try:
        value = load_json(data) if isinstance(data, (str, bytes)) else None
    except (ValueError, RecursionError):
        return None
    name = value.get("Name") or value.get("name") if isinstance(value, dict) else None
    return name if isinstance(name, str) else None


class Fields:
    """The values of events that are in a separate table."""

    def __init__(self, reading: ExportReader, table: str) -> None:
        database = reading.database
        self._report = reading.conversion.report
        self._used = 0
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
        """Returns the values of each event as JSON text, null for an event without values."""
        ids, kinds = block.get("genericEventId"), block.get("typeId")
        if ids is None or not self._rows or not self._rows[0].rows:
            return None
        owners, columns = self._rows[0].of(ids)
        if not len(owners):
            return None
        self._used += len(owners)
        types = [None] * len(owners) if kinds is None else kinds.take(pa.array(owners)).to_pylist()
        numbers = columns["fieldIdx"].to_pylist() if "fieldIdx" in columns else [None] * len(owners)
        names = [self._names.get(key) or f"field {key[1]}" for key in zip(types, numbers, strict=True)]
        values = [columns[name].cast(pa.string()) for name in _VALUES if name in columns]
        value = pc.coalesce(*values, "null") if values else pa.array(["null"] * len(owners))
        members = pc.binary_join_element_wise(quoted(pa.array(names, pa.string())), value, ":")
        ends = np.cumsum(np.bincount(owners, minlength=len(block)))
        lists = pa.ListArray.from_arrays(pa.array(np.concatenate(([0], ends)).astype(np.int32)), members)
        texts = pc.binary_join_element_wise("{", pc.binary_join(lists, ","), "}", "")
        return pc.if_else(pc.equal(texts, "{}"), None, texts)

    def close(self) -> None:
        """Accounts for the rows of the table: those that no event used repeat the event's `data`."""
        rows = sum(table.rows for table in self._rows)
        self._report.used(min(self._used, rows), outcome="args")
        if rows > self._used:
            self._report.used(rows - self._used, outcome="folded")


def events(reading: ExportReader, table: str) -> Iterator[Batch]:
    """Yields an instant for each row, named after its type, with its data; samples of metrics become counters."""
    types, fields = Types(reading), Fields(reading, table)
    repeated = any(reading.database.count(name) for name in reading.database.like("GPU_METRICS|SOC_METRICS"))
    start = "timestamp" if reading.database.has(table, "timestamp") else "rawTimestamp"
    for rows in reading.blocks(table):
        block = timed(with_time(rows), reading.conversion, start)
        kinds = block.get("typeId")
        if kinds is not None and types.metrics and len(block):
            sampled = pc.fill_null(pc.is_in(kinds, pa.array(list(types.metrics), pa.int64())), False)
            if sampled.true_count:
                part, block = block.filter(sampled), block.filter(pc.invert(sampled))
                if repeated:
                    reading.conversion.report.used(len(part), outcome="folded")
                    reading.conversion.report.issue("folded", part.where(0), "are in GPU_METRICS, too", len(part))
                else:
                    yield from _counters(reading, part, start)
        if len(block):
            yield _instants(reading, block, types, fields)
    fields.close()


def _counters(reading: ExportReader, block: Block, start: str) -> Iterator[Batch]:
    """Yields a counter for each number in a sample's data."""
    data = block.get("data")
    texts = [None] * len(block) if data is None else data.to_pylist()
    rows: list[int] = []
    names: list[str] = []
    values: list[float] = []
    for row, text in enumerate(texts):
        numbers = _numbers_of(text)
        if not numbers:
            reading.conversion.report.issue(
                "bad-record", block.where(row), f"data is {text!r:.80}, not numbers by name"
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
    """Returns the numbers of a JSON object, which may be in quotes; {} for anything else."""
    try:
        value = load_json(text) if isinstance(text, (str, bytes)) else None
        return {name: float(number) for name, number in value.items()} if isinstance(value, dict) else {}
    except (ValueError, TypeError, RecursionError):
        return {}


def _instants(reading: ExportReader, block: Block, types: Types, fields: Fields) -> Batch:
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
    elif (values := fields.of(block)) is not None:
        columns["args.data"] = values.cast(pa.binary())
        block.drop("genericEventId")
    return reading.batches.events(block, ids, kind="instant", ts=ts, **columns)
