"""Tables of figures in all formats: text, CSV, JSON, Markdown, and a page of HTML.

    Table ──► as_text      operation      time  share        for people: 1.200 ms, 61.5%
              as_markdown  | operation | time |              the same, for an issue or a pull request
              as_csv       operation,time_ns,share_percent   for pipelines and spreadsheets: exact figures
              as_json      {"tables": {"operation": [...]}}  the same, exact names
              as_workbook  a workbook of Excel                a sheet for each table, exact figures
              page         a self-contained page of HTML with charts

Names come from other people's files. Control characters, terminal escapes, markup and formulas in them have no effect
in any format.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ktrace.tables import Table

if TYPE_CHECKING:
    from ktrace.analysis.answers.diff.comparison import Diff
    from ktrace.analysis.answers.summary.summary import Summary

#: The formats that are text, and all values of `--format`.
FORMATS = ("text", "csv", "json", "md", "html")
WRITTEN = (*FORMATS, "xlsx")


def rendered(
    tables: Sequence[Table],
    format: str,
    *,
    title: str = "",
    subject: Summary | Diff | None = None,
    width: int | None = None,
    colour: bool = False,
    findings: bool = True,
    command: str = "",
) -> str:
    """Returns the tables in one of `FORMATS`, with a line feed at the end.

    `title` names their topic, in JSON and HTML. `subject` supplies the charts of the page, and what JSON has
    beside the tables, with its `findings` or without. `width` and `colour` describe the terminal that shows the text,
    `command` is the line that made the page. Raises ValueError for another format.
    """
    from ktrace.tables.text import as_csv, as_json, as_markdown, as_text  # conversions print no tables

    if format == "text":
        return as_text(tables, width=width, colour=colour)
    if format == "csv":
        return as_csv(tables)
    if format == "json":
        if subject is None:
            return as_json(tables, title=title)
        outcome = subject.outcome(findings=findings)
        return as_json(tables, schema=subject.schema, title=title, outcome=outcome)
    if format == "md":
        return as_markdown(tables)
    if format == "html":
        from ktrace.page.page import page

        return page(tables, title=title, subject=subject, command=command)
    raise ValueError(f"{format!r} isn't one of {', '.join(FORMATS)}")
