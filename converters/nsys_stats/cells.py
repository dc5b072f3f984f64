"""Columns of text cells as columns of numbers: times in ns, whole numbers, sizes in bytes, arguments.

    "14,533,415,915"  "456173.024"  "1.266 s"       times, in the unit of the heading or their own
    "4.194" below "Bytes (MB)"                      4,194,000 B, known to 500 B

What is plain is done for the whole column; the rest cell by cell, each distinct one once.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.jsontext import dump_json

from .._shared.columns import Heading, cell_quantity, plain, whole
from .._shared.numbers import BYTES, TIME_NS, to_ns

Bools = npt.NDArray[np.bool_]

#: Decimal units of sizes. Real files bear out 10^6 (3 x 2^28 B are printed as 805.306 MB); they are printed with
#: three decimals, so a size in them is known to half a thousandth.
DECIMAL_BYTES = {"kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_WHOLE_BYTES = BYTES | dict.fromkeys(("", "byte", "bytes"), 1)

#: What stands in a cell that says nothing.
_EMPTY = pa.array(["", "-", "--"])

#: Decimals that a float64 holds, and that are written alike wherever a float is written.
_SHORT_DECIMAL = r"^-?\d{1,9}\.\d{1,3}$"

_GREATEST = (1 << 63) - 1
_SCALE = 12
_DIGITS_OF = {"s": 9, "sec": 9, "ms": 6, "msec": 6, "us": 3, "usec": 3, "ns": 0, "nsec": 0, "": 0}


class Times(NamedTuple):
    """Times in ns, null where there is none; and which of them were rounded."""

    ns: pa.Int64Array
    rounded: Bools


def stripped(cells: pa.StringArray) -> pa.StringArray:
    """The cells without blanks around them, null where they say nothing."""
    cells = pc.utf8_trim_whitespace(cells)
    empty = pc.is_in(cells, _EMPTY)
    return pc.if_else(empty, pa.scalar(None, pa.string()), cells) if pc.any(empty).as_py() else cells


def times(cells: pa.StringArray, unit: str) -> Times:
    """Stripped cells as times; `unit` is that of the heading, ns where it has none. What is no time is null."""
    count = len(cells)
    if (ns := _whole_numbers(cells)) is not None and _DIGITS_OF.get(unit) == 0:
        return Times(ns, np.zeros(count, np.bool_))
    if unit in _DIGITS_OF and (found := _decimals(cells, _DIGITS_OF[unit])):
        return found
    return _each_time(cells, unit or "ns")


def _whole_numbers(cells: pa.StringArray) -> pa.Int64Array | None:
    """The cells as int64, None where one of them is anything else but digits and a minus."""
    first = pc.first(cells).as_py()
    if first is not None and not first.lstrip("-").isdecimal():
        return None  # a cast that fails is slow: it goes on to the end
    try:
        numbers = pc.cast(cells, pa.int64())
    except pa.ArrowInvalid:
        return None
    return None if pc.any(pc.match_substring(cells, "x")).as_py() else numbers  # Arrow reads 0x10 as 16


def _decimals(cells: pa.StringArray, digits: int) -> Times | None:
    """Decimals times 10^digits, rounded half to even; None where one is no plain decimal."""
    try:
        exact = pc.cast(cells, pa.decimal128(38, _SCALE))
        moved = pa.Array.from_buffers(
            pa.decimal128(38, _SCALE - digits), len(exact), exact.buffers(), exact.null_count, exact.offset
        )
        ns = pc.round(moved, 0, "half_to_even")
        rounded = pc.fill_null(pc.not_equal(ns, moved), False)
        return Times(pc.cast(ns, pa.int64()), rounded.to_numpy(zero_copy_only=False))
    except pa.ArrowInvalid:
        return None


def _each_time(cells: pa.StringArray, unit: str) -> Times:
    found = [_time(text, unit) for text in cells.to_pylist()]
    return Times(
        pa.array([time and time[0] for time in found], pa.int64()),
        np.array([time is not None and not time[1] for time in found], np.bool_),
    )


def _time(text: str | None, unit: str) -> tuple[int, bool] | None:
    """A time in ns and whether it is exact; one beyond int64 is the greatest int64, which is refused as too late."""
    figure = cell_quantity(text) if text else None
    unit = (figure.unit if figure else "") or unit
    if not figure or not figure.number.is_finite() or unit not in TIME_NS:
        return None
    if abs(figure.number) >= _GREATEST:
        return (_GREATEST if figure.number > 0 else -_GREATEST), True
    ns, exact = to_ns(figure.number, unit)
    return max(-_GREATEST, min(_GREATEST, ns)), exact


def integers(cells: pa.StringArray, greatest: int | None = None) -> pa.Int64Array:
    """Stripped cells as int64, null where they are none, or beyond `greatest`."""
    numbers = _whole_numbers(cells)
    numbers = numbers if numbers is not None else _by_distinct(cells, _integer, pa.int64())
    if greatest is None:
        return numbers
    return pc.if_else(pc.less_equal(pc.abs(numbers), greatest), numbers, pa.scalar(None, pa.int64()))


def _integer(text: str) -> int | None:
    figure = cell_quantity(text)
    return whole(figure.number) if figure and not figure.unit else None


class Sizes(NamedTuple):
    """Sizes in bytes, null where there is none or it rounds to 0; and which cells say no more than a rounded size."""

    bytes: pa.Int64Array
    rounded: Bools


def sizes(cells: pa.StringArray, unit: str) -> Sizes:
    """Stripped cells as sizes; `unit` is that of the heading, B where it has none."""
    if unit in ("", "B", "byte", "bytes") and (numbers := _whole_numbers(cells)) is not None:
        return Sizes(numbers, np.zeros(len(cells), np.bool_))
    if unit in DECIMAL_BYTES and (found := _decimals(cells, len(str(DECIMAL_BYTES[unit])) - 1)):
        known = pc.not_equal(found.ns, 0)
        return Sizes(
            pc.if_else(known, found.ns, pa.scalar(None, pa.int64())), cells.is_valid().to_numpy(zero_copy_only=False)
        )
    rounded = _by_distinct(cells, partial(_is_rounded, unit=unit), pa.bool_())
    return Sizes(
        _by_distinct(cells, partial(_size, unit=unit), pa.int64()),
        pc.fill_null(rounded, False).to_numpy(zero_copy_only=False),
    )


def _size(text: str, unit: str) -> int | None:
    figure = cell_quantity(text)
    if not figure or not figure.number.is_finite():
        return None
    unit = figure.unit or unit
    factor = _WHOLE_BYTES.get(unit) or DECIMAL_BYTES.get(unit)
    size = None if factor is None else whole((figure.number * factor).to_integral_value())
    return None if unit in DECIMAL_BYTES and size == 0 else size


def _is_rounded(text: str, unit: str) -> bool:
    figure = cell_quantity(text)
    if not figure or not figure.number.is_finite():
        return True
    factor = _WHOLE_BYTES.get(figure.unit or unit)
    return factor is None or whole(figure.number * Decimal(factor)) is None


def argument(cells: pa.StringArray, head: Heading) -> pa.Array:
    """Stripped cells as a typed argument: each is the number that it is, else its text."""
    numbers = _whole_numbers(cells)
    if numbers is not None:
        return numbers
    if pc.all(pc.match_substring_regex(cells, _SHORT_DECIMAL)).as_py():
        return pc.cast(cells, pa.float64())
    column = cells.dictionary_encode()
    values = [plain(text, head) for text in column.dictionary.to_pylist()]
    if all(isinstance(value, str) for value in values):
        return pa.DictionaryArray.from_arrays(column.indices, pa.array(values, pa.string()))
    texts = pa.array([dump_json(value).encode() for value in values], pa.binary())
    return pa.DictionaryArray.from_arrays(column.indices, texts)


def _by_distinct(cells: pa.StringArray, value: Callable[[str], Any], kind: pa.DataType) -> pa.Array:
    """The value of each cell, worked out once for each distinct one."""
    column = cells.dictionary_encode()
    values = pa.array([value(text) for text in column.dictionary.to_pylist()], kind)
    return values.take(column.indices)
