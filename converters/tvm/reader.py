"""Reads a report of TVM as JSON, or what TVM prints."""

from __future__ import annotations

from collections.abc import Iterator

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.text.json_items import beginning
from ktrace.model.batch import Batch

from .json_reports import read_json
from .text_reports import read_text


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a summary for each call, and the totals."""
    is_json = beginning(source).startswith("{")
    yield from read_json(source, conversion) if is_json else read_text(source, conversion)
