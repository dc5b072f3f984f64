"""Lanes for the streams on which graphs run their kernels: a device may have hundreds, few of them busy at once.

    stream 100  [k0]                          graph 3 lane 1  [k0][k1] [k2]
    stream 101      [k1]              ──►     graph 3 lane 2     [k3]
    stream 102           [k2]
    stream 103     [k3]

Only where pieces are drawn changes: their columns keep the stream of the source. A lane takes the next piece, in the
order of (ts, -dur, id), once it is free, so that pieces on a lane never overlap and no fewer lanes would do.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

import numpy as np

from ktrace.model.arrays import Bools, Int32
from ktrace.model.tracks import Track
from ktrace.stages.order.sweep import Ordered
from ktrace.store import Spill
from ktrace.store.events import GONE, GRAPH, EventStore

#: A device with no more streams of graphs than that keeps them all.
MOST_STREAMS = 16


class _Group:
    """The streams of one device that are folded, by the numbers of their tracks, and when their lanes are free."""

    def __init__(self, track: Track) -> None:
        self.track = track
        self.streams: list[int] = []
        self.lanes = 0
        self._busy: list[tuple[int, int]] = []  # end, lane
        self._free: list[int] = []

    def lane(self, begin: int, end: int) -> int:
        """The first free lane for the next piece, from 0; a new one where none is free."""
        while self._busy and self._busy[0][0] <= begin:
            heappush(self._free, heappop(self._busy)[1])
        if not self._free:
            heappush(self._free, self.lanes)
            self.lanes += 1
        lane = heappop(self._free)
        heappush(self._busy, (end, lane))
        return lane


def fold(store: EventStore, ordered: Ordered, tracks: Sequence[Track], spill: Spill, size: int) -> list[Track]:
    """Puts the work of graphs on lanes, and returns these as tracks, which follow `tracks`: none if nothing is folded.

    The streams of a device are folded if more than `MOST_STREAMS` have nodes of graphs and nothing else, and half as
    many lanes hold these.
    """
    groups = _groups(tracks, _only_graphs(store, len(tracks), size)) if store.graphs else []
    group_of = np.full(len(tracks), -1, np.int32)
    for number, group in enumerate(groups):
        group_of[group.streams] = number
    lane = spill.array("graph_lanes", "i4", len(ordered.rows) if groups else 0)
    for first, last in zip(ordered.firsts, ordered.firsts[1:], strict=False) if groups else ():
        _place(store, ordered, group_of, groups, lane, first, last)
    made: list[Track] = []
    base = np.full(len(groups) + 1, -1, np.int32)  # the last one is for streams that aren't folded
    for number, group in enumerate(groups):
        if 2 * group.lanes <= len(group.streams):
            base[number] = len(tracks) + len(made)
            name = _name(set().union(*(store.graphs[stream] for stream in group.streams)))
            made += [group.track._replace(track=f"{name} lane {one + 1}") for one in range(group.lanes)]
    for start, rows in ordered.rows.blocks(size) if made else ():
        groups_here: Int32 = group_of[rows["track"]]
        to = base[groups_here]
        folded = np.flatnonzero(to >= 0)
        rows["track"][folded] = to[folded] + lane[start + folded]
        rows["lane"][folded] = 0
    return made


def _only_graphs(store: EventStore, tracks: int, size: int) -> Bools:
    """Which tracks have nodes of graphs, and nothing else."""
    of_graphs, others = np.zeros(tracks, np.int64), np.zeros(tracks, np.int64)
    for _, rows in store.keys.blocks(size):
        kept = rows["flags"] & GONE == 0
        is_graph = rows["flags"] & GRAPH != 0
        of_graphs += np.bincount(rows["track"][kept & is_graph], minlength=tracks)
        others += np.bincount(rows["track"][kept & ~is_graph], minlength=tracks)
    result: Bools = (of_graphs > 0) & (others == 0)
    return result


def _groups(tracks: Sequence[Track], only_graphs: Bools) -> list[_Group]:
    """The streams of each device that may be folded, where they are many.

    A stream whose ranges lack the context of its kernels, as Kineto's do, has two tracks; both have to qualify.
    """
    groups: dict[Track, _Group] = {}
    mixed = {one._replace(context=None) for one, only in zip(tracks, only_graphs, strict=True) if not only}
    for number, track in enumerate(tracks):
        if None in (track.device, track.stream) or track.track is not None or track._replace(context=None) in mixed:
            continue
        device = track._replace(context=None, stream=None)
        groups.setdefault(device, _Group(device)).streams.append(number)
    return [group for group in groups.values() if len(group.streams) > MOST_STREAMS]


def _place(
    store: EventStore, ordered: Ordered, group_of: Int32, groups: Sequence[_Group], lane: Int32, first: int, last: int
) -> None:
    """Fills `lane` for the rows of a range of time."""
    rows = ordered.rows.rows[first:last]
    group = group_of[rows["track"]]
    at = np.flatnonzero(group >= 0)
    rows = rows[at]
    at = at[order := np.lexsort((store.keys.rows["id"][rows["place"]], -rows["end"], rows["ts"]))]
    pieces = zip(group[at].tolist(), rows["ts"][order].tolist(), rows["end"][order].tolist(), strict=True)
    lane[first + at] = [groups[number].lane(begin, end) for number, begin, end in pieces]


def _name(graphs: set[int]) -> str:
    """What a lane is called, by the numbers of the graphs on it and its neighbours; 0 is one that isn't known."""
    return f"graph {graphs.pop()}" if len(graphs) == 1 and 0 not in graphs else "graphs"
