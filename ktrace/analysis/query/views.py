"""The views that SQL sees.

    events  summaries  links  catalog     the records of the model, with all their columns
    kernels                               device work, and the call that launched it
    launches                              a call and a piece of work that it launched

They are defined on tables whose names begin with `ktrace_`: those of the model, and `ktrace_launched`, which
`ktrace.analysis.query.loading` makes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import pyarrow as pa

from ktrace.model.batch import DEVICE_KINDS, RECORDS, arrow_schema, fields

#: The table of launches, and its columns that identify a piece of work.
LAUNCHED, WORK_KEY = "launched", ("source", "id")

#: The columns of the table of launches. Texts are dictionaries.
LAUNCHED_SCHEMA = pa.schema(
    [
        ("source", pa.dictionary(pa.int32(), pa.string())),
        ("id", pa.int64()),
        ("call_id", pa.int64()),
        ("call", pa.dictionary(pa.int32(), pa.string())),
        ("call_ts", pa.int64()),
        ("call_dur", pa.int64()),
        ("call_pid", pa.int64()),
        ("call_tid", pa.int64()),
        ("queue", pa.int64()),
    ]
)

_REPEATING = pa.dictionary(pa.int32(), pa.string())

#: Columns of text whose values rarely repeat.
_DISTINCT = ("args", "facts", "key")

#: Columns of a view that the model doesn't have: unit and meaning.
CALL_COLUMNS = {
    "call_id": ("", "Id of the call that launched the work."),
    "call": ("", "Name of the call."),
    "call_ts": ("ns", "Start of the call."),
    "call_dur": ("ns", "Duration of the call."),
    "call_pid": ("", "Process of the call."),
    "call_tid": ("", "Thread of the call."),
    "queue": ("ns", "From the end of the call to the start of the work; 0 if the work started before."),
}

_NAMES = ("source", "id", "kind", "name", "short_name", "operation", "library", "precision", "layer")
_PLACE = ("host", "pid", "device", "context", "stream", "track")
_SHAPE = (
    *("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"),
    *("registers", "shared_memory", "shared_dynamic", "occupancy", "bytes", "copy_kind", "comm", "comm_seq"),
)


@dataclass(frozen=True)
class View:
    """A view: what a row is, its columns, and the query that defines it."""

    name: str
    about: str
    columns: tuple[str, ...]
    sql: str


def table_name(record: str) -> str:
    """The name of the table of a record, or of launches, in DuckDB."""
    return f"ktrace_{record}"


@cache
def table_schema(record: str) -> pa.Schema:
    """The Arrow schema of a table: that of the model, with texts that repeat as dictionaries."""
    if record == LAUNCHED:
        return LAUNCHED_SCHEMA
    return pa.schema(
        pa.field(one.name, _REPEATING if pa.types.is_string(one.type) and one.name not in _DISTINCT else one.type)
        for one in arrow_schema(record)
    )


_KINDS = ", ".join(f"'{kind}'" for kind in DEVICE_KINDS)

_ABOUT = {
    "events": "what happened, at a time",
    "summaries": "statistics, from tables of the source",
    "links": "ends of arrows",
    "catalog": "facts about sources, processes, devices, ...",
}

_OF_WORK = (*_NAMES, *_PLACE, "ts", "dur", "correlation", *_SHAPE, "cat", "args")
_OF_LAUNCH = (
    *("source", "call_id", "call", "call_ts", "call_dur", "call_pid", "call_tid", "queue"),
    *("id", "kind", "name", "short_name", "operation", "library", "precision", "layer"),
    *("host", "device", "context", "stream", "ts", "dur", "correlation"),
)


def _joined(columns: tuple[str, ...], join: str) -> str:
    """The query of a view on device work and its launches."""
    shown = ", ".join(f"{'l' if name in CALL_COLUMNS else 'e'}.{name}" for name in columns)
    events, launched = table_name("events"), table_name(LAUNCHED)
    return (
        f"SELECT {shown} FROM {events} e {join} JOIN {launched} l ON e.source = l.source AND e.id = l.id "
        f"WHERE e.kind IN ({_KINDS})" + (" AND l.call_id IS NOT NULL" if join == "INNER" else "")
    )


def _record_view(record: str) -> View:
    columns = tuple(arrow_schema(record).names)
    return View(record, _ABOUT[record], columns, f"SELECT * FROM {table_name(record)}")


_KERNELS = (*_OF_WORK, *CALL_COLUMNS)

VIEWS = {
    view.name: view
    for view in (
        _record_view("events"),
        View("kernels", "device work: kernels, copies, memsets, graphs", _KERNELS, _joined(_KERNELS, "LEFT")),
        View("launches", "a call, and work that it launched", _OF_LAUNCH, _joined(_OF_LAUNCH, "INNER")),
        *map(_record_view, RECORDS[1:]),
    )
}


def described(view: View, column: str) -> tuple[str, str, str]:
    """The type, unit and meaning of a column of a view."""
    if column in CALL_COLUMNS:
        return (sql_type(LAUNCHED_SCHEMA.field(column).type), *CALL_COLUMNS[column])
    record = view.name if view.name in RECORDS else "events"
    spec = fields(record)[column]
    kind = sql_type(arrow_schema(record).field(column).type)
    return kind, spec.get("x-unit", ""), spec.get("description", "")


def sql_type(kind: pa.DataType) -> str:
    """The type in SQL."""
    if pa.types.is_list(kind):
        return "varchar[]"
    if pa.types.is_floating(kind):
        return "double"
    return {pa.int64(): "bigint", pa.int32(): "integer"}.get(kind, "varchar")
