"""Records one to a line: JSON Lines, and the JSON document as ktrace writes it.

{"ktrace":"1.0"}                      {"ktrace":"1.0","records":[
{"record":"event",...}                {"record":"event",...},
{"record":"event",...}                {"record":"event",...}
                                      ]}

`line_blocks` splits the lines into blocks; `read_lines` turns the blocks into batches, and `line_texts` into the
texts of records that `ktrace validate` checks.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.limits import current
from ktrace.kit.canonical import BadRecord, check_version
from ktrace.model.batch import Batch
from ktrace.model.json_text import Fault, RecordRun

from .record_batches import RecordBatches

#: Bytes of lines in a block: small enough that the decoded rows stay in the CPU's cache.
CHUNK = 1 << 20

#: Blocks of fewer lines than this are read one line at a time.
FEW_LINES = 100

#: The first line, with or without the opening of a JSON document.
HEADER = re.compile(rb'\s*\{\s*"ktrace"\s*:\s*("(?:[^"\\]|\\.)*"|[^\s"{}\[\],]+)\s*(?:\}|,\s*"records"\s*:\s*\[)\s*')
CLOSING = re.compile(rb"\s*\]\s*\}\s*")

#: What a line can be other than a record.
_ROLE = re.compile(rb'\s*(?:(?P<blank>$)|(?P<header>\{"ktrace")|(?P<closing>\]\s*\}\s*$))')


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines: the number of the first one, all of them as one text, how many they are."""

    line: int
    text: bytes
    count: int

    def runs(self) -> Iterator[tuple[str, int, list[bytes]]]:
        """The lines as runs of "records"; a "blank", "header" or "closing" line is a run of its own.

        Each run has the number of its first line.
        """
        lines, start = io.BytesIO(self.text).readlines(), 0
        for index, line in enumerate(lines):
            if not line.startswith(b'{"record"') and (role := _ROLE.match(line)):
                if index > start:
                    yield "records", self.line + start, lines[start:index]
                yield role.lastgroup or "", self.line + index, [line]
                start = index + 1
        if start < len(lines):
            yield "records", self.line + start, lines[start:]


def line_blocks(stream: BinaryIO, first: bytes, *, document: bool) -> Iterator[Block]:
    """Splits a stream into blocks of about `CHUNK` bytes; `first` is its first line, read already.

    The header, blank lines before it, and the last line of a `document` are blocks of their own.
    """
    line, text, limits = 1, first, current()
    while text:
        limits.check_line(len(text), None, line)
        yield Block(line, text, 1)
        line += 1
        if text.strip():
            break
        text = limits.readline(stream)
    while text := limits.lines(stream, CHUNK, line):
        last = text.rfind(b"\n", 0, len(text) - 1) + 1
        closing = document and CLOSING.fullmatch(text, last)
        for part in (text[:last], text[last:]) if closing else (text,):
            if part:
                count = part.count(b"\n") + (not part.endswith(b"\n"))
                yield Block(line, part, count)
                line += count


def read_lines(
    stream: BinaryIO, first: bytes, conversion: Conversion, path: str, *, document: bool = False, mark: int = 0
) -> Iterator[Batch]:
    """Yields the batches of records on lines; `first` is the first line, read already.

    `mark` is the size of a byte order mark before it. Each line is counted before it is parsed. A line that can't be
    read is skipped as "bad-record"; a last line without a line end, and a `document` without its closing bracket, are
    reported as cut.
    Raises DamagedInput where the header is missing and VersionError where its major version isn't ours.
    """
    lines, report = _Lines(conversion, path, document), conversion.report
    lines.byte = mark
    for block in line_blocks(stream, first, document=document):
        report.record(block.count)
        many = lines.headed and block.count >= FEW_LINES
        report.bytes.size += len(block.text)
        if many and lines.batches.take_block(block.text, block.count, document):
            report.bytes.own("read", len(block.text))
        else:
            lines.one_by_one(block)
        lines.byte += len(block.text)
        lines.last += block.count
        yield from lines.batches.ready()
    if not lines.headed:
        _check_header(b"", conversion, path, "line 1")
    yield from lines.batches.rest()
    if not lines.closed and lines.whole:
        report.issue("cut", f"line {lines.last}", "the closing ]} is missing", 0)


class _Lines:
    """The state of reading: `last` is the number of the last line, `whole` is false where that line is cut."""

    def __init__(self, conversion: Conversion, path: str, document: bool) -> None:
        self._conversion = conversion
        self._path = path
        self._document = document
        self.batches = RecordBatches(conversion)
        self.last = 0
        self.byte = 0  # of the next block
        self.headed = False
        self.closed = not document
        self.whole = True

    def one_by_one(self, block: Block) -> None:
        """Reads lines that may contain anything."""
        report = self._conversion.report
        byte = self.byte
        for role, line, lines in block.runs():
            if role == "blank" or (role == "closing" and self._document and self.headed):
                report.used(outcome="structure")
                report.bytes.own("structure", len(lines[0]))
                self.closed = self.closed or role == "closing"
            elif role == "header" or not self.headed:
                _check_header(lines[0].strip(b" \t\r\n,"), self._conversion, self._path, f"line {line}")
                report.used(outcome="structure")
                report.bytes.own("structure", len(lines[0]))
                self.headed = True
            else:
                self._take(lines, line, byte)
            byte += sum(map(len, lines))

    def _take(self, lines: list[bytes], first: int, byte: int) -> None:
        """Reads records one by one; `first` is the number of the first line, which begins at `byte`."""
        report = self._conversion.report
        used = 0
        for number, line in enumerate(lines, first):
            text = line.strip(b" \t\r\n,")
            byte += len(line)
            try:
                if not text:
                    report.used(outcome="structure")
                    report.bytes.own("structure", len(line))
                    continue
                if self.batches.take(text, f"line {number}") == "catalog":
                    report.used(outcome="catalog")
                else:
                    used += 1
                report.bytes.own("read", len(line))
            except BadRecord as bad:
                self.whole = line.endswith(b"\n")
                report.bytes.skip(byte - len(line), byte)
                report.issue("bad-record" if self.whole else "cut", f"line {number}", str(bad))
        report.used(used)


def _check_header(text: bytes, conversion: Conversion, path: str, where: str) -> None:
    found = HEADER.fullmatch(text)
    if not found:
        raise DamagedInput(
            "the header is missing",
            path=path,
            where=where,
            expected='a first line {"ktrace":"1.0"}',
            remedy="if the other lines are intact, put that line before them",
        )
    try:
        version = json.loads(found.group(1))
    except ValueError:
        version = found.group(1).decode(errors="replace")
    check_version(version, conversion, path, where)


def line_texts(stream: BinaryIO, first: bytes, *, document: bool = False) -> Iterator[RecordRun | Fault]:
    """Yields the header as number 0, then the records with their lines, and the faults between the records."""
    number, commas = 1, _Commas()
    headed, closed = False, not document
    for block in line_blocks(stream, first, document=document):
        for role, line, lines in block.runs():
            if role == "blank":
                continue
            text = lines[0].strip()
            if (role == "header" and not document) if headed else b'"ktrace"' in text[:40]:
                yield RecordRun(0, line, [_header(text) if document else text])
                headed = True
                continue
            if not headed:
                yield Fault(0, "$", 'the first line isn\'t a header {"ktrace":"1.0"}', line)
                headed = True
            if document and closed:
                yield Fault(number - 1, "$", "something follows the closing ]}", line)
            elif document and role == "closing":
                closed = True
                yield from commas.at_end(number, line)
            else:
                records = (yield from commas.without(lines, number, line)) if document else lines
                yield RecordRun(number, line, records)
                number += len(records)
    if not headed:
        yield Fault(0, "$", "is empty", 1)
    if not closed:
        yield Fault(number - 1, "$", "the closing ]} is missing")


def _header(text: bytes) -> bytes:
    """The header of JSON Lines for the first line of a document."""
    found = HEADER.fullmatch(text)
    return b'{"ktrace":' + found.group(1) + b"}" if found else text


class _Commas:
    """Checks the commas between the records of a document."""

    def __init__(self) -> None:
        self._found = True

    def without(self, lines: list[bytes], number: int, line: int) -> Generator[Fault, None, list[bytes]]:
        """Yields a fault for each missing comma; returns the texts without commas. `number` is the first record's."""
        texts = []
        for index, text in enumerate(map(bytes.strip, lines)):
            if not self._found:
                yield Fault(number + index - 1, "$", "no comma follows the record", line + index - 1)
            self._found = text.endswith(b",")
            texts.append(text.removesuffix(b","))
        return texts

    def at_end(self, number: int, line: int) -> Iterator[Fault]:
        """Yields a fault where the last record has a comma; `number` and `line` are those that follow it."""
        if self._found and number > 1:
            yield Fault(number - 1, "$", "a comma follows the last record", line - 1)
