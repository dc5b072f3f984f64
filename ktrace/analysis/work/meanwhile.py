"""What the host did during gaps: how these are divided among the innermost spans of the launching thread.

thread    [ aten::copy_                          ]
             [ cudaMalloc ]      [ cudaLaunchKernel ]
gap              [                      ]
                 cudaMalloc│ aten:: │ cudaLaunchKernel
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ktrace.analysis.work.figures import by_group
from ktrace.analysis.work.joining import innermost
from ktrace.analysis.work.span_names import generic
from ktrace.analysis.work.spans import KINDS
from ktrace.model.arrays import Int8, Int32, Int64
from ktrace.stages.order.nesting import around
from ktrace.stages.select.intervals import Intervals
from ktrace.store.joins import starts

if TYPE_CHECKING:
    from ktrace.analysis.work.events import Events
    from ktrace.analysis.work.gaps import Gaps
    from ktrace.analysis.work.gather import SummaryInput

#: The time of the host outside of all spans, and the time after the launching call has returned.
NO_SPAN, ON_ITS_WAY = "no call or range", "launch delay"


class Meanwhile:
    """The parts of some gaps of a source until the launching call has returned, by the innermost span.

    `gap` rises; of each part there are its `time` and its span: `name`, an index of `names`, `kind`, an index of
    `spans.KINDS`, and its whole `dur`, all -1 outside of all spans. `first` is for each gap the part with which it
    begins, -1 where the host isn't known.
    """

    def __init__(self, gathered: SummaryInput, events: Events, gaps: Gaps, which: Int64) -> None:
        """`which` are the indices of the gaps; their calls are known."""
        self._gaps = gaps
        self.names = gathered.spans.names
        spans = gathered.spans.of(events.source)
        thread = events.calls["thread"][gaps.call[which]]
        rows, span, time = _divided(spans, thread, gaps.begin[which], gaps.launched[which])
        self.gap: Int64 = which[rows]
        self.time: Int64 = time
        self.name: Int32 = _or_none(spans["name"], span)
        self.kind: Int8 = _or_none(spans["kind"], span)
        self.dur: Int64 = _or_none(spans["dur"], span)
        self.first = np.full(len(gaps.begin), -1, np.int64)
        self.first[self.gap[::-1]] = np.arange(len(self.gap))[::-1]

    @cached_property
    def labels(self) -> list[str]:
        """The names of spans without what differs between occurrences; those of gaps without a span come last."""
        return [*dict.fromkeys(map(generic, self.names)), NO_SPAN, ON_ITS_WAY]

    @cached_property
    def label(self) -> Int64:
        """The index in `labels` of each part."""
        number = {label: place for place, label in enumerate(self.labels)}
        of_name = np.array([*(number[generic(name)] for name in self.names), len(number) - 2], np.int64)
        return of_name[self.name]  # -1 is the last one

    @cached_property
    def kinds(self) -> list[str]:
        """The kind of span of each label, "" for those of gaps without a span."""
        found = np.full(len(self.labels), -1, np.int8)
        found[self.label] = self.kind
        return [KINDS[kind] if kind >= 0 else "" for kind in found.tolist()]

    def times(self, which: Int64) -> tuple[Int64, Int64, Int64]:
        """How these gaps are divided: the gap (rising), the label, and its time in the gap."""
        wanted = np.zeros(len(self.first), np.bool_)
        wanted[which] = True
        mine = np.flatnonzero(wanted[self.gap])
        rest = (self._gaps.end - self._gaps.launched)[which]
        gap = np.concatenate([self.gap[mine], which])
        label = np.concatenate([self.label[mine], np.full(len(which), len(self.labels) - 1)])
        time = np.concatenate([self.time[mine], rest])
        order = np.argsort(gap * len(self.labels) + label, kind="stable")
        gap, label, time = gap[order], label[order], time[order]
        first = np.flatnonzero(starts((gap, label)))
        total = np.add.reduceat(time, first) if len(first) else time
        lasts = total > 0
        return gap[first][lasts], label[first][lasts], total[lasts]


def _or_none(column: Any, rows: Int64) -> Any:
    """The values of some rows of a column, -1 for the row -1."""
    found = np.full(len(rows), -1, column.dtype)
    inside = rows >= 0
    found[inside] = column[rows[inside]]
    return found


def _divided(spans: dict[str, Any], thread: Int32, begin: Int64, end: Int64) -> tuple[Int64, Int64, Int64]:
    """The parts of intervals on threads: row of the interval, index of the innermost span (-1: none), time."""
    parts: list[tuple[Int64, Int64, Int64]] = [(np.zeros(0, np.int64),) * 3]
    if len(thread):
        count = 1 + int(max(thread.max(), spans["thread"].max(initial=0)))
        rows_of, spans_of = by_group(thread, count), by_group(spans["thread"], count)
        for number in np.unique(thread).tolist():
            rows, mine = rows_of(number), spans_of(number)
            ts, ends = spans["ts"][mine], spans["ts"][mine] + spans["dur"][mine]
            there = Intervals.union(begin[rows], end[rows]).overlap(ts, ends) & (ends > ts)
            bounds = _bounds(mine[there], ts[there], ends[there])
            some, span, time = _cut(*bounds, begin[rows], end[rows])
            parts.append((rows[some], span, time))
    rows, span, time = map(np.concatenate, zip(*parts, strict=True))
    order = np.argsort(rows, kind="stable")
    return rows[order], span[order], time[order]


def _bounds(spans: Int64, begin: Int64, end: Int64) -> tuple[Int64, Int64]:
    """The times at which the innermost span of a thread changes, and the span from there on, -1 for none."""
    order = np.lexsort((-end, begin))
    spans, begin, end = spans[order], begin[order], end[order]
    outer, crossed = around(np.zeros(len(spans), np.int32), begin, end)
    if len(crossed):
        at = np.sort(np.concatenate([begin, end]))
        at = at[starts((at,))]
        track = np.zeros(len(spans) + len(at), np.int32)
        inside = innermost(track, np.concatenate([begin, at]), np.concatenate([end, at]))[len(spans) :]
    else:  # at one time the inner spans end first, then the outer ones begin first
        at = np.concatenate([end[::-1], begin])
        inside = np.concatenate([outer[::-1], np.arange(len(spans))])
        order = np.argsort(at, kind="stable")
        at, inside = at[order], inside[order]
    return at, np.append(spans, -1)[inside]


def _cut(at: Int64, inside: Int64, begin: Int64, end: Int64) -> tuple[Int64, Int64, Int64]:
    """The parts of some intervals between these bounds."""
    at = np.concatenate([[np.iinfo(np.int64).min], at, [np.iinfo(np.int64).max]])
    inside = np.concatenate([[-1], inside])
    low = np.searchsorted(at, begin, "right") - 1
    count = np.maximum(np.searchsorted(at, end, "left") - low, 0)
    rows = np.repeat(np.arange(len(begin)), count)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count) + low[rows]
    time = np.minimum(at[place + 1], end[rows]) - np.maximum(at[place], begin[rows])
    lasts = time > 0
    return rows[lasts], inside[place[lasts]], time[lasts]
