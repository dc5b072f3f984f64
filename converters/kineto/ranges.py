"""Byte ranges by which a big file can be read: those of Trace Event JSON."""

from __future__ import annotations

from ktrace.input.capabilities import ByteRange
from ktrace.input.source import Source
from ktrace.kit.trace_json import byte_ranges

from .reader import read

__all__ = ["ranges", "read"]

#: Words in the head of a trace of AMD's GPUs, whose kernels need calls that may be in an earlier range.
_AMD = (b"roctracer_version", b"rocprofiler", b"hip_runtime_version", b"AMD ")


def ranges(source: Source, size: int, step: int) -> list[ByteRange]:
    """The ranges of Trace Event JSON; none for a trace of AMD's GPUs, which is read whole (see `work_items`)."""
    with source.open(quiet=True) as stream:
        head = stream.read(1 << 16)
    return [] if any(word in head for word in _AMD) else byte_ranges.ranges(source, size, step)
