"""Reads a canonical JSON document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec

from ktrace.conversion import Conversion
from ktrace.converters._shared.canonical.record_lines import HEADER, read_lines, utf8
from ktrace.converters._shared.canonical.records import BadRecord, Records, check_version
from ktrace.errors import DamagedInput
from ktrace.input.source import Source
from ktrace.model.batch import Batch


class _Document(msgspec.Struct):
    ktrace: Any
    records: list[msgspec.Raw]


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """The batches of the document: as a stream where it has a record a line, else decoded whole.

    Raises DamagedInput for a document that is no JSON or has no "ktrace" and "records", VersionError.
    """
    with source.open() as raw:
        stream = utf8(raw)
        first = stream.readline()
        if first.rstrip().endswith(b"[") and HEADER.fullmatch(first):
            yield from read_lines(_Again(first, stream), conversion, source.path, document=True)
        else:
            yield from _read_whole(first + stream.read(), conversion, source.path)


class _Again:
    """A stream whose first line was read already."""

    def __init__(self, first: bytes, rest: BinaryIO) -> None:
        self._first = first
        self._rest = rest

    def readline(self) -> bytes:
        first, self._first = self._first, b""
        return first or self._rest.readline()

    def read(self, size: int = -1, /) -> bytes:
        first, self._first = self._first, b""
        return first or self._rest.read(size)


def _read_whole(text: bytes, conversion: Conversion, path: str) -> Iterator[Batch]:
    try:
        document = msgspec.json.decode(text, type=_Document)
    except (msgspec.DecodeError, RecursionError) as error:
        raise DamagedInput(
            f"is no whole canonical document: {error}",
            path=path,
            expected='{"ktrace": "1.0", "records": [...]}',
            remedy="if it was cut off, export it anew; as .jsonl what is whole could be read",
        ) from None
    check_version(document.ktrace, conversion, path, "$.ktrace")
    report, records = conversion.report, Records(conversion)
    for number, record in enumerate(document.records, 1):
        report.record()
        try:
            went = records.take(_on_one_line(bytes(record)), f"record {number}")
            report.used(outcome="catalog" if went == "catalog" else None)
        except BadRecord as bad:
            report.issue("bad-record", f"record {number}", str(bad))
        yield from records.ready()
    yield from records.rest()


def _on_one_line(record: bytes) -> bytes:
    try:
        return msgspec.json.format(record, indent=-1)
    except RecursionError:
        raise BadRecord("$: is nested too deep") from None
