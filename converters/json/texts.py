"""The records of a canonical JSON document as texts, for `ktrace validate`."""

from __future__ import annotations

from collections.abc import Iterator

from ktrace.converters._shared.canonical.record_forms import DOCUMENT, record_texts
from ktrace.input.source import Source
from ktrace.model.record_texts import Fault, RecordRun


def texts(source: Source) -> Iterator[RecordRun | Fault]:
    """Yields the header as number 0 and the records with their lines; faults where the layout is wrong."""
    return record_texts(source, DOCUMENT)
