"""What TAU's pprof prints of a profile: time of functions, calls, kernels, for each thread and summed.

    NODE 0;CONTEXT 0;THREAD 0:
    ---------------------------------------------------------------------------------------
    %Time    Exclusive    Inclusive       #Call      #Subrs  Inclusive Name
                  msec   total msec                          usec/call
    ---------------------------------------------------------------------------------------
    100.0        1,000     1:00.000           1           1   60000000 .TAU application
     50.0       30,000       30,000        1000           0      30000 Kokkos::parallel_for step [type = HIP, ...]

Times are ms, from a minute on min:s, from an hour on h:min:s. Exclusive time is without what a function calls, so
that it adds up. Facts: utils/pprof.cpp of TAU, and what it printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.text.forms import Columns, Form, Forms
from ktrace.kit.text.json_items import beginning
from ktrace.model.batch import Batch

_TIME = r"(?:\d{1,9}:)?(?:\d{1,2}:)?[\d,]{1,15}(?:\.\d{1,6})?"
_DEVICE = re.compile(r"\[type = (?:CUDA|HIP|SYCL|OpenMPTarget|OpenACC)\b(?:, device = (\d{1,3}))?")
_NS = 1_000_000


def _ns(text: str) -> float:
    """A printed time in ns: ms, or minutes and seconds, or hours, minutes and seconds."""
    *before, last = text.replace(",", "").split(":")
    seconds = Decimal(0)
    for part in before:
        seconds = (seconds + int(part)) * 60
    return float((seconds + Decimal(last)) * 10**9) if before else float(Decimal(last) * _NS)


def _function(columns: Columns) -> Columns | list[Columns]:
    """A function with its exclusive time. Rows of call paths, contexts and samples repeat those of functions."""
    name, args = columns["name"], columns["args"]
    if " => " in name or name.startswith(("[CONTEXT]", "[SAMPLE]", "[SUMMARY]", "[UNWIND]")):
        return []
    if match := _DEVICE.search(name):
        columns |= {"kind": "kernel", "device": int(match[1] or 0), "short_name": name[: match.start()].strip()}
    elif name.startswith(("MPI_", "cuda", "hip", "cu")) and name.split("(")[0].isidentifier():
        columns["kind"] = "api"
    columns |= {"total": _ns(args.pop("exclusive")), "unit": "ns"}
    args["inclusive_ns"] = int(_ns(args.pop("inclusive")))
    return columns


#: A row. Of a mean the calls have decimals.
_ROW = Form(
    "range",
    rf" *(?P<share>\d{{1,3}}\.\d) +(?P<exclusive>{_TIME}) +(?P<inclusive>{_TIME})"
    r" +(?P<count>\d{1,15})(?:\.\d{1,6})?"
    r" +(?P<subroutines>\d{1,15}(?:\.\d{1,6})?(?:e\+\d\d)?) +(?P<us_per_call>\d{1,15}) (?P<name>\S.{0,4000})",
    refine=_function,
    within=True,
    sign=False,
)
_HEADINGS = Form("", r"%Time +Exclusive +Inclusive +#Call +#Subrs +Inclusive Name")
_THREAD = Form("", r"NODE (?P<node>\d+);CONTEXT (?P<context>\d+);THREAD (?P<thread>\d+):", opens=True)
_REST = Form("", r"-{20,}| +msec +total msec +usec/call *|Reading Profile files in .{0,500}", sign=False)
_EVENTS = Form("", r"USER EVENTS Profile :.{0,200}", closes=True, sign=False)

#: Sums over threads are left out where the threads are there, too; of a mean they are all there is.
FORMS = Forms(
    "TAU pprof",
    ("#call",),
    Form("", r"FUNCTION SUMMARY \((?P<name>total|mean)\):", opens=True, folds=True),
    *(_THREAD, _EVENTS, _HEADINGS, _ROW, _REST),
)
SUMMED = Forms(
    "TAU pprof",
    ("#call",),
    Form("", r"FUNCTION SUMMARY \((?P<name>total)\):", opens=True),
    Form("", r"FUNCTION SUMMARY \((?P<name>mean)\):", opens=True, folds=True),
    *(_EVENTS, _HEADINGS, _ROW, _REST),
)
BARE = Forms("TAU pprof", ("#call",), Form("", _HEADINGS.pattern, opens=True), _EVENTS, _ROW, _REST)


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the functions of the threads; where no thread is there, of the total or the only table."""
    begin = beginning(source, 1 << 16)
    forms = FORMS if "NODE " in begin else SUMMED if "FUNCTION SUMMARY (total)" in begin else BARE
    yield from forms.read(source, conversion)


FORMAT = replace(
    FORMS.format("tau", "TAU pprof: time of functions and kernels as text", "*.txt", "pprof*.out"), read=read
)
