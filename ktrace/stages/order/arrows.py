"""The ends of arrows that are attached to events, however this was done."""

from __future__ import annotations

import numpy as np

from ktrace.model.arrays import Bools, Int32, Int64, Structured
from ktrace.store.joins import find, starts
from ktrace.store.spill import Runs, Spill

#: What an arrow means; "launch" leads from a call to the device work that it launched.
ARROW_KINDS = ("launch", "flow", "fwdbwd", "wait", "event", "async")


def new_ends(spill: Spill) -> Runs:
    """An empty store for ends: ts and place of the event, number of the arrow, place of the other end (-1: none, or
    not known yet), kind, whether the arrow leaves there, whether it is a link, whether it is the last of its arrow
    (`find_last`)."""
    numbers = [("ts", "i8"), ("place", "i8"), ("arrow", "i8"), ("peer", "i8")]
    return Runs(spill, "ends", [*numbers, ("kind", "u1"), ("out", "?"), ("link", "?"), ("last", "?")])


def find_peers(ends: Runs, spill: Spill, size: int) -> None:
    """Sets `peer` and `last` of the ends of links.

    The peer of an arrival is the departure, that of a departure the first arrival. `last` of an arrival is whether the
    arrow doesn't arrive at the next time at which it has an end.
    """
    rows = ends.rows
    known = Runs(spill, "peers", [("arrow", "i8"), ("ts", "i8"), ("place", "i8"), ("index", "i8"), ("out", "?")])
    for start, part in ends.blocks(size):
        index = np.flatnonzero(part["link"])
        columns = {name: part[name][index] for name in ("arrow", "ts", "place", "out")}
        known.append(index=start + index, **columns)
    for part in known.parts(size):
        ordered = part[np.lexsort((part["ts"], part["arrow"]))]
        for out in (True, False):
            theirs, ours = ordered[ordered["out"] == out], ordered[ordered["out"] != out]
            first = theirs[starts((theirs["arrow"],))] if len(theirs) else theirs
            found = find((ours["arrow"],), (first["arrow"],))
            rows["peer"][ours["index"][found >= 0]] = first["place"][found[found >= 0]]
        rows["last"][ordered["index"]] = _no_later_arrival(ordered) & ~ordered["out"]


def _no_later_arrival(ends: Structured) -> Bools:
    """Whether the arrow doesn't arrive at its next ts, for each of its ends; these are sorted by arrow and ts."""
    start = np.flatnonzero(starts((ends["arrow"], ends["ts"])))
    arrives = np.logical_or.reduceat(~ends["out"], start)
    same = ends["arrow"][start[1:]] == ends["arrow"][start[:-1]]
    none = np.append(~(same & arrives[1:]), True)
    return np.repeat(none, np.diff(np.append(start, len(ends))))


def find_last(ends: Structured) -> Bools:
    """Which ends on the rows of a range, as `on_rows` returns them, are arrivals without a later arrival before the
    arrow leaves again. For ends at the same time the order of the rows decides."""
    last: Bools = ends["last"].copy()
    links = np.flatnonzero(ends["link"])
    links = links[np.argsort(ends["arrow"][links], kind="stable")]
    here, then = links[:-1], links[1:]
    tied = (ends["arrow"][here] == ends["arrow"][then]) & (ends["ts"][here] == ends["ts"][then])
    here, then = here[tied], then[tied]
    last[here] = ends["out"][then] & ~ends["out"][here]
    return last


def on_rows(ends: Runs, low: int | None, high: int | None, places: Int64) -> tuple[Int32, Structured]:
    """The rows and the ends on the events at `places`, whose ts are from `low` to below `high`."""
    found = ends.rows[ends.between(low, high)]
    if not len(found):
        return np.empty(0, np.int32), found
    first = int(places.min())
    rows = np.empty(int(places.max()) - first + 1, np.int32)  # only the entries that are used are ever written
    rows[places - first] = np.arange(len(places), dtype=np.int32)
    row = rows[found["place"] - first]
    by_row = np.argsort(row, kind="stable")
    row, found = row[by_row], found[by_row]
    if np.any(row[1:] == row[:-1]):
        by_row = np.lexsort((found["out"], found["arrow"], row))
        row, found = row[by_row], found[by_row]
    return row, found
