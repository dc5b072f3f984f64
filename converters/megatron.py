"""Megatron-LM's timers and the time of its iterations, in the log of a training.

     iteration       10/     100 | consumed samples: 1280 | elapsed time per iteration (ms): 1250.5 | ...
    (min, max) time across ranks (ms):
        forward-backward ...............................: (1000.25, 1005.50)
        optimizer ......................................: (100.00, 101.00)

Timers enclose one another, and each has the least and the greatest time of all ranks (`--timing-log-option`: max has
one, all has each rank's). Facts: megatron/core/timers.py, megatron/training/training.py.
"""

from __future__ import annotations

import re
from decimal import Decimal

from ktrace.kit.text.forms import Columns, Form, Forms
from ktrace.kit.text.numbers import nanoseconds

_TIME = r"\d{1,12}\.\d{1,6}"
_NAME = r"[A-Za-z][\w/ -]{0,80}?"
_PAIR = re.compile(rf"(?P<name>{_NAME}): (?P<total>{_TIME})(?: \||$)")


def _iteration(columns: Columns) -> Columns:
    """The time of an iteration; how often it has such a time isn't said."""
    return columns | {"name": "iteration"}


def _pairs(columns: Columns) -> list[Columns]:
    """The timers in one line, as older versions print them."""
    timers = [(one["name"].strip(), Decimal(one["total"])) for one in _PAIR.finditer(columns["args"].pop("timers"))]
    times = {name: float(nanoseconds(ms, "ms") or 0) for name, ms in timers}
    return [{"name": name, "total": time, "unit": "ns", "args": {}} for name, time in times.items()]


FORMS = Forms(
    "Megatron-LM",
    ("across ranks (ms)", "elapsed time per iteration (ms)"),
    Form(
        "range",
        rf" ?(?:\[[^\[\]]{{0,40}}\] ?)?iteration +(?P<iteration>\d{{1,12}})/ *\d{{1,12}} \|.{{0,400}}?"
        rf"elapsed time per iteration \(ms\): (?P<total>{_TIME}) \|.{{0,2000}}",
        "ms",
        refine=_iteration,
        closes=True,
    ),
    Form("", r"(?:\(min, max\)|max)? ?times? across ranks \(ms\):", opens=True),
    Form(
        "range",
        rf" +(?P<name>{_NAME}) ?\.*: \((?P<min>{_TIME}), (?P<max>{_TIME})\)",
        "ms",
        within=True,
        sign=False,
    ),
    Form("range", rf" +rank +(?P<rank>\d{{1,9}}): (?P<total>{_TIME})", "ms", {"name": "rank"}, within=True, sign=False),
    Form("range", rf" +(?P<name>{_NAME}) ?\.*: (?P<max>{_TIME})", "ms", within=True, sign=False),
    Form("", rf" +(?P<name>{_NAME}):", opens=True, within=True, sign=False),
    Form("range", rf"time \(ms\) \| (?P<timers>(?:{_NAME}: {_TIME}(?: \| ?)?){{1,60}})", refine=_pairs, sign=False),
)

FORMAT = FORMS.format("megatron", "Megatron-LM: timers across ranks, time of iterations", "*.log", "*.txt")
