"""How many launches wait on each stream, when none does, and what calls lose while the queue is full.

call      [a][b][c]      [d]
stream       [ a   ][ b ][ c ]  [ d ]
waiting   1  1  2  2    1 0     1  0      launched, and not yet begun
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ktrace.analysis.queues.waits import WAIT, answer_of_waits
from ktrace.analysis.work.device_work import Events, Work, natural
from ktrace.analysis.work.durations import COPY, by_group
from ktrace.analysis.work.launching import stream_of
from ktrace.analysis.work.question import Answer, Labels
from ktrace.model.arrays import Bools, Int64
from ktrace.model.batch import Batch
from ktrace.stages.select.intervals import Intervals
from ktrace.tables.figures import Cell, Column, Table, percent

#: The name of the question, as `--by` takes it.
QUEUE = "queue"

#: A queue counts as full if at least so many launches wait, and this part of the most that ever did. CUDA states no
#: limit; in real traces calls begin to block at 753 and at 1,022 launches.
_FULL, _PART = 500, 0.9

#: A call has been blocked if it takes so many times the median of the calls for its stream, and at least so many ns.
#: That of a copy may wait for the copy itself.
_TIMES, _LEAST = 10, 100_000


@dataclass(frozen=True)
class StreamQueue:
    """What waits on a stream from its first launch, of those whose work is known, to the start of its last work.

    `launches` are calls, a graph counts once; `mean` is over the time, `longest` is the most that ever wait. `empty` is
    the time in which none waits, of `span` ns. `blocked` calls took long while the queue was full, `lost` ns longer
    than calls usually do.
    """

    label: str
    launches: int
    mean: float
    longest: int
    empty: int
    span: int
    blocked: int
    lost: int


@dataclass
class QueueAnswer:
    """How much is queued on each stream."""

    streams: list[StreamQueue]

    def tables(self, top: int | None = None, *, brief: bool = False) -> list[Table]:
        """A row for each stream, at most `top`."""
        columns = (
            *(Column("stream"), Column("launches", "count"), Column("mean", "count"), Column("longest", "count")),
            *(Column("empty", "ns"), Column("of span", "%"), Column("blocked", "count"), Column("lost", "ns")),
        )
        rows: list[tuple[Cell, ...]] = [
            (
                *(one.label, one.launches, one.mean, one.longest),
                *(one.empty, percent(one.empty, one.span), one.blocked, one.lost),
            )
            for one in self.streams[:top]
        ]
        more = len(self.streams) - len(rows)
        return [Table(QUEUE, "launches that wait on their stream", columns, rows, [], more)]


class Queues:
    """The questions how much is queued, and what waits for devices cost. What they need is in work, calls and spans."""

    def __init__(self, names: Sequence[str]) -> None:
        """`names` are those of the questions."""
        self._names = names
        self.spans = WAIT in names

    def see(self, batch: Batch) -> None:
        """Needs nothing else."""

    def answer(self, work: Work, labels: Labels) -> Mapping[str, Answer]:
        """The answers that are known."""
        found: dict[str, Answer] = {}
        if not work.is_on_devices:
            return found
        if QUEUE in self._names:
            streams = [one for events in work.each() for one in _queues(work, events, labels)]
            if streams:
                found[QUEUE] = QueueAnswer(sorted(streams, key=lambda one: natural(one.label)))
        if WAIT in self._names and (waits := answer_of_waits(work)):
            found[WAIT] = waits
        return found


def _queues(work: Work, events: Events, labels: Labels) -> list[StreamQueue]:
    """The queues of the streams of a source."""
    number, streams = work.by_shape(stream_of)
    mine: Bools = events.call >= 0
    mine[events.followers()] = False
    known = np.flatnonzero(mine)
    stream = number[events.shape[known]]
    rows_of = by_group(stream, len(streams))
    found = []
    for one in np.unique(stream).tolist():
        rows = known[rows_of(one)]
        call = events.call[rows]
        called, dur = events.calls["ts"][call], events.calls["dur"][call]
        order = np.argsort(called, kind="stable")
        label = labels.stream(work.shapes[events.shape[rows[0]]])
        dur = np.where(events.roles[rows] == COPY, 0, np.maximum(dur, 0))
        found.append(_queue(label, called[order], dur[order], events.ts[rows][order]))
    return found


def _queue(label: str, called: Int64, dur: Int64, began: Int64) -> StreamQueue:
    """The queue of a stream: when its calls begin (rising), how long they take (copies: 0), when their work begins."""
    began = np.maximum(began, called)  # clocks of host and device differ by some ns
    span = int(began.max() - called[0])
    waiting = np.arange(1, len(called) + 1) - np.searchsorted(np.sort(began), called, "right")
    longest = int(waiting.max())
    usual = float(np.median(dur))
    blocked = (dur > max(_TIMES * usual, _LEAST)) & (waiting >= max(_FULL, _PART * longest))
    lost = int((dur[blocked] - usual).sum())
    queued = Intervals.union(called, began).length
    mean = int((began - called).sum()) / span if span else 0.0
    return StreamQueue(label, len(called), mean, longest, span - queued, span, int(blocked.sum()), lost)
