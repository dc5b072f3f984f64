"""What it costs that the host waits for a device: the idle time after each wait, by the call and what it is part of.

thread   [ aten::item                    ]
           [ cudaStreamSynchronize ]      [ cudaLaunchKernel ]
device   [ gemm                  ]                            [ norm ]
                                  ─────────── idle ───────────
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from ktrace.analysis.work.device_work import Events, Work
from ktrace.analysis.work.gaps import SYNCHRONISED, causes_of, gaps_of, latest, waits_among
from ktrace.analysis.work.launching import launching_of
from ktrace.analysis.work.spans import KINDS, generic, innermost
from ktrace.model.arrays import Int64
from ktrace.tables.figures import Cell, Column, Table, percent

#: The name of the question, as `--by` takes it.
WAIT = "wait"

_API = KINDS.index("api")


@dataclass(frozen=True)
class HostWait:
    """The calls with one name that wait for a device in one operator or range, `inside`; None is outside of all.

    `time` is that of the calls. `idle` is the time of devices in the gaps that these waits caused, as in the answer
    "idle": "host synchronised"; `gaps` are so many, `longest` is the longest.
    """

    call: str
    inside: str | None
    calls: int
    time: int
    idle: int
    gaps: int
    longest: int


@dataclass
class WaitsAnswer:
    """The waits of the host, the most expensive first; `idle` is that of all devices, of whatever cause."""

    waits: list[HostWait]
    idle: int

    def tables(self, top: int | None = None, *, brief: bool = False) -> list[Table]:
        """A row for each call and what it is part of, at most `top`."""
        columns = (
            *(Column("waits in"), Column("part of"), Column("calls", "count"), Column("time", "ns")),
            *(Column("idle after", "ns"), Column("of idle", "%"), Column("gaps", "count"), Column("longest", "ns")),
        )
        rows: list[tuple[Cell, ...]] = [
            (one.call, one.inside, one.calls, one.time, one.idle, percent(one.idle, self.idle), one.gaps, one.longest)
            for one in self.waits[:top]
        ]
        notes = ["Idle after: devices had nothing to do, because the host had waited and launched only then."]
        return [Table(WAIT, "what waits for devices cost", columns, rows, notes, len(self.waits) - len(rows))]


def answer_of_waits(work: Work) -> WaitsAnswer | None:
    """The waits of all sources; None if there are none."""
    times: defaultdict[tuple[str, str | None], list[int]] = defaultdict(list)
    costs: defaultdict[tuple[str, str | None], list[int]] = defaultdict(list)
    idle = 0
    for events in work.each():
        if not len(events):
            continue
        which, places = events.places
        gaps = gaps_of(events, which, len(places))
        idle += int(gaps.length.sum())
        cause, meanwhile = causes_of(gaps, work, events, launching_of(work, events))
        ended = np.flatnonzero(cause == SYNCHRONISED)
        spans, names = work.gathered.spans.of(events.source), work.gathered.spans.names
        waits = waits_among(spans, names)
        first = meanwhile.first[ended]  # in its own call, else after that of another thread
        caused = np.where(meanwhile.kind[first] == _API, meanwhile.row[first], latest(waits, spans, gaps.begin[ended]))
        every = np.union1d(waits, caused)
        keys = _keys(work, events, every)
        for key, dur in zip(keys, np.maximum(spans["dur"][every], 0).tolist(), strict=True):
            times[key].append(dur)
        for place, length in zip(np.searchsorted(every, caused).tolist(), gaps.length[ended].tolist(), strict=True):
            costs[keys[place]].append(length)
    found = [
        HostWait(*key, len(own), sum(own), sum(costs[key]), len(costs[key]), max(costs[key], default=0))
        for key, own in times.items()
    ]
    return WaitsAnswer(sorted(found, key=lambda one: (-one.idle, -one.time, one.call)), idle) if found else None


def _keys(work: Work, events: Events, rows: Int64) -> list[tuple[str, str | None]]:
    """The names of some spans, and of the innermost operator or range around each."""
    spans, names = work.gathered.spans.of(events.source), work.gathered.spans.names
    outer = innermost(spans["thread"], spans["ts"], spans["ts"] + np.maximum(spans["dur"], 0))
    around = outer[rows]
    while (in_call := (around >= 0) & (spans["kind"][around] == _API)).any():
        around[in_call] = outer[around[in_call]]
    inside = [generic(names[spans["name"][row]]) if row >= 0 else None for row in around.tolist()]
    return [(generic(names[number]), part) for number, part in zip(spans["name"][rows].tolist(), inside, strict=True)]
