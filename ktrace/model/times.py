"""Times as written on a command line: `10us`, `1.5s`, `1.5s..2.0s`, `..2s`, `1s..`."""

from __future__ import annotations

import re
from decimal import ROUND_HALF_EVEN, Decimal

from ktrace.errors import UsageError

#: Unit -> ns.
UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "µs": 10**3, "μs": 10**3, "ns": 1}

_TIME = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))\s*([^\W\d]*)")


def parse_time(text: str) -> int:
    """A time or duration in ns: a number with the unit s, ms, us or ns; 0 needs none.

    Raises UsageError for anything else.
    """
    found = _TIME.fullmatch(text.strip())
    number, unit = found.groups() if found else ("", "")
    if not number or (unit not in UNITS and Decimal(number)) or (unit and unit not in UNITS):
        what = f"'{unit}' isn't a unit of time" if unit else f"'{text}' isn't a time with a unit"
        raise UsageError(f"{what} (in '{text}')" if unit else what, expected="s, ms, us or ns, such as 1.5s or 250us")
    ns = Decimal(number) * UNITS.get(unit, 1)
    return int(ns.to_integral_value(ROUND_HALF_EVEN))


def parse_interval(text: str) -> tuple[int | None, int | None]:
    """The ends of `FROM..TO` in ns; one of them may be left out and is None.

    Raises UsageError if it isn't an interval, or ends before it begins.
    """
    first, dots, last = text.partition("..")
    if not dots or not (first.strip() or last.strip()):
        raise UsageError(f"'{text}' isn't a time interval", expected="FROM..TO, such as 1.5s..2.0s, ..2s or 1s..")
    begin, end = (parse_time(part) if part.strip() else None for part in (first, last))
    if begin is not None and end is not None and end < begin:
        raise UsageError(f"the interval '{text}' ends before it begins", remedy=f"{last.strip()}..{first.strip()}")
    return begin, end


def time_text(ns: int) -> str:
    """The exact time as text, in the greatest unit in which it is 1 or more: `1.5s`, `250us`, `0s`."""
    for unit in ("s", "ms", "us", "ns"):
        if abs(ns) >= UNITS[unit] or unit == "ns":
            break
    return f"{(Decimal(ns) / UNITS[unit]).normalize():f}{unit}" if ns else "0s"
