"""Each column of events is shown by each timeline and by SQL, or is excused here by name, with a reason.

A column that is added to the schema is an argument of every timeline by its group; one of a new group fails here until
somebody says who shows it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES

import ktrace
from ktrace.analysis.answers.query.engine import VIEWS
from ktrace.model.schema import fields

#: What isn't in a kernel's row, whatever writes it.
OF_OTHERS = {
    "track": "a track that has no number; a kernel is on a stream",
    "value": "of counters",
    "unit": "of counters",
    "parent": "of rows that belong to another one",
}

#: Columns of events that the view `kernels` leaves out; `events` has all.
NOT_IN_KERNELS = {
    "parent": "of metrics and pieces of tables",
    "tid": "device work has no thread; that of the call is call_tid",
    "clock": "one trace has one clock after reading",
    "timing": "how a time came about says nothing about the work",
    "external_id": "of operators; the views join by correlation",
    "value": "of counters",
    "unit": "of counters",
}


def kernel() -> dict[str, Any]:
    """A kernel with a value of its own in each column."""
    row: dict[str, Any] = {"record": "event", "kind": "kernel", "timing": "derived", "args": {"mine": 7777}}
    for number, (name, spec) in enumerate(fields("events").items()):
        if name not in row and name not in OF_OTHERS:
            values = {"int64": 7000 + number, "int32": 7000 + number, "float64": 7000.5 + number}
            row[name] = values.get(spec["x-arrow"], f"a-{name}")
    return row


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("columns") / "a-source.jsonl"
    path.write_text(json.dumps({"ktrace": "1.0"}) + "\n" + json.dumps(kernel()) + "\n")
    return path


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet", "a.arrow", "a.csv", "a.perfetto", "a.json.gz"])
def test_an_output_that_is_read_back_has_every_column(name: str, source: Path, tmp_path: Path) -> None:
    ktrace.convert(str(source), str(tmp_path / name), to="chrome" if ".json.gz" in name else None)
    (row,) = ktrace.read(str(tmp_path / name)).to_arrow()["events"].to_pylist()
    found = {key: json.loads(value) if key == "args" else value for key, value in row.items() if value is not None}
    assert found == {key: value for key, value in kernel().items() if key != "record"}


def test_spans_of_opentelemetry_have_every_column(source: Path, tmp_path: Path) -> None:
    ktrace.convert(str(source), str(tmp_path / "a.otlp.json"))
    text = (tmp_path / "a.otlp.json").read_text()
    without = {"id": "a span has an id of its own", "clock": "spans have unix times"}
    for name, value in kernel().items():
        if name not in ("record", "args", "ts", "dur", *without):
            assert str(value) in text, name


def test_sql_has_every_column_of_kernels_and_of_events(source: Path) -> None:
    assert VIEWS["events"].columns == tuple(fields("events"))
    assert not NOT_IN_KERNELS.keys() & set(VIEWS["kernels"].columns)
    assert {*fields("events")} - NOT_IN_KERNELS.keys() <= {*VIEWS["kernels"].columns}
    (row,) = ktrace.query(str(source), "select * from kernels").to_pylist()
    for name, value in kernel().items():
        if name not in ("record", "args", *NOT_IN_KERNELS):
            assert row[name] == value, name


def test_the_size_of_clusters_is_read_from_both_of_nvidias_profilers() -> None:
    """Nsight Systems states the three dimensions, those that it leaves out count as 1, Nsight Compute their product."""
    export = SAMPLES / "nsys" / "schema-3.25-graph-waits-gpu-metrics-unknown-tables.sqlite"
    sql = "select cluster_size from kernels where cluster_size is not null"
    assert ktrace.query(str(export), sql).to_pylist() == [{"cluster_size": 2}]
    printed = SAMPLES / "ncu" / "printed-by-default-amid-output.txt"
    summaries = ktrace.read(str(printed)).to_arrow()["summaries"].to_pylist()
    assert 0 in [row["cluster_size"] for row in summaries if row["kind"] == "kernel"]
