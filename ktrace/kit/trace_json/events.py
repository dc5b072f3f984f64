"""Events of one shape as columns: the decoder makes them, the phases turn them into rows.

Members of a document other than its events, and the types of the two functions that receive a document's content.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.kit.columnar.blocks import is_sparse
from ktrace.kit.columnar.dictionaries import indices, used_words
from ktrace.model.arrays import Int64
from ktrace.model.batch import Batch
from ktrace.model.json_text import decoded, encoded, json_cells

from .json_values import scalars

#: Members of an event with a column of their own.
MEMBERS = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "id", "bp", "s")

#: Those that should be texts.
TEXTS = frozenset({"ph", "cat", "name", "bp", "s"})


class Events(msgspec.Struct, frozen=True):
    """Some events of a document, in the order of the document, as Arrow arrays of one length.

    `at` is where each event begins in the document, in bytes, and the id of its first row: further ones (links,
    counters) follow it, and are fewer than the bytes of the event. So ids are unique, and the same at every reading,
    whoever reads, in whatever pieces.

    `columns` has, by name:

        ph, cat, name, bp, s     dictionary<int32, string>: text members (a text of another type as its JSON text)
        ts, dur                  int64 ns, exact, from microseconds as text; null: absent or not a number
        pid, tid, id             int64, or dictionary<int32, string> where the member is a text, or
                                 dictionary<int32, binary>, the JSON text, where it is anything else
        args.<key>               a member of `args`, typed as `ktrace.model.batch.Batch` says
        args.$<key>              a member of the event that isn't in `MEMBERS` ("tts", "cname", "id2", "sf", ...), typed
                                 alike; "$args" if `args` isn't an object; "$ts" and "$dur" keep the source's own text
                                 (binary) if digits below 1 ns were rounded, or if it isn't a number

    A column that no event has is absent. A member that is null or absent in an event is null there.
    """

    at: Int64
    columns: dict[str, pa.Array]

    def __len__(self) -> int:
        return len(self.at)

    def slice(self, start: int, stop: int) -> Events:
        """Consecutive events, without columns that none of them has."""
        taken = {name: column[start:stop] for name, column in self.columns.items()}
        return Events(self.at[start:stop], {name: some for name, some in taken.items() if some.null_count < len(some)})

    def where(self, rows: Int64) -> Events:
        """Some of the events, without columns that none of them has."""
        taken = {name: column.take(pa.array(rows)) for name, column in self.columns.items()}
        return Events(self.at[rows], {name: column for name, column in taken.items() if column.null_count < len(rows)})


class Moves(msgspec.Struct, frozen=True):
    """Where the bytes of a JSON list of events are in the document.

    Byte 0, a bracket, stands before byte `byte`. Of a text that was repaired, those from `offsets[n]` on moved by
    `by[n]`; offsets rise.
    """

    byte: int
    offsets: Int64
    by: Int64

    @classmethod
    def none(cls, byte: int) -> Moves:
        """Those of a text as it is in the document."""
        return cls(byte - 1, np.empty(0, np.int64), np.empty(0, np.int64))

    def places(self, offsets: Int64) -> Int64:
        """The positions in the document of positions in the text."""
        if not len(self.offsets):
            return offsets + self.byte
        moved = np.searchsorted(self.offsets, offsets, "right") - 1
        return offsets + self.byte + np.where(moved < 0, 0, self.by[moved])

    def place(self, offset: int) -> int:
        """The position in the document of one in the text."""
        return int(self.places(np.array([offset]))[0])


#: A member by which events are told apart, and its text.
Tag = tuple[str, str | None]


def by_tag(found: Iterable[Events], order: Mapping[Tag, Sequence[str]]) -> list[Events]:
    """Events of one tag as one, each in the order of the document; the tags are in the order of their first events.

    A tag is a category, or a phase without one. `order` has keys of args by tag; others follow by their names. So the
    order of rows and of arguments doesn't depend on who read which part of a document, nor on how keys became known.
    Where most cells would be empty, the events of a tag are several.
    """
    parts: dict[Tag, list[Events]] = defaultdict(list)
    for events in found:
        for tag, part in _tags(events):
            parts[tag].append(part)
    joined = [_joined(some, order.get(tag, ())) for tag, given in parts.items() for some in _filled(given)]
    return sorted(joined, key=lambda events: int(events.at[0]))


def _filled(parts: list[Events]) -> Iterator[list[Events]]:
    """Yields the parts, or the two halves of their rows: so often that the columns aren't nearly empty."""
    rows, filled = sum(map(len, parts)), 0
    names: set[str] = set()
    for part in parts:
        names.update(part.columns)
        filled += sum(len(part) - column.null_count for column in part.columns.values())
    if rows < 2 or not is_sparse(len(names), rows, filled):
        yield parts
        return
    middle = int(np.sort(np.concatenate([part.at for part in parts]))[rows // 2])
    for half in divided(parts, middle):
        yield from _filled(half)


def divided(parts: list[Events], at: int) -> tuple[list[Events], list[Events]]:
    """The events before a position, and those from it on."""
    ends = [int(np.searchsorted(part.at, at)) for part in parts]
    return (
        [part.slice(0, end) for part, end in zip(parts, ends, strict=True) if end],
        [part.slice(end, len(part)) for part, end in zip(parts, ends, strict=True) if end < len(part)],
    )


def first_beyond(found: list[Events], events: int, names: int) -> int | None:
    """The position of the first event beyond so many events, or so many names of columns; None if there is none."""
    beyond = []
    if sum(map(len, found)) > events:
        beyond.append(int(np.partition(np.concatenate([part.at for part in found]), events)[events]))
    if sum(len(part.columns) for part in found) > names:
        first: dict[str, int] = {}
        for part in found:
            for name, column in part.columns.items():
                at = int(part.at[column.is_valid().index(True).as_py()])
                first[name] = min(first.get(name, at), at)
        if len(first) > names:
            start = min(int(part.at[0]) for part in found)
            beyond += sorted(at for at in sorted(first.values())[names:] if at > start)[:1]
    return min(beyond) if beyond else None


def _tags(events: Events) -> Iterator[tuple[Tag, Events]]:
    """Yields the events of each tag."""
    codes = np.zeros(len(events), np.int64)
    names: list[Tag] = [("ph", None)]
    for member in ("ph", "cat"):
        column = events.columns.get(member)
        if column is not None:
            column = encoded(column)
            known = indices(column)
            codes = np.where(known >= 0, known + len(names), codes)
            names += ((member, word) for word in column.dictionary.to_pylist())
    used = np.flatnonzero(np.bincount(codes))
    for code in used.tolist():
        yield names[code], events if len(used) == 1 else events.where(np.flatnonzero(codes == code))


def _joined(parts: list[Events], keys: Sequence[str]) -> Events:
    """The events of all parts, sorted by place. A column that has several types has JSON texts."""
    rank = {name: number for number, name in enumerate((*MEMBERS, *(f"args.{key}" for key in keys)))}
    found = {name for part in parts for name in part.columns}
    names = sorted(found, key=lambda name: (rank.get(name, len(rank)), name))
    if len(parts) == 1:
        return Events(parts[0].at, {name: scalars(used_words(parts[0].columns[name])) for name in names})
    parts.sort(key=lambda part: int(part.at[0]))
    at = np.concatenate([part.at for part in parts])
    order = pa.array(np.argsort(at, kind="stable"))
    columns = {}
    for name in names:
        given = [part.columns.get(name) for part in parts]
        kinds = {decoded(column.slice(0, 0)).type for column in given if column is not None}
        kind = kinds.pop() if len(kinds) == 1 else pa.binary()
        pieces = [
            pa.nulls(len(part), kind) if column is None else _of_type(column, kind)
            for part, column in zip(parts, given, strict=True)
        ]
        joined = pa.concat_arrays(pieces).take(order)
        is_text = pa.types.is_string(kind) or pa.types.is_binary(kind)
        columns[name] = scalars(joined.dictionary_encode()) if is_text else joined
    return Events(at[order.to_numpy()], columns)


def _of_type(column: pa.Array, kind: pa.DataType) -> pa.Array:
    column = decoded(column)
    return column if column.type == kind else json_cells(column).cast(kind)


#: Greatest number of bytes of a member; a longer one (an ftrace text) is skipped in bounded memory.
LARGEST_MEMBER = 32 << 20


class Member(msgspec.Struct, frozen=True):
    """A member of the top-level object: its key, its JSON text (repaired if necessary), where the text begins."""

    key: str
    text: bytes
    byte: int

    def value(self, number: Callable[[str], Any] = float) -> Any:
        """Parses the value; `number` converts numbers with a point or an exponent. Returns the text if Python can't."""
        try:
            return json.loads(self.text, parse_float=number)
        except ValueError:  # a whole number of thousands of digits
            return self.text.decode("utf-8", "replace")


#: Makes rows from events.
RowsOf = Callable[[Events, Conversion], Iterator[Batch]]
#: Makes rows, usually facts, from a member.
MemberOf = Callable[[Member, Conversion], Iterable[Batch]]
