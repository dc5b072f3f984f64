"""The phases of inference: how long prefill, decode and mixed batches take, by batch size, and what they yield.

The questions of `ktrace summary --by phase` and `--by batch`, of the steps that annotations state; the steps as slices
for `--explain phase`:

    thread 4242   [ execute_context_2(8192)_generation_30(30) ][ execute_context_0(0)_generation_32(32) ]
    stream 7                  [ gemm ][ attention ][ gemm ]                [ gemm ][ attention ] ...
    time                      mixed, 32 requests                           decode, 32 requests

Where annotations are nested, as SGLang's within those of a profiler, the outermost counts; one that says nothing but
"decode" doesn't count beside others that state requests. Where there are none, the passes of Hugging Face's generate()
are steps, if the trace has Python stacks. The answer, in ns:

PhasesAnswer
  phases    PhaseUse("decode", steps 28, time 312 ms, busy 301 ms, tokens 896, ...)
  batches   PhaseUse("decode", batch 32, steps 28, ...)

Where nothing states phases, only what repeats is said: the longest run of the same kernels in the same order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ktrace.analysis.questions.phases.answer import PhasesAnswer, PhaseUse
from ktrace.analysis.work.device_work import Events, Shape, Work, track_of_device
from ktrace.analysis.work.durations import COMPUTE, by_group, parts_of, spread
from ktrace.analysis.work.launching import launching_of, stream_of
from ktrace.analysis.work.occurrences import OF_STEP, MarkedRanges, Occurrences, passes_of_generate, spans_on_device
from ktrace.analysis.work.question import Answer, Explanation, Labels
from ktrace.analysis.work.spans import innermost
from ktrace.model.arrays import Bools, Int32, Int64
from ktrace.model.batch import Batch, arrow_schema
from ktrace.naming.phases import DECODE, HOW, LOOP, PHASES, PREFILL, Phase
from ktrace.store import Spill
from ktrace.store.joins import each_group
from ktrace.tables import brief, percent

#: The columns of the model that it looks at: those of any summary.
COLUMNS: frozenset[str] = frozenset()


def questions(names: Sequence[str], spill: Spill) -> Explanation:
    """Questions 'phase' and 'batch': where their time went."""
    return Phases(names)


#: The text key of the track of `--explain phase`.
TRACK = "phase"


class PhaseSteps(NamedTuple):
    """The steps of phases in one source, as columns in the order of their annotations.

    `label` is the number of the phase, `track` that of the track. By device of the source (rows) and step (columns):
    `since`, when the device came to the step, `span`, how long it was at it, and the part `busy` with work of the step.
    `time` is the longest span, without device work that of the annotation; `begin` when it began there. `kernels` are
    counted; `cut` is the number of steps of which the device did a part before the recording; `occurrence` is the step
    of each piece of work, -1 for none.
    """

    label: Int32
    track: Int32
    since: Int64
    span: Int64
    busy: Int64
    time: Int64
    begin: Int64
    kernels: Int64
    cut: int
    occurrence: Int32


class Phases:
    """The questions where the time of phases, and of the batches in them, went."""

    spans = True

    def __init__(self, names: Sequence[str]) -> None:
        """`names` are those of the questions: phase, batch."""
        self._names = names

    def see(self, batch: Batch) -> None:
        """Needs nothing else."""

    def explain(self, work: Work, labels: Labels) -> Iterator[pa.RecordBatch]:
        """Yields the steps of phases on a track of each device."""
        return slices(work)

    def answer(self, work: Work, labels: Labels) -> Mapping[str, Answer]:
        """The answer, if annotations state phases; else what repeats, if that is most of the work."""
        numbers = _phases(work)
        steps_of_sources = [steps for _, steps in _all_steps(work, numbers)]
        if not steps_of_sources:
            notes = [f"{NOT_STATED} {says} {HOW}"] if work.is_on_devices and (says := repeated(work)) else []
            return {name: PhasesAnswer(name, [], [], notes) for name in self._names if notes}
        phases, batches = _added_up(steps_of_sources, numbers)
        notes = _notes(steps_of_sources, numbers, work)
        return {name: PhasesAnswer(name, phases, batches, notes) for name in self._names}


def _phases(work: Work) -> dict[Phase, int]:
    """The phases that annotations state, or that generate() has, numbered."""
    meanings = work.gathered.meanings
    phases = dict.fromkeys(meaning.phase for meaning in meanings if meaning.phase is not None)
    phases |= dict.fromkeys(_GENERATED if any(meaning.generate == LOOP for meaning in meanings) else ())
    return {phase: number for number, phase in enumerate(phases)}


#: The phases of generate(), by the label of a pass.
_GENERATED = (Phase(PREFILL), Phase(DECODE))


def _all_steps(work: Work, numbers: dict[Phase, int]) -> Iterator[tuple[Events, PhaseSteps]]:
    """Yields the work and the steps of each source that has steps of phases."""
    if not numbers:
        return
    number = np.array([numbers[one.phase] if one.phase is not None else -1 for one in work.gathered.meanings], np.int32)
    part = [-1 if one.generate is None else one.generate for one in work.gathered.meanings]
    generated = np.array([numbers.get(phase, -1) for phase in _GENERATED], np.int32)
    occurrences = work.once(Occurrences)
    kernel, names = work.by_shape(_kernel)
    is_kernel = np.array([name is not None for name in names], np.bool_)[kernel]
    for source in dict.fromkeys([*occurrences.sources, *work.rows.sources]):
        ranges = _outermost(occurrences.ranges(source, number), occurrences, list(numbers))
        if not len(ranges.label) and LOOP in part:
            ranges = passes_of_generate(occurrences.ranges(source, np.array(part, np.int32)))
            ranges = ranges._replace(label=generated[ranges.label])
        if len(ranges.label):
            events = work.for_source(source)
            yield events, _steps(work, events, ranges, occurrences, is_kernel)


def _outermost(ranges: MarkedRanges, occurrences: Occurrences, phases: Sequence[Phase]) -> MarkedRanges:
    """The steps among these ranges: those on the host, if there are any, that state requests, if any do."""
    on_host = ~occurrences.is_device[ranges.track]
    ranges = ranges.where(on_host) if on_host.any() else ranges
    stated = np.array([phases[label].batch is not None for label in ranges.label.tolist()], np.bool_)
    ranges = ranges.where(stated) if stated.any() else ranges
    ranges = ranges.where(innermost(ranges.track, ranges.begin, ranges.end) < 0)
    return ranges.where(np.lexsort((ranges.track, ranges.begin)))


def _steps(work: Work, events: Events, ranges: MarkedRanges, occurrences: Occurrences, is_kernel: Bools) -> PhaseSteps:
    """The steps of a source; what the host does instead of devices isn't work of theirs."""
    count = len(ranges.label)
    occurrence = occurrences.find(events, ranges, OF_STEP) if work.is_on_devices else np.full(len(events), -1, np.int32)
    device, devices = events.places
    since, span, busy = np.zeros((3, len(devices), count), np.int64)
    cut = np.zeros(count, np.bool_)
    end, unseen = events.ts + events.dur, launching_of(events).unseen
    rows_of = by_group(device, len(devices))
    for place in range(len(devices)):
        rows = rows_of(place)
        in_steps = rows[occurrence[rows] >= 0]
        step = occurrence[in_steps].astype(np.int64)
        begins, ends, roles = events.ts[in_steps], end[in_steps], events.roles[in_steps]
        outside = rows[(occurrence[rows] < 0) & (events.roles[rows] == COMPUTE)]
        whole = spans_on_device(ranges, step, (begins, ends), roles, (events.ts[outside], end[outside]))
        since[place], span[place] = _from(events.ts[rows[unseen[rows]]], whole)
        cut |= span[place] < whole[1]
        inside = np.minimum(np.maximum(begins, since[place][step]), ends)
        busy[place] = parts_of(step, count, inside, ends, roles)[:, 0]
    kernels = np.bincount(occurrence[(occurrence >= 0) & is_kernel[events.shape]], minlength=count)
    longest = span.argmax(axis=0) if len(devices) else np.zeros(count, np.int64)
    each = np.arange(count)
    time = span[longest, each] if len(devices) else np.zeros(count, np.int64)
    begin = np.where(time > 0, since[longest, each], ranges.begin) if len(devices) else ranges.begin
    time = np.where(time > 0, time, ranges.end - ranges.begin)
    columns = (ranges.label, ranges.track, since, span, busy, time, begin, kernels.astype(np.int64))
    return PhaseSteps(*columns, int(cut.sum()), occurrence)


def _from(unseen: Int64, spans: tuple[Int64, Int64]) -> tuple[Int64, Int64]:
    """The spans of steps, from where the device begins with what is recorded.

    Until the last of the work that is `unseen` before (its starts) the device was at what the trace lacks.
    """
    since, span = spans
    begun = np.clip(unseen.max(initial=np.iinfo(np.int64).min), since, since + span)
    return np.where(span > 0, begun, since), np.where(span > 0, since + span - begun, span)


def _added_up(all_steps: Sequence[PhaseSteps], numbers: dict[Phase, int]) -> tuple[list[PhaseUse], list[PhaseUse]]:
    """The use of each phase, and that of each batch size in it."""
    phases = list(numbers)
    label, time, span, busy, kernels = (
        np.concatenate(parts)
        for parts in zip(
            *((one.label, one.time, one.span.sum(0), one.busy.sum(0), one.kernels) for one in all_steps), strict=True
        )
    )
    waits = np.concatenate([_per_token(one, phases) for one in all_steps])
    elapsed = np.concatenate([_until_next(one, np.ones(len(one.label), np.bool_)) for one in all_steps])
    groups: dict[tuple[str, int | None], list[int]] = {}
    for row, number in enumerate(label.tolist()):
        phase = phases[number]
        groups.setdefault((phase.phase, phase.batch), []).append(row)

    def use(phase: str, batch: int | None, rows: Sequence[int]) -> PhaseUse:
        chosen = np.array(rows)
        stated = [phases[number] for number in label[chosen].tolist()]
        times, waited = np.sort(time[chosen]), waits[chosen]
        step = spread(times)
        assert step is not None
        return PhaseUse(
            phase,
            batch,
            int(times.sum()),
            times,
            int(span[chosen].sum()),
            int(busy[chosen].sum()),
            int(kernels[chosen].sum()),
            step=step,
            elapsed=int(elapsed[chosen].sum()),
            per_token=spread(waited[waited >= 0]),
            **{name: _sum(getattr(one, name) for one in stated) for name in _STATED},
        )

    batches = [use(phase, batch, rows) for (phase, batch), rows in groups.items()]
    whole = [
        use(phase, None, [row for (name, _), rows in groups.items() if name == phase for row in rows])
        for phase in PHASES
        if any(name == phase for name, _ in groups)
    ]
    place = {one.phase: number for number, one in enumerate(sorted(whole, key=lambda one: -one.time))}
    order = sorted(batches, key=lambda one: (place[one.phase], one.batch is None, -(one.batch or 0)))
    return sorted(whole, key=lambda one: -one.time), order


#: What annotations state of requests and tokens.
_STATED = ("context", "context_tokens", "generation", "generation_tokens", "tokens")


def _sum(numbers: Iterable[int | None]) -> int | None:
    """The sum, None if any isn't known."""
    values = list(numbers)
    return None if None in values else sum(number for number in values if number is not None)


def _per_token(steps: PhaseSteps, phases: Sequence[Phase]) -> Int64:
    """How long requests wait for the token of each step, -1 where it yields none, or several to a request."""
    stated = [phases[number] for number in steps.label.tolist()]
    generates = np.array([bool(one.generation) for one in stated], np.bool_)
    one_each = np.array([one.generation == one.generation_tokens for one in stated], np.bool_) & generates
    return np.where(one_each, _until_next(steps, generates), -1)


def _until_next(steps: PhaseSteps, chosen: Bools) -> Int64:
    """How long it takes from each of these steps to the next one on its thread, its own time for the last; else -1."""
    until = np.full(len(chosen), -1, np.int64)
    for track in np.unique(steps.track).tolist():
        rows = np.flatnonzero((steps.track == track) & chosen)
        rows = rows[np.argsort(steps.begin[rows], kind="stable")]
        until[rows] = np.append(np.diff(steps.begin[rows]), steps.time[rows[-1:]])
    return until


def _notes(all_steps: Sequence[PhaseSteps], numbers: dict[Phase, int], work: Work) -> list[str]:
    """Notes on what the figures mean or lack."""
    notes, phases = [], list(numbers)
    if len(all_steps) > 1:
        notes.append(f"Steps and tokens are counted in each of {len(all_steps):,} sources.")
    stated = [phases[number] for steps in all_steps for number in steps.label.tolist()]
    several = sum(bool(one.generation) and one.generation != one.generation_tokens for one in stated)
    if several:
        notes.append(
            f"Time per token leaves out {several:,} steps that compute several tokens a request, or don't say how many."
        )
    if any(steps.cut for steps in all_steps):
        notes.append("The first step counts from the work that is recorded: what was queued before isn't in the trace.")
    if work.is_on_devices and len(work):
        outside = sum(int(events.dur[steps.occurrence < 0].sum()) for events, steps in _all_steps(work, numbers))
        whole = sum(int(events.dur.sum()) for events in work.each())
        if outside and (share := percent(outside, whole)) is not None:
            notes.append(f"{share:.1f}% of the device time is launched in no step of a phase.")
    return notes


#: What an answer without phases begins with.
NOT_STATED = "No range in this input names a phase."

#: Fewer kernels, and fewer times, are no repetition.
_LEAST_KERNELS, _LEAST_TIMES = 8, 3

#: So many kernels, the rarest ones, are asked how far apart they are.
_CANDIDATES = 16


def repeated(work: Work) -> str | None:
    """Says which kernels run in the same order again and again, if these take most of the device time."""
    kernel, names = work.by_shape(_kernel)
    is_kernel = np.array([name is not None for name in names], np.bool_)
    stream, _ = work.by_shape(stream_of)
    whole, best = 0, (0, 0, 0, 0)
    for events in work.each():
        whole += int(events.dur.sum())
        every = np.flatnonzero(is_kernel[kernel[events.shape]])
        every = every[np.lexsort((events.ts[every], stream[events.shape[every]]))]
        for stream_rows in each_group((stream[events.shape[every]],)):
            if stream_rows.stop - stream_rows.start < _LEAST_KERNELS * _LEAST_TIMES:
                continue
            rows = every[stream_rows]
            first, length, times = _repetition(kernel[events.shape[rows]])
            rows = rows[first : first + length * times]
            time = int(events.dur[rows].sum())
            if time > best[0]:
                starts: Int64 = events.ts[rows[::length]]
                best = time, length, times, int(np.median(np.diff(starts)))
    time, length, times, distance = best
    if not time or 2 * time < whole:
        return None
    return (
        f"The same {length:,} kernels run in the same order {times:,} times in a row, {100 * time / whole:.1f}% of the "
        f"device time, {brief(distance)} from one to the next: steps look like that, and so do layers of one step."
    )


def _kernel(shape: Shape) -> str | None:
    return shape["name"] if shape["kind"] == "kernel" else None


def _repetition(kernels: Int32) -> tuple[int, int, int]:
    """Where the longest repetition in a sequence of kernels begins, the number of kernels, and how often they occur."""
    best = 0, 0, 0
    kinds, counts = np.unique(kernels, return_counts=True)
    several = counts >= _LEAST_TIMES
    rare = kinds[several][np.argsort(counts[several], kind="stable")][:_CANDIDATES]
    distances = (np.diff(np.flatnonzero(kernels == one)) for one in rare.tolist())
    for length in sorted({int(np.bincount(each).argmax()) for each in distances}):
        same = np.concatenate([[False], kernels[:-length] == kernels[length:], [False]])
        edges = np.flatnonzero(same[1:] != same[:-1])
        begin, runs = edges[::2], edges[1::2] - edges[::2]
        longest = int(runs.argmax()) if len(runs) else 0
        times = 1 + int(runs[longest]) // length if len(runs) else 0
        if length >= _LEAST_KERNELS and times >= _LEAST_TIMES and length * times > best[1] * best[2]:
            best = int(begin[longest]), length, times
    return best


def slices(work: Work) -> Iterator[pa.RecordBatch]:
    """Yields the steps of phases of each source, on a track of each device."""
    numbers = _phases(work)
    phases = list(numbers)
    for events, steps in _all_steps(work, numbers):
        for place, device in enumerate(events.places[1].tolist()):
            rows = np.flatnonzero(steps.span[place] > 0)
            rows = rows[np.argsort(steps.since[place][rows], kind="stable")]
            if len(rows):
                schema = arrow_schema("events")
                stated = [phases[number] for number in steps.label[rows].tolist()]
                track = track_of_device(work, events.source, device, TRACK)
                columns: dict[str, pa.Array] = {
                    name: pa.array([value] * len(rows), schema.field(name).type)
                    for name, value in (*track.items(), ("kind", "range"), ("timing", "derived"))
                    if value is not None
                }
                names = [one.phase if one.batch is None else f"{one.phase}, batch {one.batch:,}" for one in stated]
                columns |= {"ts": pa.array(steps.since[place][rows]), "dur": pa.array(steps.span[place][rows])}
                columns["name"] = pa.array(names, schema.field("name").type)
                for key in ("batch", *_STATED):
                    values = pa.array([getattr(one, key) for one in stated], pa.int64())
                    if values.null_count < len(values):
                        columns[f"args.{key}"] = values
                columns["args.derived_by"] = pa.array(["ktrace"] * len(rows)).dictionary_encode()
                yield pa.RecordBatch.from_pydict(columns)
