"""Reads the files of Proton."""

from __future__ import annotations

from collections.abc import Iterator

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.model.batch import Batch

from .trace import read_trace
from .tree import read_tree


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields the nodes of a tree as summaries, or the events of a trace. Raises DamagedInput if it is neither."""
    with source.open(quiet=True) as stream:
        head = stream.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
    return read_trace(source, conversion) if head.startswith(b"{") else read_tree(source, conversion)
