"""Turns labelled durations into rows, and counts the lines that have none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.text.headings import is_total
from ktrace.kit.text.lines import Lines
from ktrace.kit.text.titles import is_compared, title_of
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from . import DRAWN, are_stamps, is_page
from .above import UnitAbove, joined
from .boxes import RULE, Box, box_of, cells_of
from .durations import Figure
from .figures import (
    BANNER,
    PROMPT,
    SETTING,
    below_names,
    figures_of,
    form_of,
    indent_of,
    is_heading_of_block,
    is_time_alone,
    named_in,
    recurring,
    says_setting,
    says_time_alone,
)
from .members import DEVICE

#: Lines of a console that are longer have no durations of interest: they are texts of shaders, images, ...
LONGEST = 1 << 20

#: Lines of a text that are examined for settings which recur.
_EXAMINED = 2000

#: Lines below one with a name in which its time is looked for; characters of a name that is a whole line.
_MOST_BELOW = 6
_LONGEST_NAME = 200


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields an event for each duration with a start, else a summary with one occurrence; and the rows of tables."""
    return _Console(source, conversion).read()


_UNDERLINE = re.compile(r"\s{0,9}(?:={3,200}|-{3,200})\s{0,9}")


#: What a tool prints between a prompt and its figures.
_OF_TOOL = re.compile(r"BenchmarkTools\.Trial\b")


class _Settings:
    """The settings that stand above lines which are further indented, and the banner above all of these."""

    def __init__(self, recurring: AbstractSet[str]) -> None:
        self._recurring = recurring
        self._banner: list[str] = []
        self._said: dict[str, str] = {}  # first word, or form -> a line that says what runs
        self._above: list[tuple[int, str]] = []

    def take(self, text: str, *, is_heading: bool) -> None:
        """Takes a line without a time; a heading has a line drawn below it."""
        indent = indent_of(text)
        while self._above and self._above[-1][0] >= indent:
            self._above.pop()
        if title := title_of(0, text):
            self._banner, self._above = [title.text], []
        elif banner := BANNER.fullmatch(text.strip()):
            self._banner, self._above, self._said = [banner["words"]], [], {}
        elif is_heading and text.strip().endswith(":"):
            self._banner, self._above = [text.strip().rstrip(":").rstrip()], []
        elif word := says_setting(text) or (form if (form := form_of(text)) in self._recurring else ""):
            self._said = {key: said for key, said in self._said.items() if key != word} | {word: text.strip(" .")}
        elif SETTING.fullmatch(text):
            self._above.append((indent, text.strip().rstrip(":")))

    def scope(self, indent: int) -> list[str]:
        """What a line with this indentation is below."""
        return [*self._banner, *self._said.values(), *(text for depth, text in self._above if depth + 1 < indent)]


class _Console:
    """The state of reading: the open table, and the number of tables."""

    def __init__(self, source: Source, conversion: Conversion) -> None:
        self._lines = Lines(source, conversion)
        self._rows = RowBuilder(conversion)
        self._report = conversion.report
        self._kind = "range" if is_page(source.sample()) else "metric"
        self._box: Box | None = None
        self._tables = 0
        self._has_stamps = are_stamps(source.sample())
        self._settings = _Settings(recurring(source.sample().lines[:_EXAMINED]))
        self._headed = below_names(source.sample().lines[:_EXAMINED])
        self._unit = UnitAbove()
        self._held: tuple[Figure, list[str]] | None = None  # statistics to which lines below may add some
        self._labelled = ""  # the label of a time that stands in the line below it
        self._is_prompt = False  # whether a prompt named it
        self._is_banner = False  # whether a title did
        self._above: str | None = None  # what a line above says is timed below
        self._indent = self._named = 0  # of that line: its blanks, its number

    def read(self) -> Iterator[Batch]:
        self._rows.tool_and_clock("console", "page")
        within = 0  # lines of an object that was read
        for line in self._lines:
            text = self._unit.take(line.text)
            if within or not text.strip() or RULE.fullmatch(text) or DRAWN.fullmatch(text):
                within -= within > 0
                self._lines.structure()
                continue
            whole, below = joined(text, self._lines.peek)
            if below and figures_of(whole):
                text, within = whole, below
            if not self._take_row(text):
                self._take_line(line.number, text)
            yield from self._rows.ready()
        self._release()
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
            self._release()
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
        figures = self._figures(text) if len(text) <= LONGEST else []
        if not figures or not (figures[0].name or self._above):
            if self._unit.is_open:
                self._lines.structure()
            else:
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
            self._hold(figure, self._settings.scope(indent_of(text)))
            if figure.without:
                detail = f"{figure.without} members of a list without a duration"
                self._report.issue("unknown-kind", f"line {number}", detail, 0)
            if figure.is_rounded:
                self._report.issue("rounded", f"line {number}")
        self._lines.used()

    def _figures(self, text: str) -> list[Figure]:
        """The durations of a line, or of one that is a time alone with the label before it."""
        if self._labelled and is_time_alone(text):
            return figures_of(f"{self._labelled} {text.strip()}")
        figures = figures_of(text)
        return [] if self._has_stamps and figures and figures[0].is_first else figures

    def _is_of_above(self, number: int, text: str, figures: list[Figure]) -> bool:
        """Whether the time of a line is of what one above names: the first one, those further indented, statistics."""
        if (
            self._is_banner
            and not figures[0].statistics
            and (below := figures_of(self._lines.peek() or ""))
            and below[0].name
        ):
            return False  # a title of several times
        is_near = number == self._named + 1 or indent_of(text) > self._indent or figures[0].statistics
        name = figures[0].name
        return bool(len(figures) == 1 and is_near and (not name or (says_time_alone(name) and not is_total(name))))

    def _take_name(self, number: int, text: str) -> None:
        """Keeps what a line names, if below it, right there or further indented, is a time without a name.

        Lines without a time that are indented below it are of the same thing; any other one ends it.
        """
        peeked = self._lines.peek() or ""
        is_heading = _UNDERLINE.fullmatch(peeked) is not None or (
            is_heading_of_block(text) and bool(figures_of(peeked))
        )
        self._settings.take(text, is_heading=is_heading or is_compared(text))
        if self._is_prompt and _OF_TOOL.match(text):
            self._lines.structure()
            return
        self._is_prompt = False
        if self._above and indent_of(text) > self._indent:
            return
        self._above, self._labelled, self._indent, self._named = None, "", indent_of(text), number
        self._is_banner = text.lstrip()[:1] in ("=", "-", "*", "#")
        if prompt := PROMPT.fullmatch(text.strip()):
            self._above, self._is_prompt = prompt["name"].strip()[:_LONGEST_NAME], True
            self._lines.structure()
            return
        ahead = next((ahead for ahead in range(1, _MOST_BELOW) if self._has_words(ahead)), 1)
        below = self._lines.peek(ahead) or ""
        if is_time_alone(below) and text.rstrip().endswith(":"):
            self._labelled = text.strip()
            self._lines.structure()
            return
        name = named_in(text, below) if len(text) <= LONGEST else None
        while name and ahead < _MOST_BELOW and indent_of(below) > self._indent and not figures_of(below):
            ahead += 1
            below = self._lines.peek(ahead) or ""
        figures = figures_of(below)
        if figures and (not figures[0].name or figures[0].name in self._headed):
            name = name or text.strip()[:_LONGEST_NAME] or None
        if name and len(figures) == 1 and (not figures[0].name or says_time_alone(figures[0].name)):
            self._above = name
            self._named += ahead - 1 if self._is_drawn(ahead - 1) else 0
            self._lines.structure()

    def _has_words(self, ahead: int) -> bool:
        """Whether the line so many below is neither blank nor drawn."""
        text = self._lines.peek(ahead) or ""
        return bool(text.strip()) and not DRAWN.fullmatch(text)

    def _is_drawn(self, lines: int) -> bool:
        """Whether so many lines below are all drawn."""
        return all(DRAWN.fullmatch(self._lines.peek(ahead) or "") for ahead in range(1, lines + 1))

    def _hold(self, figure: Figure, settings: list[str]) -> None:
        """Adds a figure, and statistics of what a line above names once all of them are known: they are one row."""
        held = self._held
        is_one = bool(figure.statistics and figure.name == self._above)
        is_same = held is not None and is_one and held[0].name == figure.name and held[1] == settings
        if held and is_same and held[0].statistics.keys().isdisjoint(figure.statistics):
            held[0].statistics |= figure.statistics
            held[0].args |= {key: value for key, value in figure.args.items() if key not in held[0].args}
            return
        self._release()
        if is_one:
            self._held = figure, settings
        else:
            self._add(figure, settings)

    def _release(self) -> None:
        """Adds the statistics that were held."""
        if self._held:
            held, self._held = self._held, None
            self._add(*held)

    def _add(self, figure: Figure, settings: list[str]) -> None:
        total = is_total(figure.name)
        kind = "kernel" if figure.on_device else "op" if figure.is_op and self._kind == "metric" else self._kind
        columns: dict[str, Any] = {"args": figure.args, **figure.columns}
        if figure.on_device:
            columns["device"] = 0
        if figure.interval and not total:
            start, dur = figure.interval
            track = None if figure.on_device else figure.tag or "console"
            self._rows.event(kind, figure.name, ts=start, dur=dur, cat=figure.tag, track=track, **columns)
            return
        scope = [*([figure.tag] if figure.tag else settings), *figure.scope]
        columns |= {"scope": scope} if scope else {}
        if figure.statistics:
            kind = "total" if total else kind if figure.adds_up else "metric"
            self._rows.summary(kind, figure.name, unit="ns", **(columns | figure.statistics))
            return
        if not total and kind != "metric":
            columns.setdefault("count", 1)
        self._rows.summary("total" if total else kind, figure.name, unit="ns", total=float(figure.dur), **columns)
