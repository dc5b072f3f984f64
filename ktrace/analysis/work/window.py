"""What a device lost before its first and after its last work: the steps began without it, or the recording did.

step      [ ProfilerStep#6                                        ]
host          [ preprocess                   ]  [ launch ]
device                                             [ softmax ][ ..]
           before: 98 ms, the host was in preprocess

The time before ends with the call that launched the first work: what that waited for was queued before the recording,
and so was what the host waited for before. Where the work of the last launches isn't there, nothing comes after the
last work: the device went on, and the recording ended.
One-time set-up, such as a context or a module that is loaded, is no work of the program, and is counted apart.
"""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

from ktrace.analysis.work.device_work import Events, Work
from ktrace.analysis.work.gaps import NO_SPAN, calls_of_setup, divided, queued_at_end
from ktrace.analysis.work.groups import Window
from ktrace.analysis.work.spans import generic
from ktrace.store.joins import group_start_mask

#: Work that begins so many ns after its call has returned was behind other work: a launch takes some us.
_QUEUED = 1_000_000

#: Calls that return when all work is done.
_SYNCHRONISES = re.compile(r"[a-z]\w*Synchronize|clFinish|clWaitForEvents|urEventWait|urQueueFinish", re.ASCII)


def windows_of(events: Events) -> list[Window]:
    """The window of each device of a source, in the order of `Events.places`."""
    return events.once(_windows)


def _windows(work: Work, events: Events) -> list[Window]:
    (begins, ends), steps = _bounds(work, events)
    order = events.by_device
    firsts = np.flatnonzero(group_start_mask((events.places[0][order],)))
    windows, is_told = [], len(work.gathered.spans.for_source(events.source)["ts"]) > 0
    for at, span in zip(firsts.tolist(), events.spans.tolist(), strict=True):
        first = int(events.ts[order[at]])
        begin, last = min(begins, first), first + span
        launched = _launched(events, int(order[at]))
        queued = first - max(begin, launched)
        setup, waited, host, host_time = _host_until(work, events, int(order[at]), begin)
        queued += waited
        before, end = max(0, first - queued - begin - setup), last if queued_at_end(events) else max(ends, last)
        whole = end - begin - setup - queued
        windows.append(Window(steps, whole, before, end - last, setup, host, host_time, is_told))
    return windows


def _bounds(work: Work, events: Events) -> tuple[tuple[int, int], int]:
    """Begin and end of the steps of a source and their number, else of its recording and 0."""
    marks, names = work.gathered.marks.for_source(events.source), work.gathered.steps
    stepping = np.array([*(name is not None for name in names), False], np.bool_)
    rows = np.flatnonzero(stepping[marks["meaning"]] & (marks["dur"] > 0))
    if not len(rows):
        return recorded(work, events), 0
    ts, steps = marks["ts"][rows], {names[one] for one in marks["meaning"][rows].tolist()}
    return (int(ts.min()), int((ts + marks["dur"][rows]).max())), len(steps)


def recorded(work: Work, events: Events) -> tuple[int, int]:
    """Begin and end of the recording of a source, without what the profiler itself did."""
    gathered = work.gathered
    return gathered.recorded.get(events.source) or gathered.spans_of[events.source]


def _launched(events: Events, row: int) -> int:
    """When a piece of work could begin: it did, or its call had returned, and it was queued behind other work."""
    call, first = int(events.call[row]), int(events.ts[row])
    if call < 0:
        return first
    returned = int(events.calls["ts"][call]) + max(0, int(events.calls["dur"][call]))
    return returned if first - returned > _QUEUED else first


def _host_until(work: Work, events: Events, row: int, begin: int) -> tuple[int, int, str, int]:
    """The activity of the launching thread between a time and the start of a piece of work.

    Set-up and synchronisations in ns, which waited for work that the recording lacks, and the rest's heaviest.
    """
    call, first = int(events.call[row]), _launched(events, row)
    if call < 0 or first <= begin:
        return 0, 0, "", 0
    spans, names = work.gathered.spans.for_source(events.source), work.gathered.spans.names
    _, span, time = divided(spans, events.calls["thread"][[call]], np.array([begin]), np.array([first]))
    times: Counter[str] = Counter()
    sets_up, setup = calls_of_setup(work, events), 0
    for one, spent in zip(span.tolist(), time.tolist(), strict=True):
        if one >= 0 and sets_up[one]:
            setup += spent
        else:
            times[generic(names[spans["name"][one]]) if one >= 0 else NO_SPAN] += spent
    waited = sum(times.pop(name) for name in [*times] if _SYNCHRONISES.match(name))
    host = max(times, key=times.__getitem__, default="")
    return setup, waited, host, times[host]
