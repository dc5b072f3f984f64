"""step_trace_raw and hccl_raw of MindSpore: steps, their parts, collectives and links, against the module csv."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path

import pytest
from conftest import SAMPLES, SHARED
from test_ascend_csv import rows

import ktrace

STEPS = SAMPLES / "ascend-csv" / "steps-of-mindspore.csv"
REAL = SHARED / "hunt/ascend/mi/step_trace_raw_0_detail_time.csv"
LINKS = SAMPLES / "ascend-csv" / "hccl-raw-two-links-and-an-average.csv"
REAL_LINKS = SHARED / "hunt/ascend/mi/hccl_raw_0.csv"
PARTS = {"iteration_interval": ("start", "fp"), "fp_and_bp": ("fp", "bp"), "tail": ("bp", "end")}


@pytest.mark.parametrize("path", [STEPS, REAL], ids=lambda path: path.name)
def test_times_are_those_of_the_text(path: Path) -> None:
    if not path.exists():
        pytest.skip("the real files are not at hand (../shared/hunt)")
    stated: Counter[tuple[str, int, int]] = Counter()
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["step_num"] != "-":
                at = {name: int(row[f"{name}_point"]) for name in ("start", "end", "fp", "bp")}
                stated[f"Step {row['step_num']}", at["start"] * 10, int(row["total"]) * 10] += 1
                stated.update((name, at[one] * 10, (at[two] - at[one]) * 10) for name, (one, two) in PARTS.items())
                for name in (key.removesuffix("_start_point") for key in row if key.endswith("_start_point")):
                    if begin := int(row[f"{name}_start_point"]):
                        stated[name.split("_", 3)[3], begin * 10, (int(row[f"{name}_end_point"]) - begin) * 10] += 1
    trace = ktrace.read(path)
    assert Counter((row["name"], row["ts"], row["dur"]) for row in rows(trace)) == stated
    assert not trace.report.issues
    assert trace.report.reader.removed["structure"] == 2, "the headings and the average"


def test_a_collective_has_its_stream_and_is_one() -> None:
    found = [row for row in rows(ktrace.read(STEPS)) if row["kind"] == "kernel"]
    assert {(row["name"], row["stream"], row["operation"], row["cat"]) for row in found} == {
        ("Receive-op663", 48, "collective", "HCCL"),
        ("AllReduce-op4543", 36, "collective", "HCCL"),
    }
    assert [row.get("args") for row in found] == [None, None, {"$duration": 4000}], "4500 by its points"


def test_steps_without_a_backward_pass(tmp_path: Path) -> None:
    path = tmp_path / "step_trace_raw_0_detail_time.csv"
    path.write_text("step_num,start_point,end_point,total,fp_point,iteration_interval,fp\n1,100,200,100,120,20,80\n")
    assert [(row["name"], row["ts"], row["dur"], row.get("args")) for row in rows(ktrace.read(path))] == [
        ("Step 1", 1000, 1000, {"fp": 80}),
        ("iteration_interval", 1000, 200, None),
    ]


@pytest.mark.parametrize(
    ("cells", "kind", "why", "left"),
    [
        ("3,soon,200,1,100,150,1,1,1,1,110,120", "bad-record", "no start_point or end_point", 0),
        ("3,300,200,1,100,150,1,1,1,1,110,120", "bad-record", "no start_point or end_point", 0),
        ("3,100,99999999999999999999,1,100,150,1,1,1,1,110,120", "bad-record", "no start_point or end_point", 0),
        ("3,100,200,1,100,150,1,1,1,1,130,120", "misfit", "Send-op1 has no start, or ends before it", 4),
        ("3,100,200,1,90,150,1,1,1,1,110,120", "misfit", "iteration_interval has no start, or ends before it", 4),
    ],
)
def test_times_that_cannot_be(tmp_path: Path, cells: str, kind: str, why: str, left: int) -> None:
    path = tmp_path / "steps.csv"
    head = "step_num,start_point,end_point,total,fp_point,bp_point,iteration_interval,fp_and_bp,tail"
    name = "stream_7_0_Send-op1"
    path.write_text(f"{head},{name},{name}_start_point,{name}_end_point\n{cells}\n")
    trace = ktrace.read(path)
    assert [place[1] for place in trace.report.issues[kind].places] == [why]
    assert len(rows(trace)) == left


@pytest.mark.parametrize("path", [LINKS, REAL_LINKS], ids=lambda path: path.name)
def test_links_are_those_of_the_text(path: Path) -> None:
    if not path.exists():
        pytest.skip("the real files are not at hand (../shared/hunt)")
    before = csv.field_size_limit(1 << 24)
    stated: list[tuple[str, list[str], str, str]] = []
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            for name, parts in json.loads(row["communication_operator_cost"]).items() if row["step_num"] != "-" else ():
                for link, transports in parts[3].items():
                    for time, size, *_ in filter(None, transports.values()):
                        place = (
                            name.split("_", 3)[3] if name.startswith("stream_") else name,
                            [f"step {row['step_num']}", link],
                        )
                        stated += [(*place, "Transit Time", f"{time * 1e6:.6g}")] if time != "n/a" else []
                        stated.append((*place, "Transit Size", f"{size * 1e3:.6g}"))
    csv.field_size_limit(before)
    found = rows(ktrace.read(path), "summaries")
    assert [(row["name"], row["scope"], row["metric"], f"{row['value']:.6g}") for row in found] == stated
    assert {(row["metric"], row["unit"]) for row in found} == {("Transit Time", "ns"), ("Transit Size", "B")}


def test_what_a_link_has_besides() -> None:
    trace = ktrace.read(LINKS)
    first, second, *_ = rows(trace, "summaries")
    assert (first["stream"], first["cat"], first["value"]) == (41, "HCCL", 500_000.0)
    costs = {"communication_cost": 0.625, "wait_cost": 0.25}
    of_step = {"$communication_cost": 2.5, "$wait_cost": 40.25}
    assert first["args"] == of_step | costs | {"transport": "SDMA", "figures": [0.5, 4096.0, 8192000.0]}
    assert "args" not in second
    assert trace.report.issues["misfit"].places == [("line 3", "AllReduce-op458, 1-0: ['n/a', 2048, 0]")]
    assert "kernel" not in ktrace.summary(LINKS, by=["kernel"]).groups


@pytest.mark.parametrize(
    "cell", ["", "no JSON", "[1]", '"{""a"": 1}"', '"{""a"": [1, 2, 3, {""0-1"": {""SDMA"": []}}]}"']
)
def test_a_step_without_links_is_reported(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "hccl_raw_0.csv"
    path.write_text(f"{LINKS.read_text().splitlines()[0]}\n7,1,2,{{}},{cell}\n")
    trace = ktrace.read(path)
    assert not rows(trace, "summaries")
    assert trace.report.issues["bad-record"].places == [("line 2", "communication_operator_cost has no links")]
