"""How the host feeds its devices: how much is queued on each stream, and what each wait for a device costs.

`ktrace summary --by queue`: how many launches wait on each stream, when none does, and what calls lose while the queue
is full.

call      [a][b][c]      [d]
stream       [ a   ][ b ][ c ]  [ d ]
waiting   1  1  2  2    1 0     1  0      launched, and not yet begun

`ktrace summary --by wait`: the idle time after each wait, by the call and what it is part of.

thread   [ aten::item                    ]
           [ cudaStreamSynchronize ]      [ cudaLaunchKernel ]
device   [ gemm                  ]                            [ norm ]
                                  ─────────── idle ───────────
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ktrace.analysis.work.device_work import Events, Work
from ktrace.analysis.work.durations import COPY, by_group
from ktrace.analysis.work.gaps import SYNCHRONISED, causes_of, gaps_of, latest, waits_among
from ktrace.analysis.work.launching import stream_of
from ktrace.analysis.work.question import Answer, Labels, Question
from ktrace.analysis.work.spans import KINDS, generic, innermost
from ktrace.model.arrays import Bools, Int64
from ktrace.model.batch import Batch
from ktrace.model.tracks import natural
from ktrace.stages.select.intervals import Intervals
from ktrace.store import Spill
from ktrace.tables import Cell, Column, Table, percent

#: The columns of the model that they look at: those of any summary.
COLUMNS: frozenset[str] = frozenset()


def questions(names: Sequence[str], spill: Spill) -> Question:
    """The questions "queue" and "wait"."""
    return QueueQuestion(names)


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


class QueueQuestion:
    """The questions how much is queued, and cost of waiting for devices. What they need is in work, calls and spans."""

    def __init__(self, names: Sequence[str]) -> None:
        """`names` are those of the questions."""
        self._names = names
        self.spans = WAIT in names

    def see(self, batch: Batch) -> None:
        """Needs nothing else."""

    def answer(self, work: Work, labels: Labels) -> Mapping[str, Answer]:
        """The answers that are known."""
        answers: dict[str, Answer] = {}
        if not work.is_on_devices:
            return answers
        if QUEUE in self._names:
            streams = [one for events in work.each() for one in _queues(work, events, labels)]
            if streams:
                answers[QUEUE] = QueueAnswer(sorted(streams, key=lambda one: natural(one.label)))
        if WAIT in self._names and (waits := answer_of_waits(work)):
            answers[WAIT] = waits
        return answers


def _queues(work: Work, events: Events, labels: Labels) -> list[StreamQueue]:
    """The queues of the streams of a source."""
    number, streams = work.by_shape(stream_of)
    is_first: Bools = events.call >= 0
    is_first[events.followers] = False
    launched = np.flatnonzero(is_first)
    stream = number[events.shape[launched]]
    rows_of = by_group(stream, len(streams))
    queues = []
    for one in np.unique(stream).tolist():
        rows = launched[rows_of(one)]
        call = events.call[rows]
        called, dur = events.calls["ts"][call], events.calls["dur"][call]
        order = np.argsort(called, kind="stable")
        label = labels.stream(work.shapes[events.shape[rows[0]]])
        dur = np.where(events.roles[rows] == COPY, 0, np.maximum(dur, 0))
        queues.append(_queue(label, called[order], dur[order], events.ts[rows][order]))
    return queues


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


#: The name of the question, as `--by` takes it.
WAIT = "wait"

_API = KINDS.index("api")


@dataclass(frozen=True)
class HostWait:
    """The calls with one name that wait for a device in one operator or range, `inside`; None is outside of all.

    `time` is that of the calls. `idle` is the time of devices in the gaps that these waits caused, as in the answer
    "idle": "host synchronised"; `gaps` are so many, `longest` is the longest.
    """

    call: str
    inside: str | None
    calls: int
    time: int
    idle: int
    gaps: int
    longest: int


@dataclass
class WaitsAnswer:
    """The waits of the host, the most expensive first; `idle` is that of all devices, of whatever cause."""

    waits: list[HostWait]
    idle: int

    def tables(self, top: int | None = None, *, brief: bool = False) -> list[Table]:
        """A row for each call and what it is part of, at most `top`."""
        columns = (
            *(Column("waits in"), Column("part of"), Column("calls", "count"), Column("time", "ns")),
            *(Column("idle after", "ns"), Column("of idle", "%"), Column("gaps", "count"), Column("longest", "ns")),
        )
        rows: list[tuple[Cell, ...]] = [
            (one.call, one.inside, one.calls, one.time, one.idle, percent(one.idle, self.idle), one.gaps, one.longest)
            for one in self.waits[:top]
        ]
        notes = ["Idle after: devices had nothing to do, because the host had waited and launched only then."]
        return [Table(WAIT, "cost of waiting for devices", columns, rows, notes, len(self.waits) - len(rows))]


def answer_of_waits(work: Work) -> WaitsAnswer | None:
    """The waits of all sources; None if there are none."""
    times: defaultdict[tuple[str, str | None], list[int]] = defaultdict(list)
    costs: defaultdict[tuple[str, str | None], list[int]] = defaultdict(list)
    idle = 0
    for events in work.each():
        if not len(events):
            continue
        gaps = gaps_of(events)
        idle += int(gaps.length.sum())
        cause, meanwhile = causes_of(events)
        ended = np.flatnonzero(cause == SYNCHRONISED)
        spans = work.gathered.spans.for_source(events.source)
        waits = waits_among(spans, work.gathered)
        first = meanwhile.first[ended]  # in its own call, else after that of another thread
        caused = np.where(meanwhile.kind[first] == _API, meanwhile.row[first], latest(waits, spans, gaps.begin[ended]))
        every = np.union1d(waits, caused)
        keys = _keys(work, events, every)
        for key, dur in zip(keys, np.maximum(spans["dur"][every], 0).tolist(), strict=True):
            times[key].append(dur)
        for place, length in zip(np.searchsorted(every, caused).tolist(), gaps.length[ended].tolist(), strict=True):
            costs[keys[place]].append(length)
    waited = [
        HostWait(*key, len(durations), sum(durations), sum(costs[key]), len(costs[key]), max(costs[key], default=0))
        for key, durations in times.items()
    ]
    return WaitsAnswer(sorted(waited, key=lambda one: (-one.idle, -one.time, one.call)), idle) if waited else None


def _keys(work: Work, events: Events, rows: Int64) -> list[tuple[str, str | None]]:
    """The names of some spans, and of the innermost operator or range around each."""
    spans, names = work.gathered.spans.for_source(events.source), work.gathered.spans.names
    outer = innermost(spans["thread"], spans["ts"], spans["ts"] + np.maximum(spans["dur"], 0))
    beyond = np.append(np.where(spans["kind"] == _API, outer, np.arange(len(outer))), -1)  # what isn't a call stays
    while np.any((further := beyond[beyond]) != beyond):  # twice as far each time
        beyond = further
    around = beyond[outer[rows]]
    inside = [generic(names[spans["name"][row]]) if row >= 0 else None for row in around.tolist()]
    return [(generic(names[number]), part) for number, part in zip(spans["name"][rows].tolist(), inside, strict=True)]
