"""When things happen: moments, each as late as the last thing that it waits for, plus what that takes.

    moment   waits for                          lag
    3        1 (the call has returned)          2,400 ns until the device gets it
             2 (the kernel before has ended)      900 ns between kernels

Nothing is decided while time passes, so the same graph with other lags is the same run with faster or slower parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Edge(NamedTuple):
    """What a moment waits for, how long after that it can be, and what kind of waiting that is."""

    moment: int
    lag: int
    why: str


class Graph:
    """Moments in an order in which each waits only for earlier ones."""

    def __init__(self) -> None:
        self.edges: list[list[Edge]] = []

    def add(self, *edges: Edge) -> int:
        """A further moment. Without edges it is at 0."""
        self.edges.append(list(edges))
        return len(self.edges) - 1

    def after(self, moment: int, lag: int, why: str = "host") -> int:
        """A moment this long after another."""
        return self.add(Edge(moment, lag, why))

    def times(self, lags: Mapping[int, int] | None = None) -> list[int]:
        """The time of each moment; `lags` are others for the first edge of moments, and all like it."""
        times: list[int] = []
        for moment, edges in enumerate(self.edges):
            if lags and moment in lags:
                other, why = lags[moment], edges[0].why
                times.append(max(times[edge.moment] + (other if edge.why == why else edge.lag) for edge in edges))
            else:
                times.append(max([times[before] + lag for before, lag, _ in edges], default=0))
        return times

    def binding(self, moment: int, times: list[int]) -> Edge | None:
        """What a moment waited for last: the edge that decided its time."""
        found = [edge for edge in self.edges[moment] if times[edge.moment] + edge.lag == times[moment]]
        return found[0] if found else None
