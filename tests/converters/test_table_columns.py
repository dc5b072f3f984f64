"""Which columns of a table have the names and the times is decided by the whole table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ktrace.converters.table import probe
from ktrace.errors import KtraceError, UnknownFormat
from ktrace.input.format import Score
from ktrace.input.source import Sample
from ktrace.trace import read
from ktrace.trace.trace import Trace

#: Headings of names that scripts and tools write.
NAMES = (
    *("GPU kernel", "CUDA Kernel", "Kernel Function", "Dispatch", "Pass", "OpType", "Layer type", "Module", "Action"),
    *("Function", "Shader", "Task", "Stage", "Section", "Block", "Test", "Config", "Workload", "Variant", "Primitive"),
    *("Algorithm", "Collective", "Job", "Query", "Item", "", "impl", "name of the kernel"),
)


def of(text: str, tmp_path: Path, name: str = "table.txt") -> Trace:
    path = tmp_path / name
    path.write_text(text, "utf-8")
    return read(path)


def figures(trace: Trace, *columns: str) -> list[list[Any]]:
    return [
        [None if pd.isna(cell) else cell for cell in row]
        for row in trace.summaries.reindex(columns=list(columns)).to_numpy().tolist()
    ]


@pytest.mark.parametrize("heading", NAMES)
@pytest.mark.parametrize(
    "rows",
    [
        "| {} | Calls | Total (ms) |\n|---|---|---|\n| gemm | 10 | 100.0 |\n| softmax | 5 | 0.25 |\n",
        "{},Calls,Total (ms)\ngemm,10,100.0\nsoftmax,5,0.25\n",
        "{:<20}  Calls  Total (ms)\ngemm                     10       100.0\nsoftmax                   5        0.25\n",
        "{:<20}  Calls   Total\n{:-<20}  -----  ------\ngemm                     10  100 ms\n"
        "softmax                   5  250 us\n",
        "+---------+-------+-------+\n| {} | Calls | Total (ms) |\n+---------+-------+------+\n"
        "| gemm    | 10    | 100.0 |\n| softmax | 5     | 0.25  |\n+---------+-------+-------+\n",
    ],
    ids=["markdown", "csv", "spaces", "dashes", "box"],
)
def test_names_are_known_by_their_cells(heading: str, rows: str, tmp_path: Path) -> None:
    trace = of(rows.format(heading, ""), tmp_path)
    assert figures(trace, "name", "count", "total") == [["gemm", 10, 1e8], ["softmax", 5, 250_000]]


def test_the_most_distinct_texts_are_the_names(tmp_path: Path) -> None:
    text = "dtype,impl,shape,time_us\nf16,gemm_a,64x64,4.8\nf16,gemm_b,64x64,4.9\nf16,gemm_c,64x64,5\n"
    assert figures(of(text, tmp_path), "name", "value") == [["gemm_a", 4800], ["gemm_b", 4900], ["gemm_c", 5000]]


def test_numbers_are_no_names_whatever_their_heading_says(tmp_path: Path) -> None:
    text = "Layer,Type of it,Time (ms)\n0,conv,1.5\n1,relu,0.5\n"
    assert figures(of(text, tmp_path), "name", "value") == [["conv", 1.5e6], ["relu", 500_000]]


@pytest.mark.parametrize(
    "text",
    [
        "Loading the weights   done   at 12.5 s\nRunning the model     done   at 14.5 s\nall of it  done  3 s\n",
        "epoch 1 | loss 2.5 | 3.2 s\nepoch 2 | loss 2.1 | 3.1 s\nepoch 3 | loss 1.9 | 3.3 s\n",
        "step,loss\n1,2.5\n2,2.25\n",
        "2026-01-01 10:00:00 start of the run, took 3 ms\n2026-01-01 10:00:01 end of it, took 5 ms\n",
        "name: x\nvalue: 3 ms\nother: 4 ms\n",
    ],
)
def test_lines_of_a_log_are_no_table(text: str) -> None:
    match = probe(Sample("some.txt", text.encode()))
    assert match is None or match.score == Score.NEAR


@pytest.mark.parametrize(
    ("headings", "kind"),
    [
        *(("Name,GPU time (us)", "kernel"), ("Name,CUDA total (us)", "kernel"), ("Pass,gpu_ms", "kernel")),
        *(("GPU op,Time (us)", "kernel"), ("Shader,Time (us)", "kernel"), ("Kernel,Time (us)", "kernel")),
        *(("Name,CPU time (us)", "op"), ("Name,Time (us)", "op"), ("Kernel,CPU time (us)", "op")),
    ],
)
def test_the_time_of_a_gpu_is_device_work(headings: str, kind: str, tmp_path: Path) -> None:
    assert of(f"{headings}\ngemm,12.5\nrelu,7\n", tmp_path).summaries.kind.tolist() == [kind, kind]


def test_of_two_times_that_of_the_device_is_the_rows(tmp_path: Path) -> None:
    for headings, row in (("op,cpu_ms,gpu_ms", "a,0.1,1.25"), ("op,gpu_ms,cpu_ms", "a,1.25,0.1")):
        trace = of(f"{headings}\n{row}\n{row.replace('a', 'b')}\n", tmp_path)
        assert figures(trace, "kind", "name", "value") == [["kernel", "a", 1.25e6], ["kernel", "b", 1.25e6]]
        assert '"cpu_ms":0.1' in trace.summaries.args[0] and trace.summaries.device.isna().all()


def test_of_two_totals_that_of_the_device_is_the_rows(tmp_path: Path) -> None:
    text = "Name,CPU total (us),CUDA total (us),Calls\na,5,50,2\nb,6,60,3\n"
    found = figures(of(text, tmp_path), "kind", "name", "total", "count")
    assert found == [["kernel", "a", 50_000, 2], ["kernel", "b", 60_000, 3]]


def test_the_only_time_beside_a_start_is_the_duration_unless_it_says_otherwise(tmp_path: Path) -> None:
    rows = of("pass,start_ms,gpu_ms\na,1,2\nb,3,4\n", tmp_path).events
    assert rows[["kind", "ts", "dur"]].to_numpy().tolist() == [
        ["kernel", 1_000_000, 2_000_000],
        ["kernel", 3_000_000, 4_000_000],
    ]
    with pytest.raises(UnknownFormat):
        of("pass,start_ms,wait_ms\na,1,2\nb,3,4\n", tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "Benchmark,Samples,GPU Time (sec)\ncopy,1000,7e-06\nscan,1000,9e-06\n",
        "Benchmark              Time         Iterations\ncopy                7 us               1000\n"
        "scan                9 us               1000\n",
        "| impl | runs | us/call |\n|---|---|---|\n| copy | 1000 | 7 |\n| scan | 1000 | 9 |\n",
    ],
)
def test_averages_are_no_totals(text: str, tmp_path: Path) -> None:
    assert figures(of(text, tmp_path), "name", "avg", "total", "value", "count") == [
        ["copy", 7000, None, None, 1000],
        ["scan", 9000, None, None, 1000],
    ]


@pytest.mark.parametrize(
    ("headings", "rows", "field", "expected"),
    [
        ("Kernel,Calls,Time (us),%", "a,10,5,50\nb,3,10,30\nc,20,1,20\n", "avg", [5000, 10_000, 1000]),
        ("Kernel,Calls,Time (us),%", "a,10,5,31\nb,3,10,63\nc,20,1,6\n", "total", [5000, 10_000, 1000]),
        ("Kernel,Time (us),Busy (us),%", "a,5,50,50\nb,10,30,30\nc,1,20,20\n", "total", [50_000, 30_000, 20_000]),
        ("Kernel,Time (us),Busy (us),%", "a,50,5,50\nb,30,9,30\nc,20,1,20\n", "value", [50_000, 30_000, 20_000]),
    ],
)
def test_shares_tell_which_time_is_the_total(
    headings: str, rows: str, field: str, expected: list[int], tmp_path: Path
) -> None:
    assert of(f"{headings}\n{rows}", tmp_path).summaries[field].tolist() == expected


@pytest.mark.parametrize("heading", ["%", "Total (%)", "Pct", "GPU %", "% of total time", "Share (%)", "percentage"])
def test_a_column_of_shares(heading: str, tmp_path: Path) -> None:
    trace = of(f"Kernel,Total (ms),{heading}\na,1,25\nb,3,75\n", tmp_path)
    assert figures(trace, "name", "total", "percent") == [["a", 1e6, 25], ["b", 3e6, 75]]


@pytest.mark.parametrize("heading", ["Cumulative %", "Occupancy (%)", "L2 hit %", "SM util %"])
def test_other_percentages_are_no_shares(heading: str, tmp_path: Path) -> None:
    trace = of(f"Kernel,Total (ms),{heading}\na,1,25\nb,3,75\n", tmp_path)
    assert figures(trace, "total", "percent") == [[1e6, None], [3e6, None]]


def test_a_time_beside_start_and_end_is_a_time_stamp(tmp_path: Path) -> None:
    text = "Name,Time (ms),Start (ms),End (ms)\ngemm,1000.5,1000.5,1002.5\nsoftmax,1003.0,1003.0,1003.5\n"
    rows = of(text, tmp_path).events
    assert rows.dur.tolist() == [2_000_000, 500_000] and rows.ts.tolist() == [1_000_500_000, 1_003_000_000]
    text = "Name,Time (ms),Start (ms),End (ms)\ngemm,2,1000.5,1002.5\nsoftmax,0.5,1003.0,1003.5\n"
    assert of(text, tmp_path).events.dur.tolist() == [2_000_000, 500_000]


def test_surplus_cells_are_no_part_of_a_name(tmp_path: Path) -> None:
    text = "Name,Start (ms),Duration (ms)\ngemm,1.0,2.0\nsoftmax,4.0,0.5,extra,7\nrelu,5.0,0.25,,\nf(a, b),6.0,0.5\n"
    trace = of(text, tmp_path)
    assert trace.events.name.tolist() == ["gemm", "softmax", "relu", "f(a, b)"]
    assert trace.events.dur.tolist() == [2_000_000, 500_000, 250_000, 500_000]


@pytest.mark.parametrize("name", ["Total", "'total'", "**Total**", "TOTAL:", "Total (3 kernels)", "Grand Total"])
def test_a_total_in_any_clothes(name: str, tmp_path: Path) -> None:
    rows = of(f"| Kernel | Total (ms) |\n|---|---|\n| a | 1 |\n| {name} | 1 |\n", tmp_path).summaries
    assert rows.kind.tolist() == ["kernel", "total"]


TREES = {
    "markdown": "| Name | Time (ms) |\n|---|---|\n| model | 10 |\n|   layer1 | 6 |\n"
    "|     conv | 4 |\n|   layer2 | 3 |\n",
    "branches": "Name               Total (ms)\nmodel                      10\n├─ layer1                   6\n"
    "│  └─ conv                  4\n└─ layer2                   3\n",
    "dashes": "Name               Total (ms)\n-----------------  ----------\nmodel                      10\n"
    "  layer1                    6\n    conv                    4\n  layer2                    3\n",
}


@pytest.mark.parametrize("text", TREES.values(), ids=TREES)
def test_indented_names_are_a_tree_whose_own_times_add_up(text: str, tmp_path: Path) -> None:
    trace = of(text, tmp_path)
    time = "value" if "Time" in text else "total"
    found = trace.summaries[["kind", "name", "metric", time]].to_numpy().tolist()
    assert found == [
        ["op", "model", "duration", 1e6],
        ["metric", "model", "inclusive", 10e6],
        ["op", "layer1", "duration", 2e6],
        ["metric", "layer1", "inclusive", 6e6],
        ["op", "conv", "duration", 4e6],
        ["op", "layer2", "duration", 3e6],
    ]
    scopes = {row["name"]: list(row["scope"])[1:] for row in trace.to_arrow()["summaries"].to_pylist()}
    assert scopes == {"model": [], "layer1": ["model"], "conv": ["model", "layer1"], "layer2": ["model"]}
    assert trace.report.balanced()


@pytest.mark.parametrize(
    "text",
    [
        "|   Name | Time (ms) |\n|---|---|\n| gemm_f16 | 10 |\n|     relu | 6 |\n|      add | 4 |\n",  # to the right
        "| Name | Time (ms) |\n|---|---|\n| gemm | 10 |\n|  relu | 6 |\n| add | 4 |\n",  # by hand
        "| Name | Time (ms) |\n|---|---|\n| gemm | 4 |\n|   relu | 6 |\n| add | 4 |\n",  # more than the one above
    ],
)
def test_other_indents_are_no_tree(text: str, tmp_path: Path) -> None:
    assert set(of(text, tmp_path).summaries.metric) == {"duration"}


@pytest.mark.parametrize(
    "text",
    [
        "# kernel time_ms calls\ngemm 1.5 3\nsoftmax 0.5 2\n",
        "# run 3\n# of today\nkernel,time_ms,calls\ngemm,1.5,3\nsoftmax,0.5,2\n",
        "#  Kernel      Time (ms)   Calls\n1  gemm        1.5        3\n2  softmax     0.5        2\n",
        "[rank0]: Kernel      Time (ms)  Calls\n[rank0]: gemm        1.5            3\n"
        "[rank0]: softmax     0.5            2\n",
        "My run:\n\n```\nKernel      Time (ms)  Calls\ngemm        1.5            3\n"
        "softmax     0.5            2\n```\nSo slow?\n",
        "| Kernel | Time | Calls |\n|---|---|---|\n| | ms | |\n| gemm | 1.5 | 3 |\n| softmax | 0.5 | 2 |\n",
        "|Kernel|Calls|Time|\n|-|-|-|\n|**gemm**|3|**1.5 ms**|\n|softmax|2|500 \u00b5s|\n",
        "Kernel;Zeit (ms);Calls\ngemm;1,5;3\nsoftmax;0,5;2\n",
        "                calls   total_ms\ngemm               3       1.5\nsoftmax            2       0.5\n",
        "Time (ms)  Calls  Kernel\n      1.5      3  gemm\n      0.5      2  softmax\n",
    ],
)
def test_what_people_paste(text: str, tmp_path: Path) -> None:
    rows = of(text, tmp_path).summaries
    times = rows.total.fillna(rows.value)
    assert [rows.name.tolist(), times.tolist(), rows["count"].tolist()] == [
        ["gemm", "softmax"],
        [1_500_000, 500_000],
        [3, 2],
    ]


def test_breaks_in_cells_of_markdown_are_blanks(tmp_path: Path) -> None:
    text = "| Kernel | Time |\n|---|---|\n| gemm<br>(f16) | 1.5 ms |\n| softmax | 1 ms |\n"
    assert of(text, tmp_path).summaries.name.tolist() == ["gemm (f16)", "softmax"]


def variants(trace: Trace) -> dict[str, float]:
    rows = trace.summaries
    assert set(rows.kind) == {"metric"}
    return dict(zip(rows.name, rows.avg, strict=True))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "| test | Ours | Baseline | % |\n|--|--|--|--|\n"
            "| `gemm (2×2)` | 15.0 μs ± 1.1% (14 … 16 μs) | 7.5 μs | 50 |\n",
            {"gemm (2×2), Ours": 15_000, "gemm (2×2), Baseline": 7500},
        ),
        (
            "| M | bf16 ms | vs M=1 | 4-bit ms |\n|--|--|--|--|\n"
            "| 1 | 0.271 | 1.00x | 0.041 |\n| 2 | 0.5 | 2.00x | - |\n",
            {"M 1, bf16 ms": 271_000, "M 1, 4-bit ms": 41_000, "M 2, bf16 ms": 500_000},
        ),
        (
            "Case,before (ms),after (ms),delta (ms)\ndecode,9.5,9.0,-0.5\n",
            {"decode, before (ms)": 9.5e6, "decode, after (ms)": 9e6},
        ),
        (
            "Layer,forward (us),backward (us)\nfc1,10,20\nfc2,11,22\n",  # neither is the time of the layer
            {
                "fc1, forward (us)": 10_000,
                "fc1, backward (us)": 20_000,
                "fc2, forward (us)": 11_000,
                "fc2, backward (us)": 22_000,
            },
        ),
    ],
)
def test_times_of_variants_are_figures_and_not_added_up(text: str, expected: dict[str, float], tmp_path: Path) -> None:
    assert variants(of(text, tmp_path)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Layer,gpu_ms,other_ms\nfc1,10,20\nfc2,11,22\n",  # a time of the device
        "Layer,time_ms,copy_ms\nfc1,10,20\nfc2,11,22\n",  # a plain time
        "Layer,total_ms,min_ms\nfc1,10,2\nfc2,11,2\n",
    ],
)
def test_a_time_that_says_what_it_is_is_no_variant(text: str, tmp_path: Path) -> None:
    rows = of(text, tmp_path).summaries
    assert set(rows.kind) <= {"op", "kernel"} and rows.name.tolist() == ["fc1", "fc2"]


def test_a_time_that_is_another_times_a_count_is_the_total(tmp_path: Path) -> None:
    text = "| kernel | calls/step | µs/call | µs/step |\n|--|--|--|--|\n"
    text += "| a | 279 | 14.83 | 4136.4 |\n| b | 2 | 43 | 86 |\n"
    expected = [["a", 279, 14_830, 4_136_400], ["b", 2, 43_000, 86_000]]
    assert figures(of(text, tmp_path), "name", "count", "avg", "total") == expected
    other = text.replace("86 |", "90 |")  # b contradicts it
    assert figures(of(other, tmp_path), "name", "count", "total") == [["a", None, None], ["b", None, None]]


def test_shares_tell_that_a_time_beside_a_count_is_the_total(tmp_path: Path) -> None:
    text = "Time unit: ms\n----------  -----  --------  ---------\nEvent Type  Calls  CPU Time  Ratio (%)\n"
    text += "----------  -----  --------  ---------\nStep        11     300.0     60.00\n"
    text += "Operator    20     150.0     30.00\nCopy        13     50.0      10.00\n"
    assert figures(of(text, tmp_path), "name", "value") == [["Step", 3e8], ["Operator", 1.5e8], ["Copy", 5e7]]


def test_the_unit_of_one_figure_and_the_count_in_the_name(tmp_path: Path) -> None:
    text = "      Kernel name (count):      min   median     mean      std (ms)\n"
    text += "      copy H->D (    1):    1.475    1.475    1.475    0.000\n"
    text += "           cast ( 1800):    0.001    0.956    1.004    0.452\n"
    expected = [["copy H->D", 1, 1_475_000, 0], ["cast", 1800, 1_004_000, 452_000]]
    assert figures(of(text, tmp_path), "name", "count", "avg", "stddev") == expected


def test_columns_one_blank_apart_are_parted_where_all_lines_are_blank(tmp_path: Path) -> None:
    text = "ID  Op        Type Target Shape        Time(us)  RW\n"
    text += "1   Conv      F16  NPU    (1,3,8,8)    1437      4864\n"
    text += "2   Relu      F16  NPU    (1,3,8,8)    214       512\n"
    assert figures(of(text, tmp_path), "name", "value") == [["Conv", 1_437_000], ["Relu", 214_000]]


def test_rows_alone_have_no_headings() -> None:
    text = "qnn: [ROOT][finalize time] BACKEND : 21427 US\nqnn: [ROOT][HVX threads used]  BACKEND : 4     COUNT\n"
    text += "qnn: [ROOT][execute time]      BACKEND : 3011  US\n"
    found = probe(Sample("some.txt", text.encode()))
    assert found is None or found.score == Score.NEAR


CUT = """Layer ID    Name                  Operator    Time(us)
0           Mobile/Conv2d_0/Relu6     CONV    361
            _perm_60
2           Mobile/Conv2d_0/Relu6     CONV    920
            _2
3           fc                        FC      100
Total Time(us): 1381
"""


def test_a_name_that_was_cut_goes_on_in_the_next_line(tmp_path: Path) -> None:
    rows = of(CUT, tmp_path).summaries
    assert rows.name.tolist() == ["Mobile/Conv2d_0/Relu6_perm_60", "Mobile/Conv2d_0/Relu6_2", "fc"]


def test_a_line_between_rows_is_no_part_of_a_shorter_name(tmp_path: Path) -> None:
    rows = of(CUT.replace("fc  ", "a_name_that_is_longer_than_those"), tmp_path).summaries
    assert "Mobile/Conv2d_0/Relu6" in rows.name.tolist()


def test_two_times_with_one_heading_are_no_variants() -> None:
    text = " time   seconds   seconds    calls  name\n"
    text += " 19.33      0.29     0.29     9999  build\n 17.33      0.55     0.26  9  set\n"
    found = probe(Sample("some.txt", text.encode()))
    assert found is None or found.score == Score.NEAR


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("| ctx | share | decode step |\n|--|--|--|\n| 8k | 19.9 % | 4.29 ms |\n", "has times ('decode step')"),
        ("| Kernel | Time |\n|---|---|\n| gemm | 1.5 |\n", "has names, but no unit of time"),
        ("| Kernel | start | since |\n|--|--|--|\n| gemm | 1.5 ms | 2 ms |\n", "nothing that says which of its times"),
    ],
)
def test_a_refusal_says_what_the_table_has(text: str, said: str) -> None:
    found = probe(Sample("some.md", text.encode()))
    assert found is not None and found.score == Score.NEAR and said in found.reason


def test_lines_with_keys_are_no_headings(tmp_path: Path) -> None:
    for text, is_table in (("a=1ms, b=2, c=3\nd=1ms, b=2, c=3\n", False), ("x,y,z\n1,2,3\n", True)):
        with pytest.raises(UnknownFormat) as error:
            of(text, tmp_path)
        assert ("a table separated by commas" in str(error.value)) is is_table


SHARES = "| Brick | % of compute | Avg µs | {} |\n|---|---|---|---|\n"
SHARES += "| attention | 44.0% | 20.0 | 440 |\n| norm | 18.0% | 4.5 | 800 |\n| rope | 9.0% | 4.5 | 400 |\n"


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("Count/pass", [["op", 20_000, 440], ["op", 4500, 800], ["op", 4500, 400]]),
        ("Registers", [["op", 20_000, None], ["op", 4500, None], ["op", 4500, None]]),
    ],
)
def test_a_count_of_each_pass_is_one(heading: str, expected: list[Any], tmp_path: Path) -> None:
    assert figures(of(SHARES.format(heading), tmp_path, "t.md"), "kind", "avg", "count") == expected


def test_averages_alone_are_figures(tmp_path: Path) -> None:
    text = "| Kernel | Avg (us) |\n|---|---|\n| gemm | 18.2 |\n| norm | 1.5 |\n"
    assert figures(of(text, tmp_path, "t.md"), "kind", "name", "avg") == [
        ["metric", "gemm", 18_200],
        ["metric", "norm", 1500],
    ]
    counted = (
        text.replace("|\n", "| Calls |\n", 1).replace("---|\n", "---|---|\n").replace(" |\n| norm", " | 2 |\n| norm")
    )
    assert figures(of(counted, tmp_path, "u.md"), "kind", "count")[0] == ["kernel", 2]


def test_shares_that_are_those_of_averages_make_them_the_total(tmp_path: Path) -> None:
    text = "| Layer | Avg (ms) | % |\n|---|---|---|\n| a | 5.0 | 50 |\n| b | 3.0 | 30 |\n| c | 2.0 | 20 |\n"
    assert figures(of(text, tmp_path, "t.md"), "name", "value") == [["a", 5e6], ["b", 3e6], ["c", 2e6]]
    other = text.replace("50", "20").replace("| c | 2.0 | 20", "| c | 2.0 | 50")
    assert figures(of(other, tmp_path, "u.md"), "avg", "percent") == [[5e6, 20], [3e6, 30], [2e6, 50]]


def test_parameters_name_what_a_benchmark_measured(tmp_path: Path) -> None:
    text = "| gpu | dtype | size | torch (ms) | ours (ms) | status |\n|---|---|---|---|---|---|\n"
    text += (
        "| A | f16 | 64 | 2.0 | 1.0 | pass |\n| A | f32 | 64 | 3.0 | 2.5 | pass |\n| A | f16 | 128 | 4.0 | ? | pass |\n"
    )
    expected = {
        "dtype f16, size 64, torch (ms)": 2e6,
        "dtype f16, size 64, ours (ms)": 1e6,
        "dtype f32, size 64, torch (ms)": 3e6,
        "dtype f32, size 64, ours (ms)": 2.5e6,
        "dtype f16, size 128, torch (ms)": 4e6,
    }
    assert variants(of(text, tmp_path, "t.md")) == expected


def test_one_time_of_a_single_number_has_no_name() -> None:
    text = "| run | nanoseconds |\n|---|---|\n| 1 | 1234 |\n| 2 | 1230 |\n"
    found = probe(Sample("some.md", text.encode()))
    assert found is None or found.score == Score.NEAR


def test_cells_without_letters_are_no_names(tmp_path: Path) -> None:
    text = "| N | depth | ms/run | load 1/5/15 |\n|---|---|---|---|\n"
    text += "| 256 | 1 | 210 | 3.96 / 4.16 |\n| 320 | 2 | 215 | 3.89 / 4.13 |\n"
    assert set(variants(of(text, tmp_path, "t.md"))) == {"N 256, depth 1, ms/run", "N 320, depth 2, ms/run"}


def test_the_figures_of_one_thing_have_no_names() -> None:
    text = "| Stat | Value (us) |\n|---|---|\n| count | 6 |\n| min | 284 |\n| mean | 303 |\n| p90 | 314 |\n"
    found = probe(Sample("some.md", text.encode()))
    assert found is None or found.score == Score.NEAR


@pytest.mark.parametrize("between", ["", "Sorted by total time\n", "Sorted by total time\nin one thread\n\n"])
def test_a_line_above_states_the_unit(between: str, tmp_path: Path) -> None:
    text = f"Place: GPU\nTime unit: ms\n{between}Event     Calls   Total    Min.   Max.   Ave.\n"
    text += "mul       3       6.0      1.0    3.0    2.0\nsoftmax   2       1.0      0.4    0.6    0.5\n"
    expected = [["mul", 3, 6e6, 2e6, 3e6], ["softmax", 2, 1e6, 5e5, 6e5]]
    assert figures(of(text, tmp_path), "name", "count", "total", "avg", "max") == expected


def test_a_number_of_three_groups_shows_that_commas_group(tmp_path: Path) -> None:
    text = "| Op | Total (us) |\n|---|---|\n| a | 594,030 |\n| b | 63,331 |\n"
    with pytest.raises(KtraceError, match="decimal or groups"):
        of(text, tmp_path, "t.md")
    trace = of("Rows: 1,234,567\n\n" + text, tmp_path, "u.md")
    assert figures(trace, "name", "total") == [["a", 594_030_000], ["b", 63_331_000]]


def test_the_same_headings_above_each_row_are_headings(tmp_path: Path) -> None:
    head = "| test | ours | Baseline | % |\n|---|---|---|---|\n"
    text = "".join(
        f"{head}| `gemm {n}` | {n}.0 μs ± 1.1% (1 … 2 μs) | 7 μs ± 1% (6.6 … 7.6 μs) | 45 |\n" for n in (1, 2)
    )
    assert variants(of(text, tmp_path, "t.md"))["gemm 2, ours"] == 2000
    assert len(variants(of(text, tmp_path, "t.md"))) == 4


def test_a_rule_of_one_column_parts_rows(tmp_path: Path) -> None:
    text = (
        "| Model | Th | Load [ms] | Encode [ms] |\n|---|---|---|---|\n| tiny | 4 | 50 | 30 |\n| large | 4 | ? | ? |\n"
    )
    text += "| --- |\n| base | 8 | 96 | 220 |\n"
    assert variants(of(text, tmp_path, "t.md"))["base, Encode [ms]"] == 220e6


def test_a_subtotal_goes_on_in_no_line_below(tmp_path: Path) -> None:
    rule, head = f"    {'-' * 40}\n", "    Operation               Time (ms)    Calls\n"
    text = f"{rule}{head}{rule}    gemm_kernel                 0.274        1\n"
    text += f"{rule}    Subtotal                    0.274\n"
    text += f"    Thread 7 [GPU] - BACKWARD:\n{rule}{head}{rule}    other_kernel                0.243        1\n"
    trace = of(text, tmp_path)
    assert figures(trace, "kind", "name") == [["op", "gemm_kernel"], ["total", "Subtotal"], ["op", "other_kernel"]]


UNITS = """id pass    name                                         time   RAM BW   tensor   RAM rd     inst
                                                          ms     GB/s   core %      GiB    MInst
00 enc×1   encoder_forward_kernel3                      0.06   1220.3      0.0     0.05     8.18
01 fwd×12  layernorm_forward_kernel3                    0.76    948.6      0.0     0.45   209.09
02 fwd×12  ampere_bf16                                  5.53    299.6     79.8     0.50   745.17
03 fwd×12  cudnn_generated_fort_native_sdpa             4.53    390.0     51.6     1.36   976.97
"""


def test_a_row_below_headings_has_hardly_anything_but_units(tmp_path: Path) -> None:
    found = figures(of(UNITS, tmp_path), "name", "value")
    assert [row[1] for row in found] == [60_000, 760_000, 5_530_000, 4_530_000]
    assert [row[0].split()[-1] for row in found[:2]] == ["encoder_forward_kernel3", "layernorm_forward_kernel3"]
    with pytest.raises(KtraceError):
        of(UNITS.replace("core %", "  fast").replace("GiB", "  2"), tmp_path)


def test_launches_are_a_count(tmp_path: Path) -> None:
    text = "| Kernel | GPU time | Launches |\n|---|---|---|\n| gemm | 21.84 ms | 1760 |\n| norm | 4.26 ms | 880 |\n"
    assert figures(of(text, tmp_path, "t.md"), "name", "count", "total") == [
        ["gemm", 1760, 21.84e6],
        ["norm", 880, 4.26e6],
    ]


VARIANTS_IN = "Results, before and after (µs):\n\n| Op | M | Triton | Eager |\n|---|---|---|---|\n"


def test_the_title_states_the_unit_of_bare_figures_of_variants(tmp_path: Path) -> None:
    text = VARIANTS_IN + "| norm | 128 | 8.5 | 102.25 |\n| norm | 256 | 9.0 | 99.5 |\n| softmax | 128 | 20.75 | 103 |\n"
    expected = {"Op norm, M 128, Triton (µs)": 8500, "Op softmax, M 128, Eager (µs)": 103_000}
    found = variants(of(text, tmp_path, "t.md"))
    assert {name: found[name] for name in expected} == expected
    assert len(found) == 6
    with pytest.raises(KtraceError):
        of(text.replace(" (µs)", ""), tmp_path, "t.md")


@pytest.mark.parametrize(
    ("heads", "cells"),
    [
        (("Speedup", "Relative error"), ("1.5", "0.25")),  # other quantities
        (("Triton", "Speedup"), ("1.5", "2.25")),  # one column: nothing shows that it is what the title means
        (("Triton", "Eager"), ("15", "22")),  # numbers without decimals may be sizes
        (("Triton", "Eager"), ("1.5", "2.5 GB/s")),  # units of their own
        (("Triton", "Eager"), ("1.5", "0.0")),
    ],
)
def test_figures_of_another_quantity_have_not_the_units_of_the_title(
    heads: tuple[str, str], cells: tuple[str, str], tmp_path: Path
) -> None:
    text = VARIANTS_IN.replace("Triton", heads[0]).replace("Eager", heads[1])
    text += "".join(f"| {op} | {m} | {cells[0]} | {cells[1]} |\n" for op, m in (("norm", 1), ("norm", 2), ("add", 1)))
    with pytest.raises(KtraceError):
        of(text, tmp_path, "t.md")


def test_both_sides_of_an_arrow_are_figures_of_a_variant(tmp_path: Path) -> None:
    text = VARIANTS_IN + "| norm | 128 | 8.5 → 6 | 4.5 → 4.25 |\n| add | 128 | 9.5 → 6.5 | 8.25 |\n"
    assert variants(of(text, tmp_path, "t.md")) == {
        "norm, Triton (µs), before": 8500,
        "norm, Triton (µs), after": 6000,
        "norm, Eager (µs), before": 4500,
        "norm, Eager (µs), after": 4250,
        "add, Triton (µs), before": 9500,
        "add, Triton (µs), after": 6500,
        "add, Eager (µs)": 8250,
    }
    text = "| Op | ours | theirs |\n|---|---|---|\n| a | 8 → 1.5 ms | a → 2 ms |\n| b | 3 us -> 2 us | 7 ms |\n"
    found = variants(of(text, tmp_path, "t.md"))
    assert found == {"a, ours, before": 8e6, "a, ours, after": 1.5e6, "b, ours, before": 3000} | {
        "b, ours, after": 2000,
        "a, theirs": 2e6,
        "b, theirs": 7e6,
    }


def test_a_line_with_a_time_is_no_heading(tmp_path: Path) -> None:
    text = "Kernel A: 12.5 us\nKernel B: 2.5 us\nKernel C: 3.5 us\n"
    found = of(text, tmp_path).summaries
    assert len(found) == 3
    assert sum(found.total) == 18_500


def test_a_range_in_the_unit_of_its_heading(tmp_path: Path) -> None:
    text = "| Component | ms/tok |\n|---|---|\n| experts | 12.5 |\n| logits | 7.5–21.5 |\n| **total** | **20–34** |\n"
    assert figures(of(text, tmp_path, "t.md"), "name", "avg", "min", "max") == [
        ["experts", 12_500_000, None, None],
        ["logits", None, 7_500_000, 21_500_000],
        ["total", None, 20_000_000, 34_000_000],
    ]


def test_averages_of_device_and_host_are_figures_of_both(tmp_path: Path) -> None:
    text = "| | GPU ms/tok | host ms/tok |\n|---|---|---|\n| N=0 | 12.5 | 4.5 |\n| N=8 | 16.5 | 5.5 |\n"
    assert variants(of(text, tmp_path, "t.md")) == {
        "N=0, GPU ms/tok": 12.5e6,
        "N=0, host ms/tok": 4.5e6,
        "N=8, GPU ms/tok": 16.5e6,
        "N=8, host ms/tok": 5.5e6,
    }


def test_shares_of_the_whole_recording_are_none_of_the_table(tmp_path: Path) -> None:
    rows = "| Time (%) | Total time | Calls | Name |\n|---|---|---|---|\n"
    rows += "| 30.00% | 3 ms | 4 | a |\n| 10.00% | 1 ms | 2 | b |\n"
    trace = of("Host activity: calls took 4 ms (40.0% of the trace)\n\n" + rows, tmp_path)
    assert figures(trace, "kind", "name", "total", "percent") == [
        ["total", "total", 4_000_000, None],
        ["op", "a", 3_000_000, None],
        ["op", "b", 1_000_000, None],
    ]
    assert figures(of("Calls took 4 ms\n\n" + rows, tmp_path), "percent") == [[30], [10]]


def test_a_sentence_is_no_table_that_lacks_something(tmp_path: Path) -> None:
    text = "- `a` goes from 3 to 68 ms between\n  short and long runs; the\n  stages of it stay at 1-2 ms  at 2k\n"
    with pytest.raises(UnknownFormat) as error:
        of(text, tmp_path, "a.txt")
    assert "nearest" not in str(error.value)


def test_no_mapping_of_shares_to_times_is_shown(tmp_path: Path) -> None:
    text = "| kernel | {} | registers |\n|---|---|---|\n| a | {} | 60 |\n| b | {} | 24 |\n"
    with pytest.raises(UnknownFormat) as shares:
        of(text.format("cost", "67.5%", "6.5%"), tmp_path, "t.md")
    with pytest.raises(UnknownFormat) as numbers:
        of(text.format("cost", "67.5", "6.5"), tmp_path, "t.md")
    assert "value=" not in str(shares.value.remedy)
    assert "value=cost:ms" in str(numbers.value.remedy)


def test_the_words_of_a_heading_in_several_lines_are_apart(tmp_path: Path) -> None:
    text = "| Kernel | Calls | Total |\n|        |       | time  |\n|        |       | (ms)  |\n"
    text += "|--------|-------|-------|\n"
    trace = of(text + "| a      | 10    | 12.5  |\n| b      | 2     | 2.5   |\n", tmp_path, "t.md")
    assert figures(trace, "name", "count", "total") == [["a", 10, 12.5e6], ["b", 2, 2.5e6]]


def test_a_line_right_above_a_table_says_of_which_run_it_is(tmp_path: Path) -> None:
    table = "| Kernel | Calls | Total (ms) |\n|---|---|---|\n| a | 10 | {} |\n| b | 2 | 2.5 |\n\n"
    trace = of("Before:\n\n" + table.format(12.5) + "After this change:\n\n" + table.format(8.5), tmp_path, "t.md")
    assert [[list(scope), name] for scope, name in figures(trace, "scope", "name")] == [
        [["Before"], "a"],
        [["Before"], "b"],
        [["After this change"], "a"],
        [["After this change"], "b"],
    ]
    trace = of("Before:\n\nSomething else\n\n" + table.format(12.5), tmp_path, "t.md")
    assert list(trace.summaries.scope.iloc[0]) == ["Kernel (line 5)"]


def test_headings_end_behind_their_units(tmp_path: Path) -> None:
    text = "Kernel          Avg(ms) Min(ms) Max(ms)  Calls\nconv_first      0.5     0.25    1.5      3\n"
    text += "relu            0.125   0.125   0.5      4\n"
    assert figures(of(text, tmp_path), "name", "avg", "min", "max", "count") == [
        ["conv_first", 500_000, 250_000, 1_500_000, 3],
        ["relu", 125_000, 125_000, 500_000, 4],
    ]
    text = text.replace("Calls", "clAvg(ms) clMin(ms)").replace("3\n", "0.5   0.5\n").replace("4\n", "0.25   0.5\n")
    with pytest.raises(UnknownFormat, match="nothing that says which of its times"):  # statistics of two things
        of(text, tmp_path)


@pytest.mark.parametrize(("name", "adds_up"), [("ours, `sort`", False), ("baseline", False), ("hours", True)])
def test_rows_that_are_compared_add_up_to_nothing(name: str, adds_up: bool, tmp_path: Path) -> None:
    text = f"| | calls | total ms |\n|---|---|---|\n| {name} | 10 | 12.5 |\n| other, `sort` | 20 | 2.5 |\n"
    assert set(of(text, tmp_path, "t.md").summaries.kind) == {"op" if adds_up else "metric"}


def test_a_first_row_without_figures(tmp_path: Path) -> None:
    text = "| Size | naive    | tiled    |\n|---|---|---|\n| 1e5  | WIP      | WIP      |\n"
    text += "| 1e6  | 3.50ms    | 0.5ms* |\n| 1e7  | 36.50ms    | WIP |\n"  # and none of ncnn's layers
    assert variants(of(text, tmp_path, "t.md")) == {
        "Size 1e6, naive": 3.5e6,
        "Size 1e6, tiled": 0.5e6,
        "Size 1e7, naive": 36.5e6,
    }
