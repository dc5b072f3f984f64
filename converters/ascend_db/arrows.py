"""Arrows from operators to the tasks that they started: PYTORCH_API.connectionId is an id of CONNECTION_IDS.

PYTORCH_API       aten::mm, connectionId 1
CONNECTION_IDS    id 1, connectionId 41; id 1, connectionId 42
TASK              connectionId 41                    flow "41": out at aten::mm, in at the task
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.kit.columnar.blocks import Batches
from ktrace.kit.sqlite.database import Database
from ktrace.model.arrays import Int64
from ktrace.model.batch import Batch

if TYPE_CHECKING:
    import numpy.typing as npt

#: The ids of arrows begin here: beyond those of all rows.
_AT_TASKS = 1 << 60
_AT_OPERATORS = 1 << 61

_ROWS = 1 << 16


class Arrows:
    """The rows of CONNECTION_IDS whose connection a task has. The others join rows of the host."""

    def __init__(self, database: Database, tasks: str | None, table: str | None, conversion: Conversion) -> None:
        self._batches = Batches(conversion)
        self._outgoing = Batches(conversion, _AT_OPERATORS)
        self._of = self._connections = np.empty(0, np.int64)
        if table is None or tasks is None:
            return
        of, connections = (np.concatenate([*_numbers(database, table, key)]) for key in ("id", "connectionId"))
        if len(of) != len(connections):
            return
        started = np.unique(np.concatenate([*_numbers(database, tasks, "connectionId")]))
        mine = np.isin(connections, started)
        order = np.argsort(of[mine], kind="stable")
        self._of, self._connections = of[mine][order], connections[mine][order]

    def to_tasks(self, ids: Int64, connections: pa.Array | None) -> Iterator[Batch]:
        """Yields the ends at tasks."""
        if connections is None or not len(self._of):
            return
        own = connections.fill_null(-1).to_numpy(zero_copy_only=False)
        hit = np.isin(own, self._connections)
        if hit.any():
            yield self._ends(_AT_TASKS + ids[hit], own[hit], ids[hit], "in")

    def from_operators(self, ids: Int64, lists: pa.Array | None) -> Iterator[Batch]:
        """Yields the ends at operators; `lists` are their ids in CONNECTION_IDS."""
        if lists is None or not len(self._of):
            return
        own = lists.fill_null(-1).to_numpy(zero_copy_only=False)
        first, last = np.searchsorted(self._of, own, "left"), np.searchsorted(self._of, own, "right")
        count = last - first
        if count.sum():
            begin = np.repeat(first - np.cumsum(count) + count, count)
            connections = self._connections[begin + np.arange(count.sum())]
            yield self._ends(self._outgoing.ids(len(connections)), connections, np.repeat(ids, count), "out")

    def _ends(self, ids: Int64, connections: Int64, events: Int64, role: str) -> Batch:
        keys = pa.array(connections).cast(pa.string())
        return self._batches.batch("links", ids, link="flow", key=keys, role=role, event=events)


def _numbers(database: Database, table: str, column: str) -> Iterator[npt.NDArray[np.int64]]:
    """The whole numbers of a column; -1 for others."""
    yield np.empty(0, np.int64)
    if database.has(table, column):
        for block in database.blocks(table, _ROWS, [column], counted=False):
            found = block.get(column)
            if found is not None and pa.types.is_integer(found.type):
                yield found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
