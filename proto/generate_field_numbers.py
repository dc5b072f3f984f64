"""Writes converters/perfetto/field_numbers.py: the fields of the Perfetto messages that ktrace reads and writes.

    python -m ktrace.proto.generate_field_numbers          (needs the package `perfetto`)

The numbers of extensions come from gpu_extensions.proto. Messages are complete, since a reader names every field that
it finds, even those that it passes on unchanged. The converter itself then needs neither that package nor a message
object per packet. A test compares the module with the descriptors of the installed package.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as trace

from ktrace.proto import extensions

MESSAGES = (
    *("Trace", "TracePacket", "TrackEvent", "TrackEvent.LegacyEvent", "DebugAnnotation", "DebugAnnotation.NestedValue"),
    *("TrackDescriptor", "ProcessDescriptor", "ThreadDescriptor", "CounterDescriptor", "InternedData"),
    *("ClockSnapshot", "ClockSnapshot.Clock", "TracePacketDefaults", "TrackEventDefaults", "TestEvent"),
    *("ProcessTree", "ProcessTree.Process", "ProcessTree.Thread"),
    *("GpuRenderStageEvent", "GpuRenderStageEvent.ComputeKernelLaunch", "GpuRenderStageEvent.ExtraComputeArg"),
    *("GpuRenderStageEvent.Dim3", "GpuRenderStageEvent.ExtraData", "GpuRenderStageEvent.Specifications"),
    *("GpuRenderStageEvent.Specifications.ContextSpec", "GpuRenderStageEvent.Specifications.Description"),
    *("GpuCorrelation", "EventName", "InternedComputeKernel"),
    *("InternedGraphicsContext", "InternedGpuRenderStageSpecification", "InternedGpuCounterDescriptor"),
    *("GpuCounterEvent", "GpuCounterEvent.GpuCounter", "GpuCounterDescriptor", "GpuCounterDescriptor.GpuCounterSpec"),
    "GpuCounterDescriptor.GpuCounterGroupSpec",
    *("GpuInfo", "GpuInfo.Gpu", "GpuMemTotalEvent", "GpuLog", "TracingServiceEvent"),
    *("InternedString", "Frame", "Callstack"),
)

ENUMS = (
    *("CounterDescriptor.Unit", "GpuCounterDescriptor.MeasureUnit", "GpuLog.Severity", "BuiltinClock"),
    *("InternedGraphicsContext.Api", "TrackEvent.Type", "TracePacket.SequenceFlags"),
    *("TrackDescriptor.ChildTracksOrdering", "TrackDescriptor.SiblingMergeBehavior"),
    *("TrackDescriptor.ProcessOrdering", "TrackDescriptor.ThreadOrdering"),
    *("InternedGpuRenderStageSpecification.RenderStageCategory", "GpuCounterDescriptor.GpuCounterGroup"),
    "GpuCounterDescriptor.GpuCounterSpec.ValueDirection",
)

HEAD = '''"""Fields of Perfetto's messages, made by proto/generate_field_numbers.py. Not to be edited."""

from __future__ import annotations

# fmt: off
'''


def text() -> str:
    """Returns the module as text."""
    lines = [HEAD]
    for name in MESSAGES:
        numbers = {field.name: field.number for field in _message(name).fields} | _extensions(name)
        lines += _table(_constant(name), numbers)
    for name in ENUMS:
        owner, _, enum = name.rpartition(".")
        found = (_message(owner).enum_types_by_name if owner else trace.DESCRIPTOR.enum_types_by_name)[enum]
        lines += _table(_constant(name), {value.name: value.number for value in found.values})
    return "\n".join([*lines, "# fmt: on", ""])


def _table(constant: str, numbers: dict[str, int]) -> list[str]:
    pairs = ", ".join(f'"{name}":~{number}' for name, number in numbers.items())
    return [textwrap.fill(f"{constant} = {{{pairs}}}", 118, subsequent_indent="    ").replace("~", " ")]


def _extensions(name: str) -> dict[str, int]:
    """The extensions of a message that the package doesn't have (Perfetto v55 and later)."""
    _, file = extensions.load()
    return {key: field.number for key, field in file.extensions_by_name.items() if field.containing_type.name == name}


def _message(name: str):  # type: ignore[no-untyped-def]
    outer, *inner = name.split(".")
    files = (trace.DESCRIPTOR, extensions.load()[1])
    message = next(file.message_types_by_name[outer] for file in files if outer in file.message_types_by_name)
    for part in inner:
        message = message.nested_types_by_name[part]
    return message


def _constant(name: str) -> str:
    last = name.rpartition(".")[2]
    owner = "COUNTER_" if name == "CounterDescriptor.Unit" else "TRACK_EVENT_" if name == "TrackEvent.Type" else ""
    words = "".join("_" + letter if letter.isupper() else letter for letter in last).strip("_")
    return owner + words.upper()


if __name__ == "__main__":
    target = Path(__file__).parent.parent / "converters" / "perfetto" / "field_numbers.py"
    target.write_text(text(), "utf-8")
