"""LatencyPrism's CSV: each function's share of each cycle, and the counters of the same run (DeepDive, 2025).

    cycle,pid,hostname,beta_pct,function_name,metric_name,device,func_type,mu_pct,sigma_pct,duration,…,cycle_start_ts,…
    0,4711,node7,3.21,oncpu,host_cpu_usage,Host,python,5.84,0.12,20270.5,…,1736413971558972.912,…

    counter_name,timestamp,value,hostname
    gpu_usage,1736413971558972.912,7.25,node7

Times are epoch microseconds. `*_perf_data.csv` has the first form, `*_counters_data.csv` the second.

The columns of the two files.
"""

from __future__ import annotations

from collections.abc import Sequence

from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.text.headings import Columns, Heading


def probe(sample: Sample) -> Match | None:
    """DIALECT for the headings of either file."""
    from ktrace.kit.text.tables import find_tables

    from . import columns_of

    for table in find_tables(sample, columns_of):
        words = "beta_pct" if "metric" in (table.fields or {}) else "counter_name, timestamp"
        return Match(Score.DIALECT, f"has the columns {words} of LatencyPrism (line {table.line})")
    return None


FORMAT = Format(
    "latencyprism-csv",
    "LatencyPrism performance and counter CSV",
    patterns=("*_data.csv",),
    probe=probe,
    read="ktrace.converters.latencyprism_csv.reader:read",
    words=("counter_name", "function_name"),
    prose=True,
)


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
