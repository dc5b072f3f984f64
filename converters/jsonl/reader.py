"""Reads canonical JSON Lines."""

from __future__ import annotations

from collections.abc import Iterator

from ktrace.conversion import Conversion
from ktrace.converters._shared.canonical.record_forms import JSON_LINES, read_records
from ktrace.input.source import Source
from ktrace.model.batch import Batch


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the batches of the file. Raises DamagedInput without a header, VersionError."""
    return read_records(source, conversion, JSON_LINES)
