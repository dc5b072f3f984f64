"""Finds the captures of graphs, and their replays, among the rows of a trace.

A captured call launches a kernel, a copy or a set between StreamBeginCapture and StreamEndCapture of its thread, and
has no device work of its own. A replay is the device work that has the correlation of a GraphLaunch.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.arrays import Bools, Int64
from ktrace.model.batch import DEVICE_KINDS, Batch
from ktrace.model.catalog import Catalog
from ktrace.model.json_text import decoded, dump_json, load_object
from ktrace.model.masks import NameTest, each_source, truth, words_in
from ktrace.naming.demangling import demangled
from ktrace.store.events import values
from ktrace.store.vocabulary import RowKeys

#: What a call launches, or a piece of work is, if it isn't a kernel whose name is known. No kernel has these names.
COPY, SET, ANY = "\0copy", "\0set", "\0any"

#: All spans around a captured call, and the shapes of their inputs, the outermost first.
CAPTURED_IN, CAPTURED_DIMS = "captured_in", "captured_dims"

#: The arguments that describe the inputs of an operator, first the shapes.
DIMS = "Input Dims"
SHAPES = (DIMS, "Input dims", "Input type", "Input Strides", "Concrete Inputs")

#: The argument in which newer Kineto writes the number of a node; numbers rise as the nodes are created.
_NODE = "args.graph node id"

_BEGIN, _END = re.compile(r"StreamBeginCapture"), re.compile(r"StreamEndCapture")
_GRAPH = re.compile(r"GraphLaunch")
_CALL = re.compile(r"StreamBeginCapture|StreamEndCapture|Memcpy|Memset|Launch(?!HostFunc)")

#: Ranges that state the size of a batch: capture_32_FULL, execute_32_context_...
_SIZE = re.compile(r"(?:capture|execute)_([0-9]{1,9})_")

#: How Kineto names the range of a module.
MODULE = "nn.Module: "
#: The launch of a kernel, which a replayed one has nowhere else.
GEOMETRY = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared_memory")

#: The id of the captured call itself, in its own source.
CALL = "call"

_CALLS = ("id", "ts", "dur", "pid", "tid", "correlation", "name", "args", "args.kernel", *GEOMETRY)
_SPANS = ("id", "ts", "dur", "pid", "tid", "kind", "name", "external_id", "args", *(f"args.{key}" for key in SHAPES))

Row = dict[str, Any]
Thread = tuple[Any, Any]


class Run(NamedTuple):
    """What tells runs apart: the process, and the time that the times of the trace count from; None if not known."""

    pid: int | None
    base: int | None


class Capture(NamedTuple):
    """A captured graph: what each of its calls launches, in order, and the facts of each call.

    `size` is the size of the batch that the annotation around it states.
    """

    works: tuple[str, ...]
    facts: tuple[Row, ...]
    size: int | None
    run: Run


class Replay(NamedTuple):
    """A launch of a graph: the work of each stream in order, and the ids of its rows.

    Where the nodes are numbered, it is all work in the order of the nodes, as if on one stream.
    """

    streams: tuple[tuple[str, ...], ...]
    ids: tuple[Int64, ...]
    size: int | None
    run: Run


class Gathered:
    """The calls, spans and device work of one source. `add` all batches first."""

    def __init__(self, *, captures: bool) -> None:
        """`captures` keeps the operators and modules, too, which captures need."""
        self._keeps_spans = captures
        self._calls: list[Row] = []
        self._work: list[tuple[Int64, ...]] = []  # correlation (0: none), ts, id, node (0: none), shape
        self._shapes = RowKeys(("device", "stream", "kind", "name"))
        self._spans: list[pa.RecordBatch] = []
        self._catalog = Catalog()
        self._is_call = NameTest(lambda name: _CALL.search(name) is not None)
        self._is_range = NameTest(lambda name: name.startswith(MODULE) or _SIZE.search(name) is not None)

    def add(self, batch: Batch) -> None:
        """Collects what is needed of a batch of the source."""
        if batch.record == "catalog":
            self._catalog.add(batch)
        if batch.record != "events" or not len(batch):
            return
        api, op, range_, work = (
            words_in(batch.column("kind"), kinds) for kinds in (("api",), ("op",), ("range",), DEVICE_KINDS)
        )
        if api.any() and (mine := api & self._is_call(batch.column("name"))).any():
            self._calls += _some(batch, mine, _CALLS).to_pylist()
        if batch.has("args"):
            work = work & ~truth(pc.match_substring(decoded(batch.column("args")), '"captured_in":'))
        if work.any() and not batch.has("args.captured_in"):
            rows = np.flatnonzero(work)
            ts, ids = (batch.column(name).to_numpy()[rows] for name in ("ts", "id"))
            correlation, node = (values(batch.columns, name)[0][rows] for name in ("correlation", _NODE))
            self._work.append((correlation, ts, ids, node, self._shapes.number(batch, rows).astype(np.int64)))
        spans = range_ & self._is_range(batch.column("name")) if range_.any() else range_
        spans = spans | op if self._keeps_spans else spans
        if spans.any():
            self._spans.append(_some(batch, spans, _SPANS))

    def replays(self) -> list[Replay]:
        """The replays in the order of their launches, without those whose kernels have operators already."""
        launches = [row for row in self._calls if _GRAPH.search(row["name"]) and row.get("correlation")]
        launches.sort(key=lambda row: row["ts"])
        correlation, ts, ids, node, shape = self._columns()
        mine = np.flatnonzero(np.isin(correlation, [row["correlation"] for row in launches]))
        order = mine[np.lexsort((ids[mine], ts[mine], correlation[mine]))]
        correlation, ids, node, shape = (column[order] for column in (correlation, ids, node, shape))
        shapes = self._shapes.all()
        works = [_work(one) for one in shapes]
        known: dict[Any, int] = {}
        stream = [known.setdefault((one["device"], one["stream"]), len(known)) for one in shapes]
        around = self._around(launches, lambda name: _SIZE.search(name) is not None)
        found = []
        for row in {row["correlation"]: row for row in launches}.values():
            low, high = np.searchsorted(correlation, [row["correlation"], row["correlation"] + 1]).tolist()
            places: defaultdict[int, list[int]] = defaultdict(list)
            for place, number in enumerate(shape[low:high].tolist(), low):
                places[stream[number]].append(place)
            if len(places) > 1 and (places_of := _in_order(node[low:high])) is not None:
                places = defaultdict(list, {0: (low + places_of).tolist()})
            if places:
                names = tuple(tuple(works[number] for number in shape[own].tolist()) for own in places.values())
                size, run = _size(around[row["id"]]), Run(row.get("pid"), self._base())
                found.append(Replay(names, tuple(ids[own] for own in places.values()), size, run))
        return found

    def _columns(self) -> tuple[Int64, ...]:
        """Correlation, time, id, node and shape of all device work."""
        return tuple(map(np.concatenate, zip(*self._work, strict=True))) if self._work else (np.zeros(0, np.int64),) * 5

    def captures(self, source: str) -> list[Capture]:
        """The captures in the order of their beginnings. `CALL` is the source and the id of each call."""
        working = set(np.unique(self._columns()[0]).tolist()) - {0}
        opened: dict[Thread, tuple[Row, list[Row]]] = {}
        closed: list[tuple[Row, list[Row]]] = []
        for row in sorted(self._calls, key=lambda row: (row["ts"], row["id"])):
            thread = row.get("pid"), row.get("tid")
            if _BEGIN.search(row["name"]):
                opened[thread] = row, []
            elif _END.search(row["name"]):
                closed += [opened.pop(thread)] if thread in opened else []
            elif thread in opened and not _GRAPH.search(row["name"]) and row.get("correlation") not in working:
                opened[thread][1].append(row)
        closed = sorted((one for one in closed if one[1]), key=lambda one: one[0]["ts"])
        around = self._around([row for begin, calls in closed for row in (begin, *calls)])
        facts: dict[int, Row] = {}
        return [
            Capture(
                tuple(_launched(row) for row in calls),
                tuple(_facts(around[row["id"]], facts) | _geometry(row) | {CALL: (source, row["id"])} for row in calls),
                _size(around[begin["id"]]),
                Run(begin.get("pid"), self._base()),
            )
            for begin, calls in closed
        ]

    def _base(self) -> int | None:
        """The unix time of the clock's 0."""
        entry = next((one for one in self._catalog if one.entity == "clock"), None)
        found = entry.facts.get("unix_ns") if entry else None
        return found if isinstance(found, int) else None

    def _around(self, calls: list[Row], test: Any = None) -> dict[int, list[Row]]:
        """The spans around each call, by its id, the outermost first."""
        threads = {(row.get("pid"), row.get("tid")) for row in calls}
        spans: defaultdict[Thread, list[Row]] = defaultdict(list)
        for row in self._near(calls):
            thread = row.get("pid"), row.get("tid")
            if thread in threads and (test is None or test(row["name"])):
                spans[thread].append(row)
        found: dict[int, list[Row]] = {}
        for thread in threads:
            mine = (row for row in calls if (row.get("pid"), row.get("tid")) == thread)
            found |= _enclosing(sorted(mine, key=lambda row: row["ts"]), spans[thread])
        return found

    def _near(self, calls: list[Row]) -> Iterator[Row]:
        """The spans that end after the first of these calls and begin before the last."""
        first, last = (pick((row["ts"] for row in calls), default=0) for pick in (min, max))
        for columns in self._spans:
            if "dur" in columns.schema.names:
                begin = columns.column("ts")
                mine = pc.and_(
                    pc.less_equal(begin, last), pc.greater_equal(pc.add(begin, columns.column("dur")), first)
                )
                yield from columns.filter(mine).to_pylist()


def _in_order(nodes: Int64) -> Int64 | None:
    """The order of the nodes in which they were created, on all streams; None where it isn't known."""
    return np.argsort(nodes) if nodes.all() and len(np.unique(nodes)) == len(nodes) else None


def gathered(batches: Iterable[Batch], *, captures: bool) -> dict[str, Gathered]:
    """What was gathered of each source."""
    found: dict[str, Gathered] = {}
    for batch in batches:
        see(batch, found, captures=captures)
    return found


def see(batch: Batch, found: dict[str, Gathered], *, captures: bool) -> None:
    """Adds a batch to what was gathered of its sources."""
    if batch.record in ("events", "catalog"):
        for source, rows in each_source(batch):
            found.setdefault(source, Gathered(captures=captures)).add(rows)


def _some(batch: Batch, mine: Bools, names: Iterable[str]) -> pa.RecordBatch:
    there = [name for name in names if batch.has(name)]
    return batch.columns.select(there).filter(pa.array(mine))


def _enclosing(calls: list[Row], spans: list[Row]) -> dict[int, list[Row]]:
    """The spans of one thread around each of its calls, which are sorted by time."""
    spans.sort(key=lambda row: (row["ts"], -row["dur"]))
    found: dict[int, list[Row]] = {}
    stack: list[Row] = []
    place = 0
    for call in calls:
        while place < len(spans) and spans[place]["ts"] <= call["ts"]:
            stack = [row for row in stack if row["ts"] + row["dur"] >= spans[place]["ts"]]
            stack.append(spans[place])
            place += 1
        end = call["ts"] + (call.get("dur") or 0)
        found[call["id"]] = [row for row in stack if row["ts"] + row["dur"] >= end]
    return found


def _size(around: list[Row]) -> int | None:
    """The size of the batch that the innermost annotation states."""
    for row in reversed(around):
        if row["kind"] == "range" and (match := _SIZE.search(row["name"])):
            return int(match[1])
    return None


def _facts(around: list[Row], known: dict[int, Row]) -> Row:
    """What the spans around a call tell of it: its operator with its inputs, its module, and all of them."""
    spans = [row for row in around if row["kind"] == "op" or row["name"].startswith(MODULE)]
    if not spans:
        return {}
    found: Row = {CAPTURED_IN: dump_json([row["name"] for row in spans]).encode()}
    operators = [row for row in spans if row["kind"] == "op"]
    for row in operators:
        if row["id"] not in known:
            known[row["id"]] = _inputs(row)
    if operators:
        found |= {"operator": operators[-1]["name"], **known[operators[-1]["id"]]}
    if any(DIMS in known[row["id"]] for row in operators[:-1]):
        dims = (known.get(row["id"], {}).get(DIMS, b"null").decode() for row in spans)
        found[CAPTURED_DIMS] = f"[{','.join(dims)}]".encode()
    module = next((row["name"] for row in reversed(spans) if row["kind"] != "op"), None)
    if module is not None:
        found["module"] = module.removeprefix(MODULE)
    return found


def _geometry(call: Row) -> Row:
    """The grid and the block of a launch."""
    return {key: value for key in GEOMETRY if (value := call.get(key)) is not None}


def _inputs(operator: Row) -> Row:
    """The inputs of an operator as JSON texts, and the number that tells its calls apart."""
    found: Row = {} if operator.get("external_id") is None else {"operator_id": operator["external_id"]}
    text = load_object(operator.get("args"))
    for key in SHAPES:
        value = operator.get(f"args.{key}", text.get(key))
        if value is not None:
            found[key] = value if isinstance(value, bytes) else dump_json(value).encode()
    return found


def _launched(call: Row) -> str:
    """What a call launches."""
    if "Memcpy" in call["name"]:
        return COPY
    if "Memset" in call["name"]:
        return SET
    kernel = call.get("args.kernel") or load_object(call.get("args")).get("kernel")
    return demangled(kernel) if isinstance(kernel, str) else ANY


def _work(row: Row) -> str:
    """What a piece of work is."""
    if row["kind"] == "memcpy" or "copyBuffer" in row["name"]:
        return COPY
    if row["kind"] == "memset" or "fillBuffer" in row["name"]:
        return SET
    return str(row["name"])
