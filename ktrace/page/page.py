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
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from markupsafe import Markup

from ktrace.page.blocks import KeyFigure, Section, bounded, figure_table
from ktrace.tables import Table, escape_controls

if TYPE_CHECKING:
    from jinja2 import Environment

    from ktrace.analysis.answers.diff.comparison import Diff
    from ktrace.analysis.answers.summary.summary import Summary

#: Tables that are open at first, for any run; a click opens the others.
_OPEN = ("kernel", "operation")


def page(tables: Sequence[Table], *, title: str, subject: Summary | Diff | None = None) -> str:
    """Returns the page; `title` names its topic, `subject` supplies the charts (None: tables only)."""
    from ktrace import __version__

    heading, key_figures, sections = _content(subject)
    notes = list(subject.notes) if subject else []
    verdict = [row[0] for table in tables if table.sentences for row in table.rows]
    tables = [table for table in tables if not table.sentences]
    opened = [table.name for table in tables if table.name.partition(" ")[0] in _OPEN] or [
        table.name for table in tables[:1]
    ]
    style, script = read_part("page.css"), read_part("page.js")
    text = (
        _environment()
        .get_template("page.html")
        .render(
            title=escape_controls(title or heading),
            heading=heading,
            verdict=[escape_controls(str(sentence)) for sentence in verdict],
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


def _content(subject: Summary | Diff | None) -> tuple[str, list[KeyFigure], list[Section]]:
    """The heading, the key figures and the charts."""
    from ktrace.analysis.answers.summary.summary import Summary

    if subject is None:
        return "Figures", [], []
    if isinstance(subject, Summary):
        from ktrace.page import summary_page

        return "Where the time went", summary_page.key_figures(subject), summary_page.charts(subject)
    from ktrace.page import diff_page

    return "What changed", diff_page.key_figures(subject), diff_page.charts(subject)


def read_part(name: str) -> str:
    """A file of this package."""
    return resources.files(__package__).joinpath(name).read_text("utf-8")


def hashed(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
