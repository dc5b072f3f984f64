"""Reads what `export_stacks` writes: stacks of Python frames, outermost first, each with its time in µs.

train.py(12):_main;nn.Module:_Linear_0;torch/nn/functional.py(2050):_linear 12034

The profiler writes a blank within a frame as "_" (torch/profiler/profiler.py of 2.x), so that the only blank in a line
is before the number. Frames stay as written, since a "_" that was a blank can't be told from any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ktrace.conversion import Conversion
from ktrace.input.source import Source
from ktrace.kit.text.lines import Lines
from ktrace.model.batch import Batch
from ktrace.model.row_builder import RowBuilder

#: A line: frames and a whole number of µs.
LINE = re.compile(r"(\S.*) ([0-9]{1,15})")


def read_stacks(source: Source, conversion: Conversion) -> Iterator[Batch]:
    """Yields a summary for each stack: its name is the innermost frame, its scope the frames around it."""
    lines, rows = Lines(source, conversion), RowBuilder(conversion)
    for line in lines:
        found = LINE.fullmatch(line.text)
        if found:
            *scope, name = found[1].split(";")
            rows.summary("range", name, scope=scope or None, total=1000.0 * int(found[2]), unit="ns")
            lines.used()
        elif not line.text.strip():
            lines.structure()
        yield from rows.ready()
    yield from rows.rest()
