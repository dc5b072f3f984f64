"""Canonical JSON Lines as texts of records, for `ktrace validate`."""

from __future__ import annotations

from collections.abc import Iterator

from ktrace.converters._shared.canonical.record_lines import CHUNK, utf8
from ktrace.input.source import Source
from ktrace.model.record_texts import Fault, RecordRun


def texts(source: Source) -> Iterator[RecordRun | Fault]:
    """The header as number 0 and the records with their lines; a fault where the header is missing."""
    line, number, headed = 1, 1, False
    with source.open() as raw:
        stream = utf8(raw)
        while chunk := stream.readlines(CHUNK):
            for part in _between_headers(chunk):
                first = part[0].strip()
                if first.startswith(b'{"ktrace"') or (not headed and b'"ktrace"' in first[:40]):
                    yield RecordRun(0, line, part)
                    headed = True
                elif first:
                    if not headed:
                        yield Fault(0, "$", 'the first line is no header {"ktrace":"1.0"}', line)
                        headed = True
                    yield RecordRun(number, line, part)
                    number += len(part)
                line += len(part)
    if not headed:
        yield Fault(0, "$", "is empty", 1)


def _between_headers(lines: list[bytes]) -> Iterator[list[bytes]]:
    """Runs of lines that are records; a header and a blank line stand alone."""
    alone = [index for index, line in enumerate(lines) if b'"ktrace"' in line[:40] or not line.strip()]
    start = 0
    for index in alone:
        if index > start:
            yield lines[start:index]
        yield lines[index : index + 1]
        start = index + 1
    if start < len(lines):
        yield lines[start:]
