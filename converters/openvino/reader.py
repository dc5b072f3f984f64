"""Reads counters of layers from any of benchmark_app's outputs."""

from __future__ import annotations

from collections.abc import Iterator

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.model.batch import Batch

from .csv_reports import read_csv
from .graph import read_graph
from .json_reports import read_json
from .log import read_log

_HEAD = 1 << 20


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a summary for each layer, and the totals."""
    with source.open(quiet=True) as stream:
        head = stream.read(_HEAD)
    begin = head[:64].lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if begin == b"{":
        yield from read_json(source, conversion)
    elif begin == b"<":
        yield from read_graph(source, conversion)
    elif b" layerType: " not in head:
        yield from read_csv(source, conversion)
    else:
        yield from read_log(source, conversion)
