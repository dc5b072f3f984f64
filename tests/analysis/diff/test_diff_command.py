"""`ktrace diff`: formats, exit codes, what is written when it got slower."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner, Result
from conftest import ROOT, SAMPLES
from runs import monday, tuesday
from sides import events, side, statistics

from ktrace.analysis.answers.diff.compare import compared
from ktrace.analysis.answers.diff.comparison import regressions
from ktrace.cli import cli
from ktrace.errors import UsageError

STEP = SAMPLES / "kineto" / "one-step-of-training.pt.trace.json"
RUNS = SAMPLES / "latencyprism" / "comparison-as-csv.csv"


def run(*words: object) -> Result:
    return CliRunner().invoke(cli, ["diff", *map(str, words)])


@pytest.fixture
def slower(tmp_path: Path) -> Path:
    """The sample with gemms that take a tenth longer, and one kernel that makes up for it."""
    document = json.loads(STEP.read_text())
    for event in document["traceEvents"]:
        if event.get("cat") == "kernel":
            event["dur"] *= 1.5 if "gemm" in event["name"] else 1.02
    path = tmp_path / "slower.pt.trace.json"
    path.write_text(json.dumps(document))
    return path


def test_text_says_what_changed(slower: Path) -> None:
    result = run(STEP, slower)
    assert result.exit_code == 0
    assert f"a = {STEP.name}, b = {slower.name}, average per step" in result.output
    assert "by kernel, average per step" in result.output
    assert "+50.0%" in result.output


def test_json_is_parsed_and_agrees_with_csv(slower: Path) -> None:
    document = json.loads(run(STEP, slower, "--format", "json").stdout)
    kernels = pd.DataFrame(document["tables"]["kernel"])
    gemm = kernels[kernels.kernel.str.contains("gemm")]
    assert len(gemm)
    assert gemm.change_percent.round(2).eq(50).all()
    assert (kernels.a_ns + kernels.change_ns).round(3).equals(kernels.b_ns.round(3))
    assert (kernels.by_count_ns + kernels.by_duration_ns - kernels.change_ns).abs().max() < 1e-6
    table = pd.read_csv(io.StringIO(run(STEP, slower, "--format", "csv").stdout))
    assert table[table.table == "kernel"].a_ns.tolist() == kernels.a_ns.tolist()


@pytest.mark.parametrize("name", ["out.csv", "out.json", "out.md", "out.html", "out.txt"])
def test_the_name_of_the_output_says_the_format(tmp_path: Path, slower: Path, name: str) -> None:
    out = tmp_path / name
    assert run(STEP, slower, "-o", out).exit_code == 0
    text = out.read_text()
    begins = {"csv": "table,", "json": "{", "md": "", "html": "<!doctype html>", "txt": "slower.pt"}[
        name.partition(".")[2]
    ]
    assert text.startswith(begins)
    assert "gemm" in text
    again = run(STEP, slower, "-o", out)
    assert again.exit_code == 1  # it exists
    assert run(STEP, slower, "-o", out, "--overwrite").exit_code == 0


def test_slower_by_more_is_exit_code_3_and_the_report_is_written(tmp_path: Path, slower: Path) -> None:
    out = tmp_path / "report.json"
    result = run(STEP, slower, "--fail-over", "5%", "-o", out)
    assert result.exit_code == 3
    assert "slower: all work got slower: +" in result.stderr
    assert json.loads(out.read_text())["tables"]["whole"]
    assert run(STEP, slower, "--fail-over", "60").exit_code == 0
    assert run(slower, STEP, "--fail-over", "5%").exit_code == 0  # faster
    assert run(STEP, STEP, "--fail-over", "0%").exit_code == 0


def test_slower_in_a_part_or_in_one_row(slower: Path) -> None:
    assert run(STEP, slower, "--fail-over-each", "40%").exit_code == 3
    assert run(STEP, slower, "--fail-over-each", "60%").exit_code == 0
    assert run(STEP, slower, "--fail-over", "40%", "--name", "*gemm*", "--kind", "kernel").exit_code == 3
    assert run(STEP, slower, "--fail-over", "40%", "--kind", "memcpy").exit_code == 0


def test_a_part_is_compared_by_step_too(tmp_path: Path) -> None:
    """The ranges of the steps don't pass the filter, and still say the steps: eight against ten of equal gemms."""
    a, b = monday(tmp_path), tuesday(tmp_path)
    assert run(a, b, "--name", "*gemm*", "--fail-over", "1%").exit_code == 0
    assert run(a, b, "--name", "*softmax*", "--fail-over", "10%").exit_code == 3
    document = json.loads(run(a, b, "--name", "*softmax*", "--format", "json").stdout)
    assert [row["count_a"] for row in document["tables"]["kernel"]] == [6]


def test_wrong_usage_is_exit_code_2(tmp_path: Path) -> None:
    for words in (
        [STEP, STEP, "--fail-over", "much"],
        [STEP, STEP, "--fail-over", "-5%"],
        [STEP, STEP, "--by", "color"],
        [STEP, STEP, "--by", "layer,run"],
        [STEP, STEP, "--runs", "a"],
        [STEP, STEP, "--runs", "a,b"],
        [STEP, STEP, STEP],
        [],
        [RUNS, "--fail-over", "5%"],
    ):
        result = run(*words)
        code = result.exit_code if not isinstance(result.exception, UsageError) else 2
        assert code == 2, (words, result.output, result.exception)


def test_two_runs_of_one_file() -> None:
    result = run(RUNS)
    assert result.exit_code == 0, result.output
    backwards = json.loads(run(RUNS, "--runs", "abnormal,normal", "--format", "json").stdout)
    forwards = json.loads(run(RUNS, "--runs", "normal,abnormal", "--format", "json").stdout)
    for one, other in zip(forwards["tables"]["whole"], backwards["tables"]["whole"], strict=True):
        assert one["points_percent"] == -other["points_percent"]


def test_a_slower_kernel_behind_a_faster_one_is_found_by_each() -> None:
    a = side("a", [events("x", [100] * 40, steps=8), events("y", [100] * 40, steps=8)])
    b = side("b", [events("x", [150] * 40, steps=8), events("y", [50] * 40, steps=8)])
    diff = compared(a, b)
    assert regressions(diff, 5) == []
    assert regressions(diff, 5, 20) == ["kernel x got slower: +50.0%, more than 20%"]
    assert regressions(diff, None, 60) == []


def test_what_is_within_noise_or_small_does_not_fail() -> None:
    uneven = [100, 100, 100, 100, 100, 100, 100, 150]
    noisy = compared(side("a", [events("x", uneven, steps=8)]), side("b", [events("x", [*uneven[:-1], 300], steps=8)]))
    assert noisy.whole.delta > 0.05 * noisy.whole.total_a
    assert regressions(noisy, 5, 5) == []
    small = [events("x", [10_000] * 8, steps=8)]
    a, b = side("a", [*small, events("y", [10] * 8, steps=8)]), side("b", [*small, events("y", [20] * 8, steps=8)])
    assert regressions(compared(a, b), None, 5) == []


def test_what_is_not_known_fails_and_says_so() -> None:
    diff = compared(side("a", [statistics("x", 100.0, 2)]), side("b", [statistics("x", 110.0, 2)]))
    (sentence,) = regressions(diff, 5)
    assert sentence == "all work got slower: +10.0%, more than 5%, not known whether it exceeds noise (statistics only)"
    (new,) = regressions(compared(side("a", []), side("b", [events("x", [5])])), 5)
    assert "new work" in new


def test_the_wall_time_of_a_step_counts() -> None:
    """The work is the same, and waits between it make the steps slower."""
    a = side("a", [events("x", [100] * 8, steps=8)], walls=[200 + step for step in range(8)])
    b = side("b", [events("x", [100] * 8, steps=8)], walls=[300 + step for step in range(8)])
    diff = compared(a, b)
    assert [sentence.partition(" got")[0] for sentence in regressions(diff, 5)] == ["wall"]
    assert regressions(diff, 5, part=True) == []


def test_the_page_shows_what_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line of output in docs/commands/diff.md, for the two runs that it is about."""
    monday(tmp_path)
    tuesday(tmp_path)
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/commands/diff.md").read_text("utf-8")
    blocks = re.findall(r"^```\n\$ ktrace diff (.*)\n([^`]*)^```$", page, re.M)
    assert len(blocks) == 3
    for words, shown in blocks:
        result = run(*words.split())
        assert result.exit_code == (3 if "--fail-over" in words else 0)
        written = iter(result.output.splitlines())
        missing = [line for line in shown.splitlines() if line != "..." and line not in written]
        assert not missing
