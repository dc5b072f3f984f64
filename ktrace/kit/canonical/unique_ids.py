"""Leaves out rows with an id that another row of their source already has: links and parents couldn't tell them apart.

    run   1 2 3 4 5 9 10 11 12      remembered as 1-5, 9-12
    run   4                         again: a "bad-record"

What ktrace writes counts its ids up, so that a few ranges remember millions of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from ktrace.model.arrays import Bools, Int64
from ktrace.model.batch import Batch
from ktrace.model.json_text import encoded
from ktrace.model.schema import WORD
from ktrace.report import Report

#: Ranges of ids up to which they are compared, as a bound of memory: each takes 16 bytes.
MOST_RANGES = 1 << 20


def with_unique_ids(batches: Iterable[Batch], report: Report, *, noted: bool = False) -> Iterator[Batch]:
    """Yields the batches of a canonical reader without rows that repeat an id; the reader has counted them as used.

    With `noted`, an earlier reading of the same input has reported these rows, and they aren't counted.
    """
    ids_of_source: dict[str, _Known] = {}
    for batch in batches:
        if batch.record == "catalog":
            yield batch
            continue
        again = _again(batch, ids_of_source)
        if not again.any():
            yield batch
            continue
        rows = np.flatnonzero(again).tolist()
        report.used(-len(rows))
        if noted:
            report.record(-len(rows))
        for row in rows if not noted else ():
            source, identity = (batch.column(name)[row].as_py() for name in ("source", "id"))
            report.issue("bad-record", f"{WORD[batch.record]} {identity} of {source}", "another row has the same id")
        if not again.all():
            yield Batch(batch.record, batch.columns.filter(pa.array(~again)))


def _again(batch: Batch, ids_of_source: dict[str, _Known]) -> Bools:
    """Which rows have an id that an earlier row of their source has."""
    sources, ids = encoded(batch.column("source")), batch.column("id").to_numpy()
    names = sources.dictionary.to_pylist()
    codes = sources.indices.to_numpy()
    if len(codes) and (codes == codes[0]).all():
        return ids_of_source.setdefault(names[codes[0]], _Known()).again(ids)
    again = np.zeros(len(ids), np.bool_)
    order = np.argsort(codes, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1):
        if len(rows):
            again[rows] = ids_of_source.setdefault(names[codes[rows[0]]], _Known()).again(ids[rows])
    return again


class _Known:
    """The ids of a source as ranges, in lists that are merged when one gets as long as the one before it."""

    def __init__(self) -> None:
        self._lists: list[tuple[Int64, Int64]] = []  # first and last ids, sorted

    def again(self, ids: Int64) -> Bools:
        """Which of the ids are known, or repeat one of these; remembers the others."""
        repeated = np.zeros(len(ids), np.bool_)
        order = None if (np.diff(ids) > 0).all() else np.argsort(ids, kind="stable")
        given = ids if order is None else ids[order]
        old = np.zeros(len(given), np.bool_)
        old[1:] = given[1:] == given[:-1]
        for first, last in self._lists:
            place = np.searchsorted(first, given, "right") - 1
            old |= (place >= 0) & (given <= last[place])
        repeated[slice(None) if order is None else order] = old
        self._add(given[~old])
        return repeated

    def _add(self, ids: Int64) -> None:
        if not len(ids) or sum(len(first) for first, _ in self._lists) > MOST_RANGES:
            return
        self._lists.append(_joined(ids, ids))
        while len(self._lists) > 1 and len(self._lists[-1][0]) >= len(self._lists[-2][0]):
            first, last = map(np.concatenate, zip(self._lists.pop(), self._lists.pop(), strict=True))
            order = np.argsort(first, kind="stable")
            self._lists.append(_joined(first[order], last[order]))


def _joined(first: Int64, last: Int64) -> tuple[Int64, Int64]:
    """Sorted ranges, those that follow each other without a gap as one."""
    breaks = np.flatnonzero(first[1:] - last[:-1] != 1)
    return first[np.concatenate(([0], breaks + 1))], last[np.concatenate((breaks, [len(last) - 1]))]
