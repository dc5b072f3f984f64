"""Layouts of tables in text: how the cells of a row are separated.

    pipes       | gemm | 1.2 | 3 |      gemm | 1.2 | 3       a rule of dashes below the headings
    boxes       │ gemm │ 1.2 │ 3 │                           the same, drawn
    tabs        gemm →1.2 ms →3         commas and semicolons likewise, with quotes as in CSV
    dashes      the rule below the headings has a run of dashes for each column
    spaces      two blanks or more between cells, each below (a part of) its heading
    words       57.0% 1.266 s 192 gemm      one blank between cells, as what was copied often has

A layout splits a line into pieces. If there are more pieces than columns, a name contains the separator.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from .headings import cell_quantity

DELIMITERS = {"tabs": "\t", "semicolons": ";", "commas": ","}

#: A line longer than this isn't a line of headings. (The longest seen has 1,300 characters.)
LONGEST_HEADER = 16_384

#: Characters that draw horizontal lines, in addition to `-` and `=`.
_DRAWN = "─━═┄┅┈┉╌╍⎺⎻⎼⎽‾"
#: Characters for the corners, crossings and sides of a box.
BOX = "\u2500-\u257f⎺-⎽‾"

_RULE = re.compile(rf"(?=[\s|+:=\-{BOX}]+\Z)(?=.*?[=\-{_DRAWN}]{{2}})[\s|+:=\-{BOX}]+")
#: A rule of Markdown with one dash for each column.
_SHORT_RULE = re.compile(r"[-:| ]+")
_RUN = re.compile(rf"[=\-{_DRAWN}]+")
_PIPE = re.compile(r"(?<!\\)\|")
SIDES = "│┃║┆┇┊┋╎╏"
_SIDE = re.compile(f"[{SIDES}]")
#: What a line of a table begins with that has a side: a side, or the corner or crossing of a rule.
_EDGE = re.compile(rf"\s*(?![{_DRAWN}╶╴╺╸╼╾])[|+{BOX}]")
#: A figure in a line whose blanks don't separate cells: a number, perhaps with a unit, or a sign for "no number".
_UNIT = re.compile(r"%|[nuµμm]?s|[KMGT]?i?B")
_NUMBER = re.compile(r"[+-]?\d[\d.,]*(?:e[+-]?\d+)?|-|N/A")
_FIGURE = re.compile(rf"[+-]?\d[\d.,]*(?:e[+-]?\d+)?(?: ?(?:{_UNIT.pattern})(?=\s|$))?|-|N/A")
_PLAIN_WORD = re.compile(r"\S+")
#: A word; a share in brackets is one, though blanks pad it.
_WORD = r"(?:[^\s(]+|\((?: {2,6}(?=\d[\d.]{0,9}%\)))?)+"
_CHUNK = re.compile(rf"{_WORD}(?: {_WORD})*")


class Layout(Protocol):
    """A way to split rows into cells. `joint` is the text between two pieces, `explicit` that it is unambiguous."""

    @property
    def name(self) -> str: ...
    @property
    def joint(self) -> str: ...
    @property
    def explicit(self) -> bool: ...

    def split(self, text: str) -> list[str] | None:
        """The pieces of a line, unstripped; None if the line can't be a row."""


@dataclass(frozen=True)
class Pipes:
    """Cells between `|`. `outer`: lines begin with one. `closed`: lines end with one.

    `boxed`: the sides of a drawn box replace the pipes. Markdown around a whole cell isn't part of it. `cuts` are the
    positions of the `+` in the rule below the headings, if any: a line with a pipe at each of them is split only
    there, so that a cell may contain a pipe. `marked`: cells begin with Textile's marks (`_.`, `>.`).
    """

    outer: bool
    closed: bool = False
    boxed: bool = False
    cuts: tuple[int, ...] = ()
    marked: bool = False
    name: str = "pipes"
    joint: str = "|"
    explicit: bool = True

    def split(self, text: str) -> list[str] | None:
        if self.cuts and len(text) > self.cuts[-1] and all(text[cut] == "|" for cut in self.cuts):
            return [_plain(text[begin + 1 : end].replace("\\|", "|")) for begin, end in pairwise(self.cuts)]
        pieces = (_SIDE if self.boxed else _PIPE).split(text.strip())
        if len(pieces) < 2:
            return None
        if self.outer and not pieces[0].strip():
            del pieces[0]
        if self.closed and len(pieces) > 1 and not pieces[-1].strip():
            del pieces[-1]
        if self.marked:
            pieces = [_without_mark(piece) for piece in pieces]
        return [_plain(piece.replace("\\|", "|")) for piece in pieces]

    @property
    def ends(self) -> str:
        """The characters that end a closed line."""
        return SIDES if self.boxed else "|"


_BREAK = re.compile(r"<br ?/?>", re.IGNORECASE)
#: How Textile aligns a cell or marks it as a heading.
_ALIGNED = re.compile(r"(?:_|[<>=])\.\s+")


def _without_mark(piece: str) -> str:
    """The piece with blanks in place of Textile's mark at its begin."""
    match = _ALIGNED.match(piece)
    return " " * match.end() + piece[match.end() :] if match else piece


def _plain(piece: str) -> str:
    """Removes `**` or backticks around the whole piece, and breaks of HTML in it."""
    if "<br" in piece:
        piece = _BREAK.sub(" ", piece)
    if not ("*" in piece or "`" in piece):
        return piece
    cell = piece.strip()
    for mark in ("**", "`"):
        inner = cell[len(mark) : -len(mark)]
        if inner and cell == f"{mark}{inner}{mark}" and mark not in inner:
            return _plain(inner)
    return piece


@dataclass(frozen=True)
class Delimited:
    """Cells separated by one character, in quotes if they contain it."""

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
    """Cells below runs of dashes; a number may extend to the left of its run, a name to the right."""

    runs: tuple[tuple[int, int], ...]
    name: str = "dashes"
    joint: str = " "
    explicit: bool = False

    def split(self, text: str) -> list[str] | None:
        pieces = self.place(text)
        return pieces if sum(bool(piece.strip()) for piece in pieces) > 1 else None

    def place(self, text: str) -> list[str]:
        """The pieces of any line, also of one with a single cell."""
        pieces, begin = [], 0
        for (_, end), (start, stop) in zip(self.runs, self.runs[1:], strict=False):
            cut = _cut(text, begin, end, start, stop)
            pieces.append(text[begin:cut])
            begin = cut
        return [*pieces, text[begin:]]


def _cut(text: str, begin: int, end: int, start: int, stop: int) -> int:
    """Returns where to split a row between the run that ends at `end` and the next one, from `start` to `stop`."""
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
    """Cells at least two blanks apart, each assigned to the heading above it.

    `width` is that of the cells of the column `cut`, where a longer text was cut and goes on in the next line.
    """

    spans: tuple[tuple[int, int], ...]
    cut: int = -1
    width: int = 0
    name: str = "spaces"
    joint: str = "  "
    explicit: bool = False

    def split(self, text: str) -> list[str] | None:
        chunks = list(_CHUNK.finditer(text))
        if len(chunks) < 2:
            return None
        if len(chunks) == len(self.spans):
            return [chunk.group() for chunk in chunks]
        return _by_figures(text, len(self.spans)) or self.place(text)

    def place(self, text: str) -> list[str]:
        """The cells of any line, each below the heading that is nearest."""
        pieces = [""] * len(self.spans)
        for match in _CHUNK.finditer(text):
            for begin, end in self._parts(text, *match.span()):
                column = self._nearest(begin, end)
                pieces[column] = f"{pieces[column]}  {text[begin:end]}".strip()
        return pieces

    def _nearest(self, begin: int, end: int) -> int:
        """The first of the columns whose heading shares most characters with a span, or is nearest to it."""
        column, most = 0, -sys.maxsize
        for index, (start, stop) in enumerate(self.spans):
            shared = (end if end < stop else stop) - (begin if begin > start else start)
            if shared > most:
                column, most = index, shared
        return column

    def _parts(self, text: str, begin: int, end: int) -> list[tuple[int, int]]:
        """Divides what begins right below a heading where, after one blank, it goes on right below the next one."""
        starts = [start for start, _ in self.spans]
        if begin not in starts:
            return [(begin, end)]
        cuts = [start for start in starts if begin < start < end and text[start - 1] == " "]
        bounds = [begin, *cuts, end]
        return [(start, stop - (stop in cuts)) for start, stop in pairwise(bounds)]


@dataclass(frozen=True)
class Edges:
    """Cells that end below the end of their heading, as those of pandas; `edges` are these ends."""

    edges: tuple[int, ...]
    name: str = "spaces"
    joint: str = " "
    explicit: bool = False

    def split(self, text: str) -> list[str] | None:
        pieces = self.place(text)
        return pieces if sum(bool(piece.strip()) for piece in pieces) > 1 else None

    def place(self, text: str) -> list[str]:
        """The cells of any line."""
        if any(_is_within(text, edge) for edge in self.edges[:-1]):
            return [text]
        bounds = (0, *self.edges[:-1], max(len(text), self.edges[-1]))
        return [text[begin:end].strip() for begin, end in pairwise(bounds)]


def _is_within(text: str, place: int) -> bool:
    """Whether a word goes on beyond a place."""
    return not text[place - 1 : place].isspace() and not (text[place : place + 1] or " ").isspace()


@dataclass(frozen=True)
class Words:
    """Cells with nothing clear between them: all are figures, except for a name in the last or the first cell.

    `labelled`: the first row has a label before its cells, as nvprof's: `GPU activities:  41.25%  82.500ms ...`.
    """

    columns: int
    labelled: bool = False
    name: str = "words"
    joint: str = " "
    explicit: bool = False

    def split(self, text: str) -> list[str] | None:
        label = _LABEL.match(text) if self.labelled else None
        return _by_figures(text[label.end() :] if label else text, self.columns)


#: A label before the cells of a row.
_LABEL = re.compile(r"\s{0,200}([A-Za-z][A-Za-z ]{1,40}):(?=\s{2,}[\d.])")


def label_of(text: str) -> str:
    """The label before the cells of a row, '' for none."""
    match = _LABEL.match(text)
    return match[1] if match else ""


def _by_figures(text: str, columns: int) -> list[str] | None:
    """Splits a row of figures and one name by the look of a figure; None if it isn't such a row."""
    if len(text) > LONGEST_HEADER:
        return None
    return _figures_first(text, columns - 1) or _figures_last(text, columns - 1)


def _figures_first(text: str, figures: int) -> list[str] | None:
    """Splits a row of that many figures with a name after them."""
    pieces: list[str] = []
    at = len(text) - len(text.lstrip())
    for number in range(figures, 0, -1):
        match = _FIGURE.match(text, at)
        if match and number == 1 and not text[match.end() :].strip():
            match = _NUMBER.match(text, at)  # the name looks like a unit
        if not match or not text[match.end() : match.end() + 1].isspace():
            return None
        pieces.append(match.group())
        at = len(text) - len(text[match.end() :].lstrip())
    return [*pieces, text[at:]] if text[at:] else None


def _figures_last(text: str, figures: int) -> list[str] | None:
    """Splits a row of a name with that many figures after it."""
    words = [(match.start(), match.end()) for match in _PLAIN_WORD.finditer(text)]
    pieces: list[str] = []
    for _ in range(figures):
        if not words:
            return None
        start, end = words.pop()
        if words and words[-1][1] == start - 1 and _UNIT.fullmatch(text, start, end):
            start = words.pop()[0]
        if not _FIGURE.fullmatch(text, start, end):
            return None
        pieces.append(text[start:end])
    return [text[words[0][0] : words[-1][1]], *reversed(pieces)] if words else None


def chunks_of(text: str) -> list[re.Match[str]]:
    """The texts in a line that are at least two blanks apart."""
    return list(_CHUNK.finditer(text))


def runs_of(rule: str) -> tuple[tuple[int, int], ...]:
    """Where the runs of dashes in a rule begin and end."""
    return tuple(run.span() for run in _RUN.finditer(rule))


def ends_with_edge(text: str) -> bool:
    """Whether a line ends with the side, the corner or the crossing of a frame."""
    return begins_with_edge(text.rstrip()[-1:])


def begins_with_edge(text: str) -> bool:
    """Whether a line begins with the side, the corner or the crossing of a frame."""
    return _EDGE.match(text) is not None


def is_rule(text: str) -> bool:
    """Whether a line is drawn, not written: dashes, perhaps with pipes, plus signs and colons."""
    return _RULE.fullmatch(text) is not None


def is_rule_below(text: str) -> bool:
    """Whether a line below headings is a rule: there, one dash for each column is enough."""
    return is_rule(text) or ("|" in text and "-" in text and _SHORT_RULE.fullmatch(text.strip()) is not None)


def join_surplus(pieces: Sequence[str], columns: int, name: int, joint: str) -> list[str]:
    """Returns one cell for each column: joins surplus pieces into the name, fills up with ''."""
    cells = list(pieces)
    surplus = len(cells) - columns
    if surplus > 0:
        cells[name : name + surplus + 1] = [joint.join(cells[name : name + surplus + 1])]
    return [cell.strip() for cell in cells] + [""] * -surplus
