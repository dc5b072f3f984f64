"""Tables of one thing in several settings: figures under the names of these, no sum."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ktrace.errors import KtraceError
from ktrace.kit.text.headings import bounds, figure, heading
from ktrace.trace import read


def _rows(text: str, tmp_path: Path) -> list[dict[str, Any]]:
    path = tmp_path / "t.md"
    path.write_text(text, "utf-8")
    rows: list[dict[str, Any]] = read(path).summaries.to_dict("records")
    return rows


def _figures(text: str, tmp_path: Path, field: str = "avg") -> dict[str, float]:
    rows = _rows(text, tmp_path)
    assert {row["kind"] for row in rows} == {"metric"}
    return {row["name"]: row[field] for row in rows if not pd.isna(row.get(field))}


CROSSED = (
    "| method | type | time (us) | bandwidth |\n|--|--|--|--|\n| naive | float | 298.5 | 85% |\n"
    "| packed | float | 284 | 89% |\n| naive | half | 237.25 | 52% |\n| packed | half | 140.75 | 87% |\n"
)


def test_each_name_in_each_setting_is_a_figure(tmp_path: Path) -> None:
    found = _figures(CROSSED, tmp_path)
    assert found["method naive, type half, time (us)"] == 237_250
    assert len(found) == 4


def test_a_launch_for_each_row_is_a_sum(tmp_path: Path) -> None:
    """Layers of two types, not each in each shape: what a network takes."""
    text = CROSSED.replace("method", "layer").replace("| packed | half | 140.75 | 87% |\n", "")
    assert {row["kind"] for row in _rows(text, tmp_path)} == {"op"}


def test_all_parameters_are_in_a_name_and_measures_are_not(tmp_path: Path) -> None:
    text = "| M | K | size (GB) | a us | b us |\n|--|--|--|--|--|\n| 64 | 128 | 0.25 | 1.5 | 2 |\n"
    text += "| 128 | 128 | 0.5 | 3 | 4 |\n| 256 | 64 | 0.75 | 5 | 6 |\n"
    found = _figures(text, tmp_path)
    assert found["M 256, K 64, b us"] == 6000
    assert _rows(text, tmp_path)[0]["args"] is not None


def test_a_time_for_each_value_of_one_parameter(tmp_path: Path) -> None:
    text = "Seq Length |  Time (ms) | TFLOP/s\n---|---|---\n 512 | 2.25 | 7.3\n 1024 | 9.5 | 7.2\n"
    assert _figures(text, tmp_path) == {"Seq Length 512, Time (ms)": 2_250_000, "Seq Length 1024, Time (ms)": 9_500_000}
    with pytest.raises(KtraceError):  # how long it has run
        _rows(text.replace("Time (ms)", "Elapsed time (ms)"), tmp_path)


def test_the_whole_beside_its_parts_is_no_sum_over_backends(tmp_path: Path) -> None:
    text = "| | wait | commit | total |\n|--|--|--|--|\n| `vulkan` | 8.25 ms | 0.25 ms | 8.5 ms |\n"
    text += "| `egl` | 10 ms | 0.5 ms | 10.5 ms |\n"
    assert _figures(text, tmp_path)["egl, total"] == 10_500_000


def test_the_ends_of_a_range_of_times(tmp_path: Path) -> None:
    text = "| splats | CPU | GPU |\n|--|--|--|\n| 4,096 | 0.25 ms | **0.5–0.75 ms** |\n| 9,000 | 2 ms | 1–2.5 ms |\n"
    assert _figures(text, tmp_path)["splats 9,000, CPU"] == 2_000_000
    assert _figures(text, tmp_path, "max")["splats 9,000, GPU"] == 2_500_000
    assert _figures(text, tmp_path, "min")["splats 9,000, GPU"] == 1_000_000


@pytest.mark.parametrize("cell", ["2–1 ms", "1-2", "2024-11-12", "-1 ms", "a-b ms", "1-2 GB"])
def test_what_is_no_range_of_times(cell: str) -> None:
    assert bounds(cell) is None


def test_times_of_several_devices_of_a_model(tmp_path: Path) -> None:
    text = "| model | cpu time(single thread, ms) | gpu time(ms) |\n|--|--|--|\n"
    text += "| a | 88 | 12 |\n| b | 55 | |\n| c | 9 | 3 |\n"
    found = _figures(text, tmp_path)
    assert found == {
        "a, cpu time(single thread, ms)": 88e6,
        "a, gpu time(ms)": 12e6,
        "b, cpu time(single thread, ms)": 55e6,
        "c, cpu time(single thread, ms)": 9e6,
        "c, gpu time(ms)": 3e6,
    }


def test_a_row_for_each_figure_has_the_unit_in_its_name(tmp_path: Path) -> None:
    text = "| Counter | base | new |\n|--|--|--|\n| GPU Time (µs) | 263.75 | **181** |\n| Occupancy % | 33.5 | 23 |\n"
    assert _figures(text, tmp_path) == {"GPU Time, base": 263_750, "GPU Time, new": 181_000}
    assert _figures(text, tmp_path, "value") == {"Occupancy, base": 33.5, "Occupancy, new": 23}
    with pytest.raises(KtraceError):  # what is set
        _rows(text.replace("GPU Time", "Timeout of time"), tmp_path)


def test_a_speedup_compares_the_rows(tmp_path: Path) -> None:
    text = "| kernel | time (us) | speedup |\n|--|--|--|\n| v0 | 990.5 | |\n| v1 | 479.5 | 2.06 |\n"
    assert {row["kind"] for row in _rows(text, tmp_path)} == {"metric"}
    assert {row["kind"] for row in _rows(text.replace("speedup", "grid"), tmp_path)} == {"kernel"}


def test_a_branch_of_a_tree_with_a_pipe(tmp_path: Path) -> None:
    text = "name | gpu_time_us | calls\n====================\nGraph | 400.00 | 1\n"
    text += "|- norm | 100.00 | 4\n|- gemm | 250.00 | 2\n"
    rows = {(row["name"], row["metric"]): row["total"] for row in _rows(text, tmp_path)}
    assert rows == {
        ("Graph", "duration"): 50_000,
        ("Graph", "inclusive"): 400_000,
        ("norm", "duration"): 100_000,
        ("gemm", "duration"): 250_000,
    }


def test_units_in_words_and_after_a_comma() -> None:
    assert figure("68 microseconds, 641 nanoseconds") == figure("0.000068641 s")
    assert (heading("cpu time(single thread, ms)").name, heading("cpu time(single thread, ms)").unit) == (
        "cpu time single thread",
        "ms",
    )


def test_a_speedup_beside_several_times_makes_them_variants(tmp_path: Path) -> None:
    text = "| Operation | Size | GPU | CPU | Speedup |\n|--|--|--|--|--|\n| sort | 10K | 576µs | 267µs | 0.5x |\n"
    text += "| sort | 1M | 13.5ms | 40.75ms | **3.0x** |\n| sum | 1M | 6.5ms | 16ms | 2.4x |\n"
    found = _figures(text, tmp_path)
    assert found["Operation sort, Size 1M, CPU"] == 40_750_000
    assert len(found) == 6


def test_cumulative_times_are_no_sum(tmp_path: Path) -> None:
    text = "   count      cumulative (s)               %       mean (ms)    call site\n" + "-" * 74 + "\n"
    text += "       1           32.5               100.00      32500.0       main\n"
    text += "       2           32.0                98.46      16000.0       run engine\n"
    text += "       4            0.5                 1.54        125.0       load\n"
    rows = _rows(text, tmp_path)
    assert [(row["kind"], row["name"], row["count"], row["total"], row["avg"]) for row in rows] == [
        ("total", "main", 1, 32.5e9, 32.5e9),
        ("metric", "run engine", 2, 32e9, 16e9),
        ("metric", "load", 4, 5e8, 125e6),
    ]


def test_headings_with_a_remark_behind_the_unit(tmp_path: Path) -> None:
    text = "| Format | Perplexity (169M) | Latency, ms (1.5B) | Size, GB (1.5B) |\n|--|--|--|--|\n"
    text += "| `Q4_0` | 17.5 | *76* | **1.5** |\n| `Q4_1` | 17.25 | **72** | 1.75 |\n"
    rows = _rows(text, tmp_path)
    assert [(row["kind"], row["name"], row["value"]) for row in rows] == [
        ("metric", "Q4_0", 76e6),
        ("metric", "Q4_1", 72e6),
    ]
    text = "| Factor | size `2^20` MSM, ms. | size `2^12` MSM, size `2^10` batch, ms. |\n|--|--|--|\n"
    assert (
        _figures(text + "| 1 | 14 | 82.5 |\n| 2 | 11.5 | 76 |\n", tmp_path)["Factor 2, size `2^20` MSM, ms."] == 11.5e6
    )


def test_accelerators_of_several_kinds_are_compared(tmp_path: Path) -> None:
    text = "| | xpu time (seconds) | CUDA time (seconds) |\n|--|--|--|\n| BERT | 0.5 | 0.25 |\n| GPT2 | 1 | 2 |\n"
    assert _figures(text, tmp_path)["GPT2, CUDA time (seconds)"] == 2e9
    layers = text.replace("| | xpu", "| Layer | cpu")
    assert {row["kind"] for row in _rows(layers, tmp_path)} == {"kernel"}
    assert {row["kind"] for row in _rows(text.replace("xpu", "cpu"), tmp_path)} == {"metric"}  # of models


def test_columns_that_the_name_decides_are_no_settings(tmp_path: Path) -> None:
    tiles = {"tiled": (32, "-"), "blocked": (64, 4), "vector": (16, "-")}
    rows = [f"{name},{size},{tile},{reg},{size / tile}" for name, (tile, reg) in tiles.items() for size in (512, 1024)]
    found = _figures("kernel,size,tile,reg,time_ms\n" + "\n".join(rows) + "\n", tmp_path)
    assert found["kernel blocked, size 1024, time_ms"] == 1024 / 64 * 1e6
    assert len(found) == 6
    one = "\n".join(row for row in rows if not row.startswith("tiled,1024"))  # it isn't there in each size
    assert {row["kind"] for row in _rows(f"kernel,size,tile,reg,time_ms\n{one}\n", tmp_path)} == {"kernel"}


def test_cells_that_repeat_the_one_above_are_blank(tmp_path: Path) -> None:
    text = "| 平台 | type | case | 效率(%) | time(us) |\n|--|--|--|--|--|\n| V100 | half | a | 0.5 | 3.5 |\n"
    text += "| | half | b | 25.5 | 408.25 |\n| | float | a | 0.25 | 6.5 |\n| | float | b | 75.5 | 179.25 |\n"
    assert _figures(text, tmp_path)["type float, case b, time(us)"] == 179_250


def test_a_word_that_all_rows_have_is_no_name(tmp_path: Path) -> None:
    head = "| size | A (ms) | B (ms) | ok |\n|--|--|--|--|\n"
    text = head + "| 64x64 | 0.5 | 0.25 | yes |\n| 128x64 | 1.5 | 0.5 | yes |\n| 256x64 | 2.5 | 0.5 | yes |\n"
    assert _figures(text, tmp_path)["size 64x64, A (ms)"] == 500_000


def test_a_last_row_that_lacks_as_many_cells_as_the_others_is_not_cut(tmp_path: Path) -> None:
    head, rows = "| kernel | time (ms) | calls | note |\n|--|--|--|--|\n", ("| gemm | 1.5 | 3", "| norm | 0.5 | 3")
    assert len(_rows(head + " |\n".join((*rows, "")), tmp_path)) == 2
    assert "cut" not in read(tmp_path / "t.md").report.issues
    _rows(head + f"{rows[0]} | x |\n{rows[1]}", tmp_path)
    assert "cut" in read(tmp_path / "t.md").report.issues


BENCHES = (
    "| kernel name | latency |\n|--|--|\n| naive_gemv | 0.16 ms |\n| splitk_gemv | 0.02 ms |\n| library | 0.01 ms |\n"
)


def test_rows_of_a_benchmark_add_up_to_nothing(tmp_path: Path) -> None:
    assert _figures(f"## Benchmark on H100\n\n{BENCHES}", tmp_path, "value")["naive_gemv"] == 160_000
    assert {row["kind"] for row in _rows(f"## A step on H100\n\n{BENCHES}", tmp_path)} == {"kernel"}


def test_a_column_whose_cells_are_all_times_needs_no_word_for_it(tmp_path: Path) -> None:
    head, row = "| model | prefill | decode |\n|--|--|--|\n", "| b | 2.5 s | 8 tok/s |\n"
    assert _figures(f"{head}| a | 1.5 s | 12 tok/s |\n{row}", tmp_path, "value") == {"a": 1.5e9, "b": 2.5e9}
    several = "".join(
        f"| {name} | {time} s | 8 tok/s |\n" for name, time in zip("abcd", (1.5, 2.5, 4.5, 8.5), strict=True)
    )
    assert {row["kind"] for row in _rows(f"| model | timeout | decode |\n|--|--|--|\n{several}", tmp_path)} == {
        "metric"
    }


def test_a_row_with_units_in_its_cells_is_figures_of_variants(tmp_path: Path) -> None:
    head = "| metric | a | b |\n|--|--|--|\n| MFU | **33.5 %** | 28.5 % |\n"
    assert _figures(head + "| step time | 1.5 s | 1.75 s |\n", tmp_path) == {
        "step time, a": 1_500_000_000,
        "step time, b": 1_750_000_000,
    }
    with pytest.raises(KtraceError):
        _rows(head + "| timeout | 1.5 s | 1.75 s |\n", tmp_path)


def test_ranges_among_times(tmp_path: Path) -> None:
    text = "| size | heads | latency |\n|--|--|--|\n| 64 | 8 | 15.5–16.5 ms |\n| 64 | 32 | 17.5 ms |\n"
    text += "| 32 | 8 | 4.5 ms |\n"
    assert _figures(text, tmp_path, "max")["size 64, heads 8, latency"] == 16_500_000
    assert _figures(text, tmp_path)["size 32, heads 8, latency"] == 4_500_000


def test_the_same_times_by_other_names_are_a_second_view(tmp_path: Path) -> None:
    kernels = (
        "| kernel | occurrences | total time |\n|--|--|--|\n| fused_dot_1 | 3 | 2.5 us |\n| fused_add | 3 | 1.5 us |\n"
    )
    ops = kernels.replace("fused_dot_1", "dot.1").replace("fused_add", "add").replace("| kernel", "| operation")
    rows = _rows(f"{kernels}\n# Operations\n\n{ops}", tmp_path)
    assert {row["name"]: row["kind"] for row in rows} == {
        **dict.fromkeys(("fused_dot_1", "fused_add"), "kernel"),
        **dict.fromkeys(("dot.1", "add"), "metric"),
    }
    other = _rows(f"{kernels}\n# Operations\n\n{ops.replace('1.5', '1.75')}", tmp_path)
    assert "metric" not in {row["kind"] for row in other}
