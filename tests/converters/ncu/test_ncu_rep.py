"""Nsight Compute reports: samples made by ncu_rep_samples.py, and real ones beside NVIDIA's own program."""

from __future__ import annotations

import csv
import io
import json
import math
import subprocess
from pathlib import Path
from typing import Any

import ncu_rep_samples as made
import nvidia
import pytest
from conftest import SAMPLES

import ktrace
from ktrace.errors import ClosedFormat, DamagedInput, UnknownFormat
from ktrace.pipeline.info import inspect
from ktrace.pipeline.read import read_batches
from ktrace.report import Report

FOLDER = SAMPLES / "ncu-rep"
USUAL = FOLDER / "names-behind-their-use-samples-and-rules.ncu-rep"
OTHERS = FOLDER / "range-list-and-graph-of-an-unknown-version.ncu-rep"

Row = dict[str, Any]

needs_ncu = pytest.mark.skipif(not nvidia.programs("ncu"), reason="NVIDIA's ncu is not at hand")


def table(path: Path, record: str = "summaries") -> list[Row]:
    found = ktrace.read(path).to_arrow()[record].to_pylist()
    kept = [{name: value for name, value in row.items() if value is not None} for row in found]
    for row in kept:
        row["args"] = json.loads(row.get("args", "{}"))
    return kept


def metrics(rows: list[Row], head: Row) -> dict[str, Row]:
    return {row["metric"]: row for row in rows if row.get("parent") == head["id"] and row["kind"] == "metric"}


@pytest.mark.parametrize("name", made.MADE)
def test_the_samples_are_what_their_script_makes(name: str) -> None:
    assert (FOLDER / name).read_bytes() == made.MADE[name]()


def test_a_launch() -> None:
    rows = table(USUAL)
    gemm, saxpy = [row for row in rows if row["kind"] == "kernel"]
    assert (gemm["name"], gemm["short_name"], saxpy["name"]) == (made.GEMM, "gemm", "saxpy")
    assert (gemm["total"], gemm["unit"], gemm["count"]) == (50_464, "ns", 1)
    assert [gemm[f"{size}_{axis}"] for size in ("grid", "block") for axis in "xyz"] == [64, 2, 1, 16, 16, 1]
    assert (gemm["pid"], gemm["host"], gemm["device"], gemm["context"], gemm["stream"]) == (
        made.PID,
        made.HOST,
        1,
        1,
        7,
    )
    assert (gemm["registers"], gemm["shared_dynamic"], gemm["shared_memory"]) == (96, 16_384, 16_384 + 1024)
    assert {"ID": 0, "CC": "9.0", "Kernel Time": "2023-Nov-14 22:13:20", "API Call": 10}.items() <= gemm["args"].items()
    assert gemm["args"]["Call Stack"][1] == f"main at a.cu:12 ({made.PROGRAM} 0x40)"
    assert (saxpy["args"]["ID"], saxpy["stream"], saxpy["total"]) == (1, 13, 9536)


def test_metrics_have_their_names_units_sections_and_instances() -> None:
    rows = table(USUAL)
    found = metrics(rows, rows[0])
    assert found["smsp__inst_executed.sum"]["args"] == {
        "Metric Value": str(2**63 + 1)
    }  # its name stands behind its use
    assert math.isnan(found["l1tex__data_bank_conflicts.sum"]["value"])
    assert (found["dram__bytes.sum.per_second"]["value"], found["dram__bytes.sum.per_second"]["unit"]) == (
        1.5e12,
        "B/s",
    )
    throughput = found["sm__throughput.avg.pct_of_peak_sustained_elapsed"]
    assert (throughput["value"], throughput["unit"]) == (63.571428571428, "%")
    assert (throughput["short_name"], throughput["scope"]) == (
        "Compute (SM) Throughput",
        ["GPU Speed Of Light Throughput"],
    )
    assert found["inst_executed"]["value"] == 64 + 128 + 32
    assert found["inst_executed"]["args"]["instances"] == {"+0x0": 64, "+0x10": 128, "+0x20": 32}
    assert found["sass__inst_executed_per_opcode"]["args"]["instances"] == made.OPCODES
    assert not found.keys() & {"group:memory__chart", "nvlink__source_ports"}


def test_what_rules_and_people_say() -> None:
    notes = [row for row in table(USUAL) if row["kind"] == "note"]
    assert [row["name"] for row in notes] == [
        "Only 64 blocks. See the Launch Statistics and the Guide (https://example.com/a).",
        "No mark here.",
        "looks fine",
    ]
    assert {row["parent"] for row in notes} == {1}
    assert [row["scope"] for row in notes] == [["Launch Statistics"]] * 2 + [["GPU Speed Of Light Throughput"]]
    said = notes[0]["args"]
    assert (said["Rule Type"], said["Estimated Speedup Type"], said["Estimated Speedup"]) == ("OPT", "global", 12.25)
    assert said["Focus Metrics"][0]["advice"] == "Launch more blocks"


def test_ranges_around_a_launch() -> None:
    head = table(USUAL)[0]
    assert head["scope"] == ["forward", "layer 3", "solve"]
    assert head["args"]["NVTX"] == [
        {"name": "solve", "domain": "solver"},
        {"started": True, "name": "epoch", "id": 9, "color": "#ff00ff00", "payload": -5},
    ]


def test_facts_without_addresses_and_environment() -> None:
    report = Report()
    trace = ktrace.Trace(read_batches([str(USUAL)], report), report)
    catalog = trace.to_arrow()["catalog"].to_pylist()
    text = json.dumps([row["facts"] for row in catalog])
    assert "hf_secret" not in text
    assert "192.0.2" not in text
    assert report.issues["environment"].rows == 1
    facts = {row["entity"]: json.loads(row["facts"] or "{}") for row in catalog}
    assert (facts["source"]["version"], facts["source"]["program"]) == ("2023.3.0.0", f"{made.PROGRAM} --size 8")
    assert (facts["device"]["sm_count"], facts["host"]["cpu"]) == (132, "Invented CPU")
    assert facts["name"]["files"] == ["/home/me/a.cu"]


def test_samples_count_from_the_switch_of_their_replay() -> None:
    events = table(USUAL, "events")
    cycles = [(row["ts"], row["value"]) for row in events if "cycles" in row["name"]]
    dram = [(row["ts"], row["value"]) for row in events if "dram" in row["name"]]
    assert cycles == list(made.CYCLES.items())
    assert dram == list(made.DRAM.items())
    assert {(row["parent"], row["clock"], row["kind"]) for row in events} == {(1, "launch", "counter")}
    assert [row["args"]["replay"] for row in events] == [0] * 5 + [1] * 2


def test_on_a_timeline_samples_stand_in_their_kernel(tmp_path: Path) -> None:
    out = tmp_path / "out.trace.json"
    report = ktrace.convert(USUAL, out)
    assert report.balanced()
    layout = next(ledger for ledger in report.stages if ledger.stage == "layout")
    inside = sum(0 <= at < 50_464 for at in [*made.CYCLES, *made.DRAM])
    assert layout.removed["outside of the launch"] == len(made.CYCLES) + len(made.DRAM) - inside == 2
    events = json.loads(out.read_text())["traceEvents"]
    gemm = next(event for event in events if event.get("name") == made.GEMM)
    mine = [event for event in events if event["ph"] == "C" and "PM sampling" in event["name"]]
    drawn = [event["ts"] - gemm["ts"] for event in mine if "cycles_active" in event["name"]]
    assert drawn == [at / 1000 for at in made.CYCLES if 0 <= at < 50_464]


def test_samples_widen_no_span() -> None:
    """They count from their launch: they are no times of the trace."""
    assert inspect(USUAL).span is None
    assert ktrace.summary(USUAL).span is None


def test_samples_stay_in_their_launch_when_their_source_is_moved(tmp_path: Path) -> None:
    timeline = tmp_path / "t.jsonl"
    row = {"record": "event", "source": "t", "id": 1, "kind": "kernel", "name": "k", "ts": 5000, "dur": 10}
    timeline.write_text(f'{{"ktrace": "1.0"}}\n{json.dumps(row | {"timing": "measured"})}\n')
    report = ktrace.merge([timeline, USUAL], tmp_path / "out.perfetto", offsets={USUAL.name: 1_000_000})
    layout = next(ledger for ledger in report.stages if ledger.stage == "layout")
    assert layout.removed["outside of the launch"] == 2
    assert "begin-guessed" not in report.issues


def test_other_results_and_an_unknown_version() -> None:
    report = Report()
    rows = ktrace.Trace(read_batches([str(OTHERS)], report), report).to_arrow()["summaries"].to_pylist()
    heads = [(row["kind"], row["name"], row["total"]) for row in rows if row["parent"] is None]
    assert heads == [
        ("range", "range 0", 2000.0),
        ("range", "cuGraphLaunch", 2000.0),
        ("graph", "graph 2", 2000.0),
        ("kernel", "saxpy", 9536.0),
    ]
    assert "version 8" in report.issues["unknown-version"].places[0][1]
    assert report.issues["unknown-field"].rows == 3
    assert report.balanced()


# Damaged files


def test_a_cut_gives_what_is_whole(tmp_path: Path) -> None:
    data = made.usual()
    second = data.index(made.message([made.SECOND[2]]))
    path = tmp_path / "cut.ncu-rep"
    path.write_bytes(data[: second + 20])
    report = Report()
    rows = ktrace.Trace(read_batches([str(path)], report), report).to_arrow()["summaries"].to_pylist()
    assert [row["name"] for row in rows if row["kind"] == "kernel"] == [made.GEMM]
    assert report.issues["cut"].rows == 1
    assert "byte" in report.issues["cut"].places[0][0]
    assert report.issues["missing-string"].rows == 2  # the names in the last block
    assert report.balanced()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"NVR\0", "the length of the file header is cut off"),
        (b"NVR\0\xff\xff\xff\xff", "are too many for the file header"),
        (made.file_of(), "no kernel was profiled"),
        (made.file_of() + b"\xff\xff\xff\x7f", "a block's header can't have 2,147,483,647 bytes"),
        (made.file_of(made.block([(2, 3)], made.FIRST))[:-9], "is cut off"),
    ],
)
def test_what_has_nothing_whole_is_an_error(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "bad.ncu-rep"
    path.write_bytes(data)
    with pytest.raises(DamagedInput, match=words) as caught:
        ktrace.read(path)
    assert caught.value.path == str(path)
    assert caught.value.remedy


def test_a_launch_that_lies_about_its_length_ends_the_reading(tmp_path: Path) -> None:
    whole = made.block([(2, 1), made.strings(made.NAMES), made.PROCESS], made.SECOND)
    lying = made.sized(made.message([(2, 1), (5, 8)])) + b"\xff\xff\xff\x7fabcd"
    path = tmp_path / "lying.ncu-rep"
    path.write_bytes(made.file_of(whole, lying, whole))
    report = Report()
    rows = ktrace.Trace(read_batches([str(path)], report), report).to_arrow()["summaries"].to_pylist()
    assert [row["name"] for row in rows if row["kind"] == "kernel"] == ["saxpy"]
    assert "is longer than its block" in report.issues["bad-record"].places[0][1]
    assert report.balanced()


def test_a_damaged_launch_and_a_damaged_metric_cost_no_other(tmp_path: Path) -> None:
    bad = b"\x0b\x0b\x0b"  # groups, which nobody writes
    other = [*made.SECOND, (13, b"\x08")]
    path = tmp_path / "bad.ncu-rep"
    head = [(2, 3), made.strings(made.NAMES), made.PROCESS]
    payload = b"".join(made.sized(part) for part in (made.message(made.SECOND), bad, made.message(other)))
    path.write_bytes(made.file_of(made.sized(made.message([*head, (5, len(payload))])) + payload))
    report = Report()
    rows = ktrace.Trace(read_batches([str(path)], report), report).to_arrow()["summaries"].to_pylist()
    assert [row["name"] for row in rows if row["kind"] == "kernel"] == ["saxpy", "saxpy"]
    assert report.issues["bad-record"].rows == 2
    assert report.balanced()


def test_what_is_no_report_is_refused_with_help(tmp_path: Path) -> None:
    path = tmp_path / "a.ncu-rep"
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    with pytest.raises(UnknownFormat, match="git lfs pull"):
        ktrace.read(path)
    path.write_bytes(b"\1\2\0\3" * 9)
    with pytest.raises(UnknownFormat, match=r"is named '\.ncu-rep', but doesn't begin with 'NVR'; copy it again"):
        ktrace.read(path)


def test_a_packed_report_is_refused_unless_it_is_none(tmp_path: Path) -> None:
    path = tmp_path / "a.ncu-repz"
    path.write_bytes(b"\0\1\2")
    with pytest.raises(ClosedFormat, match=r"ncu --import a\.ncu-repz"):
        ktrace.read(path)
    path.write_bytes(made.usual())
    assert ktrace.read(path).report.rows["summaries"] == len(table(USUAL))


# NVIDIA's own program


def values(rows: list[Row]) -> list[tuple[Row, dict[str, Row]]]:
    return [(row, metrics(rows, row)) for row in rows if row["kind"] == "kernel"]


def raw_page(program: Path, report: Path) -> str:
    command = [program, "--import", report, "--page", "raw", "--csv", "--print-units", "base"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@needs_ncu
@pytest.mark.parametrize("path", nvidia.reports(), ids=lambda path: path.stem)
def test_real_reports_say_what_the_raw_page_says(path: Path, tmp_path: Path) -> None:
    """By the csv module, each cell of a metric to the two decimals that are printed; and by our reader of the page."""
    page = raw_page(nvidia.programs("ncu")[0], path)
    headings, _, *launches = csv.reader(io.StringIO(page))
    mine = values(table(path))
    assert len(launches) == len(mine)
    compared = 0
    for cells, (head, found) in zip(launches, mine, strict=True):
        said = dict(zip(headings, cells, strict=True))
        assert (said["Kernel Name"], int(said["Stream"]), said["CC"]) == (
            head["name"],
            head["stream"],
            head["args"]["CC"],
        )
        for name, text in zip(headings[11:], cells[11:], strict=True):
            if text in ("", "no data"):
                assert "value" not in found.get(name, {}), name
                continue
            compared += 1
            row = found[name]
            if "Metric Value" in row["args"]:
                assert row["args"]["Metric Value"] == text
            else:
                assert row["value"] == pytest.approx(float(text), abs=0.00501, rel=0), name
        valued = {name for name, row in found.items() if "value" in row or "Metric Value" in row["args"]}
        assert valued <= set(headings)
    assert compared > 600
    (tmp_path / "raw.csv").write_text(page)
    ((_, by_page),) = values(table(tmp_path / "raw.csv"))
    differing = {
        name: (row.get("unit"), mine[0][1][name].get("unit"))
        for name, row in by_page.items()
        if name in mine[0][1] and row.get("unit") != mine[0][1][name].get("unit")
    }
    assert not differing


@needs_ncu
@pytest.mark.parametrize("path", nvidia.reports(), ids=lambda path: path.stem)
def test_real_rules_say_what_the_details_page_says(path: Path) -> None:
    command = [nvidia.programs("ncu")[0], "--import", path, "--page", "details", "--csv"]
    page = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rules = [row for row in csv.DictReader(io.StringIO(page)) if row["Rule Name"]]
    notes = [row for row in table(path) if row["kind"] == "note"]
    expected = sorted((row["Rule Name"], row["Rule Description"], row["Rule Type"] or None) for row in rows_of(rules))
    assert sorted((row["args"]["Rule Name"], row["name"], row["args"].get("Rule Type")) for row in notes) == expected
    speedups = sorted(round(float(row["Estimated Speedup"]), 2) for row in rules if row["Estimated Speedup"])
    assert (
        sorted(
            round(float(f"{row['args']['Estimated Speedup']:.4g}"), 2)
            for row in notes
            if "Estimated Speedup" in row["args"]
        )
        == speedups
    )


def rows_of(rules: list[dict[str, str]]) -> list[dict[str, str]]:
    return [row for row in rules if row["Rule Description"]]
