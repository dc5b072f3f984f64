"""Turns events into canonical batches: the phases of the Trace Event Format, by the rules of a dialect.

    X B E b n e S T p F i I R P N O D V v ( ) {     slices, halves, instants
    C                                               counters
    s t f, bind_id, waits                           links
    M                                               catalog: names, labels, order of processes and threads
    c                                               clock sync: an instant

No state is kept between calls: the reader makes facts from the document's other members (the clock's base, the devices'
properties), which may come late.

The track of an event is its pid and tid, which may be numbers, texts or anything else. Some programs represent each GPU
as a process and each queue as a thread:

    {"name": "process_name", "ph": "M", "pid":"2","args":{"name":"GPU2"}}     2 is a GPU: device 2, not a process
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from functools import partial, reduce
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.kit.columnar.dictionaries import by_distinct, constant, indices, words
from ktrace.model.arrays import Bools, Int64
from ktrace.model.batch import TRACK_COLUMNS, Batch
from ktrace.model.fitting import whole_of
from ktrace.model.json_text import decoded, dump_json, encoded, json_cells, load_json
from ktrace.model.row_builder import to_batch

from .dialect import EDGE, Dialect, Rule, Sign
from .draft import Draft, Task, as_text, by_word, direction, integers, mapped, numbered, numbers, valid
from .events import Events


def place(draft: Draft, rule: Rule, dialect: Dialect) -> None:
    """Fills pid, tid, device, context, stream and track."""
    if rule.place == "device":
        _on_device(draft, dialect)
    else:
        texts = []
        for member in ("pid", "tid"):
            column = draft.left.pop(member, None)
            if column is None:
                continue
            taken, rest = numbered(column)
            if taken is not None:
                draft.columns[member] = taken
            if rest is not None:
                texts.append(_with_device(draft, rest, dialect) if member == "pid" else rest)
        _put_track(draft, texts)
    if rule.track is not None:
        placed = [draft.columns[key].is_valid() for key in ("pid", "tid", "track") if key in draft.columns]
        given = reduce(pc.or_, placed, pa.repeat(False, len(draft)))
        track = draft.columns.get("track", pa.nulls(len(draft), pa.string())).cast(pa.string())
        draft.columns["track"] = pc.if_else(given, track, rule.track)


def _with_device(draft: Draft, rest: pa.Array, dialect: Dialect) -> pa.Array | None:
    """Returns the pids that are texts, without those that name a device, which go to `device`."""
    if dialect.device_pid is None:
        return rest
    taken, left = numbered(rest, dialect.device_pid)
    if taken is not None:
        draft.columns["device"] = taken
    return left


def _on_device(draft: Draft, dialect: Dialect) -> None:
    """The device is args.device, else the pid; the stream is args.stream, else the tid. Different numbers stay."""
    texts = []
    for member, key in (("pid", "device"), ("tid", "stream")):
        argument = draft.left.pop(f"args.{key}", None)
        taken = None
        if argument is not None:
            taken, rest = integers(argument)
            draft.set_rest(f"args.{key}", _with_none(argument, taken, rest) if key == "device" else rest)
        column = draft.left.pop(member, None)
        if column is not None:
            spelling = dialect.stream_name if member == "tid" else dialect.device_pid
            number, rest = numbered(column, spelling) if spelling else numbered(column)
            if rest is not None:
                texts.append(rest)
            if number is not None and taken is not None:
                other = pc.and_kleene(pc.not_equal(number, taken), pc.is_valid(taken))
                if pc.any(other).as_py():
                    draft.left[f"args.${member}"] = pc.if_else(other, number, None)
                number = pc.coalesce(taken, number)
            taken = number if number is not None else taken
        if taken is not None:
            draft.columns[key] = _known(taken)
    context = draft.left.pop("args.context", None)
    if context is not None:
        taken, rest = integers(context)
        if taken is not None:
            draft.columns["context"] = taken
        draft.set_rest("args.context", rest)
    _put_track(draft, texts)


def _with_none(argument: pa.Array, taken: pa.Array | None, rest: pa.Array | None) -> pa.Array | None:
    """Returns the rest of the argument, with the devices of -1, which the column doesn't have."""
    none = None if taken is None else pc.equal(taken, -1)
    if none is None or not pc.any(none).as_py():
        return rest
    return pc.if_else(pc.fill_null(none, False), argument, pa.scalar(None, argument.type) if rest is None else rest)


def _known(numbers: pa.Array) -> pa.Array:
    """Makes a device or stream of -1 null."""
    lowest = pc.min(numbers).as_py()
    return numbers if lowest is None or lowest >= 0 else pc.if_else(pc.equal(numbers, -1), None, numbers)


def _put_track(draft: Draft, texts: list[pa.Array | None]) -> None:
    """Joins the texts to the key of the track."""
    texts_present = [plain(text) for text in texts if text is not None and text.null_count < len(text)]
    if texts_present:
        parts = [pc.if_else(pc.equal(text, ""), None, text) for text in texts_present]
        draft.columns["track"] = encoded(joined(parts, "/"))


def joined(parts: list[pa.Array], between: str) -> pa.Array:
    """Joins the texts of each row; null if a row has none."""
    text = parts[0]
    for part in parts[1:]:
        text = pc.coalesce(pc.binary_join_element_wise(text, part, between), text, part)
    return text


def plain(column: pa.Array) -> pa.Array:
    """A member as text: numbers as digits, anything else as JSON text."""
    if pa.types.is_dictionary(column.type):
        return plain(column.dictionary).take(column.indices)
    if pa.types.is_binary(column.type):
        return pa.array(map(as_text, column.to_pylist()), pa.string())
    return column.cast(pa.string())


def track_of_id(draft: Draft) -> None:
    """Sets the track of asynchronous events to their key: category, scope and id. The thread becomes an argument."""
    parts = []
    if "cat" in draft.left:
        parts.append(plain(draft.left["cat"]))
    for member in ("args.$scope", "id", "args.$id2"):
        column = draft.left.pop(member, None)
        if column is not None and column.null_count < len(column):
            parts.append(plain(column))
    draft.keep_as_argument("tid")
    if parts:
        draft.columns["track"] = encoded(joined(parts, "/"))


#: Entity -> what it is if its process is a GPU.
_ENTITIES = {"process": "device", "thread": "stream"}


def on_devices(batch: Batch, gpus: Mapping[int, int]) -> Batch:
    """Moves the pids of GPUs to devices, by the numbers in `gpus`, and their tids to streams."""
    if not gpus or not batch.has("pid"):
        return batch
    pids = pa.array(sorted(gpus), pa.int64())
    selected = pc.is_in(batch.column("pid"), value_set=pids)
    if not selected.true_count:
        return batch
    columns = batch.arrays()
    numbers = pa.array([gpus[pid] for pid in pids.to_pylist()], pa.int64())
    device = numbers.take(pc.index_in(columns["pid"], value_set=pids))
    columns["device"] = pc.if_else(selected, device, batch.column("device"))
    columns["pid"] = pc.if_else(selected, None, columns["pid"])
    if "tid" in columns:
        columns["stream"] = pc.if_else(selected, columns["tid"], batch.column("stream"))
        columns["tid"] = pc.if_else(selected, None, columns["tid"])
    if batch.record == "catalog":
        words = encoded(columns["entity"]).dictionary_decode()
        for host, gpu in _ENTITIES.items():
            words = pc.if_else(pc.and_(selected, pc.equal(words, host)), gpu, words)
        columns["entity"] = words.dictionary_encode()
    return batch.replaced(columns)


#: Columns that counters take from their event.
_SHARED = ("ts", "dur", "clock", "pid", "device", "context", "stream")

#: The step between the ids of an event's metrics, of which there may be more than reserved ids: beyond any file's size.
_ASIDE = 1 << 44

#: The offset of the id of an event's first counter, after the event, its `bind_id` and its wait.
_SERIES = 3

#: Keys of the value of a counter with one value: the series is then named like the counter.
_VALUE = ("value", "")

_NUMBER = re.compile(r"-?[0-9]{1,17}(\.[0-9]{1,17})?([eE][-+]?[0-9]{1,2})?")


def counters(events: Events, rule: Rule, task: Task) -> Iterator[Batch]:
    """C: a row for each numeric argument; each series is a track of the process.

    The thread, and arguments that aren't numbers, stay in the arguments of the event's first row.
    """
    draft = task.timed(Draft.from_events(events))
    if not len(draft):
        return
    task.report.used(len(draft))
    draft.keep_as_argument("tid")
    for member in ("dur", "s", "bp"):
        draft.keep_as_argument(member)
    place(draft, rule, task.dialect)
    # Name and id of the counter of each row: the prefix of the names of its series.
    name = draft.left.pop("name", None)
    parts = [pa.array([""] * len(draft)) if name is None else plain(name).fill_null("")]
    for member in ("id", "args.$id2"):
        column = draft.left.pop(member, None)
        if column is not None and column.null_count < len(column):
            parts.append(pc.binary_join_element_wise("id ", plain(column), ""))
    if "track" in draft.columns:
        parts.insert(0, draft.columns.pop("track").cast(pa.string()))
    prefix = encoded(joined(parts, " "))
    if "cat" in draft.left:
        draft.columns["cat"] = draft.left.pop("cat")
    draft.fill(kind="counter", timing="measured")
    given = np.zeros(len(draft), np.int64)
    keys = sorted(name for name in draft.left if name.startswith("args.") and not name.startswith("args.$"))
    values = {key: _values(draft, key) for key in keys}
    for key, value in values.items():
        if value is not None:
            yield _series(draft, key.removeprefix("args."), value, prefix, given)
    rest = draft.where(given == 0)
    if len(rest):
        _name(rest, "", prefix, given == 0)
        yield rest.batch("events")


def _values(draft: Draft, name: str) -> pa.Array | None:
    """The numbers of an argument as float64. A number that isn't exact as a float stays in the arguments, too."""
    column = draft.left[name]
    if pa.types.is_integer(column.type):
        value, rest = numbers(column)
        draft.set_rest(name, rest)
        return column.cast(pa.float64(), safe=False) if rest is not None else value
    if pa.types.is_dictionary(column.type) and pa.types.is_string(column.type.value_type):
        value, rest = mapped(column, pa.float64(), _number_of)
        if value is not None:
            draft.set_rest(name, rest)
        return value
    value, rest = numbers(column)
    if rest is not None and pa.types.is_binary(decoded(rest.slice(0, 0)).type):  # texts among other values
        texts, rest = mapped(
            rest, pa.float64(), lambda text: _number_of(as_text(text) or "") if text[:1] == b'"' else None
        )
        value = texts if value is None else value if texts is None else pc.coalesce(value, texts)
    if value is not None:
        draft.set_rest(name, rest)
    return value


def _number_of(text: str) -> float | None:
    """The number in a text (Bazel writes its counters so), if it is exact as a float."""
    if not _NUMBER.fullmatch(text):
        return None
    value = float(text)
    return value if Decimal(repr(value)) == Decimal(text) else None


def _series(draft: Draft, key: str, value: pa.Array, prefix: pa.Array, given: Int64) -> Batch:
    """The rows of one key; the offset of an id is the number of earlier rows of the same event (`given`)."""
    mask = valid(value)
    part = draft.where(mask)
    offset = given[mask]
    part = Draft(part.at + offset, dict(part.left), dict(part.columns))
    if offset.any():
        first = pa.array(offset == 0)
        part.left = {
            name: pc.if_else(first, column, pa.nulls(len(part), column.type)) for name, column in part.left.items()
        }
    part.columns["value"] = value if mask.all() else value.filter(pa.array(mask))
    _name(part, key, prefix, mask)
    given[mask] += 1
    return part.batch("events")


def _name(part: Draft, key: str, prefix: pa.Array, mask: Bools) -> None:
    if not mask.all():
        prefix = prefix.filter(pa.array(mask))
    names = [name if key in (*_VALUE, name) else f"{name} {key}" for name in prefix.dictionary.to_pylist()]
    series = pa.DictionaryArray.from_arrays(prefix.indices, pa.array(names, pa.string()))
    part.columns |= {"name": series, "track": series}


def of_events(draft: Draft, rule: Rule) -> Iterator[Batch]:
    """Yields the counters of events: their values leave the arguments, their ids follow the event's."""
    if rule.metrics:
        yield from _metrics(draft)
        return
    for number, (key, series) in enumerate(rule.series.items()):
        column = draft.left.get(f"args.{key}")
        if column is None:
            continue
        value, rest = numbers(column)
        if value is not None:
            draft.set_rest(f"args.{key}", rest)
            offsets = np.full(len(draft), number + _SERIES, np.int64)
            yield _child(draft, series.name, series.unit, value, offsets)


def _metrics(draft: Draft) -> Iterator[Batch]:
    """Yields every number among the arguments as a counter."""
    given = np.full(len(draft), _ASIDE, np.int64)
    for name in sorted(draft.left):
        if not name.startswith("args.") or name.startswith("args.$"):
            continue
        value, rest = numbers(draft.left[name])
        if value is None:
            continue
        draft.set_rest(name, rest)
        yield _child(draft, name.removeprefix("args."), None, value, given)
        given = given + _ASIDE * valid(value)


def _child(draft: Draft, name: str, unit: str | None, value: pa.Array, offsets: Int64) -> Batch:
    mask = valid(value)
    columns = {column: array for column, array in draft.columns.items() if column in _SHARED}
    part = Draft(draft.at, {}, columns | {"parent": pa.array(draft.at), "value": value}).where(mask)
    part = Draft(part.at + offsets[mask], {}, dict(part.columns))
    part.fill(kind="counter", timing="measured", name=name, track=name)
    if unit:
        part.columns["unit"] = constant(unit, len(part))
    return part.batch("events")


_STEPS = {"b": 0, "S": 0, "e": 1, "F": 1}


def slices(events: Events, rule: Rule, task: Task) -> Iterator[Batch]:
    """X: an event with a begin and a duration; one without a duration takes no time."""
    draft = task.timed(Draft.from_events(events))
    if not len(draft):
        return
    dur = draft.left.pop("dur", None)
    without = len(draft) if dur is None else dur.null_count
    if without:
        task.report.issue("no-duration", f"record {draft.at[0]}", "", without)
        dur = pa.array(np.zeros(len(draft), np.int64)) if dur is None else dur.fill_null(0)
    draft.columns["dur"] = dur
    yield from _rows(draft, rule, task)


def halves(events: Events, rule: Rule, task: Task, *, half: str) -> Iterator[Batch]:
    """B: a slice begins on its thread. E: the innermost one there ends; the name of an E has no meaning."""
    draft = task.timed(Draft.from_events(events))
    draft.keep_as_argument("dur")
    draft.fill(half=half)
    yield from _rows(draft, rule, task)


begins, ends = partial(halves, half="begin"), partial(halves, half="end")


def asyncs(events: Events, rule: Rule, task: Task) -> Iterator[Batch]:
    """b/n/e and S/T/p/F: slices and instants on a track of their category, scope and id."""
    draft, phases = _timed(events, task)
    if not len(draft):
        return
    step = by_word(phases, len(draft), lambda word: _STEPS.get(word or "", 2))
    _name_by_category(draft)
    track_of_id(draft)
    for number, half in enumerate(("begin", "end", None)):
        mask = step == number
        if not mask.any():
            continue
        part = draft.where(mask)
        part.keep_as_argument("dur")
        if half:
            part.fill(half=half)
            yield from _rows(part, rule, task, kind="range")
        else:
            part.left["args.$ph"] = encoded(phases).filter(pa.array(mask))
            part.keep_as_argument("s")
            yield from _rows(part, rule, task, kind="instant")


#: Names that are a number, or say by themselves that they are the id of a request.
_REQUEST = (
    "(?i)^([0-9]+|0x[0-9a-f]+|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    "|(req|request|rid|cmpl|chatcmpl)[ _:#-]*[0-9a-f-]*[0-9][0-9a-f-]*)$"
)


def _name_by_category(draft: Draft) -> None:
    """Names events by their category whose name is the number of a request: it is on their track, or an argument."""
    if not {"name", "cat"} <= draft.left.keys():
        return
    name, cat = (plain(draft.left[member]) for member in ("name", "cat"))
    is_key = pc.equal(name, plain(draft.left["id"])) if "id" in draft.left else pa.scalar(False)
    is_key = pc.fill_null(pc.and_(is_key, cat.is_valid()), False)
    is_id = pc.fill_null(pc.and_(pc.match_substring_regex(name, _REQUEST), cat.is_valid()), False)
    if pc.any(is_id).as_py():
        draft.left["name"] = encoded(pc.if_else(is_id, cat, name))
        if pc.any(is_lost := pc.and_(is_id, pc.invert(is_key))).as_py():
            draft.left["args.$name"] = encoded(pc.if_else(is_lost, name, None))


def instants(events: Events, rule: Rule, task: Task) -> Iterator[Batch]:
    """i, I, R: an instant; and all other phases (samples, objects, dumps, ...), with their `$ph`."""
    draft, phases = _timed(events, task)
    if not len(draft):
        return
    draft.keep_as_argument("dur")
    draft.keep_as_argument("s")
    plain = by_word(phases, len(draft), lambda word: int(word in ("i", "I"))) == 1
    if not plain.all():
        draft.left["args.$ph"] = pc.if_else(pa.array(plain), None, phases)
    if rule.kind != "range":
        yield from _rows(draft, rule, task)
        return
    sample = by_word(phases, len(draft), lambda word: int(word == "P")) == 1
    for mask, kind in ((~sample, "instant"), (sample, "sample")):
        if mask.any():
            yield from _rows(draft.where(mask), rule, task, kind=kind)


def _timed(events: Events, task: Task) -> tuple[Draft, pa.Array]:
    """As `Task.timed`, and the phases of the remaining events."""
    draft, phases = Draft.from_events(events), events.columns.get("ph")
    if phases is None:
        phases = pa.nulls(len(events), pa.dictionary(pa.int32(), pa.string()))
    draft.left["ph"] = phases
    draft = task.timed(draft)
    return draft, draft.left.pop("ph")


def _rows(draft: Draft, rule: Rule, task: Task, kind: str | None = None) -> Iterator[Batch]:
    """Yields the events, then their links and counters.

    Halves of a slice are on the thread that both have: an E rarely has the device and the category of its B.
    """
    if not len(draft):
        return
    task.report.used(len(draft))
    links = list(_bind_links(draft))
    half = "half" in draft.columns
    place(draft, task.dialect.other if half else rule, task.dialect)
    for key, into in rule.columns.items():
        if not (half and into.column in TRACK_COLUMNS):
            task.move(draft, key, into)
    _describe(draft, rule, kind)
    draft.keep_as_argument("id")
    draft.keep_as_argument("bp")
    draft.keep_as_argument("s")
    links += waits(draft, rule)
    counters = list(of_events(draft, rule))
    yield draft.batch("events")
    yield from links
    yield from counters


def _describe(draft: Draft, rule: Rule, kind: str | None) -> None:
    """Fills kind, category, name, timing."""
    rows = len(draft)
    name = draft.left.pop("name", None)
    cat = draft.left.pop("cat", None)
    if cat is not None:
        draft.columns["cat"] = cat
    if (rule.kinds or rule.named) and name is not None and not kind:
        kinds = list(dict.fromkeys([rule.kind, *rule.kinds.values(), *(other for _, other in rule.named)]))
        codes = by_word(name, rows, lambda word: kinds.index(rule.kind_of(word or "")))
        draft.columns["kind"] = words(kinds, codes)
    else:
        draft.fill(kind=kind or rule.kind)
    draft.fill(timing="measured")
    if rule.kind == "memcpy" and name is not None:
        _direction(draft, name)
    draft.columns["name"] = (
        pa.array([""] * rows) if name is None else name if not name.null_count else name.cast(pa.string()).fill_null("")
    )


def _direction(draft: Draft, name: pa.Array) -> None:
    """Fills the direction of copies that only the name contains."""
    directions = by_distinct(name, lambda word: direction(as_text(word)), pa.string())
    given = draft.columns.get("copy_kind")
    if given is not None:
        directions = pc.coalesce(given.cast(pa.string()), directions)
    if directions.null_count < len(directions):
        draft.columns["copy_kind"] = directions


_ROLES = {"s": 0, "t": 1, "f": 2}


def flows(events: Events, rule: Rule, task: Task) -> Iterator[Batch]:
    """s, t, f: links, attached to the enclosing slice; an f without bp "e" is attached to the next one.

    Flows of a category that repeats `correlation` are folded; its edges between nodes of a graph are waits.
    """
    dialect = task.dialect
    kinds = ["flow", *dict.fromkeys(kind for kind in dialect.flows.values() if kind), ""]
    kind = by_word(
        events.columns.get("cat"), len(events), lambda cat: kinds.index(dialect.flows.get(cat or "", "flow") or "")
    )
    folded = kind == len(kinds) - 1
    edges = folded & _edges(events)
    if edges.any():
        yield from _waits_of_nodes(events.where(edges), task)
        folded &= ~edges
        events, kind, folded = events.where(~edges), kind[~edges], folded[~edges]
        if not len(events):
            return
    if folded.any():
        task.report.used(int(folded.sum()), outcome="folded")
        if folded.all():
            return
    draft = Draft.from_events(events)
    draft.left["ph"] = events.columns["ph"]
    draft.columns["link"] = words(kinds, kind)
    draft = task.timed(draft.where(~folded))
    has_id = "id" in draft.left
    if not has_id or draft.left["id"].null_count:
        none = ~valid(draft.left["id"]) if has_id else np.full(len(draft), True)
        task.skip("bad-record", "a flow without an id", draft.at[none])
        draft = draft.where(~none)
    if len(draft):
        yield _flow_links(draft, rule, task)


def _flow_links(draft: Draft, rule: Rule, task: Task) -> Batch:
    """The rows of flows."""
    task.report.used(len(draft))
    _fill(draft)
    place(draft, rule, task.dialect)
    draft.keep_as_argument("dur")
    draft.keep_as_argument("s")
    return draft.batch("links")


#: The places of edges: a pid is a device, a tid a stream.
_NODE = Rule("sync", "device")


def _edges(events: Events) -> Bools:
    """Which flows are edges between nodes of a graph."""
    ids = events.columns.get("id")
    numbers = None if ids is None else numbered(ids)[0]
    if numbers is None:
        return np.zeros(len(events), np.bool_)
    result: Bools = pc.fill_null(pc.greater_equal(numbers, EDGE), False).to_numpy(zero_copy_only=False)
    return result


def _waits_of_nodes(events: Events, task: Task) -> Iterator[Batch]:
    """Yields the links of edges. One leaves where work ends, so that the time before is in that work."""
    draft = Draft.from_events(events)
    draft.left["ph"] = events.columns["ph"]
    draft = task.timed(draft)
    if len(draft):
        leaves = by_word(draft.left["ph"], len(draft), lambda word: int(word == "s"))
        draft.fill(link="wait")
        draft.columns["ts"] = pc.subtract(draft.columns["ts"], pa.array(leaves))
        yield _flow_links(draft, _NODE, task)


def _fill(draft: Draft) -> None:
    """Key, role, bind and name of flows."""
    rows = len(draft)
    role = by_word(draft.left.pop("ph"), rows, lambda word: _ROLES.get(word or "", 0))
    binding = by_word(draft.left.get("bp"), rows, lambda word: int(word == "e"))
    draft.columns["role"] = words(["out", "step", "in"], role)
    draft.columns["bind"] = words(["enclosing", "next"], (role == 2) & (binding == 0))
    if "bp" in draft.left:
        used = pa.array((role == 2) & (binding == 1))
        draft.set_rest("bp", pc.if_else(used, None, draft.left["bp"]))
        draft.keep_as_argument("bp")
    parts = [plain(draft.left[member]) for member in ("cat", "name", "id") if member in draft.left]
    draft.columns["key"] = joined(parts, "/")
    for member in ("cat", "name"):
        if member in draft.left:
            draft.columns[member] = draft.left.pop(member)
    del draft.left["id"]


def _bind_links(draft: Draft) -> Iterator[Batch]:
    """Yields the links of slices with a `bind_id`: an arrow arrives (flow_in), leaves (flow_out) or passes."""
    key = draft.left.get("args.$bind_id")
    flags = {name: draft.left.get(f"args.${name}") for name in ("flow_in", "flow_out")}
    if key is None or all(flag is None for flag in flags.values()):
        return
    arrives, leaves = (_true(flag, len(draft)) for flag in flags.values())
    mask = (arrives | leaves) & valid(key)
    if not mask.any():
        return
    index = pa.array(mask)
    role = np.where(arrives & leaves, 1, np.where(leaves, 0, 2))[mask]
    columns = {
        "link": constant("flow", int(mask.sum())),
        "key": plain(key).filter(index),
        "role": words(["out", "step", "in"], role),
        "event": pa.array(draft.at[mask]),
    }
    for name in ("$bind_id", "$flow_in", "$flow_out"):
        column = draft.left.get(f"args.{name}")
        if column is not None:
            draft.set_rest(f"args.{name}", pc.if_else(index, pa.nulls(len(draft), column.type), column))
    yield Draft(draft.at[mask], {}, columns).batch("links", 1)


def _true(flag: pa.Array | None, rows: int) -> Bools:
    if flag is None or not pa.types.is_boolean(flag.type):
        return np.zeros(rows, np.bool_)
    result: Bools = flag.fill_null(False).to_numpy(zero_copy_only=False)
    return result


def waits(draft: Draft, rule: Rule) -> list[Batch]:
    """Returns the links from calls that record an event to work that waits for it, by the call's correlation."""
    key, role, mask = None, "", None
    if rule.waits and f"args.{rule.waits}" in draft.left:
        key, _ = integers(draft.left[f"args.{rule.waits}"])
        role = "in"
        mask = None if key is None else pc.greater(key, 0)
    elif rule.records and "correlation" in draft.columns:
        key, role = draft.columns["correlation"], "out"
        name = encoded(draft.columns["name"])
        calls = [as_text(word) in rule.records for word in name.dictionary.to_pylist()]
        mask = pa.array(calls, pa.bool_()).take(name.indices) if any(calls) else None
    if key is None or mask is None or not pc.any(mask).as_py():
        return []
    chosen: Bools = pc.and_(mask, pc.is_valid(key)).fill_null(False).to_numpy(zero_copy_only=False)
    columns = {
        "link": constant("wait", int(chosen.sum())),
        "key": key.filter(pa.array(chosen)).cast(pa.string()),
        "role": constant(role, int(chosen.sum())),
        "event": pa.array(draft.at[chosen]),
    }
    return [Draft(draft.at[chosen], {}, columns).batch("links", 2)]


def metadata(events: Events, rule: Rule, task: Task) -> Iterator[Batch]:
    """Yields a fact for each distinct event; of equal events the last one counts.

    Metadata other than names, labels and order is a fact, under its own name, of the process, of the thread, or of a
    track if the pid is a text.
    """
    task.report.used(len(events), outcome="catalog")
    draft = Draft.from_events(events)
    for member in ("ts", "dur", "cat", "id", "bp", "s", "args.$tts"):
        draft.left.pop(member, None)
    last = _distinct(draft.left, len(draft))
    distinct = {name: column.take(pa.array(last)) for name, column in draft.left.items()}
    yield to_batch("catalog", [*_rows_of_facts(distinct, draft.at[last].tolist(), task.dialect)])


def _distinct(columns: dict[str, pa.Array], rows: int) -> Int64:
    """The last one of each set of equal rows, in order."""
    code = np.zeros(rows, np.int64)
    for column in map(encoded, columns.values()):
        code = code * (len(column.dictionary) + 1) + indices(column) + 1
        if len(column.dictionary) > 1:
            code = np.unique(code, return_inverse=True)[1].astype(np.int64)
    _, last = np.unique(code[::-1], return_index=True)
    return np.sort(rows - 1 - last)


def _rows_of_facts(columns: dict[str, pa.Array], at: list[int], dialect: Dialect) -> Iterator[dict[str, Any]]:
    """The rows of the catalog, as dicts."""
    names = plain(columns["name"]).fill_null("").to_pylist() if "name" in columns else [""] * len(at)
    pids, tids = _numbers(columns.get("pid"), len(at)), _numbers(columns.get("tid"), len(at))
    args: list[dict[str, Any]] = [{} for _ in at]
    for name, column in columns.items():
        if name.startswith("args."):
            for row, cell in zip(args, json_cells(column).to_pylist(), strict=True):
                if cell is not None:
                    row[name.removeprefix("args.")] = load_json(cell)
    for number, name, (pid, process), (tid, thread), given in zip(at, names, pids, tids, args, strict=True):
        entity: dict[str, Any] = {"entity": "process", "pid": pid}
        if name.startswith("thread_"):
            entity |= {"entity": "thread", "tid": tid}
        text = "/".join(filter(None, (process, thread if name.startswith("thread_") else None)))
        if text:
            entity |= {"entity": "track", "track": text}
        yield (
            {"id": number} | {name: value for name, value in entity.items() if value is not None} | _facts(name, given)
        )
        if dialect.stream_name and name == "thread_name" and pid is not None and tid is not None:
            match = dialect.stream_name.fullmatch(str(given.get("name", "")).strip())
            if match and whole_of(match[1]) == tid:
                yield {"id": number, "entity": "stream", "device": pid, "stream": tid, "name": given["name"].strip()}


def _facts(name: str, args: dict[str, Any]) -> dict[str, Any]:
    """The name, order or facts of an event's entity."""
    row: dict[str, Any] = {}
    args = dict(args)
    if name in ("process_name", "thread_name") and isinstance(args.get("name"), str):
        row["name"] = args.pop("name")
    elif name in ("process_sort_index", "thread_sort_index"):
        order = args.get("sort_index")
        if type(order) is int and abs(order) < 1 << 62:
            row["order"] = args.pop("sort_index")
    elif name == "process_labels" and isinstance(args.get("labels"), str):
        row["facts"] = dump_json({"labels": args.pop("labels")})
    if args and "facts" not in row:
        is_name = name in ("process_name", "thread_name")
        row["facts"] = dump_json(args if is_name else {name: args if len(args) > 1 else next(iter(args.values()))})
    return row


def _numbers(column: pa.Array | None, rows: int) -> list[tuple[int | None, str | None]]:
    """The number of each row, or its text."""
    if column is None:
        return [(None, None)] * rows
    taken, rest = numbered(column)
    numbers = [None] * rows if taken is None else taken.to_pylist()
    texts = [None] * rows if rest is None else plain(rest).to_pylist()
    return list(zip(numbers, texts, strict=True))


Handler = Callable[[Events, Rule, Task], Iterable[Batch]]

#: Phase -> the handler that makes rows from its events. An unknown phase is an instant that keeps its `$ph`.
_HANDLERS: dict[str, Handler] = {
    "X": slices,
    "B": begins,
    "E": ends,
    **dict.fromkeys("bneSTpF", asyncs),
    **dict.fromkeys("stf", flows),
    "C": counters,
    "M": metadata,
}
_ORDER: list[Handler] = [*dict.fromkeys(_HANDLERS.values()), instants]

#: More rules than a dialect has.
_MOST_RULES = 1 << 10

#: Handlers whose rows depend on the rule of the category; of these, those that `signs` apply to.
_BY_CAT: set[Handler] = {slices, begins, ends}
_SIGNED: set[Handler] = {slices, begins}


def mapper(dialect: Dialect) -> Callable[[Events, Conversion], Iterator[Batch]]:
    """Returns the `rows` of `read_document` for a dialect. It can be sent to another process."""
    return partial(_bounded_rows, dialect)


def _bounded_rows(dialect: Dialect, events: Events, conversion: Conversion) -> Iterator[Batch]:
    for batch in to_batches(events, Task(dialect, conversion.label, conversion.report)):
        yield from bounded(batch, conversion.batch_rows)


def to_batches(events: Events, task: Task) -> Iterator[Batch]:
    """Yields the rows of some events, of any phases, and accounts for the events in the task's report."""
    for part, handler, rule in _sorted_out(events, task.dialect):
        for batch in handler(part, rule, task):
            if len(batch):
                yield Batch(batch.record, batch.columns.add_column(0, "source", constant(task.label, len(batch))))


def bounded(batch: Batch, rows: int) -> Iterator[Batch]:
    """Yields the batch in pieces of at most `rows` rows."""
    if len(batch) <= rows:
        yield batch
        return
    for start in range(0, len(batch), rows):
        yield Batch(batch.record, batch.columns.slice(start, rows))


class _Numbers(msgspec.Struct):
    """Numbers the rules in the order of first use."""

    rules: list[Rule]

    def number(self, rule: Rule) -> int:
        for number, other in enumerate(self.rules):
            if other is rule:
                return number
        self.rules.append(rule)
        return len(self.rules) - 1


def _sorted_out(events: Events, dialect: Dialect) -> Iterator[tuple[Events, Handler, Rule]]:
    """Yields the events by handler and rule. If all have the same, they aren't copied."""
    rows, columns = len(events), events.columns
    phase = by_word(columns.get("ph"), rows, lambda word: _ORDER.index(_HANDLERS.get(word or "", instants)))
    rule = np.zeros(rows, np.int64)
    numbers = _Numbers([dialect.other])
    handlers = {_ORDER[number] for number in np.flatnonzero(np.bincount(phase))}
    if handlers & _BY_CAT:
        rule = by_word(columns.get("cat"), rows, lambda word: numbers.number(dialect.of_cat(word)))
    if handlers & _SIGNED:
        for sign in dialect.signs:
            rule = np.where((rule == 0) & _has(sign, events, dialect), numbers.number(sign.rule), rule)
        of_cats = [(number, one.processes) for number, one in enumerate(numbers.rules) if one.processes]
        for number, processes in [*of_cats, *([(0, dialect.processes)] if dialect.processes else [])]:
            rule = np.where(rule == number, _by_process(events, processes, numbers, number), rule)
    if instants in handlers and dialect.names:
        named = by_word(
            columns.get("name"), rows, lambda word: numbers.number(dialect.names.get(word or "", dialect.other))
        )
        rule = np.where(phase == _ORDER.index(instants), named, rule)
    ruled = np.array([handler in _BY_CAT or handler is instants for handler in _ORDER])
    group = phase * _MOST_RULES + np.where(ruled[phase], rule, 0)
    for number in np.flatnonzero(np.bincount(group)).tolist():
        handler, rule_number = divmod(number, _MOST_RULES)
        yield events.where(group == number), _ORDER[handler], numbers.rules[rule_number]


def _by_process(events: Events, processes: Mapping[int, Rule], numbers: _Numbers, other: int) -> Int64:
    """The number of the rule for each event's process, `other` for none."""
    rules = np.full(len(events), other, np.int64)
    column = events.columns.get("pid")
    pids = None if column is None else numbered(column)[0]
    if pids is not None:
        pid_of_event = pids.fill_null(-1).to_numpy(zero_copy_only=False)
        for pid, rule in processes.items():
            rules[pid_of_event == pid] = numbers.number(rule)
    return rules


def _has(sign: Sign, events: Events, dialect: Dialect) -> Bools:
    """Whether each event has the arguments of a sign, and isn't a call of the host."""
    columns = [events.columns.get(f"args.{key}") for key in sign.keys]
    mask = np.full(len(events), all(column is not None for column in columns))
    if not mask.any():
        return mask
    for column in columns:
        mask &= valid(column)
    pattern, calls = sign.value, dialect.calls
    if pattern:
        mask &= by_word(columns[0], len(events), lambda word: bool(pattern.fullmatch(str(word or "")))) == 1
    if calls:
        mask &= by_word(events.columns.get("name"), len(events), lambda word: bool(calls.match(word or ""))) == 0
    return mask
