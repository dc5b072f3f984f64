"""Moves by the collectives that ranks take part in together. A collective isn't over before all ranks have joined, so
an all-reduce ends on all ranks at nearly the same time, however late one of them began.

    rank 0   ncclDevKernel_AllReduce  group 0, 17th   [==============]      ends 1,000,204,310 ns by its clock
    rank 1   the same                            [===================]      ends 1,001,704,911 ns by its clock
                                                                            its clock is 1,500,601 ns ahead

Offset and drift are fitted to many such differences: first by the median and by the slopes between halves, then by
least squares without outliers until these stay the same. Ranks that share no group with the first source are placed by
ranks that do. Which collectives of two ranks are the same one:

rank 0   group 0, 17th     all_reduce      rank 1   group 0, 17th     by group and sequence number
rank 0   group 0, 4 MiB    3rd all_reduce  rank 1   the 3rd           by position among equals
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from ktrace.errors import InputError
from ktrace.model.arrays import Bools, Float64
from ktrace.model.batch import Batch
from ktrace.model.json_text import decoded
from ktrace.model.masks import NameTest, truth, words_in
from ktrace.naming.taxonomy import is_collective, is_send, operation_in
from ktrace.stages.align.moves import Move
from ktrace.store.events import values

Key = tuple[object, ...]


class CollectiveRow(NamedTuple):
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

    def __init__(self, rows: Sequence[CollectiveRow]) -> None:
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

    def match(self, other: Keyed) -> tuple[list[CollectiveRow], list[CollectiveRow]]:
        """The common collectives on both ranks, in the order in which they end on this one."""
        way = max(self.way, other.way)
        ours, theirs = self.places(way), other.places(way)
        common = sorted(ours.keys() & theirs.keys(), key=lambda key: self._rows[ours[key]].end)
        return [self._rows[ours[key]] for key in common], [other._rows[theirs[key]] for key in common]


#: Collectives that two sources must have in common.
LEAST = 3

#: How many are needed to tell drift from noise.
_LEAST_FOR_DRIFT = 16

#: No clock drifts more than this (1,000 ppm): the events don't belong together.
_MOST_DRIFT = 1e-3

#: Outliers are further from the line than this many standard deviations of the others (estimated by the median).
_FAR = 3.5

_ROUNDS = 20

#: A residual is doubtful above 1 ms, or above a tenth of the typical collective, but never below 20 us.
_TOO_LARGE, _DOUBTFUL_SHARE, _DOUBTFUL = 1_000_000, 0.1, 20_000


class Fit(msgspec.Struct, frozen=True):
    """A move by collectives, and the quality of the fit: residuals of all matched collectives, in ns.

    `typical` is the median of their durations.
    """

    move: Move
    matched: int
    outliers: int
    median: int
    p95: int
    through: str
    typical: int

    @property
    def is_doubtful(self) -> bool:
        """Whether the residual is so large that the matched collectives hardly belong together."""
        return self.median > max(_DOUBTFUL, min(_DOUBTFUL_SHARE * self.typical, _TOO_LARGE))


class Collectives:
    """Collects the collectives of all sources, and computes the moves of their clocks."""

    def __init__(self) -> None:
        self._rows: dict[str, list[CollectiveRow]] = {}
        self._is_collective = NameTest(is_collective)
        self._sends = NameTest(is_send)

    def add(self, batch: Batch) -> None:
        """Collects the collective kernels of a batch of events."""
        # which rows have the name of a collective, or a group
        is_named = self._is_collective(batch.column("name"))
        if batch.has("comm"):
            is_named |= truth(batch.column("comm").is_valid()) & ~self._sends(batch.column("name"))
        is_collective = words_in(batch.column("kind"), ("kernel",)) & is_named & truth(batch.column("dur").is_valid())
        if not is_collective.any():
            return
        rows = Batch("events", batch.columns.filter(pa.array(is_collective)))
        ts, dur = values(rows.columns, "ts")[0], values(rows.columns, "dur")[0]
        columns = [decoded(rows.column(name)).to_pylist() for name in ("source", "comm", "name", "comm_seq", "bytes")]
        for source, comm, name, seq, size, begin, end in zip(*columns, ts.tolist(), (ts + dur).tolist(), strict=True):
            row = CollectiveRow(comm, operation_in(name) or name, seq, size, begin, end)
            self._rows.setdefault(source, []).append(row)

    def fits(self, sources: Sequence[str]) -> dict[str, Fit]:
        """The fit of each source but the first to the clock of the first one; see `fits`."""
        return fits({source: self._rows.get(source, []) for source in sources})


def fits(rows: Mapping[str, Sequence[CollectiveRow]]) -> dict[str, Fit]:
    """The fit of each source but the first to the clock of the first one, by their collectives.

    Raises InputError if a source has fewer than `LEAST` collectives in common with those that are fitted already.
    """
    keyed = {source: Keyed(of_source) for source, of_source in rows.items()}
    sources = list(rows)
    fitted: dict[str, Fit] = {}
    placed, left = sources[:1], sources[1:]
    best = dict.fromkeys(left, 0)
    while left:
        step = []
        for source in left:
            count, through = max((keyed[source].common(keyed[at]), at) for at in placed)
            best[source] = max(best[source], count)
            if count >= LEAST:
                step.append((source, through, keyed[source].match(keyed[through])))
        if not step:
            raise _refusal(rows, left, best)
        for source, through, match in step:
            fit = _fit(*match)
            if through != sources[0]:
                fit = replace(fit, move=fit.move.then(fitted[through].move), through=through)
            fitted[source] = fit
        placed = [source for source, _, _ in step]
        left = [source for source in left if source not in fitted]
    return fitted


def _refusal(rows: Mapping[str, Sequence[CollectiveRow]], left: Sequence[str], best: dict[str, int]) -> InputError:
    has = ", ".join(f"{source} has {len(rows[source]):,}" for source in list(rows)[:8])
    few = ", ".join(f"{source} ({best[source]})" for source in left[:8])
    return InputError(
        f"too few collectives match those of other ranks: {few}",
        expected=f"at least {LEAST} for each source; of all collective kernels {has}",
        remedy="use --align unix or auto, --align 'marker NAME', or --offset",
    )


def _fit(ours: Sequence[CollectiveRow], theirs: Sequence[CollectiveRow]) -> Fit:
    """The move that fits the ends of `ours` to those of `theirs` best."""
    end = np.array([row.end for row in ours], np.int64)
    gap = np.array([row.end for row in theirs], np.int64) - end  # exact; the rest is small enough for floats
    base, since = int(np.median(gap)), int(end[0])
    x, y = (end - since).astype(np.float64), (gap - base).astype(np.float64)
    line = _line(x, y) if len(x) >= _LEAST_FOR_DRIFT else None
    if line is None:
        line = _constant(y)
    start, rate, kept = line
    residual = np.abs(y - start - rate * x)
    median, p95 = (round(float(value)) for value in np.percentile(residual, (50, 95)))
    typical = int(np.median([row.end - row.begin for row in ours]))
    outliers = int(np.count_nonzero(~kept))
    return Fit(Move(base + round(start), rate, since), len(x), outliers, median, p95, "", typical)


def _line(x: Float64, y: Float64) -> tuple[float, float, Bools] | None:
    """Intercept and slope of the line through most of the points, and which these are; None if there is no drift."""
    half = len(x) // 2
    distance = x[-half:] - x[:half]
    if not np.all(distance > 0):
        return None
    rate = float(np.median((y[-half:] - y[:half]) / distance))
    start = float(np.median(y - rate * x))
    kept = np.zeros(len(x), np.bool_)
    for _ in range(_ROUNDS):
        near = _near(y - start - rate * x)
        if np.array_equal(near, kept):
            break
        kept = near
        centre = x[kept].mean()
        wide = float(np.sum((x[kept] - centre) ** 2))
        if not wide:
            return None
        rate = float(np.sum((x[kept] - centre) * y[kept])) / wide
        start = float(y[kept].mean()) - rate * centre
    noise = float(np.sqrt(np.sum((y - start - rate * x)[kept] ** 2) / max(int(kept.sum()) - 2, 1) / wide))
    doubtful = abs(rate) <= 4 * noise or abs(rate) * (x[-1] - x[0]) < 1 or abs(rate) > _MOST_DRIFT
    return None if doubtful else (start, rate, kept)


def _constant(y: Float64) -> tuple[float, float, Bools]:
    """The level of most of the points, and which these are."""
    start = float(np.median(y))
    kept = np.zeros(len(y), np.bool_)
    for _ in range(_ROUNDS):
        near = _near(y - start)
        if np.array_equal(near, kept):
            break
        kept = near
        start = float(y[kept].mean())
    return start, 0.0, kept


def _near(residual: Float64) -> Bools:
    """Which points aren't outliers."""
    middle = float(np.median(residual))
    width = 1.4826 * float(np.median(np.abs(residual - middle)))
    return np.abs(residual - middle) <= max(_FAR * width, 1.0)
