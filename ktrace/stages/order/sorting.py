"""Sorts the events of a range of time by (ts, -dur, track, id); where very many begin together, part by part.

a range of the usual size                              ──►  one part
8 M events at one time ──► cut by samples of them      ──►  parts of about 8 times the usual size
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from ktrace.model.arrays import Bools, Int64, Structured
from ktrace.store.events import GONE, EventStore
from ktrace.store.spill import SAMPLES_PER_PART, Runs, Spill

#: Ranges of more than so many times the usual rows are sorted in parts, each of about so many.
LARGE = 8

#: The places and keys of events, in order.
Part = tuple[Int64, Structured]


def in_order(store: EventStore, low: int | None, high: int | None, spill: Spill, size: int) -> Iterable[Part]:
    """The events of a range that aren't gone, in order, in parts; may be iterated more than once."""
    spans = list(store.keys.spans(low, high, size))
    if sum(stop - start for start, stop in spans) > LARGE * size:
        return _InParts(store, spans, spill, size)
    place = store.keys.between(low, high)
    keys = store.keys.rows[place]
    kept = keys["flags"] & GONE == 0
    return [_sorted(place, keys) if kept.all() else _sorted(place[kept], keys[kept])]


class _InParts:
    """The events of a large range, whose rows stand at `spans`."""

    def __init__(self, store: EventStore, spans: list[tuple[int, int]], spill: Spill, size: int) -> None:
        self._keys = keys = store.keys.rows
        every = max(1, LARGE * size // SAMPLES_PER_PART)
        samples = np.concatenate([keys[start:stop:every] for start, stop in spans])
        cuts = samples[_order(samples)][SAMPLES_PER_PART::SAMPLES_PER_PART]
        self._count = len(cuts) + 1
        self._parts = Runs(spill, f"range_at_{spans[0][0]}", [("part", "i8"), ("place", "i8")])
        for start, stop in spans:
            place = start + np.flatnonzero(keys["flags"][start:stop] & GONE == 0)
            self._parts.append(part=_part(cuts, keys[place]), place=place)

    def __iter__(self) -> Iterator[Part]:
        for part in range(self._count):
            place = np.ascontiguousarray(self._parts.rows["place"][self._parts.between(part, part + 1)])
            place = place[np.argsort(self._keys["ts"][place], kind="stable")]
            yield _sorted(place, self._keys[place])


def _part(cuts: Structured, keys: Structured) -> Int64:
    """How many of the sorted `cuts` are at or before each event."""
    order = _order(np.concatenate([cuts, keys]))
    is_cut = order < len(cuts)
    found = np.empty(len(order), np.int64)
    found[order] = np.cumsum(is_cut)
    return found[len(cuts) :]


def _order(keys: Structured) -> Int64:
    """The order of events; equal ones stay in theirs."""
    order: Int64 = np.lexsort((keys["id"], keys["track"], -keys["end"], keys["ts"]))
    return order


def _sorted(place: Int64, keys: Structured) -> Part:
    """The places and keys in order; they are in the order of ts already, or all begin together."""
    ts = np.ascontiguousarray(keys["ts"])
    same = ts[1:] == ts[:-1]  # only events that begin together must be sorted
    if not same.any() or _are_in_order(keys, same):
        return place, keys
    tied = np.flatnonzero(np.concatenate([same, [False]]) | np.concatenate([[False], same]))
    del ts, same
    order = tied[_order(keys[tied])]
    place[tied] = place[order]
    for name in ("ts", "end", "id", "track", "flags"):  # one by one: a copy of all takes four times the memory
        keys[name][tied] = keys[name][order]
    return place, keys


def _are_in_order(keys: Structured, same: Bools) -> bool:
    """Whether keys in the order of ts are in that of (-end, track, id), too, where `same`: the next ts is the same."""
    for start in range(0, len(same), 1 << 16):
        ones, others = keys[start : start + (1 << 16)], keys[start + 1 : start + 1 + (1 << 16)]
        after = same[start : start + (1 << 16)]
        ones = ones[: len(after)]
        for name, sign in (("end", -1), ("track", 1), ("id", 1)):
            one, other = sign * ones[name].astype(np.int64), sign * others[name].astype(np.int64)
            if np.any(after & (one > other)):
                return False
            after = after & (one == other)
    return True
