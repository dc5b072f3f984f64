"""Ascend's collectives: times and counts against decimal arithmetic over the text, and what isn't an operator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES, SHARED

import ktrace
from ktrace.errors import DamagedInput
from ktrace.input.detection import detect

CLUSTER = SAMPLES / "ascend-communication/cluster-of-two-ranks.json"
RANK = SAMPLES / "ascend-communication/one-rank-two-steps.json"
LINKS = SAMPLES / "ascend-communication/links-of-one-rank.json"
CLUSTER_LINKS = SAMPLES / "ascend-communication/links-of-a-cluster.json"
REAL = SHARED / "hunt/ascend/mstt/cluster_communication.json"


def timed(value: Any) -> Iterator[dict[str, Any]]:
    """The times of all operators below a value, but for the sums of steps."""
    for key, inside in value.items() if isinstance(value, dict) else ():
        if key == "Communication Time Info":
            if inside.get("Start Timestamp(us)"):
                yield inside
        else:
            yield from timed(inside)


@pytest.mark.parametrize("path", [CLUSTER, RANK, REAL], ids=lambda path: path.name)
def test_times_are_those_of_the_text(path: Path) -> None:
    if not path.exists():
        pytest.skip("the real files are not at hand (../shared/hunt)")
    stated = list(timed(json.loads(path.read_text(), parse_float=Decimal)))
    events = ktrace.read(path).events
    assert len(events) == len(stated) > 2
    assert sorted(events["ts"]) == sorted(round(Decimal(one["Start Timestamp(us)"]) * 1000) for one in stated)
    assert sum(events["dur"]) == sum(round(Decimal(one["Elapse Time(ms)"]) * 1_000_000) for one in stated)
    assert set(events["kind"]) == {"kernel"}
    assert detect(path)[0].format == "ascend-communication"


def test_an_operator_of_a_cluster_has_its_rank_group_and_step() -> None:
    trace = ktrace.read(CLUSTER)
    rows = trace.events[["name", "device", "comm"]].to_numpy().tolist()
    assert rows == [
        ["hcom_allReduce__701_0", 0, "4117309215302144511"],
        ["hcom_allReduce__701_0", 1, "4117309215302144511"],
        ["hcom_send__701_1", 0, "4117309215302144511"],
    ]
    first = json.loads(trace.events["args"].iloc[0])
    assert first["step"] == "step2"
    assert first["ranks"] == "(0, 1)"
    assert first["Wait Time(ms)"] == 10.5
    assert first["bandwidth"]["HCCS"]["Bandwidth(GB/s)"] == 13.4218
    assert json.loads(trace.events["args"].iloc[2])["$dur"] == "0.0250005"
    assert {kind: issue.rows for kind, issue in trace.report.issues.items()} == {"rounded": 1, "bad-record": 1}
    assert trace.report.reader.removed["structure"] == 1, "the sum of the step"


def test_summaries_know_them_as_collectives() -> None:
    (group,) = ktrace.summary(CLUSTER, by=["operation"]).groups["operation"]
    assert (group.key, group.total) == ("collective", 12_736_943 + 3_486_200 + 25_000)


@pytest.mark.parametrize(
    ("info", "why"),
    [
        ({"Start Timestamp(us)": "soon", "Elapse Time(ms)": 1}, "has no Start"),
        ({"Start Timestamp(us)": 1, "Elapse Time(ms)": -1}, "has no Start"),
        ({"Start Timestamp(us)": 10**17, "Elapse Time(ms)": 1}, "Start Timestamp(us) is"),
        (None, "has no Communication Time Info"),
    ],
)
def test_a_bad_operator_costs_itself(tmp_path: Path, info: Any, why: str) -> None:
    document = json.loads(RANK.read_text())
    document["step7"]["p2p"] = {"hcom_receive__9_9@1": {"Communication Time Info": info}}
    path = tmp_path / "communication.json"
    path.write_text(json.dumps(document))
    trace = ktrace.read(path)
    assert len(trace.events) == 2
    assert trace.report.issues["bad-record"].places[0][0] == "step7 / p2p / hcom_receive__9_9@1"
    assert why in trace.report.issues["bad-record"].places[0][1]


@pytest.mark.parametrize("text", ["[1]", '{"step": {'])
def test_another_document_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "communication.json"
    path.write_text(text)
    with pytest.raises(DamagedInput, match=r"has no steps|can't be read"):
        ktrace.read(path, from_="ascend-communication")


def test_figures_keep_digits_that_a_float_has_not(tmp_path: Path) -> None:
    path = tmp_path / "communication.json"
    path.write_text(
        RANK.read_text().replace('"Wait Time(ms)": ', '"Odd(ms)": [1e999, 0.12345678901234567890], "Wait Time(ms)": ')
    )
    args = json.loads(ktrace.read(path).events["args"].iloc[0])
    assert args["Odd(ms)"] == ["1E+999", "0.12345678901234567890"]


def test_the_size_is_limited() -> None:
    with pytest.raises(DamagedInput, match="has more than 1 KiB") as caught:
        ktrace.read(CLUSTER, limits="value=1KiB")
    assert "--limits value=4KiB" in str(caught.value.remedy)


def links(value: Any) -> Iterator[tuple[str, Decimal]]:
    """The figures of all links below a value, in base units, but for sums of steps and for what isn't a number."""
    bases = {"Transit Time(ms)": ("ns", 10**6), "Transit Size(MB)": ("B", 10**6), "Bandwidth(GB/s)": ("B/s", 10**9)}
    for key, inside in value.items():
        if key in bases and isinstance(inside, (int, Decimal)):
            yield bases[key][0], inside * bases[key][1]
        elif isinstance(inside, dict) and not key.startswith("Total Op Info"):
            yield from links(inside)


@pytest.mark.parametrize("path", [LINKS, CLUSTER_LINKS], ids=lambda path: path.name)
def test_figures_of_links_are_those_of_the_text(path: Path) -> None:
    trace = ktrace.read(path)
    stated = sorted((unit, float(value)) for unit, value in links(json.loads(path.read_text(), parse_float=Decimal)))
    rows = trace.to_arrow()["summaries"].to_pylist()
    assert sorted((row["unit"], row["value"]) for row in rows) == stated
    assert not len(trace.events)
    assert not [fact for fact in trace.to_arrow()["catalog"].to_pylist() if fact["entity"] in ("clock", "device")]
    assert detect(path)[0].format == "ascend-communication"


def test_a_link_has_its_operator_group_step_and_transport() -> None:
    rows = ktrace.read(LINKS).to_arrow()["summaries"].to_pylist()
    first = next(row for row in rows if row["name"] == "allreduce-top1" and row["scope"] == ["step4", "0-1"])
    assert (first["metric"], first["value"], first["comm"]) == ("Transit Time", 250_000.0, "5210")
    assert json.loads(first["args"]) == {"Transport Type": "HCCS", "Op Name": "hcom_allReduce__210_3_1"}
    assert [row["metric"] for row in rows[:3]] == ["Transit Time", "Transit Size", "Bandwidth"]
    (cluster, *_) = ktrace.read(CLUSTER_LINKS).to_arrow()["summaries"].to_pylist()
    assert (cluster["scope"], json.loads(cluster["args"])["ranks"]) == (["step", "4-5"], "(4, 5)")


def test_links_are_no_time_of_devices() -> None:
    assert "kernel" not in ktrace.summary(LINKS, by=["kernel"]).groups


def test_links_of_msprof_have_no_step(tmp_path: Path) -> None:
    path = tmp_path / "communication_matrix.json"
    path.write_text('{"hcom_allReduce__1_2@9": {"0-1": {"Transport Type": "HCCS", "Transit Size(MB)": 1.5}}}')
    (row,) = ktrace.read(path).to_arrow()["summaries"].to_pylist()
    assert (row["name"], row["comm"], row["scope"], row["value"]) == ("hcom_allReduce__1_2", "9", ["0-1"], 1_500_000.0)


@pytest.mark.parametrize(
    ("link", "kind", "why"),
    [
        ({"Transit Size(MB)": "much", "Transit Time(ms)": 1}, "misfit", "Transit Size(MB): much"),
        ({"Bandwidth(GB/s)": 1e300, "Transit Time(ms)": 1}, "misfit", "Bandwidth(GB/s): 1e+300"),
        ({"Transport Type": "HCCS"}, "bad-record", "has none of Transit Time(ms), Transit Size(MB), Bandwidth(GB/s)"),
        (7, "bad-record", "isn't an object"),
    ],
)
def test_a_figure_of_a_link_that_is_none(tmp_path: Path, link: Any, kind: str, why: str) -> None:
    document = json.loads(LINKS.read_text())
    document["step4"]["p2p"] = {"send-total@1": {"0-1": link}}
    path = tmp_path / "communication_matrix.json"
    path.write_text(json.dumps(document))
    trace = ktrace.read(path)
    assert trace.report.issues[kind].places == [("step4 / p2p / send-total@1 / 0-1", why)]
    rows = trace.to_arrow()["summaries"].to_pylist()
    assert len([row for row in rows if row["name"] == "send-total"]) == (kind == "misfit")
