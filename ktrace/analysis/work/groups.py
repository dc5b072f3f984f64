"""Groups of work and the use of devices, and the keys by which work is grouped. All times are ns.

Group("gemm", count 1,200, total 1.2 s, average, median, p95, ..., durations, steps)
DeviceUse("cuda:0", busy, idle, compute, communication, exposed communication, gaps, ...)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from ktrace.model.arrays import Float64, Int64

#: What work can be grouped by.
BY = ("kernel", "operation", "library", "precision", "layer", "stream", "device", "rank", "step", "source", "run")

#: What the groups by kernel are called where work isn't that of devices.
_HEADINGS = {"host": "name", "samples": "function"}


def heading_of(by: str, work: str) -> str:
    """What people read above groups, for what was added up (`Summary.work`)."""
    return _HEADINGS.get(work, by) if by == "kernel" else "part" if by == "breakdown" else by


#: Groups kernels without an operation by their whole names; in `groups` only if asked for.
UNCLASSIFIED = "unclassified"

#: Asks for `Summary.grids`, for `ktrace diff`, which tests launches of one grid; what stands before a grid in a key.
GRID, OF_GRID = "grid", " grid "

#: The key of work whose column isn't known.
OTHER = "other"

#: The key of work that has an operation or needs none, when grouping by UNCLASSIFIED.
CLASSIFIED = ""

#: The start of a note on criteria that an input has no values of.
NOT_KNOWN = "This input has no "

#: With more devices than these, what is the same of most is told once, and the worst are named.
MANY = 8

#: The most parts of a run in `DeviceUse.course`.
COURSE = 60

#: What a note says of a source whose calls, and perhaps work, are lost.
LACKS = " lacks records: "


class InSteps(msgspec.Struct, frozen=True, eq=False):
    """What falls into `steps` steps: the `number` of each in which there is anything, rising, its `time` and `count`.

    Most work is in few of many steps, so that those without it aren't kept. `count` is None where it isn't known.
    """

    steps: int
    number: Int64
    time: Float64
    count: Int64 | None = None

    @classmethod
    def from_times(cls, times: Float64, counts: Int64 | None = None) -> InSteps:
        """Times, and counts, of all steps."""
        there = times != 0 if counts is None else (times != 0) | (counts != 0)
        number = np.flatnonzero(there)
        return cls(len(times), number, times[number], None if counts is None else counts[number])

    @classmethod
    def together(cls, parts: Sequence[InSteps]) -> InSteps:
        """The sum of several, of which there is at least one; counts only if all are known."""
        number, which = np.unique(np.concatenate([one.number for one in parts]), return_inverse=True)
        time = np.bincount(which, np.concatenate([one.time for one in parts]), len(number))
        joined = cls(parts[0].steps, number, np.asarray(time, np.float64))
        counts = [one.count for one in parts if one.count is not None]
        if len(counts) < len(parts):
            return joined
        return replace(joined, count=np.bincount(which, np.concatenate(counts), len(number)).astype(np.int64))

    def times(self) -> Float64:
        """The time in each step."""
        times = np.zeros(self.steps)
        times[self.number] = self.time
        return times


@dataclass(frozen=True)
class Group:
    """Work with the same `key`, such as the short name of the kernel.

    `name` is the whole name of a kernel, None if several have the same short name, and for other groups.
    The figures of events are exact. Those of statistics are the figures in the source, None if it doesn't have them:
    medians can't be combined. `durations` are those of the events, rising; None for statistics. `in_steps` is the total
    and the number of events in each step, in the order of the steps, and `inside` the durations of those in any step,
    rising; None without steps. `places` are the same, a row for each step, in the order of their starts; None unless
    they are asked for and all steps have equally many.
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
    in_steps: InSteps | None = field(default=None, repr=False, compare=False)
    inside: Int64 | None = field(default=None, repr=False, compare=False)
    places: Int64 | None = field(default=None, repr=False, compare=False)

    @property
    def steps(self) -> Float64 | None:
        """The total in each step, in their order; None without steps."""
        return None if self.in_steps is None else self.in_steps.times()


class Spread(msgspec.Struct, frozen=True):
    """Median and extremes of some times: gaps between work, or waits before it."""

    count: int
    total: int
    median: float
    p95: float
    max: int


class Window(NamedTuple):
    """The time in which a device could have worked, in ns: from the first to the last step, else the recording.

    `steps` is the number of steps, 0 of a recording without. `whole` has all of it but the `setup`.
    `before` and `after` are without work of the device. Before the first work the launching thread was in `setup` for
    some time, and of the rest longest in `host`, for `host_time`; "" where that isn't known, `gaps.NO_SPAN`
    outside of all calls. `is_told`: whether the source has anything that the host did.
    """

    steps: int
    whole: int
    before: int
    after: int
    setup: int
    host: str
    host_time: int
    is_told: bool

    @property
    def outside(self) -> int:
        """The time without work before the first and after the last."""
        return self.before + self.after


@dataclass(frozen=True)
class DeviceUse:
    """What a device did between the start of its first and the end of its last work, `span` ns.

    Each time is that of a union of intervals, so that nothing counts twice: `busy` is any work, `compute` kernels
    that aren't collectives (and memsets, graphs), `communication` collectives, `copies` copies. Exposed communication
    is the time of communication without compute at the same time, exposed copies that of copies without compute and
    communication, so that `span` = `compute` + `exposed_communication` + `exposed_copies` + `idle`.
    `gaps` are the times without work, `idle` their sum. `queueing` is the time from the return of the call that
    launched work to the start of the work, 0 if the work began before, None if launches aren't known. `occupancy` is
    the mean of kernels that have one, weighted by time, in percent. `name` is the name of the device in the source.
    `window` is the time in which it could have worked, for events. `course` is how its time divides over the run,
    where there are more than `MANY` devices: a row for each of at most `COURSE` parts, of the steps in order, else of
    the span; its columns are compute, exposed communication, and all of the part.
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
    window: Window | None = None
    course: Int64 | None = field(default=None, repr=False, compare=False)

    @property
    def idle(self) -> int:
        """Time of the span without work."""
        return self.span - self.busy
