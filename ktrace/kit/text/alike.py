"""Lines of one form as a table: what differs are cells, and the words before these, which all lines have, headings.

fill    CPU  0.05 ms  GPU  0.03 ms  of 128 B        name   CPU      GPU      of
copy    CPU  4.50 ms  GPU  4.85 ms  of 512 B        fill   0.05 ms  0.03 ms  128 B

Each line has several times, and each time has a word of its own that all lines have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from .headings import TIME_WORDS, Heading, figure, heading
from .layouts import LONGEST_HEADER
from .measured import go_up, is_measured
from .numbers import nanoseconds

#: Lines of one form, at least and at most; times in each.
_FEWEST, _MOST, _MOST_TIMES = 3, 64, 8

_TIME = re.compile(rf"(?<![\w.])~?\d[\d.,]{{0,30}} ?(?:{TIME_WORDS})(?![\w/])", re.IGNORECASE)
_WORD = re.compile(r"(?<![\w.-])[A-Za-z][\w./%-]{0,60}(?![\w(<])")
_PLACE = re.compile(r"^\W{0,4}[\[(]\s?\d{1,6}\s?/\s?\d{1,6}\s?[\])]\s+")
_NO_CELL = " \t,;:=|.…-→>*"
#: The heading of times since the start.
STAMP = "elapsed at"
_TEXT = re.compile(r"[^\W\d]|[<@%~/]\w")


@dataclass(frozen=True)
class Alike:
    """The cells of lines of one form: for each part of a line before, between and behind its times, the words of it."""

    words: tuple[tuple[str, ...], ...]
    kept: tuple[bool, ...]
    name: str = "alike"
    joint: str = " "
    explicit: bool = True

    def split(self, text: str) -> list[str] | None:
        """The cells of a line, None for a line of another form."""
        cells = self.cells(text)
        return None if cells is None else [cell for cell, kept in zip(cells, self.kept, strict=True) if kept]

    def cells(self, text: str) -> list[str] | None:
        """All cells of a line, also those that are blank in all lines."""
        parts = _parts(text)
        if parts is None or len(parts.others) != len(self.words):
            return None
        cells: list[str] = []
        for number, (part, words) in enumerate(zip(parts.others, self.words, strict=True)):
            between = _between(part, words)
            if between is None:
                return None
            cells += map(_cell, between)
            cells += parts.times[number : number + 1]
        return cells


@dataclass(frozen=True)
class _Parts:
    """The times of a line, and what stands before, between and behind them."""

    times: list[str]
    others: list[str]


def _parts(text: str) -> _Parts | None:
    """The parts of a line with several times, None for another one."""
    if len(text) > LONGEST_HEADER:
        return None
    bare = _PLACE.sub("", text.strip().strip("*_ "))
    times = list(_TIME.finditer(bare))
    if not 1 < len(times) <= _MOST_TIMES:
        return None
    ends = [0, *(one.end() for one in times)]
    starts = [*(one.start() for one in times), len(bare)]
    return _Parts([one[0].lstrip("~") for one in times], [bare[a:b] for a, b in zip(ends, starts, strict=True)])


def _between(part: str, words: Sequence[str]) -> list[str] | None:
    """What is before, between and behind words that stand in a text in that order; None if one doesn't."""
    cells, at = [], 0
    for word in words:
        match = next((one for one in _WORD.finditer(part, at) if one[0] == word), None)
        if match is None:
            return None
        cells.append(part[at : match.start()])
        at = match.end()
    return [*cells, part[at:]]


def _cell(text: str) -> str:
    """A text without the signs around it, and brackets of which it has the other half elsewhere."""
    text = text.strip(_NO_CELL)
    for opened, closed in ("()", "[]"):
        if text.count(opened) != text.count(closed):
            text = text.strip(opened + closed + _NO_CELL)
    return text[1:-1] if text[:1] in ("(", "[") and text[1:-1].isalnum() else text


def _common(parts: Sequence[str]) -> tuple[str, ...]:
    """The words that occur once in each text, in the same order; fewer where their orders differ."""
    words_of_parts = [[one[0] for one in _WORD.finditer(part)] for part in parts]
    shared = [word for word in words_of_parts[0] if all(words.count(word) == 1 for words in words_of_parts)]
    orders = {tuple(word for word in words if word in shared) for words in words_of_parts}
    return tuple(shared) if len(orders) == 1 else ()


def alike_table(
    text: str, peek: Callable[[int], str | None]
) -> tuple[Alike, tuple[Heading, ...], list[list[str]]] | None:
    """The layout, the headings and the rows of lines of one form, of which a line is the first; None without such."""
    first = _parts(text)
    if first is None or not is_measured(text):
        return None
    lines, parts = [text], [first]
    while len(lines) < _MOST and (line := peek(len(lines))) is not None:
        more = _parts(line)
        if more is None or len(more.times) != len(first.times):
            break
        lines.append(line)
        parts.append(more)
    if len(lines) < _FEWEST:
        return None
    words = tuple(_common([part.others[place] for part in parts]) for place in range(len(first.others)))
    layout = Alike(words, ())
    rows = [layout.cells(line) for line in lines]
    cells = [row for row in rows if row is not None]
    kept = tuple(any(column) for column in zip(*cells, strict=True))
    texts = list(_headings(layout, cells))
    if len(cells) < len(rows) or "" in (texts[index] for index in _places(layout)):
        return None
    are_texts = [all(map(_TEXT.match, column)) for column in zip(*cells, strict=True)]
    name = max((place for place, it in enumerate(are_texts) if it), key=lambda at: (not texts[at], -at), default=-1)
    texts = ["name" if place == name else text or f"text {place}" for place, text in enumerate(texts)]
    heads = [heading(text) for text, is_kept in zip(texts, kept, strict=True) if is_kept]
    named = [head.key for head in heads]
    if len(set(named)) < len(named):
        return None
    table = [[cell for cell, is_kept in zip(row, kept, strict=True) if is_kept] for row in cells]
    return Alike(words, kept), tuple(heads), table


def _places(layout: Alike) -> Iterator[int]:
    """The columns of the times."""
    at = 0
    for words in layout.words[:-1]:
        at += len(words) + 1
        yield at
        at += 1


def _headings(layout: Alike, rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The heading of each cell: the word before it, or behind it; '' for the name, and for a time without a word."""
    blank = [not any(column) for column in zip(*rows, strict=True)]
    times = list(_places(layout))
    before = [layout.words[part][-1:] if blank[at - 1] else () for part, at in enumerate(times)]
    behind = [layout.words[part + 1][:1] if blank[at + 1] else () for part, at in enumerate(times)]
    said = before if all(before) else behind
    column = 0
    for part, words in enumerate(layout.words):
        free = [*words]  # words that are no headings yet
        for place in range(len(words) + 1):
            ahead, after = words[place - 1 : place] if place else (), words[place : place + 1]
            are_numbers = after and not blank[column] and all(figure(row[column]) for row in rows)
            is_of_time = part < len(times) and after == said[part]
            word = ahead[0] if ahead and ahead[0] in free else after[0] if are_numbers and not is_of_time else ""
            free.remove(word) if word else None
            yield word
            column += 1
        if part < len(times):
            is_stamp = part == 0 and go_up([_ns(row[column]) for row in rows])
            yield STAMP if is_stamp else "".join(said[part])
            column += 1


def _ns(text: str) -> Decimal:
    read = figure(text)
    time = nanoseconds(read.number, read.unit) if read else None
    return time if time is not None else Decimal(0)
