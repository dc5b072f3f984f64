"""LatencyPrism's "Cross Performance Comparison" of two runs, in Markdown (compare_perf_data.py, 2025).

    | Metric              | normal_pid_805580 | abnormal_pid_842126 | Δ (…)       | Change (%) |
    |   Time Rank | normal_pid_805580 Time (us) | abnormal_pid_842126 Time (us) | Δ (us) | Δ (%) |
    | Function Name | Metric Name | Device | Suspicion Score | β_normal_…(%) | β_abnormal_…(%) | Δβ(%) | …

β is the share of a cycle that a function takes, μ the mean of a resource metric while the function runs.
"""

from __future__ import annotations

from ktrace.kit import Format, Match, Sample, Score

_TITLE = "Performance Comparison"


def probe(sample: Sample) -> Match | None:
    """DIALECT for the title with a table, or for a table of functions or cycles without the title."""
    text = sample.text
    if not text or ("|" not in text and "," not in text):
        return None
    from ktrace.kit.text.tables import find_tables

    from .columns import columns_of

    for table in find_tables(sample, columns_of):
        for title in table.path:
            if _TITLE in title.text:
                return Match(Score.DIALECT, f"has the title '{title.text.partition(':')[0]}'")
        if table.fields and table.fields.keys() & {"name", "rank"}:
            return Match(Score.DIALECT, f"has a comparison of runs as LatencyPrism writes it (line {table.line})")
    return None


FORMAT = Format(
    "latencyprism",
    "LatencyPrism comparison",
    patterns=("*.md",),
    probe=probe,
    read="ktrace.converters.latencyprism.reader:read",
    words=(
        "performance comparison",
        "function name",
        "functionname",
        "function_name",
        "time rank",
        "timerank",
        "time_rank",
    ),
    prose=True,
)
