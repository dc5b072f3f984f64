"""What all tables of a database share: ids, strings, the process, names for numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.kit.columnar.blocks import BatchBuilder, Block, nonzero, timed
from ktrace.kit.columnar.text_cells import integers
from ktrace.kit.sqlite import Database
from ktrace.kit.sqlite.lookup import Texts, first_ids
from ktrace.model.arrays import Int64

#: Columns of bytes.
_BLOBS = frozenset({"cacheconfig", "objectid", "uuid", "payload", "attribute", "cubin"})


class NvvpReader:
    """The reading of a database. `pid` is the process of GPU work, which records none: the only process with calls."""

    def __init__(self, database: Database, conversion: Conversion, tables: list[str]) -> None:
        self.database = database
        self.conversion = conversion
        self.batches = BatchBuilder(conversion)
        self._ids = first_ids(database, [(table, 1) for table in tables])
        strings = next((table for table in database.tables if table.casefold() == "stringtable"), None)
        self._texts = Texts(database, strings, "_id_", "value", conversion)
        self.pid = self._only_process(tables)

    def _only_process(self, tables: list[str]) -> int | None:
        processes: set[Any] = set()
        for table in tables:
            if self.database.has(table, "processId"):
                processes |= {row[0] for row in self.database.query(table, f'SELECT DISTINCT processId FROM "{table}"')}
        return processes.pop() if len(processes) == 1 else None

    @property
    def last_id(self) -> int:
        """An id above those of all rows."""
        ends = (ids.first + self.database.rowids(table)[1] - ids.least for table, ids in self._ids.items())
        return max(ends, default=0) + 1

    def ids(self, table: str, block: Block) -> Int64:
        """Returns the ids of rows."""
        return self._ids[table].of(block.numbers)

    def blocks(self, table: str) -> Iterator[Block]:
        """Yields the rows of a table."""
        for block in self.database.blocks(table, self.conversion.batch_rows):
            whole = _with_numbers(block)
            whole.drop("_id_")
            yield whole

    def timed(self, table: str) -> Iterator[Block]:
        """Yields the rows of a table with known begin and end; CUPTI writes 0 for an unknown time."""
        for block in self.blocks(table):
            begin, end = block.get("start"), block.get("end")
            if begin is None or end is None:
                self.conversion.report.issue("bad-record", table, "has no start or end", len(block))
                return
            unknown = pc.fill_null(pc.and_(pc.equal(begin, 0), pc.equal(end, 0)), False)
            for row in np.flatnonzero(unknown.to_numpy(zero_copy_only=False)).tolist():
                self.conversion.report.issue("bad-record", block.where(row), "start and end are 0")
            sound = timed(
                block.filter(pc.invert(unknown)) if unknown.true_count else block, self.conversion, "start", "end"
            )
            sound.drop("_id_")
            if len(sound):
                yield sound

    def text(self, block: Block, column: str, *, required: bool = False) -> pa.Array | None:
        """The strings of a column of their ids; 0 means "none"."""
        return self._texts.column(block, nonzero(block.take(column)), required=required)

    def word(self, block: Block, column: str, words: Mapping[int, str], unknown: str) -> pa.Array | None:
        """The names for the numbers of a column; `unknown` and the number if there is no name."""
        numbers = block.take(column)
        if numbers is None:
            return None
        coded = pc.fill_null(numbers, -1).dictionary_encode()
        named = [words.get(number, f"{unknown} {number}".strip()) for number in coded.dictionary.to_pylist()]
        return pa.array(named, pa.string()).take(coded.indices)

    def place(self, block: Block) -> dict[str, Any]:
        """Process, device, context, stream, correlation of GPU work."""
        return {
            "pid": self.pid if block.get("processId") is None else block.take("processId"),
            "device": block.take("deviceId"),
            "context": block.take("contextId"),
            "stream": _known(block.take("streamId")),
            "correlation": nonzero(block.take("correlationId")),
        }

    def events(self, table: str, block: Block, **columns: Any) -> Any:
        """Returns the rows as events."""
        return self.batches.events(block, self.ids(table, block), **columns)


def _with_numbers(block: Block) -> Block:
    """Converts all columns except blobs to numbers, as in the schema; values that aren't numbers stay as `$column`."""
    columns = {name: block.get(name) for name in block.left()}
    numbers: dict[str, pa.Array] = {}
    for name, column in columns.items():
        if column is None or pa.types.is_integer(column.type) or name.casefold() in _BLOBS:
            numbers[name] = column
        elif pa.types.is_string(column.type) or pa.types.is_floating(column.type):
            numbers[name] = integers(column.cast(pa.string()))
            numbers[f"${name}"] = pc.if_else(numbers[name].is_null(), column, pa.scalar(None, column.type))
        else:
            numbers[f"${name}"] = column
    return Block(block.place, block.numbers, numbers)


def number(column: pa.Array | None, limit: int) -> pa.Array | None:
    """A column of numbers; null for numbers with an absolute value of `limit` or more."""
    if column is None:
        return None
    sound = pc.and_(pc.greater(column, -limit), pc.less(column, limit))
    return pc.if_else(sound, column, pa.scalar(None, column.type))


def _known(streams: pa.Array | None) -> pa.Array | None:
    """Makes unknown streams null; CUPTI writes them as 2^32 - 1."""
    if streams is None:
        return None
    is_set = pc.and_(pc.greater_equal(streams, 0), pc.not_equal(streams, (1 << 32) - 1))
    return pc.if_else(is_set, streams, pa.scalar(None, pa.int64()))
