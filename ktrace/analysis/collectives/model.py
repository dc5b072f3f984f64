"""Collectives and the ranks that take part, as figures. All times are ns, bandwidths bytes per second.

CollectivesAnswer
  collectives   CollectiveUse("all_reduce", group "0", ranks 8, size 4 MiB, count 120, bus bandwidth, skew, last "3")
  ranks         RankUse("3", last 78 times, others waited 41 ms for it, it waited 2 ms)
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ktrace.analysis.work.model import Spread
from ktrace.tables.table import Table


@dataclass(frozen=True)
class CollectiveUse:
    """Collectives of one operation, group and size, or class of sizes from `smallest` to `largest` bytes.

    `ranks` is the size of the group, `group` is "" if it isn't known. `count` counts what several ranks do together
    once, `rows` on each rank; `total`, `median` and `p95` are durations on each rank. `joint` is the number of those
    found on several ranks, `transfer` is the shortest duration over the ranks of those at which ranks wait for each
    other: that of the rank that waits least. `algorithm_bandwidth` is the median of bytes per time of the transfer,
    else of the duration; `bus_bandwidth` that times the factor of nccl-tests. `skew` is the time from the first to the
    last begin, `last` the rank that most often begins last, `last_share` how often, in percent of `joint`. What isn't
    known is None.
    """

    operation: str
    group: str
    ranks: int | None
    smallest: int | None
    largest: int | None
    count: int
    rows: int
    total: int
    median: float
    p95: float
    joint: int = 0
    transfer: Spread | None = None
    algorithm_bandwidth: float | None = None
    bus_bandwidth: float | None = None
    skew: Spread | None = None
    last: str | None = None
    last_share: float | None = None


@dataclass(frozen=True)
class RankUse:
    """What a rank did, and what it has to do with the others.

    `joint` is the number of its collectives that were found on other ranks, too, and at which ranks wait for each
    other. In `last` of these it began last. `others_waited` are the times that each other rank waited for it then,
    `waited` the times that it waited for the last one itself. They are None without a common clock. `span`, `busy`,
    `compute`, `communication` and `exposed_communication` are those of `DeviceUse`, None if only calls are known.
    """

    label: str
    source: str
    device: int | None
    rank: int | None
    joint: int
    last: int | None = None
    others_waited: Spread | None = None
    waited: Spread | None = None
    span: int | None = None
    busy: int | None = None
    compute: int | None = None
    communication: int | None = None
    exposed_communication: int | None = None


@dataclass
class CollectivesAnswer:
    """The collectives of a trace.

    `clocks` is how the ranks came into one clock: "one" (there is only one), "unix", "collective" (by the ends of
    collectives), or "unknown": then nothing is known about skew and waiting. `ends` is the median of how much the ends
    of the same collective differ between ranks: a smaller skew may be a difference of the clocks. `joint` is the
    number of collectives found on several ranks, `alone` the number of rows without a counterpart.
    """

    collectives: list[CollectiveUse] = field(default_factory=list)
    ranks: list[RankUse] = field(default_factory=list)
    clocks: str = "one"
    ends: float | None = None
    joint: int = 0
    alone: int = 0
    notes: list[str] = field(default_factory=list)
    steady: float | None = None

    @property
    def straggler(self) -> RankUse | None:
        """The rank that others waited longest for; None if no one waited, or nothing is known about it."""
        known = [rank for rank in self.ranks if rank.others_waited is not None]
        return max(known, key=lambda rank: rank.others_waited.total if rank.others_waited else 0, default=None)

    def tables(self, top: int | None = None, *, brief: bool = False) -> list[Table]:
        """The table of collectives with at most `top` rows, and of several ranks the table of stragglers."""
        from ktrace.analysis.collectives.tables import tables

        return tables(self, top, brief=brief)
