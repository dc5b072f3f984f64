"""The table that PyTorch's FlopCounterMode prints: floating point operations by module and operator, without times.

Module             FLOP    % Total
------------  ---------  ---------
MLP           1294.336K    100.00%          a module: all work inside it
- aten.addmm   606.208K     46.84%          an operator in this module or in one inside it
MLP.a         1048.576K     81.01%

torch/utils/flop_counter.py (`get_table`) prints it with `tabulate`. Older versions of that indent names by their depth.
One suffix (K, M, B, T: powers of 1000) is chosen for the whole table, with three decimals.

The lines of the table.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import NamedTuple

from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.titles import likely_lines

_HEADING = re.compile(r"(?P<prefix>.*?)Module\s+FLOP\s+% Total\s*")
_RULE = re.compile(r"-{3,}\s+-{3,}\s+-{3,}\s*")
_ROW = re.compile(
    r"\s*(?P<dash>- )?(?P<name>\S(?:.*\S)?)\s{2,}(?P<flop>[0-9]{1,30}(?:\.[0-9]{1,9})?)(?P<suffix>[KMBT]?)"
    r"\s{2,}(?P<share>[0-9]{1,9}(?:\.[0-9]{1,9})?)%\s*"
)
_POWERS = {"": 0, "K": 1, "M": 2, "B": 3, "T": 4}

#: A longer line isn't part of a table.
_LONGEST = 4096


class FlopsRow(NamedTuple):
    """A row: whether it is an operator, its name, its operations as a number and as printed, its share in percent."""

    is_operator: bool
    name: str
    flop: Decimal
    printed: str
    share: float

    @property
    def is_rounded(self) -> bool:
        """Whether the printed number has fewer digits than the operations may have."""
        return self.printed[-1] in "MBT"


def heading(text: str, below: str) -> int | None:
    """The number of characters before the table in its lines, such as a logger's; None if no table begins here."""
    found = _HEADING.fullmatch(text) if len(text) <= _LONGEST and "% Total" in text else None
    if not found:
        return None
    width = len(found["prefix"])
    return width if _RULE.fullmatch(below[width:]) else None


def is_rule(text: str) -> bool:
    """Whether a line is the rule below the headings."""
    return _RULE.fullmatch(text) is not None


def row(text: str) -> FlopsRow | None:
    """The row in a line, None for another line."""
    found = _ROW.fullmatch(text) if len(text) <= _LONGEST else None
    if not found:
        return None
    flop = Decimal(found["flop"]) * 1000 ** _POWERS[found["suffix"]]
    return FlopsRow(bool(found["dash"]), found["name"], flop, found["flop"] + found["suffix"], float(found["share"]))


_WORDS = ("% total",)


def probe(sample: Sample) -> Match | None:
    """DIALECT for the headings above a rule."""
    if "FLOP" not in (sample.text or ""):
        return None
    for number, line in likely_lines(sample, _WORDS):
        if number < len(sample.lines) and heading(line, sample.lines[number]) is not None:
            return Match(Score.DIALECT, f"contains a table of PyTorch's FlopCounterMode (line {number})")
    return None


FORMAT = Format(
    "torch-flops",
    "PyTorch FlopCounterMode's table of floating point operations",
    patterns=("*flop*.txt", "*.log"),
    probe=probe,
    read="ktrace.converters.torch_flops.reader:read",
    words=("% total",),
    prose=True,
)
