"""nvprof's CSV and text: real files against the module csv, samples against figures worked out by hand."""

from __future__ import annotations

import csv
import json
import re
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path

import pytest
from conftest import SAMPLES, SHARED

from ktrace.trace import read
from ktrace.trace.trace import Trace

FOLDER = SAMPLES / "nvprof"
CORPUS = SHARED / "corpus" / "nvprof"
NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
SIZE = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}


def real(name: str) -> Path:
    path = CORPUS / name
    if not path.exists():
        pytest.skip("the real files are not at hand (../shared/corpus)")
    return path


def rows_of(path: Path, heading: str) -> tuple[list[dict[str, str]], dict[str, str]]:
    """The rows below the line that begins with `heading`, and the units, by the module csv."""
    lines = path.read_text().splitlines()
    first = next(index for index, line in enumerate(lines) if line.startswith(heading))
    rows = list(csv.DictReader(lines[first:]))
    return rows[1:], rows[0]


def rounded(number: Decimal) -> int:
    return int(number.quantize(Decimal(1), ROUND_HALF_EVEN))


def args_of(trace: Trace) -> list[dict[str, object]]:
    return [json.loads(text) if isinstance(text, str) else {} for text in trace.events["args"]]


@pytest.mark.parametrize("name", ["gputrace_reduction.csv", "radixSortThrust_trace.csv"])
def test_real_traces_say_what_the_module_csv_says(name: str) -> None:
    path = real(name)
    expected, units = rows_of(path, '"Start"')
    trace = read(path)
    events = trace.events
    assert len(events) == len(expected) > 400
    assert not trace.report.issues
    pid = int(re.search(r"process (\d+)", path.read_text())[1])  # type: ignore[index]
    for cells, (_, row) in zip(expected, events.iterrows(), strict=True):
        assert row["ts"] == rounded(Decimal(cells["Start"]) * NS[units["Start"]])
        assert row["dur"] == rounded(Decimal(cells["Duration"]) * NS[units["Duration"]])
        assert (row["pid"], row["device"], row["context"], row["stream"]) == (pid, 0, 1, 7)
        if cells["Grid X"]:
            launch = re.fullmatch(r"(.*) \[(\d+)\]", cells["Name"])
            assert launch and (row["name"], row["correlation"]) == (launch[1], int(launch[2]))
            assert row["kind"] == "kernel"
            for axis in "xyz":
                assert row[f"grid_{axis}"] == int(cells[f"Grid {axis.upper()}"])
                assert row[f"block_{axis}"] == int(cells[f"Block {axis.upper()}"])
            assert row["registers"] == int(cells["Registers Per Thread"])
            static, dynamic = (
                rounded(Decimal(cells[key]) * SIZE[units[key]]) for key in ("Static SMem", "Dynamic SMem")
            )
            assert (row["shared_memory"], row["shared_dynamic"]) == (static + dynamic, dynamic)
        else:
            assert row["name"] == cells["Name"]
            assert row["bytes"] == rounded(Decimal(cells["Size"]) * SIZE[units["Size"]])
            assert row["kind"] == ("memcpy" if "memcpy" in cells["Name"] else "memset")
    copies = events[events.kind == "memcpy"]
    assert set(copies.copy_kind) <= {"HtoD", "DtoH", "DtoD"}
    catalog = trace.catalog
    assert catalog[catalog.entity == "device"].name.tolist() == ["GeForce GTX 1080 Ti"]


def test_real_metrics_are_children_of_their_kernel() -> None:
    path = real("FDTD3d_metrics.csv")
    lines = path.read_text().splitlines()
    first = next(index for index, line in enumerate(lines) if line.startswith('"Device"'))
    expected = list(csv.DictReader(lines[first:]))
    summaries = read(path).summaries
    heads, metrics = summaries[summaries.metric == "duration"], summaries[summaries.metric != "duration"]
    assert heads[["name", "count"]].values.tolist() == [[expected[0]["Kernel"], 5]]
    assert len(metrics) == len(expected) == 120
    for cells, (_, row) in zip(expected, metrics.iterrows(), strict=True):
        assert (row["metric"], row["parent"]) == (cells["Metric Name"], heads.id.iloc[0])
        for field in ("Min", "Max", "Avg"):
            found = re.fullmatch(r"([\d.e+-]+)(%|[KMGT]?B/s)?|\w+ \((\d+)\)", cells[field])
            assert found, cells[field]
            factor = SIZE[found[2].removesuffix("/s")] if found[2] and found[2] != "%" else 1
            assert row[field.lower()] == float(Decimal(found[1] or found[3]) * factor)
        assert json.loads(row["args"])["Metric Description"] == cells["Metric Description"]


def test_calls_and_work_in_one_table_and_two_processes() -> None:
    path = FOLDER / "calls-and-work-mixed-two-processes.csv"
    trace = read(path)
    events = trace.events
    assert events.kind.tolist() == ["api", "api", "memcpy", "api", "kernel", "memset", "kernel"]
    assert events.pid.tolist() == [4101] * 6 + [4102]
    starts = [150_250_000, 151_000_125, 151_025_000, 151_600_000, 151_612_000, 151_640_000, 250_000_000]
    assert events.ts.tolist() == starts
    assert events.dur.tolist() == [12_500, 390_125, 345_600, 6213, 15_104, 1024, 2048]
    assert events.correlation.tolist() == [101, 103, 103, 107, 107, 108, 31]
    assert events.device.fillna(-1).tolist() == [-1, -1, 1, -1, 1, 1, 0]
    assert events.name.tolist()[4] == "saxpy(int, float, float*, float*)"
    assert events.name.tolist()[6] == 'void apply<(lambda at "main.cu")>(int)'
    assert events.shared_memory.fillna(-1).tolist() == [-1, -1, -1, -1, 2112 + 512, -1, 0]
    assert args_of(trace)[5] == {"Size (MB)": 0.0002441406, "Throughput (GB/s)": 0.232831, "SrcMemType": "Device"}
    assert [where for where, _ in trace.report.issues["unrecognised"].places] == ["line 1", "line 4", "line 15"]
    assert [where for where, _ in trace.report.issues["bad-record"].places] == ["line 21"]
    assert trace.summaries.name.str.startswith("Warning: Auto boost").tolist() == [True]
    processes = trace.catalog[trace.catalog.entity == "process"]
    assert processes[["pid", "name"]].values.tolist() == [[4101, "./saxpy 1048576"], [4102, "./saxpy 16"]]


def test_a_time_without_a_unit_is_none(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('"Start","Duration","Grid X","Static SMem","Name"\n1.5,2.5,1,0,"f"\n1.5ms,2us,1,0,"g"\n')
    trace = read(path, from_="nvprof")
    assert trace.events[["name", "ts", "dur"]].values.tolist() == [["g", 1_500_000, 2000]]
    assert trace.report.issues["bad-record"].rows == 1


def test_printed_traces_summary_and_unified_memory() -> None:
    trace = read(FOLDER / "printed-traces-summary-unified-memory.txt")
    events, rows = trace.events, trace.summaries
    assert events.kind.tolist() == ["memcpy", "memset", "kernel", "instant", "api", "api"]
    assert events.ts.tolist() == [133_810_000, 134_620_000, 137_100_000, 1_250_000_000, 108_380_000, 137_050_000]
    assert events.dur.fillna(-1).tolist() == [135_780, 1024, 1_717_000, -1, 6213, 45_100]
    assert events.name.tolist()[2] == "void matmul<int=32>(float*, float*, float*, int, int)"
    assert events.correlation.fillna(-1).tolist() == [-1, -1, 94, -1, -1, 94]
    kernel = events.iloc[2]
    assert [kernel[f"{part}_{axis}"] for part in ("grid", "block") for axis in "xyz"] == [20, 10, 1, 32, 32, 1]
    assert (kernel.registers, kernel.shared_memory, kernel.shared_dynamic) == (29, 8192 + 16, 16)
    assert (events.context.tolist()[2], events.stream.tolist()[2]) == (1, 2)
    assert events.bytes.tolist()[:2] == [419_328, 4]
    assert args_of(trace)[0]["Device"] == "GeForce GT 640M"
    assert [*map(list, rows.scope[:5])] == [["GPU activities"]] * 3 + [["API calls"]] * 2
    assert rows.kind.tolist()[:5] == ["kernel", "memcpy", "memset", "api", "api"]
    assert rows.total.tolist()[:5] == [1_717_000, 135_780, 1024, 45_100, 6213]
    assert rows.percent.tolist()[:5] == [92.62, 7.32, 0.06, 87.89, 12.11]
    memory = rows[rows.scope.map(lambda scope: scope is not None and list(scope) == ["Unified Memory"])]
    assert memory.total.tolist() == [8288, 65_536, 228_065]
    assert memory.device.tolist() == [0, 0, 0]
    assert memory.metric.tolist() == ["duration", "bytes", "duration"]
    assert rows[rows.name == "Total CPU Page faults"].value.tolist() == [3]
    assert [where for where, _ in trace.report.issues["unrecognised"].places] == ["line 1", "line 3"]


def test_metrics_have_units_levels_and_heads() -> None:
    rows = read(FOLDER / "metrics-and-events-levels-rates-a-name-twice.csv").summaries
    heads = rows[rows.metric == "duration"]
    assert heads[["name", "count", "table"]].values.tolist() == [
        ["stencil(float*, int)", 5, 0],
        ["fill(float*)", 1, 0],
        ["stencil(float*, int)", 5, 1],
        ["fill(float*)", 1, 1],
    ]
    metrics = rows[rows.metric != "duration"].set_index(["name", "metric"])
    share = metrics.loc["stencil(float*, int)", "branch_efficiency"]
    assert (share["unit"], share["min"], share["max"], share["avg"]) == ("%", 98.865132, 98.9, 98.87)
    rate = metrics.loc["stencil(float*, int)", "dram_read_throughput"]
    assert (rate["unit"], rate["avg"]) == ("B/s", 251.5 * 2**30)
    assert json.loads(rate["args"])["Avg"] == "251.5GB/s"
    level = metrics.loc["stencil(float*, int)", "dram_utilization"]
    assert (level["min"], level["max"]) == (7, 8)
    assert json.loads(level["args"])["Max"] == "High (8)"
    assert metrics.loc["stencil(float*, int)", "warps_launched"]["total"] == 15_840
    assert json.loads(metrics.loc["fill(float*)", "flop_count_hp"]["args"])["Avg"] == "<OVERFLOW>"


def test_printed_metrics_and_a_launch_a_row() -> None:
    rows = read(FOLDER / "metrics-printed-and-a-launch-a-row.txt").summaries
    metrics = rows[rows.kind == "metric"]
    assert metrics[["metric", "avg", "value"]].fillna(-1).values.tolist() == [
        ["warps_launched", 6688, -1],
        ["ipc", 1.282576, -1],
        ["l2_utilization", 3, -1],
        ["achieved_occupancy", -1, -1],
        ["ipc", -1, 1.25],
        ["dram_read_throughput", -1, 95.5 * 2**30],
        ["ipc", -1, 1.5],
    ]
    launches = rows[(rows.metric == "duration") & (rows.pid == 5907)]
    assert launches[["name", "stream", "context"]].values.tolist() == [["vec(float*)", 7, 1]] * 2
    assert [json.loads(text)["Correlation_ID"] for text in launches["args"]] == [11, 12]


def test_cells_of_one_metric_have_their_own_units() -> None:
    rows = read(FOLDER / "metrics-units-mixed-in-one-row.csv").summaries
    found = rows[rows.kind == "metric"].set_index("metric")
    columns = ["unit", "min", "max", "avg"]
    assert found.loc["sysmem_write_throughput", columns].tolist() == ["B/s", 64.5 * 2**10, 1.25 * 2**30, 96.0]
    assert found.loc["ecc_throughput", columns].tolist() == ["B/s", 0, 2.5 * 2**20, 0]
    assert found.loc["dram_read_throughput", columns].tolist() == ["B/s", 1.5 * 2**30, 0, 512.0]
    assert found.loc["sm_efficiency", columns].tolist() == ["%", 12.5, 0, 13]
    assert json.loads(found.loc["ecc_throughput", "args"])["Max"] == "2.500000MB/s"


@pytest.mark.parametrize(
    ("name", "k"),
    [("printed-by-cuda-5-where-k-is-1000.txt", 1000), ("printed-traces-summary-unified-memory.txt", 1024)],
)
def test_what_k_is_follows_from_sizes_times_and_rates(name: str, k: int) -> None:
    path = FOLDER / name
    events = read(path).events
    copies = events[events.kind == "memcpy"]
    rates = re.findall(r"(\d[\d.]*)us .* (\d[\d.]*)KB +(\d[\d.]*)GB/s", path.read_text())
    assert len(copies) == len(rates) > 0
    for (time, size, rate), moved, dur in zip(rates, copies.bytes, copies.dur, strict=True):
        assert moved == round(Decimal(size) * k)
        assert dur == int(Decimal(time) * 1000)
        assert moved / dur == pytest.approx(float(rate) * k**3 / 1e9, rel=2e-4)


def test_what_k_is_in_real_traces() -> None:
    for name in ("gputrace_reduction.csv", "radixSortThrust_trace.csv"):
        events = read(real(name)).events
        copies = events[(events.kind == "memcpy") & events.bytes.gt(1 << 16)]
        assert len(copies) >= 1
        for (_, row), args in zip(copies.iterrows(), map(json.loads, copies["args"]), strict=True):
            assert row["bytes"] / row["dur"] == pytest.approx(args["Throughput (GB/s)"] * 2**30 / 1e9, rel=1e-4)


def test_what_k_is_in_real_metrics() -> None:
    """The same run says KB/s and GB/s, and of how many transactions of 32 B each rate is."""
    rows = read(real("FDTD3d_metrics.csv")).summaries.set_index("metric")
    rate, count = (
        rows.loc[f"sysmem_write_{what}", "max"] / rows.loc[f"l2_read_{what}", "max"]
        for what in ("throughput", "transactions")
    )
    assert rate == pytest.approx(count, rel=1e-4)  # with K = 1000 it would be 1.049 of it


def test_copies_and_fills_of_the_visual_profiler() -> None:
    trace = read(FOLDER / "visual-profiler-details-copies-without-brackets.csv")
    events = trace.events
    assert events[["kind", "name", "dur"]].values.tolist() == [
        ["memcpy", "Memcpy HtoD [async]", 704_000],
        ["memset", "Memset [sync]", 1_024],
        ["kernel", "transpose(float*, float*, int, int)", 5_120],
        ["memcpy", "Memcpy DtoH [sync]", 352_500],
        ["memcpy", "Memcpy PtoP", 1_000],
        ["kernel", "memcpy_kernel(int*)", 2_000],
        ["api", "cudaMalloc", 9_000],
    ]
    assert events.copy_kind.dropna().tolist() == ["HtoD", "DtoH", "PtoP"]
    kernel = events.iloc[2]
    assert [kernel[f"{part}_{axis}"] for part in ("grid", "block") for axis in "xyz"] == [32, 16, 1, 16, 8, 2]
    assert (kernel.registers, kernel.shared_memory) == (8, 4224)
    assert events.bytes.dropna().tolist() == [4_194_304, 4_194_304, 1_024]
    assert not trace.report.issues


def test_the_visual_profilers_own_export() -> None:
    events = read(FOLDER / "visual-profiler-own-export.csv").events
    assert events[["kind", "ts", "dur"]].values.tolist() == [
        ["kernel", 1_250_000_123, 5120],
        ["memcpy", 1_250_010_000, 704_000],
    ]
    assert events.grid_y.tolist()[0] == 32
    assert events.bytes.tolist()[1] == 4_194_304


def test_summaries_per_gpu(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    rows = " GPU activities:  100.00%  1.5000ms         2  750.00us  700.00us  800.00us  f(int)"
    calls = "      API calls:  100.00%  2.0000ms         1  2.0000ms  2.0000ms  2.0000ms  cudaMalloc"
    head = "            Type  Time(%)      Time     Calls       Avg       Min       Max  Name"
    lines = ["==5== Profiling result:", 'Device "Tesla K40c (1)"', head, rows, "", "==5== API calls:", head, calls]
    path.write_text("\n".join(lines) + "\n")
    found = read(path).summaries
    assert found[["kind", "device", "total"]].fillna(-1).values.tolist() == [["kernel", 1, 1.5e6], ["api", -1, 2e6]]
    head = '"Device","Time(%)","Time","Calls","Avg","Min","Max","Name"'
    path.write_text(f'{head}\n,%,ms,,us,us,us,\n"K40c (1)",100,1.5,2,750,700,800,"f"\n')
    found = read(path, from_="nvprof").summaries
    assert found[["device", "total", "avg", "percent"]].values.tolist() == [[1, 1.5e6, 750_000, 100]]


def test_lines_with_the_rank_of_a_launcher(tmp_path: Path) -> None:
    sample = FOLDER / "printed-traces-summary-unified-memory.txt"
    path = tmp_path / "a.txt"
    path.write_text("".join(f"[1,0]<stderr>:{line}" for line in sample.read_text().splitlines(keepends=True)))
    found, plain = read(path), read(sample)
    assert found.events.drop(columns="source").equals(plain.events.drop(columns="source"))
    assert len(found.summaries) == len(plain.summaries)


def test_printed_columns_with_blanks_in_them() -> None:
    """Real traces have no brackets around Block Size, devices of two words, three columns of devices, no sizes."""
    trace = read(FOLDER / "printed-copies-between-gpus-page-faults-devices-cut-off.txt")
    events, rows = trace.events, trace.summaries
    assert events.kind.tolist() == ["memcpy", "kernel", "instant", "range", "memcpy", "memcpy"]
    assert events.ts.tolist() == [410_250_000, 412_500_000, 501_000_000, 502_000_000, 502_500_000, 503_000_000]
    assert events.dur.fillna(-1).tolist() == [2_000_000, 64_000, -1, 120_000, 8500, 4000]
    assert events.copy_kind.fillna("").tolist() == ["PtoP", "", "", "", "HtoD", "DtoH"]
    assert events.bytes.fillna(-1).tolist() == [32 << 20, -1, -1, -1, 60 << 10, 524_289]
    assert events.device.fillna(-1).tolist() == [-1, 1, -1, -1, -1, -1]
    assert events.context.fillna(-1).tolist() == [1, 2, -1, -1, -1, 1]
    assert events.stream.fillna(-1).tolist() == [11, 18, -1, -1, -1, 7]
    kernel = events.iloc[1]
    assert (kernel["name"], kernel.correlation, kernel.registers) == ("exchange(float*, int)", 77, 24)
    assert [kernel[f"{part}_{axis}"] for part in ("grid", "block") for axis in "xyz"] == [400, 2, 1, 128, 1, 1]
    args = args_of(trace)
    assert {key: args[0][key] for key in ("Device", "Src Dev", "Src Ctx", "Dst Dev", "Dst Ctx")} == {
        "Device": "GeForce GTX 108",
        "Src Dev": "GeForce GTX 108",
        "Src Ctx": 1,
        "Dst Dev": "GeForce GTX 108",
        "Dst Ctx": 2,
    }
    assert args[2] == {"Unified Memory": "PC 0x401c10", "Virtual Address": "0x7f0010000000"}
    assert (args[3]["Unified Memory"], args[5]["Unified Memory"]) == (12, "0.500001MB")
    assert "Unified Memory" not in args[4]
    metrics = rows[rows.kind == "metric"]
    assert metrics.metric.tolist() == ["shared_ld_bank_conflict (0)", "shared_ld_bank_conflict (1)"]
    assert metrics.value.tolist() == [5, 7]
    assert trace.catalog[trace.catalog.entity == "device"][["device", "name"]].values.tolist() == [[1, "Quadro T2000"]]
    assert trace.report.issues.keys() == {"misfit"} and trace.report.balanced()  # the addresses of page faults


def test_critical_path_cpu_tree_and_ranges() -> None:
    trace = read(FOLDER / "printed-critical-path-cpu-tree-ranges-openacc.txt")
    rows = trace.summaries
    assert not trace.report.issues and trace.report.balanced()
    assert rows[rows.kind == "note"].name.tolist() == ["No API activities were profiled."]
    plain = rows[(rows.metric == "duration") & (rows.kind == "kernel")]
    assert plain[["name", "count", "total"]].values.tolist() == [
        ["relax_40_gpu", 2, 30_000],
        ["relax_40_gpu", 1, 15_000],
    ]
    assert plain.scope.map(lambda scope: None if scope is None else list(scope)).tolist() == [
        None,
        ["Thread <unnamed>", "Domain solver", "Range step", "GPU activities"],
    ]
    assert rows[rows.kind == "range"].total.tolist()[-1] == 4_000_000
    acc = rows[rows.name == "acc_wait@relax.c:40"].iloc[0]
    assert (acc.kind, list(acc.scope), acc["total"], acc["min"]) == ("api", ["OpenACC (excl)"], 1_500_000, 400_000)
    path = rows[rows.metric == "critical path"]
    assert path.kind.tolist() == ["kernel", "api", "range"]
    assert path.total.tolist() == [1_200_000, 600_000, 200_000]
    assert path.percent.tolist() == [60, 30, 10]
    waits = rows[rows.metric == "waiting time"]
    assert waits.total.tolist() == [0, 1_250_000_000, 0] and waits.parent.tolist() == path.id.tolist()
    tree = rows[rows.kind == "sample"]
    ids = dict(zip(tree.id, tree.name, strict=True))
    assert tree.name.tolist() == ["relax", "main", "setup", "main", "cuStreamSynchronize"]
    assert tree.parent.map(lambda row: ids.get(row, "")).tolist() == ["", "relax", "relax", "setup", ""]
    assert tree.total.tolist() == [7e9, 6e9, 1e9, 1e9, 3e9]


def test_figures_that_are_no_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(
        "==1== Metric result:\nInvocations   Metric Name   Metric Description   Min   Max   Avg\n"
        'Device "Tesla T4 (0)"    Kernel: f(int)\n     2   ipc   Executed IPC   -nan   inf   -0.5\n'
    )
    rows = read(path).summaries
    assert rows.metric.tolist() == ["duration", "ipc"] and rows.avg.tolist()[1] == -0.5
    assert json.loads(rows["args"][1]) == {"Min": "NaN", "Max": "Infinity", "Metric Description": "Executed IPC"}


def test_copies_with_a_cell_too_many() -> None:
    trace = read(FOLDER / "a-cell-too-many-in-copies-and-too-few-in-a-kernel.csv")
    events = trace.events.sort_values("ts")
    assert events.kind.tolist() == ["memcpy", "kernel", "kernel", "memcpy"]
    assert events.ts.tolist() == [10_500_000, 11_000_000, 12_000_000, 13_000_000]
    assert events.dur.tolist() == [6500, 7500, 8500, 1250]
    assert events.bytes.fillna(-1).tolist() == [2 << 20, -1, -1, 1 << 20]
    assert events[["pid", "device", "context", "stream"]].values.tolist() == [[40, 1, 1, 7]] * 4
    assert events.block_x.fillna(-1).tolist() == [-1, 32, 64, -1]
    copy = json.loads(events["args"].iloc[0])
    assert (copy["SrcMemType"], copy["DstMemType"]) == ("Pinned", "Device")
    assert [where for where, _ in trace.report.issues["unrecognised"].places] == ["line 7"]
    assert trace.report.balanced()


def test_printed_rows_are_of_the_process_before_the_next(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(
        "".join(f"=={pid}== Profiling result:\n   Start  Duration  Name\n{pid}.00ms  1.0us  cuInit\n" for pid in (1, 2))
    )
    assert read(path).events[["pid", "ts"]].values.tolist() == [[1, 1_000_000], [2, 2_000_000]]
