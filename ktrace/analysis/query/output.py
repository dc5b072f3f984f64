"""Writes an answer: as a table for people, and as CSV, TSV, JSON, JSON Lines, Markdown or Parquet for programs.

Rows are written as they come, except in tables, which need the widths of all. Whole numbers are written digit by digit.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Any, BinaryIO, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ktrace.errors import UsageError
from ktrace.tables.figures import UNSEEN, Cell, Column, Table
from ktrace.tables.text import as_markdown, as_text, csv_cell

#: The values of `--format`.
FORMATS = ("table", "csv", "tsv", "json", "jsonl", "md", "parquet")

#: Endings of file names, where they aren't the format.
SUFFIXES = {"txt": "table", "ndjson": "jsonl", "nl": "jsonl", "markdown": "md", "pq": "parquet"}

#: Rows that a table shows at most.
_ROWS = 10_000

#: From this many columns on, a table leaves out those without any value.
_MANY = 12


class Rows(Protocol):
    """Rows as Arrow batches of one schema."""

    schema: pa.Schema

    def __iter__(self) -> Iterator[pa.RecordBatch]: ...


def texts(
    rows: Rows, form: str, *, headers: bool = True, width: int | None = None, colour: bool = False
) -> Iterator[str]:
    """Yields the answer as text, piece by piece; `form` is one of FORMATS, but parquet."""
    if form in ("table", "md"):
        yield _for_people(rows, form, headers, width, colour)
    elif form in ("csv", "tsv"):
        yield from _separated(rows, form, headers)
    else:
        yield from _json(rows, lines=form == "jsonl")


def write_parquet(rows: Rows, stream: BinaryIO) -> None:
    """Writes the answer as Parquet. Raises UsageError for a sum of whole numbers that doesn't fit into 64 bits."""
    schema = pa.schema([(one.name, pa.int64() if _is_whole(one.type) else one.type) for one in rows.schema])
    with pq.ParquetWriter(stream, schema, compression="zstd") as writer:
        for batch in rows:
            writer.write_batch(pa.RecordBatch.from_arrays(list(map(_fitted, batch.columns, schema)), schema=schema))


def first_value(rows: Rows) -> str:
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


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _values(rows: Rows) -> Iterator[list[list[Any]]]:
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
        return int(value) if value == value.to_integral_value() and value.as_tuple().exponent == 0 else float(value)
    if isinstance(value, dict):
        return {str(key): _value(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_value(one) for one in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)


def _nested(value: Any, text: Callable[[Any], str]) -> str:
    """Lists, structures and truth values as JSON; anything else as `text`."""
    return _as_json(value) if isinstance(value, (dict, list, bool)) else text(value)


def _cell(value: Any) -> Cell:
    return _as_json(value) if isinstance(value, (dict, list, bool)) else value


def _for_people(rows: Rows, form: str, headers: bool, width: int | None, colour: bool) -> str:
    """The answer as one table, with at most `_ROWS` rows."""
    shown: list[tuple[Cell, ...]] = []
    more = 0
    filled = [False] * len(rows.schema)
    for columns in _values(rows):
        filled = [was or any(one is not None for one in own) for was, own in zip(filled, columns, strict=True)]
        taken = list(zip(*columns, strict=True))
        space = _ROWS - len(shown)
        shown += [tuple(map(_cell, row)) for row in taken[:space]]
        more += max(len(taken) - space, 0)
    places = [place for place, one in enumerate(filled) if one or len(filled) < _MANY or not shown]
    empty = [rows.schema.names[place] for place in range(len(filled)) if place not in places]
    notes = [f"Without a value: {', '.join(empty)}."] if empty else []
    found = [tuple(row[place] for place in places) for row in shown] if empty else shown
    fields = [rows.schema.field(place) for place in places]
    heads = tuple(Column(name, unit) for name, unit in zip(_keyed(fields), map(_unit, fields), strict=True))
    table = Table("answer", "", heads, found, notes, more)
    if form == "md":
        return as_markdown([table])
    text = as_text([table], width=width, colour=colour)
    return text if headers else text.partition("\n")[2]


def _unit(field: pa.Field) -> str:
    return "exact" if _is_number(field.type) else ""


def _keyed(fields: Iterable[pa.Field]) -> list[str]:
    """The headings; two that differ only by a space get a number, as a table needs."""
    found: dict[str, str] = {}
    for field in fields:
        name = field.name
        while name.replace(" ", "_") in found:
            name += "_"
        found[name.replace(" ", "_")] = name
    return list(found.values())


def _separated(rows: Rows, form: str, headers: bool) -> Iterator[str]:
    out = io.StringIO()
    write: Callable[[Iterable[Any]], Any]
    if form == "csv":
        write = csv.writer(out, lineterminator="\n").writerow
    else:

        def write(cells: Iterable[Any]) -> Any:
            out.write("\t".join("" if cell is None else str(cell) for cell in cells) + "\n")

    if headers:
        write(map(csv_cell, rows.schema.names))
    for columns in _values(rows):
        for row in zip(*columns, strict=True):
            write(csv_cell(_cell(value)) for value in row)
        yield out.getvalue()
        out.seek(0)
        out.truncate()
    yield out.getvalue()


def _json(rows: Rows, *, lines: bool) -> Iterator[str]:
    """A list of objects, a line each; or the objects alone."""
    keys = [f"{_as_json(name)}: " for name in rows.schema.names]
    begin, between, end = ("", "\n", "\n") if lines else ("[", ",\n ", "]\n")
    before, some = begin, False
    for columns in _values(rows):
        found = (
            "{" + ", ".join(key + _as_json(value) for key, value in zip(keys, row, strict=True)) + "}"
            for row in zip(*columns, strict=True)
        )
        yield before + between.join(found)
        before, some = between, True
    if some:
        yield end
    elif not lines:
        yield "[]\n"


def _as_json(value: Any) -> str:
    """JSON with escapes for the characters that a terminal would act on."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    written = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return UNSEEN.sub(lambda found: f"\\u{ord(found.group()):04x}", written)
