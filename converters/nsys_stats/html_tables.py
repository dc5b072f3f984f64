"""Reads reports as HTML incrementally: each is a table (`--format htable`) or a page (`hdoc`).

<h1>CUDA GPU Kernel Summary (cuda_gpu_kern_sum)</h1>        only a page has it
<table>
  <thead> <tr> <th>Time (%)</th> <th>Total Time (ns)</th> ... </tr> </thead>
  <tbody> <tr> <td>75.0</td> <td>1500000</td> ... <td>f&lt;int&gt;</td> </tr> </tbody>
</table>
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import NamedTuple

from ktrace.converters._shared.text.headings import heading
from ktrace.converters._shared.text.layouts import Delimited
from ktrace.converters._shared.text.line_account import LineAccount
from ktrace.converters._shared.text.tables import REFUSED, Recogniser, Row, Table, Text
from ktrace.converters._shared.text.titles import Title
from ktrace.errors import DamagedInput
from ktrace.input.source import Source, utf8
from ktrace.report import Report

#: Bytes that are read at once, and the most characters of a tag or cell.
_CHUNK = 1 << 16
_LONGEST = 1 << 20

_TITLES = re.compile(r"h[1-6]")
_UNSEEN = frozenset({"title", "style", "script"})
_CELLS = frozenset({"th", "td"})


class _Element(NamedTuple):
    """A part of the page: a `title`, the `headings`, a `row` or the `end` of a table, or a line of `text`."""

    kind: str
    cells: list[str]


class _Parser(HTMLParser):
    """Collects cells, rows and the text around them. End tags may be missing, as HTML allows."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[_Element] = []
        self.depth = 0
        self._row: list[str] | None = None
        self._headings = False
        self._text: list[str] | None = None
        self._unseen = False
        self._outside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.end_line()
        if tag in _CELLS:
            self._close_cell()
            self._row = [] if self._row is None else self._row
            self._headings = tag == "th"
            self._text = []
        elif tag == "tr":
            self._close_row()
            self._row = []
        elif tag == "table":
            self._close_row()
            self.depth = 1
        elif _TITLES.fullmatch(tag):
            self._text = []
        elif tag in _UNSEEN:
            self._unseen = True

    def handle_endtag(self, tag: str) -> None:
        self.end_line()
        if tag in _CELLS:
            self._close_cell()
        elif tag == "tr":
            self._close_row()
        elif tag == "table":
            self._close_row()
            self.depth = 0
            self.elements.append(_Element("end", []))
        elif _TITLES.fullmatch(tag) and self._text is not None:
            self.elements.append(_Element("title", ["".join(self._text).strip()]))
            self._text = None
        elif tag in _UNSEEN:
            self._unseen = False

    def handle_data(self, data: str) -> None:
        if self._text is not None:
            self._text.append(data)
        elif not self._unseen:
            *lines, self._outside = (self._outside + data).split("\n")
            self.elements += [_Element("text", [line]) for line in lines if line.strip()]

    def end_line(self) -> None:
        """Ends the current line of text outside elements."""
        if self._outside.strip():
            self.elements.append(_Element("text", [self._outside]))
        self._outside = ""

    @property
    def is_open(self) -> bool:
        """Whether a row or title is open."""
        return bool(self._row) or self._text is not None

    @property
    def waiting(self) -> int:
        """The number of characters that wait for the end of a tag or a cell."""
        return len(self.rawdata) + len(self._outside) + sum(map(len, self._text or ()))

    def _close_cell(self) -> None:
        if self._row is not None and self._text is not None:
            self._row.append("".join(self._text).strip())
        self._text = None

    def _close_row(self) -> None:
        self._close_cell()
        if self._row:
            self.elements.append(_Element("headings" if self._headings else "row", self._row))
        self._row = None


def first_headings(text: str) -> list[str] | None:
    """Returns the headings of the first table, None if there is none. For probes."""
    begin = text.find("<table")
    if begin < 0:
        return None
    parser = _Parser()
    try:
        parser.feed(text[begin:])
    except AssertionError:  # html.parser raises it for malformed declarations
        return None
    return next((element.cells for element in parser.elements if element.kind == "headings"), None)


def html_tables(
    source: Source, account: LineAccount, report: Report, columns_of: Recogniser
) -> Iterator[Table | Row | Text]:
    """Yields the tables, their rows, and the lines outside. Each row, title and outside line is a record."""
    number, tables = 0, 0
    table: Table | None = None
    path: tuple[Title, ...] = ()
    for kind, cells in _elements(source, report):
        if kind == "end":
            table, path = None, ()
            continue
        number += 1
        account.begin(number)
        report.record()
        if kind == "title":
            path = (Title(7, cells[0], number),)
            account.structure()
        elif kind == "text":
            yield Text(number, cells[0], path)
        elif kind == "headings":
            headings = tuple(map(heading, cells))
            fields = columns_of(headings, ())
            table = Table(tables, number, path, Delimited("commas"), headings, fields)
            tables += 1
            if fields is None:
                account.skip("unrecognised", REFUSED)
            else:
                account.structure()
                yield table
        elif table is None or table.fields is None:
            account.skip("unrecognised", REFUSED)
        elif len(cells) != len(table.headings):
            account.skip("bad-record", f"{len(cells)} cells below {len(table.headings)} headings")
        else:
            yield Row(table, number, cells)
    account.finish()


def _elements(source: Source, report: Report) -> Iterator[_Element]:
    parser = _Parser()
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    with source.open() as stream:
        text = utf8(stream)
        while raw := text.read(_CHUNK):
            more = decoder.decode(raw)
            if "\ufffd" in more and "\ufffd".encode() not in raw:
                report.issue("encoding", "a cell of the HTML")
            parser.feed(more)
            if parser.waiting > _LONGEST:
                raise DamagedInput(
                    "an element of the HTML doesn't end",
                    path=source.path,
                    expected=f"cells and tags of at most {_LONGEST:,} characters",
                    remedy="write the report again: nsys stats --format csv",
                )
            yield from parser.elements
            parser.elements.clear()
    if parser.is_open or parser.rawdata.strip():
        report.record()
        report.issue("cut", "the end", "the last row breaks off")
    elif parser.depth:
        report.issue("cut", "the end", "the table isn't closed", 0)
    parser.end_line()
    yield from parser.elements
