"""JSON documents of reports, read as a stream: the elements of a list, or the members of an object.

[{"count": 3}, {"name": "a", "timeMs": 1.5}]                 two elements of the list ""
{"Layers": [{"Name": "a"}, {"Name": "b"}], "Bindings": []}    two elements of the list "Layers"; "Bindings" is empty
{"calls": [...], "configuration": {"Executor": "VM"}}          the elements of "calls", the member "configuration"

Several documents may follow one another. A window moves over the text, which may be of any size. An element is decoded
as a whole, so that memory depends on the largest one.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Callable, Iterator
from decimal import Decimal, InvalidOperation
from typing import Any, BinaryIO, NamedTuple

from ktrace.byte_account import Owner
from ktrace.conversion import Conversion
from ktrace.input.compression import mark_size, text_encoding, utf8
from ktrace.input.source import Source
from ktrace.kit.trace_json.salvage import A_REPAIR, MOST_AGAIN, mended_at, shallow
from ktrace.model.batch import Batch
from ktrace.model.json_text import deeper_stack, refuse_deep
from ktrace.model.row_builder import RowBuilder
from ktrace.report import Report

#: Bytes that are read at once.
CHUNK = 1 << 16

_BLANK = re.compile(r"[\s,]*")


class TextWindow:
    """Text that is read as needed; `at` is the current position in `text`.

    Whoever moves `at` states by `own` what the text up to there is, from where that was stated last.
    """

    def __init__(self, stream: BinaryIO, report: Report, mark: int = 0) -> None:
        """`mark` is the size of a byte order mark before the stream."""
        self._stream = stream
        self._report = report
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.text = ""
        self.at = 0
        self.ended = False
        self._owned = 0  # characters of `text` with an owner
        self._loose = 0  # bytes without one that were dropped with the text before `at`
        self._place = self._delivered = mark  # in bytes: the first of them, and what was read
        report.bytes.own("structure", mark)
        report.bytes.size += mark
        report.bytes.open += 1

    def own(self, owner: Owner) -> None:
        """States what the text before `at` is."""
        size = self._loose + _bytes(self.text, self._owned, self.at)
        if owner == "skipped":
            self._report.bytes.skip(self._place, self._place + size)
        else:
            self._report.bytes.own(owner, size)
        self._report.bytes.size += size
        self._place += size
        self._owned, self._loose = self.at, 0

    def finish(self) -> None:
        """Ends the account at the end of the text. What has no owner is reported."""
        if self.at > self._owned or self._loose:
            start = self._place
            self.own("skipped")
            self._report.record()
            self._report.issue("unrecognised", f"bytes {start}-{self._place - 1}", "text that no record owns")
        self._report.bytes.take_back(self._place - self._delivered)  # of bytes that aren't UTF-8, and of repairs
        self._report.bytes.open -= 1

    def drop(self) -> None:
        """Drops the text before `at`."""
        self._loose += _bytes(self.text, self._owned, self.at)
        self.text = self.text[self.at :]
        self.at = self._owned = 0

    def more(self, size: int = 0) -> bool:
        """Reads on, CHUNK bytes or more, and drops the text before `at`; returns False at the end."""
        if self.ended:
            return False
        raw = self._stream.read(max(CHUNK, size))
        self.ended = not raw
        added = self._decoder.decode(raw, final=self.ended)
        if "\ufffd" in added and "\ufffd".encode() not in raw:
            self._report.issue("encoding", "a value of the JSON")
        self._delivered += len(raw)
        self.drop()
        self.text += added
        return not self.ended or bool(added)

    def flatten(self) -> bool:
        """Replaces what is nested too deeply in the text from `at` on, and reports it; returns whether anything was.

        False, too, for a nest whose end isn't read yet.
        """
        flat, repairs, closed = shallow(self.text[self.at :].encode())
        if not repairs or not (closed or self.ended):
            return False
        self._report.issue("json-repair", f"byte {self._place + repairs[0].place}", repairs[0].detail, len(repairs))
        self.text = self.text[: self.at] + flat.decode()
        return True

    def next(self, blank: re.Pattern[str] = _BLANK) -> str:
        """Skips blanks and returns the next character; '' at the end."""
        while True:
            match = blank.match(self.text, self.at)
            if match and match.end() > self.at:
                clean = self._owned == self.at and not self._loose
                self.at = match.end()
                if clean:
                    self.own("structure")
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.more():
                return ""


def _bytes(text: str, start: int, end: int) -> int:
    """The number of bytes of a part of a text in UTF-8."""
    if start >= end:
        return 0
    return end - start if text.isascii() else len(text[start:end].encode("utf-8", "replace"))


#: The most characters of an element.
LONGEST = 1 << 24

_SPACE = re.compile(r"\s*")

#: Where reading goes on after an element that can't be decoded: at the next element.
_NEXT = re.compile(r"\n[ \t\r]{0,40}(?=,?[ \t]{0,8}[{\]])|\}\s{0,40},\s{0,40}(?=\{)|\](?=\s{0,40}[,}])")
_NEXT_OBJECT = re.compile(_NEXT.pattern.replace(r"|\]", r"|(?<=\})\]"))

#: Characters that follow a repair in the window, unless the text ends: what is repaired may go on.
_AHEAD = 1 << 10

#: Levels of lists and objects that are kept as such.
_DEEPEST = 100


def exact(digits: str) -> Decimal | str:
    """A number with decimals or an exponent; its text if the exponent is beyond those of Decimal."""
    try:
        return Decimal(digits)
    except InvalidOperation:
        return digits


_DECODER = json.JSONDecoder(strict=False, parse_float=exact, parse_constant=str)


class Item(NamedTuple):
    """An element or a member: its number from 1, its document from 0, the key of its list or member, and its value.

    If it can't be read, `problem` is a kind of issue and `text` the text in its place.
    """

    number: int
    document: int
    key: str
    value: Any
    listed: bool = True
    problem: str = ""
    text: str = ""

    @property
    def where(self) -> str:
        """Its place for the report."""
        return f"{self.key or 'list'} element {self.number}" if self.listed else f"member {self.key}"


def json_items(source: Source, report: Report) -> Iterator[Item]:
    """Yields the items of the documents of a source. The caller accounts for each of them.

    Reports "cut" for a document that isn't closed.
    """
    with source.open() as stream:
        mark = mark_size(stream)
        text = _Text(utf8(stream), report, mark)
        yield from _Walk(text, report).items()
        text.finish()


def read_elements(
    source: Source, conversion: Conversion, rows: RowBuilder, key: str, add: Callable[[dict[str, Any]], object]
) -> Iterator[Batch]:
    """Yields the rows of the elements of one list, each an object; other members of the document are its facts.

    `add` adds the rows of an element, and returns whether it has a time.
    """
    report = conversion.report
    for item in json_items(source, report):
        members = item.value if item.key == key and isinstance(item.value, list) else [item.value]
        for member in members:
            report.record()
            value = plain_value(member)
            if item.problem:
                report.issue(item.problem, item.where, item.text[:80])
            elif item.key != key:
                report.used(outcome="catalog")
            elif isinstance(value, dict) and add(value):
                report.used()
            else:
                report.issue("bad-record", item.where, "no time")
        yield from rows.ready()
    yield from rows.rest()


def plain_value(value: Any, depth: int = 0) -> Any:
    """Returns a decoded value for `args`: Decimals as floats where that changes nothing, else as text.

    Lists and objects in more than `_DEEPEST` others are text.
    """
    if depth > _DEEPEST and isinstance(value, (dict, list)):
        with deeper_stack():
            return json.dumps(value, default=str)
    if isinstance(value, Decimal):
        number = float(value)
        return number if math.isfinite(number) and Decimal(repr(number)) == value else str(value)
    if isinstance(value, dict):
        return {key: plain_value(item, depth + 1) for key, item in value.items()}
    return [plain_value(item, depth + 1) for item in value] if isinstance(value, list) else value


def beginning(source: Source, size: int = 1 << 12) -> str:
    """Returns the first bytes of a source as text without leading blanks; '' if it is binary."""
    head = source.beginning(size)
    encoding = text_encoding(head)
    return head.decode(encoding, "replace").removeprefix("\ufeff").lstrip() if encoding else ""


class _Text(TextWindow):
    """The window with the decoder of values."""

    def value(self) -> tuple[bool, Any]:
        """Decodes the next value; (False, None) if it can't be decoded. Numbers with decimals are Decimals.

        Bare nan and inf, as C++ writes them, become the texts "NaN" and "Infinity"; what can't be read becomes null.
        """
        spent, before = 0, math.inf
        if self.at > CHUNK:  # an error of the decoder counts the lines above it
            self.drop()
        while True:
            try:
                value, end = _DECODER.raw_decode(self.text, self.at)
                refuse_deep(self.text[self.at : end].encode("utf-8", "surrogatepass"))
            except json.JSONDecodeError as error:
                spent += error.pos - self.at + (len(self.text) >> 6) + A_REPAIR
                behind = len(self.text) - error.pos
                if behind < before and spent < MOST_AGAIN and self._repair(error.pos):
                    before = behind
                    continue
            except RecursionError:
                if self.flatten():
                    continue
            except ValueError:
                pass
            else:
                if end < len(self.text) or self.ended:
                    self.at = end
                    return True, value
            left = len(self.text) - self.at
            if self.ended or left >= LONGEST:
                return False, None
            self.more(left)
            before = math.inf

    def _repair(self, at: int) -> bool:
        """Repairs the fault at which the decoder stopped; returns whether there is a repair."""
        change = mended_at(self.text, at)
        if not change or (change.end + _AHEAD > len(self.text) and not self.ended):
            return False
        self.text = change.apply(self.text)
        self._report.issue("json-repair", "a value of the JSON", change.detail, 0)
        return True

    def skip_value(self) -> str:
        """Skips to the next element; returns the beginning of the text that is skipped."""
        skipped, following = "", _NEXT_OBJECT if self.text.startswith("{", self.at) else _NEXT
        while True:
            match = following.search(self.text, self.at + 1)
            end = match.end() if match and match[0] != "]" else match.start() if match else len(self.text)
            if match and match[0][:1] == "}":
                skipped += self.text[self.at : match.start() + 1]
            else:
                skipped += self.text[self.at : end]
            skipped = skipped[:CHUNK]
            self.at = end
            if match or not self.more():
                return skipped

    def line(self) -> str:
        """Skips the rest of the line; returns its beginning."""
        begin = ""
        while (end := self.text.find("\n", self.at)) < 0:
            begin = (begin + self.text[self.at :])[:CHUNK]
            self.at = len(self.text)
            if not self.more():
                return begin
        begin, self.at = (begin + self.text[self.at : end])[:CHUNK], end
        return begin


class _Walk:
    def __init__(self, text: _Text, report: Report) -> None:
        self._text = text
        self._report = report
        self._number = 0
        self._document = -1

    def items(self) -> Iterator[Item]:
        text = self._text
        while first := text.next():
            self._number = 0
            if first in "[{":
                self._document += 1
                text.at += 1
                text.own("structure")
                yield from self._list("") if first == "[" else self._object()
            else:
                self._number += 1
                stray = text.line()
                text.own("skipped")
                yield Item(self._number, self._document, "", None, True, "unrecognised", stray)

    def _list(self, key: str) -> Iterator[Item]:
        text = self._text
        while first := text.next():
            if first == "]":
                text.at += 1
                text.own("structure")
                return
            if first == "}":
                return
            yield self._item(key, listed=True)
        self._report.issue("cut", "the end", "the list isn't closed", 0)

    def _object(self) -> Iterator[Item]:
        text = self._text
        while first := text.next():
            if first in "}]":
                text.at += 1
                text.own("structure")
                return
            sound, key = text.value() if first == '"' else (False, "")
            if not sound or text.next(_SPACE) != ":":
                self._number += 1
                left = text.skip_value()
                text.own("skipped")
                yield self._broken("", left)
                continue
            text.at += 1
            text.own("structure")
            if text.next(_SPACE) == "[":
                text.at += 1
                text.own("structure")
                self._number = 0
                yield from self._list(key)
            else:
                yield self._item(key, listed=False)
        self._report.issue("cut", "the end", "the document isn't closed", 0)

    def _item(self, key: str, *, listed: bool) -> Item:
        self._number += 1
        sound, value = self._text.value()
        if sound:
            self._text.own("read")
            return Item(self._number, self._document, key, value, listed)
        left = self._text.skip_value()
        self._text.own("skipped")
        return self._broken(key, left, listed=listed)

    def _broken(self, key: str, text: str, *, listed: bool = True) -> Item:
        """An item that can't be decoded: cut if the input ends in it."""
        cut = self._text.ended and self._text.at >= len(self._text.text)
        return Item(self._number, self._document, key, None, listed, "cut" if cut else "bad-record", text)
