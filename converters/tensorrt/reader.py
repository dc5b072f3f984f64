"""Reads an export of trtexec, or its log."""

from __future__ import annotations

from collections.abc import Iterator

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.model.batch import Batch

from .exports import read_exports
from .log import read_log


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields summaries of layers and of the run, or events of queries."""
    with source.open(quiet=True) as stream:
        begin = stream.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if begin in (b"[", b"{") and not _is_stamp(source):
        yield from read_exports(source, conversion)
    else:
        yield from read_log(source, conversion)


def _is_stamp(source: Source) -> bool:
    """Whether the first bracket is that of a logger's time: `[05/08/2024-14:05:14] [I]`."""
    with source.open(quiet=True) as stream:
        return stream.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")[1:2].isdigit()
