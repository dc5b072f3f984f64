"""What a comparison is made of: changes of groups of work and of the use of devices. All times are ns.

Diff("monday", "tuesday")   per "step"
  whole                  Change("total", 11.802 ms ─► 12.034 ms, +2.0 %, clear)
  rows["kernel"]         Change("softmax", 1.200 ms ─► 1.380 ms, +15.0 %, clear), ...
  devices                DeviceChange("cuda:0", DeviceUse ─► DeviceUse)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ktrace.summary.model import DeviceUse, Group, Summary
    from ktrace.tables.table import Table

#: More than the noise of the samples; not more; samples that don't say; work of one side alone.
CLEAR, NOISE, UNKNOWN, NEW, GONE = "clear", "within noise", "not known", "new", "gone"


@dataclass(frozen=True)
class Evidence:
    """What the samples of both sides say of a change.

    `samples` are what was compared: "steps" (the totals of steps) or "launches" (the durations of single launches),
    `a` and `b` how many. `p` is the chance of ranks this far apart if nothing changed, `q` the same with regard to
    all rows of the table (Benjamini-Hochberg). `ratio` is that of the medians, b to a, with `interval` its bounds at
    95 %; None of too few, or where the median of `a` is 0. `spread_a` and `spread_b` are interquartile ranges in
    percent of the median.
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
    """What became of the work that has `key` in common.

    `a` and `b` are its groups, None where there is no such work. `total_a` and `total_b` (in `Diff.unit`), `count_a`
    and `count_b` are what was compared of them: of one step on average where `Diff.per` is "step", else of the whole.
    `matched` says by what the two belong together: "name", else what `ktrace.diff.matching` found; "" of one side
    alone. `share` is the part of all changes of the table, up or down, in percent.

    The change `delta` = `from_count` + `from_duration`: called more or less often, each longer or shorter; None where
    counts aren't known. `verdict` is one of CLEAR, NOISE, UNKNOWN, NEW, GONE, `why` says in words what it rests on.
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
        """The change in ns: positive is slower."""
        return self.total_b - self.total_a

    @property
    def percent(self) -> float | None:
        """The change in percent of before; None where there was nothing."""
        return 100 * self.delta / self.total_a if self.total_a else None


@dataclass(frozen=True)
class DeviceChange:
    """The use of a device before and after; None where one side has no such device."""

    label: str
    a: DeviceUse | None
    b: DeviceUse | None


@dataclass
class Diff:
    """What changed from `a` to `b`, which are called `name_a` and `name_b`.

    `per` is "step" where both have steps and totals are those of one step on average, else "whole". `whole` is the
    change of all work. `steps` are the changes of what is measured of a step (`StepUse`), where steps are compared.
    `rows` has the changes by what was asked for (`ktrace.summary.keys.BY`), in the order in which they are to be
    shown, the greatest change first. Totals are in `unit`: "ns", or "%" of the whole where a side says shares alone.
    `notes` are sentences on what the figures mean or lack.
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

    @property
    def wall(self) -> Change | None:
        """The change of the time that a step takes on the host; None where steps aren't compared."""
        return next((change for change in self.steps if change.key == "wall"), None)

    def tables(self, top: int | None = None, *, full: bool = True) -> list[Table]:
        """The comparison as tables: the whole, each of `rows` (of at most `top` rows), the devices.

        `full` has a column for every figure, for programs; else there are as many as people look at.
        """
        from ktrace.diff.tables import tables

        return tables(self, top, full)
