"""Refuses the input and names the vendor's export command, for `--from closed`."""

from __future__ import annotations

from collections.abc import Iterator

from ktrace.conversion import Conversion
from ktrace.errors import ClosedFormat
from ktrace.input.source import Source
from ktrace.model.batch import Batch

from . import probe


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Always raises ClosedFormat."""
    match = probe(source.sample())
    raise ClosedFormat(
        match.reason if match else "isn't one of the closed formats that ktrace knows",
        path=source.path,
        remedy=match.remedy if match else "leave out --from closed",
    )
