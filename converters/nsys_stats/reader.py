"""The summary tables of Nsight Systems as summaries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from ktrace.conversion import Conversion
from ktrace.model import Batch
from ktrace.rows import Rows
from ktrace.source import Source

from .._shared.columns import cell_quantity, whole
from .._shared.lines import Lines
from .._shared.prefixes import bare
from .._shared.tables import Row, Table, Text, read_tables
from .columns import COLUMNS, REPORTS, UNTITLED, Report

#: What nsys says while it works: the name of the report that follows, or nothing of interest.
_WORKING = re.compile(
    r"Processing \[.*\] with \[(?:.*/)?(?P<script>\w+)\.py.*|\[\d+/\d+\] Executing '(?P<stats>[\w:,-]+)' stats report.*"
    r"|(?:Generating|Using|Exporting|Importing|Processing|Loading|Saved|Report file).*|\[[=\s\d%]+\].*"
)
_OLD_TITLE = re.compile(r"\s*((?:CUDA|NVTX|Operating System|OpenGL|MPI).* Statistics(?: \(.*\))?):?\s*")
_TITLE_UNIT = re.compile(r"\((bytes|[KMG]i?B)\)")
_COPY = re.compile(r"\[CUDA (?:Unified Memory )?memcpy (?P<way>[\w-]+)\]", re.IGNORECASE)
_WAYS = {"host-to-device": "HtoD", "device-to-host": "DtoH", "device-to-device": "DtoD", "host-to-host": "HtoH"}
_XYZ = re.compile(r"\s*(\d{1,18})[\s,]+(\d{1,18})[\s,]+(\d{1,18})\s*")


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """A summary a row. A report without data gives a note, other text is skipped and reported."""
    lines, rows = Lines(source, conversion), Rows(conversion)
    report = ""
    for item in read_tables(lines, COLUMNS.bind):
        if isinstance(item, Table):
            for heading in COLUMNS.unknown(item.headings, item.fields or {}):
                conversion.report.issue("unknown-column", f"line {item.line}", heading)
        elif isinstance(item, Row):
            _summary(item, report, lines, rows)
        elif isinstance(item, Text):
            report = _text(item, report, lines, rows)
        yield from rows.ready()
    yield from rows.rest()


def _text(text: Text, report: str, lines: Lines, rows: Rows) -> str:
    """Takes a line between the tables and returns the report that the next table belongs to."""
    words = bare(text.text).strip()
    if words.startswith("SKIPPED:"):
        rows.summary("note", words, metric="note", scope=[report] if report else None)
        lines.used()
        return ""
    if found := _OLD_TITLE.fullmatch(words):
        lines.structure()
        return found.group(1)
    if found := _WORKING.fullmatch(words):
        lines.structure()
        return found.group("script") or found.group("stats") or report
    return report


def _summary(row: Row, report: str, lines: Lines, rows: Rows) -> None:
    table = row.table
    title = table.path[-1].text if table.path else ""
    about = _about(title, report, frozenset(head.key for head in table.headings))
    name = row.text("name")
    scope = table.scope if table.path or not report else [report]
    figures = row.figures(unit=_unit(scope[-1], about))
    if not name or not figures:
        lines.skip("bad-record", "no figure" if name else "no name")
        return
    kind = about.kind or _kind_of(name, row.text("category"))
    columns = figures.columns | _launch(row, figures.args) | _direction(kind, name) | _place(row)
    rows.summary(kind, name, metric=about.metric, table=table.ordinal, scope=scope, args=figures.args, **columns)
    lines.used()


@lru_cache(maxsize=64)
def _about(title: str, report: str, keys: frozenset[str]) -> Report:
    """What a table is about: by its title, by the report that nsys said it was working on, by its headings."""
    for words in (title.casefold(), report.casefold()):
        for spellings, about in REPORTS:
            if any(spelling in words for spelling in spellings):
                return about
    return next((about for key, about in UNTITLED.items() if key in keys), Report("op"))


def _unit(title: str, about: Report) -> str:
    """The unit where neither cells nor headings have one: the title's, else that of times is always ns."""
    found = _TITLE_UNIT.search(title)
    if found and about.metric == "bytes":
        return "B" if found.group(1) == "bytes" else found.group(1)
    return "ns" if about.metric == "duration" else ""


def _kind_of(name: str, category: str) -> str:
    """The kind of a row in a report of several: `[CUDA memset]` is a memset, other brackets are copies."""
    if "memset" in name.casefold():
        return "memset"
    return "kernel" if "KERNEL" in category.upper() or not name.startswith("[") else "memcpy"


def _direction(kind: str, name: str) -> dict[str, Any]:
    found = _COPY.fullmatch(name) if kind == "memcpy" else None
    return {"copy_kind": _WAYS.get(found.group("way").lower(), found.group("way"))} if found else {}


def _place(row: Row) -> dict[str, Any]:
    """Process, thread and device of reports that say them."""
    found = {field: cell_quantity(row.text(field)) for field in ("pid", "tid", "device")}
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
