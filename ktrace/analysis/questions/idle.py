"""Why devices are idle: the causes of their gaps, and what the host did in them; as figures and as slices.

The question of `ktrace summary --by idle`, its answer and tables; the gaps as slices for `--explain idle`.

IdleAnswer
  devices   DeviceIdle("device 0", idle 131,005, causes [IdleCause("host late", 98,210, gaps 9, host [...]), ...])

All times are ns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

import msgspec
import numpy as np
import pyarrow as pa

from ktrace.analysis.work.device_work import Events, Work, track_of_device
from ktrace.analysis.work.findings import Evidence, longest
from ktrace.analysis.work.gaps import (
    BY_HOST,
    CAUSES,
    DEPENDENCY,
    NOTES,
    SPOKEN,
    SPOKEN_HOST,
    Gaps,
    HostActivity,
    causes_of,
    gaps_of,
    names_of_calls,
)
from ktrace.analysis.work.launching import SAMPLES, launching_of
from ktrace.analysis.work.question import Answer, Explanation, Labels, kernel_of
from ktrace.model.arrays import Int8, Int64
from ktrace.model.batch import TRACK_COLUMNS, Batch, arrow_schema
from ktrace.model.tracks import natural
from ktrace.store import Spill
from ktrace.store.joins import each_group, group_start_mask
from ktrace.tables import Cell, Column, Table, cut, percent
from ktrace.tables import brief as short

#: The columns of the model that it looks at: those of any summary.
COLUMNS: frozenset[str] = frozenset()


def questions(names: Sequence[str], spill: Spill) -> Explanation:
    """The question why devices are idle."""
    return Idle()


#: The units of columns.
_UNITS = {"time": "ns", "average": "ns", "longest": "ns", "of idle": "%", "of span": "%", "gaps": "count"}

#: What people read instead of codes, by column.
_SPOKEN = {"cause": SPOKEN, "the host was in": SPOKEN_HOST}

#: Columns for people whose names for programs stay.
_HEADINGS = {"the host was in": "CPU activity"}

#: What the brief form of a table leaves out if it has a column for the device.
_WIDE = {"idle": ("average",), "idle host": ("longest",), "idle queued": ("longest",)}


class HostSpan(msgspec.Struct, frozen=True):
    """What the host did during the gaps of one cause.

    `name` is that of the innermost call, operator or range on the launching thread, `kind` is api, op or range. Outside
    of all of them, and after the launching call has returned, `kind` is "" and `name` a phrase that says so. `gaps` are
    those in which it occurs, `longest` is its longest time in one of them.
    """

    name: str
    kind: str
    time: int
    gaps: int
    longest: int


class QueuedWork(msgspec.Struct, frozen=True):
    """Work that was queued during gaps, and began after them: its name, and the name of its call, if that is known."""

    name: str
    launched_by: str | None
    time: int
    gaps: int
    longest: int


class IdleCause(msgspec.Struct, frozen=True):
    """The gaps of a device with one cause, a key of `ktrace.analysis.work.gaps.CAUSES`.

    `host` is how the host spent the time, heaviest first; it adds up to `time`. It is empty for causes that the host
    doesn't decide. `queued` is the work that waited, heaviest first, if the cause is "dependency"; it adds up to `time`
    as well. `rows` are the longest gaps.
    """

    cause: str
    time: int
    gaps: int
    longest: int
    host: tuple[HostSpan, ...] = ()
    queued: tuple[QueuedWork, ...] = ()
    rows: tuple[Evidence, ...] = ()


class DeviceIdle(msgspec.Struct, frozen=True):
    """Why a device was idle between its first and its last work, `span` ns.

    `causes` are the heaviest first; they add up to `idle`, which is that of `DeviceUse`. `latency` is the median time
    in ns from the return of a call to its work, if the device was idle then, of so many `launches`; None if these are
    too few to tell.
    """

    label: str
    source: str
    device: int | None
    span: int
    idle: int
    causes: tuple[IdleCause, ...]
    latency: int | None = None
    launches: int = 0


class IdleAnswer(msgspec.Struct):
    """Why the devices of a trace are idle."""

    devices: list[DeviceIdle] = msgspec.field(default_factory=list)

    def tables(self, top: int | None = None, *, brief: bool = False) -> list[Table]:
        """The tables of causes, of what the host did, and of queued work, with at most `top` rows each.

        In the brief form more devices than rows are taken together.
        """
        is_folded = brief and top is not None and len(self.devices) > top
        devices = [_together(self.devices)] if is_folded else self.devices
        causes = [(one, cause) for one in devices for cause in one.causes]
        notes = [] if causes else ["No device is idle between its first and its last work."]
        if any(cause.cause == "unknown" for _, cause in causes):
            notes.append(
                "A cause is unknown where the work after the gap has no known call, or nothing says why it began late."
            )
        there = {cause.cause for _, cause in causes}
        notes += [note for cause, note in NOTES.items() if list(CAUSES)[cause] in there]
        if any(cause.cause in ("dependency", "launch overhead") for _, cause in causes) and (says := self._latency()):
            notes.append(says)
        several = len(devices) > 1
        title = "why devices are idle" if several else f"why {devices[0].label} is idle"
        title = f"why {len(self.devices):,} devices are idle, all together" if is_folded else title
        names: tuple[str, ...] = ("device", "cause", "time", "of idle", "of span", "gaps", "average", "longest")
        rows: list[tuple[Cell, ...]] = [
            (
                *(one.label, cause.cause, cause.time, percent(cause.time, one.idle), percent(cause.time, one.span)),
                *(cause.gaps, cause.time / cause.gaps, cause.longest),
            )
            for one, cause in causes
        ]
        tables = [cut(_table("idle", title, names, rows, several, brief, notes), top)]
        names = ("device", "cause", "the host was in", "kind", "time", "of idle", "gaps", "longest")
        rows = [
            (
                *(one.label, cause.cause, span.name, span.kind, span.time),
                *(percent(span.time, one.idle), span.gaps, span.longest),
            )
            for one, cause in causes
            for span in cause.host
        ]
        tables.append(_longest(_table("idle host", "CPU activity during gaps", names, rows, several, brief), top))
        names = ("device", "work", "launched by", "time", "of idle", "gaps", "longest")
        rows = [
            (one.label, work.name, work.launched_by, work.time, percent(work.time, one.idle), work.gaps, work.longest)
            for one, cause in causes
            for work in cause.queued
        ]
        tables.append(_longest(_table("idle queued", "blocked work", names, rows, several, brief), top))
        return [table for table in tables if table.rows or table.name == "idle"]

    def _latency(self) -> str:
        """The assumed launch latency and its source; "" where clocks are too coarse to tell."""
        latencies = sorted(one.latency for one in self.devices if one.latency is not None)
        if len(latencies) < len(self.devices):
            return "Launch latency: 10 us, assumed; too few launches on an idle device."
        if not latencies[-1]:
            return ""
        times = " to ".join(short(time) for time in dict.fromkeys((latencies[0], latencies[-1])))
        return (
            f"Launch latency: {times}, the median of {sum(one.launches for one in self.devices):,} on an idle device."
        )


def _table(
    name: str,
    title: str,
    names: tuple[str, ...],
    rows: list[tuple[Cell, ...]],
    several: bool,
    brief: bool,
    notes: Sequence[str] = (),
) -> Table:
    """A table of these rows; the brief form has the columns that fit 80 characters, under the names for people."""
    dropped = ("kind", *(_WIDE[name] if several else ("device",))) if brief else ()
    kept = [place for place, column in enumerate(names) if column not in dropped]
    columns = tuple(
        Column(_HEADINGS.get(one, one) if brief else one, _UNITS.get(one, ""), spoken=_SPOKEN.get(one, {}))
        for one in map(names.__getitem__, kept)
    )
    return Table(name, title, columns, [tuple(row[place] for place in kept) for row in rows], list(notes))


def _longest(table: Table, top: int | None) -> Table:
    """The table with the rows that took the most time, in the order that they have."""
    if top is None or len(table.rows) <= top:
        return table
    time = [column.name for column in table.columns].index("time")
    longest = sorted(range(len(table.rows)), key=lambda number: -cast(int, table.rows[number][time]))[:top]
    rows = [table.rows[number] for number in sorted(longest)]
    return replace(table, rows=rows, more=len(table.rows) - len(rows))


def _together(devices: Sequence[DeviceIdle]) -> DeviceIdle:
    """Devices as one: what they were idle for, by cause, by what the host was in, and by what was queued."""
    named: dict[str, list[IdleCause]] = {}
    for cause in (cause for one in devices for cause in one.causes):
        named.setdefault(cause.cause, []).append(cause)
    causes = [
        IdleCause(
            *(name, sum(one.time for one in group), sum(one.gaps for one in group), max(one.longest for one in group)),
            _added(HostSpan, (((one.name, one.kind), one) for cause in group for one in cause.host)),
            _added(QueuedWork, (((one.name, one.launched_by), one) for cause in group for one in cause.queued)),
        )
        for name, group in named.items()
    ]
    span, idle = sum(one.span for one in devices), sum(one.idle for one in devices)
    return DeviceIdle("all", "", None, span, idle, tuple(sorted(causes, key=lambda one: -one.time)))


_Row = TypeVar("_Row", HostSpan, QueuedWork)


def _added(make: Callable[..., _Row], named: Iterable[tuple[tuple[str, str | None], _Row]]) -> tuple[_Row, ...]:
    """One row of those with the same names, the longest first."""
    groups: dict[tuple[str, str | None], list[_Row]] = {}
    for names, one in named:
        groups.setdefault(names, []).append(one)
    rows = [
        make(*names, sum(one.time for one in group), sum(one.gaps for one in group), max(one.longest for one in group))
        for names, group in groups.items()
    ]
    return tuple(sorted(rows, key=lambda one: -one.time))


#: The name of the question, as `--by` takes it.
NAME = "idle"


class Idle:
    """The question why devices are idle. What it needs is in the work, its calls and the spans."""

    spans = True

    def see(self, batch: Batch) -> None:
        """Needs nothing else."""

    def explain(self, work: Work, labels: Labels) -> Iterator[pa.RecordBatch]:
        """Yields the gaps on a track of each device."""
        return slices(work)

    def answer(self, work: Work, labels: Labels) -> Mapping[str, Answer]:
        """The answer, if there is device work."""
        if work.rows is not work.gathered.work or not len(work):
            return {}
        devices = [one for events in work.each() if len(events) for one in _devices(work, events, labels)]
        return {NAME: IdleAnswer(sorted(devices, key=lambda one: natural(one.label)))}


def _devices(work: Work, events: Events, labels: Labels) -> list[DeviceIdle]:
    """The answer for each device of a source."""
    causes, launching, spans = _causes_of_devices(work, events), launching_of(events), events.spans.tolist()
    devices_idle = []
    for number, place in enumerate(events.places[1].tolist()):
        source, _, device = key = work.devices[place]
        heaviest = sorted(causes[number], key=lambda one: -one.time)
        idle, samples = sum(one.time for one in heaviest), int(launching.samples[number])
        latency = int(launching.latency[number]) if samples >= SAMPLES else None
        label = labels.device(key)
        devices_idle.append(DeviceIdle(label, source, device, spans[number], idle, tuple(heaviest), latency, samples))
    return devices_idle


def _causes_of_devices(work: Work, events: Events) -> defaultdict[int, list[IdleCause]]:
    """The causes of the gaps of each device of a source, in their own order."""
    gaps, (cause, meanwhile) = gaps_of(events), causes_of(events)
    host, queued = _host(gaps, cause, meanwhile), _queued(work, events, gaps, cause)
    order = np.lexsort((cause, gaps.place))
    causes: defaultdict[int, list[IdleCause]] = defaultdict(list)
    for group in each_group((gaps.place[order], cause[order])):
        gaps_of_cause = order[group]
        place, word, times = int(gaps.place[gaps_of_cause[0]]), int(cause[gaps_of_cause[0]]), gaps.length[gaps_of_cause]
        figures = int(times.sum()), len(gaps_of_cause), int(times.max())
        waiting = tuple(queued[place]) if word == DEPENDENCY else ()
        rows = tuple(_rows(work, events, gaps, gaps_of_cause))
        causes[place].append(IdleCause(list(CAUSES)[word], *figures, host(place, word), waiting, rows))
    return causes


def _rows(work: Work, events: Events, gaps: Gaps, which: Int64) -> Iterator[Evidence]:
    """The longest of some gaps, with the work after each."""
    for place in longest(gaps.length[which]):
        gap = which[place]
        after, begin, end = int(gaps.after[gap]), int(gaps.begin[gap]), int(gaps.end[gap])
        name = kernel_of(work.shapes[events.shape[after]])
        yield Evidence(events.source, int(events.ids[after]), name, begin, end, end - begin)


#: What the host did in the gaps of a device (by index) with a cause.
_Host = Callable[[int, int], tuple[HostSpan, ...]]


def _host(gaps: Gaps, cause: Int8, meanwhile: HostActivity) -> _Host:
    """A function that returns what the host did in the gaps of a device with a cause."""
    gap, label, time = meanwhile.times(np.flatnonzero(np.isin(cause, BY_HOST)))
    group = gaps.place[gap].astype(np.int64) * len(CAUSES) + cause[gap]
    order = np.lexsort((label, group))
    group, label, time = group[order], label[order], time[order]
    first = np.flatnonzero(group_start_mask((group, label)))
    spans: defaultdict[int, list[HostSpan]] = defaultdict(list)
    if len(first):
        columns = group[first], label[first], np.add.reduceat(time, first), np.diff([*first, len(time)])
        longest = np.maximum.reduceat(time, first)
        for one, number, total, count, most in zip(*map(np.ndarray.tolist, (*columns, longest)), strict=True):
            span = HostSpan(meanwhile.word(number), meanwhile.kinds[number], total, count, most)
            spans[one].append(span)
    return lambda place, word: tuple(
        sorted(spans[place * len(CAUSES) + word], key=lambda span: (-span.time, span.name))
    )


def _queued(work: Work, events: Events, gaps: Gaps, cause: Int8) -> defaultdict[int, list[QueuedWork]]:
    """The work after the gaps that a dependency caused, by the index of the device."""
    rows = np.flatnonzero(cause == DEPENDENCY)
    words = work.gathered.spans.names
    call = names_of_calls(gaps.call[rows], events, work.gathered).tolist()
    shapes = events.shape[gaps.after[rows]].tolist()
    times: defaultdict[tuple[int, str, str | None], list[int]] = defaultdict(list)
    for place, shape, number, time in zip(
        gaps.place[rows].tolist(), shapes, call, gaps.length[rows].tolist(), strict=True
    ):
        name = kernel_of(work.shapes[shape])
        times[place, name, words[number] if number >= 0 else None].append(time)
    queued: defaultdict[int, list[QueuedWork]] = defaultdict(list)
    for (place, name, launched), some in sorted(times.items(), key=lambda item: -sum(item[1])):
        queued[place].append(QueuedWork(name, launched, sum(some), len(some), max(some)))
    return queued


#: The text key of the track, which a viewer shows below the device.
TRACK = "idle"

_ROWS = 65_536
_TEXT = pa.dictionary(pa.int32(), pa.string())


def slices(work: Work) -> Iterator[pa.RecordBatch]:
    """Yields the gaps of the devices of each source, in the order of their times."""
    if work.rows is not work.gathered.work:
        return
    for events in work.each():
        if len(events):
            yield from _of_source(work, events)


def _of_source(work: Work, events: Events) -> Iterator[pa.RecordBatch]:
    places, gaps = events.places[1], gaps_of(events)
    cause, meanwhile = causes_of(events)
    name, names = work.by_shape(kernel_of)
    host, call = _mostly(meanwhile), names_of_calls(gaps.call, events, work.gathered)
    tracks = [track_of_device(work, events.source, place, TRACK) for place in places.tolist()]
    schema = arrow_schema("events")
    for first in range(0, len(cause), _ROWS):
        rows = slice(first, first + _ROWS)
        place = gaps.place[rows]
        columns: dict[str, Any] = {
            name: pa.array([track[name] for track in tracks], schema.field(name).type.value_type)
            if pa.types.is_dictionary(schema.field(name).type)
            else pa.array([track[name] for track in tracks], schema.field(name).type)
            for name in TRACK_COLUMNS
        }
        columns = {name: _taken(values, place) for name, values in columns.items() if values.null_count < len(values)}
        queued = pa.array((gaps.end - gaps.launched)[rows], mask=gaps.call[rows] < 0)
        columns |= {"ts": pa.array(gaps.begin[rows]), "dur": pa.array(gaps.length[rows])}
        said = pa.array([SPOKEN.get(one, one) for one in CAUSES])
        columns |= {"kind": _taken(pa.array(["range"]), 0 * place), "name": _taken(said, cause[rows])}
        columns |= {"args.cause": _taken(pa.array(list(CAUSES)), cause[rows])}
        columns |= {"timing": _taken(pa.array(["derived"]), 0 * place)}
        columns |= {"args.host_was_in": _words(meanwhile.word, host[rows])}
        columns |= {"args.launched_by": _words(meanwhile.names.__getitem__, call[rows]), "args.queued_ns": queued}
        columns |= {"args.work_before": _words(names.__getitem__, name[events.shape[gaps.before[rows]]])}
        columns |= {"args.work_after": _words(names.__getitem__, name[events.shape[gaps.after[rows]]])}
        columns |= {"args.derived_by": _taken(pa.array(["ktrace"]), 0 * place)}
        yield pa.RecordBatch.from_pydict(
            {name: column for name, column in columns.items() if column.null_count < len(column)}
        )


def _mostly(meanwhile: HostActivity) -> Int64:
    """The label in which the host spent the most time of each gap, -1 where it isn't known."""
    longest = np.full(len(meanwhile.first), -1, np.int64)
    gap, label, time = meanwhile.times(np.unique(meanwhile.gap))
    order = np.lexsort((time, gap))
    longest[gap[order]] = label[order]  # the last one, the longest, remains
    return longest


def _words(word: Callable[[int], str], numbers: Any) -> pa.Array:
    """A column of words by their numbers, null for -1; its dictionary has only those that occur."""
    used, codes = np.unique(numbers, return_inverse=True)
    texts = pa.array([word(number) if number >= 0 else None for number in used.tolist()], pa.string())
    return texts.take(pa.array(codes)).dictionary_encode().cast(_TEXT)


def _taken(values: pa.Array, rows: Any) -> pa.Array:
    """The values of these rows; texts as a dictionary without repetitions."""
    taken = values.take(pa.array(rows))
    return taken.dictionary_encode().cast(_TEXT) if pa.types.is_string(values.type) else taken
