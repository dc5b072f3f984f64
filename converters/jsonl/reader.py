"""Reads canonical JSON Lines."""

from __future__ import annotations

from collections.abc import Iterator

from ktrace.conversion import Conversion
from ktrace.converters._shared.canonical.record_lines import read_lines, utf8
from ktrace.input.source import Source
from ktrace.model.batch import Batch


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """The batches of the file, as they were written. Raises DamagedInput without a header, VersionError."""
    with source.open() as stream:
        yield from read_lines(utf8(stream), conversion, source.path)
