"""Lines of text, each of them accounted for: used, structure, or skipped with a range of lines in the report."""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ktrace.conversion import Conversion
from ktrace.source import Source, text_encoding


@dataclass(frozen=True, slots=True)
class Line:
    """A line: its number from 1, and its text without the line end."""

    number: int
    text: str


class Lines:
    """The lines of a source, counted in the report before anybody looks at them.

    A reader says what became of each line; one of which nothing was said is skipped as "unrecognised",
    and neighbours that are skipped for one reason share an entry of the report:

        for line in lines:
            if not line.text.strip():
                lines.structure()
            elif parse(line.text):
                lines.used()

    A reader that must look ahead before it decides holds a line by `lines.hold()`, and says later what became
    of it: `lines.used(3)` counts this line and the two that were held before it.
    """

    def __init__(self, source: Source, conversion: Conversion) -> None:
        self._report = conversion.report
        self._number = 0
        self._decided = True
        self._held = 0
        self._skipping: tuple[str, int, int, str] | None = None  # kind, first, last, detail
        self._coming = _split(source, self._bad_bytes)
        self._ahead: deque[tuple[int, str]] = deque()

    def __iter__(self) -> Iterator[Line]:
        while self.peek() is not None:
            self._settle()
            number, text = self._ahead.popleft()
            self._number, self._decided = number, False
            self._report.record()
            yield Line(number, text)
        self._settle()
        self._end_skip()

    def peek(self, ahead: int = 1) -> str | None:
        """The text of the line that comes `ahead` lines after this one, None past the end; it isn't counted yet."""
        while len(self._ahead) < ahead:
            coming = next(self._coming, None)
            if coming is None:
                return None
            self._ahead.append(coming)
        return self._ahead[ahead - 1][1]

    def used(self, lines: int = 1) -> None:
        """The line gave a row. `lines` above 1 counts lines that were held before it, too."""
        self._decide(lines)
        self._report.used(lines)

    def structure(self, lines: int = 1) -> None:
        """The line is a heading, a rule, blank: it carries no figures of its own."""
        self._decide(lines)
        self._report.used(lines, went="structure")

    def went(self, where: str, lines: int = 1) -> None:
        """The line's content went into the catalog, or was folded into other rows."""
        self._decide(lines)
        self._report.used(lines, went=where)

    def hold(self) -> None:
        """Nothing is decided yet: a later `used`, `structure` or `went` counts this line in, or `skip_held`."""
        self._decided = True
        self._held += 1

    def skip(self, kind: str, detail: str = "") -> None:
        """The line is left out, as an issue of that kind."""
        self._decided = True
        self._skip(kind, self._number, self._number, detail)

    def skip_held(self, kind: str, first: int, last: int, detail: str = "") -> None:
        """Lines that were held are left out after all."""
        self._held -= last - first + 1
        self._skip(kind, first, last, detail)

    def _decide(self, lines: int) -> None:
        held = lines if self._decided else lines - 1
        if held > self._held:
            raise ValueError(f"{lines} lines decided, {self._held} were held")
        self._held -= held
        self._decided = True
        self._end_skip()

    def _settle(self) -> None:
        if not self._decided:
            self._skip("unrecognised", self._number, self._number, "")
            self._decided = True

    def _skip(self, kind: str, first: int, last: int, detail: str) -> None:
        previous = self._skipping
        if previous and previous[0] == kind and previous[3] == detail and previous[2] + 1 == first:
            first = previous[1]
        else:
            self._end_skip()
        self._skipping = (kind, first, last, detail)

    def _end_skip(self) -> None:
        if self._skipping:
            kind, first, last, detail = self._skipping
            self._skipping = None
            where = f"line {first}" if first == last else f"lines {first}-{last}"
            self._report.issue(kind, where, detail, last - first + 1)

    def _bad_bytes(self, number: int) -> None:
        self._report.issue("encoding", f"line {number}")


def _split(source: Source, on_bad: Callable[[int], None]) -> Iterator[tuple[int, str]]:
    """(number from 1, text) of each line, whatever its encoding and line ends."""
    with source.open() as stream:
        head = stream.peek(4096) if hasattr(stream, "peek") else b""
        encoding = text_encoding(head) or "utf-8"
        if encoding != "utf-8":
            text = io.TextIOWrapper(stream, encoding, errors="replace")
            yield from ((number, line.rstrip("\r\n")) for number, line in enumerate(text, 1))
            return
        for number, raw in enumerate(stream, 1):
            try:
                line = raw.decode()
            except UnicodeDecodeError:
                line = raw.decode(errors="replace")
                on_bad(number)
            yield number, (line.removeprefix("\ufeff") if number == 1 else line).rstrip("\r\n")
