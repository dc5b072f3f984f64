"""Writes converters/perfetto/numbers.py: the field numbers of the Perfetto messages that ktrace writes.

    python proto/generate_numbers.py          (needs the package `perfetto`)

The converter itself then needs neither that package nor a message object per packet. A test compares the
module with the descriptors of the installed package.
"""

from __future__ import annotations

from pathlib import Path

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as trace

#: Message -> the fields that are written.
FIELDS = {
    "Trace": ("packet",),
    "TracePacket": (
        *("clock_snapshot", "timestamp", "trusted_packet_sequence_id", "track_event", "interned_data"),
        *("sequence_flags", "first_packet_on_sequence", "track_descriptor"),
    ),
    "ClockSnapshot": ("clocks",),
    "ClockSnapshot.Clock": ("clock_id", "timestamp"),
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
        *("double_counter_value", "flow_ids", "debug_annotations"),
    ),
    "DebugAnnotation": (
        *("name_iid", "name", "bool_value", "int_value", "double_value", "string_value", "string_value_iid"),
        *("dict_entries", "array_values"),
    ),
    "InternedData": ("event_categories", "event_names", "debug_annotation_names", "debug_annotation_string_values"),
    "EventCategory": ("iid", "name"),
    "EventName": ("iid", "name"),
    "DebugAnnotationName": ("iid", "name"),
    "InternedString": ("iid", "str"),
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
}

HEAD = '''"""Field numbers of Perfetto's messages, made by proto/generate_numbers.py. Not to be edited."""

from __future__ import annotations
'''


def text() -> str:
    """The module as text."""
    lines = [HEAD]
    for name, fields in FIELDS.items():
        message = _message(name)
        lines += [_constant(name, field, message.fields_by_name[field].number) for field in fields] + [""]
    for name, values in ENUMS.items():
        owner, _, enum = name.rpartition(".")
        found = (_message(owner).enum_types_by_name if owner else trace.DESCRIPTOR.enum_types_by_name)[enum]
        lines += [f"{value} = {found.values_by_name[value].number}" for value in values] + [""]
    return "\n".join(lines)


def _message(name: str):  # type: ignore[no-untyped-def]
    outer, *inner = name.split(".")
    message = trace.DESCRIPTOR.message_types_by_name[outer]
    for part in inner:
        message = message.nested_types_by_name[part]
    return message


def _constant(message: str, field: str, number: int) -> str:
    words = "".join("_" + letter if letter.isupper() else letter for letter in message.replace(".", "")).strip("_")
    return f"{words.upper()}_{field.upper()} = {number}"


if __name__ == "__main__":
    target = Path(__file__).parent.parent / "converters" / "perfetto" / "numbers.py"
    target.write_text(text(), "utf-8")
