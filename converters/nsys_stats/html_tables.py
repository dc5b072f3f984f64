"""Reports as HTML, taken as they come: a table (`--format htable`) or a page (`hdoc`) a report.

<h1>CUDA GPU Kernel Summary (cuda_gpu_kern_sum)</h1>        a page alone has it
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

from ktrace.converters._shared.canonical.record_lines import utf8
from ktrace.converters._shared.text.headings import heading
from ktrace.converters._shared.text.layouts import Delimited
from ktrace.converters._shared.text.line_account import LineAccount
from ktrace.converters._shared.text.tables import REFUSED, Recogniser, Row, Table, Text
from ktrace.converters._shared.text.titles import Title
from ktrace.errors import DamagedInput
from ktrace.input.source import Source
from ktrace.report import Report

#: Bytes that are read at once, and characters that a tag or a cell takes at most.
_CHUNK = 1 << 16
_LONGEST = 1 << 20

_TITLES = re.compile(r"h[1-6]")
_UNSEEN = frozenset({"title", "style", "script"})
_CELLS = frozenset({"th", "td"})


class _Found(NamedTuple):
    """What the parser met: a `title`, the `headings` or a `row` of a table, a line of `text`, or its `end`."""

    what: str
    cells: list[str]


class _Parser(HTMLParser):
    """Cells, rows and the text around them. Elements may lack their ends, as in HTML they may."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[_Found] = []
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
            self.found.append(_Found("end", []))
        elif _TITLES.fullmatch(tag) and self._text is not None:
            self.found.append(_Found("title", ["".join(self._text).strip()]))
            self._text = None
        elif tag in _UNSEEN:
            self._unseen = False

    def handle_data(self, data: str) -> None:
        if self._text is not None:
            self._text.append(data)
        elif not self._unseen:
            *lines, self._outside = (self._outside + data).split("\n")
            self.found += [_Found("text", [line]) for line in lines if line.strip()]

    def end_line(self) -> None:
        """The line outside of elements that was begun is whole."""
        if self._outside.strip():
            self.found.append(_Found("text", [self._outside]))
        self._outside = ""

    @property
    def half(self) -> bool:
        """Whether a row is open."""
        return bool(self._row) or self._text is not None

    @property
    def waiting(self) -> int:
        """Characters that are held until a tag or a cell is whole."""
        return len(self.rawdata) + len(self._outside) + sum(map(len, self._text or ()))

    def _close_cell(self) -> None:
        if self._row is not None and self._text is not None:
            self._row.append("".join(self._text).strip())
        self._text = None

    def _close_row(self) -> None:
        self._close_cell()
        if self._row:
            self.found.append(_Found("headings" if self._headings else "row", self._row))
        self._row = None


def first_headings(text: str) -> list[str] | None:
    """The headings of the first table, for probes; None where there is none."""
    begin = text.find("<table")
    if begin < 0:
        return None
    parser = _Parser()
    try:
        parser.feed(text[begin:])
    except AssertionError:  # of html.parser, for declarations that are none
        return None
    return next((found.cells for found in parser.found if found.what == "headings"), None)


def html_tables(source: Source, account: LineAccount, report: Report, fits: Recogniser) -> Iterator[Table | Row | Text]:
    """The reports, their rows, and the lines outside of them. Each row is counted, and each title and line outside."""
    number, tables = 0, 0
    table: Table | None = None
    path: tuple[Title, ...] = ()
    for what, cells in _elements(source, report):
        if what == "end":
            table, path = None, ()
            continue
        number += 1
        account.begin(number)
        report.record()
        if what == "title":
            path = (Title(7, cells[0], number),)
            account.structure()
        elif what == "text":
            yield Text(number, cells[0], path)
        elif what == "headings":
            headings = tuple(map(heading, cells))
            fields = fits(headings, ())
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


def _elements(source: Source, report: Report) -> Iterator[_Found]:
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
                    remedy="write the report once more: nsys stats --format csv",
                )
            yield from parser.found
            parser.found.clear()
    if parser.half or parser.rawdata.strip():
        report.record()
        report.issue("cut", "the end", "the last row breaks off")
    elif parser.depth:
        report.issue("cut", "the end", "the table has no end", 0)
    parser.end_line()
    yield from parser.found
