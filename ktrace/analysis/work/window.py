"""What a device lost before its first and after its last work: the steps began without it, or the recording did.

step      [ ProfilerStep#6                                        ]
host          [ preprocess                   ]  [ launch ]
device                                             [ softmax ][ ..]
           before: 98 ms, the host was in preprocess

One-time set-up, such as a context or a module that is loaded, is no work of the program, and is counted apart.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ktrace.analysis.work.device_work import Events, Work
from ktrace.analysis.work.gaps import SETUP_CALL, divided
from ktrace.analysis.work.groups import Window
from ktrace.analysis.work.spans import generic
from ktrace.model.arrays import Int64


def windows_of(events: Events) -> list[Window]:
    """The window of each device of a source, in the order of `Events.places`."""
    return events.once(_windows)


def _windows(work: Work, events: Events) -> list[Window]:
    bounds, steps = _bounds(work, events)
    place, places = events.places
    found = []
    for number, device in enumerate(places.tolist()):
        rows = np.flatnonzero(place == number)
        first, last = int(events.ts[rows].min()), int((events.ts + events.dur)[rows].max())
        begin, end = min(bounds[0], first), max(bounds[1], last)
        setup, call, host, host_time = _host_until(work, events, rows, begin, first)
        before = first - begin - setup
        found.append(
            Window(
                *(events.source, device, steps, end - begin - setup, before, end - last),
                *(setup, call, host, host_time),
            )
        )
    return found


def _bounds(work: Work, events: Events) -> tuple[tuple[int, int], int]:
    """Begin and end of the steps of a source and their number, else of its recording and 0."""
    marks, names = work.gathered.marks.of(events.source), work.gathered.steps
    stepping = np.array([*(name is not None for name in names), False], np.bool_)
    rows = np.flatnonzero(stepping[marks["meaning"]] & (marks["dur"] > 0))
    if len(rows):
        ts = marks["ts"][rows]
        return (int(ts.min()), int((ts + marks["dur"][rows]).max())), len(
            {names[one] for one in marks["meaning"][rows].tolist()}
        )
    return work.gathered.spans_of[events.source], 0


def _host_until(work: Work, events: Events, rows: Int64, begin: int, first: int) -> tuple[int, str, str, int]:
    """What the launching thread did before the first work: set-up in ns and its heaviest call, the rest's heaviest."""
    launched = rows[(events.call[rows] >= 0) & (events.ts[rows] <= first)]
    if not len(launched) or first <= begin:
        return 0, "", "", 0
    spans, names = work.gathered.spans.of(events.source), work.gathered.spans.names
    thread = events.calls["thread"][events.call[launched[:1]]]
    _, span, time = divided(spans, thread, np.array([begin]), np.array([first]))
    times: dict[str, int] = {}
    for one, spent in zip(span.tolist(), time.tolist(), strict=True):
        if one >= 0:
            name = generic(names[spans["name"][one]])
            times[name] = times.get(name, 0) + spent
    setup = {name: spent for name, spent in times.items() if SETUP_CALL.search(name)}
    rest: dict[str, Any] = {name: spent for name, spent in times.items() if name not in setup}
    heaviest = max(rest, key=rest.__getitem__, default="")
    call = max(setup, key=setup.__getitem__, default="")
    return sum(setup.values()), call, heaviest, rest.get(heaviest, 0)
