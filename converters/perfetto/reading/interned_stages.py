"""What stages refer to: queue, stage, context, and the kernel with its arguments.

    interned_data { gpu_specifications { iid 2 name "matmul" category COMPUTE }
                    graphics_contexts { iid 1 pid 4242 api CUDA }
                    compute_kernels { iid 1 name "_Z6matmulv" args { name "regs" uint_value 32 } } }

Traces of older tools list their queues and stages in their first packet instead.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from ktrace.kit.columnar.protobuf import VARINT, Fields, Value, combinations
from ktrace.model.arrays import Int64, UInt64
from ktrace.model.batch import DEVICE_KINDS

from .. import field_numbers as f
from ..sidecar import STAGE_DERIVED
from .argument_values import DOUBLE, INT, JSON, TRACE_TEXT, Chunk
from .context import Context, Events
from .device_work import stream_of_queue
from .messages import double, first, int32, int64, lenient, message, text
from .sequence_state import SequenceState
from .tracks import host_of

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

    def take(self, data: bytes) -> None:
        """Reads a Specifications message. Raises ValueError if it isn't protobuf."""
        s, found = f.SPECIFICATIONS, lenient(data)
        name, described = f.DESCRIPTION["name"], f.DESCRIPTION["description"]
        queues = [lenient(message(one)) for one in found.get(s["hw_queue"], [])]
        self.queues = [text(first(queue, name, b"")) for queue in queues]
        self.queue_descriptions = [text(first(queue, described, b"")) for queue in queues]
        self.stages = [text(first(lenient(message(one)), name, b"")) for one in found.get(s["stage"], [])]
        for one in found.get(s["context_spec"], []):
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
    context: Context, chunk: Chunk, events: Events, found: Fields, specifications: Specifications
) -> tuple[list[InternedStage], Int64]:
    """Returns the distinct stages of the events, and for each event the index of its stage."""
    count = len(events)
    none = (1 << 64) - 1
    columns: list[UInt64] = [found.get(_G[name], VARINT).last(count, none) for name in KEYS]
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
    entries = _entries(state, given)
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
    place = context.tracks.queue(given.get("hw_queue_iid", -1), has_context="context" in arguments)
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


def _entries(state: SequenceState, given: dict[str, int]) -> dict[str, Entry]:
    """The entry that each key of `_TABLES` refers to; empty where there is none."""
    found = {key: state.entries.get((f.INTERNED_DATA[table], given.get(key, -1))) for key, table in _TABLES}
    return {key: lenient(entry) if entry else {} for key, entry in found.items()}


def _text(entry: Entry, number: int) -> str:
    """A text of an entry, by the number of its field; '' if it has none."""
    return text(first(entry, number, b""))


def _arguments(context: Context, state: SequenceState, kernel: Entry) -> dict[str, Any]:
    """The arguments of an interned kernel by name. Of another tool's kernel also its architecture and mangled name."""
    found: dict[str, Any] = {}
    if not context.by_ktrace:
        full, mangled = _text(kernel, _KERNEL["demangled_name"]), _text(kernel, _KERNEL["name"])
        facts = {"arch": _text(kernel, _KERNEL["arch"]), "kernel_name": mangled if full and full != mangled else ""}
        found = {name: value for name, value in facts.items() if value}
    return found | dict(_argument(context, state, message(one)) for one in kernel.get(_KERNEL["args"], []))


def _kind(state: SequenceState, stage: str, category: int, *, is_interned: bool) -> str:
    """The kind of a stage that another tool wrote: graphics are ranges on the device, since they aren't kernels.

    In traces from before categories only the name of the stage tells the kind; in others COMPUTE are the kernels.
    """
    if is_interned or category == _COMPUTE:
        return "kernel"
    if category == _GRAPHICS:
        return "range"
    found = next((kind for kind, words_ in _BY_NAME if words_.search(stage)), None)
    return found or ("range" if _uses_compute(state) else "kernel")


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
    context: Context,
    machine: int,
    entries: dict[str, Entry],
    given: dict[str, int],
    specifications: Specifications,
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
    a, found = f.EXTRA_COMPUTE_ARG, lenient(data)
    name = text(first(found, a["name"], b""))
    code = state.texts["arg_names"].get(int(first(found, a["name_iid"], 0)))
    if not name and code >= 0:
        name = context.argument_names.texts[code]
    as_text = Json if context.by_ktrace and a["name"] in found else str  # that is how JSON is marked
    for part, convert in (
        ("int_value", int64),
        ("uint_value", int),
        ("double_value", double),
        ("string_value", lambda value: as_text(text(value))),
    ):
        if a[part] in found:
            return name, convert(found[a[part]][-1])
    code = state.texts["strings"].get(int(first(found, a["string_value_iid"], 0)))
    return name, as_text(context.trace_texts.texts[code]) if code >= 0 else ""
