"""The SQLite database of Ingero's eBPF agent (`ingero trace`, `ingero merge`): calls of CUDA beside the kernel's work.

    events            timestamp, pid, tid, source, op, duration, arg0, arg1, ret_code, stack_hash, cgroup_id, node, comm
    sources, ops      the names of the numbers in `source` and `op`
    event_aggregates  bucket (a minute), source, op, pid, count, stored, sum_dur, min_dur, max_dur   all that happened
    stack_traces      hash, frames (JSON, the innermost first)
    system_snapshots  timestamp, cpu_pct, mem_pct, mem_avail, swap_mb, load_avg
    causal_chains     detected_at, severity, summary, ...            what `ingero explain` says
    annotations       timestamp, labels (JSON), pid, span_start, span_end
    sessions, process_names, cgroup_metadata, cgroup_schedstat

A call of CUDA has the time of its start (bpf/cuda_trace.bpf.c, driver_trace.bpf.c, cuda_graph_trace.bpf.c); all else
that has a duration has the time of its end (host_trace.bpf.c, io_trace.bpf.c, net_trace.bpf.c).

    CUDA  cudaMemcpyAsync  timestamp 1000  duration 20  arg0 4096  arg1 1     api    ts 1000  bytes 4096  copy_kind HtoD
    HOST  sched_switch     timestamp 1000  duration 20                        range  ts 980: the thread was off the CPU
    HOST  sched_wakeup     timestamp 1000  duration 0                         instant
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.columnar.blocks import BatchBuilder, Block, timed
from ktrace.kit.ingero import BYTES, CALLS, COPIES, WAYS, frames
from ktrace.kit.sqlite import Database, opened
from ktrace.kit.sqlite.lookup import FirstId, Lookup, first_ids
from ktrace.model.arrays import is_number
from ktrace.model.batch import Batch
from ktrace.model.json_text import load_json
from ktrace.model.row_builder import RowBuilder

_OWN = frozenset(("timestamp", "pid", "tid", "source", "op", "duration", "gpu_id", "arg0", "arg1", "ret_code"))


def probe(sample: Sample) -> Match | None:
    """MAGIC for a table of events with Ingero's columns."""
    for name, columns in (sample.tables or {}).items():
        if name.casefold() == "events" and {column.casefold() for column in columns} >= _OWN:
            return Match(Score.MAGIC, "is an SQLite database with Ingero's table of events")
    return None


_CUDA, _HOST, _DRIVER, _IO, _TCP, _NET, _GRAPH = 1, 3, 4, 5, 6, 7, 8
_SOURCES = {_CUDA: "CUDA", _HOST: "HOST", _DRIVER: "DRIVER", _IO: "IO", _TCP: "TCP", _NET: "NET", _GRAPH: "CUDA_GRAPH"}
#: Names that the table of ops of no version has (pkg/events/types.go).
_OPS = {
    (_CUDA, 9): "cudaMemcpy2D",
    (_CUDA, 10): "cudaMemcpy2DAsync",
    (_CUDA, 11): "cudaMemcpyPeer",
    (_CUDA, 12): "cudaMemcpyPeerAsync",
    (_HOST, 20): "mm_page_alloc_summary",
    (_HOST, 21): "sched_switch_summary",
    (_GRAPH, 1): "graphBeginCapture",
    (_GRAPH, 2): "graphEndCapture",
    (_GRAPH, 3): "graphInstantiate",
    (_GRAPH, 4): "graphLaunch",
}
_WAYS = pa.array(WAYS)

_WHOLE = (
    *("timestamp", "pid", "tid", "source", "op", "duration", "gpu_id", "arg0", "arg1", "ret_code", "stack_hash"),
    *("cgroup_id", "rank", "local_rank", "world_size", "bucket", "count", "stored", "sum_dur", "min_dur", "max_dur"),
    *(
        "sum_arg0",
        "detected_at",
        "cuda_p99_us",
        "cuda_p50_us",
        "span_start",
        "span_end",
        "p99_off_cpu",
        "total_off_cpu",
    ),
    *("event_count", "window_start", "window_end", "mem_avail", "swap_mb"),
)
_TEXTS = (
    "node",
    "comm",
    "container_id",
    "cgroup_path",
    "pod_name",
    "namespace",
    "labels",
    "summary",
    "severity",
    "frames",
    "ips",
)
_COUNTERS = {"cpu_pct": "%", "mem_pct": "%", "mem_avail": "MB", "swap_mb": "MB", "load_avg": None}
_FACTS = ("stack_traces", "sessions", "process_names")
#: A column of `sessions` whose fact the model knows.
_SESSION = {"ingero_ver": "version"}
#: Tables that are looked up, that name numbers, or that repeat others.
_BESIDE = ("sources", "ops", "schema_info", "cgroup_metadata", "event_aggregates_5s")


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the rows of one table after the other. Raises DamagedInput for a database without events."""
    with opened(source, conversion) as database:
        database.declare(whole=_WHOLE, texts=_TEXTS)
        tables = {name: spelling for name in _READERS for spelling in database.like(name)[:1]}
        if "events" not in tables:
            raise DamagedInput("has no table of events", path=source.path, remedy="leave out --from")
        ids = first_ids(
            database, [(spelling, 5 if name == "system_snapshots" else 1) for name, spelling in tables.items()]
        )
        names = _Names(database)
        for name, spelling in tables.items():
            for block in database.blocks(spelling, conversion.batch_rows):
                yield from _READERS[name](block, ids[spelling], names, conversion)
        rows = RowBuilder(conversion, first_id=0)
        rows.tool_and_clock("Ingero", "unix")
        listed = [spelling for name in _FACTS for spelling in database.like(name)[:1]]
        for spelling in listed:
            for block in database.blocks(spelling, conversion.batch_rows):
                _add_facts(block, rows)
                conversion.report.used(len(block), outcome="catalog")
                yield from rows.ready()
        yield from rows.rest()
        beside = (spelling for name in _BESIDE for spelling in database.like(name))
        database.report_others((*tables.values(), *listed, *beside))


class _Names:
    """The names of sources and ops, and what is known of the containers of cgroups."""

    def __init__(self, database: Database) -> None:
        rows = database.rows("sources", "id", "name") if database.like("sources") else []
        self._sources = _SOURCES | {number: name for number, name in rows if isinstance(name, str)}
        rows = database.rows("ops", "source_id", "op_id", "name") if database.like("ops") else []
        self._ops = _OPS | {(source, op): name for source, op, name in rows if isinstance(name, str)}
        cgroups = database.like("cgroup_metadata")[:1]
        about = ["container_id", "pod_name", "namespace"]
        self._cgroups = Lookup(database, cgroups[0], "cgroup_id", about) if cgroups else None

    def of(self, source: int, op: int) -> str:
        """The name of an op."""
        return self._ops.get((source, op)) or f"{self.source(source)} op {op}"

    def source(self, source: int) -> str:
        """The name of a source."""
        return self._sources.get(source) or f"source {source}"

    def containers(self, cgroups: pa.Array) -> dict[str, pa.Array]:
        """The containers of cgroups, as arguments."""
        names = self._cgroups.get(cgroups) if self._cgroups else {}
        return {f"args.{name}": _other_than("", texts) for name, texts in names.items()}


class _Ops:
    """The source and op of each row, as the number of a pair of them."""

    def __init__(self, block: Block, names: _Names) -> None:
        pairs = np.stack([_numbers(block.take(name), len(block)) for name in ("source", "op")], axis=1)
        unique, self._at = np.unique(pairs, axis=0, return_inverse=True)
        self._at = self._at.reshape(-1)
        self.pairs = [(int(source), int(op)) for source, op in unique]
        self.names = self.words(lambda pair: names.of(*pair))
        self.sources = self.words(lambda pair: names.source(pair[0]))

    def words(self, word: Any) -> pa.DictionaryArray:
        """A text for each row, by its pair."""
        return pa.DictionaryArray.from_arrays(
            pa.array(self._at, pa.int32()), pa.array(map(word, self.pairs), pa.string())
        )

    def where(self, test: Any) -> pa.BooleanArray:
        """Whether the pair of each row passes a test."""
        return pa.array(np.array([bool(test(pair)) for pair in self.pairs], np.bool_)[self._at])


def _events(block: Block, ids: FirstId, names: _Names, conversion: Conversion) -> Iterator[Batch]:
    """The rows of `events`."""
    block = timed(block, conversion, "timestamp", dur="duration")
    if not len(block):
        return
    ops = _Ops(block, names)
    stamp, dur = block.or_nulls("timestamp"), pc.fill_null(block.or_nulls("duration"), 0)
    calls = ops.where(lambda pair: names.source(pair[0]).upper() in CALLS)
    ended = pc.and_(pc.invert(calls), pc.greater(dur, 0))
    kind = pc.if_else(calls, "api", pc.if_else(ended, "range", "instant"))
    first, second = block.or_nulls("arg0"), block.or_nulls("arg1")
    copied = ops.where(lambda pair: names.of(*pair) in COPIES)
    way = pc.if_else(pc.and_(copied, pc.and_(pc.greater_equal(second, 0), pc.less(second, 4))), second, None)
    in_first, in_second = (ops.where(lambda pair, at=at: BYTES.get(names.of(*pair)) == at) for at in (0, 1))
    size = pc.if_else(in_first, first, pc.if_else(in_second, second, None))
    cgroups = block.take("cgroup_id")
    columns: dict[str, Any] = {
        "args.arg0": _other_than(0, pc.if_else(in_first, None, first)),
        "args.arg1": _other_than(0, pc.if_else(pc.or_(in_second, way.is_valid()), None, second)),
        "args.stack": _texts(_other_than(0, block.take("stack_hash"))),
        **{f"args.{name}": _other_than(0, block.take(name)) for name in ("gpu_id", "ret_code")},
        "args.cgroup_id": _other_than(1, _other_than(0, cgroups)),
        "args.comm": _other_than("", block.take("comm")),
        **(names.containers(cgroups) if cgroups is not None else {}),
    }
    block.drop("id", "stack_ips", "timestamp", "duration", "arg0", "arg1")
    conversion.report.used(len(block))
    yield BatchBuilder(conversion).batch(
        "events",
        ids.of(block.numbers),
        kind=kind,
        name=ops.names,
        cat=ops.sources,
        ts=pc.if_else(ended, pc.subtract(stamp, dur), stamp),
        dur=pc.if_else(pc.equal(kind, "instant"), None, dur),
        timing=pc.if_else(ended, "derived", "measured"),
        track=pa.DictionaryArray.from_arrays(pc.if_else(calls, None, ops.sources.indices), ops.sources.dictionary),
        host=_other_than("", block.take("node")),
        pid=block.take("pid"),
        tid=block.take("tid"),
        bytes=size,
        copy_kind=_WAYS.take(way),
        **columns,
        **block.rest(),
    )


def _aggregates(block: Block, ids: FirstId, names: _Names, conversion: Conversion) -> Iterator[Batch]:
    """The rows of `event_aggregates`: all that happened in a minute, stored or not."""
    ops = _Ops(block, names)
    count, total = block.or_nulls("count"), block.or_nulls("sum_dur")
    if left := pc.sum(pc.subtract(count, block.or_nulls("stored"))).as_py():
        conversion.report.issue("not-stored", block.where(0), f"{left:,} in a block of {len(block):,} rows")
    has_times = pc.fill_null(pc.greater(total, 0), False)
    calls = ops.where(lambda pair: names.source(pair[0]).upper() in CALLS)
    statistics = {"total": "sum_dur", "min": "min_dur", "max": "max_dur"}
    figures: dict[str, Any] = {
        name: pc.if_else(has_times, block.or_nulls(column), None) for name, column in statistics.items()
    }
    figures["args.sum_arg0"] = _other_than(0, block.take("sum_arg0"))
    block.drop("count", *statistics.values())
    yield BatchBuilder(conversion).summaries(
        block,
        ids.of(block.numbers),
        kind=pc.if_else(calls, "api", pc.if_else(has_times, "range", "instant")),
        name=ops.names,
        cat=ops.sources,
        metric=pc.if_else(has_times, "duration", "count"),
        unit=pc.if_else(has_times, "ns", "count"),
        table=0,
        pid=_other_than(0, block.take("pid")),
        count=count,
        **figures,
    )


def _snapshots(block: Block, ids: FirstId, _: _Names, conversion: Conversion) -> Iterator[Batch]:
    """The rows of `system_snapshots`: five counters each."""
    block = timed(block, conversion, "timestamp")
    conversion.report.used(len(block))
    values = {name: block.or_nulls(name) for name in _COUNTERS}
    numbers = {name: value for name, value in values.items() if is_number(value.type)}
    if not numbers:
        return
    rows = pa.table(
        {
            "id": np.concatenate([ids.of(block.numbers) + list(_COUNTERS).index(name) for name in numbers]),
            "ts": pa.concat_arrays([block.or_nulls("timestamp")] * len(numbers)),
            "name": [name for name in numbers for _ in range(len(block))],
            "unit": pa.array([_COUNTERS[name] for name in numbers for _ in range(len(block))], pa.string()),
            "value": pa.concat_arrays([value.cast(pa.float64()) for value in numbers.values()]),
        }
    )
    rows = rows.filter(rows["value"].is_valid()).sort_by("id").combine_chunks()
    if len(rows):
        columns = {name: rows[name].chunk(0) for name in ("ts", "name", "unit", "value")}
        snapshot_ids = rows["id"].to_numpy()
        yield BatchBuilder(conversion).batch("events", snapshot_ids, kind="counter", timing="measured", **columns)


def _chains(block: Block, ids: FirstId, _: _Names, conversion: Conversion) -> Iterator[Batch]:
    """The rows of `causal_chains`: what Ingero found, as messages."""
    block = timed(block, conversion, "detected_at")
    if len(block):
        yield BatchBuilder(conversion).events(
            block,
            ids.of(block.numbers),
            kind="log",
            cat=block.take("severity"),
            name=block.take("summary"),
            ts=block.take("detected_at"),
            host=_other_than("", block.take("node")),
            track="causal chains",
        )


def _annotations(block: Block, ids: FirstId, _: _Names, conversion: Conversion) -> Iterator[Batch]:
    """The rows of `annotations`: what a program said of itself, spans or instants."""
    block = timed(block, conversion, "timestamp")
    if not len(block):
        return
    start, end = (pc.fill_null(block.or_nulls(name), 0) for name in ("span_start", "span_end"))
    spans = pc.and_(pc.greater(start, 0), pc.greater_equal(end, start))
    block.drop("id", "span_start", "span_end")
    yield BatchBuilder(conversion).events(
        block,
        ids.of(block.numbers),
        kind=pc.if_else(spans, "range", "instant"),
        name=block.take("labels"),
        track="annotations",
        ts=pc.if_else(spans, start, block.take("timestamp")),
        dur=pc.if_else(spans, pc.subtract(end, start), None),
        pid=_other_than(0, block.take("pid")),
    )


def _waits(block: Block, ids: FirstId, names: _Names, conversion: Conversion) -> Iterator[Batch]:
    """The rows of `cgroup_schedstat`: how long the threads of a cgroup were off the CPU."""
    columns = {"total": "total_off_cpu", "p99": "p99_off_cpu", "count": "event_count"}
    cgroups = block.get("cgroup_id")
    yield BatchBuilder(conversion).summaries(
        block,
        ids.of(block.numbers),
        kind="metric",
        name="off CPU",
        metric="off-CPU time",
        unit="ns",
        table=1,
        **{name: block.take(spelling) for name, spelling in columns.items()},
        **(names.containers(cgroups) if cgroups is not None else {}),
    )


def _add_facts(block: Block, rows: RowBuilder) -> None:
    """Adds the rows of `stack_traces`, `sessions` or `process_names`."""
    cells = {name: column.to_pylist() for name in block.left() if (column := block.get(name)) is not None}
    for row in range(len(block)):
        facts = {name: values[row] for name, values in cells.items() if values[row] not in (None, "")}
        if "hash" in facts:
            rows.fact("stack", name=str(facts["hash"]), facts=_frames(facts))
        elif "started_at" in facts:
            rows.fact(
                "source", facts={_SESSION.get(name, name): value for name, value in facts.items() if name != "id"}
            )
        else:
            rows.fact("process", pid=facts.get("pid"), name=facts.get("name"))


def _frames(row: dict[str, Any]) -> dict[str, Any]:
    """The frames of a stack; none if they aren't JSON."""
    try:
        return frames(load_json(row.get("frames") or row.get("ips") or "[]"))
    except (ValueError, RecursionError):
        return {}


_READERS = {
    "events": _events,
    "event_aggregates": _aggregates,
    "system_snapshots": _snapshots,
    "causal_chains": _chains,
    "annotations": _annotations,
    "cgroup_schedstat": _waits,
}


def _numbers(column: pa.Array | None, rows: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The numbers of a column, -1 for nulls and a column that isn't there."""
    return np.full(rows, -1, np.int64) if column is None else pc.fill_null(column, -1).to_numpy(zero_copy_only=False)


def _other_than(value: int | str, column: pa.Array | None) -> pa.Array | None:
    """The column with nulls for a value that means nothing."""
    return None if column is None else pc.if_else(pc.equal(column, value), None, column)


def _texts(column: pa.Array | None) -> pa.Array | None:
    return None if column is None else column.cast(pa.string())


FORMAT = Format(
    "ingero",
    "Ingero's database: CUDA calls beside scheduling, I/O and network, by eBPF",
    patterns=("*.db",),
    probe=probe,
    read=read,
    database=True,
)
