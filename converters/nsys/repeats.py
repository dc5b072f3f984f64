"""Finds rows of CUPTI_ACTIVITY_KIND_RUNTIME with the same correlation: repeated calls, and calls within calls.

    924889832  924923197  class 67  correlation 140  cudaLaunchKernel          repeats the call, with its call chain
    924890173  924923126  class 0   correlation 140  cudaLaunchKernel_v7000    as CUPTI measured it: kept
    924890500  924923000  class 1   correlation 140  cuLaunchKernel            within: correlation becomes an argument

Only a file with rows of several classes is examined, a range of correlations at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa

from ktrace.input.sqlite_file import quoted_name
from ktrace.kit.columnar.blocks import Block
from ktrace.kit.sqlite.database import Database
from ktrace.model.arrays import Bools, Int64
from ktrace.store.joins import isin_sorted, positions

from .columns import filled_part

_COLUMNS = ("_rowid_", "globalTid", "correlationId", "start", "end", "eventClass", "callchainId")
_ROW, _THREAD, _CORRELATION, _START, _END, _CLASS, _CHAIN = range(7)

#: The number of rows that are examined together.
_PART_ROWS = 1 << 19

#: The number in place of null.
_NULL = np.iinfo(np.int64).min

_NO_ROWS = np.zeros(0, np.int64)

#: The classes of rows that CUPTI measures: runtime, driver.
_MEASURED = (0, 1)


class Repeats:
    """The rows of a table that have the same process and correlation as another row."""

    def __init__(self, database: Database, table: str) -> None:
        inner, folded, chains = [_NO_ROWS], [_NO_ROWS], [np.zeros((0, 2), np.int64)]
        for rows in _rows(database, table):
            part = _classify(rows)
            inner.append(part[0])
            folded.append(part[1])
            chains.append(part[2])
        self._inner = np.sort(np.concatenate(inner))
        self._folded = np.sort(np.concatenate(folded))
        all_chains = np.concatenate(chains)
        self._chains = all_chains[np.argsort(all_chains[:, 0], kind="stable")]

    def of(self, block: Block) -> tuple[Bools, Bools, pa.Array]:
        """Returns masks of the rows within another call and of repeats, and the call chains of repeated calls."""
        numbers = block.numbers.to_numpy()
        chains = pa.nulls(len(numbers), pa.int64())
        if len(self._chains):
            place = positions(numbers, self._chains[:, 0])
            chains = pa.array(self._chains[place, 1], mask=place < 0)
        return isin_sorted(numbers, self._inner), isin_sorted(numbers, self._folded), chains


def _rows(database: Database, table: str) -> Iterator[Int64]:
    """Yields parts of a table as _COLUMNS, each correlation in one part; nothing if all rows have one class."""
    if not all(database.has(table, name) for name in ("globalTid", "correlationId", "start", "end", "eventClass")):
        return
    name = quoted_name(table)
    classes, count, lowest, highest = database.query(
        table,
        "SELECT count(DISTINCT eventClass), count(*), min(correlationId), max(correlationId) "
        f"FROM {name} WHERE correlationId > 0",
    )[0]
    if classes < 2 or not isinstance(lowest, int) or not isinstance(highest, int):
        return
    parts = -(-count // _PART_ROWS)
    bounds = [lowest + (highest - lowest + 1) * part // parts for part in range(parts + 1)]
    for low, high in pairwise(bounds):
        where = f"correlationId >= {low} AND correlationId < {high} AND start <= end"
        part = database.part(table, _COLUMNS[1:], where)
        yield np.stack([filled_part(part, column, _NULL) for column in _COLUMNS], axis=1)


def _classify(rows: Int64) -> tuple[Int64, Int64, Int64]:
    """Returns the rowids of calls within others and of repeats, and rowid and call chain of repeated calls."""
    rows = rows[np.lexsort((-rows[:, _END], rows[:, _START], rows[:, _CORRELATION], rows[:, _THREAD] >> 24))]
    process, correlation = rows[:, _THREAD] >> 24, rows[:, _CORRELATION]
    first = np.append(True, (process[1:] != process[:-1]) | (correlation[1:] != correlation[:-1]))[: len(rows)]
    if first.all():
        return _NO_ROWS, _NO_ROWS, np.zeros((0, 2), np.int64)
    begins, group, place = np.flatnonzero(first), np.cumsum(first) - 1, np.arange(len(rows))
    measured = np.isin(rows[:, _CLASS], _MEASURED)
    kept = np.minimum.reduceat(np.where(measured, place, len(rows)), begins)
    kept = np.where(kept < len(rows), kept, begins)[group]
    within = (place != kept) & (rows[:, _START] < rows[kept, _END])
    folded = within & ~measured
    chained = np.minimum.reduceat(np.where(folded & (rows[:, _CHAIN] != _NULL), place, len(rows)), begins)
    has_chain = np.flatnonzero(chained < len(rows))
    original = rows[kept[begins[has_chain]], _ROW]
    chains = np.stack([original, rows[chained[has_chain], _CHAIN]], axis=1)
    return rows[within & measured, _ROW], rows[folded, _ROW], chains
