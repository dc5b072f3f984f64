"""Where rows happened: host, process, thread, device, stream, and the event that says what they belong to.

    schema 3   nid, pid, tid, agent_id, queue_id, stream_id       of the row
    schema 4   track_id                                           of its rocpd_track

`stream` is the HIP stream where streams were recorded, else the queue; the other is an argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.converters._shared.columnar.blocks import Block
from ktrace.converters._shared.sqlite.database import Database
from ktrace.converters._shared.sqlite.lookup import Lookup, Texts, both
from ktrace.input.sqlite_file import quoted_name
from ktrace.model.row_builder import RowBuilder

from .infos import Infos
from .process_tables import ProcessTables

_EVENT = ("category_id", "stack_id", "parent_stack_id", "correlation_id")
_PLACE = ("nid", "pid", "tid", "agent_id", "queue_id", "stream_id")

Columns = dict[str, Any]


class Places:
    """Columns that rows of all tables have, and the streams and tracks that were met."""

    def __init__(self, database: Database, part: ProcessTables, infos: Infos, conversion: Conversion) -> None:
        self._infos = infos
        self._tracks = {name: infos.ids(infos.tracks, name) for name in (*_PLACE, "name_id")}
        event = part.table("event")
        spoken = speaking(database, event, ("extdata", "call_stack", "line_info"), part) if event else []
        self._events = Lookup(database, event, "id", [*_EVENT, *spoken], part.where) if event else None
        categories = part.table("info_category")
        self._categories = (
            Texts(database, categories, "id", "name", conversion, part.where)
            if categories
            else Texts(database, part.table("string"), "id", "string", conversion, part.where)
        )
        self._by_queue = not infos.has_streams
        self._met: dict[tuple[Any, ...], None] = {}

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
        """Takes `event_id`: category, stack_id, parent_stack_id, correlation_id of the event, and what more it says."""
        found: Columns = dict(self._events.get(block.take("event_id"))) if self._events else {}
        found["cat"] = self._categories.column(block, found.pop("category_id", None))
        return found

    def stream(self, place: Columns, device: pa.Array | None) -> Columns:
        """Columns `stream` and `args.queue_id`; the streams are kept for the catalog."""
        queue, stream = place["queue"], place["stream"]
        if self._by_queue and queue is not None:
            found = {"stream": queue if stream is None else pc.coalesce(queue, stream)}
        else:
            found = {"stream": stream, "args.queue_id": queue}
        if found["stream"] is not None and device is not None and place["pid"] is not None:
            self._meet(place, device, found["stream"])
        return {
            name: column for name, column in found.items() if column is not None and column.null_count < len(column)
        }

    def _meet(self, place: Columns, device: pa.Array, stream: pa.Array) -> None:
        met = pa.table({"pid": place["pid"], "device": device, "stream": stream})
        if place["host"] is not None:
            met = met.append_column("host", place["host"])
        for row in met.group_by(met.column_names).aggregate([]).to_pylist():
            self._met[row.get("host"), row["pid"], row["device"], row["stream"]] = None

    def facts(self, rows: RowBuilder) -> None:
        """The names of the streams that work was on."""
        table = self._infos.queues if self._by_queue else self._infos.streams
        names = self._infos.ids(table, "name")
        for host, pid, device, stream in sorted(self._met, key=repr):
            if stream is not None and device is not None and (name := names.one(stream)):
                rows.fact("stream", host=host, pid=pid, device=device, stream=stream, name=name)


def speaking(database: Database, table: str, columns: Sequence[str], part: ProcessTables) -> list[str]:
    """Those of some columns of JSON that say anything in any row."""
    own = [column for column in columns if database.has(table, column)]
    says = {column: f"({column} IS NOT NULL AND {column} NOT IN ('{{}}', '', x''))" for column in own}

    def speak(condition: str) -> bool:
        sql = f"SELECT 1 FROM {quoted_name(table)} WHERE {both(f'({condition})', part.where)} LIMIT 1"
        return bool(database.query(table, sql))

    if not own or not speak(" OR ".join(f"{column} <> '{{}}'" for column in own)):  # the quick question for all
        return []
    return [column for column in own if speak(says[column])]


def linked(event: Columns) -> Columns:
    """Columns of the event: `correlation` is its stack_id, the internal id of the call; 0 is none.

    The parent's id is an argument where it says something else, the user's own correlation is `external_id`.
    """
    stack, parent, outer = (_said(event.get(name)) for name in ("stack_id", "parent_stack_id", "correlation_id"))
    if stack is not None and parent is not None:
        parent = pc.if_else(pc.fill_null(pc.equal(stack, parent), False), None, parent)
    found = {"cat": event.get("cat"), "correlation": stack, "args.parent_stack_id": parent}
    is_id = outer is not None and pa.types.is_integer(outer.type)  # one beyond 2^63 is stored as a float
    found["external_id" if is_id else "args.correlation_id"] = outer
    return {name: column for name, column in found.items() if column is not None and column.null_count < len(column)}


def _said(column: pa.Array | None) -> pa.Array | None:
    """The ids, 0 taken for null."""
    if column is None or not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        return column
    zero = pc.equal(column, 0)
    if not zero.true_count:
        return column
    return pc.if_else(zero, pa.scalar(None, column.type), column)
