"""Tables of figures as text, CSV, JSON, Markdown and a page of HTML, whatever they are about.

    Table ──► as_text      operation      time  share        for people: 1.200 ms, 61.5%
              as_markdown  | operation | time |              the same, for an issue or a pull request
              as_csv       operation,time_ns,share_percent   for pipelines and spreadsheets: figures as they are
              as_json      {"tables": {"operation": [...]}}  the same, exact names
              page         a page of HTML that needs nothing else, with charts

Names come out of other people's files. Control characters, escapes of terminals, markup and formulas in them do nothing
in any of the formats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ktrace.tables.csv_text import as_csv
from ktrace.tables.json_text import as_json
from ktrace.tables.markdown import as_markdown
from ktrace.tables.table import Table
from ktrace.tables.text import as_text

if TYPE_CHECKING:
    from ktrace.diff.model import Diff
    from ktrace.summary.model import Summary

#: What `--format` takes.
FORMATS = ("text", "csv", "json", "md", "html")


def rendered(
    tables: Sequence[Table],
    format: str,
    *,
    title: str = "",
    subject: Summary | Diff | None = None,
    width: int | None = None,
    colour: bool = False,
) -> str:
    """The tables in one of `FORMATS`, with a line feed at the end.

    `title` names what they are about, in JSON and HTML. `subject` is what the charts of the page are made of. `width`
    and `colour` are those of the terminal that shows the text. Raises ValueError for another format.
    """
    if format == "text":
        return as_text(tables, width=width, colour=colour)
    if format == "csv":
        return as_csv(tables)
    if format == "json":
        return as_json(tables, title=title)
    if format == "md":
        return as_markdown(tables)
    if format == "html":
        from ktrace.page.page import page

        return page(tables, title=title, subject=subject)
    raise ValueError(f"{format!r} is none of {', '.join(FORMATS)}")
