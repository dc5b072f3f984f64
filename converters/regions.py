"""Reports of profilers whose regions a program names: AMReX' TinyProfiler, Caliper, Halide, QUDA, CP2K, PETSc, CuPy.

    TinyProfiler total time across processes [min...avg...max]: 109.8 ... 115.3 ... 116.4
    Name                        NCalls  Excl. Min  Excl. Avg  Excl. Max   Max %
    MultiGrid::solve()            2000      21.04      22.08      23.58  20.25%

    Path         Time (E) Time (I) Time % (E) Time % (I)         Min time/rank Max time/rank Avg time/rank Time %
    main         0.376914 6.976914   5.974718  99.974718              5.401629      5.405664      5.403646 99.969548
      solve      6.600000 6.600000  94.000000  94.000000

    blur
     total time: 261.565887 ms  samples: 228  runs: 11  time/run: 23.778717 ms
      gray:           1.640ms   (6%)    threads: 32.187 heap: 30625808 allocs: 11     avg: 30625808
      rows          │   1.20ms (80.0%) │ 30.00 │ ...                             since 2026

    my_func             :    CPU:   44.407 us   +/- 2.428 (min:   42.516 / max:   53.098) us     GPU-0:  181.565 us ...

               invertQuda Total time = 1.07117 secs
                  compute     = 1.037057 secs (  96.8%), with        1 calls at 1.037057e+06 us per call

     SUBROUTINE                       CALLS  ASD         SELF TIME        TOTAL TIME
                                    MAXIMUM       AVERAGE  MAXIMUM  AVERAGE  MAXIMUM
     cp_fm_syevd                         12  8.0   40.347   40.347   40.460   40.460

    Event                Count      Time (sec)     Flop                 --- Global ---  ...      what -log_view prints
                       Max Ratio  Max     Ratio   Max  Ratio  Mess ...  %T %F %M %L %R
    MatMult             5000 1.0 1.2500e+01 1.1 3.20e+10 1.0 2.0e+04 ...  40 50 99 99  0

Times of TinyProfiler, Caliper and CP2K are seconds. Those of PETSc's events are with what is within, and so figures.
What a region took itself adds up; where the shares of Caliper's
ranks are more than 100 % together, times are those with what is within, as its calc.inclusive makes them: figures,
which don't add up. Halide's is that of one run, and those of several processes are their average. Where the work was
done isn't said.
Facts: AMReX_TinyProfiler.cpp; RuntimeReportController.cpp of Caliper; Halide's profiler_common.cpp; QUDA's timer.cpp;
CP2K's timings_report.F; PETSc's plog.c; cupyx' _time.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample
from ktrace.kit.text.forms import Columns, Form, Forms
from ktrace.kit.text.trees import INCLUSIVE
from ktrace.model.batch import Batch

_N = r"\d{1,12}(?:\.\d{1,12})?(?:e[+-]\d\d)?"
_US = (
    r" {0,9}(\d{1,12}\.\d{3}) us(?: {1,9}\+/- {0,9}(\d{1,12}\.\d{3})"
    r" \(min: {0,9}(\d{1,12}\.\d{3}) / max: {0,9}(\d{1,12}\.\d{3})\) us)?"
)


def _of_each(columns: Columns) -> list[Columns]:
    """The averages on the host and on each device."""
    name, each = columns["name"], []
    for place, *figures in re.findall(rf"(CPU|GPU-\d{{1,4}}):{_US}", str(columns["args"]["times"])):
        row: Columns = {"name": f"{name.strip()}, {place}", "unit": "ns", "args": {}}
        for field, figure in zip(("avg", "stddev", "min", "max"), figures, strict=True):
            row |= {field: float(Decimal(figure) * 1000)} if figure else {}
        each.append(row)
    return each


_OWN, _WITH = (rf"Name +NCalls +{of}\. Min +{of}\. Avg +{of}\. Max +Max % *" for of in ("Excl", "Incl"))

AMREX = Forms(
    "AMReX TinyProfiler",
    ("tinyprofiler total time", "excl. min"),
    Form(
        "total",
        rf"TinyProfiler total time across processes \[min\.\.\.avg\.\.\.max\]: (?P<min>{_N}) \.\.\. (?P<total>{_N})"
        rf" \.\.\. (?P<max>{_N})",
        "s",
        {"name": "total"},
        opens=True,
    ),
    Form("", _OWN, within=True),
    Form("", _OWN, opens=True),
    Form("", _WITH, opens=True, folds=True, sign=False),
    Form("", r"BEGIN REGION (?P<name>.{1,4000})", opens=True, folds=True, sign=False),
    Form("", r"END REGION .{1,4000}|-{20,}", sign=False),
    Form(
        "op",
        rf"(?P<name>\S.{{0,4000}}?) +(?P<count>\d{{1,15}}) +(?P<least_s>{_N}) +(?P<total>{_N}) +(?P<most_s>{_N})"
        rf" +(?P<percent_of_most>{_N})%",
        "s",
        within=True,
        sign=False,
    ),
)


def _caliper(word: str, headings: str, figures: str, kind: str = "op") -> Forms:
    """Caliper's report of one process, or of several; of kind metric if its times are those with what is within."""
    row = rf"(?P<indent> *)(?P<name>\S.{{0,4000}}?) +{figures} *"
    return Forms(
        "Caliper",
        (word,),
        Form("", rf"Path +{headings} *", opens=True),
        Form(kind, row, "s", {"metric": INCLUSIVE} if kind == "metric" else {}, inner=kind, within=True, sign=False),
    )


CALIPER = _caliper(
    "time (e)",
    r"Time \(E\) +Time \(I\) +Time % \(E\) +Time % \(I\)",
    rf"(?P<total>{_N}) +(?P<inclusive_s>{_N}) +(?P<percent>{_N}) +(?P<inclusive_percent>{_N})",
)
_OF_RANKS = (
    "time/rank",
    "Min time/rank +Max time/rank +Avg time/rank +Time %",
    rf"(?P<least_s>{_N}) +(?P<most_s>{_N}) +(?P<total>{_N}) +(?P<percent>{_N})",
)
CALIPER_OF_RANKS = _caliper(*_OF_RANKS)
CALIPER_INCLUSIVE = _caliper(*_OF_RANKS, kind="metric")
_SHARE = re.compile(rf"^ *\S.* {_N} +{_N} +{_N} +({_N}) *$", re.MULTILINE)

_PER_RUN = rf"(?P<total>{_N}) ?ms +\( ?(?P<percent>{_N})%\)"

PETSC = Forms(
    "PETSc",
    ("time (sec)",),
    Form("", r"Event +Count +Time \(sec\) .*", opens=True),
    Form("", r" +Max Ratio +Max .*|--- Event Stage \d{1,4}: .*|-{20,}", sign=False),
    Form(
        "metric",
        rf"(?P<name>[A-Za-z]\S{{0,200}}) +(?P<count>\d{{1,15}}) +{_N} +(?P<total>{_N}) +(?P<ratio>{_N}) +(?P<flop>{_N})"
        rf"(?: +{_N}){{4}} +(?P<percent_of_time>\d{{1,3}}) (?P<more>[ \d.na-]{{8,400}})",
        "s",
        {"metric": INCLUSIVE},
        within=True,
        sign=False,
    ),
)

HALIDE = Forms(
    "Halide",
    ("time/run:", "time per run:"),
    Form(
        "total",
        rf" total time: (?P<all_runs_ms>{_N}) ms +samples: (?P<samples>\d{{1,12}}) +runs: (?P<runs>\d{{1,12}})"
        rf"[^:]{{0,40}} +time(?:/| per )run: (?P<total>{_N}) ms",
        "ms",
        {"name": "total"},
        opens=True,
    ),
    Form("op", rf" +(?P<name>\S.{{0,4000}}?):? +(?:│ +)?{_PER_RUN} *(?P<more>.*)", "ms", within=True, sign=False),
    Form("", r" +(?:average threads|heap alloc|name +│|│).*|-{20,}", sign=False),
)

CUPY = Forms(
    "cupyx.profiler",
    ("gpu-",),
    Form("", r"(?P<name>[A-Za-z][^:]{0,200}):", opens=True, sign=False),
    Form("metric", r" {0,9}(?P<name>[\w<>]{1,200}) *: {4}(?P<times>CPU:" + _US + r".{0,4000})", refine=_of_each),
)

_QUDA_PART = rf"(?P<total>{_N}) secs \( *(?P<percent>{_N})%\)"

QUDA = Forms(
    "QUDA",
    ("quda total time =", "us per call"),
    Form("total", rf" *(?P<name>\S{{1,200}}) Total time = +(?P<total>{_N}) secs\s*", "s", opens=True),
    Form("metric", rf" *(?P<name>total (?:accounted|missing)) +=\s+{_QUDA_PART}\s*", "s", within=True, sign=False),
    Form(
        "op",
        rf" *(?P<name>\S{{1,200}}) +=\s+{_QUDA_PART},\s+with +(?P<count>\d{{1,12}}) calls at {_N} us per call\s*",
        "s",
        within=True,
    ),
)

CP2K = Forms(
    "CP2K",
    ("asd  ",),
    Form("", r" *SUBROUTINE +CALLS +ASD +SELF TIME +TOTAL TIME *", opens=True),
    Form("", r" *MAXIMUM +AVERAGE +MAXIMUM +AVERAGE +MAXIMUM *", within=True, sign=False),
    Form(
        "op",
        rf" *(?P<name>\S{{1,200}}) +(?P<count>\d{{1,12}}) +(?P<depth_of_stack>\d{{1,4}}\.\d) +(?P<total>{_N})"
        rf" +(?P<most_s>{_N}) +(?P<inclusive_s>{_N}) +(?P<inclusive_most_s>{_N}) *",
        "s",
        within=True,
        sign=False,
    ),
)

#: Shares of what regions took themselves add up to at most this, in percent.
_WHOLE = 101

TOOLS = (AMREX, CALIPER, CALIPER_OF_RANKS, HALIDE, QUDA, CP2K, CUPY, PETSC)


def probe(sample: Sample) -> Match | None:
    """DIALECT for a report of one of the tools."""
    return next(filter(None, (forms.probe(sample) for forms in TOOLS)), None)


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the regions of the report."""
    sample = source.sample()
    forms = next((forms for forms in TOOLS if forms.probe(sample)), AMREX)
    if forms is CALIPER_OF_RANKS and sum(map(Decimal, _SHARE.findall(sample.text or ""))) > _WHOLE:
        forms = CALIPER_INCLUSIVE  # calc.inclusive isn't said in the report
    yield from forms.read(source, conversion)


FORMAT = Format(
    "regions",
    "regions of AMReX TinyProfiler, Caliper, Halide, QUDA, CP2K, PETSc; cupyx.profiler",
    patterns=("*.txt", "*.log"),
    probe=probe,
    read=read,
    words=tuple(word for forms in TOOLS for word in forms.words),
    prose=True,
)
