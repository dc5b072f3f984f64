"""Finds the range with a meaning (step, layer, phase) that each piece of work belongs to, and its time on a device.

    thread 4242    [ ProfilerStep#3                      ]
                      [ layers.9     ]
                        [ launch ]
    stream 7                             [ gemm ]           of ProfilerStep#3 and layers.9

Work belongs to the step during which it was launched; if its call isn't known, to the step during which it begins,
unless it was queued before the recording. Phases are like steps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ktrace.analysis.work.device_work import Events, Work
from ktrace.analysis.work.durations import COMPUTE
from ktrace.analysis.work.gather import WorkInput
from ktrace.analysis.work.launching import stream_of
from ktrace.analysis.work.spans import Ranges, innermost
from ktrace.analysis.work.stored_columns import BLOCK
from ktrace.model.arrays import Bools, Int32, Int64, UInt8
from ktrace.naming.phases import LOOP, PASS, PROMPT, SEVERAL
from ktrace.stages.select.dependents import queued_until
from ktrace.stages.select.wanted import series_of, step_of
from ktrace.store.joins import ranges

Shape = dict[str, Any]

#: Later than all times.
_NEVER = np.int64(1 << 62)


def labels_of_steps(gathered: WorkInput) -> tuple[list[str], Int32]:
    """The names of all steps in their order, and the index among them of the step of each meaning, -1 for none.

    A loop whose steps are within those of another one, such as ProfilerStep#3 in Iteration 3, doesn't count beside it.
    """
    steps = {step for step in gathered.steps if step is not None}
    if len({*map(series_of, steps)}) > 1:
        inner = _inner_loops(gathered)
        steps = {step for step in steps if series_of(step) not in inner}
    labels = sorted(steps, key=lambda step: (step_of(step) or 0, step))
    return labels, indices_of([step if step in steps else None for step in gathered.steps], labels)


def _inner_loops(gathered: WorkInput) -> set[str]:
    """The loops half of whose steps, and more, are within steps of others on their thread."""
    loops = list(dict.fromkeys(series_of(step) for step in gathered.steps if step is not None))
    number = indices_of([None if step is None else series_of(step) for step in gathered.steps], loops)
    every, inside = np.zeros((2, len(loops)), np.int64)
    for source in gathered.marks.sources:
        marks = gathered.marks.for_source(source)
        rows = np.flatnonzero((number[marks["meaning"]] >= 0) & (marks["dur"] > 0))
        loop, ts = number[marks["meaning"][rows]], marks["ts"][rows]
        around = innermost(marks["track"][rows], ts, ts + marks["dur"][rows])
        is_inside = (around >= 0) & (loop[around] != loop)
        every += np.bincount(loop, minlength=len(loops))
        inside += np.bincount(loop[is_inside], minlength=len(loops))
    inner = {
        one for one, within, of in zip(loops, inside.tolist(), every.tolist(), strict=True) if 0 < of <= 2 * within
    }
    return inner if len(inner) < len(loops) else set()


def indices_of(meanings: list[str | None], words: list[str]) -> Int32:
    """The index of each meaning among the words, -1 for None."""
    number = {word: place for place, word in enumerate(words)}
    return np.array([-1 if word is None else number[word] for word in meanings], np.int32)


class MarkedRanges(NamedTuple):
    """Ranges, with the number of their label and of their track."""

    begin: Int64
    end: Int64
    label: Int32
    track: Int32

    def where(self, rows: Bools | Int64) -> MarkedRanges:
        """The ranges where a mask is true, or at the given indices."""
        return MarkedRanges(self.begin[rows], self.end[rows], self.label[rows], self.track[rows])


class Way(NamedTuple):
    """How a range is found: by time and place of the call or of the work, among ranges on the host or the device."""

    at_call: bool
    on_device: bool
    columns: tuple[str, ...]


#: The step of the host during which work begins whose call isn't known.
_BEGUN = Way(False, False, ("source",))
#: How the step, and the phase, of work is found; how its layer.
OF_STEP = (
    Way(True, False, ("source", "host", "pid")),
    Way(True, False, ("source",)),
    _BEGUN,
    Way(False, True, ("source",)),
)
OF_LAYER = (
    Way(True, False, ("source", "host", "pid", "tid")),
    Way(False, True, ("source", "host", "device", "stream")),
)


class Occurrences:
    """The ranges with a meaning of each source, and which of them each piece of work belongs to."""

    def __init__(self, work: Work) -> None:
        gathered = work.gathered
        self._work, self._marks = work, gathered.marks
        self._last = gathered.span[1] if gathered.span else 0
        self._tracks = gathered.tracks.all()
        placed = [track["device"] is not None or track["stream"] is not None for track in self._tracks]
        self.is_device = np.array(placed, np.bool_)  # by track
        self._places = {way: self._placed(way) for way in {*OF_STEP, *OF_LAYER}}
        self._streams = work.by_shape(stream_of)[0]

    @property
    def sources(self) -> list[str]:
        """The sources that have such ranges."""
        return self._marks.sources

    def _placed(self, way: Way) -> tuple[Int32, Int32]:
        """Numbers for the places of tracks, and for those of the threads of calls, or of work, among them."""
        numbers: dict[Any, int] = {}

        def of(shapes: list[Shape]) -> Int32:
            keys = (tuple(shape[name] for name in way.columns) for shape in shapes)
            return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int32)

        return of(self._tracks), of(self._work.threads if way.at_call else self._work.shapes)

    def ranges(self, source: str, number: Int32) -> MarkedRanges:
        """The ranges of a source whose meaning has a number."""
        marks = self._marks.for_source(source)
        ts, dur = marks["ts"], marks["dur"]
        end = np.where(dur < 0, np.maximum(self._last, ts), ts + dur)
        label = number[marks["meaning"]]
        return MarkedRanges(ts, end, label, marks["track"]).where(label >= 0)

    def find(self, events: Events, ranges: MarkedRanges, ways: tuple[Way, ...]) -> Int32:
        """The range that each piece of work belongs to, -1 for none, by the first way for which there are ranges."""
        occurrence = np.full(len(events), -1, np.int32)
        queued = self._queued(events) if _BEGUN in ways else np.zeros(0, np.bool_)
        among = []
        for way in ways:
            there = np.flatnonzero(self.is_device[ranges.track] == way.on_device).astype(np.int32)
            if len(there):
                tracks, places = self._places[way]
                ranges_of_way = Ranges(tracks[ranges.track[there]], ranges.begin[there], ranges.end[there])
                among.append((way, places, there, ranges_of_way))
        for first in range(0, len(events) if among else 0, BLOCK):
            left = np.ones(min(BLOCK, len(events) - first), np.bool_)
            launched = events.call[first : first + BLOCK] >= 0
            for way, places, number, ranges_of_way in among:
                if way == _BEGUN:
                    left &= ~queued[first : first + BLOCK]
                rows = first + np.flatnonzero(left & launched if way.at_call else left)
                if way.at_call:
                    call = events.call[rows]
                    place, at = places[events.calls["thread"][call]], events.calls["ts"][call]
                else:
                    place, at = places[events.shape[rows]], events.ts[rows]
                placed = np.isin(place, ranges_of_way.track)
                rows = rows[placed]
                around = ranges_of_way.around(place[placed], at[placed])
                occurrence[rows] = np.where(around >= 0, number[around], -1)
                left[rows - first] = False
        return occurrence

    def _queued(self, events: Events) -> Bools:
        """Which work of a source was queued before the recording."""
        launched, stream = events.call >= 0, self._streams[events.shape]
        until = queued_until(lambda: [(stream, events.ts, launched)], int(self._streams.max(initial=-1)) + 1)
        queued: Bools = ~launched & (events.ts < until[stream])
        return queued


class InSteps(NamedTuple):
    """The steps of a source, and which of these each piece of its work belongs to, -1 for none."""

    steps: MarkedRanges
    occurrence: Int32


def steps_of_work(events: Events) -> InSteps:
    """The steps of a source, numbered as `labels_of_steps` does, and its work in them."""
    return events.once(_steps_of_work)


def _steps_of_work(work: Work, events: Events) -> InSteps:
    occurrences = work.once(Occurrences)
    steps = occurrences.ranges(events.source, labels_of_steps(work.gathered)[1])
    return InSteps(steps, occurrences.find(events, steps, OF_STEP))


def passes_of_generate(parts: MarkedRanges) -> MarkedRanges:
    """The passes through the model in Hugging Face's generate(), labelled 0 if they read the prompt, else 1.

        _sample  [ _prefill [ prepare_inputs [ forward          ]] [ prepare_inputs [ forward ] ...            ]
        pass       [ 0                                            ][ 1                         ][ 1           ]

    `parts` are labelled by the part of generate() (`naming.phases`). A pass lasts until the next one in its loop.
    """
    loops, prompts, passes, several = (parts.where(parts.label == part) for part in (LOOP, PROMPT, PASS, SEVERAL))
    loops = loops.where(_innermost_containing(several, loops) < 0)
    passes = passes.where(innermost(passes.track, passes.begin, passes.end) < 0)  # a model's own one calls the general
    passes = passes.where(np.lexsort((passes.begin, passes.track)))
    loop = _innermost_containing(loops, passes)
    passes, loop = passes.where(loop >= 0), loop[loop >= 0]
    changes = loop[1:] != loop[:-1]
    first, last = np.append(True, changes)[: len(loop)], np.append(changes, True)[: len(loop)]
    end = np.where(last, loops.end[loop], np.append(passes.begin[1:], 0)[: len(loop)])
    reads = _innermost_containing(prompts, passes) >= 0
    reads |= first & ~np.isin(loop, loop[reads])
    return passes._replace(end=end, label=np.where(reads, 0, 1).astype(np.int32))


def _innermost_containing(outer: MarkedRanges, inner: MarkedRanges) -> Int64:
    """The innermost of some ranges around the start of each of others on its track, -1 for none."""
    return Ranges(outer.track, outer.begin, outer.end).around(inner.track, inner.begin)


def spans_on_device(
    ranges: MarkedRanges, occurrence: Int64, times: tuple[Int64, Int64], role: UInt8, outside: tuple[Int64, Int64]
) -> tuple[Int64, Int64]:
    """The time at which a device came to each occurrence of a step, and how long it was at it; 0 without work.

        host      [ step 1     ][ step 2     ]
        device        [ 1 ] [ 1    ]  [ 2 ]           step 1 until its work ends, step 2 from there on

    It begins with the step on the host, or later, once the work of earlier steps, or `outside` of steps, is done, and
    lasts to the end of the step on the host, or longer, until its work is done. Work of the step that runs earlier,
    beside that of other steps, isn't in it; no time is in two steps. Where a recording begins while the device is still
    at work from before, which isn't in the trace, the first step begins with its first kernel.
    """
    begin, end = times
    first, last = np.full(len(ranges.label), _NEVER), np.full(len(ranges.label), -_NEVER)
    kernel = np.full(len(ranges.label), _NEVER)
    np.minimum.at(first, occurrence, begin)
    np.maximum.at(last, occurrence, end)
    np.minimum.at(kernel, occurrence[role == COMPUTE], begin[role == COMPUTE])
    there = np.flatnonzero(last > -_NEVER)
    there = there[np.lexsort((first[there], ranges.begin[there]))]
    first, last, opens, closes = first[there], last[there], ranges.begin[there], ranges.end[there]
    kernel = np.where(kernel[there] < _NEVER, kernel[there], first)
    done = np.append(-_NEVER, np.maximum.accumulate(last)[:-1])
    following = np.append(first[1:], _NEVER)
    alone = (kernel >= closes) & (done == -_NEVER)  # nothing tells since when the device could have begun
    starts = np.maximum(np.where(alone, kernel, np.maximum(done, opens)), _done_before(kernel, outside))
    starts = np.where(last < opens, first, starts)  # where it ends before, clocks differ
    stops = np.where(last < opens, last, np.maximum(last, np.minimum(closes, following)))
    span, since = np.zeros(len(ranges.label), np.int64), np.zeros(len(ranges.label), np.int64)
    since[there], span[there] = starts, np.maximum(stops - starts, 0)
    return since, span


def _done_before(moment: Int64, work: tuple[Int64, Int64]) -> Int64:
    """When the work that had begun before each moment was done, at most that moment."""
    order = np.argsort(work[0])
    ends = np.append(-_NEVER, np.maximum.accumulate(work[1][order])) if len(order) else np.full(1, -_NEVER)
    done: Int64 = np.minimum(ends[np.searchsorted(work[0][order], moment)], moment)
    return done


class DeviceSteps(NamedTuple):
    """When a device was at steps: rising intervals that don't overlap, and the number of the label of each."""

    begin: Int64
    end: Int64
    label: Int64

    def clip(self, begin: Int64, end: Int64) -> tuple[Int64, Int64, Int64, Int64]:
        """The parts of intervals in steps: the row of the interval, the step, begin and end."""
        low = np.searchsorted(self.end, begin, "right")
        count = np.maximum(np.searchsorted(self.begin, end, "left") - low, 0)
        row, step = np.repeat(np.arange(len(begin)), count), ranges(low, count)
        return row, step, np.maximum(begin[row], self.begin[step]), np.minimum(end[row], self.end[step])

    def around(self, at: Int64) -> Int64:
        """The step in which each time is, -1 for none."""
        step = np.searchsorted(self.begin, at, "right") - 1
        inside = (step >= 0) & (at < np.append(self.end, 0)[step])
        return np.where(inside, step, -1)


def spans_of_rows(events: Events, among: MarkedRanges, occurrence: Int32, rows: Int64) -> tuple[Int64, Int64, Int64]:
    """`spans_on_device` of the device whose work is in these rows of a source, and before these the rows in steps."""
    end = events.ts + events.dur
    inside = rows[occurrence[rows] >= 0]
    outside = rows[(occurrence[rows] < 0) & (events.roles[rows] == COMPUTE)]
    step, times = occurrence[inside].astype(np.int64), (events.ts[inside], end[inside])
    others = events.ts[outside], end[outside]
    return inside, *spans_on_device(among, step, times, events.roles[inside], others)


def steps_of_device(events: Events, among: MarkedRanges, occurrence: Int32, rows: Int64) -> DeviceSteps:
    """When the device whose work is in these rows of a source was at each of its steps, by `spans_on_device`.

    `occurrence` is what `Occurrences.find` found of each piece of work among the steps.
    """
    _, starts, spans = spans_of_rows(events, among, occurrence, rows)
    there = np.flatnonzero(spans > 0)
    there = there[np.argsort(starts[there], kind="stable")]
    return DeviceSteps(starts[there], (starts + spans)[there], among.label[there].astype(np.int64))
