"""Examines a recording: makes the checks of `ktrace.analysis.questions.checks`."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from ktrace.analysis.questions.checks import CHECKS, PREFIX, check_of
from ktrace.analysis.work.device_work import Events, Work
from ktrace.analysis.work.durations import COMPUTE
from ktrace.analysis.work.findings import OF_ROCM, SHOWN, Evidence, Finding, longest, of_profiler
from ktrace.analysis.work.gaps import Pause, calls_of_setup, gaps_of, silence_of
from ktrace.analysis.work.gather import WorkInput
from ktrace.analysis.work.groups import DeviceUse
from ktrace.analysis.work.launching import DEVICE_SYNC, stream_of
from ktrace.analysis.work.question import Shape, kernel_of, row_shown
from ktrace.analysis.work.spans import KINDS
from ktrace.errors import ALLOW_COUNTERS
from ktrace.model.arrays import Int64
from ktrace.model.batch import DEVICE_KINDS
from ktrace.model.masks import truth
from ktrace.report import IMPOSSIBLE_TIMES, MOVED_CLOCKS, Doubts, MovedClock, Report
from ktrace.stages.align.moves import DISJOINT, PART, TOLERANCE, pauses, times_related
from ktrace.stages.select.intervals import Intervals
from ktrace.store.events import values
from ktrace.store.joins import group_start_mask, is_among, sorted_by
from ktrace.tables import Cell


class Recording(NamedTuple):
    """What is examined: device work, tables of statistics by source, the use of devices, the account of reading.

    `span` is the time from the first start to the last end of the events of the longest source, in ns. `without` are
    the rows of tables that have no figure, though others there have. Of what a filter leaves out, `is_part`, launches
    are there without their work. Tables state a total, `stated`, of which their rows have `listed`; if shares
    alone say it, `by_shares`. `clocks` is how the clocks of ranks were aligned, if that was asked
    (`CollectivesAnswer.clocks`).
    """

    gathered: WorkInput
    work: Work
    tables: dict[str, list[Shape]]
    devices: Sequence[DeviceUse]
    report: Report
    span: int | None
    without: int = 0
    is_part: bool = False
    stated: float | None = None
    listed: float = 0
    by_shares: bool = False
    clocks: str | None = None


def examine(recording: Recording) -> list[Finding]:
    """The failed checks, in the order of CHECKS."""
    findings = [*_of_reading(recording), *_of_tables(recording)]
    if len(recording.work) and recording.work.is_on_devices:
        findings += _of_work(recording)
    findings += [
        *_launches_lost(recording),
        *_event_waits(recording),
        *_operators(recording),
        *_ranks_missing(recording),
    ]
    order, codes = list(CHECKS), {one.code for one in findings}
    if codes & {*_CLOCKS, f"{PREFIX}runs_apart"}:  # how long the recording is isn't known
        findings = [one for one in findings if one.code != _LITTLE]
    if any(one.details.get("sign") == _CALLS_ANEW for one in findings):  # which call launched what isn't known
        findings = [one for one in findings if one.code.removeprefix(PREFIX) not in _BY_CALLS]
    remedies = dict(of_profiler(_BY_PROFILER, _formats(recording)) or {})
    if f"{PREFIX}work_outlasts_wait" in codes:  # a synchronisation tells already how late the clock is
        remedies["starts_late"] = "Record with a newer driver and profiler."
    findings = [
        replace(one, remedy=one.remedy or remedies.get(one.code.removeprefix(PREFIX)) or check_of(one).remedy)
        for one in findings
    ]
    return sorted(findings, key=lambda one: order.index(one.code.removeprefix(PREFIX)))


#: What the names of formats begin with -> how their profilers record what a failed check misses.
_BY_PROFILER = {
    OF_ROCM: {
        "launches_lost": "Record the device, too (rocprofv3 --sys-trace), or give all files of the run "
        "(*_kernel_trace.csv, *_memory_copy_trace.csv).",
    },
}


def _formats(recording: Recording) -> list[str]:
    """The formats of the inputs, and of those that canonical inputs were made of."""
    formats = [entry.facts["format"] for entry in recording.gathered.catalog.of("source") if "format" in entry.facts]
    return formats or [one["format"] for one in recording.report.inputs]


_API = KINDS.index("api")

#: What tells of two runs whose calls have the same numbers, and the checks that rest on these.
_CALLS_ANEW = "call numbers restart"
_BY_CALLS = ("cause_after_effect", "work_outlasts_wait", "waits_for_nothing", "launches_lost", "queued_at_end")

#: What says that host and device have different clocks, and that there is little device work in the time of both.
_CLOCKS, _LITTLE = {f"{PREFIX}cause_after_effect", f"{PREFIX}work_outlasts_wait"}, f"{PREFIX}little_recorded"

#: Calls that launch kernels at once, each of which has at least one, and those that copy or fill memory.
_LAUNCHES = re.compile(r"(?<!Append)Launch(Cooperative)?Kernel|GraphLaunch|EnqueueKernelLaunch|EnqueueNDRange", re.I)
_COPIES = re.compile(r"(cuda|cu|hip)(Memcpy|Memset)|EnqueueMem", re.A)
_CAPTURES = re.compile(r"Stream(Begin|End)Capture")
_WAITS = re.compile(r"Synchronize", re.I)


def _of_work(recording: Recording) -> Iterator[Finding]:
    """The checks of device work, one finding for all sources."""
    for find in (
        *(
            _runs_apart,
            _not_set,
            _as_duration,
            _made_up,
            _before_calls,
            _starts_late,
            _after_waits,
            _idle_waits,
            _overlaps,
        ),
        *(_graphs_whole, _disjoint, _little_recorded, _quantised, _serialised),
    ):
        yield from find(recording)


class _Violations:
    """The rows of work that break a law: how many of how many, by how many ns, and the worst."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self.count = self.of = self.most = self.total = self.impossible = 0
        self._rows: list[Evidence] = []

    def add(self, events: Events, rows: Int64, by: Int64, of: int) -> None:
        """Adds the rows of a source, by how much each is off, of so many that were looked at."""
        self.of += of
        self.count += len(rows)
        if not len(rows):
            return
        self.most, self.total = max(self.most, int(by.max())), self.total + int(by.sum())
        self.impossible += int(np.minimum(by, events.dur[rows]).sum())
        self._rows += [row_shown(self._work, events, int(rows[place]), int(by[place])) for place in longest(by)]

    def finding(self, check: str, key: str, total: bool = False) -> Iterator[Finding]:
        """The finding, if there is any such row, and they are more than single ones."""
        if self.count and self.count >= PART * self.of:
            rows = sorted(self._rows, key=lambda row: -row.time_ns)[:SHOWN]
            details = {key: self.total if total else self.most}
            code = PREFIX + check
            yield Finding(code, "work", self.count, "count", self.of, "device activities", {}, None, details, rows)


def _before_calls(recording: Recording) -> Iterator[Finding]:
    """Work that begins before its call does."""
    violations = _Violations(recording.work)
    for events in recording.work.each():
        launched = np.flatnonzero(events.call >= 0)
        early = events.calls["ts"][events.call[launched]] - events.ts[launched]
        some = early > TOLERANCE
        violations.add(events, launched[some], early[some], len(launched))
    yield from violations.finding("cause_after_effect", "early_ns")


#: So much work after gaps of so many ns tells that a clock is late, if no work at all begins sooner than this after
#: its call, and half of that after gaps no later than so many times as long.
_AFTER_GAPS, _GAP, _LATE, _ALIKE_LATE = 16, 10_000, 100_000, 1.25


def _starts_late(recording: Recording) -> Iterator[Finding]:
    """Work that found its device idle, all of which begins long after its call, and by nearly the same time."""
    violations = _Violations(recording.work)
    least = np.iinfo(np.int64).max
    for events in recording.work.each():
        joined, gaps = np.flatnonzero(events.call >= 0), gaps_of(events)
        rows = gaps.after[(gaps.length >= _GAP) & (gaps.call >= 0)]
        if len(rows) < _AFTER_GAPS:
            continue
        calls, call = events.calls, events.call
        lag = events.ts - calls["ts"][call] - np.maximum(calls["dur"][call], 0)
        first = int(lag[joined].min())
        if first >= _LATE and float(np.median(lag[rows])) <= _ALIKE_LATE * first:
            violations.add(events, rows, lag[rows], len(rows))
            least = min(least, first)
    for one in violations.finding("starts_late", "late_ns"):
        yield replace(one, details={"late_ns": least})


def _after_waits(recording: Recording) -> Iterator[Finding]:
    """Work that ends after a call has returned that was made after its launch, and waited for the device."""
    work = recording.work
    violations, device = _Violations(work), 0
    for events in work.each():
        device += int(events.dur.sum())
        spans = work.gathered.spans.for_source(events.source)
        rows = np.flatnonzero(work.gathered.spans.named(DEVICE_SYNC.search)[spans["name"]] & (spans["kind"] == _API))
        rows = rows[spans["dur"][rows] > 0]
        launched = np.flatnonzero(events.call >= 0)
        if not len(rows) or not len(launched) or len(events.places[1]) > 1:
            continue  # a call waits for the device of its thread, which isn't known where there are several
        rows = rows[np.argsort(spans["ts"][rows], kind="stable")]
        calls, call = events.calls, events.call[launched]
        returned = calls["ts"][call] + np.maximum(calls["dur"][call], 0)
        at = np.searchsorted(spans["ts"][rows], returned, "left")
        there = at < len(rows)
        wait = rows[at[there]]
        launched, call = launched[there], call[there]
        same = work.processes[spans["thread"][wait]] == work.processes[calls["thread"][call]]
        late = (events.ts + events.dur)[launched] - spans["ts"][wait] - spans["dur"][wait]
        some = same & (late > TOLERANCE)
        violations.add(events, launched[some], late[some], int(same.sum()))
    _after_stream_waits(recording, violations)
    for one in violations.finding("work_outlasts_wait", "late_ns"):
        impossible: dict[str, Cell] = {"impossible_ns": violations.impossible, "device_ns": device}
        yield replace(one, details={**one.details, **impossible})


#: A call waits for nothing, if it does so for this part of its time, and so many ns; together such calls tell of what
#: isn't recorded, if they do so for this part of the time of the device, and so many ns.
_FOR_NOTHING, _LONG_WAIT, _OF_TIME, _LASTING = 0.5, 50_000, 0.05, 1_000_000


def _idle_waits(recording: Recording) -> Iterator[Finding]:
    """Calls that wait for a device which has nothing to do, after the first work that was launched."""
    gathered, waited, whole, busy = recording.gathered, 0, 0, 0
    for events in recording.work.each():
        launched = np.flatnonzero(events.call >= 0)
        spans = gathered.spans.for_source(events.source)
        if not len(launched) or len(events.places[1]) > 1:
            continue  # a call waits for the device of its thread
        waits = gathered.spans.named(DEVICE_SYNC.search)[spans["name"]] & (spans["kind"] == _API) & (spans["dur"] > 0)
        waits &= spans["ts"] > events.ts[launched].min()
        begin, end = spans["ts"][waits], (spans["ts"] + spans["dur"])[waits]
        work = Intervals.union(events.ts, events.ts + events.dur)
        idle = end - begin - (work.until(end) - work.until(begin))
        empty = idle >= np.maximum(_FOR_NOTHING * (end - begin), _LONG_WAIT)
        calls = Intervals.union(begin[empty], end[empty])
        waited, whole = waited + calls.length, whole + int(events.spans.sum())
        busy += int((work.until(calls.end) - work.until(calls.begin)).sum())
    nothing = 0 if recording.is_part else waited - busy
    if nothing >= max(_LASTING, _OF_TIME * whole):
        yield Finding(PREFIX + "waits_for_nothing", "time", nothing, "ns", waited, "the waiting")


def _after_stream_waits(recording: Recording, violations: _Violations) -> None:
    """Adds work that ends after a synchronisation of its stream has, which began after its launch."""
    work, waits = recording.work, recording.gathered.waits
    stream, streams = work.by_shape(_stream_of_device)
    number = {key: place for place, key in enumerate(streams)}
    for source in waits.sources if work.is_on_devices else ():
        if source not in work.rows.sources:
            continue
        events, rows, shapes = work.for_source(source), waits.for_source(source), waits.shapes
        place = np.array([number.get(_stream_of_device(shape), -1) for shape in shapes], np.int64)
        place[[_STREAM_SYNC.search(shape["name"]) is None for shape in shapes]] = -1
        syncs = np.flatnonzero((place[rows["shape"]] >= 0) & (rows["dur"] > 0))
        launched = np.flatnonzero(events.call >= 0)
        for one in np.unique(place[rows["shape"][syncs]]).tolist():
            calls = syncs[place[rows["shape"][syncs]] == one]
            calls = calls[np.argsort(rows["ts"][calls], kind="stable")]
            after_wait = launched[stream[events.shape[launched]] == one]
            call = events.call[after_wait]
            returned = events.calls["ts"][call] + np.maximum(events.calls["dur"][call], 0)
            at = np.searchsorted(rows["ts"][calls], returned, "left")
            after_wait, wait = after_wait[at < len(calls)], calls[at[at < len(calls)]]
            late = (events.ts + events.dur)[after_wait] - rows["ts"][wait] - rows["dur"][wait]
            some = late > TOLERANCE
            violations.add(events, after_wait[some], late[some], len(after_wait))


def _stream_of_device(shape: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(shape[name] for name in ("source", "host", "device", "stream"))


#: How Kineto and nsys name a synchronisation of a stream, and waits for an event.
_STREAM_SYNC = re.compile(r"Stream Sync", re.I)
_EVENT_WAITS = ("stream wait event", "event sync", "event synchronize")


def _event_waits(recording: Recording) -> Iterator[Finding]:
    """Waits for events whose record isn't known, or comes after them."""
    gathered = recording.gathered
    waits, unsaid, lost, early, most, of = gathered.waits, 0, 0, 0, 0, 0
    for source in waits.sources:
        rows = waits.for_source(source)
        is_wait = np.array([shape["name"].lower() in _EVENT_WAITS for shape in waits.shapes], np.bool_)
        wait_rows = np.flatnonzero(is_wait[rows["shape"]])
        if not len(wait_rows):
            continue
        key_of, recorded = _records_of(recording, source, rows["id"][wait_rows])
        of += len(wait_rows)
        for event, ts in zip(rows["id"][wait_rows].tolist(), rows["ts"][wait_rows].tolist(), strict=True):
            key = key_of.get(event)
            record = recorded.get(key) if key is not None else None
            unsaid, lost = unsaid + (key is None), lost + (key is not None and record is None)
            if record is not None and record > ts:
                early, most = early + 1, max(most, record - ts)
    if early:
        details: dict[str, Any] = {"early_ns": most}
        yield Finding(PREFIX + "wait_before_record", "waits", early, "count", of, "waits", {}, None, details)
    if unsaid + lost:
        details = {"without": unsaid, "not_in_trace": lost}
        yield Finding(PREFIX + "waits_unlinked", "waits", unsaid + lost, "count", of, "waits", {}, None, details)


def _records_of(recording: Recording, source: str, waits: Int64) -> tuple[dict[int, str], dict[str, int]]:
    """The key of each wait, by its id, and the first time of the calls that record the event of each key."""
    key_of: dict[int, str] = {}
    records: dict[int, str] = {}
    for batch in recording.gathered.waits.links(source):
        out = truth(pc.and_(pc.equal(batch.column("link"), "wait"), pc.equal(batch.column("role"), "out")))
        event, has = values(batch, "event")
        for names, rows in ((records, out & has), (key_of, is_among(event, waits) & has & ~out)):
            keys = batch.column("key").filter(pa.array(rows)).to_pylist()
            names.update(zip(event[rows].tolist(), keys, strict=True))
    spans, recorded = recording.gathered.spans.for_source(source), dict[str, int]()
    ids = np.array(list(records), np.int64)
    for row in np.flatnonzero(is_among(spans["id"], ids)).tolist():
        key, ts = records[int(spans["id"][row])], int(spans["ts"][row])
        recorded[key] = min(recorded.get(key, ts), ts)
    return key_of, recorded


def _operators(recording: Recording) -> Iterator[Finding]:
    """Operators of PyTorch that lack what they state, or share what is their own."""
    torch = recording.gathered.torch
    if torch.undescribed:
        lacking = ", ".join(key for key, count in torch.lacking.items() if count)
        figures = "operators", torch.undescribed, "count", torch.collectives, "collectives"
        yield Finding(PREFIX + "collectives_undescribed", *figures, {"lacking": lacking})
    if torch.shared:
        source, number, names = torch.shared[0]
        subject: dict[str, Any] = {"source": source, "number": number, "names": ", ".join(names)}
        figures = "numbers", len(torch.shared), "count", torch.numbers, "sequence numbers"
        yield Finding(PREFIX + "sequence_shared", *figures, subject)


#: By programmatic dependent launch (from Hopper on) a kernel starts so many ns, or such a part of the one before it on
#: its stream, before that has ended; it ends after it.
_DEPENDENT, _DEPENDENT_PART = 5_000, 0.1


def _overlaps(recording: Recording) -> Iterator[Finding]:
    """Kernels that begin before the kernel before them on their stream has ended, other than by dependent launch."""
    work, twice = recording.work, 0
    violations = _Violations(work)
    stream, streams = work.by_shape(stream_of)
    named = np.array([shape["kind"] == "kernel" and shape["stream"] is not None for shape in work.shapes], np.bool_)
    for events in work.each():
        rows = events.by_device[(named[events.shape] & (events.dur > 0))[events.by_device]]
        order = rows[sorted_by(stream[events.shape[rows]], len(streams))]
        end = (events.ts + events.dur)[order]
        over = end[:-1] - events.ts[order[1:]]
        same = ~group_start_mask((stream[events.shape[order]],))[1:]
        is_early = over > np.maximum(_DEPENDENT, _DEPENDENT_PART * events.dur[order[:-1]])
        some = same & (over > TOLERANCE) & (is_early | (end[1:] <= end[:-1]))
        violations.add(events, order[1:][some], np.minimum(over, events.dur[order[1:]])[some], len(rows))
        alike = (np.diff(column[order]) == 0 for column in (events.ts, events.dur, events.shape))
        twice += int(np.count_nonzero(some & np.logical_and.reduce([*alike])))
    for one in violations.finding("stream_overlaps", "overlap_ns", total=True):
        is_twice = 2 * twice > one.value
        yield replace(one, details={**one.details, "twice": twice}, remedy=_ONCE) if is_twice else one


#: What to do about records that are there twice.
_ONCE = "Give each record once: the profiler wrote them twice, or a trace was added to itself."


#: Where nothing else tells them apart, two runs lie further apart than this, in ns, if the host was recorded, else than
#: the second; and than so many times what both last.
_APART, _APART_UNSEEN, _TIMES_APART = 1_000_000_000, 600_000_000_000, 20


def _runs_apart(recording: Recording) -> Iterator[Finding]:
    """A pause in which nothing is recorded, that is far longer than all before and after, or parts runs."""
    for events in recording.work.each():
        if several := _several_runs(events, recording):
            yield several
            continue
        pause = silence_of(events)
        if pause is None:
            continue
        sign, sides = _two_runs(pause, events, recording), pause.before + pause.after
        is_told = len(recording.gathered.spans.for_source(events.source)["ts"]) > 0
        far = max(_APART if is_told else _APART_UNSEEN, _TIMES_APART * sides)
        if sign or pause.length > far:
            details: dict[str, Any] = {"before_ns": pause.before, "after_ns": pause.after} | sign
            figures = "time", pause.length, "ns", pause.length + sides, "the recording"
            yield Finding(PREFIX + "runs_apart", *figures, {"source": events.source}, None, details)


#: So many runs are told apart by their pauses alone; more are how a program works that is asked now and then.
_MOST_RUNS = 5


def _several_runs(events: Events, recording: Recording) -> Finding | None:
    """Three runs and more in one input, or two on different devices: each pause is far longer than all recorded."""
    first, last = recording.gathered.spans_of[events.source]
    if last - first < _APART_UNSEEN:
        return None
    spans = recording.gathered.spans.for_source(events.source)
    begin, dur = (np.concatenate([getattr(events, name), spans[name]]) for name in ("ts", "dur"))
    begin, end = (np.append(ends, [first, last]) for ends in (begin, begin + np.maximum(dur, 0)))  # others, too
    there = Intervals.union(begin, np.maximum(end, begin + 1))
    long = np.flatnonzero(there.gaps() >= _APART_UNSEEN)
    pauses = there.gaps()[long]
    is_of_several = len(pauses) > 1 or silence_of(events) is None
    if not 1 <= len(pauses) < _MOST_RUNS or pauses.min() < _TIMES_APART * (last - first - pauses.sum()):
        return None
    details = {"parts": len(pauses) + 1, "shortest_ns": int(pauses.min())}
    if len(pauses) == 1:
        since, until = int(there.end[long[0]]), int(there.begin[long[0] + 1])
        details = {"before_ns": since - first, "after_ns": last - until}
    figures = "time", int(pauses.max()), "ns", last - first, "the recording"
    finding = Finding(PREFIX + "runs_apart", *figures, {"source": events.source}, None, details)
    return finding if is_of_several else None


def _two_runs(pause: Pause, events: Events, recording: Recording) -> dict[str, Any]:
    """What tells that the parts around a pause are two runs: other processes, or numbers that begin anew."""
    gathered, work = recording.gathered, recording.work
    spans, marks = gathered.spans.for_source(events.source), gathered.marks.for_source(events.source)
    sides = spans["ts"] < pause.end
    process, call = work.processes[spans["thread"]], (spans["kind"] == _API) & (spans["correlation"] != 0)
    if sides.any() and not sides.all() and not np.intersect1d(process[sides], process[~sides]).size:
        return {"sign": "they are of different processes"}
    stepping = np.array([*(name is not None for name in gathered.steps), False], np.bool_)[marks["meaning"]]
    step, first = marks["meaning"][stepping], marks["ts"][stepping] < pause.end
    if np.intersect1d(step[first], step[~first]).size:
        return {"sign": "step numbers restart"}
    ids = spans["correlation"]
    if np.intersect1d(ids[call & sides], ids[call & ~sides]).size:
        return {"sign": _CALLS_ANEW}
    return {}


#: By more than this, in ns, the clocks of hosts don't differ that have one of unix time.
_HOSTS_APART = 600_000_000_000


def _disjoint(recording: Recording) -> Iterator[Finding]:
    """Inputs that begin after all others have ended; ranks can't have worked together then."""
    gathered = recording.gathered
    spans = {source: span for source, span in gathered.spans_of.items() if span[1] > span[0]}
    related = times_related([*spans], gathered.catalog)
    by = related or dict.fromkeys(spans, 0)
    gaps = pauses({source: (begin + by[source], end + by[source]) for source, (begin, end) in spans.items()})
    source = max(gaps, key=lambda one: gaps[one][0], default=None)
    aligned = recording.clocks == "collective" and (related is None or gaps.get(source or "", (0,))[0] < _HOSTS_APART)
    if source is None or aligned or gaps[source][0] < DISJOINT:
        return
    ranks = [gathered.catalog.rank(one) for one in spans]
    is_job = related is not None and None not in ranks and len({*ranks}) == len(ranks)
    gap, before = gaps[source]
    details = {"related": related is not None, "pauses": sum(one >= DISJOINT for one, _ in gaps.values())}
    code = PREFIX + ("ranks_apart" if is_job else "inputs_apart")
    yield Finding(code, "time", gap, "ns", None, "", {"source": source, "before": before}, None, details)


def _not_set(recording: Recording) -> Iterator[Finding]:
    """Events without a time, which `WorkInput.unset` counts."""
    for source, (count, of, before) in recording.gathered.unset.items():
        details, subject = {"before_others_ns": before}, {"source": source}
        yield Finding(PREFIX + "time_not_set", "events", count, "count", of, "events", subject, None, details)
    left_out = _left_out(recording)
    if left_out and left_out >= PART * len(recording.work):
        details = {"left_out": left_out}
        yield Finding(PREFIX + "time_not_set", "events", left_out, "count", None, "events", {}, None, details)


def _left_out(recording: Recording) -> int:
    """How many records were left out since their time can't be right."""
    return sum(_doubts(recording).issues.get(kind, 0) for kind in IMPOSSIBLE_TIMES)


def _made_up(recording: Recording) -> Iterator[Finding]:
    """Work of tables that were drawn as timelines."""
    work = recording.work
    count = sum(int(np.count_nonzero(work.made_up[events.shape])) for events in work.each() if work.made_up.any())
    if count:
        yield Finding(PREFIX + "times_made_up", "work", count, "count", len(work), "device activities")


def _as_duration(recording: Recording) -> Iterator[Finding]:
    """Work whose duration is its begin, or its end."""
    violations = _Violations(recording.work)
    for events in recording.work.each():
        rows = np.flatnonzero((events.dur == events.ts) & (events.dur >= _LONG_BEGIN))
        if len(np.unique(events.dur[rows])) < _ALIKE:
            rows = rows[events.dur[rows] >= _LONGER_BEGIN]
        violations.add(events, rows, events.dur[rows], len(events))
    yield from violations.finding("time_as_duration", "longest_ns")


#: A duration that is the time stamp is no chance from the second of these times in ns on, or in several places from the
#: first on.
_LONG_BEGIN, _LONGER_BEGIN, _ALIKE = 1_000_000, 1_000_000_000, 3

#: So many pieces of work of so many durations tell of what these are multiples, at least this, in ns.
_FEW, _DIFFERENT, _COARSE = 16, 4, 10_000

#: Begins and few durations that are multiples of so many ns may be made regular by people; clocks count in others.
_BY_PEOPLE = 1_000


def _quantised(recording: Recording) -> Iterator[Finding]:
    """Durations that are all multiples of a long time; where they are few, begins tell it, too."""
    step, since, count, most = 0, 0, 0, 0
    different: set[int] = set()
    begins: set[int] = set()
    for events in recording.work.each():
        for first in range(0, len(events), 1 << 10):
            some = slice(first, first + (1 << 10))
            step = int(np.gcd.reduce(events.dur[some], initial=step))
            if 0 < step < _COARSE:
                return
            since = int(np.gcd.reduce(events.ts[some] - events.ts[0], initial=since))
        different.update(np.unique(events.dur[: 1 << 16]).tolist())
        begins.update(np.unique(events.ts[: 1 << 16]).tolist())
        count, most = count + len(events), max(most, int(events.dur.max(initial=0)))
    is_clock = math.gcd(step, since) % _BY_PEOPLE or _is_rounded(recording.work)
    if len(different - {0}) < _DIFFERENT and is_clock:
        step, different = math.gcd(step, since), begins
    if step >= _COARSE and count >= _FEW and len(different - {0}) >= _DIFFERENT and most <= _MANY_STEPS * step:
        yield Finding(PREFIX + "times_quantised", "time", step, "ns", None, "", {}, None, {"work": count})


def _is_rounded(work: Work) -> bool:
    """Whether kernels of a name take no time in some launches and some in others, as by a coarse clock."""
    number, names = work.by_shape(kernel_of)
    none, some = np.zeros(len(names), np.int64), np.zeros(len(names), np.int64)
    for events in work.each():
        name = number[events.shape]
        none += np.bincount(name[events.dur == 0], minlength=len(names))
        some += np.bincount(name[events.dur > 0], minlength=len(names))
    return bool(np.any(np.minimum(none, some) >= _OFTEN))


#: So many launches of each kind tell of rounding.
_OFTEN = 3

#: Where the longest work is more such multiples, the time is fine enough.
_MANY_STEPS = 100


def _graphs_whole(recording: Recording) -> Iterator[Finding]:
    """Launches of graphs without their nodes, where they take a part that matters."""
    work = recording.work
    graph = np.array([shape["kind"] == "graph" for shape in work.shapes], np.bool_)
    count = time = total = 0
    for events in work.each():
        is_graph = graph[events.shape]
        count, time = count + int(np.count_nonzero(is_graph)), time + int(events.dur[is_graph].sum())
        total += int(events.dur.sum())
    if count and 100 * time >= 5 * total:
        names = Counter(kernel_of(shape) for shape in work.shapes if shape["kind"] == "graph")
        name = next(iter(names)) if len(names) == 1 else f"{next(iter(names))} and {len(names) - 1:,} more"
        details, subject = {"time_ns": time}, {"name": name}
        yield Finding(PREFIX + "graphs_whole", "launches", count, "count", None, "graphs", subject, None, details)


#: Device work of less than this part of a recording, in percent, and of at least so many ns, tells nothing of a run:
#: work that lies together, or so few pieces beside what the host did, and what runs beside captures of graphs.
_BITS, _HARDLY, _BESIDE_CAPTURES, _LONG = 4, 0.5, 2.0, 10_000_000


def _little_recorded(recording: Recording) -> Iterator[Finding]:
    """Device work that fills next to nothing of the recording, without what is set up once before it."""
    span = (recording.span or 0) - max((_set_up(events, recording) for events in recording.work.each()), default=0)
    busy = max((use.busy for use in recording.devices), default=0)
    there = max((use.span for use in recording.devices), default=0)
    if recording.is_part or span < _LONG or not 0 < 100 * busy < _BESIDE_CAPTURES * span:
        return
    captured, launches = _captured(recording)
    is_capture = 2 * captured > launches
    is_told = any(recording.gathered.spans.sources)
    is_bit = 10 * there < span or (is_told and len(recording.work) <= _BITS)
    if is_capture or (100 * busy < _HARDLY * span and is_bit):
        details: dict[str, Any] = {"devices_span_ns": there}
        details |= {"captured": captured, "launches": launches} if is_capture else {}
        yield Finding(_LITTLE, "time", busy, "ns", span, "the recording", {}, None, details)


#: Profilers that run kernels one by one while they count, and so many kernels that don't overlap tell that they did.
_COUNTING, _ONE_BY_ONE = (*OF_ROCM, "nvprof", "nvvp"), 16


def _serialised(recording: Recording) -> Iterator[Finding]:
    """Kernels of which a profiler counted something, none of which overlaps with another."""
    is_counted = recording.gathered.has_kernel_counters
    if not is_counted or not all(one.startswith(_COUNTING) for one in _formats(recording)):
        return
    kernels = [events.dur[events.roles == COMPUTE] for events in recording.work.each()]
    count, total = sum(map(len, kernels)), sum(int(durations.sum()) for durations in kernels)
    if count >= _ONE_BY_ONE and sum(use.compute for use in recording.devices) >= NEARLY_ALL * total:
        yield Finding(PREFIX + "kernels_serialised", "kernels", count, "count")


def _set_up(events: Events, recording: Recording) -> int:
    """How long calls that set something up took before the first work of a source."""
    spans = recording.gathered.spans.for_source(events.source)
    is_setup = calls_of_setup(recording.work, events) & (spans["kind"] == _API)
    rows = np.flatnonzero(is_setup & (spans["ts"] < events.ts.min(initial=np.iinfo(np.int64).max)))
    return Intervals.union(spans["ts"][rows], spans["ts"][rows] + spans["dur"][rows]).length


def _captured(recording: Recording) -> tuple[int, int]:
    """How many launches were captured into graphs, which ran nothing, and how many there are in all."""
    gathered, captured, launches = recording.gathered, 0, 0
    for source in gathered.spans.sources:
        spans = gathered.spans.for_source(source)
        named = gathered.spans.named(_LAUNCHES.search)[spans["name"]]
        every = np.flatnonzero(named & (spans["kind"] == _API) & (spans["correlation"] != 0))
        captured += len(every) - len(_not_captured(every, spans, gathered))
        launches += len(every)
    return captured, launches


#: Operators of collectives, also of those that the host runs (gloo, MPI).
_COLLECTIVES = re.compile(r"c10d::|gloo:|mpi:|MPI_", re.A)


def _ranks_missing(recording: Recording) -> Iterator[Finding]:
    """Some ranks of a group alone, where there are collectives; or one device, where nothing states a group."""
    sources = [entry.facts for entry in recording.gathered.catalog.of("source")]
    sizes = {facts["world_size"] for facts in sources if type(facts.get("world_size")) is int}
    ranks = {facts["rank"] for facts in sources if type(facts.get("rank")) is int}
    communicating = [use for use in recording.devices if use.communication]
    if not sizes and len(ranks) < 2:
        if len(communicating) == 1 and communicating[0].exposed_communication:
            yield Finding(PREFIX + "ranks_missing", "ranks", 1, "count", None, "the group")
        return
    if len(sizes) != 1 or not 0 < len(ranks) < (size := sizes.pop()):
        return
    spans = recording.gathered.spans
    if communicating or (not recording.work.is_on_devices and spans.named(_COLLECTIVES.match).any()):
        yield Finding(PREFIX + "ranks_missing", "ranks", len(ranks), "count", size, "the group")


#: More launches than a stream queues aren't waiting at the end of a recording: their work is lost. Fewer are said where
#: they are this part of all.
_QUEUE, _MANY = 4_096, 0.05


def _launches_lost(recording: Recording) -> Iterator[Finding]:
    """Launches whose work isn't in the trace, though work that was launched later is, or there is none at all.

    Apart from these are those whose work was still queued when the recording ended.
    """
    gathered, work = recording.gathered, recording.work
    if recording.is_part:
        return
    unset = _left_out(recording)
    lost = queued = launches = copies = graphs = 0
    shown: list[Evidence] = []
    lacking: dict[str, int] = {}
    for source in gathered.spans.sources:
        if source in gathered.unset or source in gathered.repeated:
            continue  # the work is there, without its time or in another source
        spans = gathered.spans.for_source(source)
        rows = _calls_named(spans, gathered, _LAUNCHES.search)
        if work.is_on_devices and source in work.rows.sources:
            events = work.for_source(source)
            has_work = np.zeros(len(events.calls["ts"]), np.bool_)
            has_work[events.call[events.call >= 0]] = True
            if not has_work.any() or not events.is_correlated:
                continue  # the source doesn't say which call launched what
            missing = rows[~is_among(spans["id"][rows], events.calls["id"][has_work])]
            if len(missing) - _unlinked(events) - unset <= PART * len(rows):
                missing = missing[:0]  # the work is there: its call isn't stated, or its time can't be right
            until = max(int(events.calls["ts"][has_work].max()), _last_wait(events, spans, gathered))
            waiting = spans["ts"][missing] > until
            if np.count_nonzero(waiting) <= _QUEUE:
                missing, queued = missing[~waiting], queued + int(np.count_nonzero(waiting))
        else:
            others = _calls_named(spans, gathered, _COPIES.match)
            copies += len(others)
            rows = missing = np.concatenate([rows, others])
        lost, launches = lost + len(missing), launches + len(rows)
        lacking[source] = len(missing)
        graphs += int(is_among(missing, _calls_named(spans, gathered, _GRAPH_LAUNCH.search)).sum()) if lost else 0
        shown += [_call(source, spans, gathered, row) for row in missing[: SHOWN - len(shown)].tolist()]
    if lost and lost >= PART * (launches - queued):
        figures = "launches", lost, "count", launches, "launches"
        where = [source for source, count in lacking.items() if count]
        subject = {"source": where[0]} if len(where) == 1 < len(lacking) else {}
        details = {"copies": copies} | ({"graphs": graphs} if graphs else {})
        of_rocm = of_profiler(_BY_PROFILER, _formats(recording))
        of_cuda = not of_rocm and shown[0].name.startswith("cu")
        remedy = CHECKS["graphs_missing"].remedy if graphs == lost and of_cuda else ""
        yield Finding(PREFIX + "launches_lost", *figures, subject, None, details, shown, remedy=remedy)
    elif queued >= _MANY * launches and queued:
        yield Finding(PREFIX + "queued_at_end", "launches", queued, "count", launches, "launches")


def _unlinked(events: Events) -> int:
    """How much work has no known call, though it began after some that has one."""
    joined = events.call >= 0
    return int(np.count_nonzero(~joined & (events.ts > events.ts[joined].min())))


def _last_wait(events: Events, spans: dict[str, Any], gathered: WorkInput) -> int:
    """When the last call began that waited for the only device of a source, so that all launched before it has run."""
    waits = gathered.spans.named(DEVICE_SYNC.search)[spans["name"]] & (spans["kind"] == _API) & (spans["dur"] > 0)
    never = np.iinfo(np.int64).min
    return int(spans["ts"][waits].max(initial=never)) if len(events.places[1]) == 1 else never


def _calls_named(spans: dict[str, Any], gathered: WorkInput, test: Callable[[str], object]) -> Int64:
    """The calls of some names, with a correlation id; without those that a stream captures into a graph."""
    named = gathered.spans.named(test)[spans["name"]]
    return _not_captured(np.flatnonzero(named & (spans["kind"] == _API) & (spans["correlation"] != 0)), spans, gathered)


def _not_captured(rows: Int64, spans: dict[str, Any], gathered: WorkInput) -> Int64:
    """The rows of calls without those that a stream captures into a graph."""
    bounds = np.flatnonzero(gathered.spans.named(_CAPTURES.search)[spans["name"]] & (spans["kind"] == _API))
    for thread in np.unique(spans["thread"][bounds]).tolist():
        times = np.sort(spans["ts"][bounds[spans["thread"][bounds] == thread]])
        inside = np.searchsorted(times, spans["ts"][rows], "right") % 2 == 1
        rows = rows[~(inside & (spans["thread"][rows] == thread))]
    return rows


def _call(source: str, spans: dict[str, Any], gathered: WorkInput, row: int) -> Evidence:
    begin, dur = int(spans["ts"][row]), int(max(spans["dur"][row], 0))
    return Evidence(source, int(spans["id"][row]), gathered.spans.names[spans["name"][row]], begin, begin + dur, dur)


#: Rows that have less than this part of the total that their table states aren't all.
NEARLY_ALL = 0.99

#: A message of a profiler that tells of a failure: ncu's and nvprof's own words.
_FAILED = re.compile(
    r"ERR_\w+|\bError\b|No (kernels|profile data|metrics|CUDA application) |LaunchFailed|is not supported on devices",
    re.A,
)
#: What nsys says of a report for which it recorded nothing; beside other reports this may be as it should.
_NO_DATA = re.compile(r"SKIPPED: .* does not contain CUDA .*data", re.S)
_FORBIDDEN = "ERR_NVGPUCTRPERM"


#: A warning of a profiler that tells of lost records.
_DROPPED = re.compile(
    r"not all|\blost\b|dropp|overflow|buffers? (was|were|is|are)? ?full|discard|incomplete|insufficient|"
    r"data are not recorded",
    re.I,
)


def _of_reading(recording: Recording) -> Iterator[Finding]:
    """What the profiler said itself, which clocks were repaired, and whether the input is complete."""
    yield from _moved_clocks(recording)
    doubts = _doubts(recording)
    is_bare = not len(recording.work) and not recording.tables
    failed = (text for kind, text in doubts.remarks if _is_failure(kind, text) or (is_bare and _NO_DATA.match(text)))
    messages = list(dict.fromkeys(failed))
    if messages:
        said = "; ".join(text.strip().rstrip(".:") for text in messages[:SHOWN])
        figures, subject = ("messages", len(messages), "count", None, ""), {"message": said}
        remedy = f"{ALLOW_COUNTERS[:1].upper()}{ALLOW_COUNTERS[1:]}." if _FORBIDDEN in said else ""
        yield Finding(PREFIX + "profiler_failed", *figures, subject, remedy=remedy)
    said_so = [*doubts.warnings, *(text for kind, text in doubts.remarks if text not in messages)]
    lost = [text.strip().rstrip(".") for text in dict.fromkeys(said_so) if _DROPPED.search(text)]
    if lost:
        subject = {"message": "; ".join(lost[:SHOWN])}
        yield Finding(PREFIX + "records_dropped", "messages", len(lost), "count", None, "", subject)
    if recording.stated is not None and recording.listed < NEARLY_ALL * recording.stated:
        of = recording.stated, "the total that the table states"
        details = {"by_shares": True} if recording.by_shares else {}
        is_torch = any(entry.facts.get("format") == "torch-table" for entry in recording.gathered.catalog.of("source"))
        remedy = "Print all rows: key_averages().table(row_limit=-1)." if is_torch else ""
        yield Finding(
            PREFIX + "table_incomplete", "time", recording.listed, "ns", *of, {}, None, details, remedy=remedy
        )
    cut = doubts.cut
    if cut and not len(recording.work) and recording.tables:
        yield Finding(PREFIX + "table_cut", "tables", sum(cut), "count")
    elif cut:
        yield Finding(PREFIX + "input_cut", "records", sum(cut), "count")


def _moved_clocks(recording: Recording) -> Iterator[Finding]:
    """The clocks that were repaired, in this reading or before a conversion."""
    for entry in recording.gathered.catalog.of("source"):
        try:
            moved = msgspec.convert(entry.facts.get(MOVED_CLOCKS, []), list[MovedClock])
        except msgspec.ValidationError:  # a fact of another program
            continue
        for one in moved:
            subject = {"source": entry.key["source"], "device": one.device}
            details = {name: getattr(one, name) for name in ("early", "most_ns", "drift_ppm", "slack_ns")}
            yield Finding(PREFIX + "clock_repaired", "time", one.offset_ns, "ns", None, "", subject, None, details)


def _doubts(recording: Recording) -> Doubts:
    """What speaks against the figures: in this reading, and in those of sources that were converted since."""
    gathered, report = recording.gathered, recording.report
    doubts, now = Doubts(remarks=[*gathered.remarks]), Doubts.from_issues(report.issues.values())
    for facts in (entry.facts for entry in gathered.catalog.of("source") if "doubts" in entry.facts):
        try:
            one = msgspec.convert(facts["doubts"], Doubts)
        except msgspec.ValidationError:  # a fact of another program
            continue
        doubts.remarks += one.remarks
        doubts.warnings += one.warnings
        for kind, rows in one.issues.items():
            doubts.issues[kind] = doubts.issues.get(kind, 0) + rows
    for kind, rows in now.issues.items():
        doubts.issues[kind] = max(doubts.issues.get(kind, 0), rows)
    doubts.warnings = [*dict.fromkeys((*doubts.warnings, *now.warnings))]
    return doubts


def _is_failure(kind: str, text: str) -> bool:
    return kind == "ERROR" or bool(_FAILED.search(text))


#: Formats of tables that anybody writes: a row without a figure is one whose cell can't be read.
_PLAIN = ("table", "console", "mapped")

_GRAPH_LAUNCH = re.compile(r"GraphLaunch")

#: A table of kernels with less than this part of the time that the host waited for devices lacks what they did.
_LACKS = 0.5


def _calls_of(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of tables that are of calls and have a time."""
    return [row for row in rows if row["kind"] == "api" and row.get("unit", "ns") == "ns"]


def _is_of_calls_alone(rows: Sequence[dict[str, Any]], recording: Recording) -> bool:
    """Whether the rows of a source are one table without device work, of which nothing says that it was recorded."""
    is_one = len({row.get("table") for row in rows}) == 1 and not recording.gathered.remarks
    return is_one and not any(row["kind"] in DEVICE_KINDS for row in rows)


def _graphs_missing(recording: Recording) -> Iterator[Finding]:
    """Launches of graphs that took longer than all kernels in the tables, which may be one file each."""
    rows = [row for rows in recording.tables.values() for row in rows]
    if all(map(_is_of_calls_alone, recording.tables.values(), repeat(recording))):
        return
    calls = _calls_of(rows)
    kernels = sum(row.get("total") or 0 for row in rows if row["kind"] in ("kernel", "graph"))
    graphs = sum(row.get("count") or 0 for row in calls if _GRAPH_LAUNCH.search(row["name"]))
    waited = sum(row.get("total") or 0 for row in calls if _WAITS.search(row["name"]))
    if graphs and kernels < _LACKS * waited and not any(row["kind"] == "graph" for row in rows):
        details, subject = {"waited_ns": waited, "kernels_ns": kernels}, {"source": calls[0]["source"]}
        yield Finding(PREFIX + "graphs_missing", "launches", graphs, "count", None, "graphs", subject, None, details)


def _of_tables(recording: Recording) -> Iterator[Finding]:
    """Tables of statistics that lack what was launched, what they sum up, or rows that can't be read."""
    yield from _graphs_missing(recording)
    for rows in recording.tables.values():
        calls = _calls_of(rows)
        launches = sum(row.get("count") or 0 for row in calls if _LAUNCHES.search(row["name"]))
        has_work = len(recording.work) or any(row["kind"] in DEVICE_KINDS for row in rows)
        if launches and not has_work and not _is_of_calls_alone(rows, recording):
            figures = "launches", launches, "count", launches, "launches"
            yield Finding(PREFIX + "launches_lost", *figures, details={"copies": 0})
    is_plain = all(one in _PLAIN for one in _formats(recording))  # elsewhere such rows never ran
    unreadable = (recording.without if is_plain else 0) + _doubts(recording).issues.get("bad-record", 0)
    if recording.tables and not len(recording.work) and unreadable:
        yield Finding(PREFIX + "rows_unreadable", "rows", unreadable, "count")
