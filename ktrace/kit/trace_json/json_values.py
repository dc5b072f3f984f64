"""JSON values as text: the elements of a list, the members of an object, the kind and the spelling of a value.

msgspec checks a value and leaves it unparsed (`Raw`).

Microseconds as a trace writes them, converted to exact nanoseconds.

5842913001243.498   "1623143089.1"   1712000000000000   1.5e3   -0.0005
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from ktrace.model.arrays import Bools, Int64
from ktrace.model.json_text import dump_json, json_cells, json_decoder

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
    found: list[bytes] = []
    for part in map(bytes, elements_of(element)):
        inner = [part] if part[:1] == b"{" else events_within(part)
        if not inner:
            return []
        found += inner
    return found


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
        found = pa.array(list(map(_SCALARS[kind], texts)), _SCALAR_TYPES[kind])
    except (ValueError, OverflowError):  # beyond int64, or beyond the digits that Python reads
        return column
    return found.take(column.indices)


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
    found = _plain(b",".join(cells), len(cells)) if rows else None  # type: ignore[arg-type]
    if found is None:
        return _one_by_one(cells)
    ns, rounded = found
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
