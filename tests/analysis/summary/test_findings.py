"""The facts of the verdict for programs: codes, figures, what to look at first, and the rows that show them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, SAMPLES
from idle_traces import host, work, written
from msgspec import structs
from nightly import few

import ktrace
from ktrace.analysis.answers.summary.summary import Summary
from ktrace.analysis.questions.idle import DeviceIdle, IdleAnswer, IdleCause
from ktrace.analysis.work.findings import Finding, longest
from ktrace.analysis.work.gaps import CAUSES
from ktrace.analysis.work.groups import DeviceUse
from ktrace.stages.select.intervals import Intervals

STEP = SAMPLES / "kineto/one-step-of-training.pt.trace.json"
RANKS = [SAMPLES / f"kineto/collectives-of-two-ranks-rank{rank}.json" for rank in (0, 1)]


def found(*paths: Path) -> dict[str, Finding]:
    return {one.code: one for one in ktrace.summary(paths, by=["kernel"]).findings}


def test_what_one_step_of_training_shows() -> None:
    facts = found(STEP)
    figures = {code: (one.value, one.unit, one.whole, one.look) for code, one in facts.items()}
    assert figures == {
        "heaviest.operation": (249_629, "ns", 930_070, None),
        "heaviest.kernel": (215_806, "ns", 930_070, None),
        "busy": (831_016, "ns", 962_021, None),
        "idle": (131_005, "ns", 962_021, None),
        "exposed.communication": (116_752, "ns", 962_021, 1),
        "exposed.copies": (11_328, "ns", 962_021, None),
        "idle.host_late": (116_626, "ns", 962_021, 2),
        "idle.launch_overhead": (14_379, "ns", 962_021, None),
        "check.ranks_missing": (1, "count", 8, None),
        "check.collectives_undescribed": (2, "count", 2, None),
    }
    assert facts["heaviest.operation"].subject["operation"] == "gemm"
    assert facts["busy"].subject == {"device": "device 0", "rank": 0, "source": "one-step-of-training.pt.trace"}
    assert [one.time_ns for one in facts["exposed.communication"].evidence] == [97_119, 19_633]


def test_a_straggler_only_where_it_is_proved() -> None:
    late = found(*RANKS)["straggler"]
    assert late.subject["rank"] == "1" and late.look == 4 and late.details == {"last": 6, "joint": 6}
    assert [one.time_ns for one in late.evidence] == [45_008, 36_008, 27_008]
    assert "straggler" not in found(RANKS[0]) and "straggler" not in found(RANKS[1])
    assert "busy.least" in found(*RANKS) and "busy" not in found(*RANKS)


def test_causes_of_idle_time_only_where_they_are(tmp_path: Path) -> None:
    rows = [host("launch", 0, 1_000, 1), work("gemm", 2_000, 10_000, 1), host("cudaMalloc", 20_000, 100_000)]
    rows += [host("launch", 105_000, 106_000, 2), work("norm", 107_000, 110_000, 2)]
    facts = found(written(tmp_path / "late.jsonl", rows))
    late = facts["idle.host_late"]
    assert (late.value, late.look, late.details["host_was_in"], late.details["host_time_ns"]) == (
        *(97_000, 1),
        *("cudaMalloc", 80_000),
    )
    assert [tuple(one) for one in late.evidence] == [("run", 5, "norm", 10_000, 107_000, 97_000)]
    assert facts["heaviest.kernel"].look is None and not {"exposed.copies", "no_compute"} & facts.keys()
    rows = [host("launch", 1_800, 1_900, 1), work("gemm", 2_000, 10_000, 1)]
    busy = found(written(tmp_path / "busy.jsonl", rows))
    assert busy["idle"].value == 0 and busy["heaviest.operation"].look == 1
    assert not any(code.startswith("idle.") for code in busy)


def test_what_the_host_was_in_is_added_up_over_devices(tmp_path: Path) -> None:
    """Two devices wait while the host allocates, and one of them longer while it reads: the sum is what is said."""
    rows = [host("cudaMalloc", 20_000, 100_000), host("read", 200_000, 300_000)]
    for device in (0, 1):
        first, second, third = (1 + 3 * device + number for number in range(3))
        rows += [host("launch", 100 * device, 100 * device + 50, first), host("launch", 105_000, 106_000, second)]
        until = 110_000 if device else 290_000
        rows += [work("gemm", 2_000, 10_000, first, device=device)]
        rows += [work("norm", 107_000, until, second, device=device)]
        rows += [host("launch", 301_000, 302_000, third), work("gemm", 303_000, 310_000, third, device=device)]
    late = found(written(tmp_path / "two.jsonl", rows))["idle.host_late"]
    assert (late.details["host_was_in"], late.details["host_time_ns"]) == ("cudaMalloc", 160_000)
    assert late.value >= 160_000


def test_copies_alone_tell_nothing_of_idle_time(tmp_path: Path) -> None:
    rows = [host("launch", 0, 1_000, 1), work("Memcpy HtoD", 2_000, 80_000, 1, kind="memcpy")]
    facts = found(written(tmp_path / "copies.jsonl", rows))
    assert facts["no_compute"].details["only"] == "copies"
    assert not {"idle", "exposed.copies", "heaviest.kernel"} & facts.keys()


def test_the_host_alone_has_a_heaviest_call(tmp_path: Path) -> None:
    facts = found(written(tmp_path / "host.jsonl", [host("cudaMalloc", 0, 900), host("cudaFree", 1_000, 1_100)]))
    call = facts.pop("heaviest.call")
    assert (call.subject["call"], call.value, call.of, facts) == ("cudaMalloc", 900, "host time", {})
    assert call.evidence[0].id is None and call.evidence[0].end_ns == 900


def test_nothing_has_no_findings() -> None:
    assert ktrace.summary(SAMPLES / "doppler/bench-of-the-command-line-tool.log").findings == []


PATHS = [STEP, *sorted((SAMPLES / "nsys").glob("*.sqlite")), *sorted((SAMPLES / "rocpd").glob("*.db")), RANKS[1]]


@pytest.mark.parametrize("path", [PATHS[0], *few(PATHS[1:], 1)], ids=lambda path: path.name)
def test_evidence_is_in_the_trace(path: Path) -> None:
    """Launches begin and end as their rows do; a gap ends where the work after it begins."""
    rows = {row["id"]: row for row in ktrace.read(path).events.to_dict("records")}
    begun = {(row["name"], row["ts"]): row for row in rows.values()}  # of work of no device no id is kept
    seen = 0
    summary = ktrace.summary(path, by=["kernel"])
    for one in summary.findings:
        for shown in one.evidence:
            row = rows[shown.id] if shown.id is not None else begun[shown.name, shown.begin_ns]
            begin, end = row["ts"], row["ts"] + row["dur"]
            assert (shown.end_ns == begin) if one.code.startswith("idle.") else (shown[3:5] == (begin, end)), one
            assert shown.time_ns <= shown.end_ns - shown.begin_ns or one.code == "straggler"
            seen += 1
        assert [shown.time_ns for shown in one.evidence] == sorted((s.time_ns for s in one.evidence), reverse=True)
    assert seen or summary.checks


def test_a_document_has_plain_values() -> None:
    for one in ktrace.summary(RANKS).findings:
        document = json.loads(json.dumps(one.document()))
        assert isinstance(document["value"], int) and None not in document["subject"].values()
        assert document["share_percent"] == pytest.approx(100 * document["value"] / document["whole"], rel=1e-5)
    half = structs.replace(one, value=0.5, whole=None)
    assert (half.document()["value"], half.document()["share_percent"]) == (0.5, None)


def test_time_before_and_the_longest() -> None:
    times = Intervals.from_pairs([(10, 20), (30, 35)])
    at = np.array([0, 10, 13, 20, 25, 31, 35, 99])
    assert times.until(at).tolist() == [sum(10 <= ns < 20 or 30 <= ns < 35 for ns in range(end)) for end in at]
    assert Intervals.from_pairs([]).until(at).tolist() == [0] * 8
    assert longest(np.array([0, 5, 7, 5, 5])) == [2, 1, 3] and longest(np.array([0, 0])) == []


@pytest.mark.parametrize("cause", CAUSES)
def test_each_cause_has_its_code(cause: str) -> None:
    """All are found; those that nobody can change needn't be looked at."""
    one = IdleCause(cause, 300_000, 3, 200_000)
    made = Summary(["run"], "events", 700_000.0, 2, (0, 10**6), {}, [USE], proofs={"idle": idle(one)})
    facts = {fact.code: fact for fact in made.findings}
    code = f"idle.{cause.replace(' ', '_')}"
    assert [name for name in facts if name.startswith("idle.")] == [code] and facts[code].value == 300_000
    assert (facts[code].look is None) is (cause in ("queued before the recording", "not recorded"))
    assert f"`{code}`" in (ROOT / "docs/programs.md").read_text("utf-8")


USE = DeviceUse("device 0", "run", 0, None, 1_000_000, 700_000, 700_000, 0, 0, 0, 0)


def idle(*causes: IdleCause) -> IdleAnswer:
    return IdleAnswer([DeviceIdle("device 0", "run", 0, 1_000_000, 300_000, causes)])


def test_what_to_group_by_may_be_one_text() -> None:
    path = SAMPLES / "kineto/one-step-of-training.pt.trace.json"
    listed = ktrace.summary(path, by=["op", "operation"])
    assert [table.rows for table in ktrace.summary(path, by="op,operation").tables()] == [
        table.rows for table in listed.tables()
    ]
    assert [*ktrace.diff(path, path, by="operation").rows] == ["operation"]


@pytest.mark.parametrize("kind", ["memcpy", "collective"])
@pytest.mark.parametrize("hidden", [True, False])
def test_work_that_kernels_hide_is_not_looked_at(kind: str, hidden: bool, tmp_path: Path) -> None:
    """Copies or collectives take the most time, but beside kernels they cost nothing."""
    rows = [host("launch", 0, 900, 1), host("launch", 900, 1_000, 2), host("launch", 1_000, 1_100, 3)]
    rows += [work("sgemm", 2_000, 50_000, 1), work("softmax", 50_000, 90_000, 2)]
    name = "Memcpy HtoD (Pinned -> Device)" if kind == "memcpy" else "ncclDevKernel_AllReduce_Sum_f32"
    begin = 2_000 if hidden else 90_000
    rows.append(work(name, begin, begin + 88_000, 3, kind="memcpy" if kind == "memcpy" else "kernel", stream=8))
    facts = found(written(tmp_path / "run.jsonl", rows))
    assert facts["heaviest.operation"].look is None and ("heaviest.compute" in facts) is hidden
    if hidden:
        first = facts["heaviest.compute"]
        assert (first.value, first.subject["operation"], first.look) == (48_000, "gemm", 1)
        assert [row.name for row in first.evidence] == ["sgemm"]
    assert "heaviest.compute" not in found(STEP), "there it is what takes the most time"
