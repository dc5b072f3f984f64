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
from ktrace.model import Batch
from ktrace.source import text_encoding

from .records import BadRecord, Records, check_version

#: Bytes of lines that are taken at once.
CHUNK = 4 << 20

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
    """What gives lines, some at a time."""

    def readlines(self, hint: int = -1, /) -> list[bytes]:
        """Lines of about `hint` bytes in all; none at the end."""


def read_lines(lines: LineStream, conversion: Conversion, path: str, *, document: bool = False) -> Iterator[Batch]:
    """The batches of records on lines, the header first.

    Each line is counted before it is parsed. One that can't be read is skipped as "bad-record"; a last one
    without a line end, and a `document` without its closing bracket, are cut.
    Raises DamagedInput where the header is missing and VersionError where its major version isn't ours.
    """
    report, records = conversion.report, Records(conversion)
    last, headed, closed, whole = 0, False, not document, True
    while chunk := lines.readlines(CHUNK):
        report.record(len(chunk))
        used = 0
        for number, line in enumerate(chunk, last + 1):
            text = line.strip(b" \t\r\n,")
            where = f"line {number}"
            if not text:
                report.used(went="structure")
            elif not headed or text.startswith(b'{"ktrace"'):
                _check_header(text, conversion, path, where)
                report.used(went="structure")
                headed = True
            elif document and CLOSING.fullmatch(text):
                report.used(went="structure")
                closed = True
            else:
                try:
                    if records.take(text, where) == "catalog":
                        report.used(went="catalog")
                    else:
                        used += 1
                except BadRecord as bad:
                    whole = line.endswith(b"\n")
                    report.issue("bad-record" if whole else "cut", where, str(bad))
        report.used(used)
        last += len(chunk)
        yield from records.ready()
    if not headed:
        _check_header(b"", conversion, path, "line 1")
    yield from records.rest()
    if not closed and whole:
        report.issue("cut", f"line {last}", "the closing ]} is missing", 0)


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
