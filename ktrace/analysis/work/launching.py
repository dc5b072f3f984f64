"""How soon devices begin what was launched, what may keep queued work waiting, and what was queued before recording.

call        [ launch ]
device                 ......[ norm ]        on an idle device: the latency of a launch
device   [ what the trace lacks ][ gemm ]    the first of its stream, launched long before: queued before the recording
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from ktrace.analysis.work.device_work import Events, Work
from ktrace.analysis.work.durations import COPY, by_group
from ktrace.model.arrays import Bools, Int32, Int64
from ktrace.store.joins import combined, distinct, greatest_so_far, group_start_mask, is_among

#: The latency that is assumed, in ns, if fewer than so many launches on an idle device are known.
ASSUMED, SAMPLES = 10_000, 8

#: A wait up to so many latencies is that of a launch or between two kernels, and it is at least so many ns.
TIMES, LEAST = 3, 5_000

#: Where nothing can have kept work waiting, so many times that is still taken for it; more is unknown.
_AT_MOST = 3

#: Work that waits less, in ns, doesn't tell of work queued before the recording; a graph may take long to begin.
_QUEUED, _GRAPH_QUEUED = 50_000, 1_000_000

#: Calls after which a stream waits for something, and calls that return when a device has done all.
_STREAM_WAITS = re.compile(r"Stream_?Wait|WaitEvent|BatchMemOp|LaunchHostFunc|StreamAddCallback|EnqueueBarrier", re.I)
DEVICE_SYNC = re.compile(r"(Device|Ctx|Context)_?Synchronize", re.I)

_GRAPH = re.compile(r"graph", re.I)
_NEVER = np.iinfo(np.int64).min


class Launching(NamedTuple):
    """How the work of a source came to begin.

    By device of the source (as `Events.places`): `latency`, the median time in ns from the return of a call to its
    work on an idle device, of so many `samples` (ASSUMED if these are fewer than SAMPLES); `usual`, the longest wait
    that a launch, or the way from kernel to kernel, explains.

    By piece of work: `called`, when its call began, if that isn't known the latest such time on its stream until then;
    `may_wait`, whether anything in the trace can have kept it waiting: a graph, a copy, an event, or
    work of another stream if no waits for events are recorded; `limit`, the longest wait that isn't taken for more than
    a launch; `is_inner`, whether it belongs to the launch of a graph and isn't the first of it; `unseen`, whether its
    device had worked until then on what was queued before the recording.
    """

    latency: Int64
    samples: Int64
    usual: Int64
    called: Int64
    may_wait: Bools
    limit: Int64
    is_inner: Bools
    unseen: Bools


def launching_of(events: Events) -> Launching:
    """How the work of a source came to begin."""
    return events.once(_launching)


def _launching(work: Work, events: Events) -> Launching:
    place, places = events.places
    pieces = _Pieces(work, events)
    latency, on_idle = np.full(len(places), ASSUMED, np.int64), np.flatnonzero(pieces.on_idle)
    samples = np.bincount(place[on_idle], minlength=len(places))
    waits_of = by_group(place[on_idle], len(places))
    for number in np.flatnonzero(samples >= SAMPLES).tolist():
        latency[number] = int(np.median(pieces.wait[on_idle[waits_of(number)]]))
    usual = np.where(samples < SAMPLES, ASSUMED, np.maximum(TIMES * latency, LEAST))
    may_wait, here = _may_wait(pieces, work, events), usual[place]
    limit = np.where(may_wait, here, _AT_MOST * here)
    unseen = _unseen(pieces, work, events)
    inner = pieces.later & graph_calls(work, events)[events.call]
    return Launching(latency, samples, usual, pieces.since, may_wait, limit, inner, unseen)


class _Pieces:
    """What is known of each piece of work: its call, the work before it on its stream, its wait on an idle device."""

    def __init__(self, work: Work, events: Events) -> None:
        calls, call = events.calls, events.call
        self.launched: Bools = call >= 0
        launched = np.flatnonzero(self.launched)
        self.called = np.full(len(events), _NEVER, np.int64)
        self.called[launched] = calls["ts"][call[launched]]
        self.stream: Int32 = work.by_shape(stream_of)[0][events.shape]
        order = np.lexsort((events.ts, self.stream))
        follows = ~group_start_mask((self.stream[order],))
        self.previous = np.full(len(events), -1, np.int64)
        self.previous[order[follows]] = order[np.flatnonzero(follows) - 1]
        self.since = _latest(self.called, order, ~follows)
        self.later = np.zeros(len(events), np.bool_)
        self.later[events.followers] = True
        self.reached, self.idle = _reached(events)
        ready = self.reached.copy()
        returned = self.called[launched] + np.maximum(calls["dur"][call[launched]], 0)
        ready[launched] = np.maximum(returned, ready[launched])
        self.wait: Int64 = np.where(ready == _NEVER, 0, np.maximum(events.ts - ready, 0))
        self.on_idle: Bools = self.launched & ~self.later & (self.previous >= 0)
        self.on_idle[launched] &= returned >= self.reached[launched]


def _latest(called: Int64, order: Int64, first: Bools) -> Int64:
    """When each piece of work was called, filled forward on its stream where that isn't known."""
    is_called = called[order] != _NEVER
    at = np.maximum.accumulate(np.where(is_called | first, np.arange(len(order)), 0))
    latest = np.empty(len(order), np.int64)
    latest[order] = called[order][at]
    return latest


def stream_of(shape: dict[str, object]) -> tuple[object, ...]:
    """The key of a stream."""
    return tuple(shape[name] for name in ("host", "pid", "device", "stream", "track"))


def _reached(events: Events) -> tuple[Int64, Int64]:
    """For each piece of work: when all earlier work of its device has ended, and the idle time until then."""
    order = events.by_device
    place, ts = events.places[0][order], events.ts[order]
    reached, idle = np.full(len(events), _NEVER, np.int64), np.zeros(len(events), np.int64)
    first = group_start_mask((place,))
    until = greatest_so_far(ts + events.dur[order], (place,))[:-1]
    reached[order[1:]] = np.where(first[1:], _NEVER, until)
    pause = np.zeros(len(order), np.int64)
    pause[1:] = np.where(first[1:], 0, np.maximum(ts[1:] - until, 0))
    total = np.cumsum(pause)
    idle[order] = total - total[first][np.cumsum(first) - 1]
    return reached, idle


def _may_wait(pieces: _Pieces, work: Work, events: Events) -> Bools:
    """Whether a graph, a copy, an event or another stream can have kept each piece of work waiting."""
    spans = work.gathered.spans.for_source(events.source)
    there = pieces.previous >= 0
    may_wait: Bools = events.roles == COPY
    may_wait[there] |= (events.roles == COPY)[pieces.previous[there]]
    may_wait |= _of_graph(pieces, work, events)
    waits = np.sort(spans["ts"][work.gathered.spans.named(_STREAM_WAITS.search)[spans["name"]]])
    if not len(waits):
        place, places = events.places
        streams = int(pieces.stream.max(initial=0)) + 1
        first, _ = distinct(*combined(((place, len(places)), (pieces.stream, streams)), len(place)))
        return may_wait | (np.bincount(place[first], minlength=len(places)) > 1)[place]
    since = np.full(len(events), _NEVER, np.int64)
    since[there] = pieces.since[pieces.previous[there]]
    waited = np.searchsorted(waits, pieces.called, "left") > np.searchsorted(waits, since, "left")
    return may_wait | (pieces.launched & waited)


def _of_graph(pieces: _Pieces, work: Work, events: Events) -> Bools:
    """Which work belongs to a graph: its call launched several pieces, or says so."""
    graph = graph_calls(work, events)
    graph[events.call[pieces.later]] = True
    return graph[events.call] & pieces.launched


def graph_calls(work: Work, events: Events) -> Bools:
    """Which calls launch a graph by their name; the last one is for work without a call."""
    spans = work.gathered.spans.for_source(events.source)
    ids = spans["id"][work.gathered.spans.named(_GRAPH.search)[spans["name"]]]
    return np.append(is_among(events.calls["id"], ids), False)


def _unseen(pieces: _Pieces, work: Work, events: Events) -> Bools:
    """Before which work the device was still at what was queued before the recording, which the trace lacks.

    It tells of that if the first work of a stream waits long after its launch while nothing that is recorded runs, and
    no call has returned that waits for the whole device. Work without a call tells if it begins before all calls.
    """
    place, places = events.places
    launched = np.flatnonzero(pieces.launched)
    if not len(launched):
        return np.zeros(len(events), np.bool_)
    first_call = np.full(len(places), np.iinfo(np.int64).max)
    np.minimum.at(first_call, place[launched], pieces.called[launched])
    unseen: Bools = ~pieces.launched & (events.ts < first_call[place])
    order = launched[np.lexsort((events.ts[launched], pieces.stream[launched]))]
    first = order[group_start_mask((pieces.stream[order],))]
    spans = work.gathered.spans.for_source(events.source)
    synced = work.gathered.spans.named(DEVICE_SYNC.search)[spans["name"]] & (spans["dur"] >= 0)
    drained = (spans["ts"] + spans["dur"])[synced].min(initial=np.iinfo(np.int64).max)
    long = np.where(_of_graph(pieces, work, events)[first], _GRAPH_QUEUED, _QUEUED)
    begun = np.full(len(places), np.iinfo(np.int64).max)
    np.minimum.at(begun, place, events.ts)
    mostly = 2 * pieces.idle[first] >= events.ts[first] - begun[place[first]]
    stuck = first[(pieces.wait[first] > long) & (events.ts[first] <= drained) & mostly & ~pieces.later[first]]
    until = np.full(len(places), _NEVER, np.int64)
    np.maximum.at(until, place[stuck], events.ts[stuck])
    return unseen | (events.ts <= until[place])
