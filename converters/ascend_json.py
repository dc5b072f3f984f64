"""Huawei Ascend's timelines: trace_view.json of torch_npu and MindSpore, msprof_*.json and its parts, timeline_display.

    [{"name": "process_name", "pid": 800, "tid": 0, "args": {"name": "Ascend Hardware"}, "ph": "M"},
     {"name": "Mul1", "pid": 800, "tid": 3, "ts": "1704161511422904.204", "dur": 1.35, "ph": "X",
      "args": {"Model Id": 4294967295, "Task Type": "AI_VECTOR_CORE", "Stream Id": 3, "connection_id": 8}}]

A bare list; times are epoch µs with three digits as text, or numbers. A process is a layer: host, device or analysis;
its metadata, with labels such as "NPU 1", may be anywhere.

Facts: msprof's assemblers of timelines (csrc/application/timeline), torch_npu's profiler/analysis, 2023 to 2026.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit import Format, Match, Sample, Score
from ktrace.kit.ascend_folder import JSON, chosen, own_file
from ktrace.kit.ascend_tasks import CONTROL, COPY, DEVICE, DIRECTIONS, ENCLOSING, SYNC
from ktrace.kit.columnar.dictionaries import by_distinct
from ktrace.kit.trace_json.dialect import Dialect, Into, Rule, Sign
from ktrace.kit.trace_json.document import read_document
from ktrace.kit.trace_json.events import Events, Member
from ktrace.kit.trace_json.phases import mapper, on_devices
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

_BEGIN = re.compile(rb'(?:\xef\xbb\xbf)?\s*\[\s*\{\s*"(?:name|ph|pid|cat|ts|tid|args|dur)"')

#: The bytes that are searched: metadata is at the start of each layer, flows are at the end of trace_view.json.
_HEAD = 1 << 16

#: Names of layers and arguments that only this profiler writes. Most of them begin with a blank or a rare word.
_OWN = (
    b'"Ascend Hardware"',
    b'"Overlap Analysis"',
    b'"async_npu"',
    b'"async_task_queue"',
    b'"duration estimated(us)"',
    b'"Iteration Refresh"',
    b'"AscendCL@',
    b'"AI Core Freq',
    b'"labels": "NPU',
    b'"labels":"NPU',
)
#: An operator of torch_npu: its time is a text. Kineto has this argument as well.
_FORWARD = b'"Fwd thread id"'
_QUOTED = re.compile(rb'"ts"\s*:\s*"[0-9]{10,19}\.[0-9]{3}"')
_DISPLAYED = re.compile(rb'"fullname"\s*:\s*"(?:Default|Gradients)/[^"]*"\s*,\s*"input_0"')


def probe(sample: Sample) -> Match | None:
    """DIALECT for a list of trace events with Ascend's own words, and for a folder with one such file."""
    if sample.listing is not None:
        files = chosen(sample.listing)
        if files is None or files.what != JSON:
            return None
        return Match(Score.DIALECT, f"contains {files.read[0]} of Ascend's profiler")
    if not _BEGIN.match(sample.head):
        return None
    head = sample.head[:_HEAD]
    for word in _OWN:
        if word in head or word in sample.tail:
            return Match(Score.DIALECT, f"is a list of trace events with {word.decode()} of Ascend's profiler")
    if _FORWARD in head and _QUOTED.search(head):
        return Match(Score.DIALECT, "is a list of trace events with times in quotes and operators of torch_npu")
    if b'"fullname"' in head and _DISPLAYED.search(head):
        return Match(Score.DIALECT, "is a list of trace events with the operators of MindSpore")
    return None


HARDWARE = "Ascend Hardware"

#: Bytes read at once, and the most that an object of metadata has.
_CHUNK = 1 << 22
_LONGEST = 1 << 10

_METADATA = re.compile(rb'"(process_name|process_labels)"')
_LAUNCH = re.compile(rb'"Node@launch')
_DEVICE_LAYER = re.compile(r"NPU ([0-9]{1,9})")

#: The most processes that a document may have; a profile has some twenty.
_MOST = 1 << 12


class Layers(msgspec.Struct):
    """pid -> name, pid -> device for the layer of the hardware, and whether the calls that launch tasks are there."""

    names: dict[int, str] = msgspec.field(default_factory=dict)
    labels: dict[int, str] = msgspec.field(default_factory=dict)
    has_launches: bool = False

    @property
    def devices(self) -> dict[int, int]:
        """pid -> device. Versions before 2024 don't write the number: theirs is 0, or the pid's position."""
        hardware = sorted(pid for pid, name in self.names.items() if name == HARDWARE)
        found = {pid: _DEVICE_LAYER.fullmatch(self.labels.get(pid, "")) for pid in hardware}
        return {pid: int(label[1]) if label else number for number, (pid, label) in enumerate(found.items())}


def layers_of(source: Source) -> Layers:
    """Reads the bytes of a document once for the names and labels of its processes."""
    found, before = Layers(), b""
    with source.open(quiet=True) as stream:
        while chunk := stream.read(_CHUNK):
            text = before + chunk
            for match in _METADATA.finditer(text):
                _take(found, _object(text, match.start()))
            found.has_launches = found.has_launches or _LAUNCH.search(text) is not None
            before = text[-2 * _LONGEST :]
    return found


def _object(text: bytes, at: int) -> Any:
    """The object around a position, None if it isn't whole."""
    start = text.rfind(b"{", max(0, at - _LONGEST), at)
    if start < 0:
        return None
    piece = text[start : start + _LONGEST].decode("utf-8", "replace")
    try:
        return json.JSONDecoder().raw_decode(piece)[0]
    except (ValueError, RecursionError):
        return None


def _take(found: Layers, event: Any) -> None:
    if not isinstance(event, dict) or event.get("ph") != "M":
        return
    pid, args = event.get("pid"), event.get("args")
    if isinstance(pid, str) and pid.isascii() and pid.isdecimal() and len(pid) < 19:
        pid = int(pid)
    if type(pid) is not int or abs(pid) >= 1 << 62 or not isinstance(args, dict) or len(found.names) >= _MOST:
        return
    key, names = ("name", found.names) if event.get("name") == "process_name" else ("labels", found.labels)
    text = args.get(key)
    if isinstance(text, str):
        names[pid] = text.strip()


#: Arguments of a task of the device. Its thread is the stream; "Stream Id" and "Physic Stream Id" stay.
_TASK = {"connection_id": Into("correlation")}
_COPY = _TASK | {"size(B)": Into("bytes")}

_TYPE = ("Task Type",)
_DEVICE = (
    Sign(_TYPE, Rule("sync", columns=_TASK), SYNC),
    Sign(_TYPE, Rule("memcpy", columns=_COPY), COPY),
    Sign(_TYPE, Rule("overhead", columns=_TASK), CONTROL),
    Sign(_TYPE, Rule("range", columns=_TASK), ENCLOSING),
    Sign(_TYPE, Rule("kernel", columns=_TASK | {"size(B)": Into("bytes")})),
)

#: Slices of MindSpore's timeline_display: the pid is the device, the tid the stream.
_DISPLAYED_WORK = Sign(("fullname", "type"), Rule("kernel", place="device"))

#: Layers of the host whose slices have no category, and all others: analyses of the rows of other layers.
_CALLS = Rule("api", columns=_TASK)
_LAYERS: Mapping[str, Rule] = {"CANN": _CALLS, "AscendCL": _CALLS, "Runtime": _CALLS, "OS Runtime API": Rule("api")}
_FRAMEWORK = Rule("op")
_FRAMEWORKS = frozenset({"MindSpore", "GE"})

DIALECT = Dialect(
    cats={
        "cpu_op": _FRAMEWORK,
        "python_function": Rule("range"),
        "enqueue": Rule("range"),
        "dequeue": Rule("range"),
        "GC": Rule("overhead"),
    },
    signs=(*_DEVICE, _DISPLAYED_WORK),
    other=Rule("range"),
    flows={
        "HostToDevice": "launch",
        "async_npu": "flow",
        "async_task_queue": "async",
        "fwdbwd": "fwdbwd",
        "MsTx": "flow",
        "Data_aug Bound": "flow",
    },
)


def dialect_of(layers: Layers) -> Dialect:
    """Returns the dialect of a document with these layers.

    With the calls of the level Node in it, `connection_id` joins calls and tasks as HostToDevice does.
    """
    rules = {pid: _rule(name) for pid, name in layers.names.items() if name != HARDWARE}
    flows = {**DIALECT.flows, "HostToDevice": None} if layers.has_launches else DIALECT.flows
    return replace(DIALECT, processes={pid: rule for pid, rule in rules.items() if rule}, flows=flows)


def _rule(name: str) -> Rule | None:
    return _FRAMEWORK if name in _FRAMEWORKS else _LAYERS.get(name)


#: Times after this (ns; September 2001) count from 1970; older versions of msprof write the time since the boot.
_SINCE_1970 = 10**18

#: `connection_id` of work without a call: -1 as a signed and as an unsigned number.
_NO_CALL = pa.array([-1, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF >> 1], pa.int64())


class _Rows(msgspec.Struct, frozen=True):
    """Makes rows of events, in any process."""

    dialect: Dialect
    devices: dict[int, int]

    def __call__(self, events: Events, conversion: Conversion) -> Iterator[Batch]:
        for batch in mapper(self.dialect)(events, conversion):
            yield _finished(on_devices(batch, self.devices))


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields work, calls, operators, analyses, counters, arrows. Raises DamagedInput if it isn't Trace Event JSON."""
    facts = RowBuilder(conversion, first_id=0)
    first = None
    members = partial(_member, facts)
    with own_file(source, JSON, conversion) as file:
        layers = layers_of(file)
        dialect = dialect_of(layers)
        rows = _Rows(dialect, layers.devices)
        for batch in read_document(file, conversion, rows, members, dialect.folded, quoted=True):
            if first is None and batch.record == "events":
                first = batch.columns.column("ts")[0].as_py()
            yield batch
    for device in sorted(layers.devices.values()):
        facts.fact("device", device=device, facts=DEVICE)
    if first is not None:
        facts.fact(
            "clock", facts={"kind": "unix", "at_ns": 0, "unix_ns": 0} if first > _SINCE_1970 else {"kind": "boottime"}
        )
    yield from facts.rest()


def _member(facts: RowBuilder, member: Member, conversion: Conversion) -> Iterable[Batch]:
    """Keeps a member of the document other than its events as a fact of the source."""
    facts.fact("source", facts={member.key: member.value()})
    return ()


def _finished(batch: Batch) -> Batch:
    """Removes ids that mean "no call", and moves the directions of copies to their column."""
    columns = {name: batch.columns.column(name) for name in batch.columns.schema.names}
    correlation = columns.get("correlation")
    if correlation is not None:
        none = pc.is_in(correlation, value_set=_NO_CALL)
        if none.true_count:
            columns["correlation"] = pc.if_else(none, None, correlation)
    words = columns.get("args.operation")
    if words is not None and pa.types.is_string(getattr(words.type, "value_type", words.type)):
        known = by_distinct(words, DIRECTIONS.get, pa.string())
        columns["copy_kind"] = pc.coalesce(known, batch.column("copy_kind").cast(pa.string()))
        columns["args.operation"] = pc.if_else(columns["copy_kind"].is_valid(), None, words)
    kept = {name: column for name, column in columns.items() if column.null_count < len(batch) or not len(batch)}
    return Batch(batch.record, pa.RecordBatch.from_pydict(kept))


FORMAT = Format(
    "ascend-json",
    "Huawei Ascend timelines (torch_npu, MindSpore, msprof) as JSON",
    patterns=("trace_view*.json", "msprof_*.json"),
    probe=probe,
    read=read,
    words=(
        "ascend",
        "async_npu",
        "async_task_queue",
        "overlap analysis",
        "duration estimated(us)",
        "iteration refresh",
        "ai core freq",
        '"npu',
        "fwd thread id",
        '"fullname"',
    ),
    reads_folders=True,
    document=True,
    holds="blocks",
)
