"""The passes of training: constructed steps with the names that PyTorch writes, and sums of real traces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import SAMPLES, SHARED
from helpers.real_traces import at_hand

import ktrace
from ktrace.analysis.questions.hosts.passes import PassesAnswer

MAIN, AUTOGRAD = 1, 2


class Step:
    """A trace whose spans nest by the order in which they are opened, with a kernel for each launch."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.at, self.launched = 1_000, 0

    def span(self, name: str, *inside: Any, cat: str = "cpu_op", tid: int = MAIN, arrow: str = "") -> Any:
        """A function that writes a span with what is in it, or a launch where the inside is a duration in us."""

        def write(outer: int) -> None:
            thread = outer or tid
            row = {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": thread, "ts": self.at}
            self.events.append(row)
            if arrow:
                key, _, phase = arrow.partition(" ")
                ends = {"bp": "e"} if phase == "f" else {}
                self.events.append(
                    {"ph": phase, "id": int(key), "cat": "fwdbwd", "name": "fwdbwd", "pid": 1, "tid": thread}
                    | {"ts": self.at, **ends}
                )
            self.at += 1
            for one in inside:
                if callable(one):
                    one(thread)
                else:
                    self._launch(one, thread)
            row["dur"] = self.at - row["ts"]
            self.at += 1

        return write

    def _launch(self, dur: int, tid: int) -> None:
        self.launched += 1
        call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": tid}
        args = {"correlation": self.launched}
        self.events.append(call | {"ts": self.at, "dur": 1, "args": args})
        kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "dur": dur}
        args |= {"device": 0, "stream": 7}
        self.events.append(kernel | {"ts": 10_000 + 1_000 * self.launched, "args": args})
        self.at += 2

    def passes(self, tmp_path: Path, *spans: Any) -> dict[str, tuple[int, int]]:
        for one in spans:
            one(0)
        path = tmp_path / "run.pt.trace.json"
        path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": self.events}))
        found = ktrace.summary(path, by=["pass"]).answers.get("pass")
        assert found is None or isinstance(found, PassesAnswer)
        return {one.name: (one.time, one.launched) for one in found.passes} if found else {}


def node(step: Step, name: str, *inside: Any, arrow: str = "") -> Any:
    return step.span(
        f"autograd::engine::evaluate_function: {name}", step.span(name, *inside, arrow=arrow), tid=AUTOGRAD
    )


def test_modules_nodes_and_the_optimizer_are_passes(tmp_path: Path) -> None:
    step = Step()
    found = step.passes(
        tmp_path,
        step.span("aten::to", 1),
        step.span("nn.Module: Net_0", step.span("aten::linear", 10, 20), cat="python_function"),
        node(step, "AddmmBackward0", step.span("aten::mm", 100)),
        node(step, "torch::autograd::AccumulateGrad", step.span("aten::add_", 200)),
        step.span("Optimizer.step#AdamW.step", step.span("aten::_fused_adamw_", 1_000), cat="user_annotation"),
    )
    assert found == {
        "forward": (30_000, 2),
        "backward": (300_000, 2),
        "optimizer": (1_000_000, 1),
        "other": (1_000, 1),
    }


def test_without_modules_arrows_tell_the_forward_pass(tmp_path: Path) -> None:
    step = Step()
    found = step.passes(
        tmp_path,
        step.span("aten::linear", step.span("aten::addmm", 10), arrow="1 s"),
        step.span("aten::argmax", 1),
        node(step, "AddmmBackward0", 100, arrow="1 f"),
    )
    assert found == {"forward": (10_000, 1), "backward": (100_000, 1), "other": (1_000, 1)}


@pytest.mark.parametrize("frame", ["torch/utils/checkpoint.py(1115): unpack_hook", "nn.Module: Block_0"])
def test_a_forward_pass_within_a_node_is_recomputation(tmp_path: Path, frame: str) -> None:
    """Checkpoints that aren't reentrant: a hook of the first saved tensor runs the forward pass again."""
    step = Step()
    found = step.passes(
        tmp_path,
        step.span("nn.Module: Block_0", step.span("aten::linear", 10), cat="python_function"),
        node(
            step,
            "AddmmBackward0",
            step.span(frame, step.span("aten::linear", 11, arrow="2 s"), cat="python_function"),
            step.span("aten::mm", 100),
        ),
    )
    assert found == {"forward": (10_000, 1), "backward": (100_000, 1), "recompute": (11_000, 1)}


def test_a_reentrant_checkpoint_recomputes_before_its_own_backward_pass(tmp_path: Path) -> None:
    step = Step()
    inner = step.span("autograd::engine::evaluate_function: AddmmBackward0", step.span("AddmmBackward0", 100))
    found = step.passes(
        tmp_path,
        step.span("CheckpointFunction", step.span("aten::linear", 10), arrow="1 s"),
        node(step, "CheckpointFunctionBackward", step.span("aten::linear", 11), inner, arrow="1 f"),
    )
    assert found == {"forward": (10_000, 1), "backward": (100_000, 1), "recompute": (11_000, 1)}


def test_inference_has_no_passes(tmp_path: Path) -> None:
    step = Step()
    module = step.span("nn.Module: Net_0", step.span("aten::linear", 10), cat="python_function")
    assert not step.passes(tmp_path, module)


@pytest.mark.parametrize(
    "path",
    [
        SAMPLES / "kineto" / "one-step-of-training.pt.trace.json",
        *(
            SHARED / "corpus" / "pytorch_kineto" / name
            for name in ("rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz", "worker0.1623143089861.pt.trace.json.gz")
        ),
    ],
    ids=lambda path: path.name,
)
def test_passes_add_up_to_all_device_work(path: Path) -> None:
    summary = ktrace.summary(at_hand(path), by=["pass", "kernel"])
    found = summary.answers["pass"]
    assert isinstance(found, PassesAnswer)
    assert sum(one.time for one in found.passes) == summary.total
    assert "backward" in {one.name for one in found.passes}
    assert sum(one.launched for one in found.passes) == sum(group.count for group in summary.groups["kernel"])
