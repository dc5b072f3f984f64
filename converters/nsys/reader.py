"""Reads a database of Nsight Systems table by table."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.source import Source
from ktrace.kit.columnar.blocks import Batches
from ktrace.kit.sqlite.database import Database, opened
from ktrace.model.batch import Batch
from ktrace.model.json_text import dump_json
from ktrace.model.row_builder import to_batch

from . import calls, counters, cpu, device_work, diagnostics, facts, files, generic, memory
from .enums import Enums
from .nvtx import Nvtx
from .places import Places
from .reading import Reading
from .rules import rule_of
from .stacks import Stacks
from .strings import Strings
from .waits import Waits

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
        strings = Strings(database, conversion)
        reading = Reading(
            database,
            conversion,
            source.path,
            strings,
            Enums(database, conversion),
            Places(database),
            Batches(conversion),
            Stacks(database, conversion, strings),
        )
        yield from _catalog(reading, facts.session(reading))
        yield from _catalog(reading, facts.devices(reading))
        yield from _events(reading)


def _events(reading: Reading) -> Iterator[Batch]:
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
        "CUDA_GPU_MEMORY_USAGE_EVENTS": memory.usage,
        "CUDA_GPU_MEMORY_POOL_EVENTS": memory.pools,
        "CUDA_UM_CPU_PAGE_FAULT_EVENTS": partial(memory.page_faults, name="CPU page fault"),
        "CUDA_UM_GPU_PAGE_FAULT_EVENTS": partial(memory.page_faults, name="GPU page faults"),
        "GPU_METRICS|SOC_METRICS": counters.gpu_metrics,
        "NET_NIC_METRIC|NET_IB_SWITCH_METRIC": partial(
            counters.sampled, info="TARGET_INFO_NETWORK_METRICS", keys=("metricsListId", "metricsIdx")
        ),
        r"PERF_EVENT_(\w+_)?RAW_EVENT": partial(counters.sampled, info="TARGET_INFO_PERF_METRIC", keys=("", "eventId")),
        r"PERF_EVENT_(\w+_)?METRIC_EVENT": partial(
            counters.sampled, info="TARGET_INFO_PERF_METRIC", keys=("", "metricId")
        ),
        "SCHED_EVENTS": partial(cpu.scheduling, names=threads),
        "COMPOSITE_EVENTS": cpu.samples,
        "GENERIC_EVENTS|ETW_EVENTS": generic.events,
        "OSRT_FILE_ACCESS_EVENTS": files.accesses,
        "DIAGNOSTIC_EVENT": diagnostics.messages,
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


def _descriptions(reading: Reading, threads: dict[int, str], timeless: list[str]) -> Iterator[Batch]:
    """Yields the catalog rows about processes, threads, streams and others that have rows."""
    yield from _catalog(reading, facts.contexts_and_streams(reading))
    yield from _catalog(reading, facts.processes(reading, threads))
    yield from _catalog(reading, facts.threads(reading, threads))
    yield from _catalog(reading, facts.cores(reading))
    yield from _catalog(reading, facts.metrics(reading))
    yield from _catalog(reading, reading.stacks.facts())
    yield from _catalog(reading, facts.others(reading, timeless))
    _count_structure(reading.database, reading.conversion)


def _count_structure(database: Database, conversion: Conversion) -> None:
    """Accounts for the rows of tables that only describe other tables."""
    for table in database.like(_STRUCTURE):
        count = database.count(table)
        conversion.report.record(count)
        conversion.report.used(count, outcome="structure")


def _catalog(reading: Reading, rows: Iterator[dict[str, Any]]) -> Iterator[Batch]:
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
