"""A trace decoded by the protobuf library, with what is interned put in its place; and the same built row by row."""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scene import write

from ktrace.converters.perfetto.sidecar import DERIVED_SEQUENCES, Sidecar, parse_begin
from ktrace.model.batch import Batch
from ktrace.proto.extensions import load, message_class

_, _FILE = load()
Trace = message_class("Trace")
Annotation = message_class("DebugAnnotation")
CORRELATION = _FILE.extensions_by_name["gpu_correlation"]
KERNELS = _FILE.extensions_by_name["compute_kernels"]
ARG_NAMES = _FILE.extensions_by_name["compute_arg_names"]
ROW = _FILE.extensions_by_name["ktrace_row"]

BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4


@dataclass
class Stage:
    """A render stage with its interned kernel."""

    ts: int
    event: Any
    queue: dict[str, Any]
    stage: Any
    kernel: Any
    context: Any
    arguments: dict[str, tuple[str, Any]] = field(default_factory=dict)
    row: int = -1


@dataclass
class Decoded:
    """What a trace says."""

    sidecar: Sidecar
    events: list[tuple[int, dict[str, Any], Any]]  # ns, track columns, TrackEvent
    stages: list[Stage]
    counters: list[tuple[int, str, float]]
    rows: list[int | None] = field(default_factory=list)  # the row's id of each of `events`


def decode(data: bytes) -> Decoded:
    """Takes a whole file apart. Raises KeyError where a number isn't interned."""
    trace = Trace.FromString(data)
    texts = [packet.for_testing.str for packet in trace.packet if packet.HasField("for_testing")]
    sidecar = parse_begin(texts[0])
    assert sidecar is not None
    for text in texts:
        sidecar.add(text)
    assert sidecar.ended
    tables: dict[int, dict[str, dict[int, Any]]] = defaultdict(lambda: defaultdict(dict))
    found = Decoded(sidecar, [], [], [])
    for packet in trace.packet:
        sequence = packet.trusted_packet_sequence_id
        if sequence >= DERIVED_SEQUENCES:
            continue
        table = tables[sequence]
        if packet.sequence_flags & 1:
            table.clear()
        interned = packet.interned_data
        for name, entries in interned.ListFields():
            for entry in entries:
                assert entry.iid not in table[name.name], "interned twice"
                table[name.name][entry.iid] = entry
        if packet.HasField("track_event"):
            event = packet.track_event
            _resolve(event, table)
            found.events.append((packet.timestamp, sidecar.tracks[event.track_uuid], event))
            found.rows.append(packet.Extensions[ROW] if packet.HasExtension(ROW) else None)
        if packet.HasField("gpu_render_stage_event"):
            found.stages.append(_stage(packet.timestamp, packet.gpu_render_stage_event, table, sidecar))
            found.stages[-1].row = packet.Extensions[ROW]
        if packet.HasField("gpu_counter_event"):
            event = packet.gpu_counter_event
            descriptor = table["gpu_counter_descriptors"][event.counter_descriptor_iid].counter_descriptor
            names = {spec.counter_id: spec.name for spec in descriptor.specs}
            found.counters += [(packet.timestamp, names[c.counter_id], c.double_value) for c in event.counters]
    return found


def _resolve(event: Any, table: Any) -> None:
    if event.name_iid:
        event.name = table["event_names"][event.name_iid].name
    event.categories.extend(table["event_categories"][iid].name for iid in event.category_iids)
    event.ClearField("category_iids")
    for annotation in event.debug_annotations:
        _resolve_annotation(annotation, table)


def _resolve_annotation(annotation: Any, table: Any) -> None:
    if annotation.name_iid:
        annotation.name = table["debug_annotation_names"][annotation.name_iid].name
    if annotation.HasField("string_value_iid"):
        annotation.string_value = table["debug_annotation_string_values"][annotation.string_value_iid].str.decode()
    if annotation.proto_type_name_iid:
        annotation.proto_type_name = table["debug_annotation_value_type_names"][annotation.proto_type_name_iid].name
    for inner in (*annotation.dict_entries, *annotation.array_values):
        _resolve_annotation(inner, table)


def _stage(ts: int, event: Any, table: Any, sidecar: Sidecar) -> Stage:
    kernel = table["compute_kernels"][event.kernel_iid]
    found = Stage(
        ts,
        event,
        sidecar.queues[event.hw_queue_iid],
        table["gpu_specifications"][event.stage_iid],
        kernel,
        table["graphics_contexts"][event.context],
    )
    for argument in (*kernel.args, *event.launch.args):
        name = table["compute_arg_names"][argument.name_iid].name if argument.name_iid else argument.name
        assert name not in found.arguments
        kind = argument.WhichOneof("value")
        value = getattr(argument, kind)
        if kind == "string_value_iid":
            kind, value = "string_value", table["debug_annotation_string_values"][value].str.decode()
        found.arguments[name] = ("json" if not argument.name_iid else kind, value)
    return found


def annotation(name: str | None, value: Any) -> Any:
    """A value of JSON as the protobuf library says it."""
    made = Annotation()
    if name is not None:
        made.name = name
    if value is None and name is not None:
        made.proto_type_name = "json"
    elif type(value) is bool:
        made.bool_value = value
    elif type(value) is int and -(2**63) <= value < 2**63:
        made.int_value = value
    elif type(value) is float:
        made.double_value = value
    elif type(value) is str:
        made.string_value = value
    elif type(value) is dict and value:
        made.dict_entries.extend(annotation(key, item) for key, item in value.items())
    elif type(value) is list and value:
        made.array_values.extend(annotation(None, item) for item in value)
    else:
        made.proto_type_name = "json"
        made.string_value = json.dumps(value)
    return made


def said(annotations: Any) -> list[str]:
    """Annotations in an order of their own, as texts: of two that are equal the texts are."""
    return sorted(str(annotation_) for annotation_ in map(_bare, annotations))


def _bare(annotation_: Any) -> Any:
    """Without the numbers of what is interned."""
    made = Annotation()
    made.CopyFrom(annotation_)
    if made.name_iid and not made.name:
        raise AssertionError("not resolved")
    if made.HasField("name"):
        name = made.name
        made.ClearField("name_iid")
        made.name = name
    if made.proto_type_name:
        word = made.proto_type_name
        made.ClearField("proto_type_name_iid")
        made.proto_type_name = word
    for number, inner in enumerate(made.dict_entries):
        made.dict_entries[number].CopyFrom(_bare(inner))
    for number, inner in enumerate(made.array_values):
        made.array_values[number].CopyFrom(_bare(inner))
    return made


def written(batches: list[Batch]) -> bytes:
    """The trace of the batches."""
    with tempfile.TemporaryDirectory() as folder:
        write(batches, "perfetto", Path(folder) / "out.perfetto")
        return (Path(folder) / "out.perfetto").read_bytes()
