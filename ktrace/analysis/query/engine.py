"""DuckDB: connections that reach no files and no Python variables, and their errors as ours.

Finds which tables and columns a text of SQL needs, before anything is read: the query is planned on empty tables.

SELECT name, sum(dur) FROM kernels GROUP BY name   ──►   events: source, id, kind, name, dur
SELECT name, queue FROM kernels                    ──►   events: source, id, kind, name; launched: source, id, queue
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktrace.analysis.query.views import LAUNCHED, VIEWS, WORK_KEY, table_name, table_schema
from ktrace.errors import KtraceError, UsageError, import_extra
from ktrace.model.batch import RECORDS
from ktrace.naming.taxonomy import COLUMNS as LABELS

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

#: What isn't the fault of the query.
_OF_MACHINE = ("OutOfMemoryException", "IOException", "InternalException", "FatalException")


def duckdb() -> Any:
    """The module. Raises KtraceError with the command that installs it."""
    return import_extra("duckdb", "sql", "SQL", error=KtraceError)


@contextmanager
def connected(folder: Path | None = None, threads: int | None = None) -> Iterator[Any]:
    """Yields a connection to an empty database; what doesn't fit into memory goes to files in `folder`."""
    settings = dict(_SETTINGS)
    if folder is not None:
        settings["temp_directory"] = str(folder)
    if threads is not None:
        settings["threads"] = str(threads)
    connection = duckdb().connect(config=settings)
    try:
        yield connection
    finally:
        connection.close()


def create_views(connection: Any) -> None:
    """Creates the views on the tables, which are there. Settings can't be changed from then on."""
    for view in VIEWS.values():
        connection.execute(f"CREATE VIEW {view.name} AS {view.sql}")
    connection.execute("SET lock_configuration = true")


@contextmanager
def errors_as_ours(before: int = 0) -> Iterator[None]:
    """Raises errors of DuckDB as UsageError, with the place in the query; KtraceError where memory or disk are full.

    `before` is the number of lines that ktrace put before the query.
    """
    module = duckdb()
    try:
        yield
    except module.Error as error:
        if type(error).__name__ in _OF_MACHINE:
            raise KtraceError(f"DuckDB: {error}", remedy="check memory, and the space in TMPDIR") from None
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
    with connected(threads=1) as connection, errors_as_ours(1):  # closed before readers fork
        for record in (*RECORDS, LAUNCHED):
            connection.register("empty", table_schema(record).empty_table())
            connection.execute(f"CREATE TABLE {table_name(record)} AS SELECT * FROM empty")
            connection.unregister("empty")
        (known,) = zip(*connection.execute("SELECT name FROM duckdb_optimizers()").fetchall(), strict=True)
        off = ",".join(name for name in known if name not in _OPTIMIZERS)
        connection.execute(f"SET disabled_optimizers = '{off}'")
        create_views(connection)
        if _kind(connection, sql):  # PIVOT looks at the values first: its plan isn't known
            words = set(re.findall(r"\w+", sql.lower())) & VIEWS.keys()
            return _whole(words) if words <= {*RECORDS} else everything()
        found = connection.execute(f"{_EXPLAIN}{sql}", dict(params) if params else None).fetchall()
        return _plan(json.loads(found[0][1]))


def _kind(connection: Any, sql: str) -> bool:
    """Whether the SQL is one query that DuckDB runs as several. Raises UsageError where it isn't one query."""
    with errors_as_ours():
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


def _whole(records: set[str]) -> Plan:
    """All columns of these records."""
    return Plan({record: frozenset(table_schema(record).names) for record in records})


def _plan(found: Any) -> Plan:
    """The tables and columns in a plan of DuckDB, which is a tree of nodes."""
    used: dict[str, set[str]] = {}
    names = {table_name(record): record for record in (*RECORDS, LAUNCHED)}
    nodes = [*found]
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
