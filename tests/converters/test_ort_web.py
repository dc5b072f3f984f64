"""onnxruntime-web's lines in console logs: a real log against figures taken from its text, and our samples by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES, SHARED

import ktrace
from ktrace.model.json_text import decoded

REAL = SHARED / "corpus" / "made" / "webgpu_console" / "ort_web_mlp.log"
OURS = SAMPLES / "ort-web"


def rows(path: Path, record: str = "events") -> list[dict[str, Any]]:
    """The rows without their nulls."""
    table = ktrace.read(path).to_arrow()[record]
    columns = {name: decoded(table[name]).to_pylist() for name in table.column_names}
    return [{name: values[i] for name, values in columns.items() if values[i] is not None} for i in range(len(table))]


def test_every_kernel_of_a_real_log_is_a_row() -> None:
    if not REAL.exists():
        pytest.skip("the real log is not at hand (../shared/corpus/made/webgpu_console)")
    text = REAL.read_text()
    names = re.findall(r'kernel "\d+\|(\w+)\|(\w+)\|(\w+)"', text)
    times = re.findall(r"start time: (\d+) ns, execution time: (\d+) ns", text)
    found = rows(REAL)
    assert [(row["kind"], row["device"]) for row in found] == [("kernel", 0)] * 12
    assert [(json.loads(row["args"])["kernelType"], row["layer"], row["name"]) for row in found] == names
    assert [(row["ts"], row["dur"]) for row in found] == [(int(start), int(dur)) for start, dur in times]
    assert sum(row["dur"] for row in found) == 149_366_832
    shapes = json.loads(found[0]["args"])["inputsMetadata"]
    assert shapes == [{"dims": dims, "dataType": "float32"} for dims in ([4, 32], [32, 64], [64])]
    report = ktrace.read(REAL).report
    assert {kind: issue.rows for kind, issue in report.issues.items()} == {"unrecognised": 1}


def test_lines_with_a_start_are_events() -> None:
    found = rows(OURS / "webgpu-jsep-of-several-versions.log")
    assert [(row["name"], row.get("layer"), row["ts"], row["dur"]) for row in found] == [
        ("Conv2DMatMul", "/stem/conv", 0, 412_345),
        ("Transpose", "/stem/conv", 412_500, 0),
        ("Where", 'say "when"|or not', 500_000, 65_536),
        ("Softmax", "probs", 600_000, 12_000),
    ]
    assert json.loads(found[3]["args"])["kernelId"] == 7040


def test_lines_without_a_start_are_summaries() -> None:
    found = rows(OURS / "webgpu-jsep-of-several-versions.log", "summaries")
    assert [(row["name"], row.get("layer"), row["total"], row["count"], row["unit"]) for row in found] == [
        ("[Split] 7020", None, 37_760, 1, "ns"),
        ("[Concat] 52361040", None, 50_833, 1, "ns"),
        ("[Gemm] head", "head", 8_856, 1, "ns"),
        ("Relu", None, 1_000, 1, "ns"),
    ]
    old = json.loads(found[1]["args"])
    assert old == {
        "kernelType": "Concat",
        "inputsMetadata": [{"dims": [1, 8, 4]}, {"dims": []}],
        "outputsMetadata": [{"dims": [1, 8, 5]}],
    }


def test_what_is_left_out_is_reported() -> None:
    report = ktrace.read(OURS / "webgpu-jsep-of-several-versions.log").report
    places = {kind: [place for place, _ in issue.places] for kind, issue in report.issues.items()}
    assert places == {"unrecognised": ["line 1"], "negative-duration": ["line 11"], "bad-record": ["line 12"]}


def test_onnxjs_and_profiles_in_a_console() -> None:
    path = OURS / "webgl-timers-and-a-profile-in-wasm.log"
    found = [(row["kind"], row["name"], row["ts"], row["dur"], row["timing"]) for row in rows(path)]
    assert found == [
        ("op", "it's conv1", 510_650_000, 1_750_000, "derived"),
        ("range", "Session.run", 508_020_000, 8_000_000, "derived"),
        ("op", "inferenceHandler", 509_500_000, 500_000, "derived"),
        ("range", "model_run", 3_000, 120_000, "measured"),
        ("op", "mm_kernel_time", 40_000, 33_000, "measured"),
        ("kernel", "MatMul", 55_000, 7_000, "measured"),
    ]
    assert [(row["kind"], row["name"], row["total"]) for row in rows(path, "summaries")] == [
        ("kernel", "ProgramManager.run mul_", 290_000)
    ]
    node = next(row for row in rows(path) if row["name"] == "mm_kernel_time")
    assert (node["operation"], node["library"], node["layer"]) == ("MatMul", "CPUExecutionProvider", "mm")


@pytest.mark.parametrize(
    "line",
    [
        '[profiling] kernel "',
        '[profiling] kernel "a execution time: 1 ns',
        '[profiling] kernel "1|a" execution time: 99999999999999999999 ns',
        '[profiling] kernel "1|a" execution time: 9000000000000000000 ns',
        '{"cat" : "Node","pid" :1,"tid" :1,"dur" :9e99,"ts" :1,"ph" : "X","name" :"a","args" : {}}',
        '{"cat" : "Node","pid" :1,"tid" :1,"dur" :-1,"ts" :1,"ph" : "X","name" :"a","args" : {}}',
        "Profiler.op 999999999999999.00ms on event 'a' at 999999999999999.00",
    ],
)
def test_hostile_lines_are_reported(tmp_path: Path, line: str) -> None:
    path = tmp_path / "a.log"
    path.write_text(f'[profiling] kernel "1|a" execution time: 5 ns\n{line}\n')
    report = ktrace.read(path).report
    assert report.read == 2
    assert sum(issue.rows for issue in report.issues.values()) == 1


@pytest.mark.parametrize("label", ["²|a|b|c", "9" * 5000 + "|[a] b", "--5", ""])
def test_any_label_is_a_name(tmp_path: Path, label: str) -> None:
    path = tmp_path / "a.log"
    path.write_text(f'[profiling] kernel "{label}" input[0]: [--,{"9" * 5000}] | x, execution time: 5 ns\n')
    assert rows(path, "summaries")[0]["total"] == 5
