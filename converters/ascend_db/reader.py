"""Reads the databases of Ascend's profilers: tasks, calls, operators, collectives, counters, facts.

Besides TASK, tables with a begin and an end are calls, operators, marks, collectives, steps and analyses. AICORE_FREQ
(MHz) and MEMORY_RECORD (bytes) are counters, OP_MEMORY (bytes) are allocations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.source import Source
from ktrace.kit.ascend_folder import DB, own_file
from ktrace.kit.ascend_tasks import DEVICE
from ktrace.kit.columnar.blocks import Block, timed
from ktrace.kit.sqlite import Database, opened
from ktrace.kit.sqlite.lookup import first_ids
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from .reading import AscendReader, known, named, thread, with_whole
from .tasks import Tasks

#: Type of a row of PYTORCH_API -> its kind. Facts: torch_npu's _fwk_api_db_parser.py.
_PYTORCH = {50001: "op", 50002: "range", 50003: "range", 50004: "range"}

#: Type of an interval of OVERLAP_ANALYSIS as its timeline names it.
_OVERLAP = {0: "Computing", 1: "Communication", 2: "Communication(Not Overlapped)", 3: "Free"}

#: Type of a mark that has no duration.
_MARKS = ("marker", "marker_ex")

Columns = Callable[[AscendReader, Block], dict[str, Any]]


def read_spans(reading: AscendReader, table: str, columns: Columns) -> Iterator[Batch]:
    """Yields the rows of a table as events."""
    for rows in reading.database.blocks(table, reading.conversion.batch_rows):
        block = timed(with_whole(rows, "startNs", "endNs"), reading.conversion, "startNs", "endNs")
        if not len(block):
            continue
        span = block.span("startNs", "endNs") | columns(reading, block)
        if span.pop("at_once", None) is not None:
            span["dur"] = pc.if_else(pc.equal(span["kind"], "instant"), None, span["dur"])
        ids = reading.ids[table].of(block.numbers)
        lists = known(block, "connectionId") if columns is operators else None
        yield reading.batches.events(block, ids, **span)
        yield from reading.arrows.from_operators(ids, lists)


def calls(reading: AscendReader, block: Block) -> dict[str, Any]:
    """CANN_API: calls of all levels."""
    levels = named(known(block, "type"), reading.words("ENUM_API_TYPE"), "level")
    name = reading.text(block, "name", required=True)
    return thread(block) | {"kind": "api", "name": name, "cat": levels, "correlation": known(block, "connectionId")}


def operators(reading: AscendReader, block: Block) -> dict[str, Any]:
    """PYTORCH_API: operators, the task queue, Python's functions, marks. `connectionId` is an id of CONNECTION_IDS."""
    types = known(block, "type")
    kinds: Any = "op"
    if types is not None:
        words = reading.words("ENUM_API_TYPE")
        kinds = named(types, _PYTORCH, "")
        kinds = pc.if_else(pc.is_in(kinds, value_set=pa.array(["op", "range"])), kinds, "op")
        types = named(types, words, "type")
    texts = {f"args.{key}": reading.text(block, key) for key in ("inputDtypes", "inputShapes")}
    return thread(block) | texts | {"kind": kinds, "name": reading.text(block, "name", required=True), "cat": types}


def marks(reading: AscendReader, block: Block) -> dict[str, Any]:
    """MSTX_EVENTS: ranges and instants of the user."""
    types = named(known(block, "eventType"), reading.words("ENUM_MSTX_EVENT_TYPE"), "type")
    columns = thread(block) | {"name": reading.text(block, "message", required=True), "cat": types, "kind": "range"}
    columns |= {"args.domain": reading.text(block, "domainId"), "correlation": known(block, "connectionId")}
    if types is not None:
        at_once = pc.fill_null(pc.is_in(types, value_set=pa.array(_MARKS)), False)
        columns |= {"kind": pc.if_else(at_once, "instant", "range"), "at_once": True}
    for key in ("endGlobalTid", "rangeId", "category"):
        columns[f"args.{key}"] = known(block, key)
    return columns


def runtime(reading: AscendReader, block: Block) -> dict[str, Any]:
    """OSRT_API: calls of the operating system."""
    return thread(block) | {"kind": "api", "name": reading.text(block, "name", required=True)}


def collections(reading: AscendReader, block: Block) -> dict[str, Any]:
    """GC_RECORD: Python's collection of garbage."""
    return thread(block) | {"kind": "overhead", "name": "Python GC"}


def collectives(reading: AscendReader, block: Block) -> dict[str, Any]:
    """COMMUNICATION_OP: a collective or a send, whose tasks are ranges within it."""
    data = named(known(block, "dataType"), reading.words("ENUM_HCCL_DATA_TYPE"), "dataType")
    columns = {
        "kind": "kernel",
        "name": reading.text(block, "opName", required=True),
        "device": reading.device(block),
        "track": "Communication",
        "comm": reading.text(block, "groupName"),
        "cat": reading.text(block, "opType"),
        "args.algType": reading.text(block, "algType"),
        "args.dataType": data,
        "correlation": known(block, "connectionId"),
    }
    return columns


def analyses(reading: AscendReader, block: Block) -> dict[str, Any]:
    """OVERLAP_ANALYSIS: what the profiler computed from the tasks."""
    block.drop("id")
    name = named(known(block, "type"), _OVERLAP, "type")
    return {"kind": "range", "name": name, "device": reading.device(block), "track": "Overlap Analysis"}


def steps(reading: AscendReader, block: Block) -> dict[str, Any]:
    """STEP_TIME: the steps of the training loop."""
    number = known(block, "id")
    name: Any = "Step"
    if number is not None:
        name = pc.binary_join_element_wise("Step", pc.fill_null(number.cast(pa.string()), "?"), " ")
    return {"kind": "range", "name": name, "track": "Steps"}


SPANS: dict[str, Columns] = {
    "CANN_API": calls,
    "PYTORCH_API": operators,
    "MSTX_EVENTS": marks,
    "OSRT_API": runtime,
    "GC_RECORD": collections,
    "COMMUNICATION_OP": collectives,
    "OVERLAP_ANALYSIS": analyses,
    "STEP_TIME": steps,
}


#: Column of MEMORY_RECORD -> the name of its counter.
_MEMORY = {"totalAllocated": "Total Allocated", "totalReserved": "Total Reserved", "totalActive": "Total Active"}


def read_frequencies(reading: AscendReader, table: str) -> Iterator[Batch]:
    """AICORE_FREQ: the clock of the cores."""
    for block in _blocks(reading, table, "timestampNs"):
        value = block.take("freq")
        yield reading.batches.events(
            block,
            reading.ids[table].of(block.numbers),
            kind="counter",
            name="AI Core Freq",
            ts=block.take("timestampNs"),
            device=reading.device(block),
            value=None if value is None else _number(value),
            unit="MHz",
        )


def read_memory(reading: AscendReader, table: str) -> Iterator[Batch]:
    """MEMORY_RECORD: a counter for each total; the ids of a row are consecutive."""
    for block in _blocks(reading, table, "timestamp"):
        component = reading.text(block, "component", required=True)
        ids = reading.ids[table].of(block.numbers)
        shared = {"ts": block.take("timestamp"), "device": reading.device(block), "kind": "counter", "unit": "B"}
        values = {
            name: _number(block.take(column)) for column, name in _MEMORY.items() if block.get(column) is not None
        }
        reading.conversion.report.used(len(block))
        rest: dict[str, Any] = block.rest()
        for offset, (name, value) in enumerate(values.items()):
            names = pc.binary_join_element_wise(component, name, " ")
            columns = {**shared, "name": names, "value": value, **(rest if not offset else {})}
            yield reading.batches.batch("events", ids + offset, timing="measured", **columns)


def read_allocations(reading: AscendReader, table: str) -> Iterator[Batch]:
    """OP_MEMORY: allocations of operators; the time of the release is an argument."""
    for block in _blocks(reading, table, "allocationTime"):
        yield reading.batches.events(
            block,
            reading.ids[table].of(block.numbers),
            kind="alloc",
            name=reading.text(block, "name", required=True),
            ts=block.take("allocationTime"),
            device=reading.device(block),
            bytes=known(block, "size"),
        )


def _blocks(reading: AscendReader, table: str, time: str) -> Iterator[Block]:
    for rows in reading.database.blocks(table, reading.conversion.batch_rows):
        block = timed(with_whole(rows, time), reading.conversion, time)
        if len(block):
            yield block


def _number(column: pa.Array | None) -> pa.Array | None:
    """A column as float64; texts and bytes are null."""
    if column is None:
        return None
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        return pa.nulls(len(column), pa.float64())
    return pc.cast(column, pa.float64(), safe=False)


_SAMPLES = {"AICORE_FREQ": read_frequencies, "MEMORY_RECORD": read_memory, "OP_MEMORY": read_allocations}

#: Table whose rows become rows of the model -> the number of ids for each row.
_TABLES = {"TASK": 1, **dict.fromkeys(SPANS, 1), "AICORE_FREQ": 1, "MEMORY_RECORD": 3, "OP_MEMORY": 1}

#: Tables that are looked up for rows of the others.
_LOOKED_UP = frozenset(
    {
        *("STRING_IDS", "COMPUTE_TASK_INFO", "COMMUNICATION_TASK_INFO", "COMMUNICATION_SCHEDULE_TASK_INFO"),
        *("MEMCPY_INFO", "TASK_PMU_INFO", "META_DATA", "RANK_DEVICE_MAP", "HOST_INFO", "NPU_INFO"),
        *("SESSION_TIME_INFO", "CONNECTION_IDS"),
    }
)


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the rows of the tables, one table after the other. Raises DamagedInput for an unreadable database."""
    with own_file(source, DB, conversion) as file, opened(file, conversion) as database:
        tables = {name: name_in_file for name in _TABLES for name_in_file in database.like(name)[:1]}
        if not tables:
            raise DamagedInput(
                "has none of the tables of Ascend's profilers",
                path=file.path,
                expected="a database with TASK, CANN_API or PYTORCH_API",
                remedy="leave out --from, or export it again: msprof --export=on --type=db",
            )
        ids = first_ids(database, [(table, _TABLES[name]) for name, table in tables.items()])
        reading = AscendReader(database, ids, conversion)
        for name, table in tables.items():
            if name == "TASK":
                yield from Tasks(reading, table).read()
            elif name in SPANS:
                yield from read_spans(reading, table, SPANS[name])
            else:
                yield from _SAMPLES[name](reading, table)
        yield from _catalog(database, conversion)
        enums = (table for table in database.tables if table.upper().startswith("ENUM_"))
        database.report_others((*tables.values(), *_LOOKED_UP, *enums))


def _catalog(database: Database, conversion: Conversion) -> Iterator[Batch]:
    """Yields facts: the tool, the host, the devices, the clock."""
    rows = RowBuilder(conversion, first_id=0)
    facts = {str(name): str(value) for name, value in database.rows("META_DATA", "name", "value") if name and value}
    ranks = database.rows("RANK_DEVICE_MAP", "rankId", "deviceId")
    rank = {"rank": ranks[0][0]} if len(ranks) == 1 and isinstance(ranks[0][0], int) and ranks[0][0] >= 0 else {}
    rows.fact("source", facts={"tool": "Ascend profiler", **rank, **facts})
    rows.fact("clock", facts={"kind": "unix", "at_ns": 0, "unix_ns": 0})
    for uid, name in database.rows("HOST_INFO", "hostUid", "hostName")[:1]:
        if isinstance(name, str) and name:
            rows.fact("host", name=name, facts={"hostUid": str(uid)})
    names = {number: str(name) for number, name in database.rows("NPU_INFO", "id", "name") if isinstance(number, int)}
    devices = {number for _, number in ranks if isinstance(number, int) and number >= 0} | names.keys()
    for device in sorted(devices):
        rows.fact("device", device=device, name=names.get(device), facts=DEVICE)
    yield from rows.rest()
