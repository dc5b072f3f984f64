"""Conversion of text cells to columns of numbers, exactly: times in ns, whole numbers, sizes in bytes, arguments.

    "14,533,415,915"  "456173.024"  "1.024e-03"  "1.266 s"     times, in the unit of their table or their own
    "4.194" below MB                                           4,194,000 B or 4,397,728 B: accurate to 500 B only
    ""  "-"  "N/A"  "(null)"                                   null

Plain cells are converted a column at a time, the others once for each distinct cell. A cell that can't be converted
becomes null: the format keeps its text as an argument, or leaves the row out.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.columnar.dictionaries import by_distinct
from ktrace.kit.text.headings import Heading, as_int64, cell_quantity, plain
from ktrace.kit.text.numbers import BYTES, TIME_NS, nanoseconds, to_ns
from ktrace.model.arrays import Bools
from ktrace.model.json_text import dump_json
from ktrace.model.masks import present

from .csv_parse import lengths

#: Sizes of units in bytes with K = 1024, as in nvprof of CUDA 8 and AMD's tools.
BINARY_BYTES = {
    **BYTES,
    **{"": 1, "byte": 1, "bytes": 1},
    **{f"{letter}{unit}": 1 << shift for letter, shift in (("K", 10), ("k", 10)) for unit in ("B", "bytes", "byte")},
    **{f"{letter}{unit}": 1 << n for letter, n in (("M", 20), ("G", 30), ("T", 40)) for unit in ("B", "bytes", "byte")},
}

#: Cells that mean "no value".
_MISSING = pa.array(["-", "--", "N/A", "n/a", "NA", "(null)", "null", "NULL", "None", "none", "<null>"])
_NULL = pa.scalar(None, pa.string())

#: Decimals that float64 represents exactly enough to be written back as they were.
_SHORT_DECIMAL = r"^-?\d{1,9}\.\d{1,3}$"

_GREATEST = (1 << 63) - 1

#: Arrow casts longer texts, and numbers such as 1e36, to a decimal with another value, without an error.
_LONGEST_DECIMAL = 30
_SCALE = 12
_TENS = 10 ** np.arange(19, dtype=np.int64)


class Times(NamedTuple):
    """Times in ns, null for none; and which rows were rounded."""

    ns: pa.Int64Array
    rounded: Bools


class Sizes(NamedTuple):
    """Sizes in bytes, null for none; and which rows are rounded."""

    bytes: pa.Int64Array
    rounded: Bools


def stripped(cells: pa.StringArray) -> pa.StringArray:
    """Removes the blanks around the cells; cells without a value become null."""
    if cells.null_count == len(cells):
        return cells
    cells = pc.utf8_trim_whitespace(cells)
    empty = pc.equal(pc.binary_length(cells), 0)
    short = pc.less(pc.binary_length(cells), 7)
    if pc.any(short).as_py():
        empty = pc.or_(empty, pc.is_in(cells, _MISSING))
    return pc.if_else(empty, _NULL, cells) if pc.any(empty).as_py() else cells


def whole_numbers(cells: pa.StringArray) -> pa.Int64Array | None:
    """Returns the cells as int64, null for no value; None if one of them isn't just digits and a minus."""
    if cells.null_count == len(cells):
        return pa.nulls(len(cells), pa.int64())
    first = (pc.first(cells).as_py() or "").strip()
    if first and not first.lstrip("-").isdecimal() and not pc.is_in(pa.scalar(first), _MISSING).as_py():
        return None  # a cast that fails is slow: it continues to the end
    if b"x" in _text(cells) or b"X" in _text(cells):  # Arrow reads 0x10 as 16
        return None
    try:
        return pc.cast(cells, pa.int64())
    except pa.ArrowInvalid:
        pass
    try:
        return pc.cast(stripped(cells), pa.int64())
    except pa.ArrowInvalid:
        return None


def integers(cells: pa.StringArray, greatest: int | None = None) -> pa.Int64Array:
    """Returns the cells as int64, including `8,192`; null for other text and for numbers beyond `greatest`."""
    numbers = whole_numbers(cells)
    numbers = numbers if numbers is not None else by_distinct(stripped(cells), _integer, pa.int64())
    if greatest is None:
        return numbers
    return pc.if_else(pc.less_equal(pc.abs(numbers), greatest), numbers, pa.scalar(None, pa.int64()))


def _integer(text: str) -> int | None:
    figure = cell_quantity(text)
    return as_int64(figure.number) if figure and not figure.unit else None


def floats(cells: pa.StringArray) -> pa.DoubleArray:
    """Returns the cells as float64, with or without a `%`; null for other text."""
    try:
        return pc.cast(stripped(cells), pa.float64())
    except pa.ArrowInvalid:
        return by_distinct(stripped(cells), _float, pa.float64())


def _float(text: str) -> float | None:
    figure = cell_quantity(text)
    return float(figure.number) if figure and figure.unit in ("", "%") else None


def times(cells: pa.StringArray, unit: str = "ns") -> Times:
    """Returns the cells as times in ns. `unit` is that of cells without one. Other text is null.

    Digits below 1 ns are rounded half to even. A time beyond int64 becomes the greatest int64, which `timed` refuses.
    """
    step = TIME_NS.get(unit) or TIME_NS.get(unit.lower())
    if step == 1 and (ns := whole_numbers(cells)) is not None:
        return Times(ns, np.zeros(len(cells), np.bool_))
    digits = len(str(step)) - 1 if step and step >= 1 else None
    cells = stripped(cells)
    if digits is not None and (parsed := scaled(cells, digits)):
        return parsed
    return _each_time(cells, unit)


def scaled(cells: pa.StringArray, digits: int) -> Times | None:
    """Stripped cells times 10^digits, rounded half to even; None if one isn't a decimal or is beyond int64."""
    return _plain_times(cells, digits) or _decimal_times(cells, digits)


def _plain_times(cells: pa.StringArray, digits: int) -> Times | None:
    """Decimals without exponent times 10^digits; None if one is anything else, or int64 could overflow."""
    dots = pc.find_substring(cells, ".")
    joined = whole_numbers(pc.replace_substring(cells, ".", "", max_replacements=1))
    if joined is None:
        return None
    mask = ~present(joined)
    numbers = joined.fill_null(0).to_numpy(zero_copy_only=False)
    dot = dots.fill_null(-1).to_numpy(zero_copy_only=False)
    size = pc.fill_null(pc.binary_length(cells), 0).to_numpy(zero_copy_only=False)
    decimals = np.where(dot < 0, 0, size - dot - 1)
    if len(numbers) and (decimals.max() > 18 or np.abs(numbers).max() >= _GREATEST // int(_TENS[digits])):
        return None
    ns = numbers * _TENS[np.maximum(digits - decimals, 0)]
    if not len(numbers) or decimals.max() <= digits:
        return Times(pa.array(ns, mask=mask), np.zeros(len(cells), np.bool_))
    above = _TENS[np.maximum(decimals - digits, 0)]
    floor, rest = np.divmod(ns, above)
    twice = rest - (above - rest)
    floor += (twice > 0) | ((twice == 0) & (floor & 1 == 1))
    return Times(pa.array(floor, mask=mask), rest != 0)


def _decimal_times(cells: pa.StringArray, digits: int) -> Times | None:
    """Numbers of at most 12 decimals, with or without exponent, times 10^digits; None if one is anything else."""
    try:
        greatest = pc.max(pc.abs(pc.cast(cells, pa.float64()))).as_py() or 0
        if greatest >= _GREATEST or (pc.max(pc.binary_length(cells)).as_py() or 0) > _LONGEST_DECIMAL:
            return None
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
    times_read = [_time(text, unit) for text in cells.to_pylist()]
    return Times(
        pa.array([time and time[0] for time in times_read], pa.int64()),
        np.array([time is not None and not time[1] for time in times_read], np.bool_),
    )


def _time(text: str | None, unit: str) -> tuple[int, bool] | None:
    figure = cell_quantity(text) if text else None
    if not figure or not figure.number.is_finite() or nanoseconds(figure.number, figure.unit or unit) is None:
        return None
    if abs(figure.number) >= _GREATEST:
        return (_GREATEST if figure.number > 0 else -_GREATEST), True
    word = figure.unit or unit
    ns, exact = to_ns(figure.number, word if word in TIME_NS else word.lower())
    return max(-_GREATEST, min(_GREATEST, ns)), exact


def sizes(cells: pa.StringArray, unit: str = "B", factors: Mapping[str, int] = BINARY_BYTES) -> Sizes:
    """Returns the cells as sizes in bytes. `unit` is that of cells without one, `factors` are units -> bytes.

    A size that isn't a whole number of bytes is rounded, and marked as such: its cell is more accurate.
    """
    if factors.get(unit) == 1 and (numbers := whole_numbers(cells)) is not None:
        return Sizes(numbers, np.zeros(len(cells), np.bool_))
    cells = stripped(cells)
    exact = by_distinct(cells, partial(_is_whole, unit=unit, factors=factors), pa.bool_())
    return Sizes(
        by_distinct(cells, partial(_size, unit=unit, factors=factors), pa.int64()),
        pc.invert(pc.fill_null(exact, True)).to_numpy(zero_copy_only=False),
    )


def _in_bytes(text: str, unit: str, factors: Mapping[str, int]) -> Decimal | None:
    figure = cell_quantity(text)
    factor = factors.get(figure.unit or unit) if figure and figure.number.is_finite() else None
    return figure.number * factor if figure and factor else None


def _size(text: str, unit: str, factors: Mapping[str, int]) -> int | None:
    size = _in_bytes(text, unit, factors)
    return None if size is None else as_int64(size.to_integral_value())


def _is_whole(text: str, unit: str, factors: Mapping[str, int]) -> bool:
    size = _in_bytes(text, unit, factors)
    return size is not None and as_int64(size) is not None


def argument(cells: pa.StringArray, head: Heading | None = None) -> pa.Array:
    """Returns the cells as an argument: numbers as numbers, else text, null for no value.

    A `%` is dropped under a heading of percent.
    """
    numbers = whole_numbers(cells)
    if numbers is not None:
        return numbers
    cells = stripped(cells)
    if pc.all(pc.match_substring_regex(cells, _SHORT_DECIMAL)).as_py():
        return pc.cast(cells, pa.float64())
    column = cells.dictionary_encode()
    values = [plain(text, head) for text in column.dictionary.to_pylist()]
    if all(isinstance(value, str) for value in values):
        return pa.DictionaryArray.from_arrays(column.indices, pa.array(values, pa.string()))
    texts = pa.array([dump_json(value).encode() for value in values], pa.binary())
    return pa.DictionaryArray.from_arrays(column.indices, texts)


def only(cells: pa.Array, rows: Bools) -> pa.Array:
    """The cells in the given rows, null in the others."""
    return pc.if_else(pa.array(rows), cells, pa.scalar(None, cells.type))


def has_text(cells: pa.StringArray) -> Bools:
    """Whether each cell contains anything."""
    return lengths(cells) > 0 if not cells.null_count else present(cells)


def _text(cells: pa.StringArray) -> bytes:
    """The text of all cells, concatenated."""
    _, starts, data = cells.buffers()
    if data is None:
        return b""
    offsets = np.frombuffer(starts, np.int32)
    return bytes(memoryview(data)[offsets[cells.offset] : offsets[cells.offset + len(cells)]])
