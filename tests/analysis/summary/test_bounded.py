"""What waits in files gives the figures of what waits in memory, whatever the order of sources, and leaves no files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import SAMPLES
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

import ktrace
from ktrace.analysis.answers.summary import compute
from ktrace.analysis.answers.summary.summary import Summary
from ktrace.analysis.work import device_work, durations, occurrences, stored_columns
from ktrace.analysis.work.groups import Group
from ktrace.analysis.work.stored_columns import StoredColumns, StoredRows, by_source, new_column
from ktrace.model.batch import Batch
from ktrace.naming.taxonomy import taxonomy
from ktrace.report import Report
from ktrace.store import Spill, launches

RANKS = [SAMPLES / f"kineto/collectives-of-two-ranks-rank{rank}.json" for rank in (0, 1)]
TRACES = [
    *RANKS,
    SAMPLES / "kineto/one-step-of-training.pt.trace.json",
    SAMPLES / "nsys/schema-3.25-graph-waits-gpu-metrics-unknown-tables.sqlite",
    SAMPLES / "chrome/async-nestable-ids-of-every-type.json",
]


def told(summary: Summary) -> dict[str, Any]:
    """All that a summary says, with the samples of its groups."""
    said = {one.name: getattr(summary, one.name) for one in fields(summary) if one.name != "report"}
    said["groups"] = {by: [whole(group) for group in groups] for by, groups in summary.groups.items()}
    return said


def whole(group: Group) -> dict[str, Any]:
    said = {one.name: getattr(group, one.name) for one in fields(group)}
    said |= {name: None if said[name] is None else said[name].tolist() for name in ("durations", "inside")}
    steps = group.in_steps
    return said | {
        "in_steps": steps and [None if one is None else np.asarray(one).tolist() for one in structs.astuple(steps)]
    }


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files, and no memory for what waits."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(compute, "SPILL_BYTES", 0)
    return folder


@pytest.mark.parametrize(
    "paths", [[path] for path in TRACES] + [TRACES], ids=[path.name[:20] for path in TRACES] + ["all"]
)
def test_files_and_blocks_make_no_difference(
    paths: list[Path], temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as usual:
        usual.setattr(compute, "SPILL_BYTES", 1 << 30)
        in_memory = told(ktrace.summary(paths))
    made: list[Path] = []
    opened = Path.open
    monkeypatch.setattr(Path, "open", lambda path, *how: (made.append(path), opened(path, *how))[1])
    for module in (stored_columns, device_work, durations, launches, occurrences):
        monkeypatch.setattr(module, "BLOCK", 3)
    assert told(ktrace.summary(paths)) == in_memory
    assert any(path.is_relative_to(temporary) for path in made)
    assert not list(temporary.iterdir())


def test_sources_that_take_turns(tmp_path: Path) -> None:
    apart, mixed = tmp_path / "apart.parquet", tmp_path / "mixed.parquet"
    ktrace.convert(RANKS, apart)
    table = pq.read_table(apart)
    source = np.array(table["source"].to_pylist())
    place = np.zeros(len(source), np.int64)
    for one in np.unique(source):
        place[source == one] = np.arange(np.count_nonzero(source == one))
    pq.write_table(table.take(pa.array(np.lexsort((source, place)))), mixed)
    assert len(np.unique(source)) == 2
    found, wanted = told(ktrace.summary(mixed)), told(ktrace.summary(apart))
    for said in (found, wanted):  # of equal times the first that came is first
        for groups in said["groups"].values():
            groups.sort(key=lambda group: (-group["total"], group["key"]))
    assert found == wanted
    assert wanted["steps"]
    assert len(wanted["devices"]) == 2


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_nothing_is_left_where_reading_stops(error: type[BaseException], temporary: Path) -> None:
    report = Report()
    seen = []

    def batches() -> Iterator[Batch]:
        from ktrace.pipeline.read import read_batches

        yield from read_batches([str(RANKS[0])], report)
        seen.extend(temporary.iterdir())
        raise error

    with pytest.raises(error):
        compute.summary_of(batches(), report, taxonomy(None))
    assert seen
    assert not list(temporary.iterdir())


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.lists(st.integers(-9, 9), max_size=4)), max_size=9),
    st.sampled_from([0, 40, 1 << 20]),
)
@settings(deadline=None)
def test_columns_of_each_source(added: list[tuple[str, list[int]]], limit: int) -> None:
    spill = Spill(limit)
    numbers, rows = StoredColumns(spill, "numbers", value="i8", same="i4"), StoredRows(spill, "rows")
    wanted: dict[str, list[int]] = {}
    for source, values in added:
        if values:
            numbers.add(source, value=np.array(values), same=7)
            rows.add(source, pa.RecordBatch.from_pydict({"value": values}))
            wanted.setdefault(source, []).extend(values)
    assert numbers.sources == rows.sources == list(wanted)
    assert len(numbers) == sum(map(len, wanted.values()))
    kept = {source: numbers.for_source(source) for source in "abcd"}
    assert {
        source: [value for batch in rows.for_source(source) for value in batch["value"].to_pylist()]
        for source in wanted
    } == wanted
    own = new_column(spill, "own", 3)
    own[:] = 5
    spill.close()
    assert own.tolist() == [5] * 3
    for source, found in kept.items():
        assert found["value"].tolist() == wanted.get(source, [])
        assert found["same"].tolist() == [7] * len(wanted.get(source, []))


def test_batches_of_several_sources_are_taken_apart() -> None:
    def batch(record: str, *sources: str) -> Batch:
        source = pa.array(sources).dictionary_encode()
        return Batch(record, pa.RecordBatch.from_pydict({"source": source, "id": list(range(len(sources)))}))

    mixed = [
        batch("events", "b", "a", "b"),
        batch("events", "a", "a"),
        batch("links", "a", "b"),
        batch("summaries", *"ab"),
    ]
    found = [(one.record, one.column("source").to_pylist(), one.column("id").to_pylist()) for one in by_source(mixed)]
    assert found == [
        ("events", ["b", "b"], [0, 2]),
        ("events", ["a"], [1]),
        ("events", ["a", "a"], [0, 1]),
        ("links", ["a"], [0]),
        ("links", ["b"], [1]),
        ("summaries", ["a", "b"], [0, 1]),
    ]
