"""Finds the step of each event, to divide a trace into a part for each step.

    ProfilerStep#3   rank 0: 100 .. 200    rank 1: 104 .. 210
    between them     rank 0: 200 .. 207    with the step before
    ProfilerStep#4   rank 0: 207 .. 300    rank 1: 212 .. 305

Events before the first step are a part. Each source has its own steps; a source without steps uses the times of the
others. If the numbers of steps start again, these are further parts.
"""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np

from ktrace.errors import InputError
from ktrace.model.arrays import Int64
from ktrace.stages.select.marks import Marks, step_of
from ktrace.store.events import EventStore
from ktrace.store.track_index import TrackIndex

#: A step: how many times its number occurred before, and the number.
Step = tuple[int, int]

_BEFORE = (-1, -1)


class Steps(Marks):
    """Collects the steps of each source."""

    def __init__(self) -> None:
        super().__init__(lambda name: step_of(name) is not None, ("range", "op"))
        self._found: defaultdict[tuple[str, bool], list[tuple[int, int, int]]] = defaultdict(list)

    def keep(self, source: str, name: str, begin: int, end: int, placed: bool, number: int) -> None:
        """Keeps a step."""
        super().keep(source, name, begin, end, placed, number)
        self._found[source, placed].append((begin, step_of(name) or 0, number))

    def of(self, store: EventStore, index: TrackIndex, size: int) -> Int64:
        """The number of the part of each event, by place. Raises InputError if there is no step."""
        if not self:
            raise InputError(
                "has no steps to split by",
                expected="ranges with names such as ProfilerStep#3 or Iteration 3",
                remedy="use --split-by time=10s or size=500MB",
            )
        steps = {source: self._steps(source, on_device=not self._found.get((source, False))) for source in self.ids}
        first: dict[Step, int] = {}
        for begins in steps.values():
            for begin, step in begins:
                first[step] = min(begin, first.get(step, begin))
        order = sorted(first, key=lambda step: (first[step], step))
        part = {_BEFORE: 0} | {step: number for number, step in enumerate(order, 1)}
        common = [(first[step], step) for step in order]
        parts = np.zeros(len(store.keys), np.int64)
        sources = index.sources()
        for start, rows in store.keys.blocks(size):
            source = sources[rows["track"]]
            for number in np.unique(source).tolist():
                mine = source == number
                name = store.words["source"].word(number) or ""
                begins = steps.get(name, common)
                numbers = np.array([0, *(part[step] for _, step in begins)])
                at = np.searchsorted(np.array([begin for begin, _ in begins]), rows["ts"][mine], "right")
                found = numbers[at]
                for id_, step in self._on_device(name).items():
                    found[rows["id"][mine] == id_] = part.get(step, 0)
                parts[start : start + len(rows)][mine] = found
        return parts

    def _steps(self, source: str, *, on_device: bool) -> list[tuple[int, Step]]:
        """The begins of the steps of a source, in order; a step on several threads counts once."""
        begins: list[tuple[int, Step]] = []
        often: Counter[int] = Counter()
        for begin, number, _ in sorted(self._found[source, on_device]):
            if not begins or begins[-1][1][1] != number:
                begins.append((begin, (often[number], number)))
                often[number] += 1
        return begins

    def _on_device(self, source: str) -> dict[int, Step]:
        """The ids of rows that repeat a step on a device, where its time may be later."""
        if not self._found.get((source, False)):
            return {}
        ids: dict[int, Step] = {}
        often: Counter[int] = Counter()
        last = None
        for _, number, id_ in sorted(self._found.get((source, True), ())):
            often[number] += number != last
            last = number
            ids[id_] = (often[number] - 1, number)
        return ids
