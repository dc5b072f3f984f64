"""The parts of a comparison: changes of groups of work and of the use of devices. All times are ns.

Diff("monday", "tuesday")   per "step"
  whole                  Change("total", 11.802 ms ─► 12.034 ms, +2.0 %, clear)
  rows["kernel"]         Change("softmax", 1.200 ms ─► 1.380 ms, +15.0 %, clear), ...
  devices                DeviceChange("cuda:0", DeviceUse ─► DeviceUse)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ktrace.tables.figures import harmless, percent
from ktrace.tables.frames import Framed

if TYPE_CHECKING:
    from ktrace.analysis.diff.gate import Gate
    from ktrace.analysis.summary.model import Summary
    from ktrace.analysis.work.groups import DeviceUse, Group
    from ktrace.tables.table import Table

#: Verdicts: exceeds the noise of the samples; doesn't exceed it; can't be decided; work of only one side (two kinds).
CLEAR, NOISE, UNKNOWN, NEW, GONE = "clear", "within noise", "not known", "new", "gone"

#: Why nothing is known of a change whose median and total disagree.
OPPOSITE = "the median and the total changed in opposite directions"


@dataclass(frozen=True)
class Evidence:
    """The result of testing a change with the samples of both sides.

    `samples` names what was compared: "steps" (the totals of steps) or "launches" (the durations of single launches);
    `a` and `b` are the numbers of samples. `p` is the probability of ranks this far apart if nothing changed, `q` the
    same adjusted for all rows of the table (Benjamini-Hochberg). `ratio` is the ratio of the medians, b to a, and
    `interval` its bounds at 95 %; None for too few samples, or if the median of `a` is 0. `spread_a` and `spread_b`
    are interquartile ranges in percent of the median.
    """

    samples: str
    a: int
    b: int
    p: float
    q: float | None = None
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    spread_a: float | None = None
    spread_b: float | None = None


@dataclass(frozen=True)
class Change:
    """The change of the work with the same `key`.

    `a` and `b` are its groups, None if a side has no such work. `total_a` and `total_b` (in `Diff.unit`), `count_a`
    and `count_b` are the compared figures: averages per step if `Diff.per` is "step", else those of the whole trace.
    `matched` names what the two were matched by: "name", another key of `ktrace.analysis.diff.matching`, or "" for work
    of only one side. `share` is the part of all changes of the table, up or down, in percent.

    The change `delta` = `from_count` + `from_duration`: called more or less often, each call longer or shorter; None
    if counts aren't known. `verdict` is one of CLEAR, NOISE, UNKNOWN, NEW, GONE, and `why` gives the reason in words.
    """

    key: str
    a: Group | None
    b: Group | None
    total_a: float
    total_b: float
    count_a: float | None = None
    count_b: float | None = None
    matched: str = "name"
    share: float | None = None
    from_count: float | None = None
    from_duration: float | None = None
    verdict: str = UNKNOWN
    why: str = ""
    test: Evidence | None = None

    @property
    def delta(self) -> float:
        """The change in ns; positive is slower."""
        return self.total_b - self.total_a

    @property
    def percent(self) -> float | None:
        """The change in percent of `total_a`; None if that is 0."""
        return 100 * self.delta / self.total_a if self.total_a else None

    @property
    def medians(self) -> tuple[float, float] | None:
        """The medians of the totals of steps, where a test shows a change that a step unlike the others may hide.

        None unless the average of a side is far above its median, by a quarter.
        """
        if self.a is None or self.b is None or self.a.steps is None or self.b.steps is None:
            return None
        if self.test is None or self.test.samples != "steps" or not (self.verdict == CLEAR or self.why == OPPOSITE):
            return None
        a, b = float(np.median(self.a.steps)), float(np.median(self.b.steps))
        return (a, b) if self.total_a > 1.25 * a or self.total_b > 1.25 * b else None


@dataclass(frozen=True)
class DeviceChange:
    """The use of a device before and after; None if a side doesn't have the device."""

    label: str
    a: DeviceUse | None
    b: DeviceUse | None


@dataclass(repr=False)
class Diff(Framed):
    """What changed from `a` to `b`, which are named `name_a` and `name_b`.

    `per` is "step" if both sides have steps and totals are averages per step, else "whole". `whole` is the change
    of all work. `steps` are the changes of the measured times of a step (`StepUse`), if steps are compared, and
    "step", the longer of wall and span, where devices lag behind the host. `times` are those of the whole traces
    otherwise: "span" from the first begin to the last end of a source (unless only one side shows what the host
    did), "device span" of the device where it is longest, "idle" of all devices. `rows` maps each requested
    grouping (of `ktrace.analysis.work.groups.BY`) to its changes, the greatest first. Totals are in `unit`: "ns", or
    "%" of the whole if a side contains only shares. `part` says that a filter left out rows, so that the times are
    those of a part. `notes` are sentences on what the figures mean or lack, `verdict` at most three: how much
    faster or slower, because of what, how sure. `gate` is the outcome of the limits of a pipeline.
    """

    name_a: str
    name_b: str
    a: Summary
    b: Summary
    per: str
    whole: Change
    rows: dict[str, list[Change]]
    devices: list[DeviceChange] = field(default_factory=list)
    steps: list[Change] = field(default_factory=list)
    unit: str = "ns"
    notes: list[str] = field(default_factory=list)
    verdict: list[str] = field(default_factory=list)
    times: list[Change] = field(default_factory=list)
    part: bool = False
    gate: Gate | None = None

    @property
    def wall(self) -> Change | None:
        """The change of the time of a step on the host; None if steps aren't compared."""
        return self.measure("wall")

    @property
    def time(self) -> Change | None:
        """The change of the time that all took: of a step, else of the trace; None if it isn't known, or of a part."""
        return None if self.part else self.measure("step") or self.wall or self.measure("span") or self.device_time

    @property
    def device_time(self) -> Change | None:
        """The change of the time that devices took: of a step, else of the trace; None if it isn't known."""
        return None if self.part else self.measure("span" if self.wall else "device span")

    @property
    def idle(self) -> Change | None:
        """The change of the time in which devices do nothing: of a step, else of the trace; None if it isn't known."""
        return None if self.part else self.measure("idle")

    @property
    def idle_percent(self) -> float | None:
        """The change of idle time in percent of the time of all devices before; None if it isn't known."""
        idle, time = self.idle, self.device_time
        devices = 1 if self.wall else max(len(self.a.devices), 1)  # times of steps are those of all devices
        return percent(idle.delta, time.total_a * devices) if idle and time else None

    def measure(self, key: str) -> Change | None:
        """The change of one of `steps` or `times`; None if it isn't compared."""
        return next((change for change in (*self.steps, *self.times) if change.key == key), None)

    def tables(self, top: int | None = None, *, full: bool = True) -> list[Table]:
        """Returns the comparison as tables: the verdict, the whole, each of `rows` (at most `top` rows), the devices.

        With `full` the tables have a column for every figure, for programs; else only the main columns.
        """
        from ktrace.analysis.diff.tables import tables

        return tables(self, top, full)

    def _by_name(self) -> dict[str, Table]:
        """All tables by name, those of the changes first."""
        found = {table.name: table for table in self.tables()}
        return {name: found[name] for name in sorted(found, key=lambda name: name not in self.rows)}

    def __repr__(self) -> str:
        parts = [harmless(self.verdict[0].removesuffix("."))] if self.verdict else []
        for by, rows in self.rows.items():
            counts = ((name, sum(row.verdict == name for row in rows)) for name in (CLEAR, NEW, GONE))
            parts.append(f"by {by} " + ", ".join(f"{count:,} {name}" for name, count in counts))
        return f"<Diff {harmless(self.name_a)} to {harmless(self.name_b)}: {'; '.join(parts)}>"
