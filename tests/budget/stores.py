"""Inputs in databases, Parquet and Arrow: a row of a sample is inserted many times over."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from .shapes import Record
from .source import Source


@dataclass(frozen=True)
class Names:
    """A table of names to whose ids rows refer."""

    table: str
    id: str
    text: str
    #: Values of its other columns.
    more: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Database(Source):
    """A row of a table of SQLite. The columns of its fields are named; `id` is a list of columns with other numbers."""

    sample: str
    table: str
    start: str = ""
    end: str = ""
    name: tuple[str, ...] = ()
    names: Names | None = None
    track: str = ""
    id: tuple[str, ...] = ()
    where: str = "1"
    #: What must be done before, such as dropping an index.
    before: tuple[str, ...] = field(default=())

    @property
    def fields(self) -> frozenset[str]:
        """What a row has, as shapes ask for it."""
        found = {key for key in ("name", "track") if getattr(self, key)}
        return frozenset(found | ({"start", "extent"} if self.start and self.end else set()))

    def lacks(self, shape: str) -> str:
        """Returns why the shape has no meaning for these rows, or nothing."""
        return "a column of numbers has 64 bits" if shape == "number" else super().lacks(shape)

    def write(self, folder: Path, records: Iterator[Record]) -> Path:
        """Adds rows to the sample; returns the path of the input."""
        path = self.copy(folder)
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.execute("PRAGMA synchronous = OFF")
            database.execute("BEGIN")
            for statement in self.before:
                database.execute(statement)
            found = database.execute(f"SELECT * FROM {self.table} WHERE {self.where} LIMIT 1")
            columns = [column[0] for column in found.description]
            row = found.fetchone()
            places = ", ".join("?" * len(columns))
            names: list[str] = []
            database.executemany(
                f"INSERT INTO {self.table} VALUES ({places})",
                self._rows(dict(zip(columns, row, strict=True)), records, names),
            )
            if self.names is not None:
                keys = (self.names.id, self.names.text, *(key for key, _ in self.names.more))
                more = tuple(value for _, value in self.names.more)
                database.executemany(
                    f"INSERT INTO {self.names.table} ({', '.join(keys)}) VALUES ({', '.join('?' * len(keys))})",
                    ((_FIRST + number, name, *more) for number, name in enumerate(names)),
                )
            database.execute("COMMIT")
        return path

    def _rows(self, base: dict[str, Any], records: Iterator[Record], names: list[str]) -> Iterator[list[Any]]:
        row = dict(base)
        for record in records:
            if self.start:
                row[self.start] = int(base[self.start]) + record.start
            if self.end:
                row[self.end] = int(base[self.start]) + record.start + record.dur
            if self.track:
                row[self.track] = int(base[self.track]) + record.track
            for column in self.id:
                row[column] = _FIRST + record.number
            if record.name is not None:
                if self.names is not None:
                    names.append(record.name)
                for column in self.name:
                    row[column] = record.name if self.names is None else _FIRST + len(names) - 1
            elif self.name:
                row.update((column, base[column]) for column in self.name)
            yield list(row.values())


#: Ids of what is added begin here.
_FIRST = 1_000_000_000


@dataclass(frozen=True)
class Tables(Source):
    """A row of a table of Parquet or Arrow; the columns of its fields are named."""

    sample: str
    row: int = 0
    start: str = ""
    dur: str = ""
    end: str = ""
    name: str = ""
    track: str = ""
    id: str = ""
    #: The file and the columns of a table of names to whose ids rows refer.
    names: Names | None = None

    @property
    def fields(self) -> frozenset[str]:
        """What a row has, as shapes ask for it."""
        found = {key for key in ("name", "track", "start") if getattr(self, key)}
        return frozenset(found | ({"extent"} if self.dur or self.end else set()))

    def lacks(self, shape: str) -> str:
        """Returns why the shape has no meaning for these rows, or nothing."""
        return "a column of numbers has 64 bits" if shape == "number" else super().lacks(shape)

    def write(self, folder: Path, records: Iterator[Record]) -> Path:
        """Writes rows in the place of the sample's one; returns the path of the input."""
        path = self.copy(folder)
        file = path / self.file.relative_to(self.path) if path.is_dir() else path
        table = _read(file)
        made = list(records)
        rows = table.take(pa.array([self.row] * len(made)))
        for key, values in self._columns(table.slice(self.row, 1).to_pylist()[0], made, file).items():
            at = rows.column_names.index(key)
            array = pa.array(values).cast(rows.schema.field(at).type, safe=False)
            rows = rows.set_column(at, rows.schema.field(at), array)
        _write(file, pa.concat_tables([table.slice(0, self.row), rows, table.slice(self.row + 1)]))
        return path

    def _columns(self, base: dict[str, Any], made: list[Record], file: Path) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        if self.start:
            found[self.start] = [base[self.start] + record.start for record in made]
        if self.dur:
            found[self.dur] = [record.dur for record in made]
        if self.end:
            found[self.end] = [base[self.start] + record.start + record.dur for record in made]
        if self.track:
            found[self.track] = [(base[self.track] or 0) + record.track for record in made]
        if self.id:
            found[self.id] = [_FIRST + record.number for record in made]
        if self.name and any(record.name is not None for record in made):
            if self.names is None:
                found[self.name] = [base[self.name] if record.name is None else record.name for record in made]
            else:
                found[self.name] = [
                    base[self.name] if record.name is None else _FIRST + number for number, record in enumerate(made)
                ]
                self._add_names(file, self.names, made)
        return found

    def _add_names(self, file: Path, names: Names, made: list[Record]) -> None:
        other = file.with_name(names.table)
        table = _read(other)
        named = [(_FIRST + number, record.name) for number, record in enumerate(made) if record.name is not None]
        columns = {names.id: [one[0] for one in named], names.text: [one[1] for one in named]}
        more = pa.table({key: pa.array(columns[key]).cast(table.schema.field(key).type) for key in table.column_names})
        _write(other, pa.concat_tables([table, more.cast(table.schema)]))


def _read(file: Path) -> pa.Table:
    if file.suffix == ".parquet":
        return pq.read_table(file)
    with pa.OSFile(str(file)) as opened:
        return pa.ipc.open_file(opened).read_all()


def _write(file: Path, table: pa.Table) -> None:
    if file.suffix == ".parquet":
        pq.write_table(table, file, row_group_size=65_536)
        return
    with pa.OSFile(str(file), "wb") as opened, pa.ipc.new_file(opened, table.schema) as writer:
        writer.write_table(table.unify_dictionaries(), max_chunksize=65_536)
