"""What the figures of tables and of lines of one form prove: which rows add up, which are sums, which are of others."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import ktrace
from ktrace.errors import KtraceError
from ktrace.trace import read
from tests.helpers.fork_server import program


def _rows(text: str, tmp_path: Path) -> list[dict[str, Any]]:
    path = tmp_path / "t.md"
    path.write_text(text, "utf-8")
    rows: list[dict[str, Any]] = read(path).summaries.to_dict("records")
    return rows


def _table(heads: str, *rows: str) -> str:
    return "\n".join([heads, "|---" * (heads.count("|") - 1) + "|", *rows, ""])


PARTS = ("| scan | 411 ms |", "| merge | 252 ms |", "| sort | 37 ms |", "| hash | 5 ms |")


def test_a_row_that_all_others_take_together_is_their_sum(tmp_path: Path) -> None:
    text = _table("| stage | time |", *PARTS, "| covered | 705 ms |")
    assert [row["name"] for row in _rows(text, tmp_path) if row["kind"] == "total"] == ["covered"]
    other = _table("| stage | time |", *PARTS, "| covered | 716 ms |")
    assert {row["kind"] for row in _rows(other, tmp_path)} == {"op"}


def test_a_row_called_a_total_of_those_above_is_a_figure(tmp_path: Path) -> None:
    times = {"up": 257.03, "down": 247.86, "attend": 46.07, "norm": 13.04}
    rows = [f"| {name} | {time} |" for name, time in times.items()]
    total = round(sum([*times.values()][:2]))
    of_two = _rows(_table("| op | total ms |", *rows[:2], f"| **FFN total** | **{total}** |", *rows[2:]), tmp_path)
    assert {row["name"]: row["kind"] for row in of_two} == {**dict.fromkeys(times, "op"), "FFN total": "metric"}
    assert ktrace.summary(tmp_path / "t.md").total == pytest.approx(sum(times.values()) * 1e6)
    other = _rows(_table("| op | total ms |", *rows[:2], f"| FFN total | {total + 9} |", *rows[2:]), tmp_path)
    assert {row["kind"] for row in other} == {"op"}


def test_shares_of_a_device_say_whose_the_times_are(tmp_path: Path) -> None:
    rows = ("| gemm | 30 | 60.0% |", "| norm | 15 | 30.0% |", "| cast | 5 | 10.0% |")
    for whose, kind in (("GPU", "kernel"), ("run", "op")):
        assert {row["kind"] for row in _rows(_table(f"| op | total ms | % of {whose} |", *rows), tmp_path)} == {kind}


def test_few_digits_prove_no_sum(tmp_path: Path) -> None:
    text = _table("| stage | time |", "| a1 | 1 ms |", "| b1 | 2 ms |", "| c1 | 1 ms |", "| d1 | 4 ms |")
    assert "total" not in {row["kind"] for row in _rows(text, tmp_path)}


def test_rows_of_more_than_all_are_of_several_wholes_or_within_each_other(tmp_path: Path) -> None:
    heads = "| action | time (s) | % of run |"
    several = ("| epoch | 81.5 | 97.0% |", "| batch | 63 | 45.0% |", "| forward | 21 | 75.0% |")
    assert {row["kind"] for row in _rows(_table(heads, *several), tmp_path)} == {"metric"}
    nested = ("| epoch | 81.5 | 97.0% |", "| batch | 63 | 75.0% |", "| forward | 21 | 25.0% |")
    assert {row["kind"] for row in _rows(_table(heads, *nested), tmp_path)} == {"op"}
    within = ktrace.summary(tmp_path / "t.md")
    assert within.total == pytest.approx(84e9, rel=1e-3)  # not the sum of the rows, 165.5 s
    apart = ("| load | 42 | 50.0% |", "| batch | 25.2 | 30.0% |", "| forward | 8.4 | 10.0% |")
    assert {row["kind"] for row in _rows(_table(heads, *apart), tmp_path)} == {"op"}


def test_percentages_in_proportion_to_the_time_are_its_shares(tmp_path: Path) -> None:
    heads = "| what | GPU time | % GPU busy |"
    rows = ("| upload | 40.2 s | **33.5 %** |", "| gemm | 24 s | 20.0 % |", "| norm | 12.6 s | 10.5 % |")
    assert [row["percent"] for row in _rows(_table(heads, *rows), tmp_path)] == [33.5, 20, 10.5]
    other = (rows[0], rows[1].replace("20.0", "91.0"), rows[2])
    assert all(pd.isna(row.get("percent")) for row in _rows(_table(heads, *other), tmp_path))


def test_branches_of_growing_length_are_a_tree(tmp_path: Path) -> None:
    text = "name          | cuda_time_us | invocations\n" + "=" * 44 + "\n"
    text += "Net           |       90.50 |     1.00\n|- Block      |       90.50 |     1.00\n"
    text += "|-- Linear    |       60.25 |     1.00\n|--- gemm_k   |       60.25 |     1.00\n"
    rows = [row for row in _rows(text, tmp_path) if row["metric"] == "duration"]
    assert {row["name"]: row["total"] for row in rows} == {"Net": 0, "Block": 30_250, "Linear": 0, "gemm_k": 60_250}


def test_names_need_no_heading(tmp_path: Path) -> None:
    text = _table(
        "| | MKL | ours |", "| **whole** | **15 us** | **61 us** |", "| work | — | 39.5 us |", "| ratio | 1x | 4x |"
    )
    assert {row["name"]: row["avg"] for row in _rows(text, tmp_path)} == {
        "whole, MKL": 15_000,
        "whole, ours": 61_000,
        "work, ours": 39_500,
    }
    with pytest.raises(KtraceError):  # numbers name nothing
        _rows(_table("| | MKL | ours |", "| 1 | 15 | 61 |", "| 2 | 4 | 8 |"), tmp_path)


def test_a_unit_in_a_list_above_is_that_of_bare_figures(tmp_path: Path) -> None:
    table = _table("| rung | low | high |", "| all | 5.25 | 7.5 |", "| half | 4.5 | 6.25 |")
    found = {row["name"]: row["avg"] for row in _rows(f"Whole frame, p50 ms, one run:\n\n{table}", tmp_path)}
    assert found["half, high (ms)"] == 6_250_000
    with pytest.raises(KtraceError):
        _rows(f"Whole frame, 2560 px, with msaa, one run:\n\n{table}", tmp_path)


def test_ranges_are_the_figures_of_names(tmp_path: Path) -> None:
    text = _table(
        "| | score | GPU time |",
        "| without map | 50 to 53 | 11.5 to 11.75 ms |",
        "| with map | 45 to 46 | 12 to 12.5 ms |",
    )
    found = {row["name"]: (row["min"], row["max"]) for row in _rows(text, tmp_path)}
    assert found == {"without map, GPU time": (11.5e6, 11.75e6), "with map, GPU time": (12e6, 12.5e6)}


STAGES = """[eng]   Stages of net.bin
[eng]   resize    CPU  0.250ms  CUDA  0.125ms
[eng]   network   CPU  4.500ms  CUDA  4.750ms
[eng]   boxes     CPU  0.500ms  CUDA  0.125ms
"""


def test_lines_of_one_form_are_a_table(tmp_path: Path) -> None:
    rows = _rows(STAGES + "[eng]   Total     CPU  5.250ms  CUDA  5.000ms\n", tmp_path)
    assert [(row["kind"], row["name"], row["value"]) for row in rows] == [
        ("kernel", "resize", 125_000),
        ("kernel", "network", 4_750_000),
        ("kernel", "boxes", 125_000),
        ("total", "Total", 5_000_000),
    ]


def test_lines_of_one_form_add_up_only_if_a_row_says_so(tmp_path: Path) -> None:
    assert {row["kind"] for row in _rows(STAGES, tmp_path)} == {"metric"}


def test_parameters_in_lines_are_the_names_of_variants(tmp_path: Path) -> None:
    lines = [
        f"[{n}/3] K={k}, N=64... ref: {n}.25ms, ours: {n}.5ms, gain: 0.{n}x\n" for n, k in enumerate((128, 256, 512), 1)
    ]
    rows = _rows("".join([lines[0], f"**{lines[1].strip()}**\n", lines[2]]), tmp_path)
    assert {row["name"]: row["avg"] for row in rows}["K 256, ours"] == 2_500_000
    assert len(rows) == 6
    assert {row["kind"] for row in rows} == {"metric"}


@pytest.mark.parametrize(
    "lines",
    [
        "step 1 ran 3.5 ms then 4.5 ms\nstep 2 ran 3.25 ms then 4.5 ms\n",  # two lines
        "a took 3.5 ms\nb took 2.5 ms, of it 1.5 ms\nc: 4 ms\n",  # no form in common
        "a 3.5 ms 4.5 ms 1 2\nb 3.25 ms 4.5 ms 1 2\nc 3.5 ms 4.25 ms 1 2\n",  # times that nothing names
    ],
)
def test_lines_without_a_form_or_words_are_no_table(tmp_path: Path, lines: str) -> None:
    path = tmp_path / "t.log"
    path.write_text(lines, "utf-8")
    try:
        rows = read(path).summaries.to_dict("records")
    except KtraceError:
        return
    assert {row["kind"] for row in rows} <= {"metric"}


@pytest.mark.parametrize(
    ("text", "said", "command"),
    [
        (
            "| Op | mine | theirs |\n|--|--|--|\n| gemm | 3.5 | 4 |\n| norm | 2 | 3 |\n",
            "no number in it has a unit",
            "--map",
        ),
        (
            "Live: ScenePass 7.5 ms, ShadowPass 0.5, Bloom 0.25 of all\n",
            "1 line has times, first 'Live: ScenePass 7.5 ms'",
            "--line 1",
        ),
    ],
)
def test_a_refusal_says_what_was_seen_and_its_command_reads_it(
    tmp_path: Path, text: str, said: str, command: str
) -> None:
    path = tmp_path / "t.md"
    path.write_text(text, "utf-8")
    refused = subprocess.run([program(), "summary", path], capture_output=True, text=True, check=False)
    assert said in refused.stderr
    words = next(part for part in refused.stderr.splitlines() if "hint: " in part)
    start = words.index("ktrace map ")
    shown = words[start + 7 :].split(";")[0].split(" shows ")[0].split()
    assert command.split(maxsplit=1)[0] in shown
    tried = subprocess.run([program(), *shown], capture_output=True, text=True, check=False)
    assert tried.returncode == 0, tried.stderr
    assert "the first rows, read that way" in tried.stdout


def test_a_title_is_no_time(tmp_path: Path) -> None:
    text = "Kernel benchmark\n\n### 15 s clip\nload: 1.5 ms\nfill_k: 2.5 ms\nmerge_k: 3.5 ms\n"
    assert {row["name"] for row in _rows(text, tmp_path)} == {"load", "fill_k", "merge_k"}


def test_plain_times_add_up_only_below_a_heading_of_parts(tmp_path: Path) -> None:
    text = _table("| Layer | time (ms) |", "| conv1 | 3.5 |", "| conv2 | 4.5 |", "| fc_a | 1.25 |")
    assert {row["kind"] for row in _rows(text, tmp_path)} == {"op"}
    assert {row["kind"] for row in _rows(text.replace("Layer", "Product"), tmp_path)} == {"metric"}
    summed = text.replace("Layer", "Product") + "| Total | 9.25 |\n"
    assert [row["kind"] for row in _rows(summed, tmp_path)] == ["op", "op", "op", "total"]


def test_shares_of_several_wholes_add_up_to_nothing(tmp_path: Path) -> None:
    heads = "| who | kernel | calls | avg | share of GPU time |"
    rows = ("| mine | `attn_a` | 100 | 40 us | 10% |", "| theirs | `attn_b` | 100 | 10 us | 5% |")
    assert {row["kind"] for row in _rows(_table(heads, *rows), tmp_path)} == {"metric"}
    one = (rows[0], rows[1].replace("5%", "2.5%"))
    assert {row["kind"] for row in _rows(_table(heads, *one), tmp_path)} == {"kernel"}


def test_a_mean_that_contradicts_the_total_is_of_something_else(tmp_path: Path) -> None:
    heads = "| Kernel | Calls | Total us | us/iter | % GPU |"
    rows = (
        "| blend_k | 10 | 3600 | 360 | 60% |",
        "| sort_k | 60 | 1800 | 180 | 30% |",
        "| fill_k | 90 | 600 | 60 | 10% |",
    )
    found = {row["name"]: row for row in _rows(_table(heads, *rows), tmp_path)}
    assert {row["kind"] for row in found.values()} == {"kernel"}
    assert found["sort_k"]["total"] == 1_800_000
    assert pd.isna(found["sort_k"]["avg"])
    assert found["blend_k"]["avg"] == 360_000


def test_a_banner_above_several_times_is_no_name(tmp_path: Path) -> None:
    text = "=== Breakdown of all ===\nGPU kernel time: 24.5 ms\nGPU transfer time: 5.25 ms\nCPU compute time: 6.5 ms\n"
    names = {row["name"] for row in _rows(text, tmp_path)}
    assert names == {"GPU kernel time", "GPU transfer time", "CPU compute time"}


def test_shares_that_fill_the_whole_leave_no_sum_among_their_rows(tmp_path: Path) -> None:
    heads = "| kernel | time (ms) | % of GPU |"
    rows = ("| forces | 8.1 | 49.1% |", "| pairs | 7.1 | 43.0% |", "| halo | 0.5 | 3.0% |", "| rest | 0.4 | 2.4% |")
    assert {row["kind"] for row in _rows(_table(heads, *rows), tmp_path)} == {"kernel"}  # 8.1 is about 7.1 + 0.5 + 0.4
    bare = (row.rsplit("|", 2)[0] + "|" for row in rows)
    found = _rows(_table("| kernel | time (ms) |", *(row.replace("8.1", "8.0") for row in bare)), tmp_path)
    assert [row["name"] for row in found if row["kind"] == "total"] == ["forces"]


def test_tables_with_the_same_names_are_of_two_runs(tmp_path: Path) -> None:
    heads = "| kernel | time (ms) | calls |"
    old, new = ("| gemm | 9 | 2 |", "| copy | 4 | 1 |", "| Sum | 13 | |"), ("| gemm | 5 | 2 |", "| scan | 1 | 1 |")
    text = "\n".join((_table(heads, *old), "With the new kernels:\n", _table(heads, *new)))
    assert {row["kind"] for row in _rows(text, tmp_path)} == {"metric"}
    assert not ktrace.summary(tmp_path / "t.md").total
    other = text.replace("gemm | 5", "sort | 5")  # a table goes on below a line of text
    kernels = [row["name"] for row in _rows(other, tmp_path) if row["kind"] == "kernel"]
    assert kernels == ["gemm", "copy", "sort", "scan"]


def test_a_small_table_of_names_that_a_large_one_has_is_left_out_of_its_sum(tmp_path: Path) -> None:
    heads = "| kernel | time (ms) |"
    large = ("| gemm | 9 |", "| copy | 4 |", "| scan | 2 |", "| sort | 1 |", "| fill | 1 |")
    text = "\n".join((_table(heads, *large), "## The slowest one again", _table(heads, large[0])))
    assert [row["kind"] for row in _rows(text, tmp_path)] == ["kernel"] * 5 + ["metric"]


def test_shares_of_another_number_are_none_of_the_time(tmp_path: Path) -> None:
    heads = "| class | per step | share | us/step |"
    rows = ("| copy | 180 | 45.0% | 28.5 |", "| gemm | 120 | 30.0% | 382.1 |", "| norm | 100 | 25.0% | 34.2 |")
    assert all(pd.isna(row["percent"]) for row in _rows(_table(heads, *rows), tmp_path))
    of_time = ("| copy | 180 | 6.4% | 28.5 |", "| gemm | 120 | 85.9% | 382.1 |", "| norm | 100 | 7.7% | 34.2 |")
    assert [row["percent"] for row in _rows(_table(heads, *of_time), tmp_path)] == [6.4, 85.9, 7.7]


def test_a_time_below_0_is_none(tmp_path: Path) -> None:
    path = tmp_path / "t.md"
    path.write_text(_table("| kernel | time (ms) |", "| a | -1.000 |", "| b | 2.5 |"), "utf-8")
    assert [row["name"] for row in read(path).summaries.to_dict("records")] == ["b"]
    summary = subprocess.run([program(), "summary", str(path)], capture_output=True, text=True, check=True)
    assert "1 x negative-duration (line 3)" in summary.stderr


def test_operations_and_whole_passes_dont_add_up(tmp_path: Path) -> None:
    heads = "| {} | time (ms) |"
    ops, passes = ("| norm | 0.02 |", "| gemm | 0.18 |"), ("| prefill | 310.5 |", "| decode | 22.5 |")
    text = f"{_table(heads.format('op'), *ops)}\n## Model\n\n{_table(heads.format('phase'), *passes)}"
    assert {row["kind"] for row in _rows(text, tmp_path)} == {"metric"}
    near = text.replace("310.5", "0.15").replace("22.5", "0.05")  # nothing says that one is within the other
    assert {row["kind"] for row in _rows(near, tmp_path)} == {"op"}


def test_a_time_that_is_between_two_others_is_that_of_an_event(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    events = (("mul", 10, 500), ("copy (2d)", 9, 515), ("mul", 27, 530), ("addmm", 443, 600))
    line = "{:24}{:>12} us{:>14} us{:>14} us\n"
    path.write_text("".join(line.format(name, dur, start, start + dur) for name, dur, start in events))
    assert [tuple(row) for row in read(path).events[["name", "dur", "ts"]].values] == [
        (name, dur * 1000, start * 1000) for name, dur, start in events
    ]
    path.write_text("".join(line.format(name, dur, start, start + dur + 7) for name, dur, start in events))
    with pytest.raises(KtraceError, match="unrecognised format"):
        read(path)


def test_the_shares_say_whether_an_average_is_that_of_a_call(tmp_path: Path) -> None:
    heads = "| op | avg (ms) | avg (%) | calls |"
    whole = ("| conv | 30 | 60% | 10 |", "| gemm | 15 | 30% | 5 |", "| norm | 5 | 10% | 20 |")
    rows = _rows(_table(heads, *whole), tmp_path)
    assert ktrace.summary(tmp_path / "t.md").total == pytest.approx(50e6)
    assert {row["kind"] for row in rows} == {"op"}
    each = ("| conv | 30 | 60% | 10 |", "| gemm | 24 | 24% | 5 |", "| norm | 4 | 16% | 20 |")
    _rows(_table(heads, *each), tmp_path)
    assert ktrace.summary(tmp_path / "t.md").total == pytest.approx(500e6)


def test_a_line_above_tells_headings_apart(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_text(
        "  %   cumulative   self              self     total\n"
        " time   seconds   seconds    calls   s/call   s/call  name\n"
        " 60.00      0.60     0.60      999     0.00     0.00  build(int, int)\n"
        " 30.00      0.90     0.30      500     0.00     0.00  step()\n"
        " 10.00      1.00     0.10      500     0.00     0.00  halo()\n"
    )
    rows = read(path).summaries.to_dict("records")
    assert [(row["name"], row["total"], row["count"], row["percent"]) for row in rows] == [
        ("build(int, int)", 6e8, 999, 60),
        ("step()", 3e8, 500, 30),
        ("halo()", 1e8, 500, 10),
    ]


def test_a_rate_beside_a_time_in_its_cell(tmp_path: Path) -> None:
    rows = _rows(
        _table(
            "| shape | old | new |",
            "| 8k | 23.5 us / 1.5 TB/s | **19.25 us / 1.75 TB/s** |",
            "| 4k | 14.5 us / 1.25 TB/s | **12.5 us / 1.5 TB/s** |",
        ),
        tmp_path,
    )
    assert [row["avg"] for row in rows] == [23_500, 19_250, 14_500, 12_500]
    assert {row["kind"] for row in rows} == {"metric"}


def test_statistics_of_several_things_are_no_row(tmp_path: Path) -> None:
    rows = ("| main | 19.5 ms | 2040 ms | 7183 ms |", "| branch | 19.25 ms | 1758 ms | 6584 ms |")
    with pytest.raises(KtraceError, match="unrecognised format"):
        _rows(_table("| variant | TPOT median | TTFT median | E2E mean |", *rows), tmp_path)
    found = _rows(_table("| kernel | median time | min time | mean time |", *rows), tmp_path)
    assert [(row["median"], row["avg"]) for row in found] == [(19.5e6, 7183e6), (19.25e6, 6584e6)]


def test_one_work_in_several_ways_adds_up_to_nothing(tmp_path: Path) -> None:
    times = {"naive": 6.0, "tiled": 2.4, "wmma": 1.5}
    heads = "| kernel | time (ms) | GFLOPS |"
    same = [f"| {name} | {time} | {1200 / time} |" for name, time in times.items()]
    assert {row["kind"] for row in _rows(_table(heads, *same), tmp_path)} == {"metric"}
    other = [f"| {name} | {time} | {100 * time} |" for name, time in times.items()]
    assert {row["kind"] for row in _rows(_table(heads, *other), tmp_path)} == {"kernel"}
    lines = "".join(
        f"Kernel {n} ({name}): {time} ms, {1200 / time} GFLOPS\n" for n, (name, time) in enumerate(times.items())
    )
    lines += f"library: 0.75 ms, {1200 / 0.75} GFLOPS\n"
    assert {row["kind"] for row in _rows(lines, tmp_path)} == {"metric"}
    records = [{"kernel": name, "time_ms": time, "gflops": 1200 / time} for name, time in times.items()]
    assert {row["kind"] for row in _rows(json.dumps(records), tmp_path)} == {"metric"}


def test_one_thing_in_several_sizes_or_types_adds_up_to_nothing(tmp_path: Path) -> None:
    for names, kind in (
        ((512, 1024, 2048), "metric"),
        ((1, 2, 4), "metric"),
        ((1, 2, 3), "kernel"),
        ((7, 8, 9), "kernel"),
    ):
        rows = [f"| step_{n} | {n / 2} |" for n in names]
        assert {row["kind"] for row in _rows(_table("| kernel | time (ms) |", *rows), tmp_path)} == {kind}
    types = [f"| gemm | {kind} | {time} |" for kind, time in (("half", 12.5), ("bfloat", 12.75), ("float", 50.5))]
    assert {row["kind"] for row in _rows(_table("| kernel | type | time (us) |", *types), tmp_path)} == {"metric"}
    launches = [f"| gemm | {grid} | 12.5 |" for grid in (8, 16, 17)]
    assert {row["kind"] for row in _rows(_table("| kernel | grid | time (us) |", *launches), tmp_path)} == {"kernel"}
    lines = "".join(f"matmul {n}: {n / 100} ms\n" for n in (256, 512, 1024, 2048))
    assert {row["kind"] for row in _rows(lines, tmp_path)} == {"metric"}


def test_percentages_of_what_a_row_names_are_no_shares(tmp_path: Path) -> None:
    rows = ("| 1: naive | 5.5 | 13.6% |", "| 2: tiled | 2.25 | 33.3% |", "| 0: cuBLAS | 0.75 | 100% |")
    found = _rows(_table("| kernel | time (ms) | % of cuBLAS |", *rows), tmp_path)
    assert all(pd.isna(row.get("percent")) for row in found)
    assert "total" not in {row["kind"] for row in found}
