"""roctracer's texts against regular expressions of rocprof's tblextr.py's forms; the samples are synthetic."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES

import ktrace
from ktrace.converters.roctracer import own_files
from ktrace.input.detection import detect
from ktrace.model.json_text import decoded
from ktrace.trace.trace import Trace

RUN = SAMPLES / "roctracer/a-run-of-two-threads"
PRINTED = SAMPLES / "roctracer/printed-amid-output-without-correlation-ids.txt"


def rows(trace: Trace) -> list[dict[str, Any]]:
    """The events without their nulls, the arguments as a dict."""
    table = trace.to_arrow()["events"]
    columns = {name: decoded(table[name]).to_pylist() for name in table.column_names}
    found = [{name: values[i] for name, values in columns.items() if values[i] is not None} for i in range(len(table))]
    return [row | {"args": json.loads(row.get("args", "{}"))} for row in found]


def written(path: Path, text: str) -> Trace:
    """The trace of a text."""
    path.write_text(text)
    return ktrace.read(path)


def test_every_time_is_that_of_a_line() -> None:
    text = "".join(path.read_text() for path in RUN.iterdir())
    stated = [(int(one), int(two) - int(one)) for one, two in re.findall(r"(?m)^(\d+):(\d+) ", text)]
    trace = ktrace.read(RUN)
    assert sorted((row["ts"], row["dur"]) for row in rows(trace) if row.get("cat") != "roctx") == sorted(stated)
    assert {kind: issue.rows for kind, issue in trace.report.issues.items()} == {"end-without-begin": 1}
    assert detect(RUN)[0].format == detect(PRINTED)[0].format == "roctracer"


def test_work_is_named_and_placed() -> None:
    work = {row["name"]: row for row in rows(ktrace.read(RUN)) if "device" in row}
    assert {name: (row["kind"], row["device"], row["stream"], row["correlation"]) for name, row in work.items()} == {
        "CopyHostToDevice": ("memcpy", 0, 0, 4),
        "void ns::scale<float>(float*, int)": ("kernel", 0, 1, 5),
        "CopyRows(int)": ("kernel", 1, 1, 7),
        "MarkerBarrier": ("sync", 0, 1, 8),
        "FillBuffer": ("memset", 0, 0, 9),
    }
    assert work["CopyHostToDevice"]["copy_kind"] == "HtoD"
    assert work["CopyRows(int)"]["args"] == {"name": "CopyRows"}, "the call names the kernel in full"
    assert all(row["pid"] == 7001 for row in work.values())


def test_calls_have_their_arguments_thread_and_kernel() -> None:
    calls = {row["name"]: row for row in rows(ktrace.read(RUN)) if row["kind"] == "api"}
    launch = calls["hipLaunchKernel"]
    assert (launch["tid"], launch["correlation"], launch["cat"]) == (7002, 5, "hip")
    assert launch["args"]["kernel"] == "void ns::scale<float>(float*, int)"
    assert launch["args"]["args"].startswith("(function_address=0x200ee0, numBlocks={z=1, y=1, x=16}")
    assert calls["hipGetLastError"]["args"] == {}
    assert calls["hsa_shut_down"]["cat"] == "hsa"
    assert calls["hsa_shut_down"]["args"] == {"args": "() = 0"}


def test_copies_of_hsa_belong_to_a_call_that_is_there() -> None:
    copies = [row for row in rows(ktrace.read(RUN)) if row["name"] == "async-copy"]
    assert [(row.get("correlation"), row["args"]) for row in copies] == [(11, {}), (None, {"Index": 3})]


def test_ranges_and_marks() -> None:
    found = [row for row in rows(ktrace.read(RUN)) if row.get("cat") == "roctx"]
    assert [(row["kind"], row["name"], row["tid"], row["ts"], row.get("dur")) for row in found] == [
        ("instant", "here", 7001, 5000001500, None),
        ("range", "inner", 7001, 5000000700, 8800),
        ("range", 'step "one", of 2', 7001, 5000000500, 29500),
        ("range", "load", 7001, 5000002000, 28500),
        ("range", "never popped", 7002, 5000032000, None),
    ]


@pytest.mark.parametrize(
    ("starts", "ended"), [([("0", "a")], ["a"]), ([("0", "a"), ("0", "b")], []), ([("0", "a"), ("7", "b")], ["b"])]
)
def test_starts_without_a_number(tmp_path: Path, starts: list[tuple[str, str]], ended: list[str]) -> None:
    """Some versions write 0 for the number of each start (test/golden_traces/MatrixTranspose_sys_hsa_trace.txt)."""
    lines = [f'100000000{at} 1:1 3:{number}:"{text}"\n' for at, (number, text) in enumerate(starts)]
    trace = written(tmp_path / "roctx_trace.txt", "".join(lines) + '1000000009 1:1 4:7:""\n')
    found = rows(trace)
    assert sorted(row["name"] for row in found) == [text for _, text in starts], "none is lost"
    assert [row["name"] for row in found if "dur" in row] == ended
    assert ("end-without-begin" in trace.report.issues) == (not ended)


def test_a_printed_trace_without_ids_joins_nothing() -> None:
    trace = ktrace.read(PRINTED)
    found = {row["name"]: row for row in rows(trace)}
    assert found.keys() == {"hipMalloc", "hipLaunchKernel", "hcCommandKernel", "async-copy"}
    assert not any("correlation" in found[name] for name in ("hipMalloc", "hipLaunchKernel"))
    assert found["hipLaunchKernel"]["args"]["kernel"] == "saxpy(int, float*)"
    assert {kind: issue.rows for kind, issue in trace.report.issues.items()} == {
        "unrecognised": 2,
        "negative-duration": 1,
        "bad-record": 1,
    }


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("1000000000:90000000000000000000 1:1 hipFree() :1", "time-range"),
        ('90000000000000000000 1:1 0:0:"mark"', "time-range"),
        ("1000000000:2000000000 1:1 no call", "bad-record"),
        ('1000000000 1:1 4:7:""', "end-without-begin"),
        ('1000000000 1:1 2:0:""', "end-without-begin"),
        ('1000000000 1:1 9:0:""', "unrecognised"),
    ],
)
def test_a_bad_line_costs_itself(tmp_path: Path, line: str, kind: str) -> None:
    trace = written(tmp_path / "x.txt", f"1000000000:1000000005 1:1 hipMalloc(ptr=0) :1\n{line}\n")
    assert [row["name"] for row in rows(trace)] == ["hipMalloc"]
    assert [place[0] for place in trace.report.issues[kind].places] == ["line 2"]


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("KernelExecution", "kernel"),
        ("CopyDeviceToDevice2D", "memcpy"),
        ("hcMemcpyDeviceToHost", "memcpy"),
        ("FillBuffer", "memset"),
        ("MarkerBarrier", "sync"),
        ("copy_rows(float*)", "kernel"),
        ("void ns::fill<int>(int*)", "kernel"),
    ],
)
def test_kinds_of_work_whose_call_is_unknown(tmp_path: Path, label: str, expected: str) -> None:
    (row,) = rows(written(tmp_path / "hcc_ops_trace.txt", f"1000000000:1000000005 2:3 {label}:77:4242\n"))
    assert (row["kind"], row["name"], row["correlation"], row["pid"]) == (expected, label, 77, 4242)


@pytest.mark.parametrize(
    ("listing", "read"),
    [
        (["1_hcc_ops_trace.txt", "1_hip_api_trace.txt"], ["1_hip_api_trace.txt", "1_hcc_ops_trace.txt"]),
        (["a/roctx_trace.txt", "a/hsa_handles.txt", "a/run.log"], ["a/roctx_trace.txt", "a/hsa_handles.txt"]),
        (["a/roctx_trace.txt", "b/roctx_trace.txt"], []),
        (["hsa_handles.txt"], []),
        (["hip_api_trace.txt", "x.py", "y.py"], []),
    ],
)
def test_folders(listing: list[str], read: list[str]) -> None:
    assert own_files(listing) == read


def test_other_files_of_a_folder_are_said(tmp_path: Path) -> None:
    (tmp_path / "hip_api_trace.txt").write_text("1000000000:1000000005 1:1 hipMalloc(ptr=0) :1\n")
    (tmp_path / "roctx_trace.txt").write_text('1000000000 1:1 0:0:"mark"\n')
    (tmp_path / "run.log").write_text("nothing\n")
    trace = ktrace.read(tmp_path)
    assert trace.report.issues["unrecognised"].places == [("run.log", "not a text of roctracer")]


@pytest.mark.parametrize(
    "text", ["12:30 4:5 x:1:2\n", "1000000000:2000000000;3 4\n", "a;b 5000000000\n", "5000000000\n"]
)
def test_other_texts_are_not_claimed(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.txt"
    path.write_text(text)
    assert not [match for match in detect(path) if match.format == "roctracer" and match.score > 0]
