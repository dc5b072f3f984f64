"""The canonical JSON forms: records on lines, in JSON Lines or in a JSON document. A document may have any layout.

`Form` contains what differs between the two forms; reading, validating and writing are the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

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
from .record_lines import HEADER, line_texts, read_lines
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
        found = (piece[:end], end, []) if sound else mended_object(piece[:_REPAIRED]) if may_try else None
        if found is None:
            tried += len(piece) + _TRIED
            report.record()
            kind = "cut" if last and not ended else "bad-record"
            report.issue(kind, f"byte {mark + begin}", piece[:60].decode(errors="replace"))
            report.bytes.skip(mark + begin, mark + after)
            report.bytes.size += len(piece)
            continue
        content, end, repairs = found
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
    while left > 0 and (found := _BEGIN.search(text, at)):
        start = found.start()
        end = object_end(view[start:])
        piece = view[start : start + (end if end > 0 else _LOOKED_AT)]
        key, place = find_key(piece, _KIND) or (b"", 0)
        is_record = bool(key) and _NAME.match(piece, place) is not None
        if is_record:
            begins.append(start)
        at = start + end if end > 0 else found.end()
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
            name = batches.take(_on_one_line(bytes(record)), f"record {number}")
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
