"""Makes a timeline of any size small enough to open: slices too short to be seen become one with their neighbours.

    stream 7   [ gemm           ] [n][a][n]  [ gemm           ] [n][n]   [ gemm         ]
               [ gemm           ] [norm +2]  [ gemm           ] [norm +1][ gemm         ]

A slice is short below a length that is chosen so that at most as many slices remain as are wanted. Neighbours are short
slices of one track that no longer one begins or ends between, with gaps below that length. What they become says how
many they were, for how long at least one of them ran, and which names took most of it; its kind is that of the first of
these. Steps and phases stay, and so do ranges, unless they alone are half of what is wanted. Figures and ends of arrows
stay with their slice.

Counters keep the least and the greatest value of each piece of time, other points the first of each piece.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.errors import UsageError
from ktrace.model.arrays import AnyArray, Bools, Int32, Int64, UInt8
from ktrace.model.batch import TRACK_COLUMNS, Batch
from ktrace.model.catalog import Catalog
from ktrace.model.json_text import decoded, dump_json
from ktrace.model.masks import NameTest, each_source, rows_where, slice_rows, truth, words_in
from ktrace.model.row_builder import NewIds, to_batch
from ktrace.naming.phases import phase_of
from ktrace.report import Report
from ktrace.stages.select.dependents import Dependents, are_figures
from ktrace.stages.select.filter import WITH_EVENT, WITH_ROW
from ktrace.stages.select.wanted import step_of
from ktrace.store import SPILL_BYTES, Batches, Spill
from ktrace.store.events import LIMIT, values
from ktrace.store.joins import each_group, greatest_so_far, group_start_mask
from ktrace.store.vocabulary import Shapes

#: How a row may change: it stays; it merges with others if it is short; a range; a counter; another point.
_STAYS, _SLICE, _RANGE, _COUNTER, _POINT = range(5)

#: Lengths that are tried, in ns: four for each power of two.
_LENGTHS = np.unique((2 ** (np.arange(4, 250) / 4)).astype(np.int64))

#: The fact of a source whose rows don't add up to what was measured any more: how many rows went.
FACT = "coarsened"

#: Names that are told of the slices that became one.
_NAMES = 3

#: The figures of an allocation follow it within so many batches.
_RECENT = 4

#: Rows that are yielded at once.
_ROWS = 65_536


class _Rows(NamedTuple):
    """The rows of one kind of change, by track and time: `place` is the number of the row among all."""

    place: Int64
    track: Int32
    ts: Int64
    end: Int64
    name: Int32

    @classmethod
    def of(cls, place: Int64, track: Int32, ts: Int64, end: Int64, name: Int32) -> _Rows:
        """Sorts rows; of slices that begin together the longest comes first."""
        order = np.lexsort((-end, ts, track))
        return cls(place[order], track[order], ts[order], end[order], name[order])

    def where(self, mine: AnyArray | slice) -> _Rows:
        """Some of the rows."""
        return _Rows(self.place[mine], self.track[mine], self.ts[mine], self.end[mine], self.name[mine])


def coarsened(batches: Iterable[Batch], budget: int, report: Report) -> Iterator[Batch]:
    """Yields at most about `budget` slices: long ones, and what short ones became; the catalog and totals as they are.

    Begins and ends must have been paired before. Nothing changes where there are no more slices than that.
    """
    spill = Spill(SPILL_BYTES)
    try:
        yield from _Coarsener(budget, spill).all(batches, report)
    finally:
        spill.close()


class _Coarsener:
    """Keeps all rows until their number is known."""

    def __init__(self, budget: int, spill: Spill) -> None:
        self._budget = budget
        self._kept, self._dependents = Batches(spill, "whole"), Dependents(spill)
        self._tracks, self._series = Shapes(TRACK_COLUMNS), Shapes((*TRACK_COLUMNS, "name"))
        self._names = Shapes(("name", "kind"))
        self._columns: list[tuple[UInt8, Int32, Int64, Int64, Int32]] = []
        self._values: list[AnyArray] = [np.zeros(0)]  # of counters
        self._points: defaultdict[str, list[Int64]] = defaultdict(list)
        self._ids = NewIds()
        self._is_mark = NameTest(lambda name: step_of(name) is not None or phase_of(name) is not None)
        self.taken = self.given = 0

    def all(self, batches: Iterable[Batch], report: Report) -> Iterator[Batch]:
        """Yields the catalog at once, and the rest after the last batch."""
        for batch in batches:
            if batch.record == "catalog":
                yield batch
            elif len(batch):
                self.taken += len(batch)
                self._ids.see(batch)
                yield from self._take(batch)
        removed: Counter[str] = Counter()
        stays, runs = self._decide(removed)
        first = 0
        for number in range(len(self._kept)):
            batch = Batch("events", self._kept.get(number))
            mine = stays[first : first + len(batch)]
            first += len(batch)
            self._dependents.remember(batch, mine)
            yield from self._give(rows_where(batch, mine))
        merged = 0
        for batch in runs:
            merged += len(batch)
            yield from self._give(batch)
        for batch, kept in self._dependents.rest():
            removed[WITH_EVENT if batch.record == "links" else WITH_ROW] += len(batch) - int(np.count_nonzero(kept))
            yield from self._give(rows_where(batch, kept))
        ledger = report.stage("coarsen")
        ledger.taken, ledger.given = self.taken, self.given
        ledger.removed.update({reason: rows for reason, rows in removed.items() if rows})
        if merged:
            ledger.added["merged slices"] = merged
        if gone := sum(removed.values()):
            report.issue("coarsened", "--budget", f"{removed['merged']:,} slices became {merged:,}", gone)
            facts = dump_json({FACT: gone})
            usual = {"entity": "source", "id": 0, "facts": facts}
            yield to_batch("catalog", [usual | {"source": one, "name": one} for one in self._ids.sources])

    def _give(self, batch: Batch) -> Iterator[Batch]:
        if len(batch):
            self.given += len(batch)
            yield batch

    def _take(self, batch: Batch) -> Iterator[Batch]:
        """Keeps rows until all are known; yields those that stay in any case."""
        if batch.record == "summaries":
            self._dependents.remember(batch, np.ones(len(batch), np.bool_))
            yield from self._give(batch)
            return
        waits = np.ones(len(batch), np.bool_) if batch.record == "links" else self._figures(batch)
        self._dependents.wait(
            rows_where(batch, waits), np.ones(int(waits.sum()), np.bool_), np.zeros(int(waits.sum()), np.bool_)
        )
        batch = rows_where(batch, ~waits)
        if not len(batch):
            return
        ts, _ = values(batch.columns, "ts")
        dur, known = values(batch.columns, "dur")
        change = self._change(batch, known & (dur >= 0) & (dur < LIMIT) & (abs(ts) < LIMIT))
        every, counters = np.arange(len(batch)), np.flatnonzero(change == _COUNTER)
        track = self._tracks.number(batch, every)
        track[counters] = self._series.number(batch, counters)
        self._values.append(values(batch.columns, "value")[0][counters])
        words = pc.coalesce(decoded(batch.column("short_name")), decoded(batch.column("name")))
        named = Batch("events", pa.record_batch({"name": words, "kind": batch.column("kind")}))
        self._columns.append((change, track, ts, ts + np.where(known, dur, 0), self._names.number(named, every)))
        self._kept.append(batch.columns)

    def _figures(self, batch: Batch) -> Bools:
        """Which rows are figures of a slice. Those of points, as of allocations, are counters like others."""
        found = are_figures(batch)
        points = words_in(batch.column("kind"), ("alloc",)) & ~truth(batch.column("dur").is_valid())
        for source, rows in each_source(rows_where(batch, points)):
            self._points[source].append(rows.column("id").to_numpy())
        if not found.any() or not self._points:
            return found
        parent, _ = values(batch.columns, "parent")
        for source, ids in self._points.items():
            del ids[:-_RECENT]
            found &= ~(words_in(batch.column("source"), (source,)) & np.isin(parent, np.concatenate(ids)))
        return found

    def _change(self, batch: Batch, ends: Bools) -> UInt8:
        """How each row may change; `ends` are the rows with a duration."""
        found = np.full(len(batch), _STAYS, np.uint8)
        slices, kind = slice_rows(batch), batch.column("kind")
        found[slices & ends] = _SLICE
        found[slices & ends & words_in(kind, ("range",))] = _RANGE
        found[self._is_mark(batch.column("name"))] = _STAYS
        found[words_in(kind, ("counter",))] = _COUNTER
        found[words_in(kind, ("instant", "log", "sample"))] = _POINT
        found[words_in(kind, ("alloc",)) & ~ends] = _POINT
        return found

    def _decide(self, removed: Counter[str]) -> tuple[Bools, Iterator[Batch]]:
        """Which of the kept rows stay, and what the others became."""
        if not self._columns:
            return np.zeros(0, np.bool_), iter(())
        change, track, ts, end, name = (np.concatenate(parts) for parts in zip(*self._columns, strict=True))
        self._columns.clear()
        stays = np.ones(len(change), np.bool_)
        for one in (_COUNTER, _POINT):
            place = np.flatnonzero(change == one)
            if len(place) > self._budget:
                figure = np.concatenate(self._values) if one == _COUNTER else None
                stays[place] = _thinned(track[place], ts[place], figure, self._budget)
                removed["thinned"] += int(np.count_nonzero(~stays[place]))
        merges = change == _SLICE
        ranges = change == _RANGE
        if 2 * np.count_nonzero(ranges) > self._budget:
            merges |= ranges
        place = np.flatnonzero(merges | ranges | ((change == _STAYS) & (end > ts)))
        if len(place) <= self._budget:
            return stays, iter(())
        rows = _Rows.of(place, track[place], ts[place], end[place], name[place])
        free = merges[rows.place]
        length = _length(rows, free, self._budget)
        run = _runs(rows, free & (rows.end - rows.ts < length), length)
        inside = np.flatnonzero(run >= 0)
        alone = np.bincount(run[inside], minlength=1)[run[inside]] == 1
        inside = inside[~alone]
        if not len(inside):
            return stays, iter(())
        stays[rows.place[inside]] = False
        removed["merged"] += len(inside)
        return stays, self._merged(rows.where(inside), run[inside])

    def _merged(self, rows: _Rows, run: Int64) -> Iterator[Batch]:
        """What runs of short slices became."""
        first = np.flatnonzero(group_start_mask((run,)))
        count = np.diff([*first.tolist(), len(run)])
        run = np.repeat(np.arange(len(first)), count)
        ts, end = rows.ts[first], np.maximum.reduceat(rows.end, first)
        columns = ts, end - ts, count, _busy(rows, run), rows.track[first]
        heaviest = _heaviest(rows, run, len(self._names))
        words, kinds = zip(*self._names, strict=True)
        tracks = self._tracks.all()
        for begin in range(0, len(first), _ROWS):
            part = slice(begin, begin + _ROWS)
            found = [
                tracks[track]
                | {"ts": ts, "dur": dur, "args.merged": count, "args.busy_ns": busy, "args.derived_by": "ktrace"}
                | {"name": f"{words[told[0][0]]} +{count - 1:,}", "kind": kinds[told[0][0]], "timing": "derived"}
                | {"args.heaviest": ", ".join(f"{words[number]} {time:,} ns" for number, time in told)}
                for ts, dur, count, busy, track, told in zip(
                    *(column[part].tolist() for column in columns), heaviest[part], strict=True
                )
            ]
            batch = to_batch("events", found)
            yield Batch("events", batch.columns.append_column("id", self._ids.take(batch.column("source"))))


def _length(rows: _Rows, free: Bools, budget: int) -> int:
    """The least length below which slices must merge, so that at most `budget` remain; the greatest if none is."""
    low, high = 0, len(_LENGTHS) - 1
    while low < high:
        middle = (low + high) // 2
        short = free & (rows.end - rows.ts < _LENGTHS[middle])
        run = _runs(rows, short, int(_LENGTHS[middle]))
        remain = int(np.count_nonzero(~short)) + int(run.max(initial=-1)) + 1
        low, high = (low, middle) if remain <= budget else (middle + 1, high)
    return int(_LENGTHS[low])


def _runs(rows: _Rows, short: Bools, length: int) -> Int64:
    """The number of the run of each short slice, -1 for the others."""
    found = np.full(len(short), -1, np.int64)
    before = 0
    for track in each_group((rows.track,)):
        mine = short[track]
        place = np.flatnonzero(mine)
        if not len(place):
            continue
        ts, end = rows.ts[track], rows.end[track]
        begun = np.cumsum(~mine)[place]
        ended = np.searchsorted(np.sort(end[~mine]), ts[place], "right")
        reached = np.maximum.accumulate(end[place])
        far = np.zeros(len(place), np.bool_)
        far[1:] = ts[place][1:] - reached[:-1] > length
        number = np.cumsum(group_start_mask((begun, ended)) | far) - 1
        found[track.start + place] = before + number
        before += int(number[-1]) + 1
    return found


def _busy(rows: _Rows, run: Int64) -> Int64:
    """The time of each run in which at least one of its slices is open."""
    reached = greatest_so_far(rows.end, (run,))
    begins = group_start_mask((run,))
    since = rows.ts.copy()
    since[~begins] = np.maximum(since, np.roll(reached, 1))[~begins]
    return np.add.reduceat(np.maximum(rows.end - since, 0), np.flatnonzero(begins))


def _heaviest(rows: _Rows, run: Int64, names: int) -> list[list[tuple[int, int]]]:
    """The names that take most of each run, with their time; slices in each other count each."""
    key = run * names + rows.name
    order = np.argsort(key, kind="stable")
    first = np.flatnonzero(group_start_mask((key[order],)))
    time = np.add.reduceat((rows.end - rows.ts)[order], first)
    key = key[order][first]
    order = np.lexsort((key, -time, key // names))
    key, time = key[order], time[order]
    begin = np.flatnonzero(group_start_mask((key // names,)))
    rank = np.arange(len(key)) - np.repeat(begin, np.diff([*begin.tolist(), len(key)]))
    found: list[list[tuple[int, int]]] = [[] for _ in begin]
    told = rank < _NAMES
    for one, ns in zip(key[told].tolist(), time[told].tolist(), strict=True):
        found[one // names].append((one % names, ns))
    return found


def _thinned(series: Int32, ts: Int64, figure: AnyArray | None, budget: int) -> Bools:
    """Which points stay: of each piece of time those with the least and the greatest figure, else the first."""
    known, which = np.unique(series, return_inverse=True)
    count = len(known)
    pieces = max(budget // (count * (1 if figure is None else 2)), 1)
    width = (int(ts.max()) - int(ts.min())) // pieces + 1
    piece = which * pieces + (ts - ts.min()) // width
    stays = np.zeros(len(ts), np.bool_)
    for key in (ts,) if figure is None else (figure, -figure):
        order = np.lexsort((ts, key, piece))
        stays[order[group_start_mask((piece[order],))]] = True
    return stays


def notes_of(catalog: Catalog) -> list[str]:
    """Says which sources were read from a coarse timeline."""
    names = [str(entry.key["source"]) for entry in catalog.of("source") if FACT in entry.facts]
    said = "a coarse timeline, in which --budget merged short slices; counts and sums aren't those of the run."
    return [f"{', '.join(names)}: {said}"] if names else []


def budget_of(text: str | int) -> int:
    """A number of slices: 300000, 300k, 2M. Raises UsageError."""
    words = str(text).strip()
    factor = {"k": 1_000, "M": 1_000_000}.get(words[-1:], 1)
    number = words[:-1] if factor > 1 else words
    if not number.isascii() or not number.isdecimal() or not 0 < int(number) * factor < LIMIT:
        raise UsageError(f"'{text}' isn't a number of slices", expected="such as 300000, 300k or 2M")
    return int(number) * factor
