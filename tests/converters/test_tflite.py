"""TensorFlow Lite's benchmark_model: operators once, however often they are repeated, as the program adds them up."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from canonical_rows import known_rows
from conftest import SAMPLES

from ktrace.errors import KtraceError
from ktrace.trace import read

FOLDER = SAMPLES / "tflite"
LOG, TABLE = FOLDER / "operators-of-a-delegate.log", FOLDER / "operators.csv"


def printed_sums(path: Path) -> dict[str, tuple[float, int]]:
    """The program's own sums by type: ms, calls; of the last section."""
    text = path.read_text().rpartition("Summary by node type")[2]
    found = {}
    for line in text.splitlines()[2:]:
        if not line.strip():
            break
        cells = [cell.strip() for cell in line.split("\t") if cell.strip()]
        found[cells[0]] = (float(cells[2]), int(cells[6]))
    return found


@pytest.mark.parametrize("name", ["operators-of-a-delegate.log", "with-starts-2019.log"])
def test_operators_add_up_to_the_sums_of_the_program(name: str) -> None:
    sums: dict[str, tuple[float, int]] = {}
    for row in known_rows(FOLDER / name, "summaries"):
        if row["kind"] == "op":
            total, count = sums.get(row["name"], (0.0, 0))
            sums[row["name"]] = (total + row["total"] / 1e6, count + row["count"])
    printed = printed_sums(FOLDER / name)
    assert len(printed) > 3
    assert sums.keys() == printed.keys()
    for kind, (total, count) in printed.items():
        assert sums[kind] == (pytest.approx(total, abs=0.0006), count)


def test_text_and_csv_say_the_same() -> None:
    def told(path: Path) -> list[tuple[Any, ...]]:
        kinds = ("op", "overhead", "total")
        return [
            (row["kind"], row["name"], row.get("layer"), row.get("total"), row["avg"], row["count"])
            for row in known_rows(path, "summaries")
            if row["kind"] in kinds
        ]

    assert told(LOG) == told(TABLE)
    assert (
        "op",
        "Convolution (NHWC, QC8) IGEMM",
        "Delegate/Convolution (NHWC, QC8) IGEMM",
        180_000,
        60_000,
        3,
    ) in told(LOG)


def test_times_of_runs() -> None:
    found = {row["name"]: row for row in known_rows(LOG, "summaries") if row["kind"] == "metric"}
    line = re.findall(r"count=64 .*", LOG.read_text())[0]
    figures = {key: float(value) for key, value in re.findall(r"(\w+)=([\d.]+)", line)}
    run = found["run"]
    assert (run["count"], run["unit"]) == (figures["count"], "ns")
    assert {key: run[key] / 1e3 for key in ("avg", "min", "max")} == {
        key: figures[key] for key in ("avg", "min", "max")
    }
    assert run["stddev"] == figures["std"] * 1e3
    assert found["warm-up run"]["count"] == 35
    assert found["initialisation"]["total"] == 6_500_000
    assert found["first run"]["total"] == 1_905_000
    settings = [row for row in read(LOG).to_arrow()["catalog"].to_pylist() if "settings" in (row["facts"] or "")]
    assert "models/tiny.tflite" in settings[0]["facts"]


def test_every_line_is_accounted_for() -> None:
    for path in sorted(FOLDER.iterdir()):
        report = read(path).report
        assert report.balanced(), path
        assert "unrecognised" not in report.issues, path
    cut = read(FOLDER / "pasted-with-blanks-cut.txt").report
    assert set(cut.issues) == {"cut"}


def test_a_row_without_figures_costs_itself(tmp_path: Path) -> None:
    text = TABLE.read_text().replace("SOFTMAX, 0.021, 0.02,", "SOFTMAX, 0.021, fast,")
    path = tmp_path / "t.csv"
    path.write_text(text)
    assert {row["name"] for row in known_rows(path, "summaries") if row["kind"] == "op"} == {
        *("CONV_2D", "DEPTHWISE_CONV_2D", "Convolution (NHWC, QC8) IGEMM", "RESHAPE")
    }
    assert {detail for _, detail in read(path).report.issues["bad-record"].places} == {"no time"}


def test_other_texts_are_not_its_own(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_text("node type, colour\nCONV_2D, red\ncount=3\n")
    with pytest.raises(KtraceError):
        read(path)


LITERT = FOLDER / "litert-an-operator-of-the-first-run-alone.txt"
TENSORFLOW = FOLDER / "tensorflow-2018-a-place-before-each-line.log"


def test_what_is_called_in_the_first_run_alone_has_its_share_of_all_time() -> None:
    rows = known_rows(LITERT, "summaries")
    (rare,) = [row for row in rows if row["kind"] == "op" and "count" not in row]
    assert (rare["name"], rare["avg"], rare["total"]) == (
        "AllocateTensors",
        500_000,
        pytest.approx(250),
    )  # 0.05 % of 500 us
    assert rare["total"] == pytest.approx(rare["avg"] / 2000)  # it ran once in 2,000 runs
    assert sum(row["total"] for row in rows if row["kind"] == "op") == pytest.approx(500_000, rel=1e-3)
    metrics = {
        row["name"]: (row.get("count"), row.get("avg"), row.get("total")) for row in rows if row["kind"] == "metric"
    }
    assert metrics == {
        "warm-up run": (800, 510_250, None),
        "run": (1200, 507_500, None),
        "initialisation": (1, None, 3_250_000),
        "first run": (1, None, 900_000),
    }
    assert not any(row.get("run") for row in rows), "Memory Usage is no section of operators"


def test_without_a_sum_of_all_time_its_total_is_unknown() -> None:
    rows = [row for row in known_rows(TENSORFLOW, "summaries") if row["kind"] == "op"]
    assert [(row["name"], row.get("count"), row.get("total")) for row in rows] == [
        ("_Arg", 1, 10_000),
        ("Conv2D", 1, 3_000_000),
        ("BiasAdd", 1, 400_000),
        ("Const", None, None),
    ]


@pytest.mark.parametrize("path", [LITERT, TENSORFLOW], ids=lambda path: path.stem)
def test_what_a_logger_puts_before_lines_is_no_part_of_them(path: Path) -> None:
    trace = read(path)
    assert not trace.report.issues
    assert not trace.summaries["name"].str.contains(r"INFO|tensorflow/|\\.h:").any()


def test_a_row_that_cannot_be_read_is_reported_also_behind_a_place(tmp_path: Path) -> None:
    lines = TENSORFLOW.read_text().splitlines()
    broken = next(number for number, line in enumerate(lines) if "Conv2D" in line)
    lines[broken] = lines[broken].replace("75.000%", "75.000")
    (tmp_path / "run.log").write_text("\n".join(lines))
    trace = read(tmp_path / "run.log")
    assert sum(issue.rows for issue in trace.report.issues.values()) == 1


def test_statistics_of_runs_without_the_line_of_timings_that_programs_of_2019_lack(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text(
        "Initialized session in 9.9ms\ncount=7 first=1200 curr=700 min=600 max=1200 avg=800.5 std=20\n\n"
        "count=15 first=650 curr=640 min=630 max=660 avg=645.25 std=3\n"
    )
    rows = read(path).to_arrow()["summaries"]
    assert rows["name"].to_pylist() == ["warm-up run", "run"]
    assert (rows["avg"].to_pylist(), rows["count"].to_pylist()) == ([800_500, 645_250], [7, 15])
    path.write_text("count=7 first=a curr=700 min=600 max=1200 avg=800.5 std=20\n" * 3)
    with pytest.raises(KtraceError):
        read(path)


def test_the_head_of_androids_log_is_one_layer(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    head = "05-30 15:16:44.857  3380  3380 I tflite  : "
    path.write_text(
        f"{head}count=40 first=900 curr=500 min=400 max=900 avg=512.5 std=3\n{head}Running benchmark for 1 s.\n"
        f"{head}count=75 first=510 curr=500 min=490 max=520 avg=505 std=3\n"
        f"{head}Inference timings in us: Init: 2500, First inference: 900, Warmup (avg): 512.5, Inference (avg): 505\n"
    )
    rows = read(path).to_arrow()["summaries"]
    assert rows["avg"].to_pylist()[:2] == [512_500, 505_000]
