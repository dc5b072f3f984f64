"""The columns and reports of all versions of `nsys stats`. Facts: NVIDIA's report scripts and real output.

Recognises tables that are reports of nsys: summaries, traces, those of unified memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ktrace.kit.text.headings import STATISTICS, Columns, Heading

from .trace_columns import trace_columns_of

#: Columns next to the name that describe it: the range of a kernel, the call that launched it.
_BESIDE = ("style", "nvtx range", "nvtx inst", "api name", "qcount", "source", "event type", "hwid", "vmid")

#: Further columns of `wddm_queue_sum`.
_QUEUES = ("utilization %", "utilization", "q type", "q name", "engine", "node ord")

#: Further columns of `nvtx_gpu_proj_sum`, and the times of `cuda_kern_exec_sum` that aren't the kernel's own.
_FURTHER = (
    *("total range time", "total gpu ops", "avg gpu ops", "avg range lvl", "avg num child"),
    *(f"{part}{figure}" for part in "aqt" for figure in ("avg", "med", "min", "max", "std dev")),
)

COLUMNS = Columns(
    {
        "name": ("name", "kernel name", "operation", "range"),
        **STATISTICS,
        "total": ("total time", "total", "total proj time", "total message volume"),
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
        "device": ("dev id", "gpu id"),
        "context": ("context",),
    },
    required=("name", "total|avg", "count"),
    others=(*_BESIDE, *_FURTHER, *_QUEUES),
)


class Report(NamedTuple):
    """The contents of a report: the kind of its rows ("" if it depends on the row), and the metric."""

    kind: str
    metric: str = "duration"


#: Words of a report's name or title -> its contents; the first that occurs counts.
REPORTS = (
    (("mpi_msg_size", "mpi message size"), Report("api", "bytes")),
    (
        ("mem_size", "memsize", "memops summary (by size)", "statistics (by size", "statistics (bytes)"),
        Report("", "bytes"),
    ),
    (("statistics (kib)", "statistics (kb)", "statistics (mib)", "statistics (mb)"), Report("", "bytes")),
    (("mem_time", "memtime", "memops summary", "memory operation statistics"), Report("")),
    (("gpu_sum", "gpusum", "kernels/memops"), Report("")),
    (("gpu_kern", "kern_sum", "kern_exec", "kernel statistics", "kernel summary"), Report("kernel")),
    (("gpukern", "kernsum", "kernexec"), Report("kernel")),
    (("nvtx", "range", "marker", "pix", "khrdebug", "wddm"), Report("range")),
    (("api", "osrt", "runtime", "mpi", "openacc", "openmp", "opengl", "vulkan", "syscall", "nvvideo"), Report("api")),
)

#: Headings -> the contents of a table with all of them, whatever its title; the first match counts.
CERTAIN: tuple[tuple[frozenset[str], Report], ...] = (
    (frozenset({"total message volume"}), Report("api", "bytes")),
    (frozenset({"q type", "instances"}), Report("range")),
    (frozenset({"category", "operation"}), Report("")),
    (frozenset({"source", "instances"}), Report("api")),
    (frozenset({"num calls"}), Report("api")),
    (frozenset({"kernel name"}), Report("kernel")),
    (frozenset({"gridxyz"}), Report("kernel")),
    (frozenset({"range"}), Report("range")),
    (frozenset({"operation", "total"}), Report("", "bytes")),  # that of times is called "total time"
    (frozenset({"operation"}), Report("")),
)

#: Headings -> the contents of a table without a report's name; tables of other tools may have these headings, too.
UNTITLED: tuple[tuple[str, Report], ...] = (("instances", Report("kernel")), ("operations", Report("")))

#: Names of reports, which file names may contain (`run_cuda_gpu_kern_sum.csv`): since 2023, and before.
_TODAY = """
    cuda_api_gpu_sum cuda_api_sum cuda_api_trace cuda_gpu_kern_gb_sum cuda_gpu_kern_sum cuda_gpu_mem_size_sum
    cuda_gpu_mem_time_sum cuda_gpu_sum cuda_gpu_trace cuda_kern_exec_sum cuda_kern_exec_trace dx11_pix_sum
    dx12_gpu_marker_sum dx12_pix_sum mpi_event_sum mpi_event_trace mpi_msg_size_sum network_congestion
    nvtx_gpu_proj_sum nvtx_gpu_proj_trace nvtx_kern_sum nvtx_pushpop_sum nvtx_pushpop_trace nvtx_startend_sum
    nvtx_sum nvvideo_api_sum openacc_sum opengl_khr_gpu_range_sum opengl_khr_range_sum openmp_sum osrt_sum
    syscall_sum um_cpu_page_faults_sum um_sum um_total_sum vulkan_api_sum vulkan_api_trace
    vulkan_gpu_marker_sum vulkan_marker_sum wddm_queue_sum
"""
_BEFORE = """
    apigpusum cudaapisum cudaapitrace dx11pixsum dx12gpumarkersum dx12pixsum gpukerngbsum gpukernsum gpumemsizesum
    gpumemtimesum gpusum gputrace khrdebuggpusum khrdebugsum kernexecsum kernexectrace nvtxgpuproj nvtxkernsum
    nvtxppsum nvtxpptrace nvtxsesum nvtxsssum nvtxsum openaccsum openmpevtsum osrtsum pixsum unifiedmemory
    unifiedmemorytotals umcpupagefaults vulkanapisum vulkanapitrace vulkangpumarkersum vulkanmarkerssum
    wddmqueuesdetails
"""
NAMES = frozenset((_TODAY + _BEFORE).split())
_NAMED = re.compile(r"\((\w+)(?::[^()\s]*)?\)\s*$")


def report_of(filename: str) -> str:
    """Returns the longest report's name in the name of a file, "" if there is none."""
    stem = filename.lower().rsplit(".", 1)[0]
    names = (name for name in NAMES if re.search(rf"(?:^|[^a-z0-9]){name}(?![a-z0-9])", stem))
    return max(names, key=len, default="")


def report_in_title(title: str) -> str:
    """Returns the report that a title names in brackets, as nsys writes it; "" if it names none."""
    found = _NAMED.search(title)
    return found[1] if found and found[1] in NAMES else ""


#: Measures of the reports of unified memory: counts of faults, and sizes in bytes.
FAULTS = ("cpu page faults", "gpu page faults", "total cpu page faults", "total gpu page faults")
_SIZES = tuple(f"{total}{way} migration size" for total in ("", "total ") for way in ("htod", "dtoh"))
MEASURES = (*FAULTS, *_SIZES, "migration throughput")

MEMORY = Columns(
    {"name": ("virtual address", "cpu instruction address")},
    required=(),
    others=(*MEASURES, "minimum virtual address", "maximum virtual address", "source file", "source line"),
)


def memory_columns_of(headings: Sequence[Heading]) -> Mapping[str, int] | None:
    """Returns field -> index of its column for a report of unified memory, None for other tables."""
    keys = {head.key for head in headings}
    return MEMORY.match(headings) if keys & {*FAULTS, *_SIZES} else None


def columns_of(headings: Sequence[Heading], first: Sequence[str] = ()) -> dict[str, int] | None:
    """Returns field -> index of its column, None if the table isn't a report. The `first` row doesn't matter."""
    fields = trace_columns_of(headings) or COLUMNS.match(headings)
    if fields is None:
        fields = memory_columns_of(headings)
    return None if fields is None else dict(fields)


def is_trace(fields: dict[str, int]) -> bool:
    """Whether a table is a trace: its rows have a start."""
    return "start" in fields


def is_memory(fields: dict[str, int]) -> bool:
    """Whether a table is a report of unified memory."""
    return not fields.keys() - {"name"}


def known_columns(fields: dict[str, int]) -> Columns:
    """Returns the known columns of a table without times."""
    return MEMORY if is_memory(fields) else COLUMNS
