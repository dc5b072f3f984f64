"""Device time by line of code: frames of the program alone, stated lines, and sums that add up."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import ktrace
from ktrace.analysis.answers.summary.screen import screen
from ktrace.analysis.questions.hosts.answer import HostCosts
from ktrace.analysis.work.spans import line_of


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("train.py(12): main", "train.py:12 main"),
        ("/home/me/my model/net.py(7): <lambda>", "/home/me/my model/net.py:7 <lambda>"),
        ("$serve.py:88 step", "serve.py:88 step"),
        ("triton_poi_fused_add_0, line = model.py:42 forward", "model.py:42 forward"),
        ("aten::mm, sizes = [[8, 4], [4, 2]], line = model.py:42 forward", "model.py:42 forward"),
        ("torch/nn/modules/linear.py(125): forward", ""),
        ("threading.py(870): run", ""),
        ("/usr/lib/python3.12/contextlib.py(81): inner", ""),
        ("/opt/venv/lib/python3.11/site-packages/flash_attn/flash.py(3): fwd", ""),
        ("<built-in function mul>", ""),
        ("nn.Module: Linear_0", ""),
        ("aten::mm", ""),
    ],
)
def test_lines_are_those_of_the_program(name: str, line: str) -> None:
    assert line_of(name) == line


def trace(path: Path, spans: list[tuple[str, str, int, int, dict[str, Any]]], kernels: list[tuple[int, int]]) -> Path:
    """Spans (category, name, begin, duration, arguments), and kernels (time of the launch, duration), all in us."""
    events: list[dict[str, Any]] = [
        {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, "args": args}
        for cat, name, ts, dur, args in spans
    ]
    for number, (ts, dur) in enumerate(kernels, 1):
        about = {"correlation": number}
        launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": ts, "dur": 1}
        work = {"ph": "X", "cat": "kernel", "name": f"k{number}", "pid": 0, "tid": 7, "ts": 1000 + 100 * number}
        events += [{**launch, "args": about}, {**work, "dur": dur, "args": {**about, "device": 0, "stream": 7}}]
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


def lines(path: Path) -> dict[str, tuple[int, int]]:
    answer = ktrace.summary(path, by=["line"]).answers["line"]
    assert isinstance(answer, HostCosts)
    assert sum(row.own for row in answer.rows) == answer.device
    return {row.name: (row.own, row.total) for row in answer.rows}


def test_work_belongs_to_the_innermost_line_of_the_program(tmp_path: Path) -> None:
    spans = [
        ("python_function", "train.py(3): main", 0, 100, {}),
        ("python_function", "model.py(42): forward", 10, 50, {}),
        ("python_function", "torch/nn/functional.py(9): linear", 12, 20, {}),
        ("cpu_op", "aten::addmm", 14, 10, {}),
    ]
    found = lines(trace(tmp_path / "t.json", spans, [(15, 30), (70, 5), (200, 2)]))
    assert found == {
        "model.py:42 forward": (30_000, 30_000),
        "train.py:3 main": (5_000, 35_000),
        "no line": (2_000, 2_000),
    }


def test_operators_state_their_line(tmp_path: Path) -> None:
    stack = 'File "run.py", line 5, in main\n    step()\nFile "/v/site-packages/torch/x.py", line 1, in f\n    g()'
    spans = [
        ("cpu_op", "triton_poi_fused_add_0", 0, 20, {"stack_trace": stack, "kernel_file": "/tmp/c.py"}),
        ("cpu_op", "triton_red_fused_sum_1", 30, 20, {"kernel_file": "/tmp/torchinductor/cabc.py"}),
        ("cpu_op", "aten::mm", 60, 20, {}),
    ]
    found = lines(trace(tmp_path / "t.json", spans, [(5, 30), (35, 20), (65, 10)]))
    assert {name: own for name, (own, _) in found.items()} == {
        "run.py:5 main": 30_000,
        "/tmp/torchinductor/cabc.py": 20_000,
        "no line": 10_000,
    }


def test_without_lines_there_is_no_answer(tmp_path: Path) -> None:
    path = trace(tmp_path / "t.json", [("cpu_op", "aten::mm", 0, 20, {})], [(5, 30)])
    assert "line" not in ktrace.summary(path, by=["line"]).answers
    assert {row.name for row in ktrace.summary(path, by=["op"]).answers["op"].rows} == {"aten::mm"}


def test_the_screen_names_the_question_where_it_can_be_asked(tmp_path: Path) -> None:
    frames = trace(tmp_path / "t.json", [("python_function", "train.py(3): main", 0, 100, {})], [(5, 30)])
    without = trace(tmp_path / "u.json", [("cpu_op", "aten::mm", 0, 20, {})], [(5, 30)])
    assert "line" in ktrace.summary(frames).askable
    assert "line" not in ktrace.summary(without).askable
    assert re.search(r"also known: --by [\w, -]*\bline\b", screen(ktrace.summary(frames)))
