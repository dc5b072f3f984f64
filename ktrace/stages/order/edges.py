"""Begins and ends of slices in the order in which a timeline shows them."""

from __future__ import annotations

import numpy as np

from ktrace.model.arrays import Int32, Int64, Structured

#: An end: its time, the serial of the row that it closes, its track and lane.
_END = np.dtype([("ts", "i8"), ("closes", "i8"), ("track", "i4"), ("lane", "i4")])


class OpenEnds:
    """Ends of slices that are open at the end of a range."""

    def __init__(self) -> None:
        self._waiting = np.empty(0, _END)

    def edges(
        self, rows: Structured, track: Int32, serial: int, until: int | None
    ) -> tuple[Int64, Int32, Int32, Int32]:
        """The edges of a range: the begins and points of its rows, and the ends below `until` (all if it is None).

        Returns ts, row (-1 for an end), track and lane. `serial` is the number of the first row.
        """
        ends = np.concatenate([self._waiting, _ends(rows, track, serial)])
        if until is not None:
            later = ends["ts"] >= until
            self._waiting, ends = ends[later], ends[~later]
        begin = np.ascontiguousarray(rows["ts"])
        order = edge_order(begin, np.ascontiguousarray(ends["ts"]), ends["closes"] - serial)
        row = np.concatenate([np.arange(len(rows), dtype=np.int32), np.full(len(ends), -1, np.int32)])
        return (
            np.concatenate([begin, ends["ts"]])[order],
            row[order],
            np.concatenate([track, ends["track"]])[order],
            np.concatenate([rows["lane"], ends["lane"]])[order],
        )


def _ends(rows: Structured, track: Int32, serial: int) -> Structured:
    which = np.flatnonzero(rows["slice"])
    ends: Structured = np.empty(len(which), _END)
    ends["ts"], ends["closes"] = rows["end"][which], serial + which
    ends["track"], ends["lane"] = track[which], rows["lane"][which]
    return ends


def edge_order(begin: Int64, end: Int64, closing: Int64) -> Int64:
    """The order of begins and ends: indices into the begins followed by the ends.

    `begin` are the times of the rows in their order, `end` the times of ends, `closing` the position of the row
    that each end closes (below 0: a row of an earlier range). In one nanosecond the ends come first, innermost first;
    a slice without duration ends directly after its begin.
    """
    count = len(begin)
    place = 2 * np.searchsorted(begin, end, "left") - 1
    here = closing >= 0
    at_once = here.copy()
    at_once[here] = begin[closing[here]] == end[here]
    place[at_once] = 2 * closing[at_once] + 1
    inner_first = np.lexsort((-closing, end))
    order = np.argsort(np.concatenate([2 * np.arange(count), place[inner_first]]), kind="stable")
    ends = order >= count
    order[ends] = count + inner_first[order[ends] - count]
    return order
