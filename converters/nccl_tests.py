"""What nccl-tests and rccl-tests print (all_reduce_perf, ...): times of a collective by size.

    # nThread 1 nGpus 8 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 ...
    #  Rank  0 Group  0 Pid   6899 on node1 device  0 [0000:04:00] NVIDIA H100 80GB HBM3
    #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
    #        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
         1048576        262144     float     sum      -1    31.64   33.14   58.00      0    31.15   33.66   58.91      0
    # Avg bus bandwidth    : 125.7

Facts: src/common.cu and src/all_reduce.cu of NVIDIA/nccl-tests and ROCm/rccl-tests. Times are averages of iterations.
"""

from __future__ import annotations

from ktrace.kit.text.forms import Columns, Form, Forms

_FIGURE = r"\d{1,15}(?:\.\d{1,10})?(?:e[+-]?\d{1,2})?"
_WRONG = rf"{_FIGURE}|N/A"


def _both(columns: Columns) -> list[Columns]:
    """The measurements of a line, out of place and in place."""
    args = columns.pop("args")
    rows = []
    for mark, place in (("out", "out-of-place"), ("in", "in-place")):
        figures = {name.removeprefix(f"{mark}_"): value for name, value in args.items() if name.startswith(f"{mark}_")}
        if not figures:
            continue
        shared = {name: value for name, value in args.items() if not name.startswith(("out_", "in_"))}
        name = f"{place} {columns['bytes']} B"
        rows.append(
            columns | {"name": name, "avg": float(figures.pop("time")) * 1000, "unit": "ns", "args": shared | figures}
        )
    return rows


def _measured(mark: str) -> str:
    return (
        rf" +(?P<{mark}_time>{_FIGURE}) +(?P<{mark}_algbw>{_FIGURE}) +(?P<{mark}_busbw>{_FIGURE})"
        rf" +(?P<{mark}_wrong>{_WRONG})"
    )


FORMS = Forms(
    "nccl-tests",
    ("algbw",),
    Form("", r"#.{0,200}? (?:time|cputime) +algbw +busbw.{0,200}", opens=True),
    Form(
        "metric",
        r" *(?P<bytes>\d{1,18}) +(?P<elements>\d{1,18}) +(?P<type>[a-z]\w{0,20})(?: +(?P<redop>[a-z]\w{0,20}))?"
        rf"(?: +(?P<root>-?\d{{1,6}}))?{_measured('out')}(?:{_measured('in')})? *",
        columns={"operation": "collective"},
        refine=_both,
        within=True,
        sign=False,
    ),
    Form(
        "metric",
        rf"# Avg bus bandwidth +: (?P<value>{_FIGURE}) *(?P<result>\w{{0,10}})",
        unit="GB/s",
        columns={"name": "average bus bandwidth", "metric": "bus bandwidth"},
        sign=False,
    ),
    Form(
        "fact",
        r"# +Rank +\d+ (?:Group +\d+ )?Pid +\d+ on +(?P<host>\S{1,200}) device +(?P<device>\d{1,4})"
        r" \[(?P<bus>[^\]]{1,20})\] (?P<name>\S.{0,200})",
        sign=False,
    ),
    Form(
        "fact",
        r"# nThread (?P<threads>\d+) nGpus (?P<gpus>\d+) .{0,200}?"
        r" warmup iters: (?P<warmup>\d+) iters: (?P<iterations>\d+).*",
        sign=False,
    ),
    Form("", r"#.*", sign=False),
)

FORMAT = FORMS.format(
    "nccl-tests", "nccl-tests, rccl-tests: times and bandwidths of collectives by size", "*.log", "*.txt"
)
