"""Byte ranges by which a large file can be read: those of Trace Event JSON, unless ktrace wrote the file."""

from __future__ import annotations

from ktrace.conversion import Span
from ktrace.converters._shared.trace_json import spans as of_list
from ktrace.input.source import Source

from .read_back import read_head


def spans(source: Source, size: int, step: int) -> list[Span]:
    """Returns the ranges of `trace_json.spans`; none for a file that ktrace wrote, which may have several sources."""
    return [] if read_head(source) is not None else of_list.spans(source, size, step)
