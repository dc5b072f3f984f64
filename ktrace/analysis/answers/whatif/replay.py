"""Replays a graph: when each moment comes, how long steps take then, and what decides that.

moment   waits for    lag              replayed
5        3            2,400            7,200 + 2,400 = 9,600
         4              900            8,900 +   900 = 9,800    the later one decides
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ktrace.analysis.answers.whatif.graph import Edges, Graph, Period
from ktrace.model.arrays import Int64

#: Before all times.
_NEVER = -(1 << 62)


class Replay(NamedTuple):
    """When each moment came, and the edge that decided it, -1 where nothing did."""

    time: Int64
    decided: Int64


def replay(graph: Graph, edges: Edges) -> Replay:
    """Replays a graph with these edges."""
    waits = np.ones(len(graph.time), np.bool_)
    waits[edges.dst] = False
    times = np.where(waits, graph.time, _NEVER).tolist()
    decided = [-1] * len(times)
    columns = (column.tolist() for column in (edges.dst, edges.src, edges.lag))
    for edge, (dst, src, lag) in enumerate(zip(*columns, strict=True)):
        at = times[src] + lag
        if at > times[dst]:
            times[dst], decided[dst] = at, edge
    return Replay(np.array(times, np.int64), np.array(decided, np.int64))


def step_times(time: Int64, periods: list[Period]) -> tuple[Int64, Int64]:
    """When each step of a course begins and ends: it ends with its work, and begins when the one before has ended."""
    begins, ends = np.zeros((2, len(periods)), np.int64)
    done = _NEVER
    for number, one in enumerate(periods):
        begins[number] = max(int(time[one.begins].min()), done)
        done = ends[number] = max(int(time[one.ends].max()), int(begins[number]))
    return begins, ends


def path_back(again: Replay, edges: Edges, moment: int, since: int) -> Iterator[tuple[int, int]]:
    """What decided when a moment came, back to a time: each edge (-1: nothing known) with its time."""
    time, decided = again.time, again.decided
    while time[moment] > since:
        edge = int(decided[moment])
        before = int(edges.src[edge]) if edge >= 0 else -1
        begin = max(int(time[before]), since) if edge >= 0 else since
        yield edge, int(time[moment]) - begin
        if edge < 0:
            return
        moment = before
