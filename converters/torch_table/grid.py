"""Splits rows into cells, by the rule of dashes below the headings.

------  ------------  ------------
  Name      Self CPU    # of Calls        two blanks between columns; a cell that is too wide pushes the others right
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .columns import Columns, columns

_WORD = re.compile(r"\S+")
_GAP = re.compile(r"\s{2,}|\t")
_SHORTEST = 3
#: A longer line isn't headings, which are 12 columns of 12 characters, and names, shapes and stacks of any width.
_LONGEST = 1 << 16


@dataclass(frozen=True)
class RulerLine:
    """A rule: the number of characters before it (a logger's prefix, a comment), and its runs of dashes."""

    indent: int
    runs: tuple[tuple[int, int], ...]

    def cut(self, text: str) -> list[str]:
        """Splits a line by the widths of the runs."""
        text = text[self.indent :]
        cells, begin = [], 0
        for (start, stop), (following, _) in zip(self.runs, self.runs[1:], strict=False):
            end, gap = begin + stop - start, following - stop
            if text[end : end + gap].strip():  # too wide: it ends at two blanks
                wide = text.find(" " * gap, end)
                end = len(text) if wide < 0 else wide
            cells.append(text[begin:end].strip())
            begin = end + gap
        return [*cells, text[begin:].strip()]

    def split(self, text: str) -> list[str]:
        """Splits a line that lost its leading blanks, by the gaps between cells."""
        return _GAP.split(text[self.indent :].strip())


def rule(text: str) -> RulerLine | None:
    """Returns the rule in a line, None for a line without runs of dashes for at least two columns."""
    if len(text) > _LONGEST or "---" not in text:
        return None
    words = [(found.start(), found.group()) for found in _WORD.finditer(text)]
    runs: list[tuple[int, int]] = []
    for start, word in reversed(words):
        dashes = len(word) - len(word.rstrip("-"))
        if dashes < _SHORTEST:
            break
        end = start + len(word)
        runs.append((end - dashes, end))
        if dashes < len(word):
            break
    runs.reverse()
    return RulerLine(runs[0][0], tuple(runs)) if len(runs) > 1 else None


@dataclass(frozen=True)
class Grid:
    """The rule that splits the rows of a table, and the columns."""

    rule: RulerLine
    columns: Columns

    def cells(self, text: str) -> list[str] | None:
        """The cells of a row, None if the line isn't a row."""
        for cells in (self.rule.cut(text), self.rule.split(text)):
            if len(cells) == len(self.columns.columns) and self._match(cells):
                return cells
        return None

    def continues_stack(self, text: str) -> bool:
        """Whether a line is the next frame of the stack of the row above: only its last cells aren't blank."""
        if "stack" not in self.columns.at:
            return False
        place = min(self.columns.at["stack"], len(self.rule.runs) - 1)
        return not text[self.rule.indent : self.rule.indent + self.rule.runs[place][0]].strip()

    def _match(self, cells: list[str]) -> bool:
        """Whether all cells match their columns; swaps FLOPs and stack if each is under the other's heading."""
        stack, flops = self.columns.at.get("stack"), self.columns.at.get("flops")
        if stack is not None and flops is not None and self.columns.columns[flops].matches(cells[stack]):
            cells[stack], cells[flops] = cells[flops], cells[stack]
        return all(column.matches(cell) for column, cell in zip(self.columns.columns, cells, strict=True))


def grid(heading: str, below: str) -> Grid | None:
    """Returns the grid of the table with these headings and the line below them; None for other lines."""
    if len(heading) > _LONGEST or "name" not in heading.casefold():
        return None
    drawn = rule(below)
    if drawn is None:
        return None
    for headings in (drawn.cut(heading), drawn.split(heading)):
        if len(headings) == len(drawn.runs) and (found := columns(headings)):
            return Grid(drawn, found)
    return None


def is_double_rule(text: str) -> bool:
    """Whether a line consists of equals signs, like those around the table's own header."""
    text = text.strip()
    return len(text) >= 20 and not text.strip("=")


def grid_at(lines: Sequence[str], index: int) -> Grid | None:
    """Returns the grid of the table with headings at that index, if a row follows; for probes."""
    found = grid(lines[index], lines[index + 1]) if index + 1 < len(lines) else None
    first = next((line for line in lines[index + 2 : index + 6] if line.strip()), None) if found else None
    return found if found and (first is None or found.cells(first) or rule(first)) else None
