"""Pairs begins and ends that a source wrote apart: an end closes the innermost begin of its track."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ktrace.model.arrays import Bools, Int32, Int64
from ktrace.store.events import GONE, UNFINISHED, EventStore
from ktrace.store.joins import starts
from ktrace.store.spill import Runs, Spill
from ktrace.store.tally import Tally


class Matched(NamedTuple):
    """Positions of halves in their order: pairs, and halves without another half."""

    begins: Int64
    ends: Int64
    lone_begins: Int64
    lone_ends: Int64


def pair(store: EventStore, spill: Spill, size: int) -> tuple[Runs, Tally]:
    """Sets the end of each begin in `store.keys`, and marks the ends as gone.

    Returns the pairs as runs (ts of the begin, place of the begin, place of the end),
    and the tally of the ends without a begin. Halves in one nanosecond keep the order of their ids.
    """
    pairs = Runs(spill, "pairs", [("ts", "i8"), ("begin", "i8"), ("end", "i8")])
    keys = store.keys.rows
    lone = Tally()
    waiting = np.empty(0, store.halves.rows.dtype)
    for part in store.halves.parts(size):
        rows = np.concatenate([waiting, part])
        rows = rows[np.lexsort((rows["id"], rows["ts"], rows["track"]))]
        matched = match(rows["track"], rows["end"])
        begins, ends = rows[matched.begins], rows[matched.ends]
        keys["end"][begins["place"]] = ends["ts"]
        keys["flags"][begins["place"]] &= ~np.uint16(UNFINISHED)
        keys["flags"][rows["place"][rows["end"]]] |= GONE
        pairs.append(ts=begins["ts"], begin=begins["place"], end=ends["place"])
        lone.add(rows["id"][matched.lone_ends].tolist())
        waiting = rows[matched.lone_begins]
    return pairs, lone


def match(track: Int32, is_end: Bools) -> Matched:
    """Pairs begins and ends like brackets on each track. Rows must be grouped by track and in order of time."""
    position = np.arange(len(track))
    lone_end = _lone_ends(track, is_end)
    kept = position[~lone_end]
    track, is_end = track[kept], is_end[kept]
    level = _level(track, is_end) + is_end  # the same for a begin and its end
    order = np.lexsort((np.arange(len(kept)), level, track))
    first, second = order[:-1], order[1:]
    closes = (track[first] == track[second]) & (level[first] == level[second]) & is_end[second] & ~is_end[first]
    begins, ends = first[closes], second[closes]
    alone = ~is_end
    alone[begins] = False
    return Matched(kept[begins], kept[ends], kept[alone], position[lone_end])


def _level(track: Int32, is_end: Bools) -> Int64:
    """How many begins are open after each row; below 0 after an end without a begin."""
    total = np.cumsum(np.where(is_end, -1, 1))
    start = np.flatnonzero(starts((track,)))
    before = np.concatenate([[0], total[:-1]])[start]
    level: Int64 = total - np.repeat(before, np.diff(np.append(start, len(track))))
    return level


def _lone_ends(track: Int32, is_end: Bools) -> Bools:
    """Ends at which nothing is open: the level of the track is lower there than anywhere before."""
    if not len(track):
        return np.zeros(0, np.bool_)
    level = np.minimum(_level(track, is_end), 0)
    start = np.flatnonzero(starts((track,)))
    number = np.repeat(np.arange(len(start)), np.diff(np.append(start, len(track))))
    lowest = np.minimum.accumulate(level - number * (len(track) + 1))  # a band for each track, below the last one's
    lower = np.empty(len(track), np.bool_)
    lower[1:] = lowest[1:] < lowest[:-1]
    lower[start] = level[start] < 0
    return lower
