"""The table that PyTorch's FlopCounterMode prints: floating point operations by module and operator, without times.

Module             FLOP    % Total
------------  ---------  ---------
MLP           1294.336K    100.00%          a module: all work inside it
- aten.addmm   606.208K     46.84%          an operator in this module or in one inside it
MLP.a         1048.576K     81.01%

torch/utils/flop_counter.py (`get_table`) prints it with `tabulate`. Older versions of that indent names by their depth.
One suffix (K, M, B, T: powers of 1000) is chosen for the whole table, with three decimals.

Turns the rows into summaries of operations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.lines import Lines
from ktrace.kit.text.titles import likely_lines
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

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
    match = _HEADING.fullmatch(text) if len(text) <= _LONGEST and "% Total" in text else None
    if not match:
        return None
    width = len(match["prefix"])
    return width if _RULE.fullmatch(below[width:]) else None


def is_rule(text: str) -> bool:
    """Whether a line is the rule below the headings."""
    return _RULE.fullmatch(text) is not None


def row(text: str) -> FlopsRow | None:
    """The row in a line, None for another line."""
    match = _ROW.fullmatch(text) if len(text) <= _LONGEST else None
    if not match:
        return None
    flop = Decimal(match["flop"]) * 1000 ** _POWERS[match["suffix"]]
    return FlopsRow(bool(match["dash"]), match["name"], flop, match["flop"] + match["suffix"], float(match["share"]))


_WORDS = ("% total",)


def probe(sample: Sample) -> Match | None:
    """DIALECT for the headings above a rule."""
    if "FLOP" not in (sample.text or ""):
        return None
    for number, line in likely_lines(sample, _WORDS):
        if number < len(sample.lines) and heading(line, sample.lines[number]) is not None:
            return Match(Score.DIALECT, f"contains a table of PyTorch's FlopCounterMode (line {number})")
    return None


#: The row of all work, which has no module.
_GLOBAL = "Global"


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a range for each module, an op for each operator in it, a total for all work."""
    lines, rows = Lines(source, conversion), RowBuilder(conversion)
    table, width, is_open = -1, 0, False
    scope: list[str] = []
    rows.fact("source", facts={"tool": "PyTorch FlopCounterMode"})
    for line in lines:
        headings = heading(line.text, lines.peek() or "")
        if headings is not None:
            table, width, is_open, scope = table + 1, headings, True, []
            lines.structure()
        elif not line.text.strip():
            lines.structure()
            is_open = False
        elif is_open and is_rule(line.text[width:]):
            lines.structure()
        elif is_open and (one := row(line.text[width:])):
            scope = scope if one.is_operator else [_GLOBAL] if one.name == _GLOBAL else one.name.split(".")
            _add(rows, one, table, scope)
            lines.used()
        elif is_open and lines.peek() is None and line.text[:width].strip() == "" and "%" not in line.text:
            lines.skip("cut", "the last row is cut off")
        yield from rows.ready()
    yield from rows.rest()


def _add(rows: RowBuilder, one: FlopsRow, table: int, scope: list[str]) -> None:
    kind = "op" if one.is_operator else "total" if scope == [_GLOBAL] else "range"
    rows.summary(
        kind,
        one.name,
        metric="FLOPs",
        unit="FLOP",
        value=float(one.flop),
        percent=one.share,
        table=table,
        scope=scope,
        args={"FLOP": one.printed} if one.is_rounded else None,
    )


FORMAT = Format(
    "torch-flops",
    "PyTorch FlopCounterMode's table of floating point operations",
    patterns=("*flop*.txt", "*.log"),
    probe=probe,
    read=read,
    words=("% total",),
    prose=True,
)
