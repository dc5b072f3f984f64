"""Numbers, units and times as people and tools print them, converted exactly.

64,892   1.024000e-03   57.0%   1.266 s   84.724 μs   2.04 GB   -   N/A   nan

The decimal separator of a file: a point, or a comma, as in much of Europe.

2,5   0,125   1.234,5   1.234.567     the decimal separator must be a comma
2.5   0.125   1,234.5   1,234,567     it must be a point
1,234   1.234                         it may be either: the rest of the file decides

The figures in a file's tables decide for the whole file. If they contradict one another, or if all are ambiguous, the
file is refused.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from functools import lru_cache
from typing import NamedTuple

#: Spelling of a unit of time -> its length in ns. µ is U+00B5, μ is U+03BC.
TIME_NS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), Decimal(10**9)),
    **dict.fromkeys(("ms", "msec", "msecs", "millisecond", "milliseconds"), Decimal(10**6)),
    **dict.fromkeys(("us", "µs", "μs", "usec", "usecs", "microsecond", "microseconds"), Decimal(1000)),
    **dict.fromkeys(("ns", "nsec", "nsecs", "nanosecond", "nanoseconds"), Decimal(1)),
    **dict.fromkeys(("ps", "picosecond", "picoseconds"), Decimal("0.001")),
}

#: Spelling of a unit of memory -> its size in bytes. The format defines KB, MB and GB: 10^6 and 2^20 both occur.
#: nsys of 2022 spells KiB as KBi.
BYTES = {
    **{"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40},
    **{"KBi": 1 << 10, "MBi": 1 << 20, "GBi": 1 << 30},
}

#: What tools print if there isn't a number.
MISSING = frozenset({"", "-", "--", "–", "—", "?", "n/a", "wip", "tbd", "oom", "na", "none", "null", "no samples"})

_QUANTITY = re.compile(r"([+-]?(?:\d[\d,_]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)\s*([^\d\s].*)?")
_WIDE = Context(prec=60)

#: A number of more digits before or after its point isn't a figure: no column holds it, and arithmetic may overflow.
_MOST_DIGITS = 400
_SPECIAL = {"nan": "NaN", "-nan": "NaN", "-nan(ind)": "NaN", "inf": "Infinity", "+inf": "Infinity", "-inf": "-Infinity"}


class Quantity(NamedTuple):
    """A number and the unit after it, '' for none."""

    number: Decimal
    unit: str


@lru_cache(maxsize=65_536)
def quantity(text: str) -> Quantity | None:
    """Returns the number in a cell and its unit; None if the cell isn't a number,
    or one beyond 10^400. Removes thousands separators.

    A comma is a separator only between groups of three digits: `8,192` is 8192, `1,5` and `0,125` aren't numbers. See
    `with_point` for files with decimal commas.
    """
    text = text.strip().strip('"').strip()
    special = _SPECIAL.get(text.lower())
    if special:
        return Quantity(Decimal(special), "")
    match = None if "\n" in text else _QUANTITY.fullmatch(text)
    if not match:
        return None
    digits, unit = match.group(1), (match.group(2) or "").strip()
    if "," in digits and not re.fullmatch(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?([eE][+-]?\d+)?", digits):
        return None
    try:
        found_number = Decimal(digits.replace(",", "").replace("_", ""))
    except InvalidOperation:
        return None
    return Quantity(found_number, unit) if abs(found_number.adjusted()) <= _MOST_DIGITS else None


def number(text: str) -> Decimal | None:
    """Returns the number in a cell without a unit (a percent sign is allowed), else None."""
    parsed = quantity(text)
    return parsed.number if parsed and parsed.unit in ("", "%") else None


def nanoseconds(number: Decimal, unit: str) -> Decimal | None:
    """Returns the time in ns, unrounded; None if the unit isn't a unit of time."""
    factor = TIME_NS.get(unit) or TIME_NS.get(unit.lower())
    return None if factor is None else number * factor


def duration_ns(text: str, unit: str) -> float | None:
    """A figure of a duration in ns; None for what isn't a finite number of a unit of time, from 0."""
    value = number(text)
    ns = nanoseconds(value, unit) if value is not None and value.is_finite() else None
    return None if ns is None or ns < 0 else float(ns)


def to_ns(number: Decimal, unit: str) -> tuple[int, bool]:
    """Returns the time in whole ns, rounded half to even, and whether it is exact.

    Raises KeyError for an unknown unit and ValueError for a number that isn't finite and below 10^60 ns.
    """
    try:
        exact = _WIDE.multiply(number, TIME_NS[unit])
        whole = exact.quantize(Decimal(1), ROUND_HALF_EVEN, _WIDE)
    except ArithmeticError:
        raise ValueError(f"not a time: {number} {unit}") from None
    return int(whole), whole == exact


@lru_cache(maxsize=4096)
def unix_seconds(moment: str, zone: str = "Z") -> int | None:
    """The seconds since 1970 of a date and time, with `T` or a blank between them; None if there is no such time.

    It is 2026-03-24T13:48:44 in UTC, or in a zone such as +02:00 or +0200.
    """
    offset = "+00:00" if zone in "Zz" else zone if ":" in zone else f"{zone[:3]}:{zone[3:]}"
    try:
        return int(datetime.fromisoformat(f"{moment.upper()}{offset}").timestamp())
    except ValueError:
        return None


def unix_ns(moment: str, decimals: str | None = None, zone: str = "Z") -> int | None:
    """The same in ns, with up to nine decimals of the second."""
    seconds = unix_seconds(moment, zone)
    return None if seconds is None else seconds * 10**9 + decimals_ns(decimals)


def decimals_ns(decimals: str | None) -> int:
    """Up to nine decimals of a second in ns."""
    return int((decimals or "0").ljust(9, "0"))


def is_missing(text: str) -> bool:
    """Whether the cell means "no number"."""
    return text.strip().lower() in MISSING


_CELL = re.compile(r"([+-]?)(\d[\d.,]*)((?:[eE][+-]?\d+)?(?:\s*[^\d\s.,][^\d]{0,16})?)")
_GROUPS = {",": re.compile(r"[1-9]\d{0,2}(?:,\d{3})*"), ".": re.compile(r"[1-9]\d{0,2}(?:\.\d{3})*")}

#: A line with a cell that begins with a number with a comma.
_MAYBE = re.compile(r"(?:^|[\s|;\"│┃║┆~≈<])[+-]?\d[\d.]*,\d")

#: Blanks and apostrophes between groups of three digits.
_GROUPED = re.compile(r"(?<=\d)[\u00a0\u2009\u202f'’ ](?=\d{3}(?!\d))")
#: A cell with more than a number, and the numbers in it.
_FIGURE_LIKE = re.compile(r"[~≈<>≤≥]?\s{0,2}[+-]?\d")
_WITHIN = re.compile(r"(?<![\w.,])\d[\d.]*,\d+(?![\w.,])|(?<![\w.,])\d[\d.]*,\d+(?=[a-zµμ%])")


def may_have(lines: Iterable[str]) -> bool:
    """Whether some line may contain a number with a decimal comma (in a table that isn't separated by commas)."""
    return any("," in line and _MAYBE.search(line) for line in lines)


@lru_cache(maxsize=16_384)
def separator_in(cell: str) -> str:
    """The decimal separator that a cell implies: "comma", "point", "either" for 1,234, "" if the cell has no clue."""
    match = _CELL.fullmatch(without_groups(cell).strip())
    digits = match[2] if match else ""
    last = max(digits.rfind(","), digits.rfind("."))
    if last < 0:
        return ""
    mark = digits[last]
    other = "." if mark == "," else ","
    whole, decimals = digits[:last], digits[last + 1 :]
    named = {",": "comma", ".": "point"}
    if other in whole:
        return named[mark] if mark not in whole and _GROUPS[other].fullmatch(whole) else ""
    if mark in whole:
        return named[other] if _GROUPS[mark].fullmatch(digits) else ""
    if len(decimals) == 3 and _GROUPS[mark].fullmatch(digits):
        return "either" if mark == "," else ""
    return named[mark]


def without_groups(cell: str) -> str:
    """Returns a number without the blanks or apostrophes between its groups of digits: 1 234,5 and 1'234.5."""
    return _GROUPED.sub("", cell) if cell.strip()[:1].isdigit() else cell


def with_point(cell: str) -> str:
    """Rewrites a number with a decimal comma: `1.234,5 ms` becomes `1234.5 ms`. Leaves other text as it is."""
    cell = without_groups(cell)
    match = _CELL.fullmatch(cell.strip())
    if not match and len(cell) < 80 and _FIGURE_LIKE.match(cell.strip()):
        return _WITHIN.sub(lambda number: with_point(number.group()), cell)
    if not match:
        return cell
    whole, comma, decimals = match[2].partition(",")
    if not (whole.isdigit() or _GROUPS["."].fullmatch(whole)) or (comma and not decimals.isdigit()):
        return cell
    return f"{match[1]}{whole.replace('.', '')}{'.' if comma else ''}{decimals}{match[3]}"


class Evidence:
    """Collects the decimal separators that the figures of a file imply."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._example: dict[str, str] = {}
        self._ambiguous = ""

    def add(self, cell: str, *, is_whole: bool) -> None:
        """Adds a figure. `is_whole`: it has no decimals, because it is a count or a time in ns."""
        separator = separator_in(cell)
        if separator == "either" and not is_whole:
            self._ambiguous = self._ambiguous or cell.strip()
        elif separator and separator != "either":
            self._counts[separator] += 1
            self._example.setdefault(separator, cell.strip())

    @property
    def commas(self) -> bool:
        """Whether the decimal separator is a comma."""
        return self._counts["comma"] > 0 and not self._counts["point"]

    @property
    def problem(self) -> str:
        """Why the separator can't be determined; '' if it can."""
        if self._counts["comma"] and self._counts["point"]:
            example = self._example
            return f"writes numbers in two ways: {example['comma']!r} and {example['point']!r}"
        if self._ambiguous and not self._counts:
            return (
                f"contains {self._ambiguous!r}, but nothing that shows whether the comma is decimal or groups thousands"
            )
        return ""


_LAST = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,18})?")


def last_number(text: str) -> tuple[str, str] | None:
    """What stands before the number that a text ends with, after a blank or a tab, and that number; None without both.

    `main;step (a.py:9) 30.5` is a stack and 30.5.
    """
    text = text.rstrip()
    place = max(text.rfind(" "), text.rfind("\t"))
    before, number = text[: max(place, 0)].rstrip(" \t"), text[place + 1 :]
    return (before, number) if before and not before[0].isspace() and _LAST.fullmatch(number) else None
