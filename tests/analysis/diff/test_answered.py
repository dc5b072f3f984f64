"""Comparisons by what the host did, by causes of idle time, by collectives: the figures are those of the summaries."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from conftest import SAMPLES
from runs import monday, tuesday

import ktrace
from ktrace.analysis.answers.diff.matching import ANSWERED
from ktrace.cli import cli
from ktrace.errors import UsageError

STEP = SAMPLES / "kineto" / "one-step-of-training.pt.trace.json"


@pytest.fixture
def slower(tmp_path: Path) -> Path:
    """The sample with launches that take 9 us longer on the host, and products that take twice as long."""
    document = json.loads(STEP.read_text())
    for event in document["traceEvents"]:
        if event.get("name") == "cudaLaunchKernel":
            event["dur"] = round(event["dur"] + 9, 3)
        if event.get("cat") == "kernel" and "gemm" in event["name"]:
            event["dur"] *= 2
    path = tmp_path / "slower.pt.trace.json"
    path.write_text(json.dumps(document))
    return path


def test_operators_and_calls(slower: Path) -> None:
    diff = ktrace.diff(STEP, slower, by=["op", "api"])
    sides = [ktrace.summary(path, by=["op", "api"]).answers for path in (STEP, slower)]
    for side, answers in zip("ab", sides, strict=True):
        own = {row.name: (row.own, row.calls) for row in answers["op"].rows}  # type: ignore[attr-defined]
        for change in diff.rows["op"]:
            assert (getattr(change, f"total_{side}"), getattr(change, f"count_{side}")) == own[change.key]
    slow = diff.rows["op"][0]
    assert (slow.percent, slow.verdict, slow.why) == (100, "not known", "only totals are known")
    calls = {change.key: change for change in diff.rows["api"]}
    launch = calls["cudaLaunchKernel"]
    assert launch.delta == pytest.approx(9_000 * (launch.count_a or 0))
    assert launch.test is not None and launch.test.samples == "launches"
    assert calls["cudaDeviceSynchronize"].delta == 0
    assert diff.notes[-1] == "By op and api, averages are those of the whole trace over its steps."


def test_idle_and_the_critical_path_and_collectives(slower: Path) -> None:
    diff = ktrace.diff(STEP, slower, by=["idle", "critical-path", "collective"])
    answers = ktrace.summary(slower, by=["idle", "critical-path", "collective"]).answers
    (device,) = answers["idle"].devices  # type: ignore[attr-defined]
    causes = {cause.cause: (cause.time, cause.gaps) for cause in device.causes}
    assert {one.key: (one.total_b, one.count_b) for one in diff.rows["idle"] if one.b} == causes
    kinds = {one.key: one.time for one in answers["critical-path"].kinds}  # type: ignore[attr-defined]
    assert {one.key: one.total_b for one in diff.rows["critical-path"] if one.b} == kinds
    assert [(one.key, one.total_a, one.delta) for one in diff.rows["collective"]] == [
        ("all_reduce 33.6 MB", 215_806, 0)
    ]


def test_runs_of_different_length_are_averages_over_steps(tmp_path: Path) -> None:
    """Eight steps against ten, of the same calls."""
    diff = ktrace.diff(monday(tmp_path), tuesday(tmp_path), by=["api"])
    assert [(one.key, one.count_a, one.count_b, one.delta) for one in diff.rows["api"]] == [
        ("cudaLaunchKernel", 37, 37, 0)
    ]


@pytest.mark.parametrize("by", ["weather", "roofline", "module", "phase"])
def test_what_cannot_be_compared_says_what_can(by: str) -> None:
    with pytest.raises(UsageError) as told:
        ktrace.diff(STEP, STEP, by=[by])
    expected = told.value.expected or ""
    if by in ("module", "phase"):  # the sample has none
        assert "kernel" in expected and by not in expected
    else:
        assert all(name in expected for name in ANSWERED)


def test_in_every_form(tmp_path: Path, slower: Path) -> None:
    words = [
        "diff",
        str(STEP),
        str(slower),
        "--by",
        ",".join(name for name in ANSWERED if name not in ("module", "phase", "batch")),
    ]
    for form in ("text", "csv", "md", "html"):
        result = CliRunner().invoke(cli, [*words, "--format", form])
        assert result.exit_code == 0, result.output
        assert "cudaDeviceSynchronize" in result.stdout
    tables = json.loads(CliRunner().invoke(cli, [*words, "--format", "json"]).stdout)["tables"]
    assert {"op", "range", "api", "idle", "collective", "critical-path"} <= {*tables}
