"""Slices, halves of slices and instants: X, B/E, b/n/e, S/T/p/F, i/I/R, and unknown phases; and the ends of arrows.

Arrows are flows (s, t, f), slices with a bind_id, and waits.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.columnar.dictionaries import constant, words
from ktrace.model.arrays import Bools
from ktrace.model.batch import TRACK_COLUMNS, Batch
from ktrace.model.json_text import encoded

from .counters import of_events
from .dialect import EDGE, Rule
from .draft import Draft, Task, as_text, by_word, direction, integers, numbered, valid
from .events import Events
from .places import joined, place, plain, track_of_id

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


def begins(events: Events, rule: Rule, task: Task) -> Iterator[Batch]:
    """B: a slice begins on its thread."""
    draft = task.timed(Draft.from_events(events))
    draft.keep_as_argument("dur")
    draft.fill(half="begin")
    yield from _rows(draft, rule, task)


def ends(events: Events, rule: Rule, task: Task) -> Iterator[Batch]:
    """E: the innermost slice of its thread ends. The name of an E has no meaning."""
    draft = task.timed(Draft.from_events(events))
    draft.keep_as_argument("dur")
    draft.fill(half="end")
    yield from _rows(draft, rule, task)


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


def _name_by_category(draft: Draft) -> None:
    """Names events by their category whose name is their id, a number: that is on their track, and each has another."""
    if not {"name", "id", "cat"} <= draft.left.keys():
        return
    name, key, cat = (plain(draft.left[member]) for member in ("name", "id", "cat"))
    is_id = pc.and_(pc.equal(name, key), pc.match_substring_regex(name, "^(0x[0-9a-fA-F]+|[0-9]+)$"))
    is_id = pc.fill_null(pc.and_(is_id, cat.is_valid()), False)
    if pc.any(is_id).as_py():
        draft.left["name"] = encoded(pc.if_else(is_id, cat, name))


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
    draft.columns["name"] = pa.array([""] * rows) if name is None else name if not name.null_count else _named(name)


def _named(name: pa.Array) -> pa.Array:
    return name.cast(pa.string()).fill_null("")


def _direction(draft: Draft, name: pa.Array) -> None:
    """Fills the direction of copies that only the name contains."""
    name = encoded(name)
    known = pa.array([direction(as_text(word)) for word in name.dictionary.to_pylist()], pa.string())
    found = known.take(name.indices)
    given = draft.columns.get("copy_kind")
    if given is not None:
        found = pc.coalesce(given.cast(pa.string()), found)
    if found.null_count < len(found):
        draft.columns["copy_kind"] = found


_ROLES = {"s": 0, "t": 1, "f": 2}


def flows(events: Events, rule: Rule, task: Task) -> Iterator[Batch]:
    """s, t, f: links, attached to the enclosing slice; an f without bp "e" is attached to the next one.

    Flows of a category that repeats `correlation` are folded; its edges between nodes of a graph are waits.
    """
    dialect, rows = task.dialect, len(events)
    kinds = ["flow", *dict.fromkeys(kind for kind in dialect.flows.values() if kind), ""]
    kind = by_word(events.columns.get("cat"), rows, lambda cat: kinds.index(dialect.flows.get(cat or "", "flow") or ""))
    folded = kind == len(kinds) - 1
    edges = folded & _edges(events)
    if edges.any():
        yield from _waits_of_nodes(events.where(np.flatnonzero(edges)), task)
        folded &= ~edges
        kept = np.flatnonzero(~edges)
        events, kind, folded, rows = events.where(kept), kind[kept], folded[kept], len(kept)
        if not rows:
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
    if not len(draft):
        return
    task.report.used(len(draft))
    _fill(draft)
    place(draft, rule, dialect)
    draft.keep_as_argument("dur")
    draft.keep_as_argument("s")
    yield draft.batch("links")


#: The places of edges: a pid is a device, a tid a stream.
_NODE = Rule("sync", "device")


def _edges(events: Events) -> Bools:
    """Which flows are edges between nodes of a graph."""
    ids = events.columns.get("id")
    numbers = None if ids is None else numbered(ids)[0]
    if numbers is None:
        return np.zeros(len(events), np.bool_)
    found: Bools = pc.fill_null(pc.greater_equal(numbers, EDGE), False).to_numpy(zero_copy_only=False)
    return found


def _waits_of_nodes(events: Events, task: Task) -> Iterator[Batch]:
    """Yields the links of edges. One leaves where work ends, so that the time before is in that work."""
    draft = Draft.from_events(events)
    draft.left["ph"] = events.columns["ph"]
    draft = task.timed(draft)
    if not len(draft):
        return
    task.report.used(len(draft))
    leaves = by_word(draft.left["ph"], len(draft), lambda word: int(word == "s"))
    _fill(draft)
    draft.fill(link="wait")
    draft.columns["ts"] = pc.subtract(draft.columns["ts"], pa.array(leaves))
    place(draft, _NODE, task.dialect)
    draft.keep_as_argument("dur")
    draft.keep_as_argument("s")
    yield draft.batch("links")


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
    found: Bools = flag.fill_null(False).to_numpy(zero_copy_only=False)
    return found


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
