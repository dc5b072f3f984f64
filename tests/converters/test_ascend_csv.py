"""Ascend's CSV files against the module csv; the samples are synthetic."""

from __future__ import annotations

import csv
import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES, SHARED

import ktrace
from ktrace.kit.ascend_folder import CSV, DB, JSON, chosen
from ktrace.kit.ascend_tasks import task_kind
from ktrace.model.json_text import decoded
from ktrace.trace.trace import Trace

REAL = SHARED / "corpus" / "ascend" / "kernel_details.csv"
FOLDER = SAMPLES / "ascend-csv" / "a-profile-without-a-timeline"
DEVICES = SAMPLES / "ascend-csv" / "two-devices-and-a-row-without-a-start.csv"
TASKS = SAMPLES / "ascend-csv" / "task-time-and-step-trace.csv"
CACHE = SAMPLES / "ascend-csv" / "l2-cache-rates.csv"

HEADINGS = "Device_id,Op Name,OP Type,Task Type,Task Start Time(us),Task Duration(us),Task Wait Time(us),Block Dim\n"


def rows(trace: Trace, record: str = "events") -> list[dict[str, Any]]:
    """The rows without their nulls, the arguments as a dict."""
    table = trace.to_arrow()[record]
    columns = {name: decoded(table[name]).to_pylist() for name in table.column_names}
    found = [{name: values[i] for name, values in columns.items() if values[i] is not None} for i in range(len(table))]
    for row in found:
        if "args" in row:
            row["args"] = json.loads(row["args"])
    return found


@pytest.fixture
def real() -> Path:
    if not REAL.exists():
        pytest.skip("the real file is not at hand (../shared/corpus/ascend)")
    return REAL


def test_every_row_of_the_real_file_is_there_to_the_ns(real: Path) -> None:
    with real.open(newline="") as file:
        cells = list(csv.DictReader(file))
    theirs = Counter(
        (
            cell["Name"],
            None if cell["Stream ID"] == "N/A" else int(cell["Stream ID"]),
            int(Decimal(cell["Start Time(us)"].strip()) * 1000),
            int(Decimal(cell["Duration(us)"].strip()) * 1000),
            int(cell["Block Dim"]) or None,
        )
        for cell in cells
    )
    found = rows(ktrace.read(real))
    ours = Counter((row["name"], row.get("stream"), row["ts"], row["dur"], row.get("grid_x")) for row in found)
    assert ours == theirs
    assert len(found) == 591
    assert {row["kind"] for row in found} == {"kernel"}


def test_counters_of_the_cores_are_arguments(real: Path) -> None:
    with real.open(newline="") as file:
        cells = list(csv.DictReader(file))
    found = rows(ktrace.read(real))
    total = sum(Decimal(cell["aiv_time(us)"]) for cell in cells if cell["aiv_time(us)"] != "N/A")
    assert sum(Decimal(str(row["args"].get("aiv_time(us)", 0))) for row in found) == total
    assert not any("N/A" in row["args"].values() for row in found)


def test_kinds_devices_and_a_row_without_a_start() -> None:
    trace = ktrace.read(DEVICES)
    found = {row["name"]: row for row in rows(trace)}
    assert {name: (row["kind"], row["device"], row.get("stream")) for name, row in found.items()} == {
        "aclnnMatmul_MatMulCommon_MatMulV2": ("kernel", 4, 2),
        "aclnnAdd_AddAiCore_Add": ("kernel", 4, 2),
        "hcom_allReduce__77_0_1": ("kernel", 4, None),
        "hcom_allReduce_AivKernel": ("range", 4, 9),
        "TopKD9": ("kernel", 5, 2),
        "MEMCPY_ASYNC": ("memcpy", 5, 2),
    }
    assert {name: row["track"] for name, row in found.items() if "track" in row} == {
        "hcom_allReduce__77_0_1": "Communication"
    }
    first = found["aclnnMatmul_MatMulCommon_MatMulV2"]
    assert (first["ts"], first["dur"], first["grid_x"]) == (1760000050000010007, 42125, 24)
    assert first["args"]["Input Shapes"] == "64,128;128,32"
    assert trace.report.issues["bad-record"].rows == 1


def test_task_times_iterations_and_marks() -> None:
    trace = ktrace.read(TASKS)
    found = [(row["kind"], row["name"], row["ts"] - 1760000050000000000, row.get("dur")) for row in rows(trace)]
    assert found == [
        ("kernel", "MatMulV2", 300500, 10500),
        ("sync", "NOTIFY_WAIT_SQE", 320000, 7250),
        ("memcpy", "MEMCPY_ASYNC", 328000, 1125),
        ("range", "Iteration 7", 299500, 31250),
        ("range", "forward", 300000, 31500),
        ("instant", "checkpoint", 340000, None),
    ]
    marks = [(row["pid"], row["tid"], "device" in row) for row in rows(trace) if "tid" in row]
    assert marks == [(70, 71, False), (70, 71, False)]
    assert not any("task_stop" in row.get("args", {}) for row in rows(trace))


def test_a_folder_is_one_trace_and_counts_no_operation_twice() -> None:
    trace = ktrace.read(FOLDER)
    events = rows(trace)
    assert sum(row["dur"] for row in events if row["kind"] == "kernel") == 42125 + 120000
    assert [row["bytes"] for row in events if row["kind"] == "alloc"] == [4096, 512]
    counters = {(row["name"], row["ts"] - 1760000050000000000): row["value"] for row in events if "value" in row}
    assert counters["PTA Total Allocated", 5125] == 1.5 * 1024 * 1024
    assert counters["GE Total Reserved", 6500] == 4 * 1024 * 1024
    assert len(counters) == 6
    of_device = [row["name"] for row in events if row.get("args", {}).get("Device Type") == "NPU:4" and "value" in row]
    assert of_device == ["PTA Total Allocated", "GE Total Reserved", "PTA+GE Total Allocated"]
    summaries = rows(trace, "summaries")
    assert Counter(row["kind"] for row in summaries) == {"api": 2, "op": 2, "metric": 9}
    times = {row["name"]: row["value"] for row in summaries if row["kind"] == "metric"}
    assert times["Communication"] == 120000.0
    assert times["Free"] == 8250.0
    assert {row["device"] for row in events} == {4}
    assert trace.report.issues["same-run"].rows == 2


def test_rates_of_the_cache() -> None:
    trace = ktrace.read(CACHE)
    found = [(row["name"], row["metric"], row["value"]) for row in rows(trace, "summaries")]
    assert found == [("MatMulV2", "Hit Rate", 0.75), ("MatMulV2", "Victim Rate", 0.125), ("Add", "Victim Rate", 0.0)]
    assert trace.report.issues["bad-record"].rows == 1
    assert "misfit" not in trace.report.issues  # N/A is no figure, and not a wrong one


@pytest.mark.parametrize(
    ("name", "before", "after", "heading"),
    [
        ("l2-cache-rates.csv", "0.75", "0.7S", "Hit Rate"),
        ("step_trace_time.csv", "42.125", "42,125x", "Computing"),
        ("memory_record.csv", "20.0", "2O.0", "Total Reserved(MB)"),
    ],
)
def test_a_figure_that_is_none_is_said_and_kept(
    name: str, before: str, after: str, heading: str, tmp_path: Path
) -> None:
    (path,) = (SAMPLES / "ascend-csv").rglob(name)
    whole = ktrace.read(path)
    changed = tmp_path / name
    changed.write_text(path.read_text().replace(before, f'"{after}"', 1))
    trace = ktrace.read(changed)
    (problem,) = trace.report.issues["misfit"].places
    assert problem[1] == f"{heading}: {after}"
    left = [*rows(trace), *rows(trace, "summaries")]
    assert len(left) == len([*rows(whole), *rows(whole, "summaries")]) - 1
    assert any((row["args"] or {}).get(heading) == after for row in left)


def test_statistics(tmp_path: Path) -> None:
    path = tmp_path / "op_statistic_1.csv"
    path.write_text(
        "Device_id,OP Type,Core Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),Ratio(%)\n"
        "2,Cast,AI_VECTOR_CORE,240,23077.4,1.18,96.155,2708.32,10.561\n"
    )
    (row,) = rows(ktrace.read(path), "summaries")
    assert (row["kind"], row["name"], row["device"], row["count"]) == ("kernel", "Cast", 2, 240)
    assert (row["total"], row["min"], row["avg"], row["max"]) == (23077400.0, 1180.0, 96155.0, 2708320.0)
    assert (row["percent"], row["unit"]) == (10.561, "ns")


def test_an_older_summary_without_starts(tmp_path: Path) -> None:
    path = tmp_path / "op_summary_0_1.csv"
    path.write_text("Model Name,Op Name,OP Type,Task Duration(us)\nnet,Conv,Conv2D,12.5\n")
    (row,) = rows(ktrace.read(path), "summaries")
    assert (row["name"], row["total"], row["count"]) == ("Conv", 12500.0, 1)


@pytest.mark.parametrize(
    ("task", "kind"),
    [
        *(
            (word, "kernel")
            for word in ("AI_CORE", "AI_VECTOR_CORE", "MIX_AIC", "MIX_AIV", "AI_CPU", "Other", "", "NEW")
        ),
        *((word, "sync") for word in ("NOTIFY_WAIT", "EVENT_RECORD_SQE", "Notify Wait", "PLACE_HOLDER_SQE")),
        *((word, "memcpy") for word in ("MEMCPY_ASYNC", "SDMA", "SDMA_SQE", "REDUCE_ASYNC_V2", "PCIE_DMA_SQE")),
        *((word, "overhead") for word in ("STREAM_SWITCH", "LABEL_GOTO", "CMO_SQE")),
        ("MODEL_EXECUTE", "range"),
    ],
)
def test_kinds_of_tasks(task: str, kind: str) -> None:
    assert task_kind(task) == kind


@pytest.mark.parametrize(
    "text",
    [
        HEADINGS,
        HEADINGS + "0,a,b,AI_CORE,x,1,0,1\n",
        HEADINGS + "0,a,b,AI_CORE,1,-1,0,1\n",
        HEADINGS + "0,a,b,AI_CORE,99999999999999999999,1,0,1\n",
        HEADINGS + '0,"a,b,AI_CORE,1,1\n',
        HEADINGS + "0,a\n",
        HEADINGS + "x,a,b,AI_CORE,1.0005,1,0,y\n",
        "Component,Timestamp(us),Total Reserved(KB)\nGE,1,\nGE,x,1\n",
        "Device_id,OP Type,Core Type,Count,Total Time(us)\n,,,,\nx,A,AI_CORE,x,x\n",
    ],
)
def test_bad_rows_are_reported(text: str, tmp_path: Path) -> None:
    path = tmp_path / "op_summary_1.csv"
    path.write_text(text)
    report = ktrace.read(path, from_="ascend-csv").report
    assert report.balanced
    assert report.reader.taken >= text.count("\n") - 1


def test_the_files_of_a_folder() -> None:
    output = "r_ascend_pt/ASCEND_PROFILER_OUTPUT/"
    raw = ["r_ascend_pt/FRAMEWORK/torch.op_range", "r_ascend_pt/PROF_1_2_AB/device_0/data/ts.slice_0"]
    tables = [output + "kernel_details.csv", output + "op_statistic.csv", output + "memory_record.csv"]
    found = chosen([*raw, *tables])
    assert found is not None
    assert (found.what, found.read) == (CSV, (output + "kernel_details.csv", output + "memory_record.csv"))
    assert set(found.same_run) == {*raw, output + "op_statistic.csv"}
    timeline = chosen(
        [*raw, *tables, output + "trace_view.json", "r_ascend_pt/PROF_1_2_AB/mindstudio_profiler_output/msprof_1.json"]
    )
    assert timeline is not None
    assert (timeline.what, timeline.read) == (JSON, (output + "trace_view.json",))
    database = chosen([*tables, output + "trace_view.json", output + "ascend_pytorch_profiler_3.db"])
    assert database is not None
    assert (database.what, database.read) == (DB, (output + "ascend_pytorch_profiler_3.db",))


@pytest.mark.parametrize(
    "listing",
    [
        ["a/ASCEND_PROFILER_OUTPUT/trace_view.json", "b/ASCEND_PROFILER_OUTPUT/trace_view.json"],
        ["task_time_1.csv"],
        ["x.py", "y.py", "kernel_details.csv"],
        ["msprof_slice_0_1.json", "msprof_slice_1_1.json"],
        [],
    ],
)
def test_other_folders(listing: list[str]) -> None:
    assert chosen(listing) is None


@pytest.mark.parametrize("numbered", [True, False])
def test_rows_of_task_time_that_op_summary_lacks(tmp_path: Path, *, numbered: bool) -> None:
    """The row of task_time encloses that of a mix kernel; another run of the same task is one that op_summary lacks."""
    ids = "Task ID,Stream ID," if numbered else ""
    lines = ["Device_id," + ids + "Op Name,OP Type,Task Type,Task Start Time(us),Task Duration(us)"]
    for start, dur in (("1782114242842466.760", "784.800"), ("1782114242843403.740", "766.820")):
        lines.append("0," + ("0,47," if numbered else "") + f"spmm,spmm,MIX_AIC,{start}\t,{dur}")
    (tmp_path / "op_summary_1.csv").write_text("\n".join(lines) + "\n")
    lines = ["Device_id,kernel_name,kernel_type,stream_id,task_id,task_time(us),task_start(us),task_stop(us)"]
    for name, kind, task, start, stop in (
        ("N/A", "PROFILING_ENABLE", 3, "1782114242757466.560", "1782114242757466.580"),
        ("N/A", "TASK_TIMEOUT_SET", 4, "1782114242757470.000", "1782114242757470.500"),
        ("spmm", "MIX_AIC", 0, "1782114242842465.180", "1782114242843252.420"),
        ("spmm", "MIX_AIC", 0, "1782114242843402.720", "1782114242844171.340"),
        ("late", "AI_CORE", 0, "1782114242844200.000", "1782114242844210.250"),
        ("N/A", "EVENT_RECORD", 1, "1782114242843500.000", "1782114242843500.020"),
    ):
        took = Decimal(stop) - Decimal(start)
        lines.append(f"0,{name},{kind},47,{task},{took},{start}\t,{stop}\t")
    (tmp_path / "task_time_1.csv").write_text("\n".join(lines) + "\n")
    trace = ktrace.read(tmp_path)
    found = [(row["kind"], row["name"], row["dur"]) for row in rows(trace)]
    assert sorted(found) == [
        ("kernel", "late", 10_250),
        ("kernel", "spmm", 766_820),
        ("kernel", "spmm", 784_800),
        ("overhead", "PROFILING_ENABLE", 20),
        ("overhead", "TASK_TIMEOUT_SET", 500),
        ("sync", "EVENT_RECORD", 20),
    ]
    assert trace.report.balanced()


def test_tasks_that_set_something_are_no_kernels() -> None:
    assert {
        task_kind(word) for word in ("TASK_TIMEOUT_SET", "FLIP_TASK", "DEBUG_REGISTER", "NPU_CLEAR_FLOAT_STATUS")
    } == {"overhead"}
    assert task_kind("KERNEL_MIX_AIC") == "kernel"


def test_a_collective_beside_its_tasks_counts_once(tmp_path: Path) -> None:
    """op_summary has the collective, task_time its tasks on other streams, as msprof assembles them (facts of 2026)."""
    (tmp_path / "op_summary_1.csv").write_text(
        "Device_id,Model ID,Task ID,Stream ID,Op Name,OP Type,Task Type,Task Start Time(us),Task Duration(us)\n"
        "0,1,7,2,MatMul,MatMulV2,AI_CORE,1760000050000100.000,50\n"
        "0,1,N/A,N/A,hcom_allReduce__77_0_1,hcom_allReduce_,COMMUNICATION,1760000050000120.000,100\n"
        "0,1,3,9,hcom_allReduce_AivKernel,hcom_allReduce_,COMMUNICATION,1760000050000190.000,20\n"
    )
    alone = rows(ktrace.read(tmp_path / "op_summary_1.csv"))
    assert sum(row["dur"] for row in alone if row["kind"] == "kernel") == 150_000
    (tmp_path / "task_time_1.csv").write_text(
        "Device_id,kernel_name,kernel_type,stream_id,task_id,task_time(us),task_start(us),task_stop(us)\n"
        "0,MatMul,AI_CORE,2,7,50,1760000050000100.000,1760000050000150.000\n"
        "0,only here,AI_VECTOR_CORE,4,8,30,1760000050000110.000,1760000050000140.000\n"
        "0,N/A,NOTIFY_WAIT_SQE,9,1,10,1760000050000120.000,1760000050000130.000\n"
        "0,N/A,SDMA_SQE,9,2,60,1760000050000130.000,1760000050000190.000\n"
        "0,hcom_allReduce_AivKernel,COMMUNICATION,9,3,20,1760000050000190.000,1760000050000210.000\n"
    )
    trace = ktrace.read(tmp_path)
    work = {row["name"]: (row["kind"], row["dur"]) for row in rows(trace)}
    assert work == {
        "MatMul": ("kernel", 50_000),
        "hcom_allReduce__77_0_1": ("range", 100_000),
        "hcom_allReduce_AivKernel": ("kernel", 20_000),
        "only here": ("kernel", 30_000),
        "NOTIFY_WAIT_SQE": ("sync", 10_000),
        "SDMA_SQE": ("memcpy", 60_000),
    }
    assert len(rows(trace)) == len(work)
    assert trace.report.balanced()
