"""Console logs of pages: real ones against figures taken from their text, and our samples by hand."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES, SHARED

import ktrace
from ktrace.errors import InputError, UnknownFormat
from ktrace.model.json_text import decoded

MADE = SHARED / "corpus" / "made" / "webgpu_console"
OURS = SAMPLES / "console"


def rows(path: Path, record: str, from_: str | None = None) -> list[dict[str, Any]]:
    """The rows without their nulls."""
    table = ktrace.read(path, from_=from_).to_arrow()[record]
    columns = {name: decoded(table[name]).to_pylist() for name in table.column_names}
    return [{name: values[i] for name, values in columns.items() if values[i] is not None} for i in range(len(table))]


def real(name: str) -> Path:
    path = MADE / name
    if not path.exists():
        pytest.skip("the real log is not at hand (../shared/corpus/made/webgpu_console)")
    return path


def test_a_page_with_its_own_kernels() -> None:
    path = real("page_kernels.log")
    printed = re.findall(r"kernel=(\w+) begin=(\d+) end=(\d+) gpu_ms=([\d.]+) grid=(\d+)x", path.read_text())
    found = rows(path, "events")
    assert [(row["name"], row["ts"], row["dur"], row["grid_x"]) for row in found] == [
        (name, int(begin), int(end) - int(begin), int(grid)) for name, begin, end, _, grid in printed
    ]
    assert {(row["kind"], row["device"]) for row in found} == {("kernel", 0)}
    assert len(found) == 15
    assert sum(Decimal(str(json.loads(row["args"])["gpu_ms"])) for row in found) == Decimal("93.4001")
    totals = [row["total"] for row in rows(path, "summaries") if row["kind"] == "total"]
    assert totals == [45_691_500, 33_914_200, 13_794_400]
    assert ktrace.read(path).report.issues["unrecognised"].rows == 2


def test_a_page_with_tensorflow_js() -> None:
    path = real("tfjs_webgl.log")
    text = path.read_text()
    profile = json.loads(re.findall(r"\[tfjs\] (\{.*\"kernels\".*)", text)[0])["kernels"]
    debug = re.findall(r"^%c(\w+) *\t%c([\d.]+)ms", text, re.MULTILINE)
    assert (len(profile), len(debug)) == (4, 4)
    found = [row for row in rows(path, "summaries") if row["kind"] == "kernel"]
    expected = [(kernel["name"], kernel["kernelTimeMs"]) for kernel in profile] + [(n, float(ms)) for n, ms in debug]
    assert [row["name"] for row in found] == [name for name, _ in expected]
    assert [row["total"] for row in found] == pytest.approx([ms * 1e6 for _, ms in expected], rel=1e-15)
    assert json.loads(found[0]["args"])["inputShapes"] == profile[0]["inputShapes"]
    assert ktrace.read(path).report.issues["unrecognised"].rows == 8


def test_forms_of_lines() -> None:
    path = OURS / "webgpu-page-of-many-forms.log"
    found = rows(path, "summaries")
    assert [(row["kind"], row["name"], row.get("scope"), row["total"]) for row in found] == [
        ("total", "total", ["gpu"], 2_000_000),
        ("kernel", "softmax", ["gpu"], 123_456),
        ("kernel", "pass:blur", ["pass:blur"], 1_234_500),
        ("range", "upload", None, 1_250_000),
        ("range", "console.time", None, 3_000_000),
        ("range", "compile pipelines", None, 750_000_000),
        ("range", "load model", None, 62_345_000_000),
        ("range", "decode", None, 3_602_500_000_000),
        ("range", "readback", None, 250_000),
        ("range", "frame", None, 16_500_000),
        ("kernel", "apart", None, 400_000_000),
    ]
    report = ktrace.read(path).report
    counts = {kind: issue.rows for kind, issue in report.issues.items()}
    assert counts == {"unrecognised": 3, "negative-duration": 2, "rounded": 1}


def test_both_ends_make_an_event_in_the_unit_that_agrees_with_the_duration() -> None:
    found = rows(OURS / "webgpu-page-of-many-forms.log", "events")
    assert [(row["name"], row["ts"], row["dur"]) for row in found] == [
        ("fill", 5_000_000_123, 500_000),  # ns
        ("matmul", 5_000_600_000, 1_500_000),
        ("main", 12_250_000, 2_500_000),  # ms
        ("odd", 100_000_100, 500_100),
    ]
    assert json.loads(found[1]["args"]) == {"step": 0, "gpu_ms": 1.5, "cpu_ms": 3.25}
    assert json.loads(found[3]["args"])["end"] == 100.5002000001


def test_tables() -> None:
    path = OURS / "tables-of-console-table.txt"
    found = rows(path, "summaries")
    assert [(row["kind"], row["name"], row.get("table"), row["total"], row.get("count")) for row in found] == [
        ("kernel", "matmul_tiled", 0, 12_500_000, 5),
        ("kernel", "softmax", 0, 250_000, 10),
        ("total", "total", 0, 12_750_000, 15),
        ("range", "upload", 1, 1_500_000, None),
        ("range", "draw", 1, 250_000, None),
        ("range", "blur", 2, 500_000, None),
        ("range", "sharpen", 2, 125_000, None),
        ("range", "finish", None, 2_000_000, 1),
    ]
    assert json.loads(found[0]["args"]) == {"(index)": 0, "note": "warm"}
    assert [place for place, _ in ktrace.read(path).report.issues["unrecognised"].places] == ["line 1", "line 18"]


def test_tensorflow_js() -> None:
    path = OURS / "tfjs-profile-and-debug.log"
    found = rows(path, "summaries")
    assert [(row["kind"], row["name"], row["total"]) for row in found] == [
        ("kernel", "MatMul", 1_125_000),
        ("kernel", "Relu", 250_000),
        ("range", "time", 3_750_000),
        ("kernel", "MatMul", 1_500_000.0000004),
        ("kernel", "Relu", 250_000),
    ]
    assert json.loads(found[3]["args"]) == {"output": "2D 4,4", "size": 16, "inputs": "a: 2D 4,8 b: 2D 8,4"}
    assert ktrace.read(path).report.issues["unknown-kind"].places == [
        ("line 2", "1 members of a list without a duration")
    ]


@pytest.mark.parametrize(
    "text",
    [
        "We measured the kernel. It took 3 ms at first.\nLater it took 2 ms.\n" + "The GPU was idle after that.\n" * 30,
        "build: 3.2 s\ntest: 10 s\n",  # no word of a page
        "gpu: fast\nwebgl: slow\nshader: none\n",
        "GPU,ms\na,1\nb,2\n",
        "12:30:01 gpu started\n12:30:02 gpu done\n",
    ],
)
def test_other_text_is_not_claimed(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.txt"
    path.write_text(text)
    assert "console" not in [found.format for found in ktrace.detect(path)]


def test_it_comes_after_every_other_format(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("[gpu] a: 1 ms\n[gpu] b: 2 ms\n")
    assert [found.format for found in ktrace.detect(path)] == ["console"]
    path.write_text("[gpu] a: 1 ms\n[gpu] b: 2 ms\n| Kernel | Time (ms) |\n|---|---|\n| c | 3 |\n")
    assert [found.format for found in ktrace.detect(path)] == ["table", "console"]
    path.write_text("nothing\n")
    with pytest.raises(UnknownFormat):
        ktrace.read(path)


@pytest.mark.parametrize(
    "line",
    [
        "[gpu] a 99999999999999999999 s",
        "[gpu] kernel=a gpu_ms=999999999999999999 begin=1 end=2",
        '{"name": "a", "ms": 1e99}',
        '{"name": "a", "ms": NaN}',
        '{"name": "a", "ms": true}',
        '{"kernels": [{"name": 7, "ms": 1}, 3]}',
        '{"ms": ' + "9" * 5_000 + "}",
        "[gpu] " + "{" * 5_000 + "}",
        "a" * 300_000 + ": 1 ms",
        "a=1 " * 5_000 + "1 ms",
        "[gpu]",
    ],
)
def test_hostile_lines_stay_unrecognised(tmp_path: Path, line: str) -> None:
    path = tmp_path / "a.log"
    path.write_text(f"[gpu] fine: 1 ms\n{line}\n")
    report = ktrace.read(path, from_="console").report
    assert report.read == 2
    assert report.issues["unrecognised"].rows == 1


def test_great_and_odd_numbers_become_arguments(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text('[gpu] {"name": "a", "ms": 1, "x": 1e999999999, "y": Infinity, "z": 1.5, "w": null}\n')
    row = rows(path, "summaries", "console")[0]
    assert json.loads(row["args"]) == {"x": "1E+999999999", "y": "Infinity", "z": 1.5, "w": None}


def test_a_pair_may_have_thousands_apart(tmp_path: Path) -> None:
    log = tmp_path / "page.log"
    log.write_text("kernel=fill gpu_ms=1,250.5 grid=8x1x1\n")
    (row,) = rows(log, "events", "console") or rows(log, "summaries", "console")
    assert row.get("dur", row.get("total")) == 1_250_500_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("query time: 7872 ns\ncopy time: 7.168 us\nread time = 2 us\n", [7872, 7168, 2000]),
        ("- atomic: 2 ms\n- shared:   0.5 ms\n- warp:  1 ms\n", [2e6, 5e5, 1e6]),
        (
            "Batch: 1\nInput transform: 3.9 ms (0.9%) [0.7 GB/s]\nKernel transform: 4 ms (10%)\nOverhead: 0.5 ms\n",
            [3_900_000, 4e6, 5e5],
        ),
        ("load time = 3 ms\nencode time = 40 ms / 5 ms per layer\ndecode took 2 ms\n", [3e6, 4e7, 2e6]),
        (
            "adv (vectorized)    0.5 us    386.1 M elem/s\nadv (scalar)   9 us    1 M elem/s\nx  1 us\n",
            [500, 9000, 1000],
        ),
        (
            "- Q Norm - rms<(int)8, half>(T2 *, T2 *, T2 *, unsigned int, unsigned int, float, float) = 1 us\n"
            "- K Norm - void rms<(int)8, half>(T2 *, T2 *, T2 *, unsigned int, unsigned int, float, float) = 2 us\n"
            "- Total layer time = 9 us\n",
            [1000, 2000, 9000],
        ),
        ("Forward    0.5 ms | 5061 GB/s\nBackward   9 ms | 577 GB/s (derived)\nUpdate   1 ms\n", [5e5, 9e6, 1e6]),
    ],
)
def test_lines_of_any_program_with_labels_are_figures(text: str, expected: list[float], tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(text)
    rows = ktrace.read(path).to_arrow()["summaries"]
    assert rows["total"].to_pylist() == expected
    assert "transform" in text or set(rows["kind"].to_pylist()) == {"metric"}


@pytest.mark.parametrize(
    "text",
    [
        "query: 7872 ns\ncopy: 7168 ns\n",  # too few, and nothing tells of measuring
        "copy time: 7168 ns\n",
        "configure time: 2 s\ncompile time: 30 s\nlinking: 2 s\n",
        "step 1: 5 ms\nstep 2: 6 ms\nstep 3: 5 ms\n",  # one label
        "a: 5 ms, 6 ms\nb: 5 ms, 6 ms\nc: 5 ms, 7 ms\n",  # two durations
        "We found that it takes 5 ms. Then 6 ms\nIt was 7 ms before. So it is now 3 ms\nNot bad. It needs 3 ms\n",
        "gap: 23 ms/layer\nwait: 2 ms/layer\nrest: 3 ms/layer\n",  # of each of something
    ],
)
def test_other_lines_are_no_labels(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(text)
    with pytest.raises(InputError):
        ktrace.read(path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[DEBUG] Running kernel 'Pad'\n[DEBUG] Completed kernel in 1.5 ms\n[DEBUG] Running kernel 'Xgemm'\n"
            "[DEBUG] Completed kernel in 55 ms\n",
            [("Pad", 1_500_000), ("Xgemm", 55_000_000)],
        ),
        ("kernel gemm\n  time: 1.2 ms\nkernel copy\n  time: 3 us\n", [("gemm", 1_200_000), ("copy", 3000)]),
        (
            "gemm:\n  grid: 8x1x1\n  time: 1.2 ms\nsoftmax:\n  grid: 8x1x1\n  time: 3 us\ntotal time: 9 ms\n",
            [("gemm", 1_200_000), ("softmax", 3000), ("total time", 9_000_000)],
        ),
        ("Benchmark: sort\nelapsed = 2 s\nKernel: void f<int>(int *)\ntook 4 ms\nscan: 1 ms\n", None),
    ],
)
def test_a_time_without_a_name_is_of_what_the_line_above_names(
    text: str, expected: list[tuple[str, float]] | None, tmp_path: Path
) -> None:
    path = tmp_path / "a.txt"
    path.write_text(text)
    found = rows(path, "summaries")
    expected = expected or [("sort", 2e9), ("void f<int>(int *)", 4e6), ("scan", 1e6)]
    assert [(row["name"], row["total"]) for row in found] == expected
    assert "grid" in text or not ktrace.read(path).report.issues.get("unrecognised")


def test_a_named_time_keeps_its_name_and_a_line_between_parts_it_from_the_one_above(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(
        "Running kernel 'Pad'\ncompilation: 7 ms\nRunning kernel 'Xgemm'\nwarming up\nCompleted kernel in 3 ms\n"
        "kernel names are cut below\nElapsed: 5 ms\n"
    )
    found = rows(path, "summaries")
    assert [row["name"] for row in found] == ["compilation", "Completed kernel", "Elapsed"]
    assert ktrace.read(path).report.issues["unrecognised"].rows == 4
    path.write_text("Running kernel 'Pad'\nCompleted in 3 ms\nElapsed: 9 ms\nTotal time: 12 ms\nscan: 1 us\n")
    assert [row["name"] for row in rows(path, "summaries")] == ["Pad", "Elapsed", "Total time", "scan"]


def test_statistics_below_a_title_are_those_of_what_it_names(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("=== gemm ===\navg: 2 ms\nmin: 1 ms\n=== copy ===\navg: 3 us\nmin: 1 us\nsoftmax: 3 us\n")
    found = [(row["name"], row.get("avg"), row.get("min"), row.get("total")) for row in rows(path, "summaries")]
    assert found == [
        ("gemm", 2e6, 1e6, None),
        ("copy", 3000, 1000, None),
        ("softmax", None, None, 3000),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "| gemm | 1.5 ms | 34% |\n| copy | 3 us | 1% |\n| add | 1 us | 1% |\n",
            {"gemm": 1.5e6, "copy": 3e3, "add": 1e3},
        ),
        ("gemm       12  1.5 ms\ncopy       3   3 us\nadd        3   1 us\n", {"gemm": 1.5e6, "copy": 3e3, "add": 1e3}),
        ("[1/3] gemm ... 1.5 ms\n[2/3] copy ... 3 us\n[3/3] add ... 1 us\n", {"gemm": 1.5e6, "copy": 3e3, "add": 1e3}),
        ("Run (ms): 1.5\nCopy (ms): 3\nKernel time (s): 1\n", {"Run": 1.5e6, "Copy": 3e6, "Kernel time": 1e9}),
        ("mul 8x8: 1.5 ms\nmul 16x16: 3 ms\nmul 32x32: 9 ms\n", {"mul 8x8": 1.5e6, "mul 16x16": 3e6, "mul 32x32": 9e6}),
        ("forward: 1 ms | backward: 2 ms | step: 3 us\n" * 2, {"forward": 1e6, "backward": 2e6, "step": 3e3}),
    ],
)
def test_rows_and_parts_of_a_line_with_a_label_and_a_time_each(
    text: str, expected: dict[str, float], tmp_path: Path
) -> None:
    path = tmp_path / "a.txt"
    path.write_text(text)
    found = rows(path, "summaries")
    assert {row["name"]: row["total"] for row in found} == expected
    assert len(found) == len(expected) * max(text.count("forward"), 1)
    assert {row["kind"] for row in found} <= {"metric", "range"}


def test_parts_in_brackets_are_of_what_stands_before_these(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(
        "Net(\n  (c1): Conv2d(Forward Time: 2 ms | Backward Time: 1 ms)\n  (r): ReLU()\n"
        "  (p): Pool(Forward Time: 9 us | Backward Time: 4 us)\nload: 3 ms (a: 1 ms, b: 2 ms)\nx(a: 1 ms | y(b: 2 ms)\n"
    )
    assert {row["name"]: row["total"] for row in rows(path, "summaries")} == {
        "(c1): Conv2d, Forward Time": 2e6,
        "(c1): Conv2d, Backward Time": 1e6,
        "(p): Pool, Forward Time": 9000,
        "(p): Pool, Backward Time": 4000,
        "load": 3e6,
    }


@pytest.mark.parametrize("each", ["1.5 ms/iter", "1.5 ms per call", "1.5 ms (avg over 9 runs)", "avg = 1.5 ms, 4 GB/s"])
def test_a_time_of_each_run_is_an_average(each: str, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(f"kernels of WebGPU\ngemm: {each}\ncopy: {each}\nadd: {each}\n")
    found = [(row["kind"], row["name"], row.get("avg"), row.get("total")) for row in rows(path, "summaries")]
    assert found == [("metric", name, 1_500_000, None) for name in ("gemm", "copy", "add")]


@pytest.mark.parametrize(
    ("line", "name", "figures"),
    [
        ("sort - avg 1.2 ms (min 1.0, max 1.4)", "sort", {"avg": 1_200_000, "min": 1_000_000, "max": 1_400_000}),
        ("  load: count = 5, avg = 15.88 ms", "load", {"avg": 15_880_000, "count": 5}),
        (
            "sort times (in seconds) - 10 values (min=0.5 10%=0.6 median=0.75 90%=1 max=2)",
            "sort times",
            {"min": 5e8, "median": 7.5e8, "max": 2e9},
        ),
        ("scan [calls: 3, total: 9 us, mean: 3 us]", "scan", {"total": 9000, "avg": 3000, "count": 3}),
        ("Kernel average time: 0.002+-0.0001 s", "Kernel average time", {"avg": 2_000_000, "stddev": 100_000}),
        ("gemm took 3.5 ms ± 200 us", "gemm", {"avg": 3_500_000, "stddev": 200_000}),
        ("Median latency = 4 us", "Median latency", {"median": 4000}),
    ],
)
def test_statistics_of_a_label_are_no_part_of_a_sum(
    line: str, name: str, figures: dict[str, float], tmp_path: Path
) -> None:
    path = tmp_path / "a.txt"
    path.write_text(f"WebGPU kernel\n{line}\nmax pool: 3 us\ncopy: 1 us\n")
    found = rows(path, "summaries")
    keys = ("total", "avg", "median", "min", "max", "stddev", "count")
    assert (found[0]["kind"], found[0]["name"]) == ("metric", name)
    assert {key: found[0][key] for key in keys if found[0].get(key) is not None} == figures
    assert [(row["kind"], row["name"], row["total"]) for row in found[1:]] == [
        ("range", "max pool", 3000),
        ("range", "copy", 1000),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "sort: avg=1.2, min=1.0, max=1.4",  # no unit
        "sort: avg=1.2 ms, avg=3 ms",
        "avg=1.2 ms, min=1.0 ms",  # no name
        "we saw avg 1.2 ms there, and then min 1.0 ms",
    ],
)
def test_other_members_are_no_statistics(line: str, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(f"WebGPU kernel\n{line}\nmax pool: 3 us\ncopy: 1 us\n")
    assert [row["name"] for row in rows(path, "summaries")] == ["max pool", "copy"]


def test_a_row_without_headings_may_begin_with_its_time(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("| 7.5 ms | gemm |\n| 6 us | copy\n| 3 s | 5 MB |\n| 1 ms | fill\n")
    assert [(row["name"], row["total"]) for row in rows(path, "summaries")] == [
        ("gemm", 7_500_000),
        ("copy", 6000),
        ("fill", 1_000_000),
    ]
