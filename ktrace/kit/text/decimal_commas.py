"""The decimal separator of a file: a point, or a comma, as in much of Europe.

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
from functools import lru_cache

_CELL = re.compile(r"([+-]?)(\d[\d.,]*)((?:[eE][+-]?\d+)?(?:\s*[^\d\s.,][^\d]{0,16})?)")
_GROUPS = {",": re.compile(r"[1-9]\d{0,2}(?:,\d{3})*"), ".": re.compile(r"[1-9]\d{0,2}(?:\.\d{3})*")}

#: A line with a cell that begins with a number with a comma.
_MAYBE = re.compile(r"(?:^|[\s|;\"│┃║])[+-]?\d[\d.]*,\d")


def may_have(lines: Iterable[str]) -> bool:
    """Whether some line may contain a number with a decimal comma (in a table that isn't separated by commas)."""
    return any("," in line and _MAYBE.search(line) for line in lines)


@lru_cache(maxsize=16_384)
def separator_in(cell: str) -> str:
    """The decimal separator that a cell implies: "comma", "point", "either" for 1,234, "" if the cell has no clue."""
    found = _CELL.fullmatch(cell.strip())
    digits = found[2] if found else ""
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


def with_point(cell: str) -> str:
    """Rewrites a number with a decimal comma: `1.234,5 ms` becomes `1234.5 ms`. Leaves other text as it is."""
    found = _CELL.fullmatch(cell.strip())
    if not found:
        return cell
    whole, comma, decimals = found[2].partition(",")
    if not (whole.isdigit() or _GROUPS["."].fullmatch(whole)) or (comma and not decimals.isdigit()):
        return cell
    return f"{found[1]}{whole.replace('.', '')}{'.' if comma else ''}{decimals}{found[3]}"


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
