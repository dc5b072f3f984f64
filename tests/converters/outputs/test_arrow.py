"""The Arrow IPC file: opened by other programs, and read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pytest
from conftest import SAMPLES
from nightly import few

import ktrace
from ktrace.errors import DamagedInput
from ktrace.model.row_builder import to_rows
from ktrace.pipeline.read import read_batches
from ktrace.report import Report

KINETO = SAMPLES / "kineto" / "one-step-of-training.pt.trace.json"


def rows_of(path: Path, report: Report | None = None, **options: Any) -> list[dict[str, Any]]:
    found = []
    for batch in read_batches([str(path)], report or Report(), **options):
        if batch.record != "catalog":
            found += [{"record": batch.record} | row for row in to_rows(batch.__class__(batch.record, batch.full()))]
    return sorted(found, key=lambda row: (row["record"], row["id"]))


def written(folder: Path, name: str = "a.arrow", **options: Any) -> Path:
    path = folder / name
    assert ktrace.convert(str(KINETO), str(path), **options).balanced()
    return path


def test_it_reads_back_field_for_field(tmp_path: Path) -> None:
    path = written(tmp_path)
    before, after = rows_of(KINETO), rows_of(path)
    assert after == before
    assert len(after) > 60


def test_pyarrow_polars_and_duckdb_find_the_same_kernels(tmp_path: Path) -> None:
    path = written(tmp_path)
    total = sum(row["dur"] for row in rows_of(KINETO) if row.get("kind") == "kernel")
    table = pa.feather.read_table(path)
    assert table.schema.metadata[b"ktrace.version"] == b"1.0"
    assert sum(row["dur"] for row in table.to_pylist() if row["kind"] == "kernel") == total
    polars = pytest.importorskip("polars")
    assert polars.read_ipc(path).filter(polars.col("kind") == "kernel")["dur"].sum() == total
    duckdb = pytest.importorskip("duckdb")
    found = duckdb.connect()
    found.register("run", table)
    assert found.execute("select sum(dur) from run where kind = 'kernel'").fetchall() == [(total,)]


def test_one_record_has_its_own_columns(tmp_path: Path) -> None:
    table = pa.feather.read_table(written(tmp_path, table="events"))
    assert "record" not in table.column_names
    assert "metric" not in table.column_names
    assert table.num_rows == sum(row["record"] == "events" for row in rows_of(KINETO))


def test_a_cut_file_gives_whole_batches_or_says_that_it_is_cut(tmp_path: Path) -> None:
    data = written(tmp_path).read_bytes()
    for size in range(9, len(data), max(1, len(data) // 60)):
        path = tmp_path / "cut.arrow"
        path.write_bytes(data[:size])
        report = Report()
        try:
            rows_of(path, report, format="arrow")
        except DamagedInput:
            continue
        assert report.balanced()
        assert "cut" in report.issues


def test_another_arrow_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.arrow"
    pa.feather.write_feather(pa.table({"x": [1, 2]}), path)
    with pytest.raises(DamagedInput, match="its columns are x"):
        rows_of(path, format="arrow")


@pytest.mark.parametrize("apart", few([7_993, 997], 1))
def test_a_damaged_length_is_reported(apart: int, tmp_path: Path) -> None:
    data = bytearray(written(tmp_path).read_bytes())
    path = tmp_path / "bad.arrow"
    for place in range(len(data) // 2, len(data) - 300, apart):
        damaged = data.copy()
        damaged[place : place + 4] = b"\xff\xff\xff\x7f"
        path.write_bytes(damaged)
        report = Report()
        try:
            rows_of(path, report, format="arrow")
        except DamagedInput:
            continue
        assert report.balanced()
