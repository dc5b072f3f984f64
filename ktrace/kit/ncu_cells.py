"""Cells of numbers as Nsight Compute prints them, many at once, and their units.

    1,234.50   27.595.520   65,77   nan   n/a   (!) n/a   12 (3; 4; 5)   CachePreferNone

On a machine with European number format, dots separate thousands and a comma precedes decimals. One cell can be
ambiguous (117.344), so that the format is determined once for a file.

    usecond, us      ns      x 10^3        Kbyte/block      B/block   x 10^3
    Ghz              Hz      x 10^9        cycle/nsecond    Hz        x 10^9
    Gbyte/second     B/s     x 10^9        inst/cycle       unchanged

All factors to base units are powers of ten ("1.02 Kbyte" is 1,024 bytes, rounded), so that a number is scaled by its
exponent. The details page prints some metrics by name; their ids are in `schema/ncu-metrics.json`.
"""

from __future__ import annotations

import json
import math
import re
from functools import cache, lru_cache
from importlib import resources
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.text.numbers import quantity
from ktrace.model.arrays import Bools, Int64

_TIMES = {"s": 9, "second": 9, "ms": 6, "msecond": 6, "us": 3, "usecond": 3, "ns": 0, "nsecond": 0}
_PREFIXES = {"": 0, "K": 3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15}
_BASES = {"byte": "B", "hz": "Hz", "Hz": "Hz", "bit": "bit"}
_COUNTED = ("inst", "sector", "cycle", "request", "thread", "warp", "block", "flop", "op", "wavefront", "branch")
_SCALED = re.compile(rf"([KkMGTP]?)({'|'.join((*_BASES, *_COUNTED))})")


class Unit(NamedTuple):
    """The base unit, and the power of ten that converts a number to it."""

    base: str
    exponent: int


@lru_cache(maxsize=4096)
def unit_of(text: str) -> Unit:
    """Returns the base unit of a printed unit; an unknown unit is its own base unit."""
    above, slash, below = text.strip().partition("/")
    if not slash:
        return _simple(above) or Unit(text.strip(), 0)
    top = _simple(above)
    if top is None:
        return Unit(text.strip(), 0)
    if below in _TIMES:
        base = "Hz" if top.base == "cycle" else f"{top.base}/s"
        return Unit(base, top.exponent + 9 - _TIMES[below])
    return Unit(f"{top.base}/{below}", top.exponent)


def _simple(text: str) -> Unit | None:
    if text in _TIMES:
        return Unit("ns", _TIMES[text])
    match = _SCALED.fullmatch(text)
    return Unit(_BASES.get(match[2], match[2]), _PREFIXES[match[1]]) if match else None


def is_unit(text: str) -> bool:
    """Whether a word is a unit of ncu."""
    return text == "%" or unit_of(text) != (text, 0) or text in _COUNTED or "/" in text


_NUMBER = r"^ *[+-]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)? *$"
_INSTANCES = re.compile(r"(\S+) \(.*\)", re.DOTALL)

#: Cells of a page, or of the last column of a table, that are possible in only one of the formats.
_CELL = r'(?:"|[ ])(?:{})(?:"|[ ]*$)'
_EUROPEAN = re.compile(_CELL.format(r"\d{1,3}(?:\.\d{3}){2,}|[\d.]*\d,\d\d?"), re.MULTILINE)
_AMERICAN = re.compile(_CELL.format(r"\d{1,3}(?:,\d{3}){2,}|[\d,]*\d\.\d\d?"), re.MULTILINE)

#: A double represents numbers of up to this many characters exactly.
_EXACT = 15


def is_european(text: str) -> bool:
    """Whether the numbers of a page have decimal commas. `text` is its head."""
    return sum(1 for _ in _EUROPEAN.finditer(text)) > sum(1 for _ in _AMERICAN.finditer(text))


def numbers(texts: list[str], exponents: Int64, *, european: bool) -> tuple[pa.DoubleArray, Bools]:
    """Returns the numbers, times 10^exponent, and which cells contain more than the number, so that their text is kept.

    Cells that aren't numbers are null.
    """
    column = pa.array(texts, pa.string())
    if european:
        column = pc.replace_substring(
            pc.replace_substring(pc.replace_substring(column, ".", "\0"), ",", "."), "\0", ","
        )
    plain = pc.match_substring_regex(column, _NUMBER)
    digits = pc.replace_substring(column, ",", "")
    digits = pc.if_else(plain, pc.utf8_trim_whitespace(digits), None)
    scaled = exponents != 0
    if scaled.any():
        digits = _scaled(digits, exponents, scaled)
    values = digits.cast(pa.float64())
    long = pc.fill_null(pc.greater(pc.utf8_length(digits), _EXACT), False)
    inexact = np.zeros(len(texts), np.bool_)
    if long.true_count:
        for row in np.flatnonzero(long.to_numpy(zero_copy_only=False)).tolist():
            inexact[row] = not _is_exact(digits[row].as_py(), values[row].as_py())
    if plain.true_count == len(texts):
        return values, inexact
    rows = np.flatnonzero(~plain.to_numpy(zero_copy_only=False))
    odd = [_odd(column[row].as_py(), int(exponents[row])) for row in rows.tolist()]
    mask = np.zeros(len(texts), np.bool_)
    mask[rows] = True
    inexact[rows] = [number is None or not math.isnan(number) for number in odd]
    return pc.replace_with_mask(values, pa.array(mask), pa.array(odd, pa.float64())), inexact


def _scaled(digits: pa.StringArray, exponents: Int64, scaled: Bools) -> pa.StringArray:
    """Appends exponents to the numbers as text, so that the double is the nearest one to the exact product."""
    has_exponent = pc.fill_null(pc.match_substring_regex(digits, "[eE]"), False).to_numpy(zero_copy_only=False)
    powers, codes = np.unique(np.where(has_exponent, 0, exponents), return_inverse=True)
    suffixes = pa.array([f"e{power}" if power else "" for power in powers.tolist()], pa.string())
    joined = pc.binary_join_element_wise(digits, suffixes.take(pa.array(codes)), "")
    if not (scaled & has_exponent).any():
        return joined
    texts = joined.to_pylist()
    for row in np.flatnonzero(scaled & has_exponent).tolist():
        number = quantity(texts[row])
        texts[row] = str(number.number.scaleb(int(exponents[row]))) if number else None
    return pa.array(texts, pa.string())


def _is_exact(digits: str, value: float) -> bool:
    if not math.isfinite(value):
        return False
    number = quantity(digits)
    return number is not None and number.number == int(value) if value == int(value) else True


def _odd(text: str, exponent: int) -> float | None:
    """The number in a cell that isn't a plain number: `nan`, or a number with its instances after it."""
    first = _INSTANCES.fullmatch(text)
    parsed = quantity(first[1] if first else text)
    if not parsed or parsed.unit not in ("", "%"):
        return None
    return float(parsed.number.scaleb(exponent) if parsed.number.is_finite() else parsed.number)


#: Underscores distinguish an id in brackets from other words.
_BOTH = re.compile(r"(.*?) ?\(([A-Za-z0-9.:]*[a-z0-9]_[\w.:]+)\)")


@cache
def _table() -> dict[str, str | dict[str, str]]:
    text = resources.files("ktrace.schema").joinpath("ncu-metrics.json").read_text("utf-8")
    names: dict[str, str | dict[str, str]] = json.loads(text)["names"]
    return names


def metric_id(name: str, unit: str, section: str = "", part: str = "") -> str:
    """Returns the vendor's id of a metric; the name itself if it is an id or unknown.

    `unit` is its base unit, `section` the section that contains it, `part` the table or chart in that section.
    """
    number = _table().get(name, name)
    if isinstance(number, str):
        return number
    for key in (f"{section} / {part}", section, unit, ""):
        if key in number:
            return number[key] or name
    return name


def label_and_id(name: str) -> tuple[str, str | None]:
    """Returns the label and the id of a name that contains both, as --print-metric-name label-name prints them."""
    both = _BOTH.fullmatch(name)
    if not both:
        return name, None
    return (both[2] if "{" in both[1] or not both[1] else both[1]), both[2]
