"""Which collectives of two ranks are the same one.

rank 0   group 0, 17th     all_reduce      rank 1   group 0, 17th     by group and sequence number
rank 0   group 0, 4 MiB    3rd all_reduce  rank 1   the 3rd           by position among equals
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Key = tuple[object, ...]


class Row(NamedTuple):
    """A collective on one rank: its group, what it does, its number in the group, its size, begin and end in ns."""

    comm: str | None
    operation: str
    seq: int | None
    size: int | None
    begin: int
    end: int


class Keyed:
    """The collectives of a rank, by keys that other ranks have too.

    A key is the group and sequence number (way 0), else the group, operation, size and an index among these (way 1),
    else the operation and an index (way 2): the most certain way for which both ranks have the data. If that finds
    nothing in common, a less certain way isn't tried.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows
        self._order = sorted(range(len(rows)), key=lambda place: rows[place].begin)
        groups = any(row.comm is not None for row in rows)
        numbered = any(row.comm is not None and row.seq is not None for row in rows)
        self.way = 0 if numbered else 1 if groups else 2
        self._places: dict[int, dict[Key, int]] = {}

    def places(self, way: int) -> dict[Key, int]:
        """Key -> index of the row. A key includes the index among the rows that are otherwise equal."""
        if way in self._places:
            return self._places[way]
        often: dict[Key, int] = {}
        places = self._places[way] = {}
        for place in self._order:
            row = self._rows[place]
            if (way < 2 and row.comm is None) or (way == 0 and row.seq is None):
                continue
            key = ((row.comm, row.seq), (row.comm, row.operation, row.size), (row.operation,))[way]
            often[key] = often.get(key, 0) + 1
            places[(*key, often[key])] = place
        return places

    def common(self, other: Keyed) -> int:
        """How many collectives the two ranks have in common."""
        way = max(self.way, other.way)
        return len(self.places(way).keys() & other.places(way).keys())

    def match(self, other: Keyed) -> tuple[list[Row], list[Row]]:
        """The common collectives on both ranks, in the order in which they end on this one."""
        way = max(self.way, other.way)
        mine, theirs = self.places(way), other.places(way)
        common = sorted(mine.keys() & theirs.keys(), key=lambda key: self._rows[mine[key]].end)
        return [self._rows[mine[key]] for key in common], [other._rows[theirs[key]] for key in common]
