"""Reads rocprofv3's JSON in one pass if the tables that records refer to precede them, else in two.

The records of each list become rows:

kernel_dispatch     kernel              memory_copy         memcpy
hip_api, hsa_api    api                 memory_allocation   alloc
marker_api          range, instant      counter_collection  kernel and counters
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.source import Source
from ktrace.kit.columnar.blocks import BatchBuilder, Block, nonzero, timed
from ktrace.kit.columnar.dictionaries import by_distinct, constant
from ktrace.kit.rocm.common import copy_kind, executed, launch, short_name
from ktrace.kit.trace_json.chunks import Text
from ktrace.model.arrays import Int64
from ktrace.model.batch import Batch
from ktrace.model.fitting import whole_text
from ktrace.model.row_builder import RowBuilder
from ktrace.report import Report

from .counters import COUNTERS, Counters
from .record_columns import Records, block_of
from .tool import NEEDED, Tool
from .walk import Member, Walk


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the rows of all records. Raises DamagedInput for another document."""
    batches, rows = BatchBuilder(conversion), RowBuilder(conversion, first_id=0)
    rows.fact("clock", facts={"kind": "boottime"})
    tools: dict[int, Tool] = {}
    readers: dict[int, _Reader] = {}
    with source.open() as stream:
        for item in Walk(Text(stream), conversion.report, source.path):
            tool = tools.setdefault(item.entry, Tool())
            if isinstance(item, Member):
                if item.entry not in readers and (wrong := tool.add(item.path, item.text)):
                    conversion.report.issue("bad-record", f"entry {item.entry}", wrong, 0)
                continue
            if item.entry not in readers:
                counters_first = ("callback_records",) in tool.known
                if not tool.known.issuperset(NEEDED):
                    _look_ahead(source, item.entry, tool)
                readers[item.entry] = _Reader(tool, batches, conversion, counters_first=counters_first)
            yield from readers[item.entry].read(item)
    if not tools:
        raise DamagedInput(
            "it contains no entry",
            path=source.path,
            expected='an object with "rocprofiler-sdk-tool"',
            remedy="export it again with rocprofv3 --output-format json",
        )
    for reader in readers.values():
        yield from reader.rest()
    for tool in tools.values():
        tool.facts(rows)
    yield from rows.rest()


def _look_ahead(source: Source, entry: int, tool: Tool) -> None:
    """Reads all members of an entry, including those after the records."""
    with source.open(quiet=True) as stream:
        for item in Walk(Text(stream), Report(), source.path, members_only=True):
            if isinstance(item, Member) and item.entry == entry:
                tool.add(item.path, item.text)


Columns = dict[str, Any]

_APIS = ("api", "kfd", "ompt", "hip_graph", "rccl")


class _Reader:
    """Makes rows from the records of one entry."""

    def __init__(self, tool: Tool, batches: BatchBuilder, conversion: Conversion, *, counters_first: bool) -> None:
        self._tool = tool
        self._batches = batches
        self._conversion = conversion
        self._counters = Counters(tool, batches, conversion, first=counters_first)

    def read(self, records: Records) -> Iterator[Batch]:
        """Yields the rows of some records, in batches of the usual size."""
        name = records.path[-1]
        if name in COUNTERS:
            self._counters.read(records)
            return
        block = block_of(records)
        for start in range(0, len(block), self._conversion.batch_rows):
            part = self.sound(block.slice(start, self._conversion.batch_rows))
            if len(part):
                yield self._batch(name, part)

    def rest(self) -> Iterator[Batch]:
        """Yields the counters, and the kernels that only they know."""
        return self._counters.rest(self.sound, self.kernels)

    def sound(self, block: Block) -> Block:
        """Returns the records with valid times; reports the others."""
        if block.get("start_timestamp") is not None:
            ran = executed(block, self._conversion, "start_timestamp", "end_timestamp")
            return timed(ran, self._conversion, "start_timestamp", "end_timestamp")
        if block.get("timestamp") is not None:
            return timed(block, self._conversion, "timestamp")
        self._conversion.report.issue("unrecognised", block.where(0), "records without a time", len(block))
        return block.slice(0, 0)

    def kernels(self, block: Block, ids: Int64) -> Batch:
        """Returns dispatches as kernels with these ids."""
        columns = self._common(block) | self._kernel(block)
        self._counters.remember(block, ids, columns)
        return self._batches.events(block, ids, **columns)

    def _batch(self, name: str, block: Block) -> Batch:
        ids = self._batches.ids(len(block))
        if name == "kernel_dispatch":
            return self.kernels(block, ids)
        makers: dict[str, Callable[[Block], Columns]] = {
            "memory_copy": self._copy,
            "memory_allocation": self._allocation,
            "scratch_memory": self._allocation,
        }
        columns = self._common(block) | makers.get(name, self._host)(block)
        for agent in ("agent_id", "src_agent_id", "dst_agent_id"):
            handles = block.take(agent) if block.is_left(agent) else None
            if handles is not None:
                columns[f"args.{agent}"] = mapped(handles, self._tool.device, pa.int64())
        columns.setdefault("kind", "api" if any(word in name for word in _APIS) else "range")
        if name == "marker_api":
            point = pc.equal(columns["dur"], 0)
            columns["kind"] = pc.if_else(point, "instant", "range")
            columns["dur"] = pc.if_else(point, None, columns["dur"])
        elif columns.get("dur") is None:
            columns["kind"] = "instant"
        return self._batches.events(block, ids, **columns)

    def _common(self, block: Block) -> Columns:
        """Time, process, category, correlation: columns that records of all kinds have."""
        start, end = block.take("start_timestamp"), block.take("end_timestamp")
        kind = block.take("kind")
        if start is None:
            start, end = block.take("timestamp"), None
        inner = whole(block, "correlation_id.internal", "correlation_id")
        outer = whole(block, "correlation_id.external", "correlation_id.external.value")
        ancestor = whole(block, "correlation_id.ancestor")
        return {
            "ts": start,
            "dur": None if end is None else pc.subtract(end, start),
            "host": self._tool.host,
            "pid": self._tool.pid,
            "cat": None if kind is None else mapped(kind, self._tool.category, pa.string()),
            "correlation": nonzero(inner),
            "external_id": nonzero(outer),
            "args.correlation_id.ancestor": nonzero(ancestor),
        }

    def _named(self, block: Block, kind: pa.Array | None) -> pa.Array:
        """The names of operations; an operation without a name gets its number and is reported."""
        operation = block.take("operation")
        if operation is None or kind is None:
            return constant("[no name]", len(block))
        by_place: dict[tuple[Any, Any], str] = {}
        lost: dict[str, list[int]] = {}
        names = []
        for row, key in enumerate(zip(kind.to_pylist(), operation.to_pylist(), strict=True)):
            if key not in by_place:
                by_place[key] = self._tool.operation(*key) or f"[operation {key[1]} of kind {key[0]}]"
            if by_place[key].startswith("[operation"):
                lost.setdefault(by_place[key], []).append(row)
            names.append(by_place[key])
        for word, rows in lost.items():
            self._conversion.report.issue("missing-string", block.where(rows[0]), word, len(rows))
        return pa.array(names, pa.string()).dictionary_encode()

    def _place(self, block: Block) -> Columns:
        """Device, stream (else queue) and thread of work."""
        agent, queue, stream = (block.take(name) for name in ("agent_id", "queue_id", "stream_id"))
        columns: Columns = {
            "device": None if agent is None else mapped(agent, self._tool.device, pa.int64()),
            "args.thread_id": block.take("thread_id"),
        }
        if stream is not None and pa.types.is_int64(stream.type):
            columns |= {"stream": stream, "args.queue_id": queue}
        else:
            columns["stream"] = queue if queue is not None and pa.types.is_int64(queue.type) else None
        return columns

    def _kernel(self, block: Block) -> Columns:
        block.drop("operation")
        return self._place(block) | launch(block) | self._symbol(block) | {"kind": "kernel"}

    def _symbol(self, block: Block) -> Columns:
        """Columns from the kernel's symbol: names and registers."""
        numbers = block.take("kernel_id")
        if numbers is None:
            return {"name": "[no name]"}
        coded = numbers.dictionary_encode("encode")  # a missing number is a kernel, too
        symbols, names = [], []
        for code, number in enumerate(coded.dictionary.to_pylist()):
            symbol = self._tool.symbols.get(number, {})
            keys = ("formatted_kernel_name", "demangled_kernel_name", "kernel_name")
            name = next((symbol[key] for key in keys if symbol.get(key)), None)
            if name is None:
                name = "[no name]" if number is None else f"[kernel {number}]"
                lost = pc.equal(coded.indices, code)
                where = block.where(pc.index(lost, True).as_py())
                self._conversion.report.issue("missing-string", where, name, lost.true_count)
            symbols.append(symbol)
            names.append(str(name))
        columns: Columns = {
            "name": pa.DictionaryArray.from_arrays(coded.indices, pa.array(names, pa.string())),
            "short_name": pa.array(
                [_short(name, symbol) for name, symbol in zip(names, symbols, strict=True)], pa.string()
            ).take(coded.indices),
        }
        for key, to in (("arch_vgpr_count", "registers"), ("sgpr_count", ""), ("accum_vgpr_count", "")):
            values = [_small(symbol.get(key)) for symbol in symbols]
            columns[to or f"args.{key}"] = pa.array(values, pa.int64()).take(coded.indices)
        return columns

    def _copy(self, block: Block) -> Columns:
        tool = self._tool
        names = self._named(block, block.get("kind"))
        to, of = block.take("dst_agent_id"), block.take("src_agent_id")
        columns = self._place(block) | {"kind": "memcpy", "name": names, "bytes": whole(block, "bytes")}
        columns["copy_kind"] = by_distinct(names, copy_kind, pa.string())
        if to is None or of is None:
            end = of if to is None else to
            columns["device"] = None if end is None else mapped(end, tool.device, pa.int64())
        else:
            ends = zip(to.to_pylist(), of.to_pylist(), strict=True)
            shown = [target if tool.is_gpu(target) else source for target, source in ends]
            columns["device"] = pa.array([tool.device(handle) for handle in shown], pa.int64())
            columns["args.src_agent"] = mapped(of, tool.device, pa.int64())
            columns["args.dst_agent"] = mapped(to, tool.device, pa.int64())
        return columns

    def _allocation(self, block: Block) -> Columns:
        names = self._named(block, block.get("kind"))
        place = self._place(block)
        place["tid"] = place.pop("args.thread_id")
        size = whole(block, "allocation_size", "size")
        freed = by_distinct(names, lambda word: "FREE" in word, pa.bool_())
        if size is not None:
            size = pc.if_else(freed, pc.negate(size), size)
        return place | {"kind": "alloc", "name": names, "bytes": size}

    def _host(self, block: Block) -> Columns:
        """A call, or a marker, whose name is its message."""
        columns: Columns = {"name": self._named(block, block.get("kind")), "tid": whole(block, "thread_id")}
        messages = self._tool.messages
        inner = block.get("correlation_id.internal")
        if "marker" in block.place and messages and inner is not None:
            texts = pa.array([messages.get(number) or None for number in inner.to_pylist()], pa.string())
            columns["args.function"] = pc.if_else(texts.is_valid(), columns["name"].dictionary_decode(), None)
            columns["name"] = pc.coalesce(texts, columns["name"].dictionary_decode())
        return columns


def _short(name: str, symbol: dict[str, Any]) -> str | None:
    short = symbol.get("truncated_kernel_name")
    return short if isinstance(short, str) and short and short != name else short_name(name)


def _small(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 31 else None


def whole(block: Block, *names: str) -> pa.Array | None:
    """Takes the first of these columns with whole numbers."""
    for name in names:
        column = block.get(name)
        if column is not None and pa.types.is_int64(column.type):
            return block.take(name)
    return None


def mapped(column: pa.Array, value: Callable[[Any], Any], kind: pa.DataType) -> pa.Array:
    """The value of each cell, texts without halves of surrogate pairs."""
    return by_distinct(column, lambda cell: whole_text(value(cell)), kind)
