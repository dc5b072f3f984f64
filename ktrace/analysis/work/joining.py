"""Finds the call from which an arrow leads to a piece of work, and the range around a call.

thread 4242    [ ProfilerStep#3                          ]
                  [ layers.9        ]
                    [ launch, correlation 71 ]
stream 7                               [ gemm, correlation 71 ]     of step 3 and layers.9
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.analysis.work.figures import by_group
from ktrace.model.arrays import Int32, Int64
from ktrace.stages.order.nesting import around, around_crossing
from ktrace.store.joins import find

_LINKS = pa.schema([("key", pa.string()), ("role", pa.string()), ("event", pa.int64())])


def linked(links: list[pa.RecordBatch], work: Int64, calls: Int64) -> Int64:
    """The index of the call from which an arrow leads to each piece of work, -1 where there is none.

    `links` have key, role and event; `work` and `calls` are ids. All have the same source.
    """
    rows = pa.Table.from_batches([batch.cast(_LINKS) for batch in links]).combine_chunks()
    key = rows["key"].combine_chunks().dictionary_encode().indices.to_numpy()
    event, out = rows["event"].to_numpy(), pc.equal(rows["role"], "out").to_numpy()
    begun = find((key[~out],), (key[out],))
    known = begun >= 0
    call = np.full(len(begun), -1, np.int64)
    call[known] = find((event[out][begun[known]],), (calls,))
    end = find((work,), (event[~out],))
    return np.where(end >= 0, call[end], -1) if len(call) else end


class Ranges:
    """Ranges on tracks, to find the innermost one around a time. A range includes its begin, but not its end."""

    def __init__(self, track: Int32, begin: Int64, end: Int64) -> None:
        # Between two bounds of ranges the answer doesn't change, so it is computed only at the bounds.
        on, at = np.concatenate([track, track]), np.concatenate([begin, end])
        inside = innermost(np.concatenate([track, on]), np.concatenate([begin, at]), np.append(end, at))
        order = np.lexsort((at, on))
        self.track = track
        self._on, self._at, self._inside = on[order], at[order], inside[len(begin) :][order]

    def around(self, track: Int32, at: Int64) -> Int64:
        """The index of the innermost range around each time on a track, -1 where there is none."""
        found = np.full(len(at), -1, np.int64)
        if not len(self.track) or not len(at):
            return found
        rows = by_group(track, int(max(track.max(), self.track.max())) + 1)
        for number in np.unique(self.track).tolist():
            mine = rows(number)
            low, high = np.searchsorted(self._on, [number, number + 1])
            place = low + np.searchsorted(self._at[low:high], at[mine], "right") - 1
            found[mine] = np.where(place >= low, self._inside[np.maximum(place, 0)], -1)
        return found


def innermost(track: Int32, begin: Int64, end: Int64) -> Int64:
    """The index of the innermost slice around each slice on its track, -1 where there is none."""
    order = np.lexsort((np.arange(len(track)), -end, begin, track))
    tracks, begins, ends = track[order], begin[order], end[order]
    outer, crossed = around(tracks, begins, ends)
    for number in crossed.tolist():
        low, high = np.searchsorted(tracks, [number, number + 1])
        own = around_crossing(begins[low:high], ends[low:high])
        outer[low:high] = np.where(own >= 0, own + low, -1)
    found = np.full(len(track), -1, np.int64)
    found[order] = np.where(outer >= 0, order[outer], -1)
    return found
