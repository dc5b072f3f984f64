"""Reads the summary that rocprofv3 prints at the end (-S, -D) or writes (--summary-output-file).

ROCPROFV3 KERNEL_DISPATCH SUMMARY:
|NAME|     DOMAIN      | CALLS | DURATION (nsec) | AVERAGE (nsec) | PERCENT (INC) | MIN (nsec) | MAX (nsec) | STDDEV |
|----|-----------------|-------|-----------------|----------------|---------------|------------|------------|--------|
|f(T)| KERNEL_DISPATCH |     8 |          184324 |      2.304e+04 |     40.681542 |      11200 |      98802 |  3e+04 |

"ROCPROFV3 SUMMARY:" repeats the rows of all domains; its rows are folded into those, if these were printed, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.rocm.rows import kind_of
from ktrace.kit.text.headings import STATISTICS, Columns
from ktrace.kit.text.lines import Lines
from ktrace.kit.text.tables import Row, Text, read_tables
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from .files import TITLE

#: The title of the table of all domains.
_ALL = "ROCPROFV3 SUMMARY"

_COLUMNS = Columns(
    {
        "name": ("name",),
        "domain": ("domain",),
        **STATISTICS,
        "total": ("duration",),
        "percent": (*STATISTICS["percent"], "percent inc", "percent (inc)"),
    },
    required=("name", "domain", "count", "total"),
)


def read_summary(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a summary for each row, in the unit of its table; reports the program's own output."""
    lines, rows = Lines(source, conversion), RowBuilder(conversion)
    scope: list[str] | None = None
    seen: set[tuple[str, str, str, str]] = set()
    for item in read_tables(lines, lambda headings, _: _COLUMNS.match(headings)):
        if isinstance(item, Row):
            name, domain, figures = item.text("name"), item.text("domain"), item.figures()
            if not name or not figures:
                lines.skip("bad-record", "no figure" if name else "no name")
                continue
            key = (name, domain, item.text("count"), item.text("total"))
            if scope == [_ALL] and key in seen:
                lines.became("folded")
                conversion.report.issue("folded", f"line {item.line}")
                continue
            seen.add(key)
            kind = kind_of(name, domain.casefold())
            rows.summary(
                kind, name, table=item.table.ordinal, scope=scope, cat=domain, args=figures.args, **figures.columns
            )
            lines.used()
        elif isinstance(item, Text) and (title := TITLE.fullmatch(item.text)):
            scope = [title[1]]
            lines.structure()
        yield from rows.ready()
    yield from rows.rest()
