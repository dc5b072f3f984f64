"""rocprofv3's CSV: real files against the module csv; a folder of ours, since no real one is at hand."""

from __future__ import annotations

import csv
import json
import shutil
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from conftest import SAMPLES, SHARED

from ktrace.errors import KtraceError
from ktrace.input.detection import choose
from ktrace.input.source import Source
from ktrace.pipeline.convert import convert
from ktrace.pipeline.info import inspect
from ktrace.trace import read

FOLDER = SAMPLES / "rocprofv3" / "a-folder-of-one-process"
CORPUS = SHARED / "corpus" / "rocprofv3"


def real(name: str) -> Path:
    path = CORPUS / name
    if not path.exists():
        pytest.skip("the real files are not at hand (../shared/corpus)")
    return path


def cells_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def args_of(frame: pd.DataFrame) -> list[dict[str, object]]:
    return [json.loads(text) if isinstance(text, str) else {} for text in frame["args"]]


def check_kernels(events: pd.DataFrame, expected: list[dict[str, str]]) -> None:
    assert len(events) == len(expected)
    for cells, args, (_, row) in zip(expected, args_of(events), events.iterrows(), strict=True):
        assert (row["kind"], row["name"]) == ("kernel", cells["Kernel_Name"])
        assert row["ts"] == int(cells["Start_Timestamp"])
        assert row["dur"] == int(cells["End_Timestamp"]) - int(cells["Start_Timestamp"])
        assert row["correlation"] == int(cells["Correlation_Id"])
        assert row["device"] == int(cells["Agent_Id"].removeprefix("Agent "))
        assert row["stream"] == int(cells["Stream_Id"])
        assert (row["registers"], row["shared_memory"]) == (int(cells["VGPR_Count"]), int(cells["LDS_Block_Size"]))
        for axis in "xyz":
            items, group = int(cells[f"Grid_Size_{axis.upper()}"]), int(cells[f"Workgroup_Size_{axis.upper()}"])
            assert (row[f"block_{axis}"], row[f"grid_{axis}"]) == (group, -(-items // group))
        for name in ("Queue_Id", "Dispatch_Id", "Thread_Id", "Kernel_Id", "Scratch_Size", "SGPR_Count"):
            assert args[name] == int(cells[name]), name


def test_real_kernels() -> None:
    path = real("kernel_trace.csv")
    trace = read(path)
    check_kernels(trace.events, cells_of(path))
    assert len(trace.events) == 9
    assert not trace.report.issues


def test_real_copies() -> None:
    path = real("memory_copy_trace.csv")
    events, expected = read(path).events, cells_of(path)
    assert len(events) == len(expected) == 4
    for cells, args, (_, row) in zip(expected, args_of(events), events.iterrows(), strict=True):
        to_device = cells["Direction"].endswith("HOST_TO_DEVICE")
        assert (row["kind"], row["copy_kind"]) == ("memcpy", "HtoD" if to_device else "DtoH")
        assert row["device"] == 4
        assert row["dur"] == int(cells["End_Timestamp"]) - int(cells["Start_Timestamp"])
        other = "Source_Agent_Id" if to_device else "Destination_Agent_Id"
        assert args == {other: "Agent 0"}


def test_real_calls() -> None:
    path = real("hip_trace.csv")
    events, expected = read(path).events, cells_of(path)
    assert len(events) == len(expected) == 17
    for cells, (_, row) in zip(expected, events.iterrows(), strict=True):
        assert (row["kind"], row["name"], row["cat"]) == ("api", cells["Function"], cells["Domain"])
        assert (row["pid"], row["tid"]) == (int(cells["Process_Id"]), int(cells["Thread_Id"]))
        assert row["correlation"] == int(cells["Correlation_Id"])
        assert row["ts"] + row["dur"] == int(cells["End_Timestamp"])


def test_real_counters_are_below_one_kernel_a_dispatch() -> None:
    path = real("counter_collection.csv")
    events, expected = read(path).events, cells_of(path)
    kernels, counters = events[events.kind == "kernel"], events[events.kind == "counter"]
    assert len(kernels) == len({cells["Dispatch_Id"] for cells in expected}) == 4
    assert kernels.grid_x.tolist() == [int(c["Grid_Size"]) // int(c["Workgroup_Size"]) for c in expected]
    assert counters.value.tolist() == [float(cells["Counter_Value"]) for cells in expected]
    assert counters.parent.tolist() == kernels.id.tolist()
    assert counters.ts.tolist() == [int(cells["Start_Timestamp"]) for cells in expected]


def test_real_statistics() -> None:
    path = real("hip_api_stats.csv")
    rows, expected = read(path).summaries, cells_of(path)
    assert len(rows) == len(expected) == 17
    for cells, (_, row) in zip(expected, rows.iterrows(), strict=True):
        assert (row["kind"], row["name"], row["unit"]) == ("api", cells["Name"], "ns")
        assert row["count"] == int(cells["Calls"])
        columns = {"total": "TotalDurationNs", "avg": "AverageNs", "min": "MinNs", "max": "MaxNs", "stddev": "StdDev"}
        for column, name in {**columns, "percent": "Percentage"}.items():
            assert row[column] == float(cells[name])


def test_a_folder_is_one_trace() -> None:
    assert choose(Source(str(FOLDER))).name == "rocprofv3"
    trace = read(FOLDER)
    events = trace.events
    assert set(events.host) == {"node1"}
    assert set(events.pid) == {4242}
    check_kernels(events[events.kind == "kernel"], cells_of(FOLDER / "node1" / "4242_kernel_trace.csv"))
    kernels = events[events.kind == "kernel"].set_index("correlation")
    calls = events[events.kind == "api"].set_index("correlation")
    assert [(calls.name[number], kernels.name[number]) for number in kernels.index] == [
        ("hipLaunchKernel", "void add<float>(float*, float const*)"),
        ("hipModuleLaunchKernel", 'scale("half", int) [clone .kd]'),
    ]
    assert kernels.short_name.tolist()[1] == "scale"
    counters = events[events.kind == "counter"]
    first, second = kernels.id
    # Two XCCs: the GPU tab asks for the mean of one.
    assert counters[["name", "value", "parent", "timing"]].values.tolist() == [
        ["GRBM_GUI_ACTIVE", 24000, first, "measured"],
        ["GRBM_GUI_ACTIVE_avr", 12000, first, "derived"],
        ["SQ_WAVES", 64, first, "measured"],
        ["SQ_WAVES", 16, second, "measured"],
    ]
    assert counters.dur.tolist() == [12800, 12800, 12800, 10677]
    markers = events[events.cat == "MARKER_CORE_API"]
    assert markers[["kind", "name"]].values.tolist() == [["instant", 'before "add", really'], ["range", "step 1"]]
    assert markers.tid.fillna(-1).tolist() == [4242, -1]
    assert markers.correlation.isna().all()
    allocations = events[events.kind == "alloc"]
    assert allocations.bytes.tolist() == [4096, 0]
    assert [args["Address"] for args in args_of(allocations)] == ["0x00007f2c5a000000"] * 2
    copies = events[events.kind == "memcpy"]
    assert copies.correlation.fillna(-1).tolist() == [3, -1]
    rows = trace.summaries
    assert rows[["kind", "total"]].values.tolist() == [["total", 23477], ["kernel", 12800], ["kernel", 10677]]
    gpu = trace.catalog[trace.catalog.entity == "device"]
    assert gpu[["host", "device", "name"]].values.tolist() == [["node1", 4, "AMD Instinct MI250X"]]
    facts = json.loads(gpu.facts.iloc[0])
    assert {"arch": "gfx90a", "sm_count": 110, "xcc_count": 2, "wavefront_size": 64}.items() <= facts.items()
    assert trace.report.issues["unrecognised"].places[0][0] == "notes.txt"
    assert trace.report.reader.balanced()


def test_calls_and_kernels_meet_where_only_the_calls_know_the_process(tmp_path: Path) -> None:
    for path in (FOLDER / "node1").iterdir():
        shutil.copy(path, tmp_path / path.name.replace("4242_", "out_"))
    events = read(tmp_path).events
    assert set(events.pid) == {4242}
    report = convert(tmp_path, tmp_path.with_suffix(".json"), to="chrome")
    drawn = json.loads(tmp_path.with_suffix(".json").read_text())["traceEvents"]
    assert sum(event["ph"] == "s" for event in drawn) == 3  # two kernels and a copy
    assert report.balanced()


def test_places_name_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(FOLDER, folder)
    path = folder / "node1" / "4242_hip_api_trace.csv"
    path.write_text(path.read_text() + "noise\n")
    report = read(folder).report
    assert ("node1/4242_hip_api_trace.csv: line 5", "") in report.issues["unrecognised"].places


def test_older_spellings_work_items_and_what_never_ran() -> None:
    older = read(SAMPLES / "rocprofv3" / "older-with-numbers-for-agents_kernel_trace.csv").events
    assert older.device.tolist() == [1, 2]
    assert older.shared_memory.tolist() == [1024, 1024]
    assert older.grid_y.tolist() == [8, 8]
    trace = read(SAMPLES / "rocprofv3" / "77_guid-first-never-run-and-backwards_kernel_trace.csv")
    assert trace.events.name.tolist() == ["fill(float*)", "fill\nof two lines"]
    assert trace.events.grid_x.fillna(-1).tolist() == [17, -1]
    assert [args["Grid_Size_X"] for args in args_of(trace.events)] == [1025, 1024]
    assert trace.events.correlation.fillna(-1).tolist() == [-1, 4]
    issues = {kind: issue.places[0][0] for kind, issue in trace.report.issues.items()}
    assert issues == {"not-executed": "line 3", "negative-duration": "line 4"}
    said = {kind: issue.places[0][1] for kind, issue in trace.report.issues.items()}
    assert said["not-executed"] == "Start_Timestamp and End_Timestamp are 0"
    assert said["negative-duration"].startswith("End_Timestamp: ")


def test_dispatches_out_of_order_and_samples() -> None:
    trace = read(SAMPLES / "rocprofv3" / "dispatches-out-of-order_counter_collection.csv")
    events = trace.events
    kernels = events[events.kind == "kernel"].set_index("name").id
    counters = events[events.kind == "counter"]
    assert counters[["name", "parent"]].values.tolist() == [
        ["SQ_WAVES", kernels["sub(float*)"]],
        ["SQ_WAVES", kernels["add(float*)"]],
        ["GRBM_COUNT", kernels["add(float*)"]],
    ]
    assert trace.report.issues["bad-record"].places == [("line 5", "Dispatch_Id or Counter_Value isn't a number")]
    samples = read(SAMPLES / "rocprofv3" / "9_pc_sampling_host_trap.csv").events
    assert samples.kind.tolist() == ["sample"] * 3
    assert samples.name.tolist()[:2] == ["s_endpgm", "s_load_dword s8, s[4:5], 0x24"]


def test_a_folder_of_something_else_is_not_claimed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("nothing")
    with pytest.raises(KtraceError):
        read(tmp_path)


def test_a_folder_with_other_traces_is_its_files(tmp_path: Path) -> None:
    shutil.copytree(FOLDER / "node1", tmp_path / "run")
    assert [one["format"] for one in read(tmp_path).report.inputs] == ["rocprofv3"]
    for rank in range(5):
        shutil.copy(SAMPLES / "webllm" / "blocks-amid-a-log.log", tmp_path / f"step{rank}.log")
    report = read(tmp_path).report
    assert Counter(one["format"] for one in report.inputs) == {"rocprofv3": 9, "webllm": 5}
    shutil.copytree(FOLDER / "node1", tmp_path / "a/b/c/run")
    assert {one["format"] for one in read(tmp_path / "a").report.inputs} == {"rocprofv3"}
    assert len(read(tmp_path / "a").report.inputs) == 9, "too deep to be one run"


def test_the_summary_on_the_console() -> None:
    path = SAMPLES / "rocprofv3" / "summary-on-the-console.txt"
    assert choose(Source(str(path))).name == "rocprofv3"
    trace = read(path)
    rows = trace.summaries
    assert rows.name.tolist() == ["sweep<int>(T*)", "edge(int, int)", "step", "hipMalloc"]
    assert rows.kind.tolist() == ["kernel", "kernel", "range", "api"]
    assert [*map(list, rows.scope)] == [["ROCPROFV3 KERNEL_DISPATCH SUMMARY"]] * 2 + [
        ["ROCPROFV3 MARKER_API SUMMARY"],
        ["ROCPROFV3 SUMMARY"],
    ]
    assert rows.total.tolist() == [800_000, 200_000, 1_500_000, 200_000]
    assert rows.stddev.tolist() == [40_820, 0, 0, 0]
    assert rows.percent.tolist() == [80, 20, 100, 8]
    assert trace.report.issues["folded"].rows == 2 and trace.report.balanced()
    assert [where for where, _ in trace.report.issues["unrecognised"].places] == ["line 1"]


def test_two_runs_of_unknown_processes_stay_apart(tmp_path: Path) -> None:
    text = (FOLDER / "node1" / "4242_kernel_trace.csv").read_text()
    for run in ("a", "b"):
        (tmp_path / run).mkdir()
        (tmp_path / run / "out_kernel_trace.csv").write_text(text)
    trace = read(tmp_path)
    alone = read(tmp_path / "a").events
    assert alone.host.isna().all()
    assert trace.events.groupby("host").dur.agg(["count", "sum"]).to_dict("index") == {
        f"{run}/out": {"count": len(alone), "sum": alone.dur.sum()} for run in ("a", "b")
    }


def test_another_format_of_the_same_run_is_left_out_with_a_note(tmp_path: Path) -> None:
    shutil.copy(FOLDER / "node1" / "4242_kernel_trace.csv", tmp_path)
    for name in ("4242_results.json", "4242_results.db", "9_results.pftrace"):
        (tmp_path / name).write_text("{}")
    report = read(tmp_path).report
    assert [where for where, _ in report.issues["same-run"].places] == ["4242_results.db", "4242_results.json"]
    (tmp_path / "4242_results").mkdir()
    otf2 = {"4242_results.def", "4242_results.otf2", "4242_results/1.evt"}
    for name in otf2:
        (tmp_path / name).write_bytes(b"\x03BOTF2\0")
    places = read(tmp_path).report.issues["same-run"].places
    assert {where for where, _ in places} == {"4242_results.db", "4242_results.json", *otf2}
    assert [where for where, _ in report.issues["unrecognised"].places] == ["9_results.pftrace"]
    assert report.balanced()


def test_a_duration_that_says_what_start_and_end_say(tmp_path: Path) -> None:
    path = tmp_path / "7_kernel_trace.csv"
    path.write_text(
        "Kind,Agent_Id,Queue_Id,Kernel_Name,Start_Timestamp,End_Timestamp,Duration,Workgroup_Size_X,Grid_Size_X\n"
        "KERNEL_DISPATCH,Agent 1,1,f,100,250,150,64,128\nKERNEL_DISPATCH,Agent 1,1,g,300,400,90,64,128\n"
    )
    events = read(path).events
    assert events.dur.tolist() == [150, 100]
    assert [row.get("Duration") for row in args_of(events)] == [None, 90]


def test_statistics_beside_their_kernels_are_no_more_work(tmp_path: Path) -> None:
    (tmp_path / "7_kernel_trace.csv").write_text(
        "Kind,Agent_Id,Queue_Id,Kernel_Name,Start_Timestamp,End_Timestamp,Workgroup_Size_X,Grid_Size_X\n"
        "KERNEL_DISPATCH,Agent 1,1,f,100,250,64,128\nKERNEL_DISPATCH,Agent 1,1,f,300,400,64,128\n"
    )
    statistics = tmp_path / "7_kernel_stats.csv"
    statistics.write_text(
        "Name,Calls,TotalDurationNs,AverageNs,Percentage,MinNs,MaxNs,StdDev\nf,2,250,125,100,100,150,25\n"
    )
    assert inspect(tmp_path).top() == [("f", 2, 250)]
    assert inspect(statistics).top() == [("f", 2, 250)]


def test_times_are_since_boot() -> None:
    """rocprofiler-sdk takes CLOCK_BOOTTIME."""
    catalog = read(FOLDER).to_arrow()["catalog"].to_pylist()
    assert [json.loads(row["facts"]) for row in catalog if row["entity"] == "clock"] == [{"kind": "boottime"}]


def test_a_kernel_whose_agent_is_none_keeps_the_text_and_it_is_said(tmp_path: Path) -> None:
    shutil.copy(
        SAMPLES / "rocprofv3/77_guid-first-never-run-and-backwards_kernel_trace.csv", tmp_path / "k_kernel_trace.csv"
    )
    path = tmp_path / "k_kernel_trace.csv"
    assert "misfit" not in read(path).report.issues
    agent = cells_of(path)[0]["Agent_Id"]
    path.write_text(path.read_text().replace(f'"{agent}"', '"Agent four"', 1))
    trace = read(path)
    assert [detail for _, detail in trace.report.issues["misfit"].places] == ["Agent_Id: Agent four"]
    odd = [args.get("Agent_Id") for args in args_of(trace.events)]
    assert odd.count("Agent four") == 1
    assert pd.isna(trace.events.device[odd.index("Agent four")])
