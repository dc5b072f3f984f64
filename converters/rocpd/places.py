"""The place of rows: host, process, thread, device, stream; and their event, which links them.

    schema 3   nid, pid, tid, agent_id, queue_id, stream_id       of the row
    schema 4   track_id                                           of its rocpd_track

`stream` is the HIP stream if streams were recorded, else the queue; the other one is an argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.input.sqlite_file import quoted_name
from ktrace.kit.columnar.blocks import Block, nonzero
from ktrace.kit.columnar.dictionaries import combinations
from ktrace.kit.sqlite.database import Database
from ktrace.kit.sqlite.lookup import Lookup, Texts, both
from ktrace.model.row_builder import RowBuilder

from .infos import Infos
from .process_tables import ProcessTables

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
        own = {name: block.take(name) for name in _PLACE}
        if track is not None:
            own |= {name: self._tracks[name].of(track) for name in _PLACE if own[name] is None}
        infos = self._infos
        return {
            "host": infos.host.of(own["nid"]),
            "pid": infos.pid.of(own["pid"]),
            "tid": infos.tid.of(own["tid"]),
            "agent": own["agent_id"],
            "queue": own["queue_id"],
            "stream": own["stream_id"],
            "track": None if track is None else self._tracks["name_id"].of(track),
        }

    def events(self, block: Block) -> Columns:
        """Takes `event_id`; returns category, stack_id, parent_stack_id, correlation_id and extra data of the event."""
        found: Columns = dict(self._events.get(block.take("event_id"))) if self._events else {}
        found["cat"] = self._categories.column(block, found.pop("category_id", None))
        return found

    def stream(self, place: Columns, device: pa.Array | None) -> Columns:
        """Returns columns `stream` and `args.queue_id`; remembers the streams for the catalog."""
        queue, stream = place["queue"], place["stream"]
        if self._by_queue and queue is not None:
            found = {"stream": queue if stream is None else pc.coalesce(queue, stream)}
        else:
            found = {"stream": stream, "args.queue_id": queue}
        if found["stream"] is not None and device is not None and place["pid"] is not None:
            self._remember(place, device, found["stream"])
        return {
            name: column for name, column in found.items() if column is not None and column.null_count < len(column)
        }

    def _remember(self, place: Columns, device: pa.Array, stream: pa.Array) -> None:
        host = place["host"] if place["host"] is not None else pa.nulls(len(device), pa.string())
        self._seen.update(dict.fromkeys(combinations([host, place["pid"], device, stream])))

    def facts(self, rows: RowBuilder) -> None:
        """Adds the names of the streams with work."""
        table = self._infos.queues if self._by_queue else self._infos.streams
        names = self._infos.ids(table, "name")
        for host, pid, device, stream in sorted(self._seen, key=repr):
            if stream is not None and device is not None and (name := names.one(stream)):
                rows.fact("stream", host=host, pid=pid, device=device, stream=stream, name=name)


def filled_columns(database: Database, table: str, columns: Sequence[str], part: ProcessTables) -> list[str]:
    """Returns the columns of JSON that aren't empty in all rows."""
    own = [column for column in columns if database.has(table, column)]
    is_filled = {column: f"({column} IS NOT NULL AND {column} NOT IN ('{{}}', '', x''))" for column in own}

    def any_row(condition: str) -> bool:
        sql = f"SELECT 1 FROM {quoted_name(table)} WHERE {both(f'({condition})', part.where)} LIMIT 1"
        return bool(database.query(table, sql))

    if not own or not any_row(" OR ".join(f"{column} <> '{{}}'" for column in own)):  # a quick check for all columns
        return []
    return [column for column in own if any_row(is_filled[column])]


def linked(event: Columns) -> Columns:
    """Returns columns from the event: `correlation` is its stack_id, the internal id of the call; 0 means none.

    The parent's id is an argument if it differs; the user's own correlation is `external_id`.
    """
    stack, parent, outer = (nonzero(event.get(name)) for name in ("stack_id", "parent_stack_id", "correlation_id"))
    if stack is not None and parent is not None:
        parent = pc.if_else(pc.fill_null(pc.equal(stack, parent), False), None, parent)
    found = {"cat": event.get("cat"), "correlation": stack, "args.parent_stack_id": parent}
    is_id = outer is not None and pa.types.is_integer(outer.type)  # one beyond 2^63 is stored as a float
    found["external_id" if is_id else "args.correlation_id"] = outer
    return {name: column for name, column in found.items() if column is not None and column.null_count < len(column)}
