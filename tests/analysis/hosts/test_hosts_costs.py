"""Operators, ranges, modules and the call tree against figures worked out by hand, and against a plain search."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES

import ktrace
from ktrace.analysis.answers.summary.summary import Summary
from ktrace.analysis.questions.hosts.answer import HostCosts
from ktrace.errors import UsageError

Row = dict[str, Any]

HOST = {"pid": 5, "tid": 6}
AUTOGRAD = {"pid": 5, "tid": 9}
GPU = {"device": 0, "stream": 7}


class Trace:
    """Rows of a trace, with numbers and correlations that count on."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def event(self, kind: str, name: str, ts: int, dur: int | None, **columns: Any) -> int:
        number = len(self.rows) + 1
        row = {"record": "event", "source": "t", "id": number, "kind": kind, "name": name, "ts": ts}
        self.rows.append(row | {"timing": "measured"} | ({} if dur is None else {"dur": dur}) | columns)
        return number

    def launch(self, at: int, dur: int, name: str = "gemm", **place: Any) -> None:
        number = len(self.rows) + 1
        self.event("api", "cudaLaunchKernel", at, 1, correlation=number, **(place or HOST))
        self.event("kernel", name, at + 1000, dur, correlation=number, **GPU)

    def arrow(self, out: tuple[int, Row], into: tuple[int, Row]) -> None:
        for role, (at, place) in (("out", out), ("in", into)):
            number = len(self.rows) + 1
            end = {"record": "link", "source": "t", "id": number, "link": "fwdbwd", "key": f"k{out}{into}"}
            self.rows.append(end | {"role": role, "ts": at, "bind": "enclosing"} | place)

    def summary(self, folder: Path, **options: Any) -> Summary:
        path = folder / "t.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in [{"ktrace": "1.0"}, *self.rows]))
        return ktrace.summary(path, **options)

    def costs(self, folder: Path, by: str) -> HostCosts:
        answer = self.summary(folder, by=[by]).answers[by]
        assert isinstance(answer, HostCosts)
        return answer


def figures(costs: HostCosts, *names: str) -> dict[str, tuple[Any, ...]]:
    rows = {row.name: tuple(getattr(row, name) for name in names) for row in costs.rows}
    assert len(rows) == len(costs.rows)
    return rows


DEVICE = ("own", "total", "launched_own", "launched", "calls")


def nested() -> Trace:
    trace = Trace()
    trace.event("range", "step 3", 100, 100, **HOST)
    trace.event("op", "aten::linear", 110, 40, **HOST)
    trace.event("op", "aten::addmm", 120, 20, **HOST)
    trace.event("op", "aten::linear", 160, 20, **HOST)
    trace.launch(125, 64)  # in addmm
    trace.launch(145, 32)  # in the first linear
    trace.launch(160, 16)  # where the second begins
    trace.launch(180, 8)  # where it ends: in the step alone
    trace.launch(125, 4, pid=5, tid=7)  # on another thread
    trace.launch(300, 2)  # after the step
    trace.event("kernel", "gemm", 1500, 1, **GPU)  # without a call
    return trace


def test_own_and_total(tmp_path: Path) -> None:
    assert figures(nested().costs(tmp_path, "op"), *DEVICE) == {
        "aten::linear": (48, 112, 2, 3, 2),
        "aten::addmm": (64, 64, 1, 1, 1),
        "no operator": (15, 15, 4, 4, None),
    }
    assert figures(nested().costs(tmp_path, "range"), *DEVICE) == {
        "step 3": (120, 120, 4, 4, 1),
        "no range": (7, 7, 3, 3, None),
    }
    assert figures(nested().costs(tmp_path, "op"), "host", "host_own")["aten::linear"] == (60, 40)


def test_the_order_of_rows(tmp_path: Path) -> None:
    assert [row.name for row in nested().costs(tmp_path, "op").rows] == ["aten::addmm", "aten::linear", "no operator"]
    trace = nested()
    trace.event("range", "outer", 50, 500, **HOST)
    assert [row.name for row in trace.costs(tmp_path, "range").rows] == ["outer", "step 3", "no range"]


def test_the_tree(tmp_path: Path) -> None:
    summary = nested().summary(tmp_path, by=["op", "range", "kernel"], tree=True)
    tree = summary.answers["tree"]
    assert isinstance(tree, HostCosts) and "kernel" not in summary.groups
    assert [(row.path, row.level, row.own, row.total, row.calls) for row in tree.rows] == [
        (("step 3",), "range", 0, 120, 1),
        (("step 3", "aten::linear"), "op", 0, 112, 2),
        (("step 3", "aten::linear", "aten::addmm"), "op", 0, 64, 1),
        (("step 3", "aten::linear", "aten::addmm", "gemm"), "kernel", 64, 64, None),
        (("step 3", "aten::linear", "gemm"), "kernel", 48, 48, None),
        (("step 3", "gemm"), "kernel", 8, 8, None),
        (("no range or operator",), "", 0, 7, None),
        (("no range or operator", "gemm"), "kernel", 7, 7, None),
    ]
    (brief,) = tree.tables(4, brief=True)
    assert [row[0] for row in brief.rows] == ["step 3", "  aten::linear", "    aten::addmm", "      gemm"]
    assert brief.more == 4
    (full,) = tree.tables()
    assert full.rows[2][:4] == ("step 3 › aten::linear › aten::addmm", 2, "aten::addmm", "op")


def test_a_name_within_itself_counts_once(tmp_path: Path) -> None:
    trace = Trace()
    trace.event("op", "f", 100, 100, **HOST)
    trace.event("op", "g", 110, 80, **HOST)
    trace.event("op", "f", 120, 50, **HOST)
    trace.launch(130, 5)
    trace.launch(105, 3)
    costs = trace.costs(tmp_path, "op")
    assert figures(costs, *DEVICE, "host", "host_own") == {
        "f": (8, 8, 2, 2, 2, 100, 70),
        "g": (0, 5, 0, 1, 1, 80, 30),
    }


def test_a_span_that_outlasts_the_one_around_it(tmp_path: Path) -> None:
    trace = Trace()
    trace.event("range", "a", 100, 100, **HOST)
    trace.event("range", "mostly in a", 150, 60, **HOST)
    trace.launch(160, 1)
    trace.launch(205, 2)  # after the end of a, in what belongs to it
    trace.event("range", "b", 300, 100, **HOST)
    trace.event("range", "mostly outside", 390, 60, **HOST)
    trace.launch(395, 4)
    trace.launch(380, 8)
    found = figures(trace.costs(tmp_path, "range"), "own", "total")
    assert found == {"a": (0, 3), "mostly in a": (3, 3), "b": (8, 8), "mostly outside": (4, 4)}


def test_spans_without_an_end_or_a_thread(tmp_path: Path) -> None:
    trace = Trace()
    trace.event("op", "open", 100, None, **HOST)
    trace.launch(500, 3)
    trace.event("op", "of no thread", 50, 5000, pid=5)
    costs = trace.costs(tmp_path, "op")
    assert figures(costs, "own", "calls", "host") == {"open": (3, 1, 0), "of no thread": (0, 1, 5000)}


def test_two_threads_have_a_stack_each(tmp_path: Path) -> None:
    trace = Trace()
    trace.event("op", "a", 100, 100, **HOST)
    trace.event("op", "b", 100, 100, pid=5, tid=7)
    trace.event("op", "c", 100, 100, pid=8, tid=6)
    for number, (pid, tid) in enumerate([(5, 6), (5, 7), (8, 6)]):
        trace.launch(150, 1 << number, pid=pid, tid=tid)
        trace.rows[-1]["pid"] = pid
    assert figures(trace.costs(tmp_path, "op"), "own") == {"a": (1,), "b": (2,), "c": (4,)}


def backward() -> Trace:
    """A forward pass on one thread, a backward pass on another, and the ranges of the first thread."""
    trace = Trace()
    trace.event("range", "forward", 100, 100, **HOST)
    for module, begin in (("nn.Module: Linear_0", 110), ("nn.Module: Linear_1", 150), ("nn.Module: ReLU_0", 180)):
        trace.event("range", module, begin, 15, **HOST)
        trace.event("op", "aten::op", begin + 1, 10, **HOST)
        trace.launch(begin + 2, 1)
        trace.arrow((begin + 1, HOST), (begin + 201, AUTOGRAD))
    trace.event("range", "backward", 300, 100, **HOST)
    for begin in (310, 350, 380):
        trace.event("op", "autograd::engine::evaluate_function: OpBackward0", begin, 15, **AUTOGRAD)
        trace.event("op", "OpBackward0", begin + 1, 5, **AUTOGRAD)
        trace.launch(begin + 2, 10, **AUTOGRAD)
        trace.launch(begin + 10, 100, **AUTOGRAD)  # of the engine, after the operator
    trace.event("range", "nccl:all_reduce", 396, 3, **AUTOGRAD)
    trace.launch(397, 1000, **AUTOGRAD)
    return trace


def test_work_of_the_backward_pass(tmp_path: Path) -> None:
    """Counts for the module of the forward operator, the range on the forward thread, the operator that launched it."""
    assert figures(backward().costs(tmp_path, "module"), "own", "launched", "instances") == {
        "Linear": (222, 6, 2),
        "ReLU": (111, 3, 1),
        "no module": (1000, 1, None),
    }
    assert figures(backward().costs(tmp_path, "range"), "own", "total") == {
        "forward": (3, 3),
        "backward": (330, 1330),
        "nccl:all_reduce": (1000, 1000),
    }
    assert figures(backward().costs(tmp_path, "op"), "own") == {
        "autograd::engine::evaluate_function: OpBackward0": (300,),
        "OpBackward0": (30,),
        "aten::op": (3,),
        "no operator": (1000,),
    }
    tree = backward().summary(tmp_path, by=["module", "op"], tree=True).answers["tree"]
    assert isinstance(tree, HostCosts)
    engine = "autograd::engine::evaluate_function: OpBackward0"
    assert {row.path: row.total for row in tree.rows}["Linear", engine, "OpBackward0"] == 20


def test_arrows_that_are_attached_to_events(tmp_path: Path) -> None:
    """As in traces that Perfetto's flows come from."""
    expected = figures(backward().costs(tmp_path, "module"), "own", "launched")
    trace = backward()
    ids = {(row["ts"], row["tid"]): row["id"] for row in trace.rows if row.get("kind") == "op"}
    ends = [row for row in trace.rows if row["record"] == "link"]
    assert len(ends) == 6
    for row in ends:
        row["event"] = ids[row.pop("ts"), row.pop("tid")]
        del row["pid"], row["bind"]
    assert figures(trace.costs(tmp_path, "module"), "own", "launched") == expected


def test_operators_that_are_ranges(tmp_path: Path) -> None:
    """PyTorch's emit_nvtx; only if the source has no operators itself."""
    trace = Trace()
    for number, begin in enumerate((100, 200)):
        trace.event("range", f"forward, op_id = {number}", begin, 50, **HOST)
        trace.event("range", f"aten::mm, op_id = {number + 5}, seq = 1", begin + 10, 20, **HOST)
        trace.launch(begin + 15, 7)
    costs = trace.costs(tmp_path, "op")
    assert figures(costs, *DEVICE) == {"aten::mm": (14, 14, 2, 2, 2)}
    assert "emit_nvtx" in costs.notes[0] and "2 names with arguments" in costs.notes[1]
    assert figures(trace.costs(tmp_path, "range"), *DEVICE) == {
        "forward": (0, 14, 0, 2, 2),
        "aten::mm": (14, 14, 2, 2, 2),
    }
    trace.event("op", "an operator", 300, 5, **HOST)
    assert figures(trace.costs(tmp_path, "op"), "own") == {"an operator": (0,), "no operator": (14,)}


def test_no_such_spans(tmp_path: Path) -> None:
    trace = Trace()
    trace.launch(100, 5)
    trace.event("range", "torch/nn/modules/linear.py(125): forward", 90, 50, **HOST)
    summary = trace.summary(tmp_path, by=["op", "range", "module"])
    assert not summary.answers
    assert summary.notes[-1].startswith(
        "This input has no op or range or module information. Operators: torch.profiler"
    )
    assert not trace.summary(tmp_path, by=["op"], tree=True).answers
    with pytest.raises(UsageError, match="needs something that nests"):
        trace.summary(tmp_path, by=["kernel"], tree=True)


def test_without_device_work_the_time_is_that_of_the_host(tmp_path: Path) -> None:
    trace = Trace()
    trace.event("op", "a", 100, 100, **HOST)
    trace.event("op", "b", 110, 30, **HOST)
    costs = trace.costs(tmp_path, "op")
    assert costs.device is None
    (table,) = costs.tables()
    assert [column.key for column in table.columns] == [
        "op",
        "host_own_ns",
        "own_share_percent",
        "host_time_ns",
        "calls",
    ]
    assert table.rows == [("a", 70, 70.0, 100, 1), ("b", 30, 30.0, 30, 1)]


def test_a_filter_keeps_the_spans(tmp_path: Path) -> None:
    from ktrace.stages.select.wanted import Filter

    summary = nested().summary(tmp_path, by=["op"], filter=Filter(kinds=("kernel",), min_dur=10))
    costs = summary.answers["op"]
    assert isinstance(costs, HostCosts)
    assert figures(costs, "own", "total") == {"aten::linear": (48, 112), "aten::addmm": (64, 64)}


def plain(rows: list[Row], kind: str) -> dict[str, list[int]]:
    """Name -> own, total, launched own, launched: each kernel is looked for in all spans."""
    calls = {row["correlation"]: row for row in rows if row["kind"] == "api"}
    found: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for row in rows:
        if row["kind"] != "kernel":
            continue
        call = calls[row["correlation"]]
        around = [
            one
            for one in rows
            if (one["kind"], one.get("tid")) == (kind, call["tid"]) and one["ts"] <= call["ts"] < one["ts"] + one["dur"]
        ]
        names = {one["name"] for one in around} or {"no operator"}
        innermost = (
            max(around, key=lambda one: (one["ts"], -one["dur"], one["id"]))["name"] if around else "no operator"
        )
        found[innermost][0] += row["dur"]
        found[innermost][2] += 1
        for name in names:
            found[name][1] += row["dur"]
            found[name][3] += 1
    return dict(found)


def random_trace(chance: random.Random) -> Trace:
    trace = Trace()

    def fill(begin: int, end: int, depth: int, tid: int) -> None:
        at = begin
        while at < end - 3:
            at += chance.randint(0, 30)
            last = min(at + chance.randint(1, 200), end)
            if last <= at:
                break
            if chance.random() < 0.3:
                trace.launch(at, chance.randint(1, 99), pid=5, tid=tid)
                at += 2
            else:
                trace.event("op", chance.choice("abcde"), at, last - at, pid=5, tid=tid)
                if depth < 6:
                    fill(at + 1, last, depth + 1, tid)  # no two spans with the same begin and end
                at = last

    for tid in (1, 2, 3):
        fill(0, 3000, 0, tid)
    chance.shuffle(trace.rows)
    return trace


@pytest.mark.parametrize("seed", range(6))
def test_a_plain_search_finds_the_same(seed: int, tmp_path: Path) -> None:
    trace = random_trace(random.Random(seed))
    costs = trace.costs(tmp_path, "op")
    expected = plain(trace.rows, "op")
    assert len(expected) == 6 and max(own for own, *_ in expected.values()) > 0
    mine = figures(costs, "own", "total", "launched_own", "launched")
    assert {name: list(row) for name, row in mine.items() if any(row)} == expected
    assert (
        sum(row.own for row in costs.rows) == costs.device == sum(r["dur"] for r in trace.rows if r["kind"] == "kernel")
    )
    calls = {name: sum(r["kind"] == "op" and r["name"] == name for r in trace.rows) for name in "abcde"}
    assert {row.name: row.calls for row in costs.rows if row.level} == calls
    tree = trace.summary(tmp_path, by=["op"], tree=True).answers["tree"]
    assert isinstance(tree, HostCosts)
    assert sum(row.own for row in tree.rows) == costs.device
    totals = {row.path: row.total for row in tree.rows}
    for row in tree.rows:
        inside = sum(total for path, total in totals.items() if path[:-1] == row.path)
        assert row.total == row.own + inside


def test_several_sources_are_one_answer() -> None:
    names = ("one-step-of-training.pt.trace.json", "base-after-the-events-graph-of-three-kernels.pt.trace.json")
    each = [ktrace.summary(SAMPLES / "kineto" / name, by=["op", "range"]) for name in names]
    both = ktrace.summary([SAMPLES / "kineto" / name for name in names], by=["op", "range"])
    for by in ("op", "range"):
        sums: defaultdict[str, int] = defaultdict(int)
        for one in each:
            answer = one.answers[by]
            assert isinstance(answer, HostCosts)
            for row in answer.rows:
                sums[row.name] += row.total
        answer = both.answers[by]
        assert isinstance(answer, HostCosts)
        assert {row.name: row.total for row in answer.rows} == dict(sums)
        assert sum(row.own for row in answer.rows) == both.total


SHAPES = SAMPLES / "kineto" / "shapes-of-products-attention-copies.json"


@pytest.mark.parametrize("out", ["", "run.parquet", "run.jsonl"])
def test_operators_by_shape_are_those_of_the_json(tmp_path: Path, out: str) -> None:
    """Calls by name and shapes from the JSON itself; the times of the shapes of an operator add up to its own."""
    path = tmp_path / out if out else SHAPES
    if out:
        ktrace.convert(SHAPES, path)
    answers = ktrace.summary(path, by=["shape", "op"]).answers
    shapes, operators = answers["shape"], answers["op"]
    assert isinstance(shapes, HostCosts) and isinstance(operators, HostCosts)
    calls: defaultdict[str, int] = defaultdict(int)
    for one in json.loads(SHAPES.read_text())["traceEvents"]:
        if one.get("cat") == "cpu_op":
            sizes = ", ".join("x".join(map(str, dims)) for dims in one["args"].get("Input Dims", []) if dims)
            calls[f"{one['name']} [{sizes}]" if sizes else one["name"]] += 1
    assert {row.name: row.calls for row in shapes.rows if row.level} == dict(calls)
    for row in operators.rows:
        mine = [one for one in shapes.rows if one.name.partition(" [")[0] == row.name]
        assert (sum(one.own for one in mine), sum(one.launched_own for one in mine)) == (row.own, row.launched_own)
    assert not any("names with arguments" in note for note in (*shapes.notes, *operators.notes))
    (table,) = shapes.tables()
    assert [column.name for column in table.columns[:2]] == ["operator", "shapes"]


def test_shapes_of_emit_nvtx_are_told_apart(tmp_path: Path) -> None:
    trace = Trace()
    for number, size in enumerate((8, 8, 16)):
        begin = 100 * number
        text = f"aten::mm, seq = {number}, op_id = {number}, sizes = [[{size}, 4], [4, 2]], input_op_ids = []"
        trace.event("range", text, begin, 50, **HOST)
        trace.launch(begin + 10, 7)
    assert figures(trace.costs(tmp_path, "shape"), "own", "calls") == {
        "aten::mm [8x4, 4x2]": (14, 2),
        "aten::mm [16x4, 4x2]": (7, 1),
    }
