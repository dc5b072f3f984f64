"""Whole numbers of inputs: JSON, pickles and texts may have any number of digits, the model has 64 bits."""

from __future__ import annotations

import re

#: The least and the greatest integer of 64 bits.
LEAST, GREATEST = -(1 << 63), (1 << 63) - 1

#: Digits of a text that is an integer of 64 bits: Python refuses to parse more than 4,300 of them.
_DIGITS = re.compile(r"\s*[+-]?0*[0-9]{1,19}\s*")


def whole(value: object, least: int = LEAST, greatest: int = GREATEST) -> int | None:
    """Returns the value if it is an integer, not a bool, between these bounds; else None."""
    return value if type(value) is int and least <= value <= greatest else None


def whole_of(text: str, least: int = LEAST, greatest: int = GREATEST) -> int | None:
    """Returns the decimal integer in a text if it is between these bounds; else None."""
    return whole(int(text), least, greatest) if len(text) < 4300 and _DIGITS.fullmatch(text) else None
