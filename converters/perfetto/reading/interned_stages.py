"""What stages refer to: queue, stage, context, and the kernel with its arguments.

    interned_data { gpu_specifications { iid 2 name "matmul" category COMPUTE }
                    graphics_contexts { iid 1 pid 4242 api CUDA }
                    compute_kernels { iid 1 name "_Z6matmulv" args { name "regs" uint_value 32 } } }

Traces of older tools list their queues and stages in their first packet instead.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ktrace.kit.columnar.protobuf import VARINT, Fields, Value, combinations
from ktrace.model.arrays import Int64, UInt64
from ktrace.model.batch import DEVICE_KINDS

from .. import field_numbers as f
from ..sidecar import STAGE_DERIVED
from .argument_values import DOUBLE, INT, JSON, TRACE_TEXT, Chunk
from .context import Context, Events
from .messages import double, first, int32, int64, lenient, message, text
from .sequence_state import SequenceState
from .tracks import host_of

_G = f.GPU_RENDER_STAGE_EVENT

#: The fields that refer to interned entries or lists.
KEYS = ("hw_queue_iid", "stage_iid", "kernel_iid", "context", "gpu_id", "name_iid", "hw_queue_id", "stage_id")

#: Work that isn't a kernel, by the name of its stage.
_BY_NAME = (
    ("memcpy", re.compile("memcpy|copy", re.I)),
    ("memset", re.compile("memset|fill", re.I)),
    ("range", re.compile("binning|vertex|fragment|pixel|geometry|render|tiler|tiling|raster|resolve|draw", re.I)),
)

#: Categories of stages that are kernels, and of graphics.
_COMPUTE = f.RENDER_STAGE_CATEGORY["COMPUTE"]
_GRAPHICS = f.RENDER_STAGE_CATEGORY["GRAPHICS"]

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
    interned = {name: state.entries.get((f.INTERNED_DATA[where], given.get(name, -1))) for name, where in _TABLES}
    entries: dict[str, dict[int, list[Value]]] = {name: lenient(entry) for name, entry in interned.items() if entry}
    spec = f.INTERNED_GPU_RENDER_STAGE_SPECIFICATION
    stage = text(first(entries.get("stage_iid", {}), spec["name"], b"")) or _listed(
        specifications.stages, given.get("stage_id")
    )
    queue = text(first(entries.get("hw_queue_iid", {}), spec["name"], b""))
    described = text(first(entries.get("hw_queue_iid", {}), spec["description"], b""))
    described = described or _listed(specifications.queue_descriptions, given.get("hw_queue_id"))
    queue = queue or _listed(specifications.queues, given.get("hw_queue_id")) or f"queue {given.get('hw_queue_iid', 0)}"
    kernel, k = entries.get("kernel_iid", {}), f.INTERNED_COMPUTE_KERNEL
    full, mangled = text(first(kernel, k["demangled_name"], b"")), text(first(kernel, k["name"], b""))
    code = state.texts["names"].get(given["name_iid"]) if "name_iid" in given else -1
    own_name = context.trace_texts.texts[code] if code >= 0 else None
    name = full or mangled or own_name or stage
    category = first(entries.get("stage_iid", {}), spec["category"], 0)
    kind = text(first(entries.get("stage_iid", {}), spec["description"], b"")).lower()
    if not context.by_ktrace or kind not in (*DEVICE_KINDS, "range"):
        kind = _kind(stage, category, bool(kernel))
    arguments: dict[str, Any] = {}
    # `occupancy_source` stays: it tells an estimate from a metric.
    derived = STAGE_DERIVED - {"occupancy_source"} if context.by_ktrace else frozenset()
    if not context.by_ktrace:
        arguments |= {
            "arch": text(first(kernel, k["arch"], b"")),
            "kernel_name": mangled if full and full != mangled else "",
        }
        arguments = {key: value for key, value in arguments.items() if value}
    for argument in kernel.get(k["args"], []):
        arguments |= dict([_argument(context, state, message(argument))])
    place = context.tracks.queue(given.get("hw_queue_iid", -1), has_context="context" in arguments)
    if place is None:
        place = _place(context, state.machine, entries.get("context", {}), given, queue, described, specifications)
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


def _kind(stage: str, category: int, is_interned: bool) -> str:
    """The kind of a stage that another tool wrote: graphics are ranges on the device, since they aren't kernels.

    In traces from before categories only the name of the stage tells the kind.
    """
    if is_interned or category == _COMPUTE:
        return "kernel"
    if category == _GRAPHICS:
        return "range"
    return next((kind for kind, words_ in _BY_NAME if words_.search(stage)), "kernel")


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
    graphics: dict[int, list[Value]],
    given: dict[str, int],
    queue: str,
    described: str,
    specifications: Specifications,
) -> int:
    g = f.INTERNED_GRAPHICS_CONTEXT
    pid = (
        int32(first(graphics, g["pid"], 0))
        if g["pid"] in graphics
        else specifications.contexts.get(given.get("context", -1))
    )
    columns: dict[str, Any] = {
        "host": host_of(machine),
        "pid": pid,
        "device": int32(given.get("gpu_id", 0)),
        "context": given.get("context"),
        "track": queue,
    }
    if columns["context"] is not None and int(columns["context"]) >> 63:
        columns["context"] = int64(columns["context"])
    if api := _APIS.get(int(first(graphics, g["api"], 0))):
        key = {name: value for name, value in columns.items() if name != "track" and value is not None}
        context.facts["context", tuple(key.items())] = {"api": api} if api != "UNDEFINED" else {}
    if described:
        key = {name: value for name, value in columns.items() if value is not None}
        context.facts["track", tuple(key.items())] = {"description": described}
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
