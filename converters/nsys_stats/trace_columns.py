"""The columns of the reports that have a row for each event. Facts: NVIDIA's report scripts and real output.

Start (ns),Duration (ns),CorrId,GrdX,...,Device,Ctx,GreenCtx,Strm,Name        cuda_gpu_trace, gputrace
Start (ns),Duration (ns),Name,Result,CorrID,Pid,Tid,T-Pri,Thread Name         cuda_api_trace
API Start (ns),API Dur (ns),Queue Start (ns),...,API Function,...,Kernel Name cuda_kern_exec_trace
Start (ns),End (ns),Duration (ns),DurChild (ns),...,RangeId,...,NameTree      nvtx_pushpop_trace
Name,Projected Start (ns),Projected Duration (ns),Orig Start (ns),...         nvtx_gpu_proj_trace
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ktrace.kit.text.headings import Columns, Heading


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
        *(
            "peer rank",
            "root rank",
            "coll send size",
            "coll recv size",
            "send wait rate",
            "send wait rate (ticks/ms)",
            "guid",
            "hwid",
            "vmid",
        ),
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


def trace_columns_of(headings: Sequence[Heading]) -> Mapping[str, int] | None:
    """Returns field -> index of its column for a trace, None for other tables."""
    return EXEC.match(headings) or (TRACE.match(headings) if trace_of(headings) else None)
