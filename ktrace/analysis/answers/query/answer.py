"""An answer of DuckDB: its rows as batches of Arrow, with values that whoever wants them can hold.

timestamp 'infinity'     in Arrow a number of µs like any other; Python's dates end at the year 9999
time with time zone      in Arrow without its zone
uhugeint, bignum, bit    in Arrow another number, or bytes
interval                 not in Parquet

What can't be held is the text that DuckDB writes for it, also within lists, structures and maps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from ktrace.analysis.answers.query.engine import sql_type, table_name, translate_duckdb_errors
from ktrace.errors import UsageError

#: Rows of a batch of the answer.
_ROWS = 65_536

#: What DuckDB makes of a sum of whole numbers.
_WHOLE = pa.decimal128(38, 0)

#: Types of DuckDB whose values Python holds as they are.
_SIMPLE = {
    *("boolean", "tinyint", "smallint", "integer", "bigint", "hugeint", "utinyint", "usmallint", "uinteger", "ubigint"),
    *("float", "double", "decimal", "varchar", "blob", "enum", "uuid", "null"),
}

#: Those whose values Parquet holds, too.
_DATES = {
    *("date", "time", "timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns"),
    *("timestamp with time zone", "timestamptz_ns", "time_ns"),
}

#: Who holds the values of an answer, and the types of DuckDB that it holds as they are.
Holder = Literal["python", "parquet", "arrow"]
_HELD: dict[Holder, set[str]] = {
    "python": _SIMPLE,
    "parquet": _SIMPLE | _DATES,
    "arrow": _SIMPLE | _DATES | {"interval"},
}

#: How deep lists and structures may be nested; Arrow ends at 64.
_DEEPEST = 32


class QueryAnswer:
    """The rows of an answer, with the names of its columns: unique, as DuckDB states them otherwise."""

    @classmethod
    def run(
        cls,
        connection: Any,
        sql: str,
        params: Mapping[str, Any] | None,
        rows: int | None = None,
        *,
        holder: Holder = "arrow",
    ) -> QueryAnswer:
        """The answer to a query, at most so many rows of it, with values that this holder can hold.

        Raises UsageError, and what DuckDB raises.
        """
        relation = connection.sql(sql, params=dict(params) if params else None)
        if relation is None:
            raise UsageError("SQL: this has no result", expected="one query, such as: from events")
        if rows is not None:
            relation = relation.limit(rows)
        names = relation.columns
        casts = [_cast(kind, _HELD[holder]) for kind in relation.types]
        if any(casts):
            relation = relation.project(
                ", ".join(f"CAST(#{n} AS {to})" if to else f"#{n}" for n, to in enumerate(casts, 1))
            )
        reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
        return cls(reader(_ROWS), names)

    def __init__(self, reader: pa.RecordBatchReader, names: Sequence[str]) -> None:
        self._reader = reader
        self.schema = pa.schema(list(zip(_unique(names), reader.schema.types, strict=True)))

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        with translate_duckdb_errors():
            for batch in self._reader:
                yield pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)

    def read_all(self) -> pa.Table:
        """The whole answer as one table."""
        return pa.Table.from_batches(list(self), self.schema)


def _cast(kind: Any, held: set[str], depth: int = 0) -> str | None:
    """The type in SQL that values of this type of DuckDB are cast to, None where they are held as they are."""
    if kind.id in held:
        return None
    if kind.id not in ("list", "array", "struct", "tuple", "map") or depth == _DEEPEST:
        return "VARCHAR"
    parts = [(name, part, _cast(part, held, depth + 1)) for name, part in kind.children if name != "size"]
    if kind.id == "struct" and len({name for name, *_ in parts if name}) < max(len(parts), 1):
        return "VARCHAR"  # without fields, or names of fields
    if not any(to for *_, to in parts):
        return None
    if kind.id == "tuple":
        return "VARCHAR"
    types = [to or str(part) for _, part, to in parts]
    if kind.id == "map":
        return f"MAP({', '.join(types)})"
    if kind.id != "struct":
        return f"{types[0]}[]"
    names = ('"{}"'.format(name.replace('"', '""')) for name, *_ in parts)
    return f"STRUCT({', '.join(map(' '.join, zip(names, types, strict=True)))})"


def register(connection: Any, record: str, schema: pa.Schema, table: Any) -> None:
    """Makes a table known, with all columns of its schema; those that nothing needs are null."""
    table = schema.empty_table() if table is None else table
    there = set(table.schema.names)
    connection.register(f"ktrace_{record}_rows", table)
    shown = (
        f'"{one.name}"' if one.name in there else f'CAST(NULL AS {sql_type(one.type)}) AS "{one.name}"'
        for one in schema
    )
    connection.execute(f"CREATE VIEW {table_name(record)} AS SELECT {', '.join(shown)} FROM ktrace_{record}_rows")


def _unique(names: Sequence[str]) -> list[str]:
    """The names, with _1 and so on where one occurs before."""
    names_so_far: dict[str, None] = {}
    for name in names:
        unique, number = name, 0
        while unique in names_so_far:
            number += 1
            unique = f"{name}_{number}"
        names_so_far[unique] = None
    return list(names_so_far)


def whole_numbers(table: pa.Table) -> pa.Table:
    """The table, with sums of whole numbers as int64 where all values fit."""
    for place, field in enumerate(table.schema):
        if field.type == _WHOLE:
            try:
                column = pc.cast(table.column(place), pa.int64())
            except pa.ArrowInvalid:
                continue
            table = table.set_column(place, field.name, column)
    return table
