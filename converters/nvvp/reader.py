"""The database of nvprof as events."""

from __future__ import annotations

from collections.abc import Iterator

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.sqlite.database import Database, opened
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from .counters import Kernels, counters
from .markers import markers, owners
from .reading import Reading
from .work import READERS

_PREFIX = "CUPTI_ACTIVITY_KIND_"

#: Tables for the catalog.
_FACTS = ("DEVICE", "NAME", "CONTEXT")

#: Tables of values that were counted while kernels ran.
_COUNTED = ("METRIC", "EVENT", "METRIC_INSTANCE", "EVENT_INSTANCE")

#: Fact of a device -> its column.
_DEVICE = {
    "sm_count": "numMultiprocessors",
    "memory": "globalMemorySize",
    "warp_size": "numThreadsPerWarp",
    "clock_khz": "coreClockRate",
}


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields kernels, copies, sets, calls, markers, overheads, counters; devices and names. Reports other tables."""
    with opened(source, conversion) as database:
        tables = {
            name.upper().removeprefix(_PREFIX): name for name in database.tables if name.upper().startswith(_PREFIX)
        }
        reading = Reading(database, conversion, list(tables.values()))
        for kind, table in tables.items():
            if kind in READERS:
                yield from READERS[kind](reading, table)
            elif kind == "MARKER":
                yield from markers(reading, table)
            elif kind in _COUNTED:
                continue
            elif kind not in _FACTS and (count := database.count(table)):
                conversion.report.record(count)
                conversion.report.issue("unrecognised", table, "a table that isn't read", count)
        counted = [table for kind, table in tables.items() if kind in _COUNTED and database.count(table)]
        kernels = Kernels(reading, [table for kind, table in tables.items() if "KERNEL" in kind] if counted else ())
        for table in counted:
            yield from counters(reading, table, kernels)
        rows = RowBuilder(conversion, first_id=reading.last_id)
        rows.fact("clock", facts={"kind": "unix", "at_ns": 0, "unix_ns": 0})
        _devices(reading, database, tables, rows)
        _names(reading, tables, rows)
        yield from rows.rest()


def _devices(reading: Reading, database: Database, tables: dict[str, str], rows: RowBuilder) -> None:
    for block in reading.blocks(tables["DEVICE"]) if "DEVICE" in tables else ():
        names, ids = reading.text(block, "name"), block.get("id")
        reading.conversion.report.used(len(block), outcome="catalog")
        if ids is None:
            continue
        columns = {fact: block.get(column) for fact, column in _DEVICE.items()}
        major, minor = block.get("computeCapabilityMajor"), block.get("computeCapabilityMinor")
        for row, number in enumerate(ids.to_pylist()):
            if number is None:
                continue
            facts = {"api": "cuda", "vendor": "NVIDIA"}
            facts |= {fact: column[row].as_py() for fact, column in columns.items() if column is not None}
            if major is not None and minor is not None:
                facts["compute_capability"] = f"{major[row]}.{minor[row]}"
            rows.fact("device", device=number, name=None if names is None else names[row].as_py(), facts=facts)
    for block in reading.blocks(tables["CONTEXT"]) if "CONTEXT" in tables else ():
        reading.conversion.report.used(len(block), outcome="catalog")
        devices, contexts = block.get("deviceId"), block.get("contextId")
        if devices is not None and contexts is not None:
            for device, context in zip(devices.to_pylist(), contexts.to_pylist(), strict=True):
                rows.fact("context", pid=reading.pid, device=device, context=context)


def _names(reading: Reading, tables: dict[str, str], rows: RowBuilder) -> None:
    """Adds the names that the program gave its process and threads."""
    for block in reading.blocks(tables["NAME"]) if "NAME" in tables else ():
        names, places = reading.text(block, "name"), owners(block)
        reading.conversion.report.used(len(block), outcome="catalog")
        if names is None or not places:
            continue
        for name, pid, tid in zip(names.to_pylist(), places["pid"].to_pylist(), places["tid"].to_pylist(), strict=True):
            if name and pid is not None:
                rows.fact("process" if tid is None else "thread", pid=pid, tid=tid, name=name)
