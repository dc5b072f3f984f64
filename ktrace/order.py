"""The stage before a timeline writer: it sorts, pairs, nests, binds and joins once, for all of them.

    batches in any order ──► spilled to temporary Arrow files above 64 MB ──► Timeline

A `Timeline` knows the whole catalog, the span and the tracks before it gives its first batch. Its batches
hold the events in ranges of time, sorted per track by (ts, -dur, id); halves are paired, each slice has
its lane, arrows are bound to rows and launches joined with their work. Writers never sort, pair or wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ktrace.catalog import Catalog
from ktrace.model import Batch
from ktrace.report import Report
from ktrace.tracks import Track

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]

#: Bytes of batches that are kept in memory before they are spilled to disk.
SPILL_BYTES = 64 << 20


@dataclass(frozen=True)
class Edges:
    """Begins and ends of slices, and points, in the order in which a timeline shows them.

    Three arrays of one length. On each (track, lane) the begins and ends nest like brackets: an end is
    always that of the innermost open slice, and stands before a begin of the same nanosecond.
    Slices that end in a later range of time have their end there.

    ts      int64 ns
    row     int32 row of the batch that begins or is a point; -1 for an end
    track   int32 index into `Timeline.tracks`
    lane    int32 lane of the track
    """

    ts: Int64
    row: Int32
    track: Int32
    lane: Int32


@dataclass(frozen=True)
class Arrows:
    """Ends of arrows on the rows of a batch, sorted by row. Three arrays of one length.

    row     int32 row of the batch
    arrow   int64 number of the arrow, unique in the timeline, from 1; its ends share it
    out     bool: whether the arrow leaves here; a middle step of a chain arrives (False)
    """

    row: Int32
    arrow: Int64
    out: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class TimelineBatch:
    """Events of a range of time.

    `batch` holds events of all kinds with `lane` filled, `track` the index of each row's track in
    `Timeline.tracks`, `serial` a number of each row that is unique in the timeline (from 1).
    A slice kind whose `dur` is null has no known end: its edge ends with the trace.
    `link_ends` counts the rows of the record `links` that the arrows of this batch stand for.
    """

    batch: Batch
    track: Int32
    serial: Int64
    edges: Edges
    arrows: Arrows
    link_ends: int

    def __len__(self) -> int:
        return len(self.batch)


@dataclass
class Timeline:
    """All events of a trace, ordered. `start` and `end` span all slices and points, in ns (0, 0 if there are none)."""

    catalog: Catalog
    tracks: list[Track]
    start: int
    end: int

    def batches(self) -> Iterator[TimelineBatch]:
        """The events, in ranges of time that rise. To be taken once."""
        raise NotImplementedError


def order(batches: Iterable[Batch], report: Report, *, spill_bytes: int = SPILL_BYTES) -> Timeline:
    """Takes all batches and gives them back as a timeline.

    Summaries must have gone through `layout` before. Above `spill_bytes` of Arrow data, batches go to a
    temporary folder that is removed when the last batch was taken or the timeline is garbage collected.
    """
    raise NotImplementedError
