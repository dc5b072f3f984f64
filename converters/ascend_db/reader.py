"""Reads the databases of Ascend's profilers: tasks, calls, operators, collectives, counters, facts."""

from __future__ import annotations

from collections.abc import Iterator

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.source import Source
from ktrace.kit.ascend.folder import DB
from ktrace.kit.ascend.own_files import own_file
from ktrace.kit.ascend.tasks import DEVICE
from ktrace.kit.sqlite.database import Database, opened
from ktrace.kit.sqlite.lookup import first_ids
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from .reading import Reading
from .samples import read_allocations, read_frequencies, read_memory
from .spans import SPANS, read_spans
from .tasks import Tasks

_SAMPLES = {"AICORE_FREQ": read_frequencies, "MEMORY_RECORD": read_memory, "OP_MEMORY": read_allocations}

#: Table whose rows become rows of the model -> the number of ids for each row.
_TABLES = {"TASK": 1, **dict.fromkeys(SPANS, 1), "AICORE_FREQ": 1, "MEMORY_RECORD": 3, "OP_MEMORY": 1}

#: Tables that are looked up for rows of the others.
_LOOKED_UP = frozenset(
    {
        *("STRING_IDS", "COMPUTE_TASK_INFO", "COMMUNICATION_TASK_INFO", "COMMUNICATION_SCHEDULE_TASK_INFO"),
        *("MEMCPY_INFO", "TASK_PMU_INFO", "META_DATA", "RANK_DEVICE_MAP", "HOST_INFO", "NPU_INFO"),
        *("SESSION_TIME_INFO", "CONNECTION_IDS"),
    }
)


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the rows of the tables, one table after the other. Raises DamagedInput for an unreadable database."""
    with own_file(source, DB, conversion) as file, opened(file, conversion) as database:
        tables = {name: found for name in _TABLES for found in database.like(name)[:1]}
        if not tables:
            raise DamagedInput(
                "has none of the tables of Ascend's profilers",
                path=file.path,
                expected="a database with TASK, CANN_API or PYTORCH_API",
                remedy="leave out --from, or export it again: msprof --export=on --type=db",
            )
        ids = first_ids(database, [(table, _TABLES[name]) for name, table in tables.items()])
        reading = Reading(database, ids, conversion)
        for name, table in tables.items():
            if name == "TASK":
                yield from Tasks(reading, table).read()
            elif name in SPANS:
                yield from read_spans(reading, table, SPANS[name])
            else:
                yield from _SAMPLES[name](reading, table)
        yield from _catalog(database, conversion)
        _report_others(database, conversion, set(tables.values()))


def _catalog(database: Database, conversion: Conversion) -> Iterator[Batch]:
    """Yields facts: the tool, the host, the devices, the clock."""
    rows = RowBuilder(conversion, first_id=0)
    facts = {str(name): str(value) for name, value in database.rows("META_DATA", "name", "value") if name and value}
    ranks = database.rows("RANK_DEVICE_MAP", "rankId", "deviceId")
    rank = {"rank": ranks[0][0]} if len(ranks) == 1 and isinstance(ranks[0][0], int) and ranks[0][0] >= 0 else {}
    rows.fact("source", facts={"tool": "Ascend profiler", **rank, **facts})
    rows.fact("clock", facts={"kind": "unix", "unix_ns": 0})
    for uid, name in database.rows("HOST_INFO", "hostUid", "hostName")[:1]:
        if isinstance(name, str) and name:
            rows.fact("host", name=name, facts={"hostUid": str(uid)})
    names = {number: str(name) for number, name in database.rows("NPU_INFO", "id", "name") if isinstance(number, int)}
    devices = {number for _, number in ranks if isinstance(number, int) and number >= 0} | names.keys()
    for device in sorted(devices):
        rows.fact("device", device=device, name=names.get(device), facts=DEVICE)
    yield from rows.rest()


def _report_others(database: Database, conversion: Conversion, read: set[str]) -> None:
    """Counts and reports the rows of other tables."""
    for table in database.tables:
        upper = table.upper()
        if table in read or upper in _LOOKED_UP or upper.startswith(("ENUM_", "SQLITE_")):
            continue
        if rows := database.count(table):
            conversion.report.record(rows)
            conversion.report.issue("unrecognised", table, f"a table of {rows:,} rows", rows)
