"""Writes a timeline as folded stacks: host slices by nesting, kernels below the call that launched them."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

from ktrace.conversion import Conversion
from ktrace.kit.timelines import track_paths
from ktrace.model.masks import slice_rows
from ktrace.output.sink import Sink
from ktrace.stages.order.links import ARROW_KINDS
from ktrace.stages.order.timeline import Timeline, TimelineBatch

_LAUNCH = ARROW_KINDS.index("launch")
#: A semicolon ends a frame, a line end ends the stack.
_RESERVED = re.compile(r"[;\r\n]+")

Stack = tuple[str, ...]


class _Open:
    """A slice that is open: its stack, when it began, the time of the slices in it."""

    __slots__ = ("begin", "inside", "stack")

    def __init__(self, stack: Stack, begin: int) -> None:
        self.stack = stack
        self.begin = begin
        self.inside = 0


class Writer:
    """A TimelineWriter of slices. Points, counters and arrows have no place in folded stacks."""

    def __init__(self, sink: Sink, conversion: Conversion) -> None:
        self._stream = sink.open()
        self._totals: Counter[Stack] = Counter()
        self._open: dict[tuple[int, int], list[_Open]] = {}
        #: The stacks of calls that launch something, by serial, until the work comes.
        self._launching: dict[int, Stack] = {}

    def start(self, timeline: Timeline) -> None:
        """Receives the tracks."""
        self._paths = {number: tuple(map(_frame, path)) for number, path in track_paths(timeline).items()}
        self._on_device = [track.is_on_device for track in timeline.tracks]

    def write(self, batch: TimelineBatch) -> int:
        """Adds up the self times and returns the number of slices."""
        slices = slice_rows(batch)
        is_slice = slices.tolist()
        names = batch.column("name").to_pylist()
        serials = batch.serial.tolist()
        calls, launched = self._launches(batch)
        edges = batch.edges
        columns = (column.tolist() for column in (edges.ts, edges.row, edges.track, edges.lane))
        for ts, row, track, lane in zip(*columns, strict=True):
            if row >= 0 and not is_slice[row]:
                continue
            stack = self._open.setdefault((track, lane), [])
            if row < 0:
                self._end(stack, ts)
                continue
            path = self._stack(track, stack, self._launching.get(launched.get(row, 0)))
            frames = (*path, _frame(names[row]))
            stack.append(_Open(frames, ts))
            if row in calls:
                self._launching[serials[row]] = frames
        return int(np.count_nonzero(slices))

    def close(self) -> None:
        """Writes the stacks, sorted."""
        for stack, total in sorted(self._totals.items()):
            if total:
                self._stream.write(f"{';'.join(stack)} {total}\n".encode("utf-8", "replace"))

    def _launches(self, batch: TimelineBatch) -> tuple[set[int], dict[int, int]]:
        """The rows that launch something, and for each row that was launched the serial of its call."""
        arrows = batch.arrows
        launch = arrows.kind == _LAUNCH
        calls = set(arrows.row[launch & arrows.out].tolist())
        there = launch & ~arrows.out & (arrows.peer > 0)
        return calls, dict(zip(arrows.row[there].tolist(), arrows.peer[there].tolist(), strict=True))

    def _stack(self, track: int, opened: list[_Open], call: Stack | None) -> Stack:
        """The stack in which a slice begins: below its call if it is on a device, else below the slice around it."""
        if call is not None and self._on_device[track]:
            return (*call, ", ".join(self._paths[track][1:]) or self._paths[track][0])
        return opened[-1].stack if opened else self._paths[track]

    def _end(self, opened: list[_Open], ts: int) -> None:
        ended = opened.pop()
        dur = ts - ended.begin
        self._totals[ended.stack] += dur - ended.inside
        if opened:
            opened[-1].inside += dur


def _frame(name: str) -> str:
    return _RESERVED.sub(":", name) or "?"
