"""Lines of text. Each is accounted for: used, structure, or skipped, with a range of lines in the report."""

from __future__ import annotations

import csv
import io
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from ktrace.conversion import Conversion
from ktrace.input.compression import text_encoding
from ktrace.input.limits import current
from ktrace.input.source import Source

from .line_account import LineAccount


@dataclass(frozen=True, slots=True)
class Line:
    """A line: its number from 1, and its text without the line end."""

    number: int
    text: str


class Lines(LineAccount):
    """The lines of a source, each counted in the report before the reader gets it.

    The reader states the outcome of each line. A line without an outcome is skipped as "unrecognised"; adjacent lines
    that are skipped for the same reason share one issue:

        for line in lines:
            if not line.text.strip():
                lines.structure()
            elif parse(line.text):
                lines.used()

    A reader that must look ahead defers a line with `lines.defer()` and decides later: `lines.used(3)` counts this
    line and the two deferred before it.
    """

    def __init__(self, source: Source, conversion: Conversion) -> None:
        super().__init__(conversion.report)
        self.path = source.path
        self._coming = _split(source, self._bad_bytes)
        self._unread = False
        self._ahead: deque[tuple[int, str, int]] = deque()

    def __iter__(self) -> Iterator[Line]:
        self._open(True)
        while self.peek() is not None:
            number, text, size = self._ahead.popleft()
            self.begin(number, size)
            self._report.record()
            yield Line(number, text)
        self._open(False)
        self.finish()

    def _open(self, unread: bool) -> None:
        """States whether there are lines that weren't read; a reader may iterate several times."""
        self._report.bytes.open += unread - self._unread
        self._unread = unread

    def peek(self, ahead: int = 1) -> str | None:
        """Returns the text of the line `ahead` lines after this one, None past the end; doesn't count it."""
        while len(self._ahead) < ahead:
            coming = next(self._coming, None)
            if coming is None:
                return None
            self._ahead.append(coming)
        return self._ahead[ahead - 1][1]

    def _bad_bytes(self, number: int) -> None:
        self._report.issue("encoding", f"line {number}")


def _split(source: Source, on_bad: Callable[[int], None]) -> Iterator[tuple[int, str, int]]:
    """Yields (number from 1, text, number of bytes) of each line, in any encoding and with any line ends."""
    limits = current()
    with source.open() as stream:
        head = stream.peek(4096) if hasattr(stream, "peek") else b""
        encoding = text_encoding(head) or "utf-8"
        if encoding != "utf-8":
            text = io.TextIOWrapper(stream, encoding, errors="replace", newline="")
            for number, line in enumerate(iter(partial(text.readline, limits.line + 1), ""), 1):
                limits.check_line(len(line), source.path, number)
                yield number, line.rstrip("\r\n"), len(line.encode())
            return
        most = limits.line
        for number, raw in enumerate(iter(partial(stream.readline, most + 1), b""), 1):
            if len(raw) > most:
                limits.check_line(len(raw), source.path, number)
            try:
                line = raw.decode()
            except UnicodeDecodeError:
                line = raw.decode(errors="replace")
                on_bad(number)
            yield number, (line.removeprefix("\ufeff") if number == 1 else line).rstrip("\r\n"), len(raw)


def quoted_cells(line: str) -> list[str]:
    """Returns the cells of a line of CSV whose cells may be in quotes; none if it can't be split."""
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        return []
