"""The tables that TVM prints: their headings, and how a line splits into cells.

A report pads its first column on the right and all others on the left; the debug executor pads all on the right.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

NAME = "Name"
DURATION = "Duration (us)"

#: Headings of a report, anywhere in a line.
REPORT = re.compile(r"(?:^|(?<=\s))Name {2,}Duration \(us\) +Percent\b", re.MULTILINE)

#: Headings of the debug executor.
DEBUG = re.compile(r"(?:^|(?<=\s))Node Name {2,}Ops {2,}Time\(us\) {2,}Time\(%\) ", re.MULTILINE)

_HEADING = re.compile(rb"\S+(?: \S+)*")
_NEEDED = frozenset({NAME, DURATION, "Percent"})


def is_csv_heading(line: str) -> bool:
    """Whether a line has the headings of a report as CSV: without quotes, in any order."""
    return "," in line and '"' not in line and {cell.strip() for cell in line.split(",")} >= _NEEDED


@dataclass(frozen=True)
class Grid:
    """The columns of a printed table: headings, and the bytes at which each begins and ends."""

    headings: tuple[str, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    right: bool

    def cells(self, text: str) -> dict[str, str] | None:
        """Returns the cells of a row by heading; None for a line that isn't a row."""
        return self._report(text.encode()) if self.right else self._debug(text)

    def _report(self, line: bytes) -> dict[str, str] | None:
        """TVM counts bytes. The first two columns are split at their last blank: a duration has none."""
        first = line[self.starts[0] : self.ends[1]].rsplit(None, 1)
        if len(first) != 2 or line[: self.starts[0]].strip(b" #>/*"):
            return None
        cells = [*first, *(line[end:until] for end, until in zip(self.ends[1:], self.ends[2:], strict=False))]
        return self._named([cell.decode(errors="replace") for cell in cells])

    def _debug(self, line: str) -> dict[str, str] | None:
        if len(line.rstrip()) <= self.starts[2] or line[: self.starts[0]].strip(" #>/*"):
            return None
        bounds = zip(self.starts, [*self.starts[1:], len(line)], strict=True)
        return self._named([line[start:end] for start, end in bounds])

    def _named(self, cells: list[str]) -> dict[str, str]:
        return {heading: cell.strip() for heading, cell in zip(self.headings, cells, strict=False)}


def grid_of(line: str) -> Grid | None:
    """Returns the columns that a line of headings declares, None for another line."""
    found = REPORT.search(line) or DEBUG.search(line)
    if not found:
        return None
    right = line[found.start() :].startswith(NAME + " ")
    text = line.encode() if right else line.encode("ascii", "replace")
    words = list(_HEADING.finditer(text, len(line[: found.start()].encode())))
    names = tuple(word[0].decode(errors="replace") for word in words)
    return Grid(names, tuple(word.start() for word in words), tuple(word.end() for word in words), right)
