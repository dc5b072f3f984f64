"""Reads RPD: calls, device work with its launch, ranges, counters of monitors, waits between ops."""

from __future__ import annotations

from collections.abc import Iterator

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.source import Source
from ktrace.input.sqlite_file import quoted_name
from ktrace.kit.sqlite.database import Database, opened
from ktrace.kit.sqlite.lookup import FirstId, first_ids
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from .calls import Calls
from .launches import Launches
from .monitors import read_monitors
from .ops import Ops, read_waits

#: Tables that are looked up for rows of the others.
_LOOKED_UP = frozenset(
    {
        *("rocpd_string", "rocpd_metadata", "rocpd_api_ops", "rocpd_kernelapi", "rocpd_copyapi"),
        *("rocpd_kernelop", "rocpd_copyop"),
        *("rocpd_kernelcodeobject", "rocpd_barrierop", "rocpd_ustring"),
    }
)

#: Columns with whole numbers, and with texts, in all tables.
_WHOLE = (
    *("id", "pid", "tid", "gpuId", "queueId", "sequenceId", "start", "end", "description_id", "opType_id", "deviceId"),
    *("apiName_id", "args_id", "api_id", "op_id", "api_ptr_id", "op_ptr_id", "from_op_id", "to_op_id", "kernelName_id"),
)
_TEXTS = (
    *("string", "stream", "dst", "src", "tag", "value", "monitorType", "deviceType", "completionSignal"),
    *("aquireFence", "releaseFence", "kernelArgAddress"),
)

#: Table whose rows become rows of the model -> the number of ids for each row.
_TABLES = {"rocpd_api": 1, "rocpd_op": 1, "rocpd_monitor": 1, "rocpd_op_inputSignals": 2, "rocpd_api_ops": 2}


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the rows of the tables, one table after the other. Raises DamagedInput for an unreadable database."""
    with opened(source, conversion) as database:
        database.declare(whole=_WHOLE, texts=_TEXTS)
        tables = {name: found for name in _TABLES for found in database.like(name)[:1]}
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
        _report_others(database, conversion, set(tables.values()))


def _catalog(database: Database, ops: str | None, conversion: Conversion) -> Iterator[Batch]:
    """Yields facts: the tool, the clock, the GPUs."""
    rows = RowBuilder(conversion, first_id=0)
    facts = {str(tag): str(value) for tag, value in database.rows("rocpd_metadata", "tag", "value") if tag and value}
    rows.fact("source", facts={"tool": "rocmProfileData", **facts})
    rows.fact("clock", facts={"kind": "monotonic"})
    devices = (
        database.query(ops, f"SELECT DISTINCT gpuId FROM {quoted_name(ops)} ORDER BY 1")
        if ops and database.has(ops, "gpuId")
        else []
    )
    for (device,) in devices:
        if isinstance(device, int):
            rows.fact("device", device=device, name=f"GPU {device}", facts={"api": "hip", "vendor": "AMD"})
    yield from rows.rest()


def _report_others(database: Database, conversion: Conversion, read: set[str]) -> None:
    """Counts and reports the rows of unknown tables."""
    for table in database.tables:
        if table in read or table.casefold() in _LOOKED_UP or table.startswith("sqlite_"):
            continue
        if rows := database.count(table):
            conversion.report.record(rows)
            conversion.report.issue("unrecognised", table, f"a table of {rows:,} rows", rows)
