"""Reads rocpd, process by process: regions, samples, kernels, copies, allocations, counters, facts."""

from __future__ import annotations

from collections.abc import Iterator

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.source import Source
from ktrace.kit.sqlite.database import Database, opened
from ktrace.kit.sqlite.lookup import first_ids
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from .catalog import add_facts
from .counters import Counters
from .process_tables import EVENT_TABLES, LOOKED_UP, TEXTS, WHOLE, ProcessTables, process_tables
from .regions import Regions, Samples, read_others
from .slices import Tables
from .work import Allocations, Copies, Kernels


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the rows of all processes. Raises DamagedInput for a database that can't be read."""
    with opened(source, conversion) as database:
        database.declare(whole=WHOLE, texts=TEXTS)
        parts = process_tables(database)
        if not any(kind in EVENT_TABLES for part in parts for kind in part.tables):
            raise DamagedInput(
                "has none of rocpd's tables",
                path=source.path,
                expected=f"a database with tables like {', '.join(f'rocpd_{kind}' for kind in EVENT_TABLES[:4])}",
                remedy="leave out --from, or record it again with rocprofv3",
            )
        tables = dict.fromkeys(table for part in parts for kind, table in _in_order(part) if kind not in LOOKED_UP)
        pmc = {part.table("pmc_event") for part in parts}
        ids = first_ids(database, [(table, 2 if table in pmc else 1) for table in tables])
        rows = RowBuilder(conversion, first_id=0)
        rows.fact("clock", facts={"kind": "boottime"})
        for part in parts:
            read_tables = Tables(database, part, ids, conversion)
            for readers in (Regions, Samples, Kernels, Copies, Allocations):
                yield from readers(read_tables).read()
            for kind in part.tables:
                yield from _other(read_tables, part, kind)
            yield from Counters(read_tables).read()
            read_tables.arguments.close()
            add_facts(read_tables, rows)
        yield from rows.rest()
        _report_others(database, parts, conversion)


def _in_order(part: ProcessTables) -> list[tuple[str, str]]:
    """The tables of a process in the order in which they are read, unknown ones last."""
    order = {kind: number for number, kind in enumerate((*EVENT_TABLES[:-2], "", *EVENT_TABLES[-2:]))}
    return sorted(part.tables.items(), key=lambda item: (order.get(item[0], order[""]), item[0]))


def _other(tables: Tables, part: ProcessTables, kind: str) -> Iterator[Batch]:
    """Yields the rows of an unknown table, if it has begins and ends; else reports them."""
    if kind in LOOKED_UP or kind in EVENT_TABLES:
        return
    table = part.tables[kind]
    if tables.database.has(table, "start") and tables.database.has(table, "end"):
        yield from read_others(tables, kind)
    else:
        _count(tables.database, table, tables.conversion)


def _report_others(database: Database, parts: list[ProcessTables], conversion: Conversion) -> None:
    """Reports the rows of tables that aren't part of rocpd."""
    known = {table for part in parts for table in part.tables.values()}
    for table in database.tables:
        if table not in known and not table.startswith("sqlite_"):
            _count(database, table, conversion)


def _count(database: Database, table: str, conversion: Conversion) -> None:
    if rows := database.count(table):
        conversion.report.record(rows)
        conversion.report.issue("unrecognised", table, f"a table of {rows:,} rows", rows)
