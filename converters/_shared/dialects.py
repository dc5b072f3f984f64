"""How the cells of a table in text are told apart.

    pipes       | gemm | 1.2 | 3 |      gemm | 1.2 | 3       a rule of dashes below the headings
    tabs        gemm →1.2 ms →3         commas and semicolons likewise, with quotes as in CSV
    dashes      the rule below the headings has a run of dashes for each column
    spaces      two blanks or more between cells, each below (a part of) its heading

A dialect splits a line into pieces. More pieces than columns mean that a separator stands in a name.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from .columns import cell_quantity

DELIMITERS = {"tabs": "\t", "semicolons": ";", "commas": ","}

#: Lines longer than this are no headings. (The longest seen is 1,300 characters.)
LONGEST_HEADER = 16_384

#: What headings never have: a time of day, a key of JSON.
_NO_HEADINGS = re.compile(r"\d\d:\d\d|\"\s*:\s")

_RULE = re.compile(r"[\s|+:=\-─━═┄]*[=\-─━═┄]{2,}[\s|+:=\-─━═┄]*")
_RUN = re.compile(r"[=\-─━═┄]+")
_PIPE = re.compile(r"(?<!\\)\|")
_CHUNK = re.compile(r"\S+(?: \S+)*")


class Dialect(Protocol):
    """A way of telling cells apart. `joint` stood between two pieces; `explicit` says that it can't be mistaken."""

    @property
    def name(self) -> str: ...
    @property
    def joint(self) -> str: ...
    @property
    def explicit(self) -> bool: ...

    def split(self, text: str) -> list[str] | None:
        """The pieces of a line, unstripped; None where the line can't be a row."""


@dataclass(frozen=True)
class Pipes:
    """Cells between `|`; `outer` says that lines begin with one, `closed` that they end with one."""

    outer: bool
    closed: bool = False
    name: str = "pipes"
    joint: str = "|"
    explicit: bool = True

    def split(self, text: str) -> list[str] | None:
        pieces = _PIPE.split(text.strip())
        if len(pieces) < 2:
            return None
        if self.outer and not pieces[0].strip():
            del pieces[0]
        if self.closed and len(pieces) > 1 and not pieces[-1].strip():
            del pieces[-1]
        return [piece.replace("\\|", "|") for piece in pieces]


@dataclass(frozen=True)
class Delimited:
    """Cells between one character, in quotes where they hold it themselves."""

    name: str
    quoted: bool = True
    explicit: bool = False

    @property
    def joint(self) -> str:
        return DELIMITERS[self.name]

    def split(self, text: str) -> list[str] | None:
        if self.quoted and '"' in text:
            try:
                pieces = next(csv.reader([text], delimiter=self.joint, skipinitialspace=True), [])
            except csv.Error:
                return None
        else:
            pieces = text.split(self.joint)
        return pieces if len(pieces) > 1 else None


@dataclass(frozen=True)
class Dashes:
    """Cells below runs of dashes; a number may stand out to the left of its run, a name to the right."""

    runs: tuple[tuple[int, int], ...]
    name: str = "dashes"
    joint: str = " "
    explicit: bool = False

    def split(self, text: str) -> list[str] | None:
        pieces, begin = [], 0
        for (_, end), (start, stop) in zip(self.runs, self.runs[1:], strict=False):
            cut = _cut(text, begin, end, start, stop)
            pieces.append(text[begin:cut])
            begin = cut
        pieces.append(text[begin:])
        return pieces if sum(bool(piece.strip()) for piece in pieces) > 1 else None


def _cut(text: str, begin: int, end: int, start: int, stop: int) -> int:
    """Where a row is cut between the run that ends at `end` and the next one, from `start` to `stop`."""
    blank = text.find(" ", end, start)
    if blank >= 0:
        return max(begin, blank)
    if len(text) <= end:
        return max(begin, len(text))
    left = text.rfind(" ", begin, end)
    if left >= 0 and cell_quantity(text[left:stop].strip()):
        return left
    right = text.find(" ", start)
    return right if right >= 0 else len(text)


@dataclass(frozen=True)
class Spaces:
    """Cells at least two blanks apart, each given to the heading that it stands below."""

    spans: tuple[tuple[int, int], ...]
    name: str = "spaces"
    joint: str = "  "
    explicit: bool = False

    def split(self, text: str) -> list[str] | None:
        chunks = list(_CHUNK.finditer(text))
        if len(chunks) < 2:
            return None
        if len(chunks) == len(self.spans):
            return [chunk.group() for chunk in chunks]
        pieces = [""] * len(self.spans)
        for chunk in chunks:
            column = max(range(len(self.spans)), key=lambda index: _overlap(chunk.span(), self.spans[index]))
            pieces[column] = f"{pieces[column]}  {chunk.group()}".strip()
        return pieces


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> int:
    """Characters that two spans share; below 0, how far they are apart."""
    return min(one[1], other[1]) - max(one[0], other[0])


@dataclass(frozen=True)
class Candidate:
    """A line read as headings: in which dialect, into which texts, and whether the line below it is a rule."""

    dialect: Dialect
    texts: list[str]
    ruled: bool


def candidates(text: str, peek: Callable[[int], str | None]) -> Iterator[Candidate]:
    """The ways in which a line may be the headings of a table, the surest first. `peek(1)` is the line below."""
    if len(text) > LONGEST_HEADER or _NO_HEADINGS.search(text) or is_rule(text):
        return
    below = peek(1) or ""
    ruled = is_rule(below)
    if "|" in text:
        yield from _candidate(Pipes(text.lstrip().startswith("|"), text.rstrip().endswith("|")), text, ruled)
    for name, delimiter in DELIMITERS.items():
        if delimiter in text:
            yield from _candidate(Delimited(name, quoted=delimiter != "\t" or '"' in text), text, ruled)
    if ruled:
        runs = tuple(run.span() for run in _RUN.finditer(below))
        if len(runs) > 1:
            yield from _candidate(Dashes(runs), text, True)
    spans = tuple(chunk.span() for chunk in _CHUNK.finditer(text))
    if len(spans) > 1:
        yield from _candidate(Spaces(spans), text, ruled)


def _candidate(dialect: Dialect, text: str, ruled: bool) -> Iterator[Candidate]:
    pieces = dialect.split(text)
    if pieces:
        yield Candidate(dialect, [piece.strip() for piece in pieces], ruled)


def is_rule(text: str) -> bool:
    """Whether a line is drawn, not written: dashes, with pipes, plus signs and colons at most."""
    return _RULE.fullmatch(text) is not None


def join_surplus(pieces: Sequence[str], columns: int, name: int, joint: str) -> list[str]:
    """As many cells as columns: surplus pieces belong to the name, missing ones are ''."""
    cells = list(pieces)
    surplus = len(cells) - columns
    if surplus > 0:
        cells[name : name + surplus + 1] = [joint.join(cells[name : name + surplus + 1])]
    return [cell.strip() for cell in cells] + [""] * -surplus
