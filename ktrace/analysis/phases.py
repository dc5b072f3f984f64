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
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ktrace.analysis.work.device_work import Events, Work, track_of_device
from ktrace.analysis.work.durations import COMPUTE, parts_of, spread
from ktrace.analysis.work.groups import Spread
from ktrace.analysis.work.launching import launching_of
from ktrace.analysis.work.occurrences import OF_STEP, MarkedRanges, Occurrences, passes_of_generate, spans_on_device
from ktrace.analysis.work.question import Answer, Explanation, Labels
from ktrace.analysis.work.spans import innermost
from ktrace.model.arrays import Bools, Int32, Int64
from ktrace.model.batch import Batch, arrow_schema
from ktrace.naming.phases import DECODE, LOOP, PHASES, PREFILL, Phase
from ktrace.store import Spill
from ktrace.tables.figures import Cell, Column, Table, percent

#: The columns of the model that it looks at: those of any summary.
COLUMNS: frozenset[str] = frozenset()


def questions(names: Sequence[str], spill: Spill) -> Explanation:
    """The questions where the time of the phases, and of batches, went: "phase", "batch"."""
    return Phases(names)


@dataclass(frozen=True)
class PhaseUse:
    """The steps of a phase, or those with one batch size.

    `time` adds up the `times` of the steps (rising): from where the devices come to a step to the end of its work, or
    of its annotation; `span` and `busy` add up that of each device, and the part of it in which it does work of the
    step. `kernels` counts the kernels. `context` and `generation` are requests whose prompts are read, and that
    generate; `context_tokens` and `generation_tokens` are those that are computed for them; None if a step doesn't say.
    `per_token` is how long a request that generates waits for each token: from the start of a step that generates to
    that of the next one on its thread, whatever runs in between; None where steps yield several tokens, or none.
    """

    phase: str
    batch: int | None
    time: int
    times: Int64 = field(repr=False, compare=False)
    span: int
    busy: int
    kernels: int
    step: Spread
    per_token: Spread | None = None
    context: int | None = None
    context_tokens: int | None = None
    generation: int | None = None
    generation_tokens: int | None = None
    tokens: int | None = None

    @property
    def steps(self) -> int:
        """The number of steps."""
        return len(self.times)

    @property
    def idle(self) -> int:
        """The time of all devices in steps without work of the step."""
        return self.span - self.busy

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens that are computed in a second of these steps."""
        return None if self.tokens is None or not self.time else self.tokens / self.time * 1e9


_Figure = Callable[[PhaseUse, int], Cell]

#: The columns, and the figure of each; those that are brief are shown in a terminal.
_COMMON: tuple[tuple[Column, _Figure], ...] = (
    (Column("steps", "count"), lambda use, _: use.steps),
    (Column("time", "ns"), lambda use, _: use.time),
    (Column("share", "%"), lambda use, whole: percent(use.time, whole)),
    (Column("busy", "%"), lambda use, _: percent(use.busy, use.span)),
    (Column("kernels", "count"), lambda use, _: use.kernels),
    (Column("tokens", "count"), lambda use, _: use.tokens),
    (Column("tokens per s", "count"), lambda use, _: _rounded(use.tokens_per_s)),
    (Column("step median", "ns"), lambda use, _: use.step.median),
    (Column("step p95", "ns"), lambda use, _: use.step.p95),
    (Column("step max", "ns"), lambda use, _: use.step.max),
    (Column("per token", "ns"), lambda use, _: use.per_token.median if use.per_token else None),
    (Column("per token p95", "ns"), lambda use, _: use.per_token.p95 if use.per_token else None),
    (Column("idle", "ns"), lambda use, _: use.idle),
    (Column("context requests", "count"), lambda use, _: use.context),
    (Column("context tokens", "count"), lambda use, _: use.context_tokens),
    (Column("generation requests", "count"), lambda use, _: use.generation),
    (Column("generation tokens", "count"), lambda use, _: use.generation_tokens),
)
_BRIEF = ("steps", "time", "share", "busy", "kernels", "tokens per s", "step median", "per token")
_BRIEF_BATCHES = ("steps", "step median", "step p95", "tokens per s", "per token", "per token p95")


@dataclass
class PhasesAnswer:
    """Where the time of the phases of inference went: by `phases`, and by `batches` within each phase.

    `by` is what was asked for: "phase", or "batch" for the batches alone.
    """

    by: str
    phases: list[PhaseUse]
    batches: list[PhaseUse]
    notes: list[str] = field(default_factory=list)

    def tables(self, top: int | None = None, *, brief: bool = False) -> list[Table]:
        """The table of phases, or that of batches with at most `top` rows."""
        names: Sequence[str] = _BRIEF if brief else [column.name for column, _ in _COMMON]
        if self.by == "batch":
            names = _BRIEF_BATCHES if brief else names
            return [self._table("batch", "batches", ("batch",), names, self.batches, top, self.notes)]
        return [self._table("phase", "phases", (), names, self.phases, None, self.notes)]

    def _table(
        self,
        name: str,
        title: str,
        keys: Sequence[str],
        names: Sequence[str],
        uses: Sequence[PhaseUse],
        top: int | None,
        notes: list[str],
    ) -> Table:
        whole = sum(use.time for use in uses)
        columns = [one for one in _COMMON if one[0].name in names]
        heads = (Column("phase"), *(Column(key, "count") for key in keys), *(column for column, _ in columns))
        rows: list[tuple[Cell, ...]] = [
            (use.phase, *(getattr(use, key) for key in keys), *(figure(use, whole) for _, figure in columns))
            for use in uses[:top]
        ]
        return Table(name, title, heads, rows, notes, len(uses) - len(rows))


def _rounded(figure: float | None) -> float | None:
    """A rate with as many digits as it deserves."""
    return None if figure is None else round(figure) if figure >= 100 else round(figure, 2)


#: The text key of the track of `--explain phase`.
TRACK = "phase"


class Steps(NamedTuple):
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
        """The answer, if annotations state phases."""
        known = _phases(work)
        found = [steps for _, steps in _all_steps(work, known)]
        if not found:
            return {}
        phases, batches = _added_up(found, known)
        notes = _notes(found, known, work)
        return {name: PhasesAnswer(name, phases, batches, notes) for name in self._names}


def _phases(work: Work) -> dict[Phase, int]:
    """The phases that annotations state, or that generate() has, numbered."""
    meanings = work.gathered.meanings
    found = dict.fromkeys(meaning.phase for meaning in meanings if meaning.phase is not None)
    found |= dict.fromkeys(_GENERATED if any(meaning.generate == LOOP for meaning in meanings) else ())
    return {phase: number for number, phase in enumerate(found)}


#: The phases of generate(), by the label of a pass.
_GENERATED = (Phase(PREFILL), Phase(DECODE))


def _all_steps(work: Work, known: dict[Phase, int]) -> Iterator[tuple[Events, Steps]]:
    """Yields the work and the steps of each source that has steps of phases."""
    if not known:
        return
    number = np.array([known[one.phase] if one.phase is not None else -1 for one in work.gathered.meanings], np.int32)
    part = [-1 if one.generate is None else one.generate for one in work.gathered.meanings]
    generated = np.array([known.get(phase, -1) for phase in _GENERATED], np.int32)
    occurrences = Occurrences(work)
    kernel = work.by_shape(lambda shape: shape["kind"] == "kernel")
    is_kernel = np.array(kernel[1], np.bool_)[kernel[0]]
    for source in dict.fromkeys([*occurrences.sources, *work.rows.sources]):
        ranges = _outermost(occurrences.ranges(source, number), occurrences, list(known))
        if not len(ranges.label) and LOOP in part:
            ranges = passes_of_generate(occurrences.ranges(source, np.array(part, np.int32)))
            ranges = ranges._replace(label=generated[ranges.label])
        if len(ranges.label):
            events = work.of(source)
            yield events, _steps(work, events, ranges, occurrences, is_kernel)


def _outermost(ranges: MarkedRanges, occurrences: Occurrences, phases: Sequence[Phase]) -> MarkedRanges:
    """The steps among these ranges: those on the host, if there are any, that state requests, if any do."""
    on_host = ~occurrences.is_device[ranges.track]
    ranges = ranges.where(on_host) if on_host.any() else ranges
    stated = np.array([phases[label].batch is not None for label in ranges.label.tolist()], np.bool_)
    ranges = ranges.where(stated) if stated.any() else ranges
    ranges = ranges.where(innermost(ranges.track, ranges.begin, ranges.end) < 0)
    return ranges.where(np.lexsort((ranges.track, ranges.begin)))


def _steps(work: Work, events: Events, ranges: MarkedRanges, occurrences: Occurrences, is_kernel: Bools) -> Steps:
    """The steps of a source; what the host does instead of devices isn't work of theirs."""
    count = len(ranges.label)
    occurrence = occurrences.find(events, ranges, OF_STEP) if work.is_on_devices else np.full(len(events), -1, np.int32)
    device, devices = events.places
    since, span, busy = np.zeros((3, len(devices), count), np.int64)
    cut = np.zeros(count, np.bool_)
    end, unseen = events.ts + events.dur, launching_of(events).unseen
    for place in range(len(devices)):
        mine = (device == place) & (occurrence >= 0)
        own, begins, ends, roles = occurrence[mine].astype(np.int64), events.ts[mine], end[mine], events.roles[mine]
        outside = (device == place) & (occurrence < 0) & (events.roles == COMPUTE)
        whole = spans_on_device(ranges, own, (begins, ends), roles, (events.ts[outside], end[outside]))
        since[place], span[place] = _from(events.ts[unseen & (device == place)], whole)
        cut |= span[place] < whole[1]
        inside = np.minimum(np.maximum(begins, since[place][own]), ends)
        busy[place] = parts_of(own, count, inside, ends, roles)[:, 0]
    kernels = np.bincount(occurrence[(occurrence >= 0) & is_kernel[events.shape]], minlength=count)
    longest = span.argmax(axis=0) if len(devices) else np.zeros(count, np.int64)
    each = np.arange(count)
    time = span[longest, each] if len(devices) else np.zeros(count, np.int64)
    begin = np.where(time > 0, since[longest, each], ranges.begin) if len(devices) else ranges.begin
    time = np.where(time > 0, time, ranges.end - ranges.begin)
    columns = (ranges.label, ranges.track, since, span, busy, time, begin, kernels.astype(np.int64))
    return Steps(*columns, int(cut.sum()), occurrence)


def _from(unseen: Int64, spans: tuple[Int64, Int64]) -> tuple[Int64, Int64]:
    """The spans of steps, from where the device begins with what is recorded.

    Until the last of the work that is `unseen` before (its starts) the device was at what the trace lacks.
    """
    since, span = spans
    begun = np.clip(unseen.max(initial=np.iinfo(np.int64).min), since, since + span)
    return np.where(span > 0, begun, since), np.where(span > 0, since + span - begun, span)


def _added_up(found: Sequence[Steps], known: dict[Phase, int]) -> tuple[list[PhaseUse], list[PhaseUse]]:
    """The use of each phase, and that of each batch size in it."""
    phases = list(known)
    label, time, span, busy, kernels = (
        np.concatenate(parts)
        for parts in zip(
            *((one.label, one.time, one.span.sum(0), one.busy.sum(0), one.kernels) for one in found), strict=True
        )
    )
    waits = np.concatenate([_per_token(one, phases) for one in found])
    groups: dict[tuple[str, int | None], list[int]] = {}
    for row, number in enumerate(label.tolist()):
        phase = phases[number]
        groups.setdefault((phase.phase, phase.batch), []).append(row)

    def use(phase: str, batch: int | None, rows: Sequence[int]) -> PhaseUse:
        mine = np.array(rows)
        stated = [phases[number] for number in label[mine].tolist()]
        times, waited = np.sort(time[mine]), waits[mine]
        step = spread(times)
        assert step is not None
        return PhaseUse(
            phase,
            batch,
            int(times.sum()),
            times,
            int(span[mine].sum()),
            int(busy[mine].sum()),
            int(kernels[mine].sum()),
            step=step,
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
    known = list(numbers)
    return None if None in known else sum(number for number in known if number is not None)


def _per_token(steps: Steps, phases: Sequence[Phase]) -> Int64:
    """How long requests wait for the token of each step, -1 where it yields none, or several to a request."""
    stated = [phases[number] for number in steps.label.tolist()]
    generates = np.array([bool(one.generation) for one in stated], np.bool_)
    one_each = np.array([one.generation == one.generation_tokens for one in stated], np.bool_) & generates
    found = np.full(len(stated), -1, np.int64)
    for track in np.unique(steps.track).tolist():
        rows = np.flatnonzero((steps.track == track) & generates)
        rows = rows[np.argsort(steps.begin[rows], kind="stable")]
        found[rows] = np.append(np.diff(steps.begin[rows]), steps.time[rows[-1:]])
    return np.where(one_each, found, -1)


def _notes(found: Sequence[Steps], known: dict[Phase, int], work: Work) -> list[str]:
    """What the figures lack, or mean."""
    notes, phases = [], list(known)
    if len(found) > 1:
        notes.append(f"Steps and tokens count in each of {len(found):,} sources.")
    stated = [phases[number] for steps in found for number in steps.label.tolist()]
    several = sum(bool(one.generation) and one.generation != one.generation_tokens for one in stated)
    if several:
        notes.append(
            f"Per token leaves out {several:,} steps that compute several tokens for a request, or don't say how many."
        )
    if any(steps.cut for steps in found):
        notes.append("The first step counts from the work that is recorded: what was queued before isn't in the trace.")
    if work.is_on_devices and len(work):
        outside = sum(int(events.dur[steps.occurrence < 0].sum()) for events, steps in _all_steps(work, known))
        whole = sum(int(events.dur.sum()) for events in work.each())
        if outside and (share := percent(outside, whole)) is not None:
            notes.append(f"{share:.1f}% of the device time is launched in no step of a phase.")
    return notes


def slices(work: Work) -> Iterator[pa.RecordBatch]:
    """Yields the steps of phases of each source, on a track of each device."""
    known = _phases(work)
    phases = list(known)
    for events, steps in _all_steps(work, known):
        for place, device in enumerate(events.places[1].tolist()):
            rows = np.flatnonzero(steps.span[place] > 0)
            rows = rows[np.argsort(steps.since[place][rows], kind="stable")]
            if len(rows):
                yield _slices(work, events.source, device, steps, place, rows, phases)


def _slices(
    work: Work, source: str, device: int, steps: Steps, place: int, rows: Int64, phases: Sequence[Phase]
) -> pa.RecordBatch:
    schema = arrow_schema("events")
    stated = [phases[number] for number in steps.label[rows].tolist()]
    track = track_of_device(work, source, device, TRACK)
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
    return pa.RecordBatch.from_pydict(columns)
