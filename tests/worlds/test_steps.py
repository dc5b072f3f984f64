"""What belongs to a step, in worlds whose launches are known: by step, by --step, and the time of devices at a step."""

from __future__ import annotations

from pathlib import Path

import pytest

import ktrace
from worlds import Truth, build, plants, write
from worlds.test_diff import WORLDS


@pytest.mark.parametrize("seed", range(WORLDS))
def test_work_of_steps_is_what_was_launched_in_them(tmp_path: Path, seed: int) -> None:
    """Hosts run ahead in some worlds, and copies ahead of the work of the step before."""
    world = build(seed, layers=4, syncs=seed % 2 == 0, plants=[plants.lost_overlap()] if seed % 3 == 0 else ())
    path, truth = write(world, tmp_path / "a.json"), Truth(world)
    whole = ktrace.summary(path, by=["step"])
    groups = {group.key: (group.total, group.count) for group in whole.groups["step"]}
    uses = {use.label: use for use in whole.step_use}
    for step in truth.steps():
        assert groups[step.name] == (step.work, step.count)
        alone = ktrace.summary(path, by=["kernel"], crop=ktrace.Crop(step=step.name))
        assert (alone.total, alone.count) == (step.work, step.count)
        use = uses[step.name]
        assert use.wall == step.end - step.begin
        assert use.compute + use.exposed_communication + use.exposed_copies + use.idle == use.span
        assert 0 <= use.idle <= use.span and use.busy <= use.span
    device = truth.use()
    copies = sum(one.dur for one in truth.work if one.kind == "copy")
    spans = sum(use.span for use in whole.step_use)
    first = min(step.begin for step in truth.steps())
    last = max(max(step.end, step.device_end or 0) for step in truth.steps())
    assert spans <= last - first + copies  # no time is in two steps, but that of copies beside other work
    assert sum(use.busy for use in whole.step_use) <= device.busy + copies
