"""Finds schemas and rows in the stream of a document, a few MB at a time.

Documents may follow one another (`xctrace export ... >> all.xml`). A node without a schema has that of the node before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple

from ktrace.byte_account import Owner
from ktrace.errors import DamagedInput
from ktrace.model.arrays import Int64
from ktrace.report import Report

from .rows import Schema, read_schema

_CHUNK = 1 << 20

#: A row or a schema that is longer isn't one.
_LONGEST = 64 << 20

_TAGS = (b"<schema", b"<trace-query-result", b"</trace-query-result", b"<node", b"</node", b"<trace-toc")
_STOPS = (b"</node", b"<node", b"<schema", b"</trace-query-result", b"<?")
_PATH = re.compile(rb"run\[(?:@number=[\"'])?(\d+)")
_ENCODING = re.compile(rb"encoding\s*=\s*[\"']([^\"']+)")


class Begin(NamedTuple):
    """A document begins: its ids are its own."""


class Node(NamedTuple):
    """The export of a table begins: the number of its run."""

    run: int


class Rows(NamedTuple):
    """The text of whole rows, from `<row>` to `</row>`; the codes of their cells, if they have the regular form.

    `start` is the position of the text in the stream.
    """

    text: bytes
    codes: Int64 | None
    start: int


class Reader(NamedTuple):
    """What a document asks of its reader: the codes of rows, who owns the rows of this table; the place in reports."""

    scan: Callable[[bytes], Int64 | None]
    owner: Callable[[], Owner]
    place: str


class Document:
    """Yields the parts of a stream; reports its end if it comes too early. Divides its bytes among their owners."""

    def __init__(self, stream: BinaryIO, path: str, report: Report, reader: Reader) -> None:
        self.read_bytes = 0
        self.is_contents = False
        self._stream = stream
        self._path = path
        self._report = report
        self._reader = reader
        self._text = b""
        self._pos = 0
        self._ended = self._cut = False

    def __iter__(self) -> Iterator[Begin | Node | Schema | Rows]:
        inside = False
        self._more()
        if self._text.startswith(b"\xef\xbb\xbf"):
            self._pass(3, "structure")
        while self._skip_to_tag():
            tag = self._text[self._pos : self._pos + 24]
            if tag.startswith(b"<row>"):
                rows = self._rows()
                if rows:
                    yield rows
                continue
            if tag.startswith((b"<!--", b"<?", b"<!")):
                if not self._aside(tag):
                    break
                continue
            is_read = tag.startswith(_TAGS)
            text = self._to(b"</schema>" if tag.startswith(b"<schema") else b">", "structure" if is_read else "skipped")
            if not text:
                break
            if tag.startswith(b"<schema"):
                yield self._schema(text)
            elif tag.startswith(b"<trace-query-result"):
                inside = not text.endswith(b"/>")
                yield Begin()
            elif tag.startswith(b"</trace-query-result"):
                inside = False
            elif tag.startswith(b"<node"):
                run = _PATH.search(text)
                yield Node(int(run[1]) if run and len(run[1]) < 10 else 1)
            elif tag.startswith(b"<trace-toc"):
                self.is_contents = True
                self._pass_rest("structure")
                return
            elif not is_read:
                self._report.issue("unrecognised", self._place(), f"the tag {text[:40].decode(errors='replace')}", 0)
        where = self._place()
        if self._pass_rest("skipped") or self._cut or inside:
            self._report.issue("cut", where, "the document isn't closed", 0)

    @property
    def _at(self) -> int:
        """The position in the stream."""
        return self.read_bytes - len(self._text) + self._pos

    def _where(self) -> str:
        return f"byte {self._at}"

    def _place(self) -> str:
        """Where it is, for reports: with the file of a folder."""
        return self._reader.place + self._where()

    def _pass(self, size: int, owner: Owner) -> None:
        """Goes on by some bytes, and states what they are."""
        if owner == "skipped":
            self._report.bytes.skip(self._at, self._at + size, self._reader.place)
        else:
            self._report.bytes.own(owner, size)
        self._pos += size

    def _pass_rest(self, owner: Owner) -> bool:
        """Goes to the end of the stream; returns whether there was anything."""
        start = self._at
        self._pass(len(self._text) - self._pos, owner)
        while self._more():
            self._pass(len(self._text) - self._pos, owner)
        return self._at > start

    def _more(self) -> bool:
        """Reads on; returns whether there was more."""
        data = b"" if self._ended else self._stream.read(_CHUNK)
        self._ended = not data
        self.read_bytes += len(data)
        self._report.bytes.size += len(data)
        self._text = self._text[self._pos :] + data
        self._pos = 0
        return bool(data)

    def _skip_to_tag(self) -> bool:
        """Moves to the next tag; returns whether there is one, with enough text to see its name."""
        while True:
            place = self._text.find(b"<", self._pos)
            stray = self._text[self._pos : place if place >= 0 else len(self._text)].strip()
            if stray:
                self._report.issue("unrecognised", self._place(), f"{stray[:40].decode(errors='replace')!r}", 0)
            self._pass((place if place >= 0 else len(self._text)) - self._pos, "skipped" if stray else "structure")
            if place >= 0 and (len(self._text) - place >= 24 or not self._more()):
                return True
            if place < 0 and not self._more():
                return False

    def _to(self, end: bytes, owner: Owner = "structure") -> bytes:
        """Takes the text up to an end; returns nothing if the document ends before."""
        start = 0
        while True:
            place = self._text.find(end, self._pos + start)
            if end == b"</schema>":  # a schema without columns may be an empty tag
                close = self._text.find(b">", self._pos)
                if close > 0 and self._text[close - 1 : close] == b"/":
                    place, end = close, b">"
            if place >= 0:
                text = self._text[self._pos : place + len(end)]
                self._pass(len(text), owner)
                return text
            start = max(0, len(self._text) - self._pos - len(end))
            if len(self._text) - self._pos > _LONGEST:
                raise self._damaged("an unclosed tag")
            if not self._more():
                return b""

    def _aside(self, tag: bytes) -> bool:
        """Skips a comment or the declaration of XML. Raises DamagedInput for any other declaration."""
        if tag.startswith(b"<!--"):
            return bool(self._to(b"-->"))
        if tag.startswith(b"<!"):
            raise self._damaged("declares a document type or entities, which no export of xctrace does")
        text = self._to(b"?>")
        encoding = _ENCODING.search(text)
        if encoding and encoding[1].lower() not in (b"utf-8", b"us-ascii", b"ascii"):
            raise self._damaged(f"has the encoding {encoding[1].decode(errors='replace')}")
        return bool(text)

    def _schema(self, text: bytes) -> Schema:
        schema = read_schema(text) if b"<!" not in text else None
        if schema is None:
            raise self._damaged("a <schema> that can't be read")
        return schema

    def _rows(self) -> Rows | None:
        """Takes the whole rows that are in memory; reports one that has no end."""
        while (last := self._text.rfind(b"</row>", self._pos)) < 0:
            if len(self._text) - self._pos > _LONGEST:
                raise self._damaged("an unterminated row")
            if not self._more():
                self._pass_rest("skipped")
                self._cut = True
                return None
        rows = self._text[self._pos : last + 6]
        codes = self._reader.scan(rows)
        if codes is None:  # other tags between rows, or rows of another form
            stops = [place for stop in _STOPS if (place := rows.find(stop)) >= 0]
            if stops:
                rows = rows[: rows.rfind(b"</row>", 0, min(stops)) + 6] if b"</row>" in rows[: min(stops)] else b""
                codes = self._reader.scan(rows) if rows else None
            if b"<!DOCTYPE" in rows or b"<!ENTITY" in rows:
                raise self._damaged("declares a document type or entities, which no export of xctrace does")
            if not rows:
                self._report.record()
                self._report.issue("bad-record", self._place(), "an unterminated row")
                self._pass(min(stops), "skipped")
                return None
        start = self._at
        self._pass(len(rows), self._reader.owner())
        return Rows(rows, codes, start)

    def _damaged(self, what: str) -> DamagedInput:
        return DamagedInput(
            what,
            path=self._path,
            where=self._where(),
            expected="XML in UTF-8 as xctrace writes it",
            remedy="export the table again with xcrun xctrace export",
        )
