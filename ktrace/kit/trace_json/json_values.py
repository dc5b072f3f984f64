"""JSON values as text: the elements of a list, the members of an object, the kind and the spelling of a value.

msgspec checks a value and leaves it unparsed (`Raw`).

Microseconds as a trace writes them, converted to exact nanoseconds.

5842913001243.498   "1623143089.1"   1712000000000000   1.5e3   -0.0005
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from ktrace.model.arrays import Bools, Int64
from ktrace.model.json_text import dump_json, json_cells

Raw = msgspec.Raw

#: Returns the elements of a JSON list. Raises msgspec.DecodeError, and RecursionError for too deep a nesting.
elements_of = msgspec.json.Decoder(list[Raw]).decode

#: Returns the members of a JSON object; raises the same.
members_of = msgspec.json.Decoder(dict[str, Raw]).decode


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


def starts_of(text: bytes) -> list[int]:
    """Where the elements of a list begin, those of a list of events within it by themselves."""
    found, place = [], 1
    for element in elements_of(text):
        place = text.find(element, place)
        inner = events_within(bytes(element))
        for one in inner:
            place = text.find(one, place)
            found.append(place)
            place += len(one)
        if not inner:
            found.append(place)
            place += len(element)
    return found


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
    try:
        text = b",".join(cells)  # type: ignore[arg-type]
    except TypeError:
        return _one_by_one(cells)
    found = _plain(text, len(cells))
    if found is None:
        return _one_by_one(cells)
    ns, rounded = found
    if rounded is None:
        return Times(ns)
    rows = rounded.tolist()
    return Times(ns, None, {row: bytes(cells[row]) for row in rows}, (), rows)


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
        if whole is None or not -_BOUND <= whole < _BOUND:
            kept[row] = text
            continue
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
    return number if number.is_finite() and -40 < number.adjusted() < 20 and len(text) < 400 else None
