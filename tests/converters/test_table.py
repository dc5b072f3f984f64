"""Any table with names and times."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import SAMPLES, SHARED

from ktrace.converters._shared.tables import find_tables
from ktrace.converters.table.columns import NAMES, fits
from ktrace.converters.table.probe import probe
from ktrace.detection import detect_sample
from ktrace.format import Score, builtin_formats
from ktrace.source import Sample, Source
from ktrace.trace import Trace, read


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
    assert trace.summaries.name.tolist() == ["void k<a, b>(int, int)", '[copy "fast"]']
    assert trace.summaries.value.tolist() == [10_250, 1500]
    assert [json.loads(text)["Start (s)"] for text in trace.summaries.args] == [0.5, 0.75]
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
    assert (
        rows.total.sum() == 2_436_815 == round(sum(float(cells[-8][:-2]) * 1000 for cells in map(_cells, lines[3:18])))
    )


def _cells(line: str) -> list[str]:
    """The cells of a row of key_averages from the right, those of memory as one."""
    return line.replace(" KB", "KB").replace(" B ", "B ").split()


def test_real_device_timing_of_unitrace() -> None:
    rows = read(real("intel_unitrace/dpc_gemm_linux_d.txt"), "table").summaries
    assert rows.total.sum() == 97_642_160
    assert rows["count"].tolist() == [4, 12, 4]
    assert rows.name.tolist()[0].startswith("RunAndCheck(sycl::_V1::queue, std::vector<float,")


def test_real_trace_of_nvprof() -> None:
    rows = read(real("nvprof/gputrace_reduction.csv"), "table").summaries
    assert (len(rows), rows.value.iloc[0]) == (404, 167_908_633)


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
        match, table = probe(sample), next(find_tables(sample, fits), None)
        assert (match is not None and match.score is Score.SHAPE) is (table is not None), sample.text
        if table and match:
            assert f"(line {table.line})" in match.reason
            found += 1
    assert 30 < found < 300
