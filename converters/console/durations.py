"""What a labelled duration is, and how times, numbers and statistics are spelled in lines."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from ktrace.kit.text.headings import spelling
from ktrace.kit.text.numbers import TIME_NS

NUMBER = r"\d{1,3}(?:,\d{3}){1,5}(?:\.\d{1,18})?|\d{1,18}(?:\.\d{1,18})?(?:e[+-]?\d{1,2})?"
UNITS = "|".join((*sorted(TIME_NS, key=len, reverse=True), "US", "MS", "NS"))
TIME = rf"(?:{NUMBER}) ?(?:{UNITS})"

#: Words of a label that say which statistic of repeats its time is.
STATISTIC = {
    **dict.fromkeys(("avg", "average", "mean"), "avg"),
    **dict.fromkeys(("med", "median", "p50"), "median"),
    **{"min": "min", "minimum": "min", "best": "min", "fastest": "min"},
    **{"max": "max", "maximum": "max", "worst": "max", "slowest": "max"},
    **dict.fromkeys(("std", "stddev", "stdev", "sd"), "stddev"),
    **{"p95": "p95", "p99": "p99", "total": "total", "sum": "total"},
    **dict.fromkeys(("count", "calls", "n"), "count"),
}

_CALLS = frozenset(("calls", "count", "num_calls", "launches", "invocations", "runs"))

#: Last words of labels and keys whose numbers are no times, whatever unit stands above them; words that are so alone.
_OTHERS = re.compile(
    r"loss|lr|acc|accuracy|size|counts?|calls|number|runs|seed|bytes|mem|memory|bandwidth|throughput|[tg]?flops|tokens"
    r"|samples|ratio|rate|speedup|score|percent|version|port|devices|gpus|threads|ppl|perplexity|len|length|fps|qps|rows"
    r"|cols|layers|pid|width|height|efficiency|utilization|occupancy"
)
_COUNTING = re.compile(r"epoch|steps?|iter(?:ation)?s?|batch|call|[nmk]|num|rank|id|index|grid|block|device")

#: Durations and times are below 2^61 ns.
LIMIT, DIGITS = 1 << 61, 19


@dataclass
class Figure:
    """A labelled duration in ns. `interval` is start and length, in whole ns, where the line has both ends.

    `is_first`: the time stands before its label. `without` are members of the same list that have no duration.
    `statistics` are those of repeats, as columns of a summary, of which `dur` is the first: no part of a sum, unless
    it `adds_up`. `scope` is what an object says is above. `is_op`: the line calls it an operation.
    """

    name: str
    dur: Decimal
    on_device: bool = False
    tag: str | None = None
    interval: tuple[int, int] | None = None
    is_rounded: bool = False
    is_first: bool = False
    without: int = 0
    columns: dict[str, int] = field(default_factory=dict)
    args: dict[str, Any] = field(default_factory=dict)
    statistics: dict[str, float] = field(default_factory=dict)
    scope: list[str] = field(default_factory=list)
    is_op: bool = False
    adds_up: bool = False

    def take_count(self) -> None:
        """Makes an argument that is a number of calls the column for it."""
        key = next((key for key, value in self.args.items() if key.lower() in _CALLS and type(value) is int), None)
        if key is not None and 0 < self.args[key] < LIMIT:
            self.columns["count"] = self.args.pop(key)


def ns_of(number: str | Decimal, unit: str) -> Decimal | None:
    """A time in ns, None if no column holds it."""
    exact = Decimal(number.replace(",", "")) if isinstance(number, str) else number
    if is_great(exact):
        return None
    exact *= TIME_NS[unit if unit in TIME_NS else unit.lower()]
    return exact if abs(exact) < LIMIT else None


def is_great(number: Decimal) -> bool:
    """Whether a number is beyond all times; such a one may be beyond what decimal can compute with, too."""
    return not number.is_finite() or number.adjusted() >= DIGITS


def is_no_time(label: str) -> bool:
    """Whether the bare number of a label is none of the times whose unit stands above: `epoch`, `batch_size`."""
    words = spelling(label).split() or [""]
    is_other = _OTHERS.fullmatch(words[-1]) is not None
    return is_other or (len(words) == 1 and _COUNTING.fullmatch(words[0]) is not None)


#: A duration in two parts at least, the words of a shell's `time` before it.
_IN_PARTS = re.compile(
    r"(?<![\w.:+-])(?=\d{1,5}[dhm])(?:(?P<d>\d{1,3})d ?(?=\d{1,2}h))?(?:(?P<h>\d{1,4})h(?:rs?)? ?)?"
    r"(?:(?P<m>\d{1,5})m(?:in)? ?)?(?:(?P<s>\d{1,5}(?:\.\d{1,9})?)s(?:ecs?)?)?(?![\w.]\w|\w)"
)
_OF_SHELL = re.compile(r"\s*(?:real|user|sys)\b")
_SECONDS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}


def in_seconds(text: str) -> str:
    """A line with durations of several parts in seconds: `load 147.9 s` for `load 2m27.9s`."""
    return text if _OF_SHELL.match(text) else _IN_PARTS.sub(_seconds, text)


def _seconds(match: re.Match[str]) -> str:
    parts = {unit: Decimal(number) for unit, number in match.groupdict().items() if number}
    if len(parts) < 2 or any(parts.get(unit, 0) >= 60 for unit in "ms" if unit != next(iter(parts))):
        return match[0]
    blank = " " * (len(match[0]) - len(match[0].rstrip()))
    return f"{sum(number * _SECONDS[unit] for unit, number in parts.items())} s{blank}"
