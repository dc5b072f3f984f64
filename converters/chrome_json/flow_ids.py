"""The flow of each end of an arrow: in a Chrome trace a flow leaves once, in the model an arrow may leave often.

    ends of one arrow      out in   out out in in   out in in
    flow                    1   1    2   3   2  3    4   4  4
    phase                   s   f    s   s   f  f    s   t  f

Many programs reuse the id of a flow after it has arrived. The nth arrival belongs to the nth departure, or to the last
one if there are fewer. A flow ends (f) at its last arrival; an earlier arrival is a step (t).
"""

from __future__ import annotations

import numpy as np

from ktrace.model.arrays import Bools, Int64
from ktrace.stages.order.links import ARROW_KINDS
from ktrace.stages.order.timeline import Arrows

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
