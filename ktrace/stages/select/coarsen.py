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
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.errors import UsageError
from ktrace.model.arrays import Bools, Int32, Int64, UInt8
from ktrace.model.batch import TRACK_COLUMNS, Batch
from ktrace.model.catalog import Catalog
from ktrace.model.json_text import decoded, dump_json
from ktrace.model.masks import NameTest, each_source, rows_where, slice_rows, truth, words_in
from ktrace.model.row_builder import NewIds, to_batch
from ktrace.naming.phases import phase_of
from ktrace.report import Report, counted
from ktrace.stages.select.dependents import Dependents, are_figures
from ktrace.stages.select.filter import WITH_EVENT, WITH_ROW
from ktrace.stages.select.wanted import step_of
from ktrace.store import RANGE_ROWS, SPILL_BYTES, BatchSpool, Runs, Spill
from ktrace.store.events import LIMIT, values
from ktrace.store.joins import each_group, greatest_so_far, group_start_mask
from ktrace.store.vocabulary import RowKeys

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
_ROWS = 8_192

#: How many slices are added up at once.
_MERGED = 65_536

#: What is kept of a slice and of a point: `place` is the number of the row among all.
_SLICE_FIELDS = [("ts", "i8"), ("track", "i4"), ("end", "i8"), ("name", "i4"), ("place", "i8"), ("change", "u1")]
_SHOWN_FIELDS = [("series", "i4"), ("ts", "i8"), ("value", "f8"), ("place", "i8")]


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
    """Keeps all rows until their number is known: on disk, where they are many."""

    def __init__(self, budget: int, spill: Spill) -> None:
        self._budget, self._spill = budget, spill
        self._kept, self._dependents = BatchSpool(spill, "whole"), Dependents(spill)
        self._tracks, self._series = RowKeys(TRACK_COLUMNS), RowKeys((*TRACK_COLUMNS, "name"))
        self._names = RowKeys(("name", "kind"))
        self._slices = Runs(spill, "slices", _SLICE_FIELDS)
        self._shown = {kind: Runs(spill, f"shown-{kind}", _SHOWN_FIELDS) for kind in (_COUNTER, _POINT)}
        self._ranges = self._rows = 0
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
                yield from self._feed(batch)
        removed: Counter[str] = Counter()
        stays, runs = self._decide(removed)
        first = 0
        for number in range(len(self._kept)):
            batch = Batch("events", self._kept.get(number))
            kept_rows = stays[first : first + len(batch)]
            first += len(batch)
            self._dependents.remember(batch, kept_rows)
            yield from self._give(rows_where(batch, kept_rows))
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
            report.issue("coarsened", "--budget", f"{counted(removed['merged'], 'slice')} became {merged:,}", gone)
            facts = dump_json({FACT: gone})
            usual = {"entity": "source", "id": 0, "facts": facts}
            yield to_batch("catalog", [usual | {"source": one, "name": one} for one in self._ids.sources])

    def _give(self, batch: Batch) -> Iterator[Batch]:
        if len(batch):
            self.given += len(batch)
            yield batch

    def _feed(self, batch: Batch) -> Iterator[Batch]:
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
        dur, has_dur = values(batch.columns, "dur")
        change = self._change(batch, has_dur & (dur >= 0) & (dur < LIMIT) & (abs(ts) < LIMIT))
        for kind, series in (_COUNTER, self._series), (_POINT, self._tracks):
            rows = np.flatnonzero(change == kind)
            value = values(batch.columns, "value")[0][rows] if kind == _COUNTER else 0
            place = rows + self._rows
            self._shown[kind].append(series=series.number(batch, rows), ts=ts[rows], value=value, place=place)
        self._remember_slices(batch, change, ts, ts + np.where(has_dur, dur, 0))
        self._kept.append(batch.columns)
        self._rows += len(batch)

    def _remember_slices(self, batch: Batch, change: UInt8, ts: Int64, end: Int64) -> None:
        """Keeps what may merge, and the slices that keep others apart."""
        self._ranges += int(np.count_nonzero(change == _RANGE))
        rows = np.flatnonzero((change == _SLICE) | (change == _RANGE) | ((change == _STAYS) & (end > ts)))
        words = pc.coalesce(decoded(batch.column("short_name")), decoded(batch.column("name")))
        named = Batch("events", pa.record_batch({"name": words, "kind": batch.column("kind")}))
        self._slices.append(
            track=self._tracks.number(batch, rows),
            ts=ts[rows],
            end=end[rows],
            name=self._names.number(named, rows),
            place=rows + self._rows,
            change=change[rows],
        )

    def _figures(self, batch: Batch) -> Bools:
        """Which rows are figures of a slice. Those of points, as of allocations, are counters like others."""
        is_figure = are_figures(batch)
        points = words_in(batch.column("kind"), ("alloc",)) & ~truth(batch.column("dur").is_valid())
        for source, rows in each_source(rows_where(batch, points)):
            self._points[source].append(rows.column("id").to_numpy())
        if not is_figure.any() or not self._points:
            return is_figure
        parent, _ = values(batch.columns, "parent")
        for source, ids in self._points.items():
            del ids[:-_RECENT]
            is_figure &= ~(words_in(batch.column("source"), (source,)) & np.isin(parent, np.concatenate(ids)))
        return is_figure

    def _change(self, batch: Batch, ends: Bools) -> UInt8:
        """How each row may change; `ends` are the rows with a duration."""
        changes = np.full(len(batch), _STAYS, np.uint8)
        slices, kind = slice_rows(batch), batch.column("kind")
        changes[slices & ends] = _SLICE
        changes[slices & ends & words_in(kind, ("range",))] = _RANGE
        changes[self._is_mark(batch.column("name"))] = _STAYS
        changes[words_in(kind, ("counter",))] = _COUNTER
        changes[words_in(kind, ("instant", "log", "sample"))] = _POINT
        changes[words_in(kind, ("alloc",)) & ~ends] = _POINT
        return changes

    def _decide(self, removed: Counter[str]) -> tuple[Bools, Iterator[Batch]]:
        """Which of the kept rows stay, and what the others became."""
        stays = np.ones(self._rows, np.bool_)
        for kind, shown in self._shown.items():
            if len(shown) > self._budget:
                for gone in _thinned(shown, kind == _COUNTER, self._budget):
                    stays[gone] = False
                    removed["thinned"] += len(gone)
        if len(self._slices) <= self._budget:
            return stays, iter(())
        merging = [_SLICE, _RANGE] if 2 * self._ranges > self._budget else [_SLICE]
        tracks = _Tracks(self._slices, len(self._tracks), self._spill, merging)
        length = _length(tracks, self._budget)
        for rows in tracks:
            gone = rows.place[_in_runs(rows, length)[0]]
            stays[gone] = False
            removed["merged"] += len(gone)
        return stays, self._merged(tracks, length)

    def _merged(self, tracks: _Tracks, length: int) -> Iterator[Batch]:
        """The rows that runs of short slices are merged into, track after track."""
        rows_made: list[dict[str, Any]] = []
        places, words = self._tracks.all(), list(self._names)
        for rows in tracks:
            inside, run = _in_runs(rows, length)
            for figures in _merged_rows(rows, inside, run, words) if len(inside) else ():
                rows_made.append(places[rows.track] | figures)
                if len(rows_made) == _ROWS:
                    yield self._with_ids(rows_made)
                    rows_made.clear()
        if rows_made:
            yield self._with_ids(rows_made)

    def _with_ids(self, rows: list[dict[str, Any]]) -> Batch:
        batch = to_batch("events", rows)
        return Batch("events", batch.columns.append_column("id", self._ids.take(batch.column("source"))))


class _Rows(NamedTuple):
    """Slices of a track in the order of time, the longest of those that begin together first.

    `place` is the number of the row among all, `free` are those that may merge.
    """

    track: int
    ts: Int64
    end: Int64
    name: Int32
    place: Int64
    free: Bools


class _Tracks:
    """The slices of each track in turn, as often as wanted: in columns on disk where they are many."""

    def __init__(self, slices: Runs, tracks: int, spill: Spill, merging: list[int]) -> None:
        self._merging = merging
        counts = np.sum([np.bincount(rows["track"], minlength=tracks) for _, rows in slices.blocks(RANGE_ROWS)], axis=0)
        ends = np.cumsum(counts)
        self._bounds = [
            (track, int(end - count), int(end))
            for track, (count, end) in enumerate(zip(counts, ends, strict=True))
            if count
        ]
        kinds = {name: kind for name, kind in _SLICE_FIELDS if name != "track"}
        self._columns = {name: spill.array(f"ordered-{name}", kind, len(slices)) for name, kind in kinds.items()}
        free = ends - counts  # where the next slice of each track goes
        for part in slices.parts(RANGE_ROWS):
            rows = part[np.lexsort((-part["end"], part["ts"], part["track"]))]
            for one in each_group((rows["track"],)):
                track, count = rows["track"][one.start], one.stop - one.start
                for name, column in self._columns.items():
                    column[free[track] : free[track] + count] = rows[name][one]
                free[track] += count

    def __iter__(self) -> Iterator[_Rows]:
        for track, start, stop in self._bounds:
            columns = {name: column[start:stop] for name, column in self._columns.items()}
            yield _Rows(track=track, free=np.isin(columns.pop("change"), self._merging), **columns)


def _length(tracks: _Tracks, budget: int) -> int:
    """The least length below which slices must merge, so that at most `budget` remain; the greatest if none is."""
    low, high = 0, len(_LENGTHS) - 1
    while low < high:
        middle = (low + high) // 2
        remain = sum(_remain(rows, int(_LENGTHS[middle])) for rows in tracks)
        low, high = (low, middle) if remain <= budget else (middle + 1, high)
    return int(_LENGTHS[low])


def _remain(rows: _Rows, length: int) -> int:
    """How many slices of a track remain if those below this length merge."""
    short, run = _runs(rows, length)
    return len(rows.ts) - len(short) + int(run.max(initial=-1)) + 1


def _in_runs(rows: _Rows, length: int) -> tuple[Int64, Int32]:
    """The slices of a track that become one with others, and the number of the run of each."""
    short, run = _runs(rows, length)
    shared = (np.bincount(run, minlength=1) > 1)[run]
    return short[shared], run[shared]


def _runs(rows: _Rows, length: int) -> tuple[Int64, Int32]:
    """The slices below this length, and the number of the run of each."""
    is_short = rows.free & (rows.end - rows.ts < length)
    short = np.flatnonzero(is_short)
    ts, end = rows.ts[short], rows.end[short]
    starts = np.zeros(len(short), np.bool_)
    starts[1:] = ts[1:] - np.maximum.accumulate(end)[:-1] > length
    begun = np.cumsum(~is_short, dtype=np.int32)[short]
    ended = np.searchsorted(np.sort(rows.end[~is_short]), ts, "right").astype(np.int32)
    starts |= group_start_mask((begun, ended))
    return short, np.cumsum(starts, dtype=np.int32) - np.int32(1)


def _merged_rows(rows: _Rows, inside: Int64, run: Int32, words: list[tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
    """The merged rows of a track, one for a run of short slices: the columns that differ among them."""
    sums, times = zip(*_sums(rows, inside, run, len(words)), strict=True)
    number, ts, end, count, busy = map(np.concatenate, zip(*sums, strict=True))
    first = np.flatnonzero(group_start_mask((number,)))
    ends = np.maximum.reduceat(end, first)
    columns = ts[first], ends - ts[first], np.add.reduceat(count, first), np.add.reduceat(busy, first)
    key, time = map(np.concatenate, zip(*times, strict=True))
    heaviest = _heaviest(key, time, len(words))
    for begin, dur, slices, busy_ns, first_names in zip(
        *(column.tolist() for column in columns), heaviest, strict=True
    ):
        name, kind = words[first_names[0][0]]
        yield {
            **{"ts": begin, "dur": dur, "args.merged": slices, "args.busy_ns": busy_ns, "args.derived_by": "ktrace"},
            **{"name": f"{name} +{slices - 1:,}", "kind": kind, "timing": "derived"},
            "args.heaviest": ", ".join(f"{words[one][0]} {time:,} ns" for one, time in first_names),
        }


#: Of runs: number, begin, end, count of slices, and time in which at least one is open.
_Sums = tuple[Int64, Int64, Int64, Int64, Int64]


def _sums(rows: _Rows, inside: Int64, run: Int32, names: int) -> Iterator[tuple[_Sums, tuple[Int64, Int64]]]:
    """Yields the sums of runs, and of the names in them, some slices at a time: a run may come several times."""
    last, reached = -1, -LIMIT  # of the run that may go on
    for at in range(0, len(run), _MERGED):
        block, number = inside[at : at + _MERGED], run[at : at + _MERGED].astype(np.int64)
        ts, end, name = rows.ts[block], rows.end[block], rows.name[block]
        first = np.flatnonzero(group_start_mask((number,)))
        before = np.roll(greatest_so_far(end, (number,)), 1)
        before[first] = -LIMIT
        if number[0] == last:
            goes_on = slice(0, first[1] if len(first) > 1 else None)
            before[goes_on] = np.maximum(before[goes_on], reached)
        busy = np.maximum(end - np.maximum(ts, before), 0)
        ends = np.maximum.reduceat(end, first)
        reached = max(int(ends[-1]), reached if number[-1] == last else -LIMIT)
        last = int(number[-1])
        count = np.diff([*first.tolist(), len(number)])
        key, time = _summed(number * names + name, end - ts)
        yield (number[first], ts[first], ends, count, np.add.reduceat(busy, first)), (key, time)


def _summed(key: Int64, time: Int64) -> tuple[Int64, Int64]:
    """The distinct keys, sorted, and the sum of the times of each."""
    order = np.argsort(key, kind="stable")
    first = np.flatnonzero(group_start_mask((key[order],)))
    return key[order][first], np.add.reduceat(time[order], first)


def _heaviest(key: Int64, time: Int64, names: int) -> list[list[tuple[int, int]]]:
    """The names that take most of each run, with their time; slices in each other count each."""
    key, time = _summed(key, time)
    order = np.lexsort((key, -time, key // names))
    key, time = key[order], time[order]
    begin = np.flatnonzero(group_start_mask((key // names,)))
    rank = np.arange(len(key)) - np.repeat(begin, np.diff([*begin.tolist(), len(key)]))
    is_first = rank < _NAMES
    parts = np.searchsorted((key // names)[is_first], (key // names)[begin])
    pairs = list(zip((key[is_first] % names).tolist(), time[is_first].tolist(), strict=True))
    return [pairs[one:other] for one, other in pairwise([*parts.tolist(), len(pairs)])]


def _thinned(shown: Runs, has_figures: bool, budget: int) -> Iterator[Int64]:
    """Yields the places of points that go.

    Of each piece of time those with the least and the greatest figure stay, else the first.
    """
    ts, series = shown.rows["ts"], shown.rows["series"]
    pieces = max(budget // (len(np.unique(series)) * (2 if has_figures else 1)), 1)
    origin = int(ts.min())
    width = (int(ts.max()) - origin) // pieces + 1
    for rows in shown.parts(RANGE_ROWS):
        stays = np.zeros(len(rows), np.bool_)
        piece = (rows["ts"] - origin) // width
        for key in (rows["value"], -rows["value"]) if has_figures else (rows["ts"],):
            order = np.lexsort((rows["ts"], key, piece, rows["series"]))
            stays[order[group_start_mask((rows["series"][order], piece[order]))]] = True
        yield rows["place"][~stays]


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
