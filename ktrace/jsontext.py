"""Arrow columns as JSON text, and the JSON of `args` and `facts`."""

from __future__ import annotations

import json
import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def decoded(column: pa.Array) -> pa.Array:
    """The column (or chunked column) without its dictionary, where it has one."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def fold_args(text: pa.Array, typed: dict[str, pa.Array]) -> pa.Array:
    """JSON objects (or null) with members added: key -> typed column, of the types that `Batch` names.

    A key stands in the text or in a column, not in both. Rows without any member stay null.
    """
    if not typed:
        return text
    members = [
        pc.binary_join_element_wise(pa.scalar(f",{dump_json(key)}:"), json_cells(column), "")
        for key, column in typed.items()
    ]
    skip = {"null_handling": "replace", "null_replacement": ""}
    joined = pc.binary_join_element_wise(*members, "", **skip)
    if text.null_count < len(text):
        inside = pc.utf8_trim_whitespace(decoded(text))
        inside = pc.utf8_slice_codeunits(inside, 1, -1)  # without the braces
        inside = pc.if_else(pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(inside)), 0), None, inside)
        joined = pc.binary_join_element_wise(
            pc.binary_join_element_wise(pa.scalar(","), inside, ""), joined, "", **skip
        )
    whole = pc.binary_join_element_wise(pa.scalar("{"), pc.utf8_slice_codeunits(joined, 1), pa.scalar("}"), "")
    return pc.if_else(pc.equal(pc.binary_length(joined), 0), decoded(text), whole)


def json_cells(column: pa.Array) -> pa.StringArray:
    """The values of a column as JSON texts, null where they are null; binary is JSON text already."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        if len(column.dictionary) > len(column):
            return json_cells(column.dictionary_decode())
        return json_cells(column.dictionary).take(column.indices)
    if pa.types.is_binary(kind):
        return column.cast(pa.string())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return quoted(column.cast(pa.string()))
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return column.cast(pa.string())
    if pa.types.is_floating(kind):
        return _float_cells(column)
    return pa.array([None if value is None else dump_json(value) for value in column.to_pylist()], pa.string())


def quoted(text: pa.StringArray) -> pa.StringArray:
    """Texts as JSON strings."""
    quote = pa.scalar('"')
    if not pc.any(pc.match_substring_regex(text, r'["\\\x00-\x1f]')).as_py():
        return pc.binary_join_element_wise(quote, text, quote, "")
    distinct = text.dictionary_encode()
    values = [None if value is None else dump_json(value) for value in distinct.dictionary.to_pylist()]
    return pa.array(values, pa.string()).take(distinct.indices)


def _float_cells(column: pa.Array) -> pa.StringArray:
    """The shortest text that reads back as the same number; whole numbers end in `.0`."""
    text = pc.replace_substring_regex(column.cast(pa.string()), r"^(-?[0-9]+)$", r"\1.0")
    if pc.all(pc.is_finite(column)).as_py() is not False:
        return text
    nan, infinite = pc.is_nan(column), pc.is_inf(column)
    positive = pc.and_(infinite, pc.greater(column, 0.0))
    return pc.case_when(
        pc.make_struct(pc.fill_null(nan, False), pc.fill_null(positive, False), pc.fill_null(infinite, False)),
        *(pa.scalar(f'"{word}"') for word in ("NaN", "Infinity", "-Infinity")),
        text,
    )


def dump_json(value: Any) -> str:
    """JSON text as it stands in `args` and `facts`: compact, in the order of the keys, NaN and inf as strings."""
    try:
        return _ENCODER.encode(value)
    except ValueError:
        return _ENCODER.encode(_spelled(value))


#: One encoder for all: json.dumps makes a new one at every call, which costs half of its time.
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _spelled(value: Any) -> Any:
    """The value with NaN and the infinities as the strings 'NaN', 'Infinity', '-Infinity'."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _spelled(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_spelled(item) for item in value]
    return value
