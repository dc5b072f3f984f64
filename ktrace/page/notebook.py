"""What a notebook shows of a summary and of a comparison: the main figures, and charts of the page."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from ktrace.analysis.summary.summary import Summary
from ktrace.errors import UsageError
from ktrace.page import diff_page, summary_page
from ktrace.page.blocks import KeyFigure, Section, tag
from ktrace.page.drawing import Drawing
from ktrace.tables.figures import harmless, shortened

#: The charts that are drawn without a name, the first of each row that are there.
_MAIN = (("devices",), ("operations", "kernels"))

#: Sentences that are shown, and characters of a source's name.
_NOTES, _NAME = 3, 60


def plotted(subject: Any, chart: str | None) -> Drawing:
    """The charts of a `Summary` or `Diff`. Raises UsageError where there is no such chart."""
    sections = {section.anchor: section for section in _sections(subject)}
    if chart is not None and chart not in sections:
        raise UsageError(f"there is no chart '{chart}'", expected=", ".join(sections) or "figures to draw")
    if chart is not None:
        return Drawing([sections[chart]], _title(subject))
    main = [next((name for name in names if name in sections), None) for names in _MAIN]
    names = [name for name in main if name] if isinstance(subject, Summary) else [*sections][:1]
    return Drawing([sections[name] for name in names or [*sections][:1]], _title(subject))


def html(subject: Any) -> str:
    """The sentences and figures at the head of the page, and the main charts."""
    is_summary = isinstance(subject, Summary)
    figures = summary_page.key_figures(subject) if is_summary else diff_page.key_figures(subject)
    sentences = [*subject.verdict, *subject.notes][:_NOTES]
    lines = [tag("div", sentence, style="opacity:.75") for sentence in sentences]
    drawing = plotted(subject, None)
    return str(tag("div", tag("b", _title(subject)), _table(figures), lines, Markup(drawing._repr_html_())))


def _sections(subject: Any) -> list[Section]:
    return summary_page.charts(subject) if isinstance(subject, Summary) else diff_page.charts(subject)


def _title(subject: Any) -> str:
    if isinstance(subject, Summary):
        more = len(subject.sources) - 1
        names = harmless(subject.sources[0]) if subject.sources else "nothing"
        return f"Where the time went: {shortened(names, _NAME)}" + (f" and {more:,} more" if more > 0 else "")
    a, b = (shortened(harmless(name), _NAME) for name in (subject.name_a, subject.name_b))
    return f"What changed: {a} to {b}"


def _table(figures: list[KeyFigure]) -> Markup:
    """The figures next to each other: the name, the figure, what explains it."""
    cells = []
    for name, figure, detail in figures:
        words = [tag("div", name), tag("b", figure, style="font-size:1.3em"), tag("div", detail, style="opacity:.7")]
        cells.append(tag("td", words, style="text-align:left;vertical-align:top;padding:.3em 1em .3em 0"))
    return tag("table", tag("tr", cells))
