"""The summary tables of Nsight Systems: seed 004, and samples of the other forms."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
from conftest import SAMPLES

from ktrace.converters.nsys_stats import reports
from ktrace.input.detection import detect_sample
from ktrace.input.format import Score, builtin_formats
from ktrace.input.source import Sample
from ktrace.trace import read
from ktrace.trace.trace import Trace

NS = {"s": Decimal(10**9), "ms": Decimal(10**6), "μs": Decimal(1000), "ns": Decimal(1)}


def sample(name: str) -> Trace:
    return read(SAMPLES / "nsys-stats" / name, "nsys-stats")


def seed_rows(path: Path) -> list[list[str]]:
    """The rows of seed 004, by their own look: tabs, and a share in the first cell."""
    lines = path.read_text("utf-8").split("\n")
    return [cells for line in lines if len(cells := line.split("\t")) > 1 and cells[0].endswith("%")]


def in_ns(cell: str) -> Decimal:
    number, unit = cell.split(" ")
    return Decimal(number) * NS[unit]


def test_seed_004_has_the_figures_of_the_issue(seed: Callable[[int], Path]) -> None:
    rows = read(seed(4)).summaries
    first, second = rows[rows.table == 0], rows[rows.table == 1]
    assert (len(first), first["count"].sum(), first.total.sum()) == (201, 37_254, 2_222_021_776)
    assert (len(second), second["count"].sum(), second.total.sum()) == (1, 30, 42_368)
    assert first.scope.map(list).tolist() == [["Name (line 1)"]] * 201
    assert second.scope.map(list).tolist() == [["Name (line 271)"]]
    assert second.name.tolist() == ["triton_poi_fused_clamp_sub_0"]
    assert set(rows.kind) == {"kernel"} and set(rows.unit) == {"ns"}


def test_seed_004_cell_by_cell(seed: Callable[[int], Path]) -> None:
    path = seed(4)
    rows = read(path).summaries
    expected = seed_rows(path)
    assert len(expected) == len(rows) == 202
    for cells, (_, row) in zip(expected, rows.iterrows(), strict=True):
        assert row["name"] == cells[-1].strip()
        assert row["percent"] == float(cells[0].rstrip("%"))
        assert (row["total"], row["count"]) == (float(in_ns(cells[1])), int(cells[2]))
        for field, cell in zip(("avg", "median", "min", "max", "stddev"), cells[3:-1], strict=False):
            assert row[field] == float(in_ns(cell))


def test_seed_004_reports_the_text_between_the_tables(seed: Callable[[int], Path]) -> None:
    path = seed(4)
    report = read(path).report
    lines = path.read_text("utf-8").split("\n")
    text = [line for line in lines[203:270] if line.strip()]
    issue = report.issues["unrecognised"]
    assert issue.rows == len(text) == 61
    assert [where for where, _ in issue.places] == ["lines 206-260", "lines 262-264", "lines 267-269"]
    assert report.reader.balanced() and report.reader.taken == len(lines)


def test_both_spellings_of_micro_and_a_pipe_in_a_name() -> None:
    rows = sample("copy-with-a-traceback-between-tables.tsv").summaries.set_index("name")
    act = rows.loc["void act<silu|gelu>(T1 *, const T1 *)"]
    assert (act.total, act.avg, act["median"], act["min"], act["max"], act.stddev) == (
        750e6,
        750e3,
        749_500,
        700e3,
        1e6,
        12_500,
    )
    assert rows.loc["triton_poi_fused_add_0"].total == 42_500


def test_reports_of_all_sorts() -> None:
    rows = sample("several-reports-one-skipped.txt").summaries
    said = rows.groupby(["kind", "metric", "unit"], dropna=False)["total"].sum().to_dict()
    assert said.pop(("kernel", "duration", "ns")) == 1_500_000 + 500_000
    assert said.pop(("memcpy", "duration", "ns")) == 9_000
    assert said.pop(("memset", "duration", "ns")) == 1_000
    assert said.pop(("api", "duration", "ns")) == 1_000_000
    assert said.pop(("memcpy", "bytes", "MB")) == 12.583
    assert said.pop(("memset", "bytes", "MB")) == 0
    notes = rows[rows.kind == "note"]
    assert notes.name.tolist() == ["SKIPPED: train.sqlite does not contain NV Tools Extension (NVTX) data."]
    assert len(said) == len(notes) == 1
    assert rows[rows.kind == "memcpy"].copy_kind.unique().tolist() == ["HtoD"]
    assert list(rows[rows.kind == "kernel"].scope.iloc[0]) == ["CUDA GPU Kernel Summary (cuda_gpu_kern_sum)"]


def test_old_headings_are_in_the_unit_of_their_title() -> None:
    trace = sample("old-headings-without-median.txt")
    rows = trace.summaries
    assert rows.kind.tolist() == ["kernel", "kernel", "memcpy", "api", "memcpy"]
    assert rows.unit.tolist() == ["ns", "ns", "ns", "ns", "B"]
    assert rows["max"].tolist() == [2500, 2000, 1536, 30_000, 8 * 1024]
    assert rows["median"].isna().all() and rows.stddev.isna().all()
    assert not trace.report.issues


def test_sizes_in_the_unit_of_their_title_or_in_none(tmp_path: Path) -> None:
    """As of 2021: "by size in KiB"; without a title the sizes of a table have no unit, but aren't times."""
    table = (
        "     Total       Operations     Average     Minimum     Maximum        Operation\n"
        " --------------  ----------  ------------  ----------  ----------  ------------------\n"
        "      1,536.000           2       768.000     512.000   1,024.000  [CUDA memcpy HtoD]\n"
    )
    (tmp_path / "a.txt").write_text(f"CUDA Memory Operation Statistics (by size in KiB):\n\n{table}")
    (tmp_path / "b.csv").write_text(
        "Total,Operations,Average,Minimum,Maximum,Operation\n9.5,2,4.75,1,8.5,[CUDA memset]\n"
    )
    rows = read(tmp_path / "a.txt").summaries
    assert rows[["metric", "unit", "total", "avg", "max"]].values.tolist() == [
        ["bytes", "B", 1536 * 1024.0, 768 * 1024.0, 1024 * 1024.0]
    ]
    rows = read(tmp_path / "b.csv").summaries
    assert rows[["kind", "metric", "total"]].values.tolist() == [["memset", "bytes", 9.5]]
    assert rows["unit"].isna().all()


def test_csv_with_grids_and_the_reports_named_in_the_preamble() -> None:
    rows = sample("comma-separated-behind-a-preamble.csv").summaries
    assert rows.name.tolist() == ["void k<int, float>(int, float *)", "plain_kernel", ":step"]
    assert rows.kind.tolist() == ["kernel", "kernel", "range"]
    launch = rows[["grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"]]
    assert launch.iloc[0].tolist() == [64, 2, 1, 128, 1, 1]
    assert rows.total.tolist() == [4_500_250, 500_000, 9_000_000]
    assert [scope[0] for scope in rows.scope] == ["cuda_gpu_kern_gb_sum", "cuda_gpu_kern_gb_sum", "nvtx_sum"]
    assert rows.args.tolist()[2] == '{"Style":"PushPop"}'


def test_kernels_by_range_in_a_quotation_and_cells_one_blank_apart() -> None:
    path = SAMPLES / "nsys-stats" / "quoted-ranges-of-kernels-and-single-blanks.txt"
    claims = detect_sample(Sample(path.name, path.read_bytes()), builtin_formats())
    assert claims[0].format == "nsys-stats"
    trace = read(path, "nsys-stats")
    rows = trace.summaries
    assert rows.name.tolist() == ["gemm<float>", "relu_bwd", "void axpy<int>(int, T1 *)", "fill"]
    assert set(rows.kind) == {"kernel"} and set(rows.unit) == {"ns"}
    assert rows.total.tolist() == [8000, 3000, 6000, 2000]
    assert rows["count"].tolist() == [4, 2, 3, 2]
    assert rows.avg.tolist() == [2000, 1500, 2000, 1000]
    assert rows.pid.tolist()[:2] == [41, 41] and rows.tid.tolist()[:2] == [42, 43]
    assert rows.args.tolist()[0] == '{"NVTX Range":":forward","Style":"PushPop","NVTX Inst":2}'
    assert [place for place, _ in trace.report.issues["unrecognised"].places] == ["line 1", "line 12"]


def test_ranges_projected_on_the_device_and_the_execution_of_launches(tmp_path: Path) -> None:
    path = tmp_path / "more.csv"
    path.write_text(
        "Processing [r.sqlite] with [/x/nvtx_gpu_proj_sum.py]...\n"
        "Range,Style,Total Proj Time (ns),Total Range Time (ns),Range Instances,Proj Avg (ns),Proj StdDev (ns)\n"
        ":step,PushPop,500,900,10,50.0,1.5\n\n"
        "Processing [r.sqlite] with [/x/cuda_kern_exec_sum.py]...\n"
        "PID,TID,DevId,Count,QCount,AAvg (ns),QAvg (ns),KAvg (ns),KMax (ns),TAvg (ns),API Name,Kernel Name\n"
        "7,8,1,20,19,5000.0,100.0,2000.0,2500,8000.0,cudaLaunchKernel,gemm\n"
    )
    trace = read(path, "nsys-stats")
    step, gemm = (row for _, row in trace.summaries.iterrows())
    assert (step["kind"], step["total"], step["count"], step["avg"], step["stddev"]) == ("range", 500, 10, 50, 1.5)
    assert (gemm["kind"], gemm["name"], gemm["device"], gemm["count"]) == ("kernel", "gemm", 1, 20)
    assert (gemm["avg"], gemm["max"], gemm["unit"]) == (2000, 2500, "ns")
    assert not trace.report.issues


def test_a_heading_that_nsys_does_not_have_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "new.tsv"
    path.write_text("Time\tTotal Time\tInstances\tWarps\tName\n1.0%\t2 ns\t3\t4\tk\n")
    trace = read(path, "nsys-stats")
    assert trace.report.issues["unknown-column"].places == [("line 1", "Warps")]
    assert trace.summaries.args.tolist() == ['{"Warps":4}']


@pytest.mark.parametrize(
    ("row", "kind", "detail"),
    [("1.0%\t2 ns\t3\t", "bad-record", "no name"), ("1.0%\tmany\tsome\tk", "unrecognised", "")],
)
def test_a_row_without_a_name_or_figures_is_left_out(tmp_path: Path, row: str, kind: str, detail: str) -> None:
    path = tmp_path / "bad.tsv"
    path.write_text(f"Time\tTotal Time\tInstances\tName\n{row}\n2.0%\t1 ns\t1\tlast\n")
    trace = read(path, "nsys-stats")
    assert trace.summaries.name.tolist() == ["last"]
    assert trace.report.issues[kind].places == [("line 2", detail)]


@pytest.mark.parametrize(
    "text",
    [
        '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n"k",1,2,2,100\n',
        '"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"\n,%,s,,us,us,us,\n"GPU activities",1,2,3,4,5,6,"k"\n',
        "| Kernel | Total Time (ms) | Count |\n|---|---|---|\n| k | 1 | 2 |\n",
    ],
)
def test_tables_of_others_are_not_claimed(text: str) -> None:
    claims = detect_sample(Sample("x.txt", text.encode()), builtin_formats())
    claimed = [claim.format for claim in claims if claim.score > Score.NEAR]
    assert claimed and "nsys-stats" not in claimed


def test_a_title_is_looked_for_once_however_many_tables_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []

    class Title:
        @staticmethod
        def search(line: str) -> None:
            looked_at.append(line)

    monkeypatch.setattr(reports, "_TITLE", Title)
    table = '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n"k",3,3000,1000,10.5\n\n'
    of_nobody = Sample("some.csv", (table * 20).encode())
    assert reports.recognised(of_nobody, of_nobody.text or "") is None
    assert looked_at == of_nobody.lines
