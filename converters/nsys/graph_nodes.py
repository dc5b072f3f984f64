"""Finds where the nodes of CUDA graphs were created: the ranges of NVTX around that place, and the call.

CUDA_GRAPH_NODE_EVENTS   start 5200  globalTid ...  graphNodeId 12                     created while "layer 3" was open
                         start 9000  globalTid ...  graphNodeId 40  original 12        its clone in the executable graph
KERNEL                   start 70100  graphNodeId 40                                   args.captured_in ["layer 3"]

Exports before schema 3.24 have these rows in CUDA_GRAPH_EVENTS. Numbers of nodes are those of a process.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.kit.columnar.blocks import Block
from ktrace.kit.sqlite.database import Database
from ktrace.model.arrays import Int64
from ktrace.model.json_text import dump_json
from ktrace.store.joins import positions

from .strings import Strings, filled, filled_part

_NODES = "CUDA_GRAPH_(NODE_)?EVENTS"
_CALLS = "CUPTI_ACTIVITY_KIND_(RUNTIME|DRIVER)"

#: Event types of the ranges of a thread (see `nvtx`).
_RANGES = "eventType IN (59, 70)"

#: How often a node may be a clone of a clone.
_CLONES = 64

_Interval = tuple[int, int, str]  # start, end, name


class _Place(NamedTuple):
    """Where a node was created: the ranges around, the outermost first, and the innermost call."""

    ranges: tuple[str, ...]
    call: str | None


class GraphNodes:
    """The nodes of a database, read at once; `columns` gives the arguments of the work that they are."""

    def __init__(self, database: Database, conversion: Conversion, strings: Strings) -> None:
        self._database, self._conversion, self._strings = database, conversion, strings
        self._of: dict[int, tuple[Int64, Int64]] = {}  # of each process: its nodes, rising, and their places
        self._places: list[_Place] = []
        tables = [table for table in database.like(_NODES) if database.has(table, "graphNodeId")]
        parts = [self._created(table) for table in tables if database.count(table)]
        if parts:
            self._find(*map(np.concatenate, zip(*parts, strict=True)))

    def columns(self, block: Block, pid: pa.Array | None) -> dict[str, pa.Array]:
        """The arguments captured_in, range and captured_call of the block's rows that are nodes of graphs."""
        nodes = block.get("graphNodeId")
        if nodes is None or pid is None or not pa.types.is_int64(nodes.type):
            return {}
        pids, node = filled(pid, len(block), -1), filled(nodes, len(block), 0)
        place = np.full(len(block), -1, np.int64)
        for process, (known, places) in self._of.items():
            mine = np.flatnonzero((pids == process) & (node != 0))
            at = positions(node[mine], known)
            place[mine[at >= 0]] = places[at[at >= 0]]
        self._count(int(np.count_nonzero(node)), int(np.count_nonzero(place >= 0)))
        if place.max(initial=-1) < 0:
            return {}
        number = pa.array(place, mask=place < 0)
        texts: dict[str, list[Any]] = {
            "captured_in": [dump_json(list(one.ranges)).encode() if one.ranges else None for one in self._places],
            "range": [one.ranges[-1] if one.ranges else None for one in self._places],
            "captured_call": [one.call for one in self._places],
        }
        types = {"captured_in": pa.binary()}
        columns = {key: pa.array(values, types.get(key, pa.string())).take(number) for key, values in texts.items()}
        return {
            f"args.{key}": column.dictionary_encode()
            for key, column in columns.items()
            if column.null_count < len(column)
        }

    def _count(self, replayed: int, known: int) -> None:
        """Reports for how much replayed work it is known where its nodes were created."""
        report = self._conversion.report
        if known:
            report.issue("captured", "CUDA_GRAPH_NODE_EVENTS", "", known)
        if replayed > known:
            why = "their nodes were created before the recording began, or aren't in this export"
            report.issue("uncaptured", "CUDA_GRAPH_NODE_EVENTS", why, replayed - known)

    def _created(self, table: str) -> tuple[Int64, ...]:
        """The thread, the time, the node and the original of each row that creates a node; 0 for no original."""
        columns = ("globalTid", "start", "graphNodeId", "originalGraphNodeId")
        part = self._database.part(table, columns)
        return tuple(filled_part(part, name, 0) for name in columns)

    def _find(self, thread: Int64, start: Int64, node: Int64, original: Int64) -> None:
        """Finds the place of each node: that of the node of which it is, in the end, a clone."""
        pid, sources = thread >> 24 & 0xFFFFFF, []
        for process in np.unique(pid).tolist():
            rows = np.flatnonzero((pid == process) & (node != 0))
            nodes, first = np.unique(node[rows], return_index=True)
            rows = rows[first]
            self._of[process] = nodes, rows[_first_of_clones(nodes, original[rows])]
            sources.append(self._of[process][1])
        used, number = np.unique(np.concatenate(sources), return_inverse=True)
        ends = np.cumsum([len(one) for one in sources])[:-1]
        for process, places in zip(self._of, np.split(number.reshape(-1), ends), strict=True):
            self._of[process] = self._of[process][0], places
        if len(used):
            self._places = self._located(thread[used], start[used])

    def _located(self, thread: Int64, start: Int64) -> list[_Place]:
        """The places on these threads at these times."""
        threads, between = np.unique(thread).tolist(), (int(start.min()), int(start.max()))
        ranges = self._intervals("NVTXT?_EVENTS", threads, between, ("text", "textId"), f" AND {_RANGES}")
        calls = self._intervals(_CALLS, threads, between, ("nameId",), "")
        found = [_Place((), None)] * len(start)
        for number in threads:
            rows = np.flatnonzero(thread == number)
            rows = rows[np.argsort(start[rows], kind="stable")]
            times = start[rows].tolist()
            around = zip(_around(ranges[number], times), _around(calls[number], times), strict=True)
            for row, (inside, called) in zip(rows.tolist(), around, strict=True):
                found[row] = _Place(inside, called[-1] if called else None)
        return found

    def _intervals(
        self, pattern: str, threads: list[int], between: tuple[int, int], names: tuple[str, ...], more: str
    ) -> dict[int, list[_Interval]]:
        """The rows of some threads that run at a time between two, by thread."""
        database = self._database
        found: defaultdict[int, list[_Interval]] = defaultdict(list)
        for table in database.like(pattern):
            if not all(database.has(table, name) for name in ("globalTid", "start", "end")):
                continue
            own = tuple(name for name in names if database.has(table, name))
            kinds = more if database.has(table, "eventType") else ""
            where = f"start <= {between[1]} AND (end IS NULL OR end = 0 OR end >= {between[0]}){kinds}"
            part = database.among(table, "globalTid", threads, ("start", "end", *own), where)
            for row in part.to_pylist():
                start, end = row.get("start"), row.get("end")
                name = row.get("text") or self._strings.text(row.get("textId", row.get("nameId")))
                if isinstance(start, int) and name:
                    until = end if isinstance(end, int) and end else between[1] + 1
                    found[row.get("globalTid", 0)].append((start, until, name))
        return found


def _around(intervals: Iterable[_Interval], times: list[int]) -> Iterator[tuple[str, ...]]:
    """Yields the names of the intervals around each of some rising times, the outermost first."""
    waiting = sorted(intervals, key=lambda one: (-one[0], one[1]))
    opened: list[_Interval] = []
    for time in times:
        while waiting and waiting[-1][0] <= time:
            opened.append(waiting.pop())
        opened = [one for one in opened if one[1] > time]
        yield tuple(name for _, _, name in opened)


def _first_of_clones(nodes: Int64, original: Int64) -> Int64:
    """For each of some nodes, rising, the place of the node that it is a clone of, in the end; of others its own."""
    source = np.arange(len(nodes))
    for _ in range(_CLONES):
        before = positions(original[source], nodes)
        cloned = (original[source] != 0) & (before >= 0) & (before != source)
        if not cloned.any():
            break
        source = np.where(cloned, before, source)
    return source
