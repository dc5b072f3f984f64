"""Reads either file, line by line."""

from __future__ import annotations

from collections.abc import Iterator

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.text.lines import Lines
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

from .profiling import add_kernels
from .trace import add_slices


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a summary for each kernel of cl_profiling.csv, or the slices of cl_trace.json."""
    with source.open(quiet=True) as stream:
        first = stream.read(1024).removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    lines, rows = Lines(source, conversion), RowBuilder(conversion)
    rows.fact("source", facts={"tool": "ggml-opencl"})
    rows.fact("device", device=0, facts={"api": "opencl"})
    add = add_slices if first in (b"[", b"{") else add_kernels
    yield from add(lines, rows, conversion.report)
