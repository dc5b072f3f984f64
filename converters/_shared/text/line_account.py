"""The account of lines of text: each is used, structure, or skipped, with a range of lines in the report."""

from __future__ import annotations

from ktrace.report import Report


class LineAccount:
    """Reports the outcome of each line. A reader calls `begin` for a line, then one of the methods for its outcome.

    A line without an outcome is skipped as "unrecognised"; adjacent lines that are skipped for the same reason share
    one issue. In the report `place`, such as the name of a file in a folder, precedes the number of a line; `what` is
    the unit that is counted if that isn't lines.
    """

    def __init__(self, report: Report, place: str = "", what: str = "line") -> None:
        self._report = report
        self._place = place
        self._what = what
        self._number = 0
        self._decided = True
        self._deferred = 0
        self._skipping: tuple[str, int, int, str] | None = None  # kind, first, last, detail
        report.at = self.at

    def at(self) -> str:
        """Where the reading is, for an error: the current line, '' before the first one."""
        return f"{self._place}{self._what} {self._number}" if self._number else ""

    def begin(self, number: int) -> None:
        """Makes a line the current one. The caller counts it as a record."""
        self._settle()
        self._number, self._decided = number, False

    def finish(self) -> None:
        """Ends the account: there are no more lines."""
        self._settle()
        self._end_skip()

    def used(self, lines: int = 1) -> None:
        """The line became a row. `lines` above 1 includes lines deferred before it."""
        self._decide(lines)
        self._report.used(lines)

    def structure(self, lines: int = 1) -> None:
        """The line is a heading, a rule or blank: it isn't a record."""
        self._decide(lines)
        self._report.used(lines, outcome="structure")

    def became(self, where: str, lines: int = 1) -> None:
        """The line's content became part of the catalog, or of other rows ("folded")."""
        self._decide(lines)
        self._report.used(lines, outcome=where)

    def defer(self) -> None:
        """Leaves the line undecided: a later `used`, `structure`, `became` or `skip_deferred` includes it."""
        self._decided = True
        self._deferred += 1

    def skip(self, kind: str, detail: str = "") -> None:
        """Leaves the line out and reports an issue of that kind."""
        self._decided = True
        self._skip(kind, self._number, self._number, detail)

    def skip_deferred(self, kind: str, first: int, last: int, detail: str = "") -> None:
        """Leaves deferred lines out and reports an issue of that kind."""
        self._deferred -= last - first + 1
        self._skip(kind, first, last, detail)

    def _decide(self, lines: int) -> None:
        deferred = lines if self._decided else lines - 1
        if deferred > self._deferred:
            raise ValueError(f"{lines} lines decided, {self._deferred} were deferred")
        self._deferred -= deferred
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
            where = f"{self._what} {first}" if first == last else f"{self._what}s {first}-{last}"
            where = f"{self._place}{where}"
            self._report.issue(kind, where, detail, last - first + 1)
