"""Writes canonical JSON Lines."""

from __future__ import annotations

from ktrace.conversion import Conversion
from ktrace.converters._shared.canonical.encode import encode
from ktrace.model.batch import VERSION, Batch
from ktrace.output.sink import Sink


class Writer:
    """Writes each batch as it comes; with the option `table`, the rows of that record alone."""

    def __init__(self, sink: Sink, conversion: Conversion) -> None:
        self._table = conversion.options.get("table")
        self._stream = sink.open()
        self._stream.write(b'{"ktrace":"%s"}\n' % VERSION.encode())

    def write(self, batch: Batch) -> int:
        """Writes the rows and returns how many it kept."""
        if self._table not in (None, batch.record):
            return 0
        for text in encode(batch):
            self._stream.write(text)
        return len(batch)

    def close(self) -> None:
        """Nothing is left to be written."""
