"""Turns labelled durations into rows, and counts the lines that have none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.text.headings import is_total
from ktrace.kit.text.lines import Lines
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from . import is_page
from .figures import DEVICE, RULE, Box, Figure, box_of, cells_of, figures_of, indent_of, named_in, says_time_alone

#: Lines of a console that are longer have no durations of interest: they are texts of shaders, images, ...
LONGEST = 1 << 20

#: Lines below one with a name in which its time is looked for.
_MOST_BELOW = 6


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields an event for each duration with a start, else a summary with one occurrence; and the rows of tables."""
    return _Console(source, conversion).read()


class _Console:
    """The state of reading: the open table, and the number of tables."""

    def __init__(self, source: Source, conversion: Conversion) -> None:
        self._lines = Lines(source, conversion)
        self._rows = RowBuilder(conversion)
        self._report = conversion.report
        self._kind = "range" if is_page(source.sample()) else "metric"
        self._box: Box | None = None
        self._tables = 0
        self._above: str | None = None  # what a line above says is timed below
        self._indent = self._named = 0  # of that line: its blanks, its number

    def read(self) -> Iterator[Batch]:
        self._rows.tool_and_clock("console", "page")
        for line in self._lines:
            if not line.text.strip() or RULE.fullmatch(line.text):
                self._lines.structure()
            elif not self._take_row(line.text):
                self._take_line(line.number, line.text)
            yield from self._rows.ready()
        yield from self._rows.rest()

    def _take_row(self, text: str) -> bool:
        """Reads a line of a table; returns False for any other line."""
        peeked = self._lines.peek() or ""
        below = (self._lines.peek(2) or "") if RULE.fullmatch(peeked) else peeked
        if box := box_of(text, below):
            self._box = box
            self._tables += box.fields is not None
            self._lines.structure()
            return True
        if self._box is None or (cells := cells_of(text)) is None or len(cells) != len(self._box.headings):
            self._box = None
            return False
        row = self._box.row(text)
        if row:
            name, figures = row
            on_device = any(DEVICE.search(head.text) for head in self._box.headings)
            kind = "total" if is_total(name) else "kernel" if on_device else "range"
            place: dict[str, Any] = {"table": self._tables - 1, "scope": ["console.table"]}
            if on_device:
                place["device"] = 0
            self._rows.summary(kind, name, args=figures.args, **place, **figures.columns)
            self._lines.used()
        return row is not None

    def _take_line(self, number: int, text: str) -> None:
        """Reads the durations of a line; without any, the line stays unrecognised."""
        figures = figures_of(text) if len(text) <= LONGEST else []
        if not figures:
            self._take_name(number, text)
            return
        if self._above and self._is_of_above(number, text, figures):
            figures[0].name = self._above
        else:
            self._above = None
        if any(figure.dur < 0 for figure in figures):
            self._lines.skip("negative-duration", f"{min(figure.dur for figure in figures)} ns")
            return
        for figure in figures:
            self._add(figure)
            if figure.without:
                detail = f"{figure.without} members of a list without a duration"
                self._report.issue("unknown-kind", f"line {number}", detail, 0)
            if figure.is_rounded:
                self._report.issue("rounded", f"line {number}")
        self._lines.used()

    def _is_of_above(self, number: int, text: str, figures: list[Figure]) -> bool:
        """Whether the time of a line is of what one above names: the first one, those further indented, statistics."""
        is_near = number == self._named + 1 or indent_of(text) > self._indent or figures[0].statistics
        name = figures[0].name
        return bool(len(figures) == 1 and is_near and says_time_alone(name) and not is_total(name))

    def _take_name(self, number: int, text: str) -> None:
        """Keeps what a line names, if below it, right there or further indented, is a time without a name.

        Lines without a time that are indented below it are of the same thing; any other one ends it.
        """
        if self._above and indent_of(text) > self._indent:
            return
        self._above, self._indent, self._named = None, indent_of(text), number
        below = self._lines.peek() or ""
        name = named_in(text, below) if len(text) <= LONGEST else None
        ahead = 1
        while name and ahead < _MOST_BELOW and indent_of(below) > self._indent and not figures_of(below):
            ahead += 1
            below = self._lines.peek(ahead) or ""
        if name and len(found := figures_of(below)) == 1 and says_time_alone(found[0].name):
            self._above = name
            self._lines.structure()

    def _add(self, figure: Figure) -> None:
        total = is_total(figure.name)
        kind = "kernel" if figure.on_device else self._kind
        columns: dict[str, Any] = {"args": figure.args, **figure.columns}
        if figure.on_device:
            columns["device"] = 0
        if figure.interval and not total:
            start, dur = figure.interval
            track = None if figure.on_device else figure.tag or "console"
            self._rows.event(kind, figure.name, ts=start, dur=dur, cat=figure.tag, track=track, **columns)
            return
        columns |= {"scope": [figure.tag]} if figure.tag else {}
        if figure.statistics:
            self._rows.summary("metric", figure.name, unit="ns", **(columns | figure.statistics))
            return
        if not total and kind != "metric":
            columns["count"] = 1
        self._rows.summary("total" if total else kind, figure.name, unit="ns", total=float(figure.dur), **columns)
