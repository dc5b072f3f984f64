"""Tables in the markup of other programs: HTML, LaTeX, and the wikis' with two pipes.

    <tr><td>gemm</td><td>1.5</td></tr>      gemm & 1.5 \\\\      || Kernel || Time ||      ! Kernel !! Time
                                                              | gemm | 1.5 |            | gemm || 1.5

A row is whole where its markup ends, in the same line or in one of the next.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from html import unescape

from .wrapped import is_open, is_within_a_word

#: Lines that a row may extend over.
_MOST_LINES = 64

_TAG = re.compile(r"<[^<>]*>")
_CELL = re.compile(r"<t([hd])\b[^<>]*>(.*?)(?:</t\1>|(?=<t[hd]\b)|(?=</tr>)|$)", re.IGNORECASE | re.DOTALL)
_AMPERSAND = re.compile(r"(?<!\\)&")
_STYLE = re.compile(r"^\s*(?:<[^<>|]*>|[\w-]+=\"[^\"|]*\"(?:\s+[\w-]+=\"[^\"|]*\")*\s*\|)")
_LINE = re.compile(r"\{\||\|\}|\|-|\|\+|\[cols=.*|\|={3,}|\\(?:hline|toprule|midrule|bottomrule|end\w*\b|begin\b).*")


@dataclass(frozen=True)
class Markup:
    """Cells in markup; `name` is that of the language: html, latex, or wiki with `double` pipes in the headings."""

    name: str
    joint: str = " "
    explicit: bool = True

    def split(self, text: str) -> list[str] | None:
        if self.name == "html":
            cells = [unescape(_TAG.sub("", match[2])) for match in _CELL.finditer(text)]
        elif self.name == "latex":
            if not text.rstrip().endswith("\\\\"):
                return None
            parts = _AMPERSAND.split(text.rstrip()[:-2])
            cells = [re.sub(r"\\([_%&#${}])", r"\1", part.replace("\\textbackslash", "\\")) for part in parts]
        else:
            cells = _wiki(text.strip())
        return [in_one_line(cell) for cell in cells] if len(cells) > 1 else None


def in_one_line(cell: str) -> str:
    """A cell of several lines in one: parts of a word become one again."""
    first, *rest = (line.strip() for line in cell.split("\n"))
    for line in rest:
        first += line if first and line and is_within_a_word(first, line) else f" {line}"
    return first.strip()


def _wiki(text: str) -> list[str]:
    """The cells of a row of a wiki."""
    if text.startswith("!"):
        cells = re.split(r"!!", text[1:])
    elif text.startswith("||"):
        cells = text[2:].removesuffix("||").split("||")
    elif text.startswith("|") and "||" in text:
        cells = text[1:].split("||")
    elif text.startswith("|"):
        cells = text[1:].removesuffix("|").split("|")
    else:
        return []
    return [_STYLE.sub("", cell).strip().removeprefix("'''").removesuffix("'''") for cell in cells]


def markup_of(text: str, peek: Callable[[int], str | None]) -> tuple[Markup, str, int] | None:
    """Returns the layout of headings in markup, their whole text, and how many lines below belong to it."""
    bare = text.lstrip()
    name = ""
    if bare[:3].lower() == "<tr":
        name = "html"
    elif "&" in text and _ends(text, peek, "\\\\"):
        name = "latex"
    elif (bare.startswith("||") and not bare.startswith("|||")) or (bare.startswith("!") and "!!" in bare):
        name = "wiki"
    if not name:
        return None
    layout = Markup(name)
    whole, more = whole_markup(layout, text, peek)
    return layout, whole, more


def _ends(text: str, peek: Callable[[int], str | None], end: str) -> bool:
    """Whether a line, or one of the next two, ends with a text."""
    return any((line or "").rstrip().endswith(end) for line in (text, peek(1), peek(2)))


def whole_markup(layout: Markup, text: str, peek: Callable[[int], str | None]) -> tuple[str, int]:
    """Returns a row that may extend over several lines, and how many lines below the first one it has."""
    whole = text
    for more in range(_MOST_LINES):
        below = peek(more + 1)
        if below is None or _is_whole(layout.name, whole, below):
            return whole, more
        whole += "\n" + below
    return text, 0


def whole_markup_row(layout: Markup, text: str, peek: Callable[[int], str | None]) -> tuple[list[str] | None, int]:
    """Returns the cells of a row, with those of the next one if that is the rest of this, and the lines below it."""
    whole, more = whole_markup(layout, text, peek)
    cells = layout.split(whole)
    while cells and layout.name == "wiki" and (below := peek(more + 1)):
        rest = layout.split(below) or []
        texts = [place for place, cell in enumerate(rest) if cell]
        if len(rest) != len(cells) or not texts or not all(is_open(cells[place]) for place in texts):
            break
        cells = [in_one_line(f"{cell}\n{part}") if part else cell for cell, part in zip(cells, rest, strict=True)]
        more += 1
    return cells, more


def _is_whole(name: str, text: str, below: str) -> bool:
    """Whether a row ends in its last line, above `below`."""
    bare = text.strip()
    if name == "html":
        return bare[:3].lower() != "<tr" or "</tr>" in bare.lower()
    if name == "latex":
        return bare.endswith("\\\\") or "&" not in bare + below
    if bare.startswith("||") or (bare.startswith("|") and bare.endswith("|")):
        return bare.endswith("|") and bare not in ("|", "||")
    return not below.strip() or below.lstrip()[:1] in "|!"


def is_markup_line(text: str) -> bool:
    """Whether a line has only what stands around the rows of such tables."""
    return _LINE.fullmatch(text.strip()) is not None


def begins_row(text: str) -> bool:
    """Whether a line begins a row of HTML."""
    return text.lstrip()[:3].lower() == "<tr"
