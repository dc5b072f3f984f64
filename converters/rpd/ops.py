"""rocpd_op: the work of the GPU. Its process is that of its launch.

description "Cijk_Ailk..."  opType KernelExecution      kernel Cijk_Ailk...
description ""              opType CopyHostToDevice     memcpy CopyHostToDevice, HtoD
description ""              opType FillBuffer           memset
description "Cijk_Ailk..."  opType Task                 kernel: of a HIP graph
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.kit.columnar.blocks import Batches, Block, timed
from ktrace.kit.rocm.common import copy_kind, copy_kinds, executed, short_names, work_kind
from ktrace.kit.sqlite.database import Database
from ktrace.kit.sqlite.lookup import FirstId, Lookup
from ktrace.model.batch import Batch
from ktrace.model.json_text import encoded

from .launches import Details, Launches, arguments, links, nonempty, numbered, strings


class Ops:
    """The rows of rocpd_op."""

    def __init__(
        self, database: Database, table: str, ids: FirstId, launches: Launches, conversion: Conversion
    ) -> None:
        self._database = database
        self._table = table
        self._ids = ids
        self._launches = launches
        self._conversion = conversion
        self._texts = strings(database, conversion)
        self._details = [Details(database), Details(database, of="op")]
        calls = next(iter(database.like("rocpd_api")), None)
        self._calls = Lookup(database, calls, "id", ["pid", "apiName_id"]) if calls else None
        barriers = next(iter(database.like("rocpd_barrierop")), None)
        keys = ["signalCount", "aquireFence", "releaseFence"]
        self._barriers = Lookup(database, barriers, "op_ptr_id", keys) if barriers else None

    def read(self) -> Iterator[Batch]:
        """Yields all work, in the order of the table."""
        batches = Batches(self._conversion)
        for block in self._database.blocks(self._table, self._conversion.batch_rows):
            sound = timed(executed(block, self._conversion, "start", "end"), self._conversion, "start", "end")
            if len(sound):
                yield self._batch(batches, sound)

    def _batch(self, batches: Batches, block: Block) -> Batch:
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
        assert types is not None
        names = self._names(block, types, kernel)
        words = types.dictionary.to_pylist()
        ways = pa.array([copy_kind(word) for word in words], pa.string()).take(types.indices)
        kinds = pa.array([work_kind(word) or "range" for word in words], pa.string()).take(types.indices)
        described = copy_kinds(names)
        if described is not None:
            ways = pc.if_else(pc.equal(kinds, "memcpy"), pc.coalesce(ways, described), ways)
        if "copy_kind" in details:
            ways = pc.coalesce(ways, details["copy_kind"])
        details["copy_kind"] = ways
        more = self._barriers.get(op) if self._barriers else {}
        for key, column in arguments({**more, "completionSignal": block.take("completionSignal")}).items():
            details[key] = pc.coalesce(details[key], column) if key in details else column
        return batches.events(
            block,
            self._ids.of(block.numbers),
            kind=kinds,
            name=names,
            short_name=short_names(names),
            cat=types,
            ts=start,
            dur=pc.subtract(end, start),
            pid=called.get("pid"),
            device=block.take("gpuId"),
            stream=block.take("queueId"),
            correlation=call,
            **{name: details[name] for name in sorted(details) if details[name].null_count < len(block)},
        )

    def _names(self, block: Block, types: pa.DictionaryArray, kernel: pa.Array | None) -> pa.DictionaryArray:
        """The description, else the kernel in the call, else the type."""
        described = self._texts.column(block, block.take("description_id"))
        names = pa.nulls(len(block), pa.string()) if described is None else nonempty(described)
        if names.null_count and kernel is not None and kernel.null_count < len(kernel):
            called = self._texts.column(block, kernel)
            assert called is not None
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
