"""Readers of text that take one line after the other and remember what was before it."""

from __future__ import annotations

from collections.abc import Iterator

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.text.lines import Line, Lines
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder


class LineReader:
    """The state of reading a text: its fields are what the lines before have said.

    A subclass accounts for each line with `_lines`, and adds rows to `_rows`:

        class _Log(LineReader):
            def take(self, line: Line) -> None:
                if found := _KERNEL.fullmatch(line.text):
                    self._rows.summary("kernel", found[1], count=int(found[2]))
                    self._lines.used()

        FORMAT = Format("rocket", "Rocket", ("*.log",), probe=probe, read=_Log.read)
    """

    def __init__(self, source: Source, conversion: Conversion) -> None:
        self._lines = Lines(source, conversion)
        self._rows = RowBuilder(conversion)
        self._report = conversion.report

    @classmethod
    def read(cls, source: Source, conversion: Conversion) -> Iterator[Batch]:
        """Yields the rows of a text."""
        reading = cls(source, conversion)
        for line in reading._lines:
            reading.take(line)
            yield from reading._rows.ready()
        reading.end()
        yield from reading._rows.rest()

    def take(self, line: Line) -> None:
        """Accounts for a line and adds its rows."""
        raise NotImplementedError

    def end(self) -> None:
        """Adds what waits for the end of the text."""
