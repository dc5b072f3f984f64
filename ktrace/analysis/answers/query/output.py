"""Writes an answer: as a table for people, and as CSV, TSV, JSON, JSON Lines, Markdown or Parquet for programs.

Rows are written as they come, except in tables, which need the widths of all. JSON is one document, with what was
left out. Whole numbers are written digit by digit.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, BinaryIO, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ktrace.errors import UsageError
from ktrace.model.arrays import is_number
from ktrace.tables import UNSEEN, Cell, Column, Limits, Table, fitted
from ktrace.tables.text import answer, as_markdown, as_text, csv_cell

#: The values of `--format`.
FORMATS = ("table", "csv", "tsv", "json", "jsonl", "md", "parquet")

#: Endings of file names, where they aren't the format.
SUFFIXES = {"txt": "table", "ndjson": "jsonl", "nl": "jsonl", "markdown": "md", "pq": "parquet"}

#: Rows that people, and programs that ask for one document, get at most, unless they name a number.
MOST = 1_000

#: The name of the rows in a cursor.
_ROWS = "rows"

#: Bytes of JSON after the last row.
_TAIL = 80

#: From this many columns on, a table leaves out those without any value.
_MANY = 12


class RowSource(Protocol):
    """Rows as Arrow batches of one schema."""

    schema: pa.Schema

    def __iter__(self) -> Iterator[pa.RecordBatch]: ...


class Part:
    """The rows of an answer that `limits` let pass; once they have been read, `left` is the number of those after them.

    Raises UsageError for a cursor that isn't one of rows.
    """

    def __init__(self, rows: RowSource, limits: Limits) -> None:
        name, self.begin = limits.cursor()
        if name not in (None, _ROWS):
            raise UsageError(f"'{limits.after}' isn't a row cursor", expected="as `next` has it, such as rows:1000")
        self.schema, self._rows = rows.schema, rows
        self._most, self.bytes, self._full = limits.rows, limits.bytes, False
        self.given = self.left = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        before = self.begin
        for batch in self._rows:
            skipped = min(before, batch.num_rows)
            before -= skipped
            most = 0 if self._full else self._most
            kept = batch.slice(skipped, None if most is None else max(most - self.given, 0))
            self.given += kept.num_rows
            self.left += batch.num_rows - skipped - kept.num_rows
            if kept.num_rows:
                yield kept

    def fitted(self, texts: Iterable[str]) -> list[str]:
        """The texts of rows that fit into what is left of the bytes; after the first that doesn't, none does."""
        if self.bytes is None:
            return list(texts)
        kept = []
        for text in texts:
            size = len(text.encode("utf-8", "backslashreplace"))
            self._full = self._full or size > self.bytes
            if self._full:
                self.given, self.left = self.given - 1, self.left + 1
            else:
                kept.append(text)
                self.bytes -= size
        return kept

    def reserve(self, text: str, more: int = 0) -> str:
        """The text, which comes before all rows: it and `more` bytes after them leave less for the rows."""
        if self.bytes is not None:
            self.bytes -= len(text.encode("utf-8", "backslashreplace")) + more
            if self.bytes < 0:
                raise UsageError("--bytes can't hold a row", expected=f"{-self.bytes:,} more")
        return text

    @property
    def next(self) -> str:
        """The cursor of the rows that are left, '' if none are."""
        return f"{_ROWS}:{self.begin + self.given}" if self.left else ""


def texts(
    rows: RowSource, form: str, *, headers: bool = True, width: int | None = None, colour: bool = False
) -> Iterator[str]:
    """Yields the answer as text, piece by piece; `form` is one of FORMATS, but parquet."""
    part = rows if isinstance(rows, Part) else Part(rows, Limits())
    if form in ("table", "md"):
        yield _for_people(part, form, headers, width, colour)
    elif form in ("csv", "tsv"):
        yield from _separated(part, form, headers)
    elif form == "jsonl":
        for objects in _objects(part, nulls=True):
            yield "".join(part.fitted(f"{one}\n" for one in objects))
    else:
        yield from _json(part)


def write_parquet(rows: RowSource, stream: BinaryIO) -> None:
    """Writes the answer as Parquet. Raises UsageError for what it can't hold, such as a sum beyond 64 bits."""
    schema = pa.schema([(one.name, pa.int64() if _is_whole(one.type) else one.type) for one in rows.schema])
    try:
        with pq.ParquetWriter(stream, schema, compression="zstd") as writer:
            for batch in rows:
                writer.write_batch(pa.RecordBatch.from_arrays(list(map(_fitted, batch.columns, schema)), schema=schema))
    except pa.ArrowNotImplementedError as error:
        raise UsageError(f"SQL: Parquet has no such type: {error}", remedy="cast(... as varchar)") from None


def as_table(rows: pa.Table, name: str) -> Table:
    """The rows as a table of that name."""
    columns = ([_cell(_value(value)) for value in column.to_pylist()] for column in rows.columns)
    return Table(name, "", _headings(list(rows.schema)), list(zip(*columns, strict=True)))


def first_value(rows: RowSource) -> str:
    """The first column of the first row as text, "" where there is no row."""
    for batch in rows:
        if batch.num_rows:
            value = _value(batch.column(0)[0].as_py())
            return "" if value is None else _nested(value, str)
    return ""


def _fitted(column: pa.Array, field: pa.Field) -> pa.Array:
    try:
        return pc.cast(column, field.type)
    except pa.ArrowInvalid:
        raise UsageError(
            f"SQL: {field.name} has a number beyond 64 bits", remedy=f"cast({field.name} as double), or --format csv"
        ) from None


def _is_whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(kind) and kind.scale == 0)


def _values(rows: RowSource) -> Iterator[list[list[Any]]]:
    """Yields the columns of each batch as values of Python."""
    for batch in rows:
        if batch.num_rows:
            yield [[_value(value) for value in column.to_pylist()] for column in batch.columns]


def _value(value: Any) -> Any:
    """A value as JSON has it: exact whole numbers, no NaN; dates and the like as text."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        return _from_decimal(value)
    if isinstance(value, dict):
        return {str(key): _value(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_value(one) for one in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)


class _Digits(str):
    """A number that isn't whole, in digits, of which a float has fewer."""


def _from_decimal(value: Decimal) -> int | float | _Digits:
    if not value.as_tuple().exponent:
        return int(value)
    return float(value) if Decimal(repr(float(value))) == value else _Digits(f"{value:f}")


def _nested(value: Any, text: Callable[[Any], str]) -> str:
    """Lists, structures and truth values as JSON; anything else as `text`."""
    return _as_json(value) if isinstance(value, (dict, list, bool)) else text(value)


def _cell(value: Any) -> Cell:
    return _as_json(value) if isinstance(value, (dict, list, bool)) else value


def _for_people(rows: Part, form: str, headers: bool, width: int | None, colour: bool) -> str:
    """The answer as one table."""
    shown: list[tuple[Cell, ...]] = []
    filled = [False] * len(rows.schema)
    for columns in _values(rows):
        filled = [was or any(one is not None for one in values) for was, values in zip(filled, columns, strict=True)]
        shown += [tuple(map(_cell, row)) for row in zip(*columns, strict=True)]
    places = [place for place, one in enumerate(filled) if one or len(filled) < _MANY or not shown]
    empty = [rows.schema.names[place] for place in range(len(filled)) if place not in places]
    notes = [f"Without a value: {', '.join(empty)}."] if empty else []
    cells = [tuple(row[place] for place in places) for row in shown] if empty else shown
    fields = [rows.schema.field(place) for place in places]
    table = Table(_ROWS, "", _headings(fields), cells, notes, rows.left, next=rows.next, begin=rows.begin)

    def text(tables: Sequence[Table]) -> str:
        tables = [replace(one, notes=[*one.notes, _rest(one.next)]) if one.next else one for one in tables]
        if form == "md":
            return as_markdown(tables)
        text = as_text(tables, width=width, colour=colour)
        return text if headers else text.partition("\n")[2]

    return text([table]) if rows.bytes is None else fitted([table], text, rows.bytes)


def _rest(cursor: str) -> str:
    return f"More rows: --after {cursor}, or --rows N; all of them: --format csv, jsonl, or -o FILE."


def _headings(fields: Sequence[pa.Field]) -> tuple[Column, ...]:
    return tuple(Column(name, unit) for name, unit in zip(_keyed(fields), map(_unit, fields), strict=True))


def _unit(field: pa.Field) -> str:
    return "exact" if (is_number(field.type) or bool(pa.types.is_decimal(field.type))) else ""


def _keyed(fields: Iterable[pa.Field]) -> list[str]:
    """The headings; two that differ only by a space get a number, as a table needs."""
    keys: dict[str, str] = {}
    for field in fields:
        name = field.name
        while name.replace(" ", "_") in keys:
            name += "_"
        keys[name.replace(" ", "_")] = name
    return list(keys.values())


def _separated(rows: Part, form: str, headers: bool) -> Iterator[str]:
    out = io.StringIO()

    def taken() -> str:
        text = out.getvalue()
        out.seek(0)
        out.truncate()
        return text

    write: Callable[[Iterable[Any]], Any]
    if form == "csv":
        write = csv.writer(out, lineterminator="\n").writerow
    else:

        def write(cells: Iterable[Any]) -> Any:
            out.write("\t".join("" if cell is None else str(cell) for cell in cells) + "\n")

    if headers:
        write(map(csv_cell, rows.schema.names))
        yield rows.reserve(taken())
    for columns in _values(rows):
        lines = []
        for row in zip(*columns, strict=True):
            write(value if isinstance(value, _Digits) else csv_cell(_cell(value)) for value in row)
            lines += [taken()] if rows.bytes is not None else []
        yield "".join(rows.fitted(lines)) if rows.bytes is not None else taken()


def _objects(rows: Part, *, nulls: bool) -> Iterator[Iterator[str]]:
    """The rows of each batch as objects of JSON, with or without the columns that are null in a row."""
    keys = [f"{_as_json(name)}: " for name in rows.schema.names]

    def members(row: tuple[Any, ...]) -> Iterator[str]:
        return (key + _as_json(value) for key, value in zip(keys, row, strict=True) if nulls or value is not None)

    for columns in _values(rows):
        yield ("{" + ", ".join(members(row)) + "}" for row in zip(*columns, strict=True))


def _json(rows: Part) -> Iterator[str]:
    """One document: the columns, the rows with a line each, how many are left out, and where these begin.

    A row lacks its columns that are null: of `select * from events` those are three of four.
    """
    columns = [{"name": field.name, "type": str(field.type)} for field in rows.schema]
    yield rows.reserve(f'{answer("query", {"columns": columns}).removesuffix("}" + chr(10))},\n "rows": [', _TAIL)
    before = "\n  "
    for objects in _objects(rows, nulls=False):
        for text in rows.fitted(f",\n  {one}" for one in objects):
            yield before + text.removeprefix(",\n  ")
            before = ",\n  "
    yield f'],\n "left_out": {rows.left},\n "next": {_as_json(rows.next or None)}}}\n'


def _as_json(value: Any) -> str:
    """JSON with escapes for the characters that a terminal would act on."""
    if isinstance(value, (int, _Digits)) and not isinstance(value, bool):
        return str(value)
    written = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return UNSEEN.sub(lambda match: f"\\u{ord(match.group()):04x}", written)
