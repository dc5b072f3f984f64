"""Byte ranges by which a big file can be read: those of Trace Event JSON, except in files written by ktrace."""

from __future__ import annotations

from ktrace.converters._shared.trace_json import byte_ranges
from ktrace.input.capabilities import ByteRange
from ktrace.input.source import Source

from .own import own_head
from .reader import read

__all__ = ["ranges", "read"]


def ranges(source: Source, size: int, step: int) -> list[ByteRange]:
    """The ranges of `byte_ranges.ranges`; none of a file that ktrace wrote, which may have several sources."""
    return [] if own_head(source) is not None else byte_ranges.ranges(source, size, step)
