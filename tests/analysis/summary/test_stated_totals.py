"""Tables that state a total: shares are of that, and what isn't listed is said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import ktrace
from ktrace.analysis.answers.summary.summary import Summary

RULE = f"{'-' * 24}  " + "  ".join(["-" * 14] * 7)
HEADINGS = ("Self CPU %", "Self CPU", "CPU total", "Self CUDA", "Self CUDA %", "CUDA total", "# of Calls")


def torch_table(rows: list[tuple[str, float, float, int]], device: float, host: float = 50.0) -> str:
    """What `key_averages().table()` prints; rows are (name, ms of the host, ms of the device, calls)."""
    lines = [RULE, f"{'Name':>24}  " + "  ".join(f"{one:>14}" for one in HEADINGS), RULE]
    for name, cpu, cuda, calls in rows:
        cells = (
            "1.00%",
            f"{cpu:.3f}ms",
            f"{cpu:.3f}ms",
            f"{cuda:.3f}ms",
            f"{100 * cuda / device:.2f}%",
            f"{cuda:.3f}ms",
        )
        lines.append(f"{name:>24}  " + "  ".join(f"{one:>14}" for one in (*cells, str(calls))))
    return "\n".join([*lines, RULE, f"Self CPU time total: {host:.3f}ms", f"Self CUDA time total: {device:.3f}ms", ""])


def summary_of(folder: Path, text: str) -> Summary:
    path = folder / "table.txt"
    path.write_text(text, "utf-8")
    return ktrace.summary(path)


def codes(summary: Summary) -> list[str]:
    return [one.code for one in summary.checks]


OPERATORS = [("aten::mm", 10.0, 600.0, 200), ("aten::convolution", 1.0, 0.0, 100), ("aten::add_", 5.0, 90.0, 100)]


def test_shares_are_of_what_the_table_states(tmp_path: Path) -> None:
    """A table of PyTorch that row_limit cut: the operators' own time on devices, of all that there is."""
    summary = summary_of(tmp_path, torch_table(OPERATORS, 1000.0))
    assert codes(summary) == ["check.table_incomplete"] and summary.total == 1_000_000_000
    assert (summary.checks[0].value, summary.checks[0].whole) == (690_000_000, 1_000_000_000)
    assert {one.key: one.total for one in summary.groups["operation"]}["gemm"] == 600_000_000
    assert "gemm takes the most time in the tables: 60.0% (600 ms of 1.00 s)" in summary.verdict[1]


def test_a_whole_table_says_nothing_of_the_kind(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, torch_table(OPERATORS, 690.0))
    assert codes(summary) == [] and summary.total == 690_000_000
    assert "87.0%" in summary.verdict[0]


def test_kernels_that_are_all_there_count_instead_of_operators(tmp_path: Path) -> None:
    rows = [*OPERATORS, ("ampere_sgemm_128x64_tn", 0.0, 600.0, 200), ("vectorized_elementwise", 0.0, 90.0, 100)]
    summary = summary_of(tmp_path, torch_table(rows, 690.0))
    assert summary.total == 690_000_000 and {one.key for one in summary.groups["kernel"]} == {
        "ampere_sgemm_128x64_tn",
        "vectorized_elementwise",
    }


NESTED = (
    "| Action | Calls | Total (s) |\n|---|---|---|\n| Total | 201 | 20.0 |\n"
    "{}| epoch | 1 | 18.0 |\n| batch | 100 | 10.0 |\n"
)


def test_rows_within_others_are_shares_of_the_total(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, NESTED.format(""))
    assert codes(summary) == [] and summary.total == 20_000_000_000
    assert "epoch takes the most time in the table: 90.0% (18.0 s of 20.0 s)" in summary.verdict[0]


@pytest.mark.parametrize("more", ["| whole_run | 1 | 25.0 |\n"])
def test_a_total_below_one_of_its_rows_is_of_something_else(more: str, tmp_path: Path) -> None:
    assert summary_of(tmp_path, NESTED.format(more)).total == 53_000_000_000


def test_a_table_that_lacks_rows_has_no_heaviest(tmp_path: Path) -> None:
    """pandas prints a row of dots for those that it leaves out."""
    rows = "\n".join(f"{number}  kernel_{number}  {number + 1}.5" for number in range(2))
    text = f"         name  total_ms\n{rows}\n..       ...       ...\n98  kernel_98  9.5\n99  kernel_99  9.75\n"
    summary = summary_of(tmp_path, f"{text}\n[100 rows x 2 columns]\n")
    assert codes(summary) == ["check.table_cut"]
    assert not any(one.code.startswith("heaviest") for one in summary.findings)


SHARES = "| Kernel | Time (ms) | % |\n|---|---|---|\n| a | {} | {}% |\n| b | {} | {}% |\n| c | {} | {}% |\n"


@pytest.mark.parametrize(
    ("cells", "whole"),
    [
        ((30, 30, 20, 20, 10, 10), 100_000_000),  # 40 ms aren't listed
        ((36, 90, 20, 50, 8, 20), 40_000_000),  # parts within others
        ((30, 50, 20, "33.3", 10, "16.7"), None),  # all is there
        ((30, 51, 20, 33, 10, 16), None),  # as far as the decimals say
        ((30, 90, 20, 5, 10, 1), None),  # shares of something else
    ],
)
def test_shares_alone_say_what_they_are_of(cells: tuple[object, ...], whole: float | None, tmp_path: Path) -> None:
    summary = summary_of(tmp_path, SHARES.format(*cells))
    listed = 1e6 * sum(float(str(one)) for one in cells[::2])
    assert summary.total == pytest.approx(whole or listed)
    assert codes(summary) == (["check.table_incomplete"] if whole and whole > listed else [])
    for check in summary.checks:
        assert check.details["by_shares"] and "The shares in the table are of 100 ms" in summary.verdict[0]


def test_a_table_of_pytorch_without_its_last_lines(tmp_path: Path) -> None:
    """Without the stated total, the operators' own times still count, of what their shares are of."""
    rows = [*OPERATORS, ("aten::mul", 1.0, 110.0, 3), ("vectorized_elementwise", 0.0, 90.0, 100)]
    text = torch_table(rows, 1000.0)
    summary = summary_of(tmp_path, text.partition("Self CPU time total")[0])
    assert codes(summary) == ["check.table_incomplete"] and summary.total == pytest.approx(1e9)
    assert "gemm takes the most time in the tables: 60.0% (600 ms of 1.00 s)" in summary.verdict[1]


@pytest.mark.parametrize(
    ("cells", "whole"),
    [
        ((30, 30, 20, 20), 100_000_000),
        ((40, "61.3", 12, "18.4"), 65_244_668),
        ((5, 5, 3, 3), 100_000_000),  # of one digit, and to each other as the times
        ((60, "66.7", 30, "33.3"), None),  # all is there
        ((40, "61.3", 12, "38.7"), None),  # shares of something else
        ((30, 30, 30, 30), None),  # equal ones may be an occupancy
        ((7, 4, 3, 2), None),  # of one digit, which fits much
        ((30, 80, 20, 40), None),  # more than the whole
    ],
)
def test_two_rows_say_what_their_shares_are_of(cells: tuple[object, ...], whole: float | None, tmp_path: Path) -> None:
    text = SHARES.removesuffix("| c | {} | {}% |\n").format(*cells)
    summary = summary_of(tmp_path, text)
    assert summary.total == pytest.approx(whole or 1e6 * sum(float(str(one)) for one in cells[::2]))
    assert codes(summary) == (["check.table_incomplete"] if whole else [])


@pytest.mark.parametrize("kernels", [2, 3])
@pytest.mark.parametrize("calls", [True, False])
def test_calls_in_a_table_of_all_are_no_rows_that_it_lacks(kernels: int, calls: bool, tmp_path: Path) -> None:
    """nsys stats' cuda_api_gpu_sum has calls and device work, and shares of both together."""
    rows = [(80.0, 80_000, "CUDA_API", "cudaLaunchKernel")] if calls else []
    rows += [(one, int(1_000 * one), "CUDA_KERNEL", f"kernel_{one:.0f}") for one in (9.0, 6.0, 5.0)[:kernels]]
    head = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Category,Operation"
    lines = [f"{share},{time},1,{time}.0,{time}.0,{time},{time},0.0,{kind},{name}" for share, time, kind, name in rows]
    report = "Processing [run.sqlite] with [/opt/nsys/reports/cuda_api_gpu_sum.py]... "
    summary = summary_of(tmp_path, "\n".join([report, head, *lines, ""]))
    assert summary.work == "statistics"
    assert codes(summary) == ([] if calls else ["check.table_incomplete"])


#: Name, calls and us of kernels, 10 ms in all.
KERNELS = [
    *(("gemm_a(float*, int)", 100, 6000), ("gemm_b", 50, 2000), ("softmax_fwd", 100, 1000), ("norm_fwd", 100, 500)),
    *(("copy_kernel", 10, 300), ("tiny_a", 10, 120), ("tiny_b", 10, 80)),
]


def of_rocm(rows: list[tuple[str, int, int]], more: str = ',"MinNs","MaxNs","StdDev"') -> str:
    """What rocprofv3 writes, or, without `more`, rocprof."""
    lines = [f'"Name","Calls","TotalDurationNs","AverageNs","Percentage"{more}']
    for name, calls, us in rows:
        lines.append(f'"{name}",{calls},{us}000,{us * 1000 / calls:.6f},{us / 100:.2f}{",1,2,0.5" if more else ""}')
    return "\n".join([*lines, ""])


def of_nvprof(rows: list[tuple[str, int, int]]) -> str:
    text = "==1== NVPROF is profiling process 1, command: ./a\n==1== Profiling result:\n"
    text += "            Type  Time(%)      Time     Calls       Avg       Min       Max  Name\n"
    for place, (name, calls, us) in enumerate(rows):
        text += f"{' GPU activities:' if not place else '':>16}  {us / 100:6.2f}%  {us}.0us  {calls:8}  "
        text += f"{us / calls:.3f}us  1.0us  90.0us  {name}\n"
    text += "      API calls:   99.00%  99.000ms        10  9.9000ms  3.0000us  99.000ms  cudaMalloc\n"
    return f"{text}                    1.00%  1.0000ms       100  10.000us  3.0000us  90.000us  cudaLaunchKernel\n"


def of_unitrace(rows: list[tuple[str, int, int]]) -> str:
    text = "=== Device Timing Results: ===\n\n                Total Execution Time (ns):            392712014\n"
    text += "Total Device Time for CL GPU backend (ns):             10000000\n\n== CL GPU Backend: ==\n\n"
    text += "  Kernel,  Calls,  Time (ns),  Time (%),  Average (ns),  Min (ns),  Max (ns)\n"
    return text + "".join(f"{name},{n},{us}000,{us / 100:.6f},{us * 1000 // n},1,2\n" for name, n, us in rows)


@pytest.mark.parametrize(
    "written", [of_rocm, lambda rows: of_rocm(rows, ""), of_nvprof, of_unitrace], ids=["v3", "v1", "nvprof", "unitrace"]
)
def test_the_first_rows_of_a_profilers_table_have_the_shares_that_it_states(
    written: Callable[[list[tuple[str, int, int]]], str], tmp_path: Path
) -> None:
    """As `head` cuts it; beside calls, whose shares are of something else, and with the time of the whole program."""
    cut = summary_of(tmp_path, written(KERNELS[:3]))
    assert codes(cut) == ["check.table_incomplete"]
    assert "gemm takes the most time in the tables: 80.0% (8.00 ms of 10.0 ms)" in cut.verdict[1]
    whole = summary_of(tmp_path, written(KERNELS))
    assert codes(whole) == [] and whole.total == 10_000_000


def test_totals_of_tables_that_are_missing_count(tmp_path: Path) -> None:
    text = "=== API Timing Results: ===\n\nTotal Execution Time (ns): 9000\n"
    text += "Total API Time for CL CPU backend (ns): 400\nTotal API Time for CL GPU backend (ns): 3600\n\n"
    head = "Function, Calls, Time (ns), Time (%), Average (ns), Min (ns), Max (ns)\n"
    tables = [
        f"== CL {one} Backend: ==\n\n{head}clWait, 1, {ns}, 100.00, {ns}, {ns}, {ns}\n\n"
        for one, ns in (("CPU", 400), ("GPU", 3600))
    ]
    cut = summary_of(tmp_path, text + tables[0])
    assert codes(cut) == ["check.table_incomplete"] and cut.total == 4000
    assert codes(summary_of(tmp_path, text + "".join(tables))) == []


def test_shares_in_lines_say_that_others_are_not_there(tmp_path: Path) -> None:
    rows = [("gemm", 40.0, 4000, 2.0), ("topk", 5.0, 10, 100.0), ("norm", 3.0, 200, 3.0), ("rope", 2.0, 400, 1.0)]
    text = "".join(f"{share}%  {n} calls  {dur} us  {name}\n" for name, share, n, dur in rows)
    summary = summary_of(tmp_path, text)
    assert codes(summary) == ["check.table_incomplete"]
    assert "gemm takes the most time in the table: 40.0%" in summary.verdict[-1]
