"""Intel VTune's report of computing tasks: the sample's own figures, computed here without ktrace."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from decimal import Decimal
from pathlib import Path

import pytest

import ktrace
from ktrace.errors import KtraceError

SAMPLE = Path(__file__).parent.parent.parent / "samples" / "vtune" / "tasks-by-semicolon.csv"
TASKS = list(csv.DictReader(SAMPLE.read_text(encoding="utf-8").splitlines()[2:], delimiter=";"))[:-1]
KINDS = {"zeCommandListAppendMemoryCopy": "memcpy", "zeCommandListAppendMemoryFill": "memset"}


def ns(seconds: str) -> int:
    return int(Decimal(seconds) * 10**9)


@pytest.mark.parametrize("separator", [";", ",", "\t"])
def test_the_figures_are_those_of_the_sample(tmp_path: Path, separator: str) -> None:
    path = tmp_path / "tasks.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, delimiter=separator)
        writer.writerows(csv.reader(SAMPLE.read_text(encoding="utf-8").splitlines()[2:], delimiter=";"))
    trace = ktrace.read(path)
    rows = trace.summaries
    assert [*rows["name"]] == [task["Computing Task"] for task in TASKS]
    assert [*rows["kind"]] == [KINDS.get(task["Computing Task"], "kernel") for task in TASKS]
    assert [*rows["total"]] == [ns(task["Computing Task:Total Time"]) for task in TASKS]
    assert [*rows["avg"]] == [ns(task["Computing Task:Average Time"]) for task in TASKS]
    assert [*rows["count"]] == [int(task["Computing Task:Instance Count"]) for task in TASKS]
    assert json.loads(rows["args"][0])["XVE Array:Active(%)"] == 71.3
    assert not trace.report.issues and trace.report.reader.removed["outside any task"] == 1


def test_operations_add_up() -> None:
    totals: dict[str, int] = defaultdict(int)
    for task in TASKS:
        totals[task["Computing Task"].partition("<")[0]] += ns(task["Computing Task:Total Time"])
    operations = {group.key: group.total for group in ktrace.summary(SAMPLE).groups["operation"]}
    assert operations["gemm"] == totals["gemm_kernel"] and operations["softmax"] == totals["softmax_fwd"]


def test_a_unit_in_the_heading_counts(tmp_path: Path) -> None:
    path = tmp_path / "tasks.csv"
    path.write_text("Computing Task,Computing Task:Total Time (ms)\nsoftmax,1.5\n", encoding="utf-8")
    assert [*ktrace.read(path).summaries["total"]] == [1_500_000]


def test_a_report_by_function_is_refused_with_the_command_for_tasks(tmp_path: Path) -> None:
    path = tmp_path / "functions.csv"
    path.write_text("vtune: Executing actions 75 %\nFunction;CPU Time\nmain;1.5\n", encoding="utf-8")
    with pytest.raises(KtraceError, match="VTune") as caught:
        ktrace.read(path)
    assert "-group-by computing-task" in str(caught.value.remedy)
