"""What allowed each piece of device work to begin: the last of what it waited for. Where host and streams wait for it.

call     [ launch ]─────────┐
stream 7 [ p            ]   └►[ w ]        p ended before the call began: the launch
stream 7 [ p                 ][ w ]        it ended later: the work before it on its stream
stream 9 [ q                 ]             or work of another stream whose event its stream waited for

If the call began before that work ended, the launch still decides where the device took longer from there on than it
does for work that was queued long before.

thread      [ cudaStreamSynchronize        ]        returns when the last work of its stream has ended
stream 7    [ gemm                  ]
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ktrace.analysis.questions.critical_path.host_threads import Threads
from ktrace.analysis.work.device_work import Events, Shape, Work
from ktrace.analysis.work.gaps import BY_HOST, LOST, NO_GAP, causes_of, gaps_of
from ktrace.analysis.work.gather import WorkInput
from ktrace.analysis.work.launching import SAMPLES, launching_of, stream_of
from ktrace.analysis.work.spans import KINDS, NO_NUMBER
from ktrace.model.arrays import AnyArray, Bools, Int8, Int32, Int64, Integers
from ktrace.store.joins import Moments, distinct, positions


def asof_join(group: Integers, time: Int64, keys: Integers, until: Int64) -> Int64:
    """The index of the last moment of each wanted group up to a time, inclusive; -1 where there is none.

    Of several at the same time it is the last one in the order of the moments.
    """
    if not len(group) or not len(keys):
        return np.full(len(keys), -1, np.int64)
    groups = np.concatenate([group.astype(np.int64), keys.astype(np.int64)])
    order = np.lexsort((np.concatenate([time, until]), groups))  # stable: at one time, the moments come first
    is_row = order < len(group)
    place = np.maximum.accumulate(np.where(is_row, np.arange(len(order)), -1))
    row = np.where(place >= 0, order[place], -1)
    row[(row >= 0) & (groups[row] != groups[order])] = -1
    result = np.empty(len(order), np.int64)
    result[order] = row
    return result[len(group) :]


#: How work came to begin: unknown, its launch, other work.
UNKNOWN, LAUNCH, WORK = 0, 1, 2

#: The part of queued work that follows the work before it as soon as that is usual, in percent.
_USUALLY = 95

_NEVER = np.iinfo(np.int64).min


class DeviceWork:
    """The device work of a source, in the order of its start.

    Columns: `begin`, `end`, `shape`, `id_`; the call that launched it: `thread` (-1 if it isn't known), `call_begin`,
    `call_end`; `stream`, a number for its stream. `why` and `before` tell what allowed it to begin: UNKNOWN, LAUNCH, or
    WORK with its row in `before`. Why its device did nothing before it, as `--by idle` tells: `gap`, since when, and
    `cause`, NO_GAP where it worked; if it is LOST, its launch isn't known to have decided. What may keep work waiting
    is that of `Launching`: `limit`, `may_wait`, `is_inner`; `unseen` is work that waited until its device had
    done what was queued before the recording.
    """

    def __init__(self, work: Work, events: Events) -> None:
        self.shapes = work.shapes
        order = _by_start(events)
        count = len(events)
        self.begin: Int64 = events.ts[order]
        self.end: Int64 = self.begin + events.dur[order]
        self.shape: Int32 = events.shape[order]
        self.id_: Int64 = events.ids[order]
        self.call: Int64 = events.call[order]
        self.launched: Bools = self.call >= 0
        calls, launched = events.calls, self.launched
        self.call_ids: Int64 = calls["id"]
        self.thread: Int32 = np.full(count, -1, np.int32)
        self.thread[launched] = calls["thread"][self.call[launched]]
        self.call_begin: Int64 = self.begin.copy()
        self.call_begin[launched] = calls["ts"][self.call[launched]]
        self.call_end: Int64 = self.begin.copy()
        self.call_end[launched] = self.call_begin[launched] + np.maximum(calls["dur"][self.call[launched]], 0)
        self.processes = work.processes
        self.process: Int32 = np.full(count, -1, np.int32)
        self.process[launched] = self.processes[self.thread[launched]]
        number, streams = work.by_shape(stream_of)
        self.stream: Int32 = number[self.shape]
        used = self.stream[distinct(self.stream.astype(np.int64), len(streams))[0]]
        self._streams: dict[tuple[object, ...], int] = {streams[one]: one for one in used.tolist()}
        device, devices = work.by_shape(_device)
        self.device: Int64 = np.array(devices, np.int64)[device[self.shape]]
        kind, kinds = work.by_shape(_kind)
        self.is_copy: Bools = np.array([one == "memcpy" for one in kinds], np.bool_)[kind[self.shape]]
        self.why: Int8 = np.zeros(count, np.int8)
        self.before: Int64 = np.full(count, -1, np.int64)
        self._released: Int64 = np.full(count, _NEVER, np.int64)
        self._know_causes(events, order)

    def __len__(self) -> int:
        return len(self.begin)

    def _know_causes(self, events: Events, order: Int64 | slice) -> None:
        """Reads the cause of the gap before each piece of work, as `idle` decides it."""
        launching, gaps = launching_of(events), gaps_of(events)
        gap, cause = events.ts.copy(), np.full(len(events), NO_GAP, np.int8)
        gap[gaps.after] = gaps.begin
        cause[gaps.after] = causes_of(events)[0]
        self.place: Int32 = events.places[0][order]
        self.gap: Int64 = gap[order]
        self.cause: Int8 = cause[order]
        self._usual = launching.usual  # by device
        self._latency = np.where(launching.samples >= SAMPLES, launching.latency, -1)
        self.limit: Int64 = launching.limit[order]
        self.may_wait: Bools = launching.may_wait[order]
        self.is_inner: Bools = launching.is_inner[order]
        self.unseen: Bools = launching.unseen[order] & (self.begin - self.call_end > self.limit)
        self.unseen |= launching.unseen[order] & ~self.launched

    def stream_of(self, host: str | None, pid: int | None, device: int | None, stream: int | None) -> int:
        """The number of a stream, -1 if no work ran on it."""
        if stream is None:
            return -1
        for process in (pid, None):
            stream_number = self._streams.get((host, process, device, stream, None))
            if stream_number is not None:
                return stream_number
        alike = self._alike[host, device, stream]
        return alike[0] if len(alike) == 1 else -1

    def only_stream(self, stream: int) -> int:
        """The number of the stream that the source calls so, -1 if there are several on devices, or none."""
        alike = self._alike[(stream,)]
        return alike[0] if len(alike) == 1 else -1

    @cached_property
    def _alike(self) -> defaultdict[tuple[object, ...], list[int]]:
        """The streams of a host and device with a number, and all with it."""
        alike: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
        for (host, _, device, stream, _), number in self._streams.items():
            alike[host, device, stream].append(number)
            alike[(stream,)].append(number)
        return alike

    def last_launched(self, stream: Int64, until: Int64) -> Int64:
        """The last work whose call on a stream began before a time; -1 where there is none."""
        rows = np.flatnonzero(self.launched)
        last = asof_join(self.stream[rows], self.call_begin[rows], stream, until)
        return np.where((last >= 0) & (stream >= 0), rows[last], -1) if len(rows) else last

    def first_launched(self, stream: Int64, after: Int64) -> Int64:
        """The first work whose call on a stream began after a time; -1 where there is none."""
        rows = np.flatnonzero(self.launched)[::-1]
        first = asof_join(self.stream[rows], -self.call_begin[rows], stream, -after)
        return np.where((first >= 0) & (stream >= 0), rows[first], -1) if len(rows) else first

    def connect(self, waiting: Int64, awaited: Int64) -> None:
        """Finds what allowed each piece of work to begin; `waiting` had to wait for `awaited`, because of an event."""
        every = np.arange(len(self))
        by_stream = np.argsort(self.stream, kind="stable")
        same = np.append(False, self.stream[by_stream][1:] == self.stream[by_stream][:-1])
        previous = np.full(len(self), -1, np.int64)
        previous[by_stream[1:]] = np.where(same[1:], by_stream[:-1], -1)
        together = self.launched & (previous >= 0) & (self.call[previous] == self.call)
        self._offer(every, np.where(together, -1, previous))
        later = self._later_of_call()
        has_edge = np.zeros(len(self), np.bool_)
        has_edge[waiting[self.end[awaited] <= self.begin[waiting]]] = True
        inner = np.flatnonzero((together | later) & ~has_edge)  # of a graph, whose order isn't that of a stream
        for group in (self.stream, self.call):
            self._offer(inner, self._ended(group, inner))
        self._offer(waiting, np.where(self.end[awaited] <= self.begin[waiting], awaited, -1))
        explained = np.isin(every, waiting) & np.isin(self.before, awaited)
        first = np.minimum(self.call_begin, self.begin) > self._released
        first |= np.where(later, np.isin(self.cause, BY_HOST) & ~explained, self._by_launch(explained))
        first &= self.launched
        lost = np.flatnonzero(first & (self.cause == LOST))
        self.why[first], self.why[lost] = LAUNCH, WORK
        self.before[first] = -1
        self.before[lost] = self._ended(self.place, lost)  # what may have run from there on isn't recorded
        stuck = self.unseen & ((self._released == _NEVER) | (self.begin - self.limit > self._released))
        self.why[stuck], self.before[stuck] = UNKNOWN, -1
        self.unseen = stuck
        unknown = np.flatnonzero((self.why == UNKNOWN) & ~self.unseen)
        self.before[unknown] = self._ended(np.zeros(len(self), np.int64), unknown)
        del self._released

    def _by_launch(self, explained: Bools) -> Bools:
        """Which work its launch let begin, though the call began before the work that it waited for had ended.

        From that work on it took longer than work that was queued long before, and a launch explains it: its time is
        as near to the usual one. `explained` is work that waited for an event, which takes another time. A call that
        returns when its work is done, such as that of a copy to pageable memory, tells nothing by its return.
        """
        usual_wait, latency = self._usual[self.place], self._latency[self.place]
        returned = self._released < self.call_end
        after = np.where(self._released == _NEVER, 0, self.begin - self._released)
        queued = self.launched & (self.call_end + usual_wait < self._released) & (after <= usual_wait)
        late, longer = returned.copy(), np.zeros(len(self), np.int64)
        every = np.ones(len(self), np.bool_)
        for some in (every, explained, ~explained):
            waits = after[some & queued]
            if len(waits) >= SAMPLES:
                usual, most = np.percentile(waits, (50, _USUALLY))
                late[some] = after[some] > 2 * most - usual
                longer[some] = after[some] - int(usual)
        launch = self.begin - self.call_end
        near = np.abs(launch - latency) <= np.maximum(longer, latency // 2)
        by_launch = (launch <= usual_wait) & (near | (latency < 0))
        launched_late: Bools = late & (by_launch | np.isin(self.cause, BY_HOST)) & (self.call_end < self.end)
        return launched_late

    def other_until(self, work: Int64, since: Int64, until: Int64) -> Int64:
        """The work of another stream of the device that ended last in each time before some work; -1 for none."""
        if not len(work):
            return work
        last = self._ends.last(self.place[work], until)
        last = np.where(last >= 0, self._by_end[last], -1)
        there = (last >= 0) & (self.end[last] > since) & (self.stream[last] != self.stream[work])
        return np.where(there, last, -1)

    def _later_of_call(self) -> Bools:
        """Which work isn't the first of its call."""
        rows = np.flatnonzero(self.launched)
        first, _ = distinct(self.call[rows], int(self.call.max(initial=-1)) + 1)
        later = self.launched.copy()
        later[rows[first]] = False
        return later

    @cached_property
    def waited(self) -> Bools:
        """Which work was done when its call returned, which took longer for it than launches take."""
        longer: Bools = self.end - self.call_begin > self._usual[self.place]
        return self.launched & longer & (self.call_end >= self.end)

    @cached_property
    def _by_end(self) -> Int64:
        """The work in the order of its end."""
        return np.lexsort((self.begin, self.end))

    @cached_property
    def _ends(self) -> Moments:
        """When the work of each device ends."""
        return Moments(self.place[self._by_end], self.end[self._by_end])

    def _ended(self, group: AnyArray, rows: Int64) -> Int64:
        """As-of join: the work of the same group that ended last before each of these rows began, -1 for none."""
        if not len(rows):
            return rows
        by_end = self._by_end
        last = asof_join(group[by_end], self.end[by_end], group[rows], self.begin[rows])
        last = np.where(last >= 0, by_end[last], -1)
        return np.where(last < rows, last, -1)  # without duration at the same time

    def _offer(self, rows: Int64, other: Int64) -> None:
        """Lets `rows` begin because of `other` work, -1 for none, where it ended later than what is known so far."""
        earlier = (other >= 0) & (other < rows)
        rows, other = rows[earlier], other[earlier]
        release = np.minimum(self.end[other], self.begin[rows])
        if np.any(rows[1:] <= rows[:-1]):  # the latest of several
            order = np.argsort(-release, kind="stable")
            _, first = np.unique(rows[order], return_index=True)
            best = order[first]
            rows, other, release = rows[best], other[best], release[best]
        better = release > self._released[rows]
        rows = rows[better]
        self._released[rows], self.before[rows], self.why[rows] = release[better], other[better], WORK


def _by_start(events: Events) -> Int64 | slice:
    """The order of work by its start and its end; of work that is in this order, all as it is."""
    ts, end = events.ts, events.ts + events.dur
    if np.all((ts[1:] > ts[:-1]) | ((ts[1:] == ts[:-1]) & (end[1:] >= end[:-1]))):
        return slice(None)
    return np.lexsort((end, ts))


def _device(shape: Shape) -> int:
    device: int | None = shape["device"]
    return -1 if device is None else device


def _kind(shape: Shape) -> str:
    kind: str = shape["kind"]
    return kind


#: Calls that return when devices have reached a point: CUDA, HIP, MUSA, ACL, Level Zero, OpenCL, SYCL, Metal.
_CALL = re.compile(
    r"synchronize|clFinish|clWaitForEvents|[up][ir](?:QueueFinish|EventWait|EventsWait)|waitUntilCompleted", re.I
)

#: The words of CUPTI for kinds of synchronisations, as libkineto, nsys and nvvp write them.
_STREAM_WAIT = re.compile(r"stream[ _]*wait", re.I)
_EVENT_SYNC = re.compile(r"event[ _]*sync", re.I)
_STREAM_SYNC = re.compile(r"stream[ _]*sync", re.I)

#: The memory that a copy goes to. If that isn't pinned, its call returns when it has ended, even if it is asynchronous
#: (CUDA's API synchronization behavior); where the source doesn't say, times tell.
_MEMORY = re.compile(r"-> ?(\w+)", re.A)

#: A stream without work.
_NO_STREAM = -2

_API = KINDS.index("api")

#: No id of work.
_NO_EVENT = -1

#: Where an arrow's host, process, device and stream are among its columns.
_PLACE = slice(4, 8)


class Sync(NamedTuple):
    """A call that waits for devices: for the work `target`, else for the last on a stream or device (-1: all)."""

    begin: int
    end: int
    target: int
    stream: int
    device: int


class Syncs:
    """The calls of a source that wait for devices, and which work waits for an event."""

    def __init__(self, gathered: WorkInput, source: str, threads: Threads, device: DeviceWork) -> None:
        self._gathered, self._source, self._threads, self._device = gathered, source, threads, device
        self.waiting = self.awaited = np.zeros(0, np.int64)
        self._known: dict[int, tuple[int, int, int]] = {}
        self._read_records()
        self._read_direct_waits()

    def rows(self) -> dict[int, tuple[int, int, int]]:
        """The waiting calls by their row: the target, the stream and the device of a `Sync`."""
        return dict.fromkeys(self._waiting_calls().tolist(), (-1, -1, -1)) | self._copies() | self._known

    def by_thread(self) -> dict[int, list[Sync]]:
        """The waiting calls of each thread, by their end."""
        threads = self._threads
        syncs: dict[int, list[Sync]] = {}
        for row, (target, stream, device) in self.rows().items():
            sync = Sync(int(threads.ts[row]), int(threads.end[row]), target, stream, device)
            if sync.end > sync.begin:
                syncs.setdefault(int(threads.thread[row]), []).append(sync)
        for calls in syncs.values():
            calls.sort(key=lambda one: (one.end, -one.begin))
        return syncs

    def _waiting_calls(self) -> Int64:
        """The calls that wait by their name."""
        waits = self._gathered.spans.named(_CALL.search)
        calls = np.flatnonzero(self._threads.kind == _API)
        return calls[waits[self._threads.names[calls]]]

    def _copies(self) -> dict[int, tuple[int, int, int]]:
        """The calls that return when their own copy has ended."""
        device, names = self._device, self._gathered.spans.names
        copies = np.flatnonzero(device.launched & (device.is_copy))
        calls = self._threads.row_of(device.call_ids[device.call[copies]])
        shapes = self._device.shapes
        waits: dict[int, tuple[int, int, int]] = {}
        for row, copy, shape in zip(calls.tolist(), copies.tolist(), device.shape[copies].tolist(), strict=True):
            if row < 0:
                continue
            name, memory = names[self._threads.names[row]].lower(), _MEMORY.search(shapes[shape]["name"])
            returned_late = device.waited[copy] if memory is None else memory[1].lower() == "pageable"
            if ("memcpy" in name and "async" not in name) or returned_late:
                waits[row] = copy, -1, -1
        return waits

    def _read_records(self) -> None:
        """Reads the synchronisations that the source recorded."""
        rows, shapes = self._gathered.waits.for_source(self._source), self._gathered.waits.shapes
        if not len(rows["ts"]):
            return
        threads = self._threads
        call = threads.calls_of(rows["correlation"], rows["ts"], rows["ts"] + rows["dur"])
        places = [shapes[shape] for shape in rows["shape"].tolist()]
        stream = self._streams(places, [one["stream"] for one in places])
        on = [None if one == NO_NUMBER else one for one in rows["on_stream"].tolist()]
        record, recorded_on = self._records(rows["id"].tolist())
        awaited_stream = np.where(rows["on_stream"] == NO_NUMBER, recorded_on, self._streams(places, on))
        awaited = np.full(len(places), -1, np.int64)
        matched = np.flatnonzero(record >= 0)
        awaited[matched] = self._device.last_launched(awaited_stream[matched], threads.ts[record[matched]])
        waits = np.array([_STREAM_WAIT.search(one["name"]) is not None for one in places], np.bool_)
        self._streams_wait(np.flatnonzero(waits), stream, call, rows["ts"], awaited)
        for number in np.flatnonzero(~waits & (call >= 0)).tolist():
            place, row = places[number], int(call[number])
            device = -1 if place["device"] is None else place["device"]
            if _EVENT_SYNC.search(place["name"]):
                if "query" not in self._gathered.spans.names[threads.names[row]].lower():
                    self._known[row] = int(awaited[number]), -1, device
            elif _STREAM_SYNC.search(place["name"]):
                self._known[row] = -1, int(stream[number]) if stream[number] >= 0 else _NO_STREAM, device
            else:
                self._known[row] = -1, -1, device

    def _streams(self, places: list[dict[str, Any]], streams: list[int | None]) -> Int64:
        """The numbers of streams on the devices of some places, -1 where no work ran."""
        numbers = [
            self._device.stream_of(one["host"], one["pid"], one["device"], stream)
            for one, stream in zip(places, streams, strict=True)
        ]
        return np.array(numbers, np.int64)

    def _streams_wait(self, rows: Int64, stream: Int64, call: Int64, ts: Int64, awaited: Int64) -> None:
        """The next work that was launched on a stream after it was told to wait for an event."""
        after = np.where(call[rows] >= 0, self._threads.ts[call[rows]], ts[rows])
        waiting = self._device.first_launched(stream[rows], after)
        both = (waiting >= 0) & (awaited[rows] >= 0)
        self.waiting, self.awaited = waiting[both], awaited[rows][both]

    def _records(self, ids: list[int]) -> tuple[Int64, Int64]:
        """The call that recorded the event which each synchronisation waits for, and its stream; -1 if not known."""
        out: dict[str, int] = {}
        into: dict[int, str] = {}
        streams: dict[int, int] = {}
        for link, key, role, event, _, _, _, stream, _ in self._links():
            if event is not None and link == "wait":
                if role == "in":
                    into[event] = key
                elif role == "out":
                    out[key] = event
            if event is not None and stream is not None and role == "out":
                streams[event] = stream
        events = [out.get(into.get(one, ""), -1) for one in ids]
        on = [self._device.only_stream(streams[one]) if one in streams else -1 for one in events]
        return self._threads.row_of(np.array(events, np.int64)), np.array(on, np.int64)

    def _read_direct_waits(self) -> None:
        """Reads the arrows that lead from work to work; some say where and when instead of which (Kineto)."""
        waits = [row for row in self._links() if row[0] == "wait" and row[2] in ("in", "out")]
        if not waits or not len(self._device):
            return
        order = np.argsort(self._device.id_, kind="stable")
        event = np.array([_NO_EVENT if row[3] is None else row[3] for row in waits], np.int64)
        at = positions(event, self._device.id_[order])
        work = np.where(at >= 0, order[at], -1)
        placed = np.flatnonzero(event == _NO_EVENT)
        work[placed] = self._work_at([waits[number] for number in placed.tolist()])
        ends: dict[str, dict[str, list[int]]] = {"out": {}, "in": {}}
        for (_, key, role, *_), row in zip(waits, work.tolist(), strict=True):
            if row >= 0:
                ends[role].setdefault(key, []).append(row)
        pairs = [(into, out) for key, rows in ends["in"].items() for into in rows for out in ends["out"].get(key, ())]
        if pairs:
            waiting, awaited = np.array(pairs, np.int64).T
            self.waiting = np.concatenate([self.waiting, waiting])
            self.awaited = np.concatenate([self.awaited, awaited])

    def _work_at(self, links: list[tuple[Any, ...]]) -> Int64:
        """The work on the stream of each arrow: it arrives where work begins, and leaves where it ends; -1 for none."""
        device = self._device
        places = [row[_PLACE] for row in links]
        numbers = {place: device.stream_of(*place) for place in dict.fromkeys(places)}
        stream = np.array([numbers[place] for place in places], np.int64)
        at = np.array([_NEVER if row[-1] is None else row[-1] for row in links], np.int64)
        leaves = np.array([row[2] == "out" for row in links], np.bool_)
        by_end = np.argsort(-device.end, kind="stable")
        begun = asof_join(device.stream, device.begin, stream, at)
        ended = asof_join(device.stream[by_end], -device.end[by_end], stream, -(at + 1))
        work = np.where(leaves, np.where(ended >= 0, by_end[ended], -1), begun)
        held = (work >= 0) & (stream >= 0)
        held[held] = (device.begin[work] <= at)[held] & ((device.end[work] > at) | (device.begin[work] == at))[held]
        return np.where(held, work, -1)

    def _links(self) -> list[tuple[Any, ...]]:
        """The arrows as rows."""
        names = ("link", "key", "role", "event", "host", "pid", "device", "stream", "ts")
        rows: list[tuple[Any, ...]] = []
        for batch in self._gathered.waits.links(self._source):
            columns = [
                batch.column(name).to_pylist() if name in batch.schema.names else [None] * len(batch) for name in names
            ]
            rows += [row for row in zip(*columns, strict=True) if row[0] != "fwdbwd"]
        return rows
