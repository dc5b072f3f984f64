"""Cells of tables as people write them: decimal commas, separators of thousands, units in the cell, dates, words.

    "1.234.567,5"  "1 234,5"         with `decimal` comma
    "1,234,567.5"  "1'234.5"         with `decimal` point
    "12.5 ms"  "3µs"  "64 KiB"       the unit of a cell takes precedence over that of the mapping
    "2026-11-22T16:05:05.123Z"       a time with the unit `iso`
    "64x1x1"  "(64, 1, 1)"  "64"     a grid or a block
    "kernel_dispatch"  "GPU kernel"  the kind kernel
    "queue 7"  "cuda:7"  "copy"      the number of a device, stream, process or thread that has a name

A cell that can't be read becomes null. Times and sizes are integers, never floats.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.input.mapping import ISO, SIZE_UNITS
from ktrace.kit.columnar.dictionaries import by_distinct
from ktrace.kit.columnar.text_cells import (
    Times,
    integers,
    only,
    scaled,
    sizes,
    stripped,
    times,
    whole_numbers,
)
from ktrace.kit.text.headings import to_base
from ktrace.kit.text.numbers import TIME_NS
from ktrace.model.arrays import Bools
from ktrace.model.batch import POINT_KINDS, SLICE_KINDS

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_WITH_UNIT = rf"^(?P<number>{_NUMBER})\s*(?P<unit>[A-Za-zµμ%°][\w%µμ/°]*)?$"
_TAIL = r"(?:[eE][+-]?\d+)?\s*(?:[A-Za-zµμ%°][\w%µμ/°]*)?$"

#: What separates groups of three digits, next to the point or the comma: apostrophes, low lines, blanks, narrow ones.
_SEPARATORS = r"'_ \x{a0}\x{2009}\x{202f}"


class _Decimals(NamedTuple):
    """How numbers are written: the character between thousands and that before decimals, as patterns."""

    odd: str
    grouped: str
    groups: str
    valid: str


_POINT = _Decimals(
    rf"[,{_SEPARATORS}]",
    rf"^[+-]?\d{{1,3}}(?:[,{_SEPARATORS}]\d{{3}})+(?:\.\d*)?{_TAIL}",
    rf"[,{_SEPARATORS}]",
    "",
)
_COMMA = _Decimals(
    rf"[.,{_SEPARATORS}]",
    rf"^[+-]?\d{{1,3}}(?:[.{_SEPARATORS}]\d{{3}})+(?:,\d*)?{_TAIL}",
    rf"[.{_SEPARATORS}]",
    rf"^[+-]?\d*(?:,\d*)?{_TAIL}",
)

_EXTENT = r"^\D*(?P<x>\d{1,18})(?:\D+(?P<y>\d{1,18}))?(?:\D+(?P<z>\d{1,18}))?\D*$"

#: A unit of time -> the power of ten that makes ns of it.
_POWERS = {unit: ns.adjusted() for unit, ns in TIME_NS.items()}


class Reader:
    """Reads the cells of columns. `comma`: the decimal separator is a comma."""

    def __init__(self, *, comma: bool) -> None:
        self._decimals = _COMMA if comma else _POINT

    def times(self, cells: pa.StringArray, unit: str) -> Times:
        """Returns times in ns, digits below 1 ns rounded half to even. Without any unit a cell is null."""
        if unit == ISO:
            return Times(_dates(stripped(cells)), np.zeros(len(cells), np.bool_))
        if TIME_NS.get(unit) == 1 and (ns := whole_numbers(cells)) is not None:
            return Times(ns, np.zeros(len(cells), np.bool_))
        cells = self._normal(cells)
        if _POWERS.get(unit, -1) >= 0 and (exact := scaled(cells, _POWERS[unit])):
            return exact
        numbers, units = _split(cells)
        ns, rounded = pa.nulls(len(cells), pa.int64()), np.zeros(len(cells), np.bool_)
        for word, rows in _by_unit(numbers, units, unit):
            if word in TIME_NS:
                part = times(only(numbers, rows), word)
                ns, rounded = pc.coalesce(ns, part.ns), rounded | part.rounded
        return Times(ns, rounded)

    def whole(self, cells: pa.StringArray) -> pa.Int64Array:
        """Returns whole numbers."""
        numbers = whole_numbers(cells)
        return numbers if numbers is not None else integers(self._normal(cells))

    def sizes(self, cells: pa.StringArray, unit: str) -> pa.Int64Array:
        """Returns sizes in bytes; null for one that isn't a whole number of bytes."""
        scaled = sizes(self._normal(cells), unit or "B", SIZE_UNITS)
        return only(scaled.bytes, ~scaled.rounded)

    def figures(self, cells: pa.StringArray, unit: str) -> tuple[pa.DoubleArray, pa.StringArray]:
        """Returns figures in base units, and these units: ns for times, B for sizes, null for none, else as written.

        Scaling is exact: powers of ten are added to the text.
        """
        numbers, units = _split(self._normal(cells))
        values, bases = pa.nulls(len(cells), pa.float64()), pa.nulls(len(cells), pa.string())
        for word, rows in _by_unit(numbers, units, unit):
            values = pc.coalesce(values, _scaled_floats(only(numbers, rows), word))
            base = to_base(Decimal(1), _size_word(word))[0] or None
            bases = pc.if_else(pa.array(rows), pa.scalar(base, pa.string()), bases)
        return values, bases

    def extents(self, cells: pa.StringArray) -> list[pa.Int64Array]:
        """Returns the three numbers of a grid or block; y and z are null where the cell has only one number."""
        groups = pc.extract_regex(stripped(cells), _EXTENT)
        return [integers(pc.struct_field(groups, axis)) for axis in range(3)]

    def _normal(self, cells: pa.StringArray) -> pa.StringArray:
        """Returns numbers as `1234.5`, with the units of their cells. A cell with a misplaced separator is null."""
        way = self._decimals
        cells = stripped(cells)
        if not pc.any(pc.match_substring_regex(cells, way.odd)).as_py():
            return cells
        grouped = pc.match_substring_regex(cells, way.grouped)
        cells = pc.if_else(grouped, pc.replace_substring_regex(cells, way.groups, ""), cells)
        if not way.valid:
            return cells
        cells = pc.if_else(pc.match_substring_regex(cells, way.valid), cells, pa.scalar(None, pa.string()))
        return pc.replace_substring(cells, ",", ".", max_replacements=1)


def _split(cells: pa.StringArray) -> tuple[pa.StringArray, pa.StringArray]:
    """The numbers of the cells and their units, '' for none; null where a cell isn't a number."""
    groups = pc.extract_regex(cells, _WITH_UNIT)
    return pc.struct_field(groups, 0), pc.struct_field(groups, 1)


def _by_unit(numbers: pa.StringArray, units: pa.StringArray, unit: str) -> list[tuple[str, Bools]]:
    """Returns each unit with the rows that have it; `unit` is that of cells without one."""
    distinct = [word for word in pc.unique(units).to_pylist() if word is not None]
    rows = [pc.fill_null(pc.equal(units, word), False).to_numpy(zero_copy_only=False) for word in distinct]
    return [(word or unit, rows[index]) for index, word in enumerate(distinct)]


def _size_word(word: str) -> str:
    return "B" if word in SIZE_UNITS else word


def _scaled_floats(numbers: pa.StringArray, unit: str) -> pa.DoubleArray:
    """The numbers in ns or bytes if the unit is one of time or size, otherwise unchanged."""
    if unit in SIZE_UNITS:
        return pc.multiply(pc.cast(numbers, pa.float64()), float(SIZE_UNITS[unit]))
    power = _POWERS.get(unit, 0)
    if power and not pc.any(pc.match_substring_regex(numbers, "[eE]")).as_py():
        numbers = pc.binary_join_element_wise(numbers, pa.scalar(f"e{power}"), "")
    elif power:
        return by_distinct(numbers, lambda text: _scaled_float(text, power), pa.float64())
    return pc.cast(numbers, pa.float64())


def _scaled_float(number: str, power: int) -> float | None:
    try:
        return float(Decimal(number).scaleb(power))
    except ArithmeticError:  # beyond the exponents of Decimal
        return None


def _dates(cells: pa.StringArray) -> pa.Int64Array:
    """Dates and times as ns since 1970, UTC where they have no zone. Other cells are null."""
    cells = pc.replace_substring(cells, ",", ".")  # as Python's logging writes them
    for kind in (pa.timestamp("ns", "UTC"), pa.timestamp("ns")):
        try:
            return pc.cast(cells, kind).cast(pa.int64())
        except pa.ArrowInvalid:
            continue
    return by_distinct(cells, _date, pa.int64())


def _date(text: str) -> int | None:
    for kind in (pa.timestamp("ns", "UTC"), pa.timestamp("ns")):
        try:
            ns: int = pa.scalar(text).cast(kind).value
        except pa.ArrowInvalid:
            continue
        return ns
    return None


#: How cells spell kinds, in lower case and without blanks, '_' and '-'.
KINDS = {
    **{kind: kind for kind in (*SLICE_KINDS, *POINT_KINDS)},
    **dict.fromkeys(("kerneldispatch", "gpukernel", "gpu"), "kernel"),
    **dict.fromkeys(("memorycopy", "copy", "memcopy", "gpumemcpy"), "memcpy"),
    **dict.fromkeys(("memoryset", "fill", "gpumemset"), "memset"),
    **dict.fromkeys(("runtime", "driver", "apicall", "call", "cudaruntime", "cudadriver", "hipapi"), "api"),
    **dict.fromkeys(("cpu", "cpuop", "operator", "function", "task"), "op"),
    **dict.fromkeys(("annotation", "scope", "span", "region", "nvtx"), "range"),
    **dict.fromkeys(("wait", "barrier", "synchronization"), "sync"),
    **dict.fromkeys(("allocation", "malloc"), "alloc"),
    **dict.fromkeys(("marker", "event", "mark"), "instant"),
    **dict.fromkeys(("metric", "gauge"), "counter"),
}

_SIDE = r"(host|device|peer|[hdp])"
_WAY = re.compile(rf"(?:.*[^a-z])?{_SIDE}[ _-]*(?:to|2)[ _-]*{_SIDE}(?:[^a-z].*)?", re.IGNORECASE | re.DOTALL)
#: Longer cells aren't directions.
_LONGEST = 200

_LAST_NUMBER = re.compile(r"(?:.*\D)?(\d{1,18})\D?")


def kind_of(cell: str) -> str | None:
    """Returns the kind that a cell spells, None for an unknown one."""
    return KINDS.get(re.sub(r"[\s_\-]+", "", cell).casefold())


def direction(cell: str) -> str:
    """Returns the direction of a copy as `HtoD` if the cell spells one, else the cell."""
    match = _WAY.fullmatch(cell.strip()) if len(cell) <= _LONGEST else None
    return f"{match[1][0].upper()}to{match[2][0].upper()}" if match else cell.strip()


class Numbers:
    """The numbers of one kind of place, and the names of those that aren't numbers in the source.

    `queue 7` and `cuda:7` are 7, unless another name is 7 already; a name without a number gets the least free one.
    """

    def __init__(self) -> None:
        self._by_name: dict[str, int] = {}
        self._taken: set[int] = set()

    def of(self, cells: pa.StringArray, read: Reader) -> pa.Int64Array:
        """Returns the numbers of the cells, null for no value."""
        numbers = read.whole(cells)
        if numbers.null_count == cells.null_count:
            self._taken.update(pc.unique(numbers).drop_null().to_pylist())
            return numbers
        coded = cells.dictionary_encode()
        coded_numbers = pa.array([self._number(text, number) for text, number in _distinct(coded, read)], pa.int64())
        return coded_numbers.take(coded.indices)

    def _number(self, text: str, number: int | None) -> int:
        if number is not None:
            self._taken.add(number)
            return number
        if text not in self._by_name:
            digits = _LAST_NUMBER.fullmatch(text)
            free = int(digits[1]) if digits else 0
            while free in self._taken:
                free += 1
            self._by_name[text] = free
            self._taken.add(free)
        return self._by_name[text]

    def names(self) -> Iterator[tuple[int, str]]:
        """Yields the numbers that have a name in the source."""
        for text, number in self._by_name.items():
            yield number, text


def _distinct(coded: pa.DictionaryArray, read: Reader) -> Iterator[tuple[str, int | None]]:
    texts = coded.dictionary
    return zip(texts.to_pylist(), read.whole(texts).to_pylist(), strict=True)
