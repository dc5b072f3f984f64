"""Rows of CUPTI_ACTIVITY_KIND_RUNTIME that tell of one call: repeats, and calls within calls.

    924889832  924923197  class 67  correlation 140  cudaLaunchKernel          the call again, with its call chain
    924890173  924923126  class 0   correlation 140  cudaLaunchKernel_v7000    as CUPTI measured it: kept
    924890500  924923000  class 1   correlation 140  cuLaunchKernel            within: correlation becomes an argument

Only a file with rows of several classes is looked at: SQLite sorts its rows, in a temporary file where they are many.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ktrace.database import quoted_name

from .._shared.blocks import Block
from .._shared.sqlite import Database

Mask = npt.NDArray[np.bool_]

#: The classes of rows that CUPTI measures: runtime, driver.
_MEASURED = (0, 1)


class Repeats:
    """The rows of a table that share their process and correlation with another one."""

    def __init__(self, database: Database, table: str) -> None:
        inner: list[int] = []
        folded: list[int] = []
        chains: list[tuple[int, int]] = []
        if all(database.has(table, name) for name in ("eventClass", "correlationId", "globalTid", "start", "end")):
            for group in _groups(database, table):
                measured = [row for row in group if row.kind in _MEASURED]
                kept = measured[0] if measured else group[0]
                again = [row for row in group if row.kind not in _MEASURED and row is not kept and row.start < kept.end]
                folded += [row.number for row in again]
                inner += [row.number for row in measured[1:] if row.start < kept.end]
                chain = next((row.chain for row in again if row.chain is not None), None)
                if chain is not None:
                    chains.append((kept.number, chain))
        self._inner = np.sort(np.array(inner, np.int64))
        self._folded = np.sort(np.array(folded, np.int64))
        self._chains = np.array(sorted(chains), np.int64).reshape(-1, 2)

    def of(self, block: Block) -> tuple[Mask, Mask, pa.Array]:
        """Which rows of a block are within another call, which are repeats, and the call chains of repeated ones."""
        numbers = block.numbers.to_numpy()
        place = np.searchsorted(self._chains[:, 0], numbers)
        chains = pa.nulls(len(numbers), pa.int64())
        if len(self._chains):
            place = np.minimum(place, len(self._chains) - 1)
            chains = pa.array(self._chains[place, 1], mask=self._chains[place, 0] != numbers)
        return _among(numbers, self._inner), _among(numbers, self._folded), chains


def _among(numbers: npt.NDArray[np.int64], known: npt.NDArray[np.int64]) -> Mask:
    if not len(known):
        return np.zeros(len(numbers), np.bool_)
    place = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
    found: Mask = known[place] == numbers
    return found


class _Row(NamedTuple):
    number: int
    kind: int
    chain: int | None
    start: int
    end: int


def _groups(database: Database, table: str) -> list[list[_Row]]:
    """The rows of each correlation that has several, the outermost first."""
    name = quoted_name(table)
    classes = database.query(table, f"SELECT count(DISTINCT eventClass) FROM {name}")[0][0]
    if classes < 2:
        return []
    chain = "callchainId" if database.has(table, "callchainId") else "NULL"
    columns = f"globalTid >> 24 AS process, correlationId, _rowid_ AS number, eventClass, {chain} AS chain, start, end"
    together = "count(*) OVER (PARTITION BY globalTid >> 24, correlationId) AS together"
    believed = f"SELECT {columns}, {together} FROM {name} WHERE correlationId > 0 AND start <= end"
    rows = database.query(
        table,
        f"SELECT process, correlationId, number, eventClass, chain, start, end FROM ({believed}) WHERE together > 1 "
        "ORDER BY process, correlationId, start, end DESC",
    )
    groups: list[list[_Row]] = []
    last = None
    for process, correlation, *row in rows:
        if (process, correlation) != last:
            groups.append([])
            last = (process, correlation)
        groups[-1].append(_Row(*row))
    return groups
