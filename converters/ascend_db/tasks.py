"""TASK: the work of the devices, with what other tables have under its globalTaskId.

COMPUTE_TASK_INFO        name, blocks, shapes of a kernel
COMMUNICATION_TASK_INFO  a task of a collective: its plane, ranks, size; COMMUNICATION_OP has the collective
MEMCPY_INFO              size and direction of a copy
TASK_PMU_INFO            counters of the cores: arguments of the task
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.ascend_tasks import DIRECTIONS, Operators, TaskIndex, task_kind
from ktrace.kit.columnar.blocks import Block, nonzero, timed
from ktrace.kit.columnar.dictionaries import by_distinct
from ktrace.kit.sqlite import Database
from ktrace.kit.sqlite.lookup import Children, Lookup
from ktrace.model.arrays import Int64
from ktrace.model.batch import Batch
from ktrace.model.masks import truth

from .reading import AscendReader, arguments, as_int64, first_rows, known, named, none_as_null, with_whole

_TEXTS = (
    *("opType", "inputFormats", "inputDataTypes", "inputShapes", "outputFormats", "outputDataTypes", "outputShapes"),
    *("attrInfo", "opState", "hf32Eligible"),
)
_COMPUTE = ("name", "taskType", "blockNum", "blockDim", "mixBlockNum", "mixBlockDim", *_TEXTS)
_COMMUNICATION = (
    *("name", "taskType", "planeId", "groupName", "notifyId", "srcRank", "dstRank", "transportType", "size"),
    *("dataType", "linkType", "opId"),
)

#: Columns of a communication task that are numbers of an enumeration.
_ENUMS = {
    "transportType": "ENUM_HCCL_TRANSPORT_TYPE",
    "dataType": "ENUM_HCCL_DATA_TYPE",
    "linkType": "ENUM_HCCL_LINK_TYPE",
}

#: A task of this type encloses its subtasks even where the table doesn't have them, unless it is a kernel itself.
_PARENT = "FFTS_PLUS"


#: Columns of TASK that a task has in common with its subtasks.
_TASK = ("deviceId", "streamId", "taskId")

#: Rows of TASK that are read at once when subtasks are looked for.
_ROWS = 1 << 16


def _subtasks(database: Database, table: str) -> TaskIndex:
    """The rows of TASK that have a context."""
    parts = [np.empty((4, 0), np.int64)]
    columns = [*(column for column in _TASK if database.has(table, column)), "contextId", "startNs"]
    if database.has(table, "contextId"):
        for block in database.blocks(table, _ROWS, columns, counted=False):
            has_context = pc.is_valid(known(block, "contextId")).to_numpy(zero_copy_only=False)
            parts.append(np.stack([_filled(block, name)[has_context] for name in (*_TASK, "startNs")]))
    *keys, starts = np.concatenate(parts, axis=1)
    return TaskIndex(np.stack(keys), starts)


def _filled(block: Block, name: str) -> Int64:
    """A column of whole numbers, -1 for "none"."""
    column = none_as_null(as_int64(block.get(name)))
    filled: Int64 = np.full(len(block), -1) if column is None else pc.fill_null(column, -1).to_numpy()
    return filled


def _operators(reading: AscendReader) -> Operators:
    """The times of COMMUNICATION_OP."""
    parts, table = [np.empty((3, 0), np.int64)], reading.table("COMMUNICATION_OP")
    names = ("deviceId", "startNs", "endNs")
    if table is not None:
        columns = [name for name in names if reading.database.has(table, name)]
        for block in reading.database.blocks(table, _ROWS, columns, counted=False):
            device = reading.device(block)
            devices = np.full(len(block), -1) if device is None else pc.fill_null(device, -1).to_numpy()
            parts.append(np.stack([devices, *(_filled(block, name) for name in names[1:])]))
    return Operators(*np.concatenate(parts, axis=1))


class Tasks:
    """The rows of TASK."""

    def __init__(self, reading: AscendReader, table: str) -> None:
        self._reading = reading
        self._table = table
        database = reading.database
        compute, schedule = reading.table("COMPUTE_TASK_INFO"), reading.table("COMMUNICATION_SCHEDULE_TASK_INFO")
        self._compute = Lookup(database, compute, "globalTaskId", _COMPUTE) if compute else None
        self._schedule = Lookup(database, schedule, "globalTaskId", ("name", "taskType")) if schedule else None
        self._communication = self._children("COMMUNICATION_TASK_INFO", _COMMUNICATION)
        self._copies = self._children("MEMCPY_INFO", ("size", "memcpyOperation"))
        self._counters = self._children("TASK_PMU_INFO", ("name", "value"))
        self._subtasks, self._operators = _subtasks(database, table), _operators(reading)
        self._enums = {column: reading.words(enum) for column, enum in _ENUMS.items()}
        self._operations = reading.words("ENUM_MEMCPY_OPERATION")

    def _children(self, name: str, columns: tuple[str, ...]) -> Children | None:
        table = self._reading.table(name)
        if table is None or not self._reading.database.has(table, "globalTaskId"):
            return None
        return Children(self._reading.database, table, "globalTaskId", columns)

    def read(self) -> Iterator[Batch]:
        """Yields all tasks, in the order of the table."""
        reading = self._reading
        for rows in reading.database.blocks(self._table, reading.conversion.batch_rows):
            block = timed(with_whole(rows, "startNs", "endNs"), reading.conversion, "startNs", "endNs")
            if len(block):
                yield from self._batch(block)

    def _batch(self, block: Block) -> Iterator[Batch]:
        reading = self._reading
        own_keys, times = ([_filled(block, name) for name in names] for names in (_TASK, ("startNs", "endNs")))
        encloses = pa.array(self._subtasks.within(own_keys, *times))
        start, end, task = block.take("startNs"), block.take("endNs"), known(block, "globalTaskId")
        keys = pa.nulls(len(block), pa.int64()) if task is None else task
        compute = self._compute.get(keys) if self._compute else {}
        schedule = self._schedule.get(keys) if self._schedule else {}
        communication = first_rows(self._communication, keys) if self._communication else {}
        copies = first_rows(self._copies, keys) if self._copies else {}
        task_types = reading.text(block, "taskType")
        types = self._either(block, compute.get("taskType"), None) if compute else None
        types = task_types if types is None else types if task_types is None else pc.coalesce(types, task_types)
        types = pa.nulls(len(block), pa.string()) if types is None else types
        names = types
        for columns in (schedule, communication, compute):
            names = self._either(block, columns.get("name"), names)
        kinds = by_distinct(pc.fill_null(types, ""), task_kind, pa.string())
        contexts = known(block, "contextId")
        encloses = pc.and_(pc.and_(encloses, _absent(contexts, len(block))), pc.equal(kinds, "kernel"))
        encloses = pc.or_(encloses, pc.equal(pc.fill_null(types, ""), _PARENT))
        kinds = pc.if_else(pc.and_(encloses, _absent(compute.get("name"), len(block))), "range", kinds)
        way, size = self._copied(copies)
        kinds = pc.if_else(self._repeats(block, kinds, names, communication, way), "range", kinds)
        blocks = _either(compute.get("blockNum"), compute.get("blockDim"))
        others = {key: self._either(block, compute.get(key), None) for key in _TEXTS}
        others |= {key: none_as_null(as_int64(compute.get(key))) for key in ("mixBlockNum", "mixBlockDim")}
        others |= self._of_communication(block, communication)
        others |= {"contextId": contexts, "modelId": known(block, "modelId")}
        others |= {"taskId": known(block, "taskId"), "globalTaskId": task}
        ids, connections = reading.ids[self._table].of(block.numbers), known(block, "connectionId")
        yield reading.batches.events(
            block,
            ids,
            kind=kinds,
            name=pc.fill_null(names, "[no name]"),
            cat=types,
            ts=start,
            dur=pc.subtract(end, start),
            pid=known(block, "globalPid"),
            device=reading.device(block),
            stream=known(block, "streamId"),
            correlation=connections,
            grid_x=nonzero(as_int64(blocks)),
            bytes=size,
            copy_kind=way,
            **arguments(others | self._metrics(block, keys)),
        )
        yield from reading.arrows.to_tasks(ids, connections)

    def _repeats(
        self, block: Block, kinds: pa.Array, names: pa.Array, listed: dict[str, pa.Array], way: pa.Array | None
    ) -> pa.Array:
        """Which tasks are parts of a collective, which is there as one row."""
        none = np.zeros(len(block), np.bool_)
        device, *times = (_filled(block, name) for name in ("deviceId", "startNs", "endNs"))
        enclosed = none if self._communication else self._operators.enclose(device, *times)
        name = listed.get("name")
        return pa.array(
            self._operators.tasks(
                kinds,
                pa.nulls(len(block), pa.string()) if names is None else names,
                listed=none if name is None else truth(name.is_valid()),
                enclosed=enclosed,
                directed=none if way is None else truth(way.is_valid()),
            )
        )

    def _either(self, block: Block, ids: pa.Array | None, other: pa.Array | None) -> pa.Array | None:
        """The texts with these ids, else the other ones."""
        texts = None if ids is None else ids
        if ids is not None and not pa.types.is_string(ids.type):
            texts = self._reading.text_of(block, as_int64(ids))
        if texts is None or other is None:
            return other if texts is None else texts
        return pc.coalesce(texts, other)

    def _of_communication(self, block: Block, rows: dict[str, pa.Array]) -> dict[str, pa.Array | None]:
        arguments: dict[str, pa.Array | None] = {}
        for key, column in rows.items():
            if key in ("name", "taskType", "globalTaskId"):
                continue
            if key in _ENUMS:
                arguments[key] = (
                    named(none_as_null(as_int64(column)), self._enums[key], key) if column is not None else None
                )
            elif key == "groupName":
                arguments[key] = self._either(block, column, None)
            else:
                arguments[key] = none_as_null(as_int64(column))
        for key in _ENUMS:
            column = arguments.get(key)
            if column is not None:
                arguments[key] = pc.if_else(rows[key].is_valid(), column, None)
        return arguments

    def _copied(self, rows: dict[str, pa.Array]) -> tuple[pa.Array | None, pa.Array | None]:
        """Direction and size of copies."""
        operation = as_int64(rows.get("memcpyOperation"))
        if operation is None:
            return None, as_int64(rows.get("size"))
        words = {number: way for number, word in self._operations.items() if (way := DIRECTIONS.get(word))}
        coded = operation.dictionary_encode()
        ways = pa.array([words.get(value) for value in coded.dictionary.to_pylist()], pa.string())
        return ways.take(coded.indices), as_int64(rows.get("size"))

    def _metrics(self, block: Block, keys: pa.Array) -> dict[str, Any]:
        """Counters of the cores by their name; of equal names of a task the last one counts."""
        if self._counters is None:
            return {}
        children = self._counters.of(keys)
        if not len(children.of) or not {"name", "value"} <= children.columns.keys():
            return {}
        ids, values = as_int64(children.columns["name"]), children.columns["value"]
        numbers = pc.cast(values, pa.float64(), safe=False) if not pa.types.is_string(values.type) else None
        if ids is None or numbers is None:
            return {}
        columns: dict[str, Any] = {}
        distinct = ids.unique().drop_null()
        rows = Block(block.place, pa.array(np.zeros(len(distinct), np.int64)), {})
        texts = self._reading.text_of(rows, distinct)
        plain = ids.fill_null(-1).to_numpy(zero_copy_only=False)
        cells = numbers.fill_null(np.nan).to_numpy(zero_copy_only=False)
        for number, name in zip(distinct.to_pylist(), texts.to_pylist() if texts is not None else (), strict=True):
            column = np.full(len(block), np.nan)
            mask = (plain == number) & ~np.isnan(cells)
            column[children.of[mask]] = cells[mask]
            columns[name or f"[string {number}]"] = pa.array(column, mask=np.isnan(column))
        return dict(sorted(columns.items()))


def _absent(column: pa.Array | None, rows: int) -> pa.Array:
    return pa.array(np.ones(rows, np.bool_)) if column is None else column.is_null()


def _either(first: pa.Array | None, second: pa.Array | None) -> pa.Array | None:
    return second if first is None else first
