"""Steps of MindSpore's profiler, from step_trace_raw_*_detail_time.csv: a row has the times of one step.

step_num,start_point,end_point,total,fp_point,bp_point,iteration_interval,fp_and_bp,tail,stream_48_0_Receive-op663,
  stream_48_0_Receive-op663_start_point,stream_48_0_Receive-op663_end_point,...

    Step 1                start_point to end_point      range, around iteration_interval (to fp_point), fp_and_bp, tail
    Receive-op663         its start and end             kernel on stream 48: a collective between two of its points

Times are in 10 ns (mindspore/profiler/parser/step_trace_parser.py, hccl_parser.py, ascend_steptrace_generator.py; 2020
to 2024). A step without an operator has 0 for it; the last row, `-`, is the average of the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ktrace.conversion import Conversion
from ktrace.kit.columnar.blocks import BatchBuilder, Block
from ktrace.kit.columnar.csv_blocks import CsvRows
from ktrace.kit.columnar.text_cells import only
from ktrace.kit.columnar.typed_cells import Field, Text, Whole, typed
from ktrace.model.arrays import Bools, Int64
from ktrace.model.batch import Batch
from ktrace.model.masks import present

#: Nanoseconds of the file's unit.
_UNIT = 10
_GREATEST = ((1 << 63) - 1) // _UNIT

#: The ids of the rows of a line begin at this times its number.
_IDS = 1 << 12

_POINT = "_start_point", "_end_point"

#: The name of a collective: stream_48_0_Receive-op663.
COLLECTIVE = re.compile(r"(?:stream_(?P<stream>[0-9]{1,9}|ops)_[0-9]+_)?(?P<name>.+)", re.DOTALL)


class _Span(NamedTuple):
    """What of a row is an event: its name, the stream of a collective, and the headings of its start, end, duration."""

    name: str
    stream: int | None
    start: str
    end: str
    dur: str
    kind: str = "range"


def steps(item: CsvRows, conversion: Conversion, first_id: int) -> Iterator[Batch]:
    """Yields the steps of some rows, their parts and collectives. Reports rows without a step's start and end."""
    spans = _spans(item.table.headings)
    points = sorted({heading for span in spans for heading in (span.start, span.end, span.dur)})
    fields: dict[str, Field] = {"step": Text("step_num"), **{f"at {heading}": Whole(heading) for heading in points}}
    block = typed(item, fields, conversion.report)
    block = _without_average(block, conversion)
    if not len(block):
        return
    start = _times(block, [span.start for span in spans])
    end = _times(block, [span.end for span in spans])
    dur = _times(block, [span.dur for span in spans])
    there = (start.known & end.known) & (start.at > 0) & (end.at >= start.at)
    odd = (start.at | end.at).astype(np.bool_) & ~there
    rows = there[:, 0]
    for line in np.flatnonzero(~rows).tolist():
        conversion.report.issue("bad-record", block.where(line), "no start_point or end_point")
    for line, number in np.argwhere(odd & rows[:, None]).tolist():
        conversion.report.issue("misfit", block.where(line), f"{spans[number].name} has no start, or ends before it")
    conversion.report.used(int(rows.sum()))
    row, span = np.nonzero(there & rows[:, None])
    if not len(row):
        return
    begin, took = start.at[row, span], end.at[row, span] - start.at[row, span]
    stated = dur.known[row, span] & (dur.at[row, span] != took)
    step = pc.binary_join_element_wise("Step", block.get("<step>"), " ")
    names = pa.array([one.name for one in spans]).take(pa.array(span))
    first = np.diff(row, prepend=-1) != 0
    block.drop(*(f"<{name}>" for name in fields))
    yield BatchBuilder(conversion).batch(
        "events",
        first_id + block.numbers.to_numpy()[row] * _IDS + span,
        kind=pa.array([one.kind for one in spans]).take(pa.array(span)),
        timing="measured",
        name=pc.if_else(pa.array(first), step.take(pa.array(row)), names),
        ts=begin * _UNIT,
        dur=took * _UNIT,
        device=0,
        stream=pa.array([one.stream for one in spans], pa.int64()).take(pa.array(span)),
        cat=_of_collectives(spans, "HCCL").take(pa.array(span)),
        operation=_of_collectives(spans, "collective").take(pa.array(span)),
        **{"args.$duration": only(pa.array(dur.at[row, span]), stated)},
        **{name: only(column.take(pa.array(row)), first) for name, column in block.rest().items()},
    )


def _spans(headings: tuple[str, ...]) -> list[_Span]:
    """The step, its parts, and the collectives, as far as the table has their points."""
    kernels = [
        _Span("", None, "start_point", "end_point", "total"),
        _Span("iteration_interval", None, "start_point", "fp_point", "iteration_interval"),
        _Span("fp_and_bp", None, "fp_point", "bp_point", "fp_and_bp"),
        _Span("tail", None, "bp_point", "end_point", "tail"),
    ]
    for name in headings:
        start, end = (name + point for point in _POINT)
        if start in headings and end in headings and (match := COLLECTIVE.fullmatch(name)):
            kernels.append(_Span(match["name"], stream_of(match), start, end, name, "kernel"))
    return [span for span in kernels if span.start in headings and span.end in headings][:_IDS]


def stream_of(collective: re.Match[str]) -> int | None:
    """The stream in a collective's name."""
    stream = collective["stream"]
    return int(stream) if stream and stream.isdecimal() else None


def _of_collectives(spans: list[_Span], text: str) -> pa.StringArray:
    return pa.array([text if span.kind == "kernel" else None for span in spans], pa.string())


class _Times(NamedTuple):
    """Numbers of cells by row and span, 0 where there is none, and whether there is one."""

    at: Int64
    known: Bools


def _times(block: Block, headings: list[str]) -> _Times:
    columns = [block.or_nulls(f"<at {heading}>") for heading in headings]
    at = np.stack([column.fill_null(0).to_numpy(zero_copy_only=False) for column in columns], 1)
    is_given = np.stack([present(column) for column in columns], 1) & (np.abs(at) <= _GREATEST)
    return _Times(np.where(is_given, at, 0), is_given)


def _without_average(block: Block, conversion: Conversion) -> Block:
    average = pc.fill_null(pc.equal(block.or_nulls("<step>", pa.string()), "-"), False)
    conversion.report.used(pc.sum(average).as_py() or 0, outcome="structure")
    return block.filter(pc.invert(average))
