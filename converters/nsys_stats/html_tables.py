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
from dataclasses import dataclass
from html.parser import HTMLParser

from ktrace.errors import DamagedInput
from ktrace.input.compression import mark_size, utf8
from ktrace.input.source import Source
from ktrace.kit.text.headings import heading
from ktrace.kit.text.layouts import Delimited
from ktrace.kit.text.lines import LineAccount
from ktrace.kit.text.tables import REFUSED, Recogniser, Row, Table, Text
from ktrace.kit.text.titles import Title
from ktrace.report import Report

#: Bytes that are read at once, and the most characters of a tag or cell.
_CHUNK = 1 << 16
_LONGEST = 1 << 20

_TITLES = re.compile(r"h[1-6]")
_UNSEEN = frozenset({"title", "style", "script"})
_CELLS = frozenset({"th", "td"})


@dataclass
class _Element:
    """A part of the page: a `title`, the `headings`, a `row` or the `end` of a table, a line of `text`; or a `cut`.

    `size` counts its bytes, with the markup before it.
    """

    kind: str
    cells: list[str]
    size: int = 0


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
        self._sized = 0  # elements whose size is known
        self.loose = 0  # bytes that no element has

    def updatepos(self, i: int, j: int) -> int:
        """Gives the bytes of a token, which has been handled, to the elements that it ended.

        html.parser calls it once for each piece of the text, in their order.
        """
        self.loose += len(self.rawdata[i:j].encode())
        ended = self.elements[self._sized :]
        for element in ended[:-1]:  # lines of one text
            element.size = min(self.loose, len("".join(element.cells).encode()) + 1)
            self.loose -= element.size
        if ended:
            ended[-1].size, self.loose = self.loose, 0
        self._sized = len(self.elements)
        return super().updatepos(i, j)

    def taken(self) -> list[_Element]:
        """Returns the elements so far, and forgets them."""
        found, self.elements, self._sized = self.elements, [], 0
        return found

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
    for element in _elements(source, account, report):
        kind, cells = element.kind, element.cells
        if kind == "end":
            table, path = None, ()
            account.pass_over("structure", element.size)
            continue
        number += 1
        account.begin(number, element.size)
        report.record()
        if kind == "cut":
            account.skip("cut", "the last row breaks off")
        elif kind == "title":
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


def _elements(source: Source, account: LineAccount, report: Report) -> Iterator[_Element]:
    parser = _Parser()
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    surplus = 0  # of bytes that aren't UTF-8, as U+FFFD
    with source.open() as stream:
        account.pass_over("structure", mark_size(stream))
        text = utf8(stream)
        while raw := text.read(_CHUNK):
            more = decoder.decode(raw)
            surplus += len(more.encode()) - len(raw)
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
            yield from parser.taken()
    parser.end_line()
    rest = parser.loose + len(parser.rawdata.encode())
    for element in parser.taken():
        element.size = min(rest, len(element.cells[0].encode()))
        rest -= element.size
        yield element
    if parser.is_open or parser.rawdata.strip():
        yield _Element("cut", [], rest)
    else:
        account.pass_over("structure", rest)
        if parser.depth:
            report.issue("cut", "the end", "the table isn't closed", 0)
    account.finish()
    report.bytes.take_back(surplus)
