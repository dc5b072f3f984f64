"""The cells of a row, by the rule of dashes below the headings.

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
#: Longer lines are no headings: 12 columns of 12 characters, names, shapes and stacks of any width.
_LONGEST = 1 << 16


@dataclass(frozen=True)
class Rule:
    """A rule: how many characters stand before it (a logger's prefix, a comment), and its runs of dashes."""

    indent: int
    runs: tuple[tuple[int, int], ...]

    def cut(self, text: str) -> list[str]:
        """The cells of a line by the widths of the runs."""
        text = text[self.indent :]
        cells, begin = [], 0
        for (start, stop), (following, _) in zip(self.runs, self.runs[1:], strict=False):
            end, gap = begin + stop - start, following - stop
            if text[end : end + gap].strip():  # too wide: it ends where two blanks are
                wide = text.find(" " * gap, end)
                end = len(text) if wide < 0 else wide
            cells.append(text[begin:end].strip())
            begin = end + gap
        return [*cells, text[begin:].strip()]

    def split(self, text: str) -> list[str]:
        """The cells of a line of which the blanks at its begin are lost: by the gaps between them."""
        return _GAP.split(text[self.indent :].strip())


def rule(text: str) -> Rule | None:
    """The rule that a line is, None where it isn't one of a run for each of at least two columns."""
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
    return Rule(runs[0][0], tuple(runs)) if len(runs) > 1 else None


@dataclass(frozen=True)
class Grid:
    """How the rows of a table are cut, and into which columns."""

    rule: Rule
    columns: Columns

    def cells(self, text: str) -> list[str] | None:
        """The cells of a row, None where the line is none."""
        for cells in (self.rule.cut(text), self.rule.split(text)):
            if len(cells) == len(self.columns.columns) and self._fit(cells):
                return cells
        return None

    def goes_on(self, text: str) -> bool:
        """Whether a line is the next frame of the stack of the row above it: blank but for the last cells."""
        if "stack" not in self.columns.at:
            return False
        place = min(self.columns.at["stack"], len(self.rule.runs) - 1)
        return not text[self.rule.indent : self.rule.indent + self.rule.runs[place][0]].strip()

    def _fit(self, cells: list[str]) -> bool:
        """Whether the figures are figures; those of FLOPs stand below the stack's heading, where there are both."""
        stack, flops = self.columns.at.get("stack"), self.columns.at.get("flops")
        if stack is not None and flops is not None and self.columns.columns[flops].fits(cells[stack]):
            cells[stack], cells[flops] = cells[flops], cells[stack]
        return all(column.fits(cell) for column, cell in zip(self.columns.columns, cells, strict=True))


def grid(heading: str, below: str) -> Grid | None:
    """The grid of a table of which these are the headings and the line below them; None where they aren't."""
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
    """Whether a line is one of equals signs, as stand around the table's own header."""
    text = text.strip()
    return len(text) >= 20 and not text.strip("=")


def opens(lines: Sequence[str], index: int) -> Grid | None:
    """The grid of which the line at that index is the headings, if a row stands below; for probes."""
    found = grid(lines[index], lines[index + 1]) if index + 1 < len(lines) else None
    first = next((line for line in lines[index + 2 : index + 6] if line.strip()), None) if found else None
    return found if found and (first is None or found.cells(first) or rule(first)) else None
