"""The database of an analysis by rocprof-compute (rocprofiler-compute 3.5), schema 1.3.

    compute_dispatch             kernel_uuid, dispatch_id, gpu_id, start_timestamp, end_timestamp
    compute_kernel               kernel_uuid, workload_id, kernel_name
    compute_metric_definition    metric_uuid, metric_id 2.1.0, name VALU FLOPs, table_name, sub_table_name, unit
    compute_kernel_metric_value  kernel_uuid, metric_uuid, value_name Avg, value 0.25
    compute_workload             name, sys_info_extdata {"gpu_model": ...}

The tables are those of a database of version 3.5.0 (ROCm/roc-optiq, sample/). Times are those
of rocprofiler-sdk: ns since boot.
"""

from __future__ import annotations

from ktrace.kit import Format, Match, Sample, Score

_NEEDED = ("compute_kernel", "compute_metric_definition")


def probe(sample: Sample) -> Match | None:
    """MAGIC for tables of kernels and of definitions of metrics."""
    if sample.tables is None or not set(_NEEDED) <= {name.casefold() for name in sample.tables}:
        return None
    return Match(Score.MAGIC, "is an SQLite database with compute_kernel and compute_metric_definition")


FORMAT = Format(
    "rocprof-compute",
    "rocprof-compute analysis database",
    patterns=("*.db",),
    probe=probe,
    read="ktrace.converters.rocprof_compute.reader:read",
    database=True,
)
