"""Parses whole lines of a CSV table to columns of text: with Arrow, or line by line if lines can't be numbered so.

1,"f(int, int)",7                a row, with one cell for each heading
2,"a name\\nof two lines",8       a row of two lines
==12== Warning: something        not a row
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from ktrace.kit.text.headings import Dialect
from ktrace.model.arrays import Int64

from .dictionaries import is_utf8

#: Lines that a row may extend over.
LONGEST_ROW = 64

#: A quote between two characters of a cell, neither of them a quote: it isn't doubled.
_INNER_QUOTE = re.compile(rb'"(?<=[^,\t;\n\r"]")[^,\t;\n\r"]')
_INNER_QUOTE_OF = re.compile(_INNER_QUOTE.pattern.decode())

#: Cells of a row that may contain separators and undoubled quotes; pairs of quotes that are tried for them.
_MOST_QUOTED, _MOST_SPANS = 3, 64

_DIGIT_FIRST = np.zeros(256, np.bool_)
_DIGIT_FIRST[list(b"0123456789+-.")] = True


class ParsedLines(NamedTuple):
    """The rows in some lines: the number of the first line of each, its number of lines, its cells by column.

    `others` are the lines that aren't rows, with their numbers; `bad` those that aren't UTF-8. `left` is the number of
    lines at the end that begin a row which continues after them.
    """

    numbers: Int64
    spans: Int64
    columns: list[pa.StringArray]
    others: list[tuple[int, str]]
    bad: Sequence[int] = ()
    left: int = 0

    def rows(self, first: int, end: int) -> ParsedLines:
        """Only the rows from `first` to `end`."""
        columns = [column.slice(first, end - first) for column in self.columns]
        return ParsedLines(self.numbers[first:end], self.spans[first:end], columns, [])


def line_count(text: bytes) -> int:
    """The number of lines; the last one may lack its line end."""
    return text.count(b"\n") + (not text.endswith(b"\n") and text != b"")


def parse_fast(text: bytes, lines: int, first: int, width: int, dialect: Dialect) -> ParsedLines | None:
    """Parses the rows with Arrow; returns None if Arrow refuses them, or the lines can't be numbered.

    `lines` is the number of lines, `first` the number of the first. A blank one is among the others, as ''.
    """
    if (dialect.spaced and b' "' in text) or not is_utf8(text):
        return None
    if dialect.bare and _INNER_QUOTE.search(text):
        return None
    if not text.endswith(b"\n") and text.count(b'"') % 2:
        return None  # Arrow accepts a quote that is open at the end
    invalid: list[tuple[int, str]] = []

    def keep(row: arrow_csv.InvalidRow) -> str:
        invalid.append((row.number - 1, row.text))
        return "skip"

    names = [str(index) for index in range(width)]
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(text),
            arrow_csv.ReadOptions(column_names=names, use_threads=False, block_size=len(text) + 1),
            arrow_csv.ParseOptions(
                delimiter=dialect.separator,
                newlines_in_values=True,
                ignore_empty_lines=False,
                invalid_row_handler=keep,
            ),
            arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False, check_utf8=False
            ),
        )
    except pa.ArrowInvalid:
        return None
    if dialect.bare and any('"' in row for _, row in invalid):
        return None
    columns = [column.combine_chunks() for column in table.columns]
    if any(len(column) and column[-1].as_py().endswith("\n") for column in columns):
        return None  # the quote is open at the end
    if dialect.spaced:
        columns = [pc.utf8_ltrim_whitespace(column) for column in columns]
    return _numbered(columns, invalid, lines, first)


def _numbered(
    columns: list[pa.StringArray], invalid: list[tuple[int, str]], lines: int, first: int
) -> ParsedLines | None:
    """The rows with their line numbers; None if rows and lines don't add up."""
    count = len(columns[0])
    total = count + len(invalid)
    if any("\n" in row or (index == total - 1 and '"' in row) for index, row in invalid):
        return None  # an open quote took in further lines
    spans = np.ones(total, np.int64)
    kept = np.ones(total, np.bool_)
    kept[[index for index, _ in invalid]] = False
    if total != lines:
        ends = np.zeros(count, np.int64)
        for column in columns:
            ends += pc.count_substring(column, "\n").to_numpy(zero_copy_only=False)
        spans[kept] += ends
        if int(spans.sum()) != lines:
            return None
    starts = np.cumsum(spans) - spans + first
    return _without_blank(
        ParsedLines(starts[kept], spans[kept], columns, [(int(starts[index]), row) for index, row in invalid])
    )


def _without_blank(part: ParsedLines) -> ParsedLines:
    """Moves empty rows to the others: they are blank lines, which Arrow reads as rows."""
    blank = np.ones(len(part.numbers), np.bool_)
    for column in part.columns:
        blank &= lengths(column) == 0
        if not blank.any():
            return part
    keep = pa.array(~blank)
    others = sorted([*part.others, *((number, "") for number in part.numbers[blank].tolist())])
    return ParsedLines(
        part.numbers[~blank], part.spans[~blank], [column.filter(keep) for column in part.columns], others
    )


def parse_lines(text: bytes, first: int, width: int, dialect: Dialect, last: bool) -> ParsedLines:
    """Parses any rows, line by line. `last`: no more lines follow."""
    lines, bad = [], []
    for number, raw in enumerate(text.removesuffix(b"\n").split(b"\n"), first):
        line = raw.decode("utf-8", "replace")
        if "\ufffd" in line and "\ufffd".encode() not in raw:
            bad.append(number)
        lines.append(line)
    rows: list[list[str]] = []
    places: list[tuple[int, int]] = []
    others: list[tuple[int, str]] = []
    index = 0
    while index < len(lines):
        cells, span = _row_at(lines, index, width, dialect)
        if span == 0 and not last:
            break
        span = span or 1
        if cells is None:
            others.append((first + index, lines[index].removesuffix("\r")))
        else:
            rows.append(cells)
            places.append((first + index, span))
        index += span
    columns = [pa.array([row[index] for row in rows], pa.string()) for index in range(width)]
    spans = np.array(places, np.int64).reshape(-1, 2)
    left = len(lines) - index
    bad = [number for number in bad if number < first + index]
    return ParsedLines(spans[:, 0], spans[:, 1], columns, others, bad, left)


def _row_at(lines: list[str], index: int, width: int, dialect: Dialect) -> tuple[list[str] | None, int]:
    """The cells of the row that begins on a line (None if it isn't a row), and its number of lines.

    0 lines if the row is still open after the last one.
    """
    if dialect.bare and _INNER_QUOTE_OF.search(lines[index]) and (bare := bare_cells(lines[index], width, dialect)):
        return bare, 1
    cells = dialect.cells(lines[index])
    if cells is not None and len(cells) != width and dialect.bare:
        cells = bare_cells(lines[index], width, dialect) or cells
    if cells is not None:
        return (cells if len(cells) == width else None), 1
    whole = lines[index]
    for span, line in enumerate(lines[index + 1 : index + LONGEST_ROW], 2):
        whole += "\n" + line
        if '"' in line and (cells := dialect.cells(whole)) is not None:
            return (cells, span) if len(cells) == width else (None, 1)
    return None, 0 if len(lines) - index < LONGEST_ROW else 1


def bare_cells(line: str, width: int, dialect: Dialect) -> list[str] | None:
    """Splits a line in which cells with separators are quoted, but quotes inside a cell aren't doubled.

    Returns None unless there is exactly one way to get one cell for each heading.
    """
    pieces = line.removesuffix("\r").split(dialect.separator)
    surplus = len(pieces) - width
    if surplus <= 0:
        return None if surplus else pieces
    begins = [index for index, piece in enumerate(pieces) if piece.startswith('"')]
    spans = [
        (begin, end)
        for begin in begins
        for end in range(begin + 1, min(begin + surplus, len(pieces) - 1) + 1)
        if pieces[end].endswith('"')
    ]
    if len(spans) > _MOST_SPANS:
        return None
    ways = [
        way
        for count in range(1, _MOST_QUOTED + 1)
        for way in combinations(spans, count)
        if sum(end - begin for begin, end in way) == surplus
        and all(left[1] < right[0] for left, right in pairwise(way))
    ]
    if len(ways) != 1:
        return None
    for begin, end in reversed(ways[0]):
        pieces[begin : end + 1] = [dialect.separator.join(pieces[begin : end + 1])[1:-1]]
    return pieces


def lengths(column: pa.StringArray) -> Int64:
    """The number of bytes of each cell."""
    sizes: Int64 = pc.binary_length(column).to_numpy(zero_copy_only=False)
    return sizes


def wordy_rows(columns: Sequence[pa.StringArray]) -> Int64:
    """The rows without an empty cell and without one that begins like a number: they may be headings."""
    rows = np.arange(len(columns[0]))
    for column in reversed(columns):
        _, starts, data = column.buffers()
        if data is None or not len(rows):
            return rows[:0]
        offsets = np.frombuffer(starts, np.int32)[column.offset : column.offset + len(column) + 1]
        begin = offsets[rows]
        full = offsets[rows + 1] > begin
        rows, begin = rows[full], begin[full]
        rows = rows[~_DIGIT_FIRST[np.frombuffer(data, np.uint8)[begin]]]
    return rows
