"""Turns the rows into summaries of operations."""

from __future__ import annotations

from collections.abc import Iterator

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.text.lines import Lines
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from . import FlopsRow, heading, is_rule, row

#: The row of all work, which has no module.
_GLOBAL = "Global"


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a range for each module, an op for each operator in it, a total for all work."""
    lines, rows = Lines(source, conversion), RowBuilder(conversion)
    table, width, is_open = -1, 0, False
    scope: list[str] = []
    rows.fact("source", facts={"tool": "PyTorch FlopCounterMode"})
    for line in lines:
        found = heading(line.text, lines.peek() or "")
        if found is not None:
            table, width, is_open, scope = table + 1, found, True, []
            lines.structure()
        elif not line.text.strip():
            lines.structure()
            is_open = False
        elif is_open and is_rule(line.text[width:]):
            lines.structure()
        elif is_open and (one := row(line.text[width:])):
            scope = scope if one.is_operator else [_GLOBAL] if one.name == _GLOBAL else one.name.split(".")
            _add(rows, one, table, scope)
            lines.used()
        elif is_open and lines.peek() is None and line.text[:width].strip() == "" and "%" not in line.text:
            lines.skip("cut", "the last row breaks off")
        yield from rows.ready()
    yield from rows.rest()


def _add(rows: RowBuilder, one: FlopsRow, table: int, scope: list[str]) -> None:
    kind = "op" if one.is_operator else "total" if scope == [_GLOBAL] else "range"
    rows.summary(
        kind,
        one.name,
        metric="FLOPs",
        unit="FLOP",
        value=float(one.flop),
        percent=one.share,
        table=table,
        scope=scope,
        args={"FLOP": one.printed} if one.is_rounded else None,
    )
