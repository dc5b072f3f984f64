"""A self-contained page of HTML: key figures, charts, and the tables in full.

    page.html     the page: header, sections, tables, with the policy below
    blocks.html   a macro for each class of blocks.py
    page.css      the style sheet: light and dark by the system's setting, print, phones
    page.js       sorts and filters the tables

    Content-Security-Policy: default-src 'none'; style-src 'sha256-…'; script-src 'sha256-…'

The page fetches nothing, and runs only the script that the policy names by its hash. Without scripts everything works
but sorting and filtering.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from ktrace.page.blocks import KeyFigure, Section, bounded, figure_table
from ktrace.tables import Table, escape_controls

if TYPE_CHECKING:
    from jinja2 import Environment

    from ktrace.analysis.answers.diff.comparison import Diff
    from ktrace.analysis.answers.summary.summary import Summary
    from ktrace.analysis.answers.summary.verdict import Loss
    from ktrace.fleet.together import Fleet

#: Tables that are open at first, for any run; a click opens the others.
_OPEN = ("kernel", "operation")


def page(
    tables: Sequence[Table], *, title: str, subject: Summary | Diff | Fleet | None = None, command: str = ""
) -> str:
    """Returns the page; `title` names its topic, `subject` supplies the charts (None: tables only).

    `command` is the line that made it, if there was one.
    """
    from ktrace import __version__

    heading, origin, key_figures, sections = _content(subject)
    notes = list(subject.notes) if subject else []
    verdict, look = _verdict([str(row[0]) for table in tables if table.sentences for row in table.rows], subject)
    tables = [table for table in tables if not table.sentences]
    opened = _opened([table.name for table in tables], [*getattr(subject, "answers", ())])
    style, script = read_part("page.css"), read_part("page.js")
    text = (
        _environment()
        .get_template("page.html")
        .render(
            title=escape_controls(title or heading),
            heading=heading,
            verdict=[with_bold_figures(escape_controls(sentence)) for sentence in verdict],
            look=look,
            origin=[escape_controls(part) for part in origin],
            command=escape_controls(command),
            key_figures=key_figures,
            notes=[escape_controls(note) for note in notes],
            sections=sections,
            tables=[figure_table(table, opened=table.name in opened, shown_notes=notes) for table in tables],
            style=Markup(style),
            style_hash=hashed(style),
            script=Markup(script),
            script_hash=hashed(script),
            version=__version__,
        )
    )
    return f"{text}\n"


def _verdict(sentences: list[str], subject: object) -> tuple[list[str], tuple[str, Sequence[Loss]]]:
    """The sentences above the figures, and what to look at, which a summary lists as the terminal does."""
    from ktrace.analysis.answers.summary.summary import Summary

    if not sentences or not isinstance(subject, Summary):
        return sentences, ("", [])
    from ktrace.analysis.answers.summary.verdict import losses, verdict

    findings = subject.findings
    look = losses(findings)
    return (verdict(findings, look=False) if look[1] else sentences), look


def _opened(names: list[str], requested: list[str]) -> list[str]:
    """The tables that are open at first: of kernels and operations; without these the answers to what was asked."""
    for first in (_OPEN, requested):
        if opened := [name for name in names if name.partition(" ")[0] in first]:
            return opened
    return names[:1]


@cache
def _environment() -> Environment:
    """The templates: every expression is escaped and bounded, and a name that isn't defined is an error."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined  # 30 ms, which the page of an overview does without

    return Environment(
        loader=FunctionLoader(read_part),
        autoescape=True,
        finalize=bounded,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _content(subject: Summary | Diff | Fleet | None) -> tuple[str, list[str], list[KeyFigure], list[Section]]:
    """The heading, what the figures are of, the key figures and the charts."""
    from ktrace.analysis.answers.summary.summary import Summary

    if subject is None:
        return "Figures", [], [], []
    if isinstance(subject, Summary):
        from ktrace.page import summary_page

        figures = summary_page.key_figures(subject)
        return "Where the time went", summary_page.origin(subject), figures, summary_page.charts(subject)
    from ktrace.fleet.together import Fleet

    if isinstance(subject, Fleet):
        from ktrace.page import fleet_page

        return "Ranks of a job", fleet_page.origin(subject), fleet_page.key_figures(subject), fleet_page.charts(subject)
    from ktrace.page import diff_page

    return "What changed", [], diff_page.key_figures(subject), diff_page.charts(subject)


#: A figure of a sentence, with its unit; neither a number within a name (`sm90_gemm`) nor one without a unit.
_FIGURE = re.compile(r"(?<![\w.,#/:-])[+-]?\d[\d,]*(?:\.\d+)?(?:%| (?:ns|us|ms|s|min|h|d|[kMGT]?B(?:/s)?)\b)")


def with_bold_figures(sentence: str) -> Markup:
    """The sentence with its shares, times and sizes bold, and all else escaped."""
    parts, end = [Markup()], 0
    for match in _FIGURE.finditer(sentence):
        parts += [escape(sentence[end : match.start()]), Markup("<b>{}</b>").format(match.group())]
        end = match.end()
    return Markup().join([*parts, escape(sentence[end:])])


def read_part(name: str) -> str:
    """A file of this package."""
    return resources.files(__package__).joinpath(name).read_text("utf-8")


def hashed(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
