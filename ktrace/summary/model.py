"""A summary and its parts: groups of work, the use of each device, the steps. All times are ns.

Summary
  groups["operation"]   Group("gemm", count 1,200, total 1.2 s, average, median, p95, ..., durations, steps)
  devices               DeviceUse("cuda:0", busy, idle, compute, communication, exposed communication, gaps, ...)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ktrace.model.arrays import Float64, Int64

if TYPE_CHECKING:
    from ktrace.report import Report
    from ktrace.tables.table import Table


@dataclass(frozen=True)
class Group:
    """Work with the same `key`, such as the short name of the kernel.

    `name` is the whole name of a kernel, None if several have the same short name, and for other groups.
    The figures of events are exact. Those of statistics are the figures in the source, None if it doesn't have them:
    medians can't be combined. `durations` are those of the events, rising; None for statistics. `steps` is the total in
    each step, in the order of the steps; None without steps.
    """

    key: str
    total: float
    count: int | None = None
    average: float | None = None
    median: float | None = None
    p95: float | None = None
    p99: float | None = None
    min: float | None = None
    max: float | None = None
    name: str | None = None
    durations: Int64 | None = field(default=None, repr=False, compare=False)
    steps: Float64 | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Spread:
    """Median and extremes of some times: gaps between work, or waits before it."""

    count: int
    total: int
    median: float
    p95: float
    max: int


@dataclass(frozen=True)
class DeviceUse:
    """What a device did between the begin of its first and the end of its last work, `span` ns.

    Each time is that of a union of intervals, so that nothing counts twice: `busy` is any work, `compute` kernels
    that aren't collectives (and memsets, graphs), `communication` collectives, `copies` copies. Exposed communication
    (copies) is the time of communication (copies) without compute at the same time.
    `gaps` are the times without work, `idle` their sum. `queueing` is the time from the return of the call that
    launched work to the begin of the work, 0 if the work began before, None if launches aren't known. `occupancy` is
    the mean of kernels that have one, weighted by time, in percent. `name` is the name of the device in the source.
    """

    label: str
    source: str
    device: int | None
    rank: int | None
    span: int
    busy: int
    compute: int
    communication: int
    copies: int
    exposed_communication: int
    exposed_copies: int
    gaps: Spread | None = None
    queueing: Spread | None = None
    occupancy: float | None = None
    name: str | None = None

    @property
    def idle(self) -> int:
        """Time of the span without work."""
        return self.span - self.busy


@dataclass(frozen=True)
class StepUse:
    """A step of a profiler or a training loop: `wall` is its duration on the host, in ns.

    The other times are unions, as in `DeviceUse`, of the work that was launched in the step, summed over all devices.
    A step of several sources, or with several occurrences, is the sum of all, and `count` is their number.
    """

    label: str
    count: int
    wall: int
    busy: int
    compute: int
    communication: int
    copies: int
    exposed_communication: int
    exposed_copies: int


@dataclass
class Summary:
    """Where the time went.

    `work` tells what was added up: "events" of device work, "statistics" if the source has no such events, "host"
    (calls, operators) if there is no device work at all. `total` is the sum of the durations, in `unit`: "ns", or
    "%" if a source has only shares, "count" if it has only counts. `span` is the first begin and the last end of all
    events. `groups` has an entry for each of `BY` that was asked for and that the trace has values of; groups are
    sorted by time, steps and layers in their own order. `step_use` is in the order of `steps`. `runs` has the summary
    of each run if statistics have several. `notes` are sentences about what the figures mean or lack, `report` is the
    report of the reading.
    """

    sources: list[str]
    work: str
    total: float
    count: int | None
    span: tuple[int, int] | None
    groups: dict[str, list[Group]]
    devices: list[DeviceUse] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    step_use: list[StepUse] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unit: str = "ns"
    runs: dict[str, Summary] = field(default_factory=dict)
    report: Report | None = field(default=None, repr=False, compare=False)

    def tables(self, by: Sequence[str] | None = None, top: int | None = None, *, brief: bool = False) -> list[Table]:
        """The summary as tables: an overview, the use of each device and step, and one for each of `by`.

        `by` is all of `groups` by default. Tables of steps and groups have at most `top` rows; `more` is the number of
        others. `brief` leaves out columns that a terminal has no space for.
        """
        from ktrace.summary.tables import tables

        return tables(self, by, top, brief=brief)
