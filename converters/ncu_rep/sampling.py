"""Reads PM samples: the values of metrics during the kernel, each group of metrics from a separate replay.

    profiler__pmsampler_pass_groups   1: "SM_A.TriageAC.sm__cycles_active.avg,..."     metrics that replay 1 sampled
    profiler__pmsampler_ctxsw_1       1698153373791096320                             time of replay 1's context switch
    SM_A.TriageAC.sm__cycles_active   1698153373791098368: 0, ...                     time and value of each sample

Replays are 70 ms apart, so times count from the context switch of the replay that sampled them; the kernel begins about
2 us after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ktrace.model.arrays import Float64, Int64

from .metrics import Metric, Samples

_GROUPS = "profiler__pmsampler_pass_groups"
_SWITCH = re.compile(r"profiler__pmsampler_ctxsw_(\d{1,9})")


class Series(NamedTuple):
    """A metric over time, in ns since the context switch of its replay."""

    name: str
    replay: int | None
    ts: Int64
    values: Float64


class Sampling:
    """Collects the samples of a launch."""

    def __init__(self) -> None:
        self._samples: list[tuple[str, Samples]] = []
        self._replays: dict[str, int] = {}
        self._switched: dict[int, int] = {}

    def add(self, name: str, metric: Metric) -> bool:
        """Adds a metric; returns whether it has samples over time, which `series` will yield."""
        if name == _GROUPS:
            for replay, names in metric.instances:
                if isinstance(replay, int) and isinstance(names, str):
                    self._replays |= dict.fromkeys(names.split(","), replay)
        if metric.samples is None:
            return False
        if found := _SWITCH.fullmatch(name):
            self._switched[int(found[1])] = int(metric.samples.times[0])
            return False
        self._samples.append((name, metric.samples))
        return True

    def series(self) -> Iterator[Series]:
        """Yields the samples by metric. If no context switch is known, times count from the first sample."""
        for name, samples in self._samples:
            replay = self._replays.get(name, self._replays.get(name.rpartition(":")[2]))
            begin = self._switched.get(replay, -1) if replay is not None else -1
            if begin < 0:
                begin = int(samples.times.min())
            yield Series(name, replay, samples.times - begin, samples.values)
