"""Events of one shape as columns: the decoder makes them, the phases turn them into rows. And the JSON text of values.

The decoder knows JSON values as text: the elements of a list, the members of an object, the kind and the spelling of a
value. msgspec checks a value and leaves it unparsed (`Raw`). Microseconds become exact nanoseconds:

    5842913001243.498   "1623143089.1"   1712000000000000   1.5e3   -0.0005
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.kit.columnar.blocks import is_sparse
from ktrace.kit.columnar.dictionaries import indices, used_words
from ktrace.model.arrays import Bools, Int64
from ktrace.model.batch import Batch
from ktrace.model.json_text import dump_json, encoded, json_cells, json_decoder

Raw = msgspec.Raw

#: Returns the elements of a JSON list. Raises msgspec.DecodeError, and RecursionError for too deep a nesting.
elements_of = json_decoder(list[Raw])

#: Returns the members of a JSON object; raises the same.
members_of = json_decoder(dict[str, Raw])

#: Bytes of a value that is searched for repeated keys part by part.
LONG = 1 << 20

#: The end of a key; within a text, too, so that there are never fewer than keys.
_KEYS = re.compile(rb'"\s*:')


def kind_of(text: bytes) -> str:
    """The kind of a JSON value: "str", "bool", "int", "float", or "raw" (a list, an object, null, beyond float64)."""
    first = text[:1]
    if first == b'"':
        return "str"
    if first in (b"[", b"{", b"n"):
        return "raw"
    if first in (b"t", b"f"):
        return "bool"
    if b"." in text or b"e" in text or b"E" in text:
        return "float" if math.isfinite(float(text)) else "raw"
    return "int"


def same_spelling(text: bytes) -> bytes:
    """The JSON text of a scalar in the spelling of `json_cells`; lists and objects are unchanged."""
    kind = kind_of(text)
    if kind == "str":
        return dump_json(msgspec.json.decode(text, type=str)).encode()
    if kind == "float":
        spelled: Any = json_cells(pa.array([float(text)], pa.float64()))[0].as_py()
        return str(spelled).encode()
    return b"0" if text == b"-0" else text


def events_within(element: bytes) -> list[bytes]:
    """The events of a list within the list: a further file was appended to the file."""
    if element[:1] != b"[":
        return []
    events: list[bytes] = []
    for part in map(bytes, elements_of(element)):
        inner = [part] if part[:1] == b"{" else events_within(part)
        if not inner:
            return []
        events += inner
    return events


def may_repeat(element: Any) -> bool:
    """Whether a key may occur twice in an object of an element."""
    if len(element) > LONG:
        return _may_repeat_in_parts(element)
    try:
        return _key_count(msgspec.json.decode(element)) < key_ends(element)
    except (msgspec.DecodeError, RecursionError):  # a number that is too long for it
        return True


def _may_repeat_in_parts(value: Any) -> bool:
    """As `_may_repeat`, of a long value: one part of it at a time, since its objects take twenty times its memory."""
    keys, parts = key_ends(value), list[Raw]()
    if value[:1] == b"{":
        parts = list(members_of(value).values())
        if len(parts) + sum(key_ends(view(part)) for part in parts) < keys:
            return True
    elif value[:1] == b"[" and keys:
        parts = elements_of(value)
    return any(may_repeat(view(part)) for part in parts)


def view(value: Raw) -> Any:
    """A view of the text of a value, since `bytes` copies it."""
    return memoryview(value)


def key_ends(text: Any) -> int:
    """At least as many as the text has keys: it counts what ends one, also within texts."""
    return len(_KEYS.findall(text))


def _key_count(value: Any) -> int:
    """How many keys the objects in a JSON value have."""
    if isinstance(value, dict):
        return len(value) + sum(_key_count(item) for item in value.values() if isinstance(item, dict | list))
    if isinstance(value, list):
        return sum(_key_count(item) for item in value if isinstance(item, dict | list))
    return 0


def repeated_keys(element: Any) -> Iterator[str]:
    """Yields the keys that an event, and that its args, have more than once; of a list, those of its events."""
    if may_repeat(element):
        with suppress(RecursionError):
            yield from _repeated(json.loads(bytes(element), object_pairs_hook=_Pairs, parse_int=str))


class _Pairs(list[tuple[str, Any]]):
    """The members of an object, none of them lost."""


def _repeated(value: Any) -> Iterator[str]:
    if isinstance(value, _Pairs):
        for pairs in (value, *(one for key, one in value if key == "args" and isinstance(one, _Pairs))):
            yield from (key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
    elif isinstance(value, list):
        for one in value:
            yield from _repeated(one)


def scalars(column: pa.Array) -> pa.Array:
    """A dictionary of JSON texts as texts, numbers or truth values, where all values are of that one kind.

    Others are unchanged. So a column's type depends on its values alone, not on what was read before.
    """
    if not pa.types.is_dictionary(column.type) or not pa.types.is_binary(column.type.value_type):
        return column
    words, kind = column.dictionary, ""
    for word in words:
        other = kind_of(word.as_py())
        if other == "raw" or (kind and other != kind):
            return column
        kind = other
    texts = words.to_pylist()
    if kind == "str":
        values = pa.array([msgspec.json.decode(text, type=str) for text in texts], pa.string())
        return pa.DictionaryArray.from_arrays(column.indices, values).cast(pa.dictionary(pa.int32(), pa.string()))
    try:
        distinct = pa.array(list(map(_SCALARS[kind], texts)), _SCALAR_TYPES[kind])
    except (ValueError, OverflowError):  # beyond int64, or beyond the digits that Python reads
        return column
    return distinct.take(column.indices)


_SCALARS: dict[str, Callable[[bytes], Any]] = {"int": int, "float": float, "bool": b"true".__eq__}
_SCALAR_TYPES = {"int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}


#: Digits that always fit into int64.
_DIGITS = 18
_TENS = 10 ** np.arange(_DIGITS + 1, dtype=np.int64)
_NANO = Decimal(1000)
_BOUND = 1 << 63

#: What stands for a time that doesn't fit: it is beyond those that ktrace has, and will be left out as such.
_BEYOND = 1 << 62


class Times(NamedTuple):
    """Times in ns; `valid` is None if all are; `kept`: row -> the source's own number, if ns don't represent it.

    `texts` are the rows with a number in quotes, `rounded` those that lost digits below 1 ns.
    """

    ns: Int64
    valid: Bools | None = None
    kept: dict[int, bytes] | None = None
    texts: Sequence[int] = ()
    rounded: Sequence[int] = ()


def nanoseconds(cells: Sequence[Raw | None]) -> Times:
    """Converts microseconds to ns, digits below 1 ns rounded half to even; None and null aren't valid."""
    rows = [row for row, cell in enumerate(cells) if cell is not None]
    if len(rows) < len(cells):
        return _spread(nanoseconds([cells[row] for row in rows]), np.array(rows, np.int64), len(cells))
    times = _plain(b",".join(cells), len(cells)) if rows else None  # type: ignore[arg-type]
    if times is None:
        return _one_by_one(cells)
    ns, rounded = times
    if rounded is None:
        return Times(ns)
    rows = rounded.tolist()
    return Times(ns, None, {row: bytes(cells[row]) for row in rows}, (), rows)


def _spread(times: Times, rows: Int64, count: int) -> Times:
    """Times of some rows, as those of all: the others aren't valid."""
    ns, valid = np.zeros(count, np.int64), np.zeros(count, np.bool_)
    ns[rows], valid[rows] = times.ns, True if times.valid is None else times.valid
    kept = {int(rows[row]): text for row, text in (times.kept or {}).items()}
    return Times(ns, valid, kept, rows[list(times.texts)].tolist(), rows[list(times.rounded)].tolist())


def _plain(text: bytes, count: int) -> tuple[Int64, Int64 | None] | None:
    """ns of decimals joined by commas, and the rounded rows; None if a cell is anything else."""
    cells = np.frombuffer(text + b",", np.uint8)
    ends = np.flatnonzero(cells == 44)
    if len(ends) != count or cells.max() > 57:  # beyond "9": a letter; an additional comma: a text or a list
        return None
    dots = np.flatnonzero(cells == 46)
    sizes = np.empty_like(ends)
    sizes[0] = ends[0] + 1
    np.subtract(ends[1:], ends[:-1], out=sizes[1:])
    if int(sizes.max()) > _DIGITS + 1 or b'"' in text:
        return None
    numbers = np.fromstring(text.replace(b".", b""), np.int64, sep=",")
    if len(dots) == count and bool((ends - dots == 4).all()):
        return numbers, None
    decimals = np.zeros(count, np.int64)
    with_dot = np.searchsorted(ends, dots)
    decimals[with_dot] = ends[with_dot] - dots - 1
    if int((sizes - decimals).max()) + 3 > _DIGITS + 1:
        return None
    above = _TENS[np.maximum(decimals - 3, 0)]
    whole, rest = np.divmod(numbers * _TENS[np.maximum(3 - decimals, 0)], above)
    whole += (2 * rest > above) | ((2 * rest == above) & (whole & 1 == 1))
    rounded = np.flatnonzero(rest)
    return whole, rounded if len(rounded) else None


def _one_by_one(cells: Sequence[Raw | None]) -> Times:
    ns = np.zeros(len(cells), np.int64)
    valid = np.zeros(len(cells), np.bool_)
    kept: dict[int, bytes] = {}
    texts: list[int] = []
    rounded: list[int] = []
    for row, cell in enumerate(cells):
        text = b"null" if cell is None else bytes(cell)
        if text == b"null":
            continue
        number = _decimal(text)
        exact = None if number is None else number * _NANO
        whole = None if exact is None else int(exact.to_integral_value(ROUND_HALF_EVEN))
        if whole is None:
            kept[row] = text
            continue
        if not -_BOUND <= whole < _BOUND:
            whole = _BEYOND if whole > 0 else -_BEYOND
            exact = Decimal(whole)
        ns[row], valid[row] = whole, True
        if whole != exact:
            kept[row] = text
            rounded.append(row)
        if text[:1] == b'"':
            texts.append(row)
    return Times(ns, None if valid.all() else valid, kept, texts, rounded)


def _decimal(text: bytes) -> Decimal | None:
    """The value of a JSON number, or of a JSON text with a number; None for anything else, or far out of range."""
    if text[:1] == b'"':
        text = msgspec.json.decode(text, type=str).strip().encode()
    try:
        number = Decimal(text.decode("ascii"))
    except (InvalidOperation, UnicodeDecodeError):
        return None
    if b"_" in text:
        return None
    return number if number.is_finite() and -40 < number.adjusted() < 400 and len(text) < 400 else None


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

    def where(self, mask: Bools) -> Events:
        """The events for which the mask is true, without columns that none of them has."""
        if mask.all():
            return self
        at, rows = self.at[mask], pa.array(np.flatnonzero(mask))
        taken = {name: column.take(rows) for name, column in self.columns.items()}
        return Events(at, {name: column for name, column in taken.items() if column.null_count < len(at)})


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


def by_tag(tagged: Iterable[Events], order: Mapping[Tag, Sequence[str]]) -> list[Events]:
    """Events of one tag as one, each in the order of the document; the tags are in the order of their first events.

    A tag is a category, or a phase without one. `order` has keys of args by tag; others follow by their names. So the
    order of rows and of arguments doesn't depend on who read which part of a document, nor on how keys became known.
    Where most cells would be empty, the events of a tag are several.
    """
    parts: dict[Tag, list[Events]] = defaultdict(list)
    for events in tagged:
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


def first_beyond(parts: list[Events], events: int, names: int) -> int | None:
    """The position of the first event beyond so many events, or so many names of columns; None if there is none."""
    beyond = []
    if sum(map(len, parts)) > events:
        beyond.append(int(np.partition(np.concatenate([part.at for part in parts]), events)[events]))
    if sum(len(part.columns) for part in parts) > names:
        first: dict[str, int] = {}
        for part in parts:
            for name, column in part.columns.items():
                at = int(part.at[column.is_valid().index(True).as_py()])
                first[name] = min(first.get(name, at), at)
        if len(first) > names:
            start = min(int(part.at[0]) for part in parts)
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
            codes_before = indices(column)
            codes = np.where(codes_before >= 0, codes_before + len(names), codes)
            names += ((member, word) for word in column.dictionary.to_pylist())
    used = np.flatnonzero(np.bincount(codes))
    for code in used.tolist():
        yield names[code], events.where(codes == code)


def _joined(parts: list[Events], keys: Sequence[str]) -> Events:
    """The events of all parts, sorted by place. A column that has several types has JSON texts."""
    rank = {name: number for number, name in enumerate((*MEMBERS, *(f"args.{key}" for key in keys)))}
    names_present = {name for part in parts for name in part.columns}
    names = sorted(names_present, key=lambda name: (rank.get(name, len(rank)), name))
    if len(parts) == 1:
        return Events(parts[0].at, {name: scalars(used_words(parts[0].columns[name])) for name in names})
    parts.sort(key=lambda part: int(part.at[0]))
    at = np.concatenate([part.at for part in parts])
    order = pa.array(np.argsort(at, kind="stable"))
    columns = {}
    for name in names:
        given = [part.columns.get(name) for part in parts]
        kinds = {column.type for column in given if column is not None}
        kind = kinds.pop() if len(kinds) == 1 else pa.dictionary(pa.int32(), pa.binary())
        pieces = [
            pa.nulls(len(part), kind) if column is None else column if column.type == kind else _as_json(column)
            for part, column in zip(parts, given, strict=True)
        ]
        columns[name] = scalars(pa.chunked_array(pieces, kind).unify_dictionaries().combine_chunks().take(order))
    return Events(at[order.to_numpy()], columns)


def _as_json(column: pa.Array) -> pa.DictionaryArray:
    return json_cells(column).cast(pa.binary()).dictionary_encode()


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
