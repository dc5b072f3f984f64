"""No regular expression costs more than in proportion to the length of the text."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.helpers.patterns import Used, all_patterns
from tests.helpers.pumps import Pump, cost, pumps

# From short to long, so that an exponential pattern shows before it hangs.
_LENGTHS = (18, 64, 500, 4_000)
# Seconds of CPU time that no linear pattern needs for a character, and what is too short to be measured.
_SUSPICIOUS, _FLOOR = 0.1e-6, 0.4e-3


def worse_than_linear(pattern: re.Pattern[Any], method: str) -> tuple[Pump, float] | None:
    """The first text that costs more than twice as much when its length doubles, and the ratio for the fourfold length."""
    for pump in pumps(pattern):
        length = _suspicious(pattern, method, pump)
        if length and (ratio := _growth(pattern, method, pump, length)) > 8:
            return pump, ratio
    return None


def _text(pattern: re.Pattern[Any], pump: Pump, length: int) -> str | bytes:
    text = pump.text(length)
    return text.encode("latin-1", "replace") if isinstance(pattern.pattern, bytes) else text


def _suspicious(pattern: re.Pattern[Any], method: str, pump: Pump) -> int:
    """The first length whose cost is worth a closer look, 0 if there is none."""
    for length in _LENGTHS:
        text = _text(pattern, pump, length)
        if cost(pattern, method, text) > max(_FLOOR, length * _SUSPICIOUS) and cost(pattern, method, text) > _FLOOR:
            return length
    return 0


def _growth(pattern: re.Pattern[Any], method: str, pump: Pump, length: int) -> float:
    """How much more a text costs than one of a quarter of its length, each the best of several; 4 if the cost is linear."""
    ratio = 16.0
    for _ in range(2):
        short = min(cost(pattern, method, _text(pattern, pump, length)) for _ in range(5))
        text = _text(pattern, pump, 2 * length)
        middle = min(cost(pattern, method, text) for _ in range(3))
        if middle > 1:
            return (middle / short) ** 2
        text = _text(pattern, pump, 4 * length)
        ratio = min(ratio, min(cost(pattern, method, text) for _ in range(2)) / short)
        if ratio <= 8:
            break
    return ratio


PATTERNS, OPEN_CALLS = all_patterns()


@pytest.mark.parametrize("used", PATTERNS, ids=lambda used: used.where)
def test_a_pattern_takes_twice_the_time_for_twice_the_text(used: Used) -> None:
    for method in sorted(used.methods):
        found = worse_than_linear(used.pattern, method)
        assert not found, f"{used.where}: {method} of {used.pattern.pattern!r} on {found[0]}: 4 times the text, {found[1]:.1f} times the cost"
