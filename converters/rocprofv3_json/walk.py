"""Reads the document as a stream: small members whole, lists of records chunk by chunk.

    "buffer_records": {"kernel_dispatch": [{"size": 80, ...}, {"size": 80, ...}, ...]
                                                 ^ a chunk may end before text that begins like the first record

A cut is right if the chunk is JSON; a damaged chunk is read record by record.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from ktrace.errors import DamagedInput
from ktrace.kit.columnar.dictionaries import is_utf8, no_gc
from ktrace.kit.trace_json.chunks import CHUNK, Text
from ktrace.kit.trace_json.salvage import mend_document, salvage
from ktrace.model.json_text import NOT_JSON, refuse_deep
from ktrace.report import Report

from .record_columns import Records, Shape

#: The key of the document.
TOOL = "rocprofiler-sdk-tool"

#: Members with lists of records.
_RECORDS = ("buffer_records", "callback_records")

#: Greatest number of bytes of a member, which is kept in memory.
_LARGEST = 256 << 20

#: Cuts that are tried for a chunk before its records are read one by one.
_MOST_CUTS = 8

#: A text ends at its quote; without one at the end of the line, where text follows that can only be outside.
_NEW_MEMBER = rb'\n(?=\s{0,200}(?:[\]}]|"[^"\\\n]*"\s*[:,\]}]))'
_MARK = re.compile(rb'"(?:[^"\\\n]|\\.|(?!%b)\n)*(?:"|(?=\n))|[{}\[\]]|"' % _NEW_MEMBER, re.DOTALL)
_SCALAR = re.compile(rb"[^\s,\]}]*")
_FIRST_KEY = re.compile(rb'\{\s*("(?:[^"\\]|\\.)*")\s*:', re.DOTALL)
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")


class Member(NamedTuple):
    """A member of an entry: the number of the entry, the path of keys to it, its JSON text.

    The text is empty for a member whose own members follow.
    """

    entry: int
    path: tuple[str, ...]
    text: bytes


class Walk:
    """Yields the members and records of a document. With `members_only` records are skipped."""

    def __init__(self, text: Text, report: Report, path: str, *, members_only: bool = False) -> None:
        self._text = text
        self._report = report
        self._path = path
        self._members_only = members_only
        self._entry = -1
        self._cut = False

    def __iter__(self) -> Iterator[Member | Records]:
        text = self._text
        if text.peek(3) == b"\xef\xbb\xbf":
            text.pos += 3
            text.own("structure", 0)
        if text.skip_blank() != b"{":
            raise self._damaged("not a JSON object")
        text.step()
        yield from self._object(())
        if not self._members_only:
            text.skip_rest(self._report)

    def _damaged(self, what: str) -> DamagedInput:
        return DamagedInput(
            what,
            path=self._path,
            where=f"byte {self._text.pos}",
            expected=f'an object with "{TOOL}"',
            remedy="export it again with rocprofv3 --output-format json",
        )

    def _report_cut(self) -> None:
        if not self._cut and not self._members_only:
            self._report.issue("cut", f"byte {self._text.pos}", "the document isn't closed", 0)
        self._cut = True

    def _object(self, path: tuple[str, ...]) -> Iterator[Member | Records]:
        """Yields the members of an object whose brace is read."""
        text = self._text
        while not self._cut:
            first = text.skip_blank()
            if first == b"}":
                text.step()
                return
            if first == b",":
                text.step()
                continue
            key = self._key() if first else None
            if key is None:
                if text.skip_blank():
                    raise self._damaged(f"{text.peek(20)!r} where a member should begin")
                self._report_cut()
                return
            yield from self._member((*path, key))

    def _key(self) -> str | None:
        text = self._text
        if text.peek() != b'"':
            return None
        start = text.pos
        value = self._value()
        if value is None or text.skip_blank() != b":":
            return None
        text.pos += 1
        text.own("structure", start)
        try:
            return msgspec.json.decode(self._mended(value, start), type=str)
        except NOT_JSON:
            return None

    def _mended(self, value: bytes, start: int) -> bytes:
        """The value that began at a position; repaired, with a report, if it isn't JSON."""
        if len(value) < 3 or (_is_json(value) and is_utf8(value)):
            return value
        whole, repairs = mend_document(value)
        for repair in repairs if _is_json(whole) else ():
            self._report.issue(repair.kind, f"byte {start + repair.place}", repair.detail)
        return whole

    def _member(self, path: tuple[str, ...]) -> Iterator[Member | Records]:
        text = self._text
        first = text.skip_blank()
        if path == (TOOL,) and first == b"[":
            text.step()
            yield from self._entries()
        elif path == (TOOL,) and first == b"{":
            text.step()
            self._entry += 1
            yield from self._object(path)
        elif first == b"{" and len(path) == 2 and path[1] in (*_RECORDS, "strings"):
            text.step()
            yield Member(max(self._entry, 0), path[1:], b"")
            yield from self._object(path)
        elif len(path) == 3 and path[1] in _RECORDS and first == b"[":
            text.step()
            yield from self._list(path[1:])
        else:
            start = text.pos
            value = self._value()
            text.own("skipped" if value is None else "read", start)
            value = value if value is None or path[0] != TOOL else self._mended(value, start)
            if value is None:
                self._report_cut()
            elif path[0] == TOOL and len(path) > 1 and (len(value) < 3 or _is_json(value)):
                yield Member(max(self._entry, 0), path[1:], value)
            elif path[0] == TOOL:
                self._report.issue("unrecognised", f"byte {start}", f"the member {'.'.join(path[1:])} is damaged", 0)

    def _entries(self) -> Iterator[Member | Records]:
        text = self._text
        while not self._cut:
            first = text.skip_blank()
            if first == b"{":
                text.step()
                self._entry += 1
                yield from self._object((TOOL,))
            elif first == b",":
                text.step()
            elif first == b"]":
                text.step()
                return
            elif first:
                raise self._damaged(f"{text.peek(20)!r} where an entry should begin")
            else:
                self._report_cut()

    def _value(self) -> bytes | None:
        """Reads the JSON text that begins here; returns None if it has no end."""
        text = self._text
        first = text.peek()
        if first not in (b'"', b"{", b"["):
            end = text.match(_SCALAR, text.pos)
            while end == text.end and text.more():
                end = text.match(_SCALAR, text.pos)
            value = text.part(text.pos, end)
            text.pos = end
            return value
        at, depth = text.pos, 0
        while True:
            match = text.search(_MARK, at)
            mark = text.part(match, match + 1) if match >= 0 else b""
            end = text.match(_MARK, match) if mark else text.end
            if not mark or (mark == b'"' and end == match + 1):  # a text that continues after the window
                at = match if mark else text.end
                if text.end - text.pos > _LARGEST or not text.more():
                    return None
                continue
            depth += (mark in (b"{", b"[")) - (mark in (b"}", b"]"))
            at = end
            if not depth:
                value = text.part(text.pos, at)
                text.pos = at
                return value

    def _list(self, path: tuple[str, ...]) -> Iterator[Records]:
        """Yields the records of a list whose bracket is read."""
        text = self._text
        shape = Shape()
        boundary: re.Pattern[bytes] | None = None
        count = 0
        while True:
            first = text.skip_blank()
            if first == b",":
                text.step()
                continue
            if first == b"]":
                text.step()
                return
            if not first:
                self._report_cut()
                return
            if boundary is None:
                key = _FIRST_KEY.match(text.peek(1 << 12))
                boundary = re.compile(rb"\}\s*,\s*(?=\{\s*" + (re.escape(key[1]) if key else b"") + rb")")
            start = text.pos
            rows = self._chunk(shape, boundary)
            if text.pos == start:
                self._report.issue("unrecognised", f"byte {start}", f"{text.peek(40)!r} in {path[-1]}", 0)
                text.pos += 1
                text.own("skipped", start)
            if not self._members_only and rows:
                self._report.record(len(rows))
                yield Records(max(self._entry, 0), path, count, len(rows), shape.columns(rows))
            count += len(rows)

    def _chunk(self, shape: Shape, boundary: re.Pattern[bytes]) -> list[object]:
        """Reads the next records, up to a usable cut or the list's end."""
        text = self._text
        at = text.pos + CHUNK
        for _ in range(_MOST_CUTS):
            end = self._cut_at(at, boundary)
            rows = self._decoded(shape, end)
            if rows is not None:
                return rows
            if end == text.end and text.ended:
                break
            at = end + 1
        return self._salvaged(shape, text.pos + CHUNK)

    def _cut_at(self, at: int, boundary: re.Pattern[bytes]) -> int:
        """The end of the first record from a position on that another record follows, else the end of the document."""
        text = self._text
        while True:
            if at < text.end:
                match = text.search(boundary, at)
                if match >= 0:
                    return match + 1
                at = max(at, text.end - 4096)
            if not text.more():
                return text.end

    def _decoded(self, shape: Shape, end: int) -> list[object] | None:
        """Decodes the records up to a position, or to the end of the list before it; returns None if it isn't JSON."""
        text = self._text
        whole = b"".join((b"[", text.view(text.pos, end), b"]"))
        if not is_utf8(whole):
            return None
        with no_gc():
            try:
                refuse_deep(whole)
                rows = [] if self._members_only and _is_json(whole) else shape.decode(whole)
                start, text.pos = text.pos, end
                text.own("read", start)
                return rows
            except RecursionError:
                return None
            except msgspec.DecodeError as error:
                match = _TRAILING.search(str(error))
            at = int(match[1]) if match else 0
            while (at := whole.rfind(b"]", 0, at)) > 0:
                try:
                    rows = shape.decode(whole[: at + 1])
                except NOT_JSON:
                    continue
                start, text.pos = text.pos, text.pos + at - 1
                text.own("read", start)
                return rows
        return None

    def _salvaged(self, shape: Shape, end: int) -> list[object]:
        """Reads the records that begin before a position one by one; reports damaged ones."""
        salvaged = salvage(self._text, end)
        rows, odd = _decodable(shape, [element for element in salvaged.elements if element.startswith(b"{")])
        if odd and not self._members_only:
            self._report.record(odd)
            self._report.issue("bad-record", f"before byte {self._text.pos}", "a value that can't be read", odd)
        if not self._members_only:
            for repair in salvaged.repairs:
                self._report.issue(repair.kind, f"byte {repair.place}", repair.detail)
            for loss in salvaged.lost:
                self._report.record()
                self._report.issue(loss.kind, f"byte {loss.place}", loss.detail)
        return rows


def _decodable(shape: Shape, elements: list[bytes]) -> tuple[list[object], int]:
    """The records that can be decoded, and the number of others: with a number beyond 64 bits, or nested too deeply."""
    try:
        refuse_deep(b",".join(elements))
        return (shape.decode(b"[" + b",".join(elements) + b"]") if elements else []), 0
    except NOT_JSON:
        sound = [element for element in elements if _is_json(element, Any)]
        return (shape.decode(b"[" + b",".join(sound) + b"]") if sound else []), len(elements) - len(sound)


def _is_json(text: bytes, kind: Any = msgspec.Raw) -> bool:
    """Whether it is JSON; as `Any`, whether its numbers can be read, too."""
    try:
        refuse_deep(text)
        msgspec.json.decode(text, type=kind)
    except NOT_JSON:
        return False
    return True
