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
