"""Columns of the two files."""

from __future__ import annotations

from collections.abc import Sequence

from ktrace.converters._shared.text.headings import Columns, Heading

#: A row is a function of a cycle, with the mean and deviation of a metric while it ran. Its figures of the
#: function itself (share, duration, instances) stand in a row of each metric again.
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


def fits(headings: Sequence[Heading], first: Sequence[str]) -> dict[str, int] | None:
    """The columns of either file."""
    return PERFORMANCE.match(headings) or COUNTERS.match(headings)
