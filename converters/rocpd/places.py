"""Where rows belong: the processes of a database, the tables that rows refer to by id, the columns of a place.

A process is a set of tables, or the rows with one guid in tables that several share:

    rocpd_region_0000ddb5_...  rocpd_string_0000ddb5_...      ProcessTables("_0000ddb5_...", {"region": ..., ...})
    rocpd_region  guid a, guid b                              two parts of the same tables, by guid

The ids of nodes, processes, threads, agents, queues, streams, tracks, kernels and counters are those of its tables:

    pid 2 of a row  ->  rocpd_info_process id 2  ->  pid 56757
    agent_id 4      ->  rocpd_info_agent id 4    ->  absolute_index 4, type GPU, AMD Instinct MI300X

rocprofv3 uses the system's numbers as ids, so that both are equal; other tools number them from 1. The place of a row
is its host, process, thread, device and stream; its event links it.

    schema 3   nid, pid, tid, agent_id, queue_id, stream_id       of the row
    schema 4   track_id                                           of its rocpd_track

`stream` is the HIP stream if streams were recorded, else the queue; the other one is an argument.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.input.limits import current
from ktrace.input.sqlite_file import quoted_name
from ktrace.kit.columnar.blocks import Block, nonzero
from ktrace.kit.columnar.dictionaries import combinations, constant
from ktrace.kit.sqlite import Database
from ktrace.kit.sqlite.lookup import Lookup, Texts, both
from ktrace.model.json_text import load_json
from ktrace.model.row_builder import RowBuilder

#: Tables whose rows become rows of the model, in the order in which they are read.
EVENT_TABLES = ("region", "sample", "kernel_dispatch", "memory_copy", "memory_allocate", "pmc_event", "arg")

#: Tables that other tables refer to.
LOOKED_UP = frozenset(
    {
        *("metadata", "string", "event", "track", "timestamp"),
        *(f"info_{word}" for word in ("node", "process", "thread", "category", "agent", "queue", "stream", "pmc")),
        *(f"info_{word}" for word in ("code_object", "kernel_symbol")),
    }
)

#: Columns with whole numbers, and with texts, in all tables.
WHOLE = (
    *("id", "nid", "pid", "tid", "ppid", "agent_id", "queue_id", "stream_id", "track_id", "name_id", "region_name_id"),
    *("start", "end", "timestamp", "start_id", "end_id", "timestamp_id", "event_id", "category_id"),
    *("stack_id", "parent_stack_id", "kernel_id", "dispatch_id"),
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
        match = next((match for name in _NAMES if (match := name.fullmatch(table))), None)
        if match:
            sets.setdefault((match[2] or "").lower(), {})[match[1].lower()] = table
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


def _shared(text: pa.StringScalar, rows: int) -> pa.DictionaryArray:
    """A column with the same text, or null, in all rows."""
    if not text.is_valid:
        return pa.nulls(rows, pa.dictionary(pa.int32(), pa.string()))
    return constant(text.as_py(), rows)


class Ids:
    """Values by ids. `else_itself`: an id without a row is its own value."""

    def __init__(self, ids: pa.Array, values: pa.Array, *, else_itself: bool = False) -> None:
        self._ids = ids
        self.values = values
        self._else_itself = else_itself

    def of(self, column: pa.Array | None) -> pa.Array | None:
        """The value of each id, None for no ids."""
        return None if column is None else self.at(column)

    def at(self, column: pa.Array) -> pa.Array:
        """The value of each id, null for null."""
        if column.null_count == 0 and len(column) and pc.all(pc.equal(column, column[0])).as_py():
            values = self.values.take(pc.index_in(column.slice(0, 1), value_set=self._ids))
            value = column[0] if values.null_count and self._else_itself else values[0]
            return pa.repeat(value, len(column)) if value.type != pa.string() else _shared(value, len(column))
        at = pc.index_in(column, value_set=self._ids)
        if self.values.type == pa.string():
            return pa.DictionaryArray.from_arrays(at, self.values)
        values = self.values.take(at)
        return pc.coalesce(values, column) if self._else_itself and values.null_count else values

    def one(self, number: int | None) -> Any:
        """The value of one id."""
        return self.at(pa.array([number], self._ids.type))[0].as_py()


class Infos:
    """The tables rocpd_info_* and rocpd_track of a part."""

    def __init__(self, database: Database, part: ProcessTables) -> None:
        self._database = database
        self._part = part
        self.nodes = self.table("info_node", "hostname", "system_name", "machine_id")
        self.processes = self.table("info_process", "nid", "ppid", "pid", "name", "command", "start", "end")
        self.threads = self.table("info_thread", "nid", "pid", "tid", "name")
        names = ("name", "model_name", "vendor_name", "product_name", "user_name", "extdata")
        self.agents = self.table("info_agent", "nid", "type", "absolute_index", "type_index", "logical_index", *names)
        self.tracks = self.table("track", "nid", "pid", "tid", "agent_id", "queue_id", "stream_id", "name_id")
        self.streams = self.table("info_stream", "pid", "name")
        self.queues = self.table("info_queue", "pid", "name")
        self.host = self._ids(self.nodes, _first_of(self.nodes, "hostname", "system_name", "machine_id"))
        self.pid = self._ids(self.processes, self.processes["pid"], else_itself=True)
        self.tid = self._ids(self.threads, self.threads["tid"], else_itself=True)
        self.device = self._ids(self.agents, self.agents["absolute_index"], else_itself=True)
        self.agent_type = self._ids(self.agents, self.agents["type"])

    def table(self, kind: str, *columns: str) -> pa.Table:
        """Returns columns of a table, null for columns that it doesn't have; no rows if there is no table."""
        table = self._part.table(kind)
        if table is None:
            return pa.table({name: pa.array([], pa.int64()) for name in ("id", *columns)})
        part = self._database.part(table, ["id", *columns], self._part.where)
        columns_there = {name.casefold(): plain(part[name]) for name in part.column_names}
        if "id" not in columns_there:
            return self.table("", *columns)
        nothing = pa.nulls(len(part), pa.int64())
        return pa.table({name: columns_there.get(name, nothing) for name in ("id", *columns)})

    @staticmethod
    def _ids(table: pa.Table, values: pa.Array | pa.ChunkedArray, *, else_itself: bool = False) -> Ids:
        return Ids(plain(table["id"]), plain(values), else_itself=else_itself)

    def ids(self, table: pa.Table, column: str) -> Ids:
        """The values of a column of such a table by id."""
        return self._ids(table, table[column])

    @property
    def has_streams(self) -> bool:
        """Whether streams were recorded; if not, all work is on stream 0."""
        return bool(pc.any(pc.not_equal(_numbers(self.streams["id"]), 0)).as_py())


def unpacked_text(value: bytes | None) -> str | None:
    """Text that is stored as bytes, compressed with LZ4 or not."""
    if value and value.startswith(b"\x04\x22\x4d\x18"):
        with pa.input_stream(pa.BufferReader(value), compression="lz4") as stream:
            value = current().whole(stream)
    return value.decode("utf-8", "replace") if value else None


def json_object(text: Any) -> dict[str, Any]:
    """The extdata of a row, which may be packed; empty if it isn't a JSON object."""
    text = unpacked_text(text) if isinstance(text, bytes) else text
    try:
        value = load_json(text) if isinstance(text, str) else {}
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def plain(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column of a table as one array."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    whole = column.combine_chunks()
    return whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole


def _numbers(column: pa.ChunkedArray) -> pa.Array:
    return plain(column) if pa.types.is_integer(column.type) else pa.array([], pa.int64())


def _first_of(table: pa.Table, *columns: str) -> pa.Array:
    """The first of the columns that isn't empty, as text."""
    texts = [plain(table[name]).cast(pa.string()) for name in columns]
    return pc.coalesce(*(pc.if_else(pc.equal(text, ""), None, text) for text in texts))


_EVENT = ("category_id", "stack_id", "parent_stack_id", "correlation_id")
_PLACE = ("nid", "pid", "tid", "agent_id", "queue_id", "stream_id")

Columns = dict[str, Any]


class RocpdTracks:
    """Columns that rows of all tables have, and the streams that occur."""

    def __init__(self, database: Database, part: ProcessTables, infos: Infos, conversion: Conversion) -> None:
        self._infos = infos
        self._tracks = {name: infos.ids(infos.tracks, name) for name in (*_PLACE, "name_id")}
        event = part.table("event")
        filled = filled_columns(database, event, ("extdata", "call_stack", "line_info"), part) if event else []
        self._events = Lookup(database, event, "id", [*_EVENT, *filled], part.where) if event else None
        categories = part.table("info_category")
        self._categories = (
            Texts(database, categories, "id", "name", conversion, part.where)
            if categories
            else Texts(database, part.table("string"), "id", "string", conversion, part.where)
        )
        self._by_queue = not infos.has_streams
        self._seen: dict[tuple[Any, ...], None] = {}

    def take(self, block: Block) -> Columns:
        """Takes the columns of the place: host, pid, tid; agent, queue, stream and track are ids."""
        track = block.take("track_id")
        ids = {name: block.take(name) for name in _PLACE}
        if track is not None:
            ids |= {name: self._tracks[name].of(track) for name in _PLACE if ids[name] is None}
        infos = self._infos
        return {
            "host": infos.host.of(ids["nid"]),
            "pid": infos.pid.of(ids["pid"]),
            "tid": infos.tid.of(ids["tid"]),
            "agent": ids["agent_id"],
            "queue": ids["queue_id"],
            "stream": ids["stream_id"],
            "track": None if track is None else self._tracks["name_id"].of(track),
        }

    def events(self, block: Block) -> Columns:
        """Takes `event_id`; returns category, stack_id, parent_stack_id, correlation_id and extra data of the event."""
        columns: Columns = dict(self._events.get(block.take("event_id"))) if self._events else {}
        columns["cat"] = self._categories.column(block, columns.pop("category_id", None))
        return columns

    def stream(self, place: Columns, device: pa.Array | None) -> Columns:
        """Returns columns `stream` and `args.queue_id`; remembers the streams for the catalog."""
        queue, stream = place["queue"], place["stream"]
        if self._by_queue and queue is not None:
            columns = {"stream": queue if stream is None else pc.coalesce(queue, stream)}
        else:
            columns = {"stream": stream, "args.queue_id": queue}
        if columns["stream"] is not None and device is not None and place["pid"] is not None:
            host = place["host"] if place["host"] is not None else pa.nulls(len(device), pa.string())
            self._seen |= dict.fromkeys(combinations([host, place["pid"], device, columns["stream"]]))
        return columns

    def facts(self, rows: RowBuilder) -> None:
        """Adds the names of the streams with work."""
        table = self._infos.queues if self._by_queue else self._infos.streams
        names = self._infos.ids(table, "name")
        for host, pid, device, stream in sorted(self._seen, key=repr):
            if stream is not None and device is not None and (name := names.one(stream)):
                rows.fact("stream", host=host, pid=pid, device=device, stream=stream, name=name)


def filled_columns(database: Database, table: str, columns: Sequence[str], part: ProcessTables) -> list[str]:
    """Returns the columns of JSON that aren't empty in all rows."""
    names = [column for column in columns if database.has(table, column)]
    is_filled = {column: f"({column} IS NOT NULL AND {column} NOT IN ('{{}}', '', x''))" for column in names}

    def any_row(condition: str) -> bool:
        sql = f"SELECT 1 FROM {quoted_name(table)} WHERE {both(f'({condition})', part.where)} LIMIT 1"
        return bool(database.query(table, sql))

    any_text = " OR ".join(f"{column} <> '{{}}'" for column in names)
    if not names or not any_row(any_text):  # a quick check for all columns
        return []
    return [column for column in names if any_row(is_filled[column])]


def linked(event: Columns) -> Columns:
    """Returns columns from the event: `correlation` is its stack_id, the internal id of the call; 0 means none.

    The parent's id is an argument if it differs; the user's own correlation is `external_id`.
    """
    stack, parent, outer = (nonzero(event.get(name)) for name in ("stack_id", "parent_stack_id", "correlation_id"))
    if stack is not None and parent is not None:
        parent = pc.if_else(pc.fill_null(pc.equal(stack, parent), False), None, parent)
    columns = {"cat": event.get("cat"), "correlation": stack, "args.parent_stack_id": parent}
    is_id = outer is not None and pa.types.is_integer(outer.type)  # one beyond 2^63 is stored as a float
    columns["external_id" if is_id else "args.correlation_id"] = outer
    return columns
