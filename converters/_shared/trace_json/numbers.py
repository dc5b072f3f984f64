"""Microseconds as a trace writes them, converted to exact nanoseconds.

5842913001243.498   "1623143089.1"   1712000000000000   1.5e3   -0.0005
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from typing import NamedTuple

import msgspec
import numpy as np

from ktrace.model.arrays import Bools, Int64

from .json_values import Raw

#: Digits of a number that int64 holds for certain.
_DIGITS = 18
_TENS = 10 ** np.arange(_DIGITS + 1, dtype=np.int64)
_NANO = Decimal(1000)
_BOUND = 1 << 63


class Times(NamedTuple):
    """Times in ns; `valid` is None where all are; `kept`: row -> the source's own number, where ns don't say it.

    `texts` are the rows where the number stands in quotes, `rounded` those where digits below 1 ns were lost.
    """

    ns: Int64
    valid: Bools | None = None
    kept: dict[int, bytes] | None = None
    texts: Sequence[int] = ()
    rounded: Sequence[int] = ()


def nanoseconds(cells: Sequence[Raw | None]) -> Times:
    """The numbers of microseconds, half-even where they have digits below 1 ns; None and null are not valid."""
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
    """ns of decimals joined by commas, and the rows that were rounded; None where a cell is anything else."""
    cells = np.frombuffer(text + b",", np.uint8)
    ends = np.flatnonzero(cells == 44)
    if len(ends) != count or cells.max() > 57:  # beyond "9": a letter; a comma more: a text or a list
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
    """The number that a JSON number, or a JSON text of one, says; None where it is none, or out of any range."""
    if text[:1] == b'"':
        text = msgspec.json.decode(text, type=str).strip().encode()
    try:
        number = Decimal(text.decode("ascii"))
    except (InvalidOperation, UnicodeDecodeError):
        return None
    if b"_" in text:
        return None
    return number if number.is_finite() and -40 < number.adjusted() < 20 and len(text) < 400 else None
