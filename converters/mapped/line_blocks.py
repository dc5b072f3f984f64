"""Lines that have a pattern of a mapping, as blocks of text columns: a column for each placeholder.

{name} took {dur} ms on {device}      gemm took 3.25 ms on gpu:0      name: gemm, dur: 3.25 ms, device: gpu:0
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from ktrace.conversion import Conversion
from ktrace.input.line_pattern import LinePattern
from ktrace.input.source import Source
from ktrace.kit.columnar.blocks import Block
from ktrace.kit.text.lines import Lines


def line_blocks(
    source: Source, conversion: Conversion, patterns: Sequence[LinePattern], columns: Sequence[str]
) -> Iterator[Block]:
    """Yields the rows of lines; the first pattern that a line has counts. Other lines are unrecognised."""
    lines = Lines(source, conversion)
    waiting: list[dict[str, str]] = []
    numbers: list[int] = []
    for line in lines:
        cells = next((parsed for pattern in patterns if (parsed := pattern.cells(line.text)) is not None), None)
        if cells is None:
            if not line.text.strip():
                lines.structure()
            continue
        lines.read()
        waiting.append(cells)
        numbers.append(line.number)
        if len(waiting) >= conversion.batch_rows:
            yield _block(waiting, numbers, columns)
            waiting, numbers = [], []
    if waiting:
        yield _block(waiting, numbers, columns)


def _block(rows: Sequence[Mapping[str, str]], numbers: Sequence[int], columns: Sequence[str]) -> Block:
    arrays = {name: pa.array([row.get(name) for row in rows], pa.string()) for name in columns}
    if "count" in arrays and arrays["count"].null_count == len(rows):
        arrays["count"] = pa.array(["1"] * len(rows))  # a line tells of one occurrence
    return Block("line", pa.array(numbers, pa.int64()), arrays)
