"""Answers why devices are idle: the causes of their gaps, and what the host did in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from ktrace.analysis.idle.model import DeviceIdle, HostSpan, IdleAnswer, IdleCause, QueuedWork
from ktrace.analysis.work.events import Events, Work, natural
from ktrace.analysis.work.gaps import BY_HOST, CAUSES, DEPENDENCY, Gaps, causes_of, gaps_of, names_of_calls
from ktrace.analysis.work.labels import Labels
from ktrace.analysis.work.launching import SAMPLES, launching_of
from ktrace.analysis.work.meanwhile import Meanwhile
from ktrace.analysis.work.question import Answer
from ktrace.model.arrays import Int8, Int64
from ktrace.model.batch import Batch
from ktrace.store.joins import starts

#: The name of the question, as `--by` takes it.
NAME = "idle"


class Idle:
    """The question why devices are idle. What it needs is in the work, its calls and the spans."""

    spans = True

    def see(self, batch: Batch) -> None:
        """Needs nothing else."""

    def answer(self, work: Work, labels: Labels) -> Mapping[str, Answer]:
        """The answer, if there is device work."""
        if work.rows is not work.gathered.work or not len(work):
            return {}
        found = [one for events in work.each() if len(events) for one in _devices(work, events, labels)]
        return {NAME: IdleAnswer(sorted(found, key=lambda one: natural(one.label)))}


def _devices(work: Work, events: Events, labels: Labels) -> list[DeviceIdle]:
    """The answer for each device of a source."""
    which, places = events.places
    gaps = gaps_of(events, which, len(places))
    launching = launching_of(work, events)
    cause, meanwhile = causes_of(gaps, work, events, launching)
    host, queued = _host(gaps, cause, meanwhile), _queued(work, events, gaps, cause)
    end = events.ts + events.dur
    found = []
    for number, place in enumerate(places.tolist()):
        source, _, device = key = work.devices[place]
        rows = which == number
        span = int(end[rows].max() - events.ts[rows].min())
        mine = gaps.place == number
        causes = [_cause(word, gaps.length[mine & (cause == word)], host(number, word)) for word in range(len(CAUSES))]
        causes[DEPENDENCY] = replace(causes[DEPENDENCY], queued=queued[number])
        heaviest = sorted((one for one in causes if one.gaps), key=lambda one: -one.time)
        idle, samples = int(gaps.length[mine].sum()), int(launching.samples[number])
        latency = int(launching.latency[number]) if samples >= SAMPLES else None
        found.append(DeviceIdle(labels.device(key), source, device, span, idle, tuple(heaviest), latency, samples))
    return found


def _cause(word: int, times: Int64, host: tuple[HostSpan, ...]) -> IdleCause:
    """The gaps with these times, and what the host did in them."""
    return IdleCause(list(CAUSES)[word], int(times.sum()), len(times), int(times.max(initial=0)), host)


#: What the host did in the gaps of a device (by index) with a cause.
_Host = Callable[[int, int], tuple[HostSpan, ...]]


def _host(gaps: Gaps, cause: Int8, meanwhile: Meanwhile) -> _Host:
    """A function that returns what the host did in the gaps of a device with a cause."""
    gap, label, time = meanwhile.times(np.flatnonzero(np.isin(cause, BY_HOST)))
    group = gaps.place[gap].astype(np.int64) * len(CAUSES) + cause[gap]
    order = np.lexsort((label, group))
    group, label, time = group[order], label[order], time[order]
    first = np.flatnonzero(starts((group, label)))
    found: defaultdict[int, list[HostSpan]] = defaultdict(list)
    if len(first):
        columns = group[first], label[first], np.add.reduceat(time, first), np.diff([*first, len(time)])
        longest = np.maximum.reduceat(time, first)
        for one, number, total, count, most in zip(*map(np.ndarray.tolist, (*columns, longest)), strict=True):
            span = HostSpan(meanwhile.labels[number], meanwhile.kinds[number], total, count, most)
            found[one].append(span)
    return lambda place, word: tuple(sorted(found[place * len(CAUSES) + word], key=lambda span: -span.time))


def _queued(work: Work, events: Events, gaps: Gaps, cause: Int8) -> defaultdict[int, tuple[QueuedWork, ...]]:
    """The work after the gaps that a dependency caused, by the index of the device."""
    rows = np.flatnonzero(cause == DEPENDENCY)
    words = work.gathered.spans.names
    call = names_of_calls(gaps.call[rows], events, work.gathered).tolist()
    shapes = events.shape[gaps.after[rows]].tolist()
    times: defaultdict[tuple[int, str, str | None], list[int]] = defaultdict(list)
    for place, shape, number, time in zip(
        gaps.place[rows].tolist(), shapes, call, gaps.length[rows].tolist(), strict=True
    ):
        name = work.shapes[shape]["short_name"] or work.shapes[shape]["name"]
        times[place, name, words[number] if number >= 0 else None].append(time)
    found: defaultdict[int, tuple[QueuedWork, ...]] = defaultdict(tuple)
    for (place, name, launched), some in sorted(times.items(), key=lambda item: -sum(item[1])):
        found[place] += (QueuedWork(name, launched, sum(some), len(some), max(some)),)
    return found
