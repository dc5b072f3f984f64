"""Rows of summary tables become summaries."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from ktrace.converters._shared.text.headings import FIGURES, cell_quantity, whole
from ktrace.converters._shared.text.tables import Row
from ktrace.model.row_builder import RowBuilder

from .block import IDS
from .columns import CERTAIN, REPORTS, UNTITLED, Report, titled
from .kinds import NO_NAME, copy_kind, kind_of
from .units import ImpliedUnit

_TITLE_UNIT = re.compile(r"\((?:by size in )?(bytes|[KMG]i?B)\)")
_XYZ = re.compile(r"\s*(\d{1,18})[\s,]+(\d{1,18})[\s,]+(\d{1,18})\s*")


#: Fields whose figures are printed whole where times are in ns.
_WHOLE = ("total", "min", "max")


def summary_row(row: Row, scope: list[str], report: str, implied: ImpliedUnit, rows: RowBuilder) -> str:
    """Adds a summary; returns what is wrong with the row, '' for nothing.

    Raises DamagedInput where nothing says the unit of its times.
    """
    table = row.table
    title = table.path[-1].text if table.path else ""
    about = _about(title, report, frozenset(head.key for head in table.headings))
    name = row.text("name") or (NO_NAME if about.kind == "range" else "")
    figures = row.figures(unit=_unit(scope[-1], about) or _implied(row, about, implied))
    if not name or not figures:
        return "no figure" if name else "no name"
    kind = about.kind or kind_of(name, row.text("category"))
    columns = figures.columns | _launch(row, figures.args) | _place(row)
    if kind == "memcpy":
        columns["copy_kind"] = copy_kind(name)
    identity = row.line * IDS
    rows.summary(
        kind, name, id=identity, metric=about.metric, table=table.ordinal, scope=scope, args=figures.args, **columns
    )
    return ""


@lru_cache(maxsize=64)
def _about(title: str, report: str, keys: frozenset[str]) -> Report:
    """What a table is about: by the report that its title names, by headings that say it for certain, by the report
    that nsys said it was working on, by its other headings, by the words above it, which may be anybody's."""
    columns = next((about for signature, about in CERTAIN if signature <= keys), None)
    others = next((about for key, about in UNTITLED if key in keys), None)
    return _by_words(titled(title)) or columns or _by_words(report) or others or _by_words(title) or Report("op")


def _by_words(text: str) -> Report | None:
    words = text.casefold()
    return next((about for spellings, about in REPORTS if any(spelling in words for spelling in spellings)), None)


def _unit(title: str, about: Report) -> str:
    """The unit of sizes where neither cells nor headings have one: the title's; '' where nothing says it."""
    found = _TITLE_UNIT.search(title)
    if found and about.metric == "bytes":
        return "B" if found.group(1) == "bytes" else found.group(1)
    return "B" if about.kind == "api" and about.metric == "bytes" else ""


def _implied(row: Row, about: Report, implied: ImpliedUnit) -> str:
    """The unit of times that no heading says; '' of anything else."""
    fields = row.table.fields or {}
    if about.metric != "duration" or any(
        row.table.headings[fields[field]].unit for field in FIGURES if field in fields
    ):
        return ""
    return implied.of(row.text(field) for field in _WHOLE)


def _place(row: Row) -> dict[str, Any]:
    """Process, thread, device and context of reports that say them."""
    found = {field: cell_quantity(row.text(field)) for field in ("pid", "tid", "device", "context")}
    return {field: whole(figure.number) for field, figure in found.items() if figure}


def _launch(row: Row, args: dict[str, Any]) -> dict[str, Any]:
    """Grid and block of `cuda_gpu_kern_gb_sum`; what isn't three numbers stays in args."""
    columns: dict[str, Any] = {"cat": row.text("category") or None}
    for field in ("grid", "block"):
        found = _XYZ.fullmatch(row.text(field))
        if found:
            columns |= {f"{field}_{axis}": int(text) for axis, text in zip("xyz", found.groups(), strict=True)}
        elif row.text(field):
            args["GridXYZ" if field == "grid" else "BlockXYZ"] = row.text(field)
    return columns
