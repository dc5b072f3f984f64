"""PM sampling: the values of metrics over the time of the kernel, each group of metrics in a replay of its own.

    profiler__pmsampler_pass_groups   1: "SM_A.TriageAC.sm__cycles_active.avg,..."     which metrics replay 1 sampled
    profiler__pmsampler_ctxsw_1       1698153373791096320                             when its kernel came onto the GPU
    SM_A.TriageAC.sm__cycles_active   1698153373791098368: 0, ...                     when what was sampled

Replays are 70 ms apart, so that times count from the switch of the replay's own context; the kernel begins about 2 us
after it.
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
    """A metric over time, ns since the kernel came onto the GPU in its replay."""

    name: str
    replay: int | None
    ts: Int64
    values: Float64


class Sampling:
    """Gathers what was sampled of a launch."""

    def __init__(self) -> None:
        self._samples: list[tuple[str, Samples]] = []
        self._replays: dict[str, int] = {}
        self._switched: dict[int, int] = {}

    def add(self, name: str, metric: Metric) -> bool:
        """Takes a metric. Whether its samples are values over time, which `series` will say."""
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
        """The samples in their order, by metric. Where no switch is known times count from the first sample."""
        for name, samples in self._samples:
            replay = self._replays.get(name, self._replays.get(name.rpartition(":")[2]))
            begin = self._switched.get(replay, -1) if replay is not None else -1
            if begin < 0:
                begin = int(samples.times.min())
            yield Series(name, replay, samples.times - begin, samples.values)
