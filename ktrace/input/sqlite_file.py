"""SQLite databases from other programs: opened read only, without locks, and without running code in them.

A profiler may still hold the file, or have left it with changes in a `-wal` or `-journal` file beside it. Then a copy
is read: with the journal undone by ktrace itself, and beside a copy of the `-wal`. SQLite opens nothing for writing.

SQLite itself believes a journal: it deletes the file that a journal names as its super-journal, wherever that is.
So SQLite never sees a journal that came with an input. Source: section 3 of "Database File Format", SQLite's own page.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from struct import Struct
from typing import BinaryIO, NamedTuple

from ktrace.errors import DamagedInput
from ktrace.input.files import is_name_of_open, open_file
from ktrace.input.limits import current, require_disk_space
from ktrace.scratch import scratch_folder

JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")

#: Magic, records, nonce of the checksums, pages of the database before, bytes of a sector, bytes of a page.
_HEADER = Struct(">8s5I")
_NUMBER = Struct(">I")

#: The count of records in a header that was never synced: all up to the end of the file.
_UNCOUNTED = 0xFFFFFFFF

#: Every so many bytes of a page count for its checksum, from the end on.
_STEP = 200

#: The page that contains this byte has SQLite's locks, and no data.
_LOCKS = 1 << 30


class _Header(NamedTuple):
    records: int
    nonce: int
    pages: int
    sector: int
    page: int


def undo(database: BinaryIO, journal: Path, path: str) -> None:
    """Writes the pages of a journal back into a copy of its database, which gets the length that it had before.

    Ends, as SQLite does, with the first record that isn't whole. Raises DamagedInput for a journal that belongs to
    several databases, since only the file that it names says whether their transaction was committed.
    """
    with open_file(journal) as file:
        size = file.seek(0, 2)
        file.seek(max(_HEADER.size, size - len(JOURNAL_MAGIC)))
        if file.read() == JOURNAL_MAGIC:
            raise _refused("belongs to a transaction over several databases", path, journal)
        first = _header(file, 0, size)
        if first is None:
            return
        present = database.seek(0, 2) // first.page
        if first.pages > 2 * (present + size // first.page):
            raise _refused(f"says that the database had {first.pages:,} pages; it has {present:,}", path, journal)
        done = set()
        for number, data in _records(file, first, size):
            if number <= first.pages and number not in done:
                done.add(number)
                database.seek((number - 1) * first.page)
                database.write(data)
        database.truncate(first.pages * first.page)


def _records(file: BinaryIO, first: _Header, size: int) -> Iterator[tuple[int, bytes]]:
    """Yields the number and the former content of each page, as far as the journal is whole."""
    record = _NUMBER.size + first.page + _NUMBER.size
    place, header = 0, _header(file, 0, size)
    while header is not None:
        place += first.sector
        count = (size - place) // record if header.records == _UNCOUNTED else header.records
        for _ in range(count):
            file.seek(place)
            content = file.read(record)
            if len(content) < record:
                return
            (number,), data = _NUMBER.unpack_from(content), content[_NUMBER.size : -_NUMBER.size]
            checksum = header.nonce + sum(data[first.page - _STEP : 0 : -_STEP])
            expected = _NUMBER.unpack_from(content, record - _NUMBER.size)[0]
            if number in (0, _LOCKS // first.page + 1) or checksum & 0xFFFFFFFF != expected:
                return
            yield number, data
            place += record
        place = -(-place // first.sector) * first.sector
        header = _header(file, place, size)


def _header(file: BinaryIO, place: int, size: int) -> _Header | None:
    """Returns the header at a place, None if there is none: SQLite clears it where the transaction was committed."""
    file.seek(place)
    content = file.read(_HEADER.size)
    if len(content) < _HEADER.size:
        return None
    magic, *numbers = _HEADER.unpack(content)
    header = _Header(*numbers)
    sizes = 32 <= header.sector <= 1 << 16 and 512 <= header.page <= 1 << 16
    powers = header.sector & (header.sector - 1) == 0 and header.page & (header.page - 1) == 0
    return header if magic == JOURNAL_MAGIC and sizes and powers and place + header.sector <= size else None


def _refused(what: str, path: str, journal: Path) -> DamagedInput:
    return DamagedInput(
        f"the journal beside it {what}",
        path=path,
        where=journal.name,
        expected="a database whose last transaction ended, or a journal of this database alone",
        remedy="open it once with the program that wrote it, or with sqlite3 if you trust both files",
    )


MAGIC = b"SQLite format 3\0"

#: Suffixes of database files.
DATABASES = (".sqlite", ".sqlite3", ".db", ".rpd", ".nvvp", ".nvprof")

#: Bytes of the longest statement in the file's own schema, and SQLite's own limit of any value.
_LONGEST_STATEMENT = 1 << 20
_LONGEST_VALUE = (1 << 31) - 1

#: How a file is opened that nobody else may change: neither locks nor files beside it are looked at.
_READ_ONLY = "mode=ro&immutable=1"

#: Bytes that are copied at once.
_COPIED = 1 << 20

#: Table -> its columns, as the database spells them.
Tables = Mapping[str, tuple[str, ...]]


@contextmanager
def readonly_uri(path: Path) -> Iterator[str]:
    """Yields a URI of the database with all of its changes, to be read by any SQLite.

    Raises OSError, InputError if the disk is too full for a copy, DamagedInput for a journal that can't be undone.
    """
    given, path = path, path.resolve()  # SQLite, too, looks for its files next to the file that a link names
    beside = _beside(path)
    if not beside and not is_name_of_open(given):  # which SQLite would resolve to whatever is there then
        yield f"{path.as_uri()}?{_READ_ONLY}"
        return
    with scratch_folder() as folder:
        require_disk_space(sum(map(_bytes_of, (path, *beside.values()))), str(folder), str(path))
        copy = folder / "copy.sqlite"
        _copy(given if is_name_of_open(given) else path, copy)
        if journal := beside.get("-journal"):
            with copy.open("r+b") as database:
                undo(database, journal, str(path))
        if log := beside.get("-wal"):
            _copy(log, copy.with_name(f"{copy.name}-wal"))
        yield f"{copy.as_uri()}?{'mode=ro' if log else _READ_ONLY}"


def _copy(path: Path, copy: Path) -> None:
    with open_file(path) as file, copy.open("wb") as target:
        shutil.copyfileobj(file, target, _COPIED)


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
    with readonly_uri(path) as uri, closing(connect(uri)) as connection:
        return tables(connection)


def quoted_name(name: str) -> str:
    """Quotes a name for SQL."""
    return '"' + name.replace('"', '""') + '"'
