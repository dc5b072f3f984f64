"""speedscope's own JSON (github jlfwong/speedscope, src/lib/file-format-spec.ts), as py-spy, rbspy and others write it.

    {"$schema":"https://www.speedscope.app/file-format-schema.json","name":"run","exporter":"py-spy@0.4.1","profiles":[
     {"type":"evented","name":"python3 / thread 4242","unit":"nanoseconds","startValue":0,"endValue":900,"events":[
      {"type":"O","frame":0,"at":10},{"type":"C","frame":0,"at":50}]},
     {"type":"sampled","name":"Thread 4242 \\"MainThread\\"","unit":"seconds","startValue":0,"endValue":0.01,
      "samples":[[0,1]],"weights":[0.01]}],
     "shared":{"frames":[{"name":"aten::mm","file":"model.py","line":7},{"name":"gemm"}]}}

A profile is a thread or a track. Events of ktrace's own profiles nest: slices that overlap without nesting are in a
profile of their own, a lane of the track.

Turns profiles into ranges (evented), samples (sampled), or sums of stacks where the unit isn't one of time.

Writes a timeline as speedscope JSON. The events of each lane wait in temporary files until the end.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple, TypeGuard

import msgspec
import numpy as np
import pyarrow as pa

import ktrace
from ktrace.conversion import Conversion
from ktrace.errors import DamagedInput
from ktrace.input.source import Source, stem
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.stacks import NO_STACK, Stacks, StackSums, frame_text
from ktrace.kit.text.numbers import TIME_NS, to_ns
from ktrace.kit.timelines import track_paths
from ktrace.kit.trace_json.salvage import decode_whole
from ktrace.model.arrays import Bools
from ktrace.model.batch import Batch
from ktrace.model.fitting import shown
from ktrace.model.masks import slice_rows, words_in
from ktrace.model.row_builder import RowBuilder
from ktrace.naming.alike import unique_name
from ktrace.output import Sink
from ktrace.stages.order import Timeline, TimelineBatch
from ktrace.store import SPILL_BYTES, BatchSpool, Spill

_MARK = b"speedscope.app/file-format-schema"
_MEMBERS = (b'"profiles"', b'"shared"', b'"frames"')


def probe(sample: Sample) -> Match | None:
    """MAGIC for a document with the schema's address, which is at its beginning or its end."""
    if sample.head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"{":
        return None
    if _MARK not in sample.head and _MARK not in sample.tail:
        return None
    if any(member in sample.head or member in sample.tail for member in _MEMBERS):
        return Match(Score.MAGIC, "names speedscope's schema")
    return None


_UNITS = {"bytes": "B", "none": None}
_TIMES = {"nanoseconds", "microseconds", "milliseconds", "seconds"}

#: Names of threads by py-spy (src/speedscope.rs), and of processes by rbspy (src/ui/speedscope.rs).
_THREAD = re.compile(r"(?:Process (?P<pid>\d{1,18}) )?Thread (?P<tid>0[xX][0-9a-fA-F]{1,15}|\d{1,18}) \"(?P<name>.*)\"")
_PROCESS = re.compile(r"rbspy profile - pid (?P<pid>\d{1,18})")

#: Numbers are below this.
_LIMIT = 1 << 62

#: Frames of stacks that are held, so that those that come again aren't made again.
_HELD = 1 << 21

#: The name of a frame that has none.
NO_NAME = "[no name]"


class _Frame(NamedTuple):
    """A frame: its name, the same with its place, and what else is said of it."""

    name: str
    text: str
    args: dict[str, Any]


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the rows of all profiles. Raises DamagedInput for anything but a whole document of speedscope."""
    document = _document(source, conversion)
    rows = RowBuilder(conversion)
    _facts(document, rows)
    reading = _Reading(document["shared"]["frames"], rows, conversion)
    for number, profile in enumerate(document["profiles"]):
        for _ in reading.profile(number, profile):
            yield from rows.ready()
    yield from rows.rest()


def _document(source: Source, conversion: Conversion) -> dict[str, Any]:
    document = decode_whole(source, conversion.report, partial(_damaged, source))
    if not isinstance(document, dict) or not isinstance(document.get("profiles"), list):
        raise _damaged(source, "has no list of profiles")
    shared = document.get("shared")
    if not isinstance(shared, dict) or not isinstance(shared.get("frames"), list):
        raise _damaged(source, "has no list of shared frames")
    return document


def _damaged(source: Source, what: str) -> DamagedInput:
    return DamagedInput(
        what,
        path=source.path,
        expected='an object with "profiles" and "shared"',
        remedy="record it again, and let the profiler finish writing",
    )


def _facts(document: dict[str, Any], rows: RowBuilder) -> None:
    facts: dict[str, Any] = {}
    if isinstance(exporter := document.get("exporter"), str) and exporter:
        tool, _, version = exporter.partition("@")
        facts = {"tool": tool} | ({"version": version} if version else {})
    if isinstance(name := document.get("name"), str) and name:
        facts["run"] = name
    rows.fact("source", facts=facts)
    rows.fact("clock", facts={"kind": "session"})


class _Reading:
    """The frames, and the stacks read so far."""

    def __init__(self, frames: list[Any], rows: RowBuilder, conversion: Conversion) -> None:
        self._frames = [_frame(frame) for frame in frames]
        self._rows, self._report = rows, conversion.report
        self._stacks = Stacks(rows)
        self._known: dict[tuple[int, ...], tuple[str, tuple[str, ...]]] = {}
        self._held = 0

    def profile(self, number: int, profile: Any) -> Iterator[None]:
        """Adds the rows of a profile, and yields after each."""
        where = f"profile {number}"
        kind = profile.get("type") if isinstance(profile, dict) else None
        items = profile.get({"evented": "events", "sampled": "samples"}.get(str(kind), "")) if kind else None
        if not isinstance(items, list):
            self._report.record()
            self._report.issue("bad-record", where, "it has neither events nor samples")
            return
        self._report.record(len(items))
        unit, name = str(profile.get("unit")), str(profile.get("name", ""))
        if unit in _TIMES:
            add = self._ranges if kind == "evented" else self._samples
            yield from add(profile, where, unit, self._place(name))
            return
        sums = StackSums(self._rows, metric="weight", unit=_UNITS.get(unit, unit), table=number)
        sum_up = self._sum_events if kind == "evented" else self._sum_samples
        sum_up(profile, where, sums)
        sums.write([name] if name else [])
        yield

    def _place(self, name: str) -> dict[str, Any]:
        """The columns of a profile's rows: the thread that its name states, else a track of the name."""
        match = _THREAD.fullmatch(name) or _PROCESS.fullmatch(name)
        if not match:
            return {"track": name or None}
        place = {key: int(match[key], 0) for key in ("pid", "tid") if match.groupdict().get(key)}
        if match.groupdict().get("name"):
            self._rows.fact("thread", name=match["name"], **place)
        return place

    def _ranges(self, profile: dict[str, Any], where: str, unit: str, place: dict[str, Any]) -> Iterator[None]:
        """Adds a range for each frame that opens, with its id in the order of their begins."""
        waiting: defaultdict[int, list[tuple[int, Decimal]]] = defaultdict(list)
        for number, is_open, frame, at in self._events(profile, where):
            if is_open:
                waiting[frame].append((self._rows.reserve(), at))
                continue
            identity, begin = waiting[frame].pop()
            if at < begin:
                self._report.issue("negative-duration", f"{where}, event {number}", f"{begin} to {at} {unit}", 2)
                continue
            self._range(identity, frame, (begin, at), unit, place)
            self._report.used()
            self._report.used(outcome="end of a slice")
            yield
        for frame, (identity, begin) in ((frame, one) for frame, ones in waiting.items() for one in ones):
            self._range(identity, frame, (begin, None), unit, place)
            self._report.used()
            yield

    def _range(
        self, identity: int, frame: int, times: tuple[Decimal, Decimal | None], unit: str, place: dict[str, Any]
    ) -> None:
        name, _, args = self._frames[frame]
        begin = _ns(times[0], unit)
        dur = None if times[1] is None else _ns(times[1], unit) - begin
        self._rows.event("range", name, id=identity, ts=begin, dur=dur, args=args, **place)

    def _samples(self, profile: dict[str, Any], where: str, unit: str, place: dict[str, Any]) -> Iterator[None]:
        """Adds a sample for each stack."""
        for stack, at, weight in self._weighed(profile, where):
            name, frames = self._stack(stack)
            args = {"stack": self._stacks.key(frames)} if frames else None
            figures = {"value": float(weight * TIME_NS[unit]), "unit": "ns"}
            self._rows.event("sample", name, ts=_ns(at, unit), timing="derived", args=args, **figures, **place)
            self._report.used()
            yield

    def _sum_events(self, profile: dict[str, Any], where: str, sums: StackSums) -> None:
        """Adds what each stack has of its own: from an event to the next one, the frames that are open."""
        waiting: list[int] = []
        last = Decimal(0)
        for _, is_open, frame, at in self._events(profile, where):
            if waiting and at > last:
                sums.add(*self._stack(tuple(waiting)), float(at - last), 0)
            last = max(at, last)
            if is_open:
                waiting.append(frame)
            else:
                del waiting[len(waiting) - 1 - waiting[::-1].index(frame)]
            self._report.used()

    def _sum_samples(self, profile: dict[str, Any], where: str, sums: StackSums) -> None:
        for stack, _, weight in self._weighed(profile, where):
            sums.add(*self._stack(stack), float(weight))
            self._report.used()

    def _events(self, profile: dict[str, Any], where: str) -> Iterator[tuple[int, bool, int, Decimal]]:
        """Yields number, whether it opens a frame, frame and time of the sound events; each end has its begin."""
        opened: Counter[int] = Counter()
        for number, event in enumerate(profile["events"]):
            record = event if isinstance(event, dict) else {}
            kind, frame, at = record.get("type"), record.get("frame"), _parse_decimal(record.get("at"))
            place = f"{where}, event {number}"
            if kind not in ("O", "C") or at is None or not self._is_frame(frame):
                self._report.issue("bad-record", place, f"no event with a frame and a time: {shown(event)}")
            elif kind == "C" and not opened[frame]:
                self._report.issue("end-without-begin", place, self._frames[frame].name)
            else:
                opened[frame] += 1 if kind == "O" else -1
                yield number, kind == "O", frame, at

    def _weighed(self, profile: dict[str, Any], where: str) -> Iterator[tuple[tuple[int, ...], Decimal, Decimal]]:
        """Yields stack, begin and weight of the sound samples: each begins where the weights of those before it end."""
        at = _parse_decimal(profile.get("startValue")) or Decimal(0)
        weights = profile.get("weights")
        weights = weights if isinstance(weights, list) else []
        for number, stack in enumerate(profile["samples"]):
            weight = _parse_decimal(weights[number]) if number < len(weights) else None
            if weight is None or weight < 0:
                self._report.issue("bad-record", f"{where}, sample {number}", "it has no weight")
                continue
            if isinstance(stack, list) and all(map(self._is_frame, stack)):
                yield tuple(stack), at, weight
            else:
                self._report.issue("bad-record", f"{where}, sample {number}", "no list of frames that exist")
            at += weight

    def _is_frame(self, number: Any) -> TypeGuard[int]:
        return type(number) is int and 0 <= number < len(self._frames)

    def _stack(self, stack: tuple[int, ...]) -> tuple[str, tuple[str, ...]]:
        """The name of the innermost frame, and the texts of all."""
        names = self._known.get(stack)
        if names is None:
            self._held += len(stack)
            if self._held > _HELD:
                self._known.clear()
                self._held = 0
            name = self._frames[stack[-1]].name if stack else NO_STACK
            names = self._known[stack] = name, tuple(self._frames[number].text for number in stack)
        return names


def _frame(frame: Any) -> _Frame:
    """A frame; its file, line and column are the arguments of its ranges."""
    record = frame if isinstance(frame, dict) else {}
    name = record.get("name")
    name = name if isinstance(name, str) and name else NO_NAME
    args = {key: value for key, value in record.items() if key != "name" and value is not None}
    return _Frame(name, frame_text(name, record.get("file"), record.get("line")), args)


def _parse_decimal(value: Any) -> Decimal | None:
    """A number exactly as its digits say; None for anything else."""
    return Decimal(repr(value)) if type(value) in (int, float) and abs(value) < _LIMIT else None


def _ns(time: Decimal, unit: str) -> int:
    return to_ns(time, unit)[0]


_SCHEMA = "https://www.speedscope.app/file-format-schema.json"

Lane = tuple[int, int]


class Writer:
    """A TimelineWriter of slices; points are slices of 0 ns. Counters and arrows have no place in the format."""

    def __init__(self, sink: Sink, conversion: Conversion) -> None:
        self._stream = sink.open()
        self._name = stem(sink.path)
        self._report = conversion.report
        self._spill = Spill(SPILL_BYTES)
        self._kept = BatchSpool(self._spill, "events")
        self._count = 0
        self._frames: dict[str, int] = {}
        self._names: set[str] = set()
        #: For each lane the numbers of the kept batches with its events.
        self._pieces: dict[Lane, list[int]] = {}
        self._open: dict[Lane, list[int]] = {}

    def start(self, timeline: Timeline) -> None:
        """Receives the tracks. Times count from the start of the trace: viewers read them as doubles."""
        self._start, self._end = timeline.start, timeline.end
        self._paths = track_paths(timeline)
        if timeline.start:
            self._report.issue("origin", "output", f"{timeline.start} ns were subtracted", 0)

    def write(self, batch: TimelineBatch) -> int:
        """Keeps the starts and ends, and returns the number of events."""
        shown = ~words_in(batch.column("kind"), ("counter",))
        names = batch.column("name")
        self._keep(batch, shown, self._numbers(names, shown))
        return int(np.count_nonzero(shown))

    def close(self) -> None:
        """Writes the profiles, then the frames."""
        try:
            head = {"$schema": _SCHEMA, "exporter": f"ktrace@{ktrace.__version__}", "name": self._name}
            self._stream.write(msgspec.json.encode(head)[:-1] + b',"activeProfileIndex":0,"profiles":[')
            separator = b"\n"
            for track, path in self._paths.items():
                for lane in sorted(lane for number, lane in self._pieces if number == track):
                    self._profile(track, lane, path, separator)
                    separator = b",\n"
            self._stream.write(b'],\n"shared":{"frames":[')
            for index, name in enumerate(self._frames):
                self._stream.write((b"," if index else b"") + msgspec.json.encode({"name": name}))
            self._stream.write(b"]}}\n")
        finally:
            self._spill.close()

    def _numbers(self, names: pa.Array, shown: Bools) -> list[int]:
        """The number of the frame of each row, -1 for rows that aren't shown."""
        frames = self._frames
        rows = zip(names.to_pylist(), shown.tolist(), strict=True)
        return [frames.setdefault(name, len(frames)) if there else -1 for name, there in rows]

    def _keep(self, batch: TimelineBatch, shown: Bools, frames: list[int]) -> None:
        """Keeps the events of a batch by lane; an end has the frame of the start that it ends."""
        slices = slice_rows(batch).tolist()
        events: dict[Lane, list[tuple[bool, int, int]]] = {}
        edges = batch.edges
        columns = (column.tolist() for column in (edges.ts, edges.row, edges.track, edges.lane))
        is_shown = shown.tolist()
        for ts, row, track, lane in zip(*columns, strict=True):
            if row >= 0 and not is_shown[row]:
                continue
            events_of_lane = events.setdefault((track, lane), [])
            if row < 0:
                events_of_lane.append((False, self._open[track, lane].pop(), ts))
                continue
            events_of_lane.append((True, frames[row], ts))
            if slices[row]:
                self._open.setdefault((track, lane), []).append(frames[row])
            else:
                events_of_lane.append((False, frames[row], ts))
        for key, events_of_lane in events.items():
            begins, numbers, times = zip(*events_of_lane, strict=True)
            types = {"begin": pa.bool_(), "frame": pa.int32(), "at": pa.int64()}
            values = zip((begins, numbers, times), types.values(), strict=True)
            kept = [pa.array(column, kind) for column, kind in values]
            self._kept.append(pa.RecordBatch.from_arrays(kept, names=list(types)))
            self._pieces.setdefault(key, []).append(self._count)
            self._count += 1

    def _profile(self, track: int, lane: int, path: tuple[str, ...], separator: bytes) -> None:
        name = " / ".join(path) + (f" ({lane + 1})" if lane else "")
        name = unique_name(name, self._names.__contains__, " #")
        self._names.add(name)
        head = {"type": "evented", "name": name, "unit": "nanoseconds", "startValue": 0}
        head["endValue"] = self._end - self._start
        self._stream.write(separator + msgspec.json.encode(head)[:-1] + b',"events":[')
        first = True
        for text in self._events(track, lane):
            self._stream.write(text if first else b"," + text)
            first = False
        self._stream.write(b"]}")

    def _events(self, track: int, lane: int) -> Iterator[bytes]:
        """Yields the events of a lane as JSON."""
        for number in self._pieces[track, lane]:
            columns = self._kept.get(number)
            rows = zip(*(columns.column(index).to_pylist() for index in range(3)), strict=True)
            start = self._start
            events = [{"type": "O" if begin else "C", "frame": frame, "at": at - start} for begin, frame, at in rows]
            if events:
                yield msgspec.json.encode(events)[1:-1]


FORMAT = Format(
    "speedscope",
    "speedscope profiles: py-spy, rbspy, austin",
    patterns=("*.speedscope.json",),
    probe=probe,
    read=read,
    writer=Writer,
    timeline=True,
    words=("speedscope.app",),
    document=True,
    holds="whole",
)
