"""Reads counters of layers from any of benchmark_app's outputs."""

from __future__ import annotations

from collections.abc import Iterator

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.text.json_items import beginning
from ktrace.model.batch import Batch

from .csv_reports import read_csv
from .graph import read_graph
from .json_reports import read_json
from .log import read_log

_HEAD = 1 << 20


def read(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a summary for each layer, and the totals."""
    begin = beginning(source, _HEAD)
    if begin.startswith("{"):
        yield from read_json(source, conversion)
    elif begin.startswith("<"):
        yield from read_graph(source, conversion)
    elif " layerType: " not in begin:
        yield from read_csv(source, conversion)
    else:
        yield from read_log(source, conversion)
