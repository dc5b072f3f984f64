"""The first three lines of `ktrace summary` in worlds with a late rank, with a slow loader, and with neither."""

from __future__ import annotations

from pathlib import Path

import pytest

import ktrace
from worlds import build, plants, waited_for, write
from worlds.comparisons import slow_loader
from worlds.test_diff import MISSED, SEEDS, WRONG
from worlds.world import World


def look(world: World, tmp_path: Path) -> str:
    """The third line, about all ranks."""
    paths = [write(world, tmp_path / f"rank{rank}.json", rank) for rank in range(world.shape.ranks)]
    asked = ["kernel"]  # what proves it isn't asked for
    return ktrace.summary(paths, by=asked).verdict[-1]


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_late_rank_is_named(tmp_path: Path, ranks: int) -> None:
    missed, wrong = [], []
    for seed in SEEDS:
        late = seed % ranks
        world = build(seed, ranks=ranks, layers=4, scale=0.4, plants=[plants.late_rank(late, 1.5)])
        said, waits = look(world, tmp_path), waited_for(world)
        assert max(waits, key=waits.__getitem__) == late
        if f"rank {late}, which the others wait for" not in said:
            missed.append((seed, late, said))
        if any(f"rank {rank}, which" in said for rank in range(ranks) if rank != late):
            wrong.append((seed, late, said))
    assert len(missed) <= MISSED, missed
    assert len(wrong) <= WRONG, wrong


def test_no_rank_is_accused_of_noise(tmp_path: Path) -> None:
    wrong = []
    for seed in SEEDS:
        said = look(build(seed, ranks=4, layers=4, scale=0.4), tmp_path)
        if "which the others wait for" in said:
            wrong.append((seed, said))
    assert len(wrong) <= WRONG, wrong


def test_a_slow_loader_is_looked_at_first(tmp_path: Path) -> None:
    found = {seed: slow_loader(seed, tmp_path) for seed in SEEDS}
    missed = {seed: one.said for seed, one in found.items() if not one.first}
    assert len(missed) <= MISSED, missed
