"""Reads RPD: calls, device work with its launch, ranges, counters of monitors, waits between ops.

rocpd_monitor: the values that a monitor measured, and their durations.

gpu 0  sclk  8306017492311037 ... 8306017500777538  1700

rocpd_api: calls of HIP and HSA, the user's ranges, the tracer's own work.

UserMarker        args "forward"                       range forward
hipMalloc         args "ptr=0x7f.. | size=0x2000000"   api
OpTable::writeRows                                     overhead

rocpd_op: the work of the GPU. Its process is that of its launch.

description "Cijk_Ailk..."  opType KernelExecution      kernel Cijk_Ailk...
description ""              opType CopyHostToDevice     memcpy CopyHostToDevice, HtoD
description ""              opType FillBuffer           memset
description "Cijk_Ailk..."  opType Task                 kernel: of a HIP graph
description "forward"       opType UserMarker           range forward, of the host (gpuId -1): of rocm-trace-lite
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.source import Source
from ktrace.input.sqlite_file import quoted_name
from ktrace.kit.columnar.blocks import BatchBuilder, Block, timed
from ktrace.kit.columnar.dictionaries import mapped_words
from ktrace.kit.rocm.common import copy_kind, copy_kinds, executed, short_names, work_kind
from ktrace.kit.sqlite import Database, opened
from ktrace.kit.sqlite.lookup import FirstId, Lookup, first_ids
from ktrace.model.batch import Batch
from ktrace.model.json_text import decoded, dump_json, encoded, load_json
from ktrace.model.row_builder import RowBuilder

from .launches import Details, Launches, arguments, links, lookup, nonempty, numbered, numbers, packets, strings


class _Table:
    """A table of rows that launch, or are launched."""

    def __init__(
        self, database: Database, table: str, ids: FirstId, launches: Launches, conversion: Conversion
    ) -> None:
        self._database = database
        self._table = table
        self._ids = ids
        self._launches = launches
        self._conversion = conversion
        self._texts = strings(database, conversion)


class Ops(_Table):
    """The rows of rocpd_op."""

    def __init__(
        self, database: Database, table: str, ids: FirstId, launches: Launches, conversion: Conversion
    ) -> None:
        super().__init__(database, table, ids, launches, conversion)
        self._details = [Details(database), Details(database, of="op")]
        calls = next(iter(database.like("rocpd_api")), None)
        self._calls = Lookup(database, calls, "id", ["pid", "apiName_id"]) if calls else None
        barriers = next(iter(database.like("rocpd_barrierop")), None)
        keys = ["signalCount", "aquireFence", "releaseFence"]
        self._barriers = Lookup(database, barriers, "op_ptr_id", keys) if barriers else None

    def read(self) -> Iterator[Batch]:
        """Yields all work, in the order of the table."""
        batches = BatchBuilder(self._conversion)
        for block in self._database.blocks(self._table, self._conversion.batch_rows):
            sound = timed(executed(block, self._conversion, "start", "end"), self._conversion, "start", "end")
            if len(sound):
                yield self._batch(batches, sound)

    def _batch(self, batches: BatchBuilder, block: Block) -> Batch:
        start, end = block.take("start"), block.take("end")
        op = numbered(block)
        call = self._launches.of(op)
        called = self._calls.get(call) if self._calls else {}
        of_call, of_op = self._details[0].get(call, called.get("apiName_id")), self._details[1].get(op)
        details = of_call | {
            name: pc.coalesce(of_call[name], column)
            if name in of_call and of_call[name].type == column.type
            else column
            for name, column in of_op.items()
        }
        kernel = details.pop("kernelName_id", None)
        types = self._texts.column(block, block.take("opType_id"), required=True)
        names = self._names(block, types, kernel)
        words = types.dictionary.to_pylist()
        ways = pa.array([copy_kind(word) for word in words], pa.string()).take(types.indices)
        of_words = [_MARKER_OP if word == _MARKER else work_kind(word) or "range" for word in words]
        kinds = pa.array(of_words, pa.string()).take(types.indices)
        described = copy_kinds(names)
        if described is not None:
            ways = pc.if_else(pc.equal(kinds, "memcpy"), pc.coalesce(ways, described), ways)
        if "copy_kind" in details:
            ways = pc.coalesce(ways, details["copy_kind"])
        details["copy_kind"] = ways
        more = self._barriers.get(op) if self._barriers else {}
        for key, column in (arguments(more) | packets(block.take("completionSignal"))).items():
            details[key] = pc.coalesce(details[key], column) if key in details else column
        device, stream, dur = block.take("gpuId"), block.take("queueId"), pc.subtract(end, start)
        marks = pc.equal(kinds, _MARKER_OP)
        if marks.true_count:  # on no device; one without a duration is a mark
            at_once = pc.and_(marks, pc.equal(dur, 0))
            kinds = pc.if_else(at_once, "instant", pc.if_else(marks, "range", kinds))
            dur = pc.if_else(at_once, None, dur)
            device, stream = (None if ids is None else pc.if_else(marks, None, ids) for ids in (device, stream))
            details["track"] = pc.if_else(marks, "markers", None)
        return batches.events(
            block,
            self._ids.of(block.numbers),
            kind=kinds,
            name=names,
            short_name=short_names(names),
            cat=types,
            ts=start,
            dur=dur,
            pid=called.get("pid"),
            device=device,
            stream=stream,
            correlation=call,
            **dict(sorted(details.items())),
        )

    def _names(self, block: Block, types: pa.DictionaryArray, kernel: pa.Array | None) -> pa.DictionaryArray:
        """The description, else the kernel in the call, else the type."""
        described = self._texts.column(block, block.take("description_id"))
        names = pa.nulls(len(block), pa.string()) if described is None else nonempty(described)
        if names.null_count and kernel is not None and kernel.null_count < len(kernel):
            called = self._texts.column(block, kernel)
            names = pc.coalesce(names, nonempty(called))
        return encoded(pc.coalesce(names, types.dictionary_decode()))


def read_waits(
    database: Database, tables: dict[str, str], ids: dict[str, FirstId], conversion: Conversion
) -> Iterator[Batch]:
    """Yields links from rocpd_op_inputSignals: an op waits for another."""
    table = tables.get("rocpd_op_inputSignals")
    for block in database.blocks(table, conversion.batch_rows) if table else ():
        before, after = block.get("from_op_id"), block.get("to_op_id")
        if before is None or after is None:
            conversion.report.issue("bad-record", block.place, "no column from_op_id, to_op_id", len(block))
            continue
        both = pc.and_(before.is_valid(), after.is_valid())
        if both.false_count:
            where = block.where(pc.index(both, False).as_py())
            conversion.report.issue("bad-record", where, "from_op_id or to_op_id is null", both.false_count)
        rows = ids["rocpd_op_inputSignals"].of(block.numbers.filter(both))
        conversion.report.used(len(rows))
        ops = ids["rocpd_op"]
        if len(rows):
            yield links(conversion, rows, (ops.of(before.filter(both)), ops.of(after.filter(both))), "wait")


_MARKER = "UserMarker"

#: What the table of ops has of the host, until it is known whether it is a range or an instant.
_MARKER_OP = "marker"

#: The table of operators that `python -m rocpd.autograd` makes of the ranges of PyTorch's emit_nvtx, and its columns as
#: arguments, under the names that PyTorch's own traces have (rocpd/autograd.py).
_OPERATORS = "ext_autogradapi"
_OF_OPERATOR = {"seq": "Sequence number", "op_id": "op_id", "sizes": "Input Dims", "input_op_ids": "input_op_ids"}


class Calls(_Table):
    """The rows of rocpd_api."""

    def __init__(
        self, database: Database, table: str, ids: FirstId, launches: Launches, conversion: Conversion
    ) -> None:
        super().__init__(database, table, ids, launches, conversion)
        self._details = Details(database)
        self._operators = lookup(database, _OPERATORS, "api_ptr_id", ("autogradName_id", *_OF_OPERATOR))

    def read(self) -> Iterator[Batch]:
        """Yields all calls, in the order of the table."""
        batches = BatchBuilder(self._conversion)
        for block in self._database.blocks(self._table, self._conversion.batch_rows):
            sound = timed(block, self._conversion, "start", "end")
            if len(sound):
                yield self._batch(batches, sound)

    def _batch(self, batches: BatchBuilder, block: Block) -> Batch:
        api = numbered(block)
        called = block.take("apiName_id")
        names = self._texts.column(block, called, required=True)
        arguments = self._texts.column(block, block.take("args_id"))
        texts = None if arguments is None else nonempty(arguments)
        kinds = pa.array([_kind(name) for name in names.dictionary.to_pylist()]).take(names.indices)
        if texts is not None:
            marker = pc.and_(pc.equal(kinds, "range"), texts.is_valid())
            if marker.true_count:
                names = pc.if_else(marker, texts, names.dictionary_decode())
                texts = pc.if_else(marker, None, texts)
        operators = self._operators.get(api) if self._operators else {}
        named = self._texts.column(block, numbers(operators.pop("autogradName_id", None)))
        if named is not None and named.null_count < len(named):
            operator = named.is_valid()
            kinds = pc.if_else(operator, "op", kinds)
            names = pc.if_else(operator, decoded(named), decoded(names))
        starts = self._launches.starts(api)
        details: dict[str, Any] = {"args.args": texts, **self._details.get(pc.if_else(starts, None, api), called)}
        name = details.pop("kernelName_id", None)
        if name is not None:
            details["args.kernelName"] = self._texts.column(block, name)
        return batches.events(
            block,
            self._ids.of(block.numbers),
            kind=kinds,
            name=names,
            **block.span("start", "end"),
            pid=block.take("pid"),
            tid=block.take("tid"),
            correlation=pc.if_else(starts, api, None),
            cat=self._texts.column(block, block.take("domain_id")),
            **details,
            **_operators(operators),
        )


def _operators(columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """The arguments of operators; sizes are JSON, as PyTorch writes them into its ranges."""
    operator_columns: dict[str, pa.Array | None] = {
        _OF_OPERATOR[key]: column if key == "sizes" else numbers(column) for key, column in columns.items()
    }
    operator_columns["input_op_ids"] = columns.get("input_op_ids")
    args = arguments(operator_columns)
    sizes = args.pop("args.Input Dims", None)
    return args if sizes is None else args | {"args.Input Dims": mapped_words(sizes, _json, pa.binary())}


def _json(text: str) -> bytes:
    """A text that is JSON as it is, another one as a JSON string."""
    try:
        load_json(text)
    except (ValueError, RecursionError):
        return dump_json(text).encode()
    return text.encode()


def _kind(name: str) -> str:
    if name == _MARKER:
        return "range"
    return "overhead" if "Table::" in name or name == "hcc_activity_callback" else "api"


#: Monitors of clocks, which rocm-smi gives in MHz.
_CLOCKS = pa.array(["sclk", "mclk", "fclk", "socclk", "dcefclk"])

_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"


def read_monitors(database: Database, table: str, ids: FirstId, conversion: Conversion) -> Iterator[Batch]:
    """Yields counters with a duration. A value that isn't a number becomes an argument."""
    batches = BatchBuilder(conversion)
    for block in database.blocks(table, conversion.batch_rows):
        sound = timed(block, conversion, "start", "end", open_end=True)
        if len(sound):
            yield _batch(batches, sound, ids)


def _batch(batches: BatchBuilder, block: Block, ids: FirstId) -> Batch:
    columns = _values(block.take("value")) | _place(block) | block.span("start", "end")
    named = block.take("monitorType")
    block.drop("id")
    return batches.events(
        block,
        ids.of(block.numbers),
        kind="counter",
        name="[no name]" if named is None else pc.fill_null(named, "[no name]"),
        unit=None
        if named is None
        else pc.if_else(pc.fill_null(pc.is_in(named, value_set=_CLOCKS), False), "MHz", None),
        **columns,
    )


def _values(column: pa.Array | None) -> dict[str, Any]:
    """The numbers, and other texts as an argument."""
    if column is None:
        return {}
    if not pa.types.is_string(column.type):
        return {"value": column.cast(pa.float64())}
    plain = pc.fill_null(pc.match_substring_regex(column, _NUMBER), False)
    other = pc.if_else(plain, None, column)
    return {"value": pc.if_else(plain, column, None).cast(pa.float64()), "args.value": other}


def _place(block: Block) -> dict[str, Any]:
    """The GPU's number, or a track for another device."""
    kinds, number = block.take("deviceType"), block.take("deviceId")
    if kinds is None or number is None:
        return {} if number is None else {"device": number}
    gpu = pc.fill_null(pc.equal(pc.utf8_lower(kinds), "gpu"), False)
    other = pc.binary_join_element_wise(kinds, number.cast(pa.string()), " ")
    return {"device": pc.if_else(gpu, number, None), "track": pc.if_else(gpu, None, other)}


#: Tables that are looked up for rows of the others.
_LOOKED_UP = frozenset(
    {
        *("rocpd_string", "rocpd_metadata", "rocpd_api_ops", "rocpd_kernelapi", "rocpd_copyapi"),
        *("rocpd_kernelop", "rocpd_copyop"),
        *("rocpd_kernelcodeobject", "rocpd_barrierop", "rocpd_ustring"),
        *(_OPERATORS, "ext_callstack"),  # the latter repeats how calls nest, and their times
    }
)

#: Columns with whole numbers, and with texts, in all tables.
_WHOLE = (
    *("id", "pid", "tid", "gpuId", "queueId", "sequenceId", "start", "end", "description_id", "opType_id", "deviceId"),
    *("apiName_id", "args_id", "api_id", "op_id", "api_ptr_id", "op_ptr_id", "from_op_id", "to_op_id", "kernelName_id"),
)
_TEXTS = (
    *(
        "string",
        "sizes",
        "input_op_ids",
        "stream",
        "dst",
        "src",
        "tag",
        "value",
        "monitorType",
        "deviceType",
        "completionSignal",
    ),
    *("aquireFence", "releaseFence", "kernelArgAddress"),
)

#: Table whose rows become rows of the model -> the number of ids for each row.
_TABLES = {"rocpd_api": 1, "rocpd_op": 1, "rocpd_monitor": 1, "rocpd_op_inputSignals": 2, "rocpd_api_ops": 2}


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the rows of the tables, one table after the other. Raises DamagedInput for an unreadable database."""
    with opened(source, conversion) as database:
        database.declare(whole=_WHOLE, texts=_TEXTS)
        tables = {name: name_in_file for name in _TABLES for name_in_file in database.like(name)[:1]}
        if "rocpd_op" not in tables:
            tables.pop("rocpd_op_inputSignals", None)  # waits without ops: reported as unrecognised
        if not tables.keys() & {"rocpd_api", "rocpd_op"}:
            raise DamagedInput(
                "has none of RPD's tables",
                path=source.path,
                expected="a database with rocpd_api and rocpd_op",
                remedy="leave out --from, or record it again with rocmProfileData",
            )
        ids = first_ids(database, [(table, _TABLES[name]) for name, table in tables.items()])
        absent = FirstId(0, 0, 1)
        by_name = {name: ids[tables[name]] if name in tables else absent for name in _TABLES}
        launches = Launches(database, tables.get("rocpd_api_ops"), conversion)
        if "rocpd_api" in tables:
            yield from Calls(database, tables["rocpd_api"], by_name["rocpd_api"], launches, conversion).read()
        if "rocpd_op" in tables:
            ops = Ops(database, tables["rocpd_op"], by_name["rocpd_op"], launches, conversion)
            yield from ops.read()
        if "rocpd_monitor" in tables:
            yield from read_monitors(database, tables["rocpd_monitor"], by_name["rocpd_monitor"], conversion)
        yield from read_waits(database, tables, by_name, conversion)
        yield from launches.rest(by_name)
        yield from _catalog(database, tables.get("rocpd_op"), conversion)
        database.report_others((*tables.values(), *_LOOKED_UP))


def _catalog(database: Database, ops: str | None, conversion: Conversion) -> Iterator[Batch]:
    """Yields facts: the tool, the clock, the GPUs."""
    rows = RowBuilder(conversion, first_id=0)
    facts = {str(tag): str(value) for tag, value in database.rows("rocpd_metadata", "tag", "value") if tag and value}
    tool = "rocm-trace-lite" if ops and database.has(ops, "roctxId") else "rocmProfileData"
    rows.tool_and_clock(tool, "monotonic", facts)
    devices = (
        database.query(ops, f"SELECT DISTINCT gpuId FROM {quoted_name(ops)} ORDER BY 1")
        if ops and database.has(ops, "gpuId")
        else []
    )
    for (device,) in devices:
        if isinstance(device, int) and device >= 0:
            rows.fact("device", device=device, name=f"GPU {device}", facts={"api": "hip", "vendor": "AMD"})
    yield from rows.rest()
