"""What the tables share: texts by their ids, numbers that mean "none", threads, the ids of rows, arrows to tasks.

An arrow goes from an operator to the tasks that it started; PYTORCH_API.connectionId is an id of CONNECTION_IDS:

PYTORCH_API       aten::mm, connectionId 1
CONNECTION_IDS    id 1, connectionId 41; id 1, connectionId 42
TASK              connectionId 41                    flow "41": out at aten::mm, in at the task
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.input.sqlite_file import quoted_name
from ktrace.kit.columnar.blocks import BatchBuilder, Block
from ktrace.kit.sqlite import Database
from ktrace.kit.sqlite.lookup import Children, FirstId, Texts
from ktrace.model.arrays import Int64
from ktrace.model.batch import Batch
from ktrace.store.joins import ranges

if TYPE_CHECKING:
    import numpy.typing as npt

#: The ids of arrows begin here: beyond those of all rows.
_AT_TASKS = 1 << 60
_AT_OPERATORS = 1 << 61

_ROWS = 1 << 16


class Arrows:
    """The rows of CONNECTION_IDS whose connection a task has. The others join rows of the host."""

    def __init__(self, database: Database, tasks: str | None, table: str | None, conversion: Conversion) -> None:
        self._batches = BatchBuilder(conversion)
        self._outgoing = BatchBuilder(conversion, _AT_OPERATORS)
        self._of = self._connections = np.empty(0, np.int64)
        if table is None or tasks is None:
            return
        of, connections = (np.concatenate([*_numbers(database, table, key)]) for key in ("id", "connectionId"))
        if len(of) != len(connections):
            return
        started = np.unique(np.concatenate([*_numbers(database, tasks, "connectionId")]))
        is_started = np.isin(connections, started)
        order = np.argsort(of[is_started], kind="stable")
        self._of, self._connections = of[is_started][order], connections[is_started][order]

    def to_tasks(self, ids: Int64, connections: pa.Array | None) -> Iterator[Batch]:
        """Yields the ends at tasks."""
        if connections is None or not len(self._of):
            return
        numbers = connections.fill_null(-1).to_numpy(zero_copy_only=False)
        hit = np.isin(numbers, self._connections)
        if hit.any():
            yield self._ends(_AT_TASKS + ids[hit], numbers[hit], ids[hit], "in")

    def from_operators(self, ids: Int64, lists: pa.Array | None) -> Iterator[Batch]:
        """Yields the ends at operators; `lists` are their ids in CONNECTION_IDS."""
        if lists is None or not len(self._of):
            return
        numbers = lists.fill_null(-1).to_numpy(zero_copy_only=False)
        first, last = np.searchsorted(self._of, numbers, "left"), np.searchsorted(self._of, numbers, "right")
        count = last - first
        if count.sum():
            connections = self._connections[ranges(first, count)]
            yield self._ends(self._outgoing.ids(len(connections)), connections, np.repeat(ids, count), "out")

    def _ends(self, ids: Int64, connections: Int64, events: Int64, role: str) -> Batch:
        keys = pa.array(connections).cast(pa.string())
        return self._batches.batch("links", ids, link="flow", key=keys, role=role, event=events)


def _numbers(database: Database, table: str, column: str) -> Iterator[npt.NDArray[np.int64]]:
    """The whole numbers of a column; -1 for others."""
    yield np.empty(0, np.int64)
    if database.has(table, column):
        for block in database.blocks(table, _ROWS, [column], counted=False):
            cells = block.get(column)
            if cells is not None and pa.types.is_integer(cells.type):
                yield cells.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)


#: "None" as an unsigned number of 32 bits, and as a signed one.
_NONE = pa.array([0xFFFFFFFF, -1], pa.int64())
_DIGITS = r"^-?([0-9]{1,18}|[1-8][0-9]{18})$"


class AscendReader:
    """A database that is being read: its tables, its texts, the ids of their rows."""

    def __init__(self, database: Database, ids: dict[str, FirstId], conversion: Conversion) -> None:
        self.database = database
        self.conversion = conversion
        self.batches = BatchBuilder(conversion)
        self.ids = ids
        self.arrows = Arrows(database, self.table("TASK"), self.table("CONNECTION_IDS"), conversion)
        strings = self.table("STRING_IDS")
        if strings and database.has(strings, "value"):
            column = database.part(strings, ["value"], "0").column(1)
            if not pa.types.is_string(column.type):
                raise database.damaged(strings, f"its values are of the type {column.type}, not texts")
        self._strings = Texts(database, strings, "id", "value", conversion)

    @cached_property
    def only_device(self) -> int:
        """The device of all tasks; 0 if there are several, or none."""
        table = self.table("TASK")
        if table is None or not self.database.has(table, "deviceId"):
            return 0
        sql = f"SELECT DISTINCT deviceId FROM {quoted_name(table)} LIMIT 2"
        devices = [number for (number,) in self.database.query(table, sql)]
        return devices[0] if len(devices) == 1 and type(devices[0]) is int and 0 <= devices[0] < 1 << 31 else 0

    def device(self, block: Block) -> pa.Array:
        """Takes the device of each row: `deviceId`, else that of all tasks."""
        given = known(block, "deviceId")
        return pa.array(np.full(len(block), self.only_device, np.int64)) if given is None else given

    def table(self, name: str) -> str | None:
        """The table of that name as the database spells it."""
        return next(iter(self.database.like(name)), None)

    def text(self, block: Block, *names: str, required: bool = False) -> pa.Array | None:
        """The texts of a column with ids of texts, or with texts; takes the column. Null for a null."""
        column = block.take(*names)
        if column is not None and pa.types.is_string(column.type):
            return pc.fill_null(column, "[no name]") if required else column
        return self.text_of(block, as_int64(column), required=required)

    def text_of(self, block: Block, ids: pa.Array | None, *, required: bool = False) -> pa.Array | None:
        """The texts with these ids. An id without a text is reported and becomes "[string 1234]"."""
        text = self._strings.column(block, none_as_null(ids), required=required)
        return None if text is None else text.dictionary_decode()

    def words(self, enum: str) -> dict[int, str]:
        """id -> name of a table of an enumeration."""
        rows = self.database.rows(enum, "id", "name")
        return {number: str(name) for number, name in rows if isinstance(number, int) and name is not None}


def as_int64(column: pa.Array | None) -> pa.Array | None:
    """A column as int64: PYTORCH_API has its times as texts, NUMERIC columns may be reals. Null for others."""
    if column is None or pa.types.is_int64(column.type):
        return column
    if pa.types.is_string(column.type):
        return pc.if_else(pc.match_substring_regex(column, _DIGITS), column, None).cast(pa.int64())
    if pa.types.is_floating(column.type):
        exact = pc.and_(pc.equal(pc.round(column), column), pc.less(pc.abs(column), 2.0**53))
        return pc.if_else(exact, column, None).cast(pa.int64())
    return pa.nulls(len(column), pa.int64())


def none_as_null(column: pa.Array | None) -> pa.Array | None:
    """Makes numbers that mean "none" null."""
    return None if column is None else pc.if_else(pc.is_in(column, value_set=_NONE), None, column)


def known(block: Block, *names: str) -> pa.Array | None:
    """Takes a column of whole numbers, null for "none"."""
    return none_as_null(as_int64(block.take(*names)))


def with_whole(block: Block, *names: str) -> Block:
    """The block with these columns as whole numbers."""
    exact = {name: as_int64(column) for name in names if (column := block.get(name)) is not None}
    return block.without(*exact).replaced(exact)


def thread(block: Block) -> dict[str, pa.Array]:
    """Process and thread of globalTid, which is pid << 32 | tid."""
    column = as_int64(block.take("globalTid"))
    if column is None:
        return {}
    return {"pid": pc.shift_right(column, 32), "tid": pc.bit_wise_and(column, 0xFFFFFFFF)}


def named(numbers: pa.Array | None, words: dict[int, str], unknown: str) -> pa.Array | None:
    """The words for numbers; "<unknown> 7" for a number without one."""
    if numbers is None:
        return None
    coded = numbers.dictionary_encode()
    texts = [words.get(value, f"{unknown} {value}") for value in coded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(coded.indices)


def first_rows(children: Children, keys: pa.Array) -> dict[str, pa.Array]:
    """Column -> for each key the value in the first row that has it, null for none."""
    rows = children.of(keys)
    if not len(rows.of):
        return {}
    first = np.diff(rows.of, prepend=-1) != 0
    at = np.full(len(keys), -1, np.int64)
    at[rows.of[first]] = np.flatnonzero(first)
    index = pa.array(at, mask=at < 0)
    return {name: column.take(index) for name, column in rows.columns.items() if not name.startswith("_")}


def arguments(columns: dict[str, Any]) -> dict[str, Any]:
    """The columns as columns of arguments."""
    return {f"args.{key}": column for key, column in columns.items()}
