"""The tables that rows refer to by id: nodes, processes, threads, agents, queues, streams, tracks, kernels, counters.

    pid 2 of a row  ->  rocpd_info_process id 2  ->  pid 56757
    agent_id 4      ->  rocpd_info_agent id 4    ->  absolute_index 4, type GPU, AMD Instinct MI300X

rocprofv3 uses the system's numbers as ids, so that both are equal; other tools number them from 1.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.sqlite.database import Database
from ktrace.model.json_text import load_json

from .process_tables import ProcessTables


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
            found = self.values.take(pc.index_in(column.slice(0, 1), value_set=self._ids))
            value = column[0] if found.null_count and self._else_itself else found[0]
            return pa.repeat(value, len(column))
        found = self.values.take(pc.index_in(column, value_set=self._ids))
        return pc.coalesce(found, column) if self._else_itself and found.null_count else found

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
        found = self._database.part(table, ["id", *columns], self._part.where)
        own = {name.casefold(): plain(found[name]) for name in found.column_names}
        if "id" not in own:
            return self.table("", *columns)
        nothing = pa.nulls(len(found), pa.int64())
        return pa.table({name: own.get(name, nothing) for name in ("id", *columns)})

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


def json_object(text: Any) -> dict[str, Any]:
    """The extdata of a row; empty if it isn't a JSON object."""
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
