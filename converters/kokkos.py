"""What Kokkos Tools' kp_reader prints of simple-kernel-timer's files: the time of each kernel and region by name.

     (Type)   Total Time, Call Count, Avg. Time per Call, %Total Time in Kernels, %Total Program Time
    -------------------------------------------------------------------------
    Regions:

    - KokkosBlas::gemm[noETI]
     (REGION)   0.008380 2 0.004190 27.235744 0.012031
    Kernels:

    - step
     (ParFor)   0.400000 100 0.004000 80.000000 40.000000

                    step (ParFor)           0.40000          100         0.00400  80.000  40.000     until 2019

    |-> 7.34e+00 sec 38.8% 100.0% 0.0% ------ 26647 KokkosBlas::gemm[NN] [for]          space-time-stack: within others
    |   |-> 7.34e+00 sec 38.8% 100.0% 0.0% 0.0% 0.00e+00 26647 step [region]

    Total Execution Time (incl. Kokkos + non-Kokkos):                   0.15366 seconds
    Total Time in Kokkos kernels:                                       0.10101 seconds

The stack's times are those with what is within: figures, which don't add up. Times are seconds, between the host's
calls of the tool; on which device Kokkos ran isn't said.
Facts: profiling/simple-kernel-timer/kp_reader.cpp, kp_kernel_timer.cpp, space-time-stack/kp_space_time_stack.cpp of
kokkos/kokkos-tools.
"""

from __future__ import annotations

from ktrace.kit.text.forms import Columns, Form, Forms
from ktrace.kit.text.trees import INCLUSIVE

_SECONDS = r"\d{1,12}\.\d{1,9}"


def _kind(columns: Columns) -> Columns:
    """A region encloses kernels."""
    if columns["args"]["type"].upper() == "REGION":
        columns |= {"kind": "range", "scope": ["Regions"]}
    return columns


FORMS = Forms(
    "Kokkos Tools",
    ("total time, call count", "(parfor)", "(parred)", "(parscan)", "(region)", "|-> "),
    Form(
        "",
        r" ?\(Type\) +Total Time, Call Count, Avg\. Time per Call, %Total Time in Kernels, %Total Program Time *",
        opens=True,
    ),
    Form(
        "op",
        rf" *(?P<name>\S.{{0,4000}}?) \((?P<type>ParFor|ParRed|ParScan|Region)\) +(?P<total>{_SECONDS})"
        rf" +(?P<count>\d{{1,15}}) +(?P<avg>{_SECONDS})"
        r" +(?P<percent_of_kernels>[\d.]{1,20}) +(?P<percent_of_program>[\d.]{1,20}) *",
        "s",
        refine=_kind,
    ),
    Form(
        "metric",
        r"(?P<indent>[|\s]{0,400})\|-> (?P<total>\d\.\d\de[+-]\d\d) sec (?P<percent>[\d.]{1,8})%(?: [\d.]{1,8}%){2}"
        r"(?: -{6}| [\d.]{1,8}% \S{1,20})? (?P<count>\d{1,15}) (?P<name>\S.{0,4000}) \[(?P<type>\w{1,20})\]",
        "s",
        {"metric": INCLUSIVE},
        inner="metric",
    ),
    Form("", r"- (?P<name>\S.{0,4000})", carries=True, within=True, sign=False),
    Form(
        "op",
        rf" *\((?P<type>\w{{3,10}})\)[ ,;|]+(?P<total>{_SECONDS})[ ,;|]+(?P<count>\d{{1,15}})[ ,;|]+(?P<avg>{_SECONDS})"
        r"[ ,;|]+(?P<percent_of_kernels>[\d.]{1,20})[ ,;|]+(?P<percent_of_program>[\d.]{1,20}) *",
        "s",
        refine=_kind,
        within=True,
        sign=False,
    ),
    Form(
        "total",
        rf"Total Time in Kokkos kernels: +(?P<total>{_SECONDS}) seconds",
        "s",
        {"name": "Kokkos kernels"},
        sign=False,
    ),
    Form(
        "metric",
        rf"(?P<name>Total Execution Time) \(incl\. Kokkos \+ non-Kokkos\): +(?P<total>{_SECONDS}) seconds",
        "s",
        {"metric": "program time"},
        sign=False,
    ),
    Form(
        "",
        r"-{20,}|(?:Regions|Kernels|Summary): *| +-> .{0,200}|Total Calls to Kokkos Kernels: .{0,60}",
        sign=False,
    ),
)

FORMAT = FORMS.format("kokkos", "Kokkos Tools' kernel timer: time of kernels and regions", "*.txt", "*.log")
