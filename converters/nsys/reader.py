"""Reads a database of Nsight Systems table by table, and for `ktrace info` its schema, warnings and tables with rows.

These tables are read here:

timestamp 1304324594  timestampType 1  source 1  severity 2  text "CUDA device 0: Unified Memory cannot be ..."
OSRT_FILE_ACCESS_DESCRIPTORS  fileAccessId 3  processId 4242  filePath /data/a.bin
OSRT_FILE_ACCESS_EVENTS       fileAccessId 3  threadId 4243  startedAt 10  endedAt 25  eventType 2  bytesProcessed 4096

The profiler's messages about its capture are log events; warnings and errors go to the report, too. Accesses to files
are opening, reading, writing. Memory of the device is allocations with running totals, pools, faults of unified memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.source import Source
from ktrace.kit.columnar.blocks import BatchBuilder
from ktrace.kit.columnar.dictionaries import constant, mapped_words
from ktrace.kit.sqlite import opened
from ktrace.kit.sqlite.lookup import Texts
from ktrace.model.arrays import Int64
from ktrace.model.batch import Batch
from ktrace.model.json_text import dump_json
from ktrace.model.row_builder import to_batch
from ktrace.report import Report

from . import calls, device_work, facts, generic, sampling
from .calls import rule_of
from .device_work import Waits
from .facts import rows_like
from .nvtx import Nvtx
from .origins import GraphNodes, Stacks
from .reading import Enums, ExportReader, NsysTracks
from .typed_columns import NO_NAME, filled

_CUPTI = "CUPTI_ACTIVITY_KIND_"

#: Tables that describe the rows of others: their rows are names, facts, frames.
_NAMES = (
    r"StringIds|ENUM_\w+|\w+_CALLCHAINS|UnwindMethodType|GENERIC_EVENT_TYPE_FIELDS|META_DATA_\w+|EXPORT_META_DATA|ANALYSIS_DETAILS|PROCESSES|"
    r"ProcessStreams|ThreadNames|MPI_RANKS|TARGET_INFO_(SYSTEM_ENV|SESSION_START_TIME|GPU|CUDA_DEVICE|CUDA_STREAM|"
    r"CUDA_CONTEXT_INFO|CUDA_NULL_STREAM|NVTX_CUDA_\w+|\w*METRICS?)"
)

#: Tables that identify a database of Nsight Systems, as the tables above do.
_EVENTS = (rf"{_CUPTI}\w+", "NVTX_EVENTS", "OSRT_API", "GPU_METRICS")

_TIMES = {"start", "timestamp", "rawtimestamp"}

#: Tables of names whose times aren't those of events.
_TIMELESS = "MPI_COMMUNICATORS|NVTXT_META_EVENTS"

#: Tables that only describe other tables.
_STRUCTURE = "UnwindMethodType|GENERIC_EVENT_TYPE_FIELDS"

#: Table of events -> the table that is read together with it.
_WITH_EVENTS = {"OSRT_FILE_ACCESS_EVENTS": "OSRT_FILE_ACCESS_DESCRIPTORS", "GENERIC_EVENTS": "GENERIC_EVENT_DATA"}


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields all rows of all tables. Raises DamagedInput, with table and row, if the database can't be read."""
    with opened(source, conversion) as database:
        if not any(database.like(pattern) for pattern in (*_EVENTS, _NAMES)):
            raise DamagedInput(
                "has no table of Nsight Systems",
                path=source.path,
                expected=f"a database with {_CUPTI}KERNEL, NVTX_EVENTS or the like",
                remedy="nsys export --type sqlite -o run.sqlite run.nsys-rep",
            )
        table_of_strings = next(iter(database.like("StringIds")), None)
        for block in database.blocks(table_of_strings, conversion.batch_rows) if table_of_strings else ():
            conversion.report.used(len(block), outcome="structure")
        strings = Texts(database, table_of_strings, "id", "value", conversion)
        reading = ExportReader(
            database,
            conversion,
            source.path,
            strings,
            Enums(database, conversion),
            NsysTracks(database),
            BatchBuilder(conversion),
            Stacks(database, conversion, strings),
            GraphNodes(database, conversion, strings),
        )
        yield from _catalog(reading, chain(facts.session(reading), facts.devices(reading)))
        yield from _events(reading)


def _events(reading: ExportReader) -> Iterator[Batch]:
    """Yields the rows of tables of events, then the catalog rows that depend on them."""
    database = reading.database
    waits = Waits(database, reading.batches)
    ranges = {table: Nvtx(reading, table) for table in database.like("NVTXT?_EVENTS")}
    named = {number: name for nvtx in ranges.values() for number, name in nvtx.threads.items()}
    threads = facts.thread_names(reading, named)
    readers: dict[str, Any] = {
        rf"{_CUPTI}RUNTIME|{_CUPTI}DRIVER": partial(calls.runtime, waits=waits),
        rf"{_CUPTI}(CONCURRENT_)?KERNEL": device_work.kernels,
        rf"{_CUPTI}MEMCPY2?": device_work.copies,
        rf"{_CUPTI}MEMSET": device_work.sets,
        rf"{_CUPTI}GRAPH_TRACE": device_work.graphs,
        rf"{_CUPTI}SYNCHRONIZATION": partial(device_work.synchronisations, waits=waits),
        rf"{_CUPTI}CUDA_EVENT": partial(device_work.event_records, waits=waits),
        "CUDA_GPU_MEMORY_USAGE_EVENTS": usage,
        "CUDA_GPU_MEMORY_POOL_EVENTS": pools,
        "CUDA_UM_CPU_PAGE_FAULT_EVENTS": partial(page_faults, name="CPU page fault"),
        "CUDA_UM_GPU_PAGE_FAULT_EVENTS": partial(page_faults, name="GPU page faults"),
        "GPU_METRICS|SOC_METRICS": sampling.gpu_metrics,
        "NET_NIC_METRIC|NET_IB_SWITCH_METRIC": partial(
            sampling.sampled, info="TARGET_INFO_NETWORK_METRICS", keys=("metricsListId", "metricsIdx")
        ),
        r"PERF_EVENT_(\w+_)?RAW_EVENT": partial(sampling.sampled, info="TARGET_INFO_PERF_METRIC", keys=("", "eventId")),
        r"PERF_EVENT_(\w+_)?METRIC_EVENT": partial(
            sampling.sampled, info="TARGET_INFO_PERF_METRIC", keys=("", "metricId")
        ),
        "SCHED_EVENTS": partial(sampling.scheduling, names=threads),
        "COMPOSITE_EVENTS": sampling.samples,
        "GENERIC_EVENTS|ETW_EVENTS": generic.events,
        "OSRT_FILE_ACCESS_EVENTS": accesses,
        "DIAGNOSTIC_EVENT": messages,
    }
    done: set[str] = set(database.like(_NAMES))
    for pattern, reader in readers.items():
        for table in database.like(pattern):
            done.add(table)
            yield from reader(reading, table)
    for table, nvtx in ranges.items():
        done.add(table)
        yield from nvtx.batches()
    done.update(
        table for events, part in _WITH_EVENTS.items() if database.like(events) for table in database.like(part)
    )
    remaining = [table for table in database.tables if table not in done]
    names = database.like(_TIMELESS)
    timeless = [t for t in remaining if t in names or not _TIMES & set(map(str.casefold, database.tables[t]))]
    for table in remaining:
        if table not in timeless and database.count(table):
            yield from calls.calls(reading, table, rule_of(table))
    yield from _descriptions(reading, threads, timeless)


def _descriptions(reading: ExportReader, threads: dict[int, str], timeless: list[str]) -> Iterator[Batch]:
    """Yields the catalog rows about processes, threads, streams and others that have rows."""
    rows = (
        facts.contexts_and_streams(reading),
        facts.processes(reading, threads),
        facts.threads(reading, threads),
        facts.cores(reading),
        facts.metrics(reading),
        reading.stacks.facts(),
        facts.others(reading, timeless),
    )
    yield from _catalog(reading, chain.from_iterable(rows))
    for table in reading.database.like(_STRUCTURE):
        count = reading.database.count(table)
        reading.conversion.report.record(count)
        reading.conversion.report.used(count, outcome="structure")


def _catalog(reading: ExportReader, rows: Iterable[dict[str, Any]]) -> Iterator[Batch]:
    """Yields facts as batches."""
    pending: list[dict[str, Any]] = []
    for row in rows:
        cells = {name: value for name, value in row.items() if value is not None}
        cells["facts"] = dump_json(cells["facts"]) if cells.get("facts") else None
        (number,) = reading.batches.ids(1).tolist()
        pending.append({"source": reading.conversion.label, "id": number, **cells})
        if len(pending) >= reading.conversion.batch_rows:
            yield to_batch("catalog", pending)
            pending = []
    if pending:
        yield to_batch("catalog", pending)


_ENUMS = {
    "severity": "DIAGNOSTIC_SEVERITY_LEVEL",
    "source": "DIAGNOSTIC_SOURCE_TYPE",
    "timestampType": "DIAGNOSTIC_TIMESTAMP_SOURCE",
}

#: Warning, error.
_ALARMING = (2, 3)


def messages(reading: ExportReader, table: str) -> Iterator[Batch]:
    """Yields a log event for each row."""
    for block, ids in reading.timed(table, "timestamp"):
        ts, text, severity = block.take("timestamp"), block.take("text"), block.get("severity")
        names = pa.repeat(pa.scalar(NO_NAME), len(block)) if text is None else pc.fill_null(text, NO_NAME)
        if severity is not None:
            alarming = pc.fill_null(pc.is_in(severity, pa.array(_ALARMING)), False).to_pylist()
            for row, (alarm, message) in enumerate(zip(alarming, names.to_pylist(), strict=True)):
                if alarm:
                    reading.conversion.report.issue("capture-warning", block.where(row), message)
        pid = reading.places.process(block).get("pid")
        columns = {
            f"args.{name}": reading.enums.column(enum, numbers)
            for name, enum in _ENUMS.items()
            if (numbers := block.take(name)) is not None
        }
        if pid is not None:  # 0 is the profiler itself
            columns["pid"] = pc.if_else(pc.equal(pid, 0), None, pid)
        yield reading.batches.events(block, ids, kind="log", name=names, ts=ts, track="profiler", **columns)


_WORDS = {"eventType": "OSRT_FILE_ACCESS_EVENT_TYPE"}


def accesses(reading: ExportReader, table: str) -> Iterator[Batch]:
    """Yields a call for each row, with the path of its file."""
    processes = {
        row["fileAccessId"]: row
        for row in rows_like(reading, "OSRT_FILE_ACCESS_DESCRIPTORS")
        if isinstance(row.get("fileAccessId"), int)
    }
    for block, ids in reading.timed(table, "startedAt", end="endedAt"):
        columns: dict[str, Any] = {"kind": "api", "tid": block.take("threadId"), "cat": "file"}
        columns |= block.span("startedAt", "endedAt")
        file = block.get("fileAccessId")
        if file is not None:
            encoded = pc.fill_null(file, -1).dictionary_encode()
            files = [processes.get(number, {}) for number in encoded.dictionary.to_pylist()]
            pids = [pid if isinstance(pid := row.get("processId"), int) else None for row in files]
            columns["pid"] = pa.array(pids, pa.int64()).take(encoded.indices)
            paths = pa.array([row.get("filePath") for row in files], pa.string())
            columns["args.filePath"] = pa.DictionaryArray.from_arrays(encoded.indices, paths)
        columns |= reading.name(block, "apiCallId")
        columns["bytes"] = block.take("bytesProcessed")
        yield reading.batches.events(block, ids, **columns, **reading.args(block, table, _WORDS))


#: The memoryOperationType of freed memory.
_FREED = 1

#: The number in place of null.
_NULL = np.iinfo(np.int64).min


def usage(reading: ExportReader, table: str) -> Iterator[Batch]:
    """Yields an allocation for each row, negative for freed memory, then counters with running totals by kind."""
    seen: list[Int64] = []
    for block, ids in reading.timed(table, "start"):
        ts, operation = block.take("start"), block.get("memoryOperationType")
        place: dict[str, Any] = reading.places.work(block)
        size, kind = block.take("bytes"), block.get("memKind")
        freed = None if operation is None else pc.fill_null(pc.equal(operation, _FREED), False)
        signed = size if size is None or freed is None else pc.if_else(freed, pc.negate(size), size)
        if signed is not None:
            parts = [ts, place.get("pid"), place.get("device"), place.get("context"), kind, pc.fill_null(signed, 0)]
            seen.append(np.stack([ids, *(filled(part, len(block), _NULL) for part in parts)], axis=1))
        args = reading.args(block, table)
        names = args.pop("args.memoryOperationType", constant("Allocation", len(block)))
        if kind is None:
            args.pop("args.memKind", None)
        columns: dict[str, Any] = {"name": names, "bytes": signed, "correlation": reading.correlation(block)}
        yield reading.batches.events(block, ids, kind="alloc", ts=ts, **place, **columns, **args)
    if seen:
        yield from _totals(reading, np.concatenate(seen))


def _totals(reading: ExportReader, rows: Int64) -> Iterator[Batch]:
    """Yields counters for allocations; `rows` has the columns id, ts, pid, device, context, kind of memory, bytes."""
    order = np.lexsort((rows[:, 0], rows[:, 1], rows[:, 5], rows[:, 3], rows[:, 2]))
    ordered = rows[order]
    total = np.cumsum(ordered[:, 6])
    series = ordered[:, [2, 3, 5]]
    begins = np.concatenate([[True], (series[1:] != series[:-1]).any(axis=1)])
    total -= (total - ordered[:, 6])[begins][np.cumsum(begins) - 1]
    value = np.empty(len(rows), np.int64)
    value[order] = total
    size = reading.conversion.batch_rows
    for first in range(0, len(rows), size):
        part = rows[first : first + size]
        kinds = reading.enums.column("CUDA_MEM_KIND", pa.array(part[:, 5], mask=part[:, 5] == _NULL))
        track = mapped_words(kinds, lambda word: f"allocated ({word})")
        yield reading.batches.batch(
            "events",
            reading.batches.ids(len(part)),
            parent=part[:, 0],
            kind="counter",
            name="allocated",
            timing="derived",
            ts=part[:, 1],
            track=pc.fill_null(track.cast(pa.string()), "allocated"),
            value=value[first : first + size].astype(np.float64),
            unit="B",
            **{
                name: pa.array(part[:, column], mask=part[:, column] == _NULL)
                for name, column in (("pid", 2), ("device", 3), ("context", 4))
            },
        )


def pools(reading: ExportReader, table: str) -> Iterator[Batch]:
    """Yields an instant for each operation on a memory pool."""
    for block, ids in reading.timed(table, "start"):
        ts = block.take("start")
        place: dict[str, Any] = reading.places.work(block)
        correlation = reading.correlation(block)
        args = reading.args(block, table)
        operation = args.pop("args.operationType", None)
        name: pa.DictionaryArray | str = "memory pool"
        if operation is not None:
            name = mapped_words(operation, lambda word: "memory pool " + word.lower())
        columns: dict[str, Any] = {"name": name, "correlation": correlation, "track": "memory pools"}
        yield reading.batches.events(block, ids, kind="instant", ts=ts, **place, **columns, **args)


def page_faults(reading: ExportReader, table: str, name: str) -> Iterator[Batch]:
    """Yields page faults of unified memory: an instant for the CPU, a range with several faults for a GPU."""
    for block, ids in reading.timed(table, "start", end="end"):
        columns: dict[str, Any] = {
            "kind": "instant" if block.get("end") is None else "range",
            **block.span("start", "end"),
            **reading.places.work(block),
            "name": name,
            "track": "page faults",
        }
        yield reading.batches.events(block, ids, **columns, **reading.args(block, table))


def about(source: Source) -> dict[str, list[str]]:
    """Returns the schema version, the profiler's warnings, and the number of rows of each table except enumerations."""
    with opened(source, Conversion(Report())) as database:
        settings = {
            str(name): str(value)
            for table in database.like("META_DATA_EXPORT|EXPORT_META_DATA")
            for name, value in database.rows(table, "name", "value")
        }
        warnings = [
            str(text)
            for table in database.like("DIAGNOSTIC_EVENT")
            for severity, text in database.rows(table, "severity", "text")
            if severity in (2, 3)
        ]
        counts = {table: database.count(table) for table in database.tables if not table.upper().startswith("ENUM_")}
    sections = {
        "schema": [settings[name] for name in ("EXPORT_SCHEMA_VERSION",) if name in settings],
        "warnings of the profiler": warnings,
        "tables": [f"{count:>12,}  {table}" for table, count in sorted(counts.items()) if count],
    }
    return {heading: lines for heading, lines in sections.items() if lines}
