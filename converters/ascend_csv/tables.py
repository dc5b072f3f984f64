"""The tables of Ascend's CSV files, by their headings without units, in lower case.

Facts: the headings in msprof (csrc/application/summary, msconfig) and torch_npu (profiler/analysis), 2023 to 2026.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_UNITS = ("(us)", "(ns)", "(ms)", "(kb)", "(mb)", "(%)")


@dataclass(frozen=True)
class Table:
    """A table: its name, and headings that it always has; one of each alternative ("a|b") is enough."""

    what: str
    headings: tuple[str, ...]

    def has(self, own: frozenset[str]) -> bool:
        """Whether a table with these headings is of this kind."""
        return all(any(one in own for one in heading.split("|")) for heading in self.headings)


TASKS, UNTIMED, TASK_TIME, OP_STATISTIC, COMMUNICATION = "tasks", "op_summary", "task_time", "op_statistic", "comm"
API, STEP_TIME, ITERATIONS, MEMORY, NPU_MEMORY = "api", "step_trace_time", "step_trace", "memory", "npu_mem"
ALLOCATIONS, OPERATORS, MARKS, AICPU, CACHE = "operator_memory", "operator_details", "msprof_tx", "aicpu", "l2_cache"

#: The first one that matches wins.
TABLES = (
    Table(
        TASKS,
        (
            "name|op name",
            "type|op type",
            "accelerator core|task type",
            "start time|task start time",
            "duration|task duration",
        ),
    ),
    Table(UNTIMED, ("op name", "op type|task type", "task duration")),
    Table(TASK_TIME, ("kernel_name", "kernel_type", "task_time", "task_start", "task_stop")),
    Table(OP_STATISTIC, ("op type", "core type", "count", "total time")),
    Table(COMMUNICATION, ("op type", "count", "total time", "min time", "avg time", "max time", "ratio")),
    Table(API, ("level", "api name", "time", "count", "avg")),
    Table(STEP_TIME, ("step", "computing", "communication(not overlapped)", "free")),
    Table(ITERATIONS, ("iteration id", "fp start", "iteration end", "iteration time")),
    Table(MEMORY, ("component", "timestamp", "total reserved")),
    Table(NPU_MEMORY, ("event", "timestamp", "memory", "hbm|ddr|allocated")),
    Table(ALLOCATIONS, ("name", "size", "allocation time", "release time")),
    Table(OPERATORS, ("name", "host self duration", "host total duration", "device self duration")),
    Table(MARKS, ("pid", "tid", "event_type", "start_time", "end_time", "message")),
    Table(AICPU, ("node", "compute_time", "memcpy_time", "task_time", "dispatch_time")),
    Table(CACHE, ("stream id", "task id", "hit rate", "victim rate", "op name")),
)

#: Words of which each table has at least one, as its file spells them.
WORDS = (
    *("Accelerator Core", "Task Type", "Task Duration", "kernel_type", "Core Type", "OP Type", "API Name", "Computing"),
    *("Iteration Time", "Total Reserved", "timestamp(us)", "Allocation Time", "Host Self Duration", "event_type"),
    *("Compute_time", "Victim Rate"),
)


def table_kind(cells: Sequence[str]) -> str | None:
    """Returns the table that has these headings, None for none."""
    own = frozenset(map(plain, cells))
    return next((table.what for table in TABLES if table.has(own)), None)


def plain(heading: str) -> str:
    """A heading without its unit, in lower case."""
    text = heading.strip().strip('"').strip().casefold()
    for unit in _UNITS:
        if text.endswith(unit):
            return text.removesuffix(unit).rstrip()
    return text
