"""Any table with names and times."""

from __future__ import annotations

import csv
import json
import random
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pytest
from conftest import SAMPLES, SHARED

from ktrace.converters.table import NAMES, probe, recognise
from ktrace.input.detection import detect_sample
from ktrace.input.format import Score, builtin_formats
from ktrace.input.source import Sample, Source
from ktrace.kit.text.headings import FIGURES
from ktrace.kit.text.tables import find_tables
from ktrace.trace import read
from ktrace.trace.trace import Trace


def sample(name: str) -> Trace:
    return read(SAMPLES / "table" / name, "table")


def real(name: str) -> Path:
    path = SHARED / "corpus" / name
    if not path.exists():
        pytest.skip("the real files are not at hand (../shared/corpus)")
    return path


def one(tmp_path: Path, text: str) -> Trace:
    path = tmp_path / "some.txt"
    path.write_text(text, "utf-8")
    return read(path, "table")


def test_pipes_in_names() -> None:
    rows = sample("pipes-in-names-and-a-table-without-times.md").summaries
    assert rows.name.tolist() == ["add|mul", "`f(a || b)` | x", "norm", "gemm", "softmax"]
    assert rows.total.tolist()[:2] == [1_024_500, 500] and rows["count"].tolist()[:3] == [2, 1, 7]
    assert (rows.value.tolist()[3:], rows.p99.tolist()[3:]) == ([2_500_000, 1000], [3_000_000, 2000])


def test_a_table_of_kernels_says_so() -> None:
    rows = sample("pipes-in-names-and-a-table-without-times.md").summaries
    assert rows.kind.tolist() == ["op", "op", "op", "kernel", "kernel"]
    assert [list(scope) for scope in rows.scope][2:4] == [
        ["Bench of my engine", "Decode"],
        ["Bench of my engine", "Kernels"],
    ]


def test_a_table_without_times_is_skipped_with_its_lines() -> None:
    trace = sample("pipes-in-names-and-a-table-without-times.md")
    places = trace.report.issues["unrecognised"].places
    assert [where for where, _ in places] == ["line 3", "lines 13-16"]
    assert trace.summaries.table.tolist() == [0, 0, 0, 2, 2]


def test_a_number_that_stands_out_of_its_column() -> None:
    rows = sample("a-number-stands-out-of-its-column.txt").summaries
    assert rows.name.tolist() == ["conv1 (3x3, 64)", "batch norm", "relu", "fc1", "fc2"]
    assert rows.total.tolist()[:3] == [1_500_000, 500_000, 1_234_567_890]
    assert rows.value.tolist()[3:] == [17, 23]


def test_a_row_of_units() -> None:
    trace = sample("a-row-of-units-and-a-line-between.csv")
    assert trace.events.name.tolist() == ["void k<a, b>(int, int)", '[copy "fast"]']
    assert trace.events.dur.tolist() == [10_250, 1500]
    assert trace.events.ts.tolist() == [500_000_000, 750_000_000]
    assert [where for where, _ in trace.report.issues["unrecognised"].places] == ["line 1", "line 5"]


@pytest.mark.parametrize(
    ("text", "field", "ns"),
    [
        ("Kernel\tTime (ms)\nk\t1.5\n", "value", 1_500_000),
        ("Kernel\tTime\nk\t1.5 ms\n", "value", 1_500_000),
        ("Kernel\tTime (ms)\tCalls\nk\t1.5\t2\n", "total", 1_500_000),
        ("op,duration_us\nk,2\n", "value", 2000),
        ("op;mean latency;GPU (us)\nk;7;2\n", "value", 2000),
        ("| Layer | Avg (s) |\n|---|---|\n| k | 1 |\n", "avg", 10**9),
    ],
)
def test_where_the_time_stands(tmp_path: Path, text: str, field: str, ns: int) -> None:
    rows = one(tmp_path, text).summaries
    assert rows[field].tolist() == [ns] and rows.unit.tolist() == ["ns"]


@pytest.mark.parametrize(
    "text",
    [
        "Name,Value\nspeed,5\n",
        "a b c\nname time\n",
        '{"name": "k", "time (ms)": 5}\n{"name": "k, time (ms)"}\n',
        "| Name | Age |\n|---|---|\n| Ann | 7 |\n",
        "12:00:01 name, time (ms)\nfoo, 5\n",
    ],
)
def test_what_is_no_table_of_times_is_not_claimed(text: str) -> None:
    claims = detect_sample(Sample("some.txt", text.encode()), builtin_formats())
    assert "table" not in [claim.format for claim in claims if claim.score > Score.NEAR]


def test_a_near_miss_says_what_is_missing() -> None:
    claims = detect_sample(Sample("some.csv", b"Kernel,Calls,Duration\nk,1,2\n"), builtin_formats())
    said = {claim.format: claim.reason for claim in claims if claim.score == Score.NEAR}
    assert said["table"] == "the table in line 1 has names, but no unit of time"


@pytest.mark.parametrize(("number", "format"), [(2, "mlc"), (3, "latencyprism"), (4, "nsys-stats")])
def test_a_dialect_wins_over_any_table(seed: Callable[[int], Path], number: int, format: str) -> None:
    claims = detect_sample(Source(str(seed(number))).sample(), builtin_formats())
    assert (claims[0].format, claims[0].score) == (format, Score.DIALECT)
    assert all(claim.score < Score.DIALECT for claim in claims[1:])


def test_real_key_averages() -> None:
    path = real("pytorch_table/key_averages_default.txt")
    rows = read(path, "table").summaries
    lines = path.read_text("utf-8").split("\n")
    expected = [line.split() for line in lines[3:] if "us " in line and "%" in line]
    assert len(rows) == len(expected) == 15
    assert rows.name.tolist()[1] == 'fwd "quoted" \\back\tslash é'
    times = [re.findall(r"([\d.]+)(us|ms) ", line) for line in lines[3:18]]
    ns = [[round(float(number) * {"us": 1000, "ms": 10**6}[unit]) for number, unit in row] for row in times]
    assert rows.total.tolist() == [whole for _, whole, _ in ns] and rows.total.sum() == 5_101_476
    assert rows.avg.tolist() == [average for _, _, average in ns]


def test_real_device_timing_of_unitrace() -> None:
    rows = read(real("intel_unitrace/dpc_gemm_linux_d.txt"), "table").summaries
    assert rows.total.sum() == 97_642_160
    assert rows["count"].tolist() == [4, 12, 4]
    assert rows.kind.tolist() == ["kernel", "memcpy", "memcpy"]
    assert rows.copy_kind.tolist()[1:] == ["HtoD", "DtoH"]
    assert rows.name.tolist()[0].startswith("RunAndCheck(sycl::_V1::queue, std::vector<float,")


def test_real_trace_of_nvprof() -> None:
    rows = read(real("nvprof/gputrace_reduction.csv"), "table").events
    assert (len(rows), rows.dur.iloc[0], rows.ts.iloc[0]) == (404, 167_908_633, 963_765_000)
    assert rows.kind.value_counts().to_dict().keys() == {"kernel", "memcpy", "memset"}


@pytest.mark.parametrize(
    ("headings", "row", "expected"),
    [
        ("Kernel,Calls,Time per call (us)", "k,4,2", {"avg": 2000}),
        ("Kernel,Calls,us/call avg (us)", "k,4,2", {"avg": 2000}),
        ("Kernel,Calls,GPU avg (us)", "k,4,2", {"avg": 2000}),
        ("Kernel,Calls,GPU (us)", "k,4,2", {"GPU (us)": 2}),
        ("Kernel,Calls,Latency (us)", "k,4,2", {"value": 2000}),
        ("Kernel,Calls,Wait time (us),Duration (us)", "k,4,1,2", {"total": 2000, "Wait time (us)": 1}),
        ("Kernel,Calls,Total GPU (us),GPU (us)", "k,4,8,2", {"total": 8000, "GPU (us)": 2}),
        ("Kernel,Calls,Slowest (us),GPU mean (us)", "k,4,8,2", {"max": 8000, "avg": 2000}),
        ("Kernel,Calls,Max of avg (us),GPU mean (us)", "k,4,8,2", {"avg": 2000, "Max of avg (us)": 8}),
        ("Kernel,GPU (us),Size", "k,2,512", {"value": 2000, "Size": 512}),
    ],
)
def test_a_heading_decides_by_its_words(tmp_path: Path, headings: str, row: str, expected: dict[str, float]) -> None:
    found = one(tmp_path, f"{headings}\n{row}\n").summaries
    figures = {field: found[field][0] for field in FIGURES if field in found and pd.notna(found[field][0])}
    args = json.loads(found.args[0]) if "args" in found and isinstance(found.args[0], str) else {}
    assert figures | args == expected


def test_starts_and_durations_are_a_timeline() -> None:
    trace = sample("starts-of-an-accelerator-quoted-with-tabs.csv")
    rows = trace.events
    assert rows.name.tolist() == ["MatMul12", "hcom_allReduce_7", "Cast3", "zeCommandListAppendMemoryCopy(D2M)", "Add1"]
    assert rows.ts.tolist() == [
        *(1_699_529_622_790_614_812, 1_699_529_622_793_969_500, 1_699_529_622_793_969_501),
        *(1_699_529_622_800_000_000, 1_699_529_622_900_000_001),
    ]
    assert rows.dur.tolist() == [607_980, 308_926_680, 1, 5000, 0]
    assert rows.stream.tolist()[:1] + rows.stream.tolist()[2:] == [16, 16, 3, 16]
    assert pd.isna(rows.stream[1]) and rows.kind.tolist() == ["kernel"] * 3 + ["memcpy", "kernel"]
    assert rows.copy_kind[3] == "DtoH"
    assert json.loads(rows.args[0]) == {
        **{"Task ID": 1259, "Accelerator Core": "AI_CORE", "Wait Time(us)": 0.5, "Input Shapes": '"512,512"'},
    }
    issues = {kind: issue.places for kind, issue in trace.report.issues.items()}
    assert issues.keys() == {"bad-record", "negative-duration", "rounded", "time-range"}
    assert issues["bad-record"] == [("line 8", "no start")]
    assert issues["time-range"] == [("line 6", "9007199254740993000 ns")]  # beyond 2^53 µs


def test_starts_and_ends(tmp_path: Path) -> None:
    rows = one(tmp_path, "Name\tBegin (ms)\tEnd (ms)\tTID\nstep\t1.5\t4.25\t77\n").events
    assert (rows.ts[0], rows.dur[0], rows.tid[0], rows.kind[0]) == (1_500_000, 2_750_000, 77, "op")


def test_starts_without_a_unit_are_no_timeline(tmp_path: Path) -> None:
    trace = one(tmp_path, "Name,Start,Duration (us)\nk,5,2\n")
    assert len(trace.events) == 0 and trace.summaries.value.tolist() == [2000]


def test_real_kernel_details_of_ascend() -> None:
    path = real("ascend/kernel_details.csv")
    rows = read(path, "table").events
    with path.open(encoding="utf-8", newline="") as file:
        expected = list(csv.DictReader(file))
    assert rows.ts.tolist() == [int(Decimal(row["Start Time(us)"].strip()) * 1000) for row in expected]
    assert rows.dur.tolist() == [int(Decimal(row["Duration(us)"].strip()) * 1000) for row in expected]
    assert rows.stream.dropna().tolist() == [int(row["Stream ID"]) for row in expected if row["Stream ID"] != "N/A"]
    assert json.loads(rows.args[0])["Input Shapes"] == expected[0]["Input Shapes"]


def test_a_drawn_box_marks_of_markdown_and_a_total() -> None:
    rows = sample("a-drawn-box-marks-of-markdown-and-totals.md").summaries
    assert rows.name.tolist() == ["gemm", "softmax", "decode", "prefill", "Total"]
    assert rows.kind.tolist() == ["op", "op", "op", "op", "total"]
    assert rows.total.tolist() == [1_500_000, 500_000, 3_250_000, 1_750_000, 5_000_000]
    assert rows["count"].tolist() == [3, 2, 4, 1, 5]
    assert rows.percent.tolist() == [75, 25, 65, 35, 100]


#: How the headings and cells of a row are written in a line.
DIALECTS: dict[str, Callable[[list[str]], str]] = {
    "pipes": lambda cells: f"| {' | '.join(cells)} |",
    "bare pipes": " | ".join,
    "box": lambda cells: f"│ {' │ '.join(cells)} │",
    "tabs": "\t".join,
    "commas": ",".join,
    "semicolons": "; ".join,
    "spaces": lambda cells: "".join(cell.ljust(24) for cell in cells),
    "dashes": lambda cells: " ".join(cell.ljust(20)[:20] for cell in cells),
    "words": " ".join,
}
SPELLINGS: tuple[Callable[[str], str], ...] = (
    str,
    str.title,
    str.upper,
    lambda name: name.replace(" ", "_"),
    lambda name: name.title().replace(" ", ""),
    lambda name: f'"{name}"',
    lambda name: f"**{name}**",
    lambda name: f"{name}.",
    lambda name: f"{name} (ns)",
)
HEADINGS = ("Time (ms)", "total_time_us", "AvgNs", "Time", "Latency", "dur(ps)", "elapsed sec", "Calls", "Grid", "%")
PREFIXES = (
    "",
    "> ",
    "[rank0]: ",
    "[1,0]<stdout>:",
    "2026-05-08 14:05:14,123 INFO ",
    "[05/08/2026-14:05:14] [I] ",
    "// ",
)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_probe_finds_what_a_reading_finds(dialect: str) -> None:
    """It looks at lines that can be headings only; a reading of the whole text knows no such short cut."""
    chance, line = random.Random(dialect), DIALECTS[dialect]
    found = 0
    for _ in range(300):
        others = chance.randint(1, 5)
        heads = [chance.choice(SPELLINGS)(chance.choice(NAMES)), *chance.choices(HEADINGS, k=others)]
        chance.shuffle(heads)
        unit = chance.choice(["", " ms", "us"])
        prefix = chance.choice(PREFIXES)
        above = chance.choices(["some words", "## Title", "", "kernel 1.2 ms", "name: x"], k=chance.randint(0, 2))
        rule = "|---" * (others + 1) + "|" if "pipes" in dialect else " ".join(["-" * 20] * (others + 1))
        rows = [line(heads), *chance.choice(([rule], []))]
        rows += [line(["gemm", *(f"{chance.random():.2f}{unit}" for _ in range(others))])] * chance.randint(0, 3)
        sample = Sample("x", "\n".join([*above, *(prefix + row for row in rows), ""]).encode())
        match, table = probe(sample), next(find_tables(sample, recognise), None)
        assert (match is not None and match.score is Score.SHAPE) is (table is not None), sample.text
        if table and match:
            assert f"(line {table.line})" in match.reason
            found += 1
    assert 30 < found < 300


def test_a_start_that_is_called_t0_is_no_duration(tmp_path: Path) -> None:
    trace = one(tmp_path, "Kernel,t0 (us),Δ (us),queue\nk,4,2,3\n")
    assert (trace.events.ts[0], trace.events.dur[0], trace.events.stream[0]) == (4000, 2000, 3)
    trace = one(tmp_path, "Kernel,t0 (us),Latency (us)\nk,4,2\n")
    assert trace.events.dur.tolist() == [2000]


def test_figures_and_times_that_are_named_by_their_unit(tmp_path: Path) -> None:
    trace = one(tmp_path, "name,total_ns,total_perc,counts,mean_ns,std_ns\nsubmit,48213004,3.5,600,80355,18422\n")
    found = trace.summaries[["kind", "name", "total", "count", "avg", "stddev", "percent"]].to_numpy().tolist()
    assert found == [["op", "submit", 48213004, 600, 80355, 18422, 3.5]]
    trace = one(tmp_path, "name,ns_since_start,exec_time_ns,thread\nsubmit,1000100,20150,7\ndecode,1003000,4007,9\n")
    assert trace.events[["kind", "name", "ts", "dur", "tid"]].to_numpy().tolist() == [
        ["op", "submit", 1000100, 20150, 7],
        ["op", "decode", 1003000, 4007, 9],
    ]
