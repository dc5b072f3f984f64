"""Rows of one table of a database for the rows of another: joins in bounded memory, a block at a time.

block of rocpd_kernel_dispatch   event_id 900,000 ... 965,535
Lookup(rocpd_event)              reads only those rows: id is its rowid
Children(rocpd_arg)              reads only the spans of rows that contain such an event_id, wherever they are

rocpd_arg   rows 1-16,384        event_id 1 ... 4,096
            rows 16,385-32,768   event_id 4,096 ... 8,192
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.input.limits import current, exceeded, sized
from ktrace.input.sqlite_file import quoted_name
from ktrace.kit.columnar.blocks import Block
from ktrace.kit.columnar.dictionaries import constant, indices, mapped_words
from ktrace.kit.sqlite import Database
from ktrace.model.arrays import Int64
from ktrace.model.json_text import encoded
from ktrace.model.text_sizes import MOST, column_bytes

#: Rows of a span.
SPAN = 1 << 14

#: Bytes of the texts of a block that can be handled: beyond 2 GiB Arrow can't write them out.
_OF_A_BLOCK = 512 << 20

#: Rows read for each wanted one, at most; if it would be more, the wanted rows are queried by their keys.
_SPREAD = 8

#: Strings of single ids that are kept.
_CACHED = 1 << 16

#: An id that means "no id".
_NOTHING = -(1 << 63)


class Lookup:
    """Finds rows of a table by its integer primary key; `where` is an SQL condition for all of them."""

    def __init__(self, database: Database, table: str, key: str, columns: Sequence[str], where: str = "") -> None:
        self._database = database
        self._table = table
        self._key = key
        self._where = where
        self._columns = [column for column in columns if database.has(table, column) and database.has(table, key)]

    def get(self, keys: pa.Array | None) -> dict[str, pa.Array]:
        """Returns column -> a value for each of the keys, null for a key that is null or doesn't exist.

        Columns that the table doesn't have are absent.
        """
        keys_wanted = _drop_null(keys)
        if keys is None or not len(keys_wanted) or not self._columns:
            return {}
        ends = pc.min_max(keys_wanted)
        first, last = ends["min"].as_py(), ends["max"].as_py()
        if last - first < _SPREAD * len(keys_wanted) + SPAN:
            where = both(f"{quoted_name(self._key)} BETWEEN {first} AND {last}", self._where)
            parts = self._database.part(self._table, [self._key, *self._columns], where)
        else:
            unique = np.unique(keys_wanted.to_numpy()).tolist()
            parts = self._database.among(self._table, self._key, unique, self._columns, self._where)
        return aligned(keys, parts, self._key, self._database.expanded)

    def value(self, key: int) -> Any:
        """The first of the columns in the row with one key, None without such a row."""
        if not self._columns:
            return None
        where = both(f"{quoted_name(self._key)} = ?", self._where)
        sql = f"SELECT {quoted_name(self._columns[0])} FROM {quoted_name(self._table)} WHERE {where} LIMIT 1"
        return next((value for (value,) in self._database.query(self._table, sql, (key,))), None)


def both(*conditions: str) -> str:
    """Joins SQL conditions; empty ones are ignored."""
    return " AND ".join(filter(None, conditions))


def aligned(keys: pa.Array, rows: pa.Table, key: str, expanded: Callable[[int], None]) -> dict[str, pa.Array]:
    """Returns the columns of `rows` with one row for each of the keys: null for no row, the first of several.

    `expanded` gets the bytes of texts that many rows have. Raises DamagedInput if they are too many.
    """
    if key not in rows.column_names:  # the table has no such column
        rows = rows.slice(0, 0).append_column(key, pa.chunked_array([[]], pa.int64()))
    sought = _whole(rows.column(key))
    if not pa.types.is_integer(sought.type):  # no row is found
        rows = rows.slice(0, 0)
        sought = pa.array([], pa.int64())
    if sought.null_count:
        rows = rows.filter(sought.is_valid())
        sought = _whole(rows.column(key))
    columns = {name: _whole(rows.column(name)) for name in rows.column_names if name not in (key, "_rowid_")}
    if sought.equals(keys):
        return columns
    at = pc.index_in(keys, value_set=sought)
    return {name: _taken(column, at, expanded) for name, column in columns.items()}


def _taken(column: pa.Array, at: pa.Int32Array, expanded: Callable[[int], None]) -> pa.Array:
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        return _bounded(pa.DictionaryArray.from_arrays(at, column), expanded).dictionary_decode()
    return column.take(at)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return whole if isinstance(whole, pa.Array) else whole.chunk(0)


def _drop_null(keys: pa.Array | None) -> pa.Array:
    """The keys that may be found: none of a column with other values than whole numbers."""
    is_usable = keys is not None and pa.types.is_integer(keys.type)
    return pc.drop_null(keys) if is_usable else pa.array([], pa.int64())


class ChildRows(NamedTuple):
    """Rows of a table: for each the index of its key, and its columns, including `_rowid_`."""

    of: Int64
    columns: dict[str, pa.Array]


class Children:
    """Finds rows of a table by a key that many rows may share; `where` is an SQL condition for all of them.

    The keys of the whole table are read once to know where they are; if `counted`, each row then counts as a record.
    """

    def __init__(
        self,
        database: Database,
        table: str,
        key: str,
        columns: Sequence[str],
        where: str = "",
        *,
        counted: bool = False,
    ) -> None:
        self._database = database
        self._table = table
        self._key = key
        self._where = where
        self._columns = [column for column in columns if database.has(table, column)]
        self.rows = 0
        spans = []
        for block in database.blocks(table, SPAN, [key], where=where, counted=counted):
            self.rows += len(block)
            spans.append((block.numbers[0].as_py(), block.numbers[-1].as_py(), *_ends(block.get(key))))
        self._spans = np.array(spans, np.int64).reshape(-1, 4)

    def of(self, keys: pa.Array | None) -> ChildRows:
        """Returns the rows that have one of the keys, in the order of the keys, then of the table."""
        keys_wanted = _drop_null(keys)
        if keys is None or not len(keys_wanted) or not len(self._spans):
            return ChildRows(np.empty(0, np.int64), {})
        ends = pc.min_max(keys_wanted)
        first, last = ends["min"].as_py(), ends["max"].as_py()
        hit = np.flatnonzero((self._spans[:, 2] <= last) & (self._spans[:, 3] >= first))
        parts = []
        for run in np.split(hit, np.flatnonzero(np.diff(hit) > 1) + 1):
            if len(run):
                rowids = f"_rowid_ BETWEEN {self._spans[run[0], 0]} AND {self._spans[run[-1], 1]}"
                span = self._database.part(self._table, [self._key, *self._columns], both(rowids, self._where))
                parts.append(span.filter(pc.is_in(span.column(self._key), value_set=keys_wanted)))
        if not parts:
            return ChildRows(np.empty(0, np.int64), {})
        rows = pa.concat_tables(parts)
        of = pc.index_in(_whole(rows.column(self._key)), value_set=keys).to_numpy().astype(np.int64)
        order = np.argsort(of, kind="stable")
        sorted_rows = rows.take(order)
        return ChildRows(of[order], {name: _whole(sorted_rows.column(name)) for name in sorted_rows.column_names})


def _ends(column: pa.Array | None) -> tuple[int, int]:
    """The least and the greatest key of a span; an empty interval for a span without keys."""
    if column is None or column.null_count == len(column) or not pa.types.is_integer(column.type):
        return 1, 0
    ends = pc.min_max(column)
    return ends["min"].as_py(), ends["max"].as_py()


class Texts:
    """Finds strings in a table of strings by their ids, as dictionary columns."""

    def __init__(
        self,
        database: Database,
        table: str | None,
        key: str,
        column: str,
        conversion: Conversion,
        where: str = "",
    ) -> None:
        self._lookup = Lookup(database, table, key, [column], where) if table else None
        self._column = column
        self._report, self._expanded = conversion.report, conversion.expanded
        self.text = _cached_texts(self._lookup)

    def column(self, block: Block, ids: pa.Array | None, *, required: bool = False) -> Any:
        """Returns the string of each row as a dictionary column, null for a null; None without ids, unless `required`.

        An id without a string is reported and becomes "[string 1234]"; if `required`, a null becomes "[no name]".
        """
        if ids is None:
            return constant("[no name]", len(block)) if required else None
        if not pa.types.is_integer(ids.type):  # the column has texts instead of their ids
            return mapped_words(pc.fill_null(ids, "[no name]") if required and _is_text(ids) else ids, _word)
        coded = encoded(ids if not required else pc.fill_null(ids, _NOTHING))
        texts = self._lookup.get(coded.dictionary) if self._lookup else {}
        words = texts.get(self._column, pa.nulls(len(coded.dictionary), pa.string())).to_pylist()
        words = [None if word is None else _word(word) for word in words]
        if None in words:
            rows = indices(coded)
            for code, number in enumerate(coded.dictionary.to_pylist()):
                if words[code] is None:
                    words[code] = "[no name]" if number == _NOTHING else f"[string {number}]"
                    lost = np.flatnonzero(rows == code)
                    self._report.issue("missing-string", block.where(int(lost[0])), words[code], len(lost))
        return _bounded(pa.DictionaryArray.from_arrays(coded.indices, pa.array(words, pa.string())), self._expanded)


def _cached_texts(lookup: Lookup | None) -> Callable[[object], str | None]:
    """A function that returns the string of one id, None if there is none.

    Its cache holds on to the lookup alone: in a circle with the source it would keep unpacked files until a collection.
    """

    @lru_cache(_CACHED)
    def text(number: object) -> str | None:
        word = lookup.value(number) if lookup and type(number) is int else None
        return None if word is None else _word(word)

    return text


def _bounded(column: pa.DictionaryArray, expanded: Callable[[int], None]) -> pa.DictionaryArray:
    """A column whose texts readers may write out, row by row. Raises DamagedInput if they are too many for that."""
    if (size := column_bytes(column)) > MOST:
        expanded(size)
        if size > max(_OF_A_BLOCK, current().references):
            raise exceeded("references", f"{len(column):,} rows name texts of {sized(size)} together")
    return column


def _word(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _is_text(column: pa.Array) -> bool:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    return bool(pa.types.is_string(kind))


def first_ids(database: Database, tables: Sequence[tuple[str, int]]) -> dict[str, FirstId]:
    """Returns table -> how its rowids become ids: each table has its own range of ids, with `each` ids for a row.

    So the id of a row is the same at every reading. Raises DamagedInput if the rowids are too far apart.
    """
    ids: dict[str, FirstId] = {}
    first = 1
    for table, each in tables:
        least, greatest = database.rowids(table)
        ids[table] = FirstId(first, least, each)
        first += each * (greatest - least + 1)
    if first >= 1 << 62:
        raise database.damaged(tables[-1][0], "its rowids are too far apart")
    return ids


class FirstId(NamedTuple):
    """The id of the first row of a table, its least rowid, and the number of ids of a row."""

    first: int
    least: int
    each: int

    def of(self, rowids: pa.Array) -> Int64:
        """The ids of rows."""
        numbers: Int64 = rowids.to_numpy()
        return self.first + (numbers - self.least) * self.each
