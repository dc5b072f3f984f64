"""Reads rows of summary tables as summaries."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from ktrace.kit.text.headings import FIGURES, cell_quantity, whole
from ktrace.kit.text.tables import Row
from ktrace.model.row_builder import RowBuilder

from .block import IDS
from .columns import CERTAIN, REPORTS, UNTITLED, Report, report_in_title
from .kinds import NO_NAME, copy_kind, kind_of
from .units import ImpliedUnit

_TITLE_UNIT = re.compile(r"\((?:by size in )?(bytes|[KMG]i?B)\)")
_XYZ = re.compile(r"\s*(\d{1,18})[\s,]+(\d{1,18})[\s,]+(\d{1,18})\s*")

#: Fields whose figures are whole numbers if times are in ns.
_WHOLE = ("total", "min", "max")


def summary_row(row: Row, scope: list[str], report: str, implied: ImpliedUnit, rows: RowBuilder) -> str:
    """Adds a summary; returns what is wrong with the row, "" if nothing is.

    Raises DamagedInput if the unit of its times can't be determined.
    """
    table = row.table
    title = table.path[-1].text if table.path else ""
    contents = _contents(title, report, frozenset(head.key for head in table.headings))
    name = row.text("name") or (NO_NAME if contents.kind == "range" else "")
    figures = row.figures(unit=_unit(scope[-1], contents) or _implied(row, contents, implied))
    if not name or not figures:
        return "no figure" if name else "no name"
    kind = contents.kind or kind_of(name, row.text("category"))
    columns = figures.columns | _launch(row, figures.args) | _place(row)
    if kind == "memcpy":
        columns["copy_kind"] = copy_kind(name)
    identity = row.line * IDS
    rows.summary(
        kind, name, id=identity, metric=contents.metric, table=table.ordinal, scope=scope, args=figures.args, **columns
    )
    return ""


@lru_cache(maxsize=64)
def _contents(title: str, report: str, keys: frozenset[str]) -> Report:
    """Returns the contents of a table, by the first of these that decides them.

    The report that its title names, unambiguous headings, the report that nsys was processing, other headings, and
    the words of the title, which may not be from nsys.
    """
    by_headings = next((contents for signature, contents in CERTAIN if signature <= keys), None)
    likely = next((contents for key, contents in UNTITLED if key in keys), None)
    by_title = _by_words(report_in_title(title))
    return by_title or by_headings or _by_words(report) or likely or _by_words(title) or Report("op")


def _by_words(text: str) -> Report | None:
    words = text.casefold()
    return next((contents for spellings, contents in REPORTS if any(word in words for word in spellings)), None)


def _unit(title: str, contents: Report) -> str:
    """Returns the unit of sizes if neither cells nor headings have one: the title's, "" if that has none."""
    found = _TITLE_UNIT.search(title)
    if found and contents.metric == "bytes":
        return "B" if found.group(1) == "bytes" else found.group(1)
    return "B" if contents.kind == "api" and contents.metric == "bytes" else ""


def _implied(row: Row, contents: Report, implied: ImpliedUnit) -> str:
    """Returns the unit of times if no heading has one, "" for anything else."""
    fields = row.table.fields or {}
    if contents.metric != "duration" or any(
        row.table.headings[fields[field]].unit for field in FIGURES if field in fields
    ):
        return ""
    return implied.of(row.text(field) for field in _WHOLE)


def _place(row: Row) -> dict[str, Any]:
    """Returns process, thread, device and context, for reports that have them."""
    figures = {field: cell_quantity(row.text(field)) for field in ("pid", "tid", "device", "context")}
    return {field: whole(figure.number) for field, figure in figures.items() if figure}


def _launch(row: Row, args: dict[str, Any]) -> dict[str, Any]:
    """Returns grid and block of `cuda_gpu_kern_gb_sum`; a cell without three numbers is kept in args."""
    columns: dict[str, Any] = {"cat": row.text("category") or None}
    for field in ("grid", "block"):
        found = _XYZ.fullmatch(row.text(field))
        if found:
            columns |= {f"{field}_{axis}": int(text) for axis, text in zip("xyz", found.groups(), strict=True)}
        elif row.text(field):
            args["GridXYZ" if field == "grid" else "BlockXYZ"] = row.text(field)
    return columns
