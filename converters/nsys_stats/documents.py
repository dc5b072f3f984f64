"""Reads reports as JSON and as HTML incrementally.

JSON is an array of objects for each report, with nsys' messages between them:

    Processing [run.sqlite] with [.../cuda_gpu_kern_sum.py]...
    [
      {
        "Time (%)": 75.0,
        "Total Time (ns)": 1500000,
        "Name": "say \"hi\""            nsys doesn't escape a line end in a name
      }
    ]

HTML is a table for each report (`--format htable`), or a page (`hdoc`):

    <h1>CUDA GPU Kernel Summary (cuda_gpu_kern_sum)</h1>        only a page has it
    <table>
      <thead> <tr> <th>Time (%)</th> <th>Total Time (ns)</th> ... </tr> </thead>
      <tbody> <tr> <td>75.0</td> <td>1500000</td> ... <td>f&lt;int&gt;</td> </tr> </tbody>
    </table>
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

from ktrace.errors import DamagedInput
from ktrace.input.compression import mark_size, utf8
from ktrace.input.source import Source
from ktrace.kit.text.headings import heading
from ktrace.kit.text.json_items import CHUNK, TextWindow
from ktrace.kit.text.layouts import Delimited
from ktrace.kit.text.lines import LineAccount
from ktrace.kit.text.tables import REFUSED, Below, Recogniser, Row, Table, Text
from ktrace.kit.text.titles import Title
from ktrace.kit.trace_json.salvage import shallow
from ktrace.model.json_text import deeper_stack, refuse_deep
from ktrace.report import Report

#: The most characters of an object.
_LONGEST = 1 << 20

_LIST = re.compile(r"\[\s*(?:[{\]]|$)")
_FIRST = re.compile(r"^\[\s*(?=\{)", re.MULTILINE)
_END = re.compile(r"\n[ \t\r]*\},?[ \t\r]*\n")


def _as_written(pairs: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return pairs


_DECODER = json.JSONDecoder(
    strict=False, object_pairs_hook=_as_written, parse_int=str, parse_float=str, parse_constant=str
)


def json_headings(text: str) -> list[str] | None:
    """Returns the keys of the first object of an array, None if there is no array of objects. For probes."""
    if match := _FIRST.search(text):
        try:
            pairs, _ = _DECODER.raw_decode(text, match.end())
        except RecursionError:
            flat, *_ = shallow(text[match.end() :].encode())
            try:
                pairs, _ = _DECODER.raw_decode(flat.decode())
            except (ValueError, RecursionError):
                return None
        except ValueError:
            return None
        return [key for key, _ in pairs]
    return None


def json_tables(
    source: Source, account: LineAccount, report: Report, columns_of: Recogniser
) -> Iterator[Table | Row | Text]:
    """Yields the tables, their rows, and the lines outside. Each object and outside line is a record.

    Skips an object that isn't JSON, and one that breaks off at the end.
    """
    with source.open() as stream:
        mark = mark_size(stream)
        text, listed, table, tables, number = _TextStream(utf8(stream), report, mark), False, None, 0, 0
        while text.next():
            if not listed and text.starts_with(_LIST):
                listed, table = True, None
                text.at += 1
                text.own("structure")
                continue
            if listed and text.text[text.at] == "]":
                listed = False
                text.at += 1
                text.own("structure")
                continue
            number += 1
            account.begin(number)
            report.record()
            if not listed or text.text[text.at] != "{":
                listed = False
                yield Text(number, text.line(), ())
                text.own(account.owner)
            elif (pairs := text.object()) is None:
                text.own("skipped")
                account.skip("cut" if text.ended else "bad-record", "" if text.ended else "not a JSON object")
            else:
                text.own("read")
                keys = [key for key, _ in pairs]
                if table is None or keys != [head.text for head in table.headings]:
                    headings = tuple(heading(key) for key in keys)
                    fields = columns_of(headings, Below())
                    table = Table(tables, number, (), Delimited("commas"), headings, fields)
                    tables += 1
                    if fields is not None:
                        yield table
                if table.fields is None:
                    account.skip("unrecognised", REFUSED)
                else:
                    yield Row(table, number, [_cell(value) for _, value in pairs])
        text.finish()
        account.finish()
        if listed:
            report.issue("cut", "the end", "the list isn't closed", 0)


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value.strip()
    if value is None:
        return ""
    with deeper_stack():
        return str(value).lower() if isinstance(value, bool) else json.dumps(value)


class _TextStream(TextWindow):
    """The window with lines and objects."""

    def starts_with(self, pattern: re.Pattern[str]) -> bool:
        """Whether the rest of the text starts with a pattern, which must be short."""
        if len(self.text) - self.at < CHUNK // 2:
            self.more()
        return pattern.match(self.text, self.at) is not None

    def line(self) -> str:
        """Returns the rest of the line, or the first part of a long line."""
        while (end := self.text.find("\n", self.at)) < 0 and len(self.text) - self.at < _LONGEST and self.more():
            pass
        end = min(end if end >= 0 else len(self.text), self.at + _LONGEST)
        line, self.at = self.text[self.at : end], end
        return line.rstrip("\r")

    def object(self) -> list[tuple[str, Any]] | None:
        """Returns the next object. If it can't be decoded, skips to the end of an object and returns None."""
        while True:
            try:
                pairs, end = _DECODER.raw_decode(self.text, self.at)
                refuse_deep(self.text[self.at : end].encode("utf-8", "surrogatepass"))
                self.at = end
            except (ValueError, RecursionError) as error:
                if isinstance(error, RecursionError) and self.flatten():
                    continue
                if len(self.text) - self.at < _LONGEST and self.more():
                    continue
                match = _END.search(self.text, self.at)
                self.at = match.end() if match else len(self.text)
                self.ended = self.ended and match is None
                return None
            return list(pairs)


#: Bytes that are read at once, and the most characters of a tag or cell.
_CHUNK = 1 << 16

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
        elements, self.elements, self._sized = self.elements, [], 0
        return elements

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


def html_headings(text: str) -> list[str] | None:
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
            account.skip("cut", "the last row is cut off")
        elif kind == "title":
            path = (Title(7, cells[0], number),)
            account.structure()
        elif kind == "text":
            yield Text(number, cells[0], path)
        elif kind == "headings":
            headings = tuple(map(heading, cells))
            fields = columns_of(headings, Below())
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
