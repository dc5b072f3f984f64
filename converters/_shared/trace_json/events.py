"""Events of one shape as columns: the decoder makes them, the phases turn them into rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ktrace.model.arrays import Int64
from ktrace.model.json_text import decoded, encoded, json_cells

from ..columnar.blocks import is_sparse
from ..columnar.dictionaries import indices

#: Members of an event with a column of their own.
MEMBERS = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "id", "bp", "s")

#: Those that should be texts.
TEXTS = frozenset({"ph", "cat", "name", "bp", "s"})

#: Ids reserved for the rows of an event. A slice or an instant (also one of an unknown phase) may have two links (for a
#: bind_id, for a wait), an allocation two counters.
ROOM = 5

#: Phases whose events become one row; a counter has a further row for each series.
ONE_ROW = frozenset("stfMC")


@dataclass(frozen=True, slots=True)
class Events:
    """Some events of a document, in the order of the document, as Arrow arrays of one length.

    `at` is the id of the first row of each event: it increases through the document, is unique, and is the same at
    every reading, whatever the size of batches and the number of processes.

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

    def where(self, rows: Int64) -> Events:
        """Some of the events, without columns that none of them has."""
        taken = {name: column.take(pa.array(rows)) for name, column in self.columns.items()}
        return Events(self.at[rows], {name: column for name, column in taken.items() if column.null_count < len(rows)})


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
    ends = [int(np.searchsorted(part.at, middle)) for part in parts]
    for half in (
        [part.where(np.arange(end)) for part, end in zip(parts, ends, strict=True) if end],
        [part.where(np.arange(end, len(part))) for part, end in zip(parts, ends, strict=True) if end < len(part)],
    ):
        yield from _filled(half)


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
        return Events(parts[0].at, {name: parts[0].columns[name] for name in names})
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
        columns[name] = joined.dictionary_encode() if is_text else joined
    return Events(at[order.to_numpy()], columns)


def _of_type(column: pa.Array, kind: pa.DataType) -> pa.Array:
    column = decoded(column)
    return column if column.type == kind else json_cells(column).cast(kind)
