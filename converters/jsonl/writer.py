"""Writes canonical JSON Lines."""

from __future__ import annotations

from ktrace.conversion import Conversion
from ktrace.converters._shared.canonical.record_forms import JSON_LINES, RecordWriter
from ktrace.output.sink import Sink


class Writer(RecordWriter):
    """Writes each batch as it comes."""

    def __init__(self, sink: Sink, conversion: Conversion) -> None:
        super().__init__(sink, conversion, JSON_LINES)
