"""Chrome trace JSON that ktrace wrote, read back as the rows that it was written from (docs/formats/chrome.md).

{"otherData":{"ktrace":{"ktrace":"1.0","origin_ns":1724000000123456789,"rows":[...],"catalog":[...]}},"traceEvents":[
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.columnar.dictionaries import constant, words
from ktrace.kit.timelines import PLAIN
from ktrace.kit.trace_json.dialect import Dialect, Into
from ktrace.kit.trace_json.draft import Draft, Task, by_word, integers, mapped, numbers, valid
from ktrace.kit.trace_json.events import Events
from ktrace.kit.trace_json.phases import bounded, plain
from ktrace.model.arrays import Int64
from ktrace.model.batch import TRACK_COLUMNS, Batch, arrow_schema
from ktrace.model.fitting import fitted_facts
from ktrace.model.json_text import dump_json, encoded, load_json
from ktrace.model.row_builder import to_batch

_MARK = re.compile(rb'^\s*\{[^{}]*"otherData"\s*:\s*\{\s*"ktrace"\s*:\s*(?=\{)')

#: The head has at most this many bytes.
_LARGEST = 1 << 30

#: Ids of links, which the format doesn't keep, begin here: above those of rows.
_LINK_IDS = 1 << 60

_PHASES = {"X": 0, "i": 1, "C": 2, "s": 3, "t": 3, "f": 3, "M": 4}
_ROLES = {"s": 0, "t": 1, "f": 2}
_CONVERSIONS = {"int64": "int", "int32": "int32", "double": "float", "string": "text"}


@dataclass(frozen=True)
class Head:
    """The head of the file: the model's version, the origin, the track of each row of the viewer."""

    about: dict[str, Any]
    label: str

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        result: list[dict[str, Any]] = self.about.get("rows", [])
        return result

    @cached_property
    def numbers(self) -> dict[tuple[int, int], int]:
        """(pid, tid) -> index of the row."""
        return {(row["pid"], row["tid"]): number for number, row in enumerate(self.rows)}

    def catalog(self) -> Iterator[Batch]:
        """Yields the catalog as it was."""
        rows = [
            row | ({"facts": dump_json(row["facts"])} if "facts" in row else {})
            for row in self.about.get("catalog", [])
        ]
        if rows:
            yield to_batch("catalog", fitted_facts(rows))

    def number(self, pid: int, tid: int) -> int:
        """Returns the index of the row that (pid, tid) is, or a lane of; -1 if it is unknown."""
        lanes = self.about.get("lanes") or {}
        if lanes and tid >= lanes["first"]:
            return int((tid - lanes["first"]) // lanes["each"])
        return self.numbers.get((pid, tid), -1)


def read_head(source: Source) -> dict[str, Any] | None:
    """Returns ktrace's head of the file; None for a file that another program wrote."""
    with source.open(quiet=True) as stream:
        head = stream.read(1 << 16)
        match = _MARK.match(head)
        if not match:
            return None
        while len(head) < _LARGEST:
            try:
                about, _ = json.JSONDecoder().raw_decode(head[match.end() :].decode("utf-8", "ignore"))
            except ValueError:
                more = stream.read(max(len(head), 1 << 20))
                if not more:
                    return None
                head += more
            else:
                return about if _is_valid_head(about) else None
    return None


def _is_valid_head(about: Any) -> bool:
    """Whether the head has all that is needed; a file with a damaged head is read like any other program's."""
    if not isinstance(about, dict) or type(about.get("origin_ns")) is not int:
        return False
    rows, catalog, lanes = about.get("rows", []), about.get("catalog", []), about.get("lanes") or None
    if not isinstance(rows, list) or not isinstance(catalog, list):
        return False
    if lanes and not (isinstance(lanes, dict) and all(type(lanes.get(key)) is int for key in ("first", "each"))):
        return False
    tracks = all(
        isinstance(row, dict) and _is_int64(row.get("pid")) and _is_int64(row.get("tid")) and _is_row(row.get("track"))
        for row in rows
    )
    return tracks and all(_is_row(row) and isinstance(row.get("entity"), str) for row in catalog)


def _is_row(row: Any) -> bool:
    """Whether the values have the types of the catalog's columns."""
    if not isinstance(row, dict):
        return False
    schema = arrow_schema("catalog")
    for name, value in row.items():
        if name not in schema.names:
            return False
        whole = pa.types.is_integer(schema.field(name).type)
        if value is not None and name != "facts" and not (_is_int64(value) if whole else isinstance(value, str)):
            return False
    return True


def _is_int64(value: Any) -> bool:
    """Whether it is an int64."""
    return type(value) is int and abs(value) < 1 << 63


def rows_back(head: Head, events: Events, conversion: Conversion) -> Iterator[Batch]:
    """Yields the rows of events, as `rows` of `read_document`, for a file that ktrace wrote."""
    task = Task(Dialect({}, origin=head.about["origin_ns"]), conversion.label, conversion.report)
    phase = by_word(events.columns.get("ph"), len(events), lambda word: _PHASES.get(word or "", 1))
    for number in np.unique(phase).tolist():
        part = events.where(phase == number)
        if number == _PHASES["M"]:
            task.report.used(len(part), outcome="catalog")
            continue
        make = {2: _counters, 3: _flows}.get(number, _events)
        for batch in make(part, head, task):
            yield from bounded(batch, conversion.batch_rows)


def _events(events: Events, head: Head, task: Task) -> Iterator[Batch]:
    draft = task.timed(Draft.from_events(events))
    if not len(draft):
        return
    task.report.used(len(draft))
    _put_tracks(draft, _row_numbers(draft, head), head)
    if "dur" in draft.left:
        draft.columns["dur"] = draft.left.pop("dur")
    unfinished = draft.left.pop("args.unfinished", None)
    if unfinished is not None and pa.types.is_boolean(unfinished.type) and "dur" in draft.columns:
        draft.columns["dur"] = pc.if_else(pc.fill_null(unfinished, False), None, draft.columns["dur"])
    _put_columns(draft)
    for key in ("value", "unit"):
        draft.move(key, Into(key, "float" if key == "value" else "text"))
    for member in ("id", "bp", "s"):
        draft.keep_as_argument(member)
    yield _with_ids(draft)


def _counters(events: Events, head: Head, task: Task) -> Iterator[Batch]:
    draft = task.timed(Draft.from_events(events))
    if not len(draft):
        return
    task.report.used(len(draft))
    for member in ("pid", "tid"):
        draft.left.pop(member, None)
    track = draft.left.pop("args.$ktrace.track", None)
    numbers = integers(track)[0] if track is not None else None
    rows = np.full(len(draft), -1) if numbers is None else numbers.fill_null(-1).to_numpy()
    _put_tracks(draft, rows, head)
    if "dur" in draft.left:
        draft.columns["dur"] = draft.left.pop("dur")
    _value_and_unit(draft)
    name = draft.left.pop("args.$ktrace.name", None)
    if name is not None:
        draft.left["name"] = pc.coalesce(plain(name), plain(draft.left["name"]))
    draft.left |= {"args.id": draft.left.pop("args.$ktrace.id", pa.nulls(len(draft), pa.int64()))}
    _put_arguments(draft, draft.left.pop("args.$ktrace.args", None))
    _put_columns(draft)
    yield _with_ids(draft)


def _value_and_unit(draft: Draft) -> None:
    """Sets value and unit from the one argument of a counter: its key is the unit."""
    units: list[str] = []
    unit, value = np.full(len(draft), -1, np.int64), pa.nulls(len(draft), pa.float64())
    for name in [name for name in draft.left if name.startswith("args.") and not name.startswith("args.$")]:
        taken, _ = numbers(draft.left.pop(name))
        if taken is not None:
            unit[valid(taken)] = len(units)
            units.append(name.removeprefix("args."))
            value = pc.coalesce(value, taken)
    draft.columns["value"] = value
    named = np.isin(unit, [number for number, word in enumerate(units) if word != "value"])
    if named.any():
        column = pa.DictionaryArray.from_arrays(pa.array(unit.astype(np.int32), mask=~named), pa.array(units))
        draft.columns["unit"] = column


def _put_arguments(draft: Draft, texts: pa.Array | None) -> None:
    """Adds the members of JSON objects as arguments."""
    if texts is None:
        return
    texts = encoded(texts)
    objects = [load_json(text) if text else {} for text in texts.dictionary.to_pylist()]
    keys = dict.fromkeys(key for members in objects if isinstance(members, dict) for key in members)
    for key in keys:
        cells = [dump_json(members[key]).encode() if key in members else None for members in objects]
        draft.left[f"args.{key}"] = pa.array(cells, pa.binary()).take(texts.indices)


def _flows(events: Events, head: Head, task: Task) -> Iterator[Batch]:
    """Yields arrows, except those of launches, which `correlation` implies."""
    launch = by_word(events.columns.get("cat"), len(events), lambda word: int(word == "launch")) == 1
    if launch.any():
        task.report.used(int(launch.sum()), outcome="folded")
    if launch.all():
        return
    events = events.where(~launch)
    whole = np.full(len(events), "cat" in events.columns and "id" in events.columns)
    for member in ("cat", "id") if whole.any() else ():
        whole &= valid(events.columns[member])
    task.skip("bad-record", "a flow without category or id", events.at[~whole])
    if not whole.any():
        return
    events = events.where(whole)
    draft = Draft.from_events(events)
    rows = len(draft)
    task.report.used(rows)
    track = _row_numbers(draft, head)
    _put_tracks(draft, track, head)
    source = {"source": draft.columns["source"]}
    role = by_word(events.columns["ph"], rows, lambda word: _ROLES.get(word or "", 0))
    event = draft.left.get("args.event", pa.nulls(rows, pa.int64()))
    columns = source | {
        "link": draft.left["cat"],
        "key": plain(draft.left["id"]),
        "role": words(["out", "step", "in"], role),
        "event": integers(event)[0],
    }
    yield Draft(draft.at, {}, columns).batch("links", _LINK_IDS)


def _row_numbers(draft: Draft, head: Head) -> Int64:
    """Returns the index of each event's row in the head."""
    pid, tid = (integers(draft.left.pop(name, pa.nulls(len(draft), pa.int64())))[0] for name in ("pid", "tid"))
    if pid is None or tid is None:
        return np.full(len(draft), -1, np.int64)
    pairs = pid.fill_null(-1).to_numpy() << 32 | tid.fill_null(0).to_numpy()
    distinct, inverse = np.unique(pairs, return_inverse=True)
    numbers = np.array([head.number(pair >> 32, pair & 0xFFFFFFFF) for pair in distinct.tolist()], np.int64)
    return np.where(numbers < len(head.rows), numbers, -1)[inverse]


def _put_tracks(draft: Draft, rows: Int64, head: Head) -> None:
    """Sets the track columns of each event, by the index of its row."""
    schema = arrow_schema("events")
    index = pa.array(rows, mask=rows < 0)
    for name in TRACK_COLUMNS:
        kind = schema.field(name).type
        values = pa.array([row["track"].get(name) for row in head.rows], pa.string() if name in _TEXTS else kind)
        column = values.take(index)
        if name == "source":
            column = column.fill_null(head.label)
        if column.null_count < len(column):
            draft.columns[name] = encoded(column) if name in _TEXTS else column


_TEXTS = ("source", "host", "track")


def _put_columns(draft: Draft) -> None:
    """Sets kind, category, name, timing, and the columns that are arguments."""
    cat, name = draft.left.pop("cat", None), draft.left.pop("name", None)
    kind = draft.left.pop("args.kind", None)
    cat = constant("range", len(draft)) if cat is None else cat if not cat.null_count else plain(cat).fill_null("range")
    if kind is None:
        draft.columns["kind"] = cat
    else:
        kind = plain(kind)
        draft.columns["kind"] = encoded(pc.coalesce(kind, plain(cat)))
        draft.columns["cat"] = encoded(pc.if_else(pc.is_valid(kind), plain(cat), None))
    timing = draft.left.pop("args.timing", None)
    draft.columns["timing"] = (
        constant("measured", len(draft)) if timing is None else encoded(plain(timing).fill_null("measured"))
    )
    draft.columns["name"] = pa.array([""] * len(draft)) if name is None else plain(name).fill_null("")
    schema = arrow_schema("events")
    for column in PLAIN:
        if column in TRACK_COLUMNS:  # the row in the head has it
            draft.left.pop(f"args.{column}", None)
            continue
        kind_ = schema.field(column).type
        word = _CONVERSIONS["string" if pa.types.is_dictionary(kind_) else str(kind_)]
        draft.move(column, Into(column, word))  # type: ignore[arg-type]
    for what in ("grid", "block"):
        _put_dimensions(draft, what)
    for key in [key for key in draft.left if key.startswith("args.args.")]:
        draft.left[key.removeprefix("args.")] = draft.left.pop(key)


def _put_dimensions(draft: Draft, what: str) -> None:
    """Sets the columns of {x, y, z}, or of one number if only the product is known."""
    column = draft.left.get(f"args.{what}")
    if column is None:
        return
    if pa.types.is_integer(column.type):
        draft.move(what, Into(f"{what}_x"))
        return
    for axis in "xyz":
        taken, _ = mapped(column, pa.int64(), partial(_axis, axis))
        if taken is not None:
            draft.columns[f"{what}_{axis}"] = taken
    del draft.left[f"args.{what}"]


def _axis(axis: str, text: Any) -> int | None:
    try:
        value = load_json(text) if isinstance(text, bytes) else text
    except ValueError:
        return None
    if isinstance(value, dict):
        value, axis = value.get(axis), "x"
    return value if axis == "x" and _is_int64(value) else None


def _with_ids(draft: Draft) -> Batch:
    """Returns the rows with their original ids."""
    given = draft.left.pop("args.id", None)
    if given is not None:
        ids = integers(given)[0]
        if ids is not None:
            draft.at = np.where(valid(ids), ids.fill_null(0).to_numpy(zero_copy_only=False), draft.at)
    return draft.batch("events")
