"""Events of any shapes, gathered chunk by chunk into columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ktrace.kit.columnar.blocks import is_sparse
from ktrace.model.arrays import Int64

from .cells import Clock, Values
from .events import MEMBERS, TEXTS, Events
from .json_values import Raw

CLOCKS = ("ts", "dur")


#: The JSON texts of the members of an event, and of those of its args, where these are an object.
Event = tuple[dict[str, Raw], dict[str, Raw]]


class OddTime(NamedTuple):
    """A time of an event, by its place among those that were added: the kind of issue, and the source's number."""

    row: int
    kind: str
    cell: bytes


class Columns:
    """Values of objects by key: members of events, or of their args. Objects with the same keys are taken together."""

    def __init__(self, *, of_events: bool = False) -> None:
        self._of_events = of_events
        self._columns: dict[str, Values] = {}
        self._alike: dict[tuple[str, ...], list[tuple[Any, ...]]] = {}  # by their keys: row and values of each object
        self.filled = 0

    def __len__(self) -> int:
        return len(self._columns)

    def add(self, row: int, found: dict[str, Raw]) -> None:
        """Adds an object to a row."""
        keys = tuple(found)
        alike = self._alike.get(keys)
        if alike is None:
            alike = self._alike[keys] = []
            for key in keys:
                self._columns.setdefault(key, self._new(key))
        alike.append((row, *found.values()))
        self.filled += len(keys)

    def settle(self) -> None:
        """Copies what was added, so that the text that it is part of is free."""
        for keys, alike in self._alike.items():
            if alike:
                rows, *columns = zip(*alike, strict=True)
                for key, cells in zip(keys, columns, strict=True):
                    self._columns[key].add(rows, cells)
        self._alike = {}

    def finish(self, start: int, end: int) -> dict[str, pa.Array]:
        """The columns of these rows, which have all values."""
        return {key: column.finish(start, end) for key, column in self._columns.items()}

    def _new(self, key: str) -> Values:
        return Values(as_text=key in TEXTS, null=key not in MEMBERS) if self._of_events else Values()


class _Rows:
    """Events from row `start` on."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.members = Columns(of_events=True)
        self.args = Columns()

    def is_full(self, row: int) -> bool:
        """Whether the columns have too many empty cells for a further row."""
        filled = self.members.filled + self.args.filled
        return is_sparse(len(self.members) + len(self.args), row - self.start, filled)


class Gather:
    """Events as columns."""

    def __init__(self) -> None:
        self._ats: list[Int64] = []
        self._count = 0
        self._clocks = {key: Clock() for key in CLOCKS}
        self._rows = [_Rows(0)]

    @property
    def pieces(self) -> int:
        """How many `Events` the gathered ones are."""
        return len(self._rows)

    def add(self, events: Sequence[Event], ats: Int64) -> list[OddTime]:
        """Adds events of a chunk, which lose members, and their places; returns what is odd about their times."""
        first = len(self._rows) - 1
        times = {key: [members.pop(key, None) for members, _ in events] for key in CLOCKS}
        for row, (members, args) in enumerate(events, self._count):
            if self._rows[-1].is_full(row):
                self._rows.append(_Rows(row))
            self._rows[-1].members.add(row, members)
            if args:
                self._rows[-1].args.add(row, args)
        for rows in self._rows[first:]:
            rows.members.settle()
            rows.args.settle()
        self._ats.append(ats)
        self._count += len(events)
        return [odd for key, cells in times.items() for odd in self._take_times(key, cells)]

    def _take_times(self, key: str, cells: list[Raw | None]) -> Iterator[OddTime]:
        clock = self._clocks[key]
        clock.add(cells)
        for kind, rows in (("rounded", clock.rounded), ("text-number", clock.texts)):
            yield from (OddTime(row, kind, bytes(cells[row])) for row in rows)  # type: ignore[arg-type]

    def finish(self) -> list[Events]:
        """Returns all events since the last call, without columns that no event has.

        They are several where the events have so many keys that most cells would be empty.
        """
        if not self._count:
            return []
        ats, clocks = np.concatenate(self._ats), {key: clock.finish() for key, clock in self._clocks.items()}
        ends = [*(rows.start for rows in self._rows[1:]), self._count]
        found = []
        for rows, end in zip(self._rows, ends, strict=True):
            part = slice(rows.start, end)
            times = {key: times[part] for key, (times, _) in clocks.items()}
            kept = {f"args.${key}": texts[part] for key, (_, texts) in clocks.items() if texts is not None}
            members = times | rows.members.finish(rows.start, end)
            found.append(joined_columns(ats[part], members, rows.args.finish(rows.start, end), kept))
        self._ats, self._count, self._rows = [], 0, [_Rows(0)]
        return found


def joined_columns(
    ats: Int64, members: dict[str, pa.Array], args: dict[str, pa.Array], kept: dict[str, pa.Array] | None = None
) -> Events:
    """Events from the columns of their members and args, without those that no event has.

    `kept`: source texts of times that their columns don't represent.
    """
    columns = {key: members.pop(key) for key in MEMBERS if key in members}
    columns |= {f"args.{key}": column for key, column in args.items()}
    for key, column in (*((f"args.${key}", column) for key, column in members.items()), *(kept or {}).items()):
        columns[_unused_name(key, columns)] = column
    return Events(ats, {key: column for key, column in columns.items() if column.null_count < len(ats)})


def _unused_name(key: str, columns: dict[str, Any]) -> str:
    """The name, with more "$" if the source has an argument of that name."""
    while key in columns:
        key = key.replace("args.", "args.$", 1)
    return key
