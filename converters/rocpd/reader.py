"""Reads rocpd, process by process: regions, samples, kernels, copies, allocations, counters, facts.

Facts of a database: the tool, hosts, processes, threads, GPUs with facts of their agents, streams.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.source import Source
from ktrace.kit.sqlite.database import Database, opened
from ktrace.kit.sqlite.lookup import first_ids
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from .counters import Counters
from .infos import json_object
from .process_tables import EVENT_TABLES, LOOKED_UP, TEXTS, WHOLE, ProcessTables, process_tables
from .regions import Regions, Samples, read_others
from .slices import Tables
from .work import Allocations, Copies, Kernels

#: Fact -> its key in an agent's JSON.
_AGENT = {
    "sm_count": "cu_count",
    "arch": "name",
    "wavefront_size": "wave_front_size",
    "max_clock_mhz": "max_engine_clk_fcompute",
    "xcc_count": "num_xcc",
    "shader_engines": "num_shader_banks",
}


def add_facts(tables: Tables, rows: RowBuilder) -> None:
    """Adds the facts of processes and devices."""
    infos = tables.infos
    _metadata(tables, rows)
    for node in infos.nodes.to_pylist():
        host = infos.host.one(node["id"])
        if host:
            rows.fact("host", host=host, name=host, facts=_nonempty({"os": node["system_name"]}))
    for process in infos.processes.to_pylist():
        place = {"host": infos.host.one(process["nid"]), "pid": infos.pid.one(process["id"])}
        command = process["command"]
        name = process["name"] or (_program(command) if command else None)
        rows.fact("process", **place, name=name, facts=_nonempty({"command": command, "ppid": process["ppid"]}))
    for thread in infos.threads.to_pylist():
        place = {"host": infos.host.one(thread["nid"]), "pid": infos.pid.one(thread["pid"])}
        if thread["name"]:
            rows.fact("thread", **place, tid=infos.tid.one(thread["id"]), name=thread["name"])
    for agent in infos.agents.to_pylist():
        if agent["type"] == "GPU":
            _device(tables, rows, agent)
    tables.places.facts(rows)
    _environment(tables, tables.conversion)


def _metadata(tables: Tables, rows: RowBuilder) -> None:
    table = tables.part.table("metadata")
    found = tables.database.rows(table, "tag", "value") if table else []
    facts = {str(tag): value for tag, value in found if tag and value}
    if not facts:
        return
    rows.fact("source", facts={"tool": "rocprofiler-sdk", **facts})


def _device(tables: Tables, rows: RowBuilder, agent: dict[str, Any]) -> None:
    details = json_object(agent["extdata"])
    name = agent["product_name"] or agent["user_name"] or agent["model_name"] or agent["name"]
    facts = {
        "api": "hip",
        "vendor": agent["vendor_name"] or "AMD",
        **{fact: details.get(key) for fact, key in _AGENT.items()},
        "arch": agent["name"],
        "bus_id": bus_id(details),
        "type_index": agent["type_index"],
        "logical_index": agent["logical_index"],
    }
    host = tables.infos.host.one(agent["nid"])
    rows.fact("device", host=host, device=tables.infos.device.one(agent["id"]), name=name, facts=_nonempty(facts))


def bus_id(agent: dict[str, Any]) -> str | None:
    """The PCI address of an agent: its domain and location_id (bus, device and function in 8, 5 and 3 bits)."""
    location = agent.get("location_id")
    if not isinstance(location, int) or not location:
        return None
    domain = agent.get("domain") if isinstance(agent.get("domain"), int) else 0
    return f"{domain:04x}:{location >> 8 & 255:02x}:{location >> 3 & 31:02x}.{location & 7}"


def _environment(tables: Tables, conversion: Conversion) -> None:
    """Reports that the environment of a process is left out, if there is one."""
    table = tables.part.table("info_process")
    if table and tables.database.has(table, "environment"):
        found = tables.database.part(table, ["environment"], tables.part.where).column("environment").to_pylist()
        if count := sum(text not in (None, "", "{}", b"") for text in found):
            conversion.report.issue("environment", table, rows=count)


def _program(command: str) -> str:
    return command.split(" ", maxsplit=1)[0].rsplit("/", 1)[-1]


def _nonempty(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if value not in (None, "")}


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
