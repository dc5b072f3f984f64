"""Kernel statistics of MLC-LLM and WebLLM in Markdown, made by scripts from the log of GPU timestamps.

    ## Profiling Analysis: Llama 3.2 1B q4f16_1 on Apple M2
    ### Kernel Execution Statistics (Sorted by Total Time)
    Kernel Name          | Total_Time_ms | Iterations | Avg_Time_ms | Peak_Time_ms | % of Total | Cumulative %
    -----------------------------------------------------------------------------------------------------------
    NT_matmul7_kernel_2  | 1030.28       | 64         | 16.10       | 40.57        | 45.64%     | 45.64%

A capture often has a second table, the kernels with the highest peaks. It repeats figures of the first one.

The columns of the two tables of a capture, in both dialects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrace.kit import Format, Match, Sample, Score

if TYPE_CHECKING:
    from ktrace.kit.text.tables import Table
from collections.abc import Sequence

from ktrace.kit.text.headings import STATISTICS as COMMON
from ktrace.kit.text.headings import Columns, Heading

_TITLES = ("profiling analysis:", "kernel execution statistics")


def probe(sample: Sample) -> Match | None:
    """DIALECT for a table below one of MLC's titles, or with MLC's three characteristic columns."""
    text = sample.text
    if not text or "|" not in text or not _may_be(sample.folded):
        return None
    from ktrace.kit.text.tables import find_tables

    from . import columns_of

    for table in find_tables(sample, columns_of):
        for title in table.path:
            if any(words in title.text.casefold() for words in _TITLES):
                return Match(Score.DIALECT, f"has a table of kernels below the title '{title.text}'")
        if _has_typical_columns(table):
            return Match(Score.DIALECT, f"has the columns Iterations, Peak Time and Cumulative % (line {table.line})")
    return None


def _may_be(text: str) -> bool:
    """Whether the text has the words at all; checking first avoids searching most files for tables."""
    return any(title in text for title in _TITLES) or ("iterations" in text and "cumulative" in text)


def _has_typical_columns(table: Table) -> bool:
    from . import PEAKS

    keys = {head.key for head in table.headings}
    return {"iterations", "cumulative %"} <= keys and PEAKS.match(table.headings) is not None


FORMAT = Format(
    "mlc",
    "MLC kernel statistics in Markdown",
    patterns=("*.md", "*.txt"),
    probe=probe,
    read="ktrace.converters.mlc.reader:read",
    words=("profiling analysis:", "kernel execution statistics", "cumulative"),
    prose=True,
)


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
