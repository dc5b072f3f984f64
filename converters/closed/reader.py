"""Refuses with the vendor's export command, where somebody insists with --from closed."""

from __future__ import annotations

from collections.abc import Iterator

from ktrace.conversion import Conversion
from ktrace.errors import ClosedFormat
from ktrace.input.source import Source
from ktrace.model.batch import Batch

from .probe import probe


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Raises ClosedFormat."""
    match = probe(source.sample())
    raise ClosedFormat(
        match.reason if match else "is none of the closed formats that ktrace knows",
        path=source.path,
        remedy=match.remedy if match else "leave out --from closed",
    )
