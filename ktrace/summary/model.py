"""What a summary is made of: groups of work, the use of each device, the steps. All times are ns.

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
    """Work that has its `key` in common, such as the short name of the kernel.

    `name` is the whole name of kernels, None where several have the same short one, and of other groups.
    Of events the figures are exact. Of tables of statistics they are what the source says, None where it doesn't: a
    median of medians is nobody's figure. `durations` are those of the events, rising; None of statistics. `steps` is
    the total in each step in the order of the steps, None where there are none.
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
    """Times of which the middle and the extremes count: gaps between work, waits before it."""

    count: int
    total: int
    median: float
    p95: float
    max: int


@dataclass(frozen=True)
class DeviceUse:
    """What a device did between the begin of its first and the end of its last work, `span` ns.

    Each time is that of a union of intervals, so that nothing counts twice: `busy` is anything, `compute` kernels
    that are no collectives (and memsets, graphs), `communication` collectives, `copies` copies. `overlapped` is the
    communication (copies) during which there is compute, `exposed` that without: communication = overlapped + exposed.
    `gaps` are the times of no work, `idle` their sum. `queueing` is the time from the return of the call that launched
    work to the begin of the work, 0 where it began before, None where launches aren't known. `occupancy` is the mean of
    kernels that say theirs, weighed by time, in percent. `name` is what the source calls the device.
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
    """A step of a profiler or a training loop: `wall` is how long it took on the host, ns.

    The other times are unions, as in `DeviceUse`, of the work that was launched in it, over all devices one after the
    other. A step of several sources, or that comes several times, is the sum of these, and `count` says of how many.
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

    `work` says what was added up: "events" of device work, "statistics" where the source has no such events, "host"
    (calls, operators) where there is no device work at all. `total` is the sum of the durations, in `unit`: "ns", or
    "%" where a source says shares alone. `span` is first begin and last end of all events. `groups` has an entry for
    each of `BY` that was asked for and the trace says something about, heaviest first, and of steps and layers in their
    own order. `step_use` is in the order of `steps`. `runs` has the summary of each run where statistics are of
    several. `notes` are sentences on what the figures mean or lack, `report` is the account of the reading.
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

        `by` is all of `groups` by default. At most `top` rows of steps and groups; `more` of a table says how many
        others there are. `brief` leaves out columns that are too much for a terminal.
        """
        from ktrace.summary.tables import tables

        return tables(self, by, top, brief=brief)
