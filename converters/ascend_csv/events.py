"""Rows with times: tasks of the device, iterations, marks of the user, allocations.

Task Type AI_CORE, MIX_AIV, ...      kernel; the others by their type
Task Type HCCL, COMMUNICATION        kernel, as its tasks aren't in the table; with a Task ID it is one of them: range.
                                     Beside task_time, which has all tasks, the other way round
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.kit.ascend_tasks import COMMUNICATION, TaskIndex, task_kind
from ktrace.kit.columnar.blocks import BatchBuilder, Block, nonzero, timed
from ktrace.kit.columnar.csv_blocks import CsvRows
from ktrace.kit.columnar.dictionaries import by_distinct
from ktrace.kit.columnar.text_cells import only
from ktrace.kit.columnar.typed_cells import Field, Number, Text, Time, Whole, Word, joined, typed
from ktrace.model.arrays import Int64
from ktrace.model.batch import Batch

from . import AICPU, ALLOCATIONS, ITERATIONS, MARKS, TASK_TIME, TASKS

#: The ids of the rows of a line begin at this times its number.
IDS = 16

_FIELDS: dict[str, dict[str, Field]] = {
    TASKS: {
        "ts": Time("Start Time", "Task Start Time"),
        "dur": Time("Duration", "Task Duration"),
        "name": Text("Name", "Op Name"),
        "type": Word("Accelerator Core", "Task Type"),
        "device": Whole("Device_id"),
        "stream": Whole("Stream ID"),
        "task": Whole("Task ID"),
        "grid": Whole("Block Dim", "Block Num"),
    },
    TASK_TIME: {
        "ts": Time("task_start"),
        "dur": Time("task_time"),
        "stop": Time("task_stop"),
        "name": Text("kernel_name"),
        "type": Word("kernel_type"),
        "device": Whole("Device_id"),
        "stream": Whole("stream_id"),
        "task": Whole("task_id"),
    },
    ITERATIONS: {
        "end": Time("Iteration End"),
        "dur": Time("Iteration Time"),
        "name": Text("Iteration ID"),
        "device": Whole("Device_id"),
    },
    MARKS: {
        "ts": Time("Start_time"),
        "end": Time("End_time"),
        "name": Text("message"),
        "pid": Whole("pid"),
        "tid": Whole("tid"),
        "type": Word("event_type"),
    },
    ALLOCATIONS: {
        "ts": Time("Allocation Time"),
        "name": Text("Name", "Operator"),
        "bytes": Number("Size"),
        "device": Whole("Device_id"),
        "type": Word("Device Type", "Device"),
    },
    AICPU: {
        "ts": Time("Timestamp"),
        "dur": Time("Total_time"),
        "name": Text("Node"),
        "device": Whole("Device_id"),
        "stream": Whole("Stream ID"),
    },
}
EVENTS = frozenset(_FIELDS)

#: Cells that are in quotes within the cell.
_QUOTED = ("Input Shapes", "Output Shapes")

#: Tasks without a name are named by their type.
_NAMELESS = pa.array(["", "N/A"])

_NO_UNIT = {"ts": "us", "dur": "us", "end": "us", "stop": "us"}


class Listed:
    """The tasks of op_summary: rows of task_time in the same folder that repeat them are left out."""

    def __init__(self) -> None:
        self._parts = [np.empty((4, 0), np.int64)]
        self._tasks: TaskIndex | None = None

    def add(self, block: Block) -> None:
        """Notes tasks. A collective isn't one: it has no id, and begins within kernels of other streams."""
        types, tasks = block.get("<type>"), np.ones(len(block), np.bool_)
        if types is not None:
            tasks = ~_is_collective(types).to_numpy(zero_copy_only=False) | (_filled(block, "<task>") >= 0)
        keys = np.stack([_filled(block, name) for name in ("<device>", "<stream>", "<task>", "<ts>")])
        self._parts.append(keys[:, tasks])
        self._tasks = None

    def without(self, block: Block, conversion: Conversion) -> Block:
        """The rows that repeat no task; the others are counted."""
        if self._tasks is None:
            *keys, starts = np.concatenate(self._parts, axis=1)
            self._tasks = TaskIndex(np.stack(keys), starts)
        device, stream, task, begin = (_filled(block, name) for name in ("<device>", "<stream>", "<task>", "<ts>"))
        end = np.maximum(begin + _filled(block, "<dur>"), begin + 1)
        repeats = self._tasks.within([device, stream, task], begin, end) & (task >= 0)
        none = np.full(len(block), -1)  # an op_summary without the columns of stream and task
        kinds = by_distinct(pc.fill_null(block.get("<type>"), ""), task_kind, pa.string())
        is_kernel = pc.equal(kinds, "kernel").to_numpy(zero_copy_only=False)
        repeats |= self._tasks.within([device, none, none], begin, end) & is_kernel
        conversion.report.used(int(repeats.sum()), outcome="same-run")
        return block.filter(pa.array(~repeats))


def _is_collective(types: pa.Array) -> pa.BooleanArray:
    return pc.is_in(types, value_set=pa.array(sorted(COMMUNICATION)))


def _filled(block: Block, name: str) -> Int64:
    """A column of whole numbers, -1 for none; device 0 in files that don't name it."""
    column = block.get(name)
    filled: Int64 = (
        np.full(len(block), 0 if name == "<device>" else -1)
        if column is None
        else pc.fill_null(column, 0 if name == "<device>" else -1).to_numpy(zero_copy_only=False)
    )
    return filled


class EventRows:
    """Makes events of the rows of one file; `first_id` is added to all ids.

    `with_tasks`: the tasks of collectives are in another file of the folder, so that collectives are ranges.
    """

    def __init__(self, conversion: Conversion, first_id: int, listed: Listed, *, with_tasks: bool = False) -> None:
        self._conversion = conversion
        self._listed = listed
        self._batches = BatchBuilder(conversion)
        self._first = first_id
        self._columns = _COLUMNS | {TASKS: partial(_tasks, with_tasks=with_tasks)}

    def rows(self, item: CsvRows) -> list[Batch]:
        """The events of some rows."""
        what = item.table.what
        block = typed(item, _FIELDS[what], self._conversion.report, _NO_UNIT)
        block = _begun(block) if what == ITERATIONS else block
        end = "<end>" if what == MARKS else None
        dur = "<dur>" if what not in (MARKS, ALLOCATIONS) else None
        block = timed(block, self._conversion, "<ts>", end, dur=dur)
        if what == TASK_TIME:
            block = self._listed.without(block, self._conversion)
        elif what == TASKS:
            self._listed.add(block)
        if not len(block):
            return []
        device = None if what == MARKS else device_of(block)
        columns = {"device": device, **self._columns[what](block), "ts": block.take("<ts>")}
        if dur:
            columns["dur"] = block.take("<dur>")
        if end:
            at_once = pc.equal(columns["kind"], "instant")
            columns["dur"] = pc.if_else(at_once, None, pc.subtract(block.take("<end>"), columns["ts"]))
        for name in _QUOTED:
            cells = block.get(name)
            if cells is not None and pa.types.is_dictionary(cells.type) and pa.types.is_string(cells.type.value_type):
                block.drop(name)
                columns[f"args.{name}"] = pc.utf8_trim(cells.dictionary_decode(), characters='"').dictionary_encode()
        ids = self._first + block.numbers.to_numpy() * IDS
        return [self._batches.events(block, ids, **joined(block, columns))]


def _begun(block: Block) -> Block:
    """Iterations begin at their end less their time."""
    end, dur = block.get("<end>"), block.get("<dur>")
    if end is None or dur is None:
        return block
    return block.without("<end>").replaced({"<ts>": pc.subtract(end, dur)}, {"<ts>": block.heading("<end>")})


def device_of(block: Block) -> pa.Array:
    """The device of each row: Device_id, that in `NPU:1`; 0 in files of one device, which don't name it."""
    given, kind = block.take("<device>"), block.get("<type>")
    if given is None and kind is not None:
        groups = pc.extract_regex(kind, r"^NPU:(?P<number>[0-9]{1,9})$")
        given = pc.struct_field(groups, "number").cast(pa.int64())
    return pc.fill_null(given, 0) if given is not None else pa.array(np.zeros(len(block), np.int64))


def _tasks(block: Block, *, with_tasks: bool) -> dict[str, Any]:
    """Tasks, and the collectives that enclose some of them. What repeats the other is a range."""
    types, task = block.take("<type>"), block.take("<task>")
    kinds: Any = "kernel"
    track = None
    if types is not None:
        texts = types.fill_null("")
        kinds = by_distinct(texts, task_kind, pa.string())
        collective = _is_collective(texts)
        part = pa.array(np.zeros(len(block), np.bool_)) if task is None else pc.and_(collective, task.is_valid())
        kinds = pc.if_else(pc.and_not(collective, part) if with_tasks else part, "range", kinds)
        track = pc.if_else(pc.and_not(collective, part), "Communication", None)
    name, stop = block.take("<name>"), block.take("<stop>")
    columns: dict[str, Any] = {"kind": kinds, "name": name, "stream": block.take("<stream>")}
    if types is not None:
        columns["name"] = pc.if_else(pc.is_in(name, value_set=_NAMELESS), types.fill_null(""), name)
    if stop is not None:
        other = pc.not_equal(stop, pc.add(block.get("<ts>"), block.get("<dur>")))
        columns["args.task_stop"] = pc.if_else(other, stop, None)
    return columns | {"track": track, "grid_x": nonzero(block.take("<grid>")), "cat": types, "args.Task ID": task}


def _iterations(block: Block) -> dict[str, Any]:
    return {"kind": "range", "name": pc.binary_join_element_wise("Iteration", block.take("<name>"), " ")}


def _marks(block: Block) -> dict[str, Any]:
    types = block.take("<type>")
    texts = pa.array([""] * len(block)) if types is None else types.fill_null("")
    kinds = pc.if_else(pc.match_substring(texts, "marker"), "instant", "range")
    name = pc.fill_null(block.take("<name>"), "[no name]")
    columns: dict[str, Any] = {"kind": kinds, "name": name, "pid": block.take("<pid>"), "tid": block.take("<tid>")}
    return columns | {"cat": types}


def _allocations(block: Block) -> dict[str, Any]:
    """The size is in KB of 1024 bytes."""
    size = block.take("<bytes>")
    columns: dict[str, Any] = {"kind": "alloc", "name": block.take("<name>"), "cat": block.take("<type>")}
    if size is not None:
        exact = pc.multiply(size, 1024.0)
        whole = pc.and_(pc.equal(pc.round(exact), exact), pc.less(pc.abs(exact), float(1 << 63)))
        columns["bytes"] = pc.if_else(whole, exact, None).cast(pa.int64())
        columns["args.Size(KB)"] = only(size, pc.fill_null(pc.invert(whole), False).to_numpy(zero_copy_only=False))
    return columns


def _aicpu(block: Block) -> dict[str, Any]:
    return {"kind": "kernel", "name": block.take("<name>"), "stream": block.take("<stream>"), "cat": "AI_CPU"}


_COLUMNS: dict[str, Callable[[Block], dict[str, Any]]] = {
    TASK_TIME: partial(_tasks, with_tasks=True),
    ITERATIONS: _iterations,
    MARKS: _marks,
    ALLOCATIONS: _allocations,
    AICPU: _aicpu,
}
