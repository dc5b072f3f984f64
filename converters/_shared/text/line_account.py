"""The account of lines of text: each is used, structure, or skipped with a range of lines in the report."""

from __future__ import annotations

from ktrace.report import Report


class LineAccount:
    """What became of each line. A reader opens a line by `begin` and says, before the next one, what became of it.

    One of which nothing was said is skipped as "unrecognised"; neighbours that are skipped for one reason share an
    entry of the report. `place` stands before the number of a line there, such as the name of a file in a folder;
    `what` is counted, where that isn't lines.
    """

    def __init__(self, report: Report, place: str = "", what: str = "line") -> None:
        self._report = report
        self._place = place
        self._what = what
        self._number = 0
        self._decided = True
        self._deferred = 0
        self._skipping: tuple[str, int, int, str] | None = None  # kind, first, last, detail

    def begin(self, number: int) -> None:
        """The line that is decided next; it is counted as a record by the caller."""
        self._settle()
        self._number, self._decided = number, False

    def finish(self) -> None:
        """There are no more lines."""
        self._settle()
        self._end_skip()

    def used(self, lines: int = 1) -> None:
        """The line gave a row. `lines` above 1 counts lines that were deferred before it, too."""
        self._decide(lines)
        self._report.used(lines)

    def structure(self, lines: int = 1) -> None:
        """The line is a heading, a rule, blank: it carries no figures of its own."""
        self._decide(lines)
        self._report.used(lines, outcome="structure")

    def became(self, where: str, lines: int = 1) -> None:
        """The line's content went into the catalog, or was folded into other rows."""
        self._decide(lines)
        self._report.used(lines, outcome=where)

    def defer(self) -> None:
        """Nothing is decided yet: a later `used`, `structure` or `became` counts this line in, or `skip_deferred`."""
        self._decided = True
        self._deferred += 1

    def skip(self, kind: str, detail: str = "") -> None:
        """The line is left out, as an issue of that kind."""
        self._decided = True
        self._skip(kind, self._number, self._number, detail)

    def skip_deferred(self, kind: str, first: int, last: int, detail: str = "") -> None:
        """Deferred lines are left out after all."""
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
