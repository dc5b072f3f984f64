"""What is true of a world, by plain loops over its schedule.

Truth knows what the file can't say: which moment decided that work began, and what ran outside the recording.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

from .programs import LOADER
from .world import WORK, Piece, Record, World

Spans = list[tuple[int, int]]


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

    The cause is `launch overhead` (the work was on its way, or right behind other work), `host synchronised` (without
    the wait of the host the work would have come in time), `host late`, `queued before the recording` or `not recorded`
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
    """A step as the host marks it, and from the begin of the first to the end of the last work launched in it."""

    name: str
    begin: int
    end: int
    device_begin: int | None
    device_end: int | None
    work: int
    count: int


@dataclass(frozen=True)
class Collective:
    """What ranks do together: the begin on each rank, the end, the last rank, what each of the others waits for it."""

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
        self._lost = [one for one in lost if one.call not in world.dropped]
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
        if self._unseen([world.at(one) for one in self._lost if (one.call or 0) <= piece.call], begin, end):
            return Gap(begin, end, "not recorded", piece, call)
        edge = graph.binding(piece.begin, world.times)
        if (edge is not None and edge.why != "launch") or world.times[call.begin] <= begin:
            return Gap(begin, end, "launch overhead", piece, call)
        cause = "host synchronised" if self._synchronised(call, begin) else "host late"
        return Gap(begin, end, cause, piece, call, self._host_in(call, begin))

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
            mine = [work for work in self.work if one.begin <= self._called(work) < one.end]
            begins, ends = [work.begin for work in mine], [work.end for work in mine]
            total = sum(work.dur for work in mine)
            bounds = min(begins, default=None), max(ends, default=None)
            found.append(Step(one.name, one.begin, one.end, *bounds, total, len(mine)))
        return found

    def _called(self, work: Record) -> int:
        call = self.world.pieces[self.world.pieces[work.piece].call or 0]
        return self.world.times[call.begin] + self.ahead

    def path(self) -> list[tuple[int, int, str, str]]:
        """The critical path from the end of all back to its begin: begin, end, kind and name of each piece.

        Kinds are kernel, copy, collective, api, host (between calls, or in an operator), launch, between (work of a
        stream, or after an event) and return (from the end of work to the return of the wait).
        """
        world, graph, times = self.world, self.world.graph, self.world.times
        of_end = {one.end: one for one in world.pieces if one.kind in (*WORK, "api")}
        moment = max(range(len(times)), key=lambda one: times[one])
        found: list[tuple[int, int, str, str]] = []
        words = {"launch": "launch", "stream": "between", "event": "between", "sync": "return", "queue": "return"}
        while (edge := graph.binding(moment, times)) is not None:
            if edge.why == "hand" and self._of_loader(edge.moment):
                edge = graph.edges[moment][0]
            piece = of_end.get(moment)
            kind, name = words.get(edge.why, "host"), ""
            if piece is not None and edge.why in ("work", "host"):
                kind, name = piece.kind, piece.name
            begin, end = times[edge.moment], times[moment]
            if end > begin:
                found.append((begin, end, kind, name))
            moment = edge.moment
        return found[::-1]

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
