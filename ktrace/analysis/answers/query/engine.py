"""DuckDB: the views that SQL sees, connections that reach no files and no Python variables, and their errors as ours.

Which tables and columns a text of SQL needs is found before anything is read: the query is planned on empty tables.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from ktrace.errors import KtraceError, UsageError, error_text, import_extra
from ktrace.model.batch import DEVICE_KINDS, arrow_schema
from ktrace.model.schema import RECORDS, columns_in, fields
from ktrace.naming.taxonomy import COLUMNS as LABELS

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


@dataclass(frozen=True)
class SqlView:
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
    "events": "what happened, with times",
    "summaries": "statistics, from tables of the source",
    "links": "ends of arrows",
    "catalog": "facts about sources, processes, devices, ...",
}

_NAMES = ("kind", "name", *columns_in("label"))
_PLACE = ("host", "pid", "device", "context", "stream", "track")
_OF_WORK = (
    *("source", "id", *_NAMES, *_PLACE, "ts", "dur", "correlation"),
    *(*columns_in("grid", "launch", "transfer"), "cat", "args"),
)
_OF_LAUNCH = (
    *("source", *CALL_COLUMNS, "id", *_NAMES),
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


def _record_view(record: str) -> SqlView:
    columns = tuple(arrow_schema(record).names)
    return SqlView(record, _ABOUT[record], columns, f"SELECT * FROM {table_name(record)}")


_KERNELS = (*_OF_WORK, *CALL_COLUMNS)

VIEWS = {
    view.name: view
    for view in (
        _record_view("events"),
        SqlView("kernels", "device work: kernels, copies, memsets, graphs", _KERNELS, _joined(_KERNELS, "LEFT")),
        SqlView("launches", "a call, and work that it launched", _OF_LAUNCH, _joined(_OF_LAUNCH, "INNER")),
        *map(_record_view, RECORDS[1:]),
    )
}

#: The same views where the table of events has the columns of calls: joined once, then asked many times.
JOINED = VIEWS | {
    "events": replace(VIEWS["events"], sql=f"SELECT {', '.join(VIEWS['events'].columns)} FROM {table_name('events')}"),
    **{
        name: replace(
            VIEWS[name],
            sql=f"SELECT {', '.join(VIEWS[name].columns)} FROM {table_name('events')} WHERE kind IN ({_KINDS}){more}",
        )
        for name, more in (("kernels", ""), ("launches", " AND call_id IS NOT NULL"))
    },
}

#: The columns of that table of events.
JOINED_SCHEMA = pa.schema([*table_schema("events"), *(LAUNCHED_SCHEMA.field(name) for name in CALL_COLUMNS)])


def described(view: SqlView, column: str) -> tuple[str, str, str]:
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


#: SQL reads the trace alone: no files, no network, no extensions, none of the caller's variables.
_SETTINGS = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
}

#: The number of a line in the query, the line, and the mark below the place in it.
_LINE = re.compile(r"\nLINE (\d+): (.*)\n( *\^)?")

#: Names that DuckDB proposes in place of an unknown one.
_NEAR = re.compile(r"\n(?:Candidate bindings: |Did you mean )([^\n]*)")

#: What an error begins with that isn't the fault of the query.
_OF_MACHINE = ("Out of Memory", "IO", "INTERNAL", "FATAL")

#: What an error of DuckDB begins with: `Binder Error: `.
_ERROR = re.compile(r"([A-Za-z ]+) Error: ")


class MemoryExceeded(KtraceError):
    """A query needs more memory than there is for it."""

    kind = "memory"


class TimeExceeded(KtraceError):
    """A query takes longer than it may."""

    kind = "timeout"


def duckdb() -> Any:
    """The module. Raises KtraceError with the command that installs it."""
    return import_extra("duckdb", "sql", "SQL", error=KtraceError)


@contextmanager
def connected(folder: Path | None = None, threads: int | None = None, *, memory: int | None = None) -> Iterator[Any]:
    """Yields a connection to an empty database; what doesn't fit into memory goes to files in `folder`.

    With `memory`, it takes at most so many bytes, and what needs more is an error.
    """
    settings = dict(_SETTINGS)
    if folder is not None:
        settings["temp_directory"] = str(folder)
    if memory is not None:
        settings |= {"memory_limit": f"{memory}B", "temp_directory": ""}
    if threads is not None:
        settings["threads"] = str(threads)
    connection = duckdb().connect(config=settings)
    try:
        yield connection
    finally:
        connection.close()


def create_views(connection: Any, views: Mapping[str, SqlView] = VIEWS) -> None:
    """Creates the views on the tables, which are there. Settings can't be changed from then on."""
    for view in views.values():
        connection.execute(f"CREATE VIEW {view.name} AS {view.sql}")
    connection.execute("SET lock_configuration = true")


@contextmanager
def translate_duckdb_errors(before: int = 0) -> Iterator[None]:
    """Raises errors of DuckDB as UsageError, with the place in the query; KtraceError where memory or disk are full.

    `before` is the number of lines that ktrace put before the query. What fails late comes as an error of Arrow, which
    has DuckDB's text.
    """
    module = duckdb()
    try:
        yield
    except (module.Error, pa.ArrowException, OSError) as error:
        begin = _ERROR.match(str(error))
        if begin is None and isinstance(error, pa.ArrowException):
            raise UsageError(f"SQL: the answer isn't an Arrow table: {error_text(error)}") from None
        if begin is None and isinstance(error, OSError):
            raise
        if begin and begin[1] in _OF_MACHINE:
            kind = MemoryExceeded if begin[1] == "Out of Memory" else KtraceError
            raise kind(f"DuckDB: {error}", remedy="check memory, and the space in TMPDIR") from None
        raise _explained(str(error), before) from None


def _explained(text: str, before: int) -> UsageError:
    """The error in our form: what is wrong, the place, near names."""
    what = text.partition("\n")[0]
    _, colon, rest = what.partition(" Error: ")
    what = (rest if colon else what).rstrip("! ")
    place = ""
    if line := _LINE.search(f"{text}\n"):
        head = f"  line {int(line[1]) - before}: "
        place = f"\n{head}{line[2]}"
        if line[3]:  # the mark is below the line with DuckDB's own head
            place += "\n" + "^".rjust(len(line[3]) + len(head) - len(f"LINE {line[1]}: "))
    near = _NEAR.search(text)
    return UsageError(f"SQL: {what}{place}", expected=near and near[1].strip().rstrip("?"))


Parameters = Mapping[str, Any]

#: Optimizers that stay: the one that leaves out columns. Others would leave out more, since the tables are empty.
_OPTIMIZERS = ("unused_columns",)

#: On a line of its own, so that places in the query stay the same.
_EXPLAIN = "EXPLAIN (FORMAT json)\n"


@dataclass(frozen=True)
class Plan:
    """The tables that a query reads, each with its columns; `launched` is one of them."""

    tables: dict[str, frozenset[str]]

    @property
    def launches(self) -> bool:
        """Whether calls and their work have to be joined."""
        return LAUNCHED in self.tables

    @property
    def labels(self) -> bool:
        """Whether device work has to be labelled."""
        return any(not columns.isdisjoint(LABELS) for columns in self.tables.values())


def everything() -> Plan:
    """The plan of a query that may read anything."""
    return Plan({record: frozenset(table_schema(record).names) for record in (*RECORDS, LAUNCHED)})


def planned(sql: str, params: Parameters | None) -> Plan:
    """The plan of a query. Raises UsageError where the SQL is wrong, or isn't one query."""
    with connected(threads=1) as connection, translate_duckdb_errors(1):  # closed before readers fork
        for record in (*RECORDS, LAUNCHED):
            connection.register("empty", table_schema(record).empty_table())
            connection.execute(f"CREATE TABLE {table_name(record)} AS SELECT * FROM empty")
            connection.unregister("empty")
        (optimizers,) = zip(*connection.execute("SELECT name FROM duckdb_optimizers()").fetchall(), strict=True)
        off = ",".join(name for name in optimizers if name not in _OPTIMIZERS)
        connection.execute(f"SET disabled_optimizers = '{off}'")
        create_views(connection)
        if is_several(connection, sql):  # PIVOT looks at the values first: its plan isn't known
            words = set(re.findall(r"\w+", sql.lower())) & VIEWS.keys()
            return _all_columns(words) if words <= {*RECORDS} else everything()
        rows = connection.execute(f"{_EXPLAIN}{sql}", dict(params) if params else None).fetchall()
        return _plan(json.loads(rows[0][1]))


def is_several(connection: Any, sql: str) -> bool:
    """Whether the SQL is one query that DuckDB runs as several. Raises UsageError where it isn't one query."""
    with translate_duckdb_errors():
        statements = connection.extract_statements(sql)
    kinds = [str(one.type).rpartition(".")[2].removesuffix("_STATEMENT") for one in statements]
    if re.search(r"\bpivot\b", sql, re.I) and kinds[-1:] == ["SELECT"] and {*kinds[:-1]} == {"CREATE"}:
        return True  # DuckDB 1 makes a type of the values first
    if len(kinds) != 1:
        what = f"these are {len(kinds)} statements" if kinds else "there is no query"
        raise UsageError(f"SQL: {what}", expected="one query, such as: select name, sum(dur) from kernels group by 1")
    if kinds[0] not in ("SELECT", "MULTI"):
        raise UsageError(f"SQL: {kinds[0]} isn't a query", expected="SELECT, FROM, WITH, PIVOT, SUMMARIZE or DESCRIBE")
    return kinds[0] == "MULTI"


def _all_columns(records: set[str]) -> Plan:
    """A plan that reads all columns of these records."""
    return Plan({record: frozenset(table_schema(record).names) for record in records})


def _plan(tree: Any) -> Plan:
    """The tables and columns in a plan of DuckDB, which is a tree of nodes."""
    used: dict[str, set[str]] = {}
    names = {table_name(record): record for record in (*RECORDS, LAUNCHED)}
    nodes = [*tree]
    while nodes:
        node = nodes.pop()
        nodes += node.get("children", [])
        info = node.get("extra_info", {})
        record = names.get(info.get("Table", "").rpartition(".")[2])
        if record is not None:
            columns = info.get("Projections") or []
            used.setdefault(record, set()).update([columns] if isinstance(columns, str) else columns)
    if used.get(LAUNCHED, set()) <= {*WORK_KEY}:  # joined, but nothing of it is looked at
        used.pop(LAUNCHED, None)
    return Plan({record: frozenset(columns | {"id"}) for record, columns in used.items()})
