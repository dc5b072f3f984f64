"""The worlds themselves: what they promise to those who ask ktrace about them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

import ktrace
from worlds import Truth, build, collectives, plants, waited_for, write


@pytest.mark.parametrize("seed", range(8))
def test_a_world_is_the_same_each_time_and_its_use_is_what_ktrace_counts(seed: int, tmp_path: Path) -> None:
    world, truth = build(seed), Truth(build(seed))
    assert world.records() == truth.records
    used = truth.use()
    assert used.compute + used.exposed_communication + used.exposed_copies + used.idle == used.span
    assert sum(gap.time for gap in truth.gaps()) == used.idle
    (device,) = ktrace.summary(write(world, tmp_path / "a.json")).devices
    assert (device.span, device.busy, device.idle) == (used.span, used.busy, used.idle)
    assert (device.compute, device.exposed_copies) == (used.compute, used.exposed_copies)


@pytest.mark.parametrize("seed", range(8))
def test_the_path_is_without_holes_and_shortening_what_is_not_on_it_saves_nothing(seed: int) -> None:
    world = build(seed)
    path = Truth(world).path()
    assert path[0][0] == 0 and path[-1][1] == world.span
    assert all(one[1] == other[0] for one, other in pairwise(path))
    gemm = sum(end - begin for begin, end, _, name in path if "gemm" in name)
    saved = world.span - world.again({"gemm": 0.9}).span
    assert 0 <= saved <= gemm / 10 + 100
    assert world.again({"gemm": 1.0}).span == world.span
    assert world.again({"gemm": 1.1}).span - world.span >= gemm // 10 - 100


def test_each_plant_does_what_it_says() -> None:
    seed = {"steps": 3, "scale": 0.4, "uses_graph": False}
    world = build(1, **seed)
    slow = Truth(build(1, plants=[plants.slow_kernel("gemm", 1.1)], **seed)).times_by_name()
    assert {name for name, times in Truth(world).times_by_name().items() if sum(slow[name]) > 1.05 * sum(times)} == {
        name for name in slow if "s16816gemm" in name
    }
    waiting = Truth(build(1, plants=[plants.synchronisation()], **seed)).gaps()
    assert sum(gap.time for gap in waiting if gap.cause == "host synchronised") > world.span / 50
    loading = Truth(build(1, plants=[plants.slow_loader(10_000_000)], **seed)).gaps()
    assert "DataLoader" in max(loading, key=lambda gap: gap.time).host_in
    assert Truth(build(1, plants=[plants.lost_overlap()], **seed)).use().exposed_copies >= 3 * (1 << 22) / 20
    assert len(Truth(build(1, plants=[plants.extra_copy()], **seed)).work) == len(Truth(world).work) + 3
    begun = Truth(build(1, since=0.5, **seed))
    assert 0 < len(begun.work) < len(Truth(world).work) and len(begun.steps()) < 3
    assert 0 < len(build(1, drop=0.02, **seed).dropped) < 100
    late = build(1, ranks=4, plants=[plants.late_rank(2, 1.3)], **seed)
    assert max(waited_for(late), key=waited_for(late).__getitem__) == 2
    assert len(collectives(late)) == 3 * late.shape.layers
