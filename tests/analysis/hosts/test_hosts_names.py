"""What names of spans mean: groups without arguments, modules, operators, frames."""

from __future__ import annotations

import time

import pytest

from ktrace.analysis.questions.hosts import HostNames
from ktrace.analysis.work.spans import grouped


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("aten::mm, op_id = 314286, seq = 12", "aten::mm"),
        ("aten::mm, op_id = 7", "aten::mm"),
        ("AddmmBackward0, seq = 12, sizes = [[2, 3], []], input_op_ids = [(1,0), (,)]", "AddmmBackward0"),
        ("aten::add, sizes = [[2, 3]]", "aten::add"),
        ("FSDP::pre_forward (encoder.block.14.layer.1), op_id = 9", "FSDP::pre_forward (encoder.block.14.layer.1)"),
        ("request, id=3, user=x", "request"),
        ("{'Module': 'model.layers.3.mlp', 'Inputs': [[1, 2]]}", "model.layers.3.mlp"),
        ("ProfilerStep#3", "ProfilerStep#3"),
        ("iteration 7", "iteration 7"),
        ("layer_12", "layer_12"),
        ("gemm(a, b = 3)", "gemm(a, b = 3)"),
        ("load, then store", "load, then store"),
        (", key = 3", ", key = 3"),
        ("a == b", "a == b"),
        ("", ""),
    ],
)
def test_arguments_at_the_end_are_left_out(name: str, group: str) -> None:
    assert grouped(name)[0] == group


def test_kinds_of_names() -> None:
    meanings = {
        "aten::mm, op_id = 1": ("aten::mm", "operator"),
        "aten::mm": ("aten::mm", "operator"),
        "MmBackward0, seq = 3, op_id = 5": ("MmBackward0", "operator"),
        "autograd::engine::evaluate_function: MmBackward0, op_id = 4": (
            "autograd::engine::evaluate_function: MmBackward0",
            "operator engine",
        ),
        "my::library::call": ("my::library::call", ""),  # C++ of the user: no arguments of PyTorch
        "FSDP::pre_forward (a.b), op_id = 9": ("FSDP::pre_forward (a.b)", ""),
        "forward, op_id = 9": ("forward", ""),
        "## backward ##": ("## backward ##", ""),
        "Optimizer.step#SGD.step": ("Optimizer.step#SGD.step", ""),
        "PyTorch Profiler (0)": ("PyTorch Profiler (0)", "frame"),
        "nn.Module: LlamaMLP_12": ("LlamaMLP", "module frame"),
        "model.layers.9.self_attn": ("model.layers.*.self_attn", "module"),
        "model.layers.10.self_attn": ("model.layers.*.self_attn", "module"),
        "model.norm": ("model.norm", "module"),
        "lm.head": ("lm.head", ""),
        "{'Module': 'h.0'}": ("h.*", "module"),
        "torch/nn/modules/linear.py(125): forward": ("torch/nn/modules/linear.py(125): forward", "frame"),
        "<built-in method get of dict object at 0x7f19513c4440>": (
            "<built-in method get of dict object at 0x7f19513c4440>",
            "frame",
        ),
        "<string>(1): <module>": ("<string>(1): <module>", "frame"),
        "$contextlib.py:132 __enter__": ("$contextlib.py:132 __enter__", "frame"),
    }
    found = HostNames.for_questions(list(meanings))
    columns = {name: getattr(found, name) for name in ("operator", "engine", "module", "frame")}
    told = {
        name: (found.words[found.group[place]], " ".join(what for what, mask in columns.items() if mask[place]))
        for place, name in enumerate(meanings)
    }
    assert told == {name: (word, what) for name, (word, what) in meanings.items()}
    assert [name for name, has in zip(meanings, found.arguments.tolist(), strict=True) if has] == [
        name for name in meanings if "op_id" in name or name.startswith("{")
    ]


@pytest.mark.parametrize("name", ["(" * 200_000, ", a" * 100_000, "a.b" * 100_000, "a::" * 100_000, "x(1)" * 100_000])
def test_long_names_take_linear_time(name: str) -> None:
    begun = time.process_time()
    HostNames.for_questions([name, f"{name}, op_id = 3"])
    assert time.process_time() - begun < 1
