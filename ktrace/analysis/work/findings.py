"""What a verdict rests on, for programs: one fact each, with its figure, what it is about, and rows that show it.

Finding("idle.host_late", "time", 98,210 ns of 962,104, "the devices' time", look 1, evidence [a gap, ...])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace

from ktrace.model.arrays import Int64
from ktrace.tables import Cell, percent, rounded

#: How many rows show a finding.
SHOWN = 3


#: What the names of formats of AMD's profilers begin with.
OF_ROCM: tuple[str, ...] = ("rocprof", "rocpd", "rpd", "roctracer")

_Option = TypeVar("_Option")


def of_profiler(options: Mapping[tuple[str, ...], _Option], formats: Sequence[str]) -> _Option | None:
    """The option for the profiler of all these formats; None for others, and where no format is known.

    `options` has what the names of a profiler's formats begin with, and what is so for it.
    """
    for names, option in options.items():
        if formats and all(name.startswith(names) for name in formats):
            return option
    return None


class Evidence(NamedTuple):
    """A row of a source, or a gap before a row: its name and id, its start and end in ns on the clock of the source.

    Of a gap, name and id are those of the work after it. `time` is the part of it that counts, in ns.
    """

    source: str
    id: int | None
    name: str
    begin_ns: int
    end_ns: int
    time_ns: int


class Finding(msgspec.Struct, frozen=True):
    """A fact of a verdict. `code` is stable; docs/programs.md lists all.

    `value` is the exact figure `metric` in `unit`, a part of `whole`, which `of` names. `subject` says what it is
    about: the device, rank, kernel, operation. `look` is its place among what to look at first, from 1; None if it
    needn't be looked at. `details` are further figures, under keys that state their unit. `doubts` are the codes of
    failed checks of the recording that the finding may be wrong by. `remedy` is what to do about it.
    """

    code: str
    metric: str
    value: float
    unit: str = "ns"
    whole: float | None = None
    of: str = ""
    subject: Mapping[str, Cell] = msgspec.field(default_factory=dict)
    look: int | None = None
    details: Mapping[str, Cell] = msgspec.field(default_factory=dict)
    evidence: Sequence[Evidence] = ()
    doubts: Sequence[str] = ()
    remedy: str = ""

    @property
    def share(self) -> float | None:
        """The value in percent of the whole; None where that isn't known."""
        return percent(self.value, self.whole)

    def document(self) -> dict[str, Any]:
        """The finding for JSON, with `share_percent` beside its fields."""
        figures = {"value": _as_whole_number(self.value), "unit": self.unit, "whole": _as_whole_number(self.whole)}
        part = {"share_percent": rounded(self.share), "of": self.of}
        details = {key: rounded(value, "ns" if key.endswith("_ns") else "%") for key, value in self.details.items()}
        rows = [one._asdict() for one in self.evidence]
        subject = {key: value for key, value in self.subject.items() if value is not None}
        about = {"subject": subject, "look": self.look, "details": details, "evidence": rows}
        doubts = {"doubts": list(self.doubts), "remedy": self.remedy or None}
        return {"code": self.code, "metric": self.metric} | figures | part | about | doubts


def _as_whole_number(value: float | None) -> float | None:
    """A whole number as such; others exactly as they are."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def with_look(findings: Sequence[Finding], order: Iterable[Finding]) -> list[Finding]:
    """The findings, those in `order` with their place among what to look at first."""
    places = {id(one): place for place, one in enumerate(order, 1)}
    return [replace(one, look=places.get(id(one))) for one in findings]


def longest(times: Int64, most: int = SHOWN) -> list[int]:
    """The places of the greatest of these times above 0, the greatest first, of equal ones the first."""
    some = np.argpartition(-times, most)[:most] if len(times) > most else np.arange(len(times))
    order = sorted(some.tolist(), key=lambda place: (-int(times[place]), place))
    return [place for place in order if times[place] > 0]
