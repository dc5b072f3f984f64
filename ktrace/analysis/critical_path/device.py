"""What allowed each piece of device work to begin: the last of what it waited for.

call     [ launch ]─────────┐
stream 7 [ p            ]   └►[ w ]        p ended before the call began: the launch
stream 7 [ p                 ][ w ]        it ended later: the work before it on its stream
stream 9 [ q                 ]             or work of another stream whose event its stream waited for

If the call began before that work ended, the launch still decides where the device took longer from there on than it
does for work that was queued long before.

The last of some moments before others, group by group.

group      0    1    0         moments at 5 (group 0), 6 (group 1), 9 (group 0)
wanted     0 at 8              ──►  the one at 5
"""

from __future__ import annotations

import numpy as np

from ktrace.analysis.work.events import Events, Work
from ktrace.analysis.work.gaps import BY_HOST, LOST, NO_GAP, causes_of, gaps_of
from ktrace.analysis.work.launching import SAMPLES, launching_of
from ktrace.model.arrays import AnyArray, Bools, Int8, Int32, Int64, Integers


def latest(group: Integers, time: Int64, wanted: Integers, until: Int64) -> Int64:
    """The index of the last moment of each wanted group up to a time, inclusive; -1 where there is none.

    Of several at the same time it is the last one in the order of the moments.
    """
    if not len(group) or not len(wanted):
        return np.full(len(wanted), -1, np.int64)
    groups = np.concatenate([group.astype(np.int64), wanted.astype(np.int64)])
    order = np.lexsort((np.concatenate([time, until]), groups))  # stable: at one time, the moments come first
    known = order < len(group)
    place = np.maximum.accumulate(np.where(known, np.arange(len(order)), -1))
    found = np.where(place >= 0, order[place], -1)
    found[(found >= 0) & (groups[found] != groups[order])] = -1
    result = np.empty(len(order), np.int64)
    result[order] = found
    return result[len(group) :]


#: How work came to begin: nothing known, its launch, other work.
UNKNOWN, LAUNCH, WORK = 0, 1, 2

#: The part of queued work that follows the work before it as soon as that is usual, in percent.
_USUALLY = 95

_NEVER = np.iinfo(np.int64).min


class Device:
    """The device work of a source, in the order of its begin.

    Columns: `begin`, `end`, `shape`, `id_`; the call that launched it: `thread` (-1 if it isn't known), `call_begin`,
    `call_end`; `stream`, a number for its stream. `why` and `before` tell what allowed it to begin: UNKNOWN, LAUNCH, or
    WORK with its row in `before`. Why its device did nothing before it, as `--by idle` tells: `gap`, since when, and
    `cause`, NO_GAP where it worked; if it is LOST, its launch isn't known to have decided. What may keep work waiting
    is that of `Launching`: `usual`, `limit`, `may_wait`; `unseen` is work that waited until its device had done what
    was queued before the recording.
    """

    def __init__(self, work: Work, events: Events) -> None:
        order = np.lexsort((events.ts + events.dur, events.ts))
        self.begin: Int64 = events.ts[order]
        self.end: Int64 = self.begin + events.dur[order]
        self.shape: Int32 = events.shape[order]
        self.id_: Int64 = events.ids[order]
        self.call: Int64 = events.call[order]
        self.launched: Bools = self.call >= 0
        calls, known = events.calls, self.launched
        self.thread: Int64 = np.full(len(order), -1, np.int64)
        self.thread[known] = calls["thread"][self.call[known]]
        self.call_begin: Int64 = self.begin.copy()
        self.call_begin[known] = calls["ts"][self.call[known]]
        self.call_end: Int64 = self.begin.copy()
        self.call_end[known] = self.call_begin[known] + np.maximum(calls["dur"][self.call[known]], 0)
        self.call_id: Int64 = np.full(len(order), -1, np.int64)
        self.call_id[known] = calls["id"][self.call[known]]
        self.processes = _processes(work)
        self.process: Int32 = np.full(len(order), -1, np.int32)
        self.process[known] = self.processes[self.thread[known]]
        self._streams: dict[tuple[object, ...], int] = {}
        codes = [self._streams.setdefault(_stream(shape), len(self._streams)) for shape in work.shapes]
        self.stream: Int32 = np.array(codes, np.int32)[self.shape]
        self.device = np.array([-1 if one["device"] is None else one["device"] for one in work.shapes])[self.shape]
        self.kind: AnyArray = np.array([one["kind"] for one in work.shapes])[self.shape]
        self.why: Int8 = np.zeros(len(order), np.int8)
        self.before: Int64 = np.full(len(order), -1, np.int64)
        self._released: Int64 = np.full(len(order), _NEVER, np.int64)
        self._know_causes(work, events, order)

    def __len__(self) -> int:
        return len(self.begin)

    def _know_causes(self, work: Work, events: Events, order: Int64) -> None:
        """Takes over the causes of gaps."""
        place, places = events.places
        launching, gaps = launching_of(work, events), gaps_of(events, place, len(places))
        gap, cause = events.ts.copy(), np.full(len(order), NO_GAP, np.int8)
        gap[gaps.after] = gaps.begin
        cause[gaps.after] = causes_of(gaps, work, events, launching)[0]
        self.place: Int32 = place[order]
        self.gap: Int64 = gap[order]
        self.cause: Int8 = cause[order]
        self.usual: Int64 = launching.usual[self.place]
        self.latency: Int64 = np.where(launching.samples >= SAMPLES, launching.latency, -1)[self.place]
        self.limit: Int64 = launching.limit[order]
        self.may_wait: Bools = launching.may_wait[order]
        self.unseen: Bools = launching.unseen[order] & (self.begin - self.call_end > self.limit)
        self.unseen |= launching.unseen[order] & ~self.launched

    def stream_of(self, host: str | None, pid: int | None, device: int | None, stream: int | None) -> int:
        """The number of a stream, -1 if no work ran on it."""
        if stream is None:
            return -1
        for process in (pid, None):
            found = self._streams.get((host, process, device, stream, None))
            if found is not None:
                return found
        alike = [number for key, number in self._streams.items() if key[0] == host and key[2:4] == (device, stream)]
        return alike[0] if len(alike) == 1 else -1

    def only_stream(self, stream: int) -> int:
        """The number of the stream that the source calls so, -1 if there are several on devices, or none."""
        alike = [number for key, number in self._streams.items() if key[3] == stream]
        return alike[0] if len(alike) == 1 else -1

    def last_launched(self, stream: Int64, until: Int64) -> Int64:
        """The last work whose call on a stream began before a time; -1 where there is none."""
        rows = np.flatnonzero(self.launched)
        found = latest(self.stream[rows], self.call_begin[rows], stream, until)
        return np.where((found >= 0) & (stream >= 0), rows[found], -1) if len(rows) else found

    def first_launched(self, stream: Int64, after: Int64) -> Int64:
        """The first work whose call on a stream began after a time; -1 where there is none."""
        rows = np.flatnonzero(self.launched)[::-1]
        found = latest(self.stream[rows], -self.call_begin[rows], stream, -after)
        return np.where((found >= 0) & (stream >= 0), rows[found], -1) if len(rows) else found

    def connect(self, waiting: Int64, awaited: Int64) -> None:
        """Finds what allowed each piece of work to begin; `waiting` had to wait for `awaited`, because of an event."""
        every = np.arange(len(self))
        by_stream = np.argsort(self.stream, kind="stable")
        same = np.append(False, self.stream[by_stream][1:] == self.stream[by_stream][:-1])
        previous = np.full(len(self), -1, np.int64)
        previous[by_stream[1:]] = np.where(same[1:], by_stream[:-1], -1)
        together = self.launched & (previous >= 0) & (self.call[previous] == self.call)
        self._offer(every, np.where(together, -1, previous))
        inner = np.flatnonzero(together | self._later_of_call())  # of a graph, whose order isn't that of a stream
        for group in (self.stream, self.call):
            self._offer(inner, self._ended(group, inner))
        self._offer(waiting, np.where(self.end[awaited] <= self.begin[waiting], awaited, -1))
        explained = np.isin(every, waiting) & np.isin(self.before, awaited)
        first = np.minimum(self.call_begin, self.begin) > self._released
        first = np.where(self._later_of_call(), np.isin(self.cause, BY_HOST), first | self._by_launch(explained))
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

    def _by_launch(self, explained: Bools) -> Bools:
        """Which work its launch let begin, though the call began before the work that it waited for had ended.

        From that work on it took longer than work that was queued long before, and a launch explains it: its time is
        as near to the usual one. `explained` is work that waited for an event, which takes another time.
        """
        returned = self._released < self.call_end
        after = np.where(self._released == _NEVER, 0, self.begin - self._released)
        queued = self.launched & (self.call_end + self.usual < self._released) & (after <= self.usual)
        late, longer = returned.copy(), np.zeros(len(self), np.int64)
        every = np.ones(len(self), np.bool_)
        for mine in (every, explained, ~explained):
            known = after[mine & queued]
            if len(known) >= SAMPLES:
                usual, most = np.percentile(known, (50, _USUALLY))
                late[mine] = after[mine] > 2 * most - usual
                longer[mine] = after[mine] - int(usual)
        launch = self.begin - self.call_end
        near = np.abs(launch - self.latency) <= np.maximum(longer, self.latency // 2)
        by_launch = (launch <= self.usual) & (near | (self.latency < 0))
        found: Bools = late & (by_launch | np.isin(self.cause, BY_HOST))
        return found

    def other_until(self, work: Int64, since: Int64, until: Int64) -> Int64:
        """The work of another stream of the device that ended last in each time before some work; -1 for none."""
        by_end = np.lexsort((self.begin, self.end))
        found = latest(self.place[by_end], self.end[by_end], self.place[work], until)
        found = np.where(found >= 0, by_end[found], -1) if len(by_end) else found
        there = (found >= 0) & (self.end[found] > since) & (self.stream[found] != self.stream[work])
        return np.where(there, found, -1)

    def _later_of_call(self) -> Bools:
        """Which work isn't the first of its call."""
        rows = np.flatnonzero(self.launched)
        _, first = np.unique(self.call[rows], return_index=True)
        later = self.launched.copy()
        later[rows[first]] = False
        return later

    def _ended(self, group: AnyArray, rows: Int64) -> Int64:
        """The work of the same group that ended last before each of these rows began."""
        by_end = np.lexsort((self.begin, self.end))
        if not len(rows):
            return rows
        found = latest(group[by_end], self.end[by_end], group[rows], self.begin[rows])
        found = np.where(found >= 0, by_end[found], -1)
        return np.where(found < rows, found, -1)  # without duration at the same time

    def _offer(self, rows: Int64, other: Int64) -> None:
        """Lets `rows` begin because of `other` work, -1 for none, where it ended later than what is known so far."""
        mine = (other >= 0) & (other < rows)
        rows, other = rows[mine], other[mine]
        release = np.minimum(self.end[other], self.begin[rows])
        order = np.argsort(-release, kind="stable")
        _, first = np.unique(rows[order], return_index=True)  # the latest of several
        best = order[first]
        rows, other, release = rows[best], other[best], release[best]
        better = release > self._released[rows]
        rows = rows[better]
        self._released[rows], self.before[rows], self.why[rows] = release[better], other[better], WORK


def _stream(shape: dict[str, object]) -> tuple[object, ...]:
    return tuple(shape[name] for name in ("host", "pid", "device", "stream", "track"))


def _processes(work: Work) -> Int32:
    """The number of the process of each thread."""
    numbers: dict[object, int] = {}
    keys = ((one["source"], one["host"], one["pid"]) for one in work.threads)
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int32)
