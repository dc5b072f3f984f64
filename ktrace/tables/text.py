"""Tables as lines of text: plain when piped, else as wide as the terminal.

by operation
operation      time  share
gemm       1.200 ms  61.5%
norm     751.000 us  38.5%
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from unicodedata import combining, east_asian_width

from ktrace.tables.figures import harmless, shortened, shortened_apart, shown
from ktrace.tables.table import Cell, Column, Table

#: The space between columns.
_GAP = "  "
#: The narrowest that a column of text becomes on a terminal, and the widest where there is no terminal.
_NARROW, _WIDE = 16, 100

_BOLD, _DIM, _RED, _GREEN, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[0m"


def as_text(tables: Iterable[Table], *, width: int | None = None, colour: bool = False) -> str:
    """Returns the tables, with an empty line between them.

    `width` is the width of the terminal: names are shortened to it, and columns without room follow below the others.
    Piped, names have at most 100 characters. `colour` makes headings bold, increases red and decreases green.
    """
    return "\n".join(_table(table, width, colour) for table in tables)


def _table(table: Table, width: int | None, colour: bool) -> str:
    if table.sentences:
        return "".join(f"{line}\n" for row in table.rows for line in _wrapped(harmless(str(row[0])), width))
    rows = [[shown(cell, column) for cell, column in zip(row, table.columns, strict=True)] for row in table.rows]
    heads = [column.name for column in table.columns]
    natural = [max(map(_cells, column)) for column in zip(heads, *rows, strict=True)]
    widths = _column_widths(table.columns, natural, width)
    columns = (shortened_apart(cells, wide, _cut) for cells, wide in zip(zip(*rows, strict=True), widths, strict=False))
    rows = [list(row) for row in zip(*columns, strict=True)]
    lines = [_styled(harmless(table.title), _BOLD, colour)] if table.title else []
    for places in _blocks(widths, width, [place for place, column in enumerate(table.columns) if column.decides]):
        lines.append(_styled(_line(heads, [""] * len(heads), table.columns, widths, places), _DIM, colour))
        for row, cells in zip(table.rows, rows, strict=True):
            styles = _styles(row, table.columns) if colour else [""] * len(row)
            lines.append(_line(cells, styles, table.columns, widths, places))
    if table.more:
        lines.append(_styled(f"... and {table.more:,} more", _DIM, colour))
    lines += map(harmless, table.notes)
    return "".join(f"{line}\n" for line in lines)


def _wrapped(sentence: str, width: int | None) -> list[str]:
    """The sentence in lines that a terminal has room for."""
    from textwrap import wrap

    return [sentence] if width is None else wrap(sentence, max(width, _NARROW), break_on_hyphens=False)


def _line(
    cells: Sequence[str], styles: Sequence[str], columns: Sequence[Column], widths: Sequence[int], places: Iterable[int]
) -> str:
    """The cells of a row at `places`: text is aligned left, figures right."""
    parts = []
    for place in places:
        text = _cut(cells[place], widths[place])
        space = " " * (widths[place] - _cells(text))
        written = _styled(text, styles[place], bool(styles[place]))
        parts.append(space + written if columns[place].unit else written + space)
    return _GAP.join(parts).rstrip()


def _column_widths(columns: Sequence[Column], natural: Sequence[int], width: int | None) -> list[int]:
    """The widths of the columns; columns of text are narrowed until a row has room, where that is possible."""
    texts = [place for place, column in enumerate(columns) if not column.unit]
    if width is None:
        return [min(wide, _WIDE) if place in texts else wide for place, wide in enumerate(natural)]
    widths = list(natural)
    while _length(widths) > width and any(widths[place] > _NARROW for place in texts):
        widths[max(texts, key=lambda place: widths[place])] -= 1
    if _length(widths) <= width:
        return widths
    return [min(wide, max(width // 3, _NARROW)) if place in texts else wide for place, wide in enumerate(natural)]


def _blocks(widths: Sequence[int], width: int | None, deciding: Sequence[int] = ()) -> list[list[int]]:
    """The places of the columns that are next to each other. Each block begins with the first column; where there are
    several blocks, those that are `deciding` follow it in the first."""
    blocks = [[0]] if widths else []
    order = list(range(1, len(widths)))
    if width is not None and _length(widths) > width:
        order.sort(key=lambda place: place not in deciding)
    for place in order:
        if width is not None and len(blocks[-1]) > 1 and _length([widths[at] for at in [*blocks[-1], place]]) > width:
            blocks.append([0])
        blocks[-1].append(place)
    return blocks


def _length(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _cells(text: str) -> int:
    """The width of a text on a terminal; Chinese characters, for one, take two cells."""
    if text.isascii():
        return len(text)
    try:
        from rich.cells import cell_len
    except ImportError:
        return sum(0 if combining(letter) else 2 if east_asian_width(letter) in "WF" else 1 for letter in text)
    return cell_len(text)


def _cut(text: str, width: int) -> str:
    """The text shortened to that many cells of a terminal."""
    characters = width
    cut = text
    while _cells(cut) > width:
        cut = shortened(text, characters)
        characters -= 1
    return cut


def _styles(row: Sequence[Cell], columns: Sequence[Column]) -> list[str]:
    """The style of each cell: dim in a row that matters less, else the colours of changes."""
    if any(column.decides and cell == column.decides for cell, column in zip(row, columns, strict=True)):
        return [_DIM] * len(row)
    return [_sign(cell, column) for cell, column in zip(row, columns, strict=True)]


def _sign(cell: Cell, column: Column) -> str:
    """The colour of a change: red for an increase, green for a decrease."""
    if not column.signed or not isinstance(cell, (int, float)) or cell == 0:
        return ""
    return _RED if cell > 0 else _GREEN


def _styled(text: str, style: str, colour: bool) -> str:
    return f"{style}{text}{_PLAIN}" if colour and style else text
