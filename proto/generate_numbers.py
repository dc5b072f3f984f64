"""Writes converters/perfetto/numbers.py: the field numbers of the Perfetto messages that ktrace writes.

    python -m ktrace.proto.generate_numbers          (needs the package `perfetto`)

Those of extensions come from gpu_extensions.proto.

The converter itself then needs neither that package nor a message object per packet. A test compares the
module with the descriptors of the installed package.
"""

from __future__ import annotations

from pathlib import Path

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as trace

from ktrace.proto import extensions

#: Message -> the fields that are written.
FIELDS = {
    "Trace": ("packet",),
    "TracePacket": (
        *("clock_snapshot", "timestamp", "trusted_packet_sequence_id", "track_event", "interned_data"),
        *("sequence_flags", "first_packet_on_sequence", "track_descriptor", "trace_packet_defaults"),
        *("gpu_counter_event", "gpu_render_stage_event", "gpu_info", "for_testing"),
    ),
    "TestEvent": ("str",),
    "TracePacketDefaults": ("timestamp_clock_id",),
    "ClockSnapshot": ("clocks",),
    "ClockSnapshot.Clock": ("clock_id", "timestamp", "is_incremental"),
    "TrackDescriptor": (
        *("uuid", "parent_uuid", "name", "description", "process", "thread", "counter", "child_ordering"),
        *("sibling_order_rank", "sibling_merge_behavior", "sibling_merge_key_int", "process_ordering"),
        *("thread_ordering",),
    ),
    "ProcessDescriptor": ("pid", "process_name", "legacy_sort_index"),
    "ThreadDescriptor": ("pid", "tid", "thread_name"),
    "CounterDescriptor": ("unit", "unit_name"),
    "TrackEvent": (
        *("category_iids", "name_iid", "name", "categories", "type", "track_uuid", "counter_value"),
        *("double_counter_value", "flow_ids", "debug_annotations", "gpu_correlation", "gpu_api"),
    ),
    "GpuCorrelation": ("submission_event_ids", "wait_event_ids"),
    "DebugAnnotation": (
        *("name_iid", "name", "bool_value", "int_value", "double_value", "string_value", "string_value_iid"),
        *("proto_type_name_iid", "dict_entries", "array_values"),
    ),
    "GpuRenderStageEvent": (
        *("event_id", "duration", "context", "gpu_id", "hw_queue_iid", "stage_iid", "name", "event_wait_ids"),
        *("kernel_iid", "launch"),
    ),
    "GpuRenderStageEvent.ComputeKernelLaunch": ("grid_size", "workgroup_size", "args"),
    "GpuRenderStageEvent.Dim3": ("x", "y", "z"),
    "GpuRenderStageEvent.ExtraComputeArg": (
        *("name_iid", "name", "int_value", "double_value", "string_value", "string_value_iid"),
    ),
    "GpuCounterEvent": ("counters", "counter_descriptor_iid", "gpu_id"),
    "GpuCounterEvent.GpuCounter": ("counter_id", "double_value"),
    "GpuCounterDescriptor": ("specs",),
    "GpuCounterDescriptor.GpuCounterSpec": (
        *("counter_id", "name", "description", "numerator_units", "groups", "value_direction"),
    ),
    "GpuInfo": ("gpus",),
    "GpuInfo.Gpu": ("name", "vendor", "model", "architecture", "uuid", "pci_bdf"),
    "InternedData": (
        *("event_categories", "event_names", "debug_annotation_names", "debug_annotation_value_type_names"),
        *("debug_annotation_string_values", "graphics_contexts", "gpu_specifications", "gpu_counter_descriptors"),
        *("compute_kernels", "compute_arg_names"),
    ),
    "EventCategory": ("iid", "name"),
    "EventName": ("iid", "name"),
    "DebugAnnotationName": ("iid", "name"),
    "InternedString": ("iid", "str"),
    "InternedGraphicsContext": ("iid", "pid", "api"),
    "InternedGpuRenderStageSpecification": ("iid", "name", "description", "category"),
    "InternedGpuCounterDescriptor": ("iid", "counter_descriptor", "gpu_id"),
    "InternedComputeKernel": ("iid", "name", "demangled_name", "arch", "args"),
}

#: Enum -> the values that are written.
ENUMS = {
    "BuiltinClock": ("BUILTIN_CLOCK_REALTIME", "BUILTIN_CLOCK_BOOTTIME"),
    "TracePacket.SequenceFlags": ("SEQ_INCREMENTAL_STATE_CLEARED", "SEQ_NEEDS_INCREMENTAL_STATE"),
    "TrackDescriptor.ChildTracksOrdering": ("EXPLICIT",),
    "TrackDescriptor.SiblingMergeBehavior": ("SIBLING_MERGE_BEHAVIOR_BY_SIBLING_MERGE_KEY",),
    "TrackDescriptor.ProcessOrdering": ("PROCESS_ORDERING_EXPLICIT",),
    "TrackDescriptor.ThreadOrdering": ("THREAD_ORDERING_EXPLICIT",),
    "CounterDescriptor.Unit": ("UNIT_TIME_NS", "UNIT_COUNT", "UNIT_SIZE_BYTES"),
    "TrackEvent.Type": ("TYPE_SLICE_BEGIN", "TYPE_SLICE_END", "TYPE_INSTANT", "TYPE_COUNTER"),
    "InternedGraphicsContext.Api": ("UNDEFINED", "OPEN_GL", "VULKAN", "OPEN_CL", "CUDA", "HIP"),
    "InternedGpuRenderStageSpecification.RenderStageCategory": ("OTHER", "COMPUTE"),
    "GpuCounterDescriptor.GpuCounterGroup": ("COMPUTE",),
    "GpuCounterDescriptor.GpuCounterSpec.ValueDirection": ("VALUE_DIRECTION_FORWARDS_LOOKING",),
    "GpuCounterDescriptor.MeasureUnit": ("BYTE", "HERTZ", "NANOSECOND", "PERCENT", "WATT", "CELSIUS"),
}

#: Enums whose values are so common words that the name of the enum stands before them.
PREFIXED = {
    "InternedGraphicsContext.Api": "API",
    "InternedGpuRenderStageSpecification.RenderStageCategory": "STAGE",
    "GpuCounterDescriptor.GpuCounterGroup": "GROUP",
    "GpuCounterDescriptor.MeasureUnit": "MEASURE",
}

HEAD = '''"""Field numbers of Perfetto's messages, made by proto/generate_numbers.py. Not to be edited."""

from __future__ import annotations
'''


def text() -> str:
    """The module as text."""
    lines = [HEAD]
    for name, fields in FIELDS.items():
        lines += [_constant(name, field, _number(name, field)) for field in fields] + [""]
    for name, values in ENUMS.items():
        owner, _, enum = name.rpartition(".")
        found = (_message(owner).enum_types_by_name if owner else trace.DESCRIPTOR.enum_types_by_name)[enum]
        prefix = f"{PREFIXED[name]}_" if name in PREFIXED else ""
        lines += [f"{prefix}{value} = {found.values_by_name[value].number}" for value in values] + [""]
    return "\n".join(lines)


def _number(name: str, field: str) -> int:
    fields = _message(name).fields_by_name
    found = fields[field] if field in fields else extensions.load()[1].extensions_by_name[field]
    if field not in fields and found.containing_type.name != name:
        raise KeyError(f"{name}.{field}")
    return int(found.number)


def _message(name: str):  # type: ignore[no-untyped-def]
    outer, *inner = name.split(".")
    files = (trace.DESCRIPTOR, extensions.load()[1])
    message = next(f.message_types_by_name[outer] for f in files if outer in f.message_types_by_name)
    for part in inner:
        message = message.nested_types_by_name[part]
    return message


def _constant(message: str, field: str, number: int) -> str:
    words = "".join("_" + letter if letter.isupper() else letter for letter in message.replace(".", "")).strip("_")
    return f"{words.upper()}_{field.upper()} = {number}"


if __name__ == "__main__":
    target = Path(__file__).parent.parent / "converters" / "perfetto" / "numbers.py"
    target.write_text(text(), "utf-8")
