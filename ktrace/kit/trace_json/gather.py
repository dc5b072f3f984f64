"""Events of any shapes, gathered chunk by chunk into columns that grow: values, times, codes and their texts."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.columnar.blocks import is_sparse
from ktrace.model.arrays import Bools as Truths
from ktrace.model.arrays import Int32, Int64
from ktrace.model.json_text import decode_document, json_cells
from ktrace.model.masks import present

from .events import MEMBERS, TEXTS, Events
from .json_values import Raw, kind_of, nanoseconds, same_spelling

#: Distinct values that compiled code keeps from one `Events` to the next.
MOST_DISTINCT = 1 << 16

#: How numbers begin.
_DIGITS = {b"-", *(b"%d" % digit for digit in range(10))}

#: A number of fewer characters, without an exponent, is finite as float64.
_FINITE = 300
_EXPONENT = re.compile(rb"[eE]")

#: How lists and objects begin.
_NESTED = frozenset((b"[", b"{"))


class _Codes(dict[bytes, int]):
    """A code for each distinct value, in the order of first occurrence."""

    def __missing__(self, value: bytes) -> int:
        code = self[value] = len(self)
        return code


class Values:
    """A column of JSON values. `as_text`: a text column; `null`: null is a value, different from absent."""

    def __init__(self, *, as_text: bool = False, null: bool = True) -> None:
        self._known = _Codes()
        self._rows = array("i")
        self._codes = array("i")
        self._as_text = as_text
        self._null = null

    def add(self, rows: Iterable[int], cells: Iterable[Raw]) -> None:
        """Adds the values of some rows."""
        self._rows.extend(rows)
        self._codes.extend(map(self._known.__getitem__, map(bytes, cells)))

    def finish(self, start: int, end: int) -> pa.Array:
        """Returns the column of the rows from `start` to before `end`, where all values are."""
        codes = np.full(end - start, -1, np.int32)
        codes[np.frombuffer(self._rows, np.int32) - start] = np.frombuffer(self._codes, np.int32)
        return raw_column(codes, list(self._known), as_text=self._as_text, null=self._null)


class Clock:
    """A column of times in ns, from microseconds as text; and the source's numbers that ns don't represent."""

    def __init__(self) -> None:
        self._pieces: list[pa.Array] = []
        self._kept: list[tuple[int, bytes]] = []
        self._rows = 0
        self.rounded: Sequence[int] = ()
        self.texts: Sequence[int] = ()

    def add(self, cells: Sequence[Raw | None]) -> None:
        """Adds the cells of a chunk. Sets `rounded` and `texts` to the rows that were rounded or in quotes."""
        self.rounded = self.texts = ()
        count = len(cells)
        if cells[0] is None and cells.count(None) == count:
            self._pieces.append(pa.nulls(count, pa.int64()))
        else:
            times = nanoseconds(cells)
            self._pieces.append(pa.array(times.ns, mask=None if times.valid is None else ~times.valid))
            if times.kept:
                self._kept += ((self._rows + row, text) for row, text in times.kept.items())
            self.rounded, self.texts = times.rounded, times.texts
        self._rows += count

    def finish(self) -> tuple[pa.Array, pa.Array | None]:
        """Returns the column of all cells since the last call, and the numbers that it doesn't represent."""
        column = pa.concat_arrays(self._pieces)
        kept = None
        if self._kept:
            codes = np.full(self._rows, -1, np.int32)
            rows, texts = zip(*self._kept, strict=True)
            codes[list(rows)] = np.arange(len(rows), dtype=np.int32)
            kept = dictionary_of(codes, pa.array(texts, pa.binary()))
        self._pieces, self._kept, self._rows = [], [], 0
        return column, kept


def raw_column(codes: Int32, every: list[bytes], *, as_text: bool, null: bool) -> pa.Array:
    """A column of any JSON values by their codes; -1 is absent. `as_text` and `null` as for `Values`."""
    used = np.flatnonzero(np.bincount(codes + 1, minlength=1)[1:])
    place = np.full(len(every) + 1, -1, np.int32)  # the last entry is for -1
    place[used] = np.arange(len(used), dtype=np.int32)
    codes, texts = place[codes], [every[code] for code in used.tolist()]
    if as_text:
        return dictionary_of(codes, pa.array([_as_text(text) for text in texts], pa.string()), nulls=True)
    if not null and b"null" in texts:
        codes = np.where(codes == texts.index(b"null"), np.int32(-1), codes)
    kinds = _kinds(texts if null else [text for text in texts if text != b"null"])
    if kinds == {"str"}:
        return dictionary_of(codes, pa.array(msgspec.json.decode(b"[%b]" % b",".join(texts)), pa.string()))
    if kinds in ({"int"}, {"float"}, {"bool"}):
        scalars = decode_document(b"[%b]" % b",".join(texts))
        try:
            plain = pa.array(scalars, {"int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}[kinds.pop()])
            return plain.take(pa.array(codes, mask=codes < 0))
        except (OverflowError, TypeError, pa.ArrowInvalid):
            pass
    if kinds != {"raw"}:
        texts = [_spelled(text) for text in texts]
    return dictionary_of(codes, pa.array(texts, pa.binary()))


def _kinds(texts: list[bytes]) -> set[str]:
    """The kinds of JSON values; most often it is one, which all of them together tell."""
    firsts = {text[:1] for text in texts}
    if firsts == {b'"'}:
        return {"str"}
    if firsts and firsts <= _NESTED:
        return {"raw"}
    if firsts <= _DIGITS and not _EXPONENT.search(every := b",".join(texts)):
        points = every.count(b".")
        if not points:
            return {"int"}
        if points == len(texts) and max(map(len, texts)) < _FINITE:
            return {"float"}
    return {"raw" if text[:1] in _NESTED else kind_of(text) for text in texts}


def numbers_of(values: Int64, whole: Truths, real: Truths) -> pa.Array:
    """A column of numbers, of which some are `whole` and the values of others the bits of doubles; both as JSON."""
    if not real.any():
        return pa.array(values, mask=~whole)
    parts = pa.array(values.view(np.float64), mask=~real)
    if not whole.any():
        return parts
    return pc.coalesce(json_cells(pa.array(values, mask=~whole)), json_cells(parts)).cast(pa.binary())


def dictionary_of(codes: Int32, values: pa.Array, *, nulls: bool = False) -> pa.DictionaryArray:
    """A column from codes and values; -1 is null, and so is the code of a null value if there may be `nulls`."""
    if nulls and values.null_count:
        away = np.flatnonzero(~present(values))
        codes = np.where(np.isin(codes, away), np.int32(-1), codes)
        values = values.fill_null("")
    absent = codes < 0
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=absent if bool(absent.any()) else None), values)


def _spelled(text: bytes) -> bytes:
    return text if text[:1] in _NESTED else same_spelling(text)


def _as_text(text: bytes) -> str | None:
    """A JSON value as text: the content of a string, None for null, else the JSON text."""
    if text[:1] == b'"':
        return msgspec.json.decode(text, type=str)
    return None if text == b"null" else text.decode()


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
