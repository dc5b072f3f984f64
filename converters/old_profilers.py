"""What profilers print that vendors no longer develop: CUDA's own (CUDA_PROFILE=1), tfprof, XLA's HLO profile.

    # CUDA_DEVICE 0 Tesla K40c
    method=[ memcpyHtoD ] gputime=[ 1.312 ] cputime=[ 2.064 ]
    method=[ saxpy ] gputime=[ 12.544 ] cputime=[ 13.317 ] occupancy=[ 1.000 ]

    node name | requested bytes | total execution time | accelerator execution time | cpu execution time
    MatMul  4.00MB (100.00%, 80.00%),  12.00ms (100.00%, 60.00%),  8.00ms (100.00%, 80.00%),  4.00ms (100.00%, 40.00%)

    20213 cycles ( 0.12% 43Σ) ::  14.3 usec ( 5.1 optimal) :: 219.37GFLOP/s :: 511.38GiB/s :: %fusion.218 = f32[1024]

Times of the first are us: those of the device are its work, a line for each launch; with time stamps they are events.
Of two shares of tfprof the first is that of the node and all below it in the table; the accelerator's time is its work.
Facts: NVIDIA's Compute Command Line Profiler User Guide; tfprof_constants.h and tfprof_op.cc; XLA's
human_readable_profile_builder.cc.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample
from ktrace.kit.text.device_names import device_work
from ktrace.kit.text.forms import Columns, Form, Forms
from ktrace.kit.text.numbers import duration_ns
from ktrace.model.batch import Batch

_N = r"\d{1,15}(?:\.\d{0,9})?"


def _work(columns: Columns) -> Columns:
    """A launch, a copy or a memset of a device."""
    spaced = re.sub(r"^(memcpy|memset)", r"\1 ", str(columns["name"]).removesuffix("async"))
    kind, copy_kind = device_work(spaced)
    once = {} if "ts" in columns else {"count": 1}
    return columns | once | {"kind": kind} | ({"copy_kind": copy_kind} if copy_kind else {})


_METHOD = r"method=\[ (?P<name>.{1,4000}?) \] gputime=\["
_AFTER = (
    rf"(?: cputime=\[ (?P<cputime_us>{_N}) \])?(?: occupancy=\[ (?P<occupancy>{_N}) \])?(?P<more>(?: \w+=\[ .*?\])*)\s*"
)

CUDA = Forms(
    "CUDA's command line profiler",
    ("gputime",),
    Form("fact", r"\s*# (?:CUDA|OPENCL)_DEVICE (?P<device>\d{1,4}) (?P<name>.{1,200}?)\s*"),
    Form("", r"\s*# (?:(?:CUDA|OPENCL)_(?:PROFILE_LOG_VERSION|CONTEXT)|TIMESTAMPFACTOR) .{1,100}", sign=False),
    Form("", r"\s*(?:\w{1,40},)?method,gputime(?:,\w{1,60}){0,40}\s*", opens=True),
    Form(
        "kernel",
        rf"\s*(?:\d{{1,9}} )?timestamp=\[ (?P<ts>{_N}) \] {_METHOD} (?P<dur>{_N}) \]{_AFTER}",
        "us",
        refine=_work,
    ),
    Form(
        "kernel",
        rf"\s*(?:\d{{1,9}} )?{_METHOD} (?P<total>{_N}) \]{_AFTER}",
        "us",
        refine=_work,
    ),
    Form(
        "kernel",
        rf"\s*(?P<name>[A-Za-z_][^,=]{{0,4000}}),(?P<total>{_N}),(?P<cputime_us>{_N})"
        r"(?:,(?P<more>[\d.,x ]{0,400}))?\s*",
        "us",
        refine=_work,
        within=True,
        sign=False,
    ),
)


def _times(columns: Columns) -> list[Columns]:
    """The node on the host, and on the accelerator if it ran there."""
    args = dict(columns["args"])
    rows: list[Columns] = []
    for place, kind in (("accelerator", "kernel"), ("cpu", "op")):
        figure, unit, share = (str(args.pop(f"{place}{part}")) for part in ("", "_of", "_share"))
        total = duration_ns(figure, "s" if unit == "sec" else unit)
        if total or (kind == "op" and not rows):
            rows.append({"name": columns["name"], "kind": kind, "total": total, "unit": "ns", "percent": float(share)})
    return [row | {"args": dict(args)} for row in rows]


def _cell(name: str, units: str) -> str:
    """A figure with its unit and its two shares."""
    return rf"(?P<{name}>{_N})(?P<{name}_of>{units}) \((?:--|{_N}%), (?P<{name}_share>{_N})%\)"


_TIME_UNITS = "us|ms|sec"
TFPROF = Forms(
    "tfprof",
    ("node name |",),
    Form(
        "",
        r"node name(?: \| requested bytes)? \| total execution time \| accelerator execution time"
        r" \| cpu execution time.{0,400}",
        opens=True,
    ),
    Form(
        "op",
        rf" {{0,200}}(?P<name>\S{{1,2000}}) +(?:{_cell('bytes_asked', 'B|KB|MB|GB')}, +)?{_cell('both', _TIME_UNITS)}"
        rf", +{_cell('accelerator', _TIME_UNITS)}, +{_cell('cpu', _TIME_UNITS)}(?:, .{{0,2000}})?\s*",
        refine=_times,
        within=True,
        sign=False,
    ),
)


def _instruction(columns: Columns) -> Columns:
    return columns | {"kind": "total" if str(columns["name"]).startswith("[") else "op", "count": 1}


XLA = Forms(
    "XLA's HLO profile",
    ("optimal) ::",),
    Form(
        "op",
        rf".{{0,200}}?(?P<cycles>\d{{1,18}}) cycles \( ?(?P<percent>{_N})% +{_N}Σ\) :: +(?P<total>{_N}) usec"
        rf" \((?: *(?P<optimal_us>{_N}) optimal| *)\) ::(?P<rates>[^:]{{0,40}}(?:::[^:]{{0,40}}){{0,6}})"
        r":: (?P<name>[%\[]\S{1,400})"
        r"(?: = | |$)(?P<hlo>.{0,8000})",
        "us",
        refine=_instruction,
    ),
    Form("", r".{0,200}?Execution profile for .{1,400}", opens=True, sign=False),
)

TOOLS = (CUDA, TFPROF, XLA)


def probe(sample: Sample) -> Match | None:
    """DIALECT for what one of the tools prints."""
    return next(filter(None, (forms.probe(sample) for forms in TOOLS)), None)


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the launches, nodes or instructions."""
    sample = source.sample()
    yield from next((forms for forms in TOOLS if forms.probe(sample)), CUDA).read(source, conversion)


FORMAT = Format(
    "old-profilers",
    "legacy profilers: CUDA_PROFILE=1, tfprof, XLA's HLO profile",
    patterns=("cuda_profile_*.log", "opencl_profile_*.log", "*.txt"),
    probe=probe,
    read=read,
    words=tuple(word for forms in TOOLS for word in forms.words),
    prose=True,
)
