"""Reads reports of unified memory, which have several measures in a row and no time.

Virtual Address  HtoD Migration Size (MB)  DtoH Migration Size (MB)  CPU Page Faults  ...  um_sum
0x7F9C80000000                      2.097                     0.066               32
"""

from __future__ import annotations

from typing import Any

from ktrace.kit.text.headings import cell_quantity, own_key, plain, to_base
from ktrace.kit.text.numbers import is_missing
from ktrace.kit.text.tables import Row
from ktrace.model.row_builder import RowBuilder

from .block import IDS
from .columns import FAULTS, MEASURES


def memory_row(row: Row, scope: list[str], rows: RowBuilder) -> bool:
    """Adds a summary for each measure of a row, the later ones as children of the first; returns False without any."""
    args: dict[str, Any] = {}
    measures: list[tuple[str, str, float]] = []
    for index, (head, cell) in enumerate(zip(row.table.headings, row.cells, strict=True)):
        figure = cell_quantity(cell) if head.key in MEASURES else None
        if figure and figure.number.is_finite():
            unit = figure.unit or head.unit or ("count" if head.key in FAULTS else "B")
            base, exact = to_base(figure.number, unit)
            measures.append((head.name, base, float(exact)))
        elif index != (row.table.fields or {}).get("name") and not is_missing(cell):
            args[own_key(args, head)] = plain(cell, head)
    first = None
    name = row.text("name") or scope[-1]
    for offset, (metric, unit, value) in enumerate(measures):
        columns: dict[str, Any] = {"metric": metric, "unit": unit, "value": value, "parent": first}
        own = args if first is None else None
        identity = row.line * IDS + offset
        rows.summary("metric", name, id=identity, table=row.table.ordinal, scope=scope, args=own, **columns)
        first = first or identity
    return bool(measures)
