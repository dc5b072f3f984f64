"""Gives the replayed kernels of a graph the operators that launched them when the graph was captured.

    the capture                                         the replay
    aten::addmm                                         hipGraphLaunch   correlation 9
      hipExtModuleLaunchKernel  kernel Cijk_...    ──►    Cijk_...       correlation 9     args.operator  aten::addmm
    StreamBeginCapture ... StreamEndCapture

A captured call launches a kernel, a copy or a set between StreamBeginCapture and StreamEndCapture of its thread, and
has no device work of its own. A replay is the device work that has the correlation of a GraphLaunch.

    captured   a  b  copy  a  c
    replay     a     copy  a            a subsequence: every kernel must match, else none gets anything

Several streams: the captured calls are walked in order, each goes to the stream whose next kernel has its name; among
several to the one whose next kernels go on longest as the calls do. CUDA's calls have no kernel name. They match
by position alone: on one stream, if both have equally many.

What is known of captured calls becomes arguments:

    operator          the innermost operator around the captured call
    operator_id       its number in the capture, which tells its calls apart
    Input Dims, ...   its inputs, as the capture has them
    module            the innermost module around it
    captured_in       all operators and modules around it, the outermost first
    captured_dims     the shapes of their inputs, if others than the innermost operator have some
    operator_matched  "position", where nothing but the order tells which call it is

The grid and the block of the captured call become those of the kernel, where it has none of its own. An arrow leads
from the call to all work that replays it, where its input is among those that are read.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.arrays import Int64
from ktrace.model.batch import DEVICE_KINDS, Batch, arrow_schema
from ktrace.model.catalog import Catalog
from ktrace.model.json_text import decoded, dump_json, load_object
from ktrace.model.masks import NameTest, columns_where, each_source, rows_where, truth, words_in
from ktrace.model.row_builder import NewIds
from ktrace.naming.alike import unique_name
from ktrace.naming.demangling import demangled
from ktrace.report import Report
from ktrace.store import SPILL_BYTES, BatchSpool, Spill
from ktrace.store.events import BATCH_ROWS, values
from ktrace.store.joins import positions
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
        if api.any() and (is_call := api & self._is_call(batch.column("name"))).any():
            self._calls += columns_where(batch, is_call, _CALLS).to_pylist()
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
            self._spans.append(columns_where(batch, spans, _SPANS))

    def replays(self) -> list[Replay]:
        """The replays in the order of their launches, without those whose kernels have operators already."""
        launches = [row for row in self._calls if _GRAPH.search(row["name"]) and row.get("correlation")]
        launches.sort(key=lambda row: row["ts"])
        correlation, ts, ids, node, shape = self._columns()
        launched = np.flatnonzero(np.isin(correlation, [row["correlation"] for row in launches]))
        order = launched[np.lexsort((ids[launched], ts[launched], correlation[launched]))]
        correlation, ids, node, shape = (column[order] for column in (correlation, ids, node, shape))
        shapes = self._shapes.all()
        works = [_work(one) for one in shapes]
        numbers: dict[Any, int] = {}
        stream = [numbers.setdefault((one["device"], one["stream"]), len(numbers)) for one in shapes]
        around = self._spans_around(launches, lambda name: _SIZE.search(name) is not None)
        made = []
        for row in {row["correlation"]: row for row in launches}.values():
            low, high = np.searchsorted(correlation, [row["correlation"], row["correlation"] + 1]).tolist()
            places: defaultdict[int, list[int]] = defaultdict(list)
            for place, number in enumerate(shape[low:high].tolist(), low):
                places[stream[number]].append(place)
            if len(places) > 1 and (places_of := _in_order(node[low:high])) is not None:
                places = defaultdict(list, {0: (low + places_of).tolist()})
            if places:
                names = tuple(
                    tuple(works[number] for number in shape[on_stream].tolist()) for on_stream in places.values()
                )
                size, run = _size(around[row["id"]]), Run(row.get("pid"), self._base())
                made.append(Replay(names, tuple(ids[on_stream] for on_stream in places.values()), size, run))
        return made

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
        around = self._spans_around([row for begin, calls in closed for row in (begin, *calls)])
        facts: dict[int, Row] = {}
        return [
            Capture(
                tuple(_launched(row) for row in calls),
                tuple(
                    _facts_of_spans(around[row["id"]], facts)
                    | {key: value for key in GEOMETRY if (value := row.get(key)) is not None}
                    | {CALL: (source, row["id"])}
                    for row in calls
                ),
                _size(around[begin["id"]]),
                Run(begin.get("pid"), self._base()),
            )
            for begin, calls in closed
        ]

    def _base(self) -> int | None:
        """The unix time of the clock's 0."""
        entry = next((one for one in self._catalog if one.entity == "clock"), None)
        base = entry.facts.get("unix_ns") if entry else None
        return base if isinstance(base, int) else None

    def _spans_around(self, calls: list[Row], test: Any = None) -> dict[int, list[Row]]:
        """The spans around each call, by its id, the outermost first."""
        threads = {(row.get("pid"), row.get("tid")) for row in calls}
        spans: defaultdict[Thread, list[Row]] = defaultdict(list)
        for row in self._near(calls):
            thread = row.get("pid"), row.get("tid")
            if thread in threads and (test is None or test(row["name"])):
                spans[thread].append(row)
        spans_of: dict[int, list[Row]] = {}
        for thread in threads:
            of_thread = (row for row in calls if (row.get("pid"), row.get("tid")) == thread)
            spans_of |= _enclosing(sorted(of_thread, key=lambda row: row["ts"]), spans[thread])
        return spans_of

    def _near(self, calls: list[Row]) -> Iterator[Row]:
        """The spans that end after the first of these calls and begin before the last."""
        first, last = (pick((row["ts"] for row in calls), default=0) for pick in (min, max))
        for columns in self._spans:
            if "dur" in columns.schema.names:
                begin = columns.column("ts")
                is_near = pc.and_(
                    pc.less_equal(begin, last), pc.greater_equal(pc.add(begin, columns.column("dur")), first)
                )
                yield from columns.filter(is_near).to_pylist()


def _in_order(nodes: Int64) -> Int64 | None:
    """The order of the nodes in which they were created, on all streams; None where it isn't known."""
    return np.argsort(nodes) if nodes.all() and len(np.unique(nodes)) == len(nodes) else None


def gathered(batches: Iterable[Batch], *, captures: bool) -> dict[str, Gathered]:
    """The gathered calls and work of each source."""
    by_source: dict[str, Gathered] = {}
    for batch in batches:
        see(batch, by_source, captures=captures)
    return by_source


def see(batch: Batch, by_source: dict[str, Gathered], *, captures: bool) -> None:
    """Adds a batch to what was gathered of its sources."""
    if batch.record in ("events", "catalog"):
        for source, rows in each_source(batch):
            by_source.setdefault(source, Gathered(captures=captures)).add(rows)


def _enclosing(calls: list[Row], spans: list[Row]) -> dict[int, list[Row]]:
    """The spans of one thread around each of its calls, which are sorted by time."""
    spans.sort(key=lambda row: (row["ts"], -row["dur"]))
    spans_of: dict[int, list[Row]] = {}
    stack: list[Row] = []
    place = 0
    for call in calls:
        while place < len(spans) and spans[place]["ts"] <= call["ts"]:
            stack = [row for row in stack if row["ts"] + row["dur"] >= spans[place]["ts"]]
            stack.append(spans[place])
            place += 1
        end = call["ts"] + (call.get("dur") or 0)
        spans_of[call["id"]] = [row for row in stack if row["ts"] + row["dur"] >= end]
    return spans_of


def _size(around: list[Row]) -> int | None:
    """The size of the batch that the innermost annotation states."""
    for row in reversed(around):
        if row["kind"] == "range" and (match := _SIZE.search(row["name"])):
            return int(match[1])
    return None


def _facts_of_spans(around: list[Row], inputs: dict[int, Row]) -> Row:
    """What the spans around a call tell of it: its operator with its inputs, its module, and all of them."""
    spans = [row for row in around if row["kind"] == "op" or row["name"].startswith(MODULE)]
    if not spans:
        return {}
    facts: Row = {CAPTURED_IN: dump_json([row["name"] for row in spans]).encode()}
    operators = [row for row in spans if row["kind"] == "op"]
    for row in operators:
        if row["id"] not in inputs:
            inputs[row["id"]] = _inputs(row)
    if operators:
        facts |= {"operator": operators[-1]["name"], **inputs[operators[-1]["id"]]}
    if any(DIMS in inputs[row["id"]] for row in operators[:-1]):
        dims = (inputs.get(row["id"], {}).get(DIMS, b"null").decode() for row in spans)
        facts[CAPTURED_DIMS] = f"[{','.join(dims)}]".encode()
    module = next((row["name"] for row in reversed(spans) if row["kind"] != "op"), None)
    if module is not None:
        facts["module"] = module.removeprefix(MODULE)
    return facts


def _inputs(operator: Row) -> Row:
    """The inputs of an operator as JSON texts, and the number that tells its calls apart."""
    facts: Row = {} if operator.get("external_id") is None else {"operator_id": operator["external_id"]}
    text = load_object(operator.get("args"))
    for key in SHAPES:
        value = operator.get(f"args.{key}", text.get(key))
        if value is not None:
            facts[key] = value if isinstance(value, bytes) else dump_json(value).encode()
    return facts


def _launched(call: Row) -> str:
    """The kind of work that a call launches."""
    if "Memcpy" in call["name"]:
        return COPY
    if "Memset" in call["name"]:
        return SET
    kernel = call.get("args.kernel") or load_object(call.get("args")).get("kernel")
    return demangled(kernel) if isinstance(kernel, str) else ANY


def _work(row: Row) -> str:
    """The name by which a piece of work is matched."""
    if row["kind"] == "memcpy" or "copyBuffer" in row["name"]:
        return COPY
    if row["kind"] == "memset" or "fillBuffer" in row["name"]:
        return SET
    return str(row["name"])


Streams = tuple[tuple[str, ...], ...]
Fit = tuple[tuple[int, ...], ...]

#: What tells that only the position of a kernel says which call it is of.
BY_POSITION = {"operator_matched": "position"}


class Matched(NamedTuple):
    """What is known of the rows of replays: their ids, the number of what is known of each, and that by number.

    `reasons` are why replays have no capture, with their pieces of work; `foreign` counts those of another run than
    their capture.
    """

    ids: Int64
    numbers: Int64
    facts: list[dict[str, Any]]
    reasons: Counter[str]
    foreign: int


def matched(replays: Sequence[Replay], captures: Sequence[Capture]) -> Matched:
    """The captured call of each piece of work of each replay."""
    fits: dict[tuple[Streams, tuple[str, ...]], Fit | None] = {}
    groups: defaultdict[tuple[int, ...], list[Replay]] = defaultdict(list)
    for replay in replays:
        groups[_candidates(replay, captures, fits)].append(replay)
    ids, numbers = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    facts: list[dict[str, Any]] = []
    agreed: dict[tuple[Streams, tuple[int, ...]], list[Int64]] = {}
    reasons: Counter[str] = Counter()
    foreign = 0
    for candidates, members in groups.items():
        for place, replay in enumerate(members):
            if not candidates:
                reasons[_why(replay, captures)] += _pieces(replay)
                continue
            chosen = _chosen(candidates, captures, replay, place, len(members))
            key = replay.streams, chosen
            if key not in agreed:
                agreed[key] = _agreed(replay, [captures[number] for number in chosen], fits, facts)
            ids += replay.ids
            numbers += agreed[key]
            foreign += 0 if any(_same(captures[one].run, replay.run) for one in chosen) else _pieces(replay)
    return Matched(np.concatenate(ids), np.concatenate(numbers), facts, reasons, foreign)


def _pieces(replay: Replay) -> int:
    return sum(map(len, replay.streams))


def _candidates(
    replay: Replay, captures: Sequence[Capture], fits: dict[tuple[Streams, tuple[str, ...]], Fit | None]
) -> tuple[int, ...]:
    """The captures that a replay can be of: those that are the same, else those of which it is a part."""
    numbers = []
    for number, capture in enumerate(captures):
        key = replay.streams, capture.works
        if key not in fits:
            fits[key] = fit(*key)
        if fits[key] is not None and (ANY not in capture.works or _same(capture.run, replay.run)):
            numbers.append(number)
    same = [number for number in numbers if len(captures[number].works) == _pieces(replay)]
    return tuple(same or numbers)


def _same(one: Run, other: Run) -> bool:
    """Whether nothing tells two runs apart."""
    return all(a is None or b is None or a == b for a, b in zip(one, other, strict=True))


def fit(streams: Streams, works: tuple[str, ...]) -> Fit | None:
    """The place of the captured call of each piece of work of each stream; None unless every piece has one."""
    if ANY in works:
        alike = len(streams) == 1 and len(streams[0]) == len(works) and all(map(_may_be, streams[0], works))
        return (tuple(range(len(works))),) if alike else None
    calls_of = _walk(streams, works)
    return (
        calls_of
        if all(len(works_of) == len(calls) for works_of, calls in zip(streams, calls_of, strict=True))
        else None
    )


def _may_be(work: str, call: str) -> bool:
    return work == call or (call == ANY and work not in (COPY, SET))


def _walk(streams: Streams, works: tuple[str, ...]) -> Fit:
    """The calls of each stream, as far as they go."""
    calls_of: list[list[int]] = [[] for _ in streams]
    for number, work in enumerate(works):
        ready = [
            stream
            for stream, works_of in enumerate(streams)
            if len(calls_of[stream]) < len(works_of) and works_of[len(calls_of[stream])] == work
        ]
        if not ready:
            continue
        stream = ready[0]
        if len(ready) > 1:
            stream = max(ready, key=lambda one: _run(streams[one], len(calls_of[one]), works, number))
        calls_of[stream].append(number)
    return tuple(map(tuple, calls_of))


def _run(stream: tuple[str, ...], place: int, works: tuple[str, ...], number: int) -> int:
    """How many kernels of a stream from a place on are those of the calls from a number on."""
    count = 0
    while (
        place + count < len(stream) and number + count < len(works) and stream[place + count] == works[number + count]
    ):
        count += 1
    return count


def _chosen(
    numbers: tuple[int, ...], captures: Sequence[Capture], replay: Replay, place: int, replays: int
) -> tuple[int, ...]:
    """The capture of a replay among those that fit; several where nothing tells which one it is of.

    The smallest captured batch that holds the replay's, if both are stated; else the captures in their order, if they
    are launched equally often.
    """
    sizes = {number: captures[number].size for number in numbers}
    holding = [size for size in sizes.values() if size is not None and size >= (replay.size or 0)]
    if replay.size is not None and None not in sizes.values() and holding:
        numbers = tuple(number for number in numbers if sizes[number] == min(holding))
    if len(numbers) > 1 and len({sizes[number] for number in numbers}) == 1 and replays % len(numbers) == 0:
        return (numbers[place % len(numbers)],)
    return numbers


def _agreed(
    replay: Replay,
    captures: list[Capture],
    fits_of: dict[tuple[Streams, tuple[str, ...]], Fit | None],
    facts: list[dict[str, Any]],
) -> list[Int64]:
    """For each stream the numbers of what the captures agree on for each piece of work, which `facts` gets."""
    fits = [fit_ for one in captures if (fit_ := fits_of[replay.streams, one.works]) is not None]
    first = len(facts)
    for stream, works in enumerate(replay.streams):
        for place in range(len(works)):
            one, *others = (capture.facts[fit_[stream][place]] for capture, fit_ in zip(captures, fits, strict=True))
            agreed = {key: value for key, value in one.items() if all(other.get(key) == value for other in others)}
            facts.append(agreed | (BY_POSITION if agreed.keys() - {CALL} and ANY in captures[0].works else {}))
    lengths = [len(works) for works in replay.streams]
    return np.split(np.arange(first, len(facts)), np.cumsum(lengths)[:-1])


def _why(replay: Replay, captures: Sequence[Capture]) -> str:
    """Why a replay has no capture."""
    if not captures:
        return "there is no capture"
    pieces = _pieces(replay)
    if all(ANY in capture.works for capture in captures):
        if not any(_same(capture.run, replay.run) for capture in captures):
            return "CUDA calls don't name kernels, and the captures are of another run"
        if len(replay.streams) > 1:
            return "CUDA calls don't name kernels, and the replay has several streams"
        counts = sorted({len(capture.works) for capture in captures})
        if pieces in counts:
            return "CUDA calls don't name kernels, and the copies and memsets of the captures are in different places"
        shown = ", ".join(map(str, counts[:5])) + (", ..." if len(counts) > 5 else "")
        return f"CUDA calls don't name kernels, and the captures have {shown} calls for {pieces:,} device activities"
    furthest = max((_walk(replay.streams, capture.works) for capture in captures), key=lambda one: sum(map(len, one)))
    stream = next(n for n, works_of in enumerate(replay.streams) if len(furthest[n]) < len(works_of))
    names = {COPY: "a copy", SET: "a set"}
    work = replay.streams[stream][len(furthest[stream])]
    matching = sum(map(len, furthest))
    return f"no capture goes on to {names.get(work, work)} after {matching:,} of {pieces:,} device activities"


_STAGE = "captures"
_LINK = "capture"
_COLUMNS: dict[str, pa.DataType] = {
    "operator": pa.string(),
    "operator_id": pa.int64(),
    **dict.fromkeys(SHAPES, pa.binary()),
    "module": pa.string(),
    CAPTURED_IN: pa.binary(),
    CAPTURED_DIMS: pa.binary(),
    "operator_matched": pa.string(),
    **{key: arrow_schema("events").field(key).type for key in GEOMETRY},
}


def captures_of(batches: Iterable[Batch]) -> list[Capture]:
    """The captures in the traces of some sources."""
    by_source = gathered(batches, captures=True)
    return [capture for source, one in by_source.items() for capture in one.captures(source)]


def with_captures(batches: Iterable[Batch], captures: list[Capture], report: Report, arrows: Arrows) -> Iterator[Batch]:
    """Yields all batches, replayed kernels with what the captured calls tell, and the arrows from these calls.

    Reports how many kernels have a captured call ("captured"), and how many have none and why ("uncaptured").
    """
    spill = Spill(SPILL_BYTES)
    try:
        waiting, records = BatchSpool(spill, "replays"), []
        by_source: dict[str, Gathered] = {}
        taken = 0
        for batch in batches:
            see(batch, by_source, captures=False)
            arrows.see(batch)
            taken += 0 if batch.record == "catalog" else len(batch)
            if len(batch):
                waiting.append(batch.columns)
                records.append(batch.record)
        facts = {source: _facts(source, one, captures, report) for source, one in by_source.items()}
        if not any(one is not None for one in facts.values()) and "uncaptured" not in report.issues:
            report.issue("uncaptured", _STAGE, "the input has no replay of a graph whose kernels lack operators", 0)
        for number, record in enumerate(records):
            yield from _attached(Batch(record, waiting.get(number)), facts)
        for source, one_of in facts.items():
            if one_of is not None:
                arrows.add(source, one_of)
        yield from arrows.rows(report, _STAGE, taken)
    finally:
        spill.close()


class Arrows:
    """Arrows from captured calls to the work that replays them.

    `label` returns the label under which the source of a capture is read, too; None if it isn't.
    """

    def __init__(self, label: Callable[[str], str | None] = str) -> None:
        self._ids = NewIds()
        self._label = label
        # The source of work and that of the calls; the ids of the work, and the id of the call of each.
        self._ends: list[tuple[str, str, Int64, Int64]] = []

    def see(self, batch: Batch) -> None:
        """Remembers the greatest id of each source."""
        if batch.record != "catalog" and len(batch):
            self._ids.see(batch)

    def add(self, source: str, facts: _Facts) -> None:
        """Adds the arrows to the work of a source."""
        self._ends += [(source, caller, work, calls) for caller, (work, calls) in facts.calls().items()]

    def rows(self, report: Report, stage: str, taken: int) -> Iterator[Batch]:
        """Yields the ends of all arrows, once all rows (`taken`) have passed a stage, and gives its account."""
        ends: list[tuple[str, str, Int64, Int64, str]] = []
        for source, capture, work, calls in self._ends:
            caller = self._label(capture)
            if caller is not None:
                leaving = np.unique(calls)
                ends += [(caller, caller, leaving, leaving, "out"), (source, caller, work, calls, "in")]
        if not ends:
            return
        ledger = report.stage(stage)
        ledger.taken = ledger.given = taken
        for source, caller, events, calls, role in ends:
            for start in range(0, len(events), BATCH_ROWS):
                part = slice(start, start + BATCH_ROWS)
                rows = self._links(source, caller, events[part], calls[part], role)
                ledger.added["arrows from captured calls"] += len(rows)
                ledger.given += len(rows)
                yield rows

    def _links(self, source: str, caller: str, events: Int64, calls: Int64, role: str) -> Batch:
        sources = pa.repeat(source, len(events))
        columns = {
            "source": sources,
            "id": self._ids.take(sources),
            "link": pa.repeat(_LINK, len(events)),
            "key": pc.binary_join_element_wise(caller, pa.array(calls).cast(pa.string()), "/"),
            "role": pa.repeat(role, len(events)),
            "event": pa.array(events),
            "name": pa.repeat("captured call", len(events)),
        }
        schema = arrow_schema("links")
        fields = [schema.field(name) for name in columns]
        arrays = [column.cast(field.type) for field, column in zip(fields, columns.values(), strict=True)]
        return Batch("links", pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)))


def with_own_captures(
    batches: Iterable[Batch], again: Callable[[], Iterator[Batch]], report: Report, arrows: Arrows
) -> Iterator[Batch]:
    """Yields all batches of an input, replayed kernels with what the captured calls of the same input tell.

    If a call begins a capture, `again` reads the input once more. The ids of its rows are their places in the document.
    A batch waits until all calls before its device work are known. `arrows` gets those from the calls.
    """
    joiner = _Own(again, report, arrows)
    waiting: deque[tuple[Batch, int]] = deque()
    for batch in batches:
        waiting.append((batch, joiner.see(batch)))
        while waiting and joiner.is_known(waiting[0][1]):
            yield from joiner.attached(*waiting.popleft())
    for one in waiting:
        yield from joiner.attached(*one)


class _Own:
    """The captures and replays of an input that holds both, as far as they are known."""

    def __init__(self, again: Callable[[], Iterator[Batch]], report: Report, arrows: Arrows) -> None:
        self._again, self._report, self._arrows = again, report, arrows
        self._begins = NameTest(lambda name: "StreamBeginCapture" in name)
        self._facts: dict[str, _Facts | None] = {}  # of its source, once a capture began
        self._reached = self._passed = -1

    def see(self, batch: Batch) -> int:
        """Looks for the beginning of a capture. Returns the last id of device work, -1 where nothing has to wait."""
        self._arrows.see(batch)
        if self._facts or batch.record != "events" or not len(batch):
            return -1
        kind, ids = batch.column("kind"), batch.column("id").to_numpy()
        self._reached = int(ids.min())
        if words_in(kind, ("api",)).any() and self._begins(batch.column("name")).any():
            source = decoded(batch.column("source"))[0].as_py()
            one = next(iter(gathered(self._again(), captures=True).values()))
            self._facts[source] = facts = _facts(source, one, one.captures(source), self._report, self._passed)
            if facts is not None:
                self._arrows.add(source, facts)
            return -1
        work = words_in(kind, DEVICE_KINDS)
        return int(ids[work].max()) if work.any() else -1

    def is_known(self, last: int) -> bool:
        """Whether all calls before this work have been seen: later rows have come."""
        return bool(self._facts) or self._reached > last

    def attached(self, batch: Batch, last: int) -> Iterator[Batch]:
        """The rows of a batch."""
        self._passed = max(self._passed, last)
        return _attached(batch, self._facts)


class _Facts:
    """The facts of rows by id, which rise."""

    def __init__(self, matches: Matched) -> None:
        order = np.argsort(matches.ids)
        self._ids, self._numbers = matches.ids[order], matches.numbers[order]
        self._calls: list[tuple[str, int] | None] = [one.get(CALL) for one in matches.facts]
        self._columns = {
            key: pa.array([one.get(key) for one in matches.facts], type_)
            for key, type_ in _COLUMNS.items()
            if any(key in one for one in matches.facts)
        }

    def calls(self) -> dict[str, tuple[Int64, Int64]]:
        """The ids of rows whose call is known, and the id of the call of each, by the source of the calls."""
        by_source = {}
        for source in dict.fromkeys(call[0] for call in self._calls if call):
            ids = np.array([call[1] if call and call[0] == source else -1 for call in self._calls], np.int64)
            calls = ids[self._numbers]
            by_source[source] = self._ids[calls >= 0], calls[calls >= 0]
        return by_source

    def attached(self, batch: Batch) -> Iterator[Batch]:
        """The rows of a batch, those with facts in one of their own."""
        place = positions(batch.column("id").to_numpy(), self._ids)
        place[~words_in(batch.column("kind"), DEVICE_KINDS)] = -1
        is_replayed = place >= 0
        if not is_replayed.any():
            yield batch
            return
        if not is_replayed.all():
            yield rows_where(batch, ~is_replayed)
        columns = rows_where(batch, is_replayed).columns
        empty = [name for name in columns.schema.names if columns.column(name).null_count == len(columns)]
        columns = columns.drop_columns(empty)
        numbers = pa.array(self._numbers[place[is_replayed]])
        taken = set(columns.schema.names)
        for key, facts in self._columns.items():
            column = facts.take(numbers)
            if key in GEOMETRY:
                columns = _with_geometry(columns, key, column)
            elif column.null_count < len(column):
                column = column if pa.types.is_integer(column.type) else column.dictionary_encode()
                columns = columns.append_column(unique_name(f"args.{key}", taken.__contains__), column)
        yield Batch("events", columns)


def _with_geometry(columns: pa.RecordBatch, key: str, column: pa.Array) -> pa.RecordBatch:
    """The rows with a grid or block of the captured calls, for kernels that have none."""
    place = columns.schema.get_field_index(key)
    is_kernel = pa.array(words_in(columns.column("kind"), ("kernel",)))
    column = pc.if_else(is_kernel, column, pa.nulls(len(column), column.type))
    if place >= 0:
        return columns.set_column(place, key, pc.coalesce(columns.column(place), column))
    return columns.append_column(key, column) if column.null_count < len(column) else columns


def _attached(batch: Batch, facts: dict[str, _Facts | None]) -> Iterator[Batch]:
    if batch.record != "events" or not any(one is not None for one in facts.values()):
        yield batch
        return
    for source, rows in each_source(batch):
        one = facts.get(source)
        yield from [rows] if one is None else one.attached(rows)


def _facts(source: str, work: Gathered, captures: list[Capture], report: Report, passed: int = -1) -> _Facts | None:
    """The facts of the rows of a source, None if it has no replays with a capture.

    `passed` is the id of the last row that can't get any more.
    """
    replays = work.replays()
    if not replays:
        return None
    result = matched(replays, captures)
    for reason, count in result.reasons.most_common():
        report.issue("uncaptured", source, reason, count)
    if not len(result.ids):
        return None
    if int(result.ids.min()) <= passed:
        report.issue("uncaptured", source, "the file has kernels before the calls of the capture", len(result.ids))
        return None
    if result.foreign:
        report.issue("other-run", source, "", result.foreign)
    kernels = len(result.ids) + result.reasons.total()
    report.issue("captured", source, f"{len(result.ids):,} of {kernels:,}", len(result.ids))
    return _Facts(result)
