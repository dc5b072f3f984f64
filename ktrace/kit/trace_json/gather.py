"""Events of one shape, gathered chunk by chunk into columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from ktrace.kit.columnar.blocks import is_sparse
from ktrace.kit.columnar.dictionaries import constant
from ktrace.model.arrays import Int64

from .cells import Bools, Clock, Numbers, Raws, Sparse, Texts
from .events import MEMBERS, TEXTS, Events
from .json_values import Raw, members_of
from .shapes import Struct, column_name

CLOCKS = ("ts", "dur")
_as_tuple = msgspec.structs.astuple


@dataclass(frozen=True, slots=True)
class Group:
    """Events of a chunk that have one shape: structs, or dictionaries of JSON texts where `struct` is None."""

    struct: Struct | None
    rows: Int64
    events: Sequence[Any]


class OddTime(NamedTuple):
    """A time of an event of a group, by its row in it: the kind of issue, and the source's number."""

    row: int
    kind: str
    cell: bytes


class _Few:
    """Members and args of events from row `start` on, by key; few rows have each of them."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.members: dict[str, Sparse] = {}
        self.args: dict[str, Sparse] = {}
        self.filled = 0

    def is_full(self, row: int) -> bool:
        """Whether the columns have too many empty cells for a further row."""
        return is_sparse(len(self.members) + len(self.args), row - self.start, self.filled)


class Gather:
    """The columns of one shape; without a struct, those of any events."""

    def __init__(self, struct: Struct | None) -> None:
        self.ats: list[Int64] = []
        self._struct = struct
        self._rows = 0
        self._clocks = {key: Clock() for key in CLOCKS}
        self._odd_times: list[OddTime] = []
        members, args = (struct.members, struct.args) if struct else ((), ())
        self._members: dict[str, Any] = {key: _member(key, kind) for key, kind in members if key not in CLOCKS}
        self._args: dict[str, Any] = {key: column_of(kind) for key, kind in args}
        self._few = [_Few(0)]

    def add(self, events: Sequence[Any]) -> list[OddTime]:
        """Adds events of a chunk; returns what is odd about their times."""
        self._odd_times = []
        if self._struct:
            self._add_structs(self._struct, events)
        else:
            self._add_objects(events)
        self._rows += len(events)
        return self._odd_times

    @property
    def pieces(self) -> int:
        """How many `Events` the gathered ones are."""
        return len(self._few)

    def finish(self) -> list[Events]:
        """Returns all events since the last call as columns, without columns that no event has.

        They are several where the events have so many keys that most cells would be empty.
        """
        count, self._rows = self._rows, 0
        ats, self.ats = np.concatenate(self.ats), []
        few, self._few = self._few, [_Few(0)]
        members = {key: column.finish() for key, column in self._members.items()}
        kept = {}
        for key, clock in self._clocks.items():
            members[key], kept[f"args.${key}"] = clock.finish()
        args = {key: column.finish() for key, column in self._args.items()}
        found = []
        for one, end in zip(few, [*(after.start for after in few[1:]), count], strict=True):
            part = slice(one.start, end)
            own = {key: column.spread(one.start, end) for key, column in one.members.items()}
            own_args = {key: column.spread(one.start, end) for key, column in one.args.items()}
            found.append(
                joined_columns(
                    ats[part],
                    self._struct,
                    _rows_of(members, part) | own,
                    _rows_of(args, part) | own_args,
                    _rows_of(kept, part),
                )
            )
        return found

    def _add_structs(self, struct: Struct, events: Sequence[Any]) -> None:
        *members, args = zip(*map(_as_tuple, events), strict=True)
        for (key, _), cells in zip(struct.members, members, strict=True):
            if key in self._clocks:
                self._take_clock(key, cells)
            else:
                self._members[key].add(cells)
        if struct.args:
            self._add_args(args, struct)
        elif struct.loose:
            for row, cell in enumerate(args, self._rows):
                self._put_args(self._few_of(row), row, cell)

    def _add_args(self, args: Sequence[Any], struct: Struct) -> None:
        try:
            rows = list(map(_as_tuple, args))
        except TypeError:  # some events have none
            nothing = (None,) * len(struct.args)
            rows = [nothing if cell is None else _as_tuple(cell) for cell in args]
        for column, cells in zip(self._args.values(), zip(*rows, strict=True), strict=True):
            column.add(cells)

    def _add_objects(self, events: Sequence[dict[str, Raw]]) -> None:
        clocks: dict[str, list[Raw | None]] = {key: [] for key in CLOCKS}
        for row, event in enumerate(events, self._rows):
            for key in CLOCKS:
                clocks[key].append(event.get(key))
            few = self._few_of(row)
            self._put_args(few, row, event.get("args"))
            for key, value in event.items():
                if key not in ("ts", "dur", "args"):
                    column = few.members.get(key)
                    if column is None:
                        column = few.members[key] = Sparse(as_text=key in TEXTS, null=key not in MEMBERS)
                    column.put(row, bytes(value))
                    few.filled += 1
        for key, cells in clocks.items():
            self._take_clock(key, cells)

    def _few_of(self, row: int) -> _Few:
        """Where the members and args of a row belong."""
        if self._few[-1].is_full(row):
            self._few.append(_Few(row))
        return self._few[-1]

    def _put_args(self, few: _Few, row: int, args: Raw | None) -> None:
        """Adds the args of an event key by key."""
        if args is None:
            return
        text = bytes(args)
        if text[:1] != b"{":
            few.members.setdefault("args", Sparse()).put(row, text)
            return
        members = members_of(text)
        for key, value in members.items():
            column = few.args.get(key)
            if column is None:
                column = few.args[key] = Sparse()
            column.put(row, bytes(value))
        few.filled += len(members)

    def _take_clock(self, key: str, cells: Sequence[Raw | None]) -> None:
        clock = self._clocks[key]
        clock.add(cells)
        for kind, rows in (("rounded", clock.rounded), ("text-number", clock.texts)):
            self._odd_times += (OddTime(row, kind, bytes(cells[row])) for row in rows)  # type: ignore[arg-type]


def joined_columns(
    ats: Int64,
    struct: Struct | None,
    members: dict[str, pa.Array],
    args: dict[str, pa.Array],
    kept: dict[str, pa.Array | None] | None = None,
) -> Events:
    """Events of a shape from the columns of their members and args, without those that no event has.

    `kept`: source texts of times that their columns don't represent.
    """
    count = len(ats)
    found: dict[str, pa.Array] = {column_name(key): column for key, column in members.items()}
    if struct:
        found[struct.tag_field] = constant(struct.tag, count)
    columns = {key: found.pop(key) for key in MEMBERS if key in found}
    columns |= {f"args.{key}": column for key, column in args.items()}
    for key, column in (*found.items(), *(kept or {}).items()):
        if column is not None:
            columns[_unused_name(key, columns)] = column
    return Events(ats, {key: column for key, column in columns.items() if column.null_count < count})


def _rows_of(columns: dict[str, Any], rows: slice) -> dict[str, Any]:
    """Some rows of columns."""
    return {key: column if column is None else column[rows] for key, column in columns.items()}


def _member(key: str, kind: str) -> Any:
    """A column for a member of the event."""
    if key in TEXTS:
        return Texts() if kind == "str" else Raws(as_text=True)
    return column_of(kind, null=key not in MEMBERS)


def column_of(kind: str, *, null: bool = True) -> Any:
    """A column for values of a kind; `null`: null is a value, different from absent."""
    if kind == "str":
        return Texts()
    if kind == "bool":
        return Bools()
    return Raws(null=null) if kind == "raw" else Numbers(kind)


def _unused_name(key: str, columns: dict[str, Any]) -> str:
    """The name, with more "$" if the source has an argument of that name."""
    while key in columns:
        key = key.replace("args.", "args.$", 1)
    return key
