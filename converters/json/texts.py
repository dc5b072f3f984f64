"""A canonical JSON document as texts of records, for `ktrace validate`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import msgspec

from ktrace.converters._shared.canonical.record_lines import CLOSING, HEADER, utf8
from ktrace.input.source import Source
from ktrace.model.record_texts import Fault, RecordRun


class _Document(msgspec.Struct):
    ktrace: msgspec.Raw
    records: list[msgspec.Raw]


def texts(source: Source) -> Iterator[RecordRun | Fault]:
    """The header as number 0 and each record, with its line where it has one of its own."""
    with source.open() as raw:
        stream = utf8(raw)
        first = stream.readline()
        if first.rstrip().endswith(b"[") and (header := HEADER.fullmatch(first)):
            yield RecordRun(0, 1, [b'{"ktrace":' + header.group(1) + b"}"])
            yield from _lines(stream)
        else:
            yield from _whole(first + stream.read())


def _lines(stream: BinaryIO) -> Iterator[RecordRun | Fault]:
    number, comma, closed = 0, True, False
    for line, raw in enumerate(stream, 2):
        text = raw.strip()
        if closed and text:
            yield Fault(number, "$", "something follows the closing ]}", line)
        elif CLOSING.fullmatch(text):
            closed = True
            if comma and number:
                yield Fault(number, "$", "a comma follows the last record", line - 1)
        elif text:
            if not comma:
                yield Fault(number, "$", "no comma follows the record", line - 1)
            comma = text.endswith(b",")
            number += 1
            yield RecordRun(number, line, [text[:-1] if comma else text])
    if not closed:
        yield Fault(number, "$", "the closing ]} is missing")


def _whole(text: bytes) -> Iterator[RecordRun | Fault]:
    try:
        document = msgspec.json.decode(text, type=_Document)
    except (msgspec.DecodeError, RecursionError) as error:
        yield Fault(0, "$", f"is no whole canonical document: {error}")
        return
    yield RecordRun(0, None, [b'{"ktrace":' + bytes(document.ktrace) + b"}"])
    yield RecordRun(1, None, list(map(bytes, document.records)))
