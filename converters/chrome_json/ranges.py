"""Byte ranges by which a big file can be read: those of Trace Event JSON, except in files written by ktrace."""

from __future__ import annotations

from ktrace.input.capabilities import ByteRange
from ktrace.input.source import Source
from ktrace.kit.trace_json import byte_ranges

from .read_back import read_head
from .reader import read

__all__ = ["ranges", "read"]


def ranges(source: Source, size: int, step: int) -> list[ByteRange]:
    """Returns the ranges of `byte_ranges.ranges`; none for a file that ktrace wrote, which may have several sources."""
    return [] if read_head(source) is not None else byte_ranges.ranges(source, size, step)
