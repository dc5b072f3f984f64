"""Charts of a page as one SVG that needs no page: for a file, a slide, and a notebook, which also shows main figures.

    Section ──► By operation
                gemm        ████████          26.8%  250 us
                collective  ██████            23.2%  216 us

The charts are those of the page, placed next to their names and figures. A notebook shows it as an image.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from ktrace.analysis.answers.summary.summary import Summary
from ktrace.errors import OutputError, UsageError
from ktrace.naming.alike import did_you_mean
from ktrace.page import diff_page, summary_page
from ktrace.page.blocks import BarRow, Bars, Legend, Lists, Plot, Section, bounded, tag
from ktrace.tables import escape_controls, shortened

#: Sizes in pixels: the whole, the space of names, of figures, of a second chart, between columns, of a line.
WIDTH, _NAME, _FIGURE, _SECOND, _GAP, _LINE = 760, 230, 130, 170, 12, 20

#: The height of a chart of columns, and the space for its axis.
_PLOT, _AXIS = 190, 62

#: Pixels of a character, about: of words, and of the wider names of kernels.
_CHARACTER, _WIDE = 6.6, 7.2

#: Rows of a list of bars that are drawn.
_ROWS = 12

#: Class of the page -> the name of its colour there.
_FILLS = {
    **{f"k{number}": f"k{number}" for number in range(1, 7)},
    **{"compute": "k1", "communication": "communication", "copies": "copies", "other": "rest", "idle": "idle"},
    **{"before": "rest", "after": "k1", "more": "more", "less": "less", "unclear": "unclear", "mound": "k1"},
}

#: Selectors of further rules, and what they set.
_RULES = {
    ".overlapped": "fill:url(#ktrace-overlapped)",
    ".unsure,.mound": "opacity:.55",
    ".cover": "fill:transparent",
    ".grid": "stroke:currentColor;opacity:.15",
    "line.axis,.median,line.mark,.p95,.reach": "stroke:currentColor",
    ".p95": "fill:none",
    ".most": "stroke-width:5;opacity:.6",
    "rect.mark": "fill:currentColor",
    "text": "fill:currentColor",
    ".soft,.tick": "opacity:.7",
    ".tick": "font-size:11px",
}


_IMAGE = Markup('<img alt="{}" width="{}" style="max-width:100%" src="data:image/svg+xml;base64,{}"/>')


class Picture(NamedTuple):
    """A part of a drawing, and its height in pixels."""

    markup: Markup
    height: float


class Drawing:
    """An SVG. A notebook shows it; `svg` is its text."""

    def __init__(self, sections: Sequence[Section | Picture], title: str) -> None:
        self._sections, self._title = sections, title

    @property
    def svg(self) -> str:
        """The drawing with a white ground, as a document of its own."""
        return str(drawn(self._sections, self._title))

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        """The drawing as an image: Jupyter takes the elements of SVG out of a notebook that it doesn't trust yet."""
        data = base64.b64encode(self.svg.encode()).decode()
        return str(_IMAGE.format(bounded(self._title), WIDTH, data))

    def __repr__(self) -> str:
        return f"<Drawing {self._title}>"

    def save(self, path: str | Path) -> None:
        """Writes the SVG to a file; one that exists is replaced. Raises OutputError."""
        try:
            Path(path).write_text(f"{self.svg}\n", "utf-8")
        except OSError as error:
            raise OutputError(f"can't be written: {error.strerror}", path=str(path)) from None


def drawn(sections: Sequence[Section | Picture], title: str) -> Markup:
    """The SVG."""
    parts, y = [], 0.0
    for section in sections:
        part, height = section if isinstance(section, Picture) else _section(section)
        parts.append(tag("svg", part, x="0", y=f"{y:g}", width="100%", height=f"{height:g}", overflow="visible"))
        y += height + 10
    inside = Markup("").join(map(Markup, parts))
    used = {word for words in re.findall(r' class="([^"]*)"', inside) for word in words.split()}
    pattern = [tag("defs", Markup(_PATTERN))] if "overlapped" in used else []
    return tag(
        "svg",
        tag("title", title),
        tag("style", Markup(_style(used | ({"compute", "communication"} if pattern else set())))),
        pattern,
        tag("rect", x=-8, y=-4, width="110%", height="110%", fill="#ffffff"),
        inside,
        xmlns="http://www.w3.org/2000/svg",
        class_="ktrace",
        viewBox=f"-8 -4 {WIDTH + 16} {y + 4:g}",
        width=WIDTH,
        height=f"{y:g}",
        style="color:#171b21;max-width:100%;height:auto;font:12px system-ui,sans-serif",
    )


_PATTERN = (
    '<pattern id="ktrace-overlapped" width="6" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect class="compute" width="8" height="8"/><rect class="communication" width="3" height="8"/></pattern>'
)


def _style(used: set[str]) -> str:
    """The rules of these classes; they hold inside of drawings alone."""
    rules = []
    for selectors, body in _rules():
        used_selectors = [one for one in selectors.split(",") if one.rpartition(".")[2] in {"text", *used}]
        if used_selectors:
            rules.append(f"{','.join(f'.ktrace {one}' for one in used_selectors)}{{{body}}}")
    return "".join(rules)


@cache
def _rules() -> list[tuple[str, str]]:
    """Selectors and declarations of a style sheet, with the light colours of the page."""
    css = resources.files(__package__).joinpath("page.css").read_text("utf-8")
    colours = dict(re.findall(r"(?<![\w-])--([\w-]+): (#\w+);", css.partition("}")[0]))
    fills = [(f".{name}", f"fill:{colours[colour]}") for name, colour in _FILLS.items()]
    return [*fills, (".most", f"stroke:{colours['k1']}"), *_RULES.items()]


def _section(section: Section) -> tuple[Markup, float]:
    """A part of the page, and its height."""
    drawn: list[object] = [_text(section.title, 0, 14, font_weight="600", font_size="14")]
    y = 24.0
    for block in section.blocks:
        for part, height in _block(block):
            drawn.append(tag("g", part, transform=f"translate(0 {y:g})"))
            y += height
    return Markup("").join(map(Markup, drawn)), y


def _block(block: Bars | Legend | Plot | Lists) -> list[tuple[Markup, float]]:
    if isinstance(block, Bars):
        return _bars(block)
    if isinstance(block, Legend):
        return [legend(block)]
    if isinstance(block, Plot):
        chart = tag("svg", block.chart, x=_AXIS, y=4, width=WIDTH - _AXIS, height=_PLOT, overflow="visible")
        first = _text(shortened(block.first, 50), _AXIS, _PLOT + 20, class_="soft")
        last = _text(shortened(block.last, 50), WIDTH, _PLOT + 20, class_="soft", text_anchor="end")
        return [(first + chart + last, _PLOT + 28.0)]
    return [
        part for title, bars in block.lists for part in [(_text(title, 0, 14, font_weight="600"), 20.0), *_bars(bars)]
    ]


def _bars(bars: Bars) -> list[tuple[Markup, float]]:
    second = _SECOND if any(row.second is not None for row in bars.rows) else 0
    shown = [_row(row, second) for row in bars.rows[:_ROWS]]
    if more := len(bars.rows) - len(shown):
        shown.append((_text(f"{more:,} more", 0, 14, class_="soft"), float(_LINE)))
    if bars.head is not None and second:
        x = WIDTH - second
        shown.insert(0, (tag("svg", bars.head, x=x, width=second, height=16, overflow="visible"), float(_LINE)))
    return shown


def _row(row: BarRow, second: int) -> tuple[Markup, float]:
    name = f"{row.name.begin}{row.name.end}" + "".join(f" [{word}]" for word in row.name.tags)
    label = tag("text", tag("title", row.name.title), shortened(name, int(_NAME / _WIDE)), x=0, y=14)
    parts: list[object] = [tag("svg", label, width=_NAME, height=_LINE)]
    width = WIDTH - _NAME - _FIGURE - 2 * _GAP - (second + _GAP if second else 0)
    if row.chart is not None:
        parts.append(tag("svg", row.chart, x=_NAME + _GAP, y=3, width=width, height=14))
    x = _NAME + width + 2 * _GAP
    if row.figure is not None:
        parts.append(tag("text", tag("tspan", row.figure, font_weight="600"), row.detail, x=x, y=14))
    if row.second is not None:
        parts.append(tag("svg", row.second, x=WIDTH - second, y=1, width=second, height=18))
    return Markup("").join(map(Markup, parts)), float(_LINE)


def legend(block: Legend) -> tuple[Markup, float]:
    """The meaning of colours next to each other, and the height."""
    parts, x, y = [], 0.0, 8.0
    for text, colour in block.entries:
        words = shortened(text, 60)
        width = 18 + len(words) * _CHARACTER + 14
        if x and x + width > WIDTH:
            x, y = 0.0, y + _LINE
        parts.append(tag("rect", class_=colour, x=f"{x:g}", y=f"{y:g}", width=10, height=10, rx=2))
        parts.append(_text(words, x + 16, y + 9, class_="soft"))
        x += width
    return Markup("").join(parts), y + _LINE


def _text(words: str, x: float, y: float, **attributes: object) -> Markup:
    return tag("text", words, x=f"{x:g}", y=f"{y:g}", **attributes)


#: The charts that are drawn without a name, the first of each row that are there.
_MAIN = (("devices",), ("operations", "kernels"))

#: Sentences that are shown, and characters of a source's name.
_NOTES, _LONGEST = 3, 60


def plotted(subject: Any, chart: str | None) -> Drawing:
    """The charts of a `Summary` or `Diff`. Raises UsageError where there is no such chart."""
    sections = {section.anchor: section for section in _sections(subject)}
    if chart is not None and chart not in sections:
        raise UsageError(
            f"there is no chart '{chart}'",
            expected=", ".join(sections) or "figures to draw",
            remedy=did_you_mean(chart, sections),
        )
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
    # The figures next to each other: the name, the figure, what explains it
    cells = []
    for name, figure, detail in figures:
        words = [tag("div", name), tag("b", figure, style="font-size:1.3em"), tag("div", detail, style="opacity:.7")]
        cells.append(tag("td", words, style="text-align:left;vertical-align:top;padding:.3em 1em .3em 0"))
    return str(
        tag("div", tag("b", _title(subject)), tag("table", tag("tr", cells)), lines, Markup(drawing._repr_html_()))
    )


def _sections(subject: Any) -> list[Section]:
    return summary_page.charts(subject) if isinstance(subject, Summary) else diff_page.charts(subject)


def _title(subject: Any) -> str:
    if isinstance(subject, Summary):
        more = len(subject.sources) - 1
        names = escape_controls(subject.sources[0]) if subject.sources else "nothing"
        return f"Where the time went: {shortened(names, _LONGEST)}" + (f" and {more:,} more" if more > 0 else "")
    a, b = (shortened(escape_controls(name), _LONGEST) for name in (subject.name_a, subject.name_b))
    return f"What changed: {a} to {b}"
