"""SQLite databases from other programs: opened read only, without locks, and without running code in them.

A profiler may still hold the file, or have left it with changes in a `-wal` or `-journal` file beside it. Then a copy
is read: with the journal undone by ktrace itself, and beside a copy of the `-wal`. SQLite opens nothing for writing.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from ktrace.input.limits import current
from ktrace.input.room import require_room
from ktrace.input.sqlite_journal import undo
from ktrace.scratch import scratch_folder

MAGIC = b"SQLite format 3\0"

#: Suffixes of database files.
DATABASES = (".sqlite", ".sqlite3", ".db", ".rpd", ".nvvp", ".nvprof")

#: Bytes of the longest statement in the file's own schema, and SQLite's own limit of any value.
_LONGEST_STATEMENT = 1 << 20
_LONGEST_VALUE = (1 << 31) - 1

#: How a file is opened that nobody else may change: neither locks nor files beside it are looked at.
_READ_ONLY = "mode=ro&immutable=1"

#: Table -> its columns, as the database spells them.
Tables = Mapping[str, tuple[str, ...]]


@contextmanager
def settled(path: Path) -> Iterator[str]:
    """Yields a URI of the database with all of its changes, to be read by any SQLite.

    Raises OSError, InputError if there is no room for a copy, DamagedInput for a journal that can't be undone.
    """
    path = path.resolve()  # SQLite, too, looks for its files next to the file that a link names
    beside = _beside(path)
    if not beside:
        yield f"{path.as_uri()}?{_READ_ONLY}"
        return
    with scratch_folder() as folder:
        require_room(sum(map(_bytes_of, (path, *beside.values()))), str(folder), str(path))
        copy = folder / "copy.sqlite"
        shutil.copyfile(path, copy)
        if journal := beside.get("-journal"):
            with copy.open("r+b") as database:
                undo(database, journal, str(path))
        if log := beside.get("-wal"):
            shutil.copyfile(log, copy.with_name(f"{copy.name}-wal"))
        yield f"{copy.as_uri()}?{'mode=ro' if log else _READ_ONLY}"


def has_changes_beside(path: Path) -> bool:
    """Whether a file has a `-wal` or `-journal` beside it, with changes that belong to it."""
    try:
        return bool(_beside(path.resolve()))
    except (OSError, ValueError, RuntimeError):  # no path, or a link that names itself
        return False


def _beside(path: Path) -> dict[str, Path]:
    files = {suffix: path.with_name(path.name + suffix) for suffix in ("-wal", "-journal")}
    return {suffix: file for suffix, file in files.items() if _bytes_of(file)}


def _bytes_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def connect(uri: str) -> sqlite3.Connection:
    """Opens a connection that trusts nothing in the database: no extensions, no schema functions, bounded values.

    Raises sqlite3.Error.
    """
    connection = sqlite3.connect(uri, uri=True)
    with suppress(AttributeError):  # Python 3.10 has no limits
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(current().value, _LONGEST_VALUE))
        connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, _LONGEST_STATEMENT)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA mmap_size = 0")  # a mapped file that becomes shorter would kill the process
    connection.execute("PRAGMA cell_size_check = ON")
    connection.text_factory = lambda text: text.decode("utf-8", "replace")
    return connection


def tables(connection: sqlite3.Connection) -> Tables:
    """Returns the tables with their columns, without views and virtual tables, which would run code of the file.

    Raises sqlite3.Error.
    """
    try:
        return _tables(connection)
    except UnicodeDecodeError:  # of SQLite's own message about the schema
        raise sqlite3.DatabaseError("the schema is damaged") from None


def _tables(connection: sqlite3.Connection) -> Tables:
    names = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY rowid"
    )
    return {
        name: tuple(column for _, column, *_ in connection.execute(f"PRAGMA table_info({quoted_name(name)})"))
        for (name,) in names.fetchall()
        if not name.startswith("sqlite_")
    }


def tables_of(path: Path) -> Tables:
    """Returns the tables of the database at `path` with their columns. Raises sqlite3.Error and OSError."""
    with settled(path) as uri, closing(connect(uri)) as connection:
        return tables(connection)


def quoted_name(name: str) -> str:
    """Quotes a name for SQL."""
    return '"' + name.replace('"', '""') + '"'
