"""Qualcomm QNN's profiles: operators by their cycles, everything else as a metric, and nothing invented."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from canonical_rows import known_rows
from conftest import SAMPLES

import ktrace
from ktrace.errors import KtraceError
from ktrace.trace import read

FOLDER = SAMPLES / "qnn"
RUNS, VIEWER, PRINTED = (
    FOLDER / name
    for name in ("onnxruntime-two-runs.csv", "viewer-with-times-and-sources.csv", "statistics-of-the-viewer.txt")
)


def test_every_figure_of_the_csv_is_a_row() -> None:
    lines = [line.split(",", 6) for line in RUNS.read_text().splitlines()[1:]]
    scale = {"US": 1000}
    expected = Counter(
        (
            name.partition(":OpId_")[0] if ":OpId_" in name else message if name == "NULL" else name,
            int(value) * scale.get(unit, 1),
        )
        for _, message, value, unit, _, _, name in lines
    )
    assert (
        Counter((row["name"], row.get("total", row.get("value"))) for row in known_rows(RUNS, "summaries")) == expected
    )
    report = read(RUNS).report
    assert (report.read, report.balanced(), report.issues) == (len(lines), True, {})


def test_operators_are_kernels_in_cycles() -> None:
    kernels = [row for row in known_rows(RUNS, "summaries") if row["kind"] == "kernel"]
    assert {(row["metric"], row["unit"], row["count"], row["device"]) for row in kernels} == {("cycles", "cycle", 1, 0)}
    summary = ktrace.summary(RUNS)
    assert summary.unit == "cycle"
    assert "The source has only cycles, no times." in summary.notes
    assert {group.key: (group.total, group.count) for group in summary.groups["kernel"]} == {
        "/model/attn/MatMul": (12_100, 2),
        "/model/attn/Softmax, fused": (5_900, 2),
        "Reshape": (0, 2),
    }
    text = "\n".join(summary.lines()) if hasattr(summary, "lines") else str(summary)
    assert "us" not in text.replace("fused", ""), "cycles aren't times"


def test_further_columns_and_quoted_names() -> None:
    rows = {row["name"]: row for row in known_rows(VIEWER, "summaries")}
    assert "/layer/MatMul,/layer/Add" in rows["_MatMul_3, _Add"]["args"]
    assert rows["_Transpose_3"]["run"] == "Graph 0: decode"
    assert '"op_id":119' in rows["_Transpose_3"]["args"]
    assert (rows["DDR bytes read"]["value"], rows["DDR bytes read"]["unit"]) == (1_048_576, "B")
    assert set(read(VIEWER).report.issues) == {"bad-record", "cut"}


def test_printed_statistics_count_operators_once() -> None:
    rows = known_rows(PRINTED, "summaries")
    assert {(row["name"], row["total"]) for row in rows if row["kind"] == "kernel"} == {
        *(("Input", 120), ("/model/conv/Conv", 13_807), ("/model/conv/Relu", 0))
    }
    times = {(row["args"], row["name"]): row["total"] for row in rows if row["kind"] == "metric" and "total" in row}
    assert times['{"section":"Init Stats"}', "NetRun"] == 331_158_000
    assert times['{"section":"Execute Stats (Average)"}', "NetRun"] == 2_952_000
    assert times['{"section":"Execute Stats (Min)"}', "NetRun"] == 2_902_000
    assert not read(PRINTED).report.issues


def test_times_go_before_cycles(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(RUNS.read_text().replace("0,CYCLES,BACKEND,SUB-EVENT,Reshape", "7,US,BACKEND,SUB-EVENT,Reshape"))
    summary = ktrace.summary(path)
    assert (summary.unit, summary.total) == ("ns", 14_000)
    assert "The source has only cycles, no times." not in summary.notes


def test_other_csv_is_not_its_own(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("Msg Timestamp,Message,Colour\n1,EXECUTE,red\n")
    with pytest.raises(KtraceError):
        read(path)
