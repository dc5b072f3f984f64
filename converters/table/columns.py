"""Which tables are taken: those with a column of names, and a unit of time in a heading or in the first row."""

from __future__ import annotations

from collections.abc import Sequence

from .._shared.columns import FIGURES, STATISTICS, Columns, Heading, cell_quantity, is_time

NAMES = (
    *("kernel name", "kernel", "name", "kernels", "function name", "function", "op name", "operation", "operator"),
    *("operator name", "op", "range", "layer name", "layer", "node name", "event name", "event", "task", "stage"),
    *("region", "routine", "symbol", "label", "phase", "component", "shader"),
)

#: Headings of a time of which only the rest of the table tells whether it is a total or that of one happening.
TIMES = ("time", "duration", "dur", "latency", "elapsed", "elapsed time", "gpu time", "cuda time", "kernel time")

COLUMNS = Columns({"name": NAMES, **STATISTICS, "value": (*TIMES, "exec duration", "execution time")}, ("name",))

#: Fields of which one must be a time.
_MEASURES = tuple(field for field in FIGURES if field != "stddev")


def fits(headings: Sequence[Heading], first: Sequence[str]) -> dict[str, int] | None:
    """Field -> index of its column; None where the table has no names or no times."""
    fields = COLUMNS.bind(headings)
    if fields is None:
        return None
    times = {index for index, head in enumerate(headings) if is_time(head.unit) or _is_time_cell(first, index)}
    if not any(fields.get(field) in times for field in _MEASURES):
        free = sorted(times - set(fields.values()))
        if not free or "value" in fields:
            return None
        fields["value"] = free[0]
    if "count" in fields and "total" not in fields and "value" in fields:
        fields["total"] = fields.pop("value")
    return fields


def _is_time_cell(cells: Sequence[str], index: int) -> bool:
    found = cell_quantity(cells[index]) if index < len(cells) else None
    return found is not None and is_time(found.unit)
