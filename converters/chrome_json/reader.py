"""Reads Trace Event JSON of any program, also byte ranges of a big file, unless ktrace wrote it.

Events of an unknown program are slices, and GPU work if category and arguments show it clearly. The samples of a CPU
profile of Chrome take the place of the events that contain them:

    {"ph":"P","name":"Profile","id":"0x7b","pid":7,"tid":11,"ts":100,"args":{"data":{"startTime":100}}}
    {"ph":"P","name":"ProfileChunk","id":"0x7b","pid":7,"tid":12,"ts":160,"args":{"data":{"cpuProfile":
     {"nodes":[{"id":1,"callFrame":{"functionName":"(root)"}}],"samples":[1]},"timeDeltas":[25]}}}
    {"ph":"I","name":"CpuProfile","pid":7,"tid":11,"ts":900,"args":{"data":{"cpuProfile":{"nodes":[..],"samples":[..],..}}}}
                                                                                              Chrome before 66

A chunk is written by the profiler's thread or, the last one, by the profile's own: their order in the file isn't that
of their times. So the text of all chunks is kept until the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.input.capabilities import ByteRange
from ktrace.input.source import Source, printable
from ktrace.kit.stacks import NO_STACK
from ktrace.kit.text.numbers import to_ns
from ktrace.kit.trace_json import document
from ktrace.kit.trace_json.dialect import Dialect, Into, Rule, Sign
from ktrace.kit.trace_json.document import read_dialect, read_document
from ktrace.kit.trace_json.events import Member
from ktrace.kit.v8 import CpuProfiles, Piece
from ktrace.model.arrays import Bools
from ktrace.model.batch import Batch
from ktrace.model.fitting import fitted_facts
from ktrace.model.json_text import decoded, dump_json, load_json
from ktrace.model.masks import words_in
from ktrace.model.row_builder import RowBuilder, to_batch

from .device_tracks import device_tracks, on_tracks
from .read_back import Head, read_head, rows_back

_PLACE = {"device": Into("device", "ordinal"), "context": Into("context"), "stream": Into("stream", "ordinal")}

_LAUNCH = {
    "correlation": Into("correlation", "digits"),
    "External id": Into("external_id"),
    "grid": Into("grid", "dims"),
    "block": Into("block", "dims"),
    **{f"{column}_{axis}": Into(f"{column}_{axis}", "digits") for column in ("grid", "block") for axis in "xyz"},
    "shared memory": Into("shared_memory"),
    "bytes": Into("bytes", "digits"),
}
_WORK = _PLACE | _LAUNCH | {"registers per thread": Into("registers", "int32")}

_KERNEL = Rule("kernel", columns=_WORK)
_MEMCPY = Rule("memcpy", columns=_WORK | {"kind": Into("copy_kind", "copy")})
_MEMSET = Rule("memset", columns=_WORK)
_API = Rule("api", columns=_LAUNCH)

#: Work of Level Zero and OpenCL: kernels have their own names, other work has that of the call.
_GPU_OP = Rule(
    "kernel",
    columns=_WORK,
    named=(
        (re.compile(r"(zeCommandListAppend(Memory|Image)Copy|i?clEnqueue(Read|Write|Copy|SVMMemcpy))"), "memcpy"),
        (re.compile(r"(zeCommandListAppendMemoryFill|i?clEnqueue(Fill|SVMMemFill))"), "memset"),
        (re.compile(r"(zeCommandListAppend(?!Launch)|i?clEnqueue(Barrier|Marker|WaitForEvents))"), "sync"),
    ),
)

#: Categories of other tools that trace GPUs. Their events keep the source's thread, and are on args.device.
#: Signs: XLA has the details of work on its streams, rocmProfileData the kind of an operation in `desc`.
DIALECT = Dialect(
    cats={"cpu_op": Rule("op", columns={"External id": Into("external_id")}), "gpu_op": _GPU_OP},
    patterns=(
        (re.compile(r"^(gpu_)?memcpy$", re.I), _MEMCPY),
        (re.compile(r"^(gpu_)?memset$", re.I), _MEMSET),
        (re.compile(r"^((gpu|cuda|hip)[_ ]?)?kernels?$", re.I), _KERNEL),
        (re.compile(r"^(cuda|hip|xpu)_(runtime|driver|api)$", re.I), _API),
    ),
    signs=(
        Sign(("kernel_details",), _KERNEL),
        Sign(("memcpy_details",), _MEMCPY),
        Sign(("Memset_details",), _MEMSET),
        Sign(("desc",), _KERNEL, re.compile(r"KernelExecution|Task")),
        Sign(("desc",), _MEMCPY, re.compile(r"Copy(Host|Device)To(Host|Device)(2D|3D)?")),
        Sign(("desc",), _MEMSET, re.compile(r"FillBuffer")),
        Sign(("grid", "block", "stream"), _KERNEL),
        Sign(("grid", "block", "registers per thread"), _KERNEL),
    ),
    calls=re.compile(r"(cu|cuda|hip|hsa_|nccl(?!(Dev)?Kernel)|ze|cl)(?=[A-Z_])"),
)


#: What Chrome's traces begin with, and categories and names of events with profiles.
_OF_CHROME = re.compile(rb'"__metadata"|v8\.cpu_profiler|"ProfileChunk"|"CpuProfile"')

_DIGITS = re.compile(r"-?[0-9]{1,30}(?:\.[0-9]{1,30})?")

#: Times of samples are lower than this (µs): 2^62 ns.
_LATEST_US = (1 << 62) // 1000


def read(source: Source, conversion: Conversion, part: ByteRange | None = None) -> Iterator[Batch]:
    """Yields slices, instants, counters, arrows, and facts from the members around the events.

    Raises DamagedInput if the input isn't Trace Event JSON.
    """
    about = read_head(source)
    if about is not None:
        head = Head(about, conversion.label)
        yield from head.catalog()
        yield from read_document(source, conversion, partial(rows_back, head), lambda entry, conversion: ())
        return
    samples: list[Member] = []
    profiles, names = _Profiles(conversion), dict[str, str]()

    def member(entry: Member, conversion: Conversion) -> Iterable[Batch]:
        if entry.key == "samples" and entry.text.startswith(b"["):
            samples.append(entry)
            return ()
        return _facts(entry, conversion, names)

    facts_text = dump_json({"path": printable(source.path), "format": "chrome"})
    label = conversion.label
    yield to_batch("catalog", [{"entity": "source", "source": label, "id": 0, "name": label, "facts": facts_text}])
    tracks = device_tracks(source)
    for batch in read_dialect(source, conversion, DIALECT, member=member, part=part):
        yield on_tracks(profiles.without(batch), tracks)
    yield from profiles.rows()
    for entry in samples:
        yield from _samples(entry, conversion, names)


#: About how many bytes the facts of a batch have: each stack has the frames of those around it.
_TEXT = 16 << 20


def _facts(member: Member, conversion: Conversion, names: dict[str, str]) -> Iterator[Batch]:
    """Yields the facts in a member of the document. `names` gets the innermost frame of each stack."""
    if member.key == "systemTraceEvents":
        conversion.report.issue("unrecognised", f"byte {member.byte}", "systemTraceEvents: an ftrace of the system", 0)
        return
    value = member.value(float)
    rows: Iterator[dict[str, Any]] = iter([{"entity": "source", "facts": {member.key: value}}])
    if member.key == "stackFrames" and isinstance(value, dict):
        frames = {key: frame for key, frame in value.items() if isinstance(frame, dict)}
        names.update((key, frame["name"]) for key, frame in frames.items() if isinstance(frame.get("name"), str))
        rows = ({"entity": "stack", "name": key, "facts": facts} for key, facts in _stacks(value, conversion))
    some, size = list[dict[str, Any]](), 0
    for row in rows:
        row |= {"source": conversion.label, "id": member.byte, "facts": dump_json(row["facts"])}
        some.append(row)
        size += len(row["facts"])
        if size > _TEXT:
            yield to_batch("catalog", fitted_facts(some))
            some, size = [], 0
    if some:
        yield to_batch("catalog", fitted_facts(some))


def _samples(member: Member, conversion: Conversion, names: dict[str, str]) -> Iterator[Batch]:
    """Yields samples of a document, which are next to its events, as events. Hermes writes its numbers as texts.

    `{"ts": 12.5, "name": "cycles", "tid": 1, "sf": 3, ...}`
    """
    rows, report, where = RowBuilder(conversion, first_id=member.byte), conversion.report, f"byte {member.byte}"
    listed = member.value(Decimal)
    for sample in listed if isinstance(listed, list) else ():
        report.record()
        ts = _parse_decimal(sample.pop("ts", None)) if isinstance(sample, dict) else None
        if ts is None or abs(ts) >= _LATEST_US:
            report.issue("bad-record", where, "a sample without a time")
            continue
        exact: dict[str, Any] = {}
        name = str(sample.pop("name", "")) or names.get(str(sample.get("sf")), NO_STACK)
        for column in ("pid", "tid"):
            number = _parse_decimal(sample.get(column))
            if number is not None and abs(number) < 1 << 62 and number == int(number):
                exact[column] = int(number)
                del sample[column]
        args = {f"${key}": float(value) if isinstance(value, Decimal) else value for key, value in sample.items()}
        rows.event("sample", name, ts=to_ns(ts, "us")[0], args=args, **exact)
        report.used()
        yield from rows.ready()
    yield from rows.rest()


def _parse_decimal(value: Any) -> Decimal | None:
    """A number, or that of a text of digits; None for anything else."""
    if type(value) in (int, Decimal):
        return Decimal(value)
    return Decimal(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else None


def _stacks(frames: dict[str, Any], conversion: Conversion) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields key and facts of each stack frame: the frames down to it, outermost first, and its other members."""
    sizes = {key: len(dump_json(frame.get("name"))) for key, frame in frames.items() if isinstance(frame, dict)}
    for key, frame in frames.items():
        names, seen, inner = [], set(), key
        while inner in frames and inner not in seen and isinstance(frames[inner], dict):
            seen.add(inner)
            names.append(frames[inner].get("name"))
            inner = str(frames[inner].get("parent"))
        conversion.expanded(sum(sizes[one] for one in seen))
        rest = {name: value for name, value in frame.items() if name != "name"} if isinstance(frame, dict) else {}
        yield key, {"frames": names[::-1]} | rest


__all__ = ["ranges", "read"]


def ranges(source: Source, size: int, step: int) -> list[ByteRange]:
    """Returns the ranges of `lists.ranges`; none for a file that ktrace wrote, which may have several sources,
    and none for one of Chrome, in which a profile may be in several ranges."""
    sample = source.sample()
    if _OF_CHROME.search(sample.head) or _OF_CHROME.search(sample.tail) or read_head(source) is not None:
        return []
    return document.ranges(source, size, step)


_NAMES = ("Profile", "ProfileChunk", "CpuProfile")


class _Event(NamedTuple):
    """An event with a part of a profile: the id of its row, its time in ns, and its data as JSON."""

    name: str
    id: int
    ts: int
    pid: int | None
    tid: int | None
    data: bytes


class _Profiles:
    """The profiles of a document."""

    def __init__(self, conversion: Conversion) -> None:
        self._rows = RowBuilder(conversion)
        self._report = conversion.report
        self._events: dict[tuple[int | None, str], list[_Event]] = {}

    def without(self, batch: Batch) -> Batch:
        """Takes the events of profiles out of a batch."""
        if batch.record != "events" or not batch.has("args.data"):
            return batch
        is_profile = words_in(batch.column("name"), _NAMES) & ~batch.column("args.data").is_null().to_numpy(False)
        if not is_profile.any():
            return batch
        taken = Batch("events", batch.columns.filter(pa.array(is_profile)))
        kept = self._keep(taken)
        is_profile[np.flatnonzero(is_profile)[~kept]] = False
        self._report.used(-int(kept.sum()))
        self._report.used(int(kept.sum()), outcome="structure")
        return Batch("events", batch.columns.filter(pa.array(~is_profile)))

    def _keep(self, batch: Batch) -> Bools:
        """Keeps the events with an object as data; returns which these are."""
        empty = pa.nulls(len(batch), pa.int64())
        columns = [decoded(batch.column(name)) for name in ("name", "id", "ts")]
        columns += [decoded(batch.column(name)) if batch.has(name) else empty for name in ("pid", "tid")]
        columns.append(decoded(batch.column("args.data")))
        ids = decoded(batch.column("args.$id")) if batch.has("args.$id") else empty
        kept = np.zeros(len(batch), np.bool_)
        for row, values in enumerate(zip(*(column.to_pylist() for column in columns), ids.to_pylist(), strict=True)):
            *fields, tid = values
            event = _Event(*fields)
            kept[row] = isinstance(event.data, bytes) and event.data.startswith(b"{")
            if kept[row]:
                key = tid if tid is not None else f"tid {event.tid}"
                self._events.setdefault((event.pid, str(key)), []).append(event)
        return kept

    def rows(self) -> Iterator[Batch]:
        """Yields the samples of all profiles."""
        profiles = CpuProfiles(self._rows, self._report, "cpu ")
        for events in self._events.values():
            for _ in self._profile(sorted(events, key=lambda event: event.ts), profiles):
                yield from self._rows.ready()
        yield from self._rows.rest()

    def _profile(self, events: list[_Event], profiles: CpuProfiles) -> Iterator[None]:
        """Adds the samples of a profile, on the thread on which it began."""
        begun = next((event for event in events if event.name != "ProfileChunk"), events[0])
        values = [(event, load_json(event.data)) for event in events]
        times: dict[str, int] = {}
        for _, data in values:
            for source in (data, _object(data, "cpuProfile")):
                for key in ("startTime", "endTime"):
                    if type(value := source.get(key)) is int:
                        times.setdefault(key, value)
        pieces = [_piece(event, data) for event, data in values]
        if "startTime" not in times:
            lost = sum(len(piece.samples) for piece in pieces if isinstance(piece.samples, list))
            self._report.record(lost)
            self._report.issue("bad-record", f"id {begun.id}", "samples of a CPU profile that has no start", lost)
            return
        place = {"pid": begun.pid, "tid": begun.tid}
        yield from profiles.add(pieces, times["startTime"], times.get("endTime"), place)


def _piece(event: _Event, data: dict[str, Any]) -> Piece:
    profile = _object(data, "cpuProfile")
    deltas = data.get("timeDeltas", profile.get("timeDeltas"))
    return Piece(event.id + 1, f"id {event.id}", profile.get("nodes"), profile.get("samples"), deltas)


def _object(data: dict[str, Any], key: str) -> dict[str, Any]:
    value = data.get(key)
    return value if isinstance(value, dict) else {}
