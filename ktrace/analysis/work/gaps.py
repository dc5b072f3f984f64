"""The gaps between the work of a device, the call that ends each, its cause, and CPU activity during gaps.

call        [ cudaDeviceSynchronize ]  ...  [ cudaLaunchKernel ]
device   [ gemm ]                                        [ norm ]
                 gap                                     ended by norm: synchronised

A gap is divided among the innermost spans of the launching thread:

thread    [ aten::copy_                          ]
             [ cudaMalloc ]      [ cudaLaunchKernel ]
gap              [                      ]
                 cudaMalloc│ aten:: │ cudaLaunchKernel
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ktrace.analysis.work.device_work import Events, Shape, Work
from ktrace.analysis.work.durations import COPY, by_group
from ktrace.analysis.work.gather import WorkInput
from ktrace.analysis.work.launching import Launching, launching_of
from ktrace.analysis.work.spans import KINDS, generic, innermost
from ktrace.model.arrays import Bools, Int8, Int32, Int64
from ktrace.stages.order.nesting import around
from ktrace.stages.select.intervals import Intervals
from ktrace.stages.select.wanted import series_of, step_of
from ktrace.store.joins import greatest_so_far, group_start_mask, positions, ranges

#: The time of the host outside of all spans, and the time after the launching call has returned.
NO_SPAN, LAUNCH_DELAY = "no call or range", "launch delay"


class HostActivity:
    """The parts of some gaps of a source until the launching call has returned, by the innermost span.

    `gap` rises; of each part there are its `time` and its span: `name`, an index of `names`, `kind`, an index of
    `spans.KINDS`, its whole `dur`, and its `row` among the spans, all -1 outside of all spans. `first` is for each gap
    the part with which it begins, -1 where the host isn't known. `label` is the name without what differs between
    occurrences; gaps have two more, outside of all spans and after the call.
    """

    def __init__(self, gathered: WorkInput, events: Events, gaps: Gaps, which: Int64) -> None:
        """`which` are the indices of the gaps; their calls are known."""
        self._gaps = gaps
        self.names = gathered.spans.names
        self.named = gathered.spans.named
        number, self._labels = gathered.spans.by_name(generic)
        spans = gathered.spans.for_source(events.source)
        thread = events.calls["thread"][gaps.call[which]]
        rows, span, time = divided(spans, thread, gaps.begin[which], gaps.launched[which])
        self.gap: Int64 = which[rows]
        self.time: Int64 = time
        self.name: Int32 = _or_none(spans["name"], span)
        self.kind: Int8 = _or_none(spans["kind"], span)
        self.dur: Int64 = _or_none(spans["dur"], span)
        self.row: Int64 = span
        self.label: Int64 = number[self.name]
        self.first = np.full(len(gaps.begin), -1, np.int64)
        self.first[self.gap[::-1]] = np.arange(len(self.gap))[::-1]

    def word(self, label: int) -> str:
        """The text of a label."""
        return self._labels[label] if label < len(self._labels) else (NO_SPAN, LAUNCH_DELAY)[label - len(self._labels)]

    @cached_property
    def kinds(self) -> dict[int, str]:
        """The kind of span of each label that is there, "" for those without a span."""
        kind_of = dict(zip(self.label.tolist(), self.kind.tolist(), strict=True)) | {len(self._labels) + 1: -1}
        return {label: KINDS[kind] if kind >= 0 else "" for label, kind in kind_of.items()}

    def times(self, which: Int64) -> tuple[Int64, Int64, Int64]:
        """How these gaps are divided: the gap (rising), the label, and its time in the gap."""
        is_chosen = np.zeros(len(self.first), np.bool_)
        is_chosen[which] = True
        rows = np.flatnonzero(is_chosen[self.gap])
        unspent = (self._gaps.end - self._gaps.launched)[which]
        gap = np.concatenate([self.gap[rows], which])
        label = np.concatenate([self.label[rows], np.full(len(which), len(self._labels) + 1)])
        time = np.concatenate([self.time[rows], unspent])
        order = np.argsort(gap * (len(self._labels) + 2) + label, kind="stable")
        gap, label, time = gap[order], label[order], time[order]
        first = np.flatnonzero(group_start_mask((gap, label)))
        total = np.add.reduceat(time, first) if len(first) else time
        lasts = total > 0
        return gap[first][lasts], label[first][lasts], total[lasts]


def _or_none(column: Any, rows: Int64) -> Any:
    """The values of some rows of a column, -1 for the row -1."""
    values = np.full(len(rows), -1, column.dtype)
    inside = rows >= 0
    values[inside] = column[rows[inside]]
    return values


def divided(spans: dict[str, Any], thread: Int32, begin: Int64, end: Int64) -> tuple[Int64, Int64, Int64]:
    """The parts of intervals on threads: row of the interval, index of the innermost span (-1: none), time."""
    parts: list[tuple[Int64, Int64, Int64]] = [(np.zeros(0, np.int64),) * 3]
    if len(thread):
        count = 1 + int(max(thread.max(), spans["thread"].max(initial=0)))
        rows_of, spans_of = by_group(thread, count), by_group(spans["thread"], count)
        for number in np.unique(thread).tolist():
            rows, span_rows = rows_of(number), spans_of(number)
            ts, ends = spans["ts"][span_rows], spans["ts"][span_rows] + spans["dur"][span_rows]
            there = Intervals.union(begin[rows], end[rows]).overlap(ts, ends) & (ends > ts)
            bounds = _bounds(span_rows[there], ts[there], ends[there])
            some, span, time = _cut(*bounds, begin[rows], end[rows])
            parts.append((rows[some], span, time))
    rows, span, time = map(np.concatenate, zip(*parts, strict=True))
    order = np.argsort(rows, kind="stable")
    return rows[order], span[order], time[order]


def _bounds(spans: Int64, begin: Int64, end: Int64) -> tuple[Int64, Int64]:
    """The times at which the innermost span of a thread changes, and the span from there on, -1 for none."""
    order = np.lexsort((-end, begin))
    spans, begin, end = spans[order], begin[order], end[order]
    outer, crossed = around(np.zeros(len(spans), np.int32), begin, end)
    if len(crossed):
        at = np.sort(np.concatenate([begin, end]))
        at = at[group_start_mask((at,))]
        track = np.zeros(len(spans) + len(at), np.int32)
        inside = innermost(track, np.concatenate([begin, at]), np.concatenate([end, at]))[len(spans) :]
    else:  # at one time the inner spans end first, then the outer ones begin first
        at = np.concatenate([end[::-1], begin])
        inside = np.concatenate([outer[::-1], np.arange(len(spans))])
        order = np.argsort(at, kind="stable")
        at, inside = at[order], inside[order]
    return at, np.append(spans, -1)[inside]


def _cut(at: Int64, inside: Int64, begin: Int64, end: Int64) -> tuple[Int64, Int64, Int64]:
    """The parts of some intervals between these bounds."""
    at = np.concatenate([[np.iinfo(np.int64).min], at, [np.iinfo(np.int64).max]])
    inside = np.concatenate([[-1], inside])
    low = np.searchsorted(at, begin, "right") - 1
    count = np.maximum(np.searchsorted(at, end, "left") - low, 0)
    rows = np.repeat(np.arange(len(begin)), count)
    place = ranges(low, count)
    time = np.minimum(at[place + 1], end[rows]) - np.maximum(at[place], begin[rows])
    lasts = time > 0
    return rows[lasts], inside[place[lasts]], time[lasts]


#: The causes, in the order of the tables: the name of each, and what it means.
CAUSES = {
    "host late": "nothing was queued: the host did something else, or was in the launching call",
    "host synchronised": "nothing was queued: the host had waited for the device, or else would have launched in time",
    "dependency": "work was queued, but had to wait: for an event, another stream or device, its graph",
    "launch overhead": "work was queued, and began shortly after the work before it",
    "between graph nodes": "the graph was launched, and its next node began later than the nodes before it had ended",
    "queued before the recording": "the device was at work that was queued before, and isn't in the trace",
    "not recorded": "the device may have been at work that was launched in between, and isn't in the trace",
    "setup": "nothing was queued: the host loaded modules or created contexts, which it does once",
    "unknown": "the call that launched the work after the gap isn't known, or nothing says why it began late, as in a "
    "pause longer than all that was recorded",
}

#: What people read instead of the name of a cause.
SPOKEN = {
    "host late": "launch-bound",
    "host synchronised": "sync point",
    "dependency": "blocked work",
    "launch overhead": "launch latency",
    "queued before the recording": "launched before profiling",
    "setup": "one-time set-up",
}

#: What people read instead of what the host was in.
SPOKEN_HOST = {LAUNCH_DELAY: "launch latency"}
LATE, SYNCHRONISED, DEPENDENCY, OVERHEAD, NODES, BEFORE, LOST, SETUP, UNKNOWN = range(len(CAUSES))

#: Causes that depend on what the host does, and the cause before work that no gap is before.
BY_HOST, NO_GAP = (LATE, SYNCHRONISED), -1

#: What users are told about work that isn't there, by cause.
NOTES = {
    BEFORE: "Launched before profiling: the device worked, but the trace lacks this work.",
    LOST: "Not recorded: the trace lacks work that calls launched, or a filter leaves it out; it may have run then.",
}

#: A call without work has lost it if at least this part of the calls of its name has work.
_MOSTLY = 0.75

#: Calls that return when work is done. Copies whose name ends in Async return then, too, if memory is pageable.
_WAITS = re.compile(
    r"[a-z]\w*Synchronize|(cuda|cu|hip)Memcpy(?!\w*Async)|clFinish|clWaitForEvents|urEventWait|urQueueFinish", re.ASCII
)

#: Calls between which a stream keeps what is launched, instead of running it.
_CAPTURES = re.compile(r"Stream(Begin|End)Capture")

#: What waits for other processes, so that it would have ended no earlier if it had begun earlier (PyTorch's loader).
WAITS_FOR_WORKERS = re.compile(r"_MultiProcessingDataLoaderIter")

#: Calls that set up a context, a module or a library, mostly when they are first made.
SETUP_CALL = re.compile(
    r"(cuda|hip)Free(_v\d+)?$|(cuda|hip)SetDevice|(Module|Library|FatBinary)_?Load|RegisterFat|Ctx_?(Create|Retain)|"
    r"(cu|hip|hsa_)_?[Ii]nit(_v\d+)?$|PrimaryCtx|nvrtcCompile",
    re.A,
)

#: What a host is late with, other than calls and operators themselves, by the name of what it was in. What compiled
#: code runs in is no compilation: files of torchinductor's cache, `CompiledFxGraph`, `triton_heuristics.py: run`.
HOST_CLASSES = {
    "data loading": re.compile(r"data_?loader|dataset|prefetch|collate", re.I),
    "memory allocation": re.compile(
        r"(cuda|cu|hip)\w{0,40}(Malloc|MemAlloc|Free|MemFree|MemCreate|MemMap|HostAlloc|HostRegister)", re.A
    ),
    "loading modules": re.compile(r"(cuda|cu|hip)(Module|Library)(Load|Get)\w*", re.A),
    "compilation": re.compile(
        r"TorchDynamo Cache Lookup|dynamo_timed|recompil|autotun(e|ing)\b|do_bench|benchmark_all_configs|\): compile$|"
        r"\b_?compile_fx(_|\.<|$)|compile_inner|[fb]w_compiler|(?<!end)_compile$|async_compile|codecache|code_generator|"
        r"torch/_dynamo/(convert_frame|symbolic_convert|output_graph|variables|bytecode)|torch/_functorch/\w+/graph_compile|"
        r"torch/_inductor/(graph|scheduler|lowering|ir|codegen|fx_passes|select_algorithm|autotune_process)\b",
        re.I,
    ),
}

#: The first call of a name sets something up if it takes so many ns, the first launch of a kernel loads its module if
#: it takes so many, and either so many times as long as is usual.
_LONG_SETUP, _LONG_LOAD, _TIMES_USUAL = 10_000_000, 1_000_000, 20

#: Calls that create the context if they are the first: those that don't wait, copy, launch or load; and the last time.
_CREATES = re.compile(r"(?:cuda|cu|hip)(?!\w*(?:Synchronize|Mem(?:cpy|set)|Launch|Wait))[A-Z]", re.A)
_LAST = np.iinfo(np.int64).max

_API, _RANGE = KINDS.index("api"), KINDS.index("range")


class Gaps(NamedTuple):
    """The gaps of the devices of one source, as columns.

    `place` is the index of the device (or of another group of work), `before` and `after` the work around the gap,
    `call` the index of the call that launched the work after it, -1 if it isn't known. `launched` is when that call
    returned, clipped to the gap: from there on the work is queued.
    """

    place: Int32
    begin: Int64
    end: Int64
    before: Int64
    after: Int64
    call: Int64
    launched: Int64

    @property
    def length(self) -> Int64:
        """The time of each gap."""
        return self.end - self.begin


def gaps_of(events: Events) -> Gaps:
    """The gaps between the work of each device of a source.

    They add up to the time from the start of its first to the end of its last work in which nothing runs. Work without
    a duration divides no gap.
    """
    return events.once(_of_devices)


def _of_devices(_: Work, events: Events) -> Gaps:
    begin, end, before, after = _gaps(events, events.by_device)
    place = events.places[0][after]
    call = events.call[after]
    ts, dur = events.calls["ts"], events.calls["dur"]
    launched = end.copy()
    called = np.flatnonzero(call >= 0)
    returned = ts[call[called]] + np.maximum(dur[call[called]], 0)
    launched[called] = np.clip(returned, begin[called], end[called])
    return Gaps(place, begin, end, before, after, call, launched)


def _gaps(events: Events, rows: Int64) -> tuple[Int64, Int64, Int64, Int64]:
    """Begin, end, work before and work after of each gap between these rows, which are sorted by device and time."""
    place, ts = events.places[0][rows], events.ts[rows]
    end = ts + events.dur[rows]
    lasts = end > ts
    if not lasts.all():
        lasts |= _bounds_device(place, end)
        rows, place, ts, end = rows[lasts], place[lasts], ts[lasts], end[lasts]
    reached = greatest_so_far(end, (place,))
    after = np.flatnonzero((ts[1:] > reached[:-1]) & (place[1:] == place[:-1])) + 1
    longest = np.maximum.accumulate(np.where(end == reached, np.arange(len(end)), 0))
    return reached[after - 1], ts[after], rows[longest[after - 1]], rows[after]


def _bounds_device(place: Int32, end: Int64) -> Bools:
    """Which rows, sorted by device and time, are the first of a device, or the first that ends as the last one does."""
    first = group_start_mask((place,))
    most = np.maximum.reduceat(end, np.flatnonzero(first))[np.cumsum(first) - 1] if len(end) else end
    latest = np.flatnonzero(end == most)
    first[latest[group_start_mask((place[latest],))]] = True
    return first


class Pause(NamedTuple):
    """A time in which neither devices nor host did anything, between two parts of a source that last so many ns."""

    begin: int
    end: int
    before: int
    after: int

    @property
    def length(self) -> int:
        """Its time."""
        return self.end - self.begin


#: In a shorter time without a call, in ns, the host runs code of its own.
_PAUSE = 10_000_000


def pause_of(events: Events) -> Pause | None:
    """The pause of a source that is longer than all that was recorded before and after it together, if there is one."""
    return events.once(_pause)


def silence_of(events: Events) -> Pause | None:
    """As `pause_of`, but a range that isn't a step and stays open throughout, such as one of all of a program, counts
    as nothing that was recorded then.
    """
    return events.once(_silence)


def _silence(work: Work, events: Events) -> Pause | None:
    return _pause(work, events, through=True)


def _pause(work: Work, events: Events, through: bool = False) -> Pause | None:
    gaps, ends = gaps_of(events), events.ts + events.dur
    longest = int(gaps.length.argmax()) if len(gaps.begin) else -1
    if longest < 0 or gaps.length[longest] < max(_PAUSE, (int(ends.max()) - int(events.ts.min())) // 2):
        return None
    begin, end = int(gaps.begin[longest]), int(gaps.end[longest])
    spans = work.gathered.spans.for_source(events.source)
    since, until = spans["ts"], spans["ts"] + np.maximum(spans["dur"], 0)
    if through:
        is_step = work.gathered.spans.named(_is_step)[spans["name"]]
        kept = ~((spans["kind"] == _RANGE) & (since <= begin) & (until >= end) & ~is_step)
        since, until = since[kept], until[kept]
    ts, done = np.concatenate([events.ts, since]), np.concatenate([ends, until])
    inside = (done > begin) & (ts < end)
    begins, closes = np.maximum(ts[inside], begin), np.minimum(np.maximum(done, ts + 1)[inside], end)
    there = Intervals.union(np.concatenate([[begin - 1], begins, [end]]), np.concatenate([[begin], closes, [end + 1]]))
    if len(there.begin) < 2:
        return None
    place, (first, last) = int(there.gaps().argmax()), work.gathered.spans_of[events.source]
    since, until = int(there.end[place]), int(there.begin[place + 1])
    pause = Pause(since, until, since - first, last - until)
    return pause if pause.length > max(_PAUSE, pause.before + pause.after) else None


def _is_step(name: str) -> bool:
    return step_of(name) is not None


def causes_of(events: Events) -> tuple[Int8, HostActivity]:
    """The cause of each gap of `gaps_of`, an index of CAUSES, and what the host did in those that it decided."""
    return events.once(_causes)


def _causes(work: Work, events: Events) -> tuple[Int8, HostActivity]:
    gaps, launching = gaps_of(events), launching_of(events)
    cause = np.full(len(gaps.begin), UNKNOWN, np.int8)
    launched = np.flatnonzero(gaps.call >= 0)
    began = events.calls["ts"][gaps.call[launched]] <= gaps.begin[launched]
    late = gaps.launched[launched] - gaps.begin[launched]
    queued = gaps.end[launched] - gaps.launched[launched]
    waited = (queued > late) & (queued > launching.limit[gaps.after[launched]])
    short = began & (late <= launching.usual[gaps.place[launched]]) & ~waited
    word = np.where(launching.may_wait[gaps.after[launched]], DEPENDENCY, UNKNOWN)
    cause[launched] = np.select([short, waited], [np.full(len(launched), OVERHEAD), word], LATE)
    cause[launching.is_inner[gaps.after] & np.isin(cause, (OVERHEAD, DEPENDENCY, UNKNOWN))] = NODES
    cause[launched[_lost_before(gaps, work, events, launching)[launched]]] = LOST
    by_host = np.zeros(len(gaps.begin), np.bool_)  # the launching call begins in the gap, and takes most of it
    by_host[launched] = ~began & (late > queued)
    cause[launching.unseen[gaps.after] & ~by_host] = BEFORE
    late_launches = launched[(cause[launched] == LATE)]
    meanwhile = HostActivity(work.gathered, events, gaps, late_launches)
    anew = late_launches[events.calls["ts"][gaps.call[late_launches]] > gaps.begin[late_launches]]
    waited = np.maximum(_in_a_wait(anew, meanwhile), _after_its_copy(anew, gaps, events))
    waited = np.maximum(waited, _after_another_thread(anew, meanwhile, gaps, work, events))
    late = (gaps.launched - gaps.begin)[anew]
    cause[anew[(waited >= late) & (2 * _for_workers(anew, meanwhile) <= late)]] = SYNCHRONISED
    late_launches = late_launches[cause[late_launches] == LATE]
    setting_up = _in_setup(late_launches, meanwhile, work, events)
    cause[late_launches[2 * setting_up > (gaps.launched - gaps.begin)[late_launches]]] = SETUP
    if (pause := pause_of(events)) is not None:  # nothing tells that the host ran
        cause[(cause == LATE) & (gaps.begin <= pause.begin) & (gaps.end >= pause.end)] = UNKNOWN
    for since, until in events.once(_between_windows):
        inside = np.minimum(gaps.end, until) - np.maximum(gaps.begin, since)
        cause[(2 * inside > gaps.length) & np.isin(cause, (LATE, SYNCHRONISED, UNKNOWN))] = LOST
    return cause, meanwhile


#: So many steps show how they are numbered.
_NUMBERED = 4


def _between_windows(work: Work, events: Events) -> list[tuple[int, int]]:
    """The times between parts of a recording: after some step, where the next ones are missing and nothing begins."""
    marks, names = work.gathered.marks.for_source(events.source), work.gathered.steps
    loops = Counter(series_of(name) for name in names if name is not None).most_common(1)
    number = [None if name is None or series_of(name) != loops[0][0] else step_of(name) for name in names]
    rows = np.flatnonzero(np.array([one is not None for one in number], np.bool_)[marks["meaning"]])
    steps: dict[int | None, tuple[int, int]] = {}
    for mark, since, dur in zip(*(marks[column][rows].tolist() for column in ("meaning", "ts", "dur")), strict=True):
        first, last = steps.get(number[mark], (since, since))
        steps[number[mark]] = min(first, since), max(last, since + max(dur, 0))
    numbers = sorted(one for one in steps if one is not None)
    after = [(one, other) for one, other in pairwise(numbers) if other - one > 1]
    if len(numbers) < _NUMBERED or not after or 2 * len(after) >= len(numbers) - 1:
        return []
    begins = np.sort(work.gathered.spans.for_source(events.source)["ts"])
    pauses = [(steps[one][1], steps[other][0]) for one, other in after]
    return [
        (since, until)
        for since, until in pauses
        if since < until and np.searchsorted(begins, since, "right") == np.searchsorted(begins, until, "left")
    ]


def _in_setup(which: Int64, meanwhile: HostActivity, work: Work, events: Events) -> Int64:
    """How long the launching thread set something up in each gap."""
    rows = np.flatnonzero(np.append(calls_of_setup(work, events), False)[meanwhile.row])
    times = np.zeros(len(meanwhile.first), np.int64)
    np.add.at(times, meanwhile.gap[rows], meanwhile.time[rows])
    setup_time: Int64 = times[which]
    return setup_time


def calls_of_setup(work: Work, events: Events) -> Bools:
    """Which spans of a source set something up.

    These are calls that do nothing else, and those that are far longer than others of their name, and are the first of
    these, or launch the first work of a kernel. The first call of all creates the context, if no work runs before its
    end: `cudaMalloc` takes 1.2 s then.
    """
    spans = work.gathered.spans.for_source(events.source)
    name, dur = spans["name"], spans["dur"]
    loading = np.zeros(len(name) + 1, np.bool_)
    loading[_spans_of_calls(_first_launches(work, events), events, work.gathered)] = True
    once, is_long = np.zeros(len(name), np.bool_), (spans["kind"] == _API) & (dur >= _LONG_LOAD)
    for one in np.unique(name[is_long]).tolist():
        alike = np.flatnonzero(name == one)
        far_longer = alike[is_long[alike] & (dur[alike] >= _TIMES_USUAL * np.median(dur[alike]))]
        is_first = (spans["ts"][far_longer] == spans["ts"][alike].min()) & (dur[far_longer] >= _LONG_SETUP)
        once[far_longer] = is_first | loading[far_longer]
    calls = np.flatnonzero(spans["kind"] == _API)
    first = calls[np.argmin(spans["ts"][calls])] if len(calls) else 0
    if (
        len(calls)
        and dur[first] >= _LONG_SETUP
        and int(spans["ts"][first] + dur[first]) <= int(events.ts.min(initial=_LAST))
    ):
        once[first] |= work.gathered.spans.named(_CREATES.match)[name[first]]
    once |= work.gathered.spans.named(SETUP_CALL.search)[name]
    return once


def _first_launches(work: Work, events: Events) -> Int64:
    """The calls that launched the first work of each kernel, without those that aren't known."""
    rows = np.flatnonzero((events.call >= 0) & (events.roles != COPY))
    if np.any(np.diff(events.ts[rows]) < 0):
        rows = rows[np.argsort(events.ts[rows], kind="stable")]
    number, names = work.by_shape(_name)
    first = np.full(len(names), -1, np.int64)
    first[number[events.shape[rows[::-1]]]] = events.call[rows[::-1]]
    return first[first >= 0]


def _name(shape: Shape) -> object:
    return shape["name"]


def _lost_before(gaps: Gaps, work: Work, events: Events, launching: Launching) -> Bools:
    """In which gaps work that the trace lacks may have run: between the calls of the work around it, one lost its.

    If some work names no call, calls without work may be its own, and tell nothing.
    """
    calls, (name, has_work) = events.calls, events.once(_named_calls)
    mostly = _with_work(name, has_work, np.ones(len(name), np.bool_))
    lost = np.sort(calls["ts"][~has_work & (name >= 0) & mostly & (calls["correlation"] != 0)])
    if not len(lost) or not events.is_correlated:
        return np.zeros(len(gaps.begin), np.bool_)
    since = launching.called[gaps.before]
    until = np.where(gaps.call >= 0, calls["ts"][gaps.call], gaps.begin)
    may_lack: Bools = np.searchsorted(lost, until, "left") > np.searchsorted(lost, since, "right")
    return may_lack


def _named_calls(work: Work, events: Events) -> tuple[Int32, Bools]:
    """The name of each call as an index of `Spans.names`, and whether it launched work that is there."""
    has_work = np.zeros(len(events.calls["ts"]), np.bool_)
    has_work[events.call[events.call >= 0]] = True
    return names_of_calls(np.arange(len(has_work)), events, work.gathered), has_work


def _with_work(name: Int32, has_work: Bools, among: Bools) -> Bools:
    """Which calls have a name of which most calls `among` these have work."""
    every, with_work = (
        np.bincount(name[rows] + 1, minlength=name.max(initial=0) + 2) for rows in (among, among & has_work)
    )
    mostly: Bools = ((with_work > 0) & (with_work >= _MOSTLY * every))[name + 1]
    return mostly


def queued_at_end(events: Events) -> int:
    """How many launches come after all whose work is there: theirs was still queued when the recording ended."""
    return events.once(_queued_at_end)


def _queued_at_end(work: Work, events: Events) -> int:
    calls, (name, has_work) = events.calls, events.once(_named_calls)
    if not has_work.any() or not events.is_correlated:
        return 0
    later = calls["ts"] > calls["ts"][has_work].max()
    spans, is_capture = work.gathered.spans.for_source(events.source), work.gathered.spans.named(_CAPTURES.search)
    if np.any(is_capture[spans["name"]] & (spans["ts"] > calls["ts"][has_work].max())):
        return 0  # what is captured into a graph runs later, or never
    queued = later & _with_work(name, has_work, ~later) & (name >= 0) & (calls["correlation"] != 0)
    return int(np.count_nonzero(queued))


def _for_workers(which: Int64, meanwhile: HostActivity) -> Int64:
    """How long the launching thread waited for other processes in each gap."""
    waits = meanwhile.named(WAITS_FOR_WORKERS.search)
    rows = np.flatnonzero(waits[meanwhile.name])
    times = np.zeros(len(meanwhile.first), np.int64)
    np.add.at(times, meanwhile.gap[rows], meanwhile.time[rows])
    waited: Int64 = times[which]
    return waited


def _in_a_wait(which: Int64, meanwhile: HostActivity) -> Int64:
    """The duration of the wait for a device in which the launching thread was when each gap began, -1 if in none.

    Waits that follow in the gap, such as for another device, count besides.
    """
    in_wait = meanwhile.named(_WAITS.match)[meanwhile.name] & (meanwhile.kind == _API)
    first = meanwhile.first[which]
    there = first >= 0
    there[there] = in_wait[first[there]]
    wait_dur = np.full(len(which), -1, np.int64)
    begun = first[there]
    begun_in, later = np.full(len(meanwhile.first), -1, np.int64), np.zeros(len(meanwhile.first), np.int64)
    begun_in[which[there]] = meanwhile.row[begun]
    in_wait &= meanwhile.row != begun_in[meanwhile.gap]
    np.add.at(later, meanwhile.gap[in_wait], meanwhile.time[in_wait])
    wait_dur[there] = meanwhile.dur[begun] + later[which[there]]
    return wait_dur


def _after_another_thread(which: Int64, meanwhile: HostActivity, gaps: Gaps, work: Work, events: Events) -> Int64:
    """The duration of the wait of another thread of the process in which each gap began, -1 if there is none.

    It counts if the launching thread was in no call and no operator until then, as that of autograd between two steps.
    """
    spans = work.gathered.spans.for_source(events.source)
    wait_dur = np.full(len(which), -1, np.int64)
    rows = waits_among(spans, work.gathered)
    if not len(which) or not len(rows):
        return wait_dur
    begin = gaps.begin[which]
    last = latest(rows, spans, begin)
    thread = events.calls["thread"][gaps.call[which]]
    end = spans["ts"][last] + spans["dur"][last]
    # for how long from the start of each gap the launching thread was in no call and no operator
    total = np.concatenate([[0], np.cumsum(meanwhile.time)])
    busy = np.append(np.flatnonzero((meanwhile.kind >= 0) & (meanwhile.kind != _RANGE)), len(meanwhile.time))
    first = meanwhile.first[which]
    in_span = first >= 0
    time = np.zeros(len(which), np.int64)
    time[in_span] = total[busy[np.searchsorted(busy, first[in_span])]] - total[first[in_span]]
    runs = (last >= 0) & (end >= begin) & (end <= begin + time)
    runs &= work.processes[spans["thread"][last]] == work.processes[thread]
    wait_dur[runs] = spans["dur"][last[runs]]
    return wait_dur


def waits_among(spans: Mapping[str, Any], gathered: WorkInput) -> Int64:
    """The spans of a source that are calls which wait for a device, by the time they begin."""
    rows = np.flatnonzero(gathered.spans.named(_WAITS.match)[spans["name"]] & (spans["kind"] == _API))
    return rows[np.argsort(spans["ts"][rows], kind="stable")]


def latest(rows: Int64, spans: Mapping[str, Any], at: Int64) -> Int64:
    """The last of these spans (by the time they begin) that has begun at each time, -1 if none has."""
    last: Int64 = np.append(-1, rows)[np.searchsorted(spans["ts"][rows], at, "right")]
    return last


def _after_its_copy(which: Int64, gaps: Gaps, events: Events) -> Int64:
    """The duration of the call of a copy with whose end each gap began while the call still ran, on the same thread."""
    calls, before = events.calls, events.call[gaps.before[which]]
    copied = np.flatnonzero((before >= 0) & (events.roles[gaps.before[which]] == COPY))
    copies, rows = before[copied], which[copied]
    runs = (calls["ts"][copies] + calls["dur"][copies] >= gaps.begin[rows]) & (
        calls["thread"][copies] == calls["thread"][gaps.call[rows]]
    )
    copy_dur = np.full(len(which), -1, np.int64)
    copy_dur[copied[runs]] = calls["dur"][copies[runs]]
    return copy_dur


def names_of_calls(call: Int64, events: Events, gathered: WorkInput) -> Int32:
    """The index in `Spans.names` of each of these calls, -1 for the call -1."""
    row = _spans_of_calls(call, events, gathered)
    name_ids: Int32 = np.append(gathered.spans.for_source(events.source)["name"], np.int32(-1))[row]
    return name_ids


def _spans_of_calls(call: Int64, events: Events, gathered: WorkInput) -> Int64:
    """The row of each of these calls in `Spans`, -1 for the call -1."""
    rows = np.full(len(call), -1, np.int64)
    there = np.flatnonzero(call >= 0)
    if len(there):
        ids = gathered.spans.for_source(events.source)["id"]
        order = np.argsort(ids, kind="stable")
        at = positions(events.calls["id"][call[there]], ids[order])
        rows[there[at >= 0]] = order[at[at >= 0]]
    return rows
