"""Counters: C, and the numbers that other events carry (the totals of an allocation, the metrics of a range)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.model.arrays import Bools, Int64
from ktrace.model.batch import Batch
from ktrace.model.json_text import encoded

from ..columnar.dictionaries import constant
from .dialect import Rule
from .draft import Draft, Task, mapped, numbers, valid
from .events import Events
from .places import joined, place, plain

#: Columns of an event that its counters share.
_SHARED = ("ts", "dur", "clock", "pid", "device", "context", "stream")

#: Between the ids of the metrics of one event, which may be more than ids are counted for: beyond any byte of a file.
_ASIDE = 1 << 44

#: The first counter of an event, behind the event itself, its `bind_id` and its wait.
_SERIES = 3

#: Keys under which a counter of one value has it; the counter's name is then the whole name.
_VALUE = ("value", "")

_NUMBER = re.compile(r"-?[0-9]{1,17}(\.[0-9]{1,17})?([eE][-+]?[0-9]{1,2})?")


def counters(events: Events, rule: Rule, task: Task) -> Iterator[Batch]:
    """C: a row for each key of the arguments that is a number. Its series is a track of the process.

    Thread and whatever is no number stay in the arguments of the event's first row.
    """
    draft = task.timed(Draft.of(events))
    if not len(draft):
        return
    task.report.used(len(draft))
    draft.keep("tid")
    for member in ("dur", "s", "bp"):
        draft.keep(member)
    place(draft, rule, task.dialect)
    around = _around(draft)
    if "cat" in draft.left:
        draft.columns["cat"] = draft.left.pop("cat")
    draft.fixed(kind="counter", timing="measured")
    given = np.zeros(len(draft), np.int64)
    keys = sorted(name for name in draft.left if name.startswith("args.") and not name.startswith("args.$"))
    values = {key: _values(draft, key) for key in keys}
    for key, value in values.items():
        if value is not None:
            yield _series(draft, key.removeprefix("args."), value, around, given)
    rest = draft.where(given == 0)
    if len(rest):
        _named(rest, "", around, given == 0)
        yield rest.batch("events")


def _values(draft: Draft, name: str) -> pa.Array | None:
    """The numbers of an argument as float64. One that a float can't hold stays in the arguments, too."""
    column = draft.left[name]
    if pa.types.is_integer(column.type):
        value, rest = numbers(column)
        draft.leave(name, rest)
        return column.cast(pa.float64(), safe=False) if rest is not None else value
    if pa.types.is_dictionary(column.type) and pa.types.is_string(column.type.value_type):
        value, rest = mapped(column, pa.float64(), _number_of)
        if value is not None:
            draft.leave(name, rest)
        return value
    value, rest = numbers(column)
    if value is not None:
        draft.leave(name, rest)
    return value


def _number_of(text: str) -> float | None:
    """The number that a text says (Bazel writes its counters so), if a float holds it."""
    if not _NUMBER.fullmatch(text):
        return None
    value = float(text)
    return value if Decimal(repr(value)) == Decimal(text) else None


def _around(draft: Draft) -> pa.Array:
    """Name and id of the counter of each row: what its series have in common."""
    name = draft.left.pop("name", None)
    parts = [pa.array([""] * len(draft)) if name is None else plain(name).fill_null("")]
    for member in ("id", "args.$id2"):
        column = draft.left.pop(member, None)
        if column is not None and column.null_count < len(column):
            parts.append(pc.binary_join_element_wise("id ", plain(column), ""))
    if "track" in draft.columns:
        parts.insert(0, draft.columns.pop("track").cast(pa.string()))
    return encoded(joined(parts, " "))


def _series(draft: Draft, key: str, value: pa.Array, around: pa.Array, given: Int64) -> Batch:
    """The rows of one key, each with the number of rows before it of the same event as the offset of its id."""
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
    _named(part, key, around, mask)
    given[mask] += 1
    return part.batch("events")


def _named(part: Draft, key: str, around: pa.Array, mask: Bools) -> None:
    if not mask.all():
        around = around.filter(pa.array(mask))
    names = [name if key in (*_VALUE, name) else f"{name} {key}" for name in around.dictionary.to_pylist()]
    series = pa.DictionaryArray.from_arrays(around.indices, pa.array(names, pa.string()))
    part.columns |= {"name": series, "track": series}


def of_events(draft: Draft, rule: Rule) -> Iterator[Batch]:
    """The counters that hang on events: their values leave the arguments, their ids follow the event's."""
    if rule.metrics:
        yield from _metrics(draft)
        return
    for number, (key, series) in enumerate(rule.series.items()):
        column = draft.left.get(f"args.{key}")
        if column is None:
            continue
        value, rest = numbers(column)
        if value is not None:
            draft.leave(f"args.{key}", rest)
            offsets = np.full(len(draft), number + _SERIES, np.int64)
            yield _child(draft, series.name, series.unit, value, offsets)


def _metrics(draft: Draft) -> Iterator[Batch]:
    """Every number among the arguments as a counter."""
    given = np.full(len(draft), _ASIDE, np.int64)
    for name in sorted(draft.left):
        if not name.startswith("args.") or name.startswith("args.$"):
            continue
        value, rest = numbers(draft.left[name])
        if value is None:
            continue
        draft.leave(name, rest)
        yield _child(draft, name.removeprefix("args."), None, value, given)
        given = given + _ASIDE * valid(value)


def _child(draft: Draft, name: str, unit: str | None, value: pa.Array, offsets: Int64) -> Batch:
    mask = valid(value)
    columns = {column: array for column, array in draft.columns.items() if column in _SHARED}
    part = Draft(draft.at, {}, columns | {"parent": pa.array(draft.at), "value": value}).where(mask)
    part = Draft(part.at + offsets[mask], {}, dict(part.columns))
    part.fixed(kind="counter", timing="measured", name=name, track=name)
    if unit:
        part.columns["unit"] = constant(unit, len(part))
    return part.batch("events")
