"""The Trace Event JSON of XLA's profiler (JAX, TensorFlow): `<host>.trace.json.gz` and `perfetto_trace.json.gz`.

{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":[
{"ph":"M","pid":1,"name":"process_name","args":{"name":"/device:GPU:0"}},
{"ph":"X","pid":1,"tid":17,"ts":1611.362,"dur":18.24,"name":"loop_add_fusion","args":{"correlation_id":"18"}},{}]}

Processes are planes, threads are their lines, which say the kind and the place of a row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.columnar.dictionaries import by_distinct, words
from ktrace.kit.columnar.protobuf import combinations
from ktrace.kit.trace_json.dialect import Dialect, Into, Rule
from ktrace.kit.trace_json.document import read_dialect
from ktrace.kit.xla import COPIES, SIGNS, WORK, Placed, What, is_op, placed, spread_details
from ktrace.model.arrays import Bools, Int64
from ktrace.model.batch import Batch
from ktrace.model.fitting import whole_text
from ktrace.model.json_text import decoded, encoded, load_json
from ktrace.model.masks import present, words_in
from ktrace.model.row_builder import RowBuilder, to_batch, to_rows

_BEGIN = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"displayTimeUnit"\s*:\s*"ns"\s*,')
_PLANE = re.compile(rb'"process_name"\s*,\s*"args"\s*:\s*\{\s*"name"\s*:\s*"/(?:host|device):')

#: The names of processes come first.
_PROBED = 1 << 16


def probe(sample: Sample) -> Match | None:
    """DIALECT for an object that begins so, with a process named after a plane."""
    if _BEGIN.match(sample.head) and _PLANE.search(sample.head[:_PROBED]):
        return Match(Score.DIALECT, "starts like a trace of XLA's profiler, and its processes are planes")
    return None


_NAMED = re.compile(
    rb'"ph"\s*:\s*"M"\s*,\s*"pid"\s*:\s*(?P<pid>\d{1,18})\s*,(?:\s*"tid"\s*:\s*(?P<tid>\d{1,18})\s*,)?\s*"name"\s*:\s*'
    rb'"(?:process|thread)_name"\s*,\s*"args"\s*:\s*\{\s*"name"\s*:\s*(?P<name>"(?:[^"\\]|\\.){0,4000}")'
)

#: The first bytes, which contain the names.
_HEAD = 1 << 22

#: (pid, tid) -> what the line is.
Lines = dict[tuple[int, int], Placed]


def lines_of(source: Source) -> Lines:
    """Returns what each thread is."""
    planes: dict[int, str] = {}
    names: dict[int, list[tuple[int, str]]] = {}
    for match in _NAMED.finditer(source.beginning(_HEAD)):
        name = _text(match["name"])
        if match["tid"] is None:
            planes[int(match["pid"])] = name
        else:
            names.setdefault(int(match["pid"]), []).append((int(match["tid"]), name))
    return {
        (pid, tid): place
        for pid, lines in names.items()
        for (tid, _), place in zip(lines, placed(planes.get(pid, ""), lines), strict=True)
    }


def _text(literal: bytes) -> str:
    try:
        return str(whole_text(str(load_json(literal))))
    except ValueError:
        return literal.decode("utf-8", "replace")


_KINDS = ["range", "kernel", "memcpy", "memset", "graph", "alloc", "overhead", "api", "op", "instant"]
_OF_LINE = {What.STREAM: "kernel", What.CORE: "kernel", What.OVERHEAD: "overhead", What.COUNTERS: "instant"}

#: Operations of a core that enclose others.
_ENCLOSING = ("while", "conditional", "call")

#: A thread that the metadata doesn't name.
_UNKNOWN = Placed(What.THREAD)

#: Columns of times -> XLA prints them with 17 digits, so that most aren't exactly what was measured.
_PRINTED = {"args.$ts": "ts", "args.$dur": "dur"}

#: XLA writes a duration of 0 as one picosecond.
_LEAST = 1e-06


def on_lines(batch: Batch, lines: Lines) -> Batch:
    """Returns the batch with the places of its lines, and events with their kinds."""
    if not batch.has("pid"):
        return batch
    if batch.record == "catalog":
        return to_batch("catalog", [_fact(row, lines) for row in to_rows(batch)])
    if batch.record != "events" or not batch.has("tid"):
        return batch
    columns = batch.arrays()
    pid, tid = (column.fill_null(-1).to_numpy().astype(np.int64) for column in (columns["pid"], columns["tid"]))
    first, code = combinations(pid, [tid.view(np.uint64)])
    places = [lines.get((int(pid[row]), int(tid[row])), _UNKNOWN) for row in first]
    columns |= _places(columns, places, code)
    columns |= _named(columns)
    columns["kind"] = words(_KINDS, _kinds(columns, places, code))
    if "dur" in columns:
        columns["dur"] = pc.if_else(words_in(columns["kind"], ("instant",)), None, columns["dur"])
    return Batch("events", pa.RecordBatch.from_pydict(_details(_exact(columns))))


def _places(columns: dict[str, pa.Array], places: list[Placed], code: Int64) -> dict[str, pa.Array]:
    """Device, stream and track of each row; pid and tid of threads alone."""
    taken = pa.array(code)
    on_host = pa.array([place.what == What.THREAD for place in places]).take(taken)
    made = {name: pc.if_else(on_host, columns[name], None) for name in ("pid", "tid")}
    for name in ("device", "stream"):
        made[name] = pa.array([getattr(place, name) for place in places], pa.int64()).take(taken)
    track = pa.array([None if place.what == What.THREAD else place.track for place in places], pa.string())
    return made | {"track": track.dictionary_encode().take(taken)}


def _named(columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """The full name, which is an argument where the event is shown with a short one."""
    full = columns.pop("args.long_name", None)
    if full is None or full.null_count == len(full):
        return {}
    if not pa.types.is_string(decoded(full).type):  # no name, but numbers or lists
        columns["args.long_name"] = full
        return {}
    name = decoded(columns["name"])
    short = pc.if_else(full.is_valid(), name, None)
    return {"name": encoded(pc.coalesce(decoded(full), name)), "short_name": encoded(short)}


def _kinds(columns: dict[str, pa.Array], places: list[Placed], code: Int64) -> Int64:
    rows = len(code)
    names = encoded(columns["name"])
    index, texts = names.indices.fill_null(0).to_numpy(), names.dictionary.to_pylist()
    what = np.array([place.what for place in places])[code]
    kind = np.array([_KINDS.index(_OF_LINE.get(place.what, "range")) for place in places])[code]
    on_stream, on_host = what == What.STREAM, what == What.THREAD
    if on_stream.any():
        by_name = np.array([_KINDS.index(WORK[text]) if text in WORK else -1 for text in texts])[index]
        alone = np.array([_KINDS.index(place.only) if place.only else -1 for place in places])[code]
        kind = np.where(on_stream, np.where(by_name >= 0, by_name, np.where(alone >= 0, alone, kind)), kind)
        for sign, work in reversed(SIGNS.items()):
            kind = np.where(on_stream & _has(columns, f"args.{sign}"), _KINDS.index(work), kind)
    if on_host.any():
        short = np.zeros(rows, np.bool_)
        if "dur" in columns:
            short = pc.fill_null(pc.equal(columns["dur"], 0), False).to_numpy(zero_copy_only=False)
        kind = np.where(on_host & short, _KINDS.index("instant"), kind)
        named = np.array([is_op(text) for text in texts], np.bool_)[index]
        named |= _has(columns, "args.hlo_op") | _has(columns, "args.tf_op")
        kind = np.where(on_host & named, _KINDS.index("op"), kind)
        kind = np.where(on_host & _has(columns, "correlation"), _KINDS.index("api"), kind)
    category = columns.get("args.hlo_category")
    if category is not None:
        encloses = pc.fill_null(pc.is_in(decoded(category).cast(pa.string()), pa.array(_ENCLOSING)), False)
        kind = np.where((what == What.CORE) & encloses.to_numpy(zero_copy_only=False), _KINDS.index("range"), kind)
    return kind


def _has(columns: dict[str, pa.Array], name: str) -> Bools:
    column = columns.get(name)
    if column is None:
        return np.zeros(len(columns["name"]), np.bool_)
    mask: Bools = present(column)
    return mask


def _exact(columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """Leaves out a time as printed where it is a whole number of ns but for the digits of a double."""
    for name, exact in _PRINTED.items():
        if name not in columns or exact not in columns:
            continue
        try:
            printed = decoded(columns[name]).cast(pa.string()).cast(pa.float64())
        except pa.ArrowInvalid:  # a time that isn't a number
            continue
        difference = pc.abs(pc.subtract(pc.multiply(printed, 1000.0), columns[exact].cast(pa.float64())))
        odd = pc.and_(pc.greater(difference, 0.0005), pc.not_equal(printed, _LEAST))
        rest = pc.if_else(odd, columns[name], None)
        if rest.null_count == len(rest):
            del columns[name]
        else:
            columns[name] = rest
    return columns


def _details(columns: dict[str, pa.Array]) -> dict[str, Any]:
    """Columns from the details of device work."""
    kinds = decoded(columns["kind"])
    work = pc.is_in(kinds, pa.array(["kernel", "memcpy", "memset", "graph", "alloc"])).to_numpy(zero_copy_only=False)
    if not work.any():
        return columns
    arguments = {name.removeprefix("args."): column for name, column in columns.items() if name.startswith("args.")}
    made = spread_details(arguments, work)
    directions = by_distinct(columns["name"], COPIES.get, pa.string())
    if directions.null_count < len(directions):
        made["copy_kind"] = pc.coalesce(directions, made["copy_kind"]) if "copy_kind" in made else directions
    kept = {name: column for name, column in columns.items() if not name.startswith("args.")}
    return kept | made | {f"args.{name}": column for name, column in arguments.items()}


def _fact(row: dict[str, Any], lines: Lines) -> dict[str, Any]:
    """A fact about a process or thread as one about a device, stream or track."""
    pid, tid = row.get("pid"), row.get("tid")
    if pid is None:
        return row
    place = lines.get((pid, tid), _UNKNOWN) if tid is not None else _of_plane(lines, pid)
    if place is None or place.what == What.THREAD or place.device is None:
        return row
    rest = {name: value for name, value in row.items() if name not in ("pid", "tid")}
    if tid is None:
        return rest | {"entity": "device", "device": place.device}
    if place.stream is not None:
        return rest | {"entity": "stream", "device": place.device, "stream": place.stream}
    return rest | {"entity": "track", "device": place.device, "track": place.track}


def _of_plane(lines: Lines, pid: int) -> Placed | None:
    return next((place for (process, _), place in lines.items() if process == pid), None)


#: What an event is follows from its line, not from a category: there are none.
DIALECT = Dialect(cats={}, other=Rule("range", columns={"correlation_id": Into("correlation", "digits")}))


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields work, calls, ranges and instants. Raises DamagedInput if it isn't Trace Event JSON at all."""
    yield from read_dialect(source, conversion, DIALECT, partial(on_lines, lines=lines_of(source)))
    rows = RowBuilder(conversion, first_id=0)
    rows.tool_and_clock("XLA profiler", "session")
    yield from rows.rest()


FORMAT = Format(
    "xprof-json",
    "Trace Event JSON of XLA's profiler (JAX, TensorFlow)",
    patterns=("*.trace.json", "perfetto_trace.json"),
    probe=probe,
    read=read,
    words=('"/host:', '"/device:'),
    document=True,
    holds="blocks",
)
