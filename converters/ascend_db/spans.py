"""Tables with a begin and an end other than TASK: calls, operators, marks, collectives, steps, analyses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.columnar.blocks import Block, timed
from ktrace.model.batch import Batch

from .reading import Reading, known, named, thread, with_whole

#: Type of a row of PYTORCH_API -> its kind. Facts: torch_npu's _fwk_api_db_parser.py.
_PYTORCH = {50001: "op", 50002: "range", 50003: "range", 50004: "range"}

#: Type of an interval of OVERLAP_ANALYSIS as its timeline names it.
_OVERLAP = {0: "Computing", 1: "Communication", 2: "Communication(Not Overlapped)", 3: "Free"}

#: Type of a mark that has no duration.
_MARKS = ("marker", "marker_ex")

Columns = Callable[[Reading, Block], dict[str, Any]]


def read_spans(reading: Reading, table: str, columns: Columns) -> Iterator[Batch]:
    """Yields the rows of a table as events."""
    for found in reading.database.blocks(table, reading.conversion.batch_rows):
        block = timed(with_whole(found, "startNs", "endNs"), reading.conversion, "startNs", "endNs")
        if not len(block):
            continue
        start, end = block.take("startNs"), block.take("endNs")
        own = {"ts": start, "dur": pc.subtract(end, start)} | columns(reading, block)
        if own.pop("at_once", None) is not None:
            own["dur"] = pc.if_else(pc.equal(own["kind"], "instant"), None, own["dur"])
        ids = reading.ids[table].of(block.numbers)
        lists = known(block, "connectionId") if columns is operators else None
        yield reading.batches.events(block, ids, **own)
        yield from reading.arrows.from_operators(ids, lists)


def calls(reading: Reading, block: Block) -> dict[str, Any]:
    """CANN_API: calls of all levels."""
    levels = named(known(block, "type"), reading.words("ENUM_API_TYPE"), "level")
    name = reading.text(block, "name", required=True)
    return thread(block) | {"kind": "api", "name": name, "cat": levels, "correlation": known(block, "connectionId")}


def operators(reading: Reading, block: Block) -> dict[str, Any]:
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


def marks(reading: Reading, block: Block) -> dict[str, Any]:
    """MSTX_EVENTS: ranges and instants of the user."""
    types = named(known(block, "eventType"), reading.words("ENUM_MSTX_EVENT_TYPE"), "type")
    found = thread(block) | {"name": reading.text(block, "message", required=True), "cat": types, "kind": "range"}
    found |= {"args.domain": reading.text(block, "domainId"), "correlation": known(block, "connectionId")}
    if types is not None:
        at_once = pc.fill_null(pc.is_in(types, value_set=pa.array(_MARKS)), False)
        found |= {"kind": pc.if_else(at_once, "instant", "range"), "at_once": True}
    for key in ("endGlobalTid", "rangeId", "category"):
        found[f"args.{key}"] = known(block, key)
    return found


def runtime(reading: Reading, block: Block) -> dict[str, Any]:
    """OSRT_API: calls of the operating system."""
    return thread(block) | {"kind": "api", "name": reading.text(block, "name", required=True)}


def collections(reading: Reading, block: Block) -> dict[str, Any]:
    """GC_RECORD: Python's collection of garbage."""
    return thread(block) | {"kind": "overhead", "name": "Python GC"}


def collectives(reading: Reading, block: Block) -> dict[str, Any]:
    """COMMUNICATION_OP: encloses the tasks of a collective or of a send."""
    data = named(known(block, "dataType"), reading.words("ENUM_HCCL_DATA_TYPE"), "dataType")
    found = {
        "kind": "range",
        "name": reading.text(block, "opName", required=True),
        "device": reading.device(block),
        "track": "Communication",
        "comm": reading.text(block, "groupName"),
        "cat": reading.text(block, "opType"),
        "args.algType": reading.text(block, "algType"),
        "args.dataType": data,
        "args.connectionId": known(block, "connectionId"),
    }
    return found


def analyses(reading: Reading, block: Block) -> dict[str, Any]:
    """OVERLAP_ANALYSIS: what the profiler computed from the tasks."""
    block.drop("id")
    name = named(known(block, "type"), _OVERLAP, "type")
    return {"kind": "range", "name": name, "device": reading.device(block), "track": "Overlap Analysis"}


def steps(reading: Reading, block: Block) -> dict[str, Any]:
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
