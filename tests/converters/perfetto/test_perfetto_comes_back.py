"""What ktrace wrote is read as it was."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import golden
import pytest
from conftest import MADE_FOLDERS, SAMPLES, SHARED
from engine import errors
from google.protobuf import text_format
from nightly import few, is_small
from perfetto_rows import Row, events, write

import ktrace
from ktrace.errors import InputError, KtraceError
from ktrace.model.batch import DEVICE_KINDS
from ktrace.pipeline.convert import convert


def comparable(path: Path, *, format: str | None = None) -> dict[Any, Row]:
    """The events by source and id; metrics, which lose their ids, by their kernel, name and number.

    Of kernels that begin on a GPU in the same nanosecond nobody can tell whose the metrics are.
    """
    rows = [
        {name: value for name, value in row.items() if value is not None}
        for row in ktrace.read(path, from_=format).to_arrow()["events"].to_pylist()
    ]
    begins = Counter((row.get("device"), row["ts"]) for row in rows if row["kind"] in DEVICE_KINDS)
    found: dict[Any, Row] = {}
    metrics: Counter[tuple[Any, ...]] = Counter()
    for row in rows:
        if "args" in row:
            row["args"] = json.loads(row["args"])
        key: tuple[Any, ...] = (row["source"], row["id"])
        if row["kind"] == "counter" and "parent" in row:
            del row["id"]
            if begins[row.get("device"), row["ts"]] > 1:
                for name in ("parent", "pid", "stream", "dur"):
                    row.pop(name, None)
            same = (row["source"], row.get("parent"), row.get("device"), row["ts"], row["name"])
            metrics[same] += 1
            key = (*same, metrics[same])
        found[key] = row
    return found


def is_number(row: Row) -> bool:
    return "value" in row and abs(row["value"]) < float("inf")


EVERY_SAMPLE = [path for folder in MADE_FOLDERS for path in golden.samples_of(folder)]


@pytest.mark.parametrize("path", few(EVERY_SAMPLE, 1, by=lambda path: path.parent), ids=lambda path: path.name)
def test_every_sample_comes_back_equal(path: Path, tmp_path: Path) -> None:
    """Except counters that are no number, durations of counters, ids of metrics, and what `layout` makes of tables."""
    name = path.parent.name
    made = tmp_path / "again.perfetto"
    convert(path, made, from_=name)
    before, after = comparable(path, format=name), comparable(made)
    for key, row in before.items():
        if row.get("clock") == "launch":  # a sample within a launch, which has no time until it is laid out
            continue
        if row["kind"] == "counter":
            if before.get((row["source"], row.get("parent")), {}).get("kind") not in DEVICE_KINDS:
                row.pop("dur", None)
            if not is_number(row):
                continue
        assert json.dumps(after.pop(key), sort_keys=True) == json.dumps(row, sort_keys=True)  # NaN is equal to NaN
    assert all(row["timing"] == "synthetic" for row in after.values())
    if not after:
        first, second = (ktrace.read(item).to_arrow()["catalog"].drop_columns(["facts"]) for item in (path, made))
        assert first.to_pylist() == second.to_pylist()
    assert links(made) == links(path, format=name)
    assert ktrace.read(made).report.balanced()


def links(path: Path, *, format: str | None = None) -> list[Row]:
    """All columns of the links, by source and id."""
    rows: list[Row] = ktrace.read(path, from_=format).to_arrow()["links"].to_pylist()
    return sorted(rows, key=lambda row: (row["source"], row["id"]))


CORPUS = [
    path
    for folder in ("pytorch_kineto", "chrome_trace")
    for path in sorted((SHARED / "corpus" / folder).glob("*.json*"))
    if path.stat().st_size < 1 << 20 and path.name != "incomplete-trace.json"  # a profile of speedscope without a row
]


@pytest.mark.parametrize("path", few(CORPUS, is_small), ids=lambda path: path.name)
def test_links_of_the_corpus_come_back_equal(path: Path, tmp_path: Path) -> None:
    """Kind, key, role, row and place of each end; also where no arrow could be drawn, and no others."""
    try:
        before = links(path)
    except KtraceError:
        pytest.skip("isn't read")
    convert(path, tmp_path / "again.perfetto")
    assert links(tmp_path / "again.perfetto") == before


@pytest.mark.parametrize("apart", few([601, 61], 1))
def test_what_is_left_of_a_cut_trace_comes_back_equal(apart: int, tmp_path: Path) -> None:
    (source,) = SAMPLES.glob("kineto/base-after-the-events*.json")
    whole, cut = tmp_path / "whole.perfetto", tmp_path / "cut.perfetto"
    convert(source, whole)
    before, data = comparable(whole), whole.read_bytes()
    most = 0
    for size in [*range(len(data) // 2, len(data), apart), len(data) - 1]:
        cut.write_bytes(data[:size])
        report = ktrace.read(cut).report
        assert report.issues["cut"]
        after = comparable(cut)
        most = max(most, len(after))
        for key, row in after.items():
            assert row in (before[key], {name: before[key][name] for name in before[key] if name != "dur"})
        if after:
            assert links(cut) == links(whole)
    assert most == len(before)


TEXTPROTOS = sorted((SHARED / "corpus" / "perfetto_textproto").glob("*.textproto"))


@pytest.mark.parametrize("path", TEXTPROTOS, ids=lambda path: path.stem)
def test_the_textprotos_are_read_and_written_again(path: Path, tmp_path: Path) -> None:
    from ktrace.proto.extensions import load, message_class

    pool, extensions = load()
    text = re.sub(
        r"\[perfetto\.protos\.\w+\.(\w+)\]",
        lambda found: f"[{extensions.extensions_by_name[found[1]].full_name}]",
        path.read_text(),
    )
    made = message_class("Trace")()
    text_format.Parse(text, made, descriptor_pool=pool)
    source = write(tmp_path / "source.pftrace", made)
    stages = sum(packet.HasField("gpu_render_stage_event") for packet in made.packet)
    before = events(source)
    if not before:  # nothing but descriptors of counters
        assert not stages
        with pytest.raises(InputError, match="counter descriptors"):
            convert(source, tmp_path / "again.perfetto")
        return
    report = convert(source, tmp_path / "again.perfetto")
    assert report.balanced()
    after = events(tmp_path / "again.perfetto")
    for row in before:
        row.pop("dur", None)
    for row in after:
        row.pop("dur", None)
    keys = ("name", "kind", "ts", "grid_x", "block_x", "device", "context", "args", "value")
    assert [{key: row.get(key) for key in keys} for row in before] == [
        {key: row.get(key) for key in keys} for row in after
    ]
    assert sum(row["kind"] == "kernel" for row in before) == stages
    if any(row["kind"] == "kernel" for row in before):
        faults = {fault["name"] for fault in errors(tmp_path / "again.perfetto")}
        assert faults <= {"unknown_extension_fields"}  # of v52, with every trace of interned kernels
