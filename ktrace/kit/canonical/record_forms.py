"""The canonical JSON forms: records on lines, in JSON Lines or in a JSON document. A document may have any layout.

    {"ktrace":"1.0"}                      {"ktrace":"1.0","records":[
    {"record":"event",...}                {"record":"event",...},
    {"record":"event",...}                {"record":"event",...}
                                          ]}

`Form` contains what differs between the two forms; reading, validating and writing are the same. `line_blocks` splits
lines into blocks; `read_lines` turns the blocks into batches, and `line_texts` into the texts of records that
`ktrace validate` checks.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, BinaryIO

import msgspec

from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.compression import mark_size, utf8
from ktrace.input.limits import current
from ktrace.input.source import Source
from ktrace.kit.canonical import BadRecord, check_version, encode
from ktrace.kit.trace_json.chunks import find_key, object_end
from ktrace.kit.trace_json.salvage import Repair, is_json, mended_object
from ktrace.model.batch import VERSION, Batch, arrow_schema
from ktrace.model.json_text import NOT_JSON, Fault, RecordRun, refuse_deep
from ktrace.model.schema import RECORDS
from ktrace.output import Sink
from ktrace.report import Report

from .record_batches import RecordBatches
from .unique_ids import with_unique_ids


@dataclass(frozen=True)
class Form:
    """How a form writes the texts around records. The first record has no comma before it."""

    document: bool
    opening: str
    before: str = ""
    after: str = ""
    closing: str = ""


JSON_LINES = Form(document=False, opening=f'{{"ktrace":"{VERSION}"}}\n', after="\n")
DOCUMENT = Form(document=True, opening=f'{{"ktrace":"{VERSION}","records":[', before=",\n", closing="\n]}\n")


def read_records(source: Source, conversion: Conversion, form: Form) -> Iterator[Batch]:
    """Yields the batches of a file: as a stream where it has one record to a line, else decoded whole.

    Raises DamagedInput where the header is missing or the document isn't JSON with "ktrace" and "records",
    VersionError where its major version isn't ours.
    """
    return with_unique_ids(_read_records(source, conversion, form), conversion.report)


def _read_records(source: Source, conversion: Conversion, form: Form) -> Iterator[Batch]:
    account = conversion.report.bytes
    with source.open() as raw:
        mark = mark_size(raw)
        account.own("structure", mark)
        account.size += mark
        stream = utf8(raw)
        first = current().readline(stream)
        if _is_on_lines(first, form):
            yield from read_lines(stream, first, conversion, source.path, document=form.document, mark=mark)
        else:
            text = first + current().whole(stream, source.path)
            try:
                document = _decode_whole(text, source.path)
            except DamagedInput as error:
                document = _mended(text, mark, conversion.report, error)
            else:
                account.take_whole(len(text))
            yield from _read_whole(document, conversion, source.path)


def record_texts(source: Source, form: Form) -> Iterator[RecordRun | Fault]:
    """Yields the header as number 0, then the records, with their lines where they have lines of their own."""
    with source.open() as raw:
        stream = utf8(raw)
        first = current().readline(stream)
        if _is_on_lines(first, form):
            yield from line_texts(stream, first, document=form.document)
            return
        try:
            document = _decode_whole(first + current().whole(stream, source.path), source.path)
        except DamagedInput as error:
            yield Fault(0, "$", error.what)
            return
        yield RecordRun(0, None, [b'{"ktrace":' + bytes(document.ktrace) + b"}"])
        yield RecordRun(1, None, list(map(bytes, document.records)))


class RecordWriter:
    """Writes each batch as it comes; with the option `table`, only the rows of that record."""

    def __init__(self, sink: Sink, conversion: Conversion, form: Form) -> None:
        self._form = form
        self._table = conversion.options.get("table")
        self._stream = sink.open()
        self._stream.write(form.opening.encode())
        self._comma = len(form.before.rstrip("\n"))

    def write(self, batch: Batch) -> int:
        """Writes the rows and returns how many it kept."""
        if self._table not in (None, batch.record):
            return 0
        for text in encode(batch, self._form.before, self._form.after):
            self._stream.write(text[self._comma :])
            self._comma = 0
        return len(batch)

    def close(self) -> None:
        """Writes what follows the last record."""
        self._stream.write(self._form.closing.encode())


#: What may begin a record, the version before the records, and the end of a document.
_MEMBERS = "|".join(sorted({"record", *(name for record in RECORDS for name in arrow_schema(record).names)}))
_BEGIN = re.compile(rb'\{\s*"(?:%b)"\s*:' % _MEMBERS.encode())
_KIND = frozenset((b"record",))
_NAME = re.compile(rb'\s*"(?:event|summary|link|catalog)"')
_HEADER = re.compile(rb'"ktrace"\s*:\s*("[^"\\]*")')
_ENDED = re.compile(rb"\]\s*\}\s*\Z")

#: Bytes of a broken object in which its member "record" is looked for, and which are repaired.
_LOOKED_AT, _REPAIRED = 1 << 16, 1 << 18

#: Bytes that are looked at in vain, at least; what an object costs that is nested too deeply, and a repair in vain.
_IN_VAIN, _MOST_TRIED = 1 << 21, 1 << 24
_DEEP, _TRIED = 1 << 10, 1 << 11


class _Document(msgspec.Struct):
    ktrace: msgspec.Raw
    records: list[msgspec.Raw]


def _is_on_lines(first: bytes, form: Form) -> bool:
    """Whether a file with this first line is read by lines: JSON Lines, or a document that opens as ktrace's do."""
    return not form.document or (first.rstrip().endswith(b"[") and HEADER.fullmatch(first) is not None)


def _decode_whole(text: bytes, path: str) -> _Document:
    """Decodes a document. Raises DamagedInput."""
    try:
        refuse_deep(text)
        return msgspec.json.decode(text, type=_Document)
    except NOT_JSON as error:
        raise DamagedInput(
            f"isn't a whole canonical document: {error}",
            path=path,
            expected='{"ktrace": "1.0", "records": [...]}',
            remedy="if it was cut off, export it again; renamed to .jsonl, its whole lines can be read",
        ) from None


def _mended(text: bytes, mark: int, report: Report, error: DamagedInput) -> _Document:
    """The sound and the repaired records of a damaged document; others are reported.

    Raises `error` where there are none, or no version before them.
    """
    begins = _begins(text)
    header = _HEADER.search(text, 0, begins[0]) if begins else None
    if not header:
        raise error
    report.bytes.take_whole(begins[0])
    records, ended, tried = [], _ENDED.search(text), 0
    for begin, after in pairwise((*begins, len(text))):
        piece, last = text[begin:after], after == len(text)
        end = object_end(piece)
        sound = end > 0 and is_json(piece[:end])
        may_try = tried < _MOST_TRIED + 2 * begin
        document = (piece[:end], end, []) if sound else mended_object(piece[:_REPAIRED]) if may_try else None
        if document is None:
            tried += len(piece) + _TRIED
            report.record()
            kind = "cut" if last and not ended else "bad-record"
            report.issue(kind, f"byte {mark + begin}", piece[:60].decode(errors="replace"))
            report.bytes.skip(mark + begin, mark + after)
            report.bytes.size += len(piece)
            continue
        content, end, repairs = document
        records.append(msgspec.Raw(content))
        report.bytes.take_whole(len(piece))
        between = piece[end:].strip()
        if not last and between != b",":
            shown = f"{between[:40].decode(errors='replace')!r} instead of a comma" if between else "a comma is missing"
            repairs = [*repairs, Repair("json-repair", end, shown)]
        elif last and between[:1] == b",":
            repairs = [*repairs, Repair("json-repair", end, "a comma after the last record")]
        for repair in repairs:
            report.issue(repair.kind, f"byte {mark + begin + repair.place}", repair.detail)
    if not ended:
        report.issue("cut", f"byte {mark + len(text)}", "the closing ]} is missing", 0)
    return _Document(msgspec.Raw(header[1]), records)


def _begins(text: bytes) -> list[int]:
    """Where the records of a damaged document begin: objects that have a member "record", in whatever order."""
    begins, at, left, view = [], 0, _IN_VAIN + len(text) // 8, memoryview(text)
    while left > 0 and (match := _BEGIN.search(text, at)):
        start = match.start()
        end = object_end(view[start:])
        piece = view[start : start + (end if end > 0 else _LOOKED_AT)]
        key, place = find_key(piece, _KIND) or (b"", 0)
        is_record = bool(key) and _NAME.match(piece, place) is not None
        if is_record:
            begins.append(start)
        at = start + end if end > 0 else match.end()
        if end <= 0:
            left -= (-end // 64 or _DEEP) + (0 if is_record else len(piece))
    return begins


def _read_whole(document: _Document, conversion: Conversion, path: str) -> Iterator[Batch]:
    version: Any = msgspec.json.decode(document.ktrace)
    check_version(version, conversion, path, "$.ktrace")
    report, batches = conversion.report, RecordBatches(conversion)
    for number, record in enumerate(document.records, 1):
        report.record()
        try:
            name = batches.feed(_on_one_line(bytes(record)), f"record {number}")
            report.used(outcome="catalog" if name == "catalog" else None)
        except BadRecord as bad:
            report.issue("bad-record", f"record {number}", str(bad))
        yield from batches.ready()
    yield from batches.rest()


def _on_one_line(record: bytes) -> bytes:
    try:
        return msgspec.json.format(record, indent=-1)
    except RecursionError:
        raise BadRecord("$: is nested too deeply") from None


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
                self._feed(lines, line, byte)
            byte += sum(map(len, lines))

    def _feed(self, lines: list[bytes], first: int, byte: int) -> None:
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
                if self.batches.feed(text, f"line {number}") == "catalog":
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
    match = HEADER.fullmatch(text)
    if not match:
        raise DamagedInput(
            "the header is missing",
            path=path,
            where=where,
            expected='a first line {"ktrace":"1.0"}',
            remedy="if the other lines are intact, put that line before them",
        )
    try:
        version = json.loads(match.group(1))
    except ValueError:
        version = match.group(1).decode(errors="replace")
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
    match = HEADER.fullmatch(text)
    return b'{"ktrace":' + match.group(1) + b"}" if match else text


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
