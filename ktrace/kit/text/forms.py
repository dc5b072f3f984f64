"""Formats of text as declarations: the forms of their lines, each a pattern with named groups.

    FORMS = Forms(
        "rocket",
        (" took ",),
        Form("", r"run (?P<name>\\S+):", opens=True),                            a heading: the scope below it
        Form("kernel", r" *(?P<name>\\S+) took (?P<total>[\\d.]+) (?P<unit>[mun]?s)", columns={"device": 0}),
    )
    FORMAT = FORMS.format("rocket", "Rocket: time of stages", "*.log")

Groups have the names of columns: `name`; the figures total, avg, median, min, max, stddev, p95, p99, value;
count and percent; those of places. `unit` is the unit of the figures, `total_unit` that of one. A line with `ts`
is an event. `indent` nests a line in those above it. Groups of other names are arguments. A group that takes no
part says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from ktrace.conversion import Conversion
from ktrace.input.format import Format, Match, Score
from ktrace.input.source import Sample, Source
from ktrace.kit.text.lines import Lines
from ktrace.kit.text.numbers import nanoseconds, number, to_ns
from ktrace.kit.text.titles import likely_lines
from ktrace.kit.text.trees import TimeTree
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

#: Groups that are figures of a summary, in its unit.
FIGURES = ("total", "avg", "median", "min", "max", "stddev", "p95", "p99", "value")

#: Groups that are whole numbers of a row.
_WHOLE = ("count", "device", "stream", "pid", "tid", "bytes", "table")

#: Groups that are texts of a row.
_TEXTS = ("name", "short_name", "layer", "operation", "precision", "library", "run", "track", "cat", "metric")

#: A longer line is none of a form.
_LONGEST = 1 << 14

Columns = dict[str, Any]


@dataclass(frozen=True)
class Form:
    """A form of lines.

    Parameters
    ----------
    kind
        The kind of the row that a line becomes, '' for structure, "fact" for facts of the device or the source.
    pattern
        A regular expression for the whole line, without its end.
    unit
        The unit of figures that state none.
    columns
        Columns that are the same in all rows; "args" are further arguments.
    refine : (columns) -> columns, a list of them, or None
        Changes the columns of a row, where a pattern can't say them; arguments are texts still. A list are the rows of
        a line, none for one that repeats others. None: the line is a bad record. `depth` replaces the indent.
    opens, closes, folds
        A heading: `name` is the scope of the rows below it, its arguments are theirs, and a new table begins. A line
        after which there is no scope. A heading above rows that repeat others.
    within
        It is a form only below a heading.
    carries
        Its groups belong to the row of the next line.
    inner
        The kind of a row that has others nested in it.
    includes
        The `total` of a row includes those nested in it: its own time becomes the row, the whole one a metric.
    sign
        A line of it alone says what the text is.
    """

    kind: str
    pattern: str
    unit: str = ""
    columns: Mapping[str, Any] = field(default_factory=dict)
    refine: Callable[[Columns], Columns | list[Columns] | None] | None = None
    opens: bool = False
    closes: bool = False
    folds: bool = False
    within: bool = False
    carries: bool = False
    inner: str = ""
    includes: bool = False
    sign: bool = True


class Forms:
    """The forms of the lines of a format, the first that fits counts; `tool` is what wrote the text.

    `words` are in lower case; each line of a form that is a sign has one of them.
    """

    def __init__(self, tool: str, words: tuple[str, ...], *forms: Form, facts: Mapping[str, Any] | None = None) -> None:
        self.tool = tool
        self.words = words
        self.facts = dict(facts or {})
        self.forms = [(form, re.compile(form.pattern)) for form in forms]

    def probe(self, sample: Sample) -> Match | None:
        """DIALECT for a line of a form that is a sign."""
        for line, text in likely_lines(sample, self.words):
            for form, pattern in self.forms:
                if form.sign and len(text) <= _LONGEST and pattern.fullmatch(text):
                    return Match(Score.DIALECT, f"has lines of {self.tool} (line {line})")
        return None

    def read(self, source: Source, conversion: Conversion) -> Iterator[Batch]:
        """Yields a row for each line of a form that has a kind."""
        yield from _Reading(self, source, conversion).batches()

    def format(self, name: str, title: str, *patterns: str) -> Format:
        """The format of texts that are read by these forms alone, to be declared as FORMAT beside FORMS."""
        return Format(name, title, patterns, probe=self.probe, read=self.read, words=self.words, prose=True)


class _Reading:
    """The state of reading: the heading above, what a line carries to the next, the rows that are nested."""

    def __init__(self, forms: Forms, source: Source, conversion: Conversion) -> None:
        self._forms = forms
        self._lines, self._rows = Lines(source, conversion), RowBuilder(conversion)
        self._report = conversion.report
        self._scope: list[str] = []
        self._shared: Columns = {}
        self._is_open = self._folds = False
        self._table = -1
        self._carried: Columns = {}
        self._waits = 0
        self._nested: list[tuple[int, str]] = []
        self._pending: tuple[Form, Columns, int] | None = None
        self._tree = TimeTree(self._rows, [])

    def batches(self) -> Iterator[Batch]:
        self._rows.fact("source", facts={"tool": self._forms.tool, **self._forms.facts})
        for line in self._lines:
            if not line.text.strip():
                self._lines.structure()
            elif formed := self._form(line.text):
                self._take(*formed, line.number)
            if self._waits and self._lines.peek() is None:
                self._lines.skip_deferred("cut", self._waits, self._waits, "the line after it is missing")
            yield from self._rows.ready()
        self._flush(None)
        yield from self._rows.rest()

    def _form(self, text: str) -> tuple[Form, re.Match[str]] | None:
        """The form of a line, None if it has none."""
        if len(text) > _LONGEST:
            return None
        for form, pattern in self._forms.forms:
            if (not form.within or self._is_open) and (match := pattern.fullmatch(text)):
                return form, match
        return None

    def _take(self, form: Form, match: re.Match[str], line: int) -> None:
        """Accounts for a line, and adds its row."""
        groups = {name: text.strip() or text for name, text in match.groupdict().items() if text is not None}
        if self._waits and (line != self._waits + 1 or form.carries or not form.kind):
            self._lines.skip_deferred("bad-record", self._waits, self._waits, "no figures follow")
            self._carried, self._waits = {}, 0
        if form.carries:
            self._carried, self._waits = groups, line
            self._lines.defer()
            return
        if form.opens:
            self._flush(None)
            self._is_open, self._folds, self._table = True, form.folds, self._table + 1
            columns = self._columns(form, groups) or {}
            self._scope, self._nested = [groups["name"]] if "name" in groups else [], []
            self._shared = {} if form.kind else {name: _value(value) for name, value in columns.get("args", {}).items()}
        if form.closes:
            self._flush(None)
            self._is_open = self._folds = False
            self._scope, self._shared, self._nested = [], {}, []
        if not form.kind:
            self._lines.structure()
            return
        found_columns = self._columns(form, self._carried | groups)
        refined = form.refine(found_columns) if form.refine and found_columns else found_columns
        if refined is None:
            self._lines.skip("bad-record", "no figures")
            return
        lines = 2 if self._waits else 1
        self._carried, self._waits = {}, 0
        if self._folds or refined == []:
            self._lines.became("folded", lines)
            return
        for row in refined if isinstance(refined, list) else [refined]:
            row["args"] = {name: _value(value) for name, value in row["args"].items()}
            if form.kind == "fact":
                self._fact(row)
            else:
                self._add(form, row, row.pop("depth", len(match.groupdict().get("indent") or "")))
        if form.kind == "fact":
            self._lines.became("catalog", lines)
        else:
            self._lines.used(lines)

    def _columns(self, form: Form, groups: Mapping[str, str]) -> Columns | None:
        """The columns of a line; None where a number isn't one."""
        columns: Columns = {name: value for name, value in form.columns.items() if name != "args"}
        args: Columns = dict(form.columns.get("args", {}))
        common = groups.get("unit", form.unit)
        for name, text in groups.items():
            if name in ("unit", "indent") or name.endswith("_unit") or not text:
                continue
            if name in FIGURES or name in ("ts", "dur"):
                figure = number(text)
                if figure is None or not figure.is_finite():
                    return None
                columns[name] = self._figure(figure, groups.get(f"{name}_unit", common), name in ("ts", "dur"))
                columns |= {} if name in ("ts", "dur") else {"unit": "ns" if _is_time(common) else common or None}
            elif name in _WHOLE or name == "percent":
                figure = number(text)
                if figure is None:
                    return None
                columns[name] = float(figure) if name == "percent" else int(figure)
            elif name in _TEXTS:
                columns[name] = text
            else:
                args[name] = text
        columns["args"] = args
        return columns

    def _figure(self, figure: Decimal, unit: str, is_event: bool) -> int | float:
        """A figure in ns, or in its own unit."""
        if is_event:
            exact, is_exact = to_ns(figure, unit)
            if not is_exact:
                self._report.issue("rounded", self._lines.at())
            return exact
        ns = nanoseconds(figure, unit)
        return float(figure if ns is None else ns)

    def _fact(self, columns: Columns) -> None:
        args = columns.pop("args")
        entity = "device" if "device" in columns else "source"
        name = {"name": columns["name"]} if entity == "device" and "name" in columns else {}
        self._rows.fact(entity, device=columns.get("device"), **name, facts=args or None)

    def _add(self, form: Form, columns: Columns, indent: int) -> None:
        """Adds a row; one that may have others nested in it when the next line is known."""
        columns["args"] = self._shared | columns["args"]
        scope = list(columns.pop("scope", self._scope))
        if form.includes and columns.get("unit") == "ns":
            kind, name, total = columns.pop("kind", form.kind), columns.pop("name", ""), columns.pop("total")
            columns |= {"table": self._table if self._table >= 0 else None, "args": columns.pop("args") or None}
            self._tree.add(indent, kind, name, total, **columns)
            return
        if not form.inner:
            self._flush(None)
            self._row(form.kind, columns, scope)
            return
        self._flush(indent)
        while self._nested and self._nested[-1][0] >= indent:
            self._nested.pop()
        scope += [name for _, name in self._nested]
        self._nested.append((indent, columns["name"]))
        self._pending = (form, columns | {"scope": scope}, indent)

    def _flush(self, indent: int | None) -> None:
        """Adds the row that waits for the next line, which has this indentation; None ends the tree, too."""
        if indent is None:
            self._tree.finish()
        if self._pending:
            form, columns, own_indent = self._pending
            self._pending = None
            is_inner = indent is not None and indent > own_indent
            self._row(form.inner if is_inner else form.kind, columns, columns.pop("scope"))

    def _row(self, kind: str, columns: Columns, scope: list[str]) -> None:
        name = columns.pop("name", "")
        columns["args"] = columns["args"] or None
        if "ts" in columns:
            self._rows.event(columns.pop("kind", kind), name, **columns)
            return
        table = columns.pop("table", self._table if self._table >= 0 else None)
        self._rows.summary(columns.pop("kind", kind), name, scope=scope or None, table=table, **columns)


def _is_time(unit: str) -> bool:
    return nanoseconds(Decimal(1), unit) is not None


def _value(text: object) -> object:
    """An argument: a number where the text is one."""
    if not isinstance(text, str):
        return text
    value = number(text) if text[-1:] != "%" else None
    if value is None or not value.is_finite() or "_" in text:
        return text
    if value == value.to_integral_value() and abs(value) < 1 << 63 and "." not in text and "e" not in text.lower():
        return int(value)
    return float(value)
