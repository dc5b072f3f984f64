"""Changes of a graph: which edges are shorter, gone or others, so that its replay tells what the change would save.

--scale gemm=0.5    RUN of this work half as long
--overlap nccl      STREAM from this work leads past it: what is next on its stream follows what was before it
--graph             HOST and LAUNCH between the launches of a stretch take no time
--no-sync           SYNC is gone: calls return without waiting
--loader 0          HOST and LOADER take this part of the time in which data was loaded
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import numpy as np

from ktrace.analysis.answers.whatif.graph import (
    HOST,
    LAUNCH,
    LOADER,
    RUN,
    STREAM,
    SYNC,
    WAIT,
    Edges,
    Graph,
    in_order,
    joined,
    taken,
)
from ktrace.analysis.work.device_work import Work
from ktrace.analysis.work.question import kernel_of
from ktrace.errors import UsageError
from ktrace.model.arrays import Bools, Int64
from ktrace.naming.alike import did_you_mean

#: The greatest factor.
MOST_FACTOR = 1_000_000


@dataclass(frozen=True)
class Changes:
    """What would be otherwise, as the options of `ktrace whatif` say it.

    `scale` has factors by operation, or part of a kernel's name: {"gemm": 0.5} takes half as long.
    """

    scale: Mapping[str, float] = field(default_factory=dict)
    overlap: tuple[str, ...] = ()
    graph: bool = False
    no_sync: bool = False
    loader: float | None = None

    def __post_init__(self) -> None:
        for factor in (*self.scale.values(), 0 if self.loader is None else self.loader):
            if not 0 <= factor <= MOST_FACTOR:
                raise UsageError(f"{factor} isn't a factor", expected=f"0 to {MOST_FACTOR:,}")

    def each(self) -> Iterator[tuple[str, Changes]]:
        """Each change alone, with the option that asks for it."""
        for name, factor in self.scale.items():
            yield f"--scale {name}={factor:g}", Changes(scale={name: factor})
        for name in self.overlap:
            yield f"--overlap {name}", Changes(overlap=(name,))
        if self.graph:
            yield "--graph", Changes(graph=True)
        if self.no_sync:
            yield "--no-sync", Changes(no_sync=True)
        if self.loader is not None:
            yield f"--loader {self.loader:g}", Changes(loader=self.loader)

    def cases(self) -> list[tuple[str, Changes]]:
        """Each change alone, and all together where there are several."""
        cases = [*self.each()]
        return [*cases, ("all together", self)] if len(cases) > 1 else cases


class Matches:
    """Which shapes of work an operation or a part of a name stands for."""

    def __init__(self, work: Work) -> None:
        self._operations = work.operations
        self._names = [(kernel_of(shape), str(shape["name"])) for shape in work.shapes]

    def find(self, pattern: str) -> Bools:
        """The shapes with this operation; else those with it in their name, or that fit a pattern with stars.

        Raises UsageError if there are none.
        """
        word = pattern.lower()
        matched = np.array([operation == word for operation in self._operations], np.bool_)
        if not matched.any():
            stars = word if "*" in word else f"*{word}*"
            matched = np.array([any(fnmatchcase(name.lower(), stars) for name in names) for names in self._names])
        if not matched.any():
            names = sorted({one for one in self._operations if one} | {short for short, _ in self._names})
            raise UsageError(
                f"no device work is called '{pattern}'",
                expected=f"an operation ({', '.join(sorted({one for one in self._operations if one}))}) or a part of a "
                "kernel's name",
                remedy=did_you_mean(pattern, names) or "ktrace summary IN --by operation,kernel lists them",
            )
        return matched


def changed(graph: Graph, changes: Changes, matches: Matches) -> Edges:
    """The edges of a graph with the changes."""
    edges, lag = graph.edges, graph.edges.lag
    for pattern, factor in changes.scale.items():
        of_these = (edges.kind == RUN) & np.append(matches.find(pattern)[graph.shape], False)[edges.of]
        lag = np.where(of_these, np.rint(lag * factor).astype(np.int64), lag)
    if changes.loader is not None:
        lag = np.where(edges.kind == HOST, lag - np.rint(edges.loading * (1 - changes.loader)).astype(np.int64), lag)
        lag = np.where(edges.kind == LOADER, np.rint(lag * changes.loader).astype(np.int64), lag)
    if changes.graph:
        lag = np.where(edges.issuing & np.isin(edges.kind, (HOST, LAUNCH)), np.minimum(edges.loading, lag), lag)
    edges = edges._replace(lag=lag)
    if changes.no_sync:
        edges = taken(edges, np.flatnonzero(edges.kind != SYNC))
    for pattern in changes.overlap:
        edges = _overlapped(graph, edges, matches.find(pattern)[graph.shape])
    return edges


def _overlapped(graph: Graph, edges: Edges, of_these: Bools) -> Edges:
    """The edges without the order of a stream from the given work to other work, which follows what was before it.

    Who waited for the stream, an event on it or a call, still waits for this work, too.
    """
    order = np.lexsort((graph.time[graph.begin_of], graph.stream))
    stream, is_mine = graph.stream[order], of_these[order]
    last = [_last_so_far(order, stream, which) for which in (is_mine, ~is_mine)]
    before_mine, before_other = (np.empty(len(order), np.int64) for _ in range(2))
    before_mine[order], before_other[order] = last
    piece = np.full(len(graph.time), -1, np.int64)
    piece[graph.begin_of] = np.arange(len(of_these))
    ended = np.full(len(graph.time), -1, np.int64)
    ended[graph.end_of] = np.arange(len(of_these))
    ordered = np.flatnonzero((edges.kind == STREAM) & (edges.of >= 0))
    src, dst = edges.of[ordered], piece[edges.dst[ordered]]
    crosses = ordered[of_these[src] & ~of_these[dst] & (graph.stream[src] == graph.stream[dst])]
    past = _instead(edges, crosses, before_other[piece[edges.dst[crosses]]], graph.end_of)
    waits = np.flatnonzero(np.isin(edges.kind, (SYNC, WAIT)) & (ended[edges.src] >= 0))
    waits = waits[~of_these[ended[edges.src[waits]]]]
    needed = _instead(edges, waits, before_mine[ended[edges.src[waits]]], graph.end_of)
    follows = ordered[of_these[dst] & ~of_these[src]]  # of this work, one is still after another
    after = _instead(edges, follows, before_mine[piece[edges.dst[follows]]], graph.end_of)
    kept = taken(edges, np.setdiff1d(np.arange(len(edges.src)), crosses))
    return in_order(joined((kept, past, needed, after)))


def _last_so_far(order: Int64, stream: Int64, which: Bools) -> Int64:
    """The last of some work before each on its stream, in the order of streams and times; -1 where there is none."""
    at = np.maximum.accumulate(np.where(which, np.arange(len(order)), -1))
    at = np.append(-1, at[:-1])[: len(order)]
    there = (at >= 0) & (stream[at] == stream)
    return np.where(there, order[at], -1)


def _instead(edges: Edges, rows: Int64, pieces: Int64, end_of: Int64) -> Edges:
    """Some edges from the end of other pieces of work, without those for which there is none."""
    there = pieces >= 0
    return taken(edges, rows[there])._replace(src=end_of[pieces[there]], of=pieces[there])


def factors_of(scale: Sequence[str]) -> dict[str, float]:
    """The names and factors of `name=factor`. Raises UsageError where one is neither."""
    factors = {}
    for text in scale:
        name, separator, number = text.rpartition("=")
        try:
            factor = float(number)
        except ValueError:
            factor = -1.0
        if not separator or not name or not 0 <= factor <= MOST_FACTOR:
            raise UsageError(f"--scale {text} isn't a name and a factor", expected="gemm=0.5, 0 or more")
        factors[name] = factor
    return factors
