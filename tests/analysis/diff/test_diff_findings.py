"""The facts of a comparison for programs: both values, what is known of noise, what a limit finds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from sides import events, side, statistics
from test_gate import around, steps, trace

import ktrace
from ktrace.analysis.answers.diff.compare import compared
from ktrace.analysis.answers.diff.comparison import Diff, gate
from ktrace.analysis.work.findings import Finding


def found(diff: Diff) -> dict[str, Finding]:
    return {one.code: one for one in diff.findings}


def test_slower_by_how_much_because_of_what() -> None:
    a = [events("gemm", around(1, 1e6, 80), steps=8), events("softmax", around(2, 2e5, 80), steps=8)]
    b = [events("gemm", around(1, 1e6, 80), steps=8), events("softmax", around(3, 3e5, 80), steps=8)]
    diff = compared(side("a", a, walls=around(4, 12_000_000, 8)), side("b", b, walls=around(5, 13_000_000, 8)))
    facts = found(diff)
    assert diff.wall is not None
    time, softmax = facts["time"], facts["change.clear"]
    assert (time.value, time.whole, time.metric) == (diff.wall.delta, diff.wall.total_a, "time a step")
    assert (time.details["a_ns"], time.details["b_ns"]) == (diff.wall.total_a, diff.wall.total_b)
    assert (time.details["noise"], time.details["samples_a"]) == ("clear", 8)
    assert softmax.subject == {"kernel": "softmax"} and softmax.look == 1
    assert softmax.value == (sum(around(3, 3e5, 80)) - sum(around(2, 2e5, 80))) / 8
    assert "another_amount_of_work" not in facts and "regression" not in facts
    assert json.loads(json.dumps([one.document() for one in diff.findings]))


def test_the_same_has_no_changes() -> None:
    walls = around(1, 42_700_000, 8)
    facts = found(compared(steps("a", around(2, 2e6, 80), walls), steps("b", around(4, 2e6, 80), walls)))
    assert [*facts] == ["time"] and facts["time"].details["noise"] == "within noise"
    hidden = found(compared(steps("a", around(2, 2e6, 80), walls), steps("b", around(3, 2.4e6, 80), walls)))
    assert hidden["work"].share == pytest.approx(19.9, abs=0.1) and "device_time" not in hidden


def test_idle_time_only_where_it_is_the_change() -> None:
    work = around(1, 6_000_000, 80)
    a = steps("a", work, around(2, 137_000_000, 8))
    idle = found(compared(a, steps("b", work, around(3, 853_000_000, 8))))["idle"]
    assert (round(idle.details["a_ns"] / 1e6), round(idle.details["b_ns"] / 1e6)) == (77, 791)  # type: ignore[operator]
    assert idle.look == 1  # as the verdict says
    assert "idle" not in found(compared(a, steps("b", work, around(5, 137_000_000, 8))))


def test_another_amount_of_work_and_one_side_alone() -> None:
    a = side("a", [events("attention", [1_000_000] * 68), events("gemm", [2_000_000] * 136)])
    b = side("b", [events("attention", [1_010_000] * 60), events("gemm", [2_020_000] * 120)])
    a.span = b.span = (0, 1_000_000_000)
    amount = found(compared(a, b))["another_amount_of_work"]
    assert (amount.subject, amount.value, amount.whole, amount.unit) == ({"work": "gemm"}, -16, 136, "count")
    b = side("b", [events("gemm", [2_000_000] * 136), events("norm", [900_000] * 68)])
    facts = found(compared(a, b))
    assert facts["change.gone"].subject == {"kernel": "attention"} and facts["change.new"].details["a_ns"] == 0


def test_shares_and_statistics_are_said_to_be_so() -> None:
    a = side("a", [statistics("gemm", 60.0), statistics("norm", 40.0)], unit="%")
    facts = found(compared(a, side("b", [statistics("gemm", 70.0), statistics("norm", 30.0)], unit="%")))
    assert [*facts] == ["work"] and facts["work"].unit == "%"
    facts = found(compared(side("a", [statistics("gemm", 1e6, 10)]), side("b", [statistics("gemm", 2e6, 10)])))
    assert facts["change.not_known"].details["why"] == "statistics only"


def test_lost_records_are_a_finding_of_their_side() -> None:
    a, b = side("a", [events("gemm", [100] * 50)]), side("b", [events("gemm", [200] * 50)])
    assert "records_lost" not in found(compared(a, b))
    b.notes = ["b lacks records: 3 of 50 device activities have no call, though those around them do."]
    assert found(compared(a, b))["records_lost"].subject == {"side": "b"}


def test_regressions_are_findings_only_beyond_their_limit(tmp_path: Path) -> None:
    diff = ktrace.diff(trace(tmp_path / "a.json"), trace(tmp_path / "slow.json", slow=1.5))
    assert not any(one.code == "regression" for one in diff.findings)
    diff.gate = gate(diff, each=20.0)
    (one,) = [one for one in diff.findings if one.code == "regression"]
    assert one.subject == {"kernel": "softmax_kernel"} and one.details["limit_percent"] == 20
    assert (one.details["a_ns"], one.details["b_ns"]) == (25 * 80_000, 25 * 120_000) and one.share == 50
    diff.gate = gate(diff, each=60.0)
    assert not any(one.code == "regression" for one in diff.findings)


def test_devices_and_exposed_copies_behind_an_equal_time() -> None:
    """Steps take as long; devices are at them for longer, with copies that nothing runs beside any more."""
    work, walls = around(1, 2_000_000, 80), around(2, 40_000_000, 8)
    a, b = (steps(name, work, walls, around(3, span, 8)) for name, span in (("a", 25e6), ("b", 32e6)))
    facts = found(compared(a, b))
    assert facts["device_time"].share == pytest.approx(28, abs=1) and "exposed.copies" not in facts
    assert "device_time" not in found(compared(a, a))
    exposed = dict(zip(("a", "b"), (around(4, 1e6, 8), around(5, 6e6, 8)), strict=True))
    for one in (a, b):
        one.step_use = [
            replace(use, copies=6_500_000, exposed_copies=time)
            for use, time in zip(one.step_use, exposed[one.sources[0]], strict=True)
        ]
    alone = found(compared(a, b))["exposed.copies"]
    assert alone.value == pytest.approx(5e6, rel=0.02) and alone.details["noise"] == "clear"


def test_what_is_not_known_to_exceed_noise_is_said_to_be_so(tmp_path: Path) -> None:
    facts = found(ktrace.diff(trace(tmp_path / "a.json"), trace(tmp_path / "b.json", gap=120.0)))
    assert facts["time"].details["noise"] == facts["idle"].details["noise"] == "not known"
    assert not any(code.startswith("change.") for code in facts), "the kernels are equal"


def test_rows_show_what_got_slower_on_the_side_where_it_takes_longer(tmp_path: Path) -> None:
    a, b = trace(tmp_path / "a.json", slow=2.0), trace(tmp_path / "b.json", gap=120.0)
    for left, right, idle, slow in ((a, b, "b", "a"), (b, a, "a", "b")):
        facts = found(ktrace.diff(left, right, by=["kernel"]))
        assert {row.source for row in facts["idle"].evidence} == {"b"}
        assert facts["idle"].details["evidence_of"] == idle
        assert {row.time_ns for row in facts["idle"].evidence} == {120_000}
        shown = facts["change.clear"].evidence
        assert facts["change.clear"].details["evidence_of"] == slow
        assert {row.source for row in shown} == {"a"}
        assert [(row.name, row.time_ns) for row in shown] == [("softmax_kernel", 160_000)] * 3
        assert len({row.id for row in shown}) == 3
    assert not found(ktrace.diff(a, b, by=["kernel"]))["time"].evidence


def test_rows_of_a_regression_and_of_work_in_steps(tmp_path: Path) -> None:
    """A slow first launch outside of the steps shows nothing: only the steps are compared."""
    sides = []
    for name, slow in (("a", 1.0), ("b", 2.0)):
        document = json.loads(trace(tmp_path / name, count=60, slow=slow).read_text())
        rows = document["traceEvents"]
        begins = [row["ts"] for row in rows if row["cat"] == "cuda_runtime"]
        rows[3]["dur"] = 900.0 if name == "b" else rows[3]["dur"]
        rows[4]["ts"] = rows[2]["ts"]
        for step in range(5):
            begin, end = begins[10 * step + 5] - 1, begins[10 * step + 14] + 1
            rows.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1})
            rows[-1] |= {"ts": begin, "dur": round(end - begin, 3)}
        sides.append(tmp_path / f"{name}.json")
        sides[-1].write_text(json.dumps(document))
    diff = ktrace.diff(*sides, by=["operation", "kernel"])
    facts = found(diff)
    assert [row.time_ns for row in facts["change.clear"].evidence] == [160_000] * 3
    diff.gate = gate(diff, 5.0, 5.0)
    softmax = next(one for one in diff.findings if one.subject == {"operation": "softmax"})
    assert softmax.code == "regression" and [row.name for row in softmax.evidence] == ["softmax_kernel"] * 3
    assert "rows" not in diff.outcome()["regressions"][0]
