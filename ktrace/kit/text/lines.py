"""Lines of text and their account: each is used, structure, or skipped, with a range of lines in the report."""

from __future__ import annotations

import csv
import io
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from ktrace.byte_account import Owner
from ktrace.conversion import Conversion
from ktrace.input.compression import text_encoding
from ktrace.input.limits import current
from ktrace.input.source import Source
from ktrace.report import Report

#: The most deferred lines whose bytes are remembered. Bytes of further ones count as read.
_MOST_WAITING = 4096


class LineAccount:
    """Reports the outcome of each line. A reader calls `begin` for a line, then one of the methods for its outcome.

    A line without an outcome is skipped as "unrecognised"; adjacent lines that are skipped for the same reason share
    one issue. In the report `place`, such as the name of a file in a folder, precedes the number of a line; `what` is
    the unit that is counted if that isn't lines.

    A reader that states the size of each line in `begin` has its bytes divided alike, in `report.bytes`.
    """

    def __init__(self, report: Report, place: str = "", what: str = "line") -> None:
        self._report = report
        self._place = place
        self._what = what
        self._number = 0
        self._decided = True
        self.owner: Owner = "skipped"  # of the bytes of the current line
        self._deferred = 0
        self._waiting: deque[tuple[int, int, int]] = deque(maxlen=_MOST_WAITING)  # number, first byte, size
        self._byte = self._size = 0
        self._skipping: tuple[str, int, int, str] | None = None  # kind, first, last, detail
        report.at = self.at

    def at(self) -> str:
        """Where the reading is, for an error: the current line, '' before the first one."""
        return f"{self._place}{self._what} {self._number}" if self._number else ""

    def begin(self, number: int, size: int = 0, byte: int | None = None) -> None:
        """Makes a line of `size` bytes the current one. The caller counts it as a record.

        It begins at `byte`, by default where the line before it ends.
        """
        self._settle()
        self._number, self._decided, self.owner = number, False, "skipped"
        self._byte, self._size = self._byte + self._size if byte is None else byte, size
        self._report.bytes.size += size

    def pass_over(self, owner: Owner, size: int) -> None:
        """Accounts for bytes apart from the lines that the reader begins: rows in blocks, a byte order mark."""
        self._settle()
        self._byte, self._size = self._byte + self._size + size, 0
        self._report.bytes.size += size
        self._report.bytes.own(owner, size)

    def finish(self) -> None:
        """Ends the account: there are no more lines."""
        self._settle()
        self._end_skip()

    def used(self, lines: int = 1) -> None:
        """The line became a row. `lines` above 1 includes lines deferred before it."""
        self._decide(lines, "read")
        self._report.used(lines)

    def read(self) -> None:
        """The line has a row that is counted with others, in a block."""
        self._report.bytes.own("read", self._size)
        self._decided, self.owner = True, "read"
        self._end_skip()

    def structure(self, lines: int = 1) -> None:
        """The line is a heading, a rule or blank: it isn't a record."""
        self._decide(lines, "structure")
        self._report.used(lines, outcome="structure")

    def became(self, where: str, lines: int = 1) -> None:
        """The line's content became part of the catalog, or of other rows ("folded")."""
        self._decide(lines, "read")
        self._report.used(lines, outcome=where)

    def defer(self) -> None:
        """Leaves the line undecided: a later `used`, `structure`, `became` or `skip_deferred` includes it."""
        self._report.bytes.own("read", self._size)  # until it is decided
        self._decided = True
        self._deferred += 1
        self._waiting.append((self._number, self._byte, self._size))

    def skip(self, kind: str, detail: str = "") -> None:
        """Leaves the line out and reports an issue of that kind."""
        if not self._decided:
            self._skip_bytes(self._byte, self._size)
        self._decided = True
        self._skip(kind, self._number, self._number, detail)

    def skip_deferred(self, kind: str, first: int, last: int, detail: str = "") -> None:
        """Leaves deferred lines out and reports an issue of that kind."""
        self._deferred -= last - first + 1
        for one in [one for one in self._waiting if first <= one[0] <= last]:
            self._waiting.remove(one)
            self._report.bytes.own("read", -one[2])
            self._skip_bytes(one[1], one[2])
        self._skip(kind, first, last, detail)

    def note(self, kind: str, detail: str) -> None:
        """Reports an issue at the current line that doesn't change its outcome."""
        self._report.issue(kind, self.at(), detail, 0)

    def _decide(self, lines: int, owner: Owner) -> None:
        deferred, size = (lines, 0) if self._decided else (lines - 1, self._size)
        if deferred > self._deferred:
            raise ValueError(f"{lines} lines decided, {self._deferred} were deferred")
        self._deferred -= deferred
        for _ in range(min(deferred, len(self._waiting))):
            waited = self._waiting.popleft()[2]
            self._report.bytes.own("read", -waited)
            size += waited
        self._report.bytes.own(owner, size)
        self._decided = True
        self.owner = owner
        self._end_skip()

    def _settle(self) -> None:
        if not self._decided:
            self._skip_bytes(self._byte, self._size)
            self._skip("unrecognised", self._number, self._number, "")
            self._decided = True

    def _skip_bytes(self, start: int, size: int) -> None:
        self._report.bytes.skip(start, start + size, self._place)

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
            where = f"{self._what} {first}" if first == last else f"{self._what}s {first}-{last}"
            where = f"{self._place}{where}"
            self._report.issue(kind, where, detail, last - first + 1)


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

    def __init__(self, source: Source, conversion: Conversion, place: str = "") -> None:
        super().__init__(conversion.report, place)
        self.path = source.path
        self._byte = source.before[1]
        self._layers: dict[int, int] = {}  # number -> bytes before the text of the line that was read last
        self._coming = _split(source, self._bad_bytes, self._layered)
        self._unread = False
        self._ahead: deque[tuple[int, str, int]] = deque()
        self._line = (0, "", 0)

    def __iter__(self) -> Iterator[Line]:
        self._open(True)
        while self.peek() is not None:
            self._line = number, text, size = self._ahead.popleft()
            self.begin(number, size)
            self._report.record()
            yield Line(number, text)
        self._open(False)
        self.finish()

    def _open(self, unread: bool) -> None:
        """States whether there are lines that weren't read; a reader may iterate several times."""
        self._report.bytes.open += unread - self._unread
        self._unread = unread

    @property
    def is_open(self) -> bool:
        """Whether this line has no line end: it is the last one, and may be cut."""
        number, text, size = self._line
        return len(text.encode()) + self._layers.get(number, 0) >= size

    def peek(self, ahead: int = 1) -> str | None:
        """Returns the text of the line `ahead` lines after this one, None past the end; doesn't count it."""
        while len(self._ahead) < ahead:
            coming = next(self._coming, None)
            if coming is None:
                return None
            self._ahead.append(coming)
        return self._ahead[ahead - 1][1]

    def _layered(self, number: int, size: int) -> None:
        self._layers = {number: size}

    def _bad_bytes(self, number: int) -> None:
        self._report.issue("encoding", f"line {number}")


def _split(
    source: Source, on_bad: Callable[[int], None], on_layers: Callable[[int, int], None]
) -> Iterator[tuple[int, str, int]]:
    """Yields (number from 1, text, number of bytes) of each line, in any encoding and with any line ends."""
    limits = current()
    first = source.before[0] + 1
    layered = source.wrapping if source.wrapping and source.wrapping.layers else None
    with source.open(bare=False) as stream:
        head = stream.peek(4096) if hasattr(stream, "peek") else b""
        encoding = text_encoding(head) or "utf-8"
        if encoding != "utf-8":
            text = io.TextIOWrapper(stream, encoding, errors="replace", newline="")
            for number, line in enumerate(iter(partial(text.readline, limits.line + 1), ""), first):
                limits.check_line(len(line), source.path, number)
                yield number, line.rstrip("\r\n"), len(line.encode())
            return
        most = limits.line
        for number, raw in enumerate(iter(partial(stream.readline, most + 1), b""), first):
            if len(raw) > most:
                limits.check_line(len(raw), source.path, number)
            bare = raw
            if layered:
                bare = layered.bare(raw)
                on_layers(number, len(raw) - len(bare))
            try:
                line = bare.decode()
            except UnicodeDecodeError:
                line = bare.decode(errors="replace")
                on_bad(number)
            yield number, (line.removeprefix("\ufeff") if number == first else line).rstrip("\r\n"), len(raw)


def quoted_cells(line: str, delimiter: str = ",") -> list[str]:
    """Returns the cells of a line of CSV whose cells may be in quotes; none if it can't be split."""
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return []
