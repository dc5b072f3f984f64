"""DuckDB: connections that reach no files and no Python variables, and their errors as ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ktrace.analysis.query.views import VIEWS
from ktrace.errors import KtraceError, UsageError, import_extra

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
