"""Finds the step and the layer of each piece of work, by ranges with such names, and the use of steps.

If its name doesn't contain a layer, its layer is that of the innermost range around its call on the thread of the call;
if the call isn't known, around the work on its stream.
"""

from __future__ import annotations

import numpy as np

from ktrace.analysis.answers.summary.summary import StepUse
from ktrace.analysis.work.device_work import Events, Work
from ktrace.analysis.work.durations import by_group, course, parts_of
from ktrace.analysis.work.groups import COURSE, MANY
from ktrace.analysis.work.occurrences import (
    OF_LAYER,
    MarkedRanges,
    Occurrences,
    indices_of,
    labels_of_steps,
    spans_of_rows,
    steps_of_work,
)
from ktrace.model.arrays import Int32, Int64


class Marked:
    """The names of `steps` and `layers`, and the step and layer of the work of each source."""

    def __init__(self, work: Work) -> None:
        self._occurrences = work.once(Occurrences)
        self.steps, self._step_of = labels_of_steps(work.gathered)
        layers = [meaning.layer for meaning in work.gathered.meanings]
        self.layers = sorted({layer for layer in layers if layer is not None})
        self._layer_of = indices_of(layers, self.layers)
        self._counts_use = work.is_on_devices
        self._use = np.zeros((len(self.steps), 8), np.int64)
        self._courses: dict[tuple[str, int], Int64] = {}
        self._has_many = len(work.devices) > MANY

    def steps_of(self, events: Events) -> Int32:
        """The number of the step of each piece of work of a source, -1 where there is none; adds to their use."""
        ranges, occurrence = steps_of_work(events)
        if self._counts_use:
            self._add(events, ranges, occurrence)
        return _label(ranges, occurrence)

    def layers_of(self, events: Events) -> Int32:
        """The number of the layer of each piece of work of a source, -1 where no range has one."""
        ranges = self._occurrences.ranges(events.source, self._layer_of)
        return _label(ranges, self._occurrences.find(events, ranges, OF_LAYER))

    def _add(self, events: Events, ranges: MarkedRanges, occurrence: Int32) -> None:
        """Adds the work of a source to the use of its steps."""
        device, devices = events.places
        count, end = len(ranges.label), events.ts + events.dur
        rows_of = by_group(device, len(devices))
        for place in range(len(devices)) if count else ():
            rows = rows_of(place)
            in_steps, starts, spans = spans_of_rows(events, ranges, occurrence, rows)
            step = occurrence[in_steps].astype(np.int64)
            begins, ends, roles = events.ts[in_steps], end[in_steps], events.roles[in_steps]
            whole = parts_of(step, count, begins, ends, roles)
            since = np.minimum(np.maximum(begins, starts[step]), ends)  # a copy of its batch may run beside other steps
            parts = parts_of(step, count, since, ends, roles)
            parts[:, 2:4] = whole[:, 2:4]  # communication and copies, also those that run earlier
            here = np.column_stack([parts, spans, whole[:, 1] - parts[:, 1]])
            np.add.at(self._use, ranges.label, here)
            if self._has_many:
                columns = min(COURSE, len(self.steps))
                times = self._courses[events.source, place] = np.zeros((columns, 3), np.int64)
                np.add.at(times, ranges.label.astype(np.int64) * columns // len(self.steps), here[:, [1, 4, 6]])

    def courses(self, events: Events) -> list[Int64 | None]:
        """`DeviceUse.course` of each device of a source, whose steps were found."""
        device, devices = events.places
        if not self._has_many:
            return [None] * len(devices)
        if self.steps:
            return [self._courses.get((events.source, place)) for place in range(len(devices))]
        rows_of, end = by_group(device, len(devices)), events.ts + events.dur
        rows = map(rows_of, range(len(devices)))
        return [course(events.ts[of_device], end[of_device], events.roles[of_device], COURSE) for of_device in rows]

    def use(self) -> list[StepUse]:
        """The use of each step by the work that was added."""
        walls, often = np.zeros(len(self.steps), np.int64), np.zeros(len(self.steps), np.int64)
        for source in self._occurrences.sources:  # those on the host, if the source has any
            ranges = self._occurrences.ranges(source, self._step_of)
            on_device = self._occurrences.is_device[ranges.track]
            if not on_device.all():
                ranges = ranges.where(~on_device)
            np.add.at(walls, ranges.label, ranges.end - ranges.begin)
            often += np.bincount(ranges.label, minlength=len(self.steps))
        rows = zip(self.steps, often.tolist(), walls.tolist(), self._use.tolist(), strict=True)
        return [StepUse(*row[:3], *row[3]) for row in rows]


def _label(ranges: MarkedRanges, occurrence: Int32) -> Int32:
    """The label of each range that was found, -1 for none."""
    return np.where(occurrence >= 0, ranges.label[occurrence], -1).astype(np.int32) if len(ranges.label) else occurrence
