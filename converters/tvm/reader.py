"""Reads a report of TVM as JSON, or what TVM prints."""

from __future__ import annotations

from collections.abc import Iterator

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.model.batch import Batch

from .json_reports import read_json
from .text_reports import read_text


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a summary for each call, and the totals."""
    with source.open(quiet=True) as stream:
        begin = stream.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    yield from read_json(source, conversion) if begin == b"{" else read_text(source, conversion)
