"""A world: programs of all ranks carried out on a graph of moments, and what a profiler records of it.

world = build(seed=7)                      # or build(seed=7, ranks=4, plants=[slow_kernel("gemm", 1.1)])
world.records(rank=0)                      # what a file of rank 0 says
world.again({"gemm": 0.9}).span            # the same schedule with a tenth off
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from .graph import Edge, Graph
from .programs import COMM, COMPUTE, COPIES, KERNELS, LOADER, SIDE, Do, Shape, programs, shape_of

#: Between kernels of a stream, after an event of another one, from the end of work to the return of a wait, in ns.
BETWEEN, EVENT, RETURN = 900, 1_400, 2_600
STREAMS = (COMPUTE, COPIES, COMM, SIDE)
#: Kinds of pieces that are work of a device.
WORK = ("kernel", "copy", "collective")


@dataclass(slots=True)
class Piece:
    """Something with a begin and an end (moments), on a thread or on a stream; work has the index of its call."""

    rank: int
    kind: str
    name: str
    begin: int
    end: int
    thread: int | None = None
    stream: int | None = None
    what: str = ""
    correlation: int | None = None
    call: int | None = None
    bytes: int | None = None
    number: int | None = None  #: of a collective: its sequence number; of a wait: the correlation of the record
    source: int | None = None  #: of a wait of a stream: the stream that it waits for


@dataclass(frozen=True, slots=True)
class Record:
    """A piece as a file states it: times in ns."""

    kind: str
    name: str
    begin: int
    end: int
    piece: int
    thread: int | None
    stream: int | None
    what: str
    correlation: int | None
    bytes: int | None
    number: int | None
    source: int | None

    @property
    def dur(self) -> int:
        """How long it takes."""
        return self.end - self.begin


@dataclass
class World:
    """What happened. `since` is when recording begins, `offsets` are of the clocks of ranks, `dropped` lost pieces."""

    shape: Shape
    seed: int
    graph: Graph
    pieces: list[Piece]
    times: list[int]
    since: int = 0
    offsets: Mapping[int, int] = field(default_factory=dict)
    dropped: frozenset[int] = frozenset()

    @property
    def span(self) -> int:
        """From the start of all to the last end."""
        return max(self.times)

    def at(self, piece: Piece) -> tuple[int, int]:
        """Begin and end of a piece, true time."""
        return self.times[piece.begin], self.times[piece.end]

    def again(self, factors: Mapping[str, float]) -> World:
        """The same schedule in which work of a kind (`what`) takes this many times as long."""
        lags = {}
        for piece in self.pieces:
            if piece.kind in WORK and piece.what in factors:
                lags[piece.end] = round(self.graph.edges[piece.end][0].lag * factors[piece.what])
        return replace(self, times=self.graph.times(lags))

    def is_recorded(self, piece: Piece) -> bool:
        """Whether the profiler saw it: not what was called before the recording, or by a worker of the loader."""
        begin = self.pieces[piece.call] if piece.call is not None else piece
        return self.times[begin.begin] >= self.since and piece.thread != LOADER

    def records(self, rank: int = 0) -> list[Record]:
        """What the file of a rank states, in the order of begins, by the clock of the rank."""
        ahead = self.offsets.get(rank, 0)
        found = []
        for number, piece in enumerate(self.pieces):
            if piece.rank == rank and number not in self.dropped and self.is_recorded(piece):
                begin, end = self.at(piece)
                found.append(
                    Record(
                        piece.kind, piece.name, begin + ahead, end + ahead, number, piece.thread, piece.stream,
                        piece.what, piece.correlation, piece.bytes, piece.number, piece.source,
                    )
                )  # fmt: skip
        return sorted(found, key=lambda one: (one.begin, -one.end))


Plant = Callable[[list[list[Do]]], None]


def build(
    seed: int, *, run: int = 0, plants: Iterable[Plant] = (), since: float = 0.0,
    offsets: Mapping[int, int] | None = None, drop: float = 0.0, **shape: object,
) -> World:  # fmt: skip
    """The world of a seed. `run` draws other noise for it, `since` is a part of the time in which hosts launch."""
    made = shape_of(seed, **shape)
    todo = programs(made, seed, run)
    for plant in plants:
        plant(todo)
    world = carried_out(todo, made, seed)
    chance = Random(f"drop {seed} {run}")
    lost = {n for n, one in enumerate(world.pieces) if one.kind in (*WORK, "api") and chance.random() < drop}
    last = max(world.times[one.begin] for one in world.pieces if one.kind == "api" and "Synchronize" not in one.name)
    return replace(world, since=round(since * last), offsets=offsets or {}, dropped=frozenset(lost))


def carried_out(todo: Sequence[Sequence[Do]], shape: Shape, seed: int) -> World:
    """Carries out the programs of all ranks side by side."""
    graph, pieces = Graph(), []
    hosts = [_Host(rank, graph, pieces, shape.depth) for rank in range(len(todo))]
    number = 0
    for together in zip(*todo, strict=True):
        begun = [host.does(one) for host, one in zip(hosts, together, strict=True)]
        if together[0].do == "launch" and together[0].kind == "collective":
            number += 1
            _joined(graph, [pieces[one] for one in begun if one is not None], together, number)
    for host in hosts:
        host.ended()
    return World(shape, seed, graph, pieces, graph.times())


def _joined(graph: Graph, joint: Sequence[Piece], todo: Sequence[Do], number: int) -> None:
    """A collective ends on all ranks when the last has begun, and the transfer is done."""
    for piece, one in zip(joint, todo, strict=True):
        others = [other for other in joint if other is not piece]
        piece.end = graph.add(*(Edge(other.begin, one.dur, "work") for other in (piece, *others)))
        piece.number = number


class _Host:
    """A rank: where its threads and streams are."""

    def __init__(self, rank: int, graph: Graph, pieces: list[Piece], depth: int) -> None:
        self.rank, self.graph, self.pieces, self.depth = rank, graph, pieces, depth
        start = graph.add()
        self.now: dict[int, int] = dict.fromkeys((1, 2, 3), start)
        self.opened: dict[int, list[int]] = {1: [], 2: [], 3: []}
        self.queue: dict[int, list[Piece]] = {stream: [] for stream in STREAMS}
        self.waits: dict[int, list[int]] = {stream: [] for stream in STREAMS}
        self.events: dict[str, tuple[int, list[int], int]] = {}
        self.correlation = 100 + 1_000_000 * rank
        self.first = start

    def does(self, one: Do) -> int | None:
        """Does one thing; returns the index of the work that it launched."""
        found = getattr(self, f"_{one.do}")(one)
        return found if isinstance(found, int) else None

    def add(self, **columns: object) -> int:
        self.pieces.append(Piece(self.rank, **columns))  # type: ignore[arg-type]
        return len(self.pieces) - 1

    def _host(self, one: Do) -> None:
        begin = self.now[one.thread]
        self.now[one.thread] = self.graph.after(begin, one.host)
        if one.name:
            self.add(kind="op", name=one.name, begin=begin, end=self.now[one.thread], thread=one.thread, what=one.what)

    def _open(self, one: Do) -> None:
        begin = self.now[one.thread]
        self.now[one.thread] = self.graph.after(begin, 150)
        self.opened[one.thread].append(self.add(kind=one.kind, name=one.name, begin=begin, end=-1, thread=one.thread))

    def _close(self, one: Do) -> None:
        self.now[one.thread] = self.graph.after(self.now[one.thread], 150)
        self.pieces[self.opened[one.thread].pop()].end = self.now[one.thread]

    def _hand(self, one: Do) -> None:
        before = self.now[one.to]
        self.now[one.to] = self.graph.add(Edge(before, 200, "host"), Edge(self.now[one.thread], 2_000, "hand"))
        if one.name:
            self.add(kind="op", name=one.name, begin=before, end=self.now[one.to], thread=one.to, what="loader")

    def _call(self, name: str, one: Do, *more: Edge) -> int:
        """A call of the host, which may wait for something."""
        self.correlation += 1
        begin = self.now[one.thread]
        end = self.now[one.thread] = self.graph.add(Edge(begin, one.host, "host"), *more)
        where = {"thread": one.thread, "correlation": self.correlation}
        return self.add(kind="api", name=name, begin=begin, end=end, what=one.what, **where)

    def _launch(self, one: Do) -> int:
        return self._launched("cudaMemcpyAsync" if one.kind == "copy" else "cudaLaunchKernel", one, [one])

    def _graph(self, one: Do) -> int:
        works = [Do("launch", name=KERNELS[what], kind="kernel", what=what, dur=dur) for what, dur in one.works]
        return self._launched("cudaGraphLaunch", one, works)

    def _launched(self, name: str, one: Do, works: Sequence[Do]) -> int:
        """A call and the work that it launches, one after another on a stream."""
        stream = one.stream or COMPUTE
        queue, graph, work = self.queue[stream], self.graph, -1
        full = [Edge(queue[-self.depth].begin, 400, "queue")] if len(queue) >= self.depth else []
        call = self._call(name, one, *full)
        awaited = [Edge(end, EVENT, "event") for end in self.waits[stream]]
        edges = [Edge(self.pieces[call].end, one.latency, "launch"), *awaited]
        self.waits[stream] = []
        for each in works:
            if queue:
                edges.append(Edge(queue[-1].end, BETWEEN + len(self.pieces) % 7 * 30, "stream"))
            begin = graph.add(*edges)
            end = graph.after(begin, each.dur, "work")
            work = self.add(
                kind=each.kind, name=each.name, begin=begin, end=end, stream=stream, what=each.what, call=call,
                correlation=self.pieces[call].correlation, bytes=each.bytes,
            )  # fmt: skip
            queue.append(self.pieces[work])
            edges = []
        return work

    def _record(self, one: Do) -> None:
        queue = self.queue[one.stream or 0]
        known = [queue[-1].end] if queue else self.waits[one.stream or 0][:]
        call = self.pieces[self._call("cudaEventRecord", one)]
        self.events[one.key] = call.correlation or 0, known, one.stream or 0

    def _wait(self, one: Do) -> None:
        recorded, ends, source = self.events[one.key]
        call = self.pieces[self._call("cudaStreamWaitEvent", one)]
        self.waits[one.stream or 0] += ends
        where = {"stream": one.stream, "correlation": call.correlation, "number": recorded, "source": source}
        self.add(kind="wait", name="Stream Wait Event", begin=call.begin, end=call.end, **where)

    def _sync(self, one: Do) -> None:
        queues = self.queue.values() if one.stream is None else [self.queue[one.stream]]
        ends = [Edge(queue[-1].end, RETURN, "sync") for queue in queues if queue]
        name = "cudaDeviceSynchronize" if one.stream is None else "cudaStreamSynchronize"
        call = self.pieces[self._call(name, one, *ends)]
        name = "Context Sync" if one.stream is None else "Stream Sync"
        where = {"stream": one.stream, "correlation": call.correlation}
        self.add(kind="sync", name=name, begin=call.begin, end=call.end, **where)

    def ended(self) -> None:
        """Closes what is open."""
        for thread, numbers in self.opened.items():
            for number in numbers:
                self.pieces[number].end = self.now[thread]
