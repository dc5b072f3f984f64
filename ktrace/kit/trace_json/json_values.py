"""JSON values as text: the elements of a list, the members of an object, the kind and the spelling of a value.

msgspec checks a value and leaves it unparsed (`Raw`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec
import pyarrow as pa

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
