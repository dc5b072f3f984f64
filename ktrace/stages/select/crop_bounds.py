"""Which time of a trace a crop means, source by source.

    --step 1       ProfilerStep#1 of rank 0: 1100..1200      of rank 1: 1105..1215
    --time 0s..1s  of all: 1000..1000001000
    both           the intersection

This is known after all events, since the first time of the trace and its ranges may come last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ktrace.errors import InputError, UsageError
from ktrace.model.arrays import Bools, Int32, Int64
from ktrace.model.batch import Batch
from ktrace.model.catalog import Catalog
from ktrace.model.json_text import decoded
from ktrace.model.times import parse_interval, time_text
from ktrace.report import Report
from ktrace.stages.select.intervals import ALWAYS, NEVER, Intervals
from ktrace.stages.select.marks import Marks, called, no_such, step_of
from ktrace.store.vocabulary import Vocabularies

if TYPE_CHECKING:
    from ktrace.stages.select.crop import Crop

#: How many steps an error lists.
_MOST = 8


def steps_of(text: int | str) -> tuple[int, int, str | None]:
    """The first and last step, and what their names begin with where they are named. Raises UsageError.

    3, 3..5, ProfilerStep#3, ProfilerStep#3..5
    """
    first, dots, last = str(text).partition("..")
    named = step_of(first)
    try:
        begin = int(first) if named is None else named
        end = begin if not dots else int(last.strip().lower().removeprefix(_head(first) if named is not None else ""))
    except ValueError:
        raise UsageError(
            f"'{text}' isn't a step", expected="a number, two (3..5), or a name such as ProfilerStep#3"
        ) from None
    return begin, end, None if named is None else _head(first)


def _head(name: str) -> str:
    """What the name of a step begins with: "profilerstep#" of ProfilerStep#3."""
    return name.strip().lower().rstrip("0123456789")


class Bounds:
    """Collects the rows that tell which part is meant."""

    def __init__(self, wanted: Crop) -> None:
        self._wanted = wanted
        self._around = Marks(called(wanted.around)) if wanted.around is not None else None
        self._range = Marks(called(wanted.range), ("range",)) if wanted.range is not None else None
        self._step = Marks(self._is_step, ("range", "op")) if wanted.step is not None else None

    def _is_step(self, name: str) -> bool:
        first, last, head = steps_of(self._wanted.step or 0)
        step = step_of(name)
        return step is not None and first <= step <= last and head in (None, _head(name))

    def add(self, batch: Batch) -> None:
        """Collects from events."""
        for marks in (self._around, self._range, self._step):
            if marks is not None:
                marks.add(batch)

    def part(self, start: int, end: int, catalog: Catalog, report: Report) -> CropBounds:
        """The selected time of each source, in a trace from `start` to `end` (ns); noted in the report.

        Raises InputError if there is no such time, name, step or range.
        """
        common, wanted = ALWAYS, self._wanted
        if wanted.time is not None:
            common = common.intersection(interval(wanted.time, start, end, catalog))
        if self._around is not None:
            if not self._around:
                raise no_such("event", str(wanted.around), self._around.names)
            assert isinstance(wanted.margin, int)
            common = common.intersection(self._around.around(wanted.margin))
        each, ids = self._own()
        part = CropBounds(common, each, ids)
        spans = [pair for found in part.all() for pair in found.pairs()]
        if not any(begin <= end and stop > start for begin, stop in spans):
            raise InputError("nothing is in all of the selected parts", remedy="select one of them")
        shown = [f"{time_text(max(a, start) - start)}..{time_text(min(b, end + 1) - start)}" for a, b in spans]
        report.issue("cropped", ", ".join(shown[:3]) + (", ..." if len(shown) > 3 else ""), rows=0)
        return part

    def _own(self) -> tuple[dict[str, Intervals] | None, dict[str, list[int]]]:
        """The intervals of each source if a step or range is selected, and the rows of these steps and ranges."""
        each: dict[str, Intervals] | None = None
        ids: dict[str, list[int]] = {}
        for marks, error in ((self._step, self._no_step), (self._range, self._no_range)):
            if marks is None:
                continue
            if not marks:
                raise error(marks)
            found = marks.each()
            each = (
                found
                if each is None
                else {name: found.get(name, NEVER).intersection(own) for name, own in each.items()}
            )
            ids = marks.ids
        alone = [self._wanted.time, self._around, self._step, self._range].count(None) == 3
        return each, ids if alone else {}

    def _no_step(self, marks: Marks) -> InputError:
        known = {name.strip(): step for name in marks.names if (step := step_of(name)) is not None}
        if steps_of(self._wanted.step or 0)[2] is None:
            steps = list(map(str, sorted(set(known.values()))))
        else:
            steps = sorted(known, key=lambda name: (_head(name), known[name]))
        some = ", ".join(steps[:_MOST]) + (f", ... {steps[-1]}" if len(steps) > _MOST else "")
        remedy = None if steps else "use --range NAME or --time: the trace has no ProfilerStep#N or Iteration N"
        expected = f"one of the steps {some}" if steps else None
        return InputError(f"there is no step {self._wanted.step}", expected=expected, remedy=remedy)

    def _no_range(self, marks: Marks) -> InputError:
        return no_such("range", str(self._wanted.range), marks.names)


@dataclass(frozen=True)
class CropBounds:
    """The selected time: `common` for all sources, intersected with `each` where this isn't None.

    `ids` are rows that stay anyway: ranges on a device, whose time there may be later.
    """

    common: Intervals
    each: dict[str, Intervals] | None
    ids: dict[str, list[int]]

    @property
    def launched(self) -> bool:
        """Whether the work launched in it is included."""
        return self.each is not None

    def of(self, source: str | None) -> Intervals:
        """The intervals of a source."""
        return self.common if self.each is None else self.common.intersection(self.each.get(source or "", NEVER))

    def all(self) -> list[Intervals]:
        """The intervals of each source, or those common to all."""
        return [self.common] if self.each is None else [self.of(source) for source in self.each]

    def sources(self, words: Vocabularies, source: Int32) -> Iterator[tuple[Bools, Intervals, list[int]]]:
        """Yields for each source its rows (a mask), its intervals, and the ids that stay anyway."""
        for number in np.unique(source).tolist():
            name = words["source"].word(number)
            yield source == number, self.of(name), self.ids.get(name or "", [])

    def contain(self, ts: Int64, batch: Batch) -> Bools:
        """Which rows of a batch have their time in the selected time."""
        names = decoded(batch.column("source")).to_pylist()
        coded = np.array(names, object)
        found = np.zeros(len(batch), np.bool_)
        for name in set(names):
            mine = coded == name
            found[mine] = self.of(name).contain(ts[mine])
        return found


def interval(text: str, start: int, end: int, catalog: Catalog) -> Intervals:
    """The time interval in the clock of the trace.

    Times count from the start of the trace; if it doesn't have them, they are read as times of its own clock, or of
    the day.
    """
    first, last = parse_interval(text)
    given = [time for time in (first, last) if time is not None]
    offsets = catalog.unix_offsets()
    for moved in (start, 0, *((-offset for offset in offsets) if len(offsets) == 1 else ())):
        if any(start <= time + moved <= end for time in given):
            break
    else:
        moved = start
    begin = -ALWAYS.end[0] if first is None else first + moved
    stop = ALWAYS.end[0] if last is None else last + moved
    if begin > end or stop < start or begin < stop <= start:
        raise InputError(
            f"the trace has no time {text}",
            expected=f"0s..{time_text(end - start)} from its start, or {start}ns..{end}ns by its own clock",
        )
    return Intervals.of([(int(begin), int(max(stop, begin + 1)))])
