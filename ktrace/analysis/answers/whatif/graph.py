"""The dependency graph of a recording: moments of threads and of device work, and what each waited for.

thread      [ launch ]······[ launch ]·····[ synchronize        ]      HOST    as long after the one before as it was
                └─ LAUNCH ─►[ gemm     ]─STREAM─►[ gelu   ]──SYNC─►    LAUNCH  the call and its latency
                            └── RUN ──►                                RUN     as long as the work took
stream 24                                [ wait for event, copy ]      WAIT    work of another stream, by an event

A moment is as late as the last thing that it waited for, plus the lag of that edge. The lag of what decided is what was
recorded, as long as it is one that a launch, or the way from kernel to kernel, explains. A longer delay is unexplained:
the graph doesn't have it, so that a replay is off by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from ktrace.analysis.answers.whatif.ranks import Together
from ktrace.analysis.questions.critical_path.device import LAUNCH as BY_LAUNCH
from ktrace.analysis.questions.critical_path.device import DeviceWork, Syncs
from ktrace.analysis.questions.critical_path.host_threads import Threads, covered
from ktrace.analysis.questions.critical_path.walk import steps_by_thread
from ktrace.analysis.work.device_work import Work
from ktrace.analysis.work.gaps import HOST_CLASSES, WAITS_FOR_WORKERS
from ktrace.model.arrays import AnyArray, Bools, Int8, Int64
from ktrace.store.joins import Moments, greatest_so_far, group_start_mask, is_among, positions

#: The kinds of edges.
HOST, LOADER, LAUNCH, STREAM, WAIT, SYNC, RUN = range(7)

#: Lags that are assumed where nothing tells: of a launch, between kernels, of a call that needn't wait.
_LATENCY, _BETWEEN, _OWN = 5_000, 1_000, 2_000

#: The longest lag from the end of work to the return of a call that waited for it, and of a wait for the loader that
#: isn't one.
_RETURN, _NO_WAIT = 100_000, 50_000

#: The longest lag from the end of work to that of another stream that waited for it by an event that isn't recorded.
_EVENT = 25_000

#: Work of a stream overlaps the next by so much where times are rounded.
_ROUNDED = 2_000

#: A launch that takes so many ns, and so many times as long as is usual, waited for the queue of its stream.
_LONG_CALL, _TIMES_USUAL = 20_000, 4

#: So many long launches with equally many pieces in the queue tell how long it can be; shorter queues don't.
_FULL, _SHORTEST = 3, 16

#: More than any time of a call.
_ALL = np.iinfo(np.int64).max

#: Synchronisations times streams up to which each waits for all streams.
_MOST_WAITS = 1 << 22


class Edges(NamedTuple):
    """Which moment waits for which, and how long after it it is.

    `of` is the work of RUN, and the work before of STREAM, else -1; `loading` is the part of `lag` on the host that is
    loading data; `issuing` tells that the host is issuing work between two launches.
    """

    src: Int64
    dst: Int64
    lag: Int64
    kind: Int8
    of: Int64
    loading: Int64
    issuing: Bools


def joined(several: Iterable[Edges]) -> Edges:
    """All edges of several."""
    columns: list[AnyArray] = [np.concatenate(column) for column in zip(*several, strict=True)]
    return Edges(*columns)


def taken(edges: Edges, rows: Int64) -> Edges:
    """The edges at these rows."""
    columns: list[AnyArray] = [column[rows] for column in edges]
    return Edges(*columns)


def in_order(edges: Edges) -> Edges:
    """The edges in the order of the moments that wait, without those that wait for later ones."""
    rows = np.flatnonzero(edges.src < edges.dst)
    return taken(edges, rows[np.argsort(edges.dst[rows], kind="stable")])


class Period(NamedTuple):
    """A step, or the whole: it begins with the first of some moments, and ends with the last of others."""

    label: str
    source: str
    begins: Int64
    ends: Int64


class Graph(msgspec.Struct):
    """Moments in an order in which each waits only for earlier ones, with their recorded times.

    `shape` and `stream` are those of each piece of work, `begin_of` and `end_of` its moments. Of its work, `launched`
    pieces have a known call; `inferred` waits between streams are only known by their times; `syncs` calls wait for
    devices; `unwaited_loads` are batches that the host got without a wait, if it got all so; `joint`
    collectives are those that ranks meet in.
    """

    time: Int64
    edges: Edges
    shape: Int64
    begin_of: Int64
    end_of: Int64
    stream: Int64
    periods: list[list[Period]]
    launched: int = 0
    inferred: int = 0
    syncs: int = 0
    unwaited_loads: int = 0
    joint: int = 0

    def unexplained(self) -> Int64:
        """By how much, in ns, each moment is later than what it waited for explains."""
        edges, reached = self.edges, np.full(len(self.time), np.iinfo(np.int64).min)
        np.maximum.at(reached, edges.dst, self.time[edges.src] + edges.lag)
        return np.where(reached == np.iinfo(np.int64).min, 0, np.maximum(self.time - reached, 0))


class _Parts:
    """Edges and moments as they are found, source by source."""

    def __init__(self) -> None:
        self.time: list[Int64] = []
        self.tie: list[AnyArray] = []
        self.place: list[Int64] = []
        self.edges: list[Edges] = []
        self.moments = 0
        self.pieces = 0

    def add_moments(self, time: Int64, tie: AnyArray, place: Int64) -> int:
        """Adds moments; returns the number of the first. Those at the same time are in the order of tie and place."""
        first = self.moments
        self.time.append(time)
        self.tie.append(tie.astype(np.int8))
        self.place.append(place)
        self.moments += len(time)
        return first

    def add(
        self, kind: int, src: Int64, dst: Int64, lag: Int64, of: Int64 | int = -1, loading: Int64 | int = 0,
        issuing: Bools | bool = False,
    ) -> None:  # fmt: skip
        """Adds edges of a kind."""
        count = len(src)
        columns = (np.full(count, kind, np.int8), _full(of, count, np.int64), _full(loading, count, np.int64))
        self.edges.append(Edges(src, dst, np.maximum(lag, 0), *columns, _full(issuing, count, np.bool_)))

    def move(self, first: int, by: int) -> None:
        """Moves the moments from a number on."""
        at = 0
        for number, time in enumerate(self.time):
            if at >= first:
                self.time[number] = time + by
            at += len(time)

    def shorten(self, pieces: Int64, most: Int64) -> None:
        """Lets work run no longer than given by itself: the rest is waiting for others."""
        longest = np.full(self.pieces, np.iinfo(np.int64).max)
        longest[pieces] = most
        for number, one in enumerate(self.edges[:-1]):  # the last ones are those of the waiting
            if len(one.kind) and one.kind[0] == RUN:
                self.edges[number] = one._replace(lag=np.minimum(one.lag, longest[one.of]))


def _full(value: AnyArray | int | bool, count: int, kind: type) -> AnyArray:
    return np.broadcast_to(np.asarray(value, kind), (count,))


def build_graph(work: Work, sources: Sequence[str], ranks: Together | None = None) -> Graph:
    """The graph of all work of some sources and the threads that launched it; `ranks` is what these do together."""
    parts = _Parts()
    built = []
    for source in sources:
        built.append(_Source(work, source, parts))
        if ranks is not None:
            parts.move(built[-1].first_moment, ranks.moves.get(source, 0))
    joint = _meet(parts, dict(zip(sources, built, strict=True)), ranks) if ranks is not None and len(ranks.id) else 0
    time, tie, place = (np.concatenate(one) for one in (parts.time, parts.tie, parts.place))
    order = np.lexsort((place, tie, time))
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    edges = joined(parts.edges)
    edges = in_order(edges._replace(src=number[edges.src], dst=number[edges.dst]))
    shape, begin_of, end_of, stream = (
        np.concatenate([getattr(one, name) for one in built]) for name in ("shape", "begin_of", "end_of", "stream")
    )
    periods = [
        [one._replace(begins=number[one.begins], ends=number[one.ends]) for one in periods]
        for source in built
        for periods in source.periods
    ]
    return Graph(
        time[order],
        edges,
        shape,
        number[begin_of],
        number[end_of],
        stream,
        periods,
        launched=sum(int(np.count_nonzero(one.row >= 0)) for one in built),
        inferred=sum(one.inferred for one in built),
        syncs=sum(one.syncs for one in built),
        unwaited_loads=sum(one.unwaited_loads for one in built),
        joint=joint,
    )


def _meet(parts: _Parts, built: dict[str, _Source], ranks: Together) -> int:
    """Joins the collectives of ranks: each ends so long after the last of its group has begun. Returns their number."""
    begins, ends, pieces = (np.full(len(ranks.id), -1, np.int64) for _ in range(3))
    for source, one in built.items():
        rows = np.flatnonzero(np.array([name == source for name in ranks.source]))
        order = np.argsort(one.device.id_, kind="stable")
        at = positions(ranks.id[rows], one.device.id_[order])
        rows, at = rows[at >= 0], order[at[at >= 0]]
        begins[rows], ends[rows], pieces[rows] = one.begin_of[at], one.end_of[at], one.first_piece + at
    there = np.flatnonzero(pieces >= 0)
    time = np.concatenate(parts.time)
    group = np.unique(ranks.group[there], return_inverse=True)[1]
    last = np.full(group.max(initial=-1) + 1, np.iinfo(np.int64).min)
    np.maximum.at(last, group, time[begins[there]])
    lag = time[ends[there]] - last[group]
    fits = np.ones(len(last), np.bool_)
    fits[group[lag < 0]] = False  # one had ended before another began: clocks, or another collective
    hubs = parts.add_moments(last, np.full(len(last), 3), np.full(len(last), -1))
    met = fits[group]
    there, group, lag = there[met], group[met], lag[met]
    parts.add(WAIT, begins[there], hubs + group, np.zeros(len(there), np.int64))
    parts.add(RUN, hubs + group, ends[there], lag, pieces[there])
    parts.shorten(pieces[there], lag)
    return int(np.count_nonzero(fits))


class _Source:
    """The moments and edges of one source."""

    def __init__(self, work: Work, source: str, parts: _Parts) -> None:
        gathered = work.gathered
        self._parts, self._spans, self._names = parts, gathered.spans, gathered.spans.names
        self.device, self.threads = DeviceWork(work, work.for_source(source)), Threads(gathered, source)
        waits = Syncs(gathered, source, self.threads, self.device)
        self.device.connect(waits.waiting, waits.awaited)
        self._waiting, self._awaited = waits.waiting, waits.awaited
        self._steps = steps_by_thread(gathered, source)
        self.device.end = _without_overlap(self.device)
        device = self.device
        self.first_piece, self.first_moment = parts.pieces, parts.moments
        parts.pieces += len(device)
        self.shape = device.shape.astype(np.int64)
        self.stream = device.stream + (np.int64(len(parts.tie)) << 32)  # those of each source are others
        pieces = np.arange(len(device))
        self.begin_of = parts.add_moments(device.begin, np.full(len(device), 2), pieces) + pieces
        self.end_of = parts.add_moments(device.end, np.where(device.end > device.begin, 0, 3), pieces) + pieces
        self.row = np.full(len(device), -1, np.int64)
        launched = np.flatnonzero(device.launched)
        self.row[launched] = self.threads.row_of(device.call_ids[device.call[launched]])
        self.inferred = self.unwaited_loads = 0
        self._syncs = waits.rows()
        self.syncs = len(self._syncs)
        self._host()
        self._run()
        self._launches()
        self._streams()
        self._events()
        self._queues()
        self.periods = [*self._periods(source)]

    # The host

    def _host(self) -> None:
        """The moments of threads: calls that launch or wait, steps, and where another thread goes on."""
        threads = self.threads
        loading = self._matching(HOST_CLASSES["data loading"].search)
        workers = np.flatnonzero(loading & self._matching(WAITS_FOR_WORKERS.search))
        rows = np.unique(np.concatenate([self.row[self.row >= 0], np.array([*self._syncs], np.int64), workers]))
        ts, end, thread = threads.ts[rows], threads.end[rows], threads.thread[rows].astype(np.int64)
        steps = [(one, step) for one, several in self._steps.items() if one >= 0 for step in several]
        of_steps = np.array([one for one, _ in steps for _ in range(2)], np.int64)
        bounds = np.array([at for _, step in steps for at in (step.begin, step.end)], np.int64)
        hops = [(one, at, to) for one, moments in threads.hops().items() for at, to in moments]
        hop_thread, hop_at, hop_from = (
            np.array(one, np.int64) for one in (zip(*hops, strict=True) if hops else ([],) * 3)
        )
        count, begun = len(rows), 2 * len(rows)
        time = np.concatenate([ts, end, bounds, hop_at])
        of = np.concatenate([thread, thread, of_steps, hop_thread])
        tie = np.concatenate(
            [np.full(count, 2), np.where(end > ts, 0, 3), np.tile([2, 0], len(steps)), np.ones(len(hops))]
        )
        order = np.lexsort((tie, time, of))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        first = self._parts.add_moments(time, np.ones(len(time)), place)
        self._rows, self._row_moments = rows, (first, first + count)
        self._step_moments = first + begun
        own_time = self._own_times()
        own_time[self._wait_for_workers(workers)] = _OWN
        self._chain(order, first, time, of, np.concatenate([own_time, np.zeros(len(hops), np.int64)]), loading)
        self._hop(order, first, time, of, begun + len(bounds) + np.arange(len(hops)), hop_from)

    def _matching(self, test: Callable[[str], object]) -> Bools:
        """Which rows of threads have a name that passes."""
        passes: Bools = self._spans.named(test)[self.threads.names]
        return passes

    def _chain(self, order: Int64, first: int, time: Int64, of: Int64, own_time: Int64, loading: Bools) -> None:
        """The edges along threads: the time of the host from moment to moment.

        `own_time` is that of calls, and then of places where a thread goes on, without what they wait for.
        """
        here, before = order[1:], order[:-1]
        same = of[here] == of[before]
        here, before = here[same], before[same]
        count = len(self._rows)
        most = np.full(len(time), _ALL)
        most[count : 2 * count] = own_time[:count]
        most[len(time) - len(own_time) + count :] = own_time[count:]
        waits = most[here] < _ALL
        lag = np.minimum(time[here] - time[before], most[here])
        loaded = np.where(waits, 0, self._loaded(of[here], time[before], time[here], loading))
        self._inside = self._issued(order, of, most < _ALL, count)
        self._parts.add(HOST, first + before, first + here, lag, loading=loaded, issuing=self._inside[here])

    def _loaded(self, thread: Int64, begin: Int64, end: Int64, loading: Bools) -> Int64:
        """How much of each stretch on a thread is loading data."""
        spans = np.flatnonzero(loading & (self.threads.end > self.threads.ts))
        spans = spans[~self._launches_kernels(spans)]
        loaded = np.zeros(len(thread), np.int64)
        for one in np.unique(self.threads.thread[spans]).tolist():
            slices = spans[self.threads.thread[spans] == one]
            slices = slices[np.argsort(self.threads.ts[slices], kind="stable")]
            reached = np.maximum.accumulate(self.threads.end[slices])
            since = np.maximum(self.threads.ts[slices], np.append(np.iinfo(np.int64).min, reached[:-1]))
            there = np.flatnonzero(reached > since)
            rows = np.flatnonzero(thread == one)
            upto = [covered(since[there], reached[there], at[rows]) for at in (begin, end)]
            loaded[rows] = upto[1] - upto[0]
        return loaded

    def _launches_kernels(self, spans: Int64) -> Bools:
        """In which slices of the host kernels are launched: those do more than load data."""
        kernels = np.flatnonzero(self.device.launched & ~self.device.is_copy)
        thread, ts = self.device.thread[kernels].astype(np.int64), self.device.call_begin[kernels]
        order = np.lexsort((ts, thread))
        calls = Moments(thread[order], ts[order])
        of = self.threads.thread[spans].astype(np.int64)
        return calls.last(of, self.threads.end[spans]) > calls.last(of, self.threads.ts[spans])

    def _issued(self, order: Int64, of: Int64, waits: Bools, count: int) -> Bools:
        """Which moments are after the first launch of a stretch, up to its last.

        A stretch ends with a call that `waits`, a step, or loading. The first `count` moments are the begins of calls,
        and as many then their ends.
        """
        is_launch = np.isin(self._rows, self.row[self.row >= 0])
        launching = np.zeros(len(of), np.bool_)
        launching[: 2 * count] = np.tile(is_launch, 2)
        breaks = waits | ~launching
        stretch = np.cumsum(breaks[order] | group_start_mask((of[order],)))
        at, ends = np.arange(len(order)), launching & ~waits
        last, first = np.full((2, stretch.max(initial=0) + 1), -1)
        np.maximum.at(last, stretch[launching[order]], at[launching[order]])
        ends[:count] = False
        first[:] = len(order)
        np.minimum.at(first, stretch[ends[order]], at[ends[order]])
        inside = np.zeros(len(of), np.bool_)
        inside[order] = (at > first[stretch]) & (at <= last[stretch])
        return inside

    def _own_times(self) -> Int64:
        """The own time of calls that wait, without the wait; of others the greatest number."""
        threads, rows = self.threads, self._rows
        own_time = np.full(len(rows), _ALL)
        dur = threads.end[rows] - threads.ts[rows]
        waits = np.isin(rows, np.array([*self._syncs], np.int64))
        awaited, sync = self._awaited_by_calls(rows[waits])
        self._add_syncs(np.flatnonzero(waits), awaited, sync, own_time, dur)
        return own_time

    def _awaited_by_calls(self, rows: Int64) -> tuple[Int64, Int64]:
        """The work that each call waits for, as pairs: the work, and which of the rows."""
        device, threads = self.device, self.threads
        target, stream, of_device = (
            (np.array(one, np.int64) for one in zip(*(self._syncs[row] for row in rows.tolist()), strict=True))
            if len(rows)
            else (rows,) * 3
        )
        begin, end = threads.ts[rows], threads.end[rows]
        every = np.arange(len(rows))
        last = device.last_launched(stream, begin)
        pairs = [(np.where(target >= 0, target, last), every)]
        streams = np.unique(device.stream)
        unknown = np.flatnonzero((target < 0) & (stream == -1))
        named = np.array([_is_of_stream(self._names[name]) for name in threads.names[rows[unknown]].tolist()], np.bool_)
        process = device.processes[threads.thread[rows]] if len(device.processes) else every
        for one in streams.tolist() if len(unknown) * len(streams) <= _MOST_WAITS else ():
            of_stream = device.last_launched(np.full(len(unknown), one), begin[unknown])
            fits = (of_stream >= 0) & ((of_device[unknown] < 0) | (device.device[of_stream] == of_device[unknown]))
            fits &= np.isin(device.process[of_stream], -1) | (device.process[of_stream] == process[unknown])
            pairs.append((np.where(fits, of_stream, -1), unknown))
        work, call = (np.concatenate(one) for one in zip(*pairs, strict=True))
        there = work >= 0
        work, call = work[there], call[there]
        there = device.end[work] <= end[call]
        work, call = work[there], call[there]
        if named.any():  # a stream, but which: that of the work that ended last during the call, else nothing
            which = np.isin(call, unknown[named])
            order = np.lexsort((device.end[work], call))
            latest = np.zeros(len(call), np.bool_)
            latest[order] = np.append(call[order][1:] != call[order][:-1], True)
            work, call = work[~which | latest], call[~which | latest]
        return work, call

    def _add_syncs(self, waits: Int64, awaited: Int64, call: Int64, own_time: Int64, dur: Int64) -> None:
        """The edges from work to the calls that wait for it; fills in the own times of these calls."""
        device, threads, rows = self.device, self.threads, self._rows[waits]
        end, begin = threads.end[rows], threads.ts[rows]
        done = np.full(len(rows), np.iinfo(np.int64).min)
        np.maximum.at(done, call, device.end[awaited])
        waited = done > begin
        usual_own, usual = _OWN, end[waited] - done[waited]
        if np.count_nonzero(~waited):
            usual_own = int(min(np.median((end - begin)[~waited]), _RETURN))
        lag = int(np.median(usual[usual <= _RETURN])) if np.any(usual <= _RETURN) else usual_own
        late = np.where(waited, end - done, end - begin)
        unexplained = late > _RETURN
        own_time[waits] = np.where(waited | unexplained, np.minimum(usual_own, end - begin), end - begin)
        after = end[call] - device.end[awaited]
        decides = waited[call] & (device.end[awaited] == done[call]) & ~unexplained[call]
        lags = np.where(decides, after, np.minimum(lag, after))
        self._parts.add(SYNC, self.end_of[awaited], self._row_moments[1] + waits[call], lags)

    def _hop(self, order: Int64, first: int, time: Int64, of: Int64, hops: Int64, source: Int64) -> None:
        """The edges to where a thread goes on because another one has come so far."""
        if not len(hops):
            return
        kept = order[~np.isin(order, hops)]
        groups, times = of[kept], time[kept]
        at = Moments(groups, times).last(source, time[hops])
        there = at >= 0
        self._parts.add(HOST, first + kept[at[there]], first + hops[there], time[hops[there]] - times[at[there]])

    def _wait_for_workers(self, workers: Int64) -> Int64:
        """The loader has the next batch as long after the last one as it took, where it was waited for; returns where.

        The places are those among the calls.
        """
        threads = self.threads
        workers = workers[np.lexsort((threads.ts[workers], threads.thread[workers]))]
        before, row = workers[:-1], workers[1:]
        waited = (threads.thread[row] == threads.thread[before]) & (threads.end[before] <= threads.ts[row])
        waited &= threads.end[row] - threads.ts[row] > _NO_WAIT
        self.unwaited_loads = 0 if waited.any() else len(workers)
        before, row = before[waited], row[waited]
        places: Int64 = np.searchsorted(self._rows, row)
        src = self._row_moments[1] + np.searchsorted(self._rows, before)
        self._parts.add(LOADER, src, self._row_moments[1] + places, threads.end[row] - threads.end[before])
        return places

    # The device

    def _run(self) -> None:
        device = self.device
        pieces = self.first_piece + np.arange(len(device))
        self._parts.add(RUN, self.begin_of, self.end_of, device.end - device.begin, pieces)

    def _launches(self) -> None:
        """The edges from calls to work: from the return of the call, or from its begin where work begins within."""
        device = self.device
        rows = np.flatnonzero((self.row >= 0) & ~device.unseen)
        at = np.searchsorted(self._rows, self.row[rows])
        returned = device.call_end[rows] <= device.begin[rows]
        wait = device.begin[rows] - np.where(returned, device.call_end[rows], device.call_begin[rows])
        decides = device.why[rows] == BY_LAUNCH
        usual = [
            int(np.median(wait[one])) if one.any() else _LATENCY for one in (decides & returned, decides & ~returned)
        ]
        usual_here = np.where(returned, usual[0], usual[1])
        late = decides & returned & (wait > device.limit[rows])
        late &= ~self._after_another(rows, late)
        lag = np.where(decides & ~late, wait, np.minimum(usual_here, wait))
        there = device.call_begin[rows] <= device.begin[rows]
        src = np.where(returned, self._row_moments[1] + at, self._row_moments[0] + at)
        issuing = self._inside[len(self._rows) + at] & self._inside[at]
        self._parts.add(LAUNCH, src[there], self.begin_of[rows[there]], lag[there], issuing=issuing[there])

    def _after_another(self, rows: Int64, late: Bools) -> Bools:
        """Which late work began when work of another stream of its device had ended; joins them.

        That is the last that had been launched there when the late work was, as an event tells, or any that ended just
        before.
        """
        device = self.device
        explained = np.zeros(len(rows), np.bool_)
        which = np.flatnonzero(late & device.may_wait[rows])
        late_rows = rows[which]
        begin, limit = device.begin[late_rows], device.limit[late_rows]
        other = device.other_until(late_rows, begin - limit, begin)
        for stream in np.unique(device.stream).tolist() if len(late_rows) else ():
            awaited = device.last_launched(np.full(len(late_rows), stream), device.call_begin[late_rows])
            wait = begin - device.end[awaited]
            there = device.launched[late_rows] & (awaited >= 0) & (device.stream[late_rows] != stream) & (wait >= 0)
            there &= (device.place[awaited] == device.place[late_rows]) & (wait <= np.maximum(limit, _EVENT))
            later = np.where(other >= 0, device.end[other], np.iinfo(np.int64).min) < device.end[awaited]
            other = np.where(there & later, awaited, other)
        there = other >= 0
        self.inferred += int(np.count_nonzero(there))
        src, dst = other[there], late_rows[there]
        self._parts.add(WAIT, self.end_of[src], self.begin_of[dst], device.begin[dst] - device.end[src])
        explained[which[there]] = True
        return explained

    def _streams(self) -> None:
        """The edges from work to the next of its stream, or of its graph."""
        device = self.device
        order = np.lexsort((device.end, device.begin, device.stream))
        stream, end = device.stream[order], device.end[order]
        same = np.append(False, stream[1:] == stream[:-1])
        reached = np.append(np.iinfo(np.int64).min, greatest_so_far(end, (stream,))[:-1])
        follows = np.flatnonzero(same & (reached <= device.begin[order]) & ~device.unseen[order])
        # the work that ended last so far is the one before, mostly; of graphs whose branches overlap it may be earlier
        holder = np.maximum.accumulate(np.where(end >= greatest_so_far(end, (stream,)), np.arange(len(order)), 0))
        src, dst = order[holder[follows - 1]], order[follows]
        by_work = np.flatnonzero((device.before >= 0) & (device.why != BY_LAUNCH) & ~device.unseen)
        before = device.before[by_work]
        there = (device.end[before] <= device.begin[by_work]) & ~is_among(by_work, dst)
        there |= device.stream[before] != device.stream[by_work]
        self._follow(np.append(src, before[there]), np.append(dst, by_work[there]))

    def _follow(self, src: Int64, dst: Int64) -> None:
        """The edges from the end of work to the start of other work."""
        device = self.device
        wait = device.begin[dst] - device.end[src]
        done = np.full(len(device), np.iinfo(np.int64).min)
        np.maximum.at(done, dst, device.end[src])
        decides = (device.why[dst] != BY_LAUNCH) & (device.end[src] == done[dst])
        near = decides & (wait <= device.limit[dst])
        usual = int(np.median(wait[near])) if near.any() else _BETWEEN
        late = decides & ~near
        self._after_another(dst, late)
        lag = np.where(near, wait, np.minimum(usual, wait))
        self._parts.add(STREAM, self.end_of[src], self.begin_of[dst], lag, self.first_piece + src)

    def _events(self) -> None:
        """The edges from work to work of other streams that waited for it by an event."""
        device, src, dst = self.device, self._awaited, self._waiting
        there = device.end[src] <= device.begin[dst]
        src, dst = src[there], dst[there]
        wait = device.begin[dst] - device.end[src]
        decides = (device.why[dst] != BY_LAUNCH) & (device.before[dst] == src)
        near = decides & (wait <= device.limit[dst])
        usual = int(np.median(wait[near])) if near.any() else _BETWEEN
        self._parts.add(WAIT, self.end_of[src], self.begin_of[dst], np.where(near, wait, np.minimum(usual, wait)))

    def _queues(self) -> None:
        """The edges from work to launches that waited until the queue of their stream had a place."""
        device = self.device
        rows = np.flatnonzero(self.row >= 0)
        order = rows[np.lexsort((device.begin[rows], device.call_begin[rows], device.stream[rows]))]
        stream = device.stream[order]
        took = device.call_end[order] - device.call_begin[order]
        long = took > max(_LONG_CALL, _TIMES_USUAL * float(np.median(took)) if len(took) else 0)
        for one in np.unique(stream[long]).tolist():
            of_stream = order[stream == one]
            begins = np.sort(device.begin[of_stream])
            ahead = np.arange(len(of_stream)) - np.searchsorted(begins, device.call_end[of_stream], "right")
            full = long[stream == one] & (ahead >= _SHORTEST)
            depths, counts = np.unique(ahead[full], return_counts=True)
            if not len(depths) or counts.max() < _FULL:
                continue
            depth = int(depths[counts.argmax()])
            self._add_queue(of_stream, full & (ahead == depth), depth + 1)

    def _add_queue(self, of_stream: Int64, full: Bools, depth: int) -> None:
        device = self.device
        src, dst = of_stream[:-depth], of_stream[depth:]
        wait = device.call_end[dst] - device.begin[src]
        there = wait >= 0
        decides = full[depth:]
        usual = int(np.median(wait[decides & there])) if np.any(decides & there) else 0
        lag = np.where(decides, wait, np.minimum(usual, wait))[there]
        places = self._row_moments[1] + np.searchsorted(self._rows, self.row[dst[there]])
        self._parts.add(WAIT, self.begin_of[src[there]], places, lag)

    # The steps

    def _periods(self, source: str) -> Iterator[list[Period]]:
        """The steps of each process with the work that was launched in each; else the whole."""
        device, place, has_steps = self.device, self._step_moments, False
        at = np.where(device.launched, device.call_begin, device.begin)
        for thread, steps in self._steps.items():
            process = int(device.processes[thread]) if thread >= 0 else -1
            here = np.isin(device.process, (process, -1)) | (process < 0)
            periods = []
            for step in steps:
                ends = self.end_of[here & (at >= step.begin) & (at < step.end)]
                begins = ends - len(device)
                if thread >= 0:
                    begins, ends, place = np.array([place]), np.append(ends, place + 1), place + 2
                if len(ends):
                    periods.append(Period(step.label, source, begins, ends))
            if periods:
                has_steps = True
                yield periods
        moments = np.arange(self.first_moment, self._parts.moments)
        if not has_steps and len(moments):
            yield [Period("", source, moments, moments)]


def _without_overlap(device: DeviceWork) -> Int64:
    """The ends of work, those just after the start of the next on its stream at that time."""
    order = np.lexsort((device.end, device.begin, device.stream))
    following = device.begin[order[1:]]
    over = device.end[order[:-1]] - following
    rounded = (device.stream[order[1:]] == device.stream[order[:-1]]) & (over > 0) & (over <= _ROUNDED)
    end = device.end.copy()
    end[order[:-1][rounded]] = np.maximum(following, device.begin[order[:-1]])[rounded]
    return end


def _is_of_stream(name: str) -> bool:
    return "stream" in name.lower()
