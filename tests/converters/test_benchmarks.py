"""Programs that measure: the figures of their samples by hand; what is a choice, a repetition, a failure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES

import ktrace
from ktrace.input.detection import choose
from ktrace.input.source import Source

NAMES = ("benchmark-tables", "benchmark-json", "triton-testing", "cprofile", "megatron", "taichi", "mlir-aie")
FILES = [path for name in NAMES for path in sorted((SAMPLES / name).iterdir())]


def rows(path: str | Path) -> list[dict[str, Any]]:
    found = ktrace.read(SAMPLES / path).to_arrow()["summaries"].to_pylist()
    return [{name: value for name, value in row.items() if value is not None} for row in found]


def figures(path: str | Path, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row.get(name) for name in names) for row in rows(path)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_each_sample_is_known_by_its_content_also_behind_a_log(path: Path, tmp_path: Path) -> None:
    name = path.parent.name
    assert choose(Source(str(path))).name == name
    if path.suffix != ".json":
        behind = tmp_path / "x.out"
        behind.write_text("[2025-01-01 10:00:00,123] [INFO] begins\n\n" + path.read_text())
        assert choose(Source(str(behind))).name == name
        assert [row["name"] for row in rows(behind)] == [row["name"] for row in rows(path)]


def test_gpu_times_of_nvbench_are_means_of_samples() -> None:
    assert figures("benchmark-tables/nvbench-two-axes-and-its-log.md", "kind", "name", "avg", "count", "device") == [
        ("kernel", "copy [T=U32 N=2^16 = 65536]", 12_600, 39_312, 0),
        ("kernel", "copy [T=U32 N=2^20 = 1048576]", 25_000, 20_000, 0),
    ]
    assert figures("benchmark-tables/nvbench-two-devices.csv", "name", "avg", "count", "device") == [
        ("sort [T=I32 N=65536]", 32_000, 2048, 0),
        ("scan [T=F32 N=65536]", 12_500, 4096, 1),
    ]
    assert figures("benchmark-json/nvbench-with-a-skipped-state.json", "name", "avg", "count", "device") == [
        ("copy [T=U32 N=65536]", 12_600, 39_312, 0)
    ]


def test_a_log_of_nvbench_without_its_tables_has_the_same_means(tmp_path: Path) -> None:
    text = (SAMPLES / "benchmark-tables/nvbench-two-axes-and-its-log.md").read_text()
    path = tmp_path / "log.txt"
    path.write_text(text.partition("# Benchmark Results")[0] + "Pass: Cold: 9.5ms GPU, 1.0ms CPU, 5x\n")
    found = [(row["kind"], row["name"], row["avg"], row["count"], row["device"]) for row in rows(path)]
    assert found == [
        ("kernel", "copy [T=U32 N=2^16]", 12_600, 39_312, 0),
        ("kernel", "copy [T=U32 N=2^20]", 25_000, 20_000, 0),
    ]
    path.write_text("Run:  [1/2] copy [Device=0 T=U32 N=2^16]\nPass: Batch: 0.008100ms GPU, 0.49s total GPU, 60000x\n")
    with pytest.raises(ktrace.InputError):
        ktrace.read(path)


def test_candidates_are_a_choice_and_the_winner_is_no_third_one() -> None:
    found = rows("benchmark-tables/hipblaslt-solutions-and-a-winner.txt")
    assert [(row["kind"], row["name"], row["avg"]) for row in found] == [
        ("metric", "T N 1024x512x256 1", 25_000),
        ("metric", "T N 1024x512x256 1", 20_000),
    ]
    assert '"Solution name":"Cijk_Alik_Bljk_BBS_BH_MT256x128x64"' in found[1]["args"]
    assert figures("benchmark-tables/rocblas-gemm.txt", "name", "avg") == [("N N 4096x4096x4096", 6_383_000)]
    assert figures("benchmark-tables/cutlass-operations-and-their-csv.txt", "name", "avg") == [
        ("cutlass_simt_sgemm_128x128_8x2_nn_align1", 6_736_550),
        ("cutlass_simt_sgemm_128x64_8x2_nn_align1", 7_500_000),
    ]
    (passed,) = rows("benchmark-tables/cutlass-a-failed-one.csv")
    assert (passed["avg"], passed["bytes"]) == (12_500, 6_291_456)


def test_a_time_that_a_table_repeats_is_one_row() -> None:
    assert figures("benchmark-tables/miopen-forward-with-stats-backward-without.txt", "name", "avg") == [
        ("fwd-conv3x3u1", 35_000),
        ("Backward Data Conv", 45_000),
    ]


def test_figures_of_pytest_benchmark() -> None:
    assert figures("benchmark-tables/pytest-benchmark-of-three-tests.txt", "name", "avg", "min", "max", "count")[1] == (
        *("test_gemm[256]", 112_125, 105_500, 155_250),
        1102,
    )
    (row,) = rows("benchmark-json/pytest-benchmark.json")
    assert (row["avg"], row["median"], row["stddev"], row["count"]) == (12_125, 11_750, 1250, 5102)


def test_batches_of_llama() -> None:
    assert figures("benchmark-tables/llama-batched-bench-above-its-timings.txt", "name", "total", "count") == [
        ("pp128 b1", 108_000_000, 128),
        ("tg128 b1", 3_079_000_000, 128),
        ("pp128 b2", 198_000_000, 256),
        ("tg128 b2", 5_029_000_000, 256),
    ]


def test_frames_of_presentmon_are_the_work_of_the_gpu() -> None:
    assert figures("benchmark-tables/presentmon-two-frames-and-none.csv", "kind", "name", "total", "count", "pid") == [
        ("kernel", "frame of game.exe", 12_250_000, 1, 1234),
        ("kernel", "frame of game.exe", 13_250_000, 1, 1234),
    ]


def test_rows_of_liger_are_a_kernel_of_a_provider_at_a_size() -> None:
    sample = "benchmark-tables/liger-a-time-and-a-memory.csv"
    assert figures(sample, "kind", "name", "metric", "median", "value", "unit") == [
        ("metric", "rms_norm liger forward 4096", "duration", 125_000, None, "ns"),
        ("metric", "rms_norm huggingface forward 4096", "duration", 500_000, None, "ns"),
        ("metric", "rms_norm liger full 4096 memory", "memory", None, 96.5, "MB"),
    ]


def test_columns_of_triton_are_providers() -> None:
    found = rows("triton-testing/with-and-without-units.txt")
    assert [(row["name"], row["avg"]) for row in found if row["metric"] == "duration"][:2] == [
        ("N=256.0 Triton", 5_120),
        ("N=256.0 Torch", 12_288),
    ]
    assert (found[-1]["name"], found[-1]["value"]) == ("M=384.0 N=384.0 K=384.0 Triton", 12.288)
    assert all(row["kind"] == "metric" for row in found)


def test_own_times_of_functions_add_up_to_the_stated_total() -> None:
    found = rows("cprofile/by-cumulative-time.txt")
    (total,) = [row for row in found if row["kind"] == "total"]
    own = sum(row["total"] for row in found if row["kind"] == "op")
    assert total["total"] == 1_250_000_000 and own == 950_000_000  # the rest are functions that aren't shown
    assert [row["count"] for row in found if row["name"] == "model.py:10(forward)"] == [200]


def test_timers_of_megatron_enclose_one_another() -> None:
    found = rows("megatron/timers-of-all-options.log")
    assert {row["kind"] for row in found} == {"range"}
    assert ("forward-backward", 1_000_250_000, 1_005_500_000) in figures(
        "megatron/timers-of-all-options.log", "name", "min", "max"
    )
    assert [(row["scope"], row["total"]) for row in found if row["name"] == "rank"] == [
        (["forward-backward"], 1_000_250_000),
        (["forward-backward"], 1_005_500_000),
    ]
    assert [row["total"] for row in found if row["name"] == "forward"] == [400_100_000]


def test_kernels_and_launches_of_taichi() -> None:
    path = "taichi/count-trace-and-an-older-layout.txt"
    assert figures(path, "kind", "name", "total", "count", "avg") == [
        ("kernel", "advect_c4_0_kernel_3_struct_for", 1_500_000_000, 2000, 750_000),
        ("kernel", "runtime_initialize", 500_000_000, 1, 500_000_000),
        ("total", "kernels", 2_000_000_000, None, None),
        ("kernel", "copy_c24_1_kernel_83_listgen", 17_000_000, 3, 5_541_000),
    ]
    events = ktrace.read(SAMPLES / path).to_arrow()["events"].to_pylist()
    assert [(row["ts"], row["dur"], row["grid_x"], row["block_x"], row["shared_memory"]) for row in events] == [
        (0, 125_000, 1, 1, 0),
        (250_000, 2_500_000, 960, 128, 1024),
    ]


def test_cycles_of_ai_engines_are_no_microseconds() -> None:
    path = "mlir-aie/two-units-an-orphan-and-a-cut.json"
    assert figures(path, "kind", "name", "metric", "unit", "count", "total", "min", "max") == [
        ("range", "LOCK_STALL", "cycles", "cycle", 1, 50, 50, 50),
        ("kernel", "KERNEL", "cycles", "cycle", 2, 17_000, 8000, 9000),
        ("range", "DMA_S2MM_0_STALLED_LOCK", "cycles", "cycle", 1, 50, 50, 50),
    ]
    trace = ktrace.read(SAMPLES / path)
    assert not len(trace.events)
    plain = SAMPLES / "chrome/async-nestable-ids-of-every-type.json"
    assert choose(Source(str(plain))).name == "chrome"
