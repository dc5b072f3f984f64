"""The database of NVIDIA's DLProf (dlprof_dldb.sqlite): operators of PyTorch or TensorFlow with their device work.

    read_only_op_instances  read_only_ops_id, cpu_start, cpu_stop, process_id, thread_id, input_shapes_id, ...
    read_only_ops           op_id CONV2D_1, op_name /module/net/conv2d, op_type_id, direction_id, stack_trace
    read_only_kernels       read_only_ops_id, name_id, long_name_id, uses_tc, api_start, api_stop, gpu_start, gpu_stop,
                            grid_id, block_id, device_id, process_id, thread_id
    read_only_memcpys, read_only_memsets    the same, name_id is the call, num_bytes, copy_kind (CUPTI's number)
    read_only_cuda_syncs, read_only_cuda_calls    name_id, api_start, api_stop
    iteration_list          iter_value, start_time, stop_time
    dictionary              id, string

Facts: the tables and views of databases that DLProf 1.8.0 wrote, beside the database of Nsight Systems that it read:
times are ns since the session began, as there. It leaves out streams, correlation ids, and the name of a kernel's call.

Reads each kernel, copy and set as two events: the work, and the call that started it, joined by a number of ours. What
DLProf adds up of these rows (op_nodes, metric, ...) is left to ktrace's own summaries.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.columnar.blocks import BatchBuilder, Block, timed
from ktrace.kit.columnar.dictionaries import mapped_words
from ktrace.kit.sqlite import Database, opened
from ktrace.kit.sqlite.lookup import FirstId, Lookup, Texts, first_ids
from ktrace.model.arrays import Int64
from ktrace.model.batch import Batch
from ktrace.model.fitting import as_int64
from ktrace.model.row_builder import RowBuilder
from ktrace.naming.short_names import without_release
from ktrace.report import Report

_KERNELS, _OPS = "read_only_kernels", "read_only_op_instances"
_COPIES, _SETS = "read_only_memcpys", "read_only_memsets"
_CALLS = ("read_only_cuda_calls", "read_only_cuda_syncs")
_WORK = (_KERNELS, _COPIES, _SETS)

#: Rows of work that are read at once, in batches of any size: their calls come after them.
_ROWS = 1 << 16

#: CUPTI's number of a copy -> its way.
_WAYS = {1: "HtoD", 2: "DtoH", 8: "DtoD", 9: "HtoH", 10: "PtoP"}

#: What other tables refer to.
_REFERRED = (
    *("dictionary", "read_only_ops", "read_only_grid_block", "read_only_domains", "db_version", "aggregations"),
    *("read_only_gpu_infos", "read_only_system_config", "iteration_list", "expert_systems_feedback"),
)

#: What DLProf adds up of the tables that are read, or repeats of them.
_DERIVED = (
    *("category_summary", "device_gpu_utilizations", "gpu_memories", "group_ops", "iteration_aggregation_list"),
    *("iteration_key", "kernel_iteration_node", "kernel_iteration_stats", "kernel_summaries", "kernel_summary_metrics"),
    *("kernel_time_metrics", "memory_summary_metrics", "metric", "model_summary", "node_time_metrics", "op_nodes"),
    *("op_type_metrics", "read_only_model_config", "read_only_model_info"),
)

_WHOLE = (
    *(
        "api_start",
        "api_stop",
        "gpu_start",
        "gpu_stop",
        "cpu_start",
        "cpu_stop",
        "process_id",
        "thread_id",
        "device_id",
    ),
    *("grid_id", "block_id", "uses_tc", "read_only_ops_id", "op_instance", "num_bytes", "copy_kind", "name_id"),
    *("long_name_id", "op_type_id", "direction_id", "data_type_id", "x", "y", "z", "sync_type", "event_id"),
    *("input_shapes_id", "output_shapes_id", "parameters_id", "input_names_id", "output_names_id", "iter_value"),
)
_TEXTS = ("string", "op_id", "op_name", "stack_trace")


def probe(sample: Sample) -> Match | None:
    """MAGIC for a database with DLProf's tables of kernels and of instances of operators."""
    names = {name.casefold() for name in sample.tables or ()}
    if {_KERNELS, _OPS, "read_only_ops"} <= names:
        return Match(Score.MAGIC, f"is an SQLite database with {_KERNELS} and {_OPS} of DLProf")
    return None


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the events of the tables, one table after the other. Raises DamagedInput for an unreadable database."""
    with opened(source, conversion) as database:
        database.declare(whole=_WHOLE, texts=_TEXTS)
        tables = {name: name_in_file for name in (_OPS, *_CALLS, *_WORK) for name_in_file in database.like(name)[:1]}
        ids = first_ids(database, [(name_in_file, 2 if name in _WORK else 1) for name, name_in_file in tables.items()])
        reading = _Reading(database, conversion)
        for name, name_in_file in tables.items():
            yield from reading.table(name, name_in_file, ids[name_in_file])
        rows = RowBuilder(conversion, first_id=_after(database, ids))
        for add in (_iterations, _advice, _facts):
            add(database, rows, conversion.report)
        yield from rows.rest()
        for table in (name for name in database.tables if name.casefold() in _DERIVED):
            repeated = database.count(table)
            conversion.report.record(repeated)
            conversion.report.used(repeated, outcome="folded")
        database.report_others((*ids, *_REFERRED, *_DERIVED))


def _after(database: Database, ids: dict[str, FirstId]) -> int:
    """The first id after those of the last table."""
    table, (first, least, each) = list(ids.items())[-1]
    return first + each * (database.rowids(table)[1] - least + 1)


class _Reading:
    """What rows of all tables refer to."""

    def __init__(self, database: Database, conversion: Conversion) -> None:
        self._database = database
        self._conversion = conversion
        self._batches = BatchBuilder(conversion)
        named = {name: next(iter(database.like(name)), None) for name in _REFERRED[:3]}
        self._texts = Texts(database, named["dictionary"], "id", "string", conversion)
        columns = ["op_id", "op_name", "op_type_id", "direction_id", "data_type_id", "stack_trace"]
        ops, grids = named["read_only_ops"], named["read_only_grid_block"]
        self._ops = Lookup(database, ops, "id", columns) if ops else None
        self._grids = Lookup(database, grids, "id", ["x", "y", "z"]) if grids else None

    def table(self, table: str, name_in_file: str, ids: FirstId) -> Iterator[Batch]:
        """Yields the events of a table; `name_in_file` is its name as the database spells it."""
        start, stop = ("cpu_start", "cpu_stop") if table == _OPS else ("api_start", "api_stop")
        is_work = table in _WORK
        rows = _ROWS if is_work else self._conversion.batch_rows
        for block in self._database.blocks(name_in_file, rows):
            sound = timed(block, self._conversion, start, stop)
            sound = timed(sound, self._conversion, "gpu_start", "gpu_stop") if is_work else sound
            if not len(sound):
                continue
            sound.drop("id")
            place = {**sound.span(start, stop), "pid": sound.take("process_id"), "tid": sound.take("thread_id")}
            numbers = ids.of(sound.numbers)
            if is_work:
                yield from self._work(table, sound, numbers, place)
            elif table == _OPS:
                yield self._operators(sound, numbers, place)
            else:
                yield self._calls(sound, numbers, place)

    def _operators(self, block: Block, ids: Int64, place: dict[str, Any]) -> Batch:
        """Instances of operators."""
        op = self._op(block)
        shapes = ("input_shapes", "output_shapes", "parameters", "input_names", "output_names")
        args: dict[str, Any] = {
            f"args.{key}": _stripped(self._texts.column(block, block.take(f"{key}_id"))) for key in shapes
        }
        name = op.pop("op_name", None)
        return self._batches.events(
            block,
            ids,
            kind="op",
            name=name,
            short_name=op.pop("args.op_type", None),
            **place,
            **(args | op),
        )

    def _calls(self, block: Block, ids: Int64, place: dict[str, Any]) -> Batch:
        """Calls of CUDA's runtime, waits included."""
        name = self._called(block)
        op: dict[str, Any] = {"args.op_id": self._op(block).get("args.op_id")}
        block.drop("gpu_start", "gpu_stop", "op_instance", "device_id")
        return self._batches.events(block, ids, kind="api", name=name, **place, **op)

    def _called(self, block: Block) -> pa.DictionaryArray:
        """The names of calls, without their release."""
        return mapped_words(self._texts.column(block, block.take("name_id"), required=True), without_release)

    def _work(self, table: str, block: Block, ids: Int64, place: dict[str, Any]) -> Iterator[Batch]:
        """Work of the device, and the calls that started it."""
        called = "[launch of a kernel]" if table == _KERNELS else self._called(block)
        times = block.span("gpu_start", "gpu_stop")
        op = self._op(block)
        op.pop("args.stack_trace", None)
        columns: dict[str, Any] = {**times, "pid": place["pid"], "correlation": ids}
        columns["device"] = block.take("device_id")
        if table == _KERNELS:
            columns |= {"kind": "kernel", "name": self._texts.column(block, block.take("long_name_id"), required=True)}
            columns["short_name"] = self._texts.column(block, block.take("name_id"))
            columns |= self._extents(block)
        else:
            columns |= {"bytes": block.take("num_bytes")} | _named(table, block)
        op["args.op_name"] = op.pop("op_name", None)
        block.drop("op_instance")
        yield self._batches.events(block, ids, **columns, **op)
        yield self._batches.batch(
            "events", ids + 1, kind="api", name=called, timing="measured", correlation=ids, **place
        )

    def _op(self, block: Block) -> dict[str, Any]:
        """What is known of the operator of each row."""
        numbers = block.take("read_only_ops_id")
        op: dict[str, Any] = self._ops.get(numbers) if self._ops else {}
        if (stack := op.get("stack_trace")) is not None:
            op["stack_trace"] = pc.if_else(pc.equal(stack, ""), None, stack)
        for key in ("op_type", "direction", "data_type"):
            op[f"args.{key}"] = _stripped(self._texts.column(block, op.pop(f"{key}_id", None)))
        return {key if key == "op_name" or key.startswith("args.") else f"args.{key}": one for key, one in op.items()}

    def _extents(self, block: Block) -> dict[str, pa.Array]:
        """Grid and block."""
        columns = {}
        for key in ("grid", "block"):
            numbers = block.take(f"{key}_id")
            for axis, column in (self._grids.get(numbers) if self._grids else {}).items():
                columns[f"{key}_{axis}"] = column
        return columns


def _named(table: str, block: Block) -> dict[str, Any]:
    """The kind of copies and sets, and names as those of nvprof. The number of another way stays an argument."""
    if table == _SETS:
        return {"kind": "memset", "name": "[CUDA memset]"}
    kinds = block.or_nulls("copy_kind")
    block.drop("copy_kind")
    ways = pa.array([_WAYS.get(kind) for kind in kinds.to_pylist()], pa.string())
    names = pc.fill_null(pc.binary_join_element_wise("[CUDA memcpy ", ways, "]", ""), "[CUDA memcpy]")
    others = pc.if_else(ways.is_valid(), None, kinds)
    return {"kind": "memcpy", "name": names, "copy_kind": ways, "args.copy_kind": others}


def _stripped(column: pa.Array | None) -> pa.Array | None:
    """Texts without the line ends that DLProf leaves, null where nothing or `null` is left."""
    if column is None:
        return None
    words = pc.utf8_trim_whitespace(column.dictionary)
    words = pc.if_else(pc.is_in(words, pa.array(["", "null", '[""]'])), None, words)
    return pa.DictionaryArray.from_arrays(column.indices, words)


def _iterations(database: Database, rows: RowBuilder, report: Report) -> None:
    """The iterations of the first aggregation, as ranges."""
    seen = set()
    for number, start, stop in database.rows("iteration_list", "iter_value", "start_time", "stop_time"):
        report.record()
        begin, end = (as_int64(time, 0, (1 << 62) - 1) for time in (start, stop))
        if begin is None or end is None or end < begin or type(number) is not int:
            report.issue("bad-record", "iteration_list", f"iteration {number}: {start} to {stop}")
        elif number in seen:
            report.used(outcome="folded")
        else:
            seen.add(number)
            rows.event("range", f"iteration {number}", ts=begin, dur=end - begin, track="iterations")
            report.used()


def _advice(database: Database, rows: RowBuilder, report: Report) -> None:
    """What DLProf's expert systems say, as notes."""
    for problem, advice in database.rows("expert_systems_feedback", "problem", "recommendation"):
        report.record()
        report.used()
        place: dict[str, Any] = {"scope": ["expert systems"], "args": {"recommendation": str(advice)}}
        rows.summary("note", str(problem), metric="note", **place)


def _facts(database: Database, rows: RowBuilder, report: Report) -> None:
    """Devices, and versions."""
    columns = ("device_id", "gpu_name", "compute_capability_major", "compute_capability_minor", "sm_count")
    for device, name, major, minor, count in database.rows("read_only_gpu_infos", *columns):
        report.record()
        report.used(outcome="catalog")
        if as_int64(device) is not None:
            more = {"compute_capability": f"{major}.{minor}", "sm_count": count}
            rows.fact("device", device=device, name=str(name), facts={"api": "cuda"} | more)
    keys = ("framework", "cpu_model", "driver_version", "cuda_version", "cudnn_version", "nsys_version")
    for version, *values in database.rows("read_only_system_config", "dlprof_version", *keys)[:1]:
        members = {"version": version} | dict(zip(keys, values, strict=True))
        about = {key: value for key, value in members.items() if type(value) is str and value}
        rows.tool_and_clock("NVIDIA DLProf", "session", about)


FORMAT = Format(
    "dlprof-db",
    "NVIDIA DLProf database (dlprof_dldb.sqlite)",
    patterns=("dlprof_dldb*.sqlite",),
    probe=probe,
    read=read,
    database=True,
)
