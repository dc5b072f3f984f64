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
from ktrace.summary.gather import Gathered
from ktrace.summary.launched import around_times
from ktrace.summary.model import Int64, StepUse
from ktrace.summary.use import parts_of
from ktrace.transforms.marks import step_of

Int32 = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]
Shape = dict[str, Any]


class _Ranges(NamedTuple):
    """Ranges, with the number of what each is called and that of its track."""

    begin: Int64
    end: Int64
    label: Int32
    track: Int32

    def where(self, mine: Bools) -> _Ranges:
        return _Ranges(self.begin[mine], self.end[mine], self.label[mine], self.track[mine])


class Marked:
    """The names of `steps` and `layers`; `step` and `layer` are the number of its own for each piece of work, or -1."""

    def __init__(self, events: Events, gathered: Gathered) -> None:
        self._events = events
        self._tracks = gathered.tracks.all()
        self._threads = gathered.threads.all()
        self._numbers: dict[Any, int] = {}
        marks = gathered.marks.whole()
        last = gathered.span[1] if gathered.span else 0
        marks["end"] = np.where(marks["dur"] < 0, np.maximum(last, marks["ts"]), marks["ts"] + marks["dur"])
        steps = [step for step, _ in gathered.meanings]
        layers = [layer for _, layer in gathered.meanings]
        self.steps = sorted({step for step in steps if step is not None}, key=lambda step: (step_of(step) or 0, step))
        self.layers = sorted({layer for layer in layers if layer is not None})
        self._of_steps = _ranges(marks, steps, self.steps)
        self._of_layers = _ranges(marks, layers, self.layers)
        self.step = self._find(self._of_steps, _STEP)
        self.layer = self._find(self._of_layers, _LAYER)

    def _find(self, ranges: _Ranges, ways: tuple[_Way, ...]) -> Int32:
        """The label of the range that each piece of work belongs to: the first way by which there are ranges counts."""
        events = self._events
        found = np.full(len(events), -1, np.int32)
        if not len(ranges.begin):
            return found
        on_device = self._on_device(ranges)
        left = np.ones(len(events), np.bool_)
        for way in ways:
            rows = np.flatnonzero(left & (events.call >= 0)) if way.at_call else np.flatnonzero(left)
            mine = ranges.where(on_device == way.on_device)
            if not len(rows) or not len(mine.begin):
                continue
            track = self._place(self._tracks, way.columns)[mine.track]
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

    def _on_device(self, ranges: _Ranges) -> Bools:
        placed = [track["device"] is not None or track["stream"] is not None for track in self._tracks]
        return np.array(placed, np.bool_)[ranges.track]

    def _place(self, shapes: list[Shape], columns: tuple[str, ...]) -> Int32:
        """A number for the place of each shape, the same where these columns are."""
        keys = [(columns, *(shape[name] for name in columns)) for shape in shapes]
        return np.array([self._numbers.setdefault(key, len(self._numbers)) for key in keys], np.int32)

    def use(self) -> list[StepUse]:
        """The use of each step."""
        events, count = self._events, len(self.steps)
        devices, places = events.places
        inside = np.flatnonzero(self.step >= 0)
        group = self.step[inside].astype(np.int64) * len(places) + devices[inside]
        ts = events.ts[inside]
        found = parts_of(group, count * len(places), ts, ts + events.dur[inside], events.roles[inside])
        figures = found.reshape(count, len(places), found.shape[1]).sum(axis=1).tolist()
        walls, often = self._walls()
        return [StepUse(*row[:3], *row[3]) for row in zip(self.steps, often, walls, figures, strict=True)]

    def _walls(self) -> tuple[list[int], list[int]]:
        """How long the ranges of each step are together, and how many: those on the host where a source has some."""
        ranges = self._of_steps
        source = self._place(self._tracks, ("source",))[ranges.track]
        on_device = self._on_device(ranges)
        mine = ranges.where(~on_device | ~np.isin(source, source[~on_device]))
        walls = np.zeros(len(self.steps), np.int64)
        np.add.at(walls, mine.label, mine.end - mine.begin)
        return walls.tolist(), np.bincount(mine.label, minlength=len(self.steps)).tolist()


def _ranges(marks: dict[str, Any], said: list[str | None], words: list[str]) -> _Ranges:
    """The marks of which the meaning, by its number, says one of these words."""
    number = {word: place for place, word in enumerate(words)}
    label = np.array([-1 if word is None else number[word] for word in said], np.int32)[marks["meaning"]]
    return _Ranges(marks["ts"], marks["end"], label, marks["track"]).where(label >= 0)


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
