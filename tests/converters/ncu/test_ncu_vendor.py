"""What Nsight Compute of two generations prints of real reports, against the figures of these reports.

Every page in every form that a print option gives, a few of each kind: the whole matrix takes half an hour.
"""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import nvidia
import pytest

import ktrace
from ktrace.errors import ClosedFormat, DamagedInput

pytestmark = pytest.mark.skipif(not nvidia.programs("ncu"), reason="NVIDIA's ncu is not at hand")

Row = dict[str, Any]

ALL = ("--print-details", "all")
BASE = ("--print-units", "base")
INSTANCES = ("--print-metric-instances", "values")

#: Options of the newer program, and how many metrics at least must be found.
DETAILS = [
    ((), 50),
    (BASE, 50),
    (("--print-fp",), 50),
    (("--print-rule-details",), 50),
    (("--print-metric-name", "name"), 50),
    (("--print-metric-name", "label-name"), 50),
    (("--print-summary", "per-kernel"), 50),
    (("--print-summary", "per-gpu"), 50),
    (ALL, 600),
    ((*ALL, *INSTANCES), 600),
    ((*ALL, "--print-metric-name", "label-name"), 600),
]
RAW = [((), 700), (BASE, 700), (INSTANCES, 700), (("--print-summary", "per-kernel"), 700)]
OLD = [((), 50), (("--details-all",), 400), (INSTANCES, 50), (("--print-summary", "per-kernel"), 40)]
OLD_TEXT = [*OLD, (("--print-summary", "per-gpu"), 40)]

#: Labels that stand for several metrics in a place, or for others in other versions.
AMBIGUOUS = (
    "L2 Explicit",
    "Warp Stall Sampling",
    "ALU",
    "FMA",
    "FP64",
    "Tensor (",
    "Warp Occupancy",
    "Instruction Statistics",
)

#: Words of cells in which ncu says that there is no number.
NOTHING = ("no data", "n/a", "(!) n/a", "(!) nan", "nan")


def spelled(given: tuple[str, ...] | int) -> str:
    """The id of a parameter."""
    return str(given) if isinstance(given, int) else "_".join(given) or "plain"


def newest(pattern: str) -> Path:
    return next(path for path in nvidia.reports() if pattern in path.as_posix())


def printed(program: Path, report: Path, *options: str) -> str:
    return subprocess.run([program, "--import", report, *options], capture_output=True, text=True, check=True).stdout


@cache
def truth(report: Path) -> tuple[Row, dict[str, Row], set[str]]:
    """The launch, its metrics by their id, and its notes without blanks."""
    tables = ktrace.read(report).to_arrow()
    rows = tables["summaries"].to_pylist()
    sampled = {name: {"value": None} for name in tables["events"]["name"].to_pylist()}
    found = {row["metric"]: row for row in rows if row["kind"] == "metric"}
    return rows[0], sampled | found, {bare(row["name"]) for row in rows if row["kind"] == "note"}


def bare(text: str) -> str:
    return "".join(text.split())


def check(text: str, path: Path, report: Path, least: int) -> None:
    """Each figure is that of the report, to what rounding leaves; there is one launch, and nothing is left over."""
    path.write_text(text)
    trace = ktrace.read(path)
    assert trace.report.balanced()
    assert not {kind for kind, issue in trace.report.issues.items() if issue.severity}, trace.report.issues
    rows = trace.to_arrow()["summaries"].to_pylist()
    launch, figures, notes = truth(report)
    (head,) = [row for row in rows if row["kind"] == "kernel"]
    assert head["name"] == launch["name"]
    assert head["grid_x"] in (launch["grid_x"], launch["grid_x"] * launch["grid_y"] * launch["grid_z"], None)
    compared, unknown = 0, set()
    for row in rows:
        value = row["value"] if row["value"] is not None else row["avg"]
        if row["kind"] == "note":
            assert bare(row["name"]) in notes or row["name"].startswith(("GPU ID ", "The system does not have"))
        elif row["kind"] == "metric" and row["metric"] not in figures:
            unknown.add(row["metric"])
        elif row["kind"] == "metric" and value is not None:
            real = figures[row["metric"]]["value"]
            summed = row["avg"] is not None and "pcsamp" in row["metric"]  # ncu adds up what two tables show
            assert summed or value == pytest.approx(real, rel=0.006, abs=0.0051), row["metric"]
            compared += 1
        elif row["kind"] == "metric" and figures[row["metric"]]["value"] is not None:
            assert json.loads(row["args"])["Metric Value"] in NOTHING, row["metric"]
    assert compared >= least
    assert {name for name in unknown if "__" not in name and not name.startswith(AMBIGUOUS)} == set()


@pytest.mark.parametrize("form", [(), ("--csv",)], ids=["text", "csv"])
@pytest.mark.parametrize(("options", "least"), DETAILS, ids=spelled)
def test_the_details_page(form: tuple[str, ...], options: tuple[str, ...], least: int, tmp_path: Path) -> None:
    report = newest("transposeCoalesced")
    text = printed(nvidia.programs("ncu")[0], report, "--page", "details", *form, *options)
    check(text, tmp_path / "details.txt", report, least)


@pytest.mark.parametrize("form", [(), ("--csv",)], ids=["text", "csv"])
@pytest.mark.parametrize(("options", "least"), RAW, ids=spelled)
def test_the_raw_page(form: tuple[str, ...], options: tuple[str, ...], least: int, tmp_path: Path) -> None:
    report = newest("sobelFloat")
    text = printed(nvidia.programs("ncu")[0], report, "--page", "raw", *form, *options)
    check(text, tmp_path / "raw.txt", report, least)


@pytest.mark.parametrize(("options", "least"), OLD_TEXT, ids=spelled)
def test_the_text_of_the_older_program(options: tuple[str, ...], least: int, tmp_path: Path) -> None:
    report = nvidia.reports()[-1]
    text = printed(nvidia.programs("ncu")[-1], report, "--page", "details", *options)
    check(text, tmp_path / "details.txt", report, least)


@pytest.mark.parametrize(("options", "least"), OLD, ids=spelled)
def test_the_csv_of_the_older_program(options: tuple[str, ...], least: int, tmp_path: Path) -> None:
    report = nvidia.reports()[-1]
    text = printed(nvidia.programs("ncu")[-1], report, "--page", "details", "--csv", *options)
    check(text, tmp_path / "details.csv", report, least)


@pytest.mark.parametrize("form", [(), ("--csv",)], ids=["text", "csv"])
@pytest.mark.parametrize("page", ["session", "source"])
def test_pages_without_launches_are_refused_with_help(page: str, form: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "page.txt"
    path.write_text(printed(nvidia.programs("ncu")[0], newest("sobelFloat"), "--page", page, *form))
    with pytest.raises(ClosedFormat, match=f"the {page} page") as caught:
        ktrace.read(path)
    assert "--page raw" in str(caught.value.remedy)


def test_a_page_that_the_program_itself_mixes_up_is_refused(tmp_path: Path) -> None:
    options = ("--page", "raw", "--csv", "--print-summary", "per-gpu")
    path = tmp_path / "raw.csv"
    path.write_text(printed(nvidia.programs("ncu")[0], newest("sobelFloat"), *options))
    with pytest.raises(DamagedInput, match="into wrong columns"):
        ktrace.read(path)
