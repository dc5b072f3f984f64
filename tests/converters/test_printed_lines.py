"""Formats that are declared as forms of lines, and their neighbours: the figures of their samples, by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import SAMPLES

import ktrace
from ktrace.errors import KtraceError
from ktrace.input.detection import choose
from ktrace.input.format import builtin_formats
from ktrace.input.source import Source
from ktrace.trace.trace import Trace

NAMES = (
    *("nccl-tests", "onednn", "inductor", "tinygrad", "tau", "kokkos", "unreal", "torch-benchmark", "triton-server"),
    *("xrt", "bench-serve", "google-benchmark", "regions", "old-profilers", "proton-tree"),
)
FILES = [(name, path) for name in NAMES for path in sorted((SAMPLES / name).iterdir())]


def summaries(name: str, *columns: str, kind: str = "", metric: str = "") -> list[tuple[Any, ...]]:
    found = ktrace.read(SAMPLES / name).summaries
    rows = found[found.kind == kind] if kind else found
    rows = rows[rows.metric == metric] if metric else rows
    return [
        tuple(None if pd.api.types.is_scalar(v) and pd.isna(v) else v for v in row)
        for row in rows[list(columns)].values.tolist()
    ]


def args_of(trace: Trace) -> list[dict[str, Any]]:
    return [json.loads(text) if isinstance(text, str) else {} for text in trace.summaries.args]


@pytest.mark.parametrize(("name", "path"), FILES, ids=[f"{name}/{path.name}" for name, path in FILES])
def test_a_sample_is_of_its_format_alone(name: str, path: Path) -> None:
    assert choose(Source(str(path))).name == name
    others = [fmt for fmt in builtin_formats() if fmt.reads and fmt.name != name and fmt.name in NAMES]
    sample = Source(str(path)).sample()
    assert [fmt.name for fmt in others if (match := fmt.recognised(sample)) and match.score > 2] == []


def test_sizes_of_nccl_tests_have_times_out_of_place_and_in_place() -> None:
    found = summaries("nccl-tests/all-reduce-of-two-ranks.log", "name", "avg", "bytes", "total", "count")
    assert found[:2] == [
        ("out-of-place 1024 B", 12_500, 1024, None, None),
        ("in-place 1024 B", 12_250, 1024, None, None),
    ]
    assert found[4:6] == [
        ("out-of-place 1073741824 B", 9_000_000, 1 << 30, None, None),
        ("in-place 1073741824 B", 8_950_000, 1 << 30, None, None),
    ]
    trace = ktrace.read(SAMPLES / "nccl-tests/all-reduce-of-two-ranks.log")
    assert args_of(trace)[3] == {
        **{"elements": 262144, "type": "float", "redop": "sum", "root": -1},
        **{"algbw": 16.78, "busbw": 16.78, "wrong": "N/A"},
    }
    assert trace.summaries.iloc[-1][["metric", "value", "unit"]].tolist() == ["bus bandwidth", 45.4317, "GB/s"]
    assert set(trace.catalog[trace.catalog.entity == "device"].name) == {"Example GPU 7"}


def test_columns_of_nccl_tests_may_be_missing() -> None:
    found = ktrace.read(SAMPLES / "nccl-tests/gather-of-rccl-and-an-older-broadcast.txt")
    assert found.summaries[["name", "avg", "table"]].values.tolist() == [
        ["out-of-place 4096 B", 8_250, 0],
        ["in-place 4096 B", 8_000, 0],
        ["out-of-place 4096 B", 7_750, 1],
    ]
    assert [args.get("root") for args in args_of(found)] == [0, 0, None]


def test_executions_of_onednn_are_device_work_and_creations_are_the_hosts() -> None:
    assert summaries("onednn/gpu-and-cpu-with-creations.log", "kind", "name", "total", "device") == [
        ("overhead", "create matmul", 6_250_000, None),
        ("kernel", "matmul", 375_000, 0),
        ("kernel", "softmax", 62_500, 1),
        ("op", "reorder", 7_812.5, None),
        ("range", "matmul_post_ops", 500_000, None),
    ]
    events = ktrace.read(SAMPLES / "onednn/older-words-and-times-of-day.txt").events
    assert events[["kind", "name", "ts", "dur", "device"]].values.tolist() == [
        ["kernel", "matmul", 1_700_000_000_000_250_000, 125_000, 0],
        ["kernel", "eltwise", 1_700_000_000_001_500_000, 62_500, 0],
    ]


def test_candidates_of_autotune_are_a_choice_and_no_sum() -> None:
    found = summaries("inductor/autotune-of-two-products.log", "kind", "name", "avg", "total", "scope")
    assert found[:2] == [
        ("metric", "triton_mm_3", 12_500, None, ["AUTOTUNE mm(96x64, 64x32)"]),
        ("metric", "mm", 25_000, None, ["AUTOTUNE mm(96x64, 64x32)"]),
    ]
    assert [row[3] for row in found if row[0] == "overhead"] == [500_000_000, 750_000_000]
    assert [row[3] for row in found if row[0] != "overhead"] == [None] * 5


def test_kernels_of_inductors_profile_have_bytes_and_a_total() -> None:
    name = "inductor/bandwidths-of-a-file-and-as-printed.txt"
    assert summaries(name, "kind", "name", "total", "bytes", "percent") == [
        ("kernel", "triton_red_fused_add_3", 300_000, 600_000_000, 60),
        ("kernel", "triton_poi_fused_gelu_7", 150_000, 150_000_000, 30),
        ("total", "Triton kernels", 500_000, 750_000_000, None),
        ("kernel", "triton_per_fused_sum_1", 25_000, 10_000_000, None),
    ]


def test_lines_of_tinygrad_of_all_forms_have_their_own_time_not_the_running_sum() -> None:
    assert summaries("tinygrad/four-forms.log", "kind", "name", "total", "device") == [
        ("kernel", "E_8192_32_4", 12_500, 0),
        ("kernel", "r_64_64_8", 25_000, 0),
        ("kernel", "r_64_64_8", 2_000_000, 0),
        ("kernel", "E_4", 100_000, 0),
        ("memcpy", "xfer 4.00M, AMD:1 <- AMD", 400_000, 1),
        ("memcpy", "copy 256, CPU <- AMD", 8_000, None),
        ("op", "E_n2", 4_000, None),
        ("graph", "<batched 12>", 1_500_000, 0),
        ("kernel", "view 64 @ 0", None, 0),
    ]


def test_functions_of_tau_have_exclusive_times_that_add_up() -> None:
    name = "tau/two-threads-and-their-mean.txt"
    found = summaries(name, "kind", "name", "total", "device", "table")
    assert found == [
        ("range", ".TAU application", 1_500_000_000, None, 0),
        ("kernel", "Kokkos::parallel_for step [type = HIP, device = 1]", 30_000_000_000, 1, 0),
        ("api", "MPI_Waitall()", 15_000_000_000, None, 0),
        ("range", "int main(int, char **)", 13_500_000_000, None, 0),
        ("range", ".TAU application", 556_000, None, 1),
    ]
    assert sum(row[2] for row in found[:4]) == 60_000_000_000
    inclusive = [args["inclusive_ns"] for args in args_of(ktrace.read(SAMPLES / name))]
    assert (inclusive[0], inclusive[4]) == (60_000_000_000, 3_661_250_000_000)


def test_a_total_of_tau_is_read_where_no_thread_is() -> None:
    assert summaries("tau/a-total-alone.txt", "kind", "total") == [("range", 40_000_000), ("api", 64_000_000)]


def test_a_table_of_tau_without_a_heading_above_it(tmp_path: Path) -> None:
    lines = (SAMPLES / "tau/a-total-alone.txt").read_text("utf-8").splitlines(keepends=True)
    (tmp_path / "pprof.txt").write_text("".join(lines[1:]))
    assert ktrace.read(tmp_path / "pprof.txt").summaries.total.tolist() == [40_000_000, 64_000_000]


def test_kernels_of_kokkos_add_up_to_their_total() -> None:
    found = summaries("kokkos/regions-kernels-and-a-summary.txt", "kind", "name", "total", "count")
    assert found == [
        ("range", "KokkosBlas::gemm[noETI]", 450_000_000, 2),
        ("op", "Kokkos::View::initialization [x] via memset", 400_000_000, 100),
        ("op", "norm<double, 3>", 100_000_000, 100),
        ("metric", "Total Execution Time", 1_000_000_000, None),
        ("total", "Kokkos kernels", 500_000_000, None),
    ]


def test_passes_of_unreal_are_a_tree_whose_own_times_add_up(tmp_path: Path) -> None:
    name = "unreal/two-frames-of-two-versions.log"
    passes = summaries(name, "name", "total", "table", kind="kernel", metric="duration")
    assert passes == [
        ("FRAME", 500_000, 0),
        ("Scene", 0, 0),
        ("PrePass DDM_AllOpaque (Forced by DBuffer)", 0, 0),
        ("BeginRenderingPrePass", 250_000, 0),
        ("Static", 750_000, 0),
        ("BasePass", 3_000_000, 0),
        ("Frame 17781", 2_000_000, 1),
        ("FRDGBuilder::Execute", 0, 1),
        ("ClearGPUMessageBuffer", 1_000_000, 1),
    ]
    whole = dict(summaries(name, "name", "total", metric="inclusive"))
    assert (whole["FRAME"], whole["Scene"], whole["FRDGBuilder::Execute"]) == (4_500_000, 4_000_000, 1_000_000)
    log = tmp_path / "frame.log"
    log.write_text(
        "LogRHI: Perf marker hierarchy, total GPU time 10.00ms\nLogRHI: 100.0%10.00ms   FRAME 3 draws 1 prims 2 verts\n"
        "LogRHI:  40.0% 4.00ms   Shadows 8 draws 8 prims 16 verts\nLogRHI:     30.0% 3.00ms   Atlas 1 draw 4 prims\n"
        "LogRHI:  50.0% 5.00ms   Lights 4 draws 4 prims 8 verts\n"
    )
    summary = ktrace.summary(log)
    assert {one.key: one.total for one in summary.groups["kernel"]} == {
        **{"Lights": 5e6, "Atlas": 3e6},
        **{"FRAME": 1e6, "Shadows": 1e6},
    }
    assert "50.0%" in summary.verdict[0] and "10.0 ms" in summary.verdict[0]
    rows = ktrace.read(SAMPLES / name).to_arrow()["summaries"].to_pylist()
    scopes = {row["name"]: row["scope"] for row in rows}
    assert scopes["BasePass"] == ["FRAME", "Scene"]
    assert scopes["Static"] == ["FRAME", "Scene", "PrePass DDM_AllOpaque (Forced by DBuffer)"]
    assert scopes["Frame 17781"] is None
    assert [row[0] for row in summaries(name, "total", kind="total")] == [4_500_000, 8_000_000]


def test_cells_of_compare_are_means_in_the_unit_below() -> None:
    found = summaries("torch-benchmark/compare-and-measurements.txt", "name", "avg", "median")
    assert found == [
        ("dense, B=8", 12_800, None),
        ("dense, B=16", 141_900, None),
        ("sparse, B=16", 695_000, None),
        ("dense, B=8", 6_500, None),
        ("dense, B=16", 70_000, None),
        ("norm: fused: setup: x = torch.rand(8)", None, 2_500_000),
        ("norm", 750_250, None),
    ]


def test_requests_of_tritons_server_have_their_parts() -> None:
    events = ktrace.read(SAMPLES / "triton-server/three-requests-of-two-models.json").events
    assert events[["track", "name", "ts", "dur"]].values.tolist() == [
        ["request 1", "encoder", 5_000_000_000, 2_700_000],
        ["request 1", "receive", 5_000_000_000, 40_000],
        ["request 1", "queue", 5_000_110_000, 390_000],
        ["request 1", "input", 5_000_500_000, 100_000],
        ["request 1", "compute", 5_000_600_000, 2_000_000],
        ["request 1", "output", 5_002_600_000, 50_000],
        ["request 2", "decoder", 5_001_000_000, 8_010_000],
        ["request 2", "queue", 5_001_000_500, 2_000_000],
        ["request 2", "compute", 5_003_000_500, 6_000_000],
        ["request 3", "request", 5_010_000_000, 1_000],
        ["request 3", "receive", 5_010_000_000, 1_000],
    ]


def test_a_timeline_of_xilinx_has_times_of_begin_and_end_and_no_time_stamp_as_duration() -> None:
    trace = ktrace.read(SAMPLES / "xrt/kernel-copies-and-a-start-without-its-end.csv")
    found = trace.events[["kind", "name", "ts", "dur"]].values.tolist()
    assert found == [
        ["api", "clEnqueueMigrateMemObjects", 100_000_000, 125_000],
        ["memcpy", "Host_Write", 150_000_000, 62_500],
        ["kernel", "mm", 200_000_000, 220_000],
        ["kernel", "mm", 200_010_000, 300_000],
        ["range", "Kernel_Write", 200_100_000, 64],
    ]
    assert trace.events.device.tolist()[1:] == [0, 0, 0, 0]
    kinds = {kind: issue.places for kind, issue in trace.report.issues.items()}
    assert kinds["end-without-begin"] == [("line 15", "")]
    assert kinds["cut"] == [("line 17", "a start without its end")]


def test_latencies_of_servers_are_figures_of_a_metric() -> None:
    found = summaries(
        "bench-serve/vllm-with-percentiles.log", "name", "metric", "value", "unit", "avg", "median", "p99"
    )
    assert ("Request throughput", "Request throughput", 8, "req/s", None, None, None) in found
    assert [row[1:] for row in found if row[0] == "TTFT"] == [
        ("duration", None, "ns", 45_500_000, None, None),
        ("duration", None, "ns", None, 40_250_000, None),
        ("duration P90", 80_000_000, "ns", None, None, None),
        ("duration", None, "ns", None, None, 120_000_000),
    ]
    assert summaries("bench-serve/sglang-end-to-end.txt", "name", "total", "max")[1:] == [
        ("Benchmark duration", 4_000_000_000, None),
        ("E2E Latency", None, None),
        ("E2E Latency", None, None),
        ("ITL", None, 75_000_000),
    ]


def test_outputs_of_google_benchmark_say_the_same() -> None:
    name = "google-benchmark/console-with-counters-and-repetitions.txt"
    assert summaries(name, "name", "avg", "stddev", "count") == [
        ("BM_Copy/8", 12.5, None, 56_000_000),
        ("BM_Sort<int, 3>/1024", 3_250, None, 200_000),
        ("BM_Sort/1024/repeats:3_mean", 3_500, None, None),
        ("BM_Sort/1024/repeats:3_stddev", None, 250, None),
        ("BM_Gpu/manual_time", 1_750_000, None, 400),
    ]
    assert summaries("google-benchmark/as-json.json", "name", "avg", "count") == [
        ("BM_Copy/8", 12.5, 56_000_000),
        ("BM_Gpu/manual_time", 1_750_000, 400),
    ]
    assert summaries("google-benchmark/as-csv.csv", "name", "avg", "count") == [
        ("BM_Copy/8", 12.5, 56_000_000),
        ("BM_Sort<int, 3>/1024", 3_250, 200_000),
    ]


def test_own_times_of_regions_add_up() -> None:
    found = summaries("regions/tinyprofiler-with-a-region.txt", "kind", "name", "total", "count")
    assert found == [
        ("total", "total", 1e11, None),
        ("op", "MultiGrid::solve(a, b)", 6e10, 2000),
        ("op", "FillBoundary_finish()", 3e10, 4000),
        ("op", "main()", 1e10, 1),
    ]
    tree = summaries("regions/caliper.txt", "name", "total", "percent")
    assert tree == [("main", 1e9, 12.5), ("load data", 2e9, 25), ("solve", 1.5e9, 18.75), ("gemm", 3.5e9, 43.75)]
    scopes = [list(scope) for scope in ktrace.read(SAMPLES / "regions/caliper.txt").summaries.scope[1:]]
    assert scopes == [["main"], ["main"], ["main", "solve"]]
    assert summaries("regions/caliper-of-two-ranks.txt", "name", "total") == [("main", 1e9), ("solve", 3e9)]


@pytest.mark.parametrize("name", ["halide", "halide-in-columns"])
def test_functions_of_halide_have_the_time_of_one_run(name: str) -> None:
    found = summaries(f"regions/{name}.txt", "kind", "name", "total")
    assert [row for row in found if row[2]] == [
        ("total", "total", 3e6),
        ("op", "gray", 1e6),
        ("op", found[-1][1], 2e6),
    ]
    assert found[-1][1].startswith("blur_y")


def test_what_cupyx_measured_below_a_heading_has_that_as_its_scope(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    host = "CPU:   44.500 us   +/- 2.500 (min:   42.000 / max:   53.000) us"
    device = "GPU-0:1481.500 us   +/-11.500 (min:1460.000 / max:1500.000) us"
    each = f"{host}     {device}"
    path.write_text(f"Small (axis=2):\n fftn                :    {each}\nLarge:\n fftn                :    {each}\n")
    rows = ktrace.read(path).to_arrow()["summaries"]
    assert rows["name"].to_pylist() == ["fftn, CPU", "fftn, GPU-0"] * 2
    assert rows["scope"].to_pylist() == [["Small (axis=2)"]] * 2 + [["Large"]] * 2
    assert rows["avg"].to_pylist() == [44_500, 1_481_500] * 2


def test_host_and_devices_of_cupyx_are_averages() -> None:
    found = summaries("regions/cupyx-benchmark.txt", "kind", "name", "avg", "stddev", "max")
    assert found == [
        ("metric", "gemm, CPU", 44_500, 2500, 53_000),
        ("metric", "gemm, GPU-0", 181_500, 1500, 188_500),
        ("metric", "softmax, CPU", 10_000, None, None),
        ("metric", "softmax, GPU-0", 20_000, None, None),
        ("metric", "softmax, GPU-1", 21_000, None, None),
    ]


def test_rows_of_kokkos_without_their_headings() -> None:
    found = summaries("kokkos/rows-of-2018.txt", "kind", "name", "total", "count", "avg")
    assert found == [
        ("range", "KokkosBlas::Test::gemm", 2.5e9, 1, 2.5e9),
        ("op", "KokkosBlas::Test::VanillaGEMM", 3e9, 60, 5e7),
        ("op", "Kokkos::View::initialization [x]", 1.5e9, 3000, 5e5),
        ("op", "KokkosBlas::dot<ETI>", 5e8, 50, 1e7),
    ]


def test_what_a_stack_of_kokkos_has_within_isnt_added_up() -> None:
    found = summaries("kokkos/space-time-stack.txt", "kind", "metric", "name", "total", "count")
    assert found == [
        ("metric", "inclusive", "gemm", 4e9, 100),
        ("metric", "inclusive", "solve step", 3e9, 10),
        ("metric", "inclusive", "axpy", 2e9, 200),
    ]


def test_shares_of_more_than_all_show_that_times_of_ranks_are_inclusive(tmp_path: Path) -> None:
    head = "Path         Min time/rank Max time/rank Avg time/rank Time %\n"
    rows = "main              1.0           3.0           2.0      {}\n"
    rows += "  loop            1.0           3.0           1.9      {}\n"
    for shares, kind in (((98, 95), "metric"), ((50, 45), "op")):
        path = tmp_path / f"{kind}.txt"
        path.write_text(head + rows.format(*shares))
        assert set(ktrace.read(path).summaries.kind) == {kind}


def test_launches_of_cudas_old_profiler_are_work_in_microseconds() -> None:
    sample = "old-profilers/cuda-profile.log"
    assert summaries(sample, "kind", "name", "total", "count", "copy_kind") == [
        ("memcpy", "memcpyHtoD", 4_000, 1, "HtoD"),
        ("kernel", "blur(float*, int)", 120_500, 1, None),
        ("kernel", "blur(float*, int)", 119_500, 1, None),
        ("memset", "memset", 1_000, 1, None),
        ("memcpy", "memcpyDtoHasync", 5_000, 1, "DtoH"),
    ]
    assert args_of(ktrace.read(SAMPLES / sample))[1] == {
        **{"cputime_us": 14.0, "occupancy": 0.75, "mangled_name": "_Z4blurPfi"}
    }
    assert summaries("old-profilers/cuda-profile.csv", "kind", "name", "total") == [
        ("memcpy", "memcpyHtoDasync", 8_000),
        ("kernel", "median3", 64_500),
    ]


def test_launches_with_time_stamps_are_events() -> None:
    events = ktrace.read(SAMPLES / "old-profilers/cuda-profile-with-time-stamps.log").events
    assert events[["kind", "name", "ts", "dur"]].values.tolist() == [
        ["memcpy", "memcpyHtoD", 1_000_500, 4_000],
        ["kernel", "sharp(float*)", 1_020_000, 33_250],
    ]


def test_the_accelerators_time_of_tfprof_is_its_work_and_the_other_the_hosts() -> None:
    found = summaries("old-profilers/tfprof-of-operations.txt", "kind", "name", "total", "percent")
    assert found == [
        *(("kernel", "Conv2D", 8_000_000, 80), ("op", "Conv2D", 2_000_000, 20)),
        *(("kernel", "MatMul", 2_000_000, 20), ("op", "MatMul", 4_000_000, 40)),
        ("op", "Shape", 4_000_000, 40),
    ]


def test_instructions_of_xla_add_up_to_their_module() -> None:
    found = summaries("old-profilers/xla-hlo-profile.txt", "kind", "name", "total", "percent")
    assert found[1:] == [("op", "%fusion.7", 40_000, 66.67), ("op", "%copy.2", 20_000, 33.33)]
    assert found[0] == ("total", "[total]", sum(total for _, _, total, _ in found[1:]), 100)


@pytest.mark.parametrize(
    "text",
    [
        "gputime=[ 4.0 ] without a method\n",
        "node name | owner\nMatMul  me, you\n",
        "the optimal) :: way of all\n",
    ],
)
def test_words_of_old_profilers_alone_are_none_of_them(text: str, tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text(text)
    own = next(fmt for fmt in builtin_formats() if fmt.name == "old-profilers")
    assert own.recognised(Source(str(path)).sample()) is None


def test_parts_of_a_call_of_quda_add_up_to_what_is_accounted() -> None:
    found = summaries("regions/quda-profile.txt", "kind", "name", "total", "count", "percent")
    assert found[-5:] == [
        ("total", "invertQuda", 2e9, None, None),
        ("op", "download", 0.4e9, 4, 20),
        ("op", "compute", 1.5e9, 2, 75),
        ("metric", "total accounted", 1.9e9, None, 95),
        ("metric", "total missing", 0.1e9, None, 5),
    ]


def test_own_times_of_cp2k_add_up_to_the_whole() -> None:
    found = summaries("regions/cp2k-timing.txt", "kind", "name", "total", "count")
    assert found[0] == ("op", "CP2K", 0.5e9, 1)
    assert sum(total for _, _, total, _ in found) == 20e9
    assert args_of(ktrace.read(SAMPLES / "regions/cp2k-timing.txt"))[0]["inclusive_s"] == 20.0


def test_kernels_of_a_tree_of_proton_add_up_to_its_root() -> None:
    sample = "proton-tree/two-metrics-and-a-legend.txt"
    found = summaries(sample, "kind", "name", "total")
    assert found[:4] == [
        ("total", "ROOT", 3_500_000),
        ("metric", "cublas [M=512, N=512]", 2_000_000),
        ("kernel", "nvjet_tst_128x256", 1_750_000),
        ("memcpy", "memcpy DtoD", 250_000),
    ]
    assert sum(total for kind, _, total in found if kind in ("kernel", "memcpy")) == 3_500_000
    assert args_of(ktrace.read(SAMPLES / sample))[0] == {"tflop16/s": "650.125"}


@pytest.mark.parametrize(
    ("text", "metrics"),
    [
        ("3.500 ROOT\n├─ 2.000 blur\n└─ 1.500 sharpen\n", ""),
        ("$ proton-viewer -m tflop16/s run\n3.500 ROOT\n├─ 2.000 blur\n└─ 1.500 sharpen\n", ""),
        ("3.500 ROOT\n└─ 3.500 blur\n\nLegend (Metric: avg_time/us (inc) Min: 3.5 Max: 3.5)\n", "avg"),
    ],
)
def test_a_tree_of_proton_needs_a_metric_of_time(text: str, metrics: str, tmp_path: Path) -> None:
    path = tmp_path / "tree.txt"
    path.write_text(text)
    own = next(fmt for fmt in builtin_formats() if fmt.name == "proton-tree")
    match = own.recognised(Source(str(path)).sample())
    assert match is not None and (match.score > 1) == bool(metrics)
    if metrics:
        assert ktrace.read(path).summaries.avg.tolist() == [3500, 3500]


def test_a_tree_without_its_metrics_says_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "tree.txt"
    path.write_text("3.500 ROOT\n└─ 3.500 blur\n")
    with pytest.raises(KtraceError, match="nothing says which figure of the tree is a time"):
        ktrace.read(path, from_="proton-tree")
