"""Arrow columns as JSON text, the JSON of `args` and `facts`, and whole records as texts, for validation."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_T = TypeVar("_T")

#: What msgspec raises for bytes that it can't decode: other than JSON, numbers out of range, texts that aren't UTF-8,
#: lists in lists beyond the limit of Python's stack.
NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

#: The texts used for floats that JSON can't write as numbers.
SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def decoded(column: pa.Array) -> pa.Array:
    """The column (or chunked column) without its dictionary, where it has one."""
    if isinstance(column, pa.DictionaryArray):
        return column.dictionary_decode()  # half the time of a cast
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def encoded(column: pa.Array) -> pa.DictionaryArray:
    """The column as a dictionary."""
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()


def json_cells(column: pa.Array) -> pa.StringArray:
    """The values of a column as JSON texts, null where they are null; binary values are JSON text already."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        if len(column.dictionary) > len(column):
            return json_cells(column.dictionary_decode())
        return json_cells(column.dictionary).take(column.indices)
    if pa.types.is_binary(kind):
        return column.view(pa.string())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return quoted(column.cast(pa.string()))
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return column.cast(pa.string())
    if pa.types.is_floating(kind):
        return _float_cells(column)
    if column.null_count == len(column):
        return pa.nulls(len(column), pa.string())
    return pa.array([None if value is None else dump_json(value) for value in column.to_pylist()], pa.string())


def quoted(text: pa.StringArray) -> pa.StringArray:
    """Texts as JSON strings."""
    quote = pa.scalar('"')
    plain = pc.binary_join_element_wise(quote, text, quote, "")
    special = pc.match_substring_regex(text, r'["\\\x00-\x1f]')
    if not special.true_count:
        return plain
    escaped = pa.array(map(dump_json, text.filter(special).to_pylist()), pa.string())
    return escaped if len(escaped) == len(text) else pc.replace_with_mask(plain, special, escaped)


def _float_cells(column: pa.Array) -> pa.StringArray:
    """The shortest text that reads back as the same number; whole numbers end in `.0`."""
    text = column.cast(pa.string())
    whole = pc.equal(column, pc.trunc(column))
    if whole.true_count:
        changed = pc.replace_substring_regex(text.filter(whole), r"^(-?[0-9]+)$", r"\1.0")
        text = changed if len(changed) == len(text) else pc.replace_with_mask(text, whole, changed)
    if pc.all(pc.is_finite(column)).as_py() is not False:
        return text
    for word, number in SPECIAL.items():
        same = pc.is_nan(column) if math.isnan(number) else pc.equal(column, number)
        text = pc.if_else(pc.fill_null(same, False), f'"{word}"', text)
    return text


def dump_json(value: Any) -> str:
    """JSON text in the form of `args` and `facts`: compact, keys in their order, NaN and infinities as strings.

    An integer of more than 4,300 digits, which Python doesn't print, is a string, too, in hexadecimal.
    """
    try:
        return _ENCODER.encode(value)
    except (RecursionError, ValueError):
        with deeper_stack():
            return _ENCODER.encode(_spelled(value))


@contextmanager
def deeper_stack() -> Iterator[None]:
    """Within this block Python bears values that were parsed where the stack was less deep than here."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + 4 * MOST_LEVELS)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


#: Of how many lists and objects, each in another, a JSON value may be. `_spelled` takes up to three calls for each.
MOST_LEVELS = 1000


def refuse_deep(text: Any) -> None:
    """Raises RecursionError for the bytes of a JSON text of more than `MOST_LEVELS` levels, as parsers did till 3.11.

    Python 3.12 and later let them go as deep as the stack of C bears, which is more than what comes after them does.
    Brackets that close in texts may hide some levels.
    """
    if len(text) > MOST_LEVELS and _levels(text) > MOST_LEVELS and _levels(_TEXTS.sub(b"", text)) > MOST_LEVELS:
        raise RecursionError("nested too deeply")


def _levels(text: Any) -> int:
    brackets = np.frombuffer(bytes(text).translate(None, _NO_BRACKETS), np.int8)
    if len(brackets) <= MOST_LEVELS:
        return len(brackets)
    depth = np.cumsum(1 - ((brackets & 4) >> 1), dtype=np.int64)  # [ and { are 0b...0.., ] and } are 0b...1..
    return int((depth - np.minimum(np.minimum.accumulate(depth), 0)).max())


def json_decoder(kind: type[_T]) -> Callable[[Any], _T]:
    """A decoder for values of a type, of msgspec's; it raises as `NOT_JSON` says, and always for too many levels."""
    decode = msgspec.json.Decoder(kind).decode

    def decoded(text: Any) -> _T:
        refuse_deep(text)
        return decode(text)

    return decoded


_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_TEXTS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)


def load_json(text: str | bytes) -> Any:
    """The value of a JSON text. An integer of more than 4,300 digits, which Python refuses, is the text of its digits.

    Raises ValueError for anything else than JSON, also for lists in lists beyond the limit of Python's stack.
    """
    text = paired(text if isinstance(text, str) else text.decode(json.detect_encoding(text)))
    try:
        if len(text) > MOST_LEVELS:
            refuse_deep(text.encode("utf-8", "surrogatepass"))
        return json.loads(text)
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except ValueError:
        return json.loads(text, parse_int=_integer)
    except RecursionError:
        raise ValueError("lists or objects are nested too deeply") from None


def decode_document(text: bytes) -> Any:
    """The value of a JSON document, as msgspec decodes it. A number out of range doesn't refuse it: it is text.

    Raises as `NOT_JSON` says.
    """
    refuse_deep(text)
    try:
        return msgspec.json.decode(text)
    except msgspec.ValidationError as error:
        try:
            return json.loads(paired(text.decode()), parse_int=_integer, parse_float=_finite)
        except ValueError:
            raise error from None


def paired(text: str) -> str:
    """A JSON text with U+FFFD for each escaped half of a surrogate pair: Python would accept it, Arrow wouldn't."""
    return _SURROGATES.sub(lambda match: match[0] if match[1] else "\\ufffd", text) if "\\u" in text else text


_SURROGATES = re.compile(
    r"(\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)


def _finite(digits: str) -> float | str:
    number = float(digits)
    return number if math.isfinite(number) else digits


def load_object(text: str | None) -> dict[str, Any]:
    """The members of `args` or `facts`; none of null. What Python can't parse, nested too deeply, is text: "$json"."""
    try:
        value = load_json(text) if text else {}
    except ValueError:
        return {"$json": text}
    return value if isinstance(value, dict) else {"$json": text}


def _integer(digits: str) -> int | str:
    return int(digits) if len(digits) <= _MOST_DIGITS else digits


#: The most digits of an integer that Python parses and prints, and the most bits that never need more.
_MOST_DIGITS = 4300
_MOST_BITS = 14_284

#: One encoder for all calls: json.dumps creates one at each call, which takes half of its time.
_ENCODER = json.JSONEncoder(
    ensure_ascii=False,
    separators=(",", ":"),
    allow_nan=False,
    # Values that JSON doesn't have, of tables of other programs: dates, decimals, bytes.
    default=lambda value: value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value),
)


def _spelled(value: Any) -> Any:
    """The value with NaN and the infinities as the strings 'NaN', 'Infinity', '-Infinity'; huge integers in hex."""
    if type(value) is int and value.bit_length() > _MOST_BITS:
        return f"{value:#x}"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _spelled(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_spelled(item) for item in value]
    return value


class RecordRun(NamedTuple):
    """Consecutive records as JSON texts.

    `number` is the number of the first record, from 1; number 0 is the header alone. `line` is its line in the file
    where each record has a line, else None.
    """

    number: int
    line: int | None
    texts: list[bytes]


class Fault(msgspec.Struct, frozen=True):
    """A fault of a record: the record's number from 1 (0 is the header), the JSON path in it, the reason."""

    record: int
    path: str
    reason: str
    line: int | None = None
