"""The rollback journal of an SQLite database, undone in a copy without SQLite.

SQLite itself believes a journal: it deletes the file that a journal names as its super-journal, wherever that is.
So SQLite never sees a journal that came with an input. Source: section 3 of "Database File Format", SQLite's own page.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import BinaryIO, NamedTuple

from ktrace.errors import DamagedInput

MAGIC = bytes.fromhex("d9d505f920a163d7")

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
    with journal.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(_HEADER.size, size - len(MAGIC)))
        if file.read() == MAGIC:
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
    return header if magic == MAGIC and sizes and powers and place + header.sector <= size else None


def _refused(what: str, path: str, journal: Path) -> DamagedInput:
    return DamagedInput(
        f"the journal beside it {what}",
        path=path,
        where=journal.name,
        expected="a database whose last transaction ended, or a journal of this database alone",
        remedy="open it once with the program that wrote it, or with sqlite3 if you trust both files",
    )
