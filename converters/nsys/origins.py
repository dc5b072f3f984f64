"""Where events come from: their call chains as stacks, and the ranges in which the nodes of CUDA graphs were created.

    SAMPLING_CALLCHAINS      2000 | main  | /usr/bin/a | ... | 0        the innermost frame has stackDepth 0
                             2000 | start | libc.so    | ... | 1   ->   stack "3": start, main, with the address of each
    CUDA_GRAPH_NODE_EVENTS   start 5200  globalTid ...  graphNodeId 12              created while "layer 3" was open
                             start 9000  globalTid ...  graphNodeId 40  original 12 its clone in the executable graph
    KERNEL                   start 70100  graphNodeId 40                            args.captured_in ["layer 3"]

Each distinct stack is a fact of the catalog; for each chain only the number of its stack is kept: 12 bytes per chain.
Exports before schema 3.24 have the nodes in CUDA_GRAPH_EVENTS. Numbers of nodes are those of a process.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.kit.columnar.blocks import Block
from ktrace.kit.sqlite import Database
from ktrace.kit.sqlite.lookup import Texts
from ktrace.model.arrays import Int32, Int64
from ktrace.model.json_text import dump_json
from ktrace.store.joins import positions

from .typed_columns import NO_NAME, as_numbers, filled, filled_part

#: The number in place of a missing address, and the mask of an address.
_NO_ADDRESS, _MASK = -1, (1 << 64) - 1

_TABLES = ("CUDA_CALLCHAINS", "OSRT_CALLCHAINS", "SAMPLING_CALLCHAINS", "SYSCALL_CALLCHAINS", "MPI_CALLCHAINS")


class Stacks:
    """The stacks of all tables of call chains."""

    def __init__(self, database: Database, conversion: Conversion, strings: Texts) -> None:
        self._strings = strings
        self._codes: dict[tuple[tuple[int, int, int], ...], int] = {}
        self._chains: dict[str, tuple[Int64, Int32]] = {}
        self._names: pa.StringArray | None = None
        for name in _TABLES:
            for table in database.like(name):
                ids, codes = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
                for chains, stacks in self._read(database.blocks(table, conversion.batch_rows), conversion):
                    ids.append(chains)
                    codes.append(stacks)
                distinct, first = np.unique(np.concatenate(ids), return_index=True)
                self._chains[name] = (distinct, np.concatenate(codes)[first])

    def column(self, table: str, ids: pa.Array) -> pa.DictionaryArray | None:
        """Returns the stack of each chain, null for an unknown chain; None if all are unknown."""
        if table not in self._chains:
            return None
        chain_ids, codes = self._chains[table]
        if not len(chain_ids) or ids.null_count == len(ids):
            return None
        numbers = ids.fill_null(-1).to_numpy(zero_copy_only=False)
        place = positions(numbers, chain_ids)
        absent = place < 0
        if absent.all():
            return None
        if self._names is None or len(self._names) < len(self._codes):
            self._names = pa.array([str(code) for code in range(len(self._codes))], pa.string())
        return pa.DictionaryArray.from_arrays(pa.array(codes[place], mask=absent), self._names)

    def facts(self) -> Iterator[dict[str, Any]]:
        """Yields rows of the catalog: the frames of each stack, their modules and addresses, outermost first."""
        for frames, code in self._codes.items():
            names = [self._strings.text(symbol) or NO_NAME for symbol, *_ in reversed(frames)]
            modules = [self._strings.text(module) or "" for _, module, _ in reversed(frames)]
            facts: dict[str, Any] = {"frames": names, "modules": modules}
            if any(address != _NO_ADDRESS for *_, address in frames):
                texts = ("" if address == _NO_ADDRESS else f"0x{address & _MASK:x}" for *_, address in reversed(frames))
                facts["addresses"] = list(texts)
            yield {"entity": "stack", "name": str(code), "facts": facts}

    def _read(self, blocks: Iterator[Block], conversion: Conversion) -> Iterator[tuple[Int64, Int32]]:
        """Yields chains with the numbers of their stacks; the last chain of a block waits for the next block."""
        waiting = np.zeros((0, 5), np.int64)
        for block in blocks:
            conversion.report.used(len(block), outcome="stacks")
            columns = [block.get(name) for name in ("id", "symbol", "module", "stackDepth", "originalIP")]
            if any(column is None for column in columns[:2]):
                continue
            numbers = (None if column is None else as_numbers(column) for column in columns)
            rows = np.stack([filled(column, len(block), -1) for column in numbers], axis=1)
            rows = np.concatenate([waiting, rows])
            last = int(np.searchsorted(np.cumsum(rows[::-1, 0] != rows[-1, 0]), 1)) if len(rows) else 0
            rows, waiting = rows[: len(rows) - last], rows[len(rows) - last :]
            yield self._number(rows)
        yield self._number(waiting)

    def _number(self, rows: Int64) -> tuple[Int64, Int32]:
        """Returns the chains in rows of (chain, symbol, module, depth, address), and the number of each one's stack."""
        if not len(rows):
            return np.zeros(0, np.int64), np.zeros(0, np.int32)
        starts = np.flatnonzero(np.concatenate([[True], rows[1:, 0] != rows[:-1, 0]]))
        ends = np.append(starts[1:], len(rows))
        chain = np.repeat(np.arange(len(starts)), ends - starts)
        rows = rows[np.lexsort((rows[:, 3], chain))]
        with np.errstate(over="ignore"):
            weight = (np.arange(len(rows)) - np.repeat(starts, ends - starts)).astype(np.uint64)
            mixed = (rows[:, 1].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) ^ rows[:, 2].astype(np.uint64)
            mixed ^= rows[:, 4].astype(np.uint64) * np.uint64(0xD6E8FEB86659FD93)
            mixed = (mixed + weight * np.uint64(0xC2B2AE3D27D4EB4F)) * (mixed | np.uint64(1))
        sums = np.add.reduceat(mixed, starts)
        # Chains with one hash are the same stack; the frames of the first chain of each hash are looked up.
        _, first, kind = np.unique(sums, return_index=True, return_inverse=True)
        codes = np.empty(len(first), np.int32)
        for number in np.argsort(first, kind="stable").tolist():
            at = int(first[number])
            frames = tuple(map(tuple, rows[starts[at] : ends[at], [1, 2, 4]].tolist()))
            codes[number] = self._codes.setdefault(frames, len(self._codes))
        return rows[starts, 0], codes[kind]


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

    def __init__(self, database: Database, conversion: Conversion, strings: Texts) -> None:
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
        for process, (ids_of_nodes, places) in self._of.items():
            rows = np.flatnonzero((pids == process) & (node != 0))
            at = positions(node[rows], ids_of_nodes)
            place[rows[at >= 0]] = places[at[at >= 0]]
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
        return {f"args.{key}": column.dictionary_encode() for key, column in columns.items()}

    def _count(self, replayed: int, captured: int) -> None:
        """Reports for how much replayed work it is known where its nodes were created."""
        report = self._conversion.report
        if captured:
            report.issue("captured", "CUDA_GRAPH_NODE_EVENTS", "", captured)
        if replayed > captured:
            why = "their nodes were created before the recording began, or aren't in this export"
            report.issue("uncaptured", "CUDA_GRAPH_NODE_EVENTS", why, replayed - captured)

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
        places = [_Place((), None)] * len(start)
        for number in threads:
            rows = np.flatnonzero(thread == number)
            rows = rows[np.argsort(start[rows], kind="stable")]
            times = start[rows].tolist()
            around = zip(_around(ranges[number], times), _around(calls[number], times), strict=True)
            for row, (inside, called) in zip(rows.tolist(), around, strict=True):
                places[row] = _Place(inside, called[-1] if called else None)
        return places

    def _intervals(
        self, pattern: str, threads: list[int], between: tuple[int, int], names: tuple[str, ...], more: str
    ) -> dict[int, list[_Interval]]:
        """The rows of some threads that run at a time between two, by thread."""
        database = self._database
        intervals: defaultdict[int, list[_Interval]] = defaultdict(list)
        for table in database.like(pattern):
            if not all(database.has(table, name) for name in ("globalTid", "start", "end")):
                continue
            columns = tuple(name for name in names if database.has(table, name))
            kinds = more if database.has(table, "eventType") else ""
            where = f"start <= {between[1]} AND (end IS NULL OR end = 0 OR end >= {between[0]}){kinds}"
            part = database.among(table, "globalTid", threads, ("start", "end", *columns), where)
            for row in part.to_pylist():
                start, end = row.get("start"), row.get("end")
                name = row.get("text") or self._strings.text(row.get("textId", row.get("nameId")))
                if isinstance(start, int) and name:
                    until = end if isinstance(end, int) and end else between[1] + 1
                    intervals[row.get("globalTid", 0)].append((start, until, name))
        return intervals


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
