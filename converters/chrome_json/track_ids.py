"""The processes, threads and flows of a Chrome trace. The format has no other tracks: a row is a thread of a process.

    "rows": [{"pid":4242,"tid":4242,"track":{"source":"run","pid":4242,"tid":4242}},
             {"pid":4242,"tid":1,"track":{"source":"run","pid":4242,"device":0,"stream":7}}],
    "lanes": {"first":1073741824,"each":1024}

Slices that overlap on a track without nesting are on its lanes 1, 2, ...: lane n of the track at index i of the list
has the tid first + i * each + n - 1. A flow leaves once in a Chrome trace, while an arrow of the model may leave often:

    ends of one arrow      out in   out out in in   out in in
    flow                    1   1    2   3   2  3    4   4  4
    phase                   s   f    s   s   f  f    s   t  f

Many programs reuse the id of a flow after it has arrived. The nth arrival belongs to the nth departure, or to the last
one if there are fewer. A flow ends (f) at its last arrival; an earlier arrival is a step (t).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from ktrace.model.arrays import Bools, Int64
from ktrace.model.catalog import Catalog
from ktrace.model.json_text import dump_json
from ktrace.model.tracks import Node, Process, Track, arrange, give_ids
from ktrace.stages.order import Arrows
from ktrace.stages.order.links import ARROW_KINDS

#: Viewers store process and thread ids in 32 bits. The upper half of the thread ids is for lanes.
HIGHEST_ID = 2**31 - 1
FIRST_LANE = 2**30

#: Sort indexes between two tracks, for the lanes of the first.
_LANES = 1024


class _Place(NamedTuple):
    """A track: its process, its name after those of the nodes around it, its position among all tracks."""

    process: Node
    node: Node
    name: str
    sort_index: int


class TrackIds:
    """Gives tracks and their lanes a pid and a tid. The metadata events of new ones gather in `fresh`."""

    def __init__(self, tracks: Sequence[Track], catalog: Catalog) -> None:
        self.fresh: list[str] = []
        processes = arrange(tracks, catalog)
        wanted = [node.key.pid if isinstance(node.key, Process) else None for node in processes]
        self._pids = {id(node): pid for node, pid in zip(processes, give_ids(wanted, HIGHEST_ID), strict=True)}
        self._order = {id(node): index for index, node in enumerate(processes)}
        self._places = dict(_places(processes))
        self._tids = {id(node): _thread_ids(node) for node in processes}
        self._free = {id(node): self._free_tids(node) for node in processes}
        # Viewers order the threads of a process by their ids.
        for number, place in self._places.items():
            tids = self._tids[id(place.process)]
            if number not in tids:
                tids[number] = next(self._free[id(place.process)])
        self._tracks = tracks
        self._lanes_per_track = min(_LANES, FIRST_LANE // max(len(tracks), 1))
        self._rows: dict[tuple[int, int], str] = {}
        self._named: set[int] = set()

    def row(self, number: int, lane: int) -> str:
        """Returns the fields `"pid":1,"tid":2` of a lane of the track with that index in the timeline."""
        row = self._rows.get((number, lane))
        if row is None:
            place = self._places[number]
            lane = min(lane, self._lanes_per_track)
            tid = FIRST_LANE + number * self._lanes_per_track + lane - 1 if lane else self._tid(number)
            row = self._rows[number, lane] = f'{self.process(number)},"tid":{tid}'
            self._meta(row, "thread_name", name=place.name)
            self._meta(row, "thread_sort_index", sort_index=place.sort_index + min(lane, _LANES - 1))
        return row

    def facts(self) -> dict[str, Any]:
        """Returns the data that restores the tracks: `rows`, in the order of the timeline's tracks, and `lanes`."""
        rows = [
            {
                "pid": self._pids[id(self._places[number].process)],
                "tid": self._tid(number),
                "track": {column: value for column, value in track._asdict().items() if value is not None},
            }
            for number, track in enumerate(self._tracks)
        ]
        return {"rows": rows, "lanes": {"first": FIRST_LANE, "each": self._lanes_per_track}}

    def _tid(self, number: int) -> int:
        return self._tids[id(self._places[number].process)][number]

    def process(self, number: int) -> str:
        """Returns the field `"pid":1` of the track with that index in the timeline."""
        process = self._places[number].process
        field = f'"pid":{self._pids[id(process)]}'
        if id(process) not in self._named:
            self._named.add(id(process))
            self._meta(field, "process_name", name=process.shown.name)
            self._meta(field, "process_sort_index", sort_index=self._order[id(process)])
            if process.shown.labels:
                self._meta(field, "process_labels", labels=", ".join(process.shown.labels))
        return field

    def counter_prefix(self, number: int) -> str | None:
        """The text before the names of counters on a track: its name if it is a text track."""
        name = self._places[number].name
        return None if name == "events" or self._places[number].node.kind in ("process", "thread") else name

    def _free_tids(self, process: Node) -> Iterator[int]:
        """Ids for tracks that aren't threads: not a thread's id, nor the process id, which is the main thread's."""
        taken = {*_thread_ids(process).values(), self._pids[id(process)]}
        return (tid for tid in count(1) if tid not in taken)

    def _meta(self, place: str, event: str, **args: Any) -> None:
        self.fresh.append(f'{{"ph":"M","name":"{event}",{place},"args":{dump_json(args)}}}')


def _places(processes: Sequence[Node]) -> Iterator[tuple[int, _Place]]:
    """Yields the index of each track in the timeline, and the track."""
    for process in processes:
        for index, (node, name) in enumerate(_named(process.children, "")):
            if node.number is not None:
                yield node.number, _Place(process, node, name, index * _LANES)


def _named(nodes: Sequence[Node], around: str) -> Iterator[tuple[Node, str]]:
    for node in nodes:
        name = f"{around} › {node.shown.name}" if around else node.shown.name
        yield node, name
        yield from _named(node.children, name)


def _thread_ids(process: Node) -> dict[int, int]:
    """Returns index in the timeline -> tid, for the tracks that are threads with a legal id."""
    threads = (node for node in process.children if node.kind == "thread" and node.number is not None)
    return {
        node.number: node.key.tid
        for node in threads
        if isinstance(node.key, Track) and node.number is not None and 1 <= (node.key.tid or 0) < FIRST_LANE
        if node.key.tid is not None
    }


LAUNCH = ARROW_KINDS.index("launch")

#: Numbers of arrows are lower than this.
_NEXT = 1 << 32


class FlowIds:
    """Assigns flows, batch after batch. Takes eight bytes per arrow."""

    def __init__(self) -> None:
        self._counts = np.zeros((2, 0), np.int32)  # departures and arrivals of each arrow so far

    def flows(self, arrows: Arrows) -> tuple[Int64, Bools]:
        """Returns the flow of each end, and whether it is the last arrival of that flow."""
        flow, ended = arrows.arrow.astype(np.int64), arrows.kind == LAUNCH
        rest = np.flatnonzero(~ended)
        if not len(rest):
            return flow, ended
        order = rest[np.argsort(arrows.arrow[rest], kind="stable")]
        arrow, out = arrows.arrow[order], arrows.out[order]
        self._grow(int(arrow[-1]) + 1)
        first = np.flatnonzero(np.diff(arrow, prepend=-1))
        departures = self._running(0, out, arrow, first)
        arrivals = self._running(1, ~out, arrow, first)
        number = np.maximum(np.where(out, departures, np.minimum(arrivals, departures)), 1)
        flow[order] = arrow + (number - 1) * _NEXT
        next_is_new = ~out & (arrivals < departures)  # the next arrival belongs to a later departure
        ended[order] = arrows.last[order] | next_is_new
        return flow, ended

    def _grow(self, arrows: int) -> None:
        missing = arrows - self._counts.shape[1]
        if missing > 0:
            self._counts = np.pad(self._counts, ((0, 0), (0, missing + arrows // 2)))

    def _running(self, which: int, mask: Bools, arrow: Int64, first: Int64) -> Int64:
        """Returns the count of ends in the mask that each arrow has had up to each end; ends are grouped by arrow."""
        total = np.cumsum(mask, dtype=np.int64)
        before = (total - mask)[first]
        sizes = np.diff(np.append(first, len(mask)))
        running: Int64 = total - np.repeat(before, sizes) + self._counts[which, arrow]
        self._counts[which, arrow[first]] = running[np.append(first[1:], len(mask)) - 1]
        return running
