"""Slices, halves of slices and instants: X, B/E, b/n/e, S/T/p/F, i/I/R, and unknown phases."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.columnar.dictionaries import words
from ktrace.model.batch import TRACK_COLUMNS, Batch
from ktrace.model.json_text import encoded

from .arrows import bind_links, waits
from .counters import of_events
from .dialect import Rule
from .draft import Draft, Task, as_text, by_word, direction
from .events import Events
from .places import place, track_of_id

_STEPS = {"b": 0, "S": 0, "e": 1, "F": 1}


def slices(events: Events, rule: Rule, task: Task) -> Iterator[Batch]:
    """X: an event with a begin and a duration; one without a duration takes no time."""
    draft = task.timed(Draft.of(events))
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
    draft = task.timed(Draft.of(events))
    draft.keep("dur")
    draft.fixed(half="begin")
    yield from _rows(draft, rule, task)


def ends(events: Events, rule: Rule, task: Task) -> Iterator[Batch]:
    """E: the innermost slice of its thread ends. The name of an E has no meaning."""
    draft = task.timed(Draft.of(events))
    draft.keep("dur")
    draft.fixed(half="end")
    yield from _rows(draft, rule, task)


def asyncs(events: Events, rule: Rule, task: Task) -> Iterator[Batch]:
    """b/n/e and S/T/p/F: slices and instants on a track of their category, scope and id."""
    draft, phases = _timed(events, task)
    if not len(draft):
        return
    step = by_word(phases, len(draft), lambda word: _STEPS.get(word or "", 2))
    track_of_id(draft)
    for number, half in enumerate(("begin", "end", None)):
        mask = step == number
        if not mask.any():
            continue
        part = draft.where(mask)
        part.keep("dur")
        if half:
            part.fixed(half=half)
            yield from _rows(part, rule, task, kind="range")
        else:
            part.left["args.$ph"] = encoded(phases).filter(pa.array(mask))
            part.keep("s")
            yield from _rows(part, rule, task, kind="instant")


def instants(events: Events, rule: Rule, task: Task) -> Iterator[Batch]:
    """i, I, R: an instant; and all other phases (samples, objects, dumps, ...), with their `$ph`."""
    draft, phases = _timed(events, task)
    if not len(draft):
        return
    draft.keep("dur")
    draft.keep("s")
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
    draft, phases = Draft.of(events), events.columns.get("ph")
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
    links = list(bind_links(draft))
    half = "half" in draft.columns
    place(draft, task.dialect.other if half else rule, task.dialect)
    for key, into in rule.columns.items():
        if not (half and into.column in TRACK_COLUMNS):
            task.move(draft, key, into)
    _describe(draft, rule, kind)
    draft.keep("id")
    draft.keep("bp")
    draft.keep("s")
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
        draft.fixed(kind=kind or rule.kind)
    draft.fixed(timing="measured")
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
