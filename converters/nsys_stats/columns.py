"""Columns and reports of `nsys stats`, of all versions. Facts: NVIDIA's report scripts and real output."""

from __future__ import annotations

from typing import NamedTuple

from .._shared.columns import STATISTICS, Columns

#: Columns of a name that stand beside the name itself: the range of a kernel, the call that launched it.
_BESIDE = ("style", "nvtx range", "nvtx inst", "api name", "qcount")

#: Further columns of `nvtx_gpu_proj_sum`, and the times of `cuda_kern_exec_sum` that aren't the kernel's own.
_FURTHER = (
    *("total range time", "total gpu ops", "avg gpu ops", "avg range lvl", "avg num child"),
    *(f"{part}{figure}" for part in "aqt" for figure in ("avg", "med", "min", "max", "std dev")),
)

COLUMNS = Columns(
    {
        "name": ("name", "kernel name", "operation", "range"),
        **STATISTICS,
        "total": ("total time", "total", "total proj time"),
        "count": ("instances", "num calls", "kern inst", "range instances", "count", "operations", "calls"),
        "percent": ("time %", "time"),
        "avg": (*STATISTICS["avg"], "proj avg", "kavg"),
        "median": (*STATISTICS["median"], "proj med", "kmed"),
        "min": (*STATISTICS["min"], "proj min", "kmin"),
        "max": (*STATISTICS["max"], "proj max", "kmax"),
        "stddev": (*STATISTICS["stddev"], "proj std dev", "kstd dev"),
        "category": ("category",),
        "grid": ("gridxyz",),
        "block": ("blockxyz",),
        "pid": ("pid",),
        "tid": ("tid",),
        "device": ("dev id",),
    },
    required=("name", "total|avg", "count"),
    others=(*_BESIDE, *_FURTHER),
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
    (("gpu_kern", "kern_sum", "kern_exec", "kernel statistics", "kernel summary"), Report("kernel")),
    (("gpukern", "kernsum", "kernexec"), Report("kernel")),
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
