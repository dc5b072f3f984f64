"""The frame that stands for a stack."""

from __future__ import annotations

import pytest

from ktrace.naming.frames import owner_of

PYTHON = "_PyEval_EvalFrameDefault (??:0)"
UNWIND = "torch::unwind::unwind() (??:0)"
ALLOCATE = "c10::cuda::CUDACachingAllocator::allocate(unsigned long)"
CEVAL = "_PyEval_EvalFrameDefault (/usr/src/python/Python/ceval.c:5320)"
PLAIN = "train (/app/train.py:7)"
MODEL = "forward (/app/model.py:41)"
LINEAR = "linear (/env/lib/python3.11/site-packages/torch/nn/functional.py:12)"
KERNEL = "void ns::launch<float>(float*, int) (/app/csrc/launch.cu:33)"
ALLOCATOR = "c10::alloc(unsigned long) (/pytorch/c10/cuda/CUDACachingAllocator.cpp:2)"


@pytest.mark.parametrize(
    ("frames", "owner"),
    [
        ([PLAIN, MODEL, PYTHON, ALLOCATE, UNWIND], MODEL),
        ([PLAIN, MODEL, CEVAL, LINEAR, ALLOCATOR, UNWIND], MODEL),
        ([PLAIN, MODEL, KERNEL, ALLOCATOR, UNWIND], KERNEL),
        ([PLAIN, MODEL, "_PyEval_EvalFrameDefault (/usr/src/ceval.c:1)", ALLOCATOR], MODEL),
        ([PLAIN, "PyTorchModel (/app/PyModel.py:41)", ALLOCATOR], "PyTorchModel (/app/PyModel.py:41)"),
        ([PYTHON, LINEAR, ALLOCATOR, UNWIND], LINEAR),
        ([PYTHON, ALLOCATOR, UNWIND], ALLOCATOR),
        ([PYTHON, "my_malloc", ALLOCATE, UNWIND], "my_malloc"),
        ([PYTHON, ALLOCATE, UNWIND], ""),
        (["<module> (<string>:1)", UNWIND], ""),
        (["train.py:10", "make"], "train.py:10"),
        (["main", "make"], "make"),
        (["main (main.go)", "gc (runtime/mgc.go:20)"], "gc (runtime/mgc.go:20)"),
        ([], ""),
    ],
)
def test_the_innermost_frame_of_the_program_stands_for_a_stack(frames: list[str], owner: str) -> None:
    assert owner_of(frames) == owner
