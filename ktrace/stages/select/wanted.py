"""Which part of a trace is wanted: a crop (of the time) and a filter (of the rows), as people and programs say it.

    Crop(step=3)            --step 3
    Filter(kinds=["op"])    --kind op

What they do is in `crop` and `filter`. This module is cheap to import: the options of the commands are made from it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ktrace.errors import UsageError
from ktrace.input.options import documented, option
from ktrace.tables import parse_interval, parse_time

#: The margin around a row, in ns.
_MARGIN = 1_000_000

#: Names of steps in profilers and training loops: ProfilerStep#3, Iteration 3, train_step_3.
_STEP = re.compile(
    r"(?:profiler\s?step|iteration|iter|(?:train(?:ing)?[ _]?)?step)\s*(?:[#:=_]\s*)?(\d{1,18})", re.IGNORECASE
)


@documented
@dataclass(frozen=True)
class Crop:
    """The part of the time to keep: what lies in everything that is given.

    {parameters}

    Each process has its own steps, or else those of its source. A row belongs to the step in which it begins; device
    work belongs to the step in which its call begins, whenever it runs, and if its call isn't known, to that in which
    it begins itself, or to none if it was queued before the recording. The same goes for ranges. `ktrace.summary` by
    step counts so, too.

    Raises
    ------
    UsageError
        A time or phase isn't written like this, nothing is given, `margin` comes without `around`, or `overlapping`
        without a step, range or phase.

    Examples
    --------
    >>> import ktrace
    >>> ktrace.Crop(time="1.5s..2s")
    Crop(time='1.5s..2s', around=None, margin=None, step=None, range=None, phase=None, overlapping=False)
    """

    time: str | None = option(
        None,
        "--time",
        "FROM..TO",
        "Events overlapping this interval, counted from the first event: 1.5s..2.0s, ..2s, 1s.. (s, ms, us, ns).",
        more="Times by the clock of the trace, or times of day, work as well.",
    )
    around: str | None = option(
        None,
        "--around",
        "NAME",
        "Events around each row with this name (or pattern), on any track of any source.",
    )
    margin: int | str | None = option(
        None,
        "--margin",
        "TIME",
        "With --around: time before and after each row; the default is 1ms.",
    )
    step: int | str | None = option(
        None,
        "--step",
        "N",
        "A step of the profiler or training loop (3, ProfilerStep#3), or several (3..5), with what is launched in it.",
        more="A name selects only steps with that name.",
    )
    range: str | None = option(
        None,
        "--range",
        "NAME",
        "Ranges (NVTX, annotations) with this name (or pattern): what begins or is launched in them.",
    )
    phase: str | None = option(
        None,
        "--phase",
        "PHASE[:BATCH]",
        "Batches of a phase of inference (prefill, decode, mixed, verify, draft), with what is launched in them.",
        more="decode:32 are those of 32 requests.",
        link="[How engines state them](../questions/phases.md)",
    )
    overlapping: bool = option(
        False,
        "--overlapping",
        "",
        "With --step, --range or --phase: also what overlaps them.",
        more="That is work of earlier steps that still runs, and calls that began before.",
    )

    def __post_init__(self) -> None:
        if self.margin is not None and self.around is None:
            raise UsageError("--margin needs --around", remedy="leave it out, or add --around NAME")
        if self.overlapping and not self.by_launch:
            raise UsageError("only steps, ranges and phases are also taken overlapping", remedy="add --step or --range")
        if self.time is None and self.around is None and not self.by_launch:
            raise UsageError("no part is selected", expected="a time, a name to crop around, a step, range or phase")
        if self.time is not None:
            parse_interval(self.time)
        if isinstance(self.margin, str):
            object.__setattr__(self, "margin", parse_time(self.margin))
        if self.step is not None:
            steps_of(self.step)
        if self.phase is not None:
            from ktrace.naming.phases import phase_test

            phase_test(self.phase)

    @property
    def by_launch(self) -> bool:
        """Whether what is launched in a part of the time belongs to it: in a step, range or phase."""
        return any(part is not None for part in (self.step, self.range, self.phase))

    def margin_ns(self) -> int:
        """The time before and after each row to crop around, in ns."""
        return self.margin if isinstance(self.margin, int) else _MARGIN


@documented
@dataclass(frozen=True)
class Filter:
    """The events and summaries to keep: those that pass everything that is given.

    {parameters}

    Raises
    ------
    UsageError
        A kind doesn't exist, or a duration has no unit.

    Examples
    --------
    >>> import ktrace
    >>> ktrace.Filter(kinds=["kernel"], min_dur="10us").min_dur
    10000
    """

    kinds: Sequence[str] = option(
        (),
        "--kind",
        "KIND,...",
        "Only rows of these kinds: kernel, memcpy, op, ...",
        link="[All kinds](../model.md)",
        words="ktrace.model.batch:KINDS",
    )
    names: Sequence[str] = option(
        (),
        "--name",
        "GLOB",
        "Only rows whose whole name or short name matches: '*gemm*'. Repeatable.",
        more="* is any text, ? any character, [ab] one of these; case matters.",
        repeatable=True,
    )
    devices: Sequence[int] = option(
        (),
        "--device",
        "N,...",
        "Only rows on these devices, by the numbers of the source.",
        more="Calls and operators are on none.",
    )
    streams: Sequence[int] = option(
        (), "--stream", "N,...", "Only rows on these streams, by the numbers of the source."
    )
    ranks: Sequence[int] = option((), "--rank", "N,...", "Only the sources of these ranks.")
    min_dur: int | str | None = option(
        None,
        "--min-dur",
        "TIME",
        "Leave out slices shorter than this: 10us.",
        more="Points, counters and slices without an end stay.",
    )
    only_gpu: bool = option(
        False,
        "--only-gpu",
        "",
        "Only device work and other rows on devices or streams.",
        more="The calls that launched the work are left out.",
    )
    drop_args: bool = option(False, "--drop-args", "", "Leave out the source's arguments.")

    def __post_init__(self) -> None:
        for name in ("kinds", "names"):
            given = getattr(self, name)
            object.__setattr__(self, name, (given,) if isinstance(given, str) else tuple(given))
        if self.kinds:
            from ktrace.model.batch import KINDS
            from ktrace.naming.alike import near

            for kind in self.kinds:
                if kind not in KINDS and not kind.startswith("x_"):
                    alike = near(kind, KINDS)
                    remedy = f"use {' or '.join(alike)}" if alike else None
                    raise UsageError(f"there is no kind '{kind}'", expected=", ".join(KINDS), remedy=remedy)
        if isinstance(self.min_dur, str):
            object.__setattr__(self, "min_dur", parse_time(self.min_dur))


def step_of(name: str) -> int | None:
    """The number of the step in a name, None if it isn't the name of a step."""
    match = _STEP.fullmatch(name.strip())
    return int(match.group(1)) if match else None


def series_of(name: str) -> str:
    """The name of a step without its number: that of the loop that it is of."""
    match = _STEP.fullmatch(name.strip())
    return name.strip()[: match.start(1) - match.end()].casefold() if match else name


def steps_of(text: int | str) -> tuple[int, int, str | None]:
    """The first and last step, and what their names begin with where they are named. Raises UsageError.

    3, 3..5, ProfilerStep#3, ProfilerStep#3..5
    """
    first, dots, last = str(text).partition("..")
    named = step_of(first)
    head = None if named is None else step_head(first)
    try:
        begin = int(first) if named is None else named
        end = int(last.strip().lower().removeprefix(head or "")) if dots else begin
    except ValueError:
        raise UsageError(
            f"'{text}' isn't a step", expected="a number, two (3..5), or a name such as ProfilerStep#3"
        ) from None
    return begin, end, head


def step_head(name: str) -> str:
    """What the name of a step begins with: "profilerstep#" of ProfilerStep#3."""
    return name.strip().lower().rstrip("0123456789")
