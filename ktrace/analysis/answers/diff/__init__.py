"""What changed between two traces: what `ktrace diff` computes.

The parts of a comparison are changes of groups of work and of the use of devices, and what fails a pipeline:

Change("softmax", 1.200 ms ─► 1.380 ms, +15.0 %, clear)     DeviceChange("cuda:0", DeviceUse ─► DeviceUse)

sides        the two sides: paths, traces, summaries, or two runs of one input
matching     which work of one side corresponds to which of the other; answers of a summary as groups of work
steady       steps that aren't like the others: what is set apart, what is slow on one side only
verdicts     the verdict on each change: clear, within noise, not known; launches in pairs
noise        tests of samples
compare      makes the comparison
facts        what of a comparison is worth naming; the same for programs
sentences    the comparison in three sentences
comparable   in what else the sides differ: devices, ranks, versions, grids, kernels
ranks        the rank that others wait for, waiting and transfer in collectives; the same rank on both sides
places       the phase, batch size or pass in which work changed; why devices are idle for longer
comparison   the comparison, its tables, and the conditions under which a pipeline fails
gated        what these conditions found, as test cases and as annotations
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import asdict, replace

from ktrace.analysis.work.findings import Evidence as Shown
from ktrace.analysis.work.findings import Finding
from ktrace.model.arrays import Float64
from ktrace.tables import Cell, rounded, times_text

if TYPE_CHECKING:
    from ktrace.analysis.work.groups import DeviceUse, Group

#: Verdicts: exceeds the noise of the samples; doesn't exceed it; can't be decided; work of only one side (two kinds).
CLEAR, NOISE, UNKNOWN, NEW, GONE = "clear", "within noise", "not known", "new", "gone"

#: Why it isn't known whether work of only one side is new or gone: the table of the other side is incomplete.
NOT_LISTED = "the other table is incomplete"


#: Changes to this many times as much and more are factors in sentences.
_FACTOR = 2.0


def factor(a: float, b: float) -> str | None:
    """Returns how many times as much `b` is, None below twice as much."""
    many = b / a if a else 0.0
    return None if many < _FACTOR else times_text(many)


#: Why nothing is known of a change whose median and total disagree.
OPPOSITE = "the median and the total changed in opposite directions"


class Evidence(msgspec.Struct, frozen=True):
    """The result of testing a change with the samples of both sides.

    `samples` names what was compared: "steps" (the totals of steps) or "launches" (the durations of single launches);
    `a` and `b` are the numbers of samples. `p` is the probability of ranks this far apart if nothing changed, `q` the
    same adjusted for all rows of the table (Benjamini-Hochberg). `ratio` is the ratio of the medians, b to a, and
    `interval` its bounds at 95 %; None for too few samples, or if the median of `a` is 0. `spread_a` and `spread_b`
    are interquartile ranges in percent of the median. `slow` names the side ("a", "b") whose slow steps were compared
    with its others, as those of the other side are steady.
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
    slow: str = ""


class Change(msgspec.Struct, frozen=True):
    """The change of the work with the same `key`.

    `a` and `b` are its groups, None if a side has no such work. `total_a` and `total_b` (in `Diff.unit`), `count_a`
    and `count_b` are the compared figures: averages per step if `Diff.per` is "step", else those of the whole trace.
    `matched` names what the two were matched by: "name", another key of `ktrace.analysis.answers.diff.matching`, or ""
    for work of only one side. `share` is the part of all changes of the table, up or down, in percent.

    `parts` are by what the totals and counts of both sides, and the samples of steps, were divided: numbers of devices,
    how many times as long the recording is.

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
    parts: tuple[float, float] = (1, 1)

    @property
    def delta(self) -> float:
        """The change in ns; positive is slower."""
        return self.total_b - self.total_a

    @property
    def percent(self) -> float | None:
        """The change in percent of `total_a`; None if that is 0."""
        return 100 * self.delta / self.total_a if self.total_a else None

    @property
    def steps(self) -> tuple[Float64, Float64] | None:
        """The totals of the steps of both sides; None if a side has none."""
        a, b = (None if group is None else group.steps for group in (self.a, self.b))
        return None if a is None or b is None else (a / self.parts[0], b / self.parts[1])

    @property
    def medians(self) -> tuple[float, float] | None:
        """The medians of the totals of steps, where a test shows a change that a step unlike the others may hide.

        None unless the average of a side is far above its median, by a quarter.
        """
        if self.test is None or self.test.samples != "steps" or not (self.verdict == CLEAR or self.why == OPPOSITE):
            return None
        if (times := self.steps) is None:
            return None
        a, b = float(np.median(times[0])), float(np.median(times[1]))
        return (a, b) if self.total_a > 1.25 * a or self.total_b > 1.25 * b else None


class DeviceChange(msgspec.Struct, frozen=True):
    """The use of a device before and after; None if a side doesn't have the device."""

    label: str
    a: DeviceUse | None
    b: DeviceUse | None


class OtherAmount(NamedTuple):
    """Different amounts of work without steps: the kernel whose calls changed most, and the time of the calls.

    `before` is the time of the work of A, `alike` what as many calls of each kernel take in B, in ns.
    """

    name: str
    calls_a: float
    calls_b: float
    before: float
    alike: float

    @property
    def each(self) -> float:
        """By how much a call takes longer, in percent."""
        return 100 * (self.alike - self.before) / self.before if self.before else 0.0

    def __str__(self) -> str:
        calls = f"{_calls(self.calls_b)} calls of {self.name} instead of {_calls(self.calls_a)}"
        return f"{calls}, and without steps there is no telling whether they do the same"


def _calls(count: float) -> str:
    return f"{count:,.1f}".removesuffix(".0")


class Regression(msgspec.Struct, frozen=True):
    """What got slower by more than `limit` percent: the times `a` and `b` in ns, the change in percent of `a`.

    `name` is "all work", a measured time ("wall", "span", "device span", "idle"), or the row of the table `by`.
    `figure` is "average", or "median" if only the median step got slower by so much: a slow first step may hide from
    the average what all others do. `percent` is None for work that A doesn't have. `known` tells whether the change is
    known to exceed noise; `why` says why not. `rows` show it. Of what isn't `comparable`, `why` says why, and `percent`
    is that of a call: whether it got slower isn't known, which fails as a change does that isn't known to be noise.
    """

    name: str
    by: str | None
    a: float
    b: float
    percent: float | None
    limit: float
    known: bool
    why: str = ""
    figure: str = "average"
    rows: Sequence[Shown] = ()
    comparable: bool = True

    @property
    def subject(self) -> str:
        """What it is of: "all work", "wall", "kernel softmax"."""
        return f"{self.by} {self.name}" if self.by else self.name

    @property
    def finding(self) -> Finding:
        """The regression for programs: the value is the difference, the whole what it was before."""
        details: dict[str, Cell] = {"a_ns": self.a, "b_ns": self.b, "limit_percent": self.limit, "figure": self.figure}
        details |= {"exceeds_noise": "yes" if self.known else "not known"} | ({"why": self.why} if self.why else {})
        subject: dict[str, Cell] = {self.by or "work": self.name}
        return Finding(
            "regression", "time", self.b - self.a, "ns", self.a, "the time of a", subject, None, details, self.rows
        )

    def __str__(self) -> str:
        if not self.comparable:
            call = "" if self.percent is None else f"; {self._call()}"
            return f"{self.name} isn't comparable ({self.why}): whether it got slower isn't known{call}"
        times = factor(self.a, self.b)
        grown = f"{times} times as long" if times else "new work" if self.percent is None else f"{self.percent:+.1f}%"
        doubt = "" if self.known else f", not known whether it exceeds noise ({self.why})"
        median = " in the median step" if self.figure == "median" else ""
        return f"{self.subject} got slower: {grown}{median}, more than {self.limit:g}%{doubt}"

    def _call(self) -> str:
        """How the time of a call changed."""
        if abs(self.percent or 0.0) < _SAME:
            return "a call takes as long as before"
        return f"a call takes {abs(self.percent or 0.0):.1f}% {'longer' if (self.percent or 0.0) > 0 else 'less'}"


#: A call takes as long as before where it changed by less, in percent.
_SAME = 0.5


class Gate(msgspec.Struct, frozen=True):
    """The outcome of limits in percent: `over` for the whole, `each` for the rows of the first table.

    `checked` are the subjects of all that a limit was held against.
    """

    over: float | None
    each: float | None
    regressions: list[Regression]
    checked: list[str] = msgspec.field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Whether anything got slower by more than its limit."""
        return bool(self.regressions)

    @property
    def findings(self) -> list[Finding]:
        """What got slower by more than its limit."""
        return [one.finding for one in self.regressions]

    def document(self) -> dict[str, Any]:
        """Returns the outcome for JSON: `failed`, and `regressions` with both times, the change and the limit."""
        rows = []
        for one in self.regressions:
            figures = asdict(replace(one, rows=()))
            del figures["rows"]
            times = {
                "a_ns": figures.pop("a"),
                "b_ns": figures.pop("b"),
                "change_percent": rounded(figures.pop("percent")),
            }
            place = {"name": figures.pop("name"), "by": figures.pop("by")}
            rows.append({**place, **times, "limit_percent": figures.pop("limit"), **figures, "sentence": str(one)})
        return {"failed": self.failed, "regressions": rows}
