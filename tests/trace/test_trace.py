"""A Trace in Python: DataFrames with honest types, names joined on, written and read again, shown."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from conftest import SAMPLES

import ktrace
from ktrace.conversion import Conversion
from ktrace.model.batch import arrow_schema
from ktrace.model.row_builder import RowBuilder
from ktrace.model.schema import RECORDS
from ktrace.report import Report
from ktrace.trace.trace import Trace

LOG = SAMPLES / "doppler" / "prefill-and-three-decodes.log"


@pytest.fixture
def trace() -> Trace:
    rows = RowBuilder(Conversion(Report(), "rank0"))
    rows.event("kernel", "gemm", ts=2**53 + 1, dur=10, pid=7, device=0, stream=3, args={"queued": 0})
    rows.event("op", "aten::mm", ts=5, dur=20, pid=7, tid=8)
    rows.event("instant", "mark", ts=9, value=float("nan"))
    rows.fact("process", pid=7, name="python3")
    rows.fact("thread", pid=7, tid=8, name="main")
    rows.fact("device", device=0, name="H100")
    rows.fact("source", facts={"rank": 4})
    return Trace(rows.rest())


def test_integers_stay_integers_and_text_is_text(trace: Trace) -> None:
    events = trace.events
    assert isinstance(events, pd.DataFrame)
    assert list(events.columns) == arrow_schema("events").names
    assert events.dtypes["ts"] == "Int64"
    assert events.dtypes["dur"] == "Int64"
    assert events.dtypes["registers"] == "Int32"
    assert events.dtypes["name"] == "string"
    assert events.dtypes["value"] == np.float64
    assert events["ts"].tolist() == [2**53 + 1, 5, 9]
    assert events["dur"].isna().tolist() == [False, False, True]


def test_records_that_are_not_there_are_empty_frames_with_all_columns(trace: Trace) -> None:
    assert len(trace.links) == 0
    assert list(trace.links.columns) == arrow_schema("links").names


def test_names_are_joined_on(trace: Trace) -> None:
    frame = trace.frame(names=True)
    assert frame["process_name"].tolist()[:2] == ["python3", "python3"]
    assert frame["thread_name"].fillna("-").tolist() == ["-", "main", "-"]
    assert frame["device_name"].fillna("-").tolist() == ["H100", "-", "-"]
    assert frame["rank"].tolist() == [4, 4, 4]
    assert "process_name" not in trace.frame(names=False).columns
    assert "process_name" not in trace.events.columns


def test_arrow_tables_have_the_types_of_the_model(trace: Trace) -> None:
    tables = trace.to_arrow()
    assert set(tables) == set(RECORDS)
    assert all(isinstance(table, pa.Table) for table in tables.values())
    for record in RECORDS:
        assert tables[record].schema.names == arrow_schema(record).names
        assert tables[record].schema.types == arrow_schema(record).types


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    trace = ktrace.read(LOG)
    for name in ("a.parquet", "a.jsonl", "a.csv", "a.json"):
        report = trace.write(tmp_path / name)
        assert report.balanced()
        assert ktrace.read(tmp_path / name).equals(trace)
    assert trace.write(tmp_path / "a.perfetto").balanced()
    with pytest.raises(ktrace.OutputError, match="already exists"):
        trace.write(tmp_path / "a.csv")


def test_a_trace_differs_from_one_that_says_something_else(trace: Trace) -> None:
    rows = RowBuilder(Conversion(Report(), "rank0"))
    rows.event("kernel", "gemm", ts=2**53, dur=10)
    assert trace.equals(trace)
    assert not trace.equals(Trace(rows.rest()))


def test_a_trace_shows_itself(trace: Trace) -> None:
    assert repr(trace) == "<Trace rank0: 3 events, 0 summaries, 0 links, 4 catalog>"
    html = trace._repr_html_()
    assert "&lt;Trace rank0&gt;" in html and "3 events" not in html  # the table has the counts
    assert "<td>events</td>" in html
    assert trace.span() == (5, 2**53 + 11)
    assert trace.device_time() == 10


def test_batches_are_streamed() -> None:
    with ktrace.open_batches(LOG, batch_rows=10) as batches:
        sizes = [len(batch) for batch in batches]
    assert max(sizes) == 10
    assert len(sizes) > 5


def test_a_format_can_be_named(tmp_path: Path) -> None:
    text = tmp_path / "kernels.txt"
    text.write_text("| kernel | time (ms) |\n|---|---|\n| gemm | 1.5 |\n")
    assert ktrace.read(text).report.inputs[0]["format"] == "table"
    assert ktrace.read(text, "table").summaries["name"].tolist() == ["gemm"]
    with pytest.raises(ktrace.UsageError):
        ktrace.read(text, "nonsense")


def test_detect_stays_a_function_after_use() -> None:
    for _ in range(2):
        assert ktrace.detect(str(LOG))[0].format == "doppler"
        ktrace.read(LOG)


def test_polars_has_the_same_rows(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Integers beyond 2**53 stay exact; a summary's table, too; without polars the error names the extra."""
    frames = trace.to_polars()
    assert {record: frame.height for record, frame in frames.items()} == {
        record: table.num_rows for record, table in trace.to_arrow().items()
    }
    assert frames["events"]["ts"].to_list() == [2**53 + 1, 5, 9]
    summary = ktrace.summary(SAMPLES / "kineto/one-step-of-training.pt.trace.json", by=["operation"])
    assert dict(summary.to_polars("operation").select("operation", "time_ns").iter_rows())["gemm"] == 249_629
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ktrace.UsageError, match="polars") as raised:
        trace.to_polars()
    assert raised.value.remedy == 'pip install "ktrace[polars]"'
