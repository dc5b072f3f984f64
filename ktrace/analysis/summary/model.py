"""A summary and its parts: groups of work, the use of each device, the steps. All times are ns.

Summary
  groups["operation"]   Group("gemm", count 1,200, total 1.2 s, average, median, p95, ..., durations, steps)
  devices               DeviceUse("cuda:0", busy, idle, compute, communication, exposed communication, gaps, ...)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ktrace.analysis.work.groups import LACKS, DeviceUse, Group
from ktrace.tables.frames import Framed

if TYPE_CHECKING:
    from ktrace.analysis.work.question import Answer
    from ktrace.report import Report
    from ktrace.tables.table import Table


@dataclass(frozen=True)
class StepUse:
    """A step of a profiler or a training loop: `wall` is its duration on the host, in ns.

    The other times are unions, as in `DeviceUse`, of the work that was launched in the step, summed over all devices.
    `span` is the time that the devices were at it, also summed: from the begin of the step on the host, or once the
    work before it is done, to its end on the host, or until its own work is done. A device that lags behind the host is
    at a step later, never busy for more than `span`. What runs before that, beside other steps, such as the copy of a
    batch, is in `communication` and `copies` alone, since nobody waits for it.
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
    span: int = 0

    @property
    def idle(self) -> int:
        """Time of `span` in which the devices do no work of the step."""
        return self.span - self.busy


@dataclass(repr=False)
class Summary(Framed):
    """Where the time went.

    `work` tells what was added up: "events" of device work, "statistics" if the source has no such events, "host"
    (calls, operators) if there is no device work at all. `total` is the sum of the durations, in `unit`: "ns", or
    "%" if a source has only shares, "count" if it has only counts. `span` is the first begin and the last end of all
    events. `groups` has an entry for each of `BY` that was asked for and that the trace has values of; groups are
    sorted by time, steps and layers in their own order. `step_use` is in the order of `steps`. `runs` has the summary
    of each run if statistics have several. `answers` are those to the questions of `ktrace.analysis.summary.questions`
    that were asked and that the trace knows something about. `heaviest` has the totals of all operations and kernels,
    `proofs` the answers about idle time and collectives, for the verdict, whatever was asked. `notes` are sentences
    about what the figures mean or lack,
    `report` is the report of the reading. `longest` is the time from the first begin to the last end of the events of
    one source, of the source where it is longest: clocks of several sources may differ.
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
    answers: dict[str, Answer] = field(default_factory=dict, repr=False, compare=False)
    heaviest: dict[str, list[Group]] = field(default_factory=dict, repr=False, compare=False)
    proofs: dict[str, Answer] = field(default_factory=dict, repr=False, compare=False)
    report: Report | None = field(default=None, repr=False, compare=False)
    longest: int | None = None

    @property
    def lost(self) -> bool:
        """Whether records are known to be lost: calls of work between others, perhaps work, too."""
        return any(LACKS in note for note in self.notes)

    @property
    def verdict(self) -> list[str]:
        """At most three sentences: what takes the time, what devices wait for, what to look at."""
        from ktrace.analysis.summary.verdict import verdict

        return verdict(self)

    def tables(self, by: Sequence[str] | None = None, top: int | None = None, *, brief: bool = False) -> list[Table]:
        """The summary as tables: the verdict, an overview, the use of each device and step, and one for each of `by`.

        `by` is all of `groups` by default. Tables of steps and groups have at most `top` rows; `more` is the number of
        others. `brief` leaves out columns that a terminal has no space for.
        """
        from ktrace.analysis.summary.tables import tables

        return tables(self, by, top, brief=brief)

    def _by_name(self) -> dict[str, Table]:
        """All tables by name, those of groups and answers first; an answer's name is that of its first table, too."""
        found = {table.name: table for table in self.tables()}
        main = sorted(found, key=lambda name: (name != "kernel", name not in self.groups, name not in self.answers))
        tables = {name: found[name] for name in main}
        return tables | {name: one.tables()[0] for name, one in self.answers.items() if name not in tables}

    def __repr__(self) -> str:
        from ktrace.analysis.summary.one_line import one_line

        return f"<Summary {one_line(self)}>"
