"""Units as Nsight Compute prints them, and the base unit of each.

    usecond, us      ns      x 10^3        Kbyte/block      B/block   x 10^3
    Ghz              Hz      x 10^9        cycle/nsecond    Hz        x 10^9
    Gbyte/second     B/s     x 10^9        inst/cycle       unchanged

All factors are powers of ten ("1.02 Kbyte" is 1,024 bytes, rounded), so that a number is scaled by its exponent.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

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
    found = _SCALED.fullmatch(text)
    return Unit(_BASES.get(found[2], found[2]), _PREFIXES[found[1]]) if found else None


def is_unit(text: str) -> bool:
    """Whether a word is a unit of ncu."""
    return text == "%" or unit_of(text) != (text, 0) or text in _COUNTED or "/" in text
