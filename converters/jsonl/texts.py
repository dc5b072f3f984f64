"""Canonical JSON Lines as texts of records, for `ktrace validate`."""

from __future__ import annotations

from collections.abc import Iterator

from ktrace.source import Source
from ktrace.validate import Fault, Text

from .._shared.record_lines import utf8


def texts(source: Source) -> Iterator[Text | Fault]:
    """The header as number 0 and each record with its line; a fault where the header is missing."""
    number, headed = 0, False
    with source.open() as stream:
        for line, raw in enumerate(utf8(stream), 1):
            text = raw.strip()
            if not text:
                continue
            if text.startswith(b'{"ktrace"') or (not headed and b'"ktrace"' in text[:40]):
                yield Text(0, line, text)
            else:
                if not headed:
                    yield Fault(0, "$", 'the first line is no header {"ktrace":"1.0"}', line)
                number += 1
                yield Text(number, line, text)
            headed = True
    if not headed:
        yield Fault(0, "$", "is empty", 1)
