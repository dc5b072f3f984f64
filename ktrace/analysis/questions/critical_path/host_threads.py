"""What the threads of the host did at each moment, and where the work of a thread goes on in another one.

spans       [ aten::linear                        ]
               [ aten::addmm          ]
                  [ cudaLaunchKernel ]
segments    [1][2][3                 ][2          ]        the innermost span, -1 where there is none

forward     [ loss ]                        [ step ]       does nothing while the backward thread works
backward             [ LossBackward ][ ... ]               its operators are joined by arrows: the path goes there
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.analysis.work.durations import by_group
from ktrace.analysis.work.gather import WorkInput
from ktrace.analysis.work.spans import KINDS, Ranges, innermost
from ktrace.model.arrays import AnyArray, Bools, Int32, Int64
from ktrace.stages.order.nesting import enclosing
from ktrace.stages.select.wanted import step_of
from ktrace.store.joins import find, positions

#: How PyTorch names what its autograd engine runs.
_ENGINE = "autograd::engine::evaluate_function"

_RANGE = KINDS.index("range")


def _is_of_engine(name: str) -> bool:
    return name.startswith(_ENGINE)


def _is_step(name: str) -> bool:
    return step_of(name) is not None


class Segments(NamedTuple):
    """Pieces of the time of threads, sorted by thread and time, without holes; `row` is -1 where nothing is open."""

    thread: Int32
    begin: Int64
    end: Int64
    row: Int64


def segments(thread: Int32, begin: Int64, end: Int64) -> Segments:
    """The innermost of some slices at each moment between the first and the last of their thread."""
    lasting = np.flatnonzero(end > begin)
    rows_of = by_group(thread[lasting], int(thread.max(initial=0)) + 1)
    parts = [Segments(thread[:0], begin[:0], end[:0], np.zeros(0, np.int64))]
    for number in np.unique(thread[lasting]).tolist():
        slices = lasting[rows_of(number)]
        slices = slices[np.lexsort((-end[slices], begin[slices]))]
        since, until, inside = _innermost(begin[slices], end[slices])
        row = np.where(inside >= 0, slices[inside], -1)
        parts.append(Segments(np.full(len(row), number, np.int32), since, until, row))
    return Segments(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _innermost(begin: Int64, end: Int64) -> tuple[Int64, Int64, Int64]:
    """Begin, end and the innermost slice (-1: none) of each piece of a thread; slices are sorted, outer ones first."""
    count = len(begin)
    after = enclosing(np.zeros(count, np.int32), begin, end)
    if np.any((after >= 0) & (end > end[after])):  # slices cross: at an end others are open
        points = np.zeros(2 * count, np.int32)
        after = innermost(points, np.concatenate([begin, end]), np.concatenate([end, end]))[count:]
    # In one nanosecond the inner slices end before the outer ones, and all before others begin.
    times = np.concatenate([end[::-1], begin])
    inside = np.concatenate([after[::-1], np.arange(count)])
    order = np.argsort(times, kind="stable")
    times, inside = times[order], inside[order]
    kept = np.flatnonzero(times[1:] > times[:-1])
    return times[kept], times[kept + 1], inside[kept]


class Threads:
    """The calls and operators on the threads of a source."""

    def __init__(self, gathered: WorkInput, source: str) -> None:
        self._columns = gathered.spans.for_source(source)
        self._gathered, self._source = gathered, source
        self.names: Int32 = self._columns["name"]
        self.kind: AnyArray = self._columns["kind"]
        self.ts: Int64 = self._columns["ts"]
        self.end: Int64 = self.ts + np.maximum(self._columns["dur"], 0)
        self.thread: Int32 = self._columns["thread"]
        self.rows: Int64 = np.flatnonzero(self.kind != _RANGE)
        # Of slices at the same times the outer one comes first in the source, which its id tells
        rows = self.rows[np.argsort(self._columns["id"][self.rows], kind="stable")]
        parts = segments(self.thread[rows], self.ts[rows], self.end[rows])
        row = np.where(parts.row >= 0, rows[parts.row], -1) if len(rows) else parts.row
        self.segments = parts._replace(row=row)

    def place(self, thread: int) -> slice:
        """Where the segments of a thread are."""
        low, high = np.searchsorted(self.segments.thread, [thread, thread + 1])
        return slice(int(low), int(high))

    def between(self, thread: int, since: int, until: int) -> tuple[Int64, Int64, Int64]:
        """Begin, end and row of the segments of a thread that meet an interval."""
        place = self.place(thread)
        low = place.start + int(np.searchsorted(self.segments.end[place], since, "right"))
        high = place.start + int(np.searchsorted(self.segments.begin[place], until, "left"))
        begin, end, row = (column[low : max(low, high)] for column in self.segments[1:])
        return begin, end, row

    def row_of(self, ids: Int64) -> Int64:
        """The rows with these ids, -1 where there is none."""
        event_ids = self._columns["id"]
        order = np.argsort(event_ids, kind="stable")
        at = positions(ids, event_ids[order])
        return np.where(at >= 0, order[at], -1) if len(order) else at

    def calls_of(self, correlation: Int64, begin: Int64, end: Int64) -> Int64:
        """The row of the call with each correlation that is open in an interval; -1 where there is none."""
        calls = self.rows[self._columns["correlation"][self.rows] != 0]
        at = find((correlation,), (self._columns["correlation"][calls],))
        if not len(calls):
            return at
        row = np.where(at >= 0, calls[at], -1)
        meets = (self.ts[row] <= end) & (self.end[row] >= begin)
        return np.where((row >= 0) & (correlation != 0) & meets, row, -1)

    def range_around(self, thread: Int32, at: Int64) -> Int64:
        """The row of the innermost range around each time on a thread, except steps; -1 where there is none."""
        rows, ranges = self._ranges
        row = ranges.around(thread, at)
        return np.where(row >= 0, rows[row], -1) if len(rows) else row

    @cached_property
    def _ranges(self) -> tuple[Int64, Ranges]:
        """The rows of the ranges, except steps."""
        range_rows = np.flatnonzero(self.kind == _RANGE)
        rows = range_rows[~self._gathered.spans.named(_is_step)[self.names[range_rows]]]
        return rows, Ranges(self.thread[rows], self.ts[rows], self.end[rows])

    def hops(self) -> dict[int, list[tuple[int, int]]]:
        """For each thread the moments at which the path comes from another thread, and that thread, rising."""
        hops: dict[int, set[tuple[int, int]]] = {}
        for forward, backward in sorted(self._joined() or self._by_name()):
            here, there = self._activity(forward), self._activity(backward)
            if here is None or there is None:
                continue
            hops.setdefault(forward, set()).update((time, backward) for time in _ends_in_gaps(here, there))
            hops.setdefault(backward, set()).update((time, forward) for time in self._resumed(forward, there))
        return {thread: sorted(moments) for thread, moments in hops.items()}

    def _joined(self) -> set[tuple[int, int]]:
        """The pairs of threads from whose operators arrows lead to backward operators on the other one."""
        out: dict[str, int] = {}
        into: list[tuple[str, int]] = []
        for batch in self._gathered.waits.links(self._source):
            rows = pa.table(batch).filter(pc.equal(batch["link"].cast(pa.string()), "fwdbwd"))
            ids = _column(rows, "event")
            at = self.row_of(np.array([-1 if one is None else one for one in ids], np.int64))
            places = zip(*(_column(rows, name) for name in ("host", "pid", "tid")), strict=True)
            ends = zip(_column(rows, "key"), _column(rows, "role"), at.tolist(), places, strict=True)
            for key, role, row, place in ends:
                thread = int(self.thread[row]) if row >= 0 else self._gathered.threads.get((self._source, *place))
                if thread >= 0 and role == "out":
                    out[key] = thread
                elif thread >= 0:
                    into.append((key, thread))
        pairs = {(out[key], thread) for key, thread in into if key in out}
        return {(forward, backward) for forward, backward in pairs if forward != backward}

    def _by_name(self) -> set[tuple[int, int]]:
        """The threads of PyTorch's autograd engine, each with the busiest other thread of its process.

        An engine's thread mostly runs what is named after it; `backward` blocks the thread that calls it until then.
        Where operators are ranges (NVTX), so is what the engine runs.
        """
        engine = self._gathered.spans.named(_is_of_engine)
        pieces = self.segments
        if np.any(engine[self.names[self.kind == _RANGE]]):
            pieces = segments(self.thread, self.ts, self.end)
        open_ = pieces.row >= 0
        first = open_ & ~np.append(False, open_[:-1] & (pieces.thread[1:] == pieces.thread[:-1]))
        threads = self._gathered.threads.all()
        outer = np.bincount(pieces.thread[first], minlength=len(threads))
        named = first.copy()
        named[first] = engine[self.names[pieces.row[first]]]
        backward = np.flatnonzero(np.bincount(pieces.thread[named], minlength=len(threads)) * 2 > outer).tolist()
        busy = np.bincount(self.thread[self.rows], minlength=len(threads))
        pairs = set()
        for one in backward:
            process = {name: threads[one][name] for name in ("host", "pid")}
            others = [
                number
                for number in np.flatnonzero(busy).tolist()
                if number not in backward and process.items() <= threads[number].items()
            ]
            if others:
                busiest = max(others, key=lambda number: int(busy[number]))
                pairs.add((busiest, one))
        return pairs

    def _activity(self, thread: int) -> tuple[Int64, Int64] | None:
        """The intervals in which a thread has calls or operators."""
        place = self.place(thread)
        if place.start == place.stop:
            return None
        begin, end, open_ = self.segments.begin[place], self.segments.end[place], self.segments.row[place] >= 0
        first = open_ & ~np.append(False, open_[:-1])
        last = open_ & ~np.append(open_[1:], False)
        return begin[first], end[last]

    def _resumed(self, forward: int, there: tuple[Int64, Int64]) -> list[int]:
        """When a backward thread began to work after a pause in which its forward thread did something."""
        begin, end = there
        starts = self.segments.begin[self.place(forward)]
        last = np.searchsorted(starts, begin, "right") - 1
        before = np.append(begin[0] - 1, end[:-1])
        moved: Bools = (last >= 0) & (starts[np.maximum(last, 0)] > before)
        moved[0] = last[0] >= 0
        times: list[int] = begin[moved].tolist()
        return times


def _ends_in_gaps(here: tuple[Int64, Int64], there: tuple[Int64, Int64]) -> list[int]:
    """When the backward thread ends its last work in each gap of the forward one."""
    gap_begin, gap_end = here[1], np.append(here[0][1:], np.iinfo(np.int64).max)
    at = np.searchsorted(there[1], gap_end, "right") - 1
    ends = there[1][np.maximum(at, 0)]
    after = there[0][np.minimum(at + 1, len(there[0]) - 1)]
    goes_on = (at + 1 < len(there[0])) & (after < gap_end)  # it works when the forward thread resumes
    times: list[int] = ends[(at >= 0) & (ends > gap_begin) & ~goes_on].tolist()
    return times


def covered(begin: Int64, end: Int64, at: Int64) -> Int64:
    """How much of some disjoint intervals, which rise, lies before each time."""
    total = np.concatenate([[0], np.cumsum(end - begin)])
    place = np.searchsorted(begin, at, "right")
    last = np.maximum(place - 1, 0)
    over = np.maximum(end[last] - at, 0) if len(begin) else 0
    length: Int64 = total[place] - np.where(place > 0, over, 0)
    return length


def _column(rows: pa.Table, name: str) -> list[Any]:
    """The values of a column, None for all if there isn't one."""
    return rows[name].to_pylist() if name in rows.column_names else [None] * rows.num_rows
