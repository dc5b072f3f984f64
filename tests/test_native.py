"""What is compiled gives what runs in its place: the same rows, lanes and messages, which protobuf's classes know."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import golden
import numpy as np
import pyarrow as pa
import pytest
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from message_classes import encode_by_classes
from nightly import few

from ktrace import native
from ktrace.converters.perfetto import writer
from ktrace.converters.perfetto.field_numbers import DEBUG_ANNOTATION, TRACE_PACKET, TRACK_EVENT
from ktrace.converters.perfetto.wire import bytes_tag, double_tag, int_tag, text_field
from ktrace.converters.perfetto.writing import fields
from ktrace.converters.perfetto.writing.fields import (
    CodedField,
    ConstantField,
    Field,
    FixedField,
    MessageField,
    Part,
    PieceTable,
    TextField,
    VarintField,
    encoder,
)
from ktrace.input.format import builtin_formats
from ktrace.model.arrays import Int64
from ktrace.native import compiled
from ktrace.pipeline.convert import convert
from ktrace.proto.extensions import message_class
from ktrace.stages.order import nesting
from tests.helpers.timing import cpu_seconds, lasting

built = pytest.mark.skipif(compiled is None, reason="ktrace.native isn't built here")

USERS = (
    "ktrace.kit.trace_json.decode",
    "ktrace.converters.perfetto.writing.fields",
    "ktrace.stages.order.nesting",
)


def with_events() -> list[Path]:
    """The samples that are Trace Event JSON, in whatever dialect."""
    paths = [path for fmt in builtin_formats() if fmt.reads and not fmt.closed for path in golden.samples_of(fmt.name)]
    return [path for path in paths if path.suffix == ".json" and b'"ph"' in path.read_bytes()]


@built
@pytest.mark.parametrize(
    "path", few(with_events(), 1, by=lambda path: path.parent), ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_outputs_are_the_same_without_it(path: Path, tmp_path: Path) -> None:
    ways = [tmp_path / "compiled", tmp_path / "python"]
    for way in ways:
        way.mkdir()
        with pytest.MonkeyPatch.context() as context:
            if way.name == "python":
                for name in USERS:
                    context.setattr(sys.modules[name], "compiled", None)
            for output in ("x.perfetto", "x.jsonl"):
                convert(str(path), str(way / output), jobs=1)
    assert (ways[0] / "x.perfetto").read_bytes() == (ways[1] / "x.perfetto").read_bytes()
    ours = message_class("Trace").FromString((ways[0] / "x.perfetto").read_bytes())
    whole = ours.ByteSize()
    ours.DiscardUnknownFields()
    assert ours.ByteSize() == whole, "the classes know every field"
    rows = [sorted((way / "x.jsonl").read_bytes().splitlines()) for way in ways]
    assert rows[0] == rows[1]  # sorted, since rows of a list that C left to Python come apart


def test_it_is_built_where_a_compiler_is() -> None:
    """The build may fail without a word, and then the tests of what is compiled are skipped."""
    headers = Path(sysconfig.get_paths()["include"]) / "Python.h"
    if not shutil.which("cc") or not headers.exists() or os.environ.get("KTRACE_NATIVE") == "0":
        pytest.skip("there is no compiler, or no headers of Python, or KTRACE_NATIVE=0")
    assert compiled is not None


@built
def test_a_build_of_other_sources_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its functions may take other arguments: a checkout that was updated got an internal error."""
    assert native._compiled() is compiled
    for interface in (1, 99):
        monkeypatch.setattr(compiled, "interface", interface)
        assert native._compiled() is None


@pytest.mark.parametrize(
    ("is_built", "rows", "said"), [(False, 50, True), (False, 100, False), pytest.param(True, 50, False, marks=built)]
)
def test_it_is_said_where_it_is_left_out_and_would_save_time(
    is_built: bool, rows: int, said: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (writer, fields):
        monkeypatch.setattr(module, "compiled", compiled if is_built else None)
    monkeypatch.setattr(writer, "SLOW", rows)
    report = convert(ROOT / "samples/kineto/one-step-of-training.pt.trace.json", tmp_path / "x.perfetto")
    assert ("uncompiled" in report.issues) is said


def test_it_can_be_left_out() -> None:
    code = "from ktrace.native import compiled; assert compiled is None"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, env=os.environ | {"KTRACE_NATIVE": "0"})


_SLICES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), max_size=40)


@built
@settings(max_examples=300, deadline=None)
@given(_SLICES, st.integers(0, 40))
def test_lanes_are_the_same(slices: list[tuple[int, int]], border: int) -> None:
    """Also where the first slices are open ones of the range before, which have lanes."""
    rows = sorted(slices, key=lambda row: (row[0], -row[1]))
    begin = np.array([start for start, _ in rows], np.int64)
    end = begin + np.array([dur for _, dur in rows], np.int64)
    whole = np.zeros(len(rows), np.int32)
    nesting._lanes(begin, end, whole, 0)
    ours = np.zeros(len(rows), np.int32)
    nesting.lanes(begin, end, ours, 0)
    assert ours.tolist() == whole.tolist()
    before = np.flatnonzero(
        (np.arange(len(rows)) < border) & (end > begin[min(border, len(rows) - 1)] if rows else True)
    )
    after = np.arange(min(border, len(rows)), len(rows))
    place = np.concatenate([before, after])
    results = []
    for fill in (nesting.lanes, nesting._lanes):
        lane = np.concatenate([whole[before], np.full(len(after), 7, np.int32)])
        fill(begin[place], end[place], lane, len(before))
        results.append(lane.tolist())
    assert results[0] == results[1]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 12)), max_size=40))
def test_the_slices_around_are_the_same(slices: list[tuple[int, int, int]]) -> None:
    rows = sorted(slices, key=lambda row: (row[0], row[1], -row[2]))
    track = np.array([track for track, _, _ in rows], np.int32)
    begin = np.array([start for _, start, _ in rows], np.int64)
    end = begin + np.array([dur for *_, dur in rows], np.int64)
    in_python = np.empty(len(rows), np.int64)
    nesting._enclosing(track, begin, end, in_python)
    truth = [
        max((at for at in range(row) if end[at] > begin[row] and track[at] == track[row]), default=-1)
        for row in range(len(rows))
    ]
    assert nesting.enclosing(track, begin, end).tolist() == in_python.tolist() == truth


@pytest.mark.parametrize("fill", [nesting.lanes, nesting._lanes])
def test_an_open_slice_far_above_takes_no_memory(fill: Callable[..., None]) -> None:
    """A lane for each number below asked for 50 GB; those that others may come to lie in are as many as slices."""
    lane = np.array([2**31 - 1, 1, 0, 0], np.int32)
    tracemalloc.start()
    fill(np.array([0, 0, 1, 2], np.int64), np.array([9, 9, 8, 12], np.int64), lane, 2)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    assert lane.tolist() == [2**31 - 1, 1, 0, 2]


@pytest.mark.parametrize(("fill", "count"), [(nesting.lanes, 200_000), (nesting._lanes, 10_000)])
def test_many_slices_that_all_cross_take_linear_time(fill: Callable[..., None], count: int) -> None:
    """Each has a lane of its own: 10,000 took 2.2 s while lanes were searched one by one."""

    def seconds(size: int) -> float:
        begin = np.arange(size, dtype=np.int64)
        lane = np.zeros(size, np.int32)
        least = min(cpu_seconds(fill, begin, begin + size, lane, 0) for _ in range(3))
        assert (lane == np.arange(size)).all()
        return least

    def too_slow() -> tuple[float, float] | None:
        few, many = seconds(count), seconds(4 * count)
        return (few, many) if many >= 9 * few else None  # it would be 16 times if it grew with the square

    slow = lasting(too_slow)
    assert not slow, slow


#: A message that contains itself.
_A = DEBUG_ANNOTATION
_NAMED = text_field(_A["name"], "a name")


def _field(kind: int, count: int, data: st.DataObject) -> Field:
    """A field of any kind, in all rows or in some; a message of a few fields."""
    chosen = data.draw(st.one_of(st.none(), st.lists(st.booleans(), min_size=count, max_size=count)))
    valid = None if chosen is None else np.array(chosen, np.bool_)
    value = st.integers(0, 63).flatmap(lambda bits: st.integers(0, (1 << 64) - 1 >> bits))
    values = np.array(data.draw(st.lists(value, min_size=count, max_size=count)), np.uint64)
    if kind == 0:
        return ConstantField(text_field(_A["name"], "constant" * data.draw(st.sampled_from((0, 1, 40)))), valid)
    if kind == 1:
        return VarintField(int_tag(_A[data.draw(st.sampled_from(("uint_value", "int_value")))]), values, valid)
    if kind == 2:
        return VarintField(int_tag(_A["bool_value"]), values & np.uint64(1), valid)
    if kind == 3:
        return FixedField(double_tag(_A["double_value"]), values, valid)
    if kind == 4:
        pieces = [b"", _NAMED, *(text_field(_A["string_value"], "y" * size) for size in (10, 14, 15, 300))]
        return CodedField(PieceTable(pieces, 16), (values % np.uint64(7)).astype(np.int32) - 1)
    if kind == 5:
        sizes = [int(value % np.uint64(300)) if value % np.uint64(3) else None for value in values]
        texts = [None if size is None else text_field(_A["string_value"], "t" * size) for size in sizes]
        return TextField(pa.array([b"before", *texts], pa.large_binary())[1:])
    kinds = data.draw(st.lists(st.integers(0, 6), max_size=4))
    head = data.draw(st.sampled_from((b"", _NAMED, 40 * _NAMED)))
    return MessageField(
        bytes_tag(_A["dict_entries"]), head, _one_text([_field(kind, count, data) for kind in kinds]), valid
    )


@built
@settings(max_examples=200, deadline=None)
@given(st.integers(0, 6), st.lists(st.lists(st.integers(0, 6), max_size=5), min_size=1, max_size=3), st.data())
def test_messages_are_those_of_the_classes(count: int, parts: list[list[int]], data: st.DataObject) -> None:
    """Constants, varints of any length, doubles, pieces, texts and messages, whose positions are mixed."""
    positions = np.array(data.draw(st.permutations(range(count * len(parts)))), np.int64)
    made = [
        # texts come last in a message, so only its last field is a message that has some
        Part(_one_text([_field(kind, count, data) for kind in kinds]), positions[number * count :][:count])
        for number, kinds in enumerate(parts)
    ]
    ours = _messages(*encoder(made, len(positions))())
    with patch.object(fields, "compiled", None):
        assert _messages(*encoder(made, len(positions))()) == ours
    theirs = encode_by_classes("DebugAnnotation", made, len(positions))
    assert [message_class("DebugAnnotation").FromString(each).SerializeToString() for each in ours] == theirs


def _messages(data: memoryview, ends: Int64) -> list[bytes]:
    assert ends[-1:].tolist() == [len(data)][: len(ends)]
    return [bytes(data[start:end]) for start, end in pairwise([0, *ends.tolist()])]


def _one_text(fields: list[Field]) -> list[Field]:
    return [field for field in fields if not field.is_text] + [field for field in fields if field.is_text][:1]


def test_numbers_of_all_types_are_set() -> None:
    """Where nothing is compiled: signed and unsigned, enums, doubles, repeated ones, extensions."""
    number, first = np.array([2**64 - 5] * 2, np.uint64), np.array([True, False])
    numbers: list[Field] = [
        VarintField(int_tag(TRACK_EVENT["type"]), np.array([2, 2], np.uint64)),
        VarintField(int_tag(TRACK_EVENT["counter_value"]), number, first),
        FixedField(double_tag(TRACK_EVENT["double_counter_value"]), np.array([0, 1.5]).view(np.uint64), ~first),
        FixedField(double_tag(TRACK_EVENT["flow_ids"]), number),
        FixedField(double_tag(TRACK_EVENT["flow_ids"]), number - np.uint64(1)),
    ]
    packet: list[Field] = [
        VarintField(int_tag(TRACE_PACKET["ktrace_row"]), np.array([7, 8], np.uint64)),
        MessageField(bytes_tag(TRACE_PACKET["track_event"]), b"", numbers),
    ]
    with patch.object(fields, "compiled", None):
        made = _messages(*encoder([Part(packet, np.arange(2))], 2)())
    for data, row, field, value in zip(made, (7, 8), ("counter_value", "double_counter_value"), (-5, 1.5), strict=True):
        packet_ = message_class("TracePacket").FromString(data)
        event = packet_.track_event
        assert (event.type, getattr(event, field), list(event.flow_ids)) == (2, value, [2**64 - 5, 2**64 - 6])
        assert (TRACE_PACKET["ktrace_row"], row) in [(found.number, has) for found, has in packet_.ListFields()]
