"""WebLLM's timestamp blocks amid text. No real log is at hand: the samples are synthetic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES

import ktrace

AMID = SAMPLES / "webllm" / "blocks-amid-a-log.log"
PRETTY = SAMPLES / "webllm" / "pretty-printed-array-cut-off.json"


def kernels(path: Path) -> list[tuple[str, int, int]]:
    rows = ktrace.read(path).to_arrow()["events"].to_pylist()
    assert {(row["kind"], row["device"], row["timing"]) for row in rows} <= {("kernel", 0, "measured")}
    return [(row["name"], row["ts"], row["dur"]) for row in rows]


def a_block(name: str, start: int, end: int, **more: Any) -> dict[str, Any]:
    return {"entryPoints": [name], "start": start, "end": end, **more}


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "webllm.log"
    path.write_text(text, "utf-8")
    return path


def test_blocks_amid_a_log() -> None:
    assert kernels(AMID) == [
        ("fused_dequantize_take1_kernel", 1000000, 65536),
        ("NT_matmul7_kernel_2", 1065536, 1048576),
        ("rms_norm2_kernel", 2114112, 0),
        ("split1_kernel, rotary_kernel", 2114112, 196608),
        ("big_kernel", 3100000, 100000),
    ]
    report = ktrace.read(AMID).report
    assert {kind: [place for place, _ in issue.places] for kind, issue in report.issues.items()} == {
        "unrecognised": ["lines 1-2", "line 7", "line 11"],
        "negative-duration": ["line 8"],
        "bad-record": ["line 9"],
    }
    assert report.balanced()


def test_other_keys_and_several_entry_points_are_arguments() -> None:
    args = [row["args"] for row in ktrace.read(AMID).to_arrow()["events"].to_pylist()]
    assert [json.loads(text) for text in args if text] == [
        {"workgroups": [8, 1, 1], "extra": {"queue": 0}, "entryPoints": ["split1_kernel", "rotary_kernel"]}
    ]


def test_a_pretty_printed_array_that_breaks_off() -> None:
    assert kernels(PRETTY) == [("layer_norm_kernel", 131072, 65536), ("gelu_kernel", 196608, 65536)]
    report = ktrace.read(PRETTY).report
    assert [place for place, _ in report.issues["cut"].places] == ["lines 17-19"]
    assert report.balanced()


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("wrap", [lambda blocks: blocks, lambda blocks: {"runs": [{"n": 1, "list": blocks}]}])
def test_arrays_and_objects_around_blocks(tmp_path: Path, indent: int | None, wrap: Any) -> None:
    blocks = [a_block(f"kernel_{number}", 10 * number, 10 * number + 7, deep={"a": {"b": 1}}) for number in range(300)]
    path = written(tmp_path, "begin {\n" + json.dumps(wrap(blocks), indent=indent) + "\nend }\n")
    assert kernels(path) == [(f"kernel_{number}", 10 * number, 7) for number in range(300)]
    assert ktrace.read(path).report.balanced()


def test_blocks_with_escaped_quotes(tmp_path: Path) -> None:
    line = json.dumps({"level": "info", "text": json.dumps(a_block("matmul", 5, 9))})
    assert kernels(written(tmp_path, line + "\n")) == [("matmul", 5, 4)]


def test_text_with_braces_is_not_held_for_long(tmp_path: Path) -> None:
    block = json.dumps(a_block("matmul", 5, 9))
    path = written(tmp_path, "function() {\n{\n" + "x {y} }\n" * 500 + block + "\n{\n")
    assert kernels(path) == [("matmul", 5, 4)]
    assert ktrace.read(path).report.balanced()


@pytest.mark.parametrize(("start", "ns"), [("1.5", 2), ('"12n"', 12), ('"12"', 12), ("1e3", 1000), ("-4", -4)])
def test_spellings_of_a_time(tmp_path: Path, start: str, ns: int) -> None:
    path = written(tmp_path, f'{{"entryPoints":"matmul","start":{start},"end":5000}}')
    assert kernels(path) == [("matmul", ns, 5000 - ns)]
    assert ("rounded" in ktrace.read(path).report.issues) == (start == "1.5")


@pytest.mark.parametrize("start", ["null", "true", '"x"', str(1 << 62), "6000", "NaN"])
def test_blocks_without_a_usable_time_are_reported(tmp_path: Path, start: str) -> None:
    good = json.dumps(a_block("matmul", 5, 9))
    end = 1 << 63 if start == str(1 << 62) else 5000
    path = written(tmp_path, f'{good}\n{{"entryPoints":["bad"],"start":{start},"end":{end}}}\n')
    assert kernels(path) == [("matmul", 5, 4)]
    report = ktrace.read(path).report
    assert sum(issue.rows for issue in report.issues.values()) == 1
    assert report.balanced()


def test_fractions_beside_the_times_are_kept_and_times_that_are_none_are_skipped(tmp_path: Path) -> None:
    lines = [
        json.dumps(a_block("gemm", 100, 250, load=0.5, nested={"share": [1.25]})),
        '{"entryPoints":["half"],"start":10.5,"end":20.0}',
        '{"entryPoints":["none"],"start":NaN,"end":5}',
        '{"entryPoints":["endless"],"start":1,"end":"Infinity"}',
        '{"entryPoints":["far"],"start":1,"end":1e20}',
    ]
    path = written(tmp_path, "\n".join(lines) + "\n")
    assert kernels(path) == [("gemm", 100, 150), ("half", 10, 10)]
    trace = ktrace.read(path)
    args = [json.loads(row["args"]) for row in trace.to_arrow()["events"].to_pylist()]
    assert args == [{"load": 0.5, "nested": {"share": [1.25]}}, {"start": "10.5"}]
    assert {kind: [place for place, _ in issue.places] for kind, issue in trace.report.issues.items()} == {
        "rounded": ["line 2"],
        "bad-record": ["line 3", "line 4"],
        "time-range": ["line 5"],
    }
    assert trace.report.balanced()


@pytest.mark.parametrize("before", ["", "{ " * 100_000])
def test_a_long_array_on_one_line_comes_to_an_end(tmp_path: Path, before: str) -> None:
    blocks = [a_block(f"kernel_{number % 10}", 10 * number, 10 * number + 7) for number in range(20_000)]
    path = written(tmp_path, before + json.dumps(blocks) + "\n")
    trace = ktrace.read(path)
    assert len(trace.to_arrow()["events"]) == 20_000
    assert trace.report.balanced()
