"""The processes in a database: each is a set of tables, or the rows with one guid in tables that several share.

rocpd_region_0000ddb5_...  rocpd_string_0000ddb5_...      ProcessTables("_0000ddb5_...", {"region": ..., "string": ...})
rocpd_region  guid a, guid b                              two parts of the same tables, by guid
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ktrace.input.sqlite_file import quoted_name
from ktrace.kit.sqlite.database import Database

#: Tables whose rows become rows of the model, in the order in which they are read.
EVENT_TABLES = ("region", "sample", "kernel_dispatch", "memory_copy", "memory_allocate", "pmc_event", "arg")

#: Tables that other tables refer to.
LOOKED_UP = frozenset(
    {
        *("metadata", "string", "event", "track", "timestamp", "line_info", "call_stack"),
        *(f"info_{word}" for word in ("node", "process", "thread", "category", "agent", "queue", "stream", "pmc")),
        *(f"info_{word}" for word in ("code_object", "kernel_symbol", "address_range", "source_code", "pc")),
    }
)

#: Columns with whole numbers, and with texts, in all tables.
WHOLE = (
    *("id", "nid", "pid", "tid", "ppid", "agent_id", "queue_id", "stream_id", "track_id", "name_id", "region_name_id"),
    *(
        "start",
        "end",
        "timestamp",
        "start_id",
        "end_id",
        "timestamp_id",
        "event_id",
        "category_id",
        "stack_id",
        "parent_stack_id",
        "kernel_id",
        "dispatch_id",
    ),
    *("pmc_id", "sample_id", "size", "dst_agent_id", "src_agent_id", "private_segment_size", "group_segment_size"),
    *(f"{of}_size_{axis}" for of in ("workgroup", "grid") for axis in "xyz"),
    *("absolute_index", "type_index", "logical_index", "sgpr_count", "arch_vgpr_count", "accum_vgpr_count"),
    *("xcc", "shader_engine", "shader_array", "wgp", "instance", "graph_exec_id", "graph_node_id"),
)
TEXTS = (
    *("guid", "string", "name", "symbol", "units", "display_name", "kernel_name", "hostname", "system_name"),
    *("machine_id", "command", "type", "level", "model_name", "vendor_name", "product_name", "user_name"),
)

_KNOWN = "|".join(sorted((*EVENT_TABLES, *LOOKED_UP), key=len, reverse=True))
_NAMES = (
    re.compile(rf"rocpd_({_KNOWN})(_[0-9a-f_]+)?", re.IGNORECASE),
    re.compile(r"rocpd_(.+?)(_[0-9a-f]{8}(?:_[0-9a-f]+)*)?", re.IGNORECASE),
)


@dataclass(frozen=True)
class ProcessTables:
    """The tables of a process by their names without prefix and suffix; `where` is an SQL condition for their rows."""

    tables: dict[str, str] = field(default_factory=dict)
    where: str = ""

    def table(self, kind: str) -> str | None:
        """The table of a kind, None if the process has none."""
        return self.tables.get(kind)


def process_tables(database: Database) -> list[ProcessTables]:
    """Returns the processes, in the order of the creation of their tables."""
    sets: dict[str, dict[str, str]] = {}
    for table in database.tables:
        found = next((found for name in _NAMES if (found := name.fullmatch(table))), None)
        if found:
            sets.setdefault((found[2] or "").lower(), {})[found[1].lower()] = table
    return [part for tables in sets.values() for part in _by_guid(database, tables)]


def _by_guid(database: Database, tables: dict[str, str]) -> list[ProcessTables]:
    """The processes in a set of tables: one if they have one guid, as in all databases from a profiler."""
    guids: set[str] = set()
    for kind in ("info_process", "info_node", "info_thread", "info_agent"):
        table = tables.get(kind)
        if table and database.has(table, "guid"):
            answer = database.query(table, f"SELECT DISTINCT guid FROM {quoted_name(table)}")
            guids |= {guid for (guid,) in answer if isinstance(guid, str)}
    if len(guids) < 2:
        return [ProcessTables(tables)]
    quoted = ["'" + guid.replace("'", "''") + "'" for guid in sorted(guids)]
    conditions = [f"guid = {guid}" for guid in quoted]
    conditions.append(f"(guid IS NULL OR guid NOT IN ({', '.join(quoted)}))")
    with_guid = {kind: table for kind, table in tables.items() if database.has(table, "guid")}
    of_all = {kind: table for kind, table in tables.items() if kind not in with_guid}
    return [ProcessTables(with_guid, condition) for condition in conditions] + (
        [ProcessTables(of_all)] if of_all else []
    )
