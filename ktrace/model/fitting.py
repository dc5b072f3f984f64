"""Rows with a value that doesn't fit its column: an integer beyond the column's bits, a text that no encoding has.

    ts=10**30                    the column is required: the row is left out
    grid_x=10**30                moved to the arguments, as "$grid_x"
    name="gemm\\ud800"            half a surrogate pair: replaced by U+FFFD

JSON and pickles have such values, Arrow columns don't: there whole numbers may have any number of digits, and the model
has 64 bits. A batch is examined row by row only if Arrow refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import pyarrow as pa

from ktrace.model.batch import INTERNAL, arrow_schema
from ktrace.model.json_text import dump_json, load_json

#: What Arrow raises for a value that doesn't fit.
MISFITS = (OverflowError, UnicodeEncodeError, TypeError, pa.ArrowInvalid)

_HALF = re.compile("[\ud800-\udfff]")


class Fitted(NamedTuple):
    """A row that fits, None if it can't; a reason if a required value doesn't; whether characters were replaced."""

    row: dict[str, Any] | None
    reason: str = ""
    replaced: bool = False


def fitted(record: str, row: dict[str, Any]) -> Fitted:
    """Returns the row with values that fit their columns. A misfit of a column that may be null becomes an argument."""
    schema, home = arrow_schema(record), "facts" if record == "catalog" else "args"
    cells: dict[str, Any] = {}
    moved: dict[str, Any] = {}
    replaced = False
    for name, value in row.items():
        is_column = name in schema.names
        kind = schema.field(name).type if is_column else INTERNAL.get(name)
        sound = whole_text(value)
        replaced |= sound is not value
        if _fits(sound, kind):
            cells[name] = sound
        elif is_column and not schema.field(name).nullable:
            return Fitted(None, f"{name} is {shown(value)}, which isn't {_article(kind)}")
        else:
            moved[f"${name.removeprefix('args.')}"] = sound
    if moved:
        before = load_json(cells[home]) if cells.get(home) else {}
        cells[home] = whole_text(dump_json((before if isinstance(before, dict) else {"$": before}) | moved))
    return Fitted(cells, replaced=replaced)


def fitted_facts(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns rows of the catalog with values that fit their columns; a row that can't fit is left out."""
    return [fact.row for row in rows if (fact := fitted("catalog", row)).row is not None]


def whole_text(value: Any) -> Any:
    """A text with U+FFFD in place of halves of surrogate pairs, which UTF-8 can't encode; other values unchanged."""
    if isinstance(value, list):
        sound = [whole_text(item) for item in value]
        return sound if any(new is not old for new, old in zip(sound, value, strict=True)) else value
    return _HALF.sub("\ufffd", value) if isinstance(value, str) and _HALF.search(value) else value


def shown(value: Any) -> str:
    """A value for a message: its first 40 characters; of a long integer the number of its bits."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length():,} bits"
    text = whole_text(repr(value))
    return text if len(text) <= 40 else f"{text[:40]}..."


def _fits(value: Any, kind: pa.DataType | None) -> bool:
    try:
        pa.array([value], kind)
    except MISFITS:
        return False
    return True


def _article(kind: pa.DataType | None) -> str:
    if kind is not None and pa.types.is_integer(kind):
        return f"an integer of {kind.bit_width} bits"
    if kind is not None and pa.types.is_floating(kind):
        return "a number"
    return "a list of texts" if kind is not None and pa.types.is_list(kind) else "a text"


#: The least and the greatest integer of 64 bits.
LEAST, GREATEST = -(1 << 63), (1 << 63) - 1

#: Digits of a text that is an integer of 64 bits: Python refuses to parse more than 4,300 of them.
_DIGITS = re.compile(r"\s*[+-]?0*[0-9]{1,19}\s*")


def as_int64(value: object, least: int = LEAST, greatest: int = GREATEST) -> int | None:
    """Returns the value if it is an integer, not a bool, between these bounds; else None."""
    return value if type(value) is int and least <= value <= greatest else None


def whole_of(text: str, least: int = LEAST, greatest: int = GREATEST) -> int | None:
    """Returns the decimal integer in a text if it is between these bounds; else None."""
    return as_int64(int(text), least, greatest) if len(text) < 4300 and _DIGITS.fullmatch(text) else None
