"""Counters: C, and numbers in the arguments of other events (totals of an allocation, metrics of a range)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.columnar.dictionaries import constant
from ktrace.model.arrays import Bools, Int64
from ktrace.model.batch import Batch
from ktrace.model.json_text import decoded, encoded

from .dialect import Rule
from .draft import Draft, Task, as_text, mapped, numbers, valid
from .events import Events
from .places import joined, place, plain

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
    prefix = _prefix(draft)
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
        texts, rest = mapped(rest, pa.float64(), _number_in)
        value = texts if value is None else value if texts is None else pc.coalesce(value, texts)
    if value is not None:
        draft.set_rest(name, rest)
    return value


def _number_in(text: bytes) -> float | None:
    return _number_of(as_text(text) or "") if text[:1] == b'"' else None


def _number_of(text: str) -> float | None:
    """The number in a text (Bazel writes its counters so), if it is exact as a float."""
    if not _NUMBER.fullmatch(text):
        return None
    value = float(text)
    return value if Decimal(repr(value)) == Decimal(text) else None


def _prefix(draft: Draft) -> pa.Array:
    """Name and id of the counter of each row: the prefix of the names of its series."""
    name = draft.left.pop("name", None)
    parts = [pa.array([""] * len(draft)) if name is None else plain(name).fill_null("")]
    for member in ("id", "args.$id2"):
        column = draft.left.pop(member, None)
        if column is not None and column.null_count < len(column):
            parts.append(pc.binary_join_element_wise("id ", plain(column), ""))
    if "track" in draft.columns:
        parts.insert(0, draft.columns.pop("track").cast(pa.string()))
    return encoded(joined(parts, " "))


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
