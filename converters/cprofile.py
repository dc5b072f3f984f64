"""What cProfile, profile and pstats print: calls and times of Python's functions.

             2003 function calls (1903 primitive calls) in 1.250 seconds

       ncalls  tottime  percall  cumtime  percall filename:lineno(function)
            1    0.010    0.010    1.250    1.250 train.py:1(<module>)
      200/100    0.240    0.001    0.940    0.009 model.py:10(forward)

A total is tottime, the time in the function itself, so that rows add up; cumtime, with what it called, is an argument.
Facts: Lib/pstats.py of CPython.
"""

from __future__ import annotations

from ktrace.kit.text.forms import Columns, Form, Forms

_TIME = r"\d{1,9}\.\d{3}"


def _calls(columns: Columns) -> Columns:
    """All calls of a recursive function, not only those that aren't within another one."""
    if (primitive := columns["args"].pop("primitive", None)) is not None:
        columns["args"]["primitive_calls"] = primitive
    return columns


FORMS = Forms(
    "cProfile",
    ("ncalls ",),
    Form(
        "total",
        rf" +(?P<count>\d{{1,12}}) function calls(?: \((?P<primitive_calls>\d{{1,12}}) primitive calls\))?"
        rf" in (?P<total>{_TIME}) (?:CPU )?seconds",
        "s",
        {"name": "function calls"},
        sign=False,
    ),
    Form("", r" {1,9}ncalls +tottime +percall +cumtime +percall +filename:lineno\(function\)", opens=True),
    Form(
        "op",
        rf" *(?P<count>\d{{1,12}})(?:/(?P<primitive>\d{{1,12}}))? +(?P<total>{_TIME}) +(?P<avg>{_TIME})?"
        rf" +(?P<cumtime_s>{_TIME}) +(?P<cumtime_per_call_s>{_TIME})? +(?P<name>\S.{{0,4000}})",
        "s",
        refine=_calls,
        within=True,
        sign=False,
    ),
    Form("", r" +(?:Ordered by|List reduced from|Random listing order).{0,200}", sign=False),
)

FORMAT = FORMS.format("cprofile", "cProfile and pstats: time of Python functions", "*.txt", "*.log")
