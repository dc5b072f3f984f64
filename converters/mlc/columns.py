"""The columns of the two tables of a capture, in both dialects."""

from __future__ import annotations

from collections.abc import Sequence

from ktrace.kit.text.headings import STATISTICS as COMMON
from ktrace.kit.text.headings import Columns, Heading

_SPELLINGS = {
    "name": ("kernel name", "kernel", "name"),
    **COMMON,
    "percent": ("of total %", "percent", "percentage", "time %", "%"),
}

#: The statistics of each kernel.
STATISTICS = Columns(_SPELLINGS, required=("name", "total", "count"), others=("cumulative %",))

#: The peaks of some kernels, which the statistics contain as well.
PEAKS = Columns({"name": _SPELLINGS["name"], "max": _SPELLINGS["max"]}, required=("name", "max"))


def columns_of(headings: Sequence[Heading], first: Sequence[str]) -> dict[str, int] | None:
    """Returns the columns of a table of statistics, else those of a table of peaks."""
    return STATISTICS.match(headings) or (PEAKS.match(headings) if len(headings) < 4 else None)
