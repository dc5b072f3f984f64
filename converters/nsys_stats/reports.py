"""Recognises the reports of nsys by titles and headings, in text, JSON and HTML, and knows the columns of all versions.

Start (ns),Duration (ns),CorrId,GrdX,...,Device,Ctx,GreenCtx,Strm,Name        cuda_gpu_trace, gputrace
Start (ns),Duration (ns),Name,Result,CorrID,Pid,Tid,T-Pri,Thread Name         cuda_api_trace
API Start (ns),API Dur (ns),Queue Start (ns),...,API Function,...,Kernel Name cuda_kern_exec_trace
Start (ns),End (ns),Duration (ns),DurChild (ns),...,RangeId,...,NameTree      nvtx_pushpop_trace
Name,Projected Start (ns),Projected Duration (ns),Orig Start (ns),...         nvtx_gpu_proj_trace

Other tables are summaries, and those of unified memory. Facts: NVIDIA's report scripts and real output.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ktrace.input.source import Sample
from ktrace.kit import Match, Score
from ktrace.kit.text.headings import STATISTICS, Columns, Heading, heading
from ktrace.kit.text.tables import find_tables
from ktrace.kit.text.titles import without_prefix

from .documents import html_headings, json_headings


class Trace(NamedTuple):
    """A trace report: the kind of its rows ("" if it depends on the row), and their track."""

    kind: str
    track: str | None = None


TRACE = Columns(
    {
        "name": ("name", "event", "range", "device name"),
        "start": ("start", "projected start"),
        "end": ("end",),
        "duration": ("duration", "projected duration"),
        "correlation": ("corr id", "corrid"),
        **{f"grid_{axis}": (f"grd{axis}",) for axis in "xyz"},
        **{f"block_{axis}": (f"blk{axis}",) for axis in "xyz"},
        "registers": ("reg/trd",),
        "static": ("stcsmem",),
        "dynamic": ("dymsmem",),
        "bytes": ("bytes", "size"),
        "device": ("device",),
        "context": ("ctx", "context"),
        "stream": ("strm",),
        "pid": ("pid",),
        "tid": ("tid",),
        "thread": ("thread name",),
        "cat": ("event class",),
        "tree": ("name tree",),
    },
    required=("name", "start", "duration|end"),
    others=(
        *("throughput", "throughput (mbps)", "thru", "src mem kd", "dst mem kd", "green ctx", "local mem"),
        *("shrd mem exec", "result", "t pri", "dur child", "dur non child", "lvl", "num child", "range id"),
        *("parent id", "range stack", "orig start", "orig duration", "style", "numgpuops", "kind", "tag", "rank"),
        *("peer rank", "root rank", "coll send size", "coll recv size", "send wait rate"),
        *("send wait rate (ticks/ms)", "guid", "hwid", "vmid"),
    ),
)

#: A launch and its kernel in one row.
EXEC = Columns(
    {
        "name": ("kernel name",),
        "api": ("api function",),
        "api_start": ("api start",),
        "api_duration": ("api dur",),
        "start": ("kernel start",),
        "duration": ("kernel dur",),
        "pid": ("pid",),
        "tid": ("tid",),
        "device": ("dev id",),
        "grid": ("gridxyz",),
        "block": ("blockxyz",),
    },
    required=("name", "api", "api_start", "start"),
    others=("queue start", "queue dur", "total dur"),
)

#: Headings that only nsys has -> the report; the first set of which a table has all counts.
SIGNATURES: tuple[tuple[frozenset[str], Trace], ...] = (
    (frozenset({"strm"}), Trace("")),
    (frozenset({"grdx", "blkx"}), Trace("")),
    (frozenset({"t pri"}), Trace("api")),
    (frozenset({"corrid", "result"}), Trace("api")),
    (frozenset({"projected start"}), Trace("range", "NVTX GPU projection")),
    (frozenset({"range id", "range stack"}), Trace("range")),
    (frozenset({"event", "peer rank"}), Trace("api")),
    (frozenset({"guid", "send wait rate"}), Trace("range", "network congestion")),
    (frozenset({"guid", "send wait rate (ticks/ms)"}), Trace("range", "network congestion")),
)


def trace_of(headings: Sequence[Heading]) -> Trace | None:
    """Returns the trace report with these headings, None if there is none."""
    keys = {head.key for head in headings}
    return next((trace for signature, trace in SIGNATURES if signature <= keys), None)


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
    match = _NAMED.search(title)
    return match[1] if match and match[1] in NAMES else ""


#: Measures of the reports of unified memory: counts of faults, and sizes in bytes.
FAULTS = ("cpu page faults", "gpu page faults", "total cpu page faults", "total gpu page faults")
_SIZES = tuple(f"{total}{way} migration size" for total in ("", "total ") for way in ("htod", "dtoh"))
MEASURES = (*FAULTS, *_SIZES, "migration throughput")

MEMORY = Columns(
    {"name": ("virtual address", "cpu instruction address")},
    required=(),
    others=(*MEASURES, "minimum virtual address", "maximum virtual address", "source file", "source line"),
)


def columns_of(headings: Sequence[Heading], below: object = None) -> dict[str, int] | None:
    """Returns field -> index of its column, None if the table isn't a report. The rows `below` don't matter."""
    fields = EXEC.match(headings) or (TRACE.match(headings) if trace_of(headings) else None) or COLUMNS.match(headings)
    if fields is None and not {head.key for head in headings}.isdisjoint((*FAULTS, *_SIZES)):
        fields = MEMORY.match(headings)
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


_TITLE = re.compile(r"^ ?\*\* .+ \(\w+\):|^(?:CUDA|NVTX|Operating System Runtime).* Statistics(?: \([^()]*\))?:?$")


def recognised(sample: Sample, text: str) -> Match | None:
    """DIALECT for the title of a report or its headings."""
    for kind, first in (("JSON", json_headings), ("HTML", html_headings)):
        keys = first(text)
        if keys and (report := _report_kind(tuple(map(heading, keys)))):
            return Match(Score.DIALECT, f"is {kind} with the headings of an nsys {report}")
    for number, table in enumerate(find_tables(sample, columns_of)):
        titles = (_TITLE.search(without_prefix(line)) for line in sample.lines) if number == 0 else ()
        if title := next(filter(None, titles), None):
            return Match(Score.DIALECT, f"has the title '{title.group().strip(' *:')}' of an nsys report")
        if report := _report_kind(table.headings):
            return Match(Score.DIALECT, f"has the headings of an nsys {report} (line {table.line})")
    return None


def _report_kind(headings: Sequence[Heading]) -> str:
    """Returns the kind of report with these headings, "" if no report has them."""
    fields = columns_of(headings)
    if fields is None:
        return ""
    if is_trace(fields) or is_memory(fields):
        return "trace or memory report"
    return "summary" if _is_summary({head.key for head in headings}) else ""


def _is_summary(keys: set[str]) -> bool:
    """Whether an untitled table has the headings of nsys: a share of the time, a total, its count."""
    shared = bool(keys & {"time", "time %"})
    if shared and keys & {"instances", "num calls", "operation", "range"}:
        return True
    counted = bool(keys & {"count", "operations"}) and len(keys & _STATISTICS) >= 3
    return (counted and (shared or "operation" in keys)) or any(rare <= keys for rare in _ALONE)


#: Statistics; a table whose other headings are common must have three of these.
_STATISTICS = {"avg", "average", "med", "min", "minimum", "max", "maximum", "stddev"}

#: Headings of summaries without shares that only nsys has.
_ALONE = (
    {"total message volume", "instances"},
    {"total proj time", "range"},
    {"qcount", "kernel name"},
    {"nvtx inst", "kern inst"},
    {"q type", "instances"},
)
