"""Where the spans of a file are shown, from a first look at all of them: processes, tracks, lanes, parents.

A process is one of the resources' (host, pid). Spans of a service overlap: many requests at once, children that run at
the same time. So the tracks of a service are lanes, and a span is in the lane of its parent where it fits there:

    vllm      request 1 ────────────────   request 3 ────
                prefill ── decode ─ decode ─
    vllm 2       request 2 ─────────────────────────
                   prefill ────  decode ── decode ──

48 bytes a span are kept.
"""

from __future__ import annotations

import heapq
from array import array
from typing import Any, NamedTuple

import numpy as np

from ktrace.model.arrays import Int64

from .spans import LIMIT, Span


class Service(NamedTuple):
    """What has tracks of its own: a service in a process. `instance` tells services apart that have no process id."""

    host: str | None
    pid: int | None
    name: str
    instance: str


def service_of(resource: dict[str, Any]) -> Service:
    """The service that a resource describes, by the semantic conventions."""
    host, pid = resource.get("host.name"), resource.get("process.pid")
    if isinstance(pid, str) and pid.isdecimal() and len(pid) < 19:
        pid = int(pid)
    name, instance = resource.get("service.name"), resource.get("service.instance.id")
    return Service(
        host if isinstance(host, str) and host else None,
        pid if type(pid) is int and abs(pid) < LIMIT else None,
        str(name) if name else "spans",
        str(instance) if instance and type(pid) is not int else "",
    )


class Places:
    """Parents, tracks and lanes of all spans. Call `add` for each span, then `arrange`; row numbers count from 0."""

    def __init__(self) -> None:
        self.services: dict[Service, dict[str, Any]] = {}
        self._numbers: dict[Service, int] = {}
        self._columns = {name: array("q") for name in ("key", "parent", "service", "start", "end")}

    def add(self, span: Span) -> None:
        """Adds a span."""
        service = service_of(span.scope.resource)
        number = self._numbers.setdefault(service, len(self._numbers))
        self.services.setdefault(service, {}).update(span.scope.resource)
        parent = hash((span.trace, span.parent)) if span.parent else 0
        values = (hash((span.trace, span.span)), parent, number, span.start, LIMIT if span.end is None else span.end)
        for column, value in zip(self._columns.values(), values, strict=True):
            column.append(value)

    def __len__(self) -> int:
        return len(self.lane)

    def arrange(self) -> None:
        """Finds the parents, and assigns the lanes."""
        key, parent, service, start, end = (np.array(column, np.int64) for column in self._columns.values())
        self._columns = {}
        self._order = np.argsort(key, kind="stable")
        self._keys = key[self._order]
        self.service = service
        self.parent = np.where(parent != 0, self._find(parent), -1)
        self.parent[self.parent == np.arange(len(key))] = -1
        self.lane = _lanes(start, end, service, self.parent)
        self._names = self._track_names()

    def _find(self, keys: Int64) -> Int64:
        """The row of each key, -1 where there is none."""
        if not len(self._keys):
            return np.full(len(keys), -1, np.int64)
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[at] == keys, self._order[at], -1)

    def row_of(self, trace: str, span: str) -> int:
        """The row of a span, -1 if it isn't in the file."""
        return int(self._find(np.array([hash((trace, span))], np.int64))[0])

    def nested(self, row: int) -> bool:
        """Whether a span is shown below its parent."""
        parent = self.parent[row]
        return bool(self.lane[row] == self.lane[parent] and self.service[row] == self.service[parent])

    def place(self, row: int) -> dict[str, Any]:
        """The columns of the track of a span."""
        number = int(self.service[row])
        name, service = self._names[number]
        lane = int(self.lane[row])
        track = name if not lane else f"{name} {lane + 1}"
        return {"host": service.host, "pid": service.pid, "track": track}

    def lanes(self) -> dict[Service, int]:
        """How many lanes each service has."""
        return {
            service: int(self.lane[self.service == number].max()) + 1 for number, service in enumerate(self.services)
        }

    def track_name(self, service: Service) -> str:
        """The name of the first track of a service."""
        return self._names[self._numbers[service]][0]

    def _track_names(self) -> list[tuple[str, Service]]:
        """For each service the name of its tracks: its own, with the instance where several in a process have it."""
        counts: dict[tuple[str | None, int | None, str], int] = {}
        for service in self.services:
            counts[service[:3]] = counts.get(service[:3], 0) + 1
        return [
            (f"{service.name} ({service.instance[:8]})" if counts[service[:3]] > 1 else service.name, service)
            for service in self.services
        ]


def _lanes(start: Int64, end: Int64, service: Int64, parent: Int64) -> Int64:
    """The lane of each span within its service: that of its parent if it fits there, else one that is free."""
    lane = np.full(len(start), -1, np.int64)
    order = np.lexsort((-end, start, service))
    stacks: list[list[tuple[int, int]]] = []
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    current = -1
    ends, parents = end.tolist(), parent.tolist()
    for row, begin, group in zip(order.tolist(), start[order].tolist(), service[order].tolist(), strict=True):
        if group != current:
            current, stacks, busy, free = group, [], [], []
        while busy and busy[0][0] <= begin:
            number = heapq.heappop(busy)[1]
            stacks[number].clear()
            heapq.heappush(free, number)
        above = parents[row]
        if above >= 0 and service[above] == group and lane[above] >= 0:
            stack = stacks[lane[above]]
            while stack and stack[-1][0] <= begin:
                stack.pop()
            if stack and stack[-1][1] == above and ends[row] <= ends[above]:
                stack.append((ends[row], row))
                lane[row] = lane[above]
                continue
        if not free:
            free.append(len(stacks))
            stacks.append([])
        number = heapq.heappop(free)
        stacks[number].append((ends[row], row))
        heapq.heappush(busy, (ends[row], number))
        lane[row] = number
    return lane
