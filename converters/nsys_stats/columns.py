"""Columns and reports of `nsys stats`, of all versions. Facts: NVIDIA's report scripts and real output."""

from __future__ import annotations

from typing import NamedTuple

from .._shared.columns import STATISTICS, Columns

COLUMNS = Columns(
    {
        "name": ("name", "operation", "range"),
        **STATISTICS,
        "total": ("total time", "total"),
        "count": ("instances", "num calls", "count", "operations", "calls"),
        "percent": ("time %", "time"),
        "category": ("category",),
        "grid": ("gridxyz",),
        "block": ("blockxyz",),
    },
    required=("name", "total", "count"),
    others=("style",),
)


class Report(NamedTuple):
    """What a report is about: the kind of its rows ("" where each row says it), and the metric."""

    kind: str
    metric: str = "duration"


#: Words of a report's name or title -> what it is about; the first that occurs wins.
REPORTS = (
    (
        ("mem_size", "memsize", "memops summary (by size)", "statistics (by size)", "statistics (bytes)"),
        Report("", "bytes"),
    ),
    (("statistics (kib)", "statistics (kb)", "statistics (mib)", "statistics (mb)"), Report("", "bytes")),
    (("mem_time", "memtime", "memops summary", "memory operation statistics"), Report("")),
    (("gpu_sum", "gpusum", "kernels/memops"), Report("")),
    (("gpu_kern", "gpukern", "kern_sum", "kernel statistics", "kernel summary"), Report("kernel")),
    (("nvtx", "range"), Report("range")),
    (("api", "osrt", "runtime", "mpi_", "openacc", "opengl", "vulkan", "syscall"), Report("api")),
)

#: Heading of the counts or the names -> what an untitled table is about.
UNTITLED = {
    "num calls": Report("api"),
    "operation": Report(""),
    "operations": Report(""),
    "range": Report("range"),
    "instances": Report("kernel"),
}
