"""What the critical path says of time that can be saved, against the same schedule run again with faster kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

import ktrace
from worlds import build, write
from worlds.programs import KERNELS

#: What the names of kernels have in them, long or short.
PARTS = {"gemm": "s16816gemm", "attention": "flash_fwd", "gelu": "vectorized_elementwise", "adam": "multi_tensor_apply"}


@pytest.mark.parametrize("seed", range(16))
def test_work_saves_at_most_its_time_on_the_path_and_a_tenth_a_tenth_of_it(seed: int, tmp_path: Path) -> None:
    assert all(part in KERNELS[what] for what, part in PARTS.items())
    world = build(seed)
    answer = ktrace.summary(write(world, tmp_path / "a.json"), by=["critical-path"]).answers["critical-path"]
    for what, part in PARTS.items():
        time = sum(one.time for one in answer.names if part in one.key and one.kind == "kernel")
        assert time <= sum(one.total for one in answer.names if part in one.key and one.kind == "kernel")
        tenth = world.span - world.again({what: 0.9}).span
        assert world.span - world.again({what: 0.0}).span <= time + world.span / 100
        assert abs(tenth - time / 10) <= world.span / 100
