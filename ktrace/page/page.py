"""A page of HTML that needs nothing but itself: key figures, charts, and the tables whole.

    <!doctype html> … Content-Security-Policy: default-src 'none'; style-src 'sha256-…'; script-src 'sha256-…'
      header    the title, key figures
      section   charts, inline SVG (summary_page.py, diff_page.py)
      section   tables; a script sorts and filters them

Nothing is fetched, nothing runs but the script that the policy names by its hash. Without scripts all is there but for
sorting and filtering. The page follows the light or dark of the system, prints, and fits a phone.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING

from ktrace.page.blocks import figures_table, section
from ktrace.page.markup import Markup, tag
from ktrace.tables.figures import harmless
from ktrace.tables.table import Table

if TYPE_CHECKING:
    from ktrace.diff.model import Diff
    from ktrace.summary.model import Summary

#: Tables that are open from the start, of whatever run; the others open by a click.
_OPEN = ("kernel", "operation")


def page(tables: Sequence[Table], *, title: str, subject: Summary | Diff | None = None) -> str:
    """The page as text; `title` says of what, `subject` is what the charts are made of (None: tables alone)."""
    heading, head, charts = _of(subject)
    notes = list(subject.notes) if subject else []
    said = [tag("p", harmless(note), class_="note") for note in notes]
    header = tag("header", tag("p", heading, class_="about"), tag("h1", harmless(title or heading)), head, said)
    body = tag("body", _patterns(), header, tag("main", charts, _tables(tables, notes)), _footer(), _script())
    return f"<!doctype html>\n{tag('html', _head(title or heading), body, lang='en')}\n"


def _of(subject: Summary | Diff | None) -> tuple[str, Markup | None, list[Markup]]:
    """What the page is, its key figures, its charts."""
    from ktrace.summary.model import Summary

    if subject is None:
        return "Figures", None, []
    if isinstance(subject, Summary):
        from ktrace.page import summary_page

        return "Where the time went", summary_page.key_figures(subject), summary_page.charts(subject)
    from ktrace.page import diff_page

    return "What changed", diff_page.key_figures(subject), diff_page.charts(subject)


def _head(title: str) -> Markup:
    style = _data("page.css")
    policy = f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(_data('page.js'))}; img-src data:"
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=f"{policy}; base-uri 'none'; form-action 'none'"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{harmless(title)} - ktrace"),
        tag("link", rel="icon", href="data:,"),
        tag("style", style),
    )


def _tables(tables: Sequence[Table], said: Sequence[str]) -> Markup | None:
    if not tables:
        return None
    box = tag("input", id="filter", type="search", placeholder="filter rows by name", aria_label="filter rows by name")
    form = tag("form", box, tag("span", id="found", role="status"), hidden=True)
    opened = [table.name for table in tables if table.name.partition(" ")[0] in _OPEN] or [tables[0].name]
    return section(
        "tables", "Figures", "", form, [figures_table(one, opened=one.name in opened, said=said) for one in tables]
    )


def _patterns() -> Markup:
    """Fillings that colours alone can't say: two things at once."""
    ground = tag("rect", class_="compute", width=8, height=8)
    stripe = tag("rect", class_="communication", width=3, height=8)
    pattern = {"width": 6, "height": 8, "patternUnits": "userSpaceOnUse", "patternTransform": "rotate(45)"}
    drawn = tag("pattern", ground, stripe, id="overlapped", **pattern)
    return tag("svg", tag("defs", drawn), width="0", height="0", aria_hidden="true", class_="patterns")


def _footer() -> Markup:
    from ktrace import __version__

    return tag("footer", f"Made by ktrace {__version__}.")


def _script() -> Markup:
    return tag("script", _data("page.js"))


def _data(name: str) -> Markup:
    """A file beside this module, as it stands in the page."""
    return Markup(resources.files(__package__).joinpath(name).read_text("utf-8"))


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
