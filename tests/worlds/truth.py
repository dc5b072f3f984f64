"""What is true of a world, by plain loops over its schedule.

Truth knows what the file can't say: which moment decided that work began, and what ran outside the recording.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from .programs import LOADER
from .world import WORK, Piece, Record, World

Spans = list[tuple[int, int]]
#: Begin, end, kind and name of a piece of a path.
Stretch = tuple[int, int, str, str]

#: What ktrace calls pieces of the host; and how near, in ns, two things that let work begin are taken for one.
_KINDS, _TIED = {"op": "host operator", "api": "API call"}, 300


def union(spans: Spans) -> Spans:
    """Spans that don't overlap, rising."""
    found: Spans = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        elif end > begin:
            found.append((begin, end))
    return found


def length(spans: Spans) -> int:
    """The time that spans cover together."""
    return sum(end - begin for begin, end in union(spans))


@dataclass(frozen=True)
class Gap:
    """A time in which a device does nothing, the cause, the work after it, and the call that launched that.

    The cause is `launch overhead` (the work was on its way, or right behind other work), `between graph nodes` (the
    same within one launch of a graph), `host synchronised` (without the wait of the host the work would have come in
    time), `host late`, `queued before the recording` or `not recorded`
    (the device wasn't idle: what ran isn't in the file, but its call is), or `unknown` (the call isn't). `host_in` is
    the innermost span of the launching thread in the longest part of the gap until the call.
    """

    begin: int
    end: int
    cause: str
    after: Piece
    call: Piece
    host_in: str = ""

    @property
    def time(self) -> int:
        """How long it is."""
        return self.end - self.begin


@dataclass(frozen=True)
class Step:
    """A step as the host marks it, and from the start of the first to the end of the last work launched in it."""

    name: str
    begin: int
    end: int
    device_begin: int | None
    device_end: int | None
    work: int
    count: int


@dataclass(frozen=True)
class Collective:
    """What ranks do together: the start on each rank, the end, the last rank, what each of the others waits for it."""

    number: int
    begins: tuple[int, ...]
    ends: tuple[int, ...]

    @property
    def last(self) -> int:
        """The rank that begins last."""
        return max(range(len(self.begins)), key=lambda rank: self.begins[rank])

    @property
    def waits(self) -> tuple[int, ...]:
        """How long each rank waits for the last one."""
        return tuple(max(self.begins) - begin for begin in self.begins)


@dataclass(frozen=True)
class Use:
    """A partition of the span of a device: compute, communication and copies without what is before them, idle."""

    span: int
    busy: int
    idle: int
    compute: int
    communication: int
    copies: int
    exposed_communication: int
    exposed_copies: int


class Truth:
    """What is true of a rank of a world, of what is recorded; times are those of the true clock."""

    def __init__(self, world: World, rank: int = 0) -> None:
        self.world, self.rank = world, rank
        self.ahead = world.offsets.get(rank, 0)
        self.records = world.records(rank)
        self.work = [one for one in self.records if one.kind in WORK]
        mine = [one for one in world.pieces if one.rank == rank]
        self._hidden = [world.at(one) for one in mine if one.kind in WORK and not world.is_recorded(one)]
        lost = [world.pieces[one] for one in world.dropped if world.pieces[one].kind in WORK]
        self.lost = [one for one in lost if one.call not in world.dropped]
        self._calls: defaultdict[int, list[tuple[int, int, str, str]]] = defaultdict(list)
        for one in mine:
            if one.kind in _KINDS and one.thread is not None:
                self._calls[one.thread].append((*world.at(one), _KINDS[one.kind], one.name))
        self._spans: defaultdict[int | None, list[tuple[int, int, str]]] = defaultdict(list)
        for one in mine:
            if one.kind in ("op", "api", "range", "step"):
                self._spans[one.thread].append((*world.at(one), one.name))

    def times_by_name(self) -> dict[str, list[int]]:
        """The durations of each kernel, copy and collective."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        for one in self.work:
            found[one.name].append(one.dur)
        return dict(found)

    def use(self) -> Use:
        """How the device is used between its first and its last work."""
        by = {kind: [(one.begin, one.end) for one in self.work if one.kind == kind] for kind in WORK}
        compute, comm, copies = by["kernel"], by["collective"], by["copy"]
        every = compute + comm + copies
        span = max(end for _, end in every) - min(begin for begin, _ in every)
        busy = length(every)
        over = length(compute), length(compute + comm)
        return Use(span, busy, span - busy, over[0], length(comm), length(copies), over[1] - over[0], busy - over[1])

    def gaps(self) -> list[Gap]:
        """The gaps of the device, and what decided each."""
        found: list[Gap] = []
        reached: Record | None = None
        for one in sorted(self.work, key=lambda one: one.begin):
            if reached is not None and one.begin > reached.end:
                found.append(self._gap(reached.end - self.ahead, one))
            if reached is None or one.end > reached.end:
                reached = one
        return found

    def _gap(self, begin: int, after: Record) -> Gap:
        world, graph = self.world, self.world.graph
        piece = world.pieces[after.piece]
        assert piece.call is not None
        call = world.pieces[piece.call]
        end = after.begin - self.ahead
        if self._unseen(self._hidden, begin, end) * 2 > end - begin:
            return Gap(begin, end, "queued before the recording", piece, call)
        if piece.call in world.dropped:
            return Gap(begin, end, "unknown", piece, call)
        if self._unseen([world.at(one) for one in self.lost if (one.call or 0) <= piece.call], begin, end):
            return Gap(begin, end, "not recorded", piece, call)
        edge = graph.binding(piece.begin, world.times)
        if (edge is not None and edge.why != "launch") or world.times[call.begin] <= begin:
            return Gap(begin, end, self._between(piece), piece, call)
        cause = "host synchronised" if self._synchronised(call, begin) else "host late"
        return Gap(begin, end, cause, piece, call, self._host_in(call, begin))

    def _between(self, piece: Piece) -> str:
        """What the time between work and the work that it waited for is."""
        call = self.world.pieces[piece.call or 0]
        inner = "Graph" in call.name and piece is not self._first_of_call[piece.call]
        return "between graph nodes" if inner else "launch overhead"

    @cached_property
    def _first_of_call(self) -> dict[int | None, Piece]:
        """The work of each call that began first."""
        times = self.world.times
        work = sorted((one for one in self.world.pieces if one.kind in WORK), key=lambda one: -times[one.begin])
        return {one.call: one for one in work}

    def _unseen(self, hidden: Spans, begin: int, end: int) -> int:
        """How long work that isn't recorded ran in a gap."""
        return length([(max(begin, one), min(end, other)) for one, other in hidden if one < end and other > begin])

    def _synchronised(self, call: Piece, begin: int) -> bool:
        """Whether the call would have come before the gap if the host hadn't waited for the device."""
        graph, times = self.world.graph, self.world.times
        moment = call.begin
        while times[moment] > begin:
            edge = graph.binding(moment, times)
            if edge is None:
                return False
            if edge.why == "sync":
                called = graph.edges[moment][0]
                wait = times[moment] - times[called.moment]
                return wait >= times[call.end] - begin
            moment = edge.moment
        return False

    def _host_in(self, call: Piece, begin: int) -> str:
        """What the launching thread was in for the longest part of a gap."""
        until = self.world.times[call.begin]
        spans = [one for one in self._spans[call.thread] if one[0] < until and one[1] > begin]
        cuts = sorted({begin, until, *(min(max(at, begin), until) for one in spans for at in one[:2])})
        there: defaultdict[str, int] = defaultdict(int)
        for low, high in pairwise(cuts):
            inside = [(one[0], -one[1], one[2]) for one in spans if one[0] <= low and one[1] >= high]
            there[max(inside)[2] if inside else ""] += high - low
        return max(there, key=lambda name: there[name]) if there else ""

    def steps(self) -> list[Step]:
        """The steps that are recorded whole."""
        found = []
        for one in self.records:
            if one.kind != "step":
                continue
            mine = self._within(one.begin, one.end)
            begins, ends = [work.begin for work in mine], [work.end for work in mine]
            total = sum(work.dur for work in mine)
            bounds = min(begins, default=None), max(ends, default=None)
            found.append(Step(one.name, one.begin, one.end, *bounds, total, len(mine)))
        return found

    def work_of(self, step: Step) -> list[Record]:
        """The work of a step, in the order of its starts."""
        return sorted(self._within(step.begin, step.end), key=lambda one: one.begin)

    def _within(self, begin: int, end: int) -> list[Record]:
        return [one for one in self.work if begin <= self._called(one) < end]

    def _called(self, work: Record) -> int:
        call = self.world.pieces[self.world.pieces[work.piece].call or 0]
        return self.world.times[call.begin] + self.ahead

    def path(self, said: Sequence[Stretch] = (), *, steps: bool = False) -> list[Stretch]:
        """The critical path, rising: begin, end, kind as ktrace calls it, and name ("" between calls).

        It leads from the end of all back to its begin; with `steps`, through the recorded steps, by the clock of the
        rank. Where two things let work begin within `_TIED`, which the file can't tell, that which is `said` is taken.
        """
        world, times = self.world, self.world.times
        moment, since = max(range(len(times)), key=lambda one: times[one]), 0
        if steps:
            known = [world.pieces[one.piece] for one in self.records if one.kind == "step"]
            mine = [world.pieces[one.piece] for one in self.work if self._in_steps(world.pieces[one.piece], known)]
            moment, since = (
                max((one.end for one in (*mine, known[-1])), key=lambda one: times[one]),
                times[known[0].begin],
            )
        decided = {(end - self.ahead, kind): begin - self.ahead for begin, end, kind, _ in said}
        found: list[Stretch] = []
        thread = 1
        while times[moment] > since:
            piece = self._of_work_end.get(moment)
            if piece is not None:
                moment = self._through(piece, since, decided, found)
                thread = self._thread_of.get(moment, thread)
                continue
            edge = world.graph.binding(moment, times)
            if edge is None:
                break
            before = self._of_work_end.get(edge.moment)
            if edge.why == "sync" and before is not None and not world.is_recorded(before):
                edge = world.graph.edges[moment][0]  # what the host waited for isn't in the file
            if edge.why == "hand" and self._of_loader(edge.moment):
                edge = world.graph.edges[moment][0]
            thread = self._thread_of.get(moment, thread)
            found += self._host_stretches(thread, max(times[edge.moment], since), times[moment])
            moment = edge.moment
        found = [(begin + self.ahead, end + self.ahead, kind, name) for begin, end, kind, name in found if end > begin]
        return sorted(found)

    def _in_steps(self, work: Piece, steps: Sequence[Piece]) -> bool:
        times, call = self.world.times, self.world.pieces[work.call or 0]
        return times[steps[0].begin] <= times[call.begin] < times[steps[-1].end]

    @cached_property
    def _of_work_end(self) -> dict[int, Piece]:
        return {one.end: one for one in self.world.pieces if one.kind in WORK and one.rank == self.rank}

    @cached_property
    def _thread_of(self) -> dict[int, int]:
        """The thread of each moment at which a call, an operator or a range ends."""
        return {one.end: one.thread for one in self.world.pieces if one.thread is not None and one.rank == self.rank}

    def _through(self, work: Piece, since: int, decided: Mapping[tuple[int, str], int], found: list[Stretch]) -> int:
        """Adds work, and the delay before it; returns the moment before."""
        world, times = self.world, self.world.times
        begin = times[work.begin]
        found.append((max(begin, since), times[work.end], "kernel" if work.kind == "kernel" else work.kind, work.name))
        edge = world.graph.binding(work.begin, times)
        assert edge is not None
        for other in world.graph.edges[work.begin]:
            kind = "launch delay" if other.why == "launch" else self._between(work)
            tied = times[other.moment] + other.lag >= begin - _TIED
            if tied and decided.get((begin, kind)) == max(times[other.moment], since):
                edge = other
        before = self._of_work_end.get(edge.moment)
        if before is not None and not world.is_recorded(before):
            found.append((since, begin, "queued before the recording", ""))
            return 0  # a moment at the start of all
        kind = "launch delay" if edge.why == "launch" else self._between(work)
        found.append((max(times[edge.moment], since), begin, kind, kind))
        return edge.moment

    def _host_stretches(self, thread: int, begin: int, end: int) -> list[Stretch]:
        """What a thread was in: its innermost operator or call."""
        spans = [one for one in self._calls[thread] if one[0] < end and one[1] > begin]
        cuts = sorted({begin, end, *(at for one in spans for at in one[:2] if begin < at < end)})
        found = []
        for low, high in pairwise(cuts):
            inside = [(one[0], -one[1], one[2], one[3]) for one in spans if one[0] <= low and one[1] >= high]
            *_, kind, name = max(inside, default=(0, 0, "between calls", ""))
            found.append((low, high, kind, name))
        return found

    def _of_loader(self, moment: int) -> bool:
        return any(one.thread == LOADER and one.end == moment and one.kind == "op" for one in self.world.pieces)


def collectives(world: World) -> list[Collective]:
    """The collectives that are recorded on all ranks, in true time."""
    found: defaultdict[int, dict[int, tuple[int, int]]] = defaultdict(dict)
    for number, piece in enumerate(world.pieces):
        if piece.kind == "collective" and number not in world.dropped and world.is_recorded(piece):
            found[piece.number or 0][piece.rank] = world.at(piece)
    whole = {number: mine for number, mine in sorted(found.items()) if len(mine) == world.shape.ranks}
    return [
        Collective(number, *(tuple(mine[rank][end] for rank in range(world.shape.ranks)) for end in (0, 1)))
        for number, mine in whole.items()
    ]


def waited_for(world: World) -> dict[int, int]:
    """How long the others waited for each rank, all collectives together."""
    found = dict.fromkeys(range(world.shape.ranks), 0)
    for one in collectives(world):
        if sorted(one.begins)[-1] != sorted(one.begins)[-2]:
            found[one.last] += sum(one.waits)
    return found
