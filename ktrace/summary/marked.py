"""Of which step and which layer each piece of work is, by the ranges that are called so.

    thread 4242    [ ProfilerStep#3                      ]
                      [ layers.9     ]
                        [ launch ]
    stream 7                             [ gemm ]           of ProfilerStep#3 and layers.9

Work belongs to the step during which it was launched; where its call isn't known to the one during which it begins.
Its layer, where its own name says none, is that of the innermost range around its call on the thread of the call; where
the call isn't known, around itself on its stream.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ktrace.summary.events import Events
from ktrace.summary.figures import by_group
from ktrace.summary.gather import Gathered
from ktrace.summary.launched import around_times
from ktrace.summary.model import Int64, StepUse
from ktrace.summary.use import parts

Int32 = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]
Shape = dict[str, Any]


class _Ranges(NamedTuple):
    """Ranges, with the number of what each is called and that of its shape."""

    begin: Int64
    end: Int64
    label: Int32
    shape: Int32

    def where(self, mine: Bools) -> _Ranges:
        return _Ranges(self.begin[mine], self.end[mine], self.label[mine], self.shape[mine])


class Marked:
    """The names of `steps` and `layers`; `step` and `layer` are the number of its own for each piece of work, or -1."""

    def __init__(self, events: Events, gathered: Gathered) -> None:
        self._events = events
        self._shapes = gathered.marks_shapes.all()
        self._threads = gathered.threads.all()
        self._numbers: dict[Any, int] = {}
        marks = gathered.marks.whole()
        last = gathered.span[1] if gathered.span else 0
        end = np.where(marks["dur"] < 0, np.maximum(last, marks["ts"]), marks["ts"] + marks["dur"])
        marks["end"] = end
        said = [gathered.meaning(shape["name"]) for shape in self._shapes]
        names = [shape["name"].strip() for shape in self._shapes]
        numbers = {name: step for name, (step, _) in zip(names, said, strict=True) if step is not None}
        steps = [name if name in numbers else None for name in names]
        self.steps = sorted(numbers, key=lambda name: (numbers[name], name))
        self.layers = sorted(filter(None, {layer for _, layer in said}))
        self._of_steps = self._ranges(marks, steps, self.steps)
        self._of_layers = self._ranges(marks, [layer for _, layer in said], self.layers)
        self.step = self._find(self._of_steps, _STEP)
        self.layer = self._find(self._of_layers, _LAYER)

    def _ranges(self, marks: dict[str, Any], names: list[str | None], words: list[str]) -> _Ranges:
        """The marks that have one of these names."""
        number = {name: place for place, name in enumerate(words)}
        label = np.array([-1 if name is None else number[name] for name in names], np.int32)[marks["shape"]]
        return _Ranges(marks["ts"], marks["end"], label, marks["shape"]).where(label >= 0)

    def _find(self, ranges: _Ranges, ways: tuple[_Way, ...]) -> Int32:
        """The label of the range that each piece of work belongs to: the first way by which there are ranges counts."""
        events = self._events
        found = np.full(len(events), -1, np.int32)
        if not len(ranges.begin):
            return found
        placed = [shape["device"] is not None or shape["stream"] is not None for shape in self._shapes]
        on_device = np.array(placed, np.bool_)[ranges.shape]
        left = np.ones(len(events), np.bool_)
        for way in ways:
            rows = np.flatnonzero(left & (events.call >= 0)) if way.at_call else np.flatnonzero(left)
            mine = ranges.where(on_device == way.on_device)
            if not len(rows) or not len(mine.begin):
                continue
            track = self._place(self._shapes, way.columns)[mine.shape]
            if way.at_call:
                call = events.call[rows]
                place, at = (
                    self._place(self._threads, way.columns)[events.calls["thread"][call]],
                    events.calls["ts"][call],
                )
            else:
                place, at = self._place(events.shapes, way.columns)[events.shape[rows]], events.ts[rows]
            known = np.isin(place, track)
            rows, place, at = rows[known], place[known], at[known]
            around = around_times(track, mine.begin, mine.end, place, at)
            found[rows] = np.where(around >= 0, mine.label[around], -1)
            left[rows] = False
        return found

    def _place(self, shapes: list[Shape], columns: tuple[str, ...]) -> Int32:
        """A number for the place of each shape, the same where these columns are."""
        keys = [(columns, *(shape[name] for name in columns)) for shape in shapes]
        return np.array([self._numbers.setdefault(key, len(self._numbers)) for key in keys], np.int32)

    def use(self) -> list[StepUse]:
        """The use of each step."""
        events, count = self._events, len(self.steps)
        devices, places = events.places
        inside = np.flatnonzero(self.step >= 0)
        rows_of = by_group(self.step[inside].astype(np.int64) * len(places) + devices[inside], count * len(places))
        walls, often = self._walls()
        found = []
        for step, label in enumerate(self.steps):
            figures = [0] * 6
            for place in range(len(places)):
                rows = inside[rows_of(step * len(places) + place)]
                if len(rows):
                    used = parts(events.ts[rows], events.ts[rows] + events.dur[rows], events.roles[rows])
                    figures = [sum(pair) for pair in zip(figures, (used.busy.length, *used[1:]), strict=True)]
            found.append(StepUse(label, often[step], walls[step], *figures))
        return found

    def _walls(self) -> tuple[list[int], list[int]]:
        """How long the ranges of each step are together, and how many: those on the host where a source has some."""
        ranges = self._of_steps
        source = self._place(self._shapes, ("source",))[ranges.shape]
        placed = [shape["device"] is not None or shape["stream"] is not None for shape in self._shapes]
        on_device = np.array(placed, np.bool_)[ranges.shape]
        mine = ranges.where(~on_device | ~np.isin(source, source[~on_device]))
        walls = np.zeros(len(self.steps), np.int64)
        np.add.at(walls, mine.label, mine.end - mine.begin)
        return walls.tolist(), np.bincount(mine.label, minlength=len(self.steps)).tolist()


class _Way(NamedTuple):
    """How a range is found: at the time and place of the call or of the work itself, among which ranges."""

    at_call: bool
    on_device: bool
    columns: tuple[str, ...]


_STEP = (
    _Way(True, False, ("source", "host", "pid")),
    _Way(True, False, ("source",)),
    _Way(False, False, ("source",)),
    _Way(False, True, ("source",)),
)
_LAYER = (
    _Way(True, False, ("source", "host", "pid", "tid")),
    _Way(False, True, ("source", "host", "device", "stream")),
)
