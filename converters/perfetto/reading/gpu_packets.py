"""Packets about a GPU as rows: its work, counters, description, memory and log.

    gpu_render_stage_event { event_id 7 duration 500 hw_queue_iid 1 stage_iid 2 context 1 kernel_iid 1
                             launch { grid_size {x 256} workgroup_size {x 128} args { name "regs" uint_value 32 } } }

    interned_data { gpu_specifications { iid 2 name "matmul" category COMPUTE }
                    graphics_contexts { iid 1 pid 4242 api CUDA }
                    compute_kernels { iid 1 name "_Z6matmulv" args { name "regs" uint_value 32 } } }

    gpu_counter_event { counter_descriptor { specs { counter_id 1 name "GPU Frequency" denominator_units HERTZ } } }
    gpu_counter_event { gpu_id 0  counters { counter_id 1 int_value 5 } }              a counter row on the device

Queue, stage, kernel and context of a stage are interned; traces of older tools list queues and stages in their first
packet instead. Each combination is looked up once for all its rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.kit.columnar.dictionaries import constant, words
from ktrace.kit.columnar.protobuf import (
    FIXED64,
    LENGTH,
    VARINT,
    Fields,
    Value,
    combinations,
    distinct_of,
    parse,
    signed,
    texts_at,
)
from ktrace.model.arrays import Bools, Int64, UInt64
from ktrace.model.batch import DEVICE_KINDS, Batch
from ktrace.model.json_text import decoded
from ktrace.model.row_builder import RowBuilder
from ktrace.store.joins import ranges

from .. import field_numbers as f
from ..sidecar import STAGE_DERIVED
from ..writing.kernel_counters import DERIVED, ESTIMATE
from .arguments import (
    CHUNK_TEXT,
    DOUBLE,
    INT,
    JSON,
    STAGE_ARGUMENT,
    TRACE_TEXT,
    Chunk,
    Values,
    event_batches,
    joined_values,
    read_values,
    restore_stage,
)
from .context import Context, Events, host_of
from .event_fields import stage_columns, stream_of_queue
from .extra_rows import remember_stages
from .messages import (
    SequenceState,
    as_bytes,
    bits,
    double,
    first,
    gather,
    int32,
    int64,
    lenient,
    message,
    repeated,
    text,
)

_G = f.GPU_RENDER_STAGE_EVENT
_STAGE = f.INTERNED_GPU_RENDER_STAGE_SPECIFICATION
_KERNEL = f.INTERNED_COMPUTE_KERNEL
_GRAPHICS_CONTEXT = f.INTERNED_GRAPHICS_CONTEXT

#: An interned entry as parsed: number of a field -> its values.
Entry: TypeAlias = dict[int, list[Value]]

#: The fields that refer to interned entries or lists.
KEYS = ("hw_queue_iid", "stage_iid", "kernel_iid", "context", "gpu_id", "name_iid", "hw_queue_id", "stage_id")

#: Work that isn't a kernel, by the name of its stage.
_BY_NAME = (
    ("memcpy", re.compile("memcpy|copy", re.I)),
    ("memset", re.compile("memset|fill", re.I)),
    ("sync", re.compile("event|barrier|marker|fence|semaphore", re.I)),
    (
        "range",
        re.compile("annotation|binning|vertex|fragment|pixel|geometry|render|tiler|tiling|raster|resolve|draw", re.I),
    ),
)

#: Categories of stages that are kernels, and of graphics.
_COMPUTE = f.RENDER_STAGE_CATEGORY["COMPUTE"]
_GRAPHICS = f.RENDER_STAGE_CATEGORY["GRAPHICS"]

#: Arguments that the writer derives of others. `occupancy_source` stays: it tells an estimate from a metric.
_DERIVED = STAGE_DERIVED - {"occupancy_source"}

_APIS = {number: name for name, number in f.API.items()}


class Json(str):
    """A text that is JSON."""

    __slots__ = ()


@dataclass
class Specifications:
    """The queues, stages and contexts that the first packet of an older tool lists."""

    queues: list[str] = field(default_factory=list)
    queue_descriptions: list[str] = field(default_factory=list)
    stages: list[str] = field(default_factory=list)
    contexts: dict[int, int] = field(default_factory=dict)  # context -> pid

    def parse(self, data: bytes) -> None:
        """Reads a Specifications message. Raises ValueError if it isn't protobuf."""
        s, fields = f.SPECIFICATIONS, lenient(data)
        name, described = f.DESCRIPTION["name"], f.DESCRIPTION["description"]
        queues = [lenient(message(one)) for one in fields.get(s["hw_queue"], [])]
        self.queues = [text(first(queue, name, b"")) for queue in queues]
        self.queue_descriptions = [text(first(queue, described, b"")) for queue in queues]
        self.stages = [text(first(lenient(message(one)), name, b"")) for one in fields.get(s["stage"], [])]
        for one in fields.get(s["context_spec"], []):
            spec = lenient(message(one))
            context = int(first(spec, f.CONTEXT_SPEC["context"], 0))
            self.contexts[context] = int32(first(spec, f.CONTEXT_SPEC["pid"], 0))


@dataclass
class InternedStage:
    """What the interned entries of some rows mean: their place, kind and name, and the arguments of their kernel."""

    place: int
    kind: str
    category: str | None
    kernel: str | None
    name: str
    short_name: str | None
    is_compute: bool
    arguments: list[tuple[int, int, int]]  # key, value_type and number of `Values`


def interned_stages(
    context: Context, chunk: Chunk, events: Events, fields: Fields, specifications: Specifications
) -> tuple[list[InternedStage], Int64]:
    """Returns the distinct stages of the events, and for each event the index of its stage."""
    count = len(events)
    none = (1 << 64) - 1
    columns: list[UInt64] = [fields.get(_G[name], VARINT).last(count, none) for name in KEYS]
    rows, of = combinations(events.state, columns)
    stages = []
    for row in rows.tolist():
        given = {name: int(column[row]) for name, column in zip(KEYS, columns, strict=True) if int(column[row]) != none}
        state = chunk.states[int(events.state[row])]
        key = ("stage", *given.items())
        if key not in state.cache:
            state.cache[key] = _look_up(context, state, given, specifications)
        stages.append(state.cache[key])
    return stages, of


def _look_up(
    context: Context, state: SequenceState, given: dict[str, int], specifications: Specifications
) -> InternedStage:
    """Returns the stage that a combination of `KEYS` refers to.

    In traces that ktrace wrote, the stage's description is the kind; arguments that the writer derived are left out.
    """
    encoded = {key: state.entries.get((f.INTERNED_DATA[table], given.get(key, -1))) for key, table in _TABLES}
    entries = {key: lenient(entry) if entry else {} for key, entry in encoded.items()}
    kernel, stage_entry = entries["kernel_iid"], entries["stage_iid"]
    stage = _text(stage_entry, _STAGE["name"]) or _listed(specifications.stages, given.get("stage_id"))
    category = first(stage_entry, _STAGE["category"], 0)
    full, mangled = _text(kernel, _KERNEL["demangled_name"]), _text(kernel, _KERNEL["name"])
    code = state.texts["names"].get(given["name_iid"]) if "name_iid" in given else -1
    own_name = context.trace_texts.texts[code] if code >= 0 else None
    name = full or mangled or own_name or stage
    kind = _text(stage_entry, _STAGE["description"]).lower()
    if not context.by_ktrace or kind not in (*DEVICE_KINDS, "range"):
        kind = _kind(state, stage, category, is_interned=bool(kernel))
    arguments = _arguments(context, state, kernel)
    derived = _DERIVED if context.by_ktrace else frozenset()
    place = context.tracks.queue(given.get("hw_queue_iid", -1), arguments)
    if place is None:
        place = _place(context, state.machine, entries, given, specifications)
    return InternedStage(
        place,
        kind,
        None if context.by_ktrace else stage or None,
        full or mangled or None,
        name,
        own_name if own_name != name and not context.by_ktrace else None,
        category == _COMPUTE,
        [_coded(context, key, value) for key, value in arguments.items() if key not in derived],
    )


def _text(entry: Entry, number: int) -> str:
    """A text of an entry, by the number of its field; '' if it has none."""
    return text(first(entry, number, b""))


def _arguments(context: Context, state: SequenceState, kernel: Entry) -> dict[str, Any]:
    """The arguments of an interned kernel by name. Of another tool's kernel also its architecture and mangled name."""
    arguments: dict[str, Any] = {}
    if not context.by_ktrace:
        full, mangled = _text(kernel, _KERNEL["demangled_name"]), _text(kernel, _KERNEL["name"])
        facts = {"arch": _text(kernel, _KERNEL["arch"]), "kernel_name": mangled if full and full != mangled else ""}
        arguments = {name: value for name, value in facts.items() if value}
    return arguments | dict(_argument(context, state, message(one)) for one in kernel.get(_KERNEL["args"], []))


def _kind(state: SequenceState, stage: str, category: int, *, is_interned: bool) -> str:
    """The kind of a stage that another tool wrote: graphics are ranges on the device, since they aren't kernels.

    In traces from before categories only the name of the stage tells the kind; in others COMPUTE are the kernels.
    """
    if is_interned or category == _COMPUTE:
        return "kernel"
    if category == _GRAPHICS:
        return "range"
    by_name = next((kind for kind, words_ in _BY_NAME if words_.search(stage)), None)
    return by_name or ("range" if _uses_compute(state) else "kernel")


def _uses_compute(state: SequenceState) -> bool:
    """Whether a sequence has a stage of the category COMPUTE: then all its kernels are such stages."""
    specifications = f.INTERNED_DATA["gpu_specifications"]
    entries = (entry for (table, _), entry in state.entries.items() if table == specifications)
    return any(first(lenient(entry), _STAGE["category"], 0) == _COMPUTE for entry in entries)


def _coded(context: Context, name: str, value: Any) -> tuple[int, int, int]:
    """An argument as `Values` stores it."""
    key = context.argument_names.code(name.encode())
    if isinstance(value, str):
        return key, JSON if isinstance(value, Json) else TRACE_TEXT, context.trace_texts.code(value.encode())
    if isinstance(value, float):
        return key, DOUBLE, int(np.float64(value).view(np.int64))
    return key, INT, int64(value % (1 << 64))


_TABLES = (
    ("hw_queue_iid", "gpu_specifications"),
    ("stage_iid", "gpu_specifications"),
    ("kernel_iid", "compute_kernels"),
    ("context", "graphics_contexts"),
)


def _listed(names: list[str], number: int | None) -> str:
    return names[number] if number is not None and 0 <= number < len(names) else ""


def _place(
    context: Context, machine: int, entries: dict[str, Entry], given: dict[str, int], specifications: Specifications
) -> int:
    """The track of a queue, with what is known of its context and of itself as facts."""
    graphics, entry, listed = entries["context"], entries["hw_queue_iid"], given.get("hw_queue_id")
    described = _text(entry, _STAGE["description"]) or _listed(specifications.queue_descriptions, listed)
    queue = _text(entry, _STAGE["name"]) or _listed(specifications.queues, listed)
    stream, title = stream_of_queue(queue)
    pid = specifications.contexts.get(given.get("context", -1))
    if _GRAPHICS_CONTEXT["pid"] in graphics:
        pid = int32(first(graphics, _GRAPHICS_CONTEXT["pid"], 0))
    columns: dict[str, Any] = {
        "host": host_of(machine),
        "pid": pid,
        "device": int32(given.get("gpu_id", 0)),
        "context": int64(given["context"]) if "context" in given else None,
        "stream": stream,
        "track": None if stream is not None else queue or f"queue {given.get('hw_queue_iid', 0)}",
    }
    key = {name: value for name, value in columns.items() if value is not None}
    if api := _APIS.get(int(first(graphics, _GRAPHICS_CONTEXT["api"], 0))):
        at = tuple(item for item in key.items() if item[0] not in ("stream", "track"))
        context.facts["context", at] = {"api": api} if api != "UNDEFINED" else {}
    facts = {"description": described} if described else {}
    if stream is not None:
        at = tuple(item for item in key.items() if item[0] in ("host", "device", "stream"))
        context.facts["stream", (*at, ("name", title))] = facts
    elif facts:
        context.facts["track", tuple(key.items())] = facts
    return context.tracks.keyed(("stage", tuple(columns.items())), **columns)


def _argument(context: Context, state: SequenceState, data: bytes) -> tuple[str, Any]:
    """Returns name and value of an argument of an interned kernel."""
    a, fields = f.EXTRA_COMPUTE_ARG, lenient(data)
    name = text(first(fields, a["name"], b""))
    code = state.texts["arg_names"].get(int(first(fields, a["name_iid"], 0)))
    if not name and code >= 0:
        name = context.argument_names.texts[code]
    as_text = Json if context.by_ktrace and a["name"] in fields else str  # that is how JSON is marked
    for part, convert in (
        ("int_value", int64),
        ("uint_value", int),
        ("double_value", double),
        ("string_value", lambda value: as_text(text(value))),
    ):
        if a[part] in fields:
            return name, convert(fields[a[part]][-1])
    code = state.texts["strings"].get(int(first(fields, a["string_value_iid"], 0)))
    return name, as_text(context.trace_texts.texts[code]) if code >= 0 else ""


_KNOWN = {_G[name] for name in (*KEYS, "event_id", "duration", "name", "launch", "extra_data", "event_wait_ids")}
_KNOWN.add(_G["specifications"])
_NAMES = {number: name for name, number in _G.items()}


def read_stages(context: Context, chunk: Chunk, events: Events, specifications: Specifications) -> Iterator[Batch]:
    """Yields the rows of GpuRenderStageEvents."""
    fields = parse(chunk.data, events.start, events.end)
    kept = _work(context, chunk, events, fields, specifications)
    rows = np.flatnonzero(kept)
    if not len(rows):
        return
    stages, of = interned_stages(context, chunk, events, fields, specifications)
    index = np.where(kept, np.cumsum(kept) - 1, -1)
    duration = fields.get(_G["duration"], VARINT)
    has_dur = duration.has(len(events))[rows]
    columns = context.tracks.columns(np.array([one.place for one in stages])[of[rows]])
    columns |= {
        "id": pa.array(events.row[rows]),
        "ts": pa.array(events.ts[rows] + context.origin),
        "dur": pa.array(signed(duration.last(len(events)))[rows], mask=~has_dur),
        "timing": constant("measured", len(rows)),
        "name": _spelled([one.name for one in stages], of[rows]),
        "short_name": _spelled([one.short_name for one in stages], of[rows]),
        "kind": words([one.kind for one in stages], of[rows]).cast(pa.string()).dictionary_encode(),
        "cat": _spelled([one.category for one in stages], of[rows]),
    }
    if events.clock is not None:
        columns["clock"] = chunk.chunk_texts.column(events.clock[rows].astype(np.int32))
    columns["name"] = _own_names(chunk, fields, index, columns["name"], stages, of)
    launched, dimensions = _launch(chunk, events, fields, index, len(rows))
    columns |= dimensions
    values = joined_values([_kernel_arguments(chunk, stages, of, rows), launched, *_rest(chunk, fields, index)])
    if context.observer is not None:
        is_kernel = np.array([one.is_compute for one in stages], np.int64)[of[rows]]
        context.observer.observe_stages(chunk, values, events.ts[rows], is_kernel)
    shape = np.zeros(len(rows), np.int64)
    restore = restore_stage if context.by_ktrace else stage_columns
    for batch in event_batches(chunk, columns, shape, values, restore):
        if not context.by_ktrace:
            context.correlations(batch)
        yield batch
    if not context.by_ktrace:  # a trace that ktrace wrote has its links in the sidecar
        remember_stages(context, chunk, events, fields, index, rows)


def _work(context: Context, chunk: Chunk, events: Events, fields: Fields, specifications: Specifications) -> Bools:
    """Returns which events are work; others are damaged, or contain only specifications, which are read here."""
    report = context.conversion.report
    for row in fields.bad.tolist():
        report.issue("bad-record", context.where(int(events.id[row])), "not protobuf")
    kept = np.ones(len(events), np.bool_)
    kept[fields.bad] = False
    for start, size in _places(fields, "specifications"):
        specifications.parse(chunk.data[start : start + size].tobytes())
    no_work = fields.get(_G["specifications"], LENGTH).has(len(events)) & kept
    for name in ("event_id", "duration"):
        no_work &= ~fields.get(_G[name], VARINT).has(len(events))
    if no_work.any():
        report.used(int(no_work.sum()), outcome="specifications")
    kept &= ~no_work
    report.used(int(kept.sum()))
    return kept


def _places(fields: Fields, name: str) -> list[tuple[int, int]]:
    column = fields.get(_G[name], LENGTH)
    return list(zip(column.start.tolist(), column.value.tolist(), strict=True))


def _spelled(texts: list[str | None] | list[str], index: Int64) -> pa.DictionaryArray:
    distinct = list(dict.fromkeys(word for word in texts if word is not None))
    code = {word: number for number, word in enumerate(distinct)}
    codes = np.array([code.get(word, -1) if word is not None else -1 for word in texts], np.int32)[index]
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), pa.array(distinct, pa.string()))


def _own_names(
    chunk: Chunk, fields: Fields, index: Int64, names: pa.Array, stages: list[InternedStage], of: Int64
) -> pa.Array:
    """Returns the names; an event without an interned kernel may spell its name."""
    column = fields.get(_G["name"], LENGTH)
    unnamed = np.array([one.kernel is None for one in stages], np.bool_)[of]
    selected = (index[column.owner] >= 0) & unnamed[column.owner]
    if not selected.any():
        return names
    codes = np.full(len(names), -1, np.int32)
    spelled = texts_at(chunk.data, column.start[selected], signed(column.value)[selected])
    codes[index[column.owner[selected]]] = chunk.chunk_texts.codes(spelled)
    return pc.coalesce(decoded(chunk.chunk_texts.column(codes)), decoded(names))


def _launch(
    chunk: Chunk, events: Events, fields: Fields, index: Int64, count: int
) -> tuple[Values, dict[str, pa.Array]]:
    """Returns arguments and dimensions of launches."""
    column = fields.get(_G["launch"], LENGTH)
    selected = index[column.owner] >= 0
    owner, start = column.owner[selected], column.start[selected]
    launch = parse(chunk.data, start, start + signed(column.value)[selected])
    c = f.COMPUTE_KERNEL_LAUNCH
    dimensions = {}
    for name, size in (("grid", "grid_size"), ("block", "workgroup_size")):
        given = launch.get(c[size], LENGTH)
        parts = parse(chunk.data, given.start, given.start + signed(given.value))
        for axis in "xyz":
            along = parts.get(f.DIM3[axis], VARINT)
            if len(along.owner):
                row = index[owner[given.owner[along.owner]]]
                size_along, absent = np.zeros(count, np.int64), np.ones(count, np.bool_)
                size_along[row], absent[row] = signed(along.value), False
                dimensions[f"{name}_{axis}"] = pa.array(size_along, mask=absent)
    arguments = launch.get(c["args"], LENGTH)
    event = owner[arguments.owner]
    size_of = signed(arguments.value)
    values = read_values(chunk, index[event], events.state[event], arguments.start, size_of, STAGE_ARGUMENT)
    return values, dimensions


def _kernel_arguments(chunk: Chunk, stages: list[InternedStage], of: Int64, rows: Int64) -> Values:
    """Returns the arguments of the interned kernel for each row that refers to it."""
    flat = np.array([part for one in stages for part in one.arguments], np.int64).reshape(-1, 3)
    sizes = np.array([len(one.arguments) for one in stages])
    begin = np.cumsum(sizes) - sizes
    count = sizes[of[rows]]
    row = np.repeat(np.arange(len(rows)), count)
    which = ranges(begin[of[rows]], count)
    value_type, number = flat[which, 1].astype(np.uint8), flat[which, 2]
    texts = np.flatnonzero(value_type == JSON)  # their codes are of trace_texts
    codes, of_code = distinct_of(number[texts])
    copied = [chunk.chunk_texts.code(chunk.trace_texts.texts[code].encode()) for code in codes.tolist()]
    number[texts] = np.array(copied, np.int64)[of_code]
    return Values(row, flat[which, 0].astype(np.int32), value_type, number)


def _rest(chunk: Chunk, fields: Fields, index: Int64) -> Iterator[Values]:
    """Yields extra_data, always texts, under their names, and fields that have no column, with a "$"."""
    gathered = []
    for row, (start, size) in zip(
        fields.get(_G["extra_data"], LENGTH).owner, _places(fields, "extra_data"), strict=True
    ):
        parts = lenient(chunk.data[start : start + size].tobytes())
        name, value = (first(parts, f.EXTRA_DATA[part], b"") for part in ("name", "value"))
        if index[row] >= 0:
            gathered.append((index[row], chunk.argument_names.code(name), chunk.chunk_texts.code(value)))
    if gathered:
        row_, key_, number = np.array(gathered, np.int64).T
        yield Values(row_, key_.astype(np.int32), np.full(len(row_), CHUNK_TEXT, np.uint8), number)
    for tag in fields.tags:
        if tag >> 3 in _KNOWN or tag & 7 != VARINT:
            continue
        column = fields.get(tag >> 3, VARINT)
        selected = index[column.owner] >= 0
        count = int(selected.sum())
        key = chunk.argument_names.code(f"${_NAMES.get(tag >> 3, tag >> 3)}".encode())
        yield Values(
            index[column.owner[selected]],
            np.full(count, key, np.int32),
            np.full(count, INT, np.uint8),
            signed(column.value)[selected],
        )


_C = f.GPU_COUNTER_EVENT

#: Metrics of kernels in a trace that ktrace wrote have ids from here on; ids of events there come from the source.
_IDS = 1 << 58

#: Perfetto's units with a short name in the model; others keep their name, in lower case.
_SHORT = {
    **{"NONE": "", "BYTE": "B", "HERTZ": "Hz", "NANOSECOND": "ns", "MICROSECOND": "us", "MILLISECOND": "ms"},
    **{"SECOND": "s", "WATT": "W", "MILLIWATT": "mW", "CELSIUS": "degC", "PERCENT": "%", "VOLT": "V", "JOULE": "J"},
}
_UNITS = {number: _SHORT.get(name, name.lower()) for name, number in f.MEASURE_UNIT.items()}
_GROUPS = {number: name.lower() for name, number in f.GPU_COUNTER_GROUP.items()}
_SEVERITIES = {number: name.removeprefix("LOG_SEVERITY_").lower() for name, number in f.SEVERITY.items()}


class CounterSpec(NamedTuple):
    """The descriptor of a counter; `groups` are those of Perfetto and those that the source defines."""

    name: str
    unit: str | None
    description: str
    groups: tuple[str, ...] = ()

    @property
    def facts(self) -> dict[str, Any]:
        """Its facts in the catalog."""
        stated = {"description": self.description, "groups": list(self.groups)}
        return {name: value for name, value in stated.items() if value}


class GpuPackets:
    """Reads these packets and adds rows to `rows`. All methods raise ValueError for a message that isn't protobuf."""

    def __init__(self, context: Context, rows: RowBuilder) -> None:
        self._context = context
        self._rows = rows
        self._known: dict[tuple[int, int], CounterSpec] = {}  # (gpu, counter id), of descriptors that aren't interned

    def describe(self, data: bytes) -> None:
        """Reads the descriptor of a GpuCounterEvent that isn't interned."""
        fields = gather(data)
        gpu = int32(first(fields, _C["gpu_id"], 0))
        for descriptor in fields.get(_C["counter_descriptor"], []):
            self._known |= {(gpu, number): counter for number, counter in _specs(as_bytes(descriptor)).items()}

    def values(self, chunk: Chunk, events: Events, base: int) -> Iterator[Batch]:
        """Yields the values of GpuCounterEvents, without estimates that ktrace made from a column of their kernel."""
        report = self._context.conversion.report
        fields = parse(chunk.data, events.start, events.end)
        given = fields.get(_C["counters"], LENGTH)
        parts = parse(chunk.data, given.start, given.start + signed(given.value))
        whole = parts.get(f.GPU_COUNTER["int_value"], VARINT)
        real = parts.get(f.GPU_COUNTER["double_value"], FIXED64)
        value = np.full(parts.count, np.nan)
        value[whole.owner] = signed(whole.value)
        value[real.owner] = bits(signed(real.value))
        specs, which = self._counters(chunk, events, fields, parts)
        kept = np.array(
            [not (self._context.by_ktrace and counter.description == ESTIMATE) for counter, _ in specs], np.bool_
        )[which]
        rows = np.flatnonzero(kept)
        has = np.zeros(len(events), np.bool_)
        has[given.owner[rows]] = True
        empty = ~given.has(len(events))
        report.used(int(has.sum()))
        for count, outcome in ((empty, "counter descriptors"), (~has & ~empty, "counters that follow from columns")):
            if count.any():
                report.used(int(count.sum()), outcome=outcome)
        if not len(rows):
            return
        owner, which = given.owner[rows], which[rows]
        if self._context.observer is not None:
            for one, (counter, _) in enumerate(specs):
                self._context.observer.observe_counter(counter.name, events.ts[owner[which == one]])
        for counter, _ in specs:
            self._context.metrics.setdefault(counter.name, {}).update(counter.facts)
        by_ktrace = self._context.by_ktrace
        timing = ["derived" if by_ktrace and counter.description == DERIVED else "measured" for counter, _ in specs]
        columns = {
            "source": constant(self._context.source(), len(rows)),
            "id": pa.array(given.start[rows] + base + (_IDS if self._context.by_ktrace else 0)),
            "device": pa.array(np.array([device for _, device in specs], np.int64)[which]),
            "ts": pa.array(events.ts[owner] + self._context.origin),
            "kind": constant("counter", len(rows)),
            "name": words([counter.name for counter, _ in specs], which),
            "unit": pa.array([counter.unit for counter, _ in specs], pa.string())
            .take(pa.array(which))
            .dictionary_encode(),
            "value": pa.array(value[rows], mask=~(whole.has(parts.count) | real.has(parts.count))[rows]),
            "timing": words(timing, which),
        }
        machine = np.array([state.machine for state in chunk.states], np.int64)[events.state[owner]]
        if machine.any() and not self._context.by_ktrace:
            columns["host"] = pa.array([host_of(one) for one in machine.tolist()]).dictionary_encode()
        if events.clock is not None:
            columns["clock"] = chunk.chunk_texts.column(events.clock[owner].astype(np.int32))
        batch = Batch("events", pa.RecordBatch.from_pydict(columns))
        if self._context.by_ktrace:
            self._context.kernel_metrics.append((batch, machine))
        else:
            yield batch

    def _counters(
        self, chunk: Chunk, events: Events, fields: Fields, parts: Fields
    ) -> tuple[list[tuple[CounterSpec, int]], Int64]:
        """Returns counters with their devices, and for each value of the events the index of its counter."""
        owner = fields.get(_C["counters"], LENGTH).owner
        number = parts.get(f.GPU_COUNTER["counter_id"], VARINT).last(parts.count)
        gpu = signed(fields.get(_C["gpu_id"], VARINT).last(len(events)))[owner]
        none = (1 << 64) - 1
        iid = fields.get(_C["counter_descriptor_iid"], VARINT).last(len(events), none)[owner]
        state = events.state[owner]
        rows, which = combinations(state, [number, gpu.view(np.uint64), iid])
        specs = [
            self._counter(chunk.states[int(state[row])], int(iid[row]), int(gpu[row]), int(number[row]))
            for row in rows.tolist()
        ]
        return specs, which

    def _counter(self, state: SequenceState, iid: int, gpu: int, number: int) -> tuple[CounterSpec, int]:
        """Returns a counter and its device."""
        specs = self._known
        if iid != (1 << 64) - 1:
            specs, gpu = self._interned(state, iid, gpu)
        return specs.get((gpu, number)) or CounterSpec(f"counter {number}", None, ""), gpu

    def _interned(self, state: SequenceState, iid: int, gpu: int) -> tuple[dict[tuple[int, int], CounterSpec], int]:
        key = ("counters", iid)
        if key not in state.cache:
            entry = lenient(state.entries.get((f.INTERNED_DATA["gpu_counter_descriptors"], iid), b""))
            i = f.INTERNED_GPU_COUNTER_DESCRIPTOR
            gpu = int32(first(entry, i["gpu_id"], gpu))
            specs = _specs(first(entry, i["counter_descriptor"], b""))
            state.cache[key] = ({(gpu, number): counter for number, counter in specs.items()}, gpu)
        result: tuple[dict[tuple[int, int], CounterSpec], int] = state.cache[key]
        return result

    def memory(self, data: bytes, at: int, ts: int, clock: str | None, machine: int) -> None:
        """Reads a GpuMemTotalEvent."""
        m, fields = f.GPU_MEM_TOTAL_EVENT, gather(data)
        place: dict[str, Any] = {
            "device": int(first(fields, m["gpu_id"], 0)),
            "pid": int(first(fields, m["pid"], 0)) or None,
        }
        place |= {"host": host_of(machine)}
        size = float(first(fields, m["size"], 0))
        self._event("counter", "GPU memory", at, ts, clock, **place, value=size, unit="B")

    def log(self, data: bytes, at: int, ts: int, clock: str | None, machine: int) -> None:
        """Reads a GpuLog."""
        g, fields = f.GPU_LOG, gather(data)
        args: dict[str, Any] = {"severity": _SEVERITIES.get(int(first(fields, g["severity"], 0)), "unspecified")}
        if tag := text(first(fields, g["tag"], b"")):
            args["tag"] = tag
        self._event(
            "log",
            text(first(fields, g["log_message"], b"")),
            at,
            ts,
            clock,
            host=host_of(machine),
            track="GPU log",
            args=args,
        )

    def info(self, data: bytes, machine: int) -> None:
        """Reads a GpuInfo: the index of a GPU in the list is its number."""
        g = f.GPU
        for device, gpu in enumerate(gather(data).get(f.GPU_INFO["gpus"], [])):
            fields = gather(as_bytes(gpu))
            facts = {fact: text(first(fields, g[fact], b"")) for fact in ("vendor", "model", "architecture", "pci_bdf")}
            if uuid := first(fields, g["uuid"], b""):
                facts["uuid"] = uuid.hex()
            for extra in fields.get(g["extra_info"], []):
                pair = gather(as_bytes(extra))
                facts[text(first(pair, 1, b""))] = text(first(pair, 2, b""))
            name = text(first(fields, g["name"], b"")) or None
            facts = {fact: value for fact, value in facts.items() if value}
            self._context.devices[host_of(machine), device] = {"name": name, "facts": facts}

    def _event(self, kind: str, name: str, at: int, ts: int, clock: str | None, **columns: Any) -> None:
        columns["source"] = self._context.source()
        self._rows.event(kind, name, ts=ts + self._context.origin, id=at, clock=clock, **columns)


def _specs(descriptor: bytes) -> dict[int, CounterSpec]:
    """Returns counter id -> its descriptor."""
    s = f.GPU_COUNTER_SPEC
    counters = {}
    listed = _listed_groups(descriptor)
    for spec in lenient(descriptor).get(f.GPU_COUNTER_DESCRIPTOR["specs"], []):
        data = message(spec)
        fields = lenient(data)
        over, under = (
            " ".join(_UNITS.get(unit, str(unit)) for unit in repeated(data, s[name]))
            for name in ("numerator_units", "denominator_units")
        )
        unit = f"{over}/{under}" if under else over
        number = int(first(fields, s["counter_id"], 0))
        name = text(first(fields, s["name"], b"")) or f"counter {number}"
        named = (_GROUPS.get(group, str(group)) for group in repeated(data, s["groups"]))
        groups = tuple(dict.fromkeys([*named, *listed.get(number, [])]))
        counters[number] = CounterSpec(name, unit or None, text(first(fields, s["description"], b"")), groups)
    return counters


def _listed_groups(descriptor: bytes) -> dict[int, list[str]]:
    """Returns counter id -> the groups, defined by the source, that list it."""
    g = f.GPU_COUNTER_GROUP_SPEC
    groups: dict[int, list[str]] = {}
    for group in lenient(descriptor).get(f.GPU_COUNTER_DESCRIPTOR["counter_groups"], []):
        data = message(group)
        fields = lenient(data)
        name = text(first(fields, g["name"], b"")) or f"group {first(fields, g['group_id'], 0)}"
        for number in repeated(data, g["counter_ids"]):
            groups.setdefault(int(number), []).append(name)
    return groups
