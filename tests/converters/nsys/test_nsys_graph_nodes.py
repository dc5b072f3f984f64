"""The kernels of CUDA graphs in databases of Nsight Systems get the ranges and calls that created their nodes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import nsys_samples as made
import numpy as np
import pytest

import ktrace
from ktrace.converters.nsys.origins import _first_of_clones

NODES = "CUDA_GRAPH_NODE_EVENTS"
OTHER = 4343
OTHER_TID = 1 << 48 | OTHER << 24 | OTHER

#: Node -> the ranges around its creation, outermost first, and the call.
TRUTH: dict[int, tuple[list[str], str | None]] = {
    11: (["forward", "layer 0"], "cudaLaunchKernel_v7000"),
    12: (["forward", "layer 0", "aten::addmm, op_id = 7"], "cudaLaunchKernel_v7000"),
    13: (["forward"], "cudaMemcpyAsync_v3020"),
}


def database(path: Path, nodes: str = NODES, *, created: bool = True) -> Path:
    """Three nodes captured in ranges, cloned twice and replayed three times; a process without creations beside it."""
    text = made.Strings()
    ranges = [
        made.nvtx(59, 1_000, 9_000, "forward"),
        made.nvtx(59, 2_000, 5_000, None, textId=text("layer 0")),
        made.nvtx(59, 3_000, 4_000, "aten::addmm, op_id = 7"),
        made.nvtx(59, 1_500, 8_000, "another thread", globalTid=OTHER_TID),
        made.nvtx(59, 99_000, 200_000, "serve"),
    ]
    calls = [
        made.call(text, "cudaLaunchKernel_v7000", 2_400, 2_700, 1),
        made.call(text, "cudaLaunchKernel_v7000", 3_400, 3_700, 2),
        made.call(text, "cudaMemcpyAsync_v3020", 6_400, 6_700, 3),
    ]
    at = {11: 2_500, 12: 3_500, 13: 6_500}
    name = text("Graph Node Creation")
    rows = [
        {"start": start + clone, "end": start + clone + 10, "eventClass": 77, "globalTid": made.GLOBAL_TID}
        | {"nameId": name, "graphNodeId": node + 100 * clone, "originalGraphNodeId": node + 100 * (clone - 1)}
        | ({"originalGraphNodeId": None} if not clone else {})
        for node, start in at.items()
        for clone in (0, 1, 2)
    ]
    kernels, copies = [], []
    for replay in range(3):
        begin, correlation = 100_000 + 10_000 * replay, 50 + replay
        calls.append(made.call(text, "cudaGraphLaunch_v10000", begin - 500, begin - 100, correlation))
        for node, dur in ((211, 1_000), (212, 2_000)):
            kernels.append(made.kernel(text, f"k{node}", begin, begin + dur, correlation, graphNodeId=node))
            begin += dur + 10
        copies.append(
            {"start": begin, "end": begin + 300, **made.place(correlation), "bytes": 64, "copyKind": 8}
            | {"graphNodeId": 213}
        )
    foreign = made.kernel(text, "k211", 180_000, 180_007, 60, graphNodeId=211)
    kernels.append({**foreign, **made.place(60, pid=OTHER)})
    return made.make(
        path,
        {
            "CUPTI_ACTIVITY_KIND_KERNEL": kernels,
            "CUPTI_ACTIVITY_KIND_MEMCPY": copies,
            "CUPTI_ACTIVITY_KIND_RUNTIME": calls,
            "NVTX_EVENTS": ranges,
            nodes: rows if created else [],
            "StringIds": text.rows(),
        },
        more={"CUDA_GRAPH_EVENTS": made.TABLES[NODES]},
    )


def rows_of(path: Path) -> list[dict[str, Any]]:
    rows = ktrace.read(path).frame("events").to_dict("records")
    return [row for row in rows if row["kind"] in ("kernel", "memcpy")]


@pytest.mark.parametrize("nodes", [NODES, "CUDA_GRAPH_EVENTS"])
def test_replayed_work_names_the_ranges_and_the_call_of_its_node(tmp_path: Path, nodes: str) -> None:
    trace = ktrace.read(database(tmp_path / "run.sqlite", nodes))
    found: Counter[tuple[int | None, tuple[str, ...], str | None, str | None]] = Counter()
    for row in rows_of(tmp_path / "run.sqlite"):
        args = json.loads(row["args"])
        chain = tuple(args.get("captured_in", ()))
        assert args.get("range") == (chain[-1] if chain else None)
        found[row["pid"], chain, args.get("captured_call"), row["kind"]] += 1
    expected = Counter(
        {
            (made.PID, tuple(ranges), call, "memcpy" if node == 13 else "kernel"): 3
            for node, (ranges, call) in TRUTH.items()
        }
    )
    assert found == expected | Counter({(OTHER, (), None, "kernel"): 1})
    issues = trace.report.issues
    assert (issues["captured"].rows, issues["uncaptured"].rows) == (9, 1)


def test_answers_attribute_replays_to_captured_ranges_and_operators(tmp_path: Path) -> None:
    """Sums by hand: replays take 3 times 1,000, 2,000 and 300 ns, and 7 ns belong to the other process."""
    answers = ktrace.summary(database(tmp_path / "run.sqlite"), by=["range", "op"]).answers
    ranges = {row.name: (row.total, row.launched) for row in answers["range"].rows}  # type: ignore[attr-defined]
    assert ranges["forward"] == (9_900, 9)
    assert ranges["layer 0"] == (9_000, 6)
    assert ranges["serve"] == (9_900, 9)
    operators = {row.name: (row.own, row.launched) for row in answers["op"].rows}  # type: ignore[attr-defined]
    assert operators["aten::addmm"] == (6_000, 3)


def test_without_creations_nothing_is_attributed(tmp_path: Path) -> None:
    path = database(tmp_path / "run.sqlite", created=False)
    assert not any("captured" in row["args"] for row in rows_of(path))
    issues = ktrace.read(path).report.issues
    assert "captured" not in issues
    assert issues["uncaptured"].rows == 10


def test_clones_that_run_in_a_circle_end() -> None:
    nodes, original = np.array([1, 2, 3, 4]), np.array([2, 1, 0, 3])
    found = _first_of_clones(nodes, original)
    assert found[2:].tolist() == [2, 2]
