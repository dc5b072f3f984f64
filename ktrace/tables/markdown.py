"""Tables as GitHub's Markdown, for an issue, a pull request, the summary of a pipeline.

### by operation

| operation | time | share |
| :--- | ---: | ---: |
| gemm | 1.200 ms | 61.5% |
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ktrace.tables.figures import harmless, shortened_apart, shown
from ktrace.tables.table import Table

#: Names are shortened to this many characters: C++ templates of thousands make a table unreadable.
_LONGEST = 160

#: Characters that begin markup. An underscore within a word doesn't.
_MARKUP = re.compile(r"[\\`*\[\]|~$]|(?<![A-Za-z0-9_])_|_(?![A-Za-z0-9_])")
#: Characters that a backslash doesn't escape everywhere: of tags, entities, mentions, issues, links.
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;", "#": "&#35;"}
_LINK = re.compile(r":(?=//)|(?<=www)\.", re.IGNORECASE)


def as_markdown(tables: Iterable[Table]) -> str:
    """Returns the tables, each under its heading; figures as people read them."""
    return "\n".join(map(_table, tables))


def _table(table: Table) -> str:
    if table.sentences:
        return " ".join(escaped(harmless(str(row[0]))) for row in table.rows) + "\n"
    lines = [f"### {escaped(harmless(table.title))}", ""] if table.title else []
    lines.append(_line(escaped(column.name) for column in table.columns))
    lines.append(_line("---:" if column.unit else ":---" for column in table.columns))
    rows = [[shown(cell, column) for cell, column in zip(row, table.columns, strict=True)] for row in table.rows]
    columns = (shortened_apart(cells, _LONGEST) for cells in zip(*rows, strict=True))
    lines += (_line(map(_indented, row)) for row in zip(*columns, strict=True))
    if table.more:
        lines += ["", f"... and {table.more:,} more"]
    for note in table.notes:
        lines += ["", escaped(harmless(note))]
    return "\n".join(lines) + "\n"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _indented(text: str) -> str:
    """The text with escapes; blanks before it stay visible."""
    words = text.lstrip(" ")
    return "&nbsp;" * (len(text) - len(words)) + escaped(words)


def escaped(text: str) -> str:
    """The text with escapes, so that Markdown shows it unchanged."""
    text = re.sub("[&<>@#]", lambda found: _ENTITIES[found.group()], _MARKUP.sub(r"\\\g<0>", text))
    return _LINK.sub(lambda found: f"&#{ord(found.group())};", text)
