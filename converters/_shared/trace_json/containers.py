"""The containers of Trace Event JSON: what of the text is events, what is another member of the document.

{"deviceProperties": [...], "traceEvents": [{...}, {...}], "traceName": "rank0.json"}
[{...}, {...},
{"ph": "X", ...}\\n{"ph": "X", ...}\\n
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from ktrace.errors import DamagedInput
from ktrace.report import Report

from .chunks import CHUNK, Text
from .decode import Decoder
from .document import LARGEST_MEMBER, Member
from .events import Events

_STRING = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
_MARK = re.compile(rb'["{}\[\]]')
_SCALAR = re.compile(rb"[^\s,\]}]*")


class Document:
    """Yields the events of a document as they are decoded, and its other members, in their order."""

    def __init__(self, text: Text, report: Report, path: str, rows: int, chunk: int = CHUNK) -> None:
        self._text = text
        self._report = report
        self._path = path
        self._chunk = chunk
        self._decoder = Decoder(report, rows)

    def __iter__(self) -> Iterator[Events | Member]:
        text = self._text
        if text.peek(3) == b"\xef\xbb\xbf":
            text.pos += 3
        while first := text.skip_blank():
            if first == b"[":
                text.pos += 1
                yield from self._events()
            elif first == b"{":
                text.pos += 1
                yield from self._object()
            else:
                raise DamagedInput(
                    f"{text.peek(20)!r} is no Trace Event JSON",
                    path=self._path,
                    where=f"byte {text.pos}",
                    expected="an object with traceEvents, or a list of events",
                )
        yield from self._decoder.flush()

    def _object(self) -> Iterator[Events | Member]:
        """The members of an object, of which the brace is read."""
        text = self._text
        while first := text.skip_blank():
            if first == b"}":
                text.pos += 1
                return
            if first == b",":
                text.pos += 1
                continue
            key = self._key()
            if key == "traceEvents" and text.skip_blank() == b"[":
                text.pos += 1
                yield from self._events()
            else:
                text.skip_blank()
                start = text.pos
                value = self._value()
                if value is not None:
                    yield Member(key, value, start)

    def _key(self) -> str:
        text = self._text
        if text.peek() != b'"':
            raise DamagedInput("no key of a member", path=self._path, where=f"byte {text.pos}", expected="a text")
        key = self._value() or b'""'
        if text.skip_blank() != b":":
            raise DamagedInput("no colon", path=self._path, where=f"byte {text.pos}", expected='":"')
        text.pos += 1
        return str(msgspec.json.decode(key, type=str))

    def _value(self) -> bytes | None:
        """The JSON text that begins here; None where it is too long."""
        text = self._text
        start, at, depth, quoted = text.pos, text.pos, 0, False
        while True:
            if quoted:
                at = text.match(_STRING, at)
                if text.part(at, at + 1) == b'"':
                    at, quoted = at + 1, False
            elif depth:
                found = text.search(_MARK, at)
                mark = text.part(found, found + 1) if found >= 0 else b""
                at = found + 1 if mark else text.end
                quoted = mark == b'"'
                depth += (mark in (b"{", b"[")) - (mark in (b"}", b"]")) if mark else 0
            else:
                first = text.peek()
                quoted, depth = first == b'"', int(first in (b"{", b"["))
                at += 1
                if not quoted and not depth:
                    at = text.match(_SCALAR, at)
                    while at == text.end and text.more():
                        at = text.match(_SCALAR, at)
            if not quoted and not depth:
                break
            if at >= text.end - 1:
                if at - start > LARGEST_MEMBER:
                    text.pos = at
                if not text.more():
                    break
        if at - start > LARGEST_MEMBER:
            text.pos = at
            self._report.issue("unrecognised", f"byte {start}", f"a member of {at - start:,} bytes", 0)
            return None
        whole = text.part(start, at)
        text.pos = at
        return whole

    def _events(self) -> Iterator[Events]:
        """The events of a list, of which the bracket is read."""
        text = self._text
        while first := text.skip_blank():
            if first == b"]":
                text.pos += 1
                return
            if first == b",":
                text.pos += 1
                continue
            end = text.cut((text.pos // self._chunk + 1) * self._chunk)
            while not self._take(end):
                if end == text.end and text.ended:
                    raise DamagedInput("the list of events is damaged", path=self._path, where=f"byte {text.pos}")
                end = text.cut(end)
            if self._decoder.full:
                yield from self._decoder.flush()
        self._report.issue("cut", f"byte {text.pos}", "the list of events has no end", 0)

    def _take(self, end: int) -> bool:
        """Decodes the events up to a place, or to the end of the list before it. False where that can't be done."""
        text = self._text
        part = b"[" + text.part(text.pos, end) + b"]"
        try:
            self._decoder.take(part, text.pos)
            text.pos = end
            return True
        except msgspec.DecodeError as error:
            close = _list_end(part, str(error))
        if close < 0:
            return False
        self._decoder.take(part[:close], text.pos)
        text.pos += close - 2  # before the bracket
        return True


def _list_end(text: bytes, error: str) -> int:
    """Where the list that the text begins with ends, of which the error says that more follows; -1 where it doesn't."""
    found = re.search(r"trailing characters \(byte (\d+)\)", error)
    at = int(found[1]) if found else 0
    while (at := text.rfind(b"]", 0, at)) > 0:
        try:
            msgspec.json.decode(text[: at + 1], type=list[msgspec.Raw])
            return at + 1
        except msgspec.DecodeError:
            pass
    return -1
