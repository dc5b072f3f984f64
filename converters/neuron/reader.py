"""Reads the tables of a profile, each in its own way, and the metrics of summaries.

Instruction            kernel on the track of its engine, by opcode
DmaPacket              memcpy on the track of its DMA engine
DmaPacketAggregated    range on the track of its queue, from the first packet to the last; memcpy without packets
CcOp                   kernel of a collective, its group as `comm`
SystemProfileEvents    calls of the runtime, and ranges of the framework, on threads; ranges of devices
Throttle, Error        range, message
...Usage, PendingDma, SemaphoreUpdate    counters
Summary                metrics (`metrics`)
ActiveTime             not read: the times of Instruction, merged
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.boundary import BadFiles
from ktrace.input.source import Source, file_in
from ktrace.kit.columnar.blocks import BatchBuilder, Block, timed
from ktrace.model.arrays import is_number
from ktrace.model.batch import Batch
from ktrace.model.masks import present
from ktrace.model.row_builder import RowBuilder
from ktrace.report import counted

from . import table_of
from .metrics import add_metrics, summaries

#: What Arrow raises for what it can't read; names of columns may be of any bytes.
_FAULTS = (pa.ArrowException, OSError, UnicodeDecodeError)

#: Tables that repeat others, or explain their fields.
_REPEATED = ("ActiveTime", "SchemaFields")


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the rows of a profile, one table after the other, or of a summary. Raises DamagedInput for other JSON."""
    if not source.is_folder:
        yield from summaries(source, conversion)
        return
    reading = _Reading(conversion, source)
    bad = BadFiles(conversion.report)
    for name in source.sample().listing or ():
        file, table = file_in(source, name), table_of(name)
        if table in _TABLES:
            yield from bad.left_out(file.path, reading.table(file, table))
        elif table not in _REPEATED:
            yield from bad.left_out(file.path, _left_out(file, table or name, conversion))
    bad.end()
    yield from reading.facts()


class _Reading:
    """The tables of one profile."""

    def __init__(self, conversion: Conversion, source: Source) -> None:
        self._conversion = conversion
        self._batches = BatchBuilder(conversion)
        self._metrics: list[dict[str, Any]] = []
        self._metadata: dict[str, Any] = {}
        self._cores: set[int] = set()
        tables = {table_of(name) for name in source.sample().listing or ()}
        self._has_packets = "DmaPacket" in tables

    def table(self, file: Source, table: str) -> Iterator[Batch]:
        """Yields the rows of a file."""
        for block in _blocks(file, table, self._conversion):
            self._conversion.report.record(len(block))
            yield from _TABLES[table](self, table, block)

    def timed(self, table: str, block: Block) -> Iterator[Batch]:
        """The rows of a table with starts and ends."""
        block = timed(block, self._conversion, "start_ts", "end_ts")
        if not len(block):
            return
        block.drop("duration_ns")
        times = block.span("start_ts", "end_ts")
        yield self._batches.events(block, self._batches.ids(len(block)), **times, **_COLUMNS[table](self, block))

    def instructions(self, block: Block) -> dict[str, Any]:
        """An instruction on the track that Neuron Explorer shows it on, else on that of its engine."""
        engine, track = block.get("engine"), block.take("timeline_track")
        track = engine if track is None else pc.coalesce(track, block.or_nulls("engine", pa.string()))
        return {"kind": "kernel", "name": block.take("opcode"), "track": track, "device": self._core(block)}

    def packets(self, block: Block) -> dict[str, Any]:
        """A packet of a transfer. Which engine executed it isn't always known."""
        engine = block.take("engine_idx")
        track = None if engine is None else pc.binary_join_element_wise("DMA engine", engine.cast(pa.string()), " ")
        name = block.get("variable")
        size = block.take("transfer_bytes")
        return {
            "kind": "memcpy",
            "name": _or(name, "DMA packet", len(block)),
            "track": _or(track, "DMA", len(block)),
            "device": self._core(block),
            "bytes": size,
        }

    def transfers(self, block: Block) -> dict[str, Any]:
        """The packets of one transfer together: work only where the packets themselves aren't there."""
        return {
            "kind": "range" if self._has_packets else "memcpy",
            "name": _or(block.get("variable"), "DMA", len(block)),
            "track": _or(block.take("queue_name"), "DMA", len(block)),
            "device": self._core(block),
            "bytes": block.take("transfer_bytes"),
        }

    def collectives(self, block: Block) -> dict[str, Any]:
        """An operation of the collective engines."""
        stream = block.get("stream_index")
        track = None if stream is None else pc.binary_join_element_wise("CC stream", stream.cast(pa.string()), " ")
        group, size = block.take("replica_group"), block.take("input_size")
        return {
            "kind": "kernel",
            "name": block.take("operation"),
            "track": _or(track, "CC", len(block)),
            "device": self._core(block),
            "comm": group,
            "bytes": size,
        }

    def system(self, block: Block) -> dict[str, Any]:
        """An event of the runtime, of the framework, or of a device."""
        source = block.take("trace_event_source")
        words = pa.nulls(len(block), pa.string()) if source is None else source.cast(pa.string())
        hardware = pc.fill_null(pc.equal(words, "neuron_hw"), False)
        runtime = pc.fill_null(pc.equal(words, "neuron_rt"), False)
        core = block.get("nc_idx")
        return {
            "kind": pc.if_else(runtime, "api", "range"),
            "name": block.take("name"),
            "cat": source,
            "host": block.take("instance_id"),
            "pid": block.take("process_id"),
            "tid": pc.if_else(hardware, None, block.or_nulls("thread_id")),
            "device": None if core is None else pc.if_else(hardware, core, None),
            "track": pc.if_else(hardware, "executions", None),
        }

    def throttles(self, _: str, block: Block) -> Iterator[Batch]:
        """When a core was held back, and by how much."""
        block = timed(block, self._conversion, "timestamp", dur="duration")
        if len(block):
            yield self._batches.events(
                block,
                self._batches.ids(len(block)),
                kind="range",
                name=_or(block.take("type"), "throttle", len(block)),
                track="throttle",
                ts=block.take("timestamp"),
                dur=block.take("duration"),
                device=self._core(block),
            )

    def errors(self, _: str, block: Block) -> Iterator[Batch]:
        """What the hardware notified of."""
        block = timed(block, self._conversion, "timestamp")
        if len(block):
            yield self._batches.events(
                block,
                self._batches.ids(len(block)),
                kind="log",
                name=_or(block.take("description"), "error", len(block)),
                cat=block.take("type"),
                track="errors",
                ts=block.take("timestamp"),
                device=self._core(block),
            )

    def counters(self, table: str, block: Block) -> Iterator[Batch]:
        """A counter for each column of numbers; a value that is null is none."""
        block = timed(block, self._conversion, "timestamp")
        self._conversion.report.used(len(block))
        place = {
            "ts": block.take("timestamp"),
            "device": self._core(block) if table not in _OF_HOSTS else None,
            "host": block.take("instance_id"),
            "track": block.take("cpu_id"),
        }
        block.drop("ultraserver_id", "ultraserver_instance_index")
        values = {name: block.or_nulls(name) for name in block.left() if is_number(block.or_nulls(name).type)}
        if not len(block) or not values:
            return
        ids = self._batches.ids(len(block), each=len(values))
        every = np.repeat(np.arange(len(block)), len(values))
        cells = pa.concat_arrays([column.cast(pa.float64()) for column in values.values()])
        value = cells.take(pa.array(np.arange(len(cells)).reshape(len(values), -1).T.reshape(-1)))
        kept = np.flatnonzero(present(value))
        units = [next((unit for end, unit in _COUNTED.items() if name.endswith(end)), None) for name in values]
        which = pa.array(np.tile(np.arange(len(values)), len(block))[kept])
        rows = pa.array(every[kept])
        yield self._batches.batch(
            "events",
            (ids[:, None] + np.arange(len(values))).reshape(-1)[kept],
            kind="counter",
            timing="measured",
            name=pa.array([f"{table} {name}" for name in values]).take(which),
            unit=pa.array(units, pa.string()).take(which),
            value=value.take(pa.array(kept)),
            **{key: None if column is None else column.take(rows) for key, column in place.items()},
        )

    def semaphores(self, _: str, block: Block) -> Iterator[Batch]:
        """The values of semaphores, each a counter."""
        block = timed(block, self._conversion, "timestamp")
        if len(block):
            value = block.take("value")
            yield self._batches.events(
                block,
                self._batches.ids(len(block)),
                kind="counter",
                name=_or(block.take("id"), "semaphore", len(block)),
                track="semaphores",
                ts=block.take("timestamp"),
                value=None if value is None else value.cast(pa.float64()),
                device=self._core(block),
            )

    def summary(self, _: str, block: Block) -> Iterator[Batch]:
        """The metrics of the whole profile."""
        self._metrics += _cells(block)
        self._conversion.report.used(len(block))
        yield from ()

    def warnings(self, _: str, block: Block) -> Iterator[Batch]:
        """What Neuron Explorer warned of."""
        for row in _cells(block):
            self._conversion.report.issue("capture-warning", str(row.get("category")), str(row.get("message")), 0)
        self._conversion.report.used(len(block), outcome="catalog")
        yield from ()

    def metadata(self, _: str, block: Block) -> Iterator[Batch]:
        """What is known of the profile and its device."""
        for row in _cells(block):
            self._metadata |= row
        self._conversion.report.used(len(block), outcome="catalog")
        yield from ()

    def facts(self) -> Iterator[Batch]:
        """Yields the metrics of the whole, and the catalog: the tool, the cores and what the metadata say of them."""
        rows, metadata = RowBuilder(self._conversion, first_id=int(self._batches.ids(1)[0])), self._metadata
        for metrics in self._metrics:
            add_metrics(metrics, rows, {})
        versions = {"version": metadata.get("explorer_version"), "run": metadata.get("profile_name")}
        rows.tool_and_clock("Neuron Explorer", "session", _present(versions))
        words = [f"{word} {metadata[key]}" for word, key in _PLACES.items() if metadata.get(key) is not None]
        facts = {key: value for key, value in metadata.items() if key not in ("explorer_version", "profile_name")}
        for core in sorted(self._cores):
            name = ", ".join(words) + (f" ({core})" if len(self._cores) > 1 else "") if words else f"NeuronCore {core}"
            rows.fact("device", device=core, name=name, facts={"vendor": "AWS", **facts})
        yield from rows.rest()

    def _core(self, block: Block) -> pa.Array:
        """The physical core within the logical one: 0 where only one is meant."""
        stated = block.take("pcore_idx")
        core = pa.array([0] * len(block), pa.int64()) if stated is None else pc.fill_null(stated.cast(pa.int64()), 0)
        self._cores.update(core.unique().to_pylist())
        return core


#: The columns of rows with starts and ends, by table.
_COLUMNS: dict[str, Callable[[_Reading, Block], dict[str, Any]]] = {
    "Instruction": _Reading.instructions,
    "DmaPacket": _Reading.packets,
    "DmaPacketAggregated": _Reading.transfers,
    "CcOp": _Reading.collectives,
    "SystemProfileEvents": _Reading.system,
}

#: Counters of hosts, and the units of counters by the end of their names.
_OF_HOSTS = ("CpuUsage", "HostMemUsage")
_COUNTED = {"_percent": "%", "_bytes": "B", "throughput": "B/s"}

_TABLES: dict[str, Callable[[_Reading, str, Block], Iterator[Batch]]] = {
    **dict.fromkeys(_COLUMNS, _Reading.timed),
    **dict.fromkeys(("DmaUsage", "HbmUsage", "PsumUsage", "SbufUsage", "PendingDma", *_OF_HOSTS), _Reading.counters),
    "Throttle": _Reading.throttles,
    "Error": _Reading.errors,
    "SemaphoreUpdate": _Reading.semaphores,
    "Summary": _Reading.summary,
    "Warning": _Reading.warnings,
    "Metadata": _Reading.metadata,
    "SystemProfileMetadata": _Reading.metadata,
}

#: What a core is called after.
_PLACES = {"NeuronDevice": "neuron_device_idx", "NeuronCore": "neuroncore_idx"}


def _blocks(file: Source, table: str, conversion: Conversion) -> Iterator[Block]:
    """Yields the rows of a Parquet file. Raises DamagedInput."""
    with file.local_path() as path:
        try:
            with pq.ParquetFile(path) as opened:
                first = 1
                for batch in opened.iter_batches(conversion.batch_rows) if opened.num_row_groups else ():
                    numbers = pa.array(range(first, first + len(batch)), pa.int64())
                    first += len(batch)
                    columns = dict(zip(batch.schema.names, map(_plain, batch.columns), strict=True))
                    yield Block(f"{table}, row", numbers, columns)
        except _FAULTS as error:
            raise DamagedInput(
                f"can't be read: {str(error).splitlines()[0]}",
                path=file.path,
                expected="a Parquet table of Neuron Explorer",
                remedy="make the profile again: neuron-explorer view --ingest-only",
            ) from None


def _plain(column: pa.Array) -> pa.Array:
    """A column of a type that rows have: integers, doubles, bools, and texts of anything else."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_dictionary(column.type):
        column = column.cast(kind)
    if pa.types.is_integer(kind):
        return column if kind == pa.uint64() else column.cast(pa.int64())
    if pa.types.is_floating(kind):
        return column.cast(pa.float64())
    if pa.types.is_boolean(kind):
        return column
    try:
        return column.cast(pa.large_binary()).cast(pa.string())  # Arrow believes texts that claim to be UTF-8
    except _FAULTS:
        return pa.array([None if value is None else _text(value) for value in _values(column)], pa.string())


def _values(column: pa.Array) -> list[Any]:
    is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    values: list[Any] = (column.cast(pa.large_binary()) if is_text else column).to_pylist()
    return values


def _text(value: Any) -> str:
    """A value as text: bytes as far as they are UTF-8, lists and objects as JSON."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return msgspec.json.encode(value, enc_hook=str).decode() if isinstance(value, (list, dict)) else str(value)


def _left_out(file: Source, table: str, conversion: Conversion) -> Iterator[Batch]:
    """Reports a table that isn't read, or a file that isn't one."""
    if not table_of(table + ".parquet") or not file.path.endswith(".parquet"):
        conversion.report.record()
        conversion.report.issue("unrecognised", file.path, "not a table of Neuron Explorer")
        return
    with file.local_path() as path:
        try:
            rows = pq.read_metadata(path).num_rows
        except _FAULTS as error:
            raise DamagedInput(f"can't be read: {str(error).splitlines()[0]}", path=file.path) from None
    if rows:
        conversion.report.record(rows)
        conversion.report.issue("unrecognised", table, f"a table of {counted(rows, 'row')}", rows)
    yield from ()


def _or(column: pa.Array | None, default: str, rows: int) -> pa.Array:
    """A column of texts: the default where there is none, or an empty one."""
    if column is None:
        return pa.repeat(pa.scalar(default), rows)
    texts = column.cast(pa.string())
    return pc.if_else(pc.fill_null(pc.equal(texts, ""), True), default, texts)


def _cells(block: Block) -> list[dict[str, Any]]:
    """The rows of a small table, without nulls."""
    columns = {name: column.to_pylist() for name in block.left() if (column := block.get(name)) is not None}
    return [_present({name: values[row] for name, values in columns.items()}) for row in range(len(block))]


def _present(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None and value != ""}
