"""A page of HTML that needs nothing but itself: tables of figures, and charts of what they are about."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from ktrace.rendering.figures import harmless, shown
from ktrace.rendering.table import Table

if TYPE_CHECKING:
    from ktrace.diff.model import Diff
    from ktrace.summary.model import Summary


def page(tables: Sequence[Table], *, title: str, subject: Summary | Diff | None = None) -> str:
    """The page as text."""
    parts = [f"<!doctype html><meta charset='utf-8'><title>{escape(harmless(title))}</title>"]
    for table in tables:
        parts.append(f"<h2>{escape(table.title)}</h2><table>")
        for row in table.rows:
            cells = (escape(shown(cell, column)) for cell, column in zip(row, table.columns, strict=True))
            parts.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells))
        parts.append("</table>")
    return "\n".join(parts) + "\n"
