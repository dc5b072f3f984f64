"""The columns of the two files."""

from __future__ import annotations

from collections.abc import Sequence

from ktrace.kit.text.headings import Columns, Heading

#: A row is a function in a cycle, with the mean and deviation of a metric while it ran. The figures of the
#: function itself (share, duration, instances) repeat in the row of each metric.
PERFORMANCE = Columns(
    {
        "name": ("function name",),
        "metric": ("metric name",),
        "percent": ("beta pct",),
        "value": ("mu pct",),
        "stddev": ("sigma pct",),
        "count": ("instances count",),
        "cycle": ("cycle",),
        "pid": ("pid",),
        "host": ("hostname",),
        "device": ("device",),
        "type": ("func type",),
        "start": ("cycle start ts",),
        "duration": ("duration",),
        "anchor": ("anchor dur",),
        "short name": ("simple name",),
    },
    required=("name", "metric", "percent|value"),
    others=("interpolation status", "anchor name"),
)

#: A row is a reading of a counter.
COUNTERS = Columns(
    {"name": ("counter name",), "start": ("timestamp",), "value": ("value",), "host": ("hostname",)},
    required=("name", "start", "value"),
)


def columns_of(headings: Sequence[Heading], first: Sequence[str]) -> dict[str, int] | None:
    """Returns the columns of either file."""
    return PERFORMANCE.match(headings) or COUNTERS.match(headings)
