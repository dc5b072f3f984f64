"""Nests spans by thread, finds the span around each call, and makes the call tree.

thread 4242   [ ## backward ##            ]         0
                [ aten::mm ]  [ aten::add ]         1, 2: the parent is 0
                  ^ call                            of 1
thread 4300   [ a backward operator ]               3: a root, unless `outer` names a span of another thread

The call tree has each way from an outermost span inward, with what happened on it:

    path                         calls   host own   own    total
    step                             1     5 us     0 us   90 us
    step › aten::linear             12    80 us     0 us   90 us
    step › aten::linear › aten::mm  12    40 us    90 us   90 us

Millions of spans have some thousand paths. `own` is device work launched with the last span of the path innermost,
`total` that and the work below it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec
import numpy as np

from ktrace.analysis.work.spans import innermost
from ktrace.analysis.work.stored_columns import BLOCK
from ktrace.model.arrays import AnyArray, Bools, Int32, Int64
from ktrace.store.joins import distinct, greatest_so_far, group_start_mask

#: Returns for spans without a parent the index of one around them on another thread, -1 where there is none.
Outer = Callable[[Int32, Int64], Int64]


class SpanColumns(NamedTuple):
    """Slices of threads: `thread` is the number of the thread, `name` that of the name."""

    thread: Int32
    begin: Int64
    end: Int64
    name: Int64

    def __len__(self) -> int:
        return len(self.begin)

    def where(self, rows: Bools | Int64) -> SpanColumns:
        """The spans where a mask is true, or at the given indices."""
        return SpanColumns(self.thread[rows], self.begin[rows], self.end[rows], self.name[rows])


class Forest(NamedTuple):
    """For each span the index of the one around it, for each time on a thread that of the innermost; -1: none."""

    parent: Int64
    owner: Int64

    @classmethod
    def from_spans(cls, spans: SpanColumns, thread: Int32, at: Int64, nests: Bools, outer: list[Outer]) -> Forest:
        """Nests spans on the threads that have `nests`, and finds those around times; then asks each of `outer`."""
        count = len(spans)
        if not count:
            return cls(np.zeros(0, np.int64), np.full(len(at), -1, np.int64))
        alone = ~nests[spans.thread]
        track = np.concatenate([spans.thread, thread])
        innermost_of = _innermost(track, np.concatenate([spans.begin, at]), np.concatenate([spans.end, at]))
        parent, owner = innermost_of[:count], innermost_of[count:]
        if alone.any():
            parent[alone] = -1
            owner[~nests[thread]] = -1
        # A span that outlasts the one in which it began stays in it only with its greater part
        inner = np.flatnonzero(parent >= 0)
        inner = inner[spans.end[inner] > spans.end[parent[inner]]]
        middle = spans.begin[inner] + (spans.end[inner] - spans.begin[inner]) // 2
        while len(inner):
            out = spans.end[parent[inner]] <= middle
            inner, middle = inner[out], middle[out]
            parent[inner] = parent[parent[inner]]
            there = parent[inner] >= 0
            inner, middle = inner[there], middle[there]
        for find in outer:
            for around, threads, begin in ((parent, spans.thread, spans.begin), (owner, thread, at)):
                lost = np.flatnonzero(around < 0)
                around[lost] = find(threads[lost], begin[lost])
        return cls(parent, owner)

    def levels(self) -> Iterator[Int64]:
        """Yields the spans without a parent, then those in them, and so on."""
        depth, ancestor = (self.parent >= 0).astype(np.int64), self.parent.copy()
        above = np.flatnonzero(ancestor >= 0)
        while len(above):  # an ancestor twice as far each time
            further = ancestor[above]
            depth[above] += depth[further]
            ancestor[above] = ancestor[further]
            above = above[ancestor[above] >= 0]
        order = np.argsort(depth, kind="stable")
        bounds = np.cumsum(np.bincount(depth)) if len(depth) else np.zeros(0, np.int64)
        yield from np.split(order, bounds[:-1])


def _innermost(track: Int32, begin: Int64, end: Int64) -> Int64:
    """The index of the innermost slice around each slice, in blocks between times at which no slice is open."""
    if len(track) <= BLOCK:
        return innermost(track, begin, end)
    order = np.lexsort((begin, track))
    cuts = _cuts(track[order], begin[order], end[order])
    around = np.full(len(track), -1, np.int64)
    first = 0
    while first < len(order):
        place = np.searchsorted(cuts, min(first + BLOCK, len(order)))
        rows = np.sort(order[first : cuts[place]])  # slices that are equal nest in their order
        inside = innermost(track[rows], begin[rows], end[rows])
        around[rows] = np.where(inside >= 0, rows[inside], -1)
        first = int(cuts[place])
    return around


def _cuts(track: Int32, begin: Int64, end: Int64) -> Int64:
    """Where sorted slices begin after the end of all before them on their track; the last one is their number."""
    closed = group_start_mask((track,))
    reached = greatest_so_far(end, (track,))[:-1]
    closed[1:] |= (begin[1:] >= reached) & (begin[1:] > begin[:-1])
    closed[0] = False
    return np.append(np.flatnonzero(closed), len(track))


#: Codes of several columns stay below this number.
_CODES = 1 << 62

#: Up to so many paths are looked up one by one.
_FEW = 16


class PathFigures(msgspec.Struct):
    """Figures of paths or names, as columns; times in ns, `launched` and `launched_own` pieces of device work."""

    calls: Int64
    host: Int64
    host_own: Int64
    total: Int64
    own: Int64
    launched: Int64
    launched_own: Int64

    @classmethod
    def zeros(cls, count: int) -> PathFigures:
        """Times and counts of zero for a number of paths."""
        return cls(*(np.zeros(count, np.int64) for _ in cls.__struct_fields__))

    def extended(self, count: int) -> PathFigures:
        """The same for so many paths, with zeros for new ones."""
        figures = PathFigures.zeros(count)
        for into, column in zip(figures.columns(), self.columns(), strict=True):
            into[: len(column)] = column[:count]
        return figures

    def columns(self) -> list[Int64]:
        """The columns in the order of the fields."""
        return [getattr(self, name) for name in self.__struct_fields__]


class Paths:
    """Numbers for paths: a path is the number of the path around it (-1: none) and the code of its name."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, int], int] = {}
        self._figures = PathFigures.zeros(0)

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def parent(self) -> Int64:
        """The path around each path, -1 for none."""
        return np.array([parent for parent, _ in self._numbers], np.int64)

    @property
    def code(self) -> Int64:
        """The code of the name of each path."""
        return np.array([code for _, code in self._numbers], np.int64)

    def number(self, parent: Int64, code: Int64) -> Int64:
        """The numbers of paths."""
        numbers = self._numbers
        if len(parent) <= _FEW:
            pairs = zip(parent.tolist(), code.tolist(), strict=True)
            return np.array([numbers.setdefault(pair, len(numbers)) for pair in pairs], np.int64)
        codes = int(code.max()) + 1
        if codes * (len(self._numbers) + 1) >= _CODES:
            raise OverflowError("too many names and paths")
        first, which = distinct((parent + 1) * codes + code, codes * (len(self._numbers) + 1))
        pairs = zip(parent[first].tolist(), code[first].tolist(), strict=True)
        return np.array([numbers.setdefault(pair, len(numbers)) for pair in pairs], np.int64)[which]

    def of_spans(self, forest: Forest, code: Int64) -> Int64:
        """The path of each span, whose names have these codes."""
        path = np.full(len(code), -1, np.int64)
        for spans in forest.levels():
            outer = forest.parent[spans]
            path[spans] = self.number(np.where(outer >= 0, path[outer], -1), code[spans])
        return path

    def add_host(self, path: Int64, host: Int64, own_time: Int64) -> None:
        """Adds spans with these paths."""
        figures = self._grown()
        _add(figures.calls, path, np.ones(len(path), np.int64))
        _add(figures.host, path, host)
        _add(figures.host_own, path, own_time)

    def add_work(self, path: Int64, dur: Int64) -> None:
        """Adds device work that was launched on these paths."""
        figures = self._grown()
        _add(figures.own, path, dur)
        _add(figures.launched_own, path, np.ones(len(path), np.int64))

    def _grown(self) -> PathFigures:
        """The figures, long enough for all paths so far; they double, since sources come one by one."""
        if len(self._figures.calls) < len(self):
            self._figures = self._figures.extended(2 * len(self))
        return self._figures

    def figures(self) -> PathFigures:
        """The figures of each path."""
        figures, parent = self._figures.extended(len(self)), self.parent
        figures.total, figures.launched = figures.own.copy(), figures.launched_own.copy()
        for paths in reversed(list(Forest(parent, parent).levels())):
            inner = paths[parent[paths] >= 0]
            np.add.at(figures.total, parent[inner], figures.total[inner])
            np.add.at(figures.launched, parent[inner], figures.launched[inner])
        return figures

    def by_name(self) -> tuple[Int64, PathFigures]:
        """The codes of names, and the figures of all spans with such a name: one within another counts once."""
        paths, code = self.figures(), self.code
        names, which = np.unique(code, return_inverse=True)
        outermost = self._outermost(code)
        figures = PathFigures.zeros(len(names))
        for into, column, name in zip(figures.columns(), paths.columns(), PathFigures.__struct_fields__, strict=True):
            rows = outermost if name in ("host", "total", "launched") else slice(None)
            np.add.at(into, which[rows], column[rows])
        return names, figures

    def _outermost(self, code: Int64) -> Bools:
        """Whether no path around a path ends in the same name."""
        inside: dict[int, list[int]] = {}
        for path, parent in enumerate(self.parent.tolist()):
            inside.setdefault(parent, []).append(path)
        is_outermost, codes, around = np.ones(len(code), np.bool_), code.tolist(), set[int]()
        left = [(path, True) for path in inside.get(-1, ())]
        while left:
            path, enters = left.pop()
            if not enters:
                around.remove(codes[path])
                continue
            if codes[path] in around:
                is_outermost[path] = False
            else:
                around.add(codes[path])
                left.append((path, False))
            left += [(one, True) for one in inside.get(path, ())]
        return is_outermost


def _add(sums: Int64, group: Int64, values: AnyArray) -> None:
    """Adds the values to the sum of their group. Sums of whole ns below 2^53 (104 days) are exact."""
    if len(group) < len(sums):
        np.add.at(sums, group, values)
    else:
        sums += np.bincount(group, weights=values, minlength=len(sums)).astype(np.int64)
