"""rocprof's, rocprofv2's and rocprof-compute's tables: real files against the module csv, samples against figures."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pandas as pd
import pytest
from conftest import SAMPLES, SHARED

from ktrace.trace import read

FOLDER = SAMPLES / "rocprof"
CORPUS = SHARED / "corpus" / "rocprof_v1_v2"


def real(name: str) -> Path:
    path = CORPUS / name
    if not path.exists():
        pytest.skip("the real files are not at hand (../shared/corpus)")
    return path


def args_of(frame: pd.DataFrame) -> list[dict[str, object]]:
    return [json.loads(text) if isinstance(text, str) else {} for text in frame["args"]]


def test_a_real_table_of_rocprof_compute() -> None:
    path = real("MI100_timestamps.csv")
    with path.open(newline="") as file:
        expected = list(csv.DictReader(file))
    events = read(path).events
    assert len(events) == len(expected) == 3
    for cells, args, (_, row) in zip(expected, args_of(events), events.iterrows(), strict=True):
        assert row["name"] == cells["Kernel_Name"]
        assert row["short_name"] == cells["Kernel_Name"].partition("(")[0]
        assert (row["ts"], row["ts"] + row["dur"]) == (int(cells["Start_Timestamp"]), int(cells["End_Timestamp"]))
        assert (row["pid"], row["device"], row["stream"]) == (int(cells["pid"]), int(cells["GPU_ID"]), 0)
        assert (row["grid_x"], row["block_x"]) == (int(cells["Grid_Size"]) // 256, 256)
        assert row["registers"] == int(cells["Arch_VGPR"])
        assert args["obj"] == cells["obj"]
        assert (args["DispatchNs"], args["CompleteNs"]) == (int(cells["DispatchNs"]), int(cells["CompleteNs"]))


def test_real_printed_calls() -> None:
    path = real("hip_helloworld_golden_traces.txt")
    expected = re.findall(
        r"Function\((\w+)\), Start_Timestamp\((\d+)\), End_Timestamp\((\d+)\), Correlation_ID\((\d+)\)",
        path.read_text(),
    )
    trace = read(path)
    events = trace.events
    found = [(row["name"], row.ts, row.ts + row.dur, row.correlation) for _, row in events.iterrows()]
    assert found == [(name, int(start), int(end), int(number)) for name, start, end, number in expected]
    assert len(found) == 10
    assert set(events.kind) == {"api"}
    assert not trace.report.issues


def test_counters_of_timed_dispatches_are_their_children() -> None:
    trace = read(FOLDER / "counters-with-times-behind-a-banner.csv")
    kernels, counters = (trace.events[trace.events.kind == kind] for kind in ("kernel", "counter"))
    assert kernels.dur.tolist() == [24480, 19200]
    assert kernels.grid_x.tolist() == [4096, 4]  # 1000 work-items are 4 blocks of 256, the last one partly filled
    assert [args.get("grd") for args in args_of(kernels)] == [None, 1000]
    assert kernels.short_name.tolist() == ["vecAdd", "plain"]
    assert counters[["name", "value"]].values.tolist() == [["SQ_WAVES", 16384], ["FETCH_SIZE", 1024.5], ["SQ_WAVES", 4]]
    assert counters.parent.tolist() == [kernels.id.iloc[0], kernels.id.iloc[0], kernels.id.iloc[1]]
    assert trace.report.issues["not-executed"].places[0][0] == "line 5"


def test_dispatches_without_times_are_summaries() -> None:
    rows = read(FOLDER / "counters-without-times.csv").summaries
    heads, metrics = rows[rows.kind == "kernel"], rows[rows.kind == "metric"]
    assert heads[["count", "grid_x", "block_x", "registers"]].values.tolist() == [[1, 16384, 1024, 4]] * 2
    assert metrics[["metric", "value"]].values.tolist() == [
        ["TCC_EA_WRREQ_sum", 1048576],
        ["VALUBusy", 12.5],
        ["TCC_EA_WRREQ_sum", 1048576],
        ["VALUBusy", 13.25],
    ]
    assert metrics.parent.tolist() == [number for number in heads.id for _ in range(2)]
    assert args_of(heads)[0]["tid"] == 94673


def test_printed_rows_of_version_2() -> None:
    trace = read(FOLDER / "printed-by-version-2-amid-output.txt")
    events = trace.events
    assert events[["kind", "name", "correlation"]].fillna(-1).values.tolist() == [
        ["api", "hipMalloc", 2],
        ["api", "hipLaunchKernel", 7],
        ["kernel", "add(int*, int)", 7],
        ["memcpy", "CopyDeviceToHost", 8],
        ["kernel", 'add(int*, "x")', 9],
        ["counter", "SQ_WAVES", -1],
    ]
    assert events.dur.tolist() == [22844, 521258, 5000, 5000, 5000, 5000]
    assert events.copy_kind.tolist()[3] == "DtoH"
    assert [where for where, _ in trace.report.issues["unrecognised"].places] == ["line 2", "line 8"]


def test_printed_dispatches_with_counters_below() -> None:
    trace = read(FOLDER / "printed-dispatches-with-counters-below.txt")
    kernels, counters = (trace.events[trace.events.kind == kind] for kind in ("kernel", "counter"))
    assert kernels[["ts", "dur", "pid", "grid_x"]].values.tolist() == [[200, 700, 4545, 4096], [1100, 800, 4545, 4096]]
    assert [args["dispatch"] if "dispatch" in args else args["Index"] for args in args_of(kernels)] == [0, 1]
    assert counters.value.tolist() == [4096, 8192, 4096, 8200]
    assert not trace.report.issues


def test_calls_and_activities_of_version_2() -> None:
    events = read(FOLDER / "version-2-calls-and-activities-blank-below-headings.csv").events
    assert events[["kind", "name", "correlation"]].values.tolist() == [
        ["api", "hipLaunchKernel", 7],
        ["api", "hipFree", 9],
        ["kernel", "add(int*, int)", 7],
        ["memcpy", "CopyHostToDevice", 6],
    ]


def test_a_long_table_has_a_kernel_a_dispatch() -> None:
    events = read(FOLDER / "pmc_perf-long.csv").events
    kernels, counters = (events[events.kind == kind] for kind in ("kernel", "counter"))
    assert kernels.dur.tolist() == [24480, 19200]
    assert counters[["name", "value"]].values.tolist() == [
        ["SQ_WAVES", 16384],
        ["SQ_BUSY_CYCLES", 99000.5],
        ["SQ_WAVES", 16384],
    ]
    assert counters.parent.tolist() == [kernels.id.iloc[0], kernels.id.iloc[0], kernels.id.iloc[1]]


def test_statistics_of_calls() -> None:
    rows = read(FOLDER / "results.hip_stats.csv").summaries
    assert rows[["kind", "name", "count", "total", "avg", "percent"]].values.tolist() == [
        ["api", "hipMemcpy", 4, 268142130, 67035532, 98.7],
        ["api", "hipMalloc", 2, 23030, 11515, 1.3],
    ]
    assert list(rows.scope.iloc[0]) == ["hip_stats"]


def test_marks_samples_and_dispatches_without_sizes() -> None:
    trace = read(FOLDER / "version-2-marks-and-samples.csv")
    events = trace.events
    assert events.kind.tolist() == ["instant", "instant", "sample", "kernel"]
    assert events.ts.tolist() == [9000, 9500, 9100, 9050]
    assert events.name.tolist() == ["step, first", "(a range ends)", "sample", "sweep(float*) [clone .kd]"]
    assert events.dur.fillna(-1).tolist() == [-1, -1, -1, 400]
    assert args_of(events)[2] == {"Dispatch_ID": 3, "GPU_ID": 4, "PC_Sample": "0x7f10", "Shader_Engines": 2}
    assert not trace.report.issues and trace.report.balanced()


def test_each_pass_keeps_its_dispatches_and_their_times() -> None:
    path = FOLDER / "pmc_perf-long-three-passes-numbers-again.csv"
    with path.open(newline="") as file:
        cells = list(csv.DictReader(file))
    trace = read(path)
    check_passes(trace.events, cells)
    assert (trace.events.kind == "kernel").sum() == 6
    assert not trace.report.issues and trace.report.balanced()


def check_passes(events: pd.DataFrame, cells: list[dict[str, str]]) -> None:
    """The dispatches are those that number, begin and end tell apart; each counter has its own one's times."""
    kernels, counters = (events[events.kind == kind] for kind in ("kernel", "counter"))
    runs = {(int(row["Start_Timestamp"]), int(row["End_Timestamp"])) for row in cells}
    assert sorted(zip(kernels.ts, kernels.ts + kernels.dur, strict=True)) == sorted(runs)
    told = kernels.set_index("id")
    assert [(row["name"], row["value"], row["ts"], row["ts"] + row["dur"]) for _, row in counters.iterrows()] == [
        (row["Counter_Name"], float(row["Counter_Value"]), int(row["Start_Timestamp"]), int(row["End_Timestamp"]))
        for row in cells
    ]
    assert told.loc[counters.parent, "ts"].tolist() == counters.ts.tolist()
    assert set(events.timing) == {"measured"}


def test_columns_of_further_passes_are_no_counters_and_times_of_joined_tables_are_derived() -> None:
    trace = read(FOLDER / "pmc_perf-joined-of-passes-times-rounded-by-a-spreadsheet.csv")
    events, summaries = trace.events, trace.summaries
    kernels, counters = (events[events.kind == kind] for kind in ("kernel", "counter"))
    names = ["SQ_WAVES", "SQC_DCACHE_REQ_READ_1", "TCC_HIT[0]", "GRBM_COUNT"]
    assert counters.name.tolist() == names * 2
    assert counters.value.tolist() == [16384, 5, 9, 41000, 16384, 6, 11, 42000]
    assert kernels.dur.tolist() == [33839, 195]
    assert set(events.timing) == {"derived"}
    assert args_of(kernels)[0]["XCC_Index_2"] == 1
    heads, metrics = summaries[summaries.kind == "kernel"], summaries[summaries.kind == "metric"]
    assert metrics[["metric", "value"]].values.tolist() == [
        [*pair] for pair in zip(names, [16384, 3, 7, 40000], strict=True)
    ]
    assert heads[["name", "count"]].values.tolist() == [["scale(float*, int)", 1]]
    assert heads.total.isna().all()
    assert args_of(heads)[0]["Start_Timestamp"] == 8.1097e14
    assert trace.report.issues["rounded-time"].places == [
        ("line 2", "a time accurate to 10^10 ns"),
        ("line 4", "a time accurate to 10^2 ns"),
    ]
    assert trace.report.balanced()


@pytest.mark.parametrize("row", [0, 1, 2])
def test_a_bad_counter_is_said_also_where_no_other_time_is_as_accurate(row: int, tmp_path: Path) -> None:
    """Each row of the table has times of another accuracy."""
    lines = (FOLDER / "pmc_perf-joined-of-passes-times-rounded-by-a-spreadsheet.csv").read_text().splitlines()
    sizes = {}
    for cell in ("16384", "oops"):
        path = tmp_path / f"{cell}.csv"
        path.write_text(
            "\n".join([*lines[: row + 1], lines[row + 1].replace(",16384,", f",{cell},"), *lines[row + 2 :]])
        )
        trace = read(path)
        sizes[cell] = len(trace.events) + len(trace.summaries)
        places = trace.report.issues["misfit"].places if "misfit" in trace.report.issues else []
        assert places == ([(f"line {row + 2}", "SQ_WAVES: oops")] if cell == "oops" else [])
    assert sizes["oops"] == sizes["16384"] - 1


def test_times_of_another_run_are_derived() -> None:
    events = read(FOLDER / "counters-with-times-of-another-run.csv").events
    assert events[["kind", "timing"]].values.tolist() == [
        *[["kernel", "derived"], ["counter", "derived"]],
        *[["kernel", "measured"], ["counter", "measured"]],
    ]


def test_printed_operations_of_version_2() -> None:
    trace = read(FOLDER / "printed-by-version-2-copies-graphs-and-marks.txt")
    events = trace.events
    assert events[["kind", "name", "correlation"]].fillna(-1).values.tolist() == [
        ["instant", "step (of 3), first", -1],
        ["memcpy", "COPY", 33],
        ["kernel", "scale(float*, std::pair<int, int>)", 34],
        ["kernel", "add(int)", 35],
        ["memcpy", "CopyHostToDevice2D", 36],
        ["memset", "FillBuffer", 37],
        ["sync", "Barrier", 38],
        ["instant", "(a range ends)", -1],
        ["kernel", "helloworld", -1],
        ["counter", "GRBM_COUNT", -1],
    ]
    assert events.dur.fillna(-1).tolist() == [-1, 7520, 500, 600, 700, 80, 90, -1, 1000, 1000]
    assert events.copy_kind.iloc[4] == "HtoD"
    assert args_of(events)[8]["Accumulative_VGPR"] == 4
    assert events.shared_memory.iloc[8] == 512
    assert [where for where, _ in trace.report.issues["unrecognised"].places] == ["line 2"]


@pytest.mark.parametrize(
    ("name", "value", "counter"),
    [
        ("counters-without-times.csv", "13.2500000000", "VALUBusy"),
        ("counters-with-times-behind-a-banner.csv", "16384", "SQ_WAVES"),
    ],
)
def test_a_counter_that_is_no_number_costs_itself_and_is_said(
    name: str, value: str, counter: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text((FOLDER / name).read_text().replace(f",{value}", ",1O24", 1))
    whole, trace = read(FOLDER / name), read(path)
    assert [detail for _, detail in trace.report.issues["misfit"].places] == [f"{counter}: 1O24"]
    assert len(trace.events) + len(trace.summaries) == len(whole.events) + len(whole.summaries) - 1
    frame = trace.events if len(trace.events) else trace.summaries
    assert [args[counter] for args in args_of(frame) if counter in args] == ["1O24"]
    assert "misfit" not in whole.report.issues
