"""What a labelled duration is, and how times, numbers and statistics are spelled in lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from ktrace.kit.text.numbers import TIME_NS

NUMBER = r"\d{1,3}(?:,\d{3}){1,5}(?:\.\d{1,18})?|\d{1,18}(?:\.\d{1,18})?(?:e[+-]?\d{1,2})?"
UNITS = "|".join(sorted(TIME_NS, key=len, reverse=True))
TIME = rf"(?:{NUMBER}) ?(?:{UNITS})"

#: Words of a label that say which statistic of repeats its time is.
STATISTIC = {
    **dict.fromkeys(("avg", "average", "mean"), "avg"),
    **dict.fromkeys(("med", "median", "p50"), "median"),
    **{"min": "min", "minimum": "min", "best": "min", "fastest": "min"},
    **{"max": "max", "maximum": "max", "worst": "max", "slowest": "max"},
    **dict.fromkeys(("std", "stddev", "stdev", "sd"), "stddev"),
    **{"p95": "p95", "p99": "p99", "total": "total", "sum": "total"},
    **dict.fromkeys(("count", "calls", "n"), "count"),
}

#: Durations and times are below 2^61 ns.
LIMIT, DIGITS = 1 << 61, 19


@dataclass
class Figure:
    """A labelled duration in ns. `interval` is start and length, in whole ns, where the line has both ends.

    `is_first`: the time stands before its label. `without` are members of the same list that have no duration.
    `statistics` are those of repeats, as columns of a summary, of which `dur` is the first: no part of a sum.
    """

    name: str
    dur: Decimal
    on_device: bool = False
    tag: str | None = None
    interval: tuple[int, int] | None = None
    is_rounded: bool = False
    is_first: bool = False
    without: int = 0
    columns: dict[str, int] = field(default_factory=dict)
    args: dict[str, Any] = field(default_factory=dict)
    statistics: dict[str, float] = field(default_factory=dict)


def ns_of(number: str | Decimal, unit: str) -> Decimal | None:
    """A time in ns, None if no column holds it."""
    exact = Decimal(number.replace(",", "")) if isinstance(number, str) else number
    if is_great(exact):
        return None
    exact *= TIME_NS[unit]
    return exact if abs(exact) < LIMIT else None


def is_great(number: Decimal) -> bool:
    """Whether a number is beyond all times; such a one may be beyond what decimal can compute with, too."""
    return not number.is_finite() or number.adjusted() >= DIGITS
