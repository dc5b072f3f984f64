"""Reads an export of trtexec, or its log."""

from __future__ import annotations

from collections.abc import Iterator

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.text.json_items import beginning
from ktrace.model.batch import Batch

from .exports import read_exports
from .log import read_log


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields summaries of layers and of the run, or events of queries."""
    if source.is_folder:
        yield from read_exports(source, conversion)
        return
    begin = beginning(source)
    if begin[:1] in ("[", "{") and not begin[1:2].isdigit():  # a logger's time: `[05/08/2024-14:05:14] [I]`
        yield from read_exports(source, conversion)
    else:
        yield from read_log(source, conversion)
