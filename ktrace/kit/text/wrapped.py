"""Rows of a printed table that take several lines, since a cell was too long for its column.

    │ gemm(float*,   │  10 │ 50.0 │      broken at a blank
    │ int)           │     │      │
    | step_a_kernel( |  10 | 30.0 |      cut within a word: it fills its column
    | float*)        |     |      |

A line continues the row above it if it has no figures, and if its first word did not fit above. Between two rules all
lines are one row, if one of them has figures.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from .headings import figure, is_total
from .layouts import SIDES, Dashes, Delimited, Edges, Layout, Pipes, Spaces, Words, begins_with_edge, is_rule

#: Gives the text of the line that many lines after the current one; None past the end.
Peek = Callable[[int], "str | None"]

#: Lines that a row may extend over.
_MOST_LINES = 64

#: The fewest characters of a text that was cut.
_LEAST_CUT = 16

#: An empty cell between two sides.
_EMPTY_CELL = re.compile(rf"[|{SIDES}]\s*[|{SIDES}]")
_FIRST_WORD = re.compile(r"\S+")


def whole_row(layout: Layout, text: str, peek: Peek, *, after_rule: bool = False) -> tuple[list[str] | None, int]:
    """Returns the pieces of the row that begins in a line, and how many lines below it belong to it.

    The pieces are None if the line can't be a row. `after_rule`: the line above is a rule.
    """
    pieces = layout.split(text)
    if pieces is None or isinstance(layout, (Delimited, Words)) or any(map(is_total, pieces)):
        return pieces, 0
    if not after_rule and not _may_continue(layout, len(pieces), peek(1)):
        return pieces, 0
    has_figures = [any(map(figure, pieces))]
    if not has_figures[0] and not after_rule:
        return pieces, 0
    below: list[list[str]] = []
    ruled = False
    while len(below) < _MOST_LINES and sum(has_figures) < 2:
        more = peek(len(below) + 1)
        if more is None or not more.strip():
            break
        if is_rule(more):
            ruled = after_rule
            break
        rest = _rest(layout, more)
        if rest is None or len(rest) != len(pieces):
            break
        below.append(rest)
        has_figures.append(any(map(figure, rest)))
    if not below:
        return pieces, 0
    if not (ruled and sum(has_figures) == 1):
        count = 0
        for above, line in zip((pieces, *below), below, strict=False):
            if not _continues(layout, pieces, above, line):
                break
            count += 1
        below = below[:count]
    elif not has_figures[0] and not all(
        _did_not_fit(layout, above, line) for above, line in zip((pieces, *below), below, strict=False)
    ):
        return pieces, 0
    return joined(layout, pieces, below), len(below)


def _may_continue(layout: Layout, columns: int, below: str | None) -> bool:
    """Whether the line below a row may belong to it, at first sight: it has empty cells, as a row rarely has."""
    if below is None or (isinstance(layout, Pipes) and layout.outer and not _EMPTY_CELL.search(below)):
        return False
    if not below.strip() or is_rule(below):
        return False
    rest = _rest(layout, below)
    return rest is not None and len(rest) == columns and not all(map(str.strip, rest))


def with_line_ends(layout: Pipes, text: str, peek: Peek, columns: int) -> tuple[str, int]:
    """Returns a row with cells of several lines, and how many lines below its first one it has.

    Its first line lacks cells, and what follows doesn't begin with a side.
    """
    whole, more = text, 0
    while begins_with_edge(text) and more < _MOST_LINES and len(layout.split(whole) or ()) < columns:
        below = peek(more + 1)
        if below is None or not below.strip() or begins_with_edge(below):
            return text, 0
        whole, more = f"{whole}\n{below}", more + 1
    is_row = len(layout.split(whole) or ()) == columns and (not layout.closed or whole.rstrip().endswith("|"))
    return (whole, more) if is_row else (text, 0)


def joined(layout: Layout, pieces: Sequence[str], below: Sequence[Sequence[str]]) -> list[str]:
    """Returns the cells of several lines as one row."""
    cells = [piece.strip() for piece in pieces] if below else list(pieces)
    above = pieces
    for line in below:
        for column, piece in enumerate(line):
            width = _width(layout, column, above[column])
            cells[column] = _join(cells[column], above[column].strip(), piece.strip(), width)
        above = line
    return cells


def _rest(layout: Layout, text: str) -> list[str] | None:
    """The pieces of a line that may be the rest of a row: those of fixed width may have one cell."""
    return layout.place(text) if isinstance(layout, (Dashes, Edges, Spaces)) else layout.split(text)


def _continues(layout: Layout, row: Sequence[str], above: Sequence[str], line: Sequence[str]) -> bool:
    """Whether a line has nothing but the rest of texts in the line above."""
    columns = [column for column, piece in enumerate(line) if piece.strip()]
    figures = [bool(figure(cell)) for cell in row]
    return (
        any(figures)
        and bool(columns)
        and not any(figures[column] or not above[column].strip() for column in columns)
        and _did_not_fit(layout, above, line)
    )


def _did_not_fit(layout: Layout, above: Sequence[str], line: Sequence[str]) -> bool:
    """Whether each cell of a line begins with a word that didn't fit into the cell above it, or closes its brackets."""
    for column, piece in enumerate(line):
        before, text = above[column].strip(), piece.strip()
        if not text or not before:
            continue
        width = _width(layout, column, above[column])
        is_drawn = isinstance(layout, Pipes)
        if not is_drawn and not (is_open(before) or (width is not None and len(before) >= width)):
            return False
        if is_drawn and (width is None or len(before) + 1 + len(_first(text)) <= width):
            return False
    return True


def is_open(text: str) -> bool:
    """Whether a text ends within brackets or after a comma."""
    return text.endswith(",") or any(text.count(a) > text.count(b) for a, b in ("()", "[]", "<>", "{}"))


def _first(text: str) -> str:
    match = _FIRST_WORD.search(text)
    return match.group() if match else ""


def _width(layout: Layout, column: int, piece: str) -> int | None:
    """The characters that fit into a cell; None if the layout doesn't show it."""
    if isinstance(layout, Pipes):
        first = column == 0 and not layout.outer
        last = piece == piece.rstrip() and piece != piece.lstrip()
        return len(piece) - (1 if first or last else 2)
    if isinstance(layout, Dashes):
        begin, end = layout.runs[column]
        return end - begin
    return layout.width if isinstance(layout, Spaces) and column == layout.cut else None


def with_cut(layout: Spaces, column: int, peek: Peek, first: int) -> Spaces:
    """The layout with the width of a column whose texts were cut there; `first` is the line of the first row.

    The rows below show it: a line with nothing but a text below that column follows each text of the greatest length,
    and no shorter one.
    """
    cut: set[int] = set()
    whole: set[int] = set()
    last = 0
    for ahead in range(first, first + _MOST_LINES):
        text = peek(ahead)
        if text is None or not text.strip() or is_rule(text):
            break
        pieces = layout.split(text)
        if pieces and any(map(figure, pieces)):
            whole |= {last} - {0}
            last = len(pieces[column].strip())
        elif last and [at for at, piece in enumerate(layout.place(text)) if piece] == [column]:
            cut.add(last)
            last = 0
    whole |= {last} - {0}
    is_cut = len(cut) == 1 and max(cut) > max(whole, default=0) and max(cut) >= _LEAST_CUT
    return replace(layout, cut=column, width=max(cut)) if is_cut else layout


def _join(cell: str, above: str, piece: str, width: int | None) -> str:
    """Joins a cell with its next line: without a blank if a word was cut there, since it fits no line."""
    if not piece or not cell:
        return cell or piece
    last = above.rsplit(" ", maxsplit=1)[-1] if above else ""
    if above.endswith("…"):
        is_cut = False
    elif width is None:
        is_cut = is_within_a_word(cell, piece)
    else:
        is_cut = len(above) >= width and not above.endswith(",") and len(last) + len(_first(piece)) > width
        is_cut = is_cut or (len(above) >= width and is_within_a_word(cell, piece) and "(" not in piece[:1])
    return cell + piece if is_cut else f"{cell} {piece}"


def is_within_a_word(before: str, after: str) -> bool:
    """Whether two texts are rather parts of one word: letters at both sides, or a bracket that opens or closes."""
    return after[0] in ",;)>]*&:" or before[-1] in "([<" or (_is_letter(before[-1]) and _is_letter(after[0]))


def _is_letter(char: str) -> bool:
    return char.isalnum() or char == "_"
