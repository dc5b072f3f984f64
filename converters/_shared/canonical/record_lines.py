"""Records that stand one on a line: JSON Lines, and the JSON document as ktrace writes it.

{"ktrace":"1.0"}                      {"ktrace":"1.0","records":[
{"record":"event",...}                {"record":"event",...},
{"record":"event",...}                {"record":"event",...}
                                      ]}
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from typing import BinaryIO, Protocol

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.source import text_encoding
from ktrace.model.batch import Batch

from .record_blocks import Blocks
from .records import BadRecord, Records, check_version

#: Bytes of lines that are taken at once: what is made of them fits the cache.
CHUNK = 1 << 20

#: Fewer lines than this are read one by one.
FEW_LINES = 100

#: The first line, with or without the opening of a JSON document.
HEADER = re.compile(rb'\s*\{\s*"ktrace"\s*:\s*("(?:[^"\\]|\\.)*"|[^\s"{}\[\],]+)\s*(?:\}|,\s*"records"\s*:\s*\[)\s*')
CLOSING = re.compile(rb"\s*\]\s*\}\s*")


def utf8(stream: BinaryIO) -> BinaryIO:
    """The stream in UTF-8, without its byte order mark."""
    head: bytes = stream.peek(4)[:4]  # type: ignore[attr-defined]
    if text_encoding(head) == "utf-16":
        return io.BytesIO(stream.read().decode("utf-16", "replace").encode())
    if head.startswith(b"\xef\xbb\xbf"):
        stream.read(3)
    return stream


class LineStream(Protocol):
    """What gives bytes and lines."""

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes; none at the end."""

    def readline(self) -> bytes:
        """A line, or what is left of one; nothing at the end."""


def read_lines(stream: LineStream, conversion: Conversion, path: str, *, document: bool = False) -> Iterator[Batch]:
    """The batches of records on lines, the header first.

    Each line is counted before it is parsed. One that can't be read is skipped as "bad-record"; a last one
    without a line end, and a `document` without its closing bracket, are cut.
    Raises DamagedInput where the header is missing and VersionError where its major version isn't ours.
    """
    state, report = _Lines(conversion, path, document), conversion.report
    while not state.headed and (line := stream.readline()):
        report.record()
        state.one_by_one([line])
    while text := stream.read(CHUNK):
        text += stream.readline()
        block, rest = _before_closing(text) if document else (text, b"")
        count = _line_count(block)
        report.record(count + _line_count(rest))
        if count >= FEW_LINES and state.blocks.take(block, count, document):
            state.last += count
            yield from state.records.rest()  # what was read before
            yield from state.blocks.ready()
            block = b""
        if left := io.BytesIO(block + rest).readlines():
            yield from state.blocks.rest()
            state.one_by_one(left)
        yield from state.records.ready()
    yield from state.blocks.rest()
    if not state.headed:
        _check_header(b"", conversion, path, "line 1")
    yield from state.records.rest()
    if not state.closed and state.whole:
        report.issue("cut", f"line {state.last}", "the closing ]} is missing", 0)


def _before_closing(text: bytes) -> tuple[bytes, bytes]:
    """The text apart from a last line that closes the document."""
    start = text.rfind(b"\n", 0, len(text) - 1) + 1
    return (text[:start], text[start:]) if CLOSING.fullmatch(text, start) else (text, b"")


def _line_count(text: bytes) -> int:
    return text.count(b"\n") + (not text.endswith(b"\n") and text != b"")


class _Lines:
    """How far the lines are read. `last` is the number of the last one, `whole` says that it isn't cut."""

    def __init__(self, conversion: Conversion, path: str, document: bool) -> None:
        self._conversion = conversion
        self._path = path
        self._document = document
        self.records = Records(conversion)
        self.blocks = Blocks(conversion)
        self.last = 0
        self.headed = False
        self.closed = not document
        self.whole = True

    def one_by_one(self, lines: list[bytes]) -> None:
        """Reads lines, each of which may be anything."""
        report = self._conversion.report
        used = 0
        for number, line in enumerate(lines, self.last + 1):
            text = line.strip(b" \t\r\n,")
            where = f"line {number}"
            if not text:
                report.used(outcome="structure")
            elif not self.headed or text.startswith(b'{"ktrace"'):
                _check_header(text, self._conversion, self._path, where)
                report.used(outcome="structure")
                self.headed = True
            elif self._document and CLOSING.fullmatch(text):
                report.used(outcome="structure")
                self.closed = True
            else:
                try:
                    if self.records.take(text, where) == "catalog":
                        report.used(outcome="catalog")
                    else:
                        used += 1
                except BadRecord as bad:
                    self.whole = line.endswith(b"\n")
                    report.issue("bad-record" if self.whole else "cut", where, str(bad))
        report.used(used)
        self.last += len(lines)


def _check_header(text: bytes, conversion: Conversion, path: str, where: str) -> None:
    found = HEADER.fullmatch(text)
    if not found:
        raise DamagedInput(
            "the header is missing",
            path=path,
            where=where,
            expected='a first line {"ktrace":"1.0"}',
            remedy="if the rest is whole, put that line before it",
        )
    try:
        version = json.loads(found.group(1))
    except ValueError:
        version = found.group(1).decode(errors="replace")
    check_version(version, conversion, path, where)
