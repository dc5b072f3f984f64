"""The outcome of limits as JUnit's XML and as annotations of GitHub: what failed, what passed, odd names."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result
from runs import monday, tuesday

import ktrace
from ktrace.analysis.answers.diff.comparison import gate
from ktrace.analysis.answers.diff.gated import gated
from ktrace.cli import cli
from ktrace.errors import UsageError
from ktrace.tables.annotations import annotation


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["diff", *words])


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Two runs of which a kernel of the second is 15 % slower, and the whole hardly."""
    folder = tmp_path_factory.mktemp("runs")
    return str(monday(folder)), str(tuesday(folder))


def test_a_case_for_each_thing_that_was_checked(runs: tuple[str, str]) -> None:
    asked = [*runs, "--fail-over", "5%", "--fail-over-each", "10%", "--format"]
    done, exact = run(*asked, "junit"), run(*asked, "json")
    assert done.exit_code == exact.exit_code == 3
    outcome = json.loads(exact.stdout)
    root = ElementTree.fromstring(done.stdout)
    cases = {case.get("name"): [one.get("message") for one in case] for case in root.iter("testcase")}
    failed = {name: messages for name, messages in cases.items() if messages}
    assert failed == {"kernel softmax_warp_forward": [one["sentence"] for one in outcome["regressions"]]}
    rows = {row["kernel"] for row in outcome["tables"]["kernel"] if row["b_ns"] and row["a_ns"]}
    assert {name for name in cases if name and name.startswith("kernel ")} <= {f"kernel {name}" for name in rows}
    assert "all work" in cases and len(cases) > 4
    for suite in (root, *root):
        assert (suite.get("tests"), suite.get("failures")) == (str(len(cases)), "1")
    assert (root.findtext(".//system-out") or "").startswith("tuesday.pt.trace.json takes ")


def test_an_annotation_for_each_regression_and_the_first_sentence(runs: tuple[str, str]) -> None:
    done = run(*runs, "--fail-over-each", "10%", "--format", "github")
    assert done.exit_code == 3
    slower, said = done.stdout.splitlines()
    assert slower == "::error title=slower::kernel softmax_warp_forward got slower: +15.0%25, more than 10%25"
    assert re.match(r"::notice title=ktrace diff::tuesday\.pt\.trace\.json takes [\d.]+%25 longer than", said)


def test_what_passes_has_no_failure_and_no_error(runs: tuple[str, str]) -> None:
    passed = run(*runs, "--fail-over", "5%", "--format", "junit")
    assert passed.exit_code == 0 and "<failure" not in passed.stdout and 'failures="0"' in passed.stdout
    told = run(*runs, "--fail-over", "5%", "--format", "github")
    assert told.exit_code == 0 and "::error" not in told.stdout and told.stdout.startswith("::notice ")


def test_without_a_limit_it_is_an_error_of_usage(runs: tuple[str, str]) -> None:
    done = run(*runs, "--format", "junit")
    assert isinstance(done.exception, UsageError) and not done.stdout
    assert done.exception.remedy == "give one, such as --fail-over 5%"


def test_names_of_any_characters_stay_names(runs: tuple[str, str], tmp_path: Path) -> None:
    """A kernel called like an element and an annotation."""
    hostile = 'softmax]]></failure>&"\n::error::x'
    paths = []
    for path in runs:
        text = Path(path).read_text("utf-8").replace("softmax_warp_forward", json.dumps(hostile)[1:-1])
        paths.append(tmp_path / Path(path).name)
        paths[-1].write_text(text, "utf-8")
    diff = ktrace.diff(*paths, by=["kernel"])
    diff.gate = gate(diff, each=10.0)
    assert diff.gate.failed
    root = ElementTree.fromstring(gated(diff, "junit"))
    assert [len(case) for case in root.iter("testcase")].count(1) == 1
    assert all(line.startswith(("::error title=slower::", "::notice ")) for line in gated(diff, "github").splitlines())


def test_the_escapes_are_those_of_github() -> None:
    assert annotation("error", "50%\r\nof a:b,c", file="a:b,c%.json", line=3) == (
        "::error file=a%3Ab%2Cc%25.json,line=3::50%25%0D%0Aof a:b,c"
    )
    assert "\x1b" not in annotation("error", "\x1b[2J", title="t")
