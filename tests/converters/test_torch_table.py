"""Tables of PyTorch's profiler, against plain arithmetic on their text."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pytest
from conftest import SAMPLES, SHARED

import ktrace
from ktrace.converters.torch_table.grid import column, grid, rule
from ktrace.input.detection import choose, detect_all
from ktrace.input.format import Score
from ktrace.input.source import Source
from ktrace.trace import read
from ktrace.trace.trace import Trace

CORPUS = SHARED / "corpus"
REAL = sorted(
    path
    for pattern in ("pytorch_table/*.txt", "made/pytorch_single/*.txt", "made/pytorch_compile/*.txt")
    for path in CORPUS.glob(pattern)
    if path.name not in ("flop_counter.txt", "stacks.txt")
)
_NS = {"us": 1000, "ms": 10**6, "s": 10**9}


def sample(name: str) -> Trace:
    return read(SAMPLES / "torch-table" / name)


def heads(trace: Trace) -> pd.DataFrame:
    rows = trace.summaries
    return rows[rows.parent.isna() & (rows.kind != "total")]


def measures(trace: Trace, name: str) -> dict[str, float]:
    """Metric -> total or value of the rows below the head of that name."""
    rows = trace.summaries
    mine = rows[(rows.name == name) & rows.parent.notna()]
    return {row.metric: row.value if pd.isna(row.total) else row.total for row in mine.itertuples()}


def told(trace: Trace) -> list[dict[str, object]]:
    return [json.loads(args) if isinstance(args, str) else {} for args in heads(trace).args]


KERNELS = "kernels-annotations-on-both-sides-two-tables-amid-output.txt"


def test_what_a_device_alone_did_is_device_work_and_counts_once() -> None:
    trace = sample(KERNELS)
    rows = heads(trace)
    first = rows[rows.table == 0]
    assert first.kind.tolist() == [
        *("op", "op", "op", "api", "op"),
        *("kernel", "memcpy", "memset", "range", "range", "range"),
    ]
    work = first[first.kind.isin(("kernel", "memcpy", "memset"))]
    assert work.total.tolist() == [2_500_000, 1_000_000, 250_000] and work.total.sum() == 3_750_000
    assert work.copy_kind.tolist()[1] == "HtoD" and work["count"].tolist() == [4, 2, 1]
    assert (work.avg.tolist(), work.percent.tolist()) == ([625_000, 500_000, 250_000], [66.67, 26.67, 6.67])
    assert measures(trace, "aten::mm") == {
        **{"CPU total": 3_500_000, "Self CUDA": 2_500_000, "CUDA total": 2_500_000},
        **{"CPU Mem": 0, "Self CPU Mem": 0, "CUDA Mem": 2 * 1024 * 1024},
    }


def test_memory_that_no_operator_allocated() -> None:
    trace = sample(KERNELS)
    row = heads(trace)[lambda rows: rows.name == "[memory]"].iloc[0]
    assert (row.kind, row.total, row["count"], row.table) == ("alloc", 0, 7, 1)


def test_the_cells_of_the_host_stay_with_device_work() -> None:
    kernel = told(sample(KERNELS))[5]
    assert kernel.items() >= {"Self CPU %": "0.00%", "CPU time avg": "0.000us", "CUDA Mem": "0 B"}.items()


def test_the_summary_adds_up_kernels_alone() -> None:
    found = ktrace.summary(SAMPLES / "torch-table" / KERNELS)
    assert found.total == 3_750_000 and found.count == 7


def test_self_times_add_up_to_the_footer() -> None:
    rows = sample(KERNELS).summaries
    host = rows[rows.kind.isin(("op", "api", "alloc")) & rows.parent.isna()].groupby("table").total.sum().tolist()
    totals = rows[rows.kind == "total"]
    assert totals.name.tolist() == ["Self CPU time total", "Self CUDA time total", "Self CPU time total"]
    assert totals.total.tolist() == [10_000_000, 3_750_000, 40_000]
    assert host == [10_000_000, 40_000]


def test_headers_and_captions_are_the_scope() -> None:
    trace = sample(KERNELS)
    scopes = heads(trace).groupby("table").scope.first().map(list).tolist()
    assert scopes == [["step 3 of my run"], ["validation", "top-level ops"]]
    assert [where for where, _ in trace.report.issues["unrecognised"].places] == ["lines 1-2", "line 23", "line 36"]


def test_flops_stand_below_the_heading_of_the_stack() -> None:
    trace = sample("stacks-that-stand-below-the-flops.txt")
    assert heads(trace).name.tolist() == ["aten::conv2d", "aten::relu", "b\tc"]
    assert [args.get("Source Location") for args in told(trace)] == [
        ["net.py(12): forward", "torch/nn/modules/module.py(1511): _call_impl", "train  it.py(7): <module>"],
        None,
        ["<built-in>"],
    ]
    assert measures(trace, "aten::conv2d")["FLOPs"] == 12_288
    assert "FLOPs" not in measures(trace, "aten::relu")
    assert told(trace)[2]["CPU total %"] == "NaN"
    assert [args["Input Shapes"] for args in told(trace)] == ["[[4, 3, 8, 8], [2, 3, 3,", "[[4, 2, 6, 6]]", "[]"]


def test_old_headings_behind_prefixes() -> None:
    trace = sample("headings-of-2018-and-2019-behind-prefixes.log")
    rows = heads(trace)
    assert rows.total.tolist() == [20_000, 880_000, 100_000, 1_000_000, 5_000]
    assert rows.name.tolist()[1] == "cudnn_convolution  of a name longer than its column"
    assert rows["count"].tolist() == [3, 3, 1, 4, 2] and rows.avg.tolist()[3:] == [250_000, 2500]
    assert trace.summaries[trace.summaries.metric == "CUDA total"].total.tolist() == [3e6, 1e6, 0, 6e6, 0]
    assert rows.scope.map(list).tolist()[0] == ["what 1.3 printed"]
    assert not trace.report.issues.keys() - {"unrecognised"}


@pytest.mark.parametrize(
    ("heading", "kind", "device", "own", "stat"),
    [
        ("Self CPU", "time", "CPU", True, "total"),
        ("Self CPU total", "time", "CPU", True, "total"),
        ("Self CPU total %", "percent", "CPU", True, "total"),
        ("Self MTIA %", "percent", "MTIA", True, "total"),
        ("HPU total", "time", "HPU", False, "total"),
        ("PRIVATEUSEONE time avg", "time", "PRIVATEUSEONE", False, "avg"),
        ("XPU time", "time", "XPU", False, "avg"),
        ("Self XPU Mem", "memory", "XPU", True, "total"),
    ],
)
def test_headings(heading: str, kind: str, device: str, own: bool, stat: str) -> None:
    found = column(heading)
    assert (found.kind, found.device, found.is_self, found.stat) == (kind, device, own, stat)


def test_a_cell_that_is_too_wide_pushes_the_others() -> None:
    drawn = "-----  ------  ------"
    cells = grid("Name   Self CPU  # of Calls".replace("Self CPU", "CPU total"), drawn)
    assert cells is not None
    assert cells.cells("  a b  123456.789us       3") == ["a b", "123456.789us", "3"]
    assert cells.cells("some words") is None
    assert rule("- a list") is None and rule("-----") is None


def test_more_device_work_than_the_footer_says_is_reported(tmp_path: Path) -> None:
    text = (SAMPLES / "torch-table" / KERNELS).read_text("utf-8")
    path = tmp_path / "t.txt"
    path.write_text(text.replace("Self CUDA time total: 3.750ms", "Self CUDA time total: 1.000ms"), "utf-8")
    assert read(path).report.issues["disagreement"].rows == 1


def test_a_kernel_of_the_name_of_the_operator_that_launched_it(tmp_path: Path) -> None:
    """As those of Triton: the row of the CPU says the same time of the device. An annotation says another."""
    text = (SAMPLES / "torch-table" / KERNELS).read_text("utf-8")
    kernel = "void cutlass::Kernel<my_gemm_f16_128x128_32x5_tn_al..."
    path = tmp_path / "t.txt"
    path.write_text(text.replace(kernel, "aten__mm".rjust(len(kernel))).replace("aten::mm", "aten__mm"), "utf-8")
    rows = heads(read(path))
    assert rows[rows.name == "aten__mm"].kind.tolist() == ["op", "kernel"]
    assert rows[rows.name == "my  block"].kind.tolist() == ["op", "range"]


def test_a_table_that_ends_early_is_cut(tmp_path: Path) -> None:
    lines = (SAMPLES / "torch-table" / KERNELS).read_text("utf-8").split("\n")
    path = tmp_path / "t.txt"
    path.write_text("\n".join(lines[:10]) + "\n", "utf-8")
    trace = read(path)
    assert len(heads(trace)) == 3 and "cut" in trace.report.issues
    path.write_text("\n".join(lines[:9]) + "\n" + lines[9][:200], "utf-8")
    trace = read(path)
    assert len(heads(trace)) == 2 and trace.report.issues["cut"].places[0][1] == "the last row is cut off"


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
def test_real_tables(path: Path) -> None:
    """Rows, self times and whole times against the text: figures are the only words that end in us, ms or s."""
    assert choose(Source(str(path))).name == "torch-table"
    assert [match.format for match in detect_all(Source(str(path)).sample()) if match.score >= Score.DIALECT] == [
        "torch-table"
    ]
    lines = path.read_text("utf-8").split("\n")
    rows = [found for line in lines if len(found := re.findall(r"(?<!\S)(-?\d+\.\d{3})(us|ms|s)(?!\S)", line)) == 3]
    times = [[int(Decimal(number) * _NS[unit]) for number, unit in row] for row in rows]
    trace = read(path)
    found = heads(trace)
    assert len(found) == len(times) > 4
    assert found.total.tolist() == [own for own, _, _ in times]
    whole = trace.summaries[trace.summaries.metric == "CPU total"]
    assert (whole.total.tolist(), whole.avg.tolist()) == ([one for _, one, _ in times], [one for _, _, one in times])
    footer = re.search(r"Self CPU time total: ([\d.]+)(\w+)", path.read_text("utf-8"))
    if footer:
        totals = trace.summaries[trace.summaries.kind == "total"].total.tolist()
        assert totals == [int(Decimal(footer[1]) * _NS[footer[2]])]
    assert not trace.report.issues


@pytest.mark.parametrize(
    ("name", "own", "whole", "count"),
    [
        ("table_default.txt", 613_715_277, 1_911_194_813, 426),
        ("table_shapes_sort_count.txt", 613_715_277, 1_911_194_813, 426),
    ],
)
def test_real_tables_as_the_api_says(name: str, own: int, whole: int, count: int) -> None:
    path = CORPUS / "made" / "pytorch_single" / name
    if not path.exists():
        pytest.skip("the real files are not at hand (../shared/corpus)")
    trace = read(path)
    rows = trace.summaries
    assert heads(trace)["count"].sum() == count
    assert heads(trace).total.sum() == pytest.approx(own, abs=500 * len(heads(trace)))
    assert rows[rows.metric == "CPU total"].total.sum() == pytest.approx(whole, abs=500 * len(heads(trace)))


#: Rows as they are pasted, without headings and rules: of a product on a device, of the CPU alone.
_ON_DEVICE = """\
   cudaLaunchKernel         2.00%      20.000us         2.00%      20.000us       5.000us       0.000us         0.00%       0.000us       0.000us             4
           aten::mm        30.00%     300.000us        39.00%     390.000us     195.000us       3.000ms        75.00%       3.000ms       1.500ms             2
      made_gemm_128         0.00%       0.000us         0.00%       0.000us       0.000us       3.000ms        75.00%       3.000ms       1.500ms             2
"""  # noqa: E501
_ON_CPU = """\
       aten::conv2d         1.00%      10.000us        50.00%     500.000us     250.000us             2
        aten::relu_         5.00%      50.000us         5.00%      50.000us      25.000us             2
"""


def test_rows_without_headings_are_pytorchs_where_averages_are_those_of_their_totals(tmp_path: Path) -> None:
    path = tmp_path / "pasted.txt"
    path.write_text(_ON_DEVICE)
    found = ktrace.read(path).summaries
    kernels = found[found.kind == "kernel"]
    assert kernels[["name", "total", "count"]].values.tolist() == [["made_gemm_128", 3_000_000, 2]]
    assert found[(found.kind == "op")][["name", "total"]].values.tolist() == [["aten::mm", 300_000]]
    assert set(found.metric) == {"duration", "CPU total", "Self CUDA", "CUDA total"}
    path.write_text(_ON_CPU)
    found = ktrace.read(path).summaries
    assert found[found.kind == "op"][["name", "total", "count"]].values.tolist() == [
        ["aten::conv2d", 10_000, 2],
        ["aten::relu_", 50_000, 2],
    ]


@pytest.mark.parametrize(
    "text", [_ON_DEVICE.replace("1.500ms", "1.900ms"), _ON_CPU.replace("2\n", "3\n"), _ON_CPU.splitlines()[0] + "\n"]
)
def test_rows_of_other_averages_arent_pytorchs(text: str, tmp_path: Path) -> None:
    from ktrace.converters.torch_table import probe
    from ktrace.input.source import Source

    path = tmp_path / "pasted.txt"
    path.write_text(text)
    assert probe(Source(str(path)).sample()) is None
