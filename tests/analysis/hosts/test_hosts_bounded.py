"""Small blocks and files on disk give the figures of everything at once in memory."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES
from test_hosts_costs import random_trace

import ktrace
from ktrace.analysis.answers.summary import compute
from ktrace.analysis.questions.hosts import forest

TRACES = [
    SAMPLES / "kineto/one-step-of-training.pt.trace.json",
    SAMPLES / "nsys/schema-3.25-graph-waits-gpu-metrics-unknown-tables.sqlite",
    SAMPLES / "kineto/base-after-the-events-graph-of-three-kernels.pt.trace.json",
]


def told(*paths: Path) -> list[Any]:
    summary = ktrace.summary(list(paths), by=["op", "range", "module", "api"])
    tree = ktrace.summary(list(paths), by=["op", "range", "kernel"], tree=True)
    assert "tree" in tree.answers
    return [table for one in (summary, tree) for answer in one.answers.values() for table in answer.tables()]


def test_what_waits_in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = told(*TRACES)
    assert {table.name for table in expected} == {"op", "range", "api", "tree"}
    monkeypatch.setattr(compute, "SPILL_BYTES", 0)
    assert told(*TRACES) == expected


@pytest.mark.parametrize("block", [1, 7, 40])
def test_blocks(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = random_trace(random.Random(block))
    expected = trace.costs(tmp_path, "op")
    assert len(trace.rows) > 300 and len(expected.rows) == 6
    monkeypatch.setattr(forest, "BLOCK", block)
    assert trace.costs(tmp_path, "op") == expected


def test_a_call_at_the_begin_of_an_operator_stays_in_its_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forest, "BLOCK", 1)
    trace = random_trace(random.Random(0))
    trace.rows.clear()
    for begin in range(0, 200, 20):
        trace.launch(begin, 3, pid=5, tid=6)
        trace.event("op", "a", begin, 10, pid=5, tid=6)
    (row,) = trace.costs(tmp_path, "op").rows
    assert (row.name, row.own, row.launched) == ("a", 30, 10)
