"""What belongs to a step, in worlds whose launches are known: by step, by --step, and the time of devices at a step."""

from __future__ import annotations

from pathlib import Path

import pytest

import ktrace
from worlds import Truth, build, plants, write
from worlds.comparisons import steps
from worlds.test_diff import SEEDS


@pytest.mark.parametrize("seed", SEEDS)
def test_work_of_steps_is_what_was_launched_in_them(tmp_path: Path, seed: int) -> None:
    """Hosts run ahead in some worlds, copies ahead of the work of the step before, and some begin in the middle."""
    assert steps(seed, tmp_path).is_exact


def test_a_copy_that_nobody_waits_for_is_in_no_time_of_a_step(tmp_path: Path) -> None:
    """Beside the step before, it costs nothing; on the stream of the kernels, it makes each step longer."""
    shape = {"syncs": False, "scale": 1.0, "layers": 4}
    beside, between = build(1, **shape), build(1, plants=[plants.lost_overlap()], **shape)
    found = [ktrace.summary(write(world, tmp_path / "a.json"), by=["step"]).step_use for world in (beside, between)]
    for world, uses in zip((beside, between), found, strict=True):
        waited = Truth(world).use().exposed_copies
        assert 0.9 * waited < sum(use.exposed_copies for use in uses) <= waited
        assert sum(use.copies for use in uses) == Truth(world).use().copies
    copies = Truth(between).use().copies
    longer = sum(use.span for use in found[1]) - sum(use.span for use in found[0])
    assert 0.6 * copies < longer <= copies


def test_a_first_step_begins_with_its_own_work_where_recording_began_in_the_middle(tmp_path: Path) -> None:
    """Until then the device is at work that isn't in the trace, or in no step."""
    world = build(1, layers=4, since=0.4)
    first, *_ = ktrace.summary(write(world, tmp_path / "a.json"), by=["step"]).step_use
    step = Truth(world).steps()[0]
    mine = [
        one for one in Truth(world).work if one.kind == "kernel" and step.begin <= Truth(world)._called(one) < step.end
    ]
    assert step.device_end is not None
    assert 0 <= first.span - (step.device_end - mine[0].begin) < 2_000
