"""Brings the ranks into one clock, and measures how well their clocks agree.

An all-reduce isn't over on any rank before the last one has joined, so it ends on all of them at nearly the same time.
Unix time decides, unless the ends agree much better after an alignment by collectives, as of hosts whose clocks differ.

    unix time      ends differ by 37 us      by collectives    ends differ by 0.2 us      the second is better
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ktrace.analysis.collectives.found import Found
from ktrace.errors import InputError
from ktrace.model.arrays import Bools, Int32, Int64
from ktrace.model.catalog import Catalog
from ktrace.stages.align.collectives import CollectiveRow, Fit, fits
from ktrace.stages.align.moves import Move, by_auto

#: The ends must agree this many times better by collectives than by unix time.
_BETTER = 3

#: Ends that differ by less than this (ns) need no better alignment.
_GOOD = 10_000

#: About how many collectives are enough to align clocks by.
_ENOUGH = 4_000

#: Rules that don't relate clocks.
_GUESSES = ("begin", "as it is")


class Clocks(NamedTuple):
    """How the clocks of the ranks were aligned, or why they weren't.

    `rule` is "one" (a single clock), "unix", "collective", or "unknown"; `ends` is the median of how much the ends of
    the same collective differ, in ns; `moved` is the greatest correction by collectives, and `source` the one
    corrected by it.
    """

    rule: str
    ends: float | None = None
    source: str | None = None
    moved: int = 0


def align(found: Found, catalog: Catalog) -> Clocks:
    """Moves the times of `found` into one clock if one is known, and takes apart what can't be the same collective."""
    sources = list(dict.fromkeys(rank.source for rank in found.ranks))
    waits = found.of_kinds([kind.waits for kind in found.kinds]) & (found.joint >= 0)
    if not np.any(found.joint >= 0):
        return Clocks("one" if len(sources) == 1 else "unknown")
    own = found.ts.copy()
    clocks = Clocks("one", _ends(found, waits)) if len(sources) == 1 else _decided(found, waits, own, sources, catalog)
    apart = _apart(found, waits)
    if clocks.rule == "unknown" or np.count_nonzero(apart) > np.count_nonzero(waits) / 2:
        found.ts = own
        if found.way:
            found.part(np.ones(len(found), np.bool_))
        return Clocks("unknown", clocks.ends)
    found.part(apart)
    return clocks


def _decided(found: Found, waits: Bools, own: Int64, sources: list[str], catalog: Catalog) -> Clocks:
    """Moves the times by unix time or by collectives."""
    which = np.array([sources.index(rank.source) for rank in found.ranks], np.int32)[found.rank]
    begins = {
        source: int(own[which == number].min()) for number, source in enumerate(sources) if np.any(which == number)
    }
    placed = by_auto(sources, catalog, begins)
    related = not any(one.rule in _GUESSES for one in placed.values())
    unix = {source: one.move for source, one in placed.items()}
    _move(found, own, which, sources, unix)
    ends = _ends(found, waits)
    if related and (ends is None or ends <= _GOOD):
        return Clocks("unix", ends)
    fitted = _fits(found, waits, own, which, sources)
    if fitted is None:
        return Clocks("unix" if related else "unknown", ends)
    moves = unix | {source: fit.move for source, fit in fitted.items()}
    _move(found, own, which, sources, moves)
    better = _ends(found, waits)
    far = {source: _correction(unix[source], moves[source], begins[source]) for source in fitted}
    source = max(far, key=lambda one: abs(far[one]))
    if not related:
        doubtful = any(fit.is_doubtful for fit in fitted.values())
        return Clocks("unknown" if doubtful else "collective", better)
    mistaken = found.way > 0 and abs(far[source]) > _spacing(found, waits) / 2  # a position may be counted wrongly
    if ends is not None and better is not None and ends > _BETTER * better and not mistaken:
        return Clocks("collective", better, source, far[source])
    _move(found, own, which, sources, unix)
    return Clocks("unix", ends)


def _spacing(found: Found, waits: Bools) -> float:
    """The typical time from one collective to the next on a rank."""
    rows = np.flatnonzero(waits)
    rows = rows[np.lexsort((found.ts[rows], found.rank[rows]))]
    gaps = np.diff(found.ts[rows])[np.diff(found.rank[rows]) == 0]
    return float(np.median(gaps)) if len(gaps) else 0.0


def _correction(unix: Move, other: Move, at: int) -> int:
    return other.time(at) - unix.time(at)


def _fits(found: Found, waits: Bools, own: Int64, which: Int32, sources: list[str]) -> Mapping[str, Fit] | None:
    """The moves by collectives; of a source with several ranks, by the one that takes part in the most.

    Of many collectives some are enough: what is joint on the ranks is known already.
    """
    every = int(found.joint.max()) // _ENOUGH + 1
    rows: dict[str, list[CollectiveRow]] = {}
    for number, source in enumerate(sources):
        mine = np.flatnonzero(waits & (which == number) & (found.joint % every == 0))
        if not len(mine):
            continue
        mine = mine[found.rank[mine] == np.bincount(found.rank[mine]).argmax()]
        columns = found.joint[mine], own[mine], own[mine] + found.dur[mine]
        rows[source] = [
            CollectiveRow("", "", joint, None, begin, end)
            for joint, begin, end in zip(*(column.tolist() for column in columns), strict=True)
        ]
    if sources[0] not in rows or len(rows) < 2:
        return None
    try:
        return fits(rows)
    except InputError:
        return None


def _move(found: Found, own: Int64, which: Int32, sources: list[str], moves: Mapping[str, Move]) -> None:
    ts = own.copy()
    for number, source in enumerate(sources):
        mine = which == number
        ts[mine] = moves[source].times(own[mine])
    found.ts = ts


def _ends(found: Found, waits: Bools) -> float | None:
    """The median of how much the ends of the same collective differ."""
    joint, end = found.joint[waits], found.end[waits]
    if not len(joint):
        return None
    low, high = extremes(joint, end)
    return float(np.median((high - low)[np.unique(joint)]))


def _apart(found: Found, waits: Bools) -> Bools:
    """Which rows are of a collective that would end on a rank before it begins on another."""
    apart = np.zeros(len(found), np.bool_)
    joint = found.joint[waits]
    if len(joint):
        _, last = extremes(joint, found.ts[waits])
        first_end, _ = extremes(joint, found.end[waits])
        apart[waits] = (last > first_end)[joint]
    return apart


def extremes(joint: Int64, times: Int64) -> tuple[Int64, Int64]:
    """The first and the last time of each number; both are 0 for a number that doesn't occur."""
    count = int(joint.max()) + 1
    low, high = np.full(count, np.iinfo(np.int64).max), np.full(count, np.iinfo(np.int64).min)
    np.minimum.at(low, joint, times)
    np.maximum.at(high, joint, times)
    none = low > high
    low[none] = high[none] = 0
    return low, high
