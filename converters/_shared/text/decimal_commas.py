"""How a file writes its numbers: with a point before decimals, or with a comma, as in much of Europe.

2,5   0,125   1.234,5   1.234.567     only a comma before decimals can be meant
2.5   0.125   1,234.5   1,234,567     only a point
1,234   1.234                         either: the rest of the file says which

It is settled once for a file, from the figures in its tables; where they contradict one another, or none of them says
it, nobody can know.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

_CELL = re.compile(r"([+-]?)(\d[\d.,]*)((?:[eE][+-]?\d+)?(?:\s*[^\d\s.,][^\d]{0,16})?)")
_GROUPS = {",": re.compile(r"[1-9]\d{0,2}(?:,\d{3})*"), ".": re.compile(r"[1-9]\d{0,2}(?:\.\d{3})*")}

#: A line in which a number with a comma begins a cell.
_MAYBE = re.compile(r"(?:^|[\s|;\"│┃║])[+-]?\d[\d.]*,\d")


def may_have(lines: Iterable[str]) -> bool:
    """Whether numbers with commas stand in some lines, outside of cells between commas."""
    return any("," in line and _MAYBE.search(line) for line in lines)


@lru_cache(maxsize=16_384)
def sign(cell: str) -> str:
    """What a cell says of the file: "comma" or "point" for what stands before decimals, "either" for 1,234, else ""."""
    found = _CELL.fullmatch(cell.strip())
    digits = found[2] if found else ""
    last = max(digits.rfind(","), digits.rfind("."))
    if last < 0:
        return ""
    mark = digits[last]
    other = "." if mark == "," else ","
    whole, behind = digits[:last], digits[last + 1 :]
    named = {",": "comma", ".": "point"}
    if other in whole:
        return named[mark] if mark not in whole and _GROUPS[other].fullmatch(whole) else ""
    if mark in whole:
        return named[other] if _GROUPS[mark].fullmatch(digits) else ""
    if len(behind) == 3 and _GROUPS[mark].fullmatch(digits):
        return "either" if mark == "," else ""
    return named[mark]


def with_point(cell: str) -> str:
    """A cell of a file with decimal commas as others write it: `1.234,5 ms` is `1234.5 ms`. Other texts stay."""
    found = _CELL.fullmatch(cell.strip())
    if not found:
        return cell
    whole, comma, behind = found[2].partition(",")
    if not (whole.isdigit() or _GROUPS["."].fullmatch(whole)) or (comma and not behind.isdigit()):
        return cell
    return f"{found[1]}{whole.replace('.', '')}{'.' if comma else ''}{behind}{found[3]}"


class Evidence:
    """What the figures of a file say of how it writes numbers."""

    def __init__(self) -> None:
        self._said: Counter[str] = Counter()
        self._example: dict[str, str] = {}
        self._open = ""

    def add(self, cell: str, *, fine: bool) -> None:
        """A figure; `fine` says that it has no decimals anyway, since it counts something or is in ns."""
        said = sign(cell)
        if said == "either" and not fine:
            self._open = self._open or cell.strip()
        elif said and said != "either":
            self._said[said] += 1
            self._example.setdefault(said, cell.strip())

    @property
    def commas(self) -> bool:
        """Whether a comma stands before decimals."""
        return self._said["comma"] > 0 and not self._said["point"]

    @property
    def problem(self) -> str:
        """Why nobody can know; '' where it is known."""
        if self._said["comma"] and self._said["point"]:
            example = self._example
            return f"writes numbers in two ways: {example['comma']!r} and {example['point']!r}"
        if self._open and not self._said:
            return f"says {self._open!r} and nothing that tells a decimal comma from one between thousands"
        return ""
